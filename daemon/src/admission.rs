//! Admission: from a carrier to a link, through the handshake.
//!
//! ```text
//!  carrier ─▶ message 1 ─▶ message 3 ─▶ decision ─┬─▶ enrolled ─▶ link ─▶ verdict, then frames
//!               │             │                   ├─▶ pending: held until the owner decides, ten minutes at most
//!               └─ refused in clear, or dropped   └─▶ refused, inside the encrypted channel
//! ```

use std::io;
use std::time::Duration;

use keepline_carrier::entropy;
use keepline_carrier::packet::{Carrier, Kind};
use keepline_protocol::bounds::{HANDSHAKE_TIME, PROBE_AFTER};
use keepline_protocol::handshake::{
    Authenticated, HandshakeError, InvitationKey, Rejected, Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::InvitationId;
use keepline_protocol::invitation::Secret;
use keepline_protocol::refusal::Refusal;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bounds::{PENDING_HELD, PENDING_SILENCE};
use crate::daemon::Daemon;
use crate::links::Admitted;
use crate::services::{self, Caller};
use crate::session::{Claim, Decision, Reason};

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
    Refused(Refusal),
    #[error("not keepline's protocol")]
    Foreign,
}

/// What is to be done with an authenticated device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decided {
    In,
    Pending,
    Out(Refusal),
}

impl Daemon {
    /// Serves a carrier from its first byte to its end. `peer` says where it comes from, for people; `half_open` is the
    /// place that it takes until it has proved who it is.
    pub async fn serve_carrier(
        &self,
        carrier: Carrier,
        peer: String,
        half_open: Option<OwnedSemaphorePermit>,
    ) {
        if let Err(turned) = self.admit(carrier, &peer, half_open).await {
            tracing::info!(%peer, %turned, "a connection got no link");
        }
    }

    async fn admit(
        &self,
        mut carrier: Carrier,
        peer: &str,
        half_open: Option<OwnedSemaphorePermit>,
    ) -> Result<(), Turned> {
        let (mut authenticated, invitation) =
            timeout(HANDSHAKE_TIME, self.shake_hands(&mut carrier))
                .await
                .map_err(|_| Turned::Slow)??;
        drop(half_open);
        let kind = carrier.kind;
        let trusted =
            kind == Kind::Unix || (kind == Kind::WebSocket && self.inner.config.trust_network);
        let claim = Claim {
            key: *authenticated.hello.certificate.identity().as_bytes(),
            name: authenticated.hello.name.clone(),
            serial: authenticated.hello.certificate.serial(),
            invitation: invitation.map(|id| {
                (
                    id,
                    authenticated
                        .hello
                        .secret
                        .map(|shown| Secret::from_bytes(shown).proof()),
                )
            }),
            trusted_carrier: trusted,
        };
        let mut decision = self.decide(&claim).await;
        if decision == Decided::Pending {
            decision = self.hold(&claim, &mut authenticated, &mut carrier).await?;
        }
        match decision {
            Decided::In => {}
            Decided::Pending => {
                return self
                    .refuse(Refusal::Pending, &mut authenticated, &mut carrier)
                    .await;
            }
            Decided::Out(refusal) => {
                return self.refuse(refusal, &mut authenticated, &mut carrier).await;
            }
        }
        let admitted = match self.inner.links.admit(&authenticated.hello, kind, peer) {
            Ok(admitted) => admitted,
            Err(refusal) => return self.refuse(refusal, &mut authenticated, &mut carrier).await,
        };
        self.run(admitted, authenticated, carrier).await
    }

    /// The three messages of the handshake.
    async fn shake_hands(
        &self,
        carrier: &mut Carrier,
    ) -> Result<(Authenticated, Option<InvitationId>), Turned> {
        let first = carrier.reader.read().await?.ok_or(Turned::Eof)?;
        let responder = match Responder::start(&VERSIONS, &first) {
            Ok(responder) => responder,
            Err(Rejected { reply: Some(reply) }) => {
                carrier.writer.write(reply).await?;
                carrier.writer.close().await;
                return Err(Turned::Refused(Refusal::Version));
            }
            Err(Rejected { reply: None }) => return Err(Turned::Foreign),
        };
        let invitation = responder.invitation();
        let key = match invitation {
            None => InvitationKey::NotClaimed,
            Some(id) => match self.inner.session.invitation_key(id) {
                Some(key) => InvitationKey::Known(key),
                None => InvitationKey::Unknown,
            },
        };
        let (await_hello, second) = responder.reply(&self.inner.credentials, key, entropy())?;
        carrier.writer.write(second).await?;
        let Some(await_hello) = await_hello else {
            carrier.writer.close().await;
            return Err(Turned::Refused(Refusal::InvitationUnknown));
        };
        let third = carrier.reader.read().await?.ok_or(Turned::Eof)?;
        Ok((await_hello.handle(&third)?, invitation))
    }

    async fn decide(&self, claim: &Claim) -> Decided {
        match self.inner.session.claim(claim.clone()).await {
            Ok(Decision::Enrolled) => Decided::In,
            Ok(Decision::Pending) => Decided::Pending,
            Ok(Decision::Refused(reason)) => Decided::Out(refusal_of(reason)),
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
        let held = Verdict {
            held: true,
            ..Verdict::refused(Refusal::Pending, &self.inner.name)
        };
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

    async fn refuse(
        &self,
        refusal: Refusal,
        authenticated: &mut Authenticated,
        carrier: &mut Carrier,
    ) -> Result<(), Turned> {
        let say = async {
            carrier
                .writer
                .write(authenticated.verdict(&Verdict::refused(refusal, &self.inner.name)))
                .await?;
            carrier.writer.close().await;
            // The other end closes when it has read the verdict.
            while carrier.reader.read().await?.is_some() {}
            Ok::<(), io::Error>(())
        };
        let _ = timeout(Duration::from_secs(2), say).await;
        Err(Turned::Refused(refusal))
    }

    async fn run(
        &self,
        admitted: Admitted,
        mut authenticated: Authenticated,
        mut carrier: Carrier,
    ) -> Result<(), Turned> {
        let Admitted { link, new, cursors } = admitted;
        let verdict = Verdict {
            refusal: 0,
            retry: false,
            held: false,
            name: self.inner.name.clone(),
            features: 0,
            cursors,
            lease_seconds: u32::try_from(self.inner.links.lease().as_secs()).unwrap_or(u32::MAX),
        };
        let packet = authenticated.verdict(&verdict);
        let Authenticated {
            hello,
            cipher,
            version,
        } = authenticated;
        let id = hello.link.id;
        let number = match link.establish(cipher, version, hello.link.cursors.unwrap_or_default()) {
            Ok(number) => number,
            Err(error) => {
                tracing::warn!(link = %id, %error, "a link cannot be resumed");
                self.inner.links.give_up(id, &link);
                return Err(Turned::Refused(Refusal::LinkExpired));
            }
        };
        if new {
            let caller = Caller::device(hello.certificate.identity().device_id());
            tokio::spawn(services::serve_link(self.clone(), link.clone(), caller));
        }
        let written = carrier.writer.write(packet).await;
        if written.is_err() {
            link.fence();
        }
        // Also when the verdict could not be written: the link's lease runs from here.
        self.inner.links.run(id, link, number, carrier).await;
        Ok(written?)
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
