//! A real daemon and peers of other versions: what they may send that it does not know, and what it answers.

use std::ops::RangeInclusive;

use bytes::Bytes;
use keepline_protocol::api::Empty;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::failure::{Code, FailureBody};
use keepline_protocol::frame::{Frame, PacketWriter, parse_packet};
use keepline_protocol::handshake::{Claim, HandshakeError, Initiator, LinkRequest, Outcome, VERSIONS};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::Invitation;
use keepline_protocol::lane::Lane;
use keepline_protocol::message::{Assembler, Message, encode_raw, encode_request};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::registry::{self, FAILURE, method};
use keepline_protocol::stream::StreamId;
use keepline_tests::Machine;
use keepline_tests::peer::Peer;

/// Of no kind, method and feature that any version has given a meaning.
const UNKNOWN_KIND: u8 = 200;
const UNKNOWN_METHOD: u16 = 0x0eee;
const UNKNOWN_FEATURES: u64 = !0;

/// A client that speaks these versions and claims every feature comes to a daemon.
fn arrive(peer: &mut Peer, owner: &Machine, versions: RangeInclusive<u8>) -> Result<Outcome, HandshakeError> {
    let file = owner.invitation(&["--no-approval"]);
    let invitation = Invitation::from_file(&std::fs::read_to_string(file).unwrap()).unwrap();
    peer.shake_hands(Initiator {
        versions,
        credentials: &Credentials::generate(Role::Device, &[fastrand::u8(..); 64]),
        pinned: Some(invitation.daemon),
        serial: 0,
        noise_key: None,
        claim: Some(Claim { id: invitation.id, secret: invitation.secret }),
        name: "later".to_owned(),
        client: "tests".to_owned(),
        features: UNKNOWN_FEATURES,
        link: LinkRequest { id: LinkId::from_bytes([fastrand::u8(..); 16]), epoch: 1, cursors: None },
    })
}

/// A link by hand: each packet has a frame of an unknown kind before, between and behind what counts.
struct Later {
    peer: Peer,
    cipher: Cipher,
    sequence: u64,
}

impl Later {
    /// Sends a message on a new stream, and gives the daemon's answer.
    fn ask(&mut self, message: &Bytes) -> Message {
        self.sequence += 1;
        let stream = StreamId { lane: Lane::Control, number: u32::try_from(self.sequence).unwrap() * 2 - 1 };
        let frame = |frame: &Frame| {
            let mut packet = PacketWriter::new(1);
            packet.push(frame);
            packet.plain()[1..].to_vec()
        };
        let unknown = [UNKNOWN_KIND, 0xff, 0, 5, b'l', b'a', b't', b'e', b'r'];
        let data =
            frame(&Frame::Data { stream, sequence: self.sequence, open: true, fin: true, payload: message.clone() });
        let ping = frame(&Frame::Ping { nonce: 7 });
        let plain = [&[1], &unknown[..], &data, &unknown, &ping, &unknown].concat();
        self.peer.message(2, &self.cipher.seal(&plain));
        let mut answer = Assembler::default();
        let mut found = None;
        let mut pong = false;
        // The ping behind the unknown frame counts as well.
        while found.is_none() || !pong {
            let plain = self.cipher.open(&self.peer.binary()).unwrap();
            for frame in parse_packet(1, plain.into()).unwrap() {
                match frame.unwrap() {
                    Frame::Data { stream: on, payload, .. } if on == stream => answer.push(&payload),
                    Frame::Pong { nonce: 7 } => pong = true,
                    _ => {}
                }
            }
            found = found.or(answer.take().unwrap());
        }
        found.expect("the loop ends with an answer")
    }
}

#[test]
fn frames_features_and_methods_of_a_later_version_cost_nothing() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let mut peer = Peer::upgraded(&daemon.address());
    let later = *VERSIONS.start()..=*VERSIONS.end() + 1;
    let Outcome::Accepted { cipher, verdict, version, .. } = arrive(&mut peer, &owner, later).unwrap() else {
        panic!("not accepted")
    };
    assert_eq!(version, *VERSIONS.end());
    assert_eq!(verdict.features, 0, "no feature is common to both");

    let mut link = Later { peer, cipher, sequence: 0 };
    for asked in 1..=3 {
        let answer = link.ask(&encode_raw(UNKNOWN_METHOD, b"whatever"));
        assert_eq!(answer.number, FAILURE);
        let failure: FailureBody = answer.parse().unwrap();
        assert_eq!(Code::from_number(failure.code), Code::UnknownMethod);
        assert!(failure.message.contains("0x0eee"), "{}", failure.message);

        // The link has lost nothing by it.
        let answer = link.ask(&encode_request::<method::ServerStatus>(&Empty {}));
        let status = answer.answer::<method::ServerStatus>().unwrap().unwrap();
        assert_eq!((status.pid, status.links), (daemon.pid(), 1));
        let connections = owner.json(&["remote", "connections"]);
        assert_eq!(connections[0]["state"], "up", "after {asked}: {connections}");
    }
    assert!(registry::by_number(UNKNOWN_METHOD).is_none());
}

#[test]
fn a_client_of_later_versions_only_is_refused_in_clear_and_may_come_back() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let mut peer = Peer::upgraded(&daemon.address());
    let next = *VERSIONS.end() + 1;
    let refused = HandshakeError::Refused { refusal: Refusal::Version, authenticated: false };
    assert_eq!(arrive(&mut peer, &owner, next..=next).unwrap_err(), refused);
    peer.closed();
    let mut peer = Peer::upgraded(&daemon.address());
    let accepted = arrive(&mut peer, &owner, 1..=next).unwrap();
    assert!(matches!(accepted, Outcome::Accepted { .. }), "{accepted:?}");
}
