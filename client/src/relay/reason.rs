//! Why a link is not up, as a word and a sentence.

use keepline_carrier::dial::DialError;
use keepline_carrier::link::CarrierEnd;
use keepline_protocol::handshake::HandshakeError;
use keepline_protocol::identity::Credentials;
use keepline_protocol::refusal::Refusal;

use super::attempt::Failed;
use crate::uplink::Reason;

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        Reason { word: refusal.name(), sentence: refusal.to_string() }
    }
}

impl Reason {
    /// The daemon's owner has not decided yet: with what they see of this device.
    pub(super) fn pending(credentials: &Credentials) -> Self {
        let identity = credentials.identity();
        let (device, fingerprint) = (identity.device_id(), identity.fingerprint());
        Reason {
            word: Refusal::Pending.name(),
            sentence: format!("{}; its owner sees it as {device}, {fingerprint}", Refusal::Pending),
        }
    }
}

impl From<&CarrierEnd> for Reason {
    fn from(end: &CarrierEnd) -> Self {
        let word = match end {
            CarrierEnd::Eof => "closed",
            CarrierEnd::Failed(_) => "failed",
            CarrierEnd::Silent => "silent",
            CarrierEnd::Violation(_) => "violation",
            CarrierEnd::Fenced => "fenced",
            CarrierEnd::Closed(refusal) => refusal.name(),
        };
        Reason { word, sentence: end.to_string() }
    }
}

impl From<&Failed> for Reason {
    fn from(failed: &Failed) -> Self {
        let word = match failed {
            Failed::Dial(DialError::Connect { .. } | DialError::Ssh { .. }) => "unreachable",
            Failed::Dial(DialError::Timeout(_)) | Failed::Slow => "no-answer",
            Failed::Dial(DialError::NotADaemon { .. }) => "not-a-daemon",
            Failed::Dial(DialError::Untrusted { .. }) => "untrusted",
            Failed::Lost { .. } => "lost",
            Failed::Handshake(HandshakeError::Refused { refusal, .. }) | Failed::Refused(refusal) => refusal.name(),
            Failed::Handshake(_) => "handshake",
        };
        Reason { word, sentence: failed.to_string() }
    }
}
