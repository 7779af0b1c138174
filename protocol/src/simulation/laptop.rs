//! The client's end: one link, one attempt at a time. What it does is what the client's relay does.

use crate::Time;
use crate::handshake::{
    AwaitReply, AwaitVerdict, Initiator, LinkRequest, Outcome, Reply, VERSIONS,
};
use crate::id::LinkId;
use crate::identity::{Credentials, Role};
use crate::link::Link;
use crate::refusal::Refusal;

pub(super) struct Laptop {
    credentials: Credentials,
    host: Credentials,
    pub(super) link: Link,
    pub(super) id: LinkId,
    pub(super) epoch: u32,
    /// It has heard that the link is open.
    resumable: bool,
    /// Cursors of this link at some earlier moments.
    earlier: Vec<[u64; 4]>,
    phase: Phase,
    /// The carrier of the present attempt.
    pub(super) carrier: Option<usize>,
    links: u8,
}

enum Phase {
    Down,
    Reply(Box<AwaitReply>),
    Verdict(Box<AwaitVerdict>),
    Up,
}

/// What a packet came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Up,
    /// The daemon refused, or the link was ended: the carrier is done with.
    Refused(Refusal),
}

impl Laptop {
    pub(super) fn new(credentials: Credentials, host: Credentials) -> Self {
        Laptop {
            credentials,
            host,
            link: Link::new(Role::Device),
            id: LinkId::from_bytes([0; 16]),
            epoch: 0,
            resumable: false,
            earlier: Vec::new(),
            phase: Phase::Down,
            carrier: None,
            links: 0,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Down)
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    pub(super) fn give_up_carrier(&mut self) {
        self.link.carrier_lost();
        self.phase = Phase::Down;
        self.carrier = None;
    }

    /// Forgets the link; the next attempt opens a new one.
    pub(super) fn new_link(&mut self) {
        self.give_up_carrier();
        self.links += 1;
        self.id = LinkId::from_bytes([self.links; 16]);
        self.link = Link::new(Role::Device);
        self.epoch = 0;
        self.resumable = false;
        self.earlier.clear();
    }

    /// Starts an attempt and gives message 1. `known`: with IK. `stale`: with cursors, or an epoch, of the past.
    pub(super) fn connect(
        &mut self,
        carrier: usize,
        known: bool,
        stale: Option<Stale>,
        entropy: [u8; 96],
    ) -> Vec<u8> {
        self.give_up_carrier();
        if stale != Some(Stale::Epoch) || self.epoch == 0 {
            self.epoch += 1;
        }
        let now = self.link.cursors();
        let cursors = match (stale, self.earlier.get(self.earlier.len() / 2)) {
            (Some(Stale::Cursors), Some(earlier)) => *earlier,
            _ => now,
        };
        self.earlier.push(now);
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: &self.credentials,
            pinned: Some(self.host.identity()),
            serial: 1,
            noise_key: known.then(|| self.host.certificate().noise_key()),
            claim: None,
            name: "laptop".to_owned(),
            client: "client".to_owned(),
            features: 0,
            link: LinkRequest {
                id: self.id,
                epoch: self.epoch,
                cursors: self.resumable.then_some(cursors),
            },
        };
        let (next, message) = initiator.start(entropy);
        self.phase = Phase::Reply(Box::new(next));
        self.carrier = Some(carrier);
        message
    }

    /// Takes a packet of the present carrier.
    pub(super) fn handle(&mut self, now: Time, packet: &[u8], replies: &mut Vec<Vec<u8>>) -> Told {
        match std::mem::replace(&mut self.phase, Phase::Down) {
            Phase::Down => Told::Nothing,
            Phase::Reply(client) => match client.handle(packet).expect("an honest reply") {
                Reply::Prove { message, next } => {
                    replies.push(message);
                    self.phase = Phase::Verdict(Box::new(next));
                    Told::Nothing
                }
                Reply::Decided(outcome) => self.decided(now, outcome),
            },
            Phase::Verdict(client) => {
                let outcome = client.handle(packet).expect("an honest verdict");
                self.decided(now, outcome)
            }
            Phase::Up => {
                self.phase = Phase::Up;
                self.link
                    .handle_packet(now, packet)
                    .expect("an honest packet");
                match self.link.closed() {
                    Some(refusal) => Told::Refused(refusal),
                    None => Told::Nothing,
                }
            }
        }
    }

    fn decided(&mut self, now: Time, outcome: Outcome) -> Told {
        match outcome {
            Outcome::Accepted {
                cipher,
                verdict,
                version,
                ..
            } => {
                let established = self.link.establish(now, cipher, version, verdict.cursors);
                established.expect("the daemon's cursors are this link's");
                self.phase = Phase::Up;
                self.resumable = true;
                Told::Up
            }
            Outcome::Refused { refusal, .. } => Told::Refused(refusal),
            Outcome::Waiting { .. } => panic!("nobody is pending"),
        }
    }
}

/// What is out of date in an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    Cursors,
    Epoch,
}
