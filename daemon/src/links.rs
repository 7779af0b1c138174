//! The links of this daemon: one entry each, from its first carrier to the end of its lease.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keepline_carrier::link::{Link, Phase};
use keepline_carrier::packet::{Carrier, Kind};
use keepline_protocol::api::remote::Connection;
use keepline_protocol::frame::Frame;
use keepline_protocol::handshake::{DeviceHello, LinkRequest};
use keepline_protocol::id::{DeviceId, LinkId};
use keepline_protocol::identity::Role;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::scope::Scopes;

use crate::bounds::{LINKS_DEVICE_MAX, LINKS_ENDED_MAX, LINKS_MAX, REPLAY_DAEMON_MAX};
use crate::daemon::now_ms;
use crate::session::audit::{Event, Gathered};

pub(crate) struct Links {
    lease: Duration,
    table: Mutex<Table>,
}

struct Table {
    entries: HashMap<LinkId, Entry>,
    /// Links that were, the newest last. An attempt that was on its way for long must not open one of them again.
    ended: VecDeque<LinkId>,
    gathered: Arc<Gathered>,
}

impl Table {
    fn end(&mut self, id: LinkId, refusal: Refusal) {
        if let Some(entry) = self.entries.remove(&id) {
            entry.note(&self.gathered, Event::LinkEnded, refusal.name());
            entry.link.close(refusal);
            self.ended.push_back(id);
            if self.ended.len() > LINKS_ENDED_MAX {
                self.ended.pop_front();
            }
        }
    }

    /// Ends the links for which there is a reason.
    fn end_those(&mut self, reason: impl Fn(&Entry) -> Option<Refusal>) {
        let found = self.entries.iter();
        let ending: Vec<_> = found.filter_map(|(id, entry)| Some((*id, reason(entry)?))).collect();
        for (id, refusal) in ending {
            self.end(id, refusal);
        }
    }
}

struct Entry {
    link: Link,
    device: DeviceId,
    name: String,
    client: String,
    epoch: u32,
    carrier: Kind,
    scopes: Scopes,
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
    /// What its device may do on it, from its first carrier to its end.
    pub(crate) scopes: Scopes,
}

