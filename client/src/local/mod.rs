//! The client of a local socket: JSON-RPC 2.0 lines, event streams, and attachments.
//!
//! A connection carries one request at a time. `session.events` and `terminal.attach` take the connection over, so they
//! consume the [`LocalClient`].

mod lines;
mod records;
mod rpc;

use std::io::ErrorKind;
use std::time::Duration;

use keepline_protocol::api::Cursor;
use keepline_protocol::api::session::{Events, EventsStarted};
use keepline_protocol::api::terminal::{Attached, TerminalAttach};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::{Effect, Method, by_name, method};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::bounds::{LINE_TO_CONSUMER_MAX, LINE_TO_SERVER_MAX, REQUEST_GRACE};
use crate::paths::Endpoint;
use rpc::{Notification, Reply, Request};

pub(crate) use lines::{Line, LineBuffer, Lines};
pub use records::{RecordReader, RecordWriter};

/// A connection to a local socket.
#[derive(Debug)]
pub struct LocalClient {
    lines: Lines<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    endpoint: Endpoint,
    requests: u64,
}

/// What `session.events` brings after its answer.
#[derive(Debug)]
pub enum SessionEvent {
    /// One committed transaction: the JSON text of a delta.
    Delta(Box<RawValue>),
    /// The stream starts anew from this document.
    Reset {
        /// Why.
        reason: String,
        /// The JSON text of the complete graph.
        document: Box<RawValue>,
    },
}

/// A subscription to a session's changes.
#[derive(Debug)]
pub struct SessionEvents {
    lines: Lines<OwnedReadHalf>,
    endpoint: Endpoint,
    // An edge that sees its consumer's half closed ends the stream.
    _writer: OwnedWriteHalf,
}

impl LocalClient {
    /// Connects to a local socket.
    ///
    /// # Errors
    /// [`Endpoint::unreachable`] when nobody serves it, [`Code::Failed`] when the system refuses.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, Failure> {
        match UnixStream::connect(&endpoint.path).await {
            Ok(stream) => {
                let (reader, writer) = stream.into_split();
                Ok(LocalClient {
                    lines: Lines::new(reader, LINE_TO_CONSUMER_MAX),
                    writer,
                    endpoint: endpoint.clone(),
                    requests: 0,
                })
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                Err(endpoint.unreachable())
            }
            Err(error) => {
                Err(Failure::new(Code::Failed, format!("cannot connect to {}: {error}", endpoint.path.display())))
            }
        }
    }

    /// Calls `method` and gives its answer as a JSON value.
    ///
    /// # Errors
    /// As [`call_raw`](Self::call_raw).
    pub async fn call(
        &mut self,
        method: &str,
        params: serde_json::Value,
        timeout: Duration,
    ) -> Result<serde_json::Value, Failure> {
        let answer = self.call_raw(method, &params, timeout).await?;
        read_answer(method, &answer)
    }

    /// Calls the method `M` and gives its answer.
    ///
    /// # Errors
    /// As [`call_raw`](Self::call_raw).
    pub async fn request<M: Method>(&mut self, params: &M::Params, timeout: Duration) -> Result<M::Answer, Failure> {
        let answer = self.call_raw(M::NAME, params, timeout).await?;
        read_answer(M::NAME, &answer)
    }

    /// Calls `method` and gives its answer as the JSON text that came. The edge enforces `timeout`; this waits a second
    /// longer.
    ///
    /// # Errors
    /// What the edge answered; [`Code::Timeout`] when it did not answer; [`Code::OutcomeUnknown`] when it went away
    /// during a request that changes something, [`Code::Unreachable`] during another one.
    pub async fn call_raw<P: Serialize + ?Sized>(
        &mut self,
        method: &str,
        params: &P,
        timeout: Duration,
    ) -> Result<Box<RawValue>, Failure> {
        self.requests += 1;
        let id = self.requests;
        let line = Request::line(id, method, params, timeout)?;
        let exchange = async {
            if self.writer.write_all(&line).await.is_err() {
                return Err(lost(method, &self.endpoint));
            }
            loop {
                let reply = match self.lines.next().await {
                    Ok(Some(Line::Whole(line))) => Reply::parse(method, &line)?,
                    Ok(Some(Line::TooLong)) => return Err(too_long(method)),
                    Ok(None) | Err(_) => return Err(lost(method, &self.endpoint)),
                };
                // A notification, or the late answer to a request that was given up.
                if reply.id == Some(id) {
                    return reply.outcome;
                }
                if reply.is_connection_error() {
                    return reply.outcome;
                }
            }
        };
        tokio::time::timeout(timeout + REQUEST_GRACE, exchange).await.unwrap_or_else(|_| {
            Err(Failure::new(Code::Timeout, format!("{method} was not answered within {} s", timeout.as_secs())))
        })
    }

    /// Subscribes to the session's changes after `since`, or to a document and the changes after it.
    ///
    /// # Errors
    /// As [`call_raw`](Self::call_raw).
    pub async fn events(
        mut self,
        since: Option<Cursor>,
        timeout: Duration,
    ) -> Result<(EventsStarted, SessionEvents), Failure> {
        let started = self.request::<method::SessionEvents>(&Events { since }, timeout).await?;
        Ok((started, SessionEvents { lines: self.lines, endpoint: self.endpoint, _writer: self.writer }))
    }

    /// Calls a method behind whose answer notifications come.
    ///
    /// # Errors
    /// As [`call_raw`](Self::call_raw).
    pub async fn stream<P: Serialize + ?Sized>(
        mut self,
        method: &str,
        params: &P,
        timeout: Duration,
    ) -> Result<Notifications, Failure> {
        self.call_raw(method, params, timeout).await?;
        Ok(Notifications { lines: self.lines, endpoint: self.endpoint, _writer: self.writer })
    }

    /// Attaches to a terminal: after the answer the connection carries records only.
    ///
    /// # Errors
    /// As [`call_raw`](Self::call_raw).
    pub async fn attach(
        mut self,
        params: &TerminalAttach,
        timeout: Duration,
    ) -> Result<(Attached, RecordReader, RecordWriter), Failure> {
        let attached = self.request::<method::TerminalAttach>(params, timeout).await?;
        let (reader, rest) = self.lines.into_parts();
        Ok((attached, RecordReader::new(reader, rest), RecordWriter::new(self.writer)))
    }
}

