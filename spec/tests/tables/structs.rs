//! The field tables of `messages.md`, against the vectors: their bytes are pinned by the tests of `protocol`, and the first
//! vector of each struct has every optional field.

use std::collections::BTreeSet;

use keepline_daemon::session::rows::{
    ClientRow, NotificationRow, PaneRow, ScreenRow, TabRow, TerminalRow, WorkspaceRow,
};
use keepline_protocol::handshake::{DeviceHello, LinkRequest, Verdict};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::refusal::Refusal;
use serde_json::{Value, json};

use super::table;

const MESSAGES: &str = include_str!("../../messages.md");
const REGISTRY: &str = include_str!("../../registry.md");

fn vectors(text: &str) -> Vec<Value> {
    let content: Value = serde_json::from_str(text).unwrap();
    content["vectors"].as_array().unwrap().clone()
}

/// A struct's fields are those of its JSON form.
fn check(name: &str, example: &Value) {
    check_in(MESSAGES, name, example);
}

fn check_in(chapter: &str, name: &str, example: &Value) {
    let written: BTreeSet<String> = table(chapter, name).into_iter().map(|row| row[0].clone()).collect();
    let members: BTreeSet<String> = example.as_object().unwrap().keys().cloned().collect();
    assert_eq!(written, members, "the fields of {name}");
}

/// The structs that a struct's fields hold, by field.
const INNER: &[(&str, &str)] = &[
    ("expect", "Cursor"),
    ("since", "Cursor"),
    ("cursor", "Cursor"),
    ("entries", "AuditEntry"),
    ("size", "Size"),
    ("pending", "PendingDevice"),
    ("devices", "Device"),
    ("connections", "Connection"),
];

fn check_inner(example: &Value) {
    for (field, name) in INNER {
        match example.get(field) {
            Some(Value::Array(items)) => items.iter().for_each(|item| check(name, item)),
            Some(inner @ Value::Object(_)) => check(name, inner),
            _ => {}
        }
    }
}

#[test]
fn every_struct_of_the_registry_has_its_fields_written_down() {
    let vectors = vectors(include_str!("../../vectors/methods.json"));
    let methods = table(REGISTRY, "Methods");
    assert_eq!(vectors.len(), methods.len());
    for (vector, row) in vectors.iter().zip(&methods) {
        let (name, params, answer) = (&row[1], &row[4], &row[5]);
        assert_eq!(vector["method"].as_str(), Some(name.as_str()));
        let request = &vector["requests"][0]["params"];
        check(params, request);
        check_inner(request);
        let answered = &vector["answers"][0]["answer"];
        match answer.strip_prefix("Receipt` of `") {
            Some(value) => {
                check("Receipt", answered);
                check(value, &answered["value"]);
            }
            None => {
                check(answer, answered);
                check_inner(answered);
            }
        }
    }
}

#[test]
fn notices_have_their_fields_written_down() {
    let mut seen = 0;
    for vector in vectors(include_str!("../../vectors/messages.json")) {
        let name = match vector["name"].as_str().unwrap() {
            "delta" => "Delta",
            "reset" => "EventsStarted",
            _ => continue,
        };
        check(name, &vector["body"]);
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn handshake_payloads_have_their_fields_written_down() {
    let chapter = include_str!("../../handshake.md");
    let device = Credentials::generate(Role::Device, &[1; 64]);
    let link = LinkRequest { id: LinkId::from_bytes([1; 16]), epoch: 1, cursors: None };
    let hello = DeviceHello {
        certificate: device.certificate().clone(),
        name: String::new(),
        client: String::new(),
        features: 0,
        link,
    };
    check_in(chapter, "The device", &json!(hello));
    check_in(chapter, "Link request", &json!(link));
    let verdict = Verdict::refused(Refusal::Busy, "");
    check_in(chapter, "The verdict", &json!(verdict));
    let certificate = json!(device.certificate());
    check_in(chapter, "Identities and certificates", &certificate);
}

#[test]
fn rows_have_their_fields_written_down() {
    let chapter = include_str!("../../document.md");
    // The example is a whole row: read and written again it is the same.
    fn whole<R: serde::Serialize + serde::de::DeserializeOwned>(chapter: &str, kind: &str, row: &str) {
        let row: Value = serde_json::from_str(row).unwrap();
        let read: R = serde_json::from_value(row.clone()).unwrap();
        assert_eq!(json!(read), row);
        check_in(chapter, kind, &row);
    }
    whole::<WorkspaceRow>(
        chapter,
        "Workspace",
        r#"{"id": "ws_11111111111111111111111111111111", "name": "main", "index": 0, "active_screen_id": null,
            "created_ms": 1, "used_ms": 1}"#,
    );
    whole::<ScreenRow>(
        chapter,
        "Screen",
        r#"{"id": "scr_11111111111111111111111111111111", "workspace_id": "ws_11111111111111111111111111111111",
            "name": "", "index": 0, "layout": {"type": "split", "direction": "horizontal", "ratio": 0.3,
            "first": {"type": "leaf", "pane_id": "pane_11111111111111111111111111111111"},
            "second": {"type": "leaf", "pane_id": "pane_22222222222222222222222222222222"}},
            "focused_pane_id": "pane_11111111111111111111111111111111", "zoomed_pane_id": null}"#,
    );
    whole::<PaneRow>(
        chapter,
        "Pane",
        r#"{"id": "pane_11111111111111111111111111111111", "screen_id": "scr_11111111111111111111111111111111",
            "index": 0, "active_tab_id": "tab_11111111111111111111111111111111"}"#,
    );
    whole::<TabRow>(
        chapter,
        "Tab",
        r#"{"id": "tab_11111111111111111111111111111111", "pane_id": "pane_11111111111111111111111111111111",
            "terminal_id": "term_11111111111111111111111111111111", "name": "", "index": 0}"#,
    );
    whole::<TerminalRow>(
        chapter,
        "Terminal",
        r#"{"id": "term_11111111111111111111111111111111", "name": "", "title": "sh", "cwd": "/", "argv": ["sh"],
            "size": {"cols": 80, "rows": 24}, "lifecycle": "ended", "exit": {"status": 0}, "pid": 7,
            "tab_ids": ["tab_11111111111111111111111111111111"], "index": 0, "created_ms": 1, "used_ms": 1,
            "ended_ms": 2, "effects_through": 3, "last_command": {"status": 0, "ended_ms": 2,
            "lines": {"epoch": 0, "from": 1, "to": 4}}, "size_policy": "pinned"}"#,
    );
    whole::<NotificationRow>(
        chapter,
        "Notification",
        r#"{"id": "note_11111111111111111111111111111111", "title": "done", "subtitle": "", "body": "", "level": "info",
            "terminal_id": null, "workspace_id": null, "index": 1, "created_ms": 1, "unread": true,
            "read_by": ["laptop"]}"#,
    );
    whole::<ClientRow>(
        chapter,
        "Client",
        r#"{"id": "link_11111111111111111111111111111111", "client": "local", "device_id": null, "name": "vm",
            "index": 1, "since_ms": 1, "attached": [{"terminal_id": "term_11111111111111111111111111111111",
            "attachment": "att_11111111111111111111111111111111", "size": null, "observer": true}]}"#,
    );
}
