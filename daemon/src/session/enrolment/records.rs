//! What the store holds about devices and invitations, and what a call changed of it.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::BASE64_NOPAD;
use keepline_protocol::id::{DeviceId, InvitationId};
use keepline_protocol::scope::Scopes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::audit::Event;
use crate::bounds::PENDING_MAX_MS;

/// The id of the device with this identity key.
#[must_use]
pub fn device_id(key: &[u8; 32]) -> DeviceId {
    let digest: [u8; 32] = Sha256::digest(key).into();
    let (id, _) = digest.split_first_chunk().expect("a digest is longer than an id");
    DeviceId::from_bytes(*id)
}

/// `SHA256:` and the base64 of the SHA-256 of this identity key.
#[must_use]
pub fn fingerprint(key: &[u8; 32]) -> String {
    format!("SHA256:{}", BASE64_NOPAD.encode(&Sha256::digest(key)))
}

/// What a device may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It claimed an invitation and waits for the owner.
    Pending,
    /// It gets in.
    Enrolled,
    /// It was enrolled, or waited, and the owner put an end to it.
    Revoked,
    /// The owner said no; known for a day, to tell it so.
    Denied,
    /// It was met on a trusted carrier and gets in there only.
    Trusted,
}

impl Standing {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Standing::Pending => "pending",
            Standing::Enrolled => "enrolled",
            Standing::Revoked => "revoked",
            Standing::Denied => "denied",
            Standing::Trusted => "trusted",
        }
    }
}

/// A device as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// Its Ed25519 identity key.
    #[serde(with = "hex32")]
    pub key: [u8; 32],
    /// What it calls itself.
    pub name: String,
    /// What it may do.
    pub standing: Standing,
    /// Unix time in milliseconds of the last change of that.
    pub since_ms: u64,
    /// The highest certificate serial that it showed.
    pub serial: u64,
    /// The invitation that it claimed last.
    pub invitation: Option<InvitationId>,
    /// What it may do, on a carrier that gives nothing by itself.
    pub scopes: Scopes,
}

/// Where an invitation is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claimed {
    /// Nobody claimed it.
    Open,
    /// This device did.
    By(DeviceId),
    /// This device did, and was denied or revoked: it lets nobody in again.
    Closed(DeviceId),
}

/// An invitation as the store holds it. Its secret is not here: this record alone enrols nobody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationRecord {
    /// K, which goes into the handshake.
    #[serde(with = "hex32")]
    pub key: [u8; 32],
    /// H, the SHA-256 of its secret.
    #[serde(with = "hex32")]
    pub secret_hash: [u8; 32],
    /// Unix time in milliseconds until which it can be claimed.
    pub expires_ms: u64,
    /// Whether the owner must approve who claims it.
    pub approval: bool,
    /// Whether it is still good.
    pub claimed: Claimed,
    /// What who claims it may do.
    pub scopes: Scopes,
}

impl fmt::Debug for InvitationRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InvitationRecord")
            .field("expires_ms", &self.expires_ms)
            .field("approval", &self.approval)
            .field("claimed", &self.claimed)
            .finish_non_exhaustive()
    }
}

/// What a call changed, for the store: records put, or deleted where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Devices.
    pub devices: BTreeMap<DeviceId, Option<DeviceRecord>>,
    /// Invitations.
    pub invitations: BTreeMap<InvitationId, Option<InvitationRecord>>,
    /// What of that is worth an entry in the audit, with the device and a detail.
    pub events: Vec<(Event, Option<DeviceId>, String)>,
}

impl Edits {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.invitations.is_empty()
    }
}

impl DeviceRecord {
    /// Whether a record that is kept for a day only is older.
    pub(super) fn lapsed(&self, now_ms: u64) -> bool {
        matches!(self.standing, Standing::Pending | Standing::Denied)
            && now_ms >= self.since_ms.saturating_add(PENDING_MAX_MS)
    }
}

/// 32 bytes as 64 hex digits.
mod hex32 {
    use data_encoding::HEXLOWER;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(de::Error::custom)?;
        bytes.try_into().map_err(|_| de::Error::custom("not 32 bytes"))
    }
}
