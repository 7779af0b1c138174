//! Both sides of a handshake: the real one, or one in clear that carries the same and costs little.
//!
//! In clear, message 2 holds a number of the daemon's that the client repeats. It stands for what the keys do in the real
//! one: a recording of the client's side does not fit another message 2.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::reference::{Checked, Violation};
use crate::cipher::Cipher;
use crate::frame::{Frame, PacketWriter, parse_packet};
use crate::handshake::{
    AwaitFirst, AwaitHello, AwaitReply, AwaitVerdict, Initiator, InvitationKey, LinkRequest, Named, Outcome, Reply,
    Responder, VERSIONS, Verdict,
};
use crate::id::DeviceId;
use crate::identity::{Credentials, Role};
use crate::refusal::Refusal;

const VERSION: u8 = *VERSIONS.end();

/// Who takes part.
pub(super) struct Keys {
    device: Credentials,
    thief: Credentials,
    daemon: Credentials,
}

impl Keys {
    pub(super) fn new() -> Self {
        Keys {
            device: Credentials::generate(Role::Device, &[1; 64]),
            thief: Credentials::generate(Role::Device, &[2; 64]),
            daemon: Credentials::generate(Role::Daemon, &[3; 64]),
        }
    }

    fn device(&self, thief: bool) -> &Credentials {
        if thief { &self.thief } else { &self.device }
    }
}

/// How hands are shaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// With Noise and ML-KEM.
    pub(super) real: bool,
    /// XX; else IK.
    pub(super) long: bool,
}

/// Who asks for which link.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Hello {
    thief: bool,
    pub(super) link: LinkRequest,
}

impl Hello {
    pub(super) fn new(thief: bool, link: LinkRequest) -> Self {
        Hello { thief, link }
    }

    pub(super) fn device(&self) -> DeviceId {
        DeviceId::from_bytes([u8::from(self.thief); 16])
    }
}

/// The client's side.
pub(super) enum Client {
    Reply(Box<AwaitReply>),
    Verdict(Box<AwaitVerdict>),
    ClearReply(bool, Hello),
    ClearVerdict,
}

pub(super) enum ClientStep {
    Send(Client, Vec<u8>),
    /// In clear, IK's client has a message to send before its packets.
    Accepted(Option<Vec<u8>>, Cipher, [u64; 4]),
    Refused(Refusal),
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain structs have a postcard form")
}

fn failed(what: impl std::fmt::Debug) -> Violation {
    Violation(format!("an untouched handshake failed: {what:?}"))
}

impl Client {
    pub(super) fn start(keys: &Keys, manner: Manner, hello: Hello, random: &mut fastrand::Rng) -> (Self, Vec<u8>) {
        if !manner.real {
            let mut message = vec![u8::from(manner.long)];
            if !manner.long {
                message.extend(encode(&hello));
            }
            return (Client::ClearReply(manner.long, hello), message);
        }
        let noise_key = (!manner.long).then(|| keys.daemon.certificate().noise_key());
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: keys.device(hello.thief),
            pinned: Some(keys.daemon.identity()),
            serial: 1,
            noise_key,
            claim: None,
            name: "laptop".to_owned(),
            client: "client".to_owned(),
            features: 0,
            link: hello.link,
        };
        let (next, message) = initiator.start(std::array::from_fn(|_| random.u8(..)));
        (Client::Reply(Box::new(next)), message)
    }

    pub(super) fn handle(self, message: &[u8]) -> Checked<ClientStep> {
        let outcome = match self {
            Client::Reply(next) => match next.handle(message).map_err(failed)? {
                Reply::Prove { message, next } => {
                    return Ok(ClientStep::Send(Client::Verdict(Box::new(next)), message));
                }
                Reply::Decided(outcome) => outcome,
            },
            Client::Verdict(next) => next.handle(message).map_err(failed)?,
            Client::ClearReply(true, hello) => {
                let proof = [message, &encode(&hello)].concat();
                return Ok(ClientStep::Send(Client::ClearVerdict, proof));
            }
            Client::ClearReply(false, _) => {
                let (number, verdict) = message.split_at(8);
                return clear_verdict(verdict, Some(number.to_vec()));
            }
            Client::ClearVerdict => {
                let plain = Bytes::copy_from_slice(message);
                let frame = parse_packet(VERSION, plain).map_err(failed)?.next();
                let Some(Ok(Frame::Verdict(verdict))) = frame else {
                    return Err(failed(frame));
                };
                return clear_verdict(&verdict, None);
            }
        };
        match outcome {
            Outcome::Accepted { cipher, verdict, .. } => Ok(ClientStep::Accepted(None, cipher, verdict.cursors)),
            Outcome::Refused { refusal, .. } => Ok(ClientStep::Refused(refusal)),
            Outcome::Waiting { .. } => Err(failed("it waits")),
        }
    }
}

fn clear_verdict(verdict: &[u8], proof: Option<Vec<u8>>) -> Checked<ClientStep> {
    let verdict: Verdict = postcard::from_bytes(verdict).map_err(failed)?;
    Ok(if verdict.refusal == 0 {
        ClientStep::Accepted(proof, Cipher::null(), verdict.cursors)
    } else {
        ClientStep::Refused(Refusal::from_number(verdict.refusal, verdict.retry))
    })
}

