//! `attach` for a person: an attachment on the terminal in front of them.
//!
//! The terminal goes into raw mode, shows the snapshot and what follows, and is put back on every way out. While the
//! link is down one status line says so; it is painted over the screen, so that a fresh snapshot follows when the link
//! is back.

use std::io::IsTerminal;
use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_protocol::record::{Exit, LinkState};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use super::escape::{Action, Escapes};
use super::predict::{Predictor, When};
use super::queries::Queries;
use super::screen::{self, Raw};
use super::session::{AttachRequest, Event, Session};
use super::writer::{self, Output};
use crate::bounds::{DETACH_TIME, OUTPUT_QUEUE, RESTORE_TIME, STATUS_AFTER};
use crate::cli::text::clean;
use crate::paths::{Endpoint, Whose};

const HELP: &str = "~.  detach    ~~  send ~    ~?  this help    (at the start of a line)";

/// How a person's terminal is treated.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// When typed characters are shown before their echo.
    pub predict: When,
    /// Whether programs may write to the clipboard (OSC 52).
    pub clipboard: bool,
}

/// How an attachment of a person ended: what to say and the exit code.
struct End {
    text: String,
    exit: u8,
}

/// Whether stdin and stdout are a terminal.
///
/// # Errors
/// [`Code::Invalid`], naming what to use instead, when one is not.
pub fn check_terminal() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(
        Code::Invalid,
        "attach needs a terminal on stdin and stdout; a program uses attach --terminal ID --pipe-io",
    ))
}

/// The size of the terminal in front of the person, when it says one.
#[must_use]
pub fn size() -> Option<keepline_protocol::api::Size> {
    screen::size()
}

/// Attaches the person's terminal until they detach, the terminal ends or the daemon is lost. Gives the exit code.
///
/// # Errors
/// When nothing was attached to; the terminal was not touched then.
pub async fn run(endpoint: Endpoint, mut request: AttachRequest, manner: Manner) -> Result<u8, Failure> {
    check_terminal()?;
    let failed = |error: std::io::Error| Failure::new(Code::Failed, format!("cannot attach: {error}"));
    let observer = request.observer;
    request.size = screen::size().filter(|_| !observer);
    request.patient = false;
    let machine = match &endpoint.whose {
        Whose::Machine(machine) => format!("--machine {machine} "),
        Whose::OwnDaemon | Whose::Given => String::new(),
    };
    let mut session = Session::start(endpoint, request)?;
    let terminal = session.attached().await?;
    // Before raw mode, so that no signal between the two ends the process without restoring.
    let signals = Signals {
        term: signal(SignalKind::terminate()).map_err(failed)?,
        hangup: signal(SignalKind::hangup()).map_err(failed)?,
        interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        resized: signal(SignalKind::window_change()).map_err(failed)?,
    };
    let stdout = Output::stdout().map_err(failed)?;
    let raw = Raw::enter().map_err(failed)?;
    let mut person = Person {
        session,
        terminal,
        machine,
        observer,
        stdin: writer::stdin().map_err(failed)?,
        stdout,
        signals,
        escapes: Escapes::new(observer),
        queries: Queries::new(manner.clipboard),
        predictor: Predictor::new(if observer { When::Never } else { manner.predict }),
        input: Bytes::new(),
        link_down: None,
        status_due: None,
        covered: false,
    };
    person.show(&screen::entry(screen::size().map_or(24, |size| size.rows)));
    let end = person.drive().await;
    Ok(person.finish(raw, end).await)
}

struct Signals {
    term: Signal,
    hangup: Signal,
    interrupt: Signal,
    resized: Signal,
}

struct Person {
    session: Session,
    terminal: TerminalId,
    /// What a command needs before it to mean the same machine.
    machine: String,
    observer: bool,
    stdin: Receiver<Bytes>,
    stdout: Output,
    signals: Signals,
    escapes: Escapes,
    queries: Queries,
    predictor: Predictor,
    /// Typed input for which the tail had no room yet.
    input: Bytes,
    /// The link's state and the moment of its next try, while it is not up.
    link_down: Option<(LinkState, Instant)>,
    status_due: Option<Instant>,
    /// Whether a status line covers a row of the screen.
    covered: bool,
}

impl Person {
    async fn drive(&mut self) -> End {
        loop {
            self.session.push(&mut self.input);
            self.session.set_reading(self.stdout.waiting() < OUTPUT_QUEUE as u64);
            let signals = &mut self.signals;
            tokio::select! {
                event = self.session.next() => if let Some(end) = self.on_event(event) {
                    return end;
                },
                typed = self.stdin.recv(), if self.input.is_empty() => match typed {
                    Some(typed) => if let Some(end) = self.on_typed(&typed).await {
                        return end;
                    },
                    None => return End { text: "stdin was closed".to_owned(), exit: 1 },
                },
                () = self.stdout.progress() => {}
                () = due(self.status_due) => self.paint_link(),
                () = due(self.predictor.due().map(Instant::from_std)) => {
                    self.predictor.expire(std::time::Instant::now());
                    self.redraw();
                }
                _ = signals.resized.recv() => {
                    self.clear();
                    if let Some(size) = self.session.size() {
                        self.predictor.resized(size, fits(size));
                    }
                    if let Some(size) = screen::size().filter(|_| !self.observer) {
                        self.session.vote(size);
                    }
                }
                _ = signals.term.recv() => return ended_by("SIGTERM", 15),
                _ = signals.hangup.recv() => return ended_by("SIGHUP", 1),
                _ = signals.interrupt.recv() => return ended_by("SIGINT", 2),
            }
        }
    }

