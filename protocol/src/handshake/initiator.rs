//! The client's side of the handshake.

use std::ops::RangeInclusive;

use snow::HandshakeState;

use super::head::LENGTH;
use super::kem::{self, DecapsulationKey};
use super::{
    DaemonDecision, DaemonHello, DeviceHello, DeviceProof, HandshakeError, Head, LinkRequest, Pattern, Verdict, decode,
    encode, kind, noise,
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
    /// The daemon's X25519 Noise key, from its last certificate. With it, a pinned identity and no claim, the pattern is
    /// IKpsk2, else XXpsk3.
    pub noise_key: Option<[u8; 32]>,
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
    pattern: Pattern,
    head: [u8; LENGTH],
    kem: DecapsulationKey,
    versions: RangeInclusive<u8>,
    pinned: Option<IdentityKey>,
    serial: u64,
    claim: Option<Claim>,
    hello: DeviceHello,
}

/// What the daemon's first message means.
#[derive(Debug)]
pub enum Reply {
    /// XX: send `message`, then wait for the verdict.
    Prove {
        /// Message 3.
        message: Vec<u8>,
        /// Takes what follows.
        next: AwaitVerdict,
    },
    /// IK: the daemon has decided. [`Outcome::Waiting`] does not occur.
    Decided(Outcome),
}

/// The client has sent message 3.
#[derive(Debug)]
pub struct AwaitVerdict {
    cipher: Cipher,
    daemon: Certificate,
    version: u8,
}

impl AwaitVerdict {
    /// The daemon's certificate, of which message 2 has proved that it is the peer's.
    #[must_use]
    pub fn daemon(&self) -> &Certificate {
        &self.daemon
    }

    /// The version that the daemon chose.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.version
    }
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
    /// Makes message 1. `entropy` must be fresh: 32 bytes for X25519, then 64 for ML-KEM.
    #[must_use]
    pub fn start(self, entropy: [u8; 32 + kem::SEED]) -> (AwaitReply, Vec<u8>) {
        let (ephemeral, seed) = entropy.split_at(32);
        let (kem, kem_key) = kem::generate(seed.try_into().expect("64 of 96 bytes are left"));
        let known = self.noise_key.filter(|_| self.claim.is_none() && self.pinned.is_some());
        let pattern = if known.is_some() { Pattern::Ik } else { Pattern::Xx };
        let head = Head {
            versions: self.versions.clone(),
            pattern,
            invitation: self.claim.as_ref().map(|claim| claim.id),
            kem_key,
        }
        .encode();
        let mut state = noise::start(
            noise::Side::Initiator,
            pattern,
            &head,
            self.credentials.noise_secret(),
            known.as_ref(),
            ephemeral.try_into().expect("the first of two parts has 32 bytes"),
        );
        let hello = DeviceHello {
            certificate: self.credentials.certificate().clone(),
            name: self.name,
            client: self.client,
            features: self.features,
            link: self.link,
        };
        let payload = match pattern {
            Pattern::Xx => Vec::new(),
            Pattern::Ik => encode(&hello),
        };
        let mut message = head.to_vec();
        noise::write(&mut state, &payload, &mut message);
        let next = AwaitReply {
            state,
            pattern,
            head,
            kem,
            versions: self.versions,
            pinned: self.pinned,
            serial: self.serial,
            claim: self.claim,
            hello,
        };
        (next, message)
    }
}

