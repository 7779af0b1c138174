//! The daemon itself: `server.*`.

use serde::{Deserialize, Serialize};

use crate::id::Generation;

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
