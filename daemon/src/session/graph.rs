//! The session graph: rows by id, and finding them.
//!
//! Pure: the moment and fresh ids are arguments. The rules of what a mutation does are in [`apply`](super::apply).

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use keepline_protocol::failure::Failure;
use keepline_protocol::id::{TerminalId, WorkspaceId};

use super::reference;
use super::rows::{Lifecycle, Row, RowId, Stored, TerminalRow, WorkspaceRow};

/// One row made, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row.
    pub id: RowId,
    /// What it was; nothing for a row that was made.
    pub before: Option<Arc<Stored>>,
    /// What it is; nothing for a row that was deleted.
    pub after: Option<Arc<Stored>>,
}

/// All rows.
///
/// A clone shares the rows and costs their pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    rows: BTreeMap<RowId, Arc<Stored>>,
    bytes: usize,
}

impl Graph {
    /// The graph with these rows.
    pub fn with_rows(rows: impl IntoIterator<Item = Arc<Stored>>) -> Self {
        let mut graph = Graph::default();
        for stored in rows {
            graph.set(stored.row.id(), Some(stored));
        }
        graph
    }

    /// Bytes of all rows as JSON.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All rows, workspaces first, in the order of their ids.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.rows.values()
    }

    /// The workspaces, in the order of their ids.
    pub fn workspaces(&self) -> impl Iterator<Item = &WorkspaceRow> {
        self.rows.values().map_while(|stored| match &stored.row {
            Row::Workspace(row) => Some(row),
            Row::Terminal(_) => None,
        })
    }

    /// The terminals, in the order of their ids.
    pub fn terminals(&self) -> impl Iterator<Item = &TerminalRow> {
        let first = RowId::Terminal(TerminalId::from_bytes([0; 16]));
        self.rows
            .range(first..)
            .filter_map(|(_, stored)| match &stored.row {
                Row::Terminal(row) => Some(row),
                Row::Workspace(_) => None,
            })
    }

    /// The workspace with this id.
    #[must_use]
    pub fn workspace(&self, id: WorkspaceId) -> Option<&WorkspaceRow> {
        match &self.rows.get(&RowId::Workspace(id))?.row {
            Row::Workspace(row) => Some(row),
            Row::Terminal(_) => None,
        }
    }

    /// The terminal with this id.
    #[must_use]
    pub fn terminal(&self, id: TerminalId) -> Option<&TerminalRow> {
        match &self.rows.get(&RowId::Terminal(id))?.row {
            Row::Terminal(row) => Some(row),
            Row::Workspace(_) => None,
        }
    }

    /// The workspace that `reference`, an id or a unique name, means.
    ///
    /// # Errors
    /// [`NotFound`](keepline_protocol::failure::Code::NotFound), or
    /// [`Ambiguous`](keepline_protocol::failure::Code::Ambiguous) with the candidates.
    pub fn resolve_workspace(&self, reference: &str) -> Result<WorkspaceId, Failure> {
        if let Ok(id) = WorkspaceId::from_str(reference)
            && self.workspace(id).is_some()
        {
            return Ok(id);
        }
        let named = self.workspaces().filter(|row| row.name == reference);
        reference::only("workspace", reference, named.map(|row| (row.id, &row.name)))
    }

    /// The terminal that `reference`, an id or a unique name (its label, else its title), means.
    ///
    /// # Errors
    /// As [`resolve_workspace`](Self::resolve_workspace).
    pub fn resolve_terminal(&self, reference: &str) -> Result<TerminalId, Failure> {
        if let Ok(id) = TerminalId::from_str(reference)
            && self.terminal(id).is_some()
        {
            return Ok(id);
        }
        let named = self
            .terminals()
            .filter(|row| !reference.is_empty() && row.called() == reference);
        reference::only(
            "terminal",
            reference,
            named.map(|row| (row.id, row.called())),
        )
    }

    /// The workspace that was used last: the one whose terminal was, or that was made last.
    #[must_use]
    pub fn recent_workspace(&self) -> Option<WorkspaceId> {
        let mut used: BTreeMap<WorkspaceId, (u64, u64)> = self
            .workspaces()
            .map(|row| (row.id, (row.created_ms, row.index)))
            .collect();
        for terminal in self.terminals() {
            if let Some(used) = terminal.workspace_id.and_then(|id| used.get_mut(&id)) {
                used.0 = used.0.max(terminal.used_ms);
            }
        }
        used.into_iter()
            .max_by_key(|(_, used)| *used)
            .map(|(id, _)| id)
    }

    /// The ended terminal that ended first, but not `spared`.
    pub(super) fn oldest_ended(&self, spared: Option<RowId>) -> Option<TerminalId> {
        self.terminals()
            .filter(|row| {
                row.lifecycle == Lifecycle::Ended && spared != Some(RowId::Terminal(row.id))
            })
            .min_by_key(|row| (row.ended_ms, row.index))
            .map(|row| row.id)
    }

    /// Installs changes that another copy of this graph made.
    pub fn install(&mut self, changes: &[Change]) {
        for change in changes {
            self.set(change.id, change.after.clone());
        }
    }

    /// Takes changes back.
    pub fn undo(&mut self, changes: &[Change]) {
        for change in changes.iter().rev() {
            self.set(change.id, change.before.clone());
        }
    }

    /// Puts or removes one row, and gives what was there.
    pub(super) fn set(&mut self, id: RowId, row: Option<Arc<Stored>>) -> Option<Arc<Stored>> {
        self.bytes += row.as_ref().map_or(0, |row| row.json.len());
        let before = match row {
            Some(row) => self.rows.insert(id, row),
            None => self.rows.remove(&id),
        };
        self.bytes -= before.as_ref().map_or(0, |row| row.json.len());
        before
    }
}
