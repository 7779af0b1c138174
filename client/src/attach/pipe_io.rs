//! `attach --pipe-io`: an attachment between a program's pipes.
//!
//! stdout carries VT bytes, stdin JSON lines that ask, stderr JSON lines that tell; the last one on stderr says how it
//! ended: `{"exit":{"reason":…,"status":…}}`. Reasons are `terminal-ended` (the status is the program's as a shell gives
//! it, null when it has none), `parent-closed` and `daemon-lost`; when nothing was attached to also `usage`, `not-found`, `refused` and `failed`. The
//! status of all but the first is the exit code.

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::record::LinkState;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

use super::input::Lost;
use super::pipe_line::{Asked, parse};
use super::session::{AttachRequest, Event, Session};
use super::writer::{self, Output};
use crate::bounds::{DRAIN_TIME, FLUSH_TIME, OUTPUT_QUEUE, PIPE_LINE_MAX, SIZE_SETTLE, STDERR_QUEUE};
use crate::local::{Line, LineBuffer};
use crate::paths::Endpoint;

/// What every snapshot but the first follows: full reset, and history cleared.
pub const RESET: &[u8] = b"\x1bc\x1b[3J";

/// The exit code of a usage error, which is not the one of other commands: 2 means that the daemon was lost.
pub const USAGE_EXIT: u8 = 1;
const LOST_EXIT: u8 = 2;

/// How it ended.
struct End {
    reason: &'static str,
    status: Option<i32>,
    exit: u8,
}

impl End {
    fn with_exit(reason: &'static str, exit: u8) -> Self {
        End { reason, status: Some(i32::from(exit)), exit }
    }

    fn of_failure(failure: &Failure) -> Self {
        match failure.code {
            Code::Invalid => End::with_exit("usage", USAGE_EXIT),
            Code::NotFound | Code::Ambiguous => End::with_exit("not-found", 4),
            Code::Refused | Code::Conflict => End::with_exit("refused", 6),
            Code::Unreachable | Code::Timeout | Code::OutcomeUnknown | Code::Busy => {
                End::with_exit("daemon-lost", LOST_EXIT)
            }
            // Only its row is left: there is nothing to start again for.
            Code::Gone => End { reason: "terminal-ended", status: None, exit: 0 },
            _ => End::with_exit("failed", 1),
        }
    }
}

/// Tells a failure from before anything was attached to, in the format of this mode. Gives the exit code.
pub async fn refuse(failure: &Failure) -> u8 {
    let end = End::of_failure(failure);
    let exit = end.exit;
    if let Ok(stderr) = Output::stderr() {
        let mut told = Told::new(stderr);
        told.diagnostic(&failure.message);
        told.exit(&end);
        let _ = tokio::time::timeout(DRAIN_TIME, told.stderr.drained()).await;
    }
    exit
}

/// Attaches stdin, stdout and stderr to a terminal until one of them ends. Gives the exit code.
pub async fn run(endpoint: Endpoint, request: AttachRequest) -> u8 {
    match PipeIo::new(endpoint, request) {
        Ok(mut pipe) => {
            let end = pipe.drive().await;
            pipe.finish(end).await
        }
        Err(failure) => refuse(&failure).await,
    }
}

struct PipeIo {
    session: Session,
    stdin: Receiver<Bytes>,
    lines: LineBuffer,
    line: u64,
    /// Input of a line for which the tail had no room yet.
    input: Bytes,
    observer: bool,
    stdout: Output,
    told: Told,
    asked: Option<Size>,
    /// When a vote should have had its effect.
    settled: Option<Instant>,
    /// Whether the parent was last told a size other than the one asked for.
    mismatch: bool,
    /// When waiting ends, once stdin has ended.
    closing: Option<Instant>,
    signals: [Signal; 3],
}

