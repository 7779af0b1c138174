//! Identifiers.
//!
//! An id is 128 random bits, never reused. On the link it is 16 bytes; in JSON, in files and on the command line it is
//! a prefix that names its kind and 32 hex digits, so that an id of one kind is never taken for another.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Text that is not an id of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {article} id: an id is '{prefix}' and 32 hex digits")]
pub struct InvalidId {
    text: String,
    article: &'static str,
    prefix: &'static str,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal, $article:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// What the text form of this kind of id starts with.
            pub const PREFIX: &'static str = $prefix;

            /// The id with these bits; the caller draws them at random.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bits of this id.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix).and_then(hex16).map(Self).ok_or_else(|| InvalidId {
                    text: text.chars().take(80).collect(),
                    article: $article,
                    prefix: $prefix,
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    )*};
}

ids! {
    /// A workspace.
    WorkspaceId, "ws_", "a workspace";
    /// A screen.
    ScreenId, "scr_", "a screen";
    /// A pane.
    PaneId, "pane_", "a pane";
    /// A tab.
    TabId, "tab_", "a tab";
    /// A terminal.
    TerminalId, "term_", "a terminal";
    /// A notification.
    NotificationId, "note_", "a notification";
    /// An enrolled (or pending) device: the first 128 bits of the SHA-256 of its identity key.
    DeviceId, "dev_", "a device";
    /// An invitation.
    InvitationId, "inv_", "an invitation";
    /// A link, chosen by the client that opens it.
    LinkId, "link_", "a link";
    /// One attaching program's conversation with one terminal, chosen by that program.
    AttachmentId, "att_", "an attachment";
    /// A start of the daemon. Revisions are never compared across generations.
    Generation, "", "a generation";
}

fn hex16(text: &str) -> Option<[u8; 16]> {
    // Upper-case digits are refused so that an id has exactly one text form.
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_text_form_and_one_kind() {
        let id = TerminalId::from_bytes([0xab; 16]);
        let text = id.to_string();
        assert_eq!(text, format!("term_{}", "ab".repeat(16)));
        assert_eq!(text.parse(), Ok(id));
        assert!(text.parse::<WorkspaceId>().is_err());
        assert!(text.to_uppercase().parse::<TerminalId>().is_err());
        assert!("term_ab".parse::<TerminalId>().is_err());
    }

    #[test]
    fn an_id_is_text_in_json_and_sixteen_bytes_on_the_link() {
        let id = WorkspaceId::from_bytes([7; 16]);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"ws_{}\"", "07".repeat(16)));
        assert_eq!(postcard::to_stdvec(&id).unwrap(), vec![7; 16]);
        assert_eq!(postcard::from_bytes::<WorkspaceId>(&[7; 16]).unwrap(), id);
    }
}