impl AwaitReply {
    /// Takes the daemon's first message. Nothing of the device's is sent to a daemon that is not the pinned one.
    ///
    /// # Errors
    /// When the daemon refused or is not the pinned one, or the message is not of this protocol.
    pub fn handle(mut self, reply: &[u8]) -> Result<Reply, HandshakeError> {
        let (ciphertext, message) = match reply.split_first() {
            Some((&kind::NOISE, rest)) => {
                rest.split_first_chunk::<{ kem::CIPHERTEXT }>().ok_or(HandshakeError::Malformed)?
            }
            Some((&kind::REFUSAL, [high, low])) => {
                let refusal = Refusal::from_number(u16::from_be_bytes([*high, *low]), true);
                if !refusal.in_clear() {
                    return Err(HandshakeError::Malformed);
                }
                return Err(HandshakeError::Refused { refusal, authenticated: false });
            }
            _ => return Err(HandshakeError::Malformed),
        };
        let key = self.claim.as_ref().map_or([0; 32], |claim| claim.secret.key());
        let shared = self.kem.decapsulate(ciphertext);
        let psk = noise::psk(&key, &shared, &self.head, ciphertext);
        noise::set_psk(&mut self.state, self.pattern, &psk);
        let payload = noise::read(&mut self.state, message)?;
        match self.pattern {
            Pattern::Xx => self.prove(&payload),
            Pattern::Ik => self.decided(&payload).map(Reply::Decided),
        }
    }

    fn prove(mut self, payload: &[u8]) -> Result<Reply, HandshakeError> {
        let hello: DaemonHello = decode(payload)?;
        self.check(&hello.certificate)?;
        if hello.refusal != 0 {
            let refusal = Refusal::from_number(hello.refusal, false);
            return Err(HandshakeError::Refused { refusal, authenticated: true });
        }
        self.check_version(hello.version)?;
        let proof = DeviceProof { device: self.hello, secret: self.claim.map(|claim| *claim.secret.as_bytes()) };
        let mut message = Vec::new();
        noise::write(&mut self.state, &encode(&proof), &mut message);
        let next =
            AwaitVerdict { cipher: Cipher::noise(self.state), daemon: hello.certificate, version: hello.version };
        Ok(Reply::Prove { message, next })
    }

    fn decided(self, payload: &[u8]) -> Result<Outcome, HandshakeError> {
        let decision: DaemonDecision = decode(payload)?;
        self.check(&decision.certificate)?;
        let DaemonDecision { version, certificate: daemon, verdict } = decision;
        if verdict.refusal != 0 {
            return Ok(Outcome::Refused {
                refusal: Refusal::from_number(verdict.refusal, verdict.retry),
                name: verdict.name,
            });
        }
        self.check_version(version)?;
        Ok(Outcome::Accepted { cipher: Cipher::noise(self.state), verdict, daemon, version })
    }

    fn check(&self, certificate: &Certificate) -> Result<(), HandshakeError> {
        certificate.verify(Role::Daemon, &noise::peer_key(&self.state))?;
        let found = certificate.identity();
        if let Some(expected) = self.pinned.filter(|expected| *expected != found) {
            return Err(HandshakeError::OtherDaemon { expected: expected.fingerprint(), found: found.fingerprint() });
        }
        if certificate.serial() < self.serial {
            return Err(HandshakeError::StaleSerial);
        }
        Ok(())
    }

    fn check_version(&self, version: u8) -> Result<(), HandshakeError> {
        if self.versions.contains(&version) { Ok(()) } else { Err(HandshakeError::Malformed) }
    }
}

impl AwaitVerdict {
    /// Takes a packet.
    ///
    /// # Errors
    /// When it does not decrypt or breaks the protocol.
    pub fn handle(mut self, packet: &[u8]) -> Result<Outcome, HandshakeError> {
        let plain = self.cipher.open(packet).map_err(|_| HandshakeError::Decrypt)?;
        let mut reply = PacketWriter::new(self.version);
        let mut pending = false;
        for frame in parse_packet(self.version, plain.into()).map_err(|_| HandshakeError::Malformed)? {
            match frame.map_err(|_| HandshakeError::Malformed)? {
                Frame::Ping { nonce } => reply.push(&Frame::Pong { nonce }),
                Frame::Verdict(body) => {
                    let verdict: Verdict = decode(&body)?;
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
                        return Ok(Outcome::Refused { refusal, name: verdict.name });
                    }
                }
                _ => return Err(HandshakeError::Malformed),
            }
        }
        let reply = (!reply.is_empty()).then(|| self.cipher.seal(reply.plain()));
        Ok(Outcome::Waiting { reply, next: self, pending })
    }
}
