//! The links of this daemon: one entry each, from its first carrier to the end of its lease.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keepline_carrier::link::{Link, Phase};
use keepline_carrier::packet::{Carrier, Kind};
use keepline_protocol::api::remote::Connection;
use keepline_protocol::frame::Frame;
use keepline_protocol::handshake::{DeviceHello, LinkRequest};
use keepline_protocol::id::{DeviceId, LinkId};
use keepline_protocol::identity::Role;
use keepline_protocol::refusal::Refusal;

use crate::bounds::LINKS_MAX;
use crate::daemon::now_ms;
use crate::session::{Session, Standing};

pub(crate) struct Links {
    lease: Duration,
    entries: Mutex<HashMap<LinkId, Entry>>,
}

struct Entry {
    link: Link,
    device: DeviceId,
    name: String,
    client: String,
    epoch: u32,
    carrier: Kind,
    peer: String,
    opened_ms: u64,
    changed_ms: u64,
}

/// A link that a carrier was admitted to; the carrier has this epoch's right to it.
pub(crate) struct Admitted {
    pub(crate) link: Link,
    /// The link is new: nobody serves it yet.
    pub(crate) new: bool,
    pub(crate) cursors: [u64; 4],
}

impl Links {
    pub(crate) fn new(lease: Duration) -> Self {
        Links {
            lease,
            entries: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<LinkId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What [`admit`](Self::admit) would answer a message 1 of IK: the link's cursors and the frames that the client misses.
    /// Nothing is changed, because the message may be a recording.
    pub(crate) fn foresee(&self, hello: &DeviceHello) -> Result<([u64; 4], Vec<Frame>), Refusal> {
        let LinkRequest { id, epoch, cursors } = hello.link;
        let device = hello.certificate.identity().device_id();
        let entries = self.entries();
        match (entries.get(&id), cursors) {
            (None, None) => Ok(([0; 4], Vec::new())),
            (None, Some(_)) => Err(Refusal::LinkExpired),
            (Some(entry), _) if entry.device != device => Err(Refusal::LinkExpired),
            (Some(entry), _) if epoch <= entry.epoch => Err(Refusal::StaleEpoch),
            (Some(entry), cursors) => {
                let cursors = cursors.unwrap_or_default();
                if entry.link.can_resume(cursors) {
                    Ok((entry.link.cursors(), entry.link.ahead(cursors)))
                } else {
                    Err(Refusal::LinkExpired)
                }
            }
        }
    }

    /// Gives an authenticated carrier its link, and commits its epoch: the carrier before it is fenced off.
    ///
    /// A link is resumed only by the device that opened it and only by a higher epoch. A new link of the same device and
    /// client ends the older one.
    pub(crate) fn admit(
        &self,
        hello: &DeviceHello,
        kind: Kind,
        peer: &str,
    ) -> Result<Admitted, Refusal> {
        let device = hello.certificate.identity().device_id();
        let LinkRequest { id, epoch, cursors } = hello.link;
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(&id) {
            if entry.device != device {
                return Err(Refusal::LinkExpired);
            }
            if epoch <= entry.epoch {
                return Err(Refusal::StaleEpoch);
            }
            // A client that never heard that its link is open asks without cursors: it has received nothing.
            let peer_cursors = cursors.unwrap_or_default();
            entry.epoch = epoch;
            entry.carrier = kind;
            peer.clone_into(&mut entry.peer);
            entry.changed_ms = now_ms();
            entry.link.fence();
            let link = entry.link.clone();
            if !link.can_resume(peer_cursors) {
                entries.remove(&id);
                link.close(Refusal::LinkExpired);
                return Err(Refusal::LinkExpired);
            }
            let cursors = link.cursors();
            return Ok(Admitted {
                link,
                new: false,
                cursors,
            });
        }
        if cursors.is_some() {
            return Err(Refusal::LinkExpired);
        }
        entries.retain(|_, entry| {
            let superseded = entry.device == device && entry.client == hello.client;
            if superseded {
                entry.link.close(Refusal::Superseded);
            }
            !superseded
        });
        if entries.len() >= LINKS_MAX {
            return Err(Refusal::Busy);
        }
        let link = Link::new(Role::Daemon);
        let now = now_ms();
        let entry = Entry {
            link: link.clone(),
            device,
            name: hello.name.clone(),
            client: hello.client.clone(),
            epoch,
            carrier: kind,
            peer: peer.to_owned(),
            opened_ms: now,
            changed_ms: now,
        };
        entries.insert(id, entry);
        Ok(Admitted {
            link,
            new: true,
            cursors: [0; 4],
        })
    }

    /// Serves an admitted carrier to its end, then waits: when no other carrier comes within the lease, the link ends.
    pub(crate) async fn run(&self, id: LinkId, link: Link, number: u64, carrier: Carrier) {
        let end = link.run(number, carrier).await;
        tracing::info!(link = %id, %end, "a carrier ended");
        self.touch(id);
        let mut phase = link.phase();
        let moved_on = phase.wait_for(|phase| match phase {
            Phase::Up(current) => *current != number,
            Phase::Detached => false,
            Phase::Closed(_) => true,
        });
        let refusal = match tokio::time::timeout(self.lease, moved_on).await {
            Ok(Ok(phase)) => match *phase {
                Phase::Closed(refusal) => refusal,
                Phase::Up(_) | Phase::Detached => return,
            },
            Ok(Err(_)) | Err(_) => Refusal::LinkExpired,
        };
        self.remove(id, &link, refusal);
    }

    fn touch(&self, id: LinkId) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.changed_ms = now_ms();
        }
    }

