//! The client's side of the handshake.

use std::ops::RangeInclusive;

use bytes::Bytes;
use snow::HandshakeState;

use super::head::LENGTH;
use super::{
    DaemonHello, DeviceHello, HandshakeError, Head, LinkRequest, Pattern, Verdict, kind, noise,
};
use crate::cipher::Cipher;
use crate::frame::{Frame, PacketWriter, parse_packet};
use crate::id::InvitationId;
use crate::identity::{Certificate, Credentials, IdentityKey, Role};
use crate::invitation::Secret;
use crate::refusal::Refusal;

/// The invitation that a handshake claims.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its id, which stands in the clear head.
    pub id: InvitationId,
    /// Its secret, which goes to nobody but the pinned daemon.
    pub secret: Secret,
}

/// What the client brings to a handshake.
#[derive(Clone, Debug)]
pub struct Initiator<'a> {
    /// The versions that the client speaks.
    pub versions: RangeInclusive<u8>,
    /// The device's credentials.
    pub credentials: &'a Credentials,
    /// The daemon's identity; absent only on first use of a trusted carrier.
    pub pinned: Option<IdentityKey>,
    /// The highest serial that the daemon's certificates had so far.
    pub serial: u64,
    /// The invitation to claim.
    pub claim: Option<Claim>,
    /// What the device calls itself.
    pub name: String,
    /// The install's id.
    pub client: String,
    /// Feature bits.
    pub features: u64,
    /// The link to open or resume.
    pub link: LinkRequest,
}

/// The client has sent message 1.
#[derive(Debug)]
pub struct AwaitReply {
    state: HandshakeState,
    head: [u8; LENGTH],
    versions: RangeInclusive<u8>,
    pinned: Option<IdentityKey>,
    serial: u64,
    key: [u8; 32],
    hello: DeviceHello,
}

/// The client has sent message 3.
#[derive(Debug)]
pub struct AwaitVerdict {
    cipher: Cipher,
    daemon: Certificate,
    version: u8,
}

/// What a packet that arrived before the final verdict means.
#[derive(Debug)]
pub enum Outcome {
    /// The verdict is not there yet; send `reply`, when there is one.
    Waiting {
        /// A packet that answers a probe.
        reply: Option<Vec<u8>>,
        /// The handshake goes on.
        next: AwaitVerdict,
        /// The daemon says that its owner has to decide.
        pending: bool,
    },
    /// The daemon accepted: establish the link.
    Accepted {
        /// For the link.
        cipher: Cipher,
        /// The verdict.
        verdict: Verdict,
        /// Who accepted: what a client pins, and its certificate's serial.
        daemon: Certificate,
        /// The protocol version of the carrier.
        version: u8,
    },
    /// The daemon refused, and its key vouches for that.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What the daemon's host calls itself.
        name: String,
    },
}

impl Initiator<'_> {
    /// Makes message 1. `entropy` must be fresh.
    #[must_use]
    pub fn start(self, entropy: [u8; 32]) -> (AwaitReply, Vec<u8>) {
        let invitation = self.claim.as_ref().map(|claim| claim.id);
        let head = Head {
            versions: self.versions.clone(),
            pattern: Pattern::Xx,
            invitation,
        }
        .encode();
        let mut state = noise::start(
            noise::Side::Initiator,
            Pattern::Xx,
            &head,
            self.credentials.noise_secret(),
            entropy,
        );
        let mut message = head.to_vec();
        noise::write(&mut state, &[], &mut message);
        let next = AwaitReply {
            state,
            head,
            versions: self.versions,
            pinned: self.pinned,
            serial: self.serial,
            key: self
                .claim
                .as_ref()
                .map_or([0; 32], |claim| claim.secret.key()),
            hello: DeviceHello {
                certificate: self.credentials.certificate().clone(),
                name: self.name,
                client: self.client,
                features: self.features,
                secret: self.claim.map(|claim| *claim.secret.as_bytes()),
                link: self.link,
            },
        };
        (next, message)
    }
}

