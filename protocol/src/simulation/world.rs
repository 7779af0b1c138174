//! Both ends of a link, the carriers between them, and a clock that nobody waits for.
//!
//! ```text
//!  actions ─▶ client ⇄ carriers (bytes) ⇄ daemon ◀─ actions
//!                │                          │
//!                └──▶ reference model ◀─────┘   checked after each event
//! ```
//!
//! The client behaves as the relay does: it takes one carrier at a time, tries again after a loss, and opens a new link
//! when the daemon has forgotten the old one. What happens when time passes stands in [`super::traffic`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::actions::{Action, Intruder, Told};
use super::daemon::Links;
use super::handshake::{self, Hello, Keys, Manner};
use super::reference::{Checked, End, Reference, Side, Violation, ensure, payload};
use super::wire::Wire;
use crate::Time;
use crate::bounds::HANDSHAKE_TIME;
use crate::frame::Frame;
use crate::handshake::LinkRequest;
use crate::id::LinkId;
use crate::identity::Role;
use crate::link::Link;
use crate::stream::{Read, StreamId};

/// Streams that are in use at once, at most.
const STREAMS: usize = 12;
/// Messages of a client that are recorded, and recordings that are kept.
const RECORDED: usize = 6;
/// How long the client waits after a loss.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// What came about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) actions: u64,
    pub(super) cuts: u64,
    pub(super) resumes: u64,
    pub(super) duplicates: u64,
    pub(super) lease_ends: u64,
    pub(super) windows_turned: u64,
    pub(super) refusals: u64,
    pub(super) races: u64,
    pub(super) replays: u64,
    pub(super) silences: u64,
    pub(super) bytes: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.actions += other.actions;
        self.cuts += other.cuts;
        self.resumes += other.resumes;
        self.duplicates += other.duplicates;
        self.lease_ends += other.lease_ends;
        self.windows_turned += other.windows_turned;
        self.refusals += other.refusals;
        self.races += other.races;
        self.replays += other.replays;
        self.silences += other.silences;
        self.bytes += other.bytes;
    }
}

/// Whose attempt a carrier is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The client's; its cursors may not be the true ones.
    Client { honest: bool },
    /// Somebody's who must not get the link.
    Intruder,
    /// A recording, sent again.
    Recording,
}

pub(super) enum ClientPhase {
    Shaking(handshake::Client),
    Up,
    /// It hears nothing.
    Deaf,
}

pub(super) enum DaemonPhase {
    Shaking(handshake::Daemon),
    Up,
}

/// A carrier. An end that is gone has no phase.
pub(super) struct Carrier {
    pub(super) hello: Hello,
    pub(super) whose: Whose,
    /// To the client, to the daemon.
    pub(super) wires: [Wire; 2],
    pub(super) client: Option<ClientPhase>,
    pub(super) daemon: Option<DaemonPhase>,
    /// When who is still shaking hands gives up.
    pub(super) patience: Time,
    pub(super) recorded: Vec<Vec<u8>>,
    /// What the daemon sent before the client's first packet.
    pub(super) ahead: Vec<Frame>,
    /// Per writer and lane, the sequence that must come next.
    pub(super) next: [[u64; 4]; 2],
}

pub(super) struct Client {
    pub(super) link: Link,
    /// Which of its links this is.
    pub(super) number: u32,
    epoch: u32,
    pub(super) resumable: bool,
    pub(super) carrier: Option<u32>,
    pub(super) attempt: Option<u32>,
    pub(super) retry_at: Time,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) real: bool,
    pub(super) keys: Keys,
    pub(super) random: fastrand::Rng,
    pub(super) client: Client,
    pub(super) links: Links,
    pub(super) references: BTreeMap<u32, Reference>,
    pub(super) carriers: BTreeMap<u32, Carrier>,
    last_carrier: u32,
    recordings: Vec<(Hello, Vec<Vec<u8>>)>,
    pub(super) counts: Counts,
}

pub(super) fn link_id(number: u32) -> LinkId {
    LinkId::from_bytes(u128::from(number).to_be_bytes())
}

pub(super) fn number_of(id: LinkId) -> u32 {
    u32::try_from(u128::from_be_bytes(*id.as_bytes())).expect("ids are made from numbers")
}

