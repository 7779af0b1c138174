//! The audit: who got in and who was refused, and who changed the session. Never what was typed, nor any name or text of
//! the session's.
//!
//! What has a transaction is written in it. What has none, links and refusals, is [`Gathered`] first: alike ones are one
//! entry with a count, so that a flood of them is a few rows.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use keepline_protocol::api::server::AuditEntry;
use keepline_protocol::id::DeviceId;

use super::enrolment::Standing;
use super::writer::now_ms;
use crate::bounds::{AUDIT_GATHERED_MAX, AUDIT_MAX, AUDIT_MUTATIONS_MAX};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// An invitation was made.
    Invited,
    /// A device came into this state.
    Became(Standing),
    /// What a device may do was changed.
    Scopes,
    /// The daemon's key was rotated, or a device showed a rotated one.
    KeyRotated,
    /// A link was opened.
    LinkOpened,
    /// A link ended.
    LinkEnded,
    /// A device got no link, or a request was out of its scope.
    Refused,
    /// The session was changed.
    Mutation,
}

impl Event {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Event::Invited => "invited",
            Event::Became(standing) => standing.name(),
            Event::Scopes => "scopes",
            Event::KeyRotated => "key-rotated",
            Event::LinkOpened => "link-opened",
            Event::LinkEnded => "link-ended",
            Event::Refused => "refused",
            Event::Mutation => "mutation",
        }
    }

    /// Which rows make room for this one's, and how many there may be: who is busy pushes out nothing about who gets in.
    pub(super) const fn class(self) -> (usize, u64) {
        match self {
            Event::Invited | Event::Became(_) | Event::Scopes | Event::KeyRotated => (0, AUDIT_MAX),
            Event::LinkOpened | Event::LinkEnded | Event::Refused => (1, AUDIT_MAX),
            Event::Mutation => (2, AUDIT_MUTATIONS_MAX),
        }
    }

    /// An entry that says so.
    pub(super) fn entry(self, at: u64, device: Option<DeviceId>, detail: &str) -> AuditEntry {
        AuditEntry {
            at,
            event: self.name().to_owned(),
            device,
            detail: (!detail.is_empty()).then(|| detail.to_owned()),
            count: 1,
            ..AuditEntry::default()
        }
    }
}

/// Classes of rows.
pub(super) const CLASSES: usize = 3;

/// What tells entries apart that are gathered.
type Alike = (Event, Option<DeviceId>, String);

/// Entries that wait to be written.
#[derive(Default)]
pub struct Gathered {
    entries: Mutex<BTreeMap<Alike, AuditEntry>>,
}

impl Gathered {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<Alike, AuditEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something happened. Once there are too many kinds of it, it counts towards one that says no more than
    /// the event.
    pub fn note(&self, event: Event, device: Option<DeviceId>, detail: &str, peer: Option<&str>) {
        let mut entries = self.entries();
        let mut alike = (event, device, detail.to_owned());
        if entries.len() >= AUDIT_GATHERED_MAX && !entries.contains_key(&alike) {
            alike = (event, None, String::new());
        }
        let fresh = AuditEntry { count: 0, ..event.entry(0, alike.1, &alike.2) };
        let entry = entries.entry(alike).or_insert(fresh);
        entry.at = now_ms();
        entry.count = entry.count.saturating_add(1);
        entry.peer = peer.map(ToOwned::to_owned);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Takes what waits.
    pub(crate) fn take(&self) -> Vec<(Event, AuditEntry)> {
        let taken = std::mem::take(&mut *self.entries());
        taken.into_iter().map(|((event, ..), entry)| (event, entry)).collect()
    }

    /// Gives back what could not be written.
    pub(super) fn put_back(&self, taken: Vec<(Event, AuditEntry)>) {
        let mut entries = self.entries();
        for (event, entry) in taken {
            let alike = (event, entry.device, entry.detail.clone().unwrap_or_default());
            entries
                .entry(alike)
                .and_modify(|newer| newer.count = newer.count.saturating_add(entry.count))
                .or_insert(entry);
        }
    }
}
