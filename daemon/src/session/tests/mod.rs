//! Tests of the durable state.

mod crash;
mod enrolment;
mod feed;
mod files;
mod graph;
mod model;
mod store;

use std::collections::BTreeMap;

use keepline_protocol::api::{Cursor, Json};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{TerminalId, WorkspaceId};
use serde_json::Value as JsonValue;

use super::graph::Graph;
use super::mutation::{Fresh, Mutation, Place, TerminalMutation, Value, WorkspaceMutation};
use super::rows::Cells;

const SIZE: Cells = Cells { cols: 80, rows: 24 };

/// Ids as a counter gives them.
fn fresh(number: u64) -> Fresh {
    let bytes = u128::from(number).to_be_bytes();
    Fresh {
        workspace: WorkspaceId::from_bytes(bytes),
        terminal: TerminalId::from_bytes(bytes),
    }
}

fn new_workspace(name: &str) -> WorkspaceMutation {
    WorkspaceMutation::New {
        name: Some(name.to_owned()),
    }
}

fn new_terminal(place: Place, name: &str) -> TerminalMutation {
    TerminalMutation::New {
        place,
        name: name.to_owned(),
        cwd: "/".to_owned(),
        size: SIZE,
        argv: vec!["/bin/sh".to_owned()],
    }
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
        self.graph
            .apply(&mutation.into(), self.now, fresh(self.now))
            .map(|applied| applied.value)
    }

    fn workspace(&mut self, mutation: WorkspaceMutation) -> WorkspaceId {
        match self.apply(mutation).unwrap() {
            Value::Workspace(path) => path.workspace,
            Value::Terminal(_) => panic!("a workspace was changed"),
        }
    }

    fn terminal(&mut self, mutation: TerminalMutation) -> (Option<WorkspaceId>, TerminalId) {
        match self.apply(mutation).unwrap() {
            Value::Terminal(path) => (path.workspace, path.terminal),
            Value::Workspace(_) => panic!("a terminal was changed"),
        }
    }

    fn refusal(&mut self, mutation: impl Into<Mutation>) -> Failure {
        let before = self.graph.clone();
        let failure = self.apply(mutation).unwrap_err();
        assert_eq!(
            self.graph, before,
            "a refused mutation left something behind"
        );
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
            assert!(
                list.is_sorted_by_key(|row| row["index"].as_u64().unwrap()),
                "{collection} is out of order"
            );
            for row in list {
                let id = row["id"].as_str().unwrap().to_owned();
                assert!(
                    rows.insert((kind.to_owned(), id), row.clone()).is_none(),
                    "an id stands twice"
                );
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
                    assert!(
                        self.rows.remove(&key).is_some(),
                        "what is not there was deleted"
                    );
                }
                other => panic!("no op is called {other}"),
            }
            self.check_relations();
        }
    }

    fn check_relations(&self) {
        for ((kind, id), row) in &self.rows {
            if kind == "terminal"
                && let Some(workspace) = row["workspace_id"].as_str()
            {
                let key = ("workspace".to_owned(), workspace.to_owned());
                assert!(
                    self.rows.contains_key(&key),
                    "{id} names a workspace that is not there"
                );
            }
        }
    }
}