impl PipeIo {
    fn new(endpoint: Endpoint, request: AttachRequest) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::Failed, format!("cannot start: {error}"));
        Ok(PipeIo {
            stdin: writer::stdin().map_err(failed)?,
            stdout: Output::stdout().map_err(failed)?,
            told: Told::new(Output::stderr().map_err(failed)?),
            signals: [
                signal(SignalKind::terminate()).map_err(failed)?,
                signal(SignalKind::hangup()).map_err(failed)?,
                signal(SignalKind::interrupt()).map_err(failed)?,
            ],
            lines: LineBuffer::new(PIPE_LINE_MAX),
            line: 0,
            input: Bytes::new(),
            observer: request.observer,
            asked: request.size,
            settled: None,
            mismatch: false,
            closing: None,
            session: Session::start(endpoint, request)?,
        })
    }

    async fn drive(&mut self) -> End {
        loop {
            self.take_lines();
            let told = self.session.was_attached() && self.session.is_acknowledged();
            if self.closing.is_some() && self.input.is_empty() && told {
                return End::with_exit("parent-closed", 0);
            }
            if self.stdout.is_broken() {
                return End::with_exit("parent-closed", 0);
            }
            self.told.flush();
            self.session.set_reading(self.stdout.waiting() < OUTPUT_QUEUE as u64);
            let accepts = self.closing.is_none() && self.input.is_empty();
            let [term, hangup, interrupt] = &mut self.signals;
            tokio::select! {
                event = self.session.next() => if let Some(end) = self.on_event(event) {
                    return end;
                },
                piece = self.stdin.recv(), if accepts => match piece {
                    Some(piece) => self.lines.push(&piece),
                    None => self.on_stdin_end(),
                },
                () = self.stdout.progress() => {}
                () = self.told.stderr.progress() => {}
                () = at(self.settled) => {
                    self.settled = None;
                    self.tell_size(true);
                }
                () = at(self.closing) => return End::with_exit("parent-closed", 0),
                _ = term.recv() => return End::with_exit("parent-closed", 0),
                _ = hangup.recv() => return End::with_exit("parent-closed", 0),
                _ = interrupt.recv() => return End::with_exit("parent-closed", 0),
            }
        }
    }

    /// Reads lines until one has input for which there is no room.
    fn take_lines(&mut self) {
        loop {
            self.session.push(&mut self.input);
            if !self.input.is_empty() {
                return;
            }
            let Some(line) = self.lines.take() else {
                return;
            };
            self.on_line(line);
        }
    }

    fn on_line(&mut self, line: Line) {
        self.line += 1;
        let asked = match line {
            Line::Whole(line) => parse(&line),
            Line::TooLong => Err(format!("it is longer than {PIPE_LINE_MAX} bytes")),
        };
        match asked {
            Ok(Asked { input, resize }) => {
                if let Some(size) = resize {
                    self.asked = Some(size);
                    self.settled = Some(Instant::now() + SIZE_SETTLE);
                    if !self.observer {
                        self.session.vote(size);
                    }
                }
                if self.observer && !input.is_empty() {
                    self.told.diagnostic(&format!(
                        "line {} of stdin was skipped: input goes nowhere with --read-only",
                        self.line
                    ));
                } else {
                    self.input = input;
                }
            }
            Err(fault) => self.told.diagnostic(&format!("line {} of stdin was skipped: {fault}", self.line)),
        }
    }

    fn on_stdin_end(&mut self) {
        if let Some(line) = self.lines.rest() {
            self.on_line(line);
        }
        self.closing = Some(Instant::now() + DRAIN_TIME);
    }

    fn on_event(&mut self, event: Event) -> Option<End> {
        match event {
            Event::Snapshot { first, vt } => {
                if !first {
                    self.stdout.push(Bytes::from_static(RESET));
                }
                self.stdout.push(vt);
            }
            Event::Output(bytes) => self.stdout.push(bytes),
            Event::Size(_) => self.tell_size(false),
            Event::Link { state, retry_ms } => self.told.link(state, retry_ms),
            Event::Acknowledged => {}
            Event::Lost(lost) => self.told.lost(lost),
            Event::Ended(exit) => {
                if let keepline_protocol::record::Exit::Reason(reason) = &exit {
                    self.told.diagnostic(&format!("the terminal ended: {reason}"));
                }
                // What is typed at a terminal that ended was meant for nobody else: it is no loss to report.
                self.input.clear();
                self.session.abandon_input();
                return Some(End { reason: "terminal-ended", status: exit.shell_status(), exit: 0 });
            }
            Event::Gone(failure) => {
                self.told.diagnostic(&failure.message);
                return Some(End::of_failure(&failure));
            }
        }
        None
    }

    /// Tells the terminal's size when it is not the one asked for, and when it is again.
    fn tell_size(&mut self, settled: bool) {
        let Some(size) = self.session.size() else {
            return;
        };
        let same = self.asked.is_some_and(|asked| (asked.cols, asked.rows) == (size.cols, size.rows));
        if same {
            self.settled = None;
        }
        if !same || (self.mismatch && !settled) {
            self.told.size(size);
        }
        self.mismatch = !same;
    }

    async fn finish(mut self, end: End) -> u8 {
        let mut lost = self.session.abandon_input();
        lost.unsent += self.input.len() as u64;
        if !lost.is_nothing() {
            self.told.lost(lost);
        }
        // A parent that still holds stdin open may take its time to read the last output; one that closed it gets what
        // is left of its time, and always enough for a stream that is read.
        let soon = || Instant::now() + FLUSH_TIME;
        let mut deadline = match self.closing {
            Some(closing) => Some(closing.max(soon())),
            None => (end.reason == "parent-closed").then(soon),
        };
        wait(&mut self.stdout, &mut self.stdin, &mut self.signals, &mut deadline).await;
        self.told.exit(&end);
        let mut deadline = deadline.map(|_| soon());
        wait(&mut self.told.stderr, &mut self.stdin, &mut self.signals, &mut deadline).await;
        end.exit
    }
}

