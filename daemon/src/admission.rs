//! Admission: from a carrier to a link, through the handshake.
//!
//! ```text
//!  carrier ─▶ message 1 ─┬─ XX ─▶ message 3 ─▶ decision ─┬─▶ enrolled ─▶ link ─▶ verdict, then frames
//!               │        │           │                  ├─▶ pending: held until the owner decides, ten minutes at most
//!               │        │           └─ dropped         └─▶ refused, inside the encrypted channel
//!               │        └─ IK ─▶ decision foreseen ─▶ message 2 ─▶ first packet ─▶ decision ─▶ link
//!               └─ refused in clear, or dropped
//! ```

use std::io;

use bytes::Bytes;
use keepline_carrier::entropy;
use keepline_carrier::packet::{Carrier, Kind};
use keepline_protocol::bounds::{HANDSHAKE_TIME, PROBE_AFTER};
use keepline_protocol::frame::Frame;
use keepline_protocol::handshake::{
    Anonymous, Authenticated, DeviceHello, HandshakeError, InvitationKey, Named, Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::{DeviceId, InvitationId};
use keepline_protocol::identity::Credentials;
use keepline_protocol::invitation::Secret;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::scope::Scopes;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bounds::{PARTING_TIME, PENDING_HELD, PENDING_SILENCE};
use crate::daemon::Daemon;
use crate::gate::{Lost, Place};
use crate::links::Admitted;
use crate::services::{self, Caller};
use crate::session::audit::Event;
use crate::session::{Claim, Decision, Reason, Standing};

/// Why a carrier got no link.
#[derive(Debug, thiserror::Error)]
enum Turned {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the connection ended in the handshake")]
    Eof,
    #[error("the handshake took too long")]
    Slow,
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("refused: {0}")]
    Refused(Refusal, Option<DeviceId>),
    #[error("not keepline's protocol")]
    Foreign,
    #[error("pushed out by newer connections")]
    PushedOut,
}

/// What is to be done with an authenticated device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decided {
    In,
    Pending,
    Out(Refusal),
}

/// What XX ends with: who it is, and the invitation that the head named.
type Proved = (Authenticated, Option<InvitationId>);

impl Daemon {
    /// Serves a carrier that passed no gate from its first byte to its end. `peer` says where it comes from, for people.
    pub async fn serve_carrier(&self, mut carrier: Carrier, peer: String) {
        let shaken = timeout(HANDSHAKE_TIME, self.shake_hands(&mut carrier, None)).await;
        let shaken = shaken.unwrap_or(Err(Turned::Slow));
        self.admit(shaken, carrier, &peer).await;
    }

