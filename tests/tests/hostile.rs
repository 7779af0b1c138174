//! Proof 6: whoever has no business here gets one clear sentence or a closed connection, and the daemon goes on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use keepline_protocol::api::Empty;
use keepline_protocol::handshake::{Initiator, LinkRequest, VERSIONS};
use keepline_protocol::id::{InvitationId, LinkId};
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::{Invitation, Secret};
use keepline_protocol::message::encode_request;
use keepline_protocol::registry::{ANSWER, FAILURE, Method, method};
use keepline_tests::peer::{Device, Peer, request};
use keepline_tests::pipe_io::PipeIo;
use keepline_tests::process::resident;
use keepline_tests::rpc::Rpc;
use keepline_tests::{Daemon, Machine, Relay, wait_until};
use serde_json::{Value, json};

const GIB: u32 = 1 << 30;
/// How much a daemon may grow over everything that is done to it in one test.
const GROWTH_MAX: u64 = 64 << 20;
/// What is poured into a connection, were it to be taken: more than [`GROWTH_MAX`].
const FLOOD: usize = 128 << 20;

/// A daemon that somebody uses meanwhile, over a link and on its own socket.
struct Used {
    owner: Machine,
    daemon: Daemon,
    laptop: Machine,
    _relay: Relay,
    consumer: PipeIo,
    resident: u64,
}

impl Used {
    fn new() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let relay = laptop.enrol(&owner, &daemon.route(), "box");
        let terminal = laptop.terminal(&["--machine", "box", "--", "cat"]);
        let consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
        let mut used = Used { owner, daemon, laptop, _relay: relay, consumer, resident: 0 };
        used.goes_on("nothing");
        used.resident = resident(used.daemon.pid());
        used
    }

    /// The terminal echoes what is typed, the daemon answers its owner, and it has not grown.
    fn goes_on(&mut self, after: &str) {
        let mark = format!("echo after {after} over {}", fastrand::u64(..));
        assert!(self.consumer.type_text(&format!("{mark}\n")), "the consumer ended after {after}");
        self.consumer.output().wait_for(&mark);
        let status = self.owner.json(&["server", "status"]);
        assert_eq!(status["pid"], self.daemon.pid(), "after {after}: {status}");
        if self.resident > 0 {
            let now = resident(self.daemon.pid());
            let growth = now.saturating_sub(self.resident);
            assert!(growth < GROWTH_MAX, "grown by {growth} bytes after {after}");
        }
    }

    fn address(&self) -> String {
        self.daemon.address()
    }

    /// A new machine that connects with this invitation.
    fn connects_with(&self, invitation: &Path) -> (Machine, Relay) {
        let machine = Machine::new();
        let relay = connect(&machine, &self.daemon.route(), invitation);
        (machine, relay)
    }

    /// A new machine that connects with this invitation is refused, in one sentence that has this in it.
    fn refuses(&mut self, what: &str, invitation: &Path, sentence: &str) {
        let (machine, relay) = self.connects_with(invitation);
        assert_refused(what, relay, sentence);
        assert_eq!(machine.json(&["remote", "known-daemons"]), json!([]), "{what}");
        self.goes_on(what);
    }

    fn devices(&self, state: &str) -> Vec<Value> {
        let devices = self.owner.json(&["remote", "devices"]);
        let devices = devices.as_array().unwrap().iter();
        devices.filter(|device| device["state"] == state).cloned().collect()
    }
}

fn connect(machine: &Machine, route: &str, invitation: &Path) -> Relay {
    machine.relay(&[route, "--invite-file", &invitation.to_string_lossy()])
}

/// It ended with exit code 6, and all that it said is one sentence that has this in it.
fn assert_refused(what: &str, relay: Relay, sentence: &str) {
    let states = relay.process.stdout.clone();
    let (code, said) = relay.ended();
    assert_eq!(code, 6, "{what}: {said}");
    assert_eq!(said.lines().count(), 1, "{what}: {said}");
    assert!(said.contains(sentence), "{what}: {said}");
    states.json_lines();
}

