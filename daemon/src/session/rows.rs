//! Rows of the session graph, typed, with their JSON.

use std::fmt;
use std::sync::Arc;

use keepline_protocol::api::Size;
use keepline_protocol::bounds::ROW_MAX;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{TerminalId, WorkspaceId};
use keepline_protocol::record::Exit;
use serde::{Deserialize, Serialize, Serializer};

/// A workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRow {
    /// Its id.
    pub id: WorkspaceId,
    /// Its label, never empty.
    pub name: String,
    /// Its place among the workspaces.
    pub index: u64,
    /// Unix time in milliseconds at which it was made.
    pub created_ms: u64,
}

/// Where a terminal is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Its row is there, its program not yet.
    Launching,
    /// Its program runs.
    Running,
    /// Its program ended or never ran; `exit` says how.
    Ended,
}

/// A terminal's size in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl From<Size> for Cells {
    fn from(size: Size) -> Self {
        Cells {
            cols: size.cols,
            rows: size.rows,
        }
    }
}

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRow {
    /// Its id.
    pub id: TerminalId,
    /// The workspace that shows it; null when detached.
    pub workspace_id: Option<WorkspaceId>,
    /// Its label; empty for none.
    pub name: String,
    /// What its program calls it, at first the program's own name.
    pub title: String,
    /// Its working directory as last known.
    pub cwd: String,
    /// Its program and arguments.
    pub argv: Vec<String>,
    /// Its size.
    pub size: Cells,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
    /// How it ended: `{"status": n}`, `{"signal": n}` or `{"reason": words}`; null while it lives.
    #[serde(with = "exit_form")]
    pub exit: Option<Exit>,
    /// Process id of its program; null before it runs.
    pub pid: Option<u32>,
    /// Its place among the terminals.
    pub index: u64,
    /// Unix time in milliseconds at which it was made.
    pub created_ms: u64,
    /// Unix time in milliseconds at which a person or program last used it.
    pub used_ms: u64,
    /// Unix time in milliseconds at which it ended; null while it lives.
    pub ended_ms: Option<u64>,
}

impl TerminalRow {
    /// What it is called: its label, else its title.
    #[must_use]
    pub fn called(&self) -> &str {
        if self.name.is_empty() {
            &self.title
        } else {
            &self.name
        }
    }
}

/// A kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`WorkspaceRow`].
    Workspace,
    /// [`TerminalRow`].
    Terminal,
}

impl Kind {
    /// The name in a delta; a document's collection has an `s` behind it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Workspace => "workspace",
            Kind::Terminal => "terminal",
        }
    }
}

/// The id of a row of any kind. Ids of one kind stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowId {
    /// Of a workspace.
    Workspace(WorkspaceId),
    /// Of a terminal.
    Terminal(TerminalId),
}

impl RowId {
    /// The kind of row.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            RowId::Workspace(_) => Kind::Workspace,
            RowId::Terminal(_) => Kind::Terminal,
        }
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowId::Workspace(id) => id.fmt(f),
            RowId::Terminal(id) => id.fmt(f),
        }
    }
}

/// A row of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// A workspace.
    Workspace(WorkspaceRow),
    /// A terminal.
    Terminal(TerminalRow),
}

impl Row {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> RowId {
        match self {
            Row::Workspace(row) => RowId::Workspace(row.id),
            Row::Terminal(row) => RowId::Terminal(row.id),
        }
    }

    /// Its place among the rows of its kind.
    #[must_use]
    pub const fn index(&self) -> u64 {
        match self {
            Row::Workspace(row) => row.index,
            Row::Terminal(row) => row.index,
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Row::Workspace(row) => row.serialize(serializer),
            Row::Terminal(row) => row.serialize(serializer),
        }
    }
}

/// A row and its JSON, made once: the store, the deltas, the document and the bound on all rows need the same text.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// The row.
    pub row: Row,
    /// Its JSON.
    pub json: Box<str>,
}

impl Stored {
    /// The row with its JSON.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when its JSON is over [`ROW_MAX`].
    pub fn new(row: Row) -> Result<Arc<Self>, Failure> {
        let json = serde_json::to_string(&row)
            .expect("rows have string keys and finite numbers")
            .into_boxed_str();
        if json.len() > ROW_MAX {
            let kind = row.id().kind().name();
            let message = format!(
                "the {kind}'s row would be {} bytes, over {ROW_MAX}; shorten its arguments",
                json.len()
            );
            return Err(Failure::new(Code::TooLarge, message));
        }
        Ok(Arc::new(Stored { row, json }))
    }

    /// The row of this kind with this JSON, as the store gives it.
    ///
    /// # Errors
    /// In words, when no row is meant.
    pub(super) fn parse(kind: &str, json: String) -> Result<Arc<Self>, String> {
        let row = match kind {
            "workspace" => serde_json::from_str(&json).map(Row::Workspace),
            "terminal" => serde_json::from_str(&json).map(Row::Terminal),
            _ => return Err(format!("no row is of kind '{kind}'")),
        };
        let row = row.map_err(|e| e.to_string())?;
        Ok(Arc::new(Stored {
            row,
            json: json.into_boxed_str(),
        }))
    }
}

/// The JSON form of an optional [`Exit`].
pub(super) mod exit_form {
    use keepline_protocol::record::Exit;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Form {
        Status(i32),
        Signal(i32),
        Reason(String),
    }

    pub(in super::super) fn serialize<S: Serializer>(
        exit: &Option<Exit>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        exit.as_ref()
            .map(|exit| match exit {
                Exit::Status(status) => Form::Status(*status),
                Exit::Signal(signal) => Form::Signal(*signal),
                Exit::Reason(reason) => Form::Reason(reason.clone()),
            })
            .serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Exit>, D::Error> {
        Ok(
            Option::<Form>::deserialize(deserializer)?.map(|form| match form {
                Form::Status(status) => Exit::Status(status),
                Form::Signal(signal) => Exit::Signal(signal),
                Form::Reason(reason) => Exit::Reason(reason),
            }),
        )
    }
}
