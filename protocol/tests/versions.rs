//! Peers of other versions: ranges that meet, ranges that do not, and what a later version may send to an older one.

#![allow(clippy::unwrap_used)]

use std::ops::RangeInclusive;

use bytes::Bytes;
use keepline_protocol::Time;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::{Frame, FrameError, PacketWriter};
use keepline_protocol::handshake::{
    HandshakeError, Initiator, InvitationKey, LinkRequest, Outcome, Reply, Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::lane::Lane;
use keepline_protocol::link::{Event, Link, PacketError};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::{Read, StreamId};

/// Bits that no version has given a meaning.
const UNKNOWN_FEATURES: u64 = !0;

/// A client and a daemon that were joined, each with its link on its end of the carrier.
struct Joined {
    client: Link,
    daemon: Link,
    /// The version that each end goes on with.
    versions: [u8; 2],
}

/// Joins a client with these versions and a daemon with those, each of which claims every feature there will ever be. A
/// client that knows the daemon's key uses IK.
fn join(knows: bool, client: RangeInclusive<u8>, daemon: RangeInclusive<u8>) -> Result<Joined, HandshakeError> {
    let device = Credentials::generate(Role::Device, &[2; 64]);
    let host = Credentials::generate(Role::Daemon, &[1; 64]);
    let initiator = Initiator {
        versions: client,
        credentials: &device,
        pinned: Some(host.identity()),
        serial: 1,
        noise_key: knows.then(|| host.certificate().noise_key()),
        claim: None,
        name: "laptop".to_owned(),
        client: "client".to_owned(),
        features: UNKNOWN_FEATURES,
        link: LinkRequest { id: LinkId::from_bytes([1; 16]), epoch: 1, cursors: None },
    };
    let verdict = Verdict { refusal: 0, features: UNKNOWN_FEATURES, ..Verdict::refused(Refusal::Busy, "host") };
    let (client, first) = initiator.start([3; 96]);
    let (outcome, daemon) = match Responder::start(&daemon, &host, &first, [4; 64]) {
        Ok(Responder::Anonymous(anonymous)) => {
            let (daemon, second) = anonymous.reply(&host, InvitationKey::NotClaimed)?;
            let Reply::Prove { message, next } = client.handle(&second)? else { panic!("an answer to IK") };
            let mut daemon = daemon.unwrap().handle(&message)?;
            (next.handle(&daemon.verdict(&verdict))?, daemon)
        }
        Ok(Responder::Named(named)) => {
            let (daemon, second) = named.reply(&host, &verdict)?;
            let Reply::Decided(mut outcome) = client.handle(&second)? else { panic!("an answer to XX") };
            let Outcome::Accepted { cipher, .. } = &mut outcome else { panic!("not accepted") };
            let (daemon, _) = daemon.unwrap().handle(&cipher.seal(b"first"))?;
            (outcome, daemon)
        }
        Err(rejected) => {
            let refusal = rejected.reply().expect("whoever speaks keepline is answered");
            return Err(client.handle(&refusal).unwrap_err());
        }
    };
    let Outcome::Accepted { cipher, verdict, version, .. } = outcome else { panic!("not accepted") };
    assert_eq!(daemon.hello.features, UNKNOWN_FEATURES);
    assert_eq!(verdict.features, UNKNOWN_FEATURES);
    let link = |role, cipher, version| {
        let mut link = Link::new(role);
        link.establish(Time::ZERO, cipher, version, [0; 4]).unwrap();
        link
    };
    Ok(Joined {
        client: link(Role::Device, cipher, version),
        daemon: link(Role::Daemon, daemon.cipher, daemon.version),
        versions: [version, daemon.version],
    })
}

impl Joined {
    /// A message goes there and its answer comes back, in packets of one version.
    fn converses(&mut self) {
        let id = self.client.open(Lane::Control);
        self.client.write(id, Bytes::from_static(b"there")).unwrap();
        let packet = self.client.poll_packet(Time::ZERO).unwrap();
        self.daemon.handle_packet(Time::ZERO, &packet).unwrap();
        assert_eq!(self.daemon.read(id), Read::Data(b"there".as_slice().into()));
        self.daemon.write(id, Bytes::from_static(b"back")).unwrap();
        let packet = self.daemon.poll_packet(Time::ZERO).unwrap();
        self.client.handle_packet(Time::ZERO, &packet).unwrap();
        assert_eq!(self.client.read(id), Read::Data(b"back".as_slice().into()));
    }
}

#[test]
fn ranges_that_meet_speak_the_highest_version_in_both() {
    for (client, daemon, version) in
        [(1..=1, 1..=1, 1), (1..=1, 1..=2, 1), (1..=2, 1..=1, 1), (1..=3, 2..=2, 2), (2..=9, 1..=4, 4)]
    {
        for knows in [false, true] {
            let mut joined = join(knows, client.clone(), daemon.clone()).unwrap();
            assert_eq!(joined.versions, [version; 2]);
            joined.converses();
        }
    }
}

#[test]
fn ranges_that_do_not_meet_end_in_a_typed_refusal_in_clear() {
    for (client, daemon) in [(2..=2, 1..=1), (1..=1, 2..=2), (4..=9, 1..=3)] {
        let refused = HandshakeError::Refused { refusal: Refusal::Version, authenticated: false };
        for knows in [false, true] {
            let Err(error) = join(knows, client.clone(), daemon.clone()) else { panic!("joined") };
            assert_eq!(error, refused);
        }
        assert!(Refusal::Version.retry(), "anybody could have said it");
    }
}

#[test]
fn a_version_that_was_not_agreed_on_costs_the_carrier() {
    let mut daemon = Link::new(Role::Daemon);
    let agreed = *VERSIONS.end();
    daemon.establish(Time::ZERO, Cipher::null(), agreed, [0; 4]).unwrap();
    let mut packet = PacketWriter::new(agreed + 1);
    packet.push(&Frame::Ping { nonce: 1 });
    assert_eq!(
        daemon.handle_packet(Time::ZERO, packet.plain()),
        Err(PacketError::Frame(FrameError::Version(agreed + 1)))
    );
}

#[test]
fn frames_of_unknown_kinds_are_skipped_and_what_is_around_them_counts() {
    for kind in [0, 10, 100, 255] {
        let mut daemon = Link::new(Role::Daemon);
        daemon.establish(Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
        let stream = StreamId { lane: Lane::Control, number: 1 };
        let data = |sequence, payload: &'static [u8]| {
            let mut packet = PacketWriter::new(1);
            packet.push(&Frame::Data {
                stream,
                sequence,
                open: sequence == 1,
                fin: false,
                payload: Bytes::from_static(payload),
            });
            packet.plain()[1..].to_vec()
        };
        // Its flags are its own, whatever they mean; so is a body that looks like anything.
        let unknown = [kind, 0xff, 0, 3, 1, 2, 3];
        let packet = [&[1], &unknown[..], &data(1, b"one "), &unknown, &data(2, b"two")].concat();
        daemon.handle_packet(Time::ZERO, &packet).unwrap();
        // A packet of nothing else is one too.
        daemon.handle_packet(Time::ZERO, &[&[1], &unknown[..]].concat()).unwrap();
        assert_eq!(daemon.poll_event(), Some(Event::Opened(stream)));
        let mut read = Vec::new();
        while let Read::Data(bytes) = daemon.read(stream) {
            read.extend_from_slice(&bytes);
        }
        assert_eq!(read, b"one two");
        assert_eq!(daemon.cursors(), [0, 2, 0, 0]);
    }
}

#[test]
fn unknown_flags_of_a_known_kind_cost_the_carrier() {
    let mut daemon = Link::new(Role::Daemon);
    daemon.establish(Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
    let ping = [1, 5, 0x80, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(
        daemon.handle_packet(Time::ZERO, &ping),
        Err(PacketError::Frame(FrameError::Flags { kind: 5, flags: 0x80 }))
    );
}
