//! Writes the seeds of the corpora, from the vectors of `spec` and from honest peers: one for each thing that
//! `tests/replay.rs` wants reached. Run it when the wire has changed: `cargo run -p keepline-fuzz --example seeds`.

use std::path::Path;

use data_encoding::HEXLOWER;
use keepline_fuzz::honest_messages;
use keepline_protocol::frame::{Frame, PacketWriter, kind};
use keepline_protocol::handshake::Verdict;
use keepline_protocol::id::InvitationId;
use keepline_protocol::identity::{Credentials, IdentityKey, Role};
use keepline_protocol::invitation::{Invitation, Secret};
use keepline_protocol::lane::Lane;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::StreamId;
use serde_json::Value;

fn main() {
    handshake();
    packets();
    link();
    messages();
    files();
    upgrade();
    screen();
}

fn seed(target: &str, name: &str, bytes: &[u8]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&corpus).unwrap();
    std::fs::write(corpus.join(format!("seed-{name}")), bytes).unwrap();
}

fn refusals() -> impl Iterator<Item = Refusal> {
    Refusal::ALL.iter().copied()
}

fn handshake() {
    let scene = |scene: u8, bytes: &[u8]| [&[scene], bytes].concat();
    let messages = honest_messages();
    for (index, (in_scene, message)) in [0, 1, 2, 0, 6].into_iter().zip(&messages).enumerate() {
        seed("handshake", &format!("message-{index}"), &scene(in_scene, message));
    }
    let mut stale = messages[3].clone();
    *stale.last_mut().unwrap() ^= 1;
    seed("handshake", "stale-key", &scene(0, &stale));
    let mut later = messages[0].clone();
    later[4..6].copy_from_slice(&[2, 3]);
    seed("handshake", "later-version", &scene(0, &later));
    let mut pattern = messages[0].clone();
    pattern[6] = 9;
    seed("handshake", "other-pattern", &scene(0, &pattern));
    for refusal in refusals() {
        let [high, low] = refusal.number().to_be_bytes();
        if refusal.in_clear() {
            let name = format!("clear-{}", refusal.name());
            seed("handshake", &name, &scene(1, &[1, high, low]));
        }
        let verdict = Verdict::refused(refusal, "box");
        let decision = postcard::to_stdvec(&verdict).unwrap();
        let name = format!("decision-{}", refusal.name());
        seed("handshake", &name, &scene(8, &decision));
        let verdict = packet(&verdict);
        seed("handshake", &format!("verdict-{}", refusal.name()), &scene(3, &verdict));
    }
    let held = Verdict { held: true, ..Verdict::refused(Refusal::Pending, "box") };
    let mut ping = PacketWriter::new(1);
    ping.push(&Frame::Ping { nonce: 7 });
    let accepted = Verdict { refusal: 0, ..held.clone() };
    let waiting = [packet(&held), sized(ping.plain()), packet(&accepted)].concat();
    seed("handshake", "held", &scene(3, &waiting));
    let decision = postcard::to_stdvec(&accepted).unwrap();
    seed("handshake", "decision", &scene(8, &decision));
    let mut pong = PacketWriter::new(1);
    pong.push(&Frame::Pong { nonce: 7 });
    seed("handshake", "pong", &scene(4, pong.plain()));
    seed("handshake", "not-a-pong", &scene(4, ping.plain()));
    seed("handshake", "first-packet", &scene(7, ping.plain()));
    seed("handshake", "first-packet-verdict", &scene(7, &[1, 7, 0, 0, 0]));
    // No claim, versions 1 to 1, no cursors, name "a", client "b", features, epoch 1.
    let fields = [0, 1, 1, 0, 1, b'a', 1, b'b', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let knowing = [0, 1, 1, 2, 1, b'a', 1, b'b', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    seed("handshake", "honest-knowing", &scene(5, &knowing));
    seed("handshake", "honest", &scene(5, &fields));
    seed("handshake", "honest-claim", &scene(5, &[&[2, 0], &fields[1..]].concat()));
    seed("handshake", "unknown-claim", &scene(5, &[&[3, 0], &fields[1..]].concat()));
}

/// A packet for a client that waits, as the target takes it.
fn packet(verdict: &Verdict) -> Vec<u8> {
    sized(&postcard::to_stdvec(verdict).unwrap())
}

fn sized(plain: &[u8]) -> Vec<u8> {
    let length = u16::try_from(plain.len()).unwrap().to_be_bytes();
    [&length, plain].concat()
}

fn packets() {
    let stream = StreamId { lane: Lane::Bulk, number: 3 };
    let mut frames = vec![
        Frame::Data { stream, sequence: 1, open: true, fin: false, payload: b"hello".as_slice().into() },
        Frame::Reset { stream, sequence: 2, code: 1 },
        Frame::Credit { stream, limit: 9 },
        Frame::Ack { cursors: [1, 2, 3, 4] },
        Frame::Ping { nonce: 5 },
        Frame::Pong { nonce: 6 },
        Frame::Verdict(b"verdict".as_slice().into()),
    ];
    frames.extend(refusals().map(Frame::Close));
    frames.push(Frame::Rekey);
    let mut all = PacketWriter::new(1);
    for (index, frame) in frames.iter().enumerate() {
        all.push(frame);
        let mut alone = PacketWriter::new(1);
        alone.push(frame);
        let plain = alone.plain();
        seed("frame", &index.to_string(), &[&plain[1..3], &plain[5..]].concat());
    }
    seed("packet", "all", all.plain());
    seed("packet", "skipped", &[1, 200, 255, 0, 1, 9, 5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7]);
    seed("frame", "skipped", &[200, 255, 1, 2, 3]);
    assert_eq!(kind::ALL.len(), 9, "a seed for the new kind of frame is missing");
}

/// See `Scene::act` for what the bytes say.
fn link() {
    let open = [10, 4, 5, 0, 9, 0];
    let calm = [
        &[0, 1, 1][..],
        // The peer opens stream 1 of the interactive lane with nine bytes, and writes more.
        &open,
        &[10, 4, 0, 0, 7, 0],
        // It is read, this end writes and polls.
        &[8, 0, 6, 0, 1, 0, 4, 3],
        // A stream of this end's, written, finished, polled.
        &[5, 1, 6, 0, 0, 9, 7, 0, 4, 3],
        // The carrier changes, and what the peer missed is written again.
        &[12, 1, 1, 0, 0, 4, 7],
        // Acknowledgement, probe, answer, credit.
        &[1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 5, 4, 9],
        // Time passes, probes and answers are written.
        &[3, 0, 6, 0, 4, 3],
        // The peer gives its stream up; the rest is released.
        &[1, 0, 7, 4, 0, 0, 1, 11, 0, 10, 1, 0, 2, 4, 3],
    ]
    .concat();
    seed("link", "calm", &calm);
    let own_number = [&[1, 1, 0][..], &open].concat();
    seed("link", "own-number", &own_number);
    let silence = [0, 3, 0, 6, 0, 4, 0, 3, 0, 255, 255, 3, 0, 255, 255];
    seed("link", "silence", &silence);
    // Both ends change their keys after hours, in which the peer was heard.
    let rekey = [0, 3, 7, 255, 255, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 9, 4, 3, 1, 0, 9];
    seed("link", "rekey", &rekey);
    for refusal in refusals() {
        let [high, low] = refusal.number().to_be_bytes();
        let closed = [0, 1, 0, 4, 0x5a, high, low, 4, 0, 5, 0];
        seed("link", &format!("closed-{}", refusal.name()), &closed);
    }
    seed("link", "close", &[0, 5, 0, 6, 0, 0, 1, 15, 1, 0x5a, 4, 1, 12, 0, 0, 0, 0]);
}

/// Every string of this key, anywhere below.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| strings(item, key, found)),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == key => found.push(text),
                    other => strings(other, key, found),
                }
            }
        }
        _ => {}
    }
}

