//! Terminals: everything from a program on a PTY to an attachment's records.
//!
//! ```text
//!                     pty-io thread                             the daemon's threads
//!  program ⇄ PTY ──▶ reader ──▶ Output (by offset) ─────────▶ Attachment ──▶ records
//!                ▲      └────── chunks, resizes, in order ──▶ parser ──▶ Screen ──▶ snapshots
//!                └── writer ◀── Ledger (once each) ◀── input ──┘ replies ┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `pty`, `launch`, `processes` | the PTY thread; what is started; the processes of a session |
//! | `output` | the newest output and the resizes in it |
//! | `screen` | what output makes of a screen: `keepline_screen`, within a record's and the graph's bounds |
//! | `reading` | what is read of a screen, and waiting for it |
//! | `ledger`, `seats` | which input was written; who is attached and which size they want |
//! | `shared`, `attachment` | what the tasks share; a place in it |

mod attachment;
mod launch;
mod ledger;
mod output;
mod processes;
mod pty;
mod reading;
mod screen;
mod seats;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::api::terminal::Attached;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{AttachmentId, TerminalId};
use keepline_protocol::record::Exit;
use rustix::process::Signal;
use tokio::sync::{oneshot, watch};

use crate::bounds::{CLOSE_TIME, INPUT_PIECE};
use crate::session::Effects;
use pty::Pty;
use shared::Shared;

pub use attachment::{Attach, Attachment, Hand};
pub use launch::Spawn;
pub use pty::PtyIo;
pub use screen::Screen;
pub use seats::Policy;

/// A program on a PTY, with its screen and its newest output.
///
/// It lives on as a screen that can be read when its program has ended. Dropping the last handle hangs up on a program
/// that still runs.
pub struct Terminal {
    id: TerminalId,
    shared: Arc<Shared>,
    pty: Pty,
}

impl Terminal {
    /// Starts a program on a new PTY. Call it on the daemon's runtime, where the parser will run.
    ///
    /// # Errors
    /// `NoSuchProgram` and `CannotStart` as their names say, `Invalid` when the directory is missing.
    pub async fn spawn(io: &PtyIo, mut spawn: Spawn) -> Result<Arc<Terminal>, Failure> {
        spawn.size = screen::fit(spawn.size);
        let id = spawn.id;
        let shared = Arc::new(Shared::new(spawn.size, spawn.history));
        let (pty, jobs) = Pty::start(io, spawn, Arc::clone(&shared) as _).await?;
        tokio::spawn(Arc::clone(&shared).parse(jobs, pty.writer().clone()));
        Ok(Arc::new(Terminal { id, shared, pty }))
    }

    /// The terminal's id.
    #[must_use]
    pub fn id(&self) -> TerminalId {
        self.id
    }

