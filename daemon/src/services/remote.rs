//! `remote.*`: the owner's side of enrolment.

use keepline_carrier::entropy;
use keepline_protocol::api::remote::{
    Connections, DeviceChanged, DeviceScopes, Devices, Invite, Invited, KeyRotated, PendingDevices,
};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::InvitationId;
use keepline_protocol::invitation::{Invitation, Secret};
use keepline_protocol::scope::Scopes;

use super::Caller;
use crate::bounds::{INVITATION_ROUTE_MAX, INVITATION_ROUTES_MAX, INVITATION_TTL};
use crate::daemon::Daemon;
use crate::session::{Choice, NewInvitation};

fn scopes(names: &[String]) -> Result<Scopes, Failure> {
    let invalid = |message: String| Failure::new(Code::Invalid, message);
    match Scopes::of(names) {
        Ok(Scopes::NONE) => Err(invalid("name one scope at least, as view".to_owned())),
        named => named.map_err(|unknown| invalid(unknown.to_string())),
    }
}

pub(super) async fn invite(daemon: &Daemon, caller: &Caller, params: Invite) -> Result<Invited, Failure> {
    let given = params.scopes.as_deref().map(scopes).transpose()?;
    let listening = || daemon.listeners().iter().map(|address| format!("ws://{address}/v1/link")).collect();
    let routes: Vec<String> = params.routes.unwrap_or_else(listening);
    if routes.len() > INVITATION_ROUTES_MAX || routes.iter().any(|route| route.len() > INVITATION_ROUTE_MAX) {
        return Err(Failure::new(Code::Invalid, "too many routes for one invitation, or too long ones"));
    }
    // A query may hold a gateway's token, which is never stored.
    let routes = routes.iter().map(|route| route.split('?').next().unwrap_or_default().to_owned()).collect();
    let secret = Secret::from_bytes(entropy());
    let id = InvitationId::from_bytes(entropy());
    let ttl_ms = params.ttl_seconds.map_or(INVITATION_TTL.as_secs(), u64::from) * 1000;
    let new = NewInvitation {
        id,
        key: secret.key(),
        secret_hash: secret.proof(),
        ttl_ms,
        approval: !params.no_approval.unwrap_or(false),
        scopes: given.unwrap_or(Scopes::INVITED),
    };
    let expires_ms = daemon.inner.session.invite(caller.device, new).await?;
    let invitation = Invitation { id, daemon: daemon.credentials().identity(), secret, expires_ms, routes };
    Ok(Invited { invitation: id, file: invitation.to_file(), expires_ms })
}

pub(super) async fn pending(daemon: &Daemon) -> Result<PendingDevices, Failure> {
    Ok(PendingDevices { pending: daemon.inner.session.pending() })
}

pub(super) async fn devices(daemon: &Daemon) -> Result<Devices, Failure> {
    Ok(Devices { devices: daemon.inner.session.devices() })
}

pub(super) async fn connections(daemon: &Daemon) -> Result<Connections, Failure> {
    Ok(Connections { connections: daemon.inner.links.connections() })
}

pub(super) async fn scope(daemon: &Daemon, caller: &Caller, params: DeviceScopes) -> Result<DeviceChanged, Failure> {
    let choice = Choice::Scopes(scopes(&params.scopes)?);
    let session = &daemon.inner.session;
    session.decide(caller.device, params.device, choice).await
}

pub(super) async fn rotate_key(daemon: &Daemon, caller: &Caller) -> Result<KeyRotated, Failure> {
    let serial = daemon.rotate_key(caller.device).await?;
    Ok(KeyRotated { serial })
}
