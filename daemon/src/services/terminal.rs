//! `terminal.*`, but for attachments.

use keepline_carrier::link::Sender;
use keepline_protocol::api::terminal::{
    ScreenText, Sent, TerminalClose, TerminalKeys, TerminalMouse, TerminalPaste, TerminalRead, TerminalResize,
    TerminalSend, TerminalSignal,
};
use keepline_protocol::api::{Empty, Path, Receipt};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::message::{Message, encode_answer};
use keepline_protocol::registry::method;
use keepline_protocol::stream::StreamClosed;
use keepline_screen::{Key, Mouse, Screen};

use super::{Caller, parse};
use crate::daemon::Daemon;
use crate::session::{SizePolicy, size_policy};
use crate::terminal::Policy;

type Done = Result<Receipt<Path>, Failure>;

pub(super) async fn close(daemon: &Daemon, caller: &Caller, params: TerminalClose) -> Done {
    let receipt = caller.mutate(daemon, params).await?;
    daemon.inner.terminals.end(&receipt);
    Ok(receipt)
}

pub(super) async fn resize(daemon: &Daemon, caller: &Caller, params: TerminalResize) -> Done {
    let policy = match (size_policy(&params)?, params.size) {
        (SizePolicy::Latest, _) => Policy::Latest,
        (_, Some(size)) => Policy::Pinned(size),
        (_, None) => Policy::Smallest,
    };
    let receipt = caller.mutate(daemon, params).await?;
    daemon.inner.terminals.resized(&receipt, policy).await?;
    Ok(receipt)
}

pub(super) async fn send(daemon: &Daemon, params: TerminalSend) -> Result<Sent, Failure> {
    let terminal = daemon.inner.terminals.find(&params.terminal)?;
    let fresh = || AttachmentId::from_bytes(keepline_carrier::entropy());
    let attachment = params.attachment.unwrap_or_else(fresh);
    let written = terminal.send(attachment, params.data.0).await?;
    Ok(Sent { written })
}

pub(super) async fn keys(daemon: &Daemon, params: TerminalKeys) -> Result<Sent, Failure> {
    let keys = params.keys.iter().map(|name| {
        Key::named(name).ok_or_else(|| Failure::new(Code::Invalid, format!("there is no key '{name}' to press")))
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let encode = |screen: &Screen| Ok(keys.iter().flat_map(|key| screen.key_bytes(*key)).collect());
    send_encoded(daemon, &params.terminal, params.attachment, encode).await
}

pub(super) async fn paste(daemon: &Daemon, params: TerminalPaste) -> Result<Sent, Failure> {
    let encode = |screen: &Screen| Ok(screen.paste_bytes(&params.text));
    send_encoded(daemon, &params.terminal, params.attachment, encode).await
}

pub(super) async fn mouse(daemon: &Daemon, params: TerminalMouse) -> Result<Sent, Failure> {
    let button = match params.button.as_deref() {
        None if params.action.ends_with("move") => 3,
        None | Some("left") => 0,
        Some("middle") => 1,
        Some("right") => 2,
        Some(other) => return Err(Failure::new(Code::Invalid, format!("a mouse has no button '{other}'"))),
    };
    let mouse = Mouse::named(&params.action, button, params.column, params.row)
        .ok_or_else(|| Failure::new(Code::Invalid, format!("there is no way to '{}' with a mouse", params.action)))?;
    let encode = |screen: &Screen| {
        let size = screen.size();
        if params.column >= size.cols || params.row >= size.rows {
            let message = format!("column {} of row {} is not on the screen", params.column, params.row);
            return Err(Failure::new(Code::Invalid, message));
        }
        screen.mouse_bytes(mouse).ok_or_else(|| {
            Failure::new(Code::Refused, "the program in this terminal has not asked to be told this of the mouse")
        })
    };
    send_encoded(daemon, &params.terminal, params.attachment, encode).await
}

async fn send_encoded(
    daemon: &Daemon,
    terminal: &str,
    attachment: Option<AttachmentId>,
    encode: impl FnOnce(&Screen) -> Result<Vec<u8>, Failure>,
) -> Result<Sent, Failure> {
    let terminal = daemon.inner.terminals.find(terminal)?;
    let attachment = attachment.unwrap_or_else(|| AttachmentId::from_bytes(keepline_carrier::entropy()));
    Ok(Sent { written: terminal.send_encoded(attachment, encode).await? })
}

pub(super) async fn signal(daemon: &Daemon, params: TerminalSignal) -> Result<Empty, Failure> {
    daemon.inner.terminals.find(&params.terminal)?.signal(&params.signal).await?;
    Ok(Empty {})
}

pub(super) async fn read(daemon: &Daemon, params: TerminalRead) -> Result<ScreenText, Failure> {
    daemon.inner.terminals.find(&params.terminal)?.read(&params)
}

/// Waits without a turn among the requests: it may take long, and costs nothing meanwhile.
pub(super) async fn wait(daemon: &Daemon, request: &Message, sender: &Sender) -> Result<(), StreamClosed> {
    let wait = async {
        let params = parse::<method::TerminalWait>(request)?;
        daemon.inner.terminals.find(&params.terminal)?.wait(&params).await
    };
    let answer = tokio::select! {
        answer = wait => answer,
        () = sender.closed() => return Err(StreamClosed),
    };
    sender.send(encode_answer::<method::TerminalWait>(&answer)).await
}
