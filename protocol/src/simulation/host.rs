//! The daemon's end: handshakes on any number of carriers, and the decisions about the one link.
//!
//! The decisions are those of the daemon's `links` and `admission`, without the sockets: what an authenticated attempt may
//! do, and when its epoch counts.

use crate::Time;
use crate::bounds::AHEAD_MAX;
use crate::fault::{self, Fault};
use crate::frame::Frame;
use crate::handshake::{
    Authenticated, AwaitFirst, AwaitHello, DeviceHello, InvitationKey, LinkRequest, Responder,
    VERSIONS, Verdict,
};
use crate::id::LinkId;
use crate::identity::{Credentials, Role};
use crate::link::Link;
use crate::refusal::Refusal;

pub(super) struct Host {
    pub(super) credentials: Credentials,
    pub(super) entry: Option<Entry>,
    /// Links that were: their ids are not used again.
    ended: Vec<LinkId>,
    /// Recordings that got as far as an answer.
    pub(super) refusals: u64,
}

/// The link, as the daemon has it.
pub(super) struct Entry {
    pub(super) link: Link,
    pub(super) id: LinkId,
    pub(super) epoch: u32,
    /// The carrier that it is up on.
    pub(super) carrier: Option<usize>,
}

/// How far a carrier's handshake is.
pub(super) enum Phase {
    Start,
    Hello(Box<AwaitHello>),
    First(Box<AwaitFirst>, Vec<Frame>),
    Up,
    Gone,
}

impl Host {
    pub(super) fn new(credentials: Credentials) -> Self {
        Host {
            credentials,
            entry: None,
            ended: Vec::new(),
            refusals: 0,
        }
    }

    /// Ends the link.
    pub(super) fn end(&mut self) {
        self.ended.extend(self.entry.take().map(|entry| entry.id));
    }

    /// Takes a packet that arrived on a carrier. What it answers is put into `replies`.
    pub(super) fn handle(
        &mut self,
        now: Time,
        carrier: usize,
        phase: Phase,
        packet: &[u8],
        entropy: [u8; 64],
        replies: &mut Vec<Vec<u8>>,
    ) -> Phase {
        match phase {
            Phase::Gone => Phase::Gone,
            Phase::Start => self.start(packet, entropy, replies),
            Phase::Hello(hello) => match hello.handle(packet) {
                Ok(authenticated) => self.proved(now, carrier, authenticated, replies),
                // A recorded message 3 answers another key than this attempt's.
                Err(_) => Phase::Gone,
            },
            Phase::First(first, ahead) => match first.handle(packet) {
                Ok((authenticated, plain)) => {
                    match self.admit(&authenticated.hello, carrier) {
                        Ok(_) => self.establish(now, authenticated),
                        Err(refusal) => {
                            self.refusals += 1;
                            let mut authenticated = authenticated;
                            replies.push(authenticated.farewell(refusal));
                            return Phase::Gone;
                        }
                    }
                    let link = &mut self.entry.as_mut().expect("it was admitted").link;
                    link.sent_ahead(&ahead);
                    link.handle_plain(now, plain)
                        .expect("an honest first packet");
                    Phase::Up
                }
                Err(_) => Phase::Gone,
            },
            Phase::Up => {
                // Nothing is taken from a carrier that was fenced off.
                if let Some(entry) = &mut self.entry
                    && entry.carrier == Some(carrier)
                {
                    entry
                        .link
                        .handle_packet(now, packet)
                        .expect("an honest packet");
                    return Phase::Up;
                }
                Phase::Gone
            }
        }
    }

