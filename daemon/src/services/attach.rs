//! `terminal.attach`: a terminal's records on a stream, both ways.

use keepline_carrier::link::{Link, Phase, Receiver, Sender};
use keepline_protocol::api::terminal::{Attached, TerminalAttach};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::message::{Message, encode_answer, encode_record};
use keepline_protocol::record::Record;
use keepline_protocol::registry::method;
use keepline_protocol::scope::Scope;
use keepline_protocol::stream::{MALFORMED, StreamClosed};

use tokio::sync::watch;

use super::{Caller, parse};
use crate::bounds::{OUTPUT_PIECE, VOTE_KEPT};
use crate::clients::AttachedHere;
use crate::daemon::Daemon;
use crate::session::{AttachedTo, Cells};
use crate::terminal::{Attach, Attachment, Hand};

/// Answers a request to attach and serves the attachment until either side ends it.
pub(super) async fn serve(
    daemon: &Daemon,
    caller: &Caller,
    request: &Message,
    sender: &Sender,
    receiver: Receiver,
    link: &Link,
) -> Result<(), StreamClosed> {
    let attached = match parse::<method::TerminalAttach>(request) {
        Ok(params) => attach(daemon, caller, params).await,
        Err(failure) => Err(failure),
    };
    let (answer, attachment) = match attached {
        Ok((answer, attachment, here)) => (Ok(answer), Some((attachment, here))),
        Err(failure) => (Err(failure), None),
    };
    sender.send(encode_answer::<method::TerminalAttach>(&answer)).await?;
    match attachment {
        Some((attachment, here)) => converse(attachment, &here, sender, receiver, link).await,
        None => Ok(()),
    }
}

async fn attach(
    daemon: &Daemon,
    caller: &Caller,
    params: TerminalAttach,
) -> Result<(Attached, Attachment, AttachedHere), Failure> {
    let observer = params.observer.unwrap_or(false);
    if !observer {
        caller.check(daemon, "terminal.attach, unless it is read-only (attach --read-only),", Scope::Type)?;
    }
    let terminal = daemon.inner.terminals.find(&params.terminal)?;
    if params.size.is_some_and(|size| size.cols == 0 || size.rows == 0) {
        return Err(Failure::new(Code::Invalid, "a terminal's size is at least 1x1"));
    }
    if !observer {
        daemon.inner.terminals.used(terminal.id());
    }
    let attach = Attach {
        attachment: params.attachment,
        size: params.size,
        observer,
        from_offset: params.from_offset,
        history: params.history,
    };
    let here = caller.presence.attached(AttachedTo {
        terminal_id: terminal.id(),
        attachment: attach.attachment,
        size: attach.size.filter(|_| !observer).map(Cells::from),
        observer,
    });
    let (answer, attachment) = terminal.attach(attach).await;
    Ok((answer, attachment, here))
}

/// Sends the attachment's records as the stream takes them, and takes the client's, at the same time: a client that does
/// not read can still type.
async fn converse(
    mut attachment: Attachment,
    here: &AttachedHere,
    sender: &Sender,
    receiver: Receiver,
    link: &Link,
) -> Result<(), StreamClosed> {
    let hand = attachment.hand();
    tokio::select! {
        sent = send(&mut attachment, sender, link) => sent,
        () = follow_presence(&hand, link.phase()) => Err(StreamClosed),
        () = receive(&hand, here, receiver) => {
            // The client has finished: what it typed is acknowledged before the stream ends.
            while let Some(record) = attachment.next(0) {
                sender.send(encode_record(&record)).await?;
            }
            Ok(())
        }
    }
}

async fn send(attachment: &mut Attachment, sender: &Sender, link: &Link) -> Result<(), StreamClosed> {
    loop {
        // Asked for before a record is taken, so that what cannot be sent yet stays with the terminal, where it can
        // still be overtaken by a snapshot.
        let room = sender.ready().await?;
        attachment.set_rate(link.rate());
        match attachment.next(room.min(OUTPUT_PIECE)) {
            Some(record) => {
                let ended = matches!(record, Record::Ended(_));
                sender.send(encode_record(&record)).await?;
                if ended {
                    return Ok(());
                }
            }
            None => tokio::select! {
                () = attachment.changed() => {}
                () = sender.closed() => return Err(StreamClosed),
            },
        }
    }
}

/// A vote counts while the link has a carrier, and a while longer.
async fn follow_presence(hand: &Hand, mut phase: watch::Receiver<Phase>) {
    loop {
        if phase.wait_for(|phase| !matches!(phase, Phase::Up(_))).await.is_err() {
            return;
        }
        let back = phase.wait_for(|phase| matches!(phase, Phase::Up(_)));
        if tokio::time::timeout(VOTE_KEPT, back).await.is_err() {
            hand.set_present(false).await;
            if phase.wait_for(|phase| matches!(phase, Phase::Up(_))).await.is_err() {
                return;
            }
            hand.set_present(true).await;
        }
    }
}

/// Takes the client's records until it finishes or breaks the protocol.
async fn receive(hand: &Hand, here: &AttachedHere, mut receiver: Receiver) {
    loop {
        let record = match receiver.message().await {
            Ok(Some(message)) => message.record(),
            Ok(None) => return,
            // The sending side notices too, and ends the attachment.
            Err(_) => return std::future::pending().await,
        };
        let done = match record {
            Ok(Record::Input { offset, bytes }) => hand.input(offset, bytes).await,
            Ok(Record::Size(size)) => {
                here.votes(size);
                hand.vote(size).await;
                Ok(())
            }
            Ok(_) | Err(_) => Err(Failure::new(Code::Invalid, "a record that no client sends")),
        };
        if let Err(failure) = done {
            tracing::debug!(%failure, "an attachment's record was not taken");
            if failure.code == Code::Invalid {
                receiver.reset(MALFORMED);
                return std::future::pending().await;
            }
        }
    }
}
