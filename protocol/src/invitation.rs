//! Invitations: single-use files that enrol a device.
//!
//! The file holds a 256-bit secret. The daemon keeps only [`Secret::key`], which goes into the handshake's psk, and
//! [`Secret::proof`], against which handshake message 3 is checked: its state file alone enrols nobody.

use data_encoding::HEXLOWER;
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::id::InvitationId;
use crate::identity::IdentityKey;

/// An invitation's 256-bit secret.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The secret with these bytes; the caller draws them at random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// The secret's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// K, which the daemon keeps and both sides put into the psk.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        Hkdf::<Sha256>::new(None, &self.0)
            .expand(b"keepline invitation key v1", &mut key)
            .expect("32 bytes are within HKDF-SHA256's output limit");
        key
    }

    /// H, against which the daemon checks the secret that a device shows.
    #[must_use]
    pub fn proof(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The content of an invitation file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Its id.
    pub id: InvitationId,
    /// Whose invitation it is: the only daemon that it may be shown to.
    pub daemon: IdentityKey,
    /// What proves that the bearer holds the file.
    pub secret: Secret,
    /// Unix time in milliseconds after which the daemon refuses it.
    pub expires_ms: u64,
    /// Where the daemon may be reached, without any query.
    pub routes: Vec<String>,
}

/// Text that is no invitation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInvitation {
    /// It is something else.
    #[error("this is not a keepline invitation file")]
    NotAnInvitation,
    /// It is of a later version.
    #[error("this invitation file is of version {0}; upgrade keepline to read it")]
    Version(u32),
    /// Something in it was changed or lost.
    #[error("this invitation file is damaged; ask the daemon's owner for a new one")]
    Damaged,
}

#[derive(Serialize, Deserialize)]
struct File {
    keepline_invitation: u32,
    id: InvitationId,
    daemon: String,
    secret: String,
    expires_ms: u64,
    routes: Vec<String>,
    /// The first eight bytes of the SHA-256 of everything above, so that a damaged file is told from a wrong one.
    check: String,
}

impl File {
    fn checksum(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.id.to_string(), &self.daemon, &self.secret, &self.expires_ms.to_string()] {
            digest.update(part);
            digest.update([0]);
        }
        for route in &self.routes {
            digest.update(route);
            digest.update([0]);
        }
        HEXLOWER.encode(&digest.finalize()[..8])
    }
}

/// Longest invitation file that is read, in bytes: a few hundred are needed.
pub const FILE_MAX: usize = 16 << 10;

impl Invitation {
    /// The text of the file.
    #[must_use]
    pub fn to_file(&self) -> String {
        let mut file = File {
            keepline_invitation: 1,
            id: self.id,
            daemon: self.daemon.to_hex(),
            secret: HEXLOWER.encode(self.secret.as_bytes()),
            expires_ms: self.expires_ms,
            routes: self.routes.clone(),
            check: String::new(),
        };
        file.check = file.checksum();
        serde_json::to_string_pretty(&file).expect("a struct of strings has a JSON form") + "\n"
    }

    /// The invitation in the text of a file.
    ///
    /// # Errors
    /// When the text is no invitation, of a later version, or damaged.
    pub fn from_file(text: &str) -> Result<Self, InvalidInvitation> {
        #[derive(Deserialize)]
        struct Version {
            keepline_invitation: u32,
        }
        if text.len() > FILE_MAX {
            return Err(InvalidInvitation::NotAnInvitation);
        }
        let version: Version = serde_json::from_str(text).map_err(|_| InvalidInvitation::NotAnInvitation)?;
        if version.keepline_invitation != 1 {
            return Err(InvalidInvitation::Version(version.keepline_invitation));
        }
        let file: File = serde_json::from_str(text).map_err(|_| InvalidInvitation::Damaged)?;
        let secret = HEXLOWER.decode(file.secret.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        match (file.check == file.checksum(), IdentityKey::from_hex(&file.daemon), secret) {
            (true, Some(daemon), Some(secret)) => Ok(Invitation {
                id: file.id,
                daemon,
                secret: Secret(secret),
                expires_ms: file.expires_ms,
                routes: file.routes,
            }),
            _ => Err(InvalidInvitation::Damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        Invitation {
            id: InvitationId::from_bytes([1; 16]),
            daemon: IdentityKey::from_bytes([2; 32]),
            secret: Secret::from_bytes([3; 32]),
            expires_ms: 5,
            routes: vec!["ws://h:1/v1/link".to_owned()],
        }
    }

    #[test]
    fn a_file_gives_back_the_invitation_and_shows_damage() {
        let text = invitation().to_file();
        assert_eq!(Invitation::from_file(&text), Ok(invitation()));
        let changed = text.replace("\"expires_ms\": 5", "\"expires_ms\": 6");
        assert_eq!(Invitation::from_file(&changed), Err(InvalidInvitation::Damaged));
        let later = text.replace("\"keepline_invitation\": 1", "\"keepline_invitation\": 2");
        assert_eq!(Invitation::from_file(&later), Err(InvalidInvitation::Version(2)));
        assert_eq!(Invitation::from_file("hello"), Err(InvalidInvitation::NotAnInvitation));
    }

    #[test]
    fn what_the_daemon_keeps_is_not_the_secret() {
        let secret = Secret::from_bytes([3; 32]);
        assert_ne!(secret.key(), secret.proof());
        assert_ne!(&secret.key(), secret.as_bytes());
    }
}
