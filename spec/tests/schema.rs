//! What a daemon and a relay really say of the session, held against the JSON Schemas of `spec`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use jsonschema::{Retrieve, Uri, Validator};
use keepline_tests::process::Process;
use keepline_tests::rpc::Rpc;
use keepline_tests::{Machine, wait_until};
use serde_json::{Value, json};

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Schemas name each other by file.
struct Files;

impl Retrieve for Files {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        Ok(schema(name))
    }
}

fn validator(name: &str) -> Validator {
    let options = jsonschema::options().with_retriever(Files);
    options.build(&schema(name)).unwrap()
}

fn holds(validator: &Validator, value: &Value) {
    let faults: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{value:#}");
}

/// A schema lets fields pass that it does not know, as readers must. It does know all that there are.
fn nothing_is_left_out(document: &Value) {
    for kind in ["workspace", "screen", "pane", "tab", "terminal", "notification", "client"] {
        let rows = document[format!("{kind}s")].as_array().unwrap();
        assert!(!rows.is_empty(), "no {kind} to look at: {document:#}");
        let schema = schema(&format!("{kind}.json"));
        let known: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
        for row in rows {
            let there: BTreeSet<&String> = row.as_object().unwrap().keys().collect();
            assert_eq!(there, known, "of a {kind}");
        }
    }
}

/// Does what needs every kind of row, and takes some of it away again.
fn live(socket: &Path) {
    let mut rpc = Rpc::connect(socket);
    let mut call = |method: &str, params: Value| {
        let answer = rpc.call(method, &params);
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"]["value"].clone()
    };
    let workspace = call("workspace.new", json!({"name": "größe \u{1f680}"}))["workspace"].clone();
    let made = call("terminal.new", json!({"workspace": workspace, "argv": ["cat"], "name": "first"}));
    let split = call("pane.split", json!({"pane": made["pane"], "direction": "right", "ratio": 0.3}));
    call("pane.zoom", json!({"pane": split["pane"]}));
    call("tab.new", json!({"pane": split["pane"], "terminal": made["terminal"]}));
    call("tab.rename", json!({"tab": made["tab"], "name": "label"}));
    call("notification.post", json!({"title": "done", "level": "warning", "terminal": made["terminal"]}));
    let ends = call("terminal.new", json!({"workspace": workspace, "argv": ["sh", "-c", "exit 3"]}));
    call("terminal.close", json!({"terminal": ends["terminal"]}));
    call("terminal.rename", json!({"terminal": made["terminal"], "name": "renamed"}));
}

#[test]
fn what_a_daemon_and_a_relay_say_is_what_the_schemas_say() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let _relay = laptop.enrol(&owner, &daemon.route(), "box");
    let mut following = laptop.command(&["session", "events", "--jsonl", "--machine", "box"]);
    let events = Process::spawn(&mut following);
    events.stdout.wait_for("\"reset\"");
    let relay_socket = laptop.runtime_dir().join("keepline/machine-box.sock");
    live(&relay_socket);
    live(&owner.daemon_socket());
    let terminal = laptop.json(&["terminal", "list", "--machine", "box"])[0]["id"].clone();
    let _consumer = laptop.pipe_io(terminal.as_str().unwrap(), &["--machine", "box"]);

    let snapshots = || {
        [(&laptop, &["session", "snapshot", "--machine", "box"][..]), (&owner, &["session", "snapshot"])]
            .map(|(machine, arguments)| machine.json(arguments))
    };
    let (from_relay, from_daemon) = wait_until("the same document, with an attached client", || {
        let [mut relay, mut daemon] = snapshots();
        let attached = relay["clients"].as_array().unwrap().iter().any(|client| client["attached"] != json!([]));
        relay.as_object_mut().unwrap().remove("freshness");
        daemon.as_object_mut().unwrap().remove("freshness");
        if attached && relay == daemon {
            let [relay, daemon] = snapshots();
            return Ok((relay, daemon));
        }
        Err(format!("{relay:#} {daemon:#}"))
    });
    let export = validator("export.json");
    for document in [&from_relay, &from_daemon] {
        holds(&export, document);
        nothing_is_left_out(document);
    }
    // The daemon's own answer, which no edge has touched, comes first on a stream.
    let lines = events.stdout.json_lines();
    holds(&validator("document.json"), &lines[0]["document"]);
    let delta = validator("delta.json");
    let deltas = &lines[1..];
    deltas.iter().for_each(|line| holds(&delta, line));
    let changes: Vec<&Value> = deltas.iter().flat_map(|delta| delta["changes"].as_array().unwrap()).collect();
    for op in ["upsert", "delete"] {
        assert!(changes.iter().any(|change| change["op"] == op), "no {op}");
    }

    // The schemas refuse what a reader must refuse by their form.
    let mut missing = from_relay.clone();
    missing.as_object_mut().unwrap().remove("agents");
    let mut headless = from_relay.clone();
    headless["terminals"][0]["tab_ids"] = json!("none");
    let mut timeless = from_relay;
    timeless["freshness"] = json!("live");
    for broken in [missing, headless, timeless] {
        assert!(!export.is_valid(&broken));
    }
    let mut rowless = deltas[0].clone();
    rowless["changes"][0]["row"] = Value::Null;
    assert!(!delta.is_valid(&rowless) || rowless["changes"][0]["op"] == "delete");
}
