//! Both sides of the handshake, each alone with what the other is said to have sent.
//!
//! Keys and entropy are fixed, so a seed that holds a message of an honest peer stays good until the handshake changes;
//! `examples/seeds.rs` then makes them anew.

use keepline_protocol::Time;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::handshake::{
    Authenticated, AwaitFirst, AwaitHello, AwaitReply, AwaitVerdict, Claim, HandshakeError, Initiator, InvitationKey,
    LinkRequest, Named, Outcome, Reply, Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::{InvitationId, LinkId};
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::Secret;
use keepline_protocol::link::Link;
use keepline_protocol::refusal::Refusal;

use crate::input::Input;
use crate::{Reach, Reached};

/// What the client draws.
const CLIENT_ENTROPY: [u8; 96] = [3; 96];
/// What the daemon draws.
const DAEMON_ENTROPY: [u8; 64] = [4; 64];

fn daemon() -> Credentials {
    Credentials::generate(Role::Daemon, &[1; 64])
}

fn device() -> Credentials {
    Credentials::generate(Role::Device, &[2; 64])
}

/// The secret of the only invitation.
fn invitation_secret() -> Secret {
    Secret::from_bytes([6; 32])
}

/// What an honest client brings to XX.
fn initiator(device: &Credentials) -> Initiator<'_> {
    Initiator {
        versions: VERSIONS,
        credentials: device,
        pinned: Some(daemon().identity()),
        serial: 0,
        noise_key: None,
        claim: None,
        name: "laptop".to_owned(),
        client: "client-1".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes([5; 16]), epoch: 1, cursors: None },
    }
}

/// What an honest client brings to IK.
fn knowing(device: &Credentials) -> Initiator<'_> {
    Initiator { noise_key: Some(daemon().certificate().noise_key()), ..initiator(device) }
}

fn accepted() -> Verdict {
    Verdict { refusal: 0, ..Verdict::refused(Refusal::Busy, "box") }
}

fn key(invitation: Option<InvitationId>) -> InvitationKey {
    match invitation {
        None => InvitationKey::NotClaimed,
        Some(id) if id.as_bytes()[0] & 1 == 0 => InvitationKey::Known(invitation_secret().key()),
        Some(_) => InvitationKey::Unknown,
    }
}

/// What a daemon does with a first message.
enum Started {
    /// It refuses in clear, or says nothing.
    Rejected(Option<Vec<u8>>),
    /// XX: its message 2, and what takes message 3.
    Anonymous(Option<Box<AwaitHello>>, Vec<u8>),
    /// IK: who it is.
    Named(Box<Named>),
}

fn start(message: &[u8]) -> Result<Started, HandshakeError> {
    let daemon = daemon();
    match Responder::start(&VERSIONS, &daemon, message, DAEMON_ENTROPY) {
        Err(rejected) => Ok(Started::Rejected(rejected.reply())),
        Ok(Responder::Named(named)) => Ok(Started::Named(named)),
        Ok(Responder::Anonymous(anonymous)) => {
            let known = key(anonymous.invitation());
            let (next, second) = anonymous.reply(&daemon, known)?;
            Ok(Started::Anonymous(next.map(Box::new), second))
        }
    }
}

/// An honest XX up to the verdict, with what the client brings.
fn joined(initiator: Initiator) -> Result<(AwaitVerdict, Authenticated), HandshakeError> {
    let (client, first) = initiator.start(CLIENT_ENTROPY);
    match start(&first)? {
        Started::Rejected(reply) => Err(client.handle(&reply.unwrap()).unwrap_err()),
        Started::Named(_) => panic!("IK was not asked for"),
        Started::Anonymous(server, second) => {
            let Reply::Prove { message, next } = client.handle(&second)? else {
                panic!("an answer to IK");
            };
            let server = server.expect("a client goes on only with a daemon that does");
            Ok((next, server.handle(&message)?))
        }
    }
}

/// An honest IK up to the daemon's decision.
fn named(initiator: Initiator) -> Result<(AwaitReply, Box<Named>), HandshakeError> {
    let (client, first) = initiator.start(CLIENT_ENTROPY);
    match start(&first)? {
        Started::Rejected(Some(reply)) => Err(client.handle(&reply).unwrap_err()),
        Started::Rejected(None) => Err(HandshakeError::Malformed),
        Started::Anonymous(..) => panic!("XX was not asked for"),
        Started::Named(named) => Ok((client, named)),
    }
}