    /// As [`serve_carrier`](Self::serve_carrier), with the place at the gate that the carrier holds until it has proved who
    /// it is.
    pub(crate) async fn serve_gated(&self, mut carrier: Carrier, peer: &str, place: Place, mut lost: Lost) {
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE_TIME, self.shake_hands(&mut carrier, Some(&place))) => {
                shaken.unwrap_or(Err(Turned::Slow))
            }
            () = lost.wait() => Err(Turned::PushedOut),
        };
        if let Err(Turned::Slow | Turned::Foreign | Turned::Handshake(_)) = shaken {
            place.misbehaved();
        }
        drop(place);
        self.admit(shaken, carrier, peer).await;
    }

    async fn admit(&self, shaken: Result<Shaken, Turned>, carrier: Carrier, peer: &str) {
        let admitted = match shaken {
            Ok(Shaken::Proved(proved)) => self.admit_proved(*proved, carrier, peer).await,
            Ok(Shaken::Begun(begun)) => self.admit_begun(*begun, carrier, peer).await,
            Err(turned) => Err(turned),
        };
        if let Err(turned) = admitted {
            if let Turned::Refused(refusal, device) = turned
                && !is_routine(refusal)
            {
                // Of keys that are not known there is no end.
                let session = &self.inner.session;
                let device = device.filter(|device| session.standing(*device).is_some());
                let gathered = session.gathered();
                gathered.note(Event::Refused, device, refusal.name(), Some(peer));
            }
            tracing::info!(%peer, %turned, "a connection got no link");
        }
    }

    async fn shake_hands(&self, carrier: &mut Carrier, place: Option<&Place>) -> Result<Shaken, Turned> {
        let credentials = self.credentials();
        match self.first_message(&credentials, carrier).await? {
            Responder::Anonymous(first) => {
                let proved = self.prove(&credentials, *first, carrier).await?;
                Ok(Shaken::Proved(Box::new(proved)))
            }
            Responder::Named(first) => {
                let device = device_of(&first.hello);
                if let Some(place) = place
                    && self.inner.session.standing(device) == Some(Standing::Enrolled)
                {
                    place.proved(device);
                }
                let begun = self.begin(&credentials, *first, carrier).await?;
                Ok(Shaken::Begun(Box::new(begun)))
            }
        }
    }

    async fn first_message(&self, credentials: &Credentials, carrier: &mut Carrier) -> Result<Responder, Turned> {
        let first = carrier.reader.read().await?.ok_or(Turned::Eof)?;
        let responder = Responder::start(&VERSIONS, credentials, &first, entropy());
        match responder {
            Ok(responder) => Ok(responder),
            Err(rejected) => {
                let Some(refusal) = rejected.refusal else {
                    return Err(Turned::Foreign);
                };
                if let Some(reply) = rejected.reply() {
                    carrier.writer.write(reply).await?;
                }
                carrier.writer.close().await;
                Err(Turned::Refused(refusal, None))
            }
        }
    }

    /// XX: messages 2 and 3.
    async fn prove(
        &self,
        credentials: &Credentials,
        first: Anonymous,
        carrier: &mut Carrier,
    ) -> Result<Proved, Turned> {
        let invitation = first.invitation();
        let key = match invitation {
            None => InvitationKey::NotClaimed,
            Some(id) => match self.inner.session.invitation_key(id) {
                Some(key) => InvitationKey::Known(key),
                None => InvitationKey::Unknown,
            },
        };
        let (await_hello, second) = first.reply(credentials, key)?;
        carrier.writer.write(second).await?;
        let Some(await_hello) = await_hello else {
            carrier.writer.close().await;
            return Err(Turned::Refused(Refusal::InvitationUnknown, None));
        };
        let third = carrier.reader.read().await?.ok_or(Turned::Eof)?;
        Ok((await_hello.handle(&third)?, invitation))
    }

    async fn admit_proved(
        &self,
        (mut authenticated, invitation): Proved,
        mut carrier: Carrier,
        peer: &str,
    ) -> Result<(), Turned> {
        let mut claim = self.claim_of(&authenticated.hello, carrier.kind);
        claim.invitation = invitation.map(|id| {
            let shown = authenticated.secret;
            (id, shown.map(|shown| Secret::from_bytes(shown).proof()))
        });
        let mut decision = self.decide(&claim).await;
        if decision == Decided::Pending {
            decision = self.hold(&claim, &mut authenticated, &mut carrier).await?;
        }
        let admitted = self.admitted(decision, &authenticated.hello, carrier.kind, peer);
        match admitted {
            Ok(admitted) => {
                let packet = authenticated.verdict(&self.accepted(admitted.cursors));
                let (number, hello) = self.establish(&admitted, authenticated)?;
                let written = carrier.writer.write(packet).await;
                if written.is_err() {
                    admitted.link.fence();
                }
                // Also when the verdict could not be written: the link's lease runs from here.
                self.run(admitted, hello, number, carrier).await;
                Ok(written?)
            }
            Err(refusal) => {
                let packet = authenticated.verdict(&Verdict::refused(refusal, &self.inner.name));
                self.part(packet, carrier).await;
                Err(Turned::Refused(refusal, Some(device_of(&authenticated.hello))))
            }
        }
    }

    /// IK: the decision in message 2, then the first packet of the client's. Until that is there nothing is changed, because
    /// message 1 may be a recording.
    async fn begin(&self, credentials: &Credentials, first: Named, carrier: &mut Carrier) -> Result<Begun, Turned> {
        let hello = &first.hello;
        let device = device_of(hello);
        let claim = self.claim_of(hello, carrier.kind);
        let foreseen = match decided(self.inner.session.foresee(&claim)) {
            Decided::In => {
                let rights = self.rights(device, carrier.kind);
                rights.and_then(|scopes| self.inner.links.foresee(hello, scopes))
            }
            Decided::Pending => Err(Refusal::Pending),
            Decided::Out(refusal) => Err(refusal),
        };
        let (verdict, ahead) = match foreseen {
            Ok((cursors, ahead)) => (self.accepted(cursors), ahead),
            Err(refusal) => (Verdict::refused(refusal, &self.inner.name), Vec::new()),
        };
        let (await_first, second) = first.reply(credentials, &verdict)?;
        let Some(mut await_first) = await_first else {
            let part = say_and_close(carrier, second);
            let _ = timeout(PARTING_TIME, part).await;
            let refusal = Refusal::from_number(verdict.refusal, verdict.retry);
            return Err(Turned::Refused(refusal, Some(device)));
        };
        carrier.writer.write(second).await?;
        for packet in await_first.ahead(&ahead) {
            carrier.writer.write(packet).await?;
        }
        let packet = carrier.reader.read().await?.ok_or(Turned::Eof)?;
        let (authenticated, plain) = await_first.handle(&packet)?;
        Ok(Begun { authenticated, claim, ahead, plain })
    }

    async fn admit_begun(&self, begun: Begun, carrier: Carrier, peer: &str) -> Result<(), Turned> {
        let Begun { mut authenticated, claim, ahead, plain } = begun;
        let decision = self.decide(&claim).await;
        let admitted = self.admitted(decision, &authenticated.hello, carrier.kind, peer);
        match admitted {
            Ok(admitted) => {
                let (number, hello) = self.establish(&admitted, authenticated)?;
                if let Err(error) = admitted.link.begin(&ahead, plain) {
                    tracing::info!(%peer, %error, "a first packet broke the protocol");
                }
                self.run(admitted, hello, number, carrier).await;
                Ok(())
            }
            Err(refusal) => {
                let packet = authenticated.farewell(refusal);
                self.part(packet, carrier).await;
                Err(Turned::Refused(refusal, Some(device_of(&authenticated.hello))))
            }
        }
    }

    /// Gives a device that was decided about its link.
    fn admitted(&self, decision: Decided, hello: &DeviceHello, kind: Kind, peer: &str) -> Result<Admitted, Refusal> {
        match decision {
            Decided::In => {
                let device = device_of(hello);
                let scopes = self.rights(device, kind)?;
                let admitted = self.inner.links.admit(hello, (kind, scopes), peer)?;
                // What the owner decided meanwhile found no link to end.
                if self.rights(device, kind) != Ok(scopes) {
                    let rights = |device, kind| self.rights(device, kind);
                    self.inner.links.close_changed(rights);
                }
                Ok(admitted)
            }
            Decided::Pending => Err(Refusal::Pending),
            Decided::Out(refusal) => Err(refusal),
        }
    }

    fn claim_of(&self, hello: &DeviceHello, kind: Kind) -> Claim {
        Claim {
            key: *hello.certificate.identity().as_bytes(),
            name: hello.name.clone(),
            serial: hello.certificate.serial(),
            invitation: None,
            trusted_carrier: self.listeners_scopes(kind) != Scopes::NONE,
        }
    }

    fn accepted(&self, cursors: [u64; 4]) -> Verdict {
        Verdict {
            refusal: 0,
            retry: false,
            held: false,
            name: self.inner.name.clone(),
            features: 0,
            cursors,
            lease_seconds: u32::try_from(self.inner.links.lease().as_secs()).unwrap_or(u32::MAX),
        }
    }

    async fn decide(&self, claim: &Claim) -> Decided {
        match self.inner.session.claim(claim.clone()).await {
            Ok(decision) => decided(decision),
            Err(failure) => {
                tracing::error!(%failure, "a device's claim could not be recorded");
                Decided::Out(Refusal::Busy)
            }
        }
    }

    /// Keeps a pending device's carrier open until the owner decides, or for so long.
    async fn hold(
        &self,
        claim: &Claim,
        authenticated: &mut Authenticated,
        carrier: &mut Carrier,
    ) -> Result<Decided, Turned> {
        let held = Verdict { held: true, ..Verdict::refused(Refusal::Pending, &self.inner.name) };
        carrier.writer.write(authenticated.verdict(&held)).await?;
        let end = Instant::now() + PENDING_HELD;
        let mut decisions = self.inner.session.decisions();
        let mut probe = tokio::time::interval(PROBE_AFTER);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                changed = timeout_at(end, decisions.changed()) => {
                    if !matches!(changed, Ok(Ok(()))) {
                        return Ok(Decided::Pending);
                    }
                    let decided = self.decide(claim).await;
                    if decided != Decided::Pending {
                        return Ok(decided);
                    }
                }
                packet = carrier.reader.read() => {
                    authenticated.handle(&packet?.ok_or(Turned::Eof)?)?;
                    heard = Instant::now();
                }
                _ = probe.tick() => {
                    if heard.elapsed() > PENDING_SILENCE {
                        return Err(Turned::Slow);
                    }
                    carrier.writer.write(authenticated.probe(0)).await?;
                }
            }
        }
    }

    /// Says the last packet, and leaves the other end time to read it.
    async fn part(&self, packet: Vec<u8>, mut carrier: Carrier) {
        let _ = timeout(PARTING_TIME, say_and_close(&mut carrier, packet)).await;
    }

    fn establish(&self, admitted: &Admitted, authenticated: Authenticated) -> Result<(u64, DeviceHello), Turned> {
        let Authenticated { hello, cipher, version, .. } = authenticated;
        let peer_cursors = hello.link.cursors.unwrap_or_default();
        match admitted.link.establish(cipher, version, peer_cursors) {
            Ok(number) => Ok((number, hello)),
            Err(error) => {
                tracing::warn!(link = %hello.link.id, %error, "a link cannot be resumed");
                self.inner.links.give_up(hello.link.id, &admitted.link);
                Err(Turned::Refused(Refusal::LinkExpired, None))
            }
        }
    }

    /// Serves an established carrier to its end, and the link from its first one on.
    async fn run(&self, admitted: Admitted, hello: DeviceHello, number: u64, carrier: Carrier) {
        let link = admitted.link;
        if admitted.new {
            let device = device_of(&hello);
            let clients = &self.inner.clients;
            let presence = clients.came(hello.link.id, &hello.client, Some(device), &hello.name);
            let caller = Caller::device(device, admitted.scopes, presence);
            tokio::spawn(services::serve_link(self.clone(), link.clone(), caller));
        }
        self.inner.links.run(hello.link.id, link, number, carrier).await;
    }
}

