//! Two ends of a link joined in virtual time.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::bounds::{REKEY_AFTER, REKEY_PACKETS, STREAM_WINDOW_FIRST, STREAMS_GRACE, STREAMS_MAX};
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::{Frame, PacketWriter};
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::{Event, Link, PacketError};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::{Read, StreamId};
use support::{End, Pair, establish_plainly};

const SECOND: Duration = Duration::from_secs(1);

/// The byte at `offset` of a stream, so that a misplaced one shows.
fn pattern(id: StreamId, from: End, offset: usize) -> u8 {
    let mixed = (offset as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(u64::from(id.number) << 8)
        .wrapping_add(id.lane.bits().into())
        .wrapping_add(from as u64 * 77);
    (mixed >> 24) as u8
}

fn write_pattern(link: &mut Link, id: StreamId, from: End, start: usize, length: usize) -> usize {
    let length = link.capacity(id).unwrap().min(length);
    let bytes: Vec<u8> = (start..start + length).map(|offset| pattern(id, from, offset)).collect();
    link.write(id, bytes.into()).unwrap();
    length
}

/// What is known of one direction of a stream.
#[derive(Default)]
struct Direction {
    sent: usize,
    finished: bool,
    received: usize,
    ended: bool,
}

/// Reads a stream a little, checks each byte, and says whether anything came.
fn read_some(pair: &mut Pair, id: StreamId, reader: End, direction: &mut Direction) -> bool {
    let writer = if reader == End::Client { End::Daemon } else { End::Client };
    match pair.link(reader).read(id) {
        Read::Data(bytes) => {
            assert!(!direction.ended, "bytes after the end of {id:?}");
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, pattern(id, writer, direction.received + at), "{id:?} to {reader:?}");
            }
            direction.received += bytes.len();
            assert!(direction.received <= direction.sent, "more than was sent");
            true
        }
        Read::Finished => {
            assert!(direction.finished && direction.received == direction.sent, "{id:?} ended early");
            direction.ended = true;
            false
        }
        Read::Blocked => false,
        Read::Reset(code) => panic!("{id:?} was reset with {code}"),
    }
}

fn joined() -> Pair {
    let mut pair = Pair::new(1);
    establish_plainly(&mut pair);
    pair
}

#[test]
fn credit_follows_consumption() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Bulk);
    let window = STREAM_WINDOW_FIRST as usize;
    let mut sent = 0;
    for _ in 0..200 {
        sent += write_pattern(&mut pair.client, id, End::Client, sent, usize::MAX >> 1);
        pair.step();
    }
    assert_eq!(sent, window, "an unread stream takes exactly its window");
    assert_eq!(pair.client.capacity(id), Ok(0));
    pair.events.clear();
    let mut direction = Direction { sent, ..Direction::default() };
    while direction.received < window / 2 {
        assert!(read_some(&mut pair, id, End::Daemon, &mut direction));
    }
    pair.run(SECOND);
    assert!(pair.events.contains(&(End::Client, Event::Writable(id))));
    assert!(pair.client.capacity(id).unwrap() > 0);
}

#[test]
fn a_stream_that_nobody_reads_stalls_only_itself() {
    let mut pair = joined();
    let (stuck, lively) = (pair.client.open(Lane::Interactive), pair.client.open(Lane::Interactive));
    let mut sent = 0;
    for _ in 0..100 {
        sent += write_pattern(&mut pair.client, stuck, End::Client, sent, usize::MAX >> 1);
        pair.step();
    }
    pair.client.write(lively, Bytes::from_static(b"key")).unwrap();
    pair.run(SECOND);
    assert_eq!(pair.daemon.read(lively), Read::Data(Bytes::from_static(b"key")));
}