/// The daemon's side.
pub(super) enum Daemon {
    First,
    Hello(Box<AwaitHello>),
    Packet(Box<AwaitFirst>),
    ClearHello([u8; 8]),
    ClearProof([u8; 8], Hello),
    ClearPacket(Hello),
}

pub(super) enum DaemonStep {
    Send(Daemon, Vec<u8>),
    Wait(Daemon),
    /// IK: say what would be done.
    Foresee(Foreseen),
    /// It is the device: admit it. With IK its first packet is there.
    Proved(Proved, Option<Bytes>),
    /// It is not, or not now.
    Failed,
}

/// A client that said who it is, and may be a recording.
pub(super) struct Foreseen {
    pub(super) hello: Hello,
    real: Option<Box<Named>>,
    number: [u8; 8],
}

/// A client that proved who it is.
pub(super) struct Proved {
    pub(super) hello: Hello,
    pub(super) cipher: Cipher,
}

impl Proved {
    pub(super) fn seal(&mut self, frame: &Frame) -> Vec<u8> {
        let mut packet = PacketWriter::new(VERSION);
        packet.push(frame);
        self.cipher.seal(packet.plain())
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict) -> Vec<u8> {
        self.seal(&Frame::Verdict(encode(verdict).into()))
    }
}

impl Daemon {
    pub(super) fn handle(self, keys: &Keys, real: bool, message: &[u8], random: &mut fastrand::Rng) -> DaemonStep {
        match self.step(keys, real, message, random) {
            Some(step) => step,
            None => DaemonStep::Failed,
        }
    }

    fn step(self, keys: &Keys, real: bool, message: &[u8], random: &mut fastrand::Rng) -> Option<DaemonStep> {
        let of = |hello: &crate::handshake::DeviceHello| {
            let thief = hello.certificate.identity() == keys.thief.identity();
            Hello::new(thief, hello.link)
        };
        Some(match self {
            Daemon::First if real => {
                let entropy = std::array::from_fn(|_| random.u8(..));
                match Responder::start(&VERSIONS, &keys.daemon, message, entropy).ok()? {
                    Responder::Anonymous(first) => {
                        let reply = first.reply(&keys.daemon, InvitationKey::NotClaimed);
                        let (next, message) = reply.ok()?;
                        DaemonStep::Send(Daemon::Hello(Box::new(next?)), message)
                    }
                    Responder::Named(first) => {
                        DaemonStep::Foresee(Foreseen { hello: of(&first.hello), real: Some(first), number: [0; 8] })
                    }
                }
            }
            Daemon::First => {
                let number = random.u64(..).to_be_bytes();
                match message.split_first()? {
                    (0, hello) => {
                        DaemonStep::Foresee(Foreseen { hello: postcard::from_bytes(hello).ok()?, real: None, number })
                    }
                    _ => DaemonStep::Send(Daemon::ClearHello(number), number.to_vec()),
                }
            }
            Daemon::Hello(next) => {
                let authenticated = next.handle(message).ok()?;
                let hello = of(&authenticated.hello);
                let cipher = authenticated.cipher;
                DaemonStep::Proved(Proved { hello, cipher }, None)
            }
            Daemon::Packet(next) => {
                let (authenticated, plain) = next.handle(message).ok()?;
                let hello = of(&authenticated.hello);
                let cipher = authenticated.cipher;
                DaemonStep::Proved(Proved { hello, cipher }, Some(plain))
            }
            Daemon::ClearHello(number) => {
                let hello = postcard::from_bytes(message.strip_prefix(&number)?).ok()?;
                let cipher = Cipher::null();
                DaemonStep::Proved(Proved { hello, cipher }, None)
            }
            Daemon::ClearProof(number, hello) => {
                (message == number).then_some(DaemonStep::Wait(Daemon::ClearPacket(hello)))?
            }
            Daemon::ClearPacket(hello) => {
                let plain = Bytes::copy_from_slice(message);
                let cipher = Cipher::null();
                DaemonStep::Proved(Proved { hello, cipher }, Some(plain))
            }
        })
    }
}

impl Foreseen {
    /// The messages that answer, and what comes then.
    pub(super) fn answer(
        self,
        keys: &Keys,
        verdict: &Verdict,
        ahead: &[Frame],
    ) -> Checked<(Option<Daemon>, Vec<Vec<u8>>)> {
        let Some(named) = self.real else {
            let mut messages = vec![[&self.number[..], &encode(verdict)].concat()];
            let (hello, cipher) = (self.hello, Cipher::null());
            let mut sealer = Proved { hello, cipher };
            messages.extend(ahead.iter().map(|frame| sealer.seal(frame)));
            let next = Daemon::ClearProof(self.number, self.hello);
            return Ok(((verdict.refusal == 0).then_some(next), messages));
        };
        let (next, message) = named.reply(&keys.daemon, verdict).map_err(failed)?;
        let mut messages = vec![message];
        let next = next.map(|mut next| {
            messages.extend(next.ahead(ahead));
            Daemon::Packet(Box::new(next))
        });
        Ok((next, messages))
    }
}