/// Waits until everything was written, the parent has closed stdin [`DRAIN_TIME`] ago, or a signal comes.
async fn wait(
    output: &mut Output,
    stdin: &mut Receiver<Bytes>,
    signals: &mut [Signal; 3],
    deadline: &mut Option<Instant>,
) {
    let [term, hangup, interrupt] = signals;
    loop {
        tokio::select! {
            biased;
            () = output.drained() => return,
            piece = stdin.recv(), if deadline.is_none() => if piece.is_none() {
                *deadline = Some(Instant::now() + DRAIN_TIME);
            },
            () = at(*deadline) => return,
            _ = term.recv() => return,
            _ = hangup.recv() => return,
            _ = interrupt.recv() => return,
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The lines on stderr. While it is full, states are kept as they are last and losses as their sum.
struct Told {
    stderr: Output,
    link: Option<(LinkState, u32)>,
    size: Option<Size>,
    lost: Lost,
}

impl Told {
    fn new(stderr: Output) -> Self {
        Told { stderr, link: None, size: None, lost: Lost::default() }
    }

    fn line(&mut self, value: &Value) {
        self.stderr.push(Bytes::from(format!("{value}\n")));
    }

    fn has_room(&self) -> bool {
        self.stderr.waiting() < STDERR_QUEUE as u64
    }

    fn diagnostic(&mut self, text: &str) {
        if self.has_room() {
            self.line(&json!({ "diagnostic": text }));
        }
    }

    fn link(&mut self, state: LinkState, retry_ms: u32) {
        self.link = Some((state, retry_ms));
        self.flush();
    }

    fn size(&mut self, size: Size) {
        self.size = Some(size);
        self.flush();
    }

    fn lost(&mut self, lost: Lost) {
        self.lost.unsent = self.lost.unsent.saturating_add(lost.unsent);
        self.lost.unknown = self.lost.unknown.saturating_add(lost.unknown);
        self.flush();
    }

    fn flush(&mut self) {
        if self.has_room() {
            self.flush_now();
        }
    }

    fn flush_now(&mut self) {
        if let Some((state, retry_ms)) = self.link.take() {
            self.line(&json!({"link": {"state": state.name(), "retry_ms": retry_ms}}));
        }
        if let Some(size) = self.size.take() {
            self.line(&json!({"size": {"cols": size.cols, "rows": size.rows}}));
        }
        let lost = std::mem::take(&mut self.lost);
        if !lost.is_nothing() {
            self.line(&json!({"input": {"unsent": lost.unsent, "unknown": lost.unknown}}));
        }
    }

    fn exit(&mut self, end: &End) {
        self.flush_now();
        self.line(&json!({"exit": {"reason": end.reason, "status": end.status}}));
    }
}
