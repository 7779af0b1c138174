//! `server.*`.

use keepline_protocol::api::Empty;
use keepline_protocol::api::server::{Audit, AuditQuery, Status};
use keepline_protocol::failure::Failure;

use crate::daemon::Daemon;

pub(super) async fn status(daemon: &Daemon) -> Result<Status, Failure> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(Status {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: daemon.inner.session.generation(),
        fingerprint: daemon.fingerprint(),
        listeners: daemon.listeners().iter().map(ToString::to_string).collect(),
        terminals: count(daemon.inner.terminals.running()),
        links: count(daemon.inner.links.up()),
        state_dir: daemon.inner.session.state_dir().display().to_string(),
    })
}

/// Answers, and the daemon ends when the answer is on its way.
pub(super) async fn stop(daemon: &Daemon) -> Result<Empty, Failure> {
    daemon.ask_to_stop();
    Ok(Empty {})
}

pub(super) async fn audit(daemon: &Daemon, params: AuditQuery) -> Result<Audit, Failure> {
    let entries = daemon.inner.session.audit(params.device.as_deref()).await?;
    Ok(Audit { entries })
}
