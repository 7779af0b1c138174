//! What connections may do to a daemon before they have proved who they are: 10,000 half-open ones and 1,000 of garbage,
//! from a stranger's address and then from the client's own.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use keepline_protocol::handshake::{Initiator, LinkRequest, VERSIONS};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_tests::Machine;
use keepline_tests::peer::request;
use keepline_tests::process::{Process, resident};

const GROWTH_MAX: u64 = 64 << 20;

/// Opens 10,000 connections that stop half-way, in four ways, and 1,000 with garbage; keeps the newest 900 of them open.
const ATTACK: &str = r#"
import collections, os, socket, sys
source, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
request, first = bytes.fromhex(sys.argv[4]), bytes.fromhex(sys.argv[5])
halves = [b"", request[:40], request, request + first]
held = collections.deque()
made = failed = 0
for number in range(11_000):
    say = os.urandom(400) if number % 11 == 10 else halves[number % 4]
    try:
        peer = socket.create_connection((host, port), 5, (source, 0))
        peer.setblocking(False)
        if say:
            peer.send(say)
        held.append(peer)
        made += 1
    except OSError:
        failed += 1
    while len(held) > 900:
        held.popleft().close()
    if number == 1_000:
        print("holding", flush=True)
print("made", made, "failed", failed, flush=True)
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A good first message of XX in a WebSocket frame, which keeps a daemon waiting for message 3.
fn first_message() -> Vec<u8> {
    let credentials = Credentials::generate(Role::Device, &[1; 64]);
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: &credentials,
        pinned: None,
        serial: 0,
        noise_key: None,
        claim: None,
        name: "nobody".to_owned(),
        client: "tests".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes([1; 16]), epoch: 1, cursors: None },
    };
    let (_, message) = initiator.start([1; 96]);
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    [&[0x82, 0x80 | 126], &length[..], &[0; 4], &message].concat()
}

#[test]
fn half_open_connections_keep_nobody_out() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let address = daemon.address();
    let (host, port) = address.split_once(':').unwrap();
    let route = daemon.route();
    drop(laptop.enrol(&owner, &route, "box"));
    let before = resident(daemon.pid());

    for source in ["127.0.0.2", "127.0.0.1"] {
        let upgrade = hex(request("/v1/link", "").as_bytes());
        let arguments = [source, host, port, &upgrade, &hex(&first_message())];
        let mut attack =
            Process::spawn(Command::new("python3").args(["-c", ATTACK]).args(arguments).stdin(Stdio::null()));
        attack.stdout.wait_for("holding");
        let began = Instant::now();
        let relay = laptop.relay(&[&route]);
        relay.wait_state("up");
        let took = began.elapsed();
        println!(
            "an enrolled client connects while {source} attacks: goal 1000 ms, measured {} ms, met {}",
            took.as_millis(),
            took.as_millis() <= 1000
        );
        let terminal = laptop.terminal(&["--machine", "box", "--", "cat"]);
        let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
        consumer.type_text("served\n");
        consumer.output().wait_for("served");
        attack.stdout.wait_for("made");
        assert_eq!(attack.exit(), 0);
        assert!(attack.stdout.text().contains("made 11000 failed 0"), "{}", attack.stdout.text());
    }
    let grown = resident(daemon.pid()).saturating_sub(before);
    println!("the daemon grew by {} KiB: goal 65536 KiB, met {}", grown >> 10, grown <= GROWTH_MAX);
    assert!(grown <= GROWTH_MAX, "the daemon grew by {grown} bytes");
}
