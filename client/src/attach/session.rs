//! The engine of both ways to attach: one attachment, kept alive across lost local connections.
//!
//! ```text
//!                 ┌──────────── refused for good, or 5 s over ───────────┐
//!                 │                                                      ▼
//!   start ──→ attaching ──answer──→ attached ──ended──────────────────→ over
//!                 ▲  │ no answer        │
//!                 │  ▼                  │ connection lost, or nonsense on it
//!               waiting ←───────────────┘
//! ```
//!
//! The caller drives it: it calls [`Session::next`] in its `select!`, which may be dropped at any await without losing
//! or doubling anything, pushes input with [`Session::push`], and says with [`Session::set_reading`] when it cannot take more output. Nothing
//! happens between two calls.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use keepline_protocol::api::Size;
use keepline_protocol::api::terminal::{Attached, TerminalAttach};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{AttachmentId, TerminalId};
use keepline_protocol::record::{Exit, LinkState, Record};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::input::{Lost, Tail};
use crate::bounds::{INPUT_PIECE, REATTACH_PAUSE, REATTACH_TIME, VIOLATIONS_MAX};
use crate::local::{LocalClient, RecordReader, RecordWriter};
use crate::paths::Endpoint;

/// What is attached to, and how.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// Id or unique name.
    pub terminal: String,
    /// The size that is voted for; nothing for no vote.
    pub size: Option<Size>,
    /// Whether to watch only.
    pub observer: bool,
    /// Lines of history in a snapshot.
    pub history: u32,
    /// Deadline of the first attach.
    pub timeout: Duration,
    /// Whether the first attach is tried again for a while like every later one, when nobody answers it.
    pub patient: bool,
}

/// What happened to an attachment. Each happens once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The exact screen, as bytes for a fresh terminal.
    Snapshot {
        /// Whether nothing was delivered before it.
        first: bool,
        /// The bytes.
        vt: Bytes,
    },
    /// Output that follows what was delivered.
    Output(Bytes),
    /// The terminal's size, at first and when it changed.
    Size(Size),
    /// The link's state, or that of the local connection when that is lost, when it changed.
    Link {
        /// The state.
        state: LinkState,
        /// Milliseconds until the next try; 0 when none is planned.
        retry_ms: u32,
    },
    /// Input was acknowledged: there may be room for more.
    Acknowledged,
    /// Input was lost.
    Lost(Lost),
    /// The terminal ended. The last event.
    Ended(Exit),
    /// The attachment ended and the terminal maybe not. The last event.
    Gone(Failure),
}

type Attaching = Pin<Box<dyn Future<Output = Result<(Attached, RecordReader, RecordWriter), Failure>> + Send>>;

enum State {
    Attaching(Attaching),
    Waiting(Instant),
    Attached(RecordReader, RecordWriter),
    Over,
}

/// One attachment. See the module for how it is driven.
pub struct Session {
    endpoint: Endpoint,
    params: TerminalAttach,
    timeout: Duration,
    history: u32,
    state: State,
    terminal: Option<TerminalId>,
    tail: Tail,
    /// The offset up to which output was delivered; nothing when only a snapshot can go on.
    held: Option<u64>,
    delivered: bool,
    size: Option<Size>,
    vote_due: bool,
    link: (LinkState, u32),
    /// When trying to attach again ends.
    deadline: Option<Instant>,
    violations: u32,
    reading: bool,
    events: VecDeque<Event>,
}

