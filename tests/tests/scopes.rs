//! What a device may do, and what of it stands in the audit.

#![allow(clippy::unwrap_used)]

use keepline_tests::machine::Output;
use keepline_tests::{Daemon, Machine, Relay, wait_until};
use serde_json::{Value, json};

/// A daemon with a terminal, and a laptop with a link that has these scopes.
struct Scoped {
    owner: Machine,
    daemon: Daemon,
    laptop: Machine,
    relay: Relay,
    terminal: String,
}

impl Scoped {
    fn new(invitation: &[&str]) -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let terminal = owner.terminal(&["--name", "shell", "--", "cat"]);
        let mut arguments = vec!["--no-approval"];
        arguments.extend(invitation);
        let file = owner.invitation(&arguments);
        let file = file.to_string_lossy();
        let relay = laptop.relay(&[&daemon.route(), "--invite-file", &file, "--name", "box"]);
        relay.wait_state("up");
        Scoped { owner, daemon, laptop, relay, terminal }
    }

    /// Runs a command on the laptop, for the machine.
    fn run(&self, command: &[&str]) -> Output {
        let mut arguments = vec!["--machine", "box"];
        arguments.extend(command);
        self.laptop.run(&arguments)
    }

    fn allows(&self, command: &[&str]) {
        let output = self.run(command);
        assert_eq!(output.code, 0, "{command:?}: {output:?}");
    }

    /// The command ends with exit code 6 and one sentence that names the scope.
    fn refuses(&self, command: &[&str], scope: &str) {
        let output = self.run(command);
        assert_eq!(output.code, 6, "{command:?}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        let named = format!("needs the scope '{scope}'");
        assert!(output.stderr.contains(&named), "{output:?}");
    }

    fn device(&self) -> Value {
        self.owner.json(&["remote", "devices"])[0].clone()
    }
}

#[test]
fn a_device_that_may_view_sees_and_changes_nothing() {
    let scoped = Scoped::new(&["--scope", "view"]);
    assert_eq!(scoped.device()["scopes"], json!(["view"]));
    let id = scoped.terminal.clone();
    scoped.allows(&["terminal", "list"]);
    scoped.allows(&["terminal", "read", &id]);
    scoped.allows(&["session", "snapshot", "--json"]);
    scoped.allows(&["server", "status"]);
    scoped.refuses(&["terminal", "send", &id, "typed"], "type");
    scoped.refuses(&["terminal", "rename", &id, "named"], "type");
    scoped.refuses(&["terminal", "signal", &id, "INT"], "type");
    scoped.refuses(&["workspace", "new", "w"], "type");
    scoped.refuses(&["terminal", "new", "--", "true"], "exec");
    for command in ["devices", "pending", "connections", "invite", "rotate-key"] {
        scoped.refuses(&["remote", command], "admin");
    }
    scoped.refuses(&["server", "audit"], "admin");
    scoped.refuses(&["server", "stop"], "admin");

    // It may watch, and only that.
    let end = scoped.laptop.pipe_io(&id, &["--machine", "box"]).ended();
    assert_eq!(end.code, 6, "{end:?}");
    let mut watching = scoped.laptop.pipe_io(&id, &["--machine", "box", "--read-only"]);
    scoped.owner.ok(&["terminal", "send", &id, "seen by all\n"]);
    watching.output().wait_for("seen by all");
    watching.type_text("typed by who may not\n");
    let end = watching.detach();
    let screen = scoped.owner.ok(&["terminal", "read", &id]);
    assert!(!screen.contains("who may not"), "{end:?}: {screen}");
}

#[test]
fn the_default_is_all_but_admin_and_admin_is_given_when_asked_for() {
    let scoped = Scoped::new(&[]);
    let given = json!(["view", "type", "files", "exec", "forward"]);
    assert_eq!(scoped.device()["scopes"], given);
    scoped.allows(&["terminal", "new", "--", "true"]);
    scoped.allows(&["terminal", "send", &scoped.terminal, "x"]);
    scoped.refuses(&["remote", "devices"], "admin");

    let scoped = Scoped::new(&["--scope", "view,admin"]);
    scoped.allows(&["remote", "devices"]);
    scoped.refuses(&["terminal", "new", "--", "true"], "exec");
    // What it asks for as an administrator says that it was it.
    let file = scoped.laptop.home().join("second");
    scoped.allows(&["remote", "invite", "--out", &file.to_string_lossy()]);
    let device = scoped.device()["device"].clone();
    let audit = scoped.owner.json(&["server", "audit"]);
    let invited = audit.as_array().unwrap().iter();
    let by: Vec<&Value> = invited.filter(|entry| entry["event"] == "invited").map(|entry| &entry["by"]).collect();
    assert_eq!(by, [&Value::Null, &device], "{audit}");
}

