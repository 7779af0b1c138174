//! Tests of the durable state.

mod audit;
mod crash;
mod enrolment;
mod feed;
mod files;
mod graph;
mod model;
mod notifications;
mod places;
mod store;

use std::collections::BTreeMap;

use keepline_protocol::api::layout::{WorkspaceClose, WorkspaceNew, WorkspaceRename};
use keepline_protocol::api::terminal::{TerminalClose, TerminalNew, TerminalRename, TerminalResize};
use keepline_protocol::api::{Cursor, Json, Size};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{TerminalId, WorkspaceId};
use serde_json::Value as JsonValue;

use super::graph::Graph;
use super::mutation::{Effects, Fresh, Happened, Mutation, Observed, Value};
use super::rows::{Cells, WorkspaceRow};

const SIZE: Size = Size::cells(80, 24);

/// Ids as a counter gives them.
fn fresh(number: u64) -> Fresh {
    Fresh::new(u128::from(number).to_be_bytes())
}

fn new_workspace(name: &str) -> WorkspaceNew {
    WorkspaceNew { name: Some(name.to_owned()), ..WorkspaceNew::default() }
}

/// Where a new terminal is shown.
#[derive(Clone)]
enum Place {
    Detached,
    Workspace(String),
    Beside(TerminalId),
    Recent,
}

fn new_terminal(place: Place, name: &str) -> TerminalNew {
    let mut new = TerminalNew {
        name: Some(name.to_owned()),
        cwd: Some("/".to_owned()),
        argv: Some(vec!["/bin/sh".to_owned()]),
        ..TerminalNew::default()
    };
    match place {
        Place::Detached => new.detached = Some(true),
        Place::Workspace(workspace) => new.workspace = Some(workspace),
        Place::Beside(caller) => new.caller = Some(caller),
        Place::Recent => {}
    }
    new
}

fn affected(terminal: TerminalId, effects: Effects) -> Happened {
    Happened::Observed(Observed { terminal: Some(terminal), effects: Some(effects), ..Observed::default() })
}

fn titled(terminal: TerminalId, through: u64, title: &str) -> Happened {
    let title = Some(title.to_owned());
    affected(terminal, Effects { through, title, ..Effects::default() })
}

/// A graph with a clock and a counter of ids, for tests that only look at results.
#[derive(Default)]
struct Bench {
    graph: Graph,
    now: u64,
}

impl Bench {
    fn apply(&mut self, mutation: impl Into<Mutation>) -> Result<Value, Failure> {
        self.now += 1;
        let applied = self.graph.apply(&mutation.into(), self.now, fresh(self.now));
        places::check(&self.graph);
        applied.map(|applied| applied.value)
    }

    fn path(&mut self, mutation: impl Into<Mutation>) -> keepline_protocol::api::Path {
        match self.apply(mutation).unwrap() {
            Value::Path(path) => path,
            other => panic!("{other:?} is no path"),
        }
    }

    fn workspace(&mut self, mutation: impl Into<Mutation>) -> WorkspaceId {
        self.path(mutation).workspace.unwrap()
    }

    fn terminal(&mut self, mutation: impl Into<Mutation>) -> (Option<WorkspaceId>, TerminalId) {
        let path = self.path(mutation);
        (path.workspace, path.terminal.unwrap())
    }

    fn refusal(&mut self, mutation: impl Into<Mutation>) -> Failure {
        let before = self.graph.clone();
        let failure = self.apply(mutation).unwrap_err();
        assert_eq!(self.graph, before, "a refused mutation left something behind");
        failure
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Failure>) -> Code {
    result.unwrap_err().code
}

/// What a client keeps: rows by collection and id. Built from a document, changed by deltas, and nothing else.
#[derive(Clone, Debug, PartialEq)]
struct Mirror {
    cursor: Cursor,
    rows: BTreeMap<(String, String), JsonValue>,
}

impl Mirror {
    fn of(document: &Json) -> Self {
        let mut document: serde_json::Map<String, JsonValue> = document.parse().unwrap();
        let cursor = serde_json::from_value(document.remove("cursor").unwrap()).unwrap();
        let mut rows = BTreeMap::new();
        for (collection, list) in document {
            let kind = collection.strip_suffix('s').unwrap();
            let list = list.as_array().unwrap();
            assert!(list.is_sorted_by_key(|row| row["index"].as_u64().unwrap()), "{collection} is out of order");
            for row in list {
                let id = row["id"].as_str().unwrap().to_owned();
                assert!(rows.insert((kind.to_owned(), id), row.clone()).is_none(), "an id stands twice");
            }
        }
        Mirror { cursor, rows }
    }

    fn apply(&mut self, delta: &Json) {
        let delta: JsonValue = delta.parse().unwrap();
        assert_eq!(delta["generation"], self.cursor.generation.to_string());
        assert_eq!(delta["previous_revision"], self.cursor.revision);
        assert_eq!(delta["revision"], self.cursor.revision + 1);
        self.cursor.revision += 1;
        self.change(&delta["changes"]);
    }

    fn change(&mut self, changes: &JsonValue) {
        let changes = changes.as_array().unwrap();
        assert!(!changes.is_empty(), "a transaction that changes nothing");
        for change in changes {
            let text = |key: &str| change[key].as_str().unwrap().to_owned();
            let key = (text("kind"), text("id"));
            match change["op"].as_str().unwrap() {
                "upsert" => {
                    assert_eq!(change["row"]["id"], change["id"]);
                    self.rows.insert(key, change["row"].clone());
                }
                "delete" => {
                    assert!(change["row"].is_null());
                    assert!(self.rows.remove(&key).is_some(), "what is not there was deleted");
                }
                other => panic!("no op is called {other}"),
            }
        }
        self.check_relations();
    }

    fn check_relations(&self) {
        const NAMED: [(&str, &str, &str); 8] = [
            ("workspace", "active_screen_id", "screen"),
            ("screen", "workspace_id", "workspace"),
            ("screen", "focused_pane_id", "pane"),
            ("screen", "zoomed_pane_id", "pane"),
            ("pane", "screen_id", "screen"),
            ("pane", "active_tab_id", "tab"),
            ("tab", "pane_id", "pane"),
            ("tab", "terminal_id", "terminal"),
        ];
        for ((kind, id), row) in &self.rows {
            for (_, field, target) in NAMED.iter().filter(|named| named.0 == kind) {
                if let Some(named) = row[*field].as_str() {
                    let key = ((*target).to_owned(), named.to_owned());
                    assert!(self.rows.contains_key(&key), "{id} names a {target} that is not there");
                }
            }
        }
    }
}
