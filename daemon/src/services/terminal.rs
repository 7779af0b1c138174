//! `terminal.*`, but for attachments.

use keepline_protocol::api::terminal::{
    ScreenText, Sent, TerminalClose, TerminalRead, TerminalResize, TerminalSend, TerminalSignal,
};
use keepline_protocol::api::{Empty, Path, Receipt};
use keepline_protocol::failure::Failure;
use keepline_protocol::id::AttachmentId;

use super::Caller;
use crate::daemon::Daemon;

type Done = Result<Receipt<Path>, Failure>;

pub(super) async fn close(daemon: &Daemon, caller: &Caller, params: TerminalClose) -> Done {
    let receipt = caller.mutate(daemon, params).await?;
    daemon.inner.terminals.end(&receipt);
    Ok(receipt)
}

pub(super) async fn resize(daemon: &Daemon, caller: &Caller, params: TerminalResize) -> Done {
    let size = params.size;
    let receipt = caller.mutate(daemon, params).await?;
    daemon.inner.terminals.resized(&receipt, size).await?;
    Ok(receipt)
}

pub(super) async fn send(daemon: &Daemon, params: TerminalSend) -> Result<Sent, Failure> {
    let terminal = daemon.inner.terminals.find(&params.terminal)?;
    let fresh = || AttachmentId::from_bytes(keepline_carrier::entropy());
    let attachment = params.attachment.unwrap_or_else(fresh);
    let written = terminal.send(attachment, params.data.0).await?;
    Ok(Sent { written })
}

pub(super) async fn signal(daemon: &Daemon, params: TerminalSignal) -> Result<Empty, Failure> {
    daemon.inner.terminals.find(&params.terminal)?.signal(&params.signal).await?;
    Ok(Empty {})
}

pub(super) async fn read(daemon: &Daemon, params: TerminalRead) -> Result<ScreenText, Failure> {
    Ok(daemon.inner.terminals.find(&params.terminal)?.read(params.ansi.unwrap_or(false)))
}
