//! A link that cannot be killed: stopped processes, dead paths, full ones, and what people see of all that.

use std::time::{Duration, Instant};

use keepline_tests::pipe_io::{PipeIo, RESET};
use keepline_tests::process::{Process, Signal, signal_process};
use keepline_tests::proxy::Proxy;
use keepline_tests::refuser::Refuser;
use keepline_tests::shaper::{Path, Shaper};
use keepline_tests::{Daemon, Machine, Relay, wait_until};
use serde_json::Value;

/// A link over a proxy, with a consumer of a terminal that prints numbered lines at its own pace.
struct Counting {
    owner: Machine,
    laptop: Machine,
    daemon: Daemon,
    proxy: Proxy,
    relay: Relay,
    consumer: PipeIo,
}

impl Counting {
    fn start() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let proxy = Proxy::start(&daemon.address());
        let relay = laptop.enrol(&owner, &proxy.route(), "box");
        // Not before it is attached to: what a snapshot shows is no lines.
        let count = "read; n=0; while :; do n=$((n+1)); echo \"line $n.\"; sleep 0.02; done";
        let terminal = laptop.terminal(&["--machine", "box", "--", "bash", "-c", count]);
        let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
        consumer.type_text("\n");
        consumer.output().wait_for("line 10.");
        Counting { owner, laptop, daemon, proxy, relay, consumer }
    }

    /// The one link, as the daemon lists it.
    fn link(&self) -> Value {
        let links = self.owner.json(&["remote", "connections"]);
        assert_eq!(links.as_array().unwrap().len(), 1, "{links}");
        links[0].clone()
    }

    fn wait_link(&self, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        wait_until(what, || {
            let link = self.link();
            if look(&link) { Ok(link) } else { Err(link) }
        })
    }

    /// Numbers of whole lines so far.
    fn lines(&self) -> Vec<u64> {
        String::from_utf8_lossy(&self.consumer.output().bytes())
            .lines()
            .filter_map(|line| line.strip_prefix("line ")?.strip_suffix('.')?.parse().ok())
            .collect()
    }

    /// The same link goes on, and of what it carries nothing is lost, doubled or shown anew.
    fn goes_on(&self, before: &Value) {
        let seen = self.lines().len();
        wait_until("the consumer goes on", || match self.lines().len() {
            more if more > seen + 50 => Ok(()),
            same => Err(same),
        });
        let lines = self.lines();
        let first = lines[0];
        let last = first + lines.len() as u64;
        assert_eq!(lines, (first..last).collect::<Vec<_>>());
        let output = self.consumer.output().bytes();
        assert!(!output.windows(RESET.len()).any(|window| window == RESET));
        let now = self.link();
        assert_eq!(now["link"], before["link"], "{now}");
        assert!(now["epoch"].as_u64() > before["epoch"].as_u64(), "{now}");
    }

    /// The row of `remote known-daemons`.
    fn known(&self) -> Value {
        self.laptop.json(&["remote", "known-daemons"])[0].clone()
    }
}

/// Continues a stopped process however a test ends, so that it can be killed and its children see that.
struct Stopped(u32);

