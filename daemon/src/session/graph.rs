//! The session graph: rows by id, and finding them.
//!
//! Pure: the moment and fresh ids are arguments. The rules of what a mutation does are in [`apply`](super::apply).

use std::collections::BTreeMap;
use std::sync::Arc;

use keepline_protocol::api::Path;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{PaneId, TabId, TerminalId, WorkspaceId};

use super::reference;
use super::rows::{Lifecycle, Model, PaneRow, RowId, ScreenRow, Stored, TabRow, TerminalRow, WorkspaceRow};

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

    /// The rows of one kind, in the order of their ids.
    pub fn all<M: Model>(&self) -> impl Iterator<Item = &M> {
        self.rows.range(RowId::first(M::KIND)..).map_while(|(_, stored)| M::of(&stored.row))
    }

    /// The terminals, in the order of their ids.
    pub fn terminals(&self) -> impl Iterator<Item = &TerminalRow> {
        self.all()
    }

    /// The row with this id.
    #[must_use]
    pub fn row<M: Model>(&self, id: M::Id) -> Option<&M> {
        M::of(&self.rows.get(&M::row_id(id))?.row)
    }

    /// The terminal with this id.
    #[must_use]
    pub fn terminal(&self, id: TerminalId) -> Option<&TerminalRow> {
        self.row(id)
    }

    /// The screens of a workspace, in their order.
    #[must_use]
    pub fn screens_of(&self, workspace: WorkspaceId) -> Vec<&ScreenRow> {
        self.in_order(|row: &ScreenRow| (row.workspace_id == workspace).then_some(row.index))
    }

    /// The tabs of a pane, in their order.
    #[must_use]
    pub fn tabs_of(&self, pane: PaneId) -> Vec<&TabRow> {
        self.in_order(|row: &TabRow| (row.pane_id == pane).then_some(row.index))
    }

    /// The rows of a kind that have a place, in the order of these.
    pub(super) fn in_order<M: Model>(&self, place: impl Fn(&M) -> Option<u64>) -> Vec<&M> {
        let placed = self.all::<M>().filter_map(|row| Some((place(row)?, row)));
        let mut rows: Vec<(u64, &M)> = placed.collect();
        rows.sort_by_key(|(index, row)| (*index, row.id()));
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Where a tab is, from the workspace down to its terminal.
    #[must_use]
    pub fn path_of_tab(&self, tab: TabId) -> Path {
        let mut path = Path::default();
        if let Some(row) = self.row::<TabRow>(tab) {
            path = self.path_of_pane(row.pane_id);
            path.tab = Some(tab);
            path.terminal = Some(row.terminal_id);
        }
        path
    }

    /// Where a pane is.
    #[must_use]
    pub fn path_of_pane(&self, pane: PaneId) -> Path {
        let screen = self.row::<PaneRow>(pane).map(|row| row.screen_id);
        Path {
            workspace: screen.and_then(|id| self.row::<ScreenRow>(id)).map(|row| row.workspace_id),
            screen,
            pane: Some(pane),
            ..Path::default()
        }
    }

    /// Where a terminal is shown first; itself alone when it is detached.
    #[must_use]
    pub fn path_of_terminal(&self, terminal: TerminalId) -> Path {
        let first = self.terminal(terminal).and_then(|row| row.tab_ids.first());
        Path { terminal: Some(terminal), ..first.map_or_else(Path::default, |tab| self.path_of_tab(*tab)) }
    }

    /// The row that `reference` means: an id, the unique start of one (its kind's prefix and four more digits at least), or
    /// a unique name. A name that a live and an ended terminal share means the live one.
    ///
    /// # Errors
    /// [`NotFound`](keepline_protocol::failure::Code::NotFound), or
    /// [`Ambiguous`](keepline_protocol::failure::Code::Ambiguous) with the candidates.
    pub fn resolve<M: Model>(&self, reference: &str) -> Result<M::Id, Failure> {
        self.resolve_among(reference, self.all::<M>().collect())
    }

    fn resolve_among<M: Model>(&self, reference: &str, rows: Vec<&M>) -> Result<M::Id, Failure> {
        let kind = M::KIND.name();
        let candidates = |found: Vec<&M>| {
            let named = found.into_iter().map(|row| (row.id(), row.called().to_owned()));
            reference::only(kind, reference, named)
        };
        if let Ok(id) = reference.parse::<M::Id>()
            && rows.iter().any(|row| row.id() == id)
        {
            return Ok(id);
        }
        let named = |row: &&&M| !reference.is_empty() && row.called() == reference;
        let found: Vec<&M> = rows.iter().filter(named).copied().collect();
        let live: Vec<&M> = found.iter().filter(|row| !row.is_past()).copied().collect();
        match (found.is_empty(), live.is_empty()) {
            (true, _) if reference::is_start_of_id(reference) => {
                let starts = |row: &&M| row.id().to_string().starts_with(reference);
                candidates(rows.into_iter().filter(starts).collect())
            }
            (_, true) => candidates(found),
            (_, false) => candidates(live),
        }
    }

    /// The terminal that `reference` means: as [`resolve`](Self::resolve), or `WORKSPACE/TERMINAL`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_terminal(&self, reference: &str) -> Result<TerminalId, Failure> {
        let whole = self.resolve::<TerminalRow>(reference);
        match (whole, reference.split_once('/')) {
            (Err(Failure { code: Code::NotFound, .. }), Some((workspace, terminal))) => {
                let workspace = self.resolve::<WorkspaceRow>(workspace)?;
                let shown = |row: &&TerminalRow| {
                    let mut tabs = row.tab_ids.iter();
                    tabs.any(|tab| self.path_of_tab(*tab).workspace == Some(workspace))
                };
                self.resolve_among(terminal, self.terminals().filter(shown).collect())
            }
            (whole, _) => whole,
        }
    }

    /// The tab that `reference` means: as [`resolve`](Self::resolve), or a terminal that exactly one tab shows, or
    /// `WORKSPACE/TERMINAL/TAB`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_tab(&self, reference: &str) -> Result<TabId, Failure> {
        match self.resolve::<TabRow>(reference) {
            Err(failure) if failure.code == Code::NotFound => {
                let shown_by = |terminal: &str| -> Result<Vec<&TabRow>, Failure> {
                    let terminal = self.resolve_terminal(terminal).map_err(|_| failure.clone())?;
                    Ok(self.all().filter(|row: &&TabRow| row.terminal_id == terminal).collect())
                };
                match reference.rsplit_once('/') {
                    Some((terminal, tab)) if terminal.contains('/') => self.resolve_among(tab, shown_by(terminal)?),
                    _ => {
                        let tabs = shown_by(reference)?;
                        let named = tabs.into_iter().map(|row| (row.id, row.name.clone()));
                        reference::only("tab", reference, named)
                    }
                }
            }
            resolved => resolved,
        }
    }

    /// The pane that `reference` means: as [`resolve`](Self::resolve), or the one that holds a tab or a terminal.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_pane(&self, reference: &str) -> Result<PaneId, Failure> {
        match self.resolve::<PaneRow>(reference) {
            Err(failure) if failure.code == Code::NotFound => match self.resolve_tab(reference) {
                Ok(tab) => self.row::<TabRow>(tab).map(|row| row.pane_id).ok_or(failure),
                Err(other) if other.code == Code::Ambiguous => Err(other),
                Err(_) => Err(failure),
            },
            resolved => resolved,
        }
    }

    /// The workspace that was used last: the one whose terminal was, or that was made last.
    #[must_use]
    pub fn recent_workspace(&self) -> Option<WorkspaceId> {
        let mut used: BTreeMap<WorkspaceId, (u64, u64)> =
            self.all::<WorkspaceRow>().map(|row| (row.id, (row.used_ms, row.index))).collect();
        for terminal in self.terminals() {
            for tab in &terminal.tab_ids {
                let workspace = self.path_of_tab(*tab).workspace;
                if let Some(used) = workspace.and_then(|id| used.get_mut(&id)) {
                    used.0 = used.0.max(terminal.used_ms);
                }
            }
        }
        used.into_iter().max_by_key(|(_, used)| *used).map(|(id, _)| id)
    }

    /// The ended terminal that ended first, but not `spared`.
    pub(super) fn oldest_ended(&self, spared: Option<RowId>) -> Option<TerminalId> {
        self.terminals()
            .filter(|row| row.lifecycle == Lifecycle::Ended && spared != Some(RowId::Terminal(row.id)))
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
