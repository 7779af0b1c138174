//! One attaching program's place in a terminal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::record::Record;
use tokio::sync::watch;

use super::Terminal;
use super::output::{Next, Position};
use crate::bounds::{INTERRUPTED_MAX, INTERRUPTED_MS, SNAPSHOT_HISTORY_LINES};

/// How to attach.
#[derive(Clone, Debug)]
pub struct Attach {
    /// Chosen by the attaching program; its input is counted under this id.
    pub attachment: AttachmentId,
    /// Its size, which is its vote.
    pub size: Option<Size>,
    /// It only watches: no input, no vote.
    pub observer: bool,
    /// The output it holds already; absent for a snapshot first.
    pub from_offset: Option<u64>,
    /// Lines of history in snapshots; absent for [`SNAPSHOT_HISTORY_LINES`].
    pub history: Option<u32>,
}

/// A place in a terminal's output, with a vote for its size and a count of its input.
///
/// Records are pulled: call [`next`](Self::next) until there is nothing, then wait for [`changed`](Self::changed). There
/// is no buffer here; who pulls slowly falls behind, and gets a snapshot when what comes next is forgotten. Dropping the
/// attachment withdraws the vote.
pub struct Attachment {
    terminal: Arc<Terminal>,
    id: AttachmentId,
    seat: u64,
    observer: bool,
    from_offset: Option<u64>,
    history: u32,
    /// Where it is; nothing when it needs a snapshot.
    position: Option<Position>,
    /// Where the offset it has read is noted for others.
    read: Arc<AtomicU64>,
    /// The size that it knows.
    size: Option<Size>,
    acknowledged: u64,
    /// Interrupts that it has heard of.
    interrupts: u64,
    /// Bytes a second that whoever reads it takes, once known.
    rate: Option<u64>,
    /// Records that come before anything else.
    first: VecDeque<Record>,
    changed: watch::Receiver<u64>,
    ended: bool,
}

impl Attachment {
    pub(super) fn new(terminal: Arc<Terminal>, attach: &Attach, seat: u64, read: Arc<AtomicU64>, written: u64) -> Self {
        Attachment {
            id: attach.attachment,
            seat,
            observer: attach.observer,
            history: attach.history.unwrap_or(SNAPSHOT_HISTORY_LINES),
            position: None,
            from_offset: attach.from_offset,
            read,
            size: attach.size,
            acknowledged: written,
            interrupts: terminal.shared.interrupts.load(Ordering::Relaxed),
            rate: None,
            first: VecDeque::new(),
            changed: terminal.shared.changed.subscribe(),
            ended: false,
            terminal,
        }
    }

    /// Takes its place in the output: behind what it holds already, if that can be followed.
    pub(super) fn begin(&mut self) {
        let held = self.from_offset.and_then(|offset| self.terminal.shared.output().position(offset));
        if let Some((position, size)) = held {
            self.position = Some(position);
            self.read.store(position.offset, Ordering::Relaxed);
            let told = self.tell(size);
            self.first.extend(told);
        }
    }

    /// The id under which its input is counted.
    #[must_use]
    pub fn id(&self) -> AttachmentId {
        self.id
    }

    /// The next record, with at most `max` bytes of output; nothing when there is none now, or none any more. A snapshot
    /// may be longer. `Ended` is the last one.
    pub fn next(&mut self, max: usize) -> Option<Record> {
        if let Some(record) = self.first.pop_front() {
            return Some(record);
        }
        if self.ended {
            return None;
        }
        self.changed.mark_unchanged();
        let shared = Arc::clone(&self.terminal.shared);
        let written = shared.ledger().written(self.id);
        if !self.observer && written > self.acknowledged {
            self.acknowledged = written;
            return Some(Record::InputAcknowledged(written));
        }
        self.hear_interrupts(&shared);
        // Whoever sees the end before there is nothing more to read has read everything.
        let exit = shared.exit.borrow().clone();
        loop {
            let Some(mut position) = self.position else {
                return Some(self.snapshot());
            };
            let next = shared.output().read(&mut position, max.max(1));
            self.position = Some(position);
            self.read.store(position.offset, Ordering::Relaxed);
            match next {
                Next::Bytes(offset, bytes) => return Some(Record::Output { offset, bytes }),
                Next::Resize(size) => {
                    if let Some(record) = self.tell(size) {
                        return Some(record);
                    }
                }
                Next::Lagged => self.position = None,
                Next::Nothing => break,
            }
        }
        let exit = exit?;
        self.ended = true;
        let unsent = shared.ledger().waiting(self.id);
        if unsent > 0 && !self.observer {
            self.first.push_back(Record::Ended(exit));
            return Some(Record::Lost { unsent, unknown: 0 });
        }
        Some(Record::Ended(exit))
    }

