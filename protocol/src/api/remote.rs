//! Enrolment and connections: `remote.*`. All of them need the `admin` scope.

use serde::{Deserialize, Serialize};

use crate::id::{DeviceId, InvitationId, LinkId};

/// Parameters of `remote.invite`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// Seconds in which it can be claimed; absent for 300.
    pub ttl_seconds: Option<u32>,
    /// True when the claiming device needs no approval.
    pub no_approval: Option<bool>,
    /// Where the daemon can be reached; absent for the routes that it listens on.
    pub routes: Option<Vec<String>>,
    /// What the claiming device may do, by the names of [`Scope`](crate::scope::Scope); absent for all but `admin`.
    pub scopes: Option<Vec<String>>,
}

/// Answer to `remote.invite`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    /// Its id.
    pub invitation: InvitationId,
    /// The text of the invitation file. It holds a secret.
    pub file: String,
    /// Unix time in milliseconds at which it expires.
    pub expires_ms: u64,
}

impl std::fmt::Debug for Invited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invited").field("invitation", &self.invitation).finish_non_exhaustive()
    }
}

/// A device that waits for the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingDevice {
    /// What `approve` and `deny` take; the device's id.
    pub id: DeviceId,
    /// The same id, under the name that every other list uses.
    pub device: DeviceId,
    /// What the device calls itself.
    pub name: String,
    /// SHA-256 of its identity key, as `SHA256:` and base64.
    pub fingerprint: String,
    /// Unix time in milliseconds at which it claimed its invitation.
    pub since: u64,
    /// What it may do once it is approved.
    pub scopes: Vec<String>,
}

/// Answer to `remote.pending`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingDevices {
    /// The devices, oldest first.
    pub pending: Vec<PendingDevice>,
}

/// Parameters of `remote.approve`, `remote.deny` and `remote.revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRef {
    /// Id, an unambiguous start of one, or unique name.
    pub device: String,
}

/// An enrolled, pending or revoked device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its id.
    pub device: DeviceId,
    /// What it calls itself.
    pub name: String,
    /// SHA-256 of its identity key, as `SHA256:` and base64.
    pub fingerprint: String,
    /// `pending`, `enrolled` or `revoked`.
    pub state: String,
    /// Unix time in milliseconds of its last change of state.
    pub since: u64,
    /// What it may do; none of its own when it was met on a trusted carrier only, which gives it what it may do there.
    pub scopes: Vec<String>,
}

/// Answer to `remote.devices`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// The devices, oldest first.
    pub devices: Vec<Device>,
}

/// What was done to a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceChanged {
    /// The device.
    pub device: DeviceId,
    /// Its state now: `enrolled`, `denied` or `revoked`.
    pub state: String,
}

/// Parameters of `remote.scope`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceScopes {
    /// Id, an unambiguous start of one, or unique name, of an enrolled or a pending device.
    pub device: String,
    /// All that it may do from now on.
    pub scopes: Vec<String>,
}

/// Answer to `remote.rotate-key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRotated {
    /// The new certificate's serial.
    pub serial: u64,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The link.
    pub link: LinkId,
    /// Whose it is.
    pub device: DeviceId,
    /// What the device calls itself.
    pub name: String,
    /// The client's id.
    pub client: String,
    /// Attempts to take a carrier.
    pub epoch: u32,
    /// `up` or `detached`.
    pub state: String,
    /// `unix` or `ws`.
    pub carrier: String,
    /// The peer's address on its carrier, without anything secret.
    pub peer: String,
    /// Smoothed round trip in microseconds, when measured.
    pub rtt_us: Option<u64>,
    /// Unix time in milliseconds of its last change of state.
    pub since: u64,
    /// Milliseconds for which a detached link can still be resumed; absent for one that is up.
    pub lease_ms: Option<u64>,
}

/// Answer to `remote.connections`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// The links, oldest first.
    pub connections: Vec<Connection>,
}
