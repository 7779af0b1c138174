//! The packets of one request and its answer.

use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::Time;
use keepline_protocol::api::{Empty, terminal};
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::parse_packet;
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::Link;
use keepline_protocol::message::{encode_answer, encode_request};
use keepline_protocol::registry::method;
use keepline_protocol::stream::Read;
use serde_json::{Value, json};

use super::frames::fields;
use super::{check, hex, text};

/// One end's name, what it may say now, and the packets.
fn drain(name: &str, link: &mut Link, now: Time, out: &mut Vec<Value>) -> Vec<Vec<u8>> {
    let packets: Vec<Vec<u8>> = std::iter::from_fn(|| link.poll_packet(now)).collect();
    for packet in &packets {
        let frames: Vec<Value> =
            parse_packet(1, Bytes::copy_from_slice(packet)).unwrap().map(|frame| fields(&frame.unwrap())).collect();
        out.push(json!({ "from": name, "packet": hex(packet), "frames": frames }));
    }
    packets
}

#[test]
fn a_conversation_has_its_bytes() {
    let at = |ms| Time::from_epoch(Duration::from_secs(60) + Duration::from_millis(ms));
    let (mut client, mut daemon) = (Link::new(Role::Device), Link::new(Role::Daemon));
    for link in [&mut client, &mut daemon] {
        link.establish(at(0), Cipher::null(), 1, [0; 4]).unwrap();
    }
    let mut out = Vec::new();
    let stream = client.open(Lane::Control);
    let request = encode_request::<method::TerminalSignal>(&terminal::TerminalSignal {
        terminal: text("build"),
        signal: text("INT"),
    });
    client.write(stream, request.clone()).unwrap();
    client.finish(stream).unwrap();
    for packet in drain("client", &mut client, at(0), &mut out) {
        daemon.handle_packet(at(1), &packet).unwrap();
    }
    assert_eq!(daemon.read(stream), Read::Data(request));
    assert_eq!(daemon.read(stream), Read::Finished);
    let answer = encode_answer::<method::TerminalSignal>(&Ok(Empty {}));
    daemon.write(stream, answer.clone()).unwrap();
    daemon.finish(stream).unwrap();
    for packet in drain("daemon", &mut daemon, at(1), &mut out) {
        client.handle_packet(at(2), &packet).unwrap();
    }
    assert_eq!(client.read(stream), Read::Data(answer));
    assert_eq!(client.read(stream), Read::Finished);
    for packet in drain("client", &mut client, at(22), &mut out) {
        daemon.handle_packet(at(23), &packet).unwrap();
    }
    assert_eq!((client.replay_bytes(), daemon.replay_bytes()), (0, 0), "all is acknowledged");
    check(
        "conversation.json",
        "The plaintexts of the packets of one request and its answer (terminal.signal), on a new link.",
        out,
    );
}
