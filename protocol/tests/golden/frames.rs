//! Frames and packets.

use bytes::Bytes;
use keepline_protocol::frame::{Frame, PacketWriter, kind, parse_packet};
use keepline_protocol::lane::Lane;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::StreamId;
use serde_json::{Value, json};

use super::{check, hex};

fn frames() -> Vec<Frame> {
    let stream = |lane, number| StreamId { lane, number };
    vec![
        Frame::Data {
            stream: stream(Lane::Interactive, 1),
            sequence: 1,
            open: true,
            fin: false,
            payload: Bytes::from_static(b"hi"),
        },
        Frame::Data { stream: stream(Lane::Bulk, 2), sequence: 258, open: false, fin: true, payload: Bytes::new() },
        Frame::Reset { stream: stream(Lane::Control, 3), sequence: 7, code: 1 },
        Frame::Credit { stream: stream(Lane::Tunnel, 4), limit: 393_216 },
        Frame::Ack { cursors: [1, 2, 3, 65_536] },
        Frame::Ping { nonce: 1_500_000 },
        Frame::Pong { nonce: 1_500_000 },
        Frame::Verdict(Bytes::from_static(&[0])),
        Frame::Close(Refusal::Superseded),
        Frame::Close(Refusal::Stopping),
        Frame::Rekey,
    ]
}

/// What a frame says, for readers in any language.
pub(super) fn fields(frame: &Frame) -> Value {
    let lane = |lane| match lane {
        Lane::Interactive => "interactive",
        Lane::Control => "control",
        Lane::Tunnel => "tunnel",
        Lane::Bulk => "bulk",
    };
    match frame {
        Frame::Data { stream, sequence, open, fin, payload } => json!({
            "kind": "DATA", "lane": lane(stream.lane), "stream": stream.number, "sequence": sequence,
            "open": open, "fin": fin, "payload": hex(payload),
        }),
        Frame::Reset { stream, sequence, code } => json!({
            "kind": "RESET", "lane": lane(stream.lane), "stream": stream.number, "sequence": sequence,
            "code": code,
        }),
        Frame::Credit { stream, limit } => json!({
            "kind": "CREDIT", "lane": lane(stream.lane), "stream": stream.number, "limit": limit,
        }),
        Frame::Ack { cursors } => json!({ "kind": "ACK", "cursors": cursors }),
        Frame::Ping { nonce } => json!({ "kind": "PING", "nonce": nonce }),
        Frame::Pong { nonce } => json!({ "kind": "PONG", "nonce": nonce }),
        Frame::Verdict(body) => json!({ "kind": "VERDICT", "body": hex(body) }),
        Frame::Close(refusal) => json!({
            "kind": "CLOSE", "refusal": refusal.number(), "retry": refusal.retry(),
        }),
        Frame::Rekey => json!({ "kind": "REKEY" }),
    }
}

#[test]
fn every_frame_has_its_bytes() {
    let mut vectors = Vec::new();
    let mut kinds = Vec::new();
    let mut whole = PacketWriter::new(1);
    for frame in frames() {
        let mut packet = PacketWriter::new(1);
        packet.push(&frame);
        whole.push(&frame);
        kinds.push(packet.plain()[1]);
        let mut vector = fields(&frame);
        vector["number"] = packet.plain()[1].into();
        vector["frame"] = hex(&packet.plain()[1..]).into();
        vectors.push(vector);
    }
    kinds.dedup();
    assert_eq!(kinds, kind::ALL, "every frame kind is pinned");
    vectors.push(json!({ "packet": hex(whole.plain()), "frames": frames().len() }));

    let ping = [5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let refused: &[(&str, &[u8])] = &[
        ("a frame behind REKEY", &[&[1, 9, 0, 0, 0], &ping[..]].concat()),
        ("a version that was not chosen", &[&[2], &ping[..]].concat()),
        ("no frame", &[1]),
        ("an unknown flag", &[&[1, 5, 1], &ping[2..]].concat()),
        ("a frame cut short", &[1, 5, 0, 0, 8, 0]),
        ("bytes behind a field", &[1, 2, 0, 0, 15, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0]),
    ];
    for (why, packet) in refused {
        let read = parse_packet(1, Bytes::copy_from_slice(packet));
        let fails = read.map_or(true, |mut frames| frames.any(|frame| frame.is_err()));
        assert!(fails, "{why}");
        vectors.push(json!({ "packet": hex(packet), "violation": why }));
    }
    let unknown = [&[1, 200, 255, 0, 2, 1, 2], &ping[..]].concat();
    let read = parse_packet(1, Bytes::from(unknown.clone())).unwrap();
    assert_eq!(read.collect::<Result<Vec<_>, _>>().unwrap(), [Frame::Ping { nonce: 9 }]);
    vectors.push(json!({ "packet": hex(unknown), "frames": 1, "skipped": 1 }));
    check(
        "frames.json",
        "Frames by kind, and whole plaintexts of packets: good ones, violations, one with a kind to skip.",
        vectors,
    );
}