#[test]
fn keys_overtake_a_queued_transfer_and_bulk_still_moves() {
    let mut link = Link::new(Role::Device);
    link.establish(keepline_protocol::Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
    let (bulk, flood) = (link.open(Lane::Bulk), link.open(Lane::Interactive));
    link.write(bulk, vec![0; 64 << 10].into()).unwrap();
    link.write(flood, vec![0; 64 << 10].into()).unwrap();
    let key = link.open(Lane::Interactive);
    link.write(key, Bytes::from_static(b"k")).unwrap();
    let key_is_there = (0..2).any(|_| {
        let packet = link.poll_packet(keepline_protocol::Time::ZERO).unwrap();
        keepline_protocol::frame::parse_packet(1, packet.into())
            .unwrap()
            .any(|frame| matches!(frame, Ok(Frame::Data { stream, .. }) if stream == key))
    });
    assert!(key_is_there, "the key waits for at most one quantum");
    let mut packets = 0;
    while place_of_bulk(&mut link, bulk, flood).is_none() {
        packets += 1;
        assert!(packets <= 9, "bulk gets a packet after eight of higher lanes");
    }
}

/// Writes more flood and takes a packet; the place of bulk in it, if any.
fn place_of_bulk(link: &mut Link, bulk: StreamId, flood: StreamId) -> Option<usize> {
    if let Ok(room @ 1..) = link.capacity(flood) {
        link.write(flood, vec![0; room].into()).unwrap();
    }
    let packet = link.poll_packet(keepline_protocol::Time::ZERO).expect("bulk waits");
    keepline_protocol::frame::parse_packet(1, packet.into())
        .unwrap()
        .position(|frame| matches!(frame, Ok(Frame::Data { stream, .. }) if stream == bulk))
}

#[test]
fn silence_is_noticed_and_a_probe_is_answered() {
    let mut pair = joined();
    pair.run(SECOND * 30);
    assert!(!pair.events.iter().any(|(_, event)| *event == Event::CarrierDead), "an idle link lives");
    assert_eq!(pair.client.round_trip(), Some(Duration::from_millis(40)));
    let silent_since = pair.now;
    while !pair.events.contains(&(End::Client, Event::CarrierDead)) {
        pair.black_hole();
        assert!(pair.step());
        assert!(pair.now.since(silent_since) < SECOND * 4, "a dead path goes unnoticed");
    }
}

#[test]
fn keys_change_after_so_many_packets_and_so_much_time() {
    let mut pair = Pair::new(7);
    pair.connect();
    while !pair.is_quiet() {
        assert!(pair.step());
    }
    let id = pair.client.open(Lane::Interactive);
    let rekeys = |pair: &Pair| pair.client.rekeys();
    let exchange = |pair: &mut Pair, now| {
        pair.client.write(id, Bytes::from_static(b"k")).unwrap();
        let packet = pair.client.poll_packet(now).unwrap();
        pair.daemon.handle_packet(now, &packet).unwrap();
        assert_eq!(pair.daemon.read(id), Read::Data(Bytes::from_static(b"k")));
        while let Some(packet) = pair.daemon.poll_packet(now) {
            pair.client.handle_packet(now, &packet).unwrap();
        }
    };
    let mut now = pair.now;
    let mut packets = 0;
    while rekeys(&pair) == 0 {
        exchange(&mut pair, now);
        packets += 1;
        now = now + Duration::from_micros(100);
    }
    assert!((65_000..=REKEY_PACKETS).contains(&packets), "{packets}");
    exchange(&mut pair, now);
    exchange(&mut pair, now + REKEY_AFTER);
    assert_eq!(rekeys(&pair), 2, "an hour has passed");
    exchange(&mut pair, now + REKEY_AFTER);
    assert_eq!(rekeys(&pair), 2);
}

#[test]
fn credit_that_a_cut_lost_comes_again_behind_the_stream_that_it_is_for() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Interactive);
    pair.client.write(id, Bytes::from_static(b"question")).unwrap();
    // The stream's beginning is lost, and the credit for its answer with it.
    pair.flush();
    pair.cut();
    establish_plainly(&mut pair);
    pair.run(SECOND);
    let mut answer = Direction::default();
    let whole = 4 * STREAM_WINDOW_FIRST as usize;
    for _ in 0..1_000 {
        let from = answer.sent;
        answer.sent += write_pattern(&mut pair.daemon, id, End::Daemon, from, whole - from);
        pair.step();
        while read_some(&mut pair, id, End::Client, &mut answer) {}
    }
    assert_eq!(answer.received, whole);
}

