//! What was committed, for those who read and follow the graph.
//!
//! Readers never wait for the disk: they see the state as of the last commit, under a lock that is held for pointers
//! only. Who follows the graph is a position in the one tail of deltas; there is no queue per follower, so a slow one
//! costs nothing and is told to start anew when it falls off the tail.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepline_protocol::api::session::EventsStarted;
use keepline_protocol::api::{Cursor, Json};
use keepline_protocol::id::{Generation, TerminalId};
use tokio::sync::watch;

use super::document;
use super::enrolment::Enrolment;
use super::graph::{Change, Graph};
use super::rows::RowId;
use crate::bounds::{TAIL_BYTES_MAX, TAIL_DELTAS_MAX};

/// One committed transaction of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision that it led to.
    pub revision: u64,
    /// The delta: `{generation, previous_revision, revision, changes}`.
    pub delta: Json,
    /// Terminals whose rows were deleted: closed, or gone to make room.
    pub removed: Vec<TerminalId>,
}

impl Committed {
    pub(super) fn new(cursor: Cursor, changes: &[Change], json: &str) -> Self {
        let removed = changes.iter().filter(|change| change.after.is_none()).filter_map(|change| match change.id {
            RowId::Terminal(id) => Some(id),
            _ => None,
        });
        Committed { revision: cursor.revision, delta: document::delta(cursor, json), removed: removed.collect() }
    }
}

/// How far the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    revision: u64,
    closed: bool,
}

/// The state as of the last commit.
pub(super) struct Published {
    pub(super) graph: Graph,
    pub(super) enrolment: Enrolment,
    revision: u64,
    tail: VecDeque<Arc<Committed>>,
    tail_bytes: usize,
}

/// [`Published`] for many readers and its one writer.
pub(super) struct Feed {
    generation: Generation,
    published: Mutex<Published>,
    progress: watch::Sender<Progress>,
    decisions: watch::Sender<u64>,
}

impl Feed {
    /// The feed of a session that starts with this state, at `revision`.
    pub(super) fn new(generation: Generation, revision: u64, graph: Graph, enrolment: Enrolment) -> Self {
        let published = Published { graph, enrolment, revision, tail: VecDeque::new(), tail_bytes: 0 };
        Feed {
            generation,
            published: Mutex::new(published),
            progress: watch::Sender::new(Progress { revision, closed: false }),
            decisions: watch::Sender::new(0),
        }
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn read(&self) -> MutexGuard<'_, Published> {
        // A reader that panicked changed nothing.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.cursor_at(self.read().revision)
    }

    pub(super) fn decisions(&self) -> watch::Receiver<u64> {
        self.decisions.subscribe()
    }

    pub(super) fn document(&self) -> (Cursor, Json) {
        let (revision, rows) = {
            let published = self.read();
            (published.revision, published.graph.rows().cloned().collect())
        };
        let cursor = self.cursor_at(revision);
        (cursor, document::document(cursor, rows))
    }

    /// Publishes what one batch committed.
    pub(super) fn publish(&self, commits: Vec<(Vec<Change>, Arc<Committed>)>, enrolment: Option<Enrolment>) {
        let decided = enrolment.is_some();
        let revision = {
            let mut published = self.read();
            for (changes, committed) in commits {
                published.graph.install(&changes);
                published.revision = committed.revision;
                published.tail_bytes += committed.delta.as_str().len();
                published.tail.push_back(committed);
            }
            while published.tail.len() > TAIL_DELTAS_MAX
                || published.tail_bytes > TAIL_BYTES_MAX && published.tail.len() > 1
            {
                let dropped = published.tail.pop_front().map_or(0, |oldest| oldest.delta.as_str().len());
                published.tail_bytes -= dropped;
            }
            if let Some(enrolment) = enrolment {
                published.enrolment = enrolment;
            }
            published.revision
        };
        self.progress.send_if_modified(|progress| std::mem::replace(&mut progress.revision, revision) != revision);
        if decided {
            self.decisions.send_modify(|count| *count += 1);
        }
    }

    /// Says that nothing more is committed.
    pub(super) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
    }

    fn cursor_at(&self, revision: u64) -> Cursor {
        Cursor { generation: self.generation, revision }
    }

    /// What follows `revision`.
    fn after(&self, revision: u64) -> Next {
        let published = self.read();
        if revision == published.revision {
            return Next::Nothing;
        }
        let Some(first) = published.tail.front() else {
            return Next::Lost;
        };
        let found = (revision + 1)
            .checked_sub(first.revision)
            .and_then(|position| published.tail.get(usize::try_from(position).ok()?));
        found.map_or(Next::Lost, |committed| Next::Delta(Arc::clone(committed)))
    }
}

enum Next {
    Delta(Arc<Committed>),
    Nothing,
    Lost,
}

/// What a follower gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next transaction.
    Delta(Arc<Committed>),
    /// The follower was too slow: why, and the complete graph, from which the next delta goes on.
    Reset(EventsStarted),
}

/// Follows the graph from a cursor.
pub struct Subscription {
    feed: Arc<Feed>,
    progress: watch::Receiver<Progress>,
    position: u64,
}

impl Subscription {
    /// Starts after `since`, or with the complete graph when that cannot be continued; both see every transaction
    /// exactly once.
    pub(super) fn start(feed: Arc<Feed>, since: Option<Cursor>) -> (EventsStarted, Self) {
        let progress = feed.progress.subscribe();
        let mut subscription = Subscription { feed, progress, position: 0 };
        let reason = match since {
            None => Some("initial"),
            Some(since) if since.generation != subscription.feed.generation => Some("generation-changed"),
            Some(since) if since.revision > subscription.feed.cursor().revision => Some("unknown-revision"),
            Some(since) => match subscription.feed.after(since.revision) {
                Next::Lost => Some("history-dropped"),
                Next::Delta(_) | Next::Nothing => {
                    subscription.position = since.revision;
                    None
                }
            },
        };
        let started = match reason {
            Some(reason) => subscription.reset(reason),
            None => EventsStarted { reset: None, document: None },
        };
        (started, subscription)
    }

    /// The next event; nothing once the session was closed and all was given. Cancelling loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let closed = self.progress.borrow_and_update().closed;
            match self.feed.after(self.position) {
                Next::Delta(committed) => {
                    self.position = committed.revision;
                    return Some(Event::Delta(committed));
                }
                Next::Lost => return Some(Event::Reset(self.reset("reader-too-slow"))),
                Next::Nothing if closed => return None,
                Next::Nothing => self.progress.changed().await.ok()?,
            }
        }
    }

    /// The cursor of the last event given.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.feed.cursor_at(self.position)
    }

    fn reset(&mut self, reason: &str) -> EventsStarted {
        let (cursor, document) = self.feed.document();
        self.position = cursor.revision;
        EventsStarted { reset: Some(reason.to_owned()), document: Some(document) }
    }
}
