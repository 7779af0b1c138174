//! Proof 2: enrolment, the relay, and a shell that outlives it; what a consumer sees while the link is down.

use keepline_tests::{Daemon, Machine, wait_until};
use serde_json::Value;

fn through(machine: &Machine, terminal: &str) -> u64 {
    let screen = machine.json(&["terminal", "read", "--machine", "box", terminal]);
    screen["through"].as_u64().unwrap()
}

#[test]
fn a_shell_outlives_its_relay() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let invitation = owner.invitation(&["--out", "invitation"]);
    let invitation = invitation.to_str().unwrap();
    let route = daemon.route();
    let relay = laptop.relay(&[&route, "--invite-file", invitation, "--name", "box"]);

    // The owner decides, and only then the link is up.
    let pending = wait_until("a pending device", || {
        let pending = owner.json(&["remote", "pending"]);
        let found = pending[0]["id"].as_str().map(str::to_owned);
        found.ok_or(pending)
    });
    let waiting = relay.wait_state("connecting");
    assert_eq!(waiting["reason"], "pending", "{waiting}");
    let message = waiting["message"].as_str().unwrap_or_default();
    assert!(message.contains("approve"), "{waiting}");
    owner.ok(&["remote", "approve", &pending]);
    let up = relay.wait_state("up");
    assert_eq!(up["machine"], "box");
    assert_eq!(owner.json(&["remote", "pending"]), serde_json::json!([]));

    let terminal = laptop.terminal(&["--machine", "box", "--", "bash", "--norc"]);
    let mut first = laptop.pipe_io(&terminal, &["--machine", "box"]);
    first.type_text("echo mark-$((40+2)) pid-$$-\n");
    first.output().wait_for("mark-42 pid-");
    let pid = first.output().wait("the shell's pid", |bytes| pid(bytes, 1));
    let before = through(&laptop, &terminal);

    relay.process.signal(keepline_tests::process::Signal::KILL);
    drop(relay);
    let relay = laptop.relay(&[&route]);
    let up = relay.wait_state("up");
    assert_eq!(up["machine"], "box", "a known daemon keeps its name");

    // Went on, or ended in the way that says so.
    if first.type_text("echo went-$((1+1))-on\n") {
        let ended =
            wait_until("the first consumer went on or ended", || match (first.output().text(), first.process.runs()) {
                (text, _) if text.contains("went-2-on") => Ok(false),
                (_, false) => Ok(true),
                (text, true) => Err(text),
            });
        if ended {
            let end = first.ended();
            assert_eq!(end.code, 2, "{end:?}");
            assert_eq!(end.exit["reason"], "daemon-lost", "{end:?}");
        }
    }

    let mut second = laptop.pipe_io(&terminal, &["--machine", "box"]);
    second.output().wait_for("mark-42 pid-");
    second.type_text("echo again-pid-$$-\n");
    let again = second.output().wait("the same pid", |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (_, behind) = text.rsplit_once("again-pid-")?;
        behind.split_once('-')?.0.parse::<u32>().ok()
    });
    assert_eq!(again, pid);
    assert!(through(&laptop, &terminal) > before);
    assert_eq!(second.detach().code, 0);

    // The relay that was killed has left one link, not two.
    wait_until("one link", || {
        let connections = owner.json(&["remote", "connections"]);
        match connections.as_array().unwrap().len() {
            1 => Ok(()),
            _ => Err(connections),
        }
    });
}

/// The number behind the `n`th `pid-` that has one.
fn pid(bytes: &[u8], n: usize) -> Option<u32> {
    let text = String::from_utf8_lossy(bytes);
    text.split("pid-").skip(1).filter_map(|part| part.split_once('-')?.0.parse().ok()).nth(n - 1)
}