/// An honest IK whose daemon accepts.
fn decided(initiator: Initiator) -> Result<(Cipher, AwaitFirst), HandshakeError> {
    let (client, named) = named(initiator)?;
    let (server, second) = named.reply(&daemon(), &accepted())?;
    let Reply::Decided(Outcome::Accepted { cipher, .. }) = client.handle(&second)? else {
        panic!("a client takes a yes");
    };
    Ok((cipher, server.expect("a daemon that accepts goes on")))
}

/// The messages of honest handshakes: three of XX, then two of IK.
#[must_use]
pub fn honest_messages() -> [Vec<u8>; 5] {
    let device = device();
    let (client, first) = initiator(&device).start(CLIENT_ENTROPY);
    let Ok(Started::Anonymous(_, second)) = start(&first) else {
        panic!("an honest client is answered");
    };
    let Ok(Reply::Prove { message: third, .. }) = client.handle(&second) else {
        panic!("an honest daemon is believed");
    };
    let (_, knowing_first) = knowing(&device).start(CLIENT_ENTROPY);
    let (_, named) = named(knowing(&device)).unwrap();
    let (_, knowing_second) = named.reply(&daemon(), &accepted()).unwrap();
    [first, second, third, knowing_first, knowing_second]
}

fn refused(error: &HandshakeError) -> Option<Reached> {
    match error {
        HandshakeError::Refused { refusal, authenticated: false } => {
            assert!(refusal.in_clear());
            Some(Reached::RefusedInClear(refusal.number()))
        }
        HandshakeError::Refused { refusal, .. } => Some(Reached::Refused(refusal.number())),
        _ => None,
    }
}

/// A scene of the handshake and what is received in it.
pub fn handshake(input: &[u8]) -> Reach {
    let mut input = Input(input);
    let device = device();
    let reached = match input.byte() % 9 {
        0 => first_message(input.0),
        1 => reply(initiator(&device), input.0),
        2 => third_message(input.0),
        3 => return packets_to_client(input),
        4 => packet_to_daemon(input.0),
        5 => honest_client(input),
        6 => reply(knowing(&device), input.0),
        7 => first_packet(input.0),
        _ => decision(input.0),
    };
    reached.into_iter().collect()
}

/// A daemon receives a first message.
fn first_message(message: &[u8]) -> Option<Reached> {
    match start(message).ok()? {
        Started::Rejected(reply) => match reply?[..] {
            [1, high, low] => Some(Reached::Refuses(u16::from_be_bytes([high, low]))),
            ref other => panic!("{other:?} is no refusal in clear"),
        },
        Started::Anonymous(Some(_), _) => Some(Reached::Read("first message of XX")),
        Started::Anonymous(None, _) => Some(Reached::Refused(Refusal::InvitationUnknown.number())),
        Started::Named(_) => Some(Reached::Read("first message of IK")),
    }
}

/// A client receives a reply.
fn reply(initiator: Initiator, message: &[u8]) -> Option<Reached> {
    let (client, _) = initiator.start(CLIENT_ENTROPY);
    match client.handle(message) {
        Ok(Reply::Prove { .. }) => Some(Reached::Read("reply of XX")),
        Ok(Reply::Decided(_)) => Some(Reached::Read("reply of IK")),
        Err(error) => refused(&error),
    }
}

/// A daemon receives the third message of XX.
fn third_message(message: &[u8]) -> Option<Reached> {
    let device = device();
    let (_, first) = initiator(&device).start(CLIENT_ENTROPY);
    let Ok(Started::Anonymous(Some(server), _)) = start(&first) else {
        panic!("an honest client is answered");
    };
    server.handle(message).ok()?;
    Some(Reached::Read("third message"))
}

