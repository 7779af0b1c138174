//! The graph as JSON: the complete document, and what changed.

use std::fmt::Write;
use std::sync::Arc;

use keepline_protocol::api::{Cursor, Json};

use super::graph::Change;
use super::rows::{Kind, Stored};

/// Every collection of a document, present even when empty; a kind that this daemon does not make yet has none.
const COLLECTIONS: [(&str, Option<Kind>); 9] = [
    ("workspaces", Some(Kind::Workspace)),
    ("screens", Some(Kind::Screen)),
    ("panes", Some(Kind::Pane)),
    ("tabs", Some(Kind::Tab)),
    ("terminals", Some(Kind::Terminal)),
    ("browsers", None),
    ("agents", None),
    ("notifications", Some(Kind::Notification)),
    ("clients", Some(Kind::Client)),
];

/// The complete graph at `cursor`: `{"cursor": {generation, revision}, "workspaces": [row], …}`, rows by index.
pub(super) fn document(cursor: Cursor, mut rows: Vec<Arc<Stored>>) -> Json {
    rows.sort_by_key(|stored| (stored.row.index(), stored.row.id()));
    let length: usize = rows.iter().map(|stored| stored.json.len() + 1).sum();
    let mut out = String::with_capacity(length + 512);
    let Cursor { generation, revision } = cursor;
    write(&mut out, format_args!(r#"{{"cursor":{{"generation":"{generation}","revision":{revision}}}"#));
    for (collection, kind) in COLLECTIONS {
        write(&mut out, format_args!(r#","{collection}":["#));
        let mut comma = "";
        for stored in rows.iter().filter(|stored| Some(stored.row.id().kind()) == kind) {
            out.push_str(comma);
            out.push_str(&stored.json);
            comma = ",";
        }
        out.push(']');
    }
    out.push('}');
    Json::from_trusted(out)
}

/// The changes as a delta and the journal hold them: `[{op, kind, id, row}]`, `row` null for a deleted one.
pub(super) fn changes(changes: &[Change]) -> String {
    let mut out = String::from("[");
    let mut comma = "";
    for change in changes {
        let (op, row) = match &change.after {
            Some(stored) => ("upsert", &*stored.json),
            None => ("delete", "null"),
        };
        let (kind, id) = (change.id.kind().name(), change.id);
        write(&mut out, format_args!(r#"{comma}{{"op":"{op}","kind":"{kind}","id":"{id}","row":{row}}}"#));
        comma = ",";
    }
    out.push(']');
    out
}

/// The delta that leads to `cursor`: `{generation, previous_revision, revision, changes}`.
pub(super) fn delta(cursor: Cursor, changes: &str) -> Json {
    let Cursor { generation, revision } = cursor;
    let previous = revision - 1;
    Json::from_trusted(format!(
        r#"{{"generation":"{generation}","previous_revision":{previous},"revision":{revision},"changes":{changes}}}"#
    ))
}

fn write(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a string takes what is written to it");
}
