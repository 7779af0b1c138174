//! The short handshake against a real daemon: one round trip, recordings, rotated keys.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use keepline_protocol::api::Empty;
use keepline_protocol::handshake::{Outcome, Reply};
use keepline_protocol::invitation::Invitation;
use keepline_protocol::message::encode_request;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::registry::method;
use keepline_protocol::stream::Read;
use keepline_tests::peer::{Device, Peer};
use keepline_tests::{Daemon, Machine};
use serde_json::{Value, json};

fn enrolled(owner: &Machine, daemon: &Daemon) -> Device {
    let file = owner.invitation(&["--no-approval", "--out", "by-hand"]);
    let invitation = Invitation::from_file(&fs::read_to_string(file).unwrap()).unwrap();
    Device::enrolled(&daemon.address(), &invitation)
}

fn request() -> Vec<u8> {
    encode_request::<method::ServerStatus>(&Empty {}).to_vec()
}

#[test]
fn what_was_missed_comes_right_behind_the_daemons_first_message() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let mut device = enrolled(&owner, &daemon);
    let stream = device.write(&request());
    // The answer arrives on the first carrier, and is lost there: it is the only large packet.
    while device.peer.binary().len() < 100 {}
    device.resume(&daemon.address());
    // Nothing was sent since message 1, and yet the answer comes.
    while device.link.read(stream) == Read::Blocked {
        device.hear();
    }
}

#[test]
fn a_recorded_first_message_evicts_nobody() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let address = daemon.address();
    let mut device = enrolled(&owner, &daemon);

    // A higher epoch than the daemon has seen, but nothing that proves that it is the device.
    let (mut peer, client, recorded) = device.knock(&address);
    let Reply::Decided(Outcome::Accepted { .. }) = client.handle(&peer.binary()).unwrap() else {
        panic!("not accepted");
    };
    let mut again = Peer::upgraded(&address);
    again.message(2, &recorded);
    again.binary();
    again.message(2, &[0; 64]);
    again.closed();
    let stream = device.write(&request());
    assert!(device.answer(stream).is_some(), "the link goes on");

    // Once the device has taken a later carrier, the recording is refused.
    device.resume(&address);
    let stream = device.write(&request());
    assert!(device.answer(stream).is_some());
    let (_, client, second) = device.knock(&address);
    drop(client);
    let mut again = Peer::upgraded(&address);
    again.message(2, &recorded);
    again.binary();
    again.closed();
    assert_ne!(recorded, second);
    let stream = device.write(&request());
    assert!(device.answer(stream).is_some(), "the link still goes on");
}

/// Gives the daemon another Noise key, as a rotation does.
fn rotate(owner: &Machine, serial: u64) {
    let path = key_file(owner);
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["noise"] = json!(format!("{serial:064x}"));
    file["serial"] = json!(serial);
    fs::write(path, file.to_string()).unwrap();
}

fn key_file(owner: &Machine) -> PathBuf {
    owner.state_dir().join("keepline/daemon/daemon.key")
}

#[test]
fn a_rotated_key_is_asked_for_and_an_older_one_refused() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (route, address) = (daemon.route(), daemon.address());
    let relay = laptop.enrol(&owner, &route, "box");
    let known = || -> Value {
        let path = laptop.state_dir().join("keepline/client/machines/box.json");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let first = known();
    assert!(first["noise_key"].is_string(), "{first}");

    daemon.kill();
    let original = fs::read(key_file(&owner)).unwrap();
    rotate(&owner, 2);
    let daemon = owner.daemon(&["--remote-ws", &address]);
    let rotated = keepline_tests::wait_until("the new key is known", || {
        let now = known();
        if now["serial"] == 2 { Ok(now) } else { Err(now) }
    });
    assert_ne!(rotated["noise_key"], first["noise_key"]);
    assert_eq!(rotated["identity"], first["identity"]);

    daemon.kill();
    fs::write(key_file(&owner), original).unwrap();
    let _daemon = owner.daemon(&["--remote-ws", &address]);
    let (code, said) = relay.ended();
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("older key"), "{said}");
}

#[test]
fn a_refusal_is_heard_in_the_short_handshake() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let route = daemon.route();
    drop(laptop.enrol(&owner, &route, "box"));
    let device = owner.json(&["remote", "devices"])[0]["device"].clone();
    owner.ok(&["remote", "revoke", device.as_str().unwrap()]);
    let (code, said) = laptop.relay(&[&route]).ended();
    assert_eq!(code, 6, "{said}");
    assert!(said.contains(Refusal::Revoked.sentence()), "{said}");
}
