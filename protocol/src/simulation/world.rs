//! Both ends, the carriers between them, and the clock; everything follows from the seed and the events.

use std::time::Duration;

use super::action::Action;
use super::host::{self, Host};
use super::laptop::{Laptop, Stale, Told};
use super::reference::{End, Reference, lane};
use super::wire::Pipe;
use crate::Time;
use crate::bounds::STREAM_WINDOW_FIRST;
use crate::identity::{Credentials, Role};
use crate::link::{Event, Link};
use crate::refusal::Refusal;
use crate::stream::StreamId;

/// What a run met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) cuts: u64,
    pub(super) links: u64,
    pub(super) resumes: u64,
    pub(super) duplicates: u64,
    pub(super) lease_ends: u64,
    pub(super) window_wraps: u64,
    pub(super) refusals: u64,
    pub(super) recordings: u64,
    pub(super) silences: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Counts) {
        self.cuts += other.cuts;
        self.links += other.links;
        self.resumes += other.resumes;
        self.duplicates += other.duplicates;
        self.lease_ends += other.lease_ends;
        self.window_wraps += other.window_wraps;
        self.refusals += other.refusals;
        self.recordings += other.recordings;
        self.silences += other.silences;
    }
}

/// A carrier, as both ends see it.
struct Carrier {
    to_daemon: Pipe,
    to_client: Pipe,
    host: host::Phase,
    /// What the client sent, for who records it.
    sent: Vec<Vec<u8>>,
    /// Nobody is behind it but somebody with a recording.
    recording: bool,
}

/// What must not go back.
#[derive(Clone, Copy, Default)]
struct Floor {
    client: [u64; 4],
    daemon: [u64; 4],
    epoch: u32,
}

