//! The session graph: `session.*` and `workspace.*`.

use serde::{Deserialize, Serialize};

use super::{Cursor, Json};
use crate::id::WorkspaceId;

/// Answer to `session.snapshot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The complete graph: an object with `cursor` and every modelled collection.
    pub document: Json,
}

/// Parameters of `session.events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// What the asker has; nothing for a snapshot first.
    pub since: Option<Cursor>,
}

/// Answer to `session.events`, before the deltas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsStarted {
    /// Why the asker's cursor could not be continued; absent when the missing deltas follow.
    pub reset: Option<String>,
    /// The complete graph, present exactly when `reset` is.
    pub document: Option<Json>,
}

/// One committed transaction: `{generation, previous_revision, revision, changes: [{op, kind, id, row}]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The delta as JSON.
    pub delta: Json,
}

/// Parameters of `workspace.new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceNew {
    /// Idempotency key.
    pub key: Option<String>,
    /// The cursor that must be the current one.
    pub expect: Option<Cursor>,
    /// Its name; absent for a generated one.
    pub name: Option<String>,
}

/// Parameters of `workspace.rename`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRename {
    /// Idempotency key.
    pub key: Option<String>,
    /// The cursor that must be the current one.
    pub expect: Option<Cursor>,
    /// Id or unique name.
    pub workspace: String,
    /// The new name, never empty.
    pub name: String,
}

/// Parameters of `workspace.close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceClose {
    /// Idempotency key.
    pub key: Option<String>,
    /// The cursor that must be the current one.
    pub expect: Option<Cursor>,
    /// Id or unique name.
    pub workspace: String,
}

/// What a mutation of a workspace made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspacePath {
    /// The workspace.
    pub workspace: WorkspaceId,
}