impl Links {
    pub(crate) fn new(lease: Duration, gathered: Arc<Gathered>) -> Self {
        Links { lease, table: Mutex::new(Table { entries: HashMap::new(), ended: VecDeque::new(), gathered }) }
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What [`admit`](Self::admit) would answer a message 1 of IK: the link's cursors and the frames that the client misses.
    /// Nothing is changed, because the message may be a recording.
    pub(crate) fn foresee(&self, hello: &DeviceHello, scopes: Scopes) -> Result<([u64; 4], Vec<Frame>), Refusal> {
        let LinkRequest { id, epoch, cursors } = hello.link;
        let device = hello.certificate.identity().device_id();
        let table = self.table();
        match (table.entries.get(&id), cursors) {
            (None, None) if !table.ended.contains(&id) => Ok(([0; 4], Vec::new())),
            (None, _) => Err(Refusal::LinkExpired),
            (Some(entry), _) if entry.device != device => Err(Refusal::LinkExpired),
            (Some(entry), _) if epoch <= entry.epoch => Err(Refusal::StaleEpoch),
            (Some(entry), cursors) => {
                let cursors = cursors.unwrap_or_default();
                if entry.scopes == scopes && entry.link.can_resume(cursors) {
                    Ok((entry.link.cursors(), entry.link.ahead(cursors)))
                } else {
                    Err(Refusal::LinkExpired)
                }
            }
        }
    }

    /// Gives an authenticated carrier its link, and commits its epoch: the carrier before it is fenced off.
    ///
    /// A link is resumed only by the device that opened it, only by a higher epoch, and only with the same scopes: those of
    /// this carrier. A new link of the same device and client ends the older one.
    pub(crate) fn admit(
        &self,
        hello: &DeviceHello,
        (kind, scopes): (Kind, Scopes),
        peer: &str,
    ) -> Result<Admitted, Refusal> {
        let device = hello.certificate.identity().device_id();
        let LinkRequest { id, epoch, cursors } = hello.link;
        let mut table = self.table();
        if let Some(entry) = table.entries.get_mut(&id) {
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
            if entry.scopes != scopes || !link.can_resume(peer_cursors) {
                table.end(id, Refusal::LinkExpired);
                return Err(Refusal::LinkExpired);
            }
            let cursors = link.cursors();
            return Ok(Admitted { link, new: false, cursors, scopes });
        }
        if cursors.is_some() || table.ended.contains(&id) {
            return Err(Refusal::LinkExpired);
        }
        table.end_those(|entry| {
            let superseded = entry.device == device && entry.client == hello.client;
            superseded.then_some(Refusal::Superseded)
        });
        let of_device = table.entries.values();
        let of_device = of_device.filter(|entry| entry.device == device).count();
        if table.entries.len() >= LINKS_MAX || of_device >= LINKS_DEVICE_MAX {
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
            scopes,
            peer: peer.to_owned(),
            opened_ms: now,
            changed_ms: now,
        };
        entry.note(&table.gathered, Event::LinkOpened, kind.name());
        table.entries.insert(id, entry);
        Ok(Admitted { link, new: true, cursors: [0; 4], scopes })
    }

    /// Serves an admitted carrier to its end, then waits: when no other carrier comes within the lease, the link ends.
    pub(crate) async fn run(&self, id: LinkId, link: Link, number: u64, carrier: Carrier) {
        let end = link.run(number, carrier).await;
        tracing::info!(link = %id, %end, "a carrier ended");
        self.touch(id);
        self.shed(REPLAY_DAEMON_MAX);
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
        if let Some(entry) = self.table().entries.get_mut(&id) {
            entry.changed_ms = now_ms();
        }
    }

    /// Ends a link whose lease is over, unless a carrier came in the last moment.
    fn remove(&self, id: LinkId, link: &Link, refusal: Refusal) {
        let mut table = self.table();
        if matches!(*link.phase().borrow(), Phase::Up(_)) {
            return;
        }
        if table.entries.get(&id).is_some_and(|entry| entry.link.is(link)) {
            table.end(id, refusal);
        }
        link.close(refusal);
    }

    /// Ends the links that have been without a carrier for longest while all links keep more than `most` bytes for replay.
    pub(crate) fn shed(&self, most: usize) {
        let mut table = self.table();
        let mut kept: usize = table.entries.values().map(|entry| entry.link.replay_bytes()).sum();
        let mut detached: Vec<_> = table.entries.iter().filter(|(_, entry)| !entry.is_up()).collect();
        detached.sort_by_key(|(_, entry)| entry.changed_ms);
        let detached: Vec<_> = detached.into_iter().map(|(id, entry)| (*id, entry.link.replay_bytes())).collect();
        for (id, bytes) in detached {
            if kept <= most {
                return;
            }
            kept -= bytes;
            tracing::info!(link = %id, "a link is ended early: {most} bytes are kept for replay");
            table.end(id, Refusal::LinkExpired);
        }
    }

    /// Ends a link that was admitted and could not be established.
    pub(crate) fn give_up(&self, id: LinkId, link: &Link) {
        self.remove(id, link, Refusal::LinkExpired);
    }

    /// Ends every link.
    pub(crate) fn close_all(&self, refusal: Refusal) {
        self.table().end_those(|_| Some(refusal));
    }

    /// Ends the links of devices that may not have one any more, or to which `rights` gives other scopes now.
    pub(crate) fn close_changed(&self, rights: impl Fn(DeviceId, Kind) -> Result<Scopes, Refusal>) {
        let reason = |entry: &Entry| match rights(entry.device, entry.carrier) {
            Ok(scopes) => (scopes != entry.scopes).then_some(Refusal::LinkExpired),
            Err(refusal) => Some(refusal),
        };
        self.table().end_those(reason);
    }

    /// How many links have a carrier.
    pub(crate) fn up(&self) -> usize {
        self.table().entries.values().filter(|entry| entry.is_up()).count()
    }

    /// The links, oldest first.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let table = self.table();
        let now = now_ms();
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let mut listed: Vec<_> = table.entries.iter().collect();
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
            rtt_us: entry.link.round_trip().and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
            since: entry.changed_ms,
            lease_ms: (!entry.is_up()).then(|| lease.saturating_sub(now.saturating_sub(entry.changed_ms))),
        };
        listed.into_iter().map(row).collect()
    }
}

impl Entry {
    fn note(&self, gathered: &Gathered, event: Event, detail: &str) {
        gathered.note(event, Some(self.device), detail, Some(&self.peer));
    }

