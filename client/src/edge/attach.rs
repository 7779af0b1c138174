//! `terminal.attach` for a consumer: records between its connection and the daemon, across links.
//!
//! The attachment outlives links and daemons: it remembers which output the consumer was given and which input is not
//! acknowledged, and attaches again under the same id from there.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use keepline_carrier::link::{Link, ReceiveError, Receiver, Sender};
use keepline_protocol::api::Size;
use keepline_protocol::api::terminal::TerminalAttach;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::lane::Lane;
use keepline_protocol::message::{encode_record, encode_request};
use keepline_protocol::record::{Exit, Record};
use keepline_protocol::registry::method;
use serde_json::Value;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use super::Edge;
use super::connection::Output;
use crate::attach::input::{Lost, Tail};
use crate::bounds::{CARRIER_WAIT, DRAIN_TIME, INPUT_PIECE};
use crate::local::{RecordReader, RecordWriter};
use crate::uplink::Uplink;

/// An attachment whose answer was sent.
pub(super) struct Attachment {
    uplink: Uplink,
    params: TerminalAttach,
    link: Link,
    sender: Sender,
    receiver: Receiver,
    written: u64,
}

impl Edge {
    /// Attaches and answers. Nothing when the answer was a failure.
    pub(super) async fn attach(
        &self,
        id: &Value,
        params: Value,
        time: Duration,
        output: &Output,
    ) -> Option<Attachment> {
        let attached = async {
            let params: TerminalAttach = serde_json::from_value(params).map_err(|error| {
                Failure::new(Code::Invalid, format!("the parameters of terminal.attach do not fit: {error}"))
            })?;
            let deadline = tokio::time::Instant::now() + time;
            let uplink = self.inner.uplink.clone();
            let first = timeout(CARRIER_WAIT.min(time), uplink.link_after(None)).await;
            let mut link = first.map_err(|_| uplink.unreachable())?;
            let asking = async {
                loop {
                    match ask(&link, &params).await {
                        Some(asked) => return (link, asked),
                        None => link = uplink.link_after(Some(&link)).await,
                    }
                }
            };
            let (link, asked) = timeout_at(deadline, asking)
                .await
                .map_err(|_| Failure::new(Code::Timeout, "terminal.attach was not answered in time"))?;
            let (attached, sender, receiver) = asked?;
            let answer = serde_json::value::to_raw_value(&attached)
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
            let written = attached.written;
            // By its id from here on: a name may mean another terminal tomorrow.
            let params = TerminalAttach { terminal: attached.terminal.to_string(), ..params };
            Ok((Attachment { uplink, params, link, sender, receiver, written }, answer))
        };
        match attached.await {
            Ok((attachment, answer)) => {
                output.answer(id, &answer).await.ok()?;
                Some(attachment)
            }
            Err(failure) => {
                output.failure(id, &failure).await;
                None
            }
        }
    }
}

type Asked = Result<(keepline_protocol::api::terminal::Attached, Sender, Receiver), Failure>;

/// Asks on one link; nothing when that link ended before the answer was there.
async fn ask(link: &Link, params: &TerminalAttach) -> Option<Asked> {
    let (sender, mut receiver) = link.open(Lane::Interactive);
    sender.send(encode_request::<method::TerminalAttach>(params)).await.ok()?;
    let answer = match receiver.message().await {
        Ok(Some(message)) => message.answer::<method::TerminalAttach>(),
        Ok(None) | Err(ReceiveError::Reset) => return None,
        Err(ReceiveError::Malformed(error)) => Err(error),
    };
    Some(match answer {
        Ok(Ok(attached)) => Ok((attached, sender, receiver)),
        Ok(Err(failure)) => Err(failure),
        Err(error) => Err(Failure::new(Code::Failed, error.to_string())),
    })
}

/// What the directions of an attachment share.
struct Shared {
    state: Mutex<State>,
    /// There is input, or a vote, to send.
    upward: Notify,
    /// There is room for input.
    room: Notify,
}

struct State {
    tail: Tail,
    /// The consumer's vote that was not sent on this link yet.
    vote: Option<Size>,
    consumer_gone: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why one link's part of an attachment ended.
enum Part {
    /// The link ended.
    LinkLost,
    /// The consumer went away, and what it typed was sent.
    ConsumerGone,
    /// The terminal ended, and the consumer was told.
    Ended,
}

impl Attachment {
    /// Serves the attachment until the terminal ends or the consumer goes away.
    pub(super) async fn run(mut self, reader: OwnedReadHalf, rest: BytesMut, writer: OwnedWriteHalf) {
        let mut reader = RecordReader::new(reader, rest);
        let mut writer = RecordWriter::new(writer);
        let shared = Shared {
            state: Mutex::new(State { tail: Tail::new(self.written), vote: None, consumer_gone: false }),
            upward: Notify::new(),
            room: Notify::new(),
        };
        let mut changes = self.uplink.changes();
        loop {
            let part = {
                let consumer = async {
                    take(&mut reader, &shared).await;
                    // What it typed is still sent; not for ever, when the program does not take it.
                    shared.state().consumer_gone = true;
                    shared.upward.notify_one();
                    tokio::time::sleep(DRAIN_TIME).await;
                    Part::ConsumerGone
                };
                let daemon = give(&self.sender, &shared);
                let down =
                    pass_down(&mut self.receiver, &mut self.params.from_offset, &shared, &mut writer, &mut changes);
                tokio::select! {
                    part = consumer => part,
                    part = daemon => part,
                    part = down => part,
                }
            };
            match part {
                Part::LinkLost => {}
                Part::ConsumerGone => return,
                Part::Ended => {
                    while !writer.is_empty() && writer.flush().await.is_ok() {}
                    return;
                }
            }
            if !self.attach_again(&shared, &mut writer, &mut reader, &mut changes).await {
                return;
            }
        }
    }

