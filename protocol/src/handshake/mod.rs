//! The handshake: the clear head, Noise, and what each message carries.
//!
//! ```text
//! client                                              daemon
//!   XXpsk3: first contact, or the daemon's Noise key is not known
//!   head ‖ Noise 1 (e)                           ─▶
//!                                                ◀─   kind ‖ ciphertext ‖ Noise 2 (e, ee, s, es): version, certificate
//!                                                     or kind ‖ a refusal in clear
//!   Noise 3 (s, se, psk): device, secret         ─▶
//!                                                ◀─   first packet: the verdict
//!
//!   IKpsk2: afterwards
//!   head ‖ Noise 1 (e, es, s, ss): device        ─▶
//!                                                ◀─   kind ‖ ciphertext ‖ Noise 2 (e, ee, se, psk): version,
//!                                                     certificate, verdict; frames that the client misses
//!   first packet                                 ─▶   the daemon commits the epoch
//! ```
//!
//! Each step is a type that gives the next one, so that no message can be taken out of turn. The client's side starts
//! with [`Initiator`], the daemon's with [`Responder`]. Both end in a [`Cipher`](crate::cipher::Cipher) that a
//! [`Link`](crate::link::Link) is established with.
//!
//! Message 1 of IK can be recorded and sent again by anybody. So nothing is changed by it: what it asks for is done when
//! the first packet under the new keys decrypts, which only the device can have made.

mod head;
mod initiator;
mod kem;
mod noise;
mod responder;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::id::LinkId;
use crate::identity::{Certificate, CertificateError};
use crate::refusal::Refusal;

pub use head::{Head, MAGIC, Pattern};
pub use initiator::{AwaitReply, AwaitVerdict, Claim, Initiator, Outcome, Reply};
pub use responder::{Anonymous, Authenticated, AwaitFirst, AwaitHello, InvitationKey, Named, Rejected, Responder};

/// The protocol versions that this build speaks.
pub const VERSIONS: std::ops::RangeInclusive<u8> = 1..=1;

/// First byte of the daemon's first message.
mod kind {
    pub(super) const NOISE: u8 = 0;
    pub(super) const REFUSAL: u8 = 1;
}

/// Payload of XX message 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DaemonHello {
    /// The version that the daemon chose.
    version: u8,
    /// Zero, or the number of the refusal that ends the handshake here, authenticated by the daemon's key.
    refusal: u16,
    certificate: Certificate,
}

/// Payload of IK message 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DaemonDecision {
    version: u8,
    certificate: Certificate,
    verdict: Verdict,
}

/// Payload of XX message 3.
#[derive(Serialize, Deserialize)]
struct DeviceProof {
    device: DeviceHello,
    /// The invitation's secret, when one is claimed.
    secret: Option<[u8; 32]>,
}

/// Who a device is and what it wants: payload of IK message 1, and the first part of that of XX message 3.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHello {
    /// The device's certificate.
    pub certificate: Certificate,
    /// What the device calls itself.
    pub name: String,
    /// The install's id, 1 to 128 printable ASCII characters.
    pub client: String,
    /// Feature bits that the client understands.
    pub features: u64,
    /// The link to open or resume.
    pub link: LinkRequest,
}

impl std::fmt::Debug for DeviceHello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceHello")
            .field("identity", &self.certificate.identity())
            .field("client", &self.client)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

/// The link that a client wants a carrier for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRequest {
    /// The link, chosen at random by the client.
    pub id: LinkId,
    /// The attempt's number, higher than that of every attempt before it.
    pub epoch: u32,
    /// Per lane, the highest contiguous sequence received; absent to open a new link.
    pub cursors: Option<[u64; 4]>,
}

/// What the daemon decided: in message 2 of IK; after XX alone in the first packet (and, while a device is pending, before
/// it).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Zero for yes, else the number of a refusal.
    pub refusal: u16,
    /// Whether trying again is worth it.
    pub retry: bool,
    /// The daemon keeps the carrier open: another verdict follows.
    pub held: bool,
    /// What the daemon's host calls itself.
    pub name: String,
    /// Feature bits that both sides use.
    pub features: u64,
    /// Per lane, the highest contiguous sequence that the daemon received on this link.
    pub cursors: [u64; 4],
    /// Seconds that the link is kept without a carrier.
    pub lease_seconds: u32,
}

impl Verdict {
    /// A verdict that refuses.
    #[must_use]
    pub fn refused(refusal: Refusal, name: &str) -> Self {
        Verdict {
            refusal: refusal.number(),
            retry: refusal.retry(),
            held: false,
            name: name.to_owned(),
            features: 0,
            cursors: [0; 4],
            lease_seconds: 0,
        }
    }
}

/// Why a handshake ended without a verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The daemon refused. In clear the refusal may be forged; authenticated, it is the daemon's word.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// Whether the daemon's key vouches for it.
        authenticated: bool,
    },
    /// The peer's bytes are not this protocol's.
    #[error("the other end does not speak keepline's protocol")]
    Malformed,
    /// A message does not decrypt: it was changed, or the invitation's secret or a key is wrong.
    #[error("the handshake cannot be decrypted: it was changed on the way, or the invitation is not this daemon's")]
    Decrypt,
    /// The certificate does not hold.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The daemon is not the one that is pinned.
    #[error(
        "another daemon answered than the one that is known there ({found} instead of {expected}): nothing was sent to it"
    )]
    OtherDaemon {
        /// The pinned identity's fingerprint.
        expected: String,
        /// The fingerprint of who answered.
        found: String,
    },
    /// The certificate's serial is lower than one seen before.
    #[error("the daemon showed an older key than before: it was replaced since, and the old one is refused")]
    StaleSerial,
}

/// The postcard form of a payload.
fn encode<T: Serialize>(payload: &T) -> Vec<u8> {
    postcard::to_stdvec(payload).expect("a plain struct has a postcard form")
}

/// The payload in `bytes`; what follows its last field is left to later versions.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HandshakeError> {
    postcard::take_from_bytes(bytes).map(|(payload, _)| payload).map_err(|_| HandshakeError::Malformed)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
