//! The other commands: the built program against a fake local server.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use keepline_protocol::failure::Code;
use serde_json::{Value, json};
use support::{Fake, TERMINAL, keepline, within};

async fn run(fake: &Fake, arguments: &[&str]) -> Output {
    let mut command = keepline(fake, arguments);
    command.stdin(Stdio::null());
    within("exit", command.output()).await.unwrap()
}

async fn ok(fake: &Fake, arguments: &[&str]) -> String {
    let output = run(fake, arguments).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

async fn json_of(fake: &Fake, arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(fake, arguments).await).unwrap()
}

fn params(fake: &Fake, method: &str) -> Value {
    fake.with(|state| {
        let last = state.requests.iter().rfind(|request| request["method"] == method);
        last.unwrap()["params"].clone()
    })
}

fn receipt(value: Value) -> Value {
    json!({"value": value, "generation": "ab".repeat(16), "revision": 7, "replayed": false})
}

#[tokio::test]
async fn changes_print_the_id_or_the_receipt_and_carry_a_key() {
    let fake = Fake::start();
    let workspace = format!("ws_{}", "1".repeat(32));
    let made = receipt(json!({ "workspace": workspace }));
    fake.answer("workspace.new", made.clone());
    assert_eq!(ok(&fake, &["workspace", "new", "main"]).await, format!("{workspace}\n"));
    let first = params(&fake, "workspace.new");
    assert_eq!(first["name"], "main");
    assert_eq!(json_of(&fake, &["workspace", "new", "--json"]).await, made);
    let second = params(&fake, "workspace.new");
    assert_ne!(first["key"], second["key"]);
    assert!(second["key"].is_string());

    fake.answer("terminal.new", receipt(json!({"workspace": null, "terminal": TERMINAL})));
    let cursor = format!("{}:7", "cd".repeat(16));
    let printed = ok(
        &fake,
        &[
            "terminal", "new", "--cwd", "here", "--size", "90x20", "--key", "k", "--expect", &cursor, "--", "sh", "-c",
            "x",
        ],
    )
    .await;
    assert_eq!(printed, format!("{TERMINAL}\n"));
    let params = params(&fake, "terminal.new");
    assert_eq!(params["argv"], json!(["sh", "-c", "x"]));
    assert_eq!(params["key"], "k");
    assert_eq!(params["expect"]["revision"], 7);
    assert_eq!(params["cwd"], fake.dir.path().join("here").to_str().unwrap());
    let request = fake.with(|state| state.requests.last().unwrap().clone());
    assert_eq!(request["timeout_ms"], 30_000);
}