fn read(file: &Path) -> Invitation {
    Invitation::from_file(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Writes a file like an invitation's beside it.
fn write(beside: &Path, name: &str, text: &str) -> PathBuf {
    let path = beside.with_file_name(name);
    std::fs::write(&path, text).unwrap();
    open_to(&path, 0o600);
    path
}

fn open_to(file: &Path, mode: u32) {
    std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_invitation_that_is_not_one_is_refused_in_one_sentence() {
    let mut used = Used::new();
    let file = used.owner.invitation(&["--no-approval"]);
    let invitation = read(&file);

    let wrong = Invitation { secret: Secret::from_bytes([7; 32]), ..invitation.clone() };
    let wrong = write(&file, "wrong", &wrong.to_file());
    used.refuses("a wrong secret", &wrong, "invitation's secret is wrong");

    let unknown = Invitation { id: InvitationId::from_bytes([7; 16]), ..invitation.clone() };
    let unknown = write(&file, "unknown", &unknown.to_file());
    used.refuses("an unknown id", &unknown, "does not know this invitation");

    let stranger = Machine::new();
    let _strangers = stranger.listening_daemon();
    let elsewhere = stranger.invitation(&["--no-approval"]);
    used.refuses("another daemon's invitation", &elsewhere, "another daemon answered");

    let text = invitation.to_file();
    let secret = data_encoding::HEXLOWER.encode(invitation.secret.as_bytes());
    let turned: String = secret.chars().rev().collect();
    for (what, text, sentence) in [
        ("a changed file", text.replace(&secret, &turned), "damaged"),
        ("half a file", text[..text.len() / 2].to_owned(), "not a keepline invitation"),
        ("an empty file", String::new(), "not a keepline invitation"),
        ("a huge file", "{\"keepline_invitation\":1,".repeat(1 << 16), "not a keepline invitation"),
        (
            "a later version",
            text.replace("\"keepline_invitation\": 1", "\"keepline_invitation\": 2"),
            "upgrade keepline",
        ),
    ] {
        let changed = write(&file, "changed", &text);
        used.refuses(what, &changed, sentence);
    }

    for mode in [0o644, 0o640] {
        open_to(&file, mode);
        used.refuses("a secret that others may read", &file, "others may read");
    }
    open_to(&file, 0o600);

    // None of all that has used it up.
    let (_machine, relay) = used.connects_with(&file);
    relay.wait_state("up");
    used.refuses("a used invitation", &file, "was used by another device");
    assert_eq!(used.devices("enrolled").len(), 2);
}

#[test]
fn an_expired_invitation_is_refused() {
    let mut used = Used::new();
    let file = used.owner.invitation(&["--no-approval", "--ttl", "1"]);
    let expires = u128::from(read(&file).expires_ms);
    wait_until("the end of the invitation's time", || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let left = expires.checked_sub(now.as_millis());
        left.map_or(Ok(()), |left| Err(format!("{left} ms are left")))
    });
    used.refuses("an expired invitation", &file, "has expired");
}

#[test]
fn a_denied_device_and_a_revoked_one_are_out() {
    let mut used = Used::new();
    let file = used.owner.invitation(&[]);
    let (_denied, relay) = used.connects_with(&file);
    let pending = wait_until("a pending device", || {
        let pending = used.owner.json(&["remote", "pending"]);
        let id = pending[0]["id"].as_str().map(str::to_owned);
        id.ok_or(pending)
    });
    used.refuses("an invitation that waits", &file, "was used by another device");
    used.owner.ok(&["remote", "deny", &pending]);
    assert_refused("a denied device", relay, "denied");
    used.goes_on("a denied device");

    let before = used.devices("enrolled");
    let file = used.owner.invitation(&["--no-approval"]);
    let (machine, relay) = used.connects_with(&file);
    relay.wait_state("up");
    let mut enrolled = used.devices("enrolled").into_iter();
    let device = enrolled.find(|device| !before.contains(device));
    let device = device.expect("a link is up, so its device is enrolled");
    let device = device["device"].as_str().unwrap().to_owned();
    used.owner.ok(&["remote", "revoke", &device]);
    assert_refused("a live link of a revoked device", relay, "was revoked");
    used.goes_on("a live link of a revoked device");

    let again = machine.relay(&[&used.daemon.route()]);
    assert_refused("a revoked device that comes back", again, "was revoked");
    let again = connect(&machine, &used.daemon.route(), &file);
    assert_refused("its old invitation", again, "was revoked");
    used.goes_on("a revoked device that comes back");
    let connections = used.owner.json(&["remote", "connections"]);
    let links = connections.as_array().unwrap();
    assert!(links.iter().all(|link| link["device"] != *device), "{connections}");
}

#[test]
fn another_daemon_at_a_known_route_is_refused_by_the_client() {
    let (owner, stranger, laptop) = (Machine::new(), Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (address, route) = (daemon.address(), daemon.route());
    let relay = laptop.enrol(&owner, &route, "box");
    daemon.stop();
    relay.wait_state("down");

    let strangers = stranger.daemon(&["--remote-ws", &address]);
    assert_refused("another daemon at the route of a live relay", relay, "another daemon answered");
    let again = laptop.relay(&[&route]);
    assert_refused("another daemon at a known route", again, "another daemon answered");
    // It has learnt nothing about the device.
    for list in ["pending", "devices", "connections"] {
        assert_eq!(stranger.json(&["remote", list]), json!([]), "{list}");
    }

    // The known one comes back, and so does the link.
    strangers.stop();
    let _daemon = owner.daemon(&["--remote-ws", &address]);
    laptop.relay(&[&route]).wait_state("up");
}

/// A first handshake message of a device that nobody knows, whose head says that an ML-KEM key of this many bytes follows:
/// a good one has 1,184.
fn first_message(key_length: u16) -> Vec<u8> {
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: &Credentials::generate(Role::Device, &[1; 64]),
        pinned: None,
        serial: 0,
        noise_key: None,
        claim: None,
        name: "nobody".to_owned(),
        client: "tests".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes([1; 16]), epoch: 1, cursors: None },
    };
    let (_, mut message) = initiator.start([1; 96]);
    // The length of the ML-KEM key.
    message[23..25].copy_from_slice(&key_length.to_be_bytes());
    message
}

#[test]
fn a_port_answers_or_closes_whatever_it_is_told() {
    let mut used = Used::new();
    let address = used.address();

    // These say nothing more, and are closed in time while all the others come and go.
    let mut silent = vec![("silence", Peer::connect(&address))];
    let mut half = Peer::connect(&address);
    half.write(b"GET /v1/link HTTP/1.1\r\nHost: h\r\n");
    silent.push(("half a request", half));
    silent.push(("silence after the upgrade", Peer::upgraded(&address)));
    let mut half = Peer::upgraded(&address);
    half.message_of(2, 1000, b"KPLN");
    silent.push(("half a message", half));
    let mut half = Peer::upgraded(&address);
    half.message(2, &first_message(1184));
    half.binary();
    silent.push(("half a handshake", half));
    let silent: Vec<_> = silent.into_iter().map(|(what, peer)| (what, std::thread::spawn(|| peer.closed()))).collect();

    let mut http = |what: &str, text: &str, status: &str| {
        let mut peer = Peer::connect(&address);
        peer.write(text.as_bytes());
        let said = peer.closed().said;
        let line = said.lines().next().unwrap_or_default();
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        let sentence = said.lines().last().unwrap_or_default();
        assert!(sentence.ends_with('.'), "{what}: {said}");
        used.goes_on(what);
    };
    for origin in ["http://127.0.0.1", "null", ""] {
        let origin = format!("Origin: {origin}\r\n");
        http("an Origin", &request("/v1/link", &origin), "403");
        http("an Origin", &request("/v1/link?token=x", &origin), "403");
    }
    for path in ["/", "/v1/links", "/v1/link/", "/v1/../v1/link", "/?/v1/link"] {
        http("another path", &request(path, ""), "404");
    }
    http("no WebSocket", "GET /v1/link HTTP/1.0\r\n\r\n", "426");

    let large = format!("Large: {}\r\n", "x".repeat(300 << 10));
    let many = "Many: x\r\n".repeat(30 << 10);
    let mut raw = |what: &str, bytes: &[u8]| {
        let mut peer = Peer::connect(&address);
        peer.write(bytes);
        let said = peer.closed().said;
        // The answer may be lost: a connection closed with bytes unread is reset.
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{what}: {said}");
        used.goes_on(what);
    };
    raw("a header of 300 KB", request("/v1/link", &large).as_bytes());
    raw("30,000 headers", request("/v1/link", &many).as_bytes());
    raw("a path of 300 KB", request(&large, "").as_bytes());
    let garbage: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
    raw("garbage", &garbage);
    raw("zeros", &[0; 100_000]);
    raw("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    raw("our own magic without HTTP", &[b"KPLN", &first_message(1184)[..]].concat());

    let mut upgraded = |what: &str, say: &dyn Fn(&mut Peer)| {
        let mut peer = Peer::upgraded(&address);
        say(&mut peer);
        peer.closed();
        used.goes_on(what);
    };
    for (kind, of) in [(2, "a binary"), (1, "a text")] {
        let what = format!("{of} message of 1 GiB");
        upgraded(&what, &|peer| {
            peer.message_of(kind, GIB.into(), b"KPLN");
            assert!(peer.pour(b"KPLN", FLOOD) < FLOOD, "{what} was taken");
        });
    }
    upgraded("a length of 2^63", &|peer| {
        peer.message_of(2, 1 << 63, b"KPLN");
    });
    upgraded("a message of a packet and more", &|peer| {
        peer.message(2, &[b'x'; 66_000]);
    });
    upgraded("a message in endless pieces", &|peer| {
        // Not the last one: a mask of zeros, and 1,000 bytes.
        let mut piece = vec![0x02, 0x80 | 126, 0x03, 0xe8, 0, 0, 0, 0];
        piece.extend([b'x'; 1000]);
        peer.write(&piece);
        piece[0] = 0x00;
        assert!(peer.pour(&piece, FLOOD) < FLOOD, "it was taken");
    });
    upgraded("a text message", &|peer| {
        peer.message(1, &first_message(1184));
    });
    upgraded("bytes that are no WebSocket's", &|peer| {
        peer.write(&garbage);
    });
    upgraded("a message that is not ours", &|peer| {
        peer.message(2, b"SSH-2.0-OpenSSH_9.9\r\n");
    });
    upgraded("an empty message", &|peer| {
        peer.message(2, b"");
    });
    upgraded("half a Noise message", &|peer| {
        peer.message(2, &first_message(1184)[..1220]);
    });
    upgraded("garbage for the third message", &|peer| {
        peer.message(2, &first_message(1184));
        peer.binary();
        peer.message(2, &garbage[..300]);
    });
    upgraded("a key's length that lies", &|peer| {
        peer.message(2, &first_message(u16::MAX));
        // A refusal in clear, and its number: `version`.
        assert_eq!(peer.binary(), [1, 0, 1]);
    });

    for (what, closed) in silent {
        let closed = closed.join();
        assert!(closed.is_ok(), "{what} was not closed");
        used.goes_on(what);
    }
}

#[test]
fn an_enrolled_device_that_breaks_the_protocol_costs_only_itself() {
    let mut used = Used::new();
    let address = used.address();
    let device = |used: &Used| {
        let invitation = read(&used.owner.invitation(&["--no-approval"]));
        Device::enrolled(&address, &invitation)
    };
    let number = |answer: Option<bytes::Bytes>| {
        let answer = answer.expect("the daemon answers");
        u16::from_be_bytes([answer[4], answer[5]])
    };

    // What is wrong on one stream is that stream's end and no other's.
    let mut one = device(&used);
    for (what, bytes) in [
        ("a message of 1 GiB", [&GIB.to_be_bytes()[..], b"more"].concat()),
        ("a message of 4 GiB", vec![0xff; 64]),
        ("a message of no bytes", vec![0; 64]),
        ("a message of 4 MiB and more", [&(5u32 << 20).to_be_bytes()[..], &[0; 60_000]].concat()),
    ] {
        let stream = one.write(&bytes);
        assert_eq!(one.answer(stream), None, "{what}");
        let stream = one.write(&encode_request::<method::ServerStatus>(&Empty {}));
        let answer = number(one.answer(stream));
        assert_eq!(answer, method::ServerStatus::NUMBER | ANSWER, "{what}");
        used.goes_on(what);
    }
    for (what, bytes) in [
        ("a method that does not exist", vec![0, 0, 0, 4, 0x7f, 0x7f, 1, 2]),
        (
            "parameters that do not fit",
            [&8u32.to_be_bytes()[..], &method::TerminalNew::NUMBER.to_be_bytes(), &[0xff; 6]].concat(),
        ),
        ("what only the owner may", encode_request::<method::RemotePending>(&Empty {}).to_vec()),
    ] {
        let stream = one.write(&bytes);
        assert_eq!(number(one.answer(stream)), FAILURE, "{what}");
        used.goes_on(what);
    }

    // What is wrong on the carrier is the carrier's end.
    let mut peer = one.into_peer();
    peer.message_of(2, GIB.into(), b"");
    assert!(peer.pour(b"KPLN", FLOOD) < FLOOD, "it was taken");
    peer.closed();
    used.goes_on("1 GiB on a link");
    for (what, kind, bytes) in [
        ("a packet that does not decrypt", 2, &[7; 100][..]),
        ("an empty packet", 2, b""),
        ("a text message on a link", 1, b"hello"),
    ] {
        let mut peer = device(&used).into_peer();
        peer.message(kind, bytes);
        peer.closed();
        used.goes_on(what);
    }
}

#[test]
fn an_enrolled_device_that_asks_without_end_costs_only_itself() {
    let mut used = Used::new();
    let address = used.address();
    let device = |used: &Used| {
        let invitation = read(&used.owner.invitation(&["--no-approval"]));
        Device::enrolled(&address, &invitation)
    };

    // Ten thousand questions, of whose answers it reads none.
    let mut one = device(&used);
    for _ in 0..10_000 {
        one.write(&encode_request::<method::SessionSnapshot>(&Empty {}));
    }
    used.goes_on("ten thousand questions");

    // Two thousand messages of 4 MiB, each begun and none finished.
    let mut two = device(&used);
    let begun = [&(4u32 << 20).to_be_bytes()[..], &[0; 16_000]].concat();
    for _ in 0..2_000 {
        two.write(&begun);
    }
    used.goes_on("two thousand messages that were begun");

    // Streams that are opened and given up, again and again.
    let mut three = device(&used);
    for _ in 0..20_000 {
        let stream = three.write(b"x");
        three.link.reset(stream, 1);
        three.flush();
    }
    used.goes_on("twenty thousand streams given up");

    // As many links as it likes: of its own it has a few, and nobody else has fewer.
    let links: Vec<Device> = (0..8).map(|_| device(&used)).collect();
    used.goes_on("links");
    drop((one, two, three, links));
    used.goes_on("the end of all that");
}

#[test]
fn a_local_socket_answers_or_closes_whatever_it_is_told() {
    let mut used = Used::new();
    let terminal = used.owner.json(&["terminal", "list"])[0]["id"].clone();
    let status = r#"{"jsonrpc":"2.0","id":7,"method":"server.status"}"#;
    let sockets = [used.owner.daemon_socket(), used.laptop.runtime_dir().join("keepline/machine-box.sock")];
    for socket in &sockets {
        // One error, and the connection goes on.
        let mut rpc = Rpc::connect(socket);
        let deep = format!(r#"{{"id":{}"#, "[".repeat(100_000));
        let long = format!(r#"{{"id":1,"method":"{}"}}"#, "x".repeat(2 << 20));
        for (what, line, kind) in [
            ("a garbage line", "{\u{0}garbage", "invalid"),
            ("no UTF-8's meaning", "no JSON at all", "invalid"),
            ("JSON that is no request", "[1,2,3]", "invalid"),
            ("endless depth", &deep, "invalid"),
            ("a line of 2 MiB", &long, "too-large"),
            ("a method that does not exist", r#"{"id":1,"method":"no.such"}"#, "unknown-method"),
            ("parameters that do not fit", r#"{"id":1,"method":"terminal.read","params":{"terminal":[]}}"#, "invalid"),
        ] {
            let error = rpc.ask(line)["error"].clone();
            assert_eq!(error["data"]["kind"], kind, "{what}: {error}");
            assert!(!error["message"].as_str().unwrap().is_empty(), "{what}: {error}");
            let answer = rpc.ask(status);
            assert_eq!(
                (&answer["id"], &answer["result"]["pid"]),
                (&7.into(), &used.daemon.pid().into()),
                "{what}: {answer}"
            );
            used.goes_on(what);
        }

        // After an attach there is no way to say what is wrong.
        for (what, bytes) in [
            ("a record of 1 GiB", [&[4][..], &GIB.to_be_bytes(), b"typed"].concat()),
            ("a record of an unknown kind", vec![99, 0, 0, 0, 0]),
            ("a record that only the daemon sends", vec![8, 0, 0, 0, 5, 0, 0, 0, 0, 0]),
            ("input behind a gap", [&[4, 0, 0, 0, 9][..], &[1; 8], b"x"].concat()),
            ("a JSON line where records are due", format!("{status}\n").into_bytes()),
        ] {
            let mut rpc = Rpc::connect(socket);
            let attach = json!({
                "jsonrpc": "2.0", "id": 1, "method": "terminal.attach",
                "params": { "terminal": terminal, "attachment": format!("att_{:032x}", fastrand::u128(..)) },
            });
            let attached = rpc.ask(&attach.to_string());
            assert_eq!(attached["result"]["terminal"], terminal, "{attached}");
            assert!(rpc.write(&bytes), "{what}");
            rpc.closed();
            used.goes_on(what);
        }
    }

    // Only a daemon's own socket is a carrier, too.
    let long = [b"KPLN", &u16::MAX.to_be_bytes()[..], &[7; 1 << 16]].concat();
    for (what, bytes) in [
        ("half the magic", b"KP".to_vec()),
        ("another word than the magic", b"KEEPLINE".to_vec()),
        ("a packet that is never whole", b"KPLN\xff\xff".to_vec()),
        ("a packet that is none of ours", long),
    ] {
        let mut rpc = Rpc::connect(&sockets[0]);
        rpc.write(&bytes);
        rpc.closed();
        used.goes_on(what);
    }
}