    /// Ends a link whose lease is over, unless a carrier came in the last moment.
    fn remove(&self, id: LinkId, link: &Link, refusal: Refusal) {
        let mut entries = self.entries();
        if matches!(*link.phase().borrow(), Phase::Up(_)) {
            return;
        }
        if entries.get(&id).is_some_and(|entry| entry.link.is(link)) {
            entries.remove(&id);
        }
        link.close(refusal);
    }

    /// Ends a link that was admitted and could not be established.
    pub(crate) fn give_up(&self, id: LinkId, link: &Link) {
        self.remove(id, link, Refusal::LinkExpired);
    }

    /// Ends every link.
    pub(crate) fn close_all(&self, refusal: Refusal) {
        for (_, entry) in self.entries().drain() {
            entry.link.close(refusal);
        }
    }

    /// Ends the links of devices that may not have one any more.
    pub(crate) fn close_refused(&self, session: &Session) {
        self.entries().retain(|_, entry| {
            let refusal = match session.standing(entry.device) {
                Some(Standing::Revoked) => Refusal::Revoked,
                Some(Standing::Denied) => Refusal::Denied,
                _ => return true,
            };
            entry.link.close(refusal);
            false
        });
    }

    /// How many links have a carrier.
    pub(crate) fn up(&self) -> usize {
        self.entries()
            .values()
            .filter(|entry| entry.is_up())
            .count()
    }

    /// The links, oldest first.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let entries = self.entries();
        let now = now_ms();
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let mut listed: Vec<_> = entries.iter().collect();
        listed.sort_by_key(|(id, entry)| (entry.opened_ms, **id));
        let row = |(id, entry): (&LinkId, &Entry)| Connection {
            link: *id,
            device: entry.device,
            name: entry.name.clone(),
            client: entry.client.clone(),
            epoch: entry.epoch,
            state: if entry.is_up() { "up" } else { "detached" }.to_owned(),
            carrier: entry.carrier.name().to_owned(),
            peer: entry.peer.clone(),
            rtt_us: entry
                .link
                .round_trip()
                .and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
            since: entry.changed_ms,
            lease_ms: (!entry.is_up())
                .then(|| lease.saturating_sub(now.saturating_sub(entry.changed_ms))),
        };
        listed.into_iter().map(row).collect()
    }
}

impl Entry {
    fn is_up(&self) -> bool {
        matches!(*self.link.phase().borrow(), Phase::Up(_))
    }
}