#[tokio::test]
async fn lists_are_arrays_and_tables_and_say_when_they_are_stale() {
    let fake = Fake::start();
    let rows = json!([
        {"id": "term_b", "index": 2, "name": null, "title": "evil\u{1b}[2J\u{202e}", "lifecycle": "running",
            "size": {"cols": 80, "rows": 24}, "used_ms": 1, "pid": 12, "tab_ids": []},
        {"id": "term_a", "index": 1, "name": "first", "lifecycle": "ended", "exit": "status 1",
            "size": {"cols": 80, "rows": 24}, "used_ms": 0},
    ]);
    let freshness = |state: &str| json!({"terminals": rows, "freshness": {"state": state, "since_ms": 1}});
    fake.answer("terminal.list", freshness("live"));
    assert_eq!(json_of(&fake, &["terminal", "list", "--json"]).await, rows);
    let table = ok(&fake, &["terminal", "list"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].starts_with("term_a") && lines[2].starts_with("term_b"), "{table}");
    assert!(lines[2].contains("evil[2J") && !table.contains(['\x1b', '\u{202e}']), "{table}");

    fake.answer("terminal.list", freshness("stale"));
    let output = run(&fake, &["terminal", "list", "--json"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("stale"));
    let stale: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(stale[0]["freshness"]["state"], "stale");

    let pending = json!([{"id": format!("dev_{}", "1".repeat(32)), "device": format!("dev_{}", "1".repeat(32)),
        "name": "laptop", "fingerprint": "SHA256:x", "since": 5, "scopes": ["view"]}]);
    fake.answer("remote.pending", json!({ "pending": pending }));
    assert_eq!(json_of(&fake, &["remote", "pending", "--json"]).await, pending);
    assert_eq!(json_of(&fake, &["remote", "known-daemons", "--json"]).await, json!([]));
}

#[tokio::test]
async fn a_screen_is_printed_and_text_is_sent_as_given() {
    let fake = Fake::start();
    fake.answer(
        "terminal.read",
        json!({"terminal": TERMINAL, "rows": ["$ ls", "a\u{9b}31m", "", ""], "cursor_column": 0, "cursor_row": 1,
            "size": {"cols": 80, "rows": 4, "x_pixels": 0, "y_pixels": 0}, "through": 9, "alternate": false, "epoch": 0,
            "first": 0, "end": 0, "digest": "00"}),
    );
    assert_eq!(ok(&fake, &["terminal", "read", "t"]).await, "$ ls\na31m\n");
    assert_eq!(json_of(&fake, &["terminal", "read", "t", "--json"]).await["through"], 9);

    fake.answer("terminal.send", json!({"written": 4}));
    assert_eq!(ok(&fake, &["terminal", "send", "t", "-ls "]).await, "");
    assert_eq!(params(&fake, "terminal.send")["data"], "LWxzIA==");
    let mut command = keepline(&fake, &["terminal", "send", "t", "-", "--json"]);
    let big = fake.dir.path().join("big");
    std::fs::write(&big, vec![b'x'; 1_100_000]).unwrap();
    command.stdin(std::fs::File::open(&big).unwrap());
    let output = within("exit", command.output()).await.unwrap();
    assert_eq!(output.stdout, b"{\"written\":12}\n", "three pieces");
    let attachments: std::collections::HashSet<_> = fake.with(|state| {
        let sends = state.requests.iter().filter(|request| request["method"] == "terminal.send");
        sends.map(|request| request["params"]["attachment"].to_string()).collect()
    });
    assert_eq!(attachments.len(), 4);
}

#[tokio::test]
async fn an_invitation_is_a_private_file_that_overwrites_nothing() {
    let fake = Fake::start();
    fake.answer(
        "remote.invite",
        json!({"invitation": format!("inv_{}", "1".repeat(32)), "file": "secret\n", "expires_ms": 5}),
    );
    let path = ok(&fake, &["remote", "invite", "--no-approval"]).await;
    let path = fake.dir.path().join(path.trim_end());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(params(&fake, "remote.invite")["no_approval"], true);

    let given = fake.dir.path().join("given").to_str().unwrap().to_owned();
    let arguments = ["remote", "invite", "--out", &given, "--json"];
    let said = json_of(&fake, &arguments).await;
    assert_eq!(said["file"], given);
    assert!(!said.to_string().contains("secret"));
    let asked = fake.with(|state| state.requests.len());
    let output = run(&fake, &arguments).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fake.with(|state| state.requests.len()), asked, "no invitation was made for it");

    fake.refuse("remote.invite", Code::Refused, "no");
    let other = fake.dir.path().join("other");
    let output = run(&fake, &["remote", "invite", "--out", other.to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(6));
    assert!(!other.exists());
}

#[tokio::test]
async fn failures_are_one_sentence_and_their_exit_code() {
    let fake = Fake::start();
    for (code, exit) in [
        (Code::Failed, 1),
        (Code::Invalid, 2),
        (Code::Busy, 3),
        (Code::NotFound, 4),
        (Code::Gone, 5),
        (Code::Conflict, 6),
        (Code::CannotStart, 126),
        (Code::NoSuchProgram, 127),
        (Code::OutcomeUnknown, 125),
    ] {
        fake.refuse("terminal.close", code, "it \x1b[31mfailed");
        let output = run(&fake, &["terminal", "close", "t"]).await;
        assert_eq!(output.status.code(), Some(exit));
        assert_eq!(output.stdout, b"");
        assert_eq!(output.stderr, b"it [31mfailed\n  one\n  two\n");
    }
    for arguments in [&["nonsense"][..], &["terminal", "new", "--size", "1"], &["attach"]] {
        let output = run(&fake, arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(output.stderr.iter().filter(|&&byte| byte == b'\n').count(), 1);
    }
    let no_terminal = run(&fake, &["attach"]).await;
    assert!(String::from_utf8(no_terminal.stderr).unwrap().contains("--pipe-io"));
    assert!(ok(&fake, &["--version"]).await.starts_with("keepline "));
}

#[tokio::test]
async fn nobody_to_talk_to_is_said_and_nothing_is_started() {
    let fake = Fake::start();
    let mut command = keepline(&fake, &["terminal", "list"]);
    let output = within("exit", command.env_remove("KEEPLINE_SOCKET").output()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "no keepline daemon runs here: start one with `keepline server start --detach`\n"
    );
    let output = run(&fake, &["terminal", "list", "--machine", "nowhere"]).await;
    assert_eq!(output.status.code(), Some(4));
    let runtime = fake.dir.path().join("keepline");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700)).unwrap();
    // A socket that nobody serves any more.
    drop(std::os::unix::net::UnixListener::bind(runtime.join("machine-box.sock")).unwrap());
    let output = run(&fake, &["terminal", "list", "--machine", "box"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, "cannot reach 'box' — disconnected\n".as_bytes());
}

#[tokio::test]
async fn no_answer_is_124_and_a_connection_lost_on_the_way_depends() {
    let fake = Fake::start();
    let output = run(&fake, &["terminal", "list", "--timeout", "1"]).await;
    assert_eq!(output.status.code(), Some(124));
    for (arguments, exit) in [(&["terminal", "close", "t"][..], 125), (&["terminal", "read", "t"], 1)] {
        let asked = fake.with(|state| state.requests.len());
        let (output, ()) = tokio::join!(run(&fake, arguments), async {
            fake.until("request", |state| state.requests.len() > asked).await;
            fake.cut();
        });
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_session_is_printed_and_followed_line_by_line() {
    let fake = Fake::start();
    let document = json!({"cursor": {"generation": "ab", "revision": 3}, "workspaces": [], "terminals": [],
        "freshness": {"state": "live", "since_ms": 1}, "pending_writes": [], "later": {"kept": true}});
    fake.answer("session.snapshot", json!({ "document": document }));
    assert_eq!(json_of(&fake, &["session", "snapshot", "--json"]).await, document);
    assert!(ok(&fake, &["session", "snapshot"]).await.starts_with("cursor ab:3\n"));

    fake.answer("session.events", json!({"reset": "no cursor", "document": document}));
    let delta = json!({"generation": "ab", "previous_revision": 3, "revision": 4, "changes": []});
    fake.with(|state| {
        state.notifications = vec![
            json!({"jsonrpc": "2.0", "method": "session.event", "params": delta}),
            json!({"jsonrpc": "2.0", "method": "session.reset", "params": {"reason": "slow", "document": document}}),
        ];
    });
    let mut child = keepline(&fake, &["session", "events", "--jsonl"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = {
        use tokio::io::AsyncBufReadExt;
        tokio::io::BufReader::new(child.stdout.take().unwrap()).lines()
    };
    let mut got = Vec::new();
    while got.len() < 3 {
        let line = within("an event", lines.next_line()).await.unwrap().unwrap();
        got.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert_eq!(
        got,
        [json!({"reset": "no cursor", "document": document}), delta, json!({"reset": "slow", "document": document})]
    );
    // Whoever reads may stop reading.
    drop(lines);
    fake.cut();
    assert!(within("exit", child.wait()).await.unwrap().code().is_some());
}

#[tokio::test]
async fn the_daemons_state_is_its_exit_code() {
    let fake = Fake::start();
    fake.answer(
        "server.status",
        json!({"pid": 42, "version": "0", "generation": "ab".repeat(16), "fingerprint": "SHA256:x", "listeners": [],
            "terminals": 1, "links": 0, "state_dir": "/s"}),
    );
    assert_eq!(json_of(&fake, &["server", "status", "--json"]).await["pid"], 42);
    assert!(ok(&fake, &["server", "status"]).await.contains("pid 42"));
    fake.answer("server.stop", json!({}));
    let stop = run(&fake, &["server", "stop"]);
    let (output, ()) = tokio::join!(stop, async {
        fake.until("request", |state| state.requests.iter().any(|request| request["method"] == "server.stop")).await;
        fake.vanish();
    });
    assert_eq!(output.status.code(), Some(0));
    let output = run(&fake, &["server", "status", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"{\"serving\":false}\n");
}

#[tokio::test]
async fn reconnecting_says_how_the_link_stands_then_and_why_it_cannot() {
    let fake = Fake::start();
    let unknown = run(&fake, &["remote", "reconnect", "box"]).await;
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");

    let machines = fake.dir.path().join(".local/state/keepline/client/machines");
    std::fs::create_dir_all(&machines).unwrap();
    for directory in machines.ancestors().take(2) {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let known = json!({"identity": "ab".repeat(32), "serial": 1, "routes": ["ws://h:1"], "last_seen_ms": 1});
    let file = machines.join("box.json");
    std::fs::write(&file, known.to_string()).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let without = run(&fake, &["remote", "reconnect", "box"]).await;
    assert_eq!(without.status.code(), Some(1), "{without:?}");
    let said = String::from_utf8(without.stderr).unwrap();
    assert!(said.contains("no relay runs for 'box'"), "{said}");
    assert!(said.contains("ws://h:1"), "{said}");
    let rows = json_of(&fake, &["remote", "known-daemons", "--json"]).await;
    assert_eq!(rows[0]["state"], "no-relay");
    assert_eq!(rows[0]["reason"], "no-relay");

    let runtime = fake.dir.path().join("keepline");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700)).unwrap();
    let socket = runtime.join("machine-box.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let rows = json_of(&fake, &["remote", "known-daemons", "--json"]).await;
    assert_eq!(rows[0]["reason"], "relay-died");

    std::fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(fake.path(), &socket).unwrap();
    let up = json!({"machine": "box", "state": "up", "rtt_us": 1_234, "retry_ms": 0, "seen_ms": 5});
    fake.answer("relay.reconnect", up.clone());
    fake.answer("relay.status", up);
    let said = ok(&fake, &["remote", "reconnect", "box"]).await;
    assert_eq!(said, "box: up, round trip 1.2 ms\n");
    let row = &json_of(&fake, &["remote", "known-daemons", "--json"]).await[0];
    assert_eq!((&row["state"], &row["last_seen_ms"]), (&json!("up"), &json!(5)));

    let down = json!({"machine": "box", "state": "down", "reason": "busy", "message": "it is\u{1b} busy",
        "retry_ms": 4_950, "route": "ws://h:1"});
    fake.answer("relay.reconnect", down.clone());
    fake.answer("relay.status", down);
    let output = run(&fake, &["remote", "reconnect", "box", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["reason"], "busy");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "box: down: it is busy; the next try is in 4.9s\n");
    let output = run(&fake, &["remote", "known-daemons"]).await;
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().nth(1).unwrap();
    assert!(row.starts_with("box   down   busy    4.9s"), "{table}");
    assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    assert_eq!(output.stderr, b"box: it is busy\n");

    fake.refuse("relay.reconnect", Code::Timeout, "not yet");
    let output = run(&fake, &["remote", "reconnect", "box"]).await;
    assert_eq!(output.status.code(), Some(124));
}

#[tokio::test]
async fn tables_are_for_people() {
    let fake = Fake::start();
    let device = |last: char| format!("dev_{}{last}", "1".repeat(31));
    let connection = json!({"link": format!("link_{}", "ab".repeat(16)), "device": device('1'), "name": "laptop", "client": "c", "epoch": 3,
        "state": "detached", "carrier": "ws", "peer": "127.0.0.1:50000", "rtt_us": 12_345, "since": 1, "lease_ms": 90_500});
    fake.answer("remote.connections", json!({ "connections": [connection] }));
    let table = ok(&fake, &["remote", "connections"]).await;
    let row = table.lines().nth(1).unwrap();
    for cell in ["detached", "90s", "12.3 ms", "dev_11111111"] {
        assert!(row.contains(cell), "{table}");
    }
    let terminal = |id: &str, exit: Value| {
        json!({"id": format!("term_{}", id.repeat(32)), "index": 1, "name": "build",
        "lifecycle": "ended", "exit": exit, "size": {"cols": 80, "rows": 24}, "used_ms": 0})
    };
    let rows = [
        terminal("a", json!({"status": 2})),
        terminal("b", json!({"signal": 9})),
        terminal("c", json!({"reason": "daemon stopped"})),
    ];
    let freshness = json!({"state": "live", "since_ms": 1});
    fake.answer("terminal.list", json!({"terminals": rows, "freshness": freshness}));
    let listed = ok(&fake, &["terminal", "list"]).await;
    for state in ["ended 2 ", "ended by signal 9 ", "ended, daemon stopped "] {
        assert!(listed.contains(state), "{listed}");
    }
    for line in table.lines().chain(listed.lines()) {
        assert!(line.len() <= 80, "{line}");
    }
}

#[tokio::test]
async fn an_invitation_that_leads_nowhere_is_warned_of() {
    use keepline_protocol::id::InvitationId;
    use keepline_protocol::identity::{Credentials, Role};
    use keepline_protocol::invitation::{Invitation, Secret};
    let fake = Fake::start();
    let invitation = |routes: &[&str]| Invitation {
        id: InvitationId::from_bytes([1; 16]),
        daemon: Credentials::generate(Role::Daemon, &[7; 64]).identity(),
        secret: Secret::from_bytes([2; 32]),
        expires_ms: 5,
        routes: routes.iter().map(ToString::to_string).collect(),
    };
    for (routes, warned) in [(&[][..], true), (&["ws://h:1/v1/link"], false)] {
        let file = invitation(routes).to_file();
        let id = format!("inv_{}", "1".repeat(32));
        fake.answer("remote.invite", json!({"invitation": id, "file": file, "expires_ms": 5}));
        let output = run(&fake, &["remote", "invite"]).await;
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("--remote-ws"), warned, "{said}");
    }
}
