//! The clear head, which is the handshake's prologue: any changed byte fails the handshake.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `KPLN` |
//! | 1, 1 | lowest and highest version |
//! | 1 | pattern |
//! | 16 | invitation id, or zeros |
//! | 2 | length of the ML-KEM-768 key, big-endian: 0 in this revision |

use std::ops::RangeInclusive;

use crate::id::InvitationId;

/// The head's first four bytes, and what a link connection on a Unix socket starts with.
pub const MAGIC: &[u8; 4] = b"KPLN";
/// The head's length in this revision.
pub(super) const LENGTH: usize = 25;

/// A Noise pattern that the protocol uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// XXpsk3: first contact, and whenever the daemon's Noise key is not known.
    Xx,
}

impl Pattern {
    const fn number(self) -> u8 {
        match self {
            Pattern::Xx => 1,
        }
    }

    pub(super) const fn noise_name(self) -> &'static str {
        match self {
            Pattern::Xx => "Noise_XXpsk3_25519_AESGCM_SHA256",
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
    /// The invitation that is claimed.
    pub invitation: Option<InvitationId>,
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
        out
    }

    /// The head at the front of `message`, and what follows it.
    pub(super) fn parse(message: &[u8]) -> Result<(Head, &[u8], &[u8]), HeadError> {
        let Some(([m0, m1, m2, m3, lowest, highest, pattern], rest)) =
            message.split_first_chunk::<7>()
        else {
            return Err(HeadError::Foreign);
        };
        if [*m0, *m1, *m2, *m3] != *MAGIC || lowest > highest || *lowest == 0 {
            return Err(HeadError::Foreign);
        }
        // From here on it is keepline that asks: what another version lays out otherwise gets an answer.
        if *pattern != Pattern::Xx.number() {
            return Err(HeadError::Version);
        }
        let Some((id, rest)) = rest.split_first_chunk::<16>() else {
            return Err(HeadError::Version);
        };
        let Some((kem, noise)) = rest.split_first_chunk::<2>() else {
            return Err(HeadError::Version);
        };
        if u16::from_be_bytes(*kem) != 0 {
            return Err(HeadError::Version);
        }
        let head = Head {
            versions: *lowest..=*highest,
            pattern: Pattern::Xx,
            invitation: (*id != [0; 16]).then(|| InvitationId::from_bytes(*id)),
        };
        Ok((head, &message[..LENGTH], noise))
    }
}