    async fn on_typed(&mut self, typed: &[u8]) -> Option<End> {
        let actions = self.escapes.typed(typed);
        if self.covered && self.link_down.is_none() {
            self.session.repaint();
            self.covered = false;
        }
        let mut input = Vec::new();
        let mut detaches = false;
        for action in actions {
            match action {
                Action::Send(bytes) => input.extend_from_slice(&bytes),
                Action::Help => self.paint(HELP),
                Action::Detach => detaches = true,
            }
        }
        if !self.observer && !input.is_empty() {
            let end = self.session.input().0 + input.len() as u64;
            if !self.covered {
                self.predictor.typed(&input, end, std::time::Instant::now());
                self.redraw();
            }
            self.input = input.into();
        }
        if !detaches {
            return None;
        }
        if self.link_down.is_none() {
            self.settle().await;
        }
        Some(End {
            text: format!("detached; again with: keepline {}attach --terminal {}", self.machine, self.terminal),
            exit: 0,
        })
    }

    /// Waits a moment for what was typed before a detach to be acknowledged.
    async fn settle(&mut self) {
        self.session.set_reading(true);
        let settled = async {
            loop {
                self.session.push(&mut self.input);
                if self.input.is_empty() && self.session.is_acknowledged() {
                    return;
                }
                if matches!(self.session.next().await, Event::Ended(_) | Event::Gone(_)) {
                    return;
                }
            }
        };
        let _ = timeout(DETACH_TIME, settled).await;
    }

    fn on_event(&mut self, event: Event) -> Option<End> {
        match event {
            Event::Snapshot { first, vt } => {
                if !first {
                    self.show(screen::AFRESH);
                }
                // A snapshot starts from a terminal in ground state.
                self.queries.reset();
                if let Some(size) = self.session.size() {
                    self.predictor.begin(size, fits(size));
                }
                self.show_bytes(&vt);
                self.covered = false;
            }
            Event::Output(bytes) => self.show_bytes(&bytes),
            Event::Size(size) => {
                self.clear();
                self.predictor.resized(size, fits(size));
            }
            Event::Acknowledged => {
                self.predictor.written(self.session.input().1, std::time::Instant::now());
                self.redraw();
            }
            Event::Link { state: LinkState::Up, .. } => {
                self.link_down = None;
                self.status_due = None;
                if self.covered {
                    self.session.repaint();
                    self.covered = false;
                }
            }
            Event::Link { state, retry_ms } => {
                self.clear();
                let now = Instant::now();
                let next = now + Duration::from_millis(u64::from(retry_ms));
                let was_up = self.link_down.replace((state, next)).is_none();
                if was_up {
                    self.status_due = Some(now + STATUS_AFTER);
                } else if self.covered {
                    self.paint_link();
                }
            }
            Event::Lost(lost) => {
                self.paint(&format!("{} typed bytes were not sent, {} maybe", lost.unsent, lost.unknown))
            }
            Event::Ended(exit) => {
                return Some(End {
                    text: match exit {
                        Exit::Status(status) => format!("terminal ended: exit status {status}"),
                        Exit::Signal(signal) => format!("terminal ended: signal {signal}"),
                        Exit::Reason(reason) => format!("terminal ended: {}", clean(&reason)),
                    },
                    exit: 0,
                });
            }
            Event::Gone(failure) => {
                return Some(End {
                    text: clean(&failure.message).into_owned(),
                    exit: match failure.code {
                        Code::NotFound | Code::Refused | Code::Gone => failure.code.exit(),
                        _ => 1,
                    },
                });
            }
        }
        None
    }

    fn paint_link(&mut self) {
        self.status_due = None;
        let Some((state, next)) = self.link_down else {
            return;
        };
        let left = next.saturating_duration_since(Instant::now());
        let text = match state {
            LinkState::Connecting => "link down, connecting".to_owned(),
            _ if left.is_zero() => "link down, trying again".to_owned(),
            _ => format!("link down, trying again in {:.1} s", left.as_secs_f64()),
        };
        self.paint(&format!("[keepline: {text}; ~. detaches]"));
    }

    fn paint(&mut self, text: &str) {
        self.clear();
        let cols = screen::size().map_or(80, |size| size.cols);
        self.show(&screen::status(text, cols));
        self.covered = true;
    }

    fn show(&mut self, text: &str) {
        if !text.is_empty() {
            self.stdout.push(Bytes::copy_from_slice(text.as_bytes()));
        }
    }

    fn show_bytes(&mut self, bytes: &[u8]) {
        let shown = self.queries.filter(bytes);
        if shown.is_empty() {
            return;
        }
        self.hide();
        self.predictor.fed(&shown, std::time::Instant::now());
        self.stdout.push(shown);
        self.redraw();
    }

    /// Shows the guesses that there are now, and no others.
    fn redraw(&mut self) {
        self.hide();
        let over = self.predictor.over();
        self.show(&over);
    }

    fn hide(&mut self) {
        let hidden = self.predictor.hide();
        self.show(&hidden);
    }

    /// Takes all guesses away.
    fn clear(&mut self) {
        self.hide();
        self.predictor.give_up();
    }

    async fn finish(mut self, raw: Raw, end: End) -> u8 {
        self.show(screen::RESTORE);
        self.show(&format!("[keepline: {}]\r\n", end.text));
        // A terminal that takes nothing any more must not keep the process.
        let _ = timeout(RESTORE_TIME, self.stdout.drained()).await;
        raw.leave();
        end.exit
    }
}

fn ended_by(name: &str, number: u8) -> End {
    End { text: format!("ended by {name}"), exit: 128 + number }
}

/// Whether a terminal of this size shows its cells where the person's terminal has them.
fn fits(size: keepline_protocol::api::Size) -> bool {
    screen::size().is_some_and(|own| (own.cols, own.rows) == (size.cols, size.rows))
}

async fn due(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