#[test]
fn scopes_are_changed_under_a_device_at_once() {
    let scoped = Scoped::new(&["--scope", "view,type"]);
    let (id, device) = (scoped.terminal.clone(), scoped.device());
    let device = device["device"].as_str().unwrap();
    let mut typing = scoped.laptop.pipe_io(&id, &["--machine", "box"]);
    typing.type_text("typed while allowed\n");
    typing.output().wait_for("typed while allowed");

    scoped.owner.ok(&["remote", "scope", device, "view"]);
    assert_eq!(scoped.device()["scopes"], json!(["view"]));
    let end = typing.ended();
    assert_eq!(end.code, 6, "{end:?}");
    // The relay has a new link by now, or has it soon; a request waits for it.
    scoped.refuses(&["terminal", "send", &id, "typed"], "type");

    scoped.owner.ok(&["remote", "scope", device, "type,exec"]);
    wait_until("more scopes", || {
        let output = scoped.run(&["terminal", "new", "--", "true"]);
        (output.code == 0).then_some(()).ok_or(output.stderr)
    });
    scoped.refuses(&["remote", "devices"], "admin");
    let unknown = scoped.owner.run(&["remote", "scope", device, "root"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn a_pending_devices_scopes_are_shown_and_stay_when_it_is_approved() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let file = owner.invitation(&["--scope", "view"]);
    let relay = laptop.relay(&[&daemon.route(), "--invite-file", &file.to_string_lossy()]);
    let pending = wait_until("a pending device", || {
        let pending = owner.json(&["remote", "pending"]);
        let found = pending[0].as_object().cloned();
        found.ok_or(pending)
    });
    assert_eq!(pending["scopes"], json!(["view"]));
    owner.ok(&["remote", "approve", pending["id"].as_str().unwrap()]);
    relay.wait_state("up");
    assert_eq!(owner.json(&["remote", "devices"])[0]["scopes"], json!(["view"]));
}

#[test]
fn a_trusted_carrier_gives_what_its_listener_gives() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.daemon(&["--remote-ws", "127.0.0.1:0", "--remote-ws-trusted-carrier"]);
    let socket = format!("unix:{}", owner.daemon_socket().display());
    let local = laptop.relay(&[&socket, "--name", "near"]);
    local.wait_state("up");
    laptop.ok(&["--machine", "near", "remote", "devices"]);
    let device = owner.json(&["remote", "devices"])[0].clone();
    assert_eq!((&device["state"], &device["scopes"]), (&json!("trusted"), &json!([])));
    drop(local);

    let laptop = Machine::new();
    let far = laptop.relay(&[&daemon.route(), "--carrier", "--name", "far"]);
    far.wait_state("up");
    laptop.ok(&["--machine", "far", "terminal", "new", "--", "true"]);
    let refused = laptop.run(&["--machine", "far", "remote", "devices"]);
    assert_eq!(refused.code, 6, "{refused:?}");
}

#[test]
fn the_audit_tells_who_got_in_who_was_refused_and_who_changed_what() {
    let scoped = Scoped::new(&["--scope", "type"]);
    let (terminal, laptop) = (&scoped.terminal, &scoped.laptop);
    let device = scoped.device()["device"].clone();
    let id = device.as_str().unwrap();
    let word = "neither-typed-nor-named";
    scoped.allows(&["terminal", "rename", terminal, word]);
    scoped.allows(&["terminal", "send", terminal, word]);
    for _ in 0..3 {
        scoped.refuses(&["terminal", "new", "--", "true"], "exec");
    }
    let revision = laptop.json(&["--machine", "box", "workspace", "new", word])["revision"].clone();
    let Scoped { owner, daemon, laptop, relay, .. } = scoped;
    owner.ok(&["remote", "revoke", id]);
    assert_eq!(relay.ended().0, 6);
    for _ in 0..2 {
        let (code, said) = laptop.relay(&[&daemon.route()]).ended();
        assert_eq!(code, 6, "{said}");
    }

    let entries = owner.json(&["server", "audit", "--device", id]);
    let text = entries.to_string();
    assert!(!text.contains(word), "{text}");
    let entries = entries.as_array().unwrap();
    let of = |event: &str| -> Vec<&Value> {
        let found = entries.iter().filter(|entry| entry["event"] == event);
        found.collect()
    };
    assert!(entries.iter().all(|entry| entry["device"] == device), "{text}");
    assert_eq!(of("enrolled").len(), 1, "{text}");
    let opened = of("link-opened");
    assert_eq!(opened[0]["detail"], "ws", "{text}");
    assert!(opened[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{text}");
    let details: Vec<_> = of("mutation").iter().map(|entry| entry["detail"].clone()).collect();
    assert_eq!(details, ["terminal.rename", "workspace.new"], "{text}");
    assert_eq!(of("mutation")[1]["cursor"]["revision"], revision, "{text}");
    assert_eq!(of("revoked").len(), 1, "{text}");
    assert_eq!(of("link-ended").last().unwrap()["detail"], "revoked", "{text}");
    let refused = |detail: &str| -> u64 {
        let found = of("refused");
        let found = found.iter().filter(|entry| entry["detail"] == detail);
        found.map(|entry| entry["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(refused("terminal.new"), 3, "{text}");
    assert_eq!(refused("revoked"), 2, "{text}");

    let table = owner.ok(&["server", "audit"]);
    assert!(table.starts_with("AGO") && table.contains("terminal.rename"), "{table}");
    let own = owner.json(&["server", "audit"]);
    let own = own.as_array().unwrap();
    let by_hand = |entry: &&Value| entry["event"] == "mutation" && entry["device"].is_null();
    let by_hand: Vec<_> = own.iter().filter(by_hand).collect();
    assert_eq!(by_hand.len(), 1, "the owner's terminal: {own:?}");
}

#[test]
fn the_audit_outlives_its_daemon() {
    let scoped = Scoped::new(&[]);
    scoped.allows(&["terminal", "new", "--", "true"]);
    let Scoped { owner, daemon, .. } = scoped;
    daemon.stop();
    let _daemon = owner.listening_daemon();
    let entries = owner.json(&["server", "audit"]);
    let entries = entries.as_array().unwrap();
    let events: Vec<_> = entries.iter().map(|entry| entry["event"].clone()).collect();
    for event in ["invited", "enrolled", "link-opened", "mutation", "link-ended"] {
        assert!(events.contains(&json!(event)), "{event}: {events:?}");
    }
    let last = entries.iter().find(|entry| entry["event"] == "link-ended");
    assert_eq!(last.unwrap()["detail"], "stopping");
}
