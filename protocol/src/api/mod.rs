//! The structs of the messages, by noun.
//!
//! Every struct uses plain derives only, so that its postcard form is its fields in order; an optional field is an
//! `Option`. A released struct is frozen: a new field is a new method number behind a feature bit. The same structs are
//! the parameters and results of JSON-RPC on a local socket.

pub mod layout;
pub mod notification;
pub mod remote;
pub mod server;
pub mod session;
pub mod terminal;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::id::{Generation, PaneId, ScreenId, TabId, TerminalId, WorkspaceId};

/// Parameters that name no target but say how a change is to be done: each mutation has them first.
pub trait Keyed {
    /// Takes the idempotency key and the cursor that must be the current one, so that what remains is the change itself.
    fn take_terms(&mut self) -> (Option<String>, Option<Cursor>);
}

/// Declares the parameters of mutations: a key and an expected cursor before each one's own fields.
macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            /// Idempotency key.
            pub key: Option<String>,
            /// The cursor that must be the current one.
            pub expect: Option<Cursor>,
            $($(#[$field_doc])* pub $field: $type,)*
        }
        impl $crate::api::Keyed for $name {
            fn take_terms(&mut self) -> (Option<String>, Option<Cursor>) {
                (self.key.take(), self.expect.take())
            }
        }
    )*};
}
pub(crate) use mutations;

/// A place in the history of a session graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    /// The daemon's start.
    pub generation: Generation,
    /// Transactions committed since then.
    pub revision: u64,
}

/// A terminal's size. Zero pixels mean that the pixel size is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Width in pixels, or 0. JSON may leave it out.
    #[serde(default)]
    pub x_pixels: u16,
    /// Height in pixels, or 0. JSON may leave it out.
    #[serde(default)]
    pub y_pixels: u16,
}

impl Size {
    /// A size in cells whose pixel size is not known.
    #[must_use]
    pub const fn cells(cols: u16, rows: u16) -> Self {
        Size { cols, rows, x_pixels: 0, y_pixels: 0 }
    }
}

/// What a mutation answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt<T> {
    /// What was made or changed.
    pub value: T,
    /// The generation in which the mutation was committed.
    pub generation: Generation,
    /// The revision at which it was committed.
    pub revision: u64,
    /// Whether this is the first result of an idempotency key, given again.
    pub replayed: bool,
}

/// Where something stands in a session, from the workspace down: what a change made, changed or took away. What is absent
/// plays no part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// The workspace.
    pub workspace: Option<WorkspaceId>,
    /// The screen.
    pub screen: Option<ScreenId>,
    /// The pane.
    pub pane: Option<PaneId>,
    /// The tab.
    pub tab: Option<TabId>,
    /// The terminal.
    pub terminal: Option<TerminalId>,
}

/// A message without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// JSON text that is carried as it is: a string on the link, a value inside JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(String);

impl Default for Json {
    fn default() -> Self {
        Json("null".to_owned())
    }
}

impl Json {
    /// The JSON text of `value`.
    ///
    /// # Errors
    /// When `value` has no JSON form (a map with keys that are not strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(Json)
    }

    /// Text that is known to be JSON, because this process wrote it.
    #[must_use]
    pub fn from_trusted(text: String) -> Self {
        Json(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as a value of type `T`.
    ///
    /// # Errors
    /// When the text is not JSON or not a `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let raw: &serde_json::value::RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            raw.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
            Ok(Json(String::from(Box::<str>::from(raw))))
        } else {
            let text = String::deserialize(deserializer)?;
            // What comes over the link is a peer's word; it is JSON or it is refused here, once.
            serde_json::from_str::<&serde_json::value::RawValue>(&text).map_err(de::Error::custom)?;
            Ok(Json(text))
        }
    }
}

/// Bytes: as they are on the link, base64 in JSON.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Blob(pub Bytes);

impl std::fmt::Debug for Blob {
    // The content may be what a person typed; it is never shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&data_encoding::BASE64.encode(&self.0))
        } else {
            serde_bytes::serialize(&self.0[..], serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            data_encoding::BASE64.decode(text.as_bytes()).map(|b| Blob(b.into())).map_err(de::Error::custom)
        } else {
            serde_bytes::ByteBuf::deserialize(deserializer).map(|b| Blob(b.into_vec().into()))
        }
    }
}
