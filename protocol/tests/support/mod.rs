//! Two ends of a link on a fake wire, in virtual time.
//!
//! The wire carries whole messages with a delay, loses everything under way when it is cut, and both ends shake hands
//! again over it. Everything follows from the seed.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::time::Duration;

use keepline_protocol::Time;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::handshake::{
    Authenticated, AwaitHello, AwaitReply, AwaitVerdict, Initiator, InvitationKey, LinkRequest, Outcome, Reply,
    Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::link::{Event, Link};
use keepline_protocol::refusal::Refusal;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Client,
    Daemon,
}

enum ClientPhase {
    Down,
    AwaitReply(Box<AwaitReply>),
    AwaitVerdict(Box<AwaitVerdict>),
    Up,
}

enum DaemonPhase {
    Down,
    AwaitHello(Box<AwaitHello>),
    Up,
}

pub struct Pair {
    pub now: Time,
    pub client: Link,
    pub daemon: Link,
    device: Credentials,
    host: Credentials,
    client_phase: ClientPhase,
    daemon_phase: DaemonPhase,
    /// Messages under way, to the client and to the daemon.
    wires: [VecDeque<(Time, Vec<u8>)>; 2],
    delay: Duration,
    /// What each end may have under way, in packets: stands for a kernel's socket buffer.
    window: usize,
    epoch: u32,
    random: fastrand::Rng,
    pub events: Vec<(End, Event)>,
    pub established: u32,
}