    /// The process id of its program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pty.leader().as_raw_nonzero().get().unsigned_abs()
    }

    /// Attaches: the vote counts and the terminal has its size first, then the records begin, with a snapshot or behind
    /// `from_offset`.
    pub async fn attach(self: &Arc<Self>, attach: Attach) -> (Attached, Attachment) {
        let vote = attach.size.filter(|_| !attach.observer);
        let known = self.shared.ledger().attach(attach.attachment);
        let (seat, read) = self.shared.seats().sit(vote);
        // From here on dropping the attachment gives up the seat, also while this waits.
        let mut attachment = Attachment::new(Arc::clone(self), &attach, seat, read, known.written);
        self.settle().await;
        attachment.begin();
        let attached =
            Attached { terminal: self.id, written: known.written, remembered: known.remembered, size: self.size() };
        (attached, attachment)
    }

    /// The terminal's size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.shared.seats().size()
    }

    /// Says who decides the terminal's size from now on.
    pub async fn set_policy(&self, policy: Policy) {
        self.shared.seats().set_policy(policy);
        self.settle().await;
    }

    /// Writes all of `bytes`, as the input of `attachment` from offset 0, and returns how many of that attachment's bytes
    /// were written. Doing it again under the same id writes nothing again.
    ///
    /// # Errors
    /// When the terminal ends before everything is written.
    pub async fn send(&self, attachment: AttachmentId, bytes: Bytes) -> Result<u64, Failure> {
        let length = bytes.len() as u64;
        self.shared.ledger().attach(attachment);
        // Were this cancelled before, the ledger would count an attachment that never leaves.
        let _seat = Sending { terminal: self, attachment };
        self.input(attachment, 0, bytes).await?;
        self.written(attachment, length).await
    }

    /// Writes what `encode` makes of the terminal's modes, as [`send`](Self::send) does. Under an id that has sent something
    /// it is not made anew: the modes may be others by now.
    ///
    /// # Errors
    /// Those of `encode`, and when the terminal ends before everything is written.
    pub async fn send_encoded(
        &self,
        attachment: AttachmentId,
        encode: impl FnOnce(&keepline_screen::Screen) -> Result<Vec<u8>, Failure>,
    ) -> Result<u64, Failure> {
        let accepted = self.shared.ledger().accepted(attachment);
        if accepted > 0 {
            return self.written(attachment, accepted).await;
        }
        let bytes = self.shared.look(|screen| encode(screen.get()))?;
        self.send(attachment, bytes.into()).await
    }

    /// Waits until so many bytes of this attachment are written.
    async fn written(&self, attachment: AttachmentId, length: u64) -> Result<u64, Failure> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let ended = self.shared.exit.borrow().is_some();
            let written = self.shared.ledger().written(attachment);
            if written >= length {
                return Ok(written);
            }
            if ended {
                let message = format!("the terminal ended; {written} of {length} bytes were written");
                return Err(Failure::new(Code::Gone, message));
            }
            // The sender lives as long as this terminal.
            let _ = changed.changed().await;
        }
    }

    /// Sends a signal by its name, with or without `SIG`, to the foreground process group.
    ///
    /// # Errors
    /// When no signal has that name, the terminal has ended, or the system refuses.
    pub async fn signal(&self, name: &str) -> Result<(), Failure> {
        let signal = processes::named(name)
            .ok_or_else(|| Failure::new(Code::Invalid, format!("there is no signal '{name}' to send")))?;
        self.pty.signal(signal).await
    }

    /// Hangs up on the processes of the terminal's session, kills those that are left after [`CLOSE_TIME`], and waits
    /// until the terminal has ended. Cancelling it does not spare them.
    pub async fn close(&self) {
        let mut exited = self.exited();
        if exited.borrow().is_none() {
            let groups = self.hang_up_on_groups().await;
            let leader = self.pty.leader();
            tokio::spawn(async move {
                tokio::time::sleep(CLOSE_TIME).await;
                let left = session_groups(leader).await;
                // While a group of the session is left its number is nobody else's, and who came late is of it too.
                if !groups.is_disjoint(&left) {
                    processes::signal(&left, Signal::KILL);
                }
            });
        }
        let _ = exited.wait_for(Option::is_some).await;
    }

    /// Hangs up on the processes of the terminal's session, without waiting for what they do.
    pub async fn hang_up(&self) {
        if self.shared.exit.borrow().is_none() {
            self.hang_up_on_groups().await;
        }
    }

    /// Sends SIGHUP and SIGCONT to the process groups of the terminal's session, and returns them.
    async fn hang_up_on_groups(&self) -> BTreeSet<i32> {
        let groups = session_groups(self.pty.leader()).await;
        processes::signal(&groups, Signal::HUP);
        processes::signal(&groups, Signal::CONT);
        groups
    }

    /// Hangs up on its processes for a reason of the daemon's own, which is then how the terminal ended.
    pub async fn end_because(&self, reason: &'static str) {
        // The first reason stays.
        let _ = self.shared.reason.set(reason);
        self.hang_up().await;
    }

    /// How the terminal ended, once its program is reaped and its output is drained and shown.
    #[must_use]
    pub fn exited(&self) -> watch::Receiver<Option<Exit>> {
        self.shared.exit.subscribe()
    }

    /// What its output did besides changing the screen. Whoever notes it takes it.
    #[must_use]
    pub fn effects(&self) -> &watch::Sender<Effects> {
        &self.shared.effects
    }

    /// The size that the terminal has, and each change of it.
    #[must_use]
    pub fn sizes(&self) -> watch::Receiver<Size> {
        self.shared.size.subscribe()
    }

    async fn input(&self, id: AttachmentId, offset: u64, mut bytes: Bytes) -> Result<(), Failure> {
        let mut offset = offset;
        while !bytes.is_empty() {
            let mut piece = bytes.split_to(bytes.len().min(INPUT_PIECE));
            let length = piece.len();
            let permits = u32::try_from(length).expect("a piece is far below 4 GiB");
            let room = Arc::clone(&self.shared.room);
            let mut permit = room
                .acquire_many_owned(permits)
                .await
                .map_err(|_| Failure::new(Code::Gone, "the terminal has ended"))?;
            // Accepted and queued under one lock, so that the queue has the ledger's order.
            let mut ledger = self.shared.ledger();
            let skipped =
                ledger.accept(id, offset, length).map_err(|gap| Failure::new(Code::Invalid, gap.to_string()))?;
            if skipped < length {
                self.shared.typed.fetch_add((length - skipped) as u64, Ordering::Relaxed);
                drop(permit.split(skipped));
                let written = piece.split_off(skipped);
                if self.pty.writer().input(id, written, permit) {
                    self.shared.interrupted();
                }
            }
            drop(ledger);
            offset = offset.saturating_add(length as u64);
        }
        Ok(())
    }

    /// Gives the terminal the size that policy and votes say now, and waits until it has it.
    async fn settle(&self) {
        if let Some(done) = self.resize_as_decided() {
            // A terminal that ended keeps its size.
            let _ = done.await;
        }
    }

    fn resize_as_decided(&self) -> Option<oneshot::Receiver<()>> {
        if self.shared.exit.borrow().is_some() {
            return None;
        }
        // Decided and told under one lock, so that the terminal is told in the order of the decisions.
        let mut seats = self.shared.seats();
        seats.settle().map(|size| self.pty.resize(size))
    }
}

/// The one-shot attachment of [`Terminal::send`].
struct Sending<'a> {
    terminal: &'a Terminal,
    attachment: AttachmentId,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.terminal.shared.ledger().detach(self.attachment);
    }
}

async fn session_groups(leader: rustix::process::Pid) -> BTreeSet<i32> {
    let groups = tokio::task::spawn_blocking(move || processes::groups(leader)).await;
    groups.unwrap_or_default()
}