/// The notifications of a method.
#[derive(Debug)]
pub struct Notifications {
    lines: Lines<OwnedReadHalf>,
    endpoint: Endpoint,
    _writer: OwnedWriteHalf,
}

impl Notifications {
    /// Waits for the next one: its method and its parameters.
    ///
    /// # Errors
    /// [`Code::Unreachable`] when the other side went away; [`Code::Failed`] when it said what no edge says.
    pub async fn next(&mut self) -> Result<(String, serde_json::Value), Failure> {
        match self.lines.next().await {
            Ok(Some(Line::Whole(line))) => Notification::plain(&line),
            Ok(Some(Line::TooLong)) => Err(too_long("a notification")),
            Ok(None) | Err(_) => Err(self.endpoint.unreachable()),
        }
    }
}

impl SessionEvents {
    /// Waits for the next change. May be dropped while it waits without losing any.
    ///
    /// # Errors
    /// [`Code::Unreachable`] when the other side went away; [`Code::Failed`] when it said what no edge says.
    pub async fn next(&mut self) -> Result<SessionEvent, Failure> {
        loop {
            match self.lines.next().await {
                Ok(Some(Line::Whole(line))) => {
                    if let Some(event) = Notification::parse(&line)? {
                        return Ok(event);
                    }
                }
                Ok(Some(Line::TooLong)) => return Err(too_long("session.events")),
                Ok(None) | Err(_) => return Err(self.endpoint.unreachable()),
            }
        }
    }
}

fn read_answer<T: serde::de::DeserializeOwned>(method: &str, answer: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(answer.get()).map_err(|error| {
        Failure::new(
            Code::Failed,
            format!("the answer to {method} cannot be read ({error}): is the other side another version?"),
        )
    })
}

fn lost(method: &str, endpoint: &Endpoint) -> Failure {
    let reads = by_name(method).is_none_or(|entry| matches!(entry.effect, Effect::Read | Effect::Stream));
    if reads {
        endpoint.unreachable()
    } else {
        Failure::new(
            Code::OutcomeUnknown,
            format!("the connection was lost during {method}: whether it took effect is not known"),
        )
    }
}

fn too_long(method: &str) -> Failure {
    Failure::new(Code::TooLarge, format!("the answer to {method} is longer than {LINE_TO_CONSUMER_MAX} bytes"))
}

/// Refuses a request that the other side would not read.
fn check_length(method: &str, length: usize) -> Result<(), Failure> {
    if length <= LINE_TO_SERVER_MAX {
        return Ok(());
    }
    Err(Failure::new(
        Code::TooLarge,
        format!("{method} would take {length} bytes and at most {LINE_TO_SERVER_MAX} can be sent at once"),
    ))
}