impl World {
    /// `real`: hands are shaken with Noise.
    pub(super) fn new(real: bool) -> Self {
        World {
            now: Time::ZERO,
            real,
            keys: Keys::new(),
            random: fastrand::Rng::with_seed(1),
            client: Client {
                link: Link::new(Role::Device),
                number: 1,
                epoch: 0,
                resumable: false,
                carrier: None,
                attempt: None,
                retry_at: Time::ZERO,
            },
            links: Links::default(),
            references: BTreeMap::from([(1, Reference::new(1))]),
            carriers: BTreeMap::new(),
            last_carrier: 0,
            recordings: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// An end's link and what is known of it; the daemon may have none.
    pub(super) fn end(&mut self, end: End) -> Option<(&mut Link, &mut Reference)> {
        let (link, number) = match end {
            End::Client => (&mut self.client.link, self.client.number),
            End::Daemon => {
                let (id, entry) = self.links.entries.iter_mut().next()?;
                (&mut entry.link, number_of(*id))
            }
        };
        let reference = self.references.get_mut(&number);
        Some((link, reference.expect("each link has a model")))
    }

    pub(super) fn reference(&mut self, id: LinkId) -> &mut Reference {
        let number = number_of(id);
        let new = || Reference::new(number);
        self.references.entry(number).or_insert_with(new)
    }

    /// Does one event of the list.
    pub(super) fn act(&mut self, action: Action) -> Checked {
        self.counts.actions += 1;
        let now = self.now;
        match action {
            Action::Open(end, lane) => {
                if let Some((link, reference)) = self.end(end) {
                    let sides = reference.streams.values();
                    if sides.filter(|sides| sides.iter().any(Side::lives)).count() < STREAMS {
                        let id = link.open(lane);
                        reference.opens(end, id)?;
                    }
                }
            }
            Action::Send(end, choice, bytes) => self.send(end, choice, bytes)?,
            Action::Finish(end, choice) => {
                self.on_stream(end, choice, Side::writes, |link, reference, id| match link.finish(id) {
                    Ok(()) => reference.finishes(end, id),
                    Err(_) => reference.refused(end, id),
                })?;
            }
            Action::Reset(end, choice, code) => {
                self.on_stream(end, choice, Side::lives, |link, reference, id| {
                    link.reset(id, code);
                    reference.gives_up(end, id, code)
                })?;
            }
            Action::Release(end, choice) => {
                self.on_stream(end, choice, Side::lives, |link, reference, id| {
                    link.release(id);
                    reference.releases(end, id)
                })?;
            }
            Action::Consume(end, choice, times) => {
                self.on_stream(end, choice, Side::reads, |link, reference, id| read(link, reference, end, id, times))?;
            }
            Action::Cut(to_daemon, to_client) => {
                if let Some(carrier) = self.clients_carrier() {
                    carrier.wires[End::Daemon as usize].cut(now, to_daemon as usize);
                    carrier.wires[End::Client as usize].cut(now, to_client as usize);
                    self.counts.cuts += 1;
                }
            }
            Action::Silence => {
                if let Some(carrier) = self.clients_carrier() {
                    carrier.wires.iter_mut().for_each(Wire::silence);
                    self.counts.cuts += 1;
                }
            }
            Action::Dial(told, ms) => self.dial(told, ms),
            Action::Delay(end, ms) => {
                if let Some(carrier) = self.clients_carrier() {
                    carrier.wires[end as usize].delay = Duration::from_millis(ms.into());
                }
            }
            Action::Stall(end, ms) => {
                if let Some(carrier) = self.clients_carrier() {
                    let until = now + Duration::from_millis(ms.into());
                    carrier.wires[end as usize].stall(until);
                }
            }
            Action::Wait(ms) => self.advance(now + Duration::from_millis(ms.into()))?,
            Action::Away(seconds) => {
                self.leave();
                self.client.retry_at = now + Duration::from_secs(seconds.into());
                self.advance(self.client.retry_at)?;
            }
            Action::Restart => {
                self.leave();
                self.new_link();
            }
            Action::Replay(choice, messages) => self.replay(choice, messages as usize),
            Action::Intrude(intruder) => self.intrude(intruder),
        }
        self.pump()?;
        self.check()
    }

    fn on_stream(
        &mut self,
        end: End,
        choice: u32,
        fits: impl Fn(&Side) -> bool,
        act: impl FnOnce(&mut Link, &mut Reference, StreamId) -> Checked,
    ) -> Checked {
        let Some((link, reference)) = self.end(end) else {
            return Ok(());
        };
        match reference.pick(end, choice, fits) {
            Some(id) => act(link, reference, id),
            None => Ok(()),
        }
    }

    fn send(&mut self, end: End, choice: u32, most: u32) -> Checked {
        self.on_stream(end, choice, Side::writes, |link, reference, id| {
            let Ok(capacity) = link.capacity(id) else {
                return reference.refused(end, id);
            };
            let side = reference.side(end, id)?;
            side.starved = capacity == 0;
            let length = capacity.min(most as usize).min(60_000);
            let from = side.sent;
            let bytes = payload(reference.number, id, end, from, length);
            link.write(id, bytes).map_err(|_| Violation(format!("{id:?} has room and takes nothing")))?;
            reference.sends(end, id, length as u64)
        })
    }

    /// The carrier that the client has or tries to get.
    fn clients_carrier(&mut self) -> Option<&mut Carrier> {
        let id = self.client.carrier.or(self.client.attempt)?;
        self.carriers.get_mut(&id)
    }

    /// The client gives its carrier up; what is under way still arrives.
    pub(super) fn leave(&mut self) {
        self.client.link.carrier_lost();
        for id in [self.client.carrier.take(), self.client.attempt.take()] {
            if let Some(carrier) = id.and_then(|id| self.carriers.get_mut(&id)) {
                carrier.client = None;
                carrier.wires[End::Daemon as usize].close(self.now);
            }
        }
        self.client.retry_at = self.now + RETRY;
    }

    /// The client gives its link up.
    pub(super) fn new_link(&mut self) {
        let Client { link, number, .. } = &mut self.client;
        self.counts.duplicates += link.duplicates();
        if let Some(reference) = self.references.get_mut(number) {
            reference.forgotten.get_or_insert("the client began a new link");
        }
        *number += 1;
        self.references.insert(*number, Reference::new(*number));
        self.client.link = Link::new(Role::Device);
        self.client.epoch = 0;
        self.client.resumable = false;
        self.client.retry_at = self.now;
    }

    /// The client tries to get a carrier, in place of what it has.
    pub(super) fn dial(&mut self, told: Told, ms: u32) {
        self.counts.races += u64::from(self.client.attempt.is_some());
        self.leave();
        self.client.epoch += 1;
        let truth = self.client.link.cursors();
        let cursors = self.client.resumable.then(|| match told {
            Told::Truth => truth,
            Told::Behind(frames) => truth.map(|cursor| cursor.saturating_sub(frames.into())),
            Told::Beyond => truth.map(|cursor| cursor + 1_000_000),
        });
        let honest = cursors.is_none_or(|cursors| cursors == truth);
        let link = LinkRequest { id: link_id(self.client.number), epoch: self.client.epoch, cursors };
        let id = self.shake(Hello::new(false, link), Whose::Client { honest }, ms);
        self.client.attempt = Some(id);
    }

    /// Begins a handshake on a new carrier.
    fn shake(&mut self, hello: Hello, whose: Whose, ms: u32) -> u32 {
        // Long for the first contact, and now and then because the daemon's key was forgotten.
        let manner = Manner { real: self.real, long: self.last_carrier.is_multiple_of(4) };
        let (client, message) = handshake::Client::start(&self.keys, manner, hello, &mut self.random);
        let id = self.carrier(hello, whose, ms, ClientPhase::Shaking(client));
        self.put(id, End::Client, &message);
        id
    }

    fn carrier(&mut self, hello: Hello, whose: Whose, ms: u32, client: ClientPhase) -> u32 {
        self.last_carrier += 1;
        let delay = Duration::from_millis(ms.into());
        let carrier = Carrier {
            hello,
            whose,
            wires: [Wire::new(delay), Wire::new(delay)],
            client: Some(client),
            daemon: Some(DaemonPhase::Shaking(handshake::Daemon::First)),
            patience: self.now + HANDSHAKE_TIME,
            recorded: Vec::new(),
            ahead: Vec::new(),
            next: [[0; 4]; 2],
        };
        self.carriers.insert(self.last_carrier, carrier);
        self.last_carrier
    }

    /// Writes a message, and records it when it is the client's.
    pub(super) fn put(&mut self, carrier: u32, from: End, message: &[u8]) {
        let Some(carrier) = self.carriers.get_mut(&carrier) else {
            return;
        };
        carrier.wires[from.peer() as usize].write(self.now, message);
        let own = matches!(carrier.whose, Whose::Client { .. });
        if from == End::Client && own && carrier.recorded.len() < RECORDED {
            carrier.recorded.push(message.to_vec());
        }
    }

    /// Keeps what was recorded of a carrier that is gone.
    pub(super) fn keep_recording(&mut self, hello: Hello, recorded: Vec<Vec<u8>>) {
        if !recorded.is_empty() {
            if self.recordings.len() == RECORDED {
                self.recordings.remove(0);
            }
            self.recordings.push((hello, recorded));
        }
    }

    fn replay(&mut self, choice: u32, messages: usize) {
        if self.recordings.is_empty() {
            return;
        }
        let choice = choice as usize % self.recordings.len();
        let (hello, recorded) = self.recordings[choice].clone();
        let id = self.carrier(hello, Whose::Recording, 5, ClientPhase::Deaf);
        for message in recorded.iter().take(messages) {
            self.put(id, End::Client, message);
        }
        self.counts.replays += 1;
    }

    fn intrude(&mut self, intruder: Intruder) {
        let cursors = Some(self.client.link.cursors());
        let id = link_id(self.client.number);
        let epoch = self.reference(id).epoch;
        if epoch == 0 {
            return;
        }
        let (thief, epoch) = match intruder {
            Intruder::Thief => (true, epoch + 1_000),
            Intruder::Latecomer => (false, epoch),
        };
        let link = LinkRequest { id, epoch, cursors };
        self.shake(Hello::new(thief, link), Whose::Intruder, 5);
    }

    /// Lets everything that was sent arrive, on carriers that hold.
    pub(super) fn calm(&mut self) -> Checked {
        for carrier in self.carriers.values_mut() {
            for wire in &mut carrier.wires {
                wire.delay = Duration::from_millis(10);
            }
        }
        self.client.retry_at = self.client.retry_at.min(self.now);
        self.settle(false)?;
        for end in End::BOTH {
            if let Some((_, reference)) = self.end(end) {
                for (id, sides) in &reference.streams {
                    let side = &sides[end as usize];
                    ensure!(!(side.writes() && side.starved), "the {end} was not told that {id:?} has room");
                }
            }
        }
        self.settle(true)?;
        self.reference(link_id(self.client.number)).is_complete()?;
        for end in End::BOTH {
            let Some((link, _)) = self.end(end) else {
                return Err(Violation("the daemon has no link in the end".to_owned()));
            };
            let (kept, streams) = (link.replay_bytes(), link.streams_held());
            ensure!(kept == 0, "the {end} keeps {kept} bytes in the end");
            ensure!(streams == 0, "the {end} has {streams} streams in the end");
            let duplicates = link.duplicates();
            self.counts.duplicates += duplicates;
        }
        for reference in self.references.values() {
            self.counts.windows_turned += reference.turned;
            let sides = reference.streams.values().flatten();
            self.counts.bytes += sides.map(|side| side.read).sum::<u64>();
        }
        Ok(())
    }

    /// Lets time pass, reading what is there and, with `finish`, finishing every stream, until nothing happens.
    fn settle(&mut self, finish: bool) -> Checked {
        let mut quiet = 0;
        for _ in 0..5_000 {
            self.advance(self.now + Duration::from_millis(50))?;
            let mut active = false;
            for end in End::BOTH {
                active |= self.work(end, finish)?;
            }
            self.pump()?;
            quiet = if active || !self.is_quiet() { 0 } else { quiet + 1 };
            if quiet == 3 {
                return Ok(());
            }
        }
        Err(Violation("no calm came".to_owned()))
    }

    /// Reads, only where the link said that there is something, and finishes. Whether there was anything to do.
    fn work(&mut self, end: End, finish: bool) -> Checked<bool> {
        let Some((link, reference)) = self.end(end) else {
            return Ok(true);
        };
        let busy = |side: &Side| (side.reads() && !side.blocked) || (finish && side.writes());
        let streams = reference.streams.iter();
        let busy: Vec<StreamId> = streams.filter(|(_, sides)| busy(&sides[end as usize])).map(|(id, _)| *id).collect();
        for &id in &busy {
            let side = reference.side(end, id)?;
            if finish && side.writes() {
                match link.finish(id) {
                    Ok(()) => reference.finishes(end, id)?,
                    Err(_) => reference.refused(end, id)?,
                }
            }
            let side = reference.side(end, id)?;
            if side.reads() && !side.blocked {
                read(link, reference, end, id, u32::MAX)?;
            }
        }
        Ok(!busy.is_empty())
    }

    fn is_quiet(&mut self) -> bool {
        let up = self.client.carrier;
        let both = self.links.entries.values().any(|entry| up.is_some() && entry.carrier == up);
        let silent = up.and_then(|id| self.carriers.get(&id));
        let silent = silent.is_some_and(|carrier| carrier.wires.iter().any(Wire::is_silent));
        let empty = |wire: &Wire| wire.bytes() == 0;
        both && !silent
            && End::BOTH.into_iter().all(|end| self.end(end).is_some_and(|(link, _)| link.replay_bytes() == 0))
            && self.carriers.values().all(|carrier| carrier.wires.iter().all(empty))
    }
}

fn read(link: &mut Link, reference: &mut Reference, end: End, id: StreamId, times: u32) -> Checked {
    for _ in 0..times {
        let read = link.read(id);
        reference.reads(end, id, &read)?;
        if !matches!(read, Read::Data(_)) {
            break;
        }
    }
    Ok(())
}