    fn start(&mut self, packet: &[u8], entropy: [u8; 64], replies: &mut Vec<Vec<u8>>) -> Phase {
        match Responder::start(&VERSIONS, &self.credentials, packet, entropy) {
            Ok(Responder::Anonymous(first)) => {
                let reply = first.reply(&self.credentials, InvitationKey::NotClaimed);
                let (next, message) = reply.expect("a good ML-KEM key");
                replies.push(message);
                Phase::Hello(Box::new(next.expect("nothing was refused")))
            }
            Ok(Responder::Named(first)) => {
                let foreseen = self.foresee(&first.hello.link);
                let verdict = match &foreseen {
                    Ok((cursors, _)) => accepted(*cursors),
                    Err(refusal) => Verdict::refused(*refusal, "host"),
                };
                let reply = first.reply(&self.credentials, &verdict);
                let (next, message) = reply.expect("a good ML-KEM key");
                replies.push(message);
                let (Some(mut next), Ok((_, ahead))) = (next, foreseen) else {
                    self.refusals += 1;
                    return Phase::Gone;
                };
                replies.extend(next.ahead(&ahead));
                Phase::First(Box::new(next), ahead)
            }
            Err(_) => Phase::Gone,
        }
    }

    fn proved(
        &mut self,
        now: Time,
        carrier: usize,
        mut authenticated: Authenticated,
        replies: &mut Vec<Vec<u8>>,
    ) -> Phase {
        match self.admit(&authenticated.hello, carrier) {
            Ok(cursors) => {
                replies.push(authenticated.verdict(&accepted(cursors)));
                self.establish(now, authenticated);
                Phase::Up
            }
            Err(refusal) => {
                self.refusals += 1;
                replies.push(authenticated.verdict(&Verdict::refused(refusal, "host")));
                Phase::Gone
            }
        }
    }

    /// What [`admit`](Self::admit) would say; nothing is changed.
    fn foresee(&self, request: &LinkRequest) -> Result<([u64; 4], Vec<Frame>), Refusal> {
        match (&self.entry, request.cursors) {
            (Some(entry), cursors) if entry.id == request.id => {
                let cursors = cursors.unwrap_or_default();
                if !entry.is_newer(request.epoch) {
                    Err(Refusal::StaleEpoch)
                } else if entry.link.can_resume(cursors) {
                    let ahead = entry.link.missing(cursors, AHEAD_MAX);
                    Ok((entry.link.cursors(), ahead))
                } else {
                    Err(Refusal::LinkExpired)
                }
            }
            (_, None) if !self.ended.contains(&request.id) => Ok(([0; 4], Vec::new())),
            _ => Err(Refusal::LinkExpired),
        }
    }

    fn admit(&mut self, hello: &DeviceHello, carrier: usize) -> Result<[u64; 4], Refusal> {
        let LinkRequest { id, epoch, cursors } = hello.link;
        if let Some(entry) = self.entry.as_mut().filter(|entry| entry.id == id) {
            if !entry.is_newer(epoch) {
                return Err(Refusal::StaleEpoch);
            }
            let cursors = cursors.unwrap_or_default();
            entry.epoch = epoch;
            entry.link.carrier_lost();
            entry.carrier = Some(carrier);
            if !entry.link.can_resume(cursors) {
                self.end();
                return Err(Refusal::LinkExpired);
            }
            return Ok(entry.link.cursors());
        }
        if cursors.is_some() || self.ended.contains(&id) {
            return Err(Refusal::LinkExpired);
        }
        self.end();
        self.entry = Some(Entry {
            link: Link::new(Role::Daemon),
            id,
            epoch,
            carrier: Some(carrier),
        });
        Ok([0; 4])
    }

    fn establish(&mut self, now: Time, authenticated: Authenticated) {
        let Authenticated {
            hello,
            cipher,
            version,
            ..
        } = authenticated;
        let entry = self.entry.as_mut().expect("it was admitted");
        let cursors = hello.link.cursors.unwrap_or_default();
        let established = entry.link.establish(now, cipher, version, cursors);
        established.expect("the cursors were looked at");
    }
}

impl Entry {
    fn is_newer(&self, epoch: u32) -> bool {
        epoch > self.epoch || fault::is(Fault::EpochNotFenced)
    }
}

fn accepted(cursors: [u64; 4]) -> Verdict {
    Verdict {
        refusal: 0,
        retry: false,
        cursors,
        ..Verdict::refused(Refusal::Busy, "host")
    }
}