pub(super) struct World {
    now: Time,
    random: fastrand::Rng,
    laptop: Laptop,
    host: Host,
    carriers: Vec<Carrier>,
    /// Those on which something may still arrive.
    live: Vec<usize>,
    reference: Reference,
    floor: Floor,
    counts: Counts,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let device = Credentials::generate(Role::Device, &[1; 64]);
        let host = Credentials::generate(Role::Daemon, &[2; 64]);
        World {
            now: Time::ZERO,
            random: fastrand::Rng::with_seed(seed),
            laptop: Laptop::new(device, host.clone()),
            host: Host::new(host),
            carriers: Vec::new(),
            live: Vec::new(),
            reference: Reference::default(),
            floor: Floor::default(),
            counts: Counts::default(),
        }
    }

    /// What happened so far.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            refusals: self.host.refusals,
            window_wraps: self.counts.window_wraps + self.reference.window_wraps,
            duplicates: self.counts.duplicates + self.duplicates(),
            ..self.counts
        }
    }

    fn duplicates(&self) -> u64 {
        let theirs = self
            .host
            .entry
            .as_ref()
            .map_or(0, |entry| entry.link.duplicates());
        self.laptop.link.duplicates() + theirs
    }

    /// An end's link, when it is the link that the reference is about.
    fn link(&mut self, end: End) -> Option<&mut Link> {
        match end {
            End::Client => Some(&mut self.laptop.link),
            End::Daemon => {
                let id = self.laptop.id;
                let entry = self.host.entry.as_mut().filter(|entry| entry.id == id);
                entry.map(|entry| &mut entry.link)
            }
        }
    }

    fn stream(&mut self, end: End, pick: u16) -> Option<StreamId> {
        self.link(end)?;
        let known = self.reference.known_to(end);
        // The newest few are picked more often, so that some streams move much.
        let pick = usize::from(pick);
        let few = known.len().min(if pick % 4 == 0 { usize::MAX } else { 3 });
        let from = known.len() - few;
        known.get(from + pick.checked_rem(few)?).copied()
    }

    /// Does one thing, lets everything follow that follows at once, and looks whether all is as it must be.
    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::Open { daemon, lane: pick } => {
                let end = End::of(daemon);
                if let Some(link) = self.link(end) {
                    let id = link.open(lane(pick));
                    self.reference.opened(id);
                    self.write(end, id, 1);
                }
            }
            Action::Write {
                daemon,
                pick,
                bytes,
            } => {
                let end = End::of(daemon);
                if let Some(id) = self.stream(end, pick) {
                    self.write(end, id, bytes as usize);
                }
            }
            Action::Finish { daemon, pick } => {
                let end = End::of(daemon);
                if let Some(id) = self.stream(end, pick)
                    && self.link(end).is_some_and(|link| link.finish(id).is_ok())
                {
                    self.reference.finish(end, id);
                }
            }
            Action::Reset { daemon, pick } => {
                let end = End::of(daemon);
                if let Some(id) = self.stream(end, pick) {
                    self.reference.reset(id);
                    self.link(end).expect("it has streams").reset(id, 7);
                }
            }
            Action::Read {
                daemon,
                pick,
                pieces,
            } => {
                let end = End::of(daemon);
                if let Some(id) = self.stream(end, pick) {
                    self.read(end, id, pieces.into());
                }
            }
            Action::Pass { ms } => self.pass(Duration::from_millis(ms.into())),
            Action::Connect { known, force } => {
                if force || self.laptop.is_down() {
                    self.connect(known, None);
                }
            }
            Action::StaleCursors { known } => self.connect(known, Some(Stale::Cursors)),
            Action::StaleEpoch { known } => self.connect(known, Some(Stale::Epoch)),
            Action::Cut {
                pick,
                to_daemon,
                to_client,
            } => {
                if let Some(carrier) = self.carrier(pick) {
                    carrier.to_daemon.cut(to_daemon.into());
                    carrier.to_client.cut(to_client.into());
                    self.counts.cuts += 1;
                }
            }
            Action::Stall { pick, daemon, ms } => {
                let until = self.now + Duration::from_millis(ms.into());
                if let Some(carrier) = self.carrier(pick) {
                    let pipe = if daemon {
                        &mut carrier.to_daemon
                    } else {
                        &mut carrier.to_client
                    };
                    pipe.stall(until);
                }
            }
            Action::Replay { pick, whole } => self.replay(pick, whole),
            Action::Expire => {
                if self
                    .host
                    .entry
                    .as_ref()
                    .is_some_and(|entry| entry.carrier.is_none())
                {
                    self.counts.duplicates += self.duplicates() - self.laptop.link.duplicates();
                    self.host.end();
                    self.counts.lease_ends += 1;
                }
            }
        }
        self.flush();
        self.check();
    }

    /// One of the last carriers, the newest most often.
    fn carrier(&mut self, pick: u8) -> Option<&mut Carrier> {
        let back = pick.leading_zeros().min(3) as usize;
        let mut honest = self
            .live
            .iter()
            .rev()
            .filter(|at| !self.carriers[**at].recording);
        let at = *honest.nth(back)?;
        let carrier = self.carriers.get_mut(at)?;
        (carrier.to_daemon.has_room() || carrier.to_client.has_room()).then_some(carrier)
    }

    fn write(&mut self, end: End, id: StreamId, most: usize) {
        let Some(link) = self.link(end) else { return };
        if let Ok(room @ 1..) = link.capacity(id) {
            let bytes = self.reference.write(end, id, room.min(most));
            let written = self
                .link(end)
                .expect("it was there")
                .write(id, bytes.into());
            written.expect("within the capacity");
        }
    }

    /// Reads, and says whether anything came.
    fn read(&mut self, end: End, id: StreamId, pieces: usize) -> bool {
        for piece in 0..pieces {
            let Some(link) = self.link(end) else {
                return false;
            };
            let read = link.read(id);
            if !self.reference.read(end, id, &read, STREAM_WINDOW_FIRST) {
                return piece > 0;
            }
        }
        true
    }

    fn connect(&mut self, known: bool, stale: Option<Stale>) {
        self.leave_carrier();
        let delay = Duration::from_millis(self.random.u64(1..80));
        self.carriers.push(Carrier {
            to_daemon: Pipe::new(delay),
            to_client: Pipe::new(delay),
            host: host::Phase::Start,
            sent: Vec::new(),
            recording: false,
        });
        let at = self.carriers.len() - 1;
        self.live.push(at);
        let entropy = std::array::from_fn(|_| self.random.u8(..));
        let message = self.laptop.connect(at, known, stale, entropy);
        self.send(at, &message);
    }

    /// The client has done with its carrier; what it sent is still under way.
    fn leave_carrier(&mut self) {
        if let Some(at) = self.laptop.carrier {
            self.carriers[at].to_daemon.close();
            self.laptop.give_up_carrier();
        }
    }

    fn send(&mut self, at: usize, packet: &[u8]) {
        let carrier = &mut self.carriers[at];
        carrier.to_daemon.write(self.now, packet);
        if carrier.sent.len() < 3 {
            carrier.sent.push(packet.to_vec());
        }
    }

    fn replay(&mut self, pick: u8, whole: bool) {
        let recorded = self
            .carriers
            .iter()
            .rev()
            .filter(|carrier| !carrier.recording);
        let Some(sent) = recorded.map(|carrier| &carrier.sent).nth((pick % 4).into()) else {
            return;
        };
        let sent = sent.clone();
        let mut to_daemon = Pipe::new(Duration::from_millis(1));
        for packet in sent.iter().take(if whole { usize::MAX } else { 1 }) {
            to_daemon.write(self.now, packet);
        }
        to_daemon.close();
        self.live.push(self.carriers.len());
        self.carriers.push(Carrier {
            to_daemon,
            to_client: Pipe::new(Duration::from_millis(1)),
            host: host::Phase::Start,
            sent: Vec::new(),
            recording: true,
        });
        self.counts.recordings += 1;
    }

    /// Lets time pass, and everything happen that happens in it.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.flush();
            let arrivals = self.live.iter().flat_map(|at| {
                let carrier = &self.carriers[*at];
                [
                    carrier.to_daemon.next_arrival(),
                    carrier.to_client.next_arrival(),
                ]
            });
            let theirs = self
                .host
                .entry
                .as_ref()
                .and_then(|entry| entry.link.poll_timeout());
            let timeouts = [self.laptop.link.poll_timeout(), theirs];
            // What was due and found no room is looked at again when something else happens.
            let next = arrivals
                .chain(timeouts)
                .flatten()
                .filter(|at| *at > self.now)
                .min();
            match next {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
            self.deliver();
            let now = self.now;
            for link in [
                Some(&mut self.laptop.link),
                self.host.entry.as_mut().map(|entry| &mut entry.link),
            ] {
                if let Some(link) =
                    link.filter(|link| link.poll_timeout().is_some_and(|at| at <= now))
                {
                    link.handle_timeout(now);
                }
            }
            self.flush();
            self.check();
        }
        self.now = end;
    }

    /// Hands over what has arrived.
    fn deliver(&mut self) {
        for at in self.live.clone() {
            for packet in self.carriers[at].to_daemon.read(self.now) {
                self.deliver_to_daemon(at, &packet);
            }
            if self.carriers[at].to_daemon.is_over() {
                self.carriers[at].host = host::Phase::Gone;
                self.carriers[at].to_client.close();
                if let Some(entry) = self
                    .host
                    .entry
                    .as_mut()
                    .filter(|entry| entry.carrier == Some(at))
                {
                    entry.link.carrier_lost();
                    entry.carrier = None;
                }
            }
            for packet in self.carriers[at].to_client.read(self.now) {
                if self.laptop.carrier == Some(at) {
                    self.deliver_to_client(at, &packet);
                }
            }
            if self.carriers[at].to_client.is_over() && self.laptop.carrier == Some(at) {
                self.leave_carrier();
            }
        }
        let carriers = &self.carriers;
        self.live.retain(|at| {
            let carrier = &carriers[*at];
            !(carrier.to_daemon.is_over() && carrier.to_client.is_over())
        });
    }

    fn deliver_to_daemon(&mut self, at: usize, packet: &[u8]) {
        let phase = std::mem::replace(&mut self.carriers[at].host, host::Phase::Gone);
        let entropy = std::array::from_fn(|_| self.random.u8(..));
        let before = self
            .host
            .entry
            .as_ref()
            .map(|entry| (entry.id, entry.link.duplicates()));
        let mut replies = Vec::new();
        let phase = self
            .host
            .handle(self.now, at, phase, packet, entropy, &mut replies);
        let carrier = &mut self.carriers[at];
        assert!(
            !(carrier.recording && matches!(phase, host::Phase::Up)),
            "a recording was taken for the device"
        );
        for reply in replies {
            carrier.to_client.write(self.now, &reply);
        }
        if matches!(phase, host::Phase::Gone) {
            carrier.to_client.close();
        }
        carrier.host = phase;
        // What a link that made place had counted.
        if let Some((id, duplicates)) = before
            && self.host.entry.as_ref().is_none_or(|entry| entry.id != id)
        {
            self.counts.duplicates += duplicates;
        }
    }

    fn deliver_to_client(&mut self, at: usize, packet: &[u8]) {
        let mut replies = Vec::new();
        let resumed = self.laptop.link.cursors() != [0; 4];
        let told = self.laptop.handle(self.now, packet, &mut replies);
        for reply in replies {
            self.send(at, &reply);
        }
        match told {
            Told::Nothing => {}
            Told::Up => {
                self.counts.resumes += u64::from(resumed);
                self.counts.links += u64::from(!resumed);
            }
            Told::Refused(Refusal::StaleEpoch) if self.laptop.link.closed().is_none() => {
                self.leave_carrier();
            }
            Told::Refused(_) => self.new_link(),
        }
    }

    fn new_link(&mut self) {
        self.leave_carrier();
        self.counts.duplicates += self.laptop.link.duplicates();
        self.counts.window_wraps += self.reference.window_wraps;
        self.laptop.new_link();
        self.reference = Reference::default();
        self.floor = Floor::default();
    }

    /// Lets both ends write what they have to say, and takes what happened.
    fn flush(&mut self) {
        let now = self.now;
        if let Some(at) = self.laptop.carrier.filter(|_| self.laptop.is_up()) {
            while self.carriers[at].to_daemon.has_room() {
                let Some(packet) = self.laptop.link.poll_packet(now) else {
                    break;
                };
                self.send(at, &packet);
            }
        }
        if let Some(entry) = &mut self.host.entry
            && let Some(at) = entry.carrier
        {
            let pipe = &mut self.carriers[at].to_client;
            while pipe.has_room() {
                let Some(packet) = entry.link.poll_packet(now) else {
                    break;
                };
                pipe.write(now, &packet);
            }
        }
        while let Some(event) = self.laptop.link.poll_event() {
            match event {
                Event::Opened(id) => self.reference.heard_of(End::Client, id),
                Event::CarrierDead => {
                    self.counts.silences += 1;
                    self.leave_carrier();
                }
                Event::Readable(_) | Event::Writable(_) | Event::Alive | Event::Closed(_) => {}
            }
        }
        let present = self.laptop.id;
        if let Some(entry) = &mut self.host.entry {
            while let Some(event) = entry.link.poll_event() {
                match event {
                    Event::Opened(id) if entry.id == present => {
                        self.reference.heard_of(End::Daemon, id);
                    }
                    Event::CarrierDead => {
                        entry.link.carrier_lost();
                        if let Some(at) = entry.carrier.take() {
                            self.carriers[at].to_client.close();
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// What holds at every moment.
    fn check(&mut self) {
        self.laptop.link.check();
        let cursors = self.laptop.link.cursors();
        let floor = &mut self.floor;
        assert!(
            not_below(cursors, floor.client),
            "the client's cursors went back"
        );
        floor.client = cursors;
        if let Some(entry) = self
            .host
            .entry
            .as_ref()
            .filter(|entry| entry.id == self.laptop.id)
        {
            entry.link.check();
            let cursors = entry.link.cursors();
            assert!(
                not_below(cursors, floor.daemon),
                "the daemon's cursors went back: {cursors:?} after {:?}, epoch {}",
                floor.daemon,
                entry.epoch
            );
            assert!(entry.epoch >= floor.epoch, "an older epoch was taken");
            floor.daemon = cursors;
            floor.epoch = entry.epoch;
        }
    }

    /// Nothing fails any more: everything that must arrive does.
    pub(super) fn calm(&mut self) {
        for _ in 0..600 {
            if self.laptop.is_down() {
                self.connect(true, None);
            }
            self.pass(Duration::from_millis(50));
            let mut more = false;
            for end in [End::Client, End::Daemon] {
                for id in self.reference.known_to(end) {
                    more |= self.read(end, id, usize::MAX);
                }
            }
            self.flush();
            self.check();
            let kept = self.laptop.link.replay_bytes()
                + self
                    .host
                    .entry
                    .as_ref()
                    .map_or(1, |entry| entry.link.replay_bytes());
            if !more && kept == 0 && self.laptop.is_up() && self.reference.outstanding().is_none() {
                return;
            }
        }
        panic!(
            "calm, and yet not done: {:?}; down {}, up {}, carrier {:?}, live {:?}; client {:?}, daemon {:?}",
            self.reference.outstanding(),
            self.laptop.is_down(),
            self.laptop.is_up(),
            self.laptop.carrier,
            self.live,
            self.laptop.link,
            self.host.entry.as_ref().map(|entry| &entry.link)
        );
    }
}

fn not_below(cursors: [u64; 4], floor: [u64; 4]) -> bool {
    cursors
        .iter()
        .zip(floor)
        .all(|(cursor, floor)| *cursor >= floor)
}