    fn is_up(&self) -> bool {
        matches!(*self.link.phase().borrow(), Phase::Up(_))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use keepline_protocol::cipher::Cipher;
    use keepline_protocol::identity::Credentials;
    use keepline_protocol::lane::Lane;

    use super::*;

    fn hello(client: &str, link: u8, epoch: u32, cursors: Option<[u64; 4]>) -> DeviceHello {
        DeviceHello {
            certificate: Credentials::generate(Role::Device, &[1; 64]).certificate().clone(),
            name: "laptop".to_owned(),
            client: client.to_owned(),
            features: 0,
            link: LinkRequest { id: LinkId::from_bytes([link; 16]), epoch, cursors },
        }
    }

    fn admit(links: &Links, hello: &DeviceHello) -> Result<Admitted, Refusal> {
        links.admit(hello, (Kind::Memory, Scopes::ALL), "test")
    }

    #[test]
    fn an_ended_links_id_opens_nothing() {
        let links = Links::new(Duration::from_secs(1), Arc::default());
        let first = hello("a", 1, 1, None);
        assert!(admit(&links, &first).unwrap().new);
        // The client never heard of it, and asks again.
        let again = hello("a", 1, 2, None);
        assert!(!admit(&links, &again).unwrap().new);
        assert_eq!(admit(&links, &first).err(), Some(Refusal::StaleEpoch));
        // Another link of the same client takes its place; the old attempt is still on its way.
        assert!(admit(&links, &hello("a", 2, 1, None)).unwrap().new);
        let late = hello("a", 1, 9, None);
        assert_eq!(links.foresee(&late, Scopes::ALL).err(), Some(Refusal::LinkExpired));
        assert_eq!(admit(&links, &late).err(), Some(Refusal::LinkExpired));
        assert_eq!(links.connections().len(), 1);
    }

    #[test]
    fn a_link_is_not_resumed_where_its_device_may_do_something_else() {
        let links = Links::new(Duration::from_secs(1), Arc::default());
        let first = hello("a", 1, 1, None);
        assert!(admit(&links, &first).unwrap().new);
        let view = Scopes::of(&["view"]).unwrap();
        let next = hello("a", 1, 2, Some([0; 4]));
        assert_eq!(links.foresee(&next, view).err(), Some(Refusal::LinkExpired));
        let elsewhere = links.admit(&next, (Kind::WebSocket, view), "test");
        assert_eq!(elsewhere.err(), Some(Refusal::LinkExpired));
        assert!(links.connections().is_empty());

        assert!(admit(&links, &hello("a", 2, 1, None)).unwrap().new);
        links.close_changed(|_, _| Ok(Scopes::ALL));
        assert_eq!(links.connections().len(), 1);
        links.close_changed(|_, _| Ok(view));
        assert!(links.connections().is_empty());
        let noted = links.table().gathered.take();
        let counts: Vec<_> = noted.iter().map(|(_, entry)| (&*entry.event, entry.count)).collect();
        assert_eq!(counts, [("link-opened", 2), ("link-ended", 2)]);
    }

    #[test]
    fn a_device_has_so_many_links_and_no_more() {
        let links = Links::new(Duration::from_secs(1), Arc::default());
        for number in 0..LINKS_DEVICE_MAX {
            let client = format!("client-{number}");
            let number = u8::try_from(number).unwrap();
            assert!(admit(&links, &hello(&client, number, 1, None)).is_ok());
        }
        let more = hello("one-more", 200, 1, None);
        assert_eq!(admit(&links, &more).err(), Some(Refusal::Busy));
        // A new link of a client that has one is none more.
        assert!(admit(&links, &hello("client-3", 201, 1, None)).is_ok());
    }

    #[tokio::test]
    async fn replay_beyond_the_bound_costs_the_longest_detached_its_lease() {
        let links = Links::new(Duration::from_secs(1), Arc::default());
        let mut kept = Vec::new();
        for number in 0..4 {
            let client = format!("client-{number}");
            let admitted = admit(&links, &hello(&client, number, 1, None)).unwrap();
            let (near, far) = Carrier::memory();
            let carrier = admitted.link.establish(Cipher::null(), 1, [0; 4]).unwrap();
            let (sender, _receiver) = admitted.link.open(Lane::Bulk);
            sender.send(Bytes::from(vec![0; 1000])).await.unwrap();
            let link = admitted.link.clone();
            let served = tokio::spawn(async move { link.run(carrier, near).await });
            while admitted.link.replay_bytes() < 1000 {
                tokio::task::yield_now().await;
            }
            drop(far);
            served.await.unwrap();
            // In the order in which they lost their carrier.
            let id = LinkId::from_bytes([number; 16]);
            links.table().entries.get_mut(&id).unwrap().changed_ms = number.into();
            kept.push((admitted, sender));
        }
        links.shed(4 * 1100);
        assert_eq!(links.connections().len(), 4, "within the bound nobody goes");
        links.shed(2 * 1100);
        let left: Vec<_> = links.connections().iter().map(|row| row.client.clone()).collect();
        assert_eq!(left.len(), 2);
        assert!(left.contains(&"client-2".to_owned()) && left.contains(&"client-3".to_owned()));
    }
}
