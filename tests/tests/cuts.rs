//! Proof 3: twenty cuts at random bytes cost nobody a byte or a key, and a lease that is over costs only a new link.

use std::collections::BTreeMap;
use std::time::Duration;

use keepline_tests::pipe_io::RESET;
use keepline_tests::proxy::{Cut, Direction, Phase, Proxy};
use keepline_tests::{Machine, wait_until};
use serde_json::Value;

/// Prints numbered lines at its own pace, in one thread, and says every line that it reads, in another. It says `done`
/// when it has printed all of its own.
const PROGRAM: &str = r#"
import sys, threading, time, termios
attributes = termios.tcgetattr(0)
attributes[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, attributes)
lock = threading.Lock()
def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
def listen():
    for line in sys.stdin:
        say("key " + line.rstrip("\n") + ".")
threading.Thread(target=listen, daemon=True).start()
lines, pause = int(sys.argv[1]), float(sys.argv[2])
say("ready")
for number in range(1, lines + 1):
    say("line %06d." % number)
    if number % 5 == 0:
        time.sleep(pause)
say("done")
threading.Event().wait()
"#;

/// The numbers behind `word`, in the order in which whole lines of them came.
fn numbers(output: &[u8], word: &str) -> Vec<u32> {
    String::from_utf8_lossy(output)
        .lines()
        .filter_map(|line| line.strip_prefix(word)?.strip_suffix('.')?.parse().ok())
        .collect()
}

fn program(machine: &Machine, lines: u32, pause: f32) -> String {
    let path = machine.home().join("program.py");
    std::fs::write(&path, PROGRAM).unwrap();
    let (lines, pause) = (lines.to_string(), pause.to_string());
    machine.terminal(&["--machine", "box", "--", "python3", &path.to_string_lossy(), &lines, &pause])
}

fn connections(owner: &Machine) -> Vec<Value> {
    owner.json(&["remote", "connections"]).as_array().unwrap().clone()
}

fn assert_no_reset(output: &[u8]) {
    assert!(!output.windows(RESET.len()).any(|window| window == RESET), "the consumer was reset");
}

#[test]
fn twenty_cuts_at_random_bytes_lose_double_and_reset_nothing() {
    const LINES: u32 = 6_000;
    let seed: u64 = std::env::var("KEEPLINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("KEEPLINE_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let proxy = Proxy::start(&daemon.address());
    let _relay = laptop.enrol(&owner, &proxy.route(), "box");
    let handshake = proxy.handshake_bytes().expect("the relay is up, so a handshake has passed");

    // About 100 KB of output in all, so that the last cut falls well before its end.
    let terminal = program(&laptop, LINES, 0.012);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    consumer.output().wait_for("ready");
    let cuts = (0..20).map(|number| {
        let direction = if random.bool() { Direction::ToDaemon } else { Direction::ToRelay };
        let (phase, most) = if number % 4 == 3 {
            (Phase::Handshake, handshake[usize::from(direction == Direction::ToRelay)])
        } else {
            (Phase::Up, if direction == Direction::ToRelay { 4_000 } else { 400 })
        };
        Cut { phase, direction, after: random.u64(1..most), reset: random.bool() }
    });
    proxy.cut(cuts.collect::<Vec<_>>());

    // Keys all the while, and until every cut was made: what is typed is part of what is cut.
    let mut keys = 0;
    loop {
        let all_cut = proxy.made().len() == 20;
        let printed = numbers(&consumer.output().bytes(), "line ").len();
        if all_cut && printed >= LINES as usize {
            break;
        }
        assert!(keys < 20_000, "{} cuts and {printed} lines after {keys} keys", proxy.made().len());
        keys += 1;
        assert!(consumer.type_text(&format!("{keys}\n")), "the consumer ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let last = format!("key {keys}.");
    consumer.output().wait_for(&last);
    consumer.output().wait_for("done");

    let output = consumer.output().bytes();
    assert_eq!(numbers(&output, "line "), (1..=LINES).collect::<Vec<_>>());
    assert_eq!(numbers(&output, "key "), (1..=keys).collect::<Vec<_>>());
    assert_no_reset(&output);
    let mut made = BTreeMap::new();
    for cut in proxy.made() {
        *made.entry(format!("{:?}", cut.phase)).or_insert(0) += 1;
    }
    println!("cuts made: {made:?}; keys typed: {keys}");
    assert!(made["Handshake"] >= 4, "{made:?}");

    let links = connections(&owner);
    assert_eq!(links.len(), 1, "{links:?}");
    assert!(links[0]["epoch"].as_u64().unwrap() >= 20, "{links:?}");
    assert_eq!(consumer.detach().code, 0);
}

#[test]
fn after_the_lease_a_new_link_brings_the_missing_bytes() {
    const LINES: u32 = 1_500;
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.daemon(&["--remote-ws", "127.0.0.1:0", "--remote-resume-lease-seconds", "1"]);
    let proxy = Proxy::start(&daemon.address());
    let relay = laptop.enrol(&owner, &proxy.route(), "box");
    let terminal = program(&laptop, LINES, 0.02);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    consumer.output().wait_for("line 000100.");
    let before = connections(&owner)[0]["link"].clone();

    proxy.black_out();
    relay.wait_state("down");
    // Typed while there is no link: it waits, and is written once.
    for key in 1..=20 {
        assert!(consumer.type_text(&format!("{key}\n")));
    }
    // The lease of one second, and more: three, as the link's owner has it when a train leaves a tunnel.
    std::thread::sleep(Duration::from_secs(3));
    wait_until("the end of the lease", || match connections(&owner) {
        links if links.is_empty() => Ok(()),
        links => Err(format!("{links:?}")),
    });
    proxy.restore();
    relay.wait_state("up");
    consumer.output().wait_for("key 20.");
    consumer.output().wait_for("done");

    let links = connections(&owner);
    assert_eq!(links.len(), 1, "{links:?}");
    assert_ne!(links[0]["link"], before);
    let output = consumer.output().bytes();
    assert_eq!(numbers(&output, "line "), (1..=LINES).collect::<Vec<_>>());
    assert_eq!(numbers(&output, "key "), (1..=20).collect::<Vec<_>>());
    assert_no_reset(&output);
    let told = consumer.told().text();
    assert!(told.contains(r#""state":"down""#), "{told}");
    assert_eq!(consumer.detach().code, 0);
}