#[test]
fn one_machine_has_one_relay_and_is_known_by_its_name() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let relay = laptop.enrol(&owner, &daemon.route(), "box");

    let second = laptop.run(&["remote", "connect", &daemon.route(), "--headless"]);
    assert_eq!(second.code, 3, "{second:?}");
    let pid = relay.process.pid();
    assert!(second.stderr.contains(&pid.to_string()), "{second:?}");
    assert_eq!(laptop.serving("machine-box"), Some(pid));

    let known = |state: &str| {
        let known = laptop.json(&["remote", "known-daemons"]);
        assert_eq!(known.as_array().unwrap().len(), 1, "{known}");
        assert_eq!(known[0]["name"], "box", "{known}");
        assert_eq!(known[0]["state"], state, "{known}");
        assert_eq!(known[0]["fingerprint"], owner.json(&["server", "status"])["fingerprint"]);
        assert!(known[0]["routes"].to_string().contains(&daemon.address()), "{known}");
    };
    known("up");
    drop(relay);
    known("no-relay");

    let unknown = laptop.run(&["terminal", "list", "--machine", "elsewhere"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
    assert!(unknown.stderr.contains("box"), "no candidates: {unknown:?}");
    laptop.ok(&["remote", "known-daemons", "forget", "box"]);
    assert_eq!(laptop.json(&["remote", "known-daemons"]), serde_json::json!([]));
    let forgotten = laptop.run(&["remote", "connect", &daemon.route(), "--headless"]);
    assert_eq!(forgotten.code, 6, "{forgotten:?}");
}

fn stale(output: &str) -> Value {
    let value: Value = serde_json::from_str(output).unwrap();
    let value = value.as_array().map_or(value.clone(), |rows| rows[0].clone());
    assert_eq!(value["freshness"]["state"], "stale", "{value}");
    assert!(value["freshness"]["since_ms"].as_u64().unwrap() > 0, "{value}");
    value
}

#[test]
fn while_the_link_is_down_reads_are_stale_and_the_rest_fails_in_one_sentence() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let relay = laptop.enrol(&owner, &daemon.route(), "box");
    let terminal = laptop.terminal(&["--machine", "box", "--", "cat"]);
    let live = laptop.json(&["session", "snapshot", "--machine", "box"]);
    assert_eq!(live["freshness"]["state"], "live", "{live}");

    let down = |daemon: Daemon| {
        daemon.kill();
        relay.wait_state("down");
    };
    down(daemon);
    let disconnected = "cannot reach 'box' — disconnected\n";
    for arguments in [
        &["terminal", "send", &terminal, "x"][..],
        &["terminal", "read", &terminal],
        &["terminal", "new"],
        &["workspace", "new", "w"],
        &["terminal", "close", &terminal],
        &["session", "events", "--jsonl"],
        &["server", "status"],
    ] {
        let mut with_machine = vec!["--machine", "box"];
        with_machine.extend(arguments);
        let output = laptop.run(&with_machine);
        assert_eq!(output.code, 1, "{arguments:?} {output:?}");
        assert_eq!(output.stderr, disconnected, "{arguments:?} {output:?}");
        assert_eq!(output.stdout, "", "{arguments:?} {output:?}");
    }
    for arguments in [["session", "snapshot"], ["terminal", "list"], ["workspace", "list"]] {
        let mut plain = vec!["--machine", "box"];
        plain.extend(arguments);
        let output = laptop.run(&plain);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.stderr.contains("stale"), "{output:?}");
        plain.push("--json");
        stale(&laptop.ok(&plain));
    }

    // Without its relay the machine is as far away.
    drop(relay);
    let output = laptop.run(&["--machine", "box", "terminal", "list"]);
    assert_eq!((output.code, &*output.stderr), (1, disconnected), "{output:?}");
}

#[test]
fn a_relay_in_the_background_stays_when_its_person_leaves() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let invitation = owner.invitation(&["--no-approval"]);
    let invitation = invitation.to_str().unwrap();
    let route = daemon.route();
    let connect = ["remote", "connect", &route, "--name", "box"];
    let mut enrolling = connect.to_vec();
    enrolling.extend(["--invite-file", invitation]);
    let mut person = laptop.pty(&enrolling);
    person.type_text("echo $((6*7))\r");
    person.screen.wait_for("42");
    person.type_text("~.");
    assert_eq!(person.exit(), 0, "{}", person.screen.text());
    let relay = laptop.serving("machine-box").expect("the relay stays");

    let mut again = laptop.pty(&connect);
    again.screen.wait_for("42");
    assert_eq!(laptop.serving("machine-box"), Some(relay));
    again.type_text("exit\r");
    assert_eq!(again.exit(), 0, "{}", again.screen.text());
}

#[test]
fn a_unix_socket_is_a_carrier_too() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let _daemon = owner.daemon(&[]);
    let route = format!("unix:{}", owner.daemon_socket().display());
    let relay = laptop.relay(&[&route, "--name", "here"]);
    relay.wait_state("up");
    let terminal = laptop.terminal(&["--machine", "here", "--", "cat"]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "here"]);
    consumer.type_text("over unix\n");
    consumer.output().wait_for("over unix");
    let connections = owner.json(&["remote", "connections"]);
    assert_eq!(connections[0]["carrier"], "unix", "{connections}");
    assert_eq!(consumer.detach().code, 0);
}