/// The bytes under `key` of a file of vectors.
fn vectors(file: &str, key: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/vectors").join(file);
    let vectors = std::fs::read_to_string(path).unwrap();
    let vectors: Value = serde_json::from_str(&vectors).unwrap();
    let mut found = Vec::new();
    strings(&vectors, key, &mut found);
    let bytes = found.iter().filter_map(|text| HEXLOWER.decode(text.as_bytes()).ok());
    bytes.collect()
}

fn messages() {
    let mut messages = vectors("methods.json", "message");
    messages.extend(vectors("messages.json", "message"));
    messages.extend(vectors("records.json", "link"));
    for (index, message) in messages.iter().enumerate() {
        let number = HEXLOWER.encode(&message[4..6]);
        seed("message", &format!("{number}-{index}"), &message[4..]);
    }
    seed("assembler", "all", &[&[6], &messages.concat()[..]].concat());
    seed("assembler", "cut", &[&[0], &messages[0][..messages[0].len() - 1]].concat());
    let records = vectors("records.json", "local");
    seed("record", "all", &records.concat());
    for (index, record) in records.iter().enumerate() {
        seed("record", &index.to_string(), record);
    }
}

fn files() {
    let invitation = Invitation {
        id: InvitationId::from_bytes([1; 16]),
        daemon: IdentityKey::from_bytes([2; 32]),
        secret: Secret::from_bytes([3; 32]),
        expires_ms: 1_800_000_000_000,
        routes: vec!["ws://[::1]:7601/v1/link".to_owned(), "unix:/run/k".to_owned()],
    };
    seed("invitation", "file", invitation.to_file().as_bytes());
    let key = Credentials::generate(Role::Device, &[9; 64]);
    seed("invitation", "key", key.to_file().as_bytes());
    seed("invitation", "route", b"ws://host:7601/v1/link?token=x");
    seed("invitation", "route-6", b"ws://[::1]");
    seed("invitation", "route-unix", b"unix:/run/k");
}

