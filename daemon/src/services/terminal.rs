//! `terminal.*`, but for attachments.

use keepline_protocol::api::terminal::{
    ScreenText, Sent, TerminalClose, TerminalNew, TerminalPath, TerminalRead, TerminalRename,
    TerminalResize, TerminalSend, TerminalSignal,
};
use keepline_protocol::api::{Empty, Receipt, Size};
use keepline_protocol::failure::Failure;
use keepline_protocol::id::AttachmentId;

use super::Caller;
use crate::daemon::Daemon;
use crate::session::{Place, TerminalMutation};
use crate::terminals::New;

type Done = Result<Receipt<TerminalPath>, Failure>;

/// The size of a terminal that nobody gave one.
const FIRST_SIZE: Size = Size::cells(80, 24);

pub(super) async fn new(daemon: &Daemon, caller: &Caller, params: TerminalNew) -> Done {
    let place = Place::of(
        params.workspace,
        params.detached.unwrap_or(false),
        params.caller,
    )?;
    let new = New {
        place,
        name: params.name.unwrap_or_default(),
        cwd: params.cwd,
        size: params.size.unwrap_or(FIRST_SIZE),
        argv: params.argv.unwrap_or_default(),
    };
    daemon
        .inner
        .terminals
        .open(caller.origin(params.key, params.expect), new)
        .await
}

pub(super) async fn rename(daemon: &Daemon, caller: &Caller, params: TerminalRename) -> Done {
    let mutation = TerminalMutation::Rename {
        terminal: params.terminal,
        name: params.name,
    };
    daemon
        .inner
        .session
        .mutate(caller.origin(params.key, params.expect), mutation)
        .await
}

pub(super) async fn close(daemon: &Daemon, caller: &Caller, params: TerminalClose) -> Done {
    daemon
        .inner
        .terminals
        .close(caller.origin(params.key, params.expect), params.terminal)
        .await
}

pub(super) async fn resize(daemon: &Daemon, caller: &Caller, params: TerminalResize) -> Done {
    let origin = caller.origin(params.key, params.expect);
    daemon
        .inner
        .terminals
        .resize(origin, params.terminal, params.size)
        .await
}

pub(super) async fn send(daemon: &Daemon, params: TerminalSend) -> Result<Sent, Failure> {
    let terminal = daemon.inner.terminals.find(&params.terminal)?;
    let fresh = || AttachmentId::from_bytes(keepline_carrier::entropy());
    let attachment = params.attachment.unwrap_or_else(fresh);
    let written = terminal.send(attachment, params.data.0).await?;
    Ok(Sent { written })
}

pub(super) async fn signal(daemon: &Daemon, params: TerminalSignal) -> Result<Empty, Failure> {
    daemon
        .inner
        .terminals
        .find(&params.terminal)?
        .signal(&params.signal)
        .await?;
    Ok(Empty {})
}

pub(super) async fn read(daemon: &Daemon, params: TerminalRead) -> Result<ScreenText, Failure> {
    Ok(daemon
        .inner
        .terminals
        .find(&params.terminal)?
        .read(params.ansi.unwrap_or(false)))
}
