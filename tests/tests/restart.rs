//! Proof 4: the daemon is started anew, on the same port and with a relay connected. Its clients see a new generation;
//! the rows are back, the terminals are shown as ended, and nothing is silently started again.

use keepline_tests::process::{Process, Signal};
use keepline_tests::{Daemon, Machine, Relay, wait_until};
use serde_json::{Value, json};

struct Session {
    // In this order: who is dropped first misses nobody.
    relay: Relay,
    daemon: Option<Daemon>,
    laptop: Machine,
    owner: Machine,
    address: String,
}

impl Session {
    fn new() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let relay = laptop.enrol(&owner, &daemon.route(), "box");
        Session { relay, address: daemon.address(), daemon: Some(daemon), laptop, owner }
    }

    /// A command on the laptop, about the daemon's machine.
    fn json(&self, arguments: &[&str]) -> Value {
        let mut command = vec!["--machine", "box"];
        command.extend(arguments);
        self.laptop.json(&command)
    }

    fn snapshot(&self) -> Value {
        self.json(&["session", "snapshot"])
    }

    fn restart(&mut self, signal: Signal) {
        let before = self.snapshot();
        let daemon = self.daemon.take().expect("it runs");
        if signal == Signal::KILL {
            daemon.kill();
        } else {
            daemon.stop();
        }
        self.daemon = Some(self.owner.daemon(&["--remote-ws", &self.address]));
        wait_until("the new generation", || {
            let after = self.snapshot();
            let new = after["cursor"]["generation"] != before["cursor"]["generation"];
            if new && after["freshness"]["state"] == "live" {
                return Ok(());
            }
            Err(after)
        });
        self.relay.wait_state("up");
    }
}

/// Waits until a process is gone.
fn wait_gone(pid: &Value) {
    assert!(pid.is_u64(), "{pid}");
    wait_until("the end of a program", || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => Ok(()),
        Ok(stat) => Err(stat),
    });
}

fn restarted_with(signal: Signal) {
    let mut session = Session::new();
    let new_workspace = ["workspace", "new", "one", "--key", "k-workspace"];
    let workspace = session.json(&new_workspace);
    session.json(&["workspace", "new", "two"]);
    let new_terminal =
        ["terminal", "new", "--workspace", "two", "--name", "shell", "--key", "k-terminal", "--", "bash", "--norc"];
    let terminal = session.json(&new_terminal);
    let id = terminal["value"]["terminal"].as_str().unwrap();
    // The last thing that is acknowledged.
    session.json(&["workspace", "rename", "two", "renamed"]);
    session.json(&["terminal", "rename", "shell", "renamed shell"]);
    let mut follow = session.laptop.command(&["session", "events", "--jsonl"]);
    let mut events = Process::spawn(follow.args(["--machine", "box"]));
    events.stdout.wait_json("the first document", |line| (line["reset"] == "initial").then_some(()));
    let consumer = session.laptop.pipe_io(id, &["--machine", "box"]);
    let shown = |bytes: &[u8]| (!bytes.is_empty()).then_some(());
    consumer.output().wait("the snapshot", shown);
    let before = session.snapshot();
    assert_eq!(before["terminals"][0]["lifecycle"], "running", "{before}");
    let child = before["terminals"][0]["pid"].clone();

    session.restart(signal);

    let after = session.snapshot();
    let generation = &after["cursor"]["generation"];
    assert_eq!(after["workspaces"], before["workspaces"]);
    let names = &after["workspaces"].to_string();
    assert!(names.contains("one") && names.contains("renamed"), "{after}");
    let terminals = after["terminals"].as_array().unwrap();
    assert_eq!(terminals.len(), 1, "{after}");
    let (row, old) = (&terminals[0], &before["terminals"][0]);
    for field in ["id", "name", "tab_ids", "argv", "created_ms", "index"] {
        assert_eq!(row[field], old[field], "{field}: {row}");
    }
    assert_eq!(row["name"], "renamed shell");
    assert_eq!(row["lifecycle"], "ended", "{row}");
    assert_eq!(row["exit"], json!({"reason": "daemon stopped"}), "{row}");
    assert!(row["ended_ms"].is_u64(), "{row}");

    // Nothing runs: not the old program, and no new one.
    wait_gone(&child);
    assert_eq!(session.owner.json(&["server", "status"])["terminals"], 0);

    // Who follows is told to start anew, with the document, and goes on from there.
    let reset = events
        .stdout
        .wait_json("a reset", |line| (line["reset"] == "generation-changed").then(|| line["document"].clone()));
    assert_eq!(&reset["cursor"]["generation"], generation);
    assert_eq!(reset["workspaces"], after["workspaces"]);
    assert_eq!(reset["terminals"], after["terminals"]);
    session.json(&["workspace", "new", "three"]);
    events.stdout.wait_json("a delta", |line| {
        let named = line["changes"][0]["row"]["name"] == "three";
        (named && line["generation"] == *generation).then_some(())
    });
    let previous = events.stdout.json_lines();
    let resets = previous.iter().filter(|line| line["reset"].is_string());
    assert_eq!(resets.count(), 2, "{previous:?}");
    assert!(events.runs());

    // The screen is gone; who was attached, and who comes now, is told that there is nothing to start again for.
    let read = ["--machine", "box", "terminal", "read", id];
    let read = session.laptop.run(&read);
    assert_eq!((read.code, &*read.stdout), (5, ""), "{read:?}");
    assert!(read.stderr.contains("gone"), "{read:?}");
    let early = consumer.ended();
    let late = session.laptop.pipe_io(id, &["--machine", "box"]).ended();
    for end in [&early, &late] {
        assert_eq!(end.code, 0, "{end:?}");
        assert_eq!(end.exit["reason"], "terminal-ended", "{end:?}");
    }
    let words = late.told[0]["diagnostic"].as_str();
    assert!(words.is_some_and(|words| words.contains("gone")), "{late:?}");

    // What is asked again under its key was done already.
    let again = session.json(&new_workspace);
    assert_eq!(again["value"], workspace["value"]);
    assert_eq!(again["replayed"], true, "{again}");
    let again = session.json(&new_terminal);
    assert_eq!(again["value"], terminal["value"]);
    assert_eq!(again["replayed"], true, "{again}");
    let now = session.snapshot();
    assert_eq!(now["terminals"], after["terminals"]);
    assert_eq!(now["workspaces"].as_array().unwrap().len(), 3, "{now}");

    // And what is new can be made at once.
    let new = session.json(&["terminal", "new", "--workspace", "renamed", "--", "cat"]);
    assert_eq!(new["value"]["workspace"], terminal["value"]["workspace"], "{new}");
    assert_eq!(&new["generation"], generation, "{new}");
    let new = new["value"]["terminal"].as_str().unwrap();
    assert_ne!(new, id);
    let mut consumer = session.laptop.pipe_io(new, &["--machine", "box"]);
    consumer.type_text("after the restart\n");
    consumer.output().wait_for("after the restart");
    assert_eq!(consumer.detach().code, 0);
}