impl Pair {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut entropy = || std::array::from_fn(|_| random.u8(..));
        let (device, host) =
            (Credentials::generate(Role::Device, &entropy()), Credentials::generate(Role::Daemon, &entropy()));
        Pair {
            now: Time::ZERO,
            client: Link::new(Role::Device),
            daemon: Link::new(Role::Daemon),
            device,
            host,
            client_phase: ClientPhase::Down,
            daemon_phase: DaemonPhase::Down,
            wires: [VecDeque::new(), VecDeque::new()],
            delay: Duration::from_millis(20),
            window: 4,
            epoch: 0,
            random,
            events: Vec::new(),
            established: 0,
        }
    }

    pub fn link(&mut self, end: End) -> &mut Link {
        match end {
            End::Client => &mut self.client,
            End::Daemon => &mut self.daemon,
        }
    }

    pub fn is_up(&self) -> bool {
        matches!((&self.client_phase, &self.daemon_phase), (ClientPhase::Up, DaemonPhase::Up))
    }

    /// Whether both ends are up and nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.is_up() && self.wires.iter().all(VecDeque::is_empty)
    }

    /// The client begins a handshake on a new carrier.
    pub fn connect(&mut self) {
        self.cut();
        self.epoch += 1;
        let first = self.epoch == 1;
        let link = LinkRequest {
            id: LinkId::from_bytes([1; 16]),
            epoch: self.epoch,
            cursors: (!first).then(|| self.client.cursors()),
        };
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: &self.device,
            pinned: Some(self.host.identity()),
            serial: 1,
            noise_key: None,
            claim: None,
            name: "laptop".to_owned(),
            client: "client".to_owned(),
            features: 0,
            link,
        };
        let entropy = std::array::from_fn(|_| self.random.u8(..));
        let (next, message) = initiator.start(entropy);
        self.client_phase = ClientPhase::AwaitReply(Box::new(next));
        self.put(End::Daemon, message);
    }

    /// The carrier fails; what is under way is lost.
    pub fn cut(&mut self) {
        self.wires.iter_mut().for_each(VecDeque::clear);
        self.client.carrier_lost();
        self.daemon.carrier_lost();
        self.client_phase = ClientPhase::Down;
        self.daemon_phase = DaemonPhase::Down;
    }

    /// The carrier goes silent without failing.
    pub fn black_hole(&mut self) {
        self.wires.iter_mut().for_each(VecDeque::clear);
    }

    fn put(&mut self, to: End, message: Vec<u8>) {
        self.wires[to as usize].push_back((self.now + self.delay, message));
    }

    /// Writes what both ends have to say, as far as the wire takes it.
    pub fn flush(&mut self) {
        for (end, to) in [(End::Client, End::Daemon), (End::Daemon, End::Client)] {
            let up = match end {
                End::Client => matches!(self.client_phase, ClientPhase::Up),
                End::Daemon => matches!(self.daemon_phase, DaemonPhase::Up),
            };
            while up && self.wires[to as usize].len() < self.window {
                let now = self.now;
                let Some(packet) = self.link(end).poll_packet(now) else {
                    break;
                };
                self.put(to, packet);
            }
            while let Some(event) = self.link(end).poll_event() {
                if event == Event::CarrierDead {
                    self.link(end).carrier_lost();
                }
                self.events.push((end, event));
            }
        }
    }

    /// Lets time pass until the next thing happens; false when nothing ever will.
    pub fn step(&mut self) -> bool {
        self.flush();
        let arrivals = self.wires.iter().filter_map(|wire| wire.front().map(|(at, _)| *at));
        let timeouts = [self.client.poll_timeout(), self.daemon.poll_timeout()];
        let Some(next) = arrivals.chain(timeouts.into_iter().flatten()).min() else {
            return false;
        };
        self.now = self.now.max(next);
        for end in [End::Client, End::Daemon] {
            while self.wires[end as usize].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, message) = self.wires[end as usize].pop_front().unwrap();
                self.deliver(end, &message);
            }
            let now = self.now;
            if self.link(end).poll_timeout().is_some_and(|at| at <= now) {
                self.link(end).handle_timeout(now);
            }
        }
        self.flush();
        true
    }

    /// Lets `duration` pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end && self.step() {}
    }

    fn deliver(&mut self, to: End, message: &[u8]) {
        match to {
            End::Client => self.deliver_to_client(message),
            End::Daemon => self.deliver_to_daemon(message),
        }
    }

    fn deliver_to_client(&mut self, message: &[u8]) {
        match std::mem::replace(&mut self.client_phase, ClientPhase::Down) {
            ClientPhase::Down => {}
            ClientPhase::AwaitReply(client) => {
                let Reply::Prove { message, next } = client.handle(message).unwrap() else {
                    panic!("an answer to IK");
                };
                self.client_phase = ClientPhase::AwaitVerdict(Box::new(next));
                self.put(End::Daemon, message);
            }
            ClientPhase::AwaitVerdict(client) => match client.handle(message).unwrap() {
                Outcome::Accepted { cipher, verdict, version, .. } => {
                    self.client.establish(self.now, cipher, version, verdict.cursors).unwrap();
                    self.client_phase = ClientPhase::Up;
                    self.established += 1;
                }
                other => panic!("not accepted: {other:?}"),
            },
            ClientPhase::Up if !self.client.is_up() => self.client_phase = ClientPhase::Up,
            ClientPhase::Up => {
                self.client.handle_packet(self.now, message).unwrap();
                self.client_phase = ClientPhase::Up;
            }
        }
    }

    fn deliver_to_daemon(&mut self, message: &[u8]) {
        match std::mem::replace(&mut self.daemon_phase, DaemonPhase::Down) {
            DaemonPhase::Down => {
                let entropy = std::array::from_fn(|_| self.random.u8(..));
                let responder = Responder::start(&VERSIONS, &self.host, message, entropy).unwrap();
                let Responder::Anonymous(responder) = responder else {
                    panic!("IK was not asked for");
                };
                let (next, second) = responder.reply(&self.host, InvitationKey::NotClaimed).unwrap();
                self.daemon_phase = DaemonPhase::AwaitHello(Box::new(next.unwrap()));
                self.put(End::Client, second);
            }
            DaemonPhase::AwaitHello(daemon) => {
                let authenticated = daemon.handle(message).unwrap();
                self.accept(authenticated);
            }
            DaemonPhase::Up if !self.daemon.is_up() => self.daemon_phase = DaemonPhase::Up,
            DaemonPhase::Up => {
                self.daemon.handle_packet(self.now, message).unwrap();
                self.daemon_phase = DaemonPhase::Up;
            }
        }
    }

    fn accept(&mut self, mut authenticated: Authenticated) {
        let verdict = Verdict { refusal: 0, cursors: self.daemon.cursors(), ..Verdict::refused(Refusal::Busy, "host") };
        let packet = authenticated.verdict(&verdict);
        self.put(End::Client, packet);
        let Authenticated { cipher, version, hello, .. } = authenticated;
        let cursors = hello.link.cursors.unwrap_or_default();
        self.daemon.establish(self.now, cipher, version, cursors).unwrap();
        self.daemon_phase = DaemonPhase::Up;
    }
}

/// Joins two links without a handshake or encryption.
pub fn establish_plainly(pair: &mut Pair) {
    let now = pair.now;
    let (client, daemon) = (pair.client.cursors(), pair.daemon.cursors());
    pair.client.establish(now, Cipher::null(), 1, daemon).unwrap();
    pair.daemon.establish(now, Cipher::null(), 1, client).unwrap();
    pair.client_phase = ClientPhase::Up;
    pair.daemon_phase = DaemonPhase::Up;
}
