//! The daemon's side of the handshake.

use std::ops::RangeInclusive;

use bytes::Bytes;
use snow::HandshakeState;

use super::head::{HeadError, LENGTH};
use super::{
    DaemonDecision, DaemonHello, DeviceHello, DeviceProof, HandshakeError, Head, Pattern, Verdict, decode, encode, kem,
    kind, noise,
};
use crate::bounds::{CLIENT_ID_MAX, NAME_MAX};
use crate::cipher::Cipher;
use crate::frame::{Frame, PacketWriter, parse_packet};
use crate::id::InvitationId;
use crate::identity::{Credentials, Role};
use crate::refusal::Refusal;

/// Bytes of fresh entropy that an answer takes: 32 for X25519, then 32 for ML-KEM.
const ENTROPY: usize = 64;

/// A first message that the daemon can answer.
#[derive(Debug)]
pub enum Responder {
    /// XX: who it is comes with message 3.
    Anonymous(Box<Anonymous>),
    /// IK: it says who it is.
    Named(Box<Named>),
}

/// The first message of a handshake with XX.
#[derive(Debug)]
pub struct Anonymous {
    first: First,
}

/// The first message of a handshake with IK. It may be an old one that somebody sends again.
#[derive(Debug)]
pub struct Named {
    first: First,
    /// Who the device is and what it wants.
    pub hello: DeviceHello,
}

/// What message 1 leaves.
#[derive(Debug)]
struct First {
    state: HandshakeState,
    head: Head,
    encoded: [u8; LENGTH],
    version: u8,
    kem_entropy: [u8; 32],
}

/// A first message that the daemon does not go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// A refusal in clear to send before closing; absent when the peer never spoke this protocol.
    pub refusal: Option<Refusal>,
}

impl Rejected {
    /// The bytes to send before closing.
    #[must_use]
    pub fn reply(&self) -> Option<Vec<u8>> {
        let [high, low] = self.refusal?.number().to_be_bytes();
        Some(vec![kind::REFUSAL, high, low])
    }
}

/// What the daemon keeps of the invitation that a head names.
#[derive(Clone, Copy)]
pub enum InvitationKey {
    /// The head names none.
    NotClaimed,
    /// K of the invitation.
    Known([u8; 32]),
    /// The daemon has no such invitation: message 2 says so and ends the handshake.
    Unknown,
}

/// The daemon has sent message 2 of XX.
#[derive(Debug)]
pub struct AwaitHello {
    state: HandshakeState,
    version: u8,
}

/// The daemon has accepted in message 2 of IK; the client's first packet will show that message 1 was no recording.
#[derive(Debug)]
pub struct AwaitFirst {
    authenticated: Authenticated,
}

impl Responder {
    /// Takes the client's first message. `entropy` must be fresh.
    ///
    /// # Errors
    /// When it is not of this protocol, of no version in common, or sealed to another key than the daemon's.
    pub fn start(
        versions: &RangeInclusive<u8>,
        credentials: &Credentials,
        message: &[u8],
        entropy: [u8; ENTROPY],
    ) -> Result<Self, Rejected> {
        let refused = |refusal| Rejected { refusal: Some(refusal) };
        const FOREIGN: Rejected = Rejected { refusal: None };
        let (head, encoded, noise) = Head::parse(message).map_err(|error| match error {
            HeadError::Foreign => FOREIGN,
            HeadError::Version => refused(Refusal::Version),
        })?;
        let version = *versions.end().min(head.versions.end());
        if !versions.contains(&version) || !head.versions.contains(&version) {
            return Err(refused(Refusal::Version));
        }
        let (ephemeral, kem_entropy) = entropy.split_at(32);
        let half = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).expect("half of 64 bytes is 32");
        let mut state = noise::start(
            noise::Side::Responder,
            head.pattern,
            encoded,
            credentials.noise_secret(),
            None,
            half(ephemeral),
        );
        let payload = noise::read(&mut state, noise).map_err(|_| match head.pattern {
            Pattern::Xx => FOREIGN,
            Pattern::Ik => refused(Refusal::StaleKey),
        })?;
        let pattern = head.pattern;
        let first = First { state, head, encoded: *encoded, version, kem_entropy: half(kem_entropy) };
        match pattern {
            Pattern::Xx => Ok(Responder::Anonymous(Box::new(Anonymous { first }))),
            Pattern::Ik => {
                let hello = decode(&payload).map_err(|_| FOREIGN)?;
                check(&hello, &first.state).map_err(|_| FOREIGN)?;
                Ok(Responder::Named(Box::new(Named { first, hello })))
            }
        }
    }
}

impl First {
    /// Makes message 2 with `payload`, which needs the psk with [`Pattern::Ik`]; with XX the psk serves message 3.
    fn answer(mut self, key: &[u8; 32], payload: &[u8]) -> Result<(HandshakeState, Vec<u8>), HandshakeError> {
        let (ciphertext, shared) =
            kem::encapsulate(&self.head.kem_key, self.kem_entropy).ok_or(HandshakeError::Malformed)?;
        let psk = noise::psk(key, &shared, &self.encoded, &ciphertext);
        noise::set_psk(&mut self.state, self.head.pattern, &psk);
        let mut message = vec![kind::NOISE];
        message.extend_from_slice(&ciphertext);
        noise::write(&mut self.state, payload, &mut message);
        Ok((self.state, message))
    }
}

impl Anonymous {
    /// The invitation that the client claims.
    #[must_use]
    pub fn invitation(&self) -> Option<InvitationId> {
        self.first.head.invitation
    }

