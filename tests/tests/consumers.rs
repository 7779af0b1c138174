//! Consumers of a local socket: JSON-RPC by hand and every command that changes or follows a session. A daemon's own
//! socket and a relay's must not be told apart, so most tests run at both.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use keepline_tests::machine::Output;
use keepline_tests::pipe_io::PipeIo;
use keepline_tests::process::{Process, Signal};
use keepline_tests::rpc::{Records, Rpc, kind};
use keepline_tests::{Daemon, Machine, Relay, wait_until};
use serde_json::{Value, json};

/// Where a consumer sits: on the daemon's machine, or on a laptop with a relay.
struct Seat {
    far: Option<(Relay, Machine)>,
    daemon: Daemon,
    owner: Machine,
}

impl Seat {
    fn near() -> Self {
        let owner = Machine::new();
        Seat { far: None, daemon: owner.daemon(&[]), owner }
    }

    fn far() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let relay = laptop.enrol(&owner, &daemon.route(), "box");
        Seat { far: Some((relay, laptop)), daemon, owner }
    }

    fn machine(&self) -> &Machine {
        self.far.as_ref().map_or(&self.owner, |(_, laptop)| laptop)
    }

    fn socket(&self) -> PathBuf {
        match &self.far {
            None => self.owner.daemon_socket(),
            Some((_, laptop)) => laptop.runtime_dir().join("keepline/machine-box.sock"),
        }
    }

    fn rpc(&self) -> Rpc {
        Rpc::connect(&self.socket())
    }

    fn with_machine<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut command = match self.far {
            None => vec![],
            Some(_) => vec!["--machine", "box"],
        };
        command.extend(arguments);
        command
    }

    fn start(&self, arguments: &[&str]) -> Process {
        let command = self.with_machine(arguments);
        Process::spawn(&mut self.machine().command(&command))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.machine().run(&self.with_machine(arguments))
    }

    /// Runs a command that must end with `code`, and gives what it said.
    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, code, "{arguments:?} {output:?}");
        assert_eq!(output.stdout, "", "{arguments:?} {output:?}");
        output.stderr
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.machine().ok(&self.with_machine(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.machine().json(&self.with_machine(arguments))
    }

    /// A terminal that runs `script`, when it shows "ready".
    fn script(&self, script: &str) -> String {
        let arguments = ["terminal", "new", "--", "bash", "--norc", "-c", script];
        let terminal = self.ok(&arguments).trim().to_owned();
        self.shows(&terminal, "ready");
        terminal
    }

    /// Waits until a terminal's screen holds `text`.
    fn shows(&self, terminal: &str, text: &str) {
        wait_until(text, || {
            let screen = self.ok(&["terminal", "read", terminal]);
            if screen.contains(text) { Ok(()) } else { Err(screen) }
        });
    }

    fn row(&self, terminal: &str) -> Option<Value> {
        let rows = self.json(&["terminal", "list"]);
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["id"] == terminal).cloned()
    }

    /// Waits until a terminal's row is as `wanted` says.
    fn row_with(&self, terminal: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait_until("a row", || {
            let row = self.row(terminal).unwrap_or_default();
            if wanted(&row) { Ok(row) } else { Err(row) }
        })
    }

    fn attach(&self, terminal: &str, arguments: &[&str]) -> PipeIo {
        self.machine().pipe_io(terminal, &self.with_machine(arguments))
    }
}

fn at_both(test: impl Fn(&Seat)) {
    for (seat, clients) in [(Seat::near(), 1), (Seat::far(), 2)] {
        // Who is connected is a change of the session too; a test begins when it is over.
        wait_until("the clients", || {
            let rows = seat.json(&["client", "list"]);
            let there = rows.as_array().is_some_and(|rows| rows.len() == clients);
            if there { Ok(()) } else { Err(rows) }
        });
        test(&seat);
    }
}

fn cursor(snapshot: &Value) -> String {
    let cursor = &snapshot["cursor"];
    let generation = cursor["generation"].as_str().unwrap();
    format!("{generation}:{}", cursor["revision"])
}

fn id_of(receipt: &Value, kind: &str) -> String {
    receipt["value"][kind].as_str().unwrap().to_owned()
}

// By hand.