#[test]
fn a_stream_that_is_reset_after_its_end_was_read_is_over() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Control);
    pair.client.finish(id).unwrap();
    pair.run(SECOND);
    assert_eq!(pair.daemon.read(id), Read::Finished);
    pair.client.reset(id, 5);
    pair.run(SECOND);
    assert!(format!("{:?}", pair.daemon).contains("streams: 0"), "{:?}", pair.daemon);
}

#[test]
fn a_reset_ends_both_directions_and_late_bytes_are_dropped() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Control);
    pair.client.write(id, Bytes::from_static(b"question")).unwrap();
    pair.run(SECOND);
    pair.daemon.write(id, Bytes::from_static(b"late")).unwrap();
    pair.client.reset(id, 5);
    pair.run(SECOND);
    assert_eq!(pair.daemon.read(id), Read::Reset(5));
    assert!(pair.daemon.capacity(id).is_err());
    let next = pair.client.open(Lane::Control);
    pair.client.write(next, Bytes::from_static(b"again")).unwrap();
    pair.run(SECOND);
    assert_eq!(pair.daemon.read(next), Read::Data(Bytes::from_static(b"again")));
}

#[test]
fn what_was_finished_is_sent_though_the_writer_let_go() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Control);
    pair.client.write(id, Bytes::from_static(b"question")).unwrap();
    pair.client.finish(id).unwrap();
    pair.run(SECOND);
    assert_eq!(pair.daemon.read(id), Read::Data(Bytes::from_static(b"question")));
    assert_eq!(pair.daemon.read(id), Read::Finished);
    pair.daemon.write(id, Bytes::from_static(b"answer")).unwrap();
    pair.daemon.finish(id).unwrap();
    pair.daemon.release(id);
    pair.run(SECOND);
    assert_eq!(pair.client.read(id), Read::Data(Bytes::from_static(b"answer")));
    assert_eq!(pair.client.read(id), Read::Finished);
    assert!(pair.client.capacity(id).is_err() && pair.daemon.capacity(id).is_err(), "the stream is gone");
}

#[test]
fn a_closed_link_says_why_and_takes_nothing_more() {
    let mut pair = joined();
    let id = pair.client.open(Lane::Control);
    pair.daemon.close(Refusal::Revoked);
    pair.run(SECOND);
    assert!(pair.events.contains(&(End::Client, Event::Closed(Refusal::Revoked))));
    assert_eq!(pair.client.closed(), Some(Refusal::Revoked));
    assert!(pair.client.write(id, Bytes::from_static(b"x")).is_err());
    assert!(pair.client.establish(pair.now, Cipher::null(), 1, [0; 4]).is_err());
}

