//! The document by hand, then against a model.

mod model;

use serde_json::{Value, json};

use super::*;
use keepline_protocol::Time;

const GENERATION: &str = "00112233445566778899aabbccddeeff";
const NOW: Time = Time::ZERO;

fn cursor(revision: u64) -> Cursor {
    Cursor { generation: GENERATION.parse().unwrap(), revision }
}

/// A document with these members, every modelled collection there.
fn document(cursor: Value, members: Value) -> String {
    let mut document = json!({ "cursor": cursor });
    for (_, collection) in COLLECTIONS {
        document[collection] = json!([]);
    }
    for (name, member) in members.as_object().unwrap() {
        document[name] = member.clone();
    }
    document.to_string()
}

fn snapshot(revision: u64, members: Value) -> String {
    document(json!(cursor(revision)), members)
}

fn delta(previous: u64, revision: u64, changes: Value) -> String {
    json!({"generation": GENERATION, "previous_revision": previous, "revision": revision, "changes": changes})
        .to_string()
}

fn upsert(kind: &str, row: Value) -> Value {
    json!({"op": "upsert", "kind": kind, "id": row["id"], "row": row})
}

fn delete(kind: &str, id: &str) -> Value {
    json!({"op": "delete", "kind": kind, "id": id, "row": null})
}

/// A workspace with one screen of two panes; the first pane has a tab that shows a terminal.
fn tree() -> Value {
    json!({
        "workspaces": [{"id": "ws", "name": "main", "index": 0}],
        "screens": [{"id": "scr", "workspace_id": "ws", "index": 0, "focused_pane_id": "p1", "zoomed_pane_id": null,
            "layout": {"type": "split", "direction": "horizontal", "ratio": 0.5,
                "first": {"type": "leaf", "pane_id": "p1"}, "second": {"type": "leaf", "pane_id": "p2"}}}],
        "panes": [{"id": "p1", "screen_id": "scr", "active_tab_id": "tab", "index": 0},
            {"id": "p2", "screen_id": "scr", "active_tab_id": null, "index": 1}],
        "tabs": [{"id": "tab", "pane_id": "p1", "terminal_id": "term", "index": 0}],
        "terminals": [{"id": "term", "tab_ids": ["tab"], "index": 0}],
    })
}

fn apply(document: &mut Document, delta: &str) -> Result<(), Refused> {
    document.apply(delta, |_| Ok(()))
}

fn values(rows: &str) -> Value {
    serde_json::from_str(rows).unwrap()
}

