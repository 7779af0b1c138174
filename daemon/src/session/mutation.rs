//! What can be done to the session graph.
//!
//! A mutation is its parameters and nothing else: neither the moment nor fresh ids are in it, so that the digest of a
//! mutation tells whether an idempotency key is used for the same request again.

use keepline_protocol::api::session::WorkspacePath;
use keepline_protocol::api::terminal::TerminalPath;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{TerminalId, WorkspaceId};
use keepline_protocol::record::Exit;
use serde::{Deserialize, Serialize};

use super::rows::{Cells, exit_form};

/// A change of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Mutation {
    /// Of a workspace.
    Workspace(WorkspaceMutation),
    /// Of a terminal.
    Terminal(TerminalMutation),
}

/// A change of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum WorkspaceMutation {
    /// Makes one.
    New {
        /// Its label; nothing for a generated one: `main` for the first, else `workspace N`.
        name: Option<String>,
    },
    /// Gives one another label.
    Rename {
        /// Id or unique name.
        workspace: String,
        /// The label, never empty.
        name: String,
    },
    /// Deletes one; its terminals live on, detached.
    Close {
        /// Id or unique name.
        workspace: String,
    },
}

/// Where a new terminal is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Place {
    /// Nowhere.
    Detached,
    /// In this workspace, by id or unique name.
    Workspace(String),
    /// In the workspace of this terminal; else, when it is in none, as [`Place::Recent`].
    Beside(TerminalId),
    /// In the most recently used workspace, else in a new one.
    Recent,
}

impl Place {
    /// The place that the parameters of `terminal.new` mean.
    ///
    /// # Errors
    /// [`Code::Invalid`] when they ask for a workspace and for none.
    pub fn of(
        workspace: Option<String>,
        detached: bool,
        caller: Option<TerminalId>,
    ) -> Result<Self, Failure> {
        match (workspace, detached, caller) {
            (Some(_), true, _) => {
                let message =
                    "a terminal is either detached or in a workspace; name one or the other";
                Err(Failure::new(Code::Invalid, message))
            }
            (None, true, _) => Ok(Place::Detached),
            (Some(workspace), false, _) => Ok(Place::Workspace(workspace)),
            (None, false, Some(caller)) => Ok(Place::Beside(caller)),
            (None, false, None) => Ok(Place::Recent),
        }
    }
}

/// A change of a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TerminalMutation {
    /// Makes a row, `launching`. What was spawned, or was not, is told by [`TerminalMutation::Started`] or
    /// [`TerminalMutation::NotStarted`].
    New {
        /// Where it is shown.
        place: Place,
        /// Its label; empty for none.
        name: String,
        /// Where it starts.
        cwd: String,
        /// Its size.
        size: Cells,
        /// Its program and arguments.
        argv: Vec<String>,
    },
    /// Gives one another label.
    Rename {
        /// Id or unique name.
        terminal: String,
        /// The label; empty for none.
        name: String,
    },
    /// Gives a live one another size.
    Resize {
        /// Id or unique name.
        terminal: String,
        /// The size.
        size: Cells,
    },
    /// Deletes a row, of a live or an ended terminal. Whoever holds the terminal ends it.
    Close {
        /// Id or unique name.
        terminal: String,
    },
    /// Its program runs.
    Started {
        /// The terminal.
        terminal: TerminalId,
        /// The process.
        pid: u32,
    },
    /// Its program could not be started: it ended, `not started`.
    NotStarted {
        /// The terminal.
        terminal: TerminalId,
    },
    /// Its program ended.
    Ended {
        /// The terminal.
        terminal: TerminalId,
        /// How.
        #[serde(serialize_with = "serialize_exit")]
        exit: Exit,
    },
    /// Its program or the people at it changed something; what is absent did not change.
    Observed {
        /// The terminal.
        terminal: TerminalId,
        /// Its title.
        title: Option<String>,
        /// Its working directory.
        cwd: Option<String>,
        /// Its size.
        size: Option<Cells>,
        /// Unix time in milliseconds at which it was last used.
        used_ms: Option<u64>,
    },
}

fn serialize_exit<S: serde::Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    exit_form::serialize(&Some(exit.clone()), serializer)
}

/// What a mutation made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// A workspace.
    Workspace(WorkspacePath),
    /// A terminal, and the workspace that it is or was in.
    Terminal(TerminalPath),
}

/// Ids that nothing has yet, for what a mutation may make.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// For a workspace.
    pub workspace: WorkspaceId,
    /// For a terminal.
    pub terminal: TerminalId,
}

/// A mutation whose value has a type.
pub trait Mutate: Into<Mutation> {
    /// What it makes or changes.
    type Path;
    /// `value` as that type; nothing when it is of another, which only a bug makes.
    fn path(value: Value) -> Option<Self::Path>;
}

impl From<WorkspaceMutation> for Mutation {
    fn from(mutation: WorkspaceMutation) -> Self {
        Mutation::Workspace(mutation)
    }
}

impl From<TerminalMutation> for Mutation {
    fn from(mutation: TerminalMutation) -> Self {
        Mutation::Terminal(mutation)
    }
}

impl Mutate for WorkspaceMutation {
    type Path = WorkspacePath;
    fn path(value: Value) -> Option<WorkspacePath> {
        match value {
            Value::Workspace(path) => Some(path),
            Value::Terminal(_) => None,
        }
    }
}

impl Mutate for TerminalMutation {
    type Path = TerminalPath;
    fn path(value: Value) -> Option<TerminalPath> {
        match value {
            Value::Terminal(path) => Some(path),
            Value::Workspace(_) => None,
        }
    }
}
