//! The clear head, which is the handshake's prologue: any changed byte fails the handshake.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `KPLN` |
//! | 1, 1 | lowest and highest version |
//! | 1 | pattern |
//! | 16 | invitation id, or zeros |
//! | 2 | length of the ML-KEM-768 key, big-endian: 1,184 |
//! | 1,184 | the client's fresh ML-KEM-768 encapsulation key |

use std::ops::RangeInclusive;

use super::kem;
use crate::id::InvitationId;

/// The head's first four bytes, and what a link connection on a Unix socket starts with.
pub const MAGIC: &[u8; 4] = b"KPLN";
/// The head's length.
pub(super) const LENGTH: usize = 25 + kem::KEY;

/// The length of the ML-KEM key on the wire.
const KEY_LENGTH: [u8; 2] = (kem::KEY as u16).to_be_bytes();

/// A Noise pattern that the protocol uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// XXpsk3: first contact, and whenever the daemon's Noise key is not known.
    Xx,
    /// IKpsk2: the client knows the daemon's Noise key.
    Ik,
}

impl Pattern {
    const fn number(self) -> u8 {
        match self {
            Pattern::Xx => 1,
            Pattern::Ik => 2,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Pattern::Xx),
            2 => Some(Pattern::Ik),
            _ => None,
        }
    }

    pub(super) const fn noise_name(self) -> &'static str {
        match self {
            Pattern::Xx => "Noise_XXpsk3_25519_AESGCM_SHA256",
            Pattern::Ik => "Noise_IKpsk2_25519_AESGCM_SHA256",
        }
    }

    /// The place of the psk in the pattern.
    pub(super) const fn psk_place(self) -> u8 {
        match self {
            Pattern::Xx => 3,
            Pattern::Ik => 2,
        }
    }
}

/// The clear head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The versions that the client speaks.
    pub versions: RangeInclusive<u8>,
    /// The pattern of what follows.
    pub pattern: Pattern,
    /// The invitation that is claimed; only with [`Pattern::Xx`], whose secrets are forward secret.
    pub invitation: Option<InvitationId>,
    /// The client's ML-KEM-768 encapsulation key of this attempt.
    pub kem_key: [u8; kem::KEY],
}

/// Why bytes are no head that this build can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// This is not our protocol; it is not answered.
    Foreign,
    /// Our protocol, in a version or pattern that we do not speak.
    Version,
}

impl Head {
    /// The head's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[..4].copy_from_slice(MAGIC);
        out[4] = *self.versions.start();
        out[5] = *self.versions.end();
        out[6] = self.pattern.number();
        if let Some(id) = self.invitation {
            out[7..23].copy_from_slice(id.as_bytes());
        }
        out[23..25].copy_from_slice(&KEY_LENGTH);
        out[25..].copy_from_slice(&self.kem_key);
        out
    }

    /// The head at the front of `message`, its bytes, and what follows it.
    pub(super) fn parse(message: &[u8]) -> Result<(Head, &[u8; LENGTH], &[u8]), HeadError> {
        let Some((&[m0, m1, m2, m3, lowest, highest, pattern], _)) = message.split_first_chunk::<7>() else {
            return Err(HeadError::Foreign);
        };
        if [m0, m1, m2, m3] != *MAGIC || lowest > highest || lowest == 0 {
            return Err(HeadError::Foreign);
        }
        // From here on it is keepline that asks: what another version lays out otherwise gets an answer.
        let (Some(pattern), Some((encoded, noise))) =
            (Pattern::from_number(pattern), message.split_first_chunk::<LENGTH>())
        else {
            return Err(HeadError::Version);
        };
        let id: [u8; 16] = encoded[7..23].try_into().expect("the range has 16 bytes");
        let invitation = (id != [0; 16]).then(|| InvitationId::from_bytes(id));
        if encoded[23..25] != KEY_LENGTH || (pattern == Pattern::Ik && invitation.is_some()) {
            return Err(HeadError::Version);
        }
        let head = Head {
            versions: lowest..=highest,
            pattern,
            invitation,
            kem_key: encoded[25..].try_into().expect("the rest is the key"),
        };
        Ok((head, encoded, noise))
    }
}
