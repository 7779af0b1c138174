#![allow(clippy::unwrap_used)]
//! The session graph with real processes: two devices change it while their links are cut, a full disk, what people see of
//! it.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use keepline_tests::process::Process;
use keepline_tests::proxy::{Cut, Direction, Phase, Proxy};
use keepline_tests::rpc::Rpc;
use keepline_tests::{Machine, wait_until};
use serde_json::{Value, json};

/// A document without what each server adds to it, and without who is connected.
fn graph(document: &Value) -> Value {
    let mut document = document.clone();
    for added in ["sync_mode", "freshness", "pending_writes", "clients"] {
        document.as_object_mut().unwrap().remove(added);
    }
    document["cursor"]["revision"] = Value::Null;
    document
}

fn ids(document: &Value, collection: &str) -> Vec<String> {
    let rows = document[collection].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Changes things at random until `until`; gives how many changes were done and how many refused.
fn change_at_random(socket: &std::path::Path, mut random: fastrand::Rng, until: Instant) -> [usize; 2] {
    let mut rpc = Rpc::connect(socket);
    let mut counts = [0, 0];
    while Instant::now() < until {
        let snapshot = rpc.call("session.snapshot", &json!({}));
        let document = &snapshot["result"]["document"];
        let mut pick = |collection: &str| {
            let ids = ids(document, collection);
            if ids.is_empty() { "none".to_owned() } else { ids[random.usize(..ids.len())].clone() }
        };
        let (workspace, screen, pane, tab) = (pick("workspaces"), pick("screens"), pick("panes"), pick("tabs"));
        let terminal = pick("terminals");
        let name = format!("name {}", random.u16(..));
        let (method, params) = match random.u8(..14) {
            0 => ("workspace.new", json!({"name": name})),
            1 => ("workspace.rename", json!({"workspace": workspace, "name": name})),
            2 => ("workspace.move", json!({"workspace": workspace, "index": 0})),
            3 if ids(document, "workspaces").len() > 2 => ("workspace.close", json!({"workspace": workspace})),
            4 => ("screen.new", json!({"workspace": workspace, "terminal": terminal})),
            5 => ("screen.close", json!({"screen": screen})),
            6 | 7 => {
                let direction = ["right", "down", "left", "up"][random.usize(..4)];
                ("pane.split", json!({"pane": pane, "direction": direction, "terminal": terminal}))
            }
            8 => ("pane.close", json!({"pane": pane})),
            9 => ("pane.zoom", json!({"pane": pane})),
            10 => ("tab.new", json!({"pane": pane, "terminal": terminal})),
            11 => ("tab.move", json!({"tab": tab, "pane": pane, "index": 0})),
            12 => ("terminal.rename", json!({"terminal": terminal, "name": name})),
            _ => ("notification.post", json!({"title": name, "terminal": terminal})),
        };
        let answer = rpc.call(method, &params);
        // Another one may have taken away what this one was about.
        match answer["error"]["data"]["kind"].as_str() {
            None => counts[0] += 1,
            Some("not-found" | "gone" | "invalid" | "too-large" | "unreachable" | "timeout") => counts[1] += 1,
            Some(_) => panic!("{method} {params}: {answer}"),
        }
    }
    counts
}

/// 15 seconds, or as many as `KEEPLINE_GRAPH_SECONDS` says.
#[test]
fn two_devices_that_change_everything_over_cut_links_see_what_the_daemon_has() {
    let seconds = std::env::var("KEEPLINE_GRAPH_SECONDS").ok();
    let seconds: u64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(15);
    let seed: u64 = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    for name in ["a", "b", "c", "d"] {
        owner.terminal(&["--name", name, "--", "cat"]);
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let laptops: Vec<_> = (0..2)
        .map(|_| {
            let laptop = Machine::new();
            let proxy = Proxy::start(&daemon.address());
            let relay = laptop.enrol(&owner, &proxy.route(), "box");
            (laptop, proxy, relay)
        })
        .collect();
    let counts: Vec<_> = std::thread::scope(|scope| {
        let changing: Vec<_> = laptops
            .iter()
            .map(|(laptop, ..)| {
                let random = random.fork();
                let socket = laptop.runtime_dir().join("keepline/machine-box.sock");
                scope.spawn(move || change_at_random(&socket, random, until))
            })
            .collect();
        let mut cuts = 0;
        while Instant::now() < until {
            for (_, proxy, _) in &laptops {
                let direction = if random.bool() { Direction::ToDaemon } else { Direction::ToRelay };
                proxy.cut([Cut { phase: Phase::Up, direction, after: random.u64(1..40_000), reset: random.bool() }]);
                cuts += 1;
                wait_until("the cut", || {
                    let made = proxy.made().len();
                    if made * 2 >= cuts - 1 || Instant::now() >= until { Ok(()) } else { Err(made) }
                });
            }
        }
        changing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made: usize = laptops.iter().map(|(_, proxy, _)| proxy.made().len()).sum();
    println!("changes done and refused by each: {counts:?}; cuts made: {made}");
    assert!(counts.iter().all(|[done, _]| *done > 50) && made > 5, "{counts:?}, {made} cuts");
    let machines = [
        (&owner, &["session", "snapshot"][..]),
        (&laptops[0].0, &["session", "snapshot", "--machine", "box"][..]),
        (&laptops[1].0, &["session", "snapshot", "--machine", "box"][..]),
    ];
    wait_until("the same document everywhere", || {
        let shown: Vec<_> = machines.iter().map(|(machine, line)| graph(&machine.json(line))).collect();
        if shown.iter().all(|document| *document == shown[0]) { Ok(()) } else { Err("they differ") }
    });
    // And it is what comes back after the daemon was killed, but for what cannot live on.
    let before = owner.json(&["session", "snapshot"]);
    daemon.kill();
    let _daemon = owner.daemon(&[]);
    let after = owner.json(&["session", "snapshot"]);
    for collection in ["workspaces", "screens", "panes", "tabs", "notifications"] {
        assert_eq!(after[collection], before[collection], "{collection}");
    }
}

#[test]
fn a_person_sees_what_is_shown_where_and_addresses_it() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let build = owner.terminal(&["--name", "build", "--", "cat"]);
    owner.ok(&["pane", "split", "build", "--down", "--ratio", "0.3", "--", "cat"]);
    let lost = owner.terminal(&["--detached", "--name", "lost", "--", "cat"]);
    let tree = owner.ok(&["tree"]);
    let expected = ["local", "  main", "    screen 1 *", "      pane 1", "        build", "      pane 2 *"];
    for (line, start) in tree.lines().zip(expected) {
        assert!(line.starts_with(start), "{tree}");
    }
    assert!(tree.contains("  (detached)\n    lost"), "{tree}");
    let json = owner.json(&["tree"]);
    assert_eq!(json["workspaces"][0]["screens"][0]["panes"][0]["tabs"][0]["terminal"]["id"], build);
    assert_eq!(json["detached"][0]["id"], lost);

    // A layout goes out and in again, also of another workspace.
    let layout = owner.ok(&["layout", "export", "main"]);
    let file = owner.home().join("layout.json");
    std::fs::write(&file, &layout).unwrap();
    let file = file.to_str().unwrap();
    owner.ok(&["layout", "apply", file, "--workspace", "main"]);
    assert_eq!(owner.ok(&["layout", "export", "main"]), layout);
    let second = owner.ok(&["layout", "apply", file]);
    assert_eq!(owner.ok(&["layout", "export", second.trim()]), layout);
    owner.ok(&["workspace", "rename", second.trim(), "copy"]);
    std::fs::write(file, "{").unwrap();
    assert_eq!(owner.run(&["layout", "apply", file]).code, 1);

    // From another machine, by an address.
    let laptop = Machine::new();
    let _relay = laptop.enrol(&owner, &daemon.route(), "box");
    laptop.ok(&["terminal", "send", "box/main/build", "hello\n"]);
    wait_until("the echo", || {
        let screen = laptop.ok(&["terminal", "read", "box/copy/build"]);
        if screen.contains("hello") { Ok(()) } else { Err(screen) }
    });
    assert!(laptop.ok(&["tree", "box/copy"]).starts_with("box\n  copy\n"));
    for (code, line) in [
        (4, &["terminal", "read", "box/main/nobody"][..]),
        (4, &["tree", "box/nothing"][..]),
        (2, &["terminal", "read", "box/main/build", "--machine", "other"][..]),
        (4, &["tab", "close", "box/main/build/none"][..]),
    ] {
        assert_eq!(laptop.run(line).code, code, "{line:?}");
    }
}

#[test]
fn notifications_come_from_a_terminal_and_are_seen_by_clients() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let laptop = Machine::new();
    let _relay = laptop.enrol(&owner, &daemon.route(), "box");
    let keepline = keepline_tests::binary::keepline().display().to_string();
    let script = format!("{keepline} notify 'tests passed' --body 'all of them' --level warning; exec cat");
    let terminal = owner.terminal(&["--", "sh", "-c", &script]);
    let row = wait_until("the notification", || {
        let rows = owner.json(&["notification", "list"]);
        rows.get(0).cloned().ok_or(rows)
    });
    assert_eq!(row["title"], "tests passed");
    assert_eq!(row["terminal_id"], terminal);
    assert_eq!(row["level"], "warning");
    let id = row["id"].as_str().unwrap();
    let done = laptop.json(&["notification", "ack", id, "note_gone", "--machine", "box"]);
    assert_eq!(done["value"], json!({"notifications": [id], "unknown": ["note_gone"]}));
    let row = &laptop.json(&["notification", "list", "--machine", "box"])[0];
    assert_eq!((&row["unread"], row["read_by"].as_array().unwrap().len()), (&json!(true), 1));
    // The bell rings in the ledger, once for many.
    owner.ok(&["terminal", "send", &terminal, "\u{7}\n"]);
    wait_until("the bell", || {
        let rows = owner.json(&["notification", "list"]);
        if rows.as_array().unwrap().iter().any(|row| row["title"] == "Bell") { Ok(()) } else { Err(rows) }
    });
    assert_eq!(owner.run(&["notify", "x", "--reply"]).code, 2);
    assert_eq!(owner.run(&["notify", "x", "--level", "loud"]).code, 2);
    owner.ok(&["notify", "--clear", "--terminal", &terminal]);
    assert_eq!(owner.json(&["notification", "list"]), json!([]));

    // Who is connected and attached, with votes.
    let _attached = laptop.pipe_io(&terminal, &["--machine", "box"]);
    let row = wait_until("the attachment", || {
        let rows = owner.json(&["client", "list"]);
        let attached = |row: &&Value| !row["attached"].as_array().unwrap().is_empty();
        rows.as_array().unwrap().iter().find(attached).cloned().ok_or(rows)
    });
    assert_eq!(row["attached"][0]["terminal_id"], terminal);
    assert!(row["device_id"].as_str().unwrap().starts_with("dev_"));
}

#[test]
fn whoever_watches_sees_each_notification_once() {
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let laptop = Machine::new();
    owner.ok(&["notify", "before there was a relay"]);
    let relay = laptop.enrol(&owner, &daemon.route(), "box");
    let watch = || {
        let mut command = laptop.command(&["notification", "watch", "--jsonl", "--machine", "box"]);
        Process::spawn(&mut command)
    };
    let titles = |process: &Process| -> Vec<String> {
        let lines = process.stdout.json_lines();
        lines.iter().map(|line| line["title"].as_str().unwrap().to_owned()).collect()
    };
    // The relay has looked at the document once it serves one; what comes from now on is new.
    let present = || laptop.json(&["notification", "list", "--machine", "box"]).as_array().unwrap().len();
    wait_until("the document", || if present() == 1 { Ok(()) } else { Err(present()) });
    let mut first = watch();
    let post = |title: &str| {
        owner.ok(&["notify", title]);
    };
    // Until it watches, what is posted waits for who watches next.
    post("one");
    post("two");
    post("two");
    first.stdout.wait_json("the second alert", |line| (line["title"] == "two").then_some(()));
    assert_eq!(titles(&first), ["one", "two"]);
    assert_eq!(first.stdout.json_lines()[0]["machine"], "box");
    first.kill();
    post("while nobody watched");
    // Neither a new relay nor a new link shows anything twice.
    drop(relay);
    let _relay = laptop.relay(&[&daemon.route(), "--name", "box"]);
    wait_until("the document", || match laptop.run(&["notification", "list", "--machine", "box", "--json"]) {
        output if output.code == 0 && output.stdout.contains("while nobody") => Ok(()),
        output => Err(format!("{output:?}")),
    });
    let second = watch();
    second.stdout.wait_json("what came meanwhile", |line| (line["title"] == "while nobody watched").then_some(()));
    post("last");
    second.stdout.wait_json("the last alert", |line| (line["title"] == "last").then_some(()));
    assert_eq!(titles(&second), ["while nobody watched", "last"]);
}

/// A file system of its own, for the daemon's state. Dropping it takes it away.
struct Disk {
    path: std::path::PathBuf,
}

impl Disk {
    /// Nothing, with a message, where none may be mounted.
    fn mount(path: std::path::PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=700", "keepline-test"]).arg(&path).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Disk { path });
        }
        eprintln!("skipped: this test mounts a small file system, which needs root");
        None
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", options]).arg(&self.path).status();
        assert!(status.unwrap().success(), "{options}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

#[test]
fn a_full_disk_refuses_changes_and_nothing_else_and_a_read_only_one_a_start() {
    let owner = Machine::new();
    let Some(disk) = Disk::mount(owner.home().join("disk")) else {
        return;
    };
    let dir = disk.path.display().to_string();
    let daemon = owner.daemon(&["--state-dir", &dir]);
    let terminal = owner.terminal(&["--", "cat"]);
    let filler = disk.path.join("filler");
    let full = || {
        // As much as there is room for.
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=4096"])
            .arg(format!("of={}", filler.display()))
            .stderr(std::process::Stdio::null())
            .status();
    };
    full();
    // What the write-ahead log has room for already still fits.
    let mut refused = None;
    for number in 0..4_000 {
        let output = owner.run(&["workspace", "new", &format!("{number} {}", "x".repeat(200))]);
        if output.code != 0 {
            refused = Some(output);
            break;
        }
    }
    let refused = refused.expect("the disk gets full");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.stderr.trim().lines().count(), 1, "{refused:?}");
    assert!(refused.stderr.contains("nothing was changed"), "{refused:?}");
    let before = graph(&owner.json(&["session", "snapshot"]));
    assert_eq!(owner.run(&["workspace", "new", &"y".repeat(200)]).code, 1);
    assert_eq!(graph(&owner.json(&["session", "snapshot"])), before);
    // Terminals are not touched by it.
    owner.ok(&["terminal", "send", &terminal, "still here\n"]);
    wait_until("the echo", || {
        let screen = owner.ok(&["terminal", "read", &terminal]);
        if screen.contains("still here") { Ok(()) } else { Err(screen) }
    });
    std::fs::remove_file(&filler).unwrap();
    owner.ok(&["workspace", "new", "room again"]);

    // The system makes no disk read-only that is written to; a daemon that finds one so says it, and touches nothing.
    daemon.stop();
    disk.remount("remount,ro");
    let refused = owner.run(&["server", "start", "--state-dir", &dir]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.stderr.trim().lines().count(), 1, "{refused:?}");
    assert!(refused.stderr.to_lowercase().contains("read-only"), "{refused:?}");
    disk.remount("remount,rw");
    let _daemon = owner.daemon(&["--state-dir", &dir]);
    let names = owner.json(&["workspace", "list"]);
    let names: BTreeSet<_> = names.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains("room again") && !names.contains(&*"y".repeat(200)));
}