#[test]
fn a_daemon_that_was_terminated_comes_back_with_its_session() {
    restarted_with(Signal::TERM);
}

#[test]
fn a_daemon_that_was_killed_comes_back_with_its_session() {
    restarted_with(Signal::KILL);
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_after_it() {
    let machine = Machine::new();
    let mut names = Vec::new();
    for round in 0..3 {
        let daemon = machine.daemon(&[]);
        for number in 0..4 {
            let name = format!("w-{round}-{number}");
            machine.ok(&["workspace", "new", "first"]);
            machine.ok(&["workspace", "rename", "first", &name]);
            names.push(name);
        }
        daemon.kill();
    }
    let _daemon = machine.daemon(&[]);
    let mut rows = machine.json(&["workspace", "list"]);
    let rows = rows.as_array_mut().unwrap();
    rows.sort_by_key(|row| row["index"].as_u64());
    let found: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(found, names);
}

#[test]
fn on_the_daemons_own_socket_consumers_say_that_it_is_lost_or_go_on_when_it_is_back() {
    let machine = Machine::new();
    let attached = |terminal: &str| {
        let consumer = machine.pipe_io(terminal, &[]);
        let shown = |bytes: &[u8]| (!bytes.is_empty()).then_some(());
        consumer.output().wait("the snapshot", shown);
        consumer
    };
    let daemon = machine.daemon(&[]);
    let lost = attached(&machine.terminal(&["--", "cat"]));
    let mut events = Process::spawn(&mut machine.command(&["session", "events", "--jsonl"]));
    events.stdout.wait_json("the first document", |line| (line["reset"] == "initial").then_some(()));
    daemon.kill();
    let end = lost.ended();
    assert_eq!(end.code, 2, "{end:?}");
    assert_eq!(end.exit, json!({"reason": "daemon-lost", "status": 2}));
    assert_eq!(events.exit(), 1, "{}", events.stderr.text());
    assert_ne!(events.stderr.text(), "", "it ended without a word");

    let daemon = machine.daemon(&[]);
    let waits = attached(&machine.terminal(&["--", "cat"]));
    daemon.kill();
    let _daemon = machine.daemon(&[]);
    let end = waits.ended();
    assert_eq!((end.code, &end.exit["reason"]), (0, &"terminal-ended".into()), "{end:?}");
}