    /// Makes message 2. Without an [`AwaitHello`] the handshake ends with this message.
    ///
    /// # Errors
    /// When the client's ML-KEM key is none.
    pub fn reply(
        self,
        credentials: &Credentials,
        key: InvitationKey,
    ) -> Result<(Option<AwaitHello>, Vec<u8>), HandshakeError> {
        let (key, refusal) = match key {
            InvitationKey::NotClaimed => ([0; 32], 0),
            InvitationKey::Known(key) => (key, 0),
            InvitationKey::Unknown => ([0; 32], Refusal::InvitationUnknown.number()),
        };
        let version = self.first.version;
        let hello = DaemonHello { version, refusal, certificate: credentials.certificate().clone() };
        let (state, message) = self.first.answer(&key, &encode(&hello))?;
        let next = (refusal == 0).then_some(AwaitHello { state, version });
        Ok((next, message))
    }
}

impl Named {
    /// Makes message 2, which tells the verdict. Without an [`AwaitFirst`] the handshake ends with this message.
    ///
    /// # Errors
    /// When the client's ML-KEM key is none.
    pub fn reply(
        self,
        credentials: &Credentials,
        verdict: &Verdict,
    ) -> Result<(Option<AwaitFirst>, Vec<u8>), HandshakeError> {
        let version = self.first.version;
        let decision =
            DaemonDecision { version, certificate: credentials.certificate().clone(), verdict: verdict.clone() };
        let (state, message) = self.first.answer(&[0; 32], &encode(&decision))?;
        let next = (verdict.refusal == 0).then(|| AwaitFirst {
            authenticated: Authenticated { hello: self.hello, secret: None, cipher: Cipher::noise(state), version },
        });
        Ok((next, message))
    }
}

impl AwaitFirst {
    /// Packets with frames that the client misses, to send right behind message 2. They take nothing from the link: until
    /// the client's first packet they may be going to who recorded message 1, who cannot read them.
    pub fn ahead(&mut self, frames: &[Frame]) -> Vec<Vec<u8>> {
        frames.iter().map(|frame| self.authenticated.seal(frame)).collect()
    }

    /// Takes the client's first packet, which proves that message 1 is no recording, and gives its plaintext, which is for
    /// [`Link::handle_plain`](crate::link::Link::handle_plain).
    ///
    /// # Errors
    /// When it does not decrypt: nothing is to be done for this client.
    pub fn handle(mut self, packet: &[u8]) -> Result<(Authenticated, Bytes), HandshakeError> {
        let plain = self.authenticated.cipher.open(packet).map_err(|_| HandshakeError::Decrypt)?;
        Ok((self.authenticated, plain.into()))
    }
}

impl AwaitHello {
    /// Takes message 3: who the client is and what it wants.
    ///
    /// # Errors
    /// When it does not decrypt (a wrong invitation secret among the reasons), or is malformed.
    pub fn handle(mut self, message: &[u8]) -> Result<Authenticated, HandshakeError> {
        let payload = noise::read(&mut self.state, message)?;
        let proof: DeviceProof = decode(&payload)?;
        check(&proof.device, &self.state)?;
        Ok(Authenticated {
            hello: proof.device,
            secret: proof.secret,
            cipher: Cipher::noise(self.state),
            version: self.version,
        })
    }
}

fn check(hello: &DeviceHello, state: &HandshakeState) -> Result<(), HandshakeError> {
    hello.certificate.verify(Role::Device, &noise::peer_key(state))?;
    let printable = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if hello.client.len() > CLIENT_ID_MAX
        || !printable(&hello.client)
        || hello.name.len() > NAME_MAX
        || hello.link.epoch == 0
    {
        return Err(HandshakeError::Malformed);
    }
    Ok(())
}

/// The client has proved who it is; the daemon has not decided yet.
#[derive(Debug)]
pub struct Authenticated {
    /// Who the client is and what it wants.
    pub hello: DeviceHello,
    /// The invitation's secret, when one was shown.
    pub secret: Option<[u8; 32]>,
    /// For the link, once the final verdict was sealed.
    pub cipher: Cipher,
    /// The protocol version of the carrier.
    pub version: u8,
}

impl Authenticated {
    /// The packet that ends the link before it began.
    pub fn farewell(&mut self, refusal: Refusal) -> Vec<u8> {
        self.seal(&Frame::Close(refusal))
    }

    /// The packet that tells a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) -> Vec<u8> {
        self.seal(&Frame::Verdict(encode(verdict).into()))
    }

    /// A probe, so that a held carrier whose client has gone is noticed.
    pub fn probe(&mut self, nonce: u64) -> Vec<u8> {
        self.seal(&Frame::Ping { nonce })
    }

    fn seal(&mut self, frame: &Frame) -> Vec<u8> {
        let mut packet = PacketWriter::new(self.version);
        packet.push(frame);
        self.cipher.seal(packet.plain())
    }

    /// Takes a packet while the verdict is held: only answers to probes are due.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn handle(&mut self, packet: &[u8]) -> Result<(), HandshakeError> {
        let plain = self.cipher.open(packet).map_err(|_| HandshakeError::Decrypt)?;
        let frames = parse_packet(self.version, plain.into()).map_err(|_| HandshakeError::Malformed)?;
        for frame in frames {
            match frame {
                Ok(Frame::Pong { .. }) => {}
                _ => return Err(HandshakeError::Malformed),
            }
        }
        Ok(())
    }
}
