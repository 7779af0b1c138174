//! The daemon's side of the handshake.

use std::ops::RangeInclusive;

use bytes::Bytes;
use snow::HandshakeState;

use super::head::{HeadError, LENGTH};
use super::{DaemonHello, DeviceHello, HandshakeError, Head, Verdict, kind, noise};
use crate::bounds::{CLIENT_ID_MAX, NAME_MAX};
use crate::cipher::Cipher;
use crate::frame::{Frame, PacketWriter, parse_packet};
use crate::id::InvitationId;
use crate::identity::{Credentials, Role};
use crate::refusal::Refusal;

/// A first message that the daemon can answer.
#[derive(Debug)]
pub struct Responder {
    head: Head,
    encoded: [u8; LENGTH],
    noise: Vec<u8>,
    version: u8,
}

/// A first message that the daemon does not go on with.
#[derive(Debug)]
pub struct Rejected {
    /// A refusal in clear to send before closing; absent when the peer never spoke this protocol.
    pub reply: Option<Vec<u8>>,
}

impl Rejected {
    /// A refusal in clear.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        let mut reply = vec![kind::REFUSAL];
        reply.extend_from_slice(&refusal.number().to_be_bytes());
        Rejected { reply: Some(reply) }
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

/// The daemon has sent message 2.
#[derive(Debug)]
pub struct AwaitHello {
    state: HandshakeState,
    version: u8,
}

impl Responder {
    /// Takes the client's first message.
    ///
    /// # Errors
    /// When it is not of this protocol, or of no version in common.
    pub fn start(versions: &RangeInclusive<u8>, message: &[u8]) -> Result<Self, Rejected> {
        let (head, encoded, noise) = Head::parse(message).map_err(|error| match error {
            HeadError::Foreign => Rejected { reply: None },
            HeadError::Version => Rejected::refused(Refusal::Version),
        })?;
        let version = *versions.end().min(head.versions.end());
        if !versions.contains(&version) || !head.versions.contains(&version) {
            return Err(Rejected::refused(Refusal::Version));
        }
        let encoded = encoded.try_into().expect("a parsed head has its length");
        Ok(Responder {
            head,
            encoded,
            noise: noise.to_vec(),
            version,
        })
    }

    /// The invitation that the client claims.
    #[must_use]
    pub fn invitation(&self) -> Option<InvitationId> {
        self.head.invitation
    }

    /// Makes message 2. `entropy` must be fresh. Without an [`AwaitHello`] the handshake ends with this message.
    ///
    /// # Errors
    /// When message 1 is malformed.
    pub fn reply(
        self,
        credentials: &Credentials,
        key: InvitationKey,
        entropy: [u8; 32],
    ) -> Result<(Option<AwaitHello>, Vec<u8>), HandshakeError> {
        let mut state = noise::start(
            noise::Side::Responder,
            self.head.pattern,
            &self.encoded,
            credentials.noise_secret(),
            entropy,
        );
        noise::read(&mut state, &self.noise)?;
        let (psk_key, refusal) = match key {
            InvitationKey::NotClaimed => ([0; 32], 0),
            InvitationKey::Known(key) => (key, 0),
            InvitationKey::Unknown => ([0; 32], Refusal::InvitationUnknown.number()),
        };
        state
            .set_psk(3, &noise::psk(&psk_key, &self.encoded, &[]))
            .expect("XXpsk3 has a psk at 3");
        let hello = DaemonHello {
            version: self.version,
            refusal,
            certificate: credentials.certificate().clone(),
        };
        let payload = postcard::to_stdvec(&hello).expect("a plain struct has a postcard form");
        let mut message = vec![kind::NOISE];
        noise::write(&mut state, &payload, &mut message);
        let next = (refusal == 0).then_some(AwaitHello {
            state,
            version: self.version,
        });
        Ok((next, message))
    }
}

impl AwaitHello {
    /// Takes message 3: who the client is and what it wants.
    ///
    /// # Errors
    /// When it does not decrypt (a wrong invitation secret among the reasons), or is malformed.
    pub fn handle(mut self, message: &[u8]) -> Result<Authenticated, HandshakeError> {
        let payload = noise::read(&mut self.state, message)?;
        let (hello, _): (DeviceHello, _) =
            postcard::take_from_bytes(&payload).map_err(|_| HandshakeError::Malformed)?;
        let used = noise::peer_key(&self.state);
        hello.certificate.verify(Role::Device, &used)?;
        let printable = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if hello.client.len() > CLIENT_ID_MAX
            || !printable(&hello.client)
            || hello.name.len() > NAME_MAX
            || hello.link.epoch == 0
        {
            return Err(HandshakeError::Malformed);
        }
        Ok(Authenticated {
            hello,
            cipher: Cipher::noise(self.state),
            version: self.version,
        })
    }
}

/// The client has proved who it is; the daemon has not decided yet.
#[derive(Debug)]
pub struct Authenticated {
    /// Who the client is and what it wants.
    pub hello: DeviceHello,
    /// For the link, once the final verdict was sealed.
    pub cipher: Cipher,
    /// The protocol version of the carrier.
    pub version: u8,
}

impl Authenticated {
    /// The packet that tells a verdict.
    pub fn verdict(&mut self, verdict: &Verdict) -> Vec<u8> {
        let body = postcard::to_stdvec(verdict).expect("a plain struct has a postcard form");
        self.seal(&Frame::Verdict(body.into()))
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
        let plain = self
            .cipher
            .open(packet)
            .map_err(|_| HandshakeError::Decrypt)?;
        let frames = parse_packet(self.version, Bytes::from(plain))
            .map_err(|_| HandshakeError::Malformed)?;
        for frame in frames {
            match frame {
                Ok(Frame::Pong { .. }) => {}
                _ => return Err(HandshakeError::Malformed),
            }
        }
        Ok(())
    }
}