impl Stopped {
    fn stop(pid: u32) -> Self {
        signal_process(pid, Signal::STOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_relay_that_was_stopped_comes_back_and_nothing_is_lost() {
    let counting = Counting::start();
    let before = counting.link();
    let stopped = Stopped::stop(counting.relay.process.pid());
    // The daemon gives the carrier up, and keeps the link.
    let detached = counting.wait_link("a detached link", |link| link["state"] == "detached");
    assert!(detached["lease_ms"].as_u64() <= Some(120_000), "{detached}");
    assert!(detached["lease_ms"].as_u64() > Some(0), "{detached}");
    drop(stopped);
    counting.wait_link("a link that is up", |link| link["state"] == "up");
    counting.goes_on(&before);
    assert_eq!(counting.consumer.detach().code, 0);
}

#[test]
fn a_relay_that_wakes_doubts_its_link_and_finds_that_the_path_has_died() {
    let counting = Counting::start();
    drop(counting.relay);
    let route = counting.proxy.route();
    let connect = ["remote", "connect", &route, "--headless", "--json"];
    let mut connect = counting.laptop.command(&connect);
    let relay = Process::spawn(connect.env("KEEPLINE_LOG", "info"));
    relay.stdout.wait_json("a link that the daemon has answered on", |line| line["rtt_us"].as_u64());
    let stopped = Stopped::stop(relay.pid());
    counting.proxy.swallow();
    let detached = |links: &Value| links[0]["state"] == "detached";
    wait_until("a detached link", || {
        let links = counting.owner.json(&["remote", "connections"]);
        if detached(&links) { Ok(()) } else { Err(links) }
    });
    counting.proxy.restore();
    // Shorter stops are no reason to doubt anything.
    std::thread::sleep(Duration::from_secs(4));
    drop(stopped);
    relay.stderr.wait_for("was stopped for a while");
    relay.stdout.wait_json("what the probe finds", |line| (line["reason"] == "silent").then_some(()));
    wait_until("a link that is up again", || {
        let last = relay.stdout.json_lines().pop().unwrap_or_default();
        if last["state"] == "up" && last["epoch"].as_u64() > Some(1) { Ok(()) } else { Err(relay.stdout.text()) }
    });
}

#[test]
fn a_daemon_that_was_stopped_is_found_again_and_nothing_is_lost() {
    let counting = Counting::start();
    let before = counting.link();
    let stopped = Stopped::stop(counting.daemon.pid());
    let down =
        counting.relay.process.stdout.wait_json("silence", |line| (line["state"] == "down").then(|| line.clone()));
    assert_eq!(down["reason"], "silent", "{down}");
    assert!(down["message"].is_string(), "{down}");
    assert!(down["retry_ms"].as_u64() <= Some(100), "{down}");
    drop(stopped);
    counting.relay.wait_state("up");
    counting.goes_on(&before);
    assert_eq!(counting.consumer.detach().code, 0);
}

#[test]
fn a_dead_path_is_noticed_at_both_ends_and_the_next_one_is_taken() {
    let counting = Counting::start();
    let before = counting.wait_link("a measured link", |link| link["rtt_us"].is_u64());
    assert!(before["lease_ms"].is_null(), "{before}");
    counting.proxy.swallow();
    let down =
        counting.relay.process.stdout.wait_json("silence", |line| (line["state"] == "down").then(|| line.clone()));
    assert_eq!(down["reason"], "silent", "{down}");
    counting.wait_link("a detached link", |link| link["state"] == "detached");
    let known = counting.known();
    assert_ne!(known["state"], "up", "{known}");
    let snapshot = ["session", "snapshot", "--machine", "box"];
    let document = counting.laptop.json(&snapshot);
    assert_eq!(document["sync_mode"], "disconnected", "{document}");
    counting.proxy.restore();
    // The attempt under way is swallowed too; who does not wait for its end has a new one made.
    let reconnected = counting.laptop.json(&["remote", "reconnect", "box"]);
    assert_eq!(reconnected["state"], "up", "{reconnected}");
    assert_eq!(reconnected["link"], before["link"], "{reconnected}");
    counting.goes_on(&before);
    assert_eq!(counting.consumer.detach().code, 0);
}

#[test]
fn a_saturated_link_is_never_taken_for_dead() {
    let seconds =
        std::env::var("KEEPLINE_SATURATE_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(15);
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let path = Path { rate: 64_000, delay: Duration::from_millis(25), queue: Duration::from_millis(500) };
    let shaper = Shaper::start(&daemon.address(), path);
    let relay = laptop.enrol(&owner, &shaper.route(), "box");
    let before = owner.json(&["remote", "connections"])[0].clone();
    let argv = ["--machine", "box", "--", "yes", "0123456789abcdef"];
    let yes = laptop.terminal(&argv);
    let mut flood = laptop.pipe_io(&yes, &["--machine", "box"]);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seen = 0;
    while Instant::now() < end {
        // What is typed fills the other way as well.
        for _ in 0..4 {
            flood.type_text(&"x".repeat(16 << 10));
        }
        seen = wait_until("bytes flow all the time", || match flood.output().bytes().len() {
            more if more > seen => Ok(more),
            same => Err(same),
        });
        std::thread::sleep(Duration::from_millis(500));
    }
    let now = owner.json(&["remote", "connections"])[0].clone();
    assert_eq!(now["link"], before["link"], "{now}");
    assert_eq!(now["epoch"], before["epoch"], "{now}");
    let told = relay.process.stdout.text();
    assert!(!told.contains("down"), "{told}");
    let rate = seen as u64 / seconds;
    assert!(rate > 20_000, "the path was not full: {rate} bytes a second");
    println!("{seen} bytes in {seconds} s over one carrier");
}

#[test]
fn what_a_link_waits_for_is_seen_everywhere_and_need_not_be_waited_for() {
    let counting = Counting::start();
    let before = counting.link();
    let still = counting.laptop.json(&["remote", "reconnect", "box"]);
    assert_eq!(still["state"], "up", "{still}");
    assert!(still["rtt_us"].is_u64(), "{still}");
    let told = counting.laptop.ok(&["remote", "reconnect", "box"]);
    assert!(told.starts_with("box: up, round trip "), "{told}");
    assert_eq!(counting.link()["epoch"], before["epoch"], "only probed");
    let up = counting.known();
    assert_eq!((&up["state"], &up["reason"]), (&"up".into(), &Value::Null));
    assert!(up["rtt_us"].is_u64(), "{up}");
    assert_eq!(up["link"], before["link"], "{up}");

    let refuser = Refuser::start();
    counting.proxy.lead_to(Some(refuser.address));
    counting.proxy.black_out();
    counting.proxy.restore();
    let refused =
        counting.relay.process.stdout.wait_json("a refusal", |line| (line["reason"] == "busy").then(|| line.clone()));
    assert_eq!(refused["state"], "down", "{refused}");
    assert!(refused["retry_ms"].as_u64() > Some(4_000), "{refused}");

    let known = counting.known();
    assert_eq!(known["state"], "down", "{known}");
    assert_eq!(known["reason"], "busy", "{known}");
    assert_eq!(known["message"], refused["message"], "{known}");
    assert!(known["retry_ms"].as_u64() > Some(0), "{known}");
    let detached = counting.wait_link("a detached link", |link| link["state"] == "detached");
    assert!(detached["lease_ms"].as_u64() > Some(0), "{detached}");

    // Each try is refused anew and doubles the wait; waited for, they would take longer than a command does.
    for _ in 0..4 {
        let output = counting.laptop.run(&["remote", "reconnect", "box"]);
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.stderr.starts_with("box: down: "), "{output:?}");
        assert!(output.stderr.contains("busy"), "{output:?}");
        assert!(output.stderr.contains("the next try is in"), "{output:?}");
    }
    counting.proxy.lead_to(None);
    let told = counting.laptop.ok(&["remote", "reconnect", "box"]);
    assert!(told.starts_with("box: up, round trip "), "{told}");
    counting.goes_on(&before);

    let unknown = counting.laptop.run(&["remote", "reconnect", "elsewhere"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
    signal_process(counting.relay.process.pid(), Signal::KILL);
    wait_until("a dead relay's row", || match counting.known() {
        row if row["reason"] == "relay-died" => Ok(()),
        row => Err(row),
    });
    let without = counting.laptop.run(&["remote", "reconnect", "box"]);
    assert_eq!(without.code, 1, "{without:?}");
    assert!(without.stderr.contains("no relay runs"), "{without:?}");
}

#[test]
fn a_person_is_told_once_what_a_relay_waits_for() {
    let counting = Counting::start();
    let Counting { laptop, daemon, relay, .. } = counting;
    drop(relay);
    let route = daemon.route();
    let relay = ["remote", "connect", &route, "--headless", "--name", "box"];
    let relay = Process::spawn(&mut laptop.command(&relay));
    relay.stderr.wait_for("box: connected");
    daemon.kill();
    relay.stderr.wait_for("trying again");
    for _ in 0..3 {
        let output = laptop.run(&["remote", "reconnect", "box"]);
        assert_eq!(output.code, 1, "{output:?}");
    }
    let said = relay.stderr.text();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let all = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), all, "{said}");
}

#[test]
fn who_gives_up_before_the_link_is_up_leaves_no_relay() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let invitation = owner.invitation(&[]);
    let route = daemon.route();
    let connect = ["remote", "connect", &route, "--invite-file"];
    let mut connect = Process::spawn(laptop.command(&connect).arg(&invitation).args(["--name", "box"]));
    connect.stderr.wait_for("remote approve");
    assert_eq!(relays(&laptop), 1);
    connect.signal(Signal::INT);
    assert_eq!(connect.exit(), 1, "{}", connect.stderr.text());
    assert_eq!(relays(&laptop), 0, "{}", connect.stderr.text());

    // A server that is interrupted has nothing to complain about either.
    let mut daemon = daemon;
    daemon.process.signal(Signal::INT);
    assert_eq!(daemon.process.exit(), 0);
    let said = daemon.process.stderr.text();
    assert!(!said.contains("WARN"), "{said}");
}

/// Relays in the background that run on a machine.
fn relays(machine: &Machine) -> usize {
    let home = format!("HOME={}", machine.home().display());
    let of_this = |pid: &std::path::Path| {
        let read = |name| std::fs::read(pid.join(name)).unwrap_or_default();
        let has = |text: Vec<u8>, word: &str| text.split(|byte| *byte == 0).any(|part| part == word.as_bytes());
        has(read("environ"), &home) && has(read("cmdline"), "--headless")
    };
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.flatten().filter(|entry| of_this(&entry.path())).count()
}