fn upgrade() {
    let request = |method: &str, path: &str, more: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\n{more}\r\n"
        )
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let good = request("GET", "/v1/link?token=x", key);
    let many = "A: b\r\n".repeat(64);
    for (name, text) in [
        ("good", good.as_str()),
        ("part", &good[..good.len() - 1]),
        ("origin", &request("GET", "/v1/link", &format!("{key}Origin: null\r\n"))),
        ("path", &request("GET", "/", key)),
        ("method", &request("POST", "/v1/link", key)),
        ("no-upgrade", "GET /v1/link HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("no-key", &request("GET", "/v1/link", "")),
        ("many-fields", &request("GET", "/v1/link", &format!("{key}{many}"))),
        ("foreign", "\0\r\n"),
    ] {
        seed("upgrade", name, text.as_bytes());
    }
}

fn screen() {
    const CUT: u8 = 255;
    let output = |text: &str| [&[text.len() as u8 - 1], text.as_bytes()].concat();
    let styles = "\x1b[1;4:3;38;2;1;2;3;48;5;9mred\x1b[m \u{6f22}e\u{301}\u{1f468}\u{200d}\u{1f469}\x1b]8;;http://a\x07l\x1b]8;;\x07";
    let modes = "\x1b[?1;7;45;69;1003;1006;2004h\x1b[2;4r\x1b[3;9s\x1b[?6h\x1b)0\x0eq\x1b7\x1b[>5u\x1b[5 q\x1b[4h";
    for (name, parts) in [
        ("styles", vec![output(styles), vec![CUT], output("\x1b[4;1H"), vec![200, 9, 3, CUT]]),
        ("modes", vec![output(modes), vec![CUT], output("abc\x1b8\x1b[3b\x1b[?2004$p")]),
        ("history", vec![output(&"line\r\n".repeat(20)), vec![CUT, 200, 3, 4, CUT], output("\x1b[3J\x1b[2Jx")]),
        ("alternate", vec![output("main\x1b[?1049halt\x1b[c\x1b]2;t"), vec![CUT], output("itle\x07\x1b[?1049l")]),
        ("queries", vec![output("\x1b[c\x1b[6n\x1bP$qm\x1b\\\x1b]11;?\x07\x1b]133;C\x07\x1b]9;hi\x07"), vec![CUT]]),
    ] {
        seed("screen", name, &[vec![20, 5], parts.concat()].concat());
    }
}