/// A client that waits for the verdict of XX receives packets of its daemon's that are not what a daemon sends.
fn packets_to_client(mut input: Input) -> Reach {
    let mut reach = Reach::new();
    let device = device();
    let (mut client, mut server) = joined(initiator(&device)).unwrap();
    while !input.is_empty() {
        let length = usize::from(input.number());
        let plain = input.bytes(length);
        let packet = match postcard::from_bytes::<Verdict>(plain) {
            Ok(verdict) => server.verdict(&verdict),
            Err(_) => server.cipher.seal(plain),
        };
        match client.handle(&packet) {
            Ok(Outcome::Waiting { next, reply, .. }) => {
                if let Some(reply) = reply {
                    server.handle(&reply).unwrap();
                }
                client = next;
            }
            Ok(outcome) => {
                reach.extend(end(&outcome));
                return reach;
            }
            Err(_) => {
                reach.insert(Reached::Violation);
                return reach;
            }
        }
    }
    reach
}

fn end(outcome: &Outcome) -> Option<Reached> {
    match outcome {
        Outcome::Waiting { .. } => None,
        Outcome::Accepted { .. } => Some(Reached::Accepted),
        Outcome::Refused { refusal, .. } => Some(Reached::Refused(refusal.number())),
    }
}

/// A daemon that holds its verdict receives a packet of its client's.
fn packet_to_daemon(plain: &[u8]) -> Option<Reached> {
    let device = device();
    let (client, mut server) = joined(initiator(&device)).unwrap();
    let verdict = server.verdict(&accepted());
    let Outcome::Accepted { mut cipher, .. } = client.handle(&verdict).unwrap() else {
        panic!("a client takes a yes");
    };
    match server.handle(&cipher.seal(plain)) {
        Ok(()) => Some(Reached::Read("an answer to a probe")),
        Err(_) => Some(Reached::Violation),
    }
}

/// A daemon receives the first packet behind IK, and with it the link its first frames.
fn first_packet(plain: &[u8]) -> Option<Reached> {
    let device = device();
    let (mut cipher, server) = decided(knowing(&device)).unwrap();
    let (server, opened) = server.handle(&cipher.seal(plain)).unwrap();
    assert_eq!(opened, plain);
    let mut link = Link::new(Role::Daemon);
    link.establish(Time::ZERO, server.cipher, server.version, [0; 4]).unwrap();
    match link.handle_plain(Time::ZERO, opened) {
        Ok(()) => Some(Reached::Accepted),
        Err(_) => Some(Reached::Violation),
    }
}

/// A client receives a decision of IK with any verdict in it.
fn decision(verdict: &[u8]) -> Option<Reached> {
    let verdict: Verdict = postcard::from_bytes(verdict).ok()?;
    let device = device();
    let (client, named) = named(knowing(&device)).unwrap();
    let (server, second) = named.reply(&daemon(), &verdict).unwrap();
    let Ok(Reply::Decided(outcome)) = client.handle(&second) else {
        return Some(Reached::Violation);
    };
    assert_eq!(server.is_some(), matches!(outcome, Outcome::Accepted { .. }));
    end(&outcome)
}

/// An honest client with any fields: the daemon takes them within their bounds, and refuses the rest.
fn honest_client(mut input: Input) -> Option<Reached> {
    let device = device();
    let claim = input.byte();
    let claim = (claim != 0).then(|| Claim {
        id: InvitationId::from_bytes([claim; 16]),
        secret: match input.byte() {
            0 => invitation_secret(),
            other => Secret::from_bytes([other; 32]),
        },
    });
    let versions = input.byte().max(1)..=input.byte().max(1);
    let flags = input.byte();
    let known = flags & 2 != 0 && claim.is_none();
    let initiator = Initiator {
        versions,
        claim,
        name: input.text(),
        client: input.text(),
        features: input.large(),
        link: LinkRequest {
            id: LinkId::from_bytes([5; 16]),
            epoch: input.number().into(),
            cursors: (flags & 1 != 0).then(|| [(); 4].map(|()| input.large())),
        },
        ..if known { knowing(&device) } else { initiator(&device) }
    };
    // A payload has its limit; a client that brings more has a fault of its own.
    if initiator.versions.is_empty() {
        return None;
    }
    let (name, client) = (initiator.name.clone(), initiator.client.clone());
    let hello = if known {
        named(initiator).map(|(_, named)| named.hello)
    } else {
        joined(initiator).map(|(_, server)| server.hello)
    };
    match hello {
        Ok(hello) => {
            assert!(name.len() <= 128 && hello.name == name);
            assert!(client.len() <= 128 && hello.client == client);
            assert!(hello.link.epoch > 0);
            Some(Reached::Accepted)
        }
        Err(error) => refused(&error),
    }
}
