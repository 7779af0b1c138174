//! The daemon's decisions on links, as `daemon/src/links.rs` makes them: who gets which link, what is fenced off first,
//! and when a link is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::handshake::Hello;
use crate::Time;
use crate::bounds::AHEAD_MAX;
use crate::fault::{self, Fault};
use crate::frame::Frame;
use crate::handshake::LinkRequest;
use crate::id::{DeviceId, LinkId};
use crate::identity::Role;
use crate::link::Link;
use crate::refusal::Refusal;

/// How long a link without a carrier is kept.
pub(super) const LEASE: Duration = Duration::from_secs(120);

pub(super) struct Entry {
    pub(super) link: Link,
    device: DeviceId,
    epoch: u32,
    /// The carrier that has the link.
    pub(super) carrier: Option<u32>,
    /// Since when it has had none.
    pub(super) detached: Time,
}

#[derive(Default)]
pub(super) struct Links {
    pub(super) entries: BTreeMap<LinkId, Entry>,
    /// Links that were: a late attempt opens none of them again.
    ended: BTreeSet<LinkId>,
}

/// What an admission did.
pub(super) struct Admitted {
    pub(super) cursors: [u64; 4],
    /// Links that the new one took the place of.
    pub(super) superseded: Vec<(LinkId, Entry)>,
}

impl Entry {
    pub(super) fn fence(&mut self, now: Time) {
        if self.carrier.take().is_some() {
            self.detached = now;
        }
        self.link.carrier_lost();
    }
}

impl Links {
    /// What [`admit`](Self::admit) would answer. Nothing is changed, because the message may be a recording.
    pub(super) fn foresee(&self, hello: &Hello) -> Result<([u64; 4], Vec<Frame>), Refusal> {
        let LinkRequest { id, epoch, cursors } = hello.link;
        match (self.entries.get(&id), cursors) {
            (None, None) if !self.ended.contains(&id) => Ok(([0; 4], Vec::new())),
            (None, _) => Err(Refusal::LinkExpired),
            (Some(entry), _) if entry.device != hello.device() => Err(Refusal::LinkExpired),
            (Some(entry), _) if entry.takes(epoch) => {
                let cursors = cursors.unwrap_or_default();
                if entry.link.can_resume(cursors) {
                    let ahead = entry.link.missing(cursors, AHEAD_MAX);
                    Ok((entry.link.cursors(), ahead))
                } else {
                    Err(Refusal::LinkExpired)
                }
            }
            (Some(_), _) => Err(Refusal::StaleEpoch),
        }
    }

    /// Gives an authenticated carrier its link, and commits its epoch.
    pub(super) fn admit(&mut self, now: Time, hello: &Hello) -> Result<Admitted, Refusal> {
        let LinkRequest { id, epoch, cursors } = hello.link;
        if let Some(entry) = self.entries.get_mut(&id) {
            if entry.device != hello.device() {
                return Err(Refusal::LinkExpired);
            }
            if !entry.takes(epoch) {
                return Err(Refusal::StaleEpoch);
            }
            entry.epoch = epoch;
            entry.fence(now);
            if !entry.link.can_resume(cursors.unwrap_or_default()) {
                self.entries.remove(&id);
                self.ended.insert(id);
                return Err(Refusal::LinkExpired);
            }
            return Ok(Admitted { cursors: entry.link.cursors(), superseded: Vec::new() });
        }
        if cursors.is_some() || self.ended.contains(&id) {
            return Err(Refusal::LinkExpired);
        }
        let mut superseded = Vec::new();
        for (id, mut entry) in std::mem::take(&mut self.entries) {
            if entry.device == hello.device() {
                entry.link.close(Refusal::Superseded);
                self.ended.insert(id);
                superseded.push((id, entry));
            } else {
                self.entries.insert(id, entry);
            }
        }
        let entry =
            Entry { link: Link::new(Role::Daemon), device: hello.device(), epoch, carrier: None, detached: now };
        self.entries.insert(id, entry);
        Ok(Admitted { cursors: [0; 4], superseded })
    }

    /// When the next lease is over.
    pub(super) fn next(&self) -> Option<Time> {
        let detached = self.entries.values().filter(|entry| entry.carrier.is_none());
        detached.map(|entry| entry.detached + LEASE).min()
    }

    /// Forgets the links whose lease is over.
    pub(super) fn expire(&mut self, now: Time) -> Vec<LinkId> {
        let over = |entry: &Entry| entry.carrier.is_none() && entry.detached + LEASE <= now;
        let entries = self.entries.iter();
        let expired: Vec<LinkId> = entries.filter(|(_, entry)| over(entry)).map(|(id, _)| *id).collect();
        for id in &expired {
            self.entries.remove(id);
            self.ended.insert(*id);
        }
        expired
    }
}

impl Entry {
    fn takes(&self, epoch: u32) -> bool {
        epoch > self.epoch || fault::is(Fault::EpochNotFenced)
    }
}