/// A handshake whose client has proved who it is.
enum Shaken {
    /// By XX.
    Proved(Box<Proved>),
    /// By IK.
    Begun(Box<Begun>),
}

/// A handshake with IK that the client's first packet has proved.
struct Begun {
    authenticated: Authenticated,
    claim: Claim,
    /// What was sent right behind message 2.
    ahead: Vec<Frame>,
    /// The client's first packet, opened.
    plain: Bytes,
}

async fn say_and_close(carrier: &mut Carrier, packet: Vec<u8>) -> io::Result<()> {
    carrier.writer.write(packet).await?;
    carrier.writer.close().await;
    // The other end closes when it has read it.
    while carrier.reader.read().await?.is_some() {}
    Ok(())
}

fn device_of(hello: &DeviceHello) -> DeviceId {
    hello.certificate.identity().device_id()
}

/// What a client that does nothing wrong hears again and again is nothing for the audit.
fn is_routine(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Pending | Refusal::LinkExpired | Refusal::StaleEpoch)
}

fn decided(decision: Decision) -> Decided {
    match decision {
        Decision::Enrolled => Decided::In,
        Decision::Pending => Decided::Pending,
        Decision::Refused(reason) => Decided::Out(refusal_of(reason)),
    }
}

fn refusal_of(reason: Reason) -> Refusal {
    match reason {
        Reason::UnknownDevice => Refusal::UnknownDevice,
        Reason::InvitationUnknown => Refusal::InvitationUnknown,
        Reason::InvitationExpired => Refusal::InvitationExpired,
        Reason::InvitationUsed => Refusal::InvitationUsed,
        Reason::InvitationWrong => Refusal::InvitationWrong,
        Reason::Revoked => Refusal::Revoked,
        Reason::StaleSerial => Refusal::StaleSerial,
        Reason::Denied => Refusal::Denied,
    }
}