    /// How many bytes a second are taken from here: what that says of the output before an interrupt, see
    /// [`INTERRUPTED_MAX`].
    pub fn set_rate(&mut self, rate: Option<u64>) {
        self.rate = rate;
    }

    /// After an interrupt a snapshot takes the place of output that would take long to pass.
    fn hear_interrupts(&mut self, shared: &super::shared::Shared) {
        let interrupts = shared.interrupts.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.interrupts, interrupts) == interrupts {
            return;
        }
        let most =
            self.rate.map_or(INTERRUPTED_MAX, |rate| INTERRUPTED_MAX.min(rate.saturating_mul(INTERRUPTED_MS) / 1000));
        let head = shared.output().head();
        self.position = self.position.filter(|position| head.saturating_sub(position.offset) <= most);
    }

    /// Waits until [`next`](Self::next) may have something new. Cancelling it loses nothing.
    pub async fn changed(&mut self) {
        if self.ended && self.first.is_empty() {
            // Nothing comes after the end.
            return std::future::pending().await;
        }
        // The sender lives in the terminal, which this attachment holds.
        let _ = self.changed.changed().await;
    }

    /// What types and votes for this attachment, while the attachment itself is being read.
    #[must_use]
    pub fn hand(&self) -> Hand {
        Hand { terminal: Arc::clone(&self.terminal), id: self.id, seat: self.seat, observer: self.observer }
    }

    fn snapshot(&mut self) -> Record {
        let snapshot = self.terminal.shared.snapshot(self.history);
        self.position = Some(snapshot.position);
        self.read.store(snapshot.position.offset, Ordering::Relaxed);
        let record = Record::Snapshot { through: snapshot.position.offset, vt: snapshot.vt };
        match self.tell(snapshot.size) {
            Some(size) => {
                self.first.push_back(record);
                size
            }
            None => record,
        }
    }

    fn tell(&mut self, size: Size) -> Option<Record> {
        let known = self.size.replace(size);
        (known != Some(size)).then_some(Record::Size(size))
    }
}

/// The typing side of an [`Attachment`]. Once that is dropped it has no vote and what it types is not counted any more.
pub struct Hand {
    terminal: Arc<Terminal>,
    id: AttachmentId,
    seat: u64,
    observer: bool,
}

impl Hand {
    /// Queues input to be written, waiting while too much waits already. What was accepted before is dropped.
    ///
    /// # Errors
    /// When the attachment is an observer, the terminal has ended, or `offset` leaves a gap behind the input before.
    pub async fn input(&self, offset: u64, bytes: Bytes) -> Result<(), Failure> {
        if self.observer {
            return Err(Failure::new(Code::Refused, "an observer cannot type"));
        }
        if self.terminal.shared.seats().acted(self.seat) {
            self.terminal.settle().await;
        }
        self.terminal.input(self.id, offset, bytes).await
    }

    /// Votes for another size, and waits until the terminal has the size that follows.
    pub async fn vote(&self, size: Size) {
        if self.observer {
            return;
        }
        self.terminal.shared.seats().vote(self.seat, size);
        self.terminal.settle().await;
    }

    /// Whether the vote counts, and waits until the terminal has the size that follows. It counts at first.
    pub async fn set_present(&self, present: bool) {
        self.terminal.shared.seats().set_present(self.seat, present);
        self.terminal.settle().await;
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.terminal.shared.seats().leave(self.seat);
        self.terminal.shared.ledger().detach(self.id);
        // Nobody waits for the size that follows.
        drop(self.terminal.resize_as_decided());
    }
}