    /// Attaches on the next link; false when that is the end.
    async fn attach_again(
        &mut self,
        shared: &Shared,
        writer: &mut RecordWriter,
        reader: &mut RecordReader,
        changes: &mut tokio::sync::watch::Receiver<crate::uplink::Status>,
    ) -> bool {
        let uplink = self.uplink.clone();
        let mut link = self.link.clone();
        let asking = async {
            loop {
                link = uplink.link_after(Some(&link)).await;
                if let Some(asked) = ask(&link, &self.params).await {
                    return (link, asked);
                }
            }
        };
        let told = async {
            loop {
                if !writer.is_empty() {
                    if writer.flush().await.is_err() {
                        return;
                    }
                } else if changes.changed().await.is_ok() {
                    writer.push(&changes.borrow_and_update().record());
                } else {
                    std::future::pending::<()>().await;
                }
            }
        };
        let (link, asked) = tokio::select! {
            asked = asking => asked,
            () = told => return false,
            () = take(reader, shared) => return false,
        };
        match asked {
            Ok((attached, sender, receiver)) => {
                let lost = {
                    let mut state = shared.state();
                    state.vote = self.params.size;
                    state.tail.attached(attached.written, attached.remembered)
                };
                if lost != Lost::default() {
                    writer.push(&Record::Lost { unsent: lost.unsent, unknown: lost.unknown });
                }
                writer.push(&Record::InputAcknowledged(shared.state().tail.acknowledged()));
                shared.room.notify_one();
                shared.upward.notify_one();
                (self.link, self.sender, self.receiver) = (link, sender, receiver);
                true
            }
            Err(failure) => {
                let lost = shared.state().tail.abandon();
                if lost != Lost::default() {
                    writer.push(&Record::Lost { unsent: lost.unsent, unknown: lost.unknown });
                }
                if matches!(failure.code, Code::Gone | Code::NotFound) {
                    // The daemon was started anew and the terminal did not outlive it, or it was closed meanwhile.
                    writer.push(&Record::Ended(Exit::Reason(failure.message)));
                }
                while !writer.is_empty() && writer.flush().await.is_ok() {}
                false
            }
        }
    }
}

/// Takes the consumer's records while there is room for input, until it goes away or breaks the protocol.
async fn take(reader: &mut RecordReader, shared: &Shared) {
    loop {
        if shared.state().tail.room() == 0 {
            shared.room.notified().await;
            continue;
        }
        match reader.next().await {
            Ok(Some(Record::Input { offset, mut bytes })) => {
                let mut state = shared.state();
                // Repeated input is dropped; a gap is no conversation that can go on.
                let Some(known) = state.tail.end().checked_sub(offset) else {
                    return;
                };
                let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
                drop(bytes.split_to(known));
                state.tail.push(&mut bytes);
                if !bytes.is_empty() {
                    // More than the consumer may have unacknowledged.
                    return;
                }
            }
            Ok(Some(Record::Size(size))) => shared.state().vote = Some(size),
            Ok(Some(_)) | Err(_) | Ok(None) => return,
        }
        shared.upward.notify_one();
    }
}

/// Gives the daemon what the consumer typed and voted.
async fn give(sender: &Sender, shared: &Shared) -> Part {
    loop {
        let (record, consumer_gone) = {
            let mut state = shared.state();
            let record = match state.vote.take() {
                Some(size) => Some(Record::Size(size)),
                None => state.tail.next_piece(INPUT_PIECE).map(|(offset, bytes)| Record::Input { offset, bytes }),
            };
            (record, state.consumer_gone)
        };
        match record {
            Some(record) => {
                if sender.send(encode_record(&record)).await.is_err() {
                    return Part::LinkLost;
                }
            }
            None if consumer_gone => {
                sender.finish();
                return Part::ConsumerGone;
            }
            None => shared.upward.notified().await,
        }
    }
}

/// Passes the daemon's records down, as the consumer takes them, and the link's changes between them.
async fn pass_down(
    receiver: &mut Receiver,
    held: &mut Option<u64>,
    shared: &Shared,
    writer: &mut RecordWriter,
    changes: &mut tokio::sync::watch::Receiver<crate::uplink::Status>,
) -> Part {
    loop {
        let record = tokio::select! {
            flushed = writer.flush(), if !writer.is_empty() => match flushed {
                Ok(()) => continue,
                // The taking side notices too, and lets what was typed go up first.
                Err(_) => std::future::pending().await,
            },
            Ok(()) = changes.changed() => changes.borrow_and_update().record(),
            message = receiver.message(), if writer.has_room() => match message {
                Ok(Some(message)) => match message.record() {
                    Ok(record) => record,
                    Err(error) => {
                        tracing::warn!(%error, "the daemon sent what is no record");
                        return Part::LinkLost;
                    }
                },
                Ok(None) | Err(_) => return Part::LinkLost,
            },
        };
        let record = match record {
            Record::InputAcknowledged(offset) => {
                let mut state = shared.state();
                state.tail.acknowledge(offset);
                shared.room.notify_one();
                // The daemon may have started counting anew; the consumer's count never jumps.
                Record::InputAcknowledged(state.tail.acknowledged())
            }
            record => record,
        };
        match &record {
            Record::Snapshot { through, .. } => *held = Some(*through),
            Record::Output { offset, bytes } => *held = Some(offset + bytes.len() as u64),
            _ => {}
        }
        writer.push(&record);
        if matches!(record, Record::Ended(_)) {
            return Part::Ended;
        }
    }
}