impl Session {
    /// Begins to attach, under a new attachment id.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn start(endpoint: Endpoint, request: AttachRequest) -> Result<Self, Failure> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)
            .map_err(|error| Failure::new(Code::Failed, format!("no randomness from the system: {error}")))?;
        let mut session = Session {
            endpoint,
            params: TerminalAttach {
                terminal: request.terminal,
                attachment: AttachmentId::from_bytes(id),
                size: request.size,
                observer: Some(request.observer),
                from_offset: None,
                history: Some(request.history),
            },
            timeout: request.timeout,
            history: request.history,
            state: State::Over,
            terminal: None,
            tail: Tail::new(0),
            held: None,
            delivered: false,
            size: None,
            vote_due: false,
            link: (LinkState::Up, 0),
            deadline: request.patient.then(|| Instant::now() + REATTACH_TIME),
            violations: 0,
            reading: true,
            events: VecDeque::new(),
        };
        session.begin();
        Ok(session)
    }

    /// Waits for the first attach and gives the terminal. Events wait for [`next`](Self::next).
    ///
    /// # Errors
    /// Why it cannot be attached to.
    pub async fn attached(&mut self) -> Result<TerminalId, Failure> {
        loop {
            if let Some(terminal) = self.terminal {
                return Ok(terminal);
            }
            if let Some(Event::Gone(failure)) = self.events.back() {
                return Err(failure.clone());
            }
            self.step().await;
        }
    }

    /// Waits for the next event. After the last one it waits for ever.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.step().await;
        }
    }

    /// Says whether output may be read. While it may not, input flows on as far as the tail has room.
    pub fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
    }

    /// Bytes of input that may be pushed now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.tail.room()
    }

    /// Takes as much of `input` as there is room for.
    pub fn push(&mut self, input: &mut Bytes) {
        self.tail.push(input);
    }

    /// Whether all input was acknowledged or reported as lost.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.tail.is_empty()
    }

    /// Whether it was attached once.
    #[must_use]
    pub fn was_attached(&self) -> bool {
        self.terminal.is_some()
    }

    /// Where the input ends that was pushed, and the offset below which it is acknowledged or reported as lost.
    #[must_use]
    pub fn input(&self) -> (u64, u64) {
        (self.tail.end(), self.tail.acknowledged())
    }

    /// Gives up the input that is not acknowledged, and names it.
    pub fn abandon_input(&mut self) -> Lost {
        self.tail.abandon()
    }

    /// Votes for a size, now and whenever the attachment is renewed.
    pub fn vote(&mut self, size: Size) {
        self.params.size = Some(size);
        self.vote_due = true;
    }

    /// The terminal's size, as far as it is known.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        self.size
    }

    /// Asks for a fresh snapshot without history, because what is on the screen is no longer what was delivered.
    pub fn repaint(&mut self) {
        if matches!(self.state, State::Attached(..)) {
            self.held = None;
            self.params.history = Some(0);
            self.deadline = Some(Instant::now() + REATTACH_TIME);
            self.begin();
        }
    }

    async fn step(&mut self) {
        match &mut self.state {
            State::Over => std::future::pending().await,
            State::Waiting(until) => {
                sleep_until(*until).await;
                self.begin();
            }
            State::Attaching(attaching) => match attaching.await {
                Ok((attached, reader, writer)) => self.on_attached(attached, reader, writer),
                Err(failure) => self.on_refused(failure),
            },
            State::Attached(reader, writer) => {
                if std::mem::take(&mut self.vote_due)
                    && let Some(size) = self.params.size
                {
                    writer.push(&Record::Size(size));
                }
                while writer.has_room()
                    && let Some((offset, bytes)) = self.tail.next_piece(INPUT_PIECE)
                {
                    writer.push(&Record::Input { offset, bytes });
                }
                let writes = !writer.is_empty();
                let record = tokio::select! {
                    record = reader.next(), if self.reading => record,
                    flushed = writer.flush(), if writes => match flushed {
                        Ok(()) => return,
                        Err(error) => Err(error),
                    },
                    else => std::future::pending().await,
                };
                match record {
                    Ok(Some(record)) => self.on_record(record),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        self.violated(&error.to_string());
                    }
                    Ok(None) | Err(_) => self.lose(),
                }
            }
        }
    }

    fn begin(&mut self) {
        self.params.from_offset = self.held;
        // The attach itself carries the vote; a later one is sent after it.
        self.vote_due = false;
        let (endpoint, params) = (self.endpoint.clone(), self.params.clone());
        let now = Instant::now();
        // Behind a relay the edge itself waits for a carrier, so that one try may take all the time there is.
        let time = self.deadline.map_or(self.timeout, |deadline| deadline - now);
        let until = self.deadline;
        self.state = State::Attaching(Box::pin(async move {
            let attach = async { LocalClient::connect(&endpoint).await?.attach(&params, time).await };
            match until {
                None => attach.await,
                Some(until) => timeout_at(until, attach).await.unwrap_or_else(|_| Err(endpoint.unreachable())),
            }
        }));
    }

    fn on_attached(&mut self, attached: Attached, reader: RecordReader, writer: RecordWriter) {
        self.state = State::Attached(reader, writer);
        self.deadline = None;
        self.terminal = Some(attached.terminal);
        // The name may mean another terminal by the next time; the id does not.
        self.params.terminal = attached.terminal.to_string();
        self.params.history = Some(self.history);
        self.on_link(LinkState::Up, 0);
        let lost = self.tail.attached(attached.written, attached.remembered);
        if !lost.is_nothing() {
            self.events.push_back(Event::Lost(lost));
        }
        self.on_size(attached.size);
    }

    fn on_refused(&mut self, failure: Failure) {
        let later = matches!(failure.code, Code::Unreachable | Code::Timeout | Code::OutcomeUnknown | Code::Busy);
        let next = Instant::now() + REATTACH_PAUSE;
        if later && self.deadline.is_some_and(|deadline| next < deadline) {
            self.state = State::Waiting(next);
        } else {
            self.end(Event::Gone(failure));
        }
    }

    fn on_record(&mut self, record: Record) {
        match record {
            Record::Snapshot { through, vt } => {
                self.held = Some(through);
                let first = !std::mem::replace(&mut self.delivered, true);
                self.events.push_back(Event::Snapshot { first, vt });
            }
            Record::Output { offset, bytes } => self.on_output(offset, bytes),
            Record::Size(size) => self.on_size(size),
            Record::InputAcknowledged(offset) => {
                self.tail.acknowledge(offset);
                self.events.push_back(Event::Acknowledged);
            }
            Record::Link { state, retry_ms } => self.on_link(state, retry_ms),
            Record::Lost { unsent, unknown } => {
                let lost = Lost { unsent, unknown };
                self.tail.drop_lost(lost);
                self.events.push_back(Event::Lost(lost));
            }
            Record::Ended(exit) => self.end(Event::Ended(exit)),
            Record::Input { .. } => self.violated("input came from the wrong side"),
        }
    }

    fn on_output(&mut self, offset: u64, mut bytes: Bytes) {
        let Some(held) = self.held.filter(|&held| offset <= held) else {
            self.held = None;
            return self.violated("output is missing");
        };
        let known = held - offset;
        if known < bytes.len() as u64 {
            // Below the length of bytes in memory.
            bytes.advance(usize::try_from(known).unwrap_or(0));
            self.held = Some(held + bytes.len() as u64);
            self.events.push_back(Event::Output(bytes));
        }
    }

    fn on_size(&mut self, size: Size) {
        if self.size.replace(size) != Some(size) {
            self.events.push_back(Event::Size(size));
        }
    }

    fn on_link(&mut self, state: LinkState, retry_ms: u32) {
        if std::mem::replace(&mut self.link, (state, retry_ms)) != (state, retry_ms) {
            self.events.push_back(Event::Link { state, retry_ms });
        }
    }

    fn violated(&mut self, what: &str) {
        self.violations += 1;
        if self.violations < VIOLATIONS_MAX {
            return self.lose();
        }
        self.end(Event::Gone(Failure::new(
            Code::Failed,
            format!("the local socket does not keep to the protocol ({what})"),
        )));
    }

    fn lose(&mut self) {
        let now = Instant::now();
        self.deadline = Some(now + REATTACH_TIME);
        self.state = State::Waiting(now);
        self.on_link(LinkState::Down, u32::try_from(REATTACH_PAUSE.as_millis()).unwrap_or(0));
    }

    fn end(&mut self, event: Event) {
        self.state = State::Over;
        self.events.push_back(event);
    }
}