impl AwaitReply {
    /// Takes the daemon's first message and makes message 3. Nothing of the device's is sent to a daemon that is not the
    /// pinned one.
    ///
    /// # Errors
    /// When the daemon refused or is not the pinned one, or the message is not of this protocol.
    pub fn handle(mut self, reply: &[u8]) -> Result<(AwaitVerdict, Vec<u8>), HandshakeError> {
        let message = match reply.split_first() {
            Some((&kind::NOISE, message)) => message,
            Some((&kind::REFUSAL, [high, low])) => {
                let refusal = Refusal::from_number(u16::from_be_bytes([*high, *low]), true);
                if !refusal.in_clear() {
                    return Err(HandshakeError::Malformed);
                }
                return Err(HandshakeError::Refused {
                    refusal,
                    authenticated: false,
                });
            }
            _ => return Err(HandshakeError::Malformed),
        };
        let payload = noise::read(&mut self.state, message)?;
        let (hello, _): (DaemonHello, _) =
            postcard::take_from_bytes(&payload).map_err(|_| HandshakeError::Malformed)?;
        let used = noise::peer_key(&self.state);
        hello.certificate.verify(Role::Daemon, &used)?;
        let found = hello.certificate.identity();
        if let Some(expected) = self.pinned.filter(|expected| *expected != found) {
            return Err(HandshakeError::OtherDaemon {
                expected: expected.fingerprint(),
                found: found.fingerprint(),
            });
        }
        if hello.certificate.serial() < self.serial {
            return Err(HandshakeError::StaleSerial);
        }
        if hello.refusal != 0 {
            let refusal = Refusal::from_number(hello.refusal, false);
            return Err(HandshakeError::Refused {
                refusal,
                authenticated: true,
            });
        }
        if !self.versions.contains(&hello.version) {
            return Err(HandshakeError::Malformed);
        }
        let psk = noise::psk(&self.key, &self.head, &[]);
        self.state.set_psk(3, &psk).expect("XXpsk3 has a psk at 3");
        let payload = postcard::to_stdvec(&self.hello).expect("a plain struct has a postcard form");
        let mut message = Vec::new();
        noise::write(&mut self.state, &payload, &mut message);
        let cipher = Cipher::noise(self.state);
        Ok((
            AwaitVerdict {
                cipher,
                daemon: hello.certificate,
                version: hello.version,
            },
            message,
        ))
    }
}

impl AwaitVerdict {
    /// Takes a packet.
    ///
    /// # Errors
    /// When it does not decrypt or breaks the protocol.
    pub fn handle(mut self, packet: &[u8]) -> Result<Outcome, HandshakeError> {
        let plain = self
            .cipher
            .open(packet)
            .map_err(|_| HandshakeError::Decrypt)?;
        let mut reply = PacketWriter::new(self.version);
        let mut pending = false;
        for frame in
            parse_packet(self.version, Bytes::from(plain)).map_err(|_| HandshakeError::Malformed)?
        {
            match frame.map_err(|_| HandshakeError::Malformed)? {
                Frame::Ping { nonce } => reply.push(&Frame::Pong { nonce }),
                Frame::Verdict(body) => {
                    let (verdict, _): (Verdict, _) =
                        postcard::take_from_bytes(&body).map_err(|_| HandshakeError::Malformed)?;
                    if verdict.refusal == 0 {
                        return Ok(Outcome::Accepted {
                            cipher: self.cipher,
                            verdict,
                            daemon: self.daemon,
                            version: self.version,
                        });
                    }
                    if verdict.held {
                        pending = true;
                    } else {
                        let refusal = Refusal::from_number(verdict.refusal, verdict.retry);
                        return Ok(Outcome::Refused {
                            refusal,
                            name: verdict.name,
                        });
                    }
                }
                _ => return Err(HandshakeError::Malformed),
            }
        }
        let reply = (!reply.is_empty()).then(|| self.cipher.seal(reply.plain()));
        Ok(Outcome::Waiting {
            reply,
            next: self,
            pending,
        })
    }
}
