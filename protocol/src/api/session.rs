//! The session graph as a whole: `session.*`.

use serde::{Deserialize, Serialize};

use super::{Cursor, Json};

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