#[test]
fn lines_that_are_no_requests_are_answered_under_a_null_id() {
    at_both(|seat| {
        let mut rpc = seat.rpc();
        let answer = rpc.ask(r#"{"jsonrpc":"2.0","id":{"any":[1]},"method":"no.such","params":{}}"#);
        assert_eq!(answer["id"], json!({"any": [1]}), "{answer}");
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        assert_eq!(answer["error"]["data"]["kind"], "unknown-method", "{answer}");
        for (line, code, kind) in [
            (r#"{"jsonrpc":"#.to_owned(), -32700, "invalid"),
            ("{}".to_owned(), -32600, "invalid"),
            (r#"{"id":7,"method":8}"#.to_owned(), -32600, "invalid"),
            ("[]".to_owned(), -32600, "invalid"),
            (format!("{{{}}}", " ".repeat(1 << 20)), -32600, "too-large"),
        ] {
            let answer = rpc.ask(&line);
            assert_eq!(answer["id"], Value::Null, "{answer}");
            assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
            assert_eq!(answer["error"]["code"], code, "{answer}");
            assert_eq!(answer["error"]["data"]["kind"], kind, "{answer}");
        }
        // Parameters that do not fit are about their request.
        let answer = rpc.call("terminal.read", &json!({"terminal": 7}));
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["kind"], "invalid", "{answer}");
        // The connection went on through all of it; parameters may be absent.
        let answer = rpc.ask(r#"{"jsonrpc":"2.0","id":1,"method":"workspace.list"}"#);
        assert_eq!(answer["result"]["workspaces"], json!([]), "{answer}");

        // The one thing that tells the sockets apart.
        let status = rpc.call("relay.status", &json!({}));
        match &seat.far {
            None => assert_eq!(status["error"]["code"], -32601, "{status}"),
            Some((relay, _)) => {
                assert_eq!(status["result"]["machine"], "box", "{status}");
                assert_eq!(status["result"]["state"], "up", "{status}");
                assert_eq!(status["result"]["pid"], relay.process.pid(), "{status}");
            }
        }
    });
}

#[test]
fn pipelined_requests_are_all_answered_and_notifications_are_not() {
    at_both(|seat| {
        let mut rpc = seat.rpc();
        let mut lines = String::new();
        // More than are served at once.
        for id in 0..150 {
            let (method, params) = match id % 3 {
                0 => ("workspace.new", json!({"name": format!("w{id}")})),
                1 => ("terminal.read", json!({"terminal": "nobody"})),
                _ => ("server.status", json!({})),
            };
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            lines.push_str(&format!("{request}\n"));
        }
        lines.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"workspace.new\",\"params\":{\"name\":\"x\"}}\n");
        lines.push_str("{\"jsonrpc\":\"2.0\",\"id\":150,\"method\":\"server.status\"}\n");
        assert!(rpc.write(lines.as_bytes()));
        let mut answered = BTreeSet::new();
        for _ in 0..=150 {
            let answer = rpc.line();
            let id = answer["id"].as_u64().unwrap();
            assert!(answered.insert(id), "twice: {answer}");
            match id % 3 {
                0 if id < 150 => assert!(answer["result"]["revision"].is_u64(), "{answer}"),
                1 => assert_eq!(answer["error"]["code"], -32004, "{answer}"),
                _ => assert!(answer["result"]["pid"].is_u64(), "{answer}"),
            }
        }
        // The next line is the next answer, and what nobody could be answered about was not done.
        let answer = rpc.call("workspace.list", &json!({}));
        let rows = answer["result"]["workspaces"].as_array().unwrap();
        let names: BTreeSet<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 50, "{names:?}");
        assert!(!names.contains("x"), "{names:?}");
    });
}

const ATTACHMENT: &str = "att_00112233445566778899aabbccddeeff";

/// Attaches by hand; the answer, and the records that follow it.
fn attach_by_hand(seat: &Seat, params: &Value) -> (Value, Records) {
    let mut rpc = seat.rpc();
    let answer = rpc.call("terminal.attach", params);
    assert!(answer["result"].is_object(), "{answer}");
    (answer["result"].clone(), rpc.into_records())
}

/// What records told so far.
#[derive(Default, Debug)]
struct Told {
    snapshots: usize,
    /// Where the next output begins.
    through: u64,
    text: String,
    acknowledged: u64,
    size: Option<(u16, u16)>,
    ended: Option<(u8, i32)>,
}

impl Told {
    /// Takes records until `enough`.
    fn until(&mut self, records: &mut Records, enough: impl Fn(&Told) -> bool) {
        while !enough(self) {
            let record = records.record();
            let (kind, body) = record.unwrap_or_else(|| panic!("the records ended: {self:?}"));
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            let short = |bytes: &[u8]| u16::from_be_bytes(bytes.try_into().unwrap());
            match kind {
                kind::SNAPSHOT => {
                    self.snapshots += 1;
                    self.through = number(&body[..8]);
                    self.text = String::from_utf8_lossy(&body[8..]).into_owned();
                }
                kind::OUTPUT => {
                    assert_eq!(number(&body[..8]), self.through, "a gap: {self:?}");
                    self.through += body.len() as u64 - 8;
                    self.text.push_str(&String::from_utf8_lossy(&body[8..]));
                }
                kind::SIZE => {
                    assert_eq!(body.len(), 8);
                    self.size = Some((short(&body[..2]), short(&body[2..4])));
                }
                kind::INPUT_ACKNOWLEDGED => {
                    let acknowledged = number(&body);
                    assert!(acknowledged >= self.acknowledged, "{self:?}");
                    self.acknowledged = acknowledged;
                }
                kind::ENDED => {
                    let status = i32::from_be_bytes(body[1..5].try_into().unwrap());
                    self.ended = Some((body[0], status));
                }
                other => panic!("record {other}: {body:?}"),
            }
        }
    }
}

#[test]
fn an_attachment_by_hand_has_its_records_and_types_exactly_once() {
    at_both(|seat| {
        // Ends after 19 bytes, however they come.
        let terminal = seat.script("stty raw -echo; echo ready; head -c 19; exit 7");
        let mut params = json!({
            "terminal": terminal, "attachment": ATTACHMENT, "size": {"cols": 80, "rows": 24, "x_pixels": 0, "y_pixels": 0},
        });
        let (attached, mut records) = attach_by_hand(seat, &params);
        assert_eq!(attached["terminal"], terminal, "{attached}");
        assert_eq!(attached["written"], 0, "{attached}");
        assert_eq!(attached["remembered"], false, "{attached}");
        let mut told = Told::default();
        told.until(&mut records, |told| told.snapshots == 1);
        assert_eq!(told.size, None, "it has the size that was stated");
        assert!(told.text.contains("ready"), "{told:?}");
        told.text.clear();

        assert!(records.input(0, b"one\n"));
        assert!(records.input(0, b"one\n"));
        // Half of it again.
        assert!(records.input(2, b"e\ntwo\n"));
        told.until(&mut records, |told| told.acknowledged == 8 && told.text.len() >= 8);
        assert_eq!(told.text, "one\ntwo\n");

        assert!(records.send(kind::SIZE, &[0, 100, 0, 30, 0, 0, 0, 0]));
        told.until(&mut records, |told| told.size == Some((100, 30)));
        seat.row_with(&terminal, |row| row["size"]["cols"] == 100);

        // Again from what is held, under the same name: no snapshot, and everything repeated is known.
        drop(records);
        params["from_offset"] = told.through.into();
        params["size"] = json!({"cols": 100, "rows": 30, "x_pixels": 0, "y_pixels": 0});
        let (attached, mut records) = attach_by_hand(seat, &params);
        assert_eq!(attached["written"], 8, "{attached}");
        assert_eq!(attached["remembered"], true, "{attached}");
        assert!(records.input(0, b"one\ntwo\nthree\n"));
        told.until(&mut records, |told| told.text.len() >= 14);
        assert!(records.input(14, b"four\n"));
        told.until(&mut records, |told| told.ended.is_some());
        assert_eq!(told.text, "one\ntwo\nthree\nfour\n");
        assert_eq!(told.snapshots, 1, "{told:?}");
        assert_eq!(told.ended, Some((0, 7)));
        assert_eq!(records.record(), None, "something behind the end");
    });
}

#[test]
fn an_attachment_that_breaks_the_protocol_is_closed_and_a_refused_one_is_not() {
    at_both(|seat| {
        let mut rpc = seat.rpc();
        let params = json!({"terminal": "nobody", "attachment": ATTACHMENT});
        let answer = rpc.call("terminal.attach", &params);
        assert_eq!(answer["error"]["data"]["kind"], "not-found", "{answer}");
        let answer = rpc.call("server.status", &json!({}));
        assert!(answer["result"].is_object(), "{answer}");

        let terminal = seat.script("stty raw -echo; echo ready; cat");
        let params = json!({"terminal": terminal, "attachment": ATTACHMENT});
        type Fault = fn(&mut Records) -> bool;
        let faults: [(&str, Fault); 3] = [
            ("a gap", |records| records.input(5, b"gap")),
            ("no kind", |records| records.send(99, b"")),
            ("a server's", |records| records.send(kind::SNAPSHOT, &[0; 8])),
        ];
        for (name, fault) in faults {
            let (_, mut records) = attach_by_hand(seat, &params);
            assert!(fault(&mut records), "{name}");
            records.into_connection().closed();
        }
        // An observer's input is for nobody.
        let mut observer = params.clone();
        observer["observer"] = true.into();
        let (_, mut records) = attach_by_hand(seat, &observer);
        assert!(records.input(0, b"forbidden"));
        seat.ok(&["terminal", "send", &terminal, "allowed"]);
        seat.shows(&terminal, "allowed");
        let screen = seat.ok(&["terminal", "read", &terminal]);
        assert!(!screen.contains("gap") && !screen.contains("forbidden"), "{screen}");
    });
}

// Following.

#[test]
fn events_continue_from_a_cursor_without_a_gap_and_start_anew_from_a_foreign_one() {
    at_both(|seat| {
        seat.ok(&["workspace", "new", "before"]);
        let before = seat.json(&["session", "snapshot"]);
        let since = cursor(&before);
        let revision = |value: &Value| value["revision"].as_u64().unwrap();
        for name in ["a", "b", "c"] {
            seat.ok(&["workspace", "new", name]);
        }
        seat.ok(&["workspace", "rename", "c", "d"]);
        let events = seat.start(&["session", "events", "--jsonl", "--since", &since]);
        seat.ok(&["workspace", "close", "d"]);
        events.stdout.wait_json("the last change", |line| (line["changes"][0]["op"] == "delete").then_some(()));
        let lines = events.stdout.json_lines();
        let mut at = revision(&before["cursor"]);
        for line in &lines {
            assert_eq!(line["generation"], before["cursor"]["generation"], "{line}");
            assert_eq!(line["previous_revision"], at, "{line}");
            at += 1;
            assert_eq!(revision(line), at, "{line}");
        }
        let names: Vec<_> = lines.iter().map(|line| &line["changes"][0]["row"]["name"]).collect();
        assert_eq!(json!(names), json!(["a", "b", "c", "d", null]));

        let foreign = format!("{}:1", "f".repeat(32));
        let future = format!("{}999", cursor(&before));
        for (since, reason) in [(foreign, "generation-changed"), (future, "unknown-revision")] {
            let events = seat.start(&["session", "events", "--jsonl", "--since", &since]);
            let reset = events.stdout.wait_json("a reset", |line| Some(line.clone()));
            assert_eq!(reset["reset"], reason, "{reset}");
            let document = &reset["document"];
            assert_eq!(revision(&document["cursor"]), at, "{reset}");
            let listed = seat.json(&["session", "snapshot"]);
            assert_eq!(document["workspaces"], listed["workspaces"]);
            seat.ok(&["workspace", "new"]);
            at += 1;
            events.stdout.wait_json("the next change", |line| {
                (line["revision"] == at && line["previous_revision"] == at - 1).then_some(())
            });
        }
        seat.fails(2, &["session", "events", "--since", "yesterday"]);
    });
}

// Changes.

#[test]
fn a_key_gives_the_first_result_again_and_does_nothing() {
    at_both(|seat| {
        let new = ["workspace", "new", "--key", "k", "once"];
        let first = seat.json(&new);
        assert_eq!(first["replayed"], false, "{first}");
        let again = seat.json(&new);
        assert_eq!(again["replayed"], true, "{again}");
        for field in ["value", "generation", "revision"] {
            assert_eq!(again[field], first[field], "{field}");
        }
        assert_eq!(seat.json(&["workspace", "list"]).as_array().unwrap().len(), 1);
        let conflict = seat.fails(6, &["workspace", "new", "--key", "k", "other"]);
        assert!(conflict.contains('k'), "{conflict}");
        seat.fails(6, &["workspace", "close", "--key", "k", "once"]);
        assert_eq!(seat.json(&["workspace", "list"]).as_array().unwrap().len(), 1);
        if seat.far.is_some() {
            // Another device's keys are others.
            seat.owner.ok(&["workspace", "new", "--key", "k", "other"]);
        }

        let new = ["terminal", "new", "--key", "t", "--", "cat"];
        let terminal = id_of(&seat.json(&new), "terminal");
        let again = seat.json(&new);
        assert_eq!(id_of(&again, "terminal"), terminal, "{again}");
        assert_eq!(again["replayed"], true, "{again}");
        assert_eq!(seat.json(&["terminal", "list"]).as_array().unwrap().len(), 1);

        let rename = ["terminal", "rename", "--key", "r", &terminal, "first"];
        seat.ok(&rename);
        seat.ok(&["terminal", "rename", &terminal, "second"]);
        assert_eq!(seat.json(&rename)["replayed"], true);
        assert_eq!(seat.row(&terminal).unwrap()["name"], "second");
        let close = ["terminal", "close", "--key", "c", &terminal];
        seat.ok(&close);
        assert_eq!(seat.json(&close)["replayed"], true);
        seat.fails(4, &["terminal", "close", &terminal]);
    });
}

#[test]
fn a_resize_that_is_replayed_leaves_the_size_alone() {
    let seat = Seat::near();
    let terminal = seat.script("echo ready; exec bash --norc");
    let first = ["terminal", "resize", "--key", "z", &terminal, "100x30"];
    seat.ok(&first);
    seat.ok(&["terminal", "resize", &terminal, "90x20"]);
    assert_eq!(seat.json(&first)["replayed"], true);
    seat.ok(&["terminal", "send", &terminal, "echo size-$(stty size)-\n"]);
    seat.shows(&terminal, "size-20 90-");
}

#[test]
fn a_key_whose_program_could_not_start_fails_again() {
    let seat = Seat::near();
    let new = ["terminal", "new", "--key", "f", "--", "/no/such/program"];
    seat.fails(127, &new);
    // The row remembers that it could not be started, not why.
    seat.fails(126, &new);
    assert_eq!(seat.json(&["terminal", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_change_that_expects_another_cursor_is_not_made() {
    at_both(|seat| {
        let old = cursor(&seat.json(&["session", "snapshot"]));
        let first = seat.json(&["workspace", "new", "--expect", &old, "one"]);
        let now = cursor(&json!({ "cursor": first }));
        assert_ne!(now, old);
        seat.fails(6, &["workspace", "new", "--expect", &old, "two"]);
        seat.fails(6, &["workspace", "rename", "--expect", &old, "one", "two"]);
        let foreign = format!("{}:0", "f".repeat(32));
        seat.fails(5, &["workspace", "new", "--expect", &foreign, "two"]);
        assert_eq!(cursor(&seat.json(&["session", "snapshot"])), now);
        seat.ok(&["workspace", "rename", "--expect", &now, "one", "two"]);
        assert_eq!(seat.json(&["workspace", "list"])[0]["name"], "two");
    });
}

#[test]
fn a_mebibyte_of_stdin_arrives_byte_by_byte() {
    at_both(|seat| {
        let mut random = fastrand::Rng::with_seed(0x6b65_6570);
        let mut bytes = vec![0; 1 << 20];
        random.fill(&mut bytes);
        let script = format!("stty raw -echo; echo ready; head -c {} >taken; echo took it all", bytes.len());
        let terminal = seat.script(&script);
        let command = seat.with_machine(&["--json", "terminal", "send", &terminal, "-"]);
        let sent = seat.machine().run_with(&command, &bytes);
        assert_eq!(sent.code, 0, "{sent:?}");
        let told: Value = serde_json::from_str(&sent.stdout).unwrap();
        assert_eq!(told, json!({"written": bytes.len()}));
        seat.shows(&terminal, "took it all");
        let taken = fs::read(seat.owner.home().join("taken")).unwrap();
        assert!(taken == bytes, "{} bytes, and not the ones that were sent", taken.len());
    });
}

#[test]
fn names_are_labels_and_ids_always_win() {
    at_both(|seat| {
        let new = |name: &str| {
            let new = ["terminal", "new", "--name", name, "--", "cat"];
            seat.ok(&new).trim().to_owned()
        };
        let (first, second) = (new("twin"), new("twin"));
        let ambiguous = seat.fails(4, &["terminal", "read", "twin"]);
        assert!(ambiguous.contains(&first) && ambiguous.contains(&second), "{ambiguous}");
        let end = seat.attach("twin", &[]).ended();
        assert_eq!((end.code, &end.exit["status"]), (4, &4.into()), "{end:?}");
        let unknown = seat.fails(4, &["terminal", "close", "nobody"]);
        assert!(unknown.contains("nobody"), "{unknown}");
        seat.fails(4, &["terminal", "close", &format!("term_{}", "0".repeat(32))]);

        // A name that looks like another one's id, and one that is unique again.
        seat.ok(&["terminal", "rename", &second, &first]);
        seat.ok(&["terminal", "send", &first, "to the first"]);
        seat.shows("twin", "to the first");
        seat.ok(&["terminal", "close", "twin"]);
        assert!(seat.row(&first).is_none());
        assert!(seat.row(&second).is_some());

        seat.ok(&["workspace", "new", "same"]);
        seat.ok(&["workspace", "new", "same"]);
        let ambiguous = seat.fails(4, &["terminal", "new", "--workspace", "same", "--", "cat"]);
        assert_eq!(ambiguous.matches("ws_").count(), 2, "{ambiguous}");
        seat.fails(4, &["workspace", "rename", "same", "other"]);
        seat.fails(2, &["workspace", "new", ""]);
    });
}

#[test]
fn a_terminal_is_resized_renamed_signalled_and_closed() {
    at_both(|seat| {
        let script = r#"trap 'echo hung up >hup; exit' HUP; trap 'echo got-$((40 + 2))' INT
            trap 'echo size-$(stty size)-' USR1
            echo ready; while :; do sleep 1000 & wait $!; kill $! 2>/dev/null; done"#;
        let terminal = seat.script(script);
        let pid = seat.row(&terminal).unwrap()["pid"].clone();
        let hup = seat.owner.home().join("hup");
        let _ = fs::remove_file(&hup);

        seat.ok(&["terminal", "resize", &terminal, "100x30"]);
        seat.row_with(&terminal, |row| row["size"] == json!({"cols": 100, "rows": 30}));
        seat.ok(&["terminal", "signal", &terminal, "USR1"]);
        seat.shows(&terminal, "size-30 100-");
        seat.fails(2, &["terminal", "resize", &terminal, "0x30"]);

        seat.ok(&["terminal", "rename", &terminal, "named"]);
        assert_eq!(seat.row(&terminal).unwrap()["name"], "named");
        assert!(seat.ok(&["terminal", "list"]).contains("named"));
        seat.ok(&["terminal", "rename", "named", ""]);
        let row = seat.row(&terminal).unwrap();
        assert_eq!(row["name"], "", "{row}");
        let title = row["title"].as_str().unwrap();
        assert!(!title.is_empty(), "{row}");
        assert!(seat.ok(&["terminal", "list"]).contains(title));

        seat.ok(&["terminal", "signal", &terminal, "INT"]);
        seat.shows(&terminal, "got-42");
        seat.fails(2, &["terminal", "signal", &terminal, "NONE"]);

        let watcher = seat.attach(&terminal, &[]);
        watcher.output().wait_for("got-42");
        seat.ok(&["terminal", "close", &terminal]);
        assert!(seat.row(&terminal).is_none());
        seat.fails(4, &["terminal", "read", &terminal]);
        wait_until("a program that was hung up", || fs::read_to_string(&hup).map_err(|error| error.to_string()));
        wait_until("the end of it", || match fs::exists(format!("/proc/{pid}/stat")).unwrap() {
            false => Ok(()),
            true => Err(pid.clone()),
        });
        let end = watcher.ended();
        assert_eq!((end.code, &end.exit["reason"]), (0, &"terminal-ended".into()), "{end:?}");
    });
}

#[test]
fn closing_a_workspace_detaches_its_terminals() {
    at_both(|seat| {
        let workspace = seat.ok(&["workspace", "new", "w"]).trim().to_owned();
        let new = ["terminal", "new", "--workspace", "w", "--", "cat"];
        let made = seat.json(&new);
        assert_eq!(id_of(&made, "workspace"), workspace);
        let terminal = id_of(&made, "terminal");
        assert_eq!(seat.row(&terminal).unwrap()["tab_ids"], json!([id_of(&made, "tab")]));
        let since = cursor(&seat.json(&["session", "snapshot"]));
        let receipt = seat.json(&["workspace", "close", "w"]);
        assert_eq!(id_of(&receipt, "workspace"), workspace);
        assert_eq!(seat.json(&["workspace", "list"]), json!([]));
        let row = seat.row(&terminal).unwrap();
        assert_eq!(row["tab_ids"], json!([]), "{row}");
        assert_eq!(row["lifecycle"], "running", "{row}");
        // One transaction, in which no row names what is gone.
        let events = seat.start(&["session", "events", "--jsonl", "--since", &since]);
        let changes = events.stdout.wait_json("the transaction", |line| {
            let changes = line["changes"].as_array()?;
            let closed = changes.iter().any(|change| change["op"] == "delete");
            closed.then(|| changes.clone())
        });
        let mut kinds: Vec<_> = changes.iter().map(|change| change["kind"].as_str()).collect();
        kinds.sort_unstable();
        let all = ["pane", "screen", "tab", "terminal", "workspace"];
        assert_eq!(kinds, all.map(Some));
        seat.ok(&["terminal", "send", &terminal, "still here\n"]);
        seat.shows(&terminal, "still here");
    });
}

#[test]
fn a_program_that_cannot_start_says_so_and_leaves_a_row() {
    at_both(|seat| {
        let home = seat.owner.home();
        let plain = home.join("plain");
        fs::write(&plain, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        let plain = plain.to_str().unwrap();
        for (program, code) in [("/no/such/program", 127), ("no-such-word", 127), (plain, 126), ("/", 126)] {
            let said = seat.fails(code, &["terminal", "new", "--", program, "argument"]);
            assert!(said.contains(program), "{said}");
            let rows = seat.json(&["terminal", "list"]);
            let row = rows.as_array().unwrap().iter().find(|row| row["argv"][0] == program);
            let row = row.unwrap_or_else(|| panic!("{program} has no row: {rows}"));
            assert_eq!(row["lifecycle"], "ended", "{row}");
            assert_eq!(row["exit"], json!({"reason": "not started"}), "{row}");
            assert_eq!(row["pid"], Value::Null, "{row}");
        }
        assert_eq!(seat.owner.json(&["server", "status"])["terminals"], 0);
    });
}

// Attachments.

#[test]
fn who_only_watches_cannot_type_and_has_no_vote() {
    at_both(|seat| {
        let terminal = seat.script("stty raw -echo; echo ready; cat");
        let mut watcher = seat.attach(&terminal, &["--read-only"]);
        watcher.output().wait_for("ready");
        watcher.type_text("forbidden");
        watcher.resize(40, 10);
        watcher.told().wait_json("a diagnostic", |line| {
            let words = line["diagnostic"].as_str()?;
            words.contains("read-only").then_some(())
        });
        let mut typist = seat.attach(&terminal, &[]);
        typist.type_text("allowed");
        watcher.output().wait_for("allowed");
        assert!(!watcher.output().text().contains("forbidden"));
        assert_eq!(seat.row(&terminal).unwrap()["size"], json!({"cols": 80, "rows": 24}));
        assert_eq!(watcher.detach().code, 0);
        assert_eq!(typist.detach().code, 0);
    });
}

#[test]
fn the_size_is_the_least_of_all_who_look() {
    at_both(|seat| {
        let terminal = seat.script("stty raw -echo; echo ready; cat");
        let is = |cols: u16, rows: u16| {
            let size = json!({"cols": cols, "rows": rows});
            seat.row_with(&terminal, |row| row["size"] == size);
            size
        };
        let mut wide = seat.attach(&terminal, &[]);
        wide.resize(120, 30);
        is(120, 30);
        let mut high = seat.attach(&terminal, &[]);
        high.resize(100, 50);
        let both = is(100, 30);
        for consumer in [&wide, &high] {
            let is_told = |line: &Value| (line["size"] == both).then_some(());
            consumer.told().wait_json("the size that it did not ask for", is_told);
        }
        assert_eq!(wide.detach().code, 0);
        is(100, 50);
        high.resize(90, 40);
        is(90, 40);
        // Without anybody it stays.
        assert_eq!(high.detach().code, 0);
        assert_eq!(seat.row(&terminal).unwrap()["size"], is(90, 40));
    });
}

// Deadlines.

#[test]
fn a_daemon_that_does_not_answer_costs_a_deadline_and_no_certainty_is_claimed() {
    let seat = Seat::far();
    let terminal = seat.script("echo ready; cat");
    let (relay, _) = seat.far.as_ref().unwrap();
    // A link that was found dead before anything was sent answers otherwise, and rightly; then it is tried again.
    let given_up = wait_until("three commands that were sent to a daemon that stands still", || {
        seat.daemon.process.signal(Signal::STOP);
        let mut read = seat.start(&["--timeout", "1", "terminal", "read", &terminal]);
        let mut short = seat.start(&["--timeout", "1", "workspace", "new", "--key", "s", "short"]);
        let mut long = seat.start(&["--timeout", "15", "workspace", "new", "--key", "l", "long"]);
        let codes = [read.exit(), short.exit(), long.exit()];
        let said = long.stderr.text();
        let link = relay.last().unwrap_or_default();
        seat.daemon.process.signal(Signal::CONT);
        relay.wait_state("up");
        if codes.contains(&1) {
            return Err(format!("{codes:?}"));
        }
        assert_ne!(link["state"], "up", "the link is dead after 15 s: {link}");
        Ok::<_, String>((codes, said))
    });
    // A read is known to have changed nothing; a change that is late while the link is up is late; one whose link is
    // gone may have been made.
    assert_eq!(given_up.0, [124, 124, 125], "{}", given_up.1);
    assert!(given_up.1.contains("not known"), "{}", given_up.1);

    // Asked again under its key, each is there once.
    for (key, name) in [("s", "short"), ("l", "long")] {
        seat.ok(&["workspace", "new", "--key", key, name]);
    }
    let rows = seat.json(&["workspace", "list"]);
    let names = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap());
    let mut names: Vec<_> = names.filter(|name| *name != "main").collect();
    names.sort_unstable();
    assert_eq!(names, ["long", "short"]);

    // Within its deadline a change is carried over to the next link, and made once.
    seat.daemon.process.signal(Signal::STOP);
    let mut patient = seat.start(&["--timeout", "100", "workspace", "new", "patient"]);
    wait_until("a link that is found dead", || {
        let link = relay.last().unwrap_or_default();
        if link["state"] == "up" { Err(link) } else { Ok(()) }
    });
    seat.daemon.process.signal(Signal::CONT);
    assert_eq!(patient.exit(), 0, "{}", patient.stderr.text());
    let rows = seat.json(&["workspace", "list"]);
    assert_eq!(rows.to_string().matches("patient").count(), 1, "{rows}");
}

#[test]
fn more_requests_than_a_link_has_streams_cost_nobody_the_socket() {
    let machine = Machine::new();
    let _daemon = machine.daemon(&[]);
    let mut connections: Vec<UnixStream> =
        (0..30).map(|_| UnixStream::connect(machine.daemon_socket()).unwrap()).collect();
    for connection in &mut connections {
        for id in 0..60 {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server.status\"}}\n");
            connection.write_all(line.as_bytes()).unwrap();
        }
    }
    for connection in connections {
        let answers = BufReader::new(connection).lines().take(60);
        assert!(answers.map(Result::unwrap).all(|line| line.contains("\"pid\"")));
    }
    machine.ok(&["server", "status"]);
}

#[test]
fn a_consumer_that_stops_reading_stalls_only_itself() {
    at_both(|seat| {
        let flood = seat.script("echo ready; read; exec yes");
        seat.ok(&["terminal", "send", &flood, "\n"]);
        let quiet = seat.script("stty raw; echo ready; exec cat");
        // Each of these is full as soon as its window and its socket are, and the terminal runs on.
        let params = |attachment: usize| {
            let attachment = format!("att_{attachment:032x}");
            json!({ "terminal": flood, "attachment": attachment, "observer": true })
        };
        let stuck: Vec<_> = (0..80).map(|attachment| attach_by_hand(seat, &params(attachment))).collect();
        // One that reads sees the flood all the while, another one its keys, and requests are answered.
        let (_, mut reading) = attach_by_hand(seat, &params(80));
        let mut typing = seat.attach(&quiet, &[]);
        let mut told = Told::default();
        for round in 0..5 {
            let through = told.through;
            told.until(&mut reading, |told| told.through > through + 100_000);
            let word = format!("key {round} ");
            typing.type_text(&word);
            typing.output().wait_for(&word);
            seat.ok(&["terminal", "list"]);
        }
        // A stuck one that reads again gets the flood as it is now.
        let (_, mut late) = stuck.into_iter().next_back().unwrap();
        let mut caught_up = Told::default();
        caught_up.until(&mut late, |caught_up| caught_up.through > told.through);
    });
}