#[test]
fn rows_are_canonical_in_order_and_keep_what_is_not_known() {
    let terminals =
        json!([{"index": 2, "id": "b", "z": [1], "a": {"y": 1e2, "x": "\u{20ac}"}}, {"id": "a", "index": 1}]);
    let members = json!({"terminals": terminals, "later": {"y": 1, "x": 2}, "whales": [{"id": "w", "sings": true}]});
    let mut document = Document::parse(&snapshot(4, members)).unwrap();
    assert_eq!(
        document.rows("terminals"),
        r#"[{"id":"a","index":1},{"a":{"x":"€","y":100},"id":"b","index":2,"z":[1]}]"#
    );
    assert!(document.members().contains(r#","later":{"x":2,"y":1}"#));
    let changes = json!([
        delete("terminal", "a"),
        upsert("terminal", json!({"id": "c", "index": 0, "new": [1]})),
        // A kind that came with the snapshot is followed from then on.
        upsert("whale", json!({"id": "v", "sings": false})),
    ]);
    apply(&mut document, &delta(4, 5, changes)).unwrap();
    assert_eq!(
        document.rows("terminals"),
        r#"[{"id":"c","index":0,"new":[1]},{"a":{"x":"€","y":100},"id":"b","index":2,"z":[1]}]"#
    );
    assert_eq!(document.rows("whales"), r#"[{"id":"v","sings":false},{"id":"w","sings":true}]"#);
    assert_eq!(document.cursor(), Some(cursor(5)));
}

#[test]
fn what_does_not_continue_the_document_leaves_it_untouched() {
    let mut document = Document::parse(&snapshot(4, tree())).unwrap();
    let before = document.members();
    assert_eq!(apply(&mut document, &delta(3, 4, json!([]))), Err(Refused::NotNext));
    assert_eq!(apply(&mut document, &delta(4, 6, json!([]))), Err(Refused::NotNext));
    let other = delta(4, 5, json!([])).replace(GENERATION, "ff112233445566778899aabbccddeeff");
    assert_eq!(apply(&mut document, &other), Err(Refused::NotNext));
    let unknown = json!([delete("tab", "tab"), upsert("whale", json!({"id": "w"}))]);
    assert_eq!(apply(&mut document, &delta(4, 5, unknown)), Err(Refused::UnknownKind("whale".to_owned())));
    let moved = json!({"id": "tab", "pane_id": "p2", "terminal_id": "term", "index": 0});
    for (why, changes) in [
        ("lies about its id", json!([{"op": "upsert", "kind": "tab", "id": "other", "row": moved}])),
        ("has no such op", json!([{"op": "melt", "kind": "tab", "id": "tab", "row": null}])),
        ("has no row", json!([{"op": "upsert", "kind": "tab", "id": "tab", "row": null}])),
        ("deletes what is named", json!([delete("terminal", "term")])),
        ("deletes what is not there", json!([delete("workspace", "none")])),
        ("names one twice", json!([upsert("workspace", json!({"id": "x"})), delete("workspace", "x")])),
        ("is active in another pane", json!([upsert("tab", moved)])),
        ("names no pane", json!([upsert("tab", json!({"id": "t2", "pane_id": "p9", "terminal_id": "term"}))])),
        ("shows nothing", json!([upsert("tab", json!({"id": "t2", "pane_id": "p2"}))])),
        ("is of no screen", json!([upsert("pane", json!({"id": "p3"}))])),
        ("is too large", json!([upsert("workspace", json!({"id": "x", "name": "n".repeat(1 << 16)}))])),
    ] {
        let refused = apply(&mut document, &delta(4, 5, changes));
        assert!(matches!(refused, Err(Refused::Malformed(_))), "{why}");
        assert_eq!(document.members(), before, "{why}");
        assert_eq!(document.cursor(), Some(cursor(4)), "{why}");
    }
    let contradicts = document.apply(&delta(4, 5, json!([upsert("workspace", json!({"id": "x"}))])), |state| {
        assert_eq!(state.cursor(), Some(cursor(5)));
        Err(Refused::Contradicts(state.json("workspaces", "x").unwrap().to_owned()))
    });
    assert_eq!(contradicts, Err(Refused::Contradicts(r#"{"id":"x"}"#.to_owned())));
    assert_eq!(document.members(), before);
    // The index is as it was too: in one transaction all of it can go, in any order.
    let everything = json!([
        delete("workspace", "ws"),
        delete("terminal", "term"),
        delete("screen", "scr"),
        delete("pane", "p2"),
        delete("tab", "tab"),
        delete("pane", "p1"),
    ]);
    apply(&mut document, &delta(4, 5, everything)).unwrap();
    assert_eq!(document.rows("panes"), "[]");
}

#[test]
fn a_tab_moves_when_all_that_names_it_says_so() {
    let mut document = Document::parse(&snapshot(4, tree())).unwrap();
    let changes = json!([
        upsert("tab", json!({"id": "tab", "pane_id": "p2", "terminal_id": "term", "index": 0})),
        upsert("pane", json!({"id": "p1", "screen_id": "scr", "active_tab_id": null, "index": 0})),
        upsert("pane", json!({"id": "p2", "screen_id": "scr", "active_tab_id": "tab", "index": 1})),
    ]);
    apply(&mut document, &delta(4, 5, changes)).unwrap();
    // A layout of a later version is kept, and what it shows is not known.
    let later = json!({"id": "scr", "workspace_id": "ws", "layout": {"type": "spiral", "of": ["p1"]}});
    apply(&mut document, &delta(5, 6, json!([upsert("screen", later)]))).unwrap();
    assert_eq!(values(&document.rows("screens"))[0]["layout"]["of"][0], "p1");
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused_whole() {
    assert!(Document::parse(&snapshot(1, tree())).is_ok());
    let with = |name: &str, member: Value| {
        let mut members = tree();
        members[name] = member;
        Document::parse(&snapshot(1, members))
    };
    for (name, member) in [
        ("terminals", json!([])),
        ("terminals", json!({})),
        ("terminals", Value::Null),
        ("workspaces", json!([{"id": "ws"}, {"id": "ws"}])),
        ("workspaces", json!([{"name": "no id"}])),
        ("panes", json!([{"id": "p1", "screen_id": "scr", "active_tab_id": "tab"}])),
        (
            "screens",
            json!([{"id": "scr", "workspace_id": "ws", "layout": {"type": "split",
            "first": {"type": "leaf", "pane_id": "p1"}, "second": {"type": "leaf", "pane_id": "p1"}}}]),
        ),
        ("tabs", json!([{"id": "tab", "pane_id": "p2", "terminal_id": "term"}])),
    ] {
        let refused = with(name, member.clone());
        assert!(matches!(refused, Err(Refused::Malformed(_))), "{name} {member}");
    }
    for (_, collection) in COLLECTIONS {
        let mut missing = values(&snapshot(1, json!({})));
        missing.as_object_mut().unwrap().remove(collection);
        assert!(Document::parse(&missing.to_string()).is_err(), "{collection}");
    }
    for malformed in [json!(7), json!({"generation": GENERATION}), json!({"generation": "x", "revision": 1})] {
        assert!(Document::parse(&document(malformed, json!({}))).is_err());
    }
    assert!(Document::parse("{}").is_err());
    // A notification and a client may name what is gone.
    assert!(with("notifications", json!([{"id": "n", "terminal_id": "gone"}])).is_ok());
}

#[test]
fn without_a_cursor_it_is_shown_and_never_followed() {
    let absent = values(&snapshot(1, tree()));
    let mut absent = absent.as_object().unwrap().clone();
    absent.remove("cursor");
    for text in [document(Value::Null, tree()), Value::from(absent).to_string()] {
        let mut replica = Replica::default();
        replica.linked(NOW);
        replica.asked();
        let step = replica.started(NOW, Some(Document::parse(&text)));
        assert_eq!((step, replica.phase()), (Step::Wait, Phase::SnapshotOnly));
        assert!(replica.reason().unwrap().contains("must be upgraded"));
        assert_eq!(values(&replica.document().unwrap().rows("tabs"))[0]["id"], "tab");
        assert_eq!(replica.linked(NOW), Step::Ask { since: None, at: NOW });
        replica.asked();
        replica.started(NOW, Some(Document::parse(&snapshot(2, tree()))));
        assert_eq!((replica.phase(), replica.reason()), (Phase::Healthy, None));
    }
}

/// A replica that follows at this revision.
fn following(revision: u64) -> Replica {
    let mut replica = Replica::default();
    replica.linked(NOW);
    replica.asked();
    let step = replica.started(NOW, Some(Document::parse(&snapshot(revision, tree()))));
    assert_eq!(step, Step::Follow);
    replica
}

const REPAIR: Step = Step::Ask { since: None, at: NOW };

fn renamed(revision: u64) -> Written {
    let params = json!({"workspace": "main", "name": "new"});
    let value = json!({"workspace": "ws"});
    Written::new("workspace.rename", &params, &value, cursor(revision))
}

#[test]
fn own_writes_wait_for_the_document_and_never_edit_it() {
    let mut replica = following(4);
    let number = replica.sent("workspace.rename", "k".to_owned());
    assert_eq!(replica.writes().export()[0]["receipt"], Value::Null);
    replica.answered(number, Some(renamed(6))).unwrap();
    assert_eq!(
        replica.writes().export(),
        json!([{"method": "workspace.rename", "key": "k", "receipt": cursor(6),
            "shows": [{"kind": "workspace", "id": "ws", "name": "new"}]}])
    );
    assert_eq!(values(&replica.document().unwrap().rows("workspaces"))[0]["name"], "main");
    assert_eq!(replica.delta(NOW, &delta(4, 5, json!([]))), Step::Follow);
    assert!(replica.writes().is_pending(number));
    let shown = upsert("workspace", json!({"id": "ws", "name": "new", "index": 0}));
    assert_eq!(replica.delta(NOW, &delta(5, 6, json!([shown]))), Step::Follow);
    assert!(!replica.writes().is_pending(number));
    let failed = replica.sent("workspace.rename", "l".to_owned());
    replica.answered(failed, None).unwrap();
    assert_eq!(replica.writes().export(), json!([]));
}

#[test]
fn a_state_at_a_receipt_that_does_not_show_the_write_is_repaired() {
    // The receipt first, then a delta that leaves the write out.
    let mut replica = following(4);
    let number = replica.sent("workspace.rename", "k".to_owned());
    replica.answered(number, Some(renamed(5))).unwrap();
    assert_eq!(replica.delta(NOW, &delta(4, 5, json!([]))), REPAIR);
    assert_eq!(replica.document().unwrap().cursor(), Some(cursor(4)));
    assert_eq!(replica.phase(), Phase::Recovering);
    // A snapshot at the receipt that does not show it either, and one that is older.
    replica.asked();
    let at = |revision| Some(Document::parse(&snapshot(revision, tree())));
    assert_eq!(replica.started(NOW, at(5)), REPAIR);
    assert_eq!(replica.started(NOW, at(4)), REPAIR);
    assert_eq!(replica.document().unwrap().cursor(), Some(cursor(4)));
    // Later states say nothing of it.
    assert_eq!(replica.started(NOW, at(6)), Step::Follow);
    assert!(!replica.writes().is_pending(number));

    // The delta first, then the receipt.
    let number = replica.sent("workspace.rename", "k".to_owned());
    let contradicts = replica.answered(number, Some(renamed(6)));
    assert_eq!(contradicts, Err(Refused::Contradicts("ws".to_owned())));

    // A closed row must be absent, and a whole new path must be there.
    let closed = Written::new("tab.close", &json!({}), &json!({"tab": "tab"}), cursor(6));
    let number = replica.sent("tab.close", "k".to_owned());
    assert!(replica.answered(number, Some(closed)).is_err());
    for (terminal, well) in [("term", true), ("other", false)] {
        let value = json!({"workspace": "ws", "screen": null, "terminal": terminal});
        let new = Written::new("terminal.new", &json!({}), &value, cursor(6));
        let number = replica.sent("terminal.new", "k".to_owned());
        assert_eq!(replica.answered(number, Some(new)).is_ok(), well);
    }
}

#[test]
fn a_receipt_learnt_after_the_question_does_not_fence_its_answer() {
    let mut replica = following(4);
    replica.asked();
    let number = replica.sent("workspace.rename", "k".to_owned());
    replica.answered(number, Some(renamed(9))).unwrap();
    let at = |revision| Some(Document::parse(&snapshot(revision, tree())));
    assert_eq!(replica.started(NOW, at(7)), Step::Follow);
    assert!(replica.writes().is_pending(number));
    replica.asked();
    assert_eq!(replica.started(NOW, at(8)), REPAIR);
}

#[test]
fn a_new_generation_retires_old_receipts_and_an_old_one_is_refused() {
    let mut replica = following(4);
    let number = replica.sent("workspace.rename", "k".to_owned());
    replica.answered(number, Some(renamed(9))).unwrap();
    let newer = snapshot(0, tree()).replace(GENERATION, &"ab".repeat(16));
    replica.linked(NOW);
    replica.asked();
    assert_eq!(replica.started(NOW, Some(Document::parse(&newer))), Step::Follow);
    assert!(!replica.writes().is_pending(number));
    let older = Some(Document::parse(&snapshot(10, tree())));
    assert_eq!(replica.started(NOW, older), REPAIR);
    assert_eq!(replica.document().unwrap().cursor().unwrap().revision, 0);
    // A late receipt of the old generation waits for nothing.
    let number = replica.sent("workspace.rename", "k".to_owned());
    replica.answered(number, Some(renamed(11))).unwrap();
    assert!(!replica.writes().is_pending(number));
}
