//! The daemon itself: `server.*`.

use serde::{Deserialize, Serialize};

use crate::api::Cursor;
use crate::id::{DeviceId, Generation};

/// Answer to `server.status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Process id.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// This start.
    pub generation: Generation,
    /// SHA-256 of the daemon's identity key, as `SHA256:` and base64.
    pub fingerprint: String,
    /// Addresses that it listens on for the link.
    pub listeners: Vec<String>,
    /// Terminals that run.
    pub terminals: u32,
    /// Links that have a carrier.
    pub links: u32,
    /// Where its state is.
    pub state_dir: String,
}

/// Parameters of `server.audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditQuery {
    /// Only what this device did, or what was done to it: id, an unambiguous start of one, or unique name.
    pub device: Option<String>,
}

/// Answer to `server.audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The entries that are kept, oldest first.
    pub entries: Vec<AuditEntry>,
}

/// Something that happened. Neither input nor a name that a person gave to something of the session is ever in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Unix time in milliseconds; of the last time, when it happened several times.
    pub at: u64,
    /// What happened, as a word.
    pub event: String,
    /// The device that did it, or that it was done to; absent for the owner at the machine and for unknown devices.
    pub device: Option<DeviceId>,
    /// The device that asked for it, when that is another one.
    pub by: Option<DeviceId>,
    /// More of what happened, by event: a method, a refusal, scopes, what a device calls itself.
    pub detail: Option<String>,
    /// The peer's address, of the last time.
    pub peer: Option<String>,
    /// Where a mutation led.
    pub cursor: Option<Cursor>,
    /// How often it happened.
    pub count: u32,
}
