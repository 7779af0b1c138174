//! The document, what waits for it, and how it is kept: everything that the follower decides.
//!
//! Its driver opens a stream when a [`Step`] says so, after [`Replica::asked`], passes what comes to [`started`](Replica::started),
//! [`delta`](Replica::delta) and [`refused`](Replica::refused), and does what their steps say. A
//! stream that is not gone on with is dropped, and with it whatever was under way on it, so there is one repair at a time.

use std::collections::VecDeque;

use keepline_protocol::Time;
use keepline_protocol::api::Cursor;
use keepline_protocol::id::Generation;

use super::{Document, Phase, Refused, Repairs, Writes, Written};
use crate::bounds::RETIRED_MAX;

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on with the stream.
    Follow,
    /// Drop the stream and open another one.
    Ask {
        /// What it asks to continue; nothing for a snapshot first.
        since: Option<Cursor>,
        /// Not before this moment.
        at: Time,
    },
    /// Drop the stream and wait for a new link.
    Wait,
}

/// A machine's document as it is kept.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    document: Option<Document>,
    repairs: Repairs,
    writes: Writes,
    /// Generations that the document has left, newest last.
    retired: VecDeque<Generation>,
    /// No snapshot of this link may be older than what the document had: an older link's word is no proof.
    floor: Option<Cursor>,
    /// What is installed was found to contradict a receipt: it is not to be continued.
    contradicted: bool,
    /// The stream that was asked for has been answered.
    started: bool,
    reason: Option<String>,
}

impl Replica {
    /// The document, when there is one.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.document.as_ref()
    }

    /// How well it follows.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.repairs.phase()
    }

    /// Why it does not, in one sentence; nothing while it does.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Own writes that wait for their answer or for the document.
    #[must_use]
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// A new authenticated link is there. The first question continues from what there is.
    pub fn linked(&mut self, now: Time) -> Step {
        self.repairs.linked();
        (self.floor, self.reason) = (None, None);
        let cursor = self.document.as_ref().and_then(Document::cursor);
        let since = cursor.filter(|_| !self.contradicted);
        Step::Ask { since, at: now }
    }

    /// A stream is about to be asked for.
    pub fn asked(&mut self) {
        self.writes.asked();
        self.started = false;
    }

    /// The stream began, or began anew, with a document; or it goes on from where it was asked to.
    pub fn started(&mut self, now: Time, document: Option<Result<Document, Refused>>) -> Step {
        let installed = match document {
            Some(document) => document.and_then(|document| self.install(document)),
            None if self.document.is_some() => Ok(()),
            None => Err(Refused::Malformed("a first answer without a document".to_owned())),
        };
        match installed {
            Ok(()) => {
                self.started = true;
                self.went_well(now)
            }
            Err(error) => self.refused(now, &error),
        }
    }

    /// A delta came.
    pub fn delta(&mut self, now: Time, json: &str) -> Step {
        let writes = &self.writes;
        let applied = match &mut self.document {
            Some(document) if self.started => document.apply(json, |document| writes.check(document)),
            _ => Err(Refused::NotNext),
        };
        match applied {
            Ok(()) => self.went_well(now),
            Err(error) => self.refused(now, &error),
        }
    }

    /// Something that came is not taken: a repair, unless there were too many.
    pub fn refused(&mut self, now: Time, error: &Refused) -> Step {
        self.reason = Some(format!("{error}; a new snapshot was asked for"));
        if matches!(error, Refused::UnknownKind(_)) {
            let at = self.repairs.barrier(now);
            return Step::Ask { since: None, at };
        }
        if self.repairs.failed(now) {
            return Step::Ask { since: None, at: now };
        }
        self.reason = Some(format!("what the daemon says was refused too often: {error}; the next link starts anew"));
        Step::Wait
    }

    /// The stream ended with its link, or because the daemon stops.
    pub fn ended(&mut self) -> Step {
        self.repairs.ended();
        self.reason = None;
        Step::Wait
    }

    /// A mutation is about to be sent under `key`; gives the number for [`answered`](Self::answered).
    pub fn sent(&mut self, method: &'static str, key: String) -> u64 {
        self.writes.sent(method, key)
    }

    /// A mutation was answered: well and for the first time, or not.
    ///
    /// # Errors
    /// [`Refused::Contradicts`] when the document is at its receipt and does not show it; the driver then passes it to
    /// [`refused`](Self::refused).
    pub fn answered(&mut self, number: u64, written: Option<Written>) -> Result<(), Refused> {
        self.writes.answered(number, written);
        let checked = match &self.document {
            Some(document) => self.writes.check(document),
            None => Ok(()),
        };
        self.retire();
        self.contradicted |= checked.is_err();
        checked
    }

    fn install(&mut self, document: Document) -> Result<(), Refused> {
        if let Some(cursor) = document.cursor() {
            let older = self
                .floor
                .is_some_and(|floor| floor.generation == cursor.generation && floor.revision > cursor.revision);
            if older || self.retired.contains(&cursor.generation) {
                return Err(Refused::Old);
            }
            self.writes.permit(cursor)?;
            self.writes.check(&document)?;
            let left = self.document.as_ref().and_then(Document::cursor);
            if let Some(left) = left.filter(|left| left.generation != cursor.generation) {
                if self.retired.len() == RETIRED_MAX {
                    self.retired.pop_front();
                }
                self.retired.push_back(left.generation);
            }
        }
        self.document = Some(document);
        self.contradicted = false;
        Ok(())
    }

    fn went_well(&mut self, now: Time) -> Step {
        self.retire();
        let cursor = self.document.as_ref().and_then(Document::cursor);
        self.floor = cursor;
        if cursor.is_none() {
            self.repairs.snapshot_only();
            self.reason = Some(
                "the machine must be upgraded: its daemon does not count revisions, so changes cannot be followed"
                    .to_owned(),
            );
            return Step::Wait;
        }
        self.repairs.healthy(now);
        self.reason = None;
        Step::Follow
    }

    fn retire(&mut self) {
        let cursor = self.document.as_ref().and_then(Document::cursor);
        self.writes.reached(cursor, |generation| self.retired.contains(&generation));
    }
}
