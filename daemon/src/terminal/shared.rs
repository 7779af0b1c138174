//! What the tasks of one terminal share, and the parser task.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::id::AttachmentId;
use keepline_protocol::record::Exit;
use keepline_screen::Limits;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::ledger::Ledger;
use super::output::{Output, Position};
use super::pty::{Job, Listener, Writer};
use super::screen::Screen;
use super::seats::Seats;
use crate::bounds::{INPUT_WAITING_MAX, OUTPUT_QUIET, QUIET_AFTER};
use crate::session::Effects;

/// The screen, and how many of the terminal's resizes it has taken.
struct Parsed {
    screen: Screen,
    resizes: u64,
}

/// A screen written down.
pub(super) struct Snapshot {
    /// Where the output goes on behind it.
    pub(super) position: Position,
    pub(super) size: Size,
    pub(super) vt: Bytes,
}

/// The state of one terminal.
///
/// Output and screen have locks of their own, so that a reader of output never waits for the parser. No lock is held
/// while anything waits, nor while another one is taken.
pub(super) struct Shared {
    output: Mutex<Output>,
    parsed: Mutex<Parsed>,
    ledger: Mutex<Ledger>,
    seats: Mutex<Seats>,
    /// One permit per byte of input that may wait to be written. It is closed when the terminal ends.
    pub(super) room: Arc<Semaphore>,
    /// Changes whenever an attachment may have something new.
    pub(super) changed: watch::Sender<u64>,
    /// Counts interrupts among the input.
    pub(super) interrupts: AtomicU64,
    pub(super) exit: watch::Sender<Option<Exit>>,
    /// Why the daemon ends the terminal, which says more than how its program took that.
    pub(super) reason: OnceLock<&'static str>,
    /// What the output did besides changing the screen, gathered until it is taken.
    pub(super) effects: watch::Sender<Effects>,
    pub(super) size: watch::Sender<Size>,
    /// How much output the screen shows.
    pub(super) shown: watch::Sender<u64>,
    /// Bytes of input that were accepted, of all attachments.
    pub(super) typed: AtomicU64,
    /// What `typed` was when the shell showed the prompt at which it waits; [`NO_PROMPT`] when it waits at none.
    prompted: AtomicU64,
}

const NO_PROMPT: u64 = u64::MAX;

impl Shared {
    pub(super) fn new(size: Size, history: Limits) -> Self {
        Shared {
            output: Mutex::new(Output::new(size)),
            parsed: Mutex::new(Parsed { screen: Screen::new(size, history), resizes: 0 }),
            ledger: Mutex::default(),
            seats: Mutex::new(Seats::new(size)),
            room: Arc::new(Semaphore::new(INPUT_WAITING_MAX)),
            changed: watch::Sender::new(0),
            interrupts: AtomicU64::new(0),
            exit: watch::Sender::new(None),
            reason: OnceLock::new(),
            effects: watch::Sender::default(),
            size: watch::Sender::new(size),
            shown: watch::Sender::new(0),
            typed: AtomicU64::new(0),
            prompted: AtomicU64::new(NO_PROMPT),
        }
    }

    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        lock(&self.output)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(super) fn seats(&self) -> MutexGuard<'_, Seats> {
        lock(&self.seats)
    }

    /// Looks at the screen as it is.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Screen) -> R) -> R {
        look(&lock(&self.parsed).screen)
    }

    /// Writes the screen down.
    pub(super) fn snapshot(&self, history_lines: u32) -> Snapshot {
        let parsed = lock(&self.parsed);
        let vt = parsed.screen.snapshot(history_lines);
        Snapshot {
            position: Position { offset: parsed.screen.through(), resizes: parsed.resizes },
            size: parsed.screen.size(),
            vt,
        }
    }

    /// Wakes whoever waits for something new.
    pub(super) fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Somebody interrupted the program: who has much output before them does not want to see it any more.
    pub(super) fn interrupted(&self) {
        self.interrupts.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Whether the shell waits at a prompt at which nothing was typed yet.
    pub(super) fn at_prompt(&self) -> bool {
        self.prompted.load(Ordering::Relaxed) == self.typed.load(Ordering::Relaxed)
    }

    /// Does what the PTY's reader hands over, until the terminal ends.
    pub(super) async fn parse(self: Arc<Self>, mut jobs: mpsc::Receiver<Job>, writer: Writer) {
        let mut resting = false;
        let exit = loop {
            let job = if resting {
                jobs.recv().await
            } else {
                match timeout(QUIET_AFTER, jobs.recv()).await {
                    Ok(job) => job,
                    Err(_) => {
                        resting = self.rest();
                        continue;
                    }
                }
            };
            resting = false;
            match job {
                Some(Job::Output(bytes)) => {
                    let (fed, through) = {
                        let screen = &mut lock(&self.parsed).screen;
                        (screen.feed(&bytes), screen.through())
                    };
                    writer.reply(fed.replies);
                    self.gather(fed.effects);
                    if let Some(waits) = fed.prompts {
                        let typed = if waits { self.typed.load(Ordering::Relaxed) } else { NO_PROMPT };
                        self.prompted.store(typed, Ordering::Relaxed);
                    }
                    self.shown.send_replace(through);
                    // A program that floods must not keep others from this thread.
                    tokio::task::yield_now().await;
                }
                Some(Job::Resize(size, done)) => {
                    {
                        let mut parsed = lock(&self.parsed);
                        parsed.screen.resize(size);
                        parsed.resizes += 1;
                    }
                    let _ = done.send(());
                }
                Some(Job::End(exit)) => break exit,
                None => break Exit::Reason("the daemon let go of the terminal".to_owned()),
            }
        };
        let exit = match self.reason.get() {
            Some(reason) => Exit::Reason((*reason).to_owned()),
            None => exit,
        };
        self.room.close();
        self.exit.send_replace(Some(exit));
        self.wake();
        // Nothing comes any more; what has been read need not be kept.
        tokio::time::sleep(QUIET_AFTER).await;
        self.rest();
    }

    fn gather(&self, effects: Effects) {
        if effects.is_empty() {
            return;
        }
        self.effects.send_modify(|gathered| gathered.add(effects));
    }

    /// Gives memory back when everybody has caught up, and returns whether that was so.
    fn rest(&self) -> bool {
        let head = self.output().head();
        let caught_up = self.seats().caught_up(head);
        if caught_up {
            self.output().shrink(OUTPUT_QUIET);
            lock(&self.parsed).screen.shrink();
        }
        caught_up
    }
}

impl Listener for Shared {
    fn output(&self, bytes: &[u8]) {
        lock(&self.output).append(bytes);
        self.wake();
    }

    fn resized(&self, size: Size) {
        lock(&self.output).resize(size);
        self.size.send_replace(size);
        self.wake();
    }

    fn wrote(&self, attachment: AttachmentId, length: usize) {
        lock(&self.ledger).wrote(attachment, length);
        self.wake();
    }
}

/// A lock whose holder panicked still guards a whole state: nothing here panics halfway through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