/// A daemon's link and one packet of the given frames from its peer.
fn hostile(frames: &[Frame]) -> Result<(), PacketError> {
    let mut link = Link::new(Role::Daemon);
    link.establish(keepline_protocol::Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
    let mut packet = PacketWriter::new(1);
    frames.iter().for_each(|frame| packet.push(frame));
    link.handle_packet(keepline_protocol::Time::ZERO, packet.plain())
}

fn data(number: u32, sequence: u64, open: bool, payload: &'static [u8]) -> Frame {
    let stream = StreamId { lane: Lane::Control, number };
    Frame::Data { stream, sequence, open, fin: false, payload: Bytes::from_static(payload) }
}

#[test]
fn a_peer_that_breaks_the_protocol_loses_its_carrier() {
    let stream = |number| StreamId { lane: Lane::Control, number };
    assert_eq!(hostile(&[data(1, 1, true, b"x")]), Ok(()));
    assert_eq!(hostile(&[data(1, 2, true, b"x")]), Err(PacketError::Gap(Lane::Control)));
    assert_eq!(hostile(&[data(2, 1, true, b"x")]), Err(PacketError::StreamNumber(stream(2))));
    assert_eq!(hostile(&[data(1, 1, true, b""), data(1, 2, true, b"")]), Err(PacketError::StreamNumber(stream(1))));
    assert_eq!(hostile(&[Frame::Ack { cursors: [1, 0, 0, 0] }]), Err(PacketError::Acknowledgement(Lane::Interactive)));
    assert_eq!(hostile(&[data(9, 1, false, b"to nobody")]), Ok(()));
    let opens: Vec<Frame> = (0..2_000).map(|n| data(n * 2 + 1, u64::from(n) + 1, true, b"")).collect();
    assert_eq!(hostile(&opens), Err(PacketError::TooManyStreams));
}

#[test]
fn frames_without_end_leave_nothing_behind() {
    let mut link = Link::new(Role::Daemon);
    let now = keepline_protocol::Time::ZERO;
    link.establish(now, Cipher::null(), 1, [0; 4]).unwrap();
    let stream = |number| StreamId { lane: Lane::Bulk, number };
    // What needs no answer, or one at most: probes, and frames about streams that are not there.
    for round in 0..10_000u32 {
        let mut packet = PacketWriter::new(1);
        for number in [1, 2, 2 * round + 1] {
            let stream = stream(number);
            packet.push(&Frame::Ping { nonce: round.into() });
            packet.push(&Frame::Credit { stream, limit: u64::MAX });
        }
        packet.push(&Frame::Reset { stream: stream(round), sequence: u64::from(round) + 1, code: 1 });
        packet.push(&Frame::Pong { nonce: 0 });
        link.handle_packet(now, packet.plain()).unwrap();
        while link.poll_event().is_some() {}
    }
    let said: usize = std::iter::from_fn(|| link.poll_packet(now)).map(|packet| packet.len()).sum();
    assert!(said < 200, "{said} bytes are owed");
    assert_eq!(link.replay_bytes(), 0);

    // Streams that nobody takes are as many as may be, and then it is over.
    let mut opened = 0;
    let over = loop {
        let mut packet = PacketWriter::new(1);
        packet.push(&data(2 * opened + 1, u64::from(opened) + 1, true, b"x"));
        if let Err(error) = link.handle_packet(now, packet.plain()) {
            break error;
        }
        opened += 1;
    };
    assert_eq!(over, PacketError::TooManyStreams);
    assert_eq!(opened as usize, STREAMS_MAX + STREAMS_GRACE);
}

#[test]
fn more_than_the_credit_is_a_violation() {
    let mut link = Link::new(Role::Daemon);
    link.establish(keepline_protocol::Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
    let payload = Bytes::from(vec![0; 4_000]);
    let id = StreamId { lane: Lane::Control, number: 1 };
    let mut result = Ok(());
    for sequence in 1..20 {
        let mut packet = PacketWriter::new(1);
        packet.push(&Frame::Data { stream: id, sequence, open: sequence == 1, fin: false, payload: payload.clone() });
        result = link.handle_packet(keepline_protocol::Time::ZERO, packet.plain());
        if result.is_err() {
            assert!(sequence * 4_000 > STREAM_WINDOW_FIRST);
            break;
        }
    }
    assert_eq!(result, Err(PacketError::OverCredit(id)));
}

#[test]
fn frames_of_later_versions_are_skipped_and_unknown_flags_are_not() {
    let mut link = Link::new(Role::Daemon);
    link.establish(keepline_protocol::Time::ZERO, Cipher::null(), 1, [0; 4]).unwrap();
    let now = keepline_protocol::Time::ZERO;
    assert_eq!(link.handle_packet(now, &[1, 200, 0xff, 0, 2, 9, 9, 5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7]), Ok(()));
    assert!(link.poll_packet(now).is_some(), "the probe behind the unknown frame is answered");
    assert!(matches!(link.handle_packet(now, &[1, 5, 0x80, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7]), Err(PacketError::Frame(_))));
    assert!(matches!(link.handle_packet(now, &[2, 5, 0, 0, 0]), Err(PacketError::Frame(_))));
    assert!(matches!(link.handle_packet(now, &[1]), Err(PacketError::Frame(_))));
}
