//! What each mutation does to the graph. All or nothing.
//!
//! | module | the rules of |
//! |---|---|
//! | `places` | workspaces, screens, panes and tabs |
//! | `terminals` | terminals, and what happens to them |
//! | `layouts` | a workspace's places as one JSON value |
//! | `notifications` | the ledger of what a person should see |

mod layouts;
mod notifications;
mod places;
mod terminals;

pub(crate) use self::terminals::{BELL, FIRST_SIZE, size_policy};

use keepline_protocol::api::Path;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::record::Exit;

use super::graph::{Change, Graph};
use super::mutation::{Fresh, Happened, Mutation, Value};
use super::reference::cut;
use super::rows::{ClientRow, Kind, Lifecycle, Model, NotificationRow, RowId, Stored, TerminalRow};
use crate::bounds::{ENDED_TERMINALS_MAX, LABEL_MAX, NOTIFICATIONS_MAX, ROWS_MAX, ROWS_RESERVE};

/// Why a terminal ended whose daemon did not go on.
pub const DAEMON_STOPPED: &str = "daemon stopped";
/// Why a terminal ended whose program could not be started.
pub const NOT_STARTED: &str = "not started";

/// What a mutation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The rows that it touched, each once; together they leave no row that names a missing one. Empty when everything was
    /// as asked already.
    pub changes: Vec<Change>,
    /// What it made or changed.
    pub value: Value,
}

impl Graph {
    /// Does `mutation`, at `now_ms` (Unix time in milliseconds), with ids that nothing has yet.
    ///
    /// # Errors
    /// By code: `Invalid` for a text out of bounds, `NotFound` and `Ambiguous` for a reference, `Gone` for a row that is
    /// not there any more or a terminal that has ended, `TooLarge` for a graph or a row over its bound. Then nothing was
    /// changed.
    pub fn apply(&mut self, mutation: &Mutation, now_ms: u64, fresh: Fresh) -> Result<Applied, Failure> {
        let held = self.bytes();
        let mut draft = Draft::new(self, now_ms, fresh);
        let done = draft.run(mutation);
        let limit = match mutation {
            Mutation::Happened(Happened::Started { .. } | Happened::NotStarted { .. } | Happened::Ended { .. }) => {
                ROWS_MAX
            }
            _ => ROWS_MAX - ROWS_RESERVE,
        };
        // What does not grow always fits, or a full graph could not be emptied.
        let done = done.and_then(|value| draft.fit(limit.max(held)).map(|()| value));
        let changes = draft.changes;
        match done {
            Ok(value) => Ok(Applied { changes, value }),
            Err(failure) => {
                self.undo(&changes);
                Err(failure)
            }
        }
    }

    /// Ends every terminal that a former daemon left alive, and forgets its clients.
    pub fn restart(&mut self, now_ms: u64) -> Vec<Change> {
        let live: Vec<_> = self.terminals().filter(|row| row.lifecycle != Lifecycle::Ended).map(|row| row.id).collect();
        let clients: Vec<_> = self.all::<ClientRow>().map(|row| row.id).collect();
        let mut draft = Draft::new(self, now_ms, Fresh::new([0; 16]));
        for id in clients {
            draft.remove(RowId::Client(id));
        }
        for id in live {
            // A row too large to be marked (which the bounds exclude) is dropped, as its terminal is gone anyway.
            if draft.end(id, &Exit::Reason(DAEMON_STOPPED.to_owned())).is_err() {
                draft.close_terminal(id);
            }
        }
        draft.forget_ended();
        draft.changes
    }
}

struct Draft<'a> {
    graph: &'a mut Graph,
    now_ms: u64,
    fresh: Fresh,
    changes: Vec<Change>,
    /// What the mutation is about, which does not make room for itself.
    target: Option<RowId>,
}

impl<'a> Draft<'a> {
    fn new(graph: &'a mut Graph, now_ms: u64, fresh: Fresh) -> Self {
        Draft { graph, now_ms, fresh, changes: Vec::new(), target: None }
    }

    fn run(&mut self, mutation: &Mutation) -> Result<Value, Failure> {
        let path = match mutation {
            Mutation::WorkspaceNew(new) => self.workspace_new(new)?,
            Mutation::WorkspaceRename(rename) => self.workspace_rename(rename)?,
            Mutation::WorkspaceMove(to) => self.workspace_move(to)?,
            Mutation::WorkspaceFocus(focus) => self.workspace_focus(focus)?,
            Mutation::WorkspaceClose(close) => self.workspace_close(close)?,
            Mutation::ScreenNew(new) => self.screen_new(new)?,
            Mutation::ScreenRename(rename) => self.screen_rename(rename)?,
            Mutation::ScreenMove(to) => self.screen_move(to)?,
            Mutation::ScreenFocus(focus) => self.screen_focus(focus)?,
            Mutation::ScreenClose(close) => self.screen_close(close)?,
            Mutation::PaneSplit(split) => self.pane_split(split)?,
            Mutation::PaneMove(to) => self.pane_move(to)?,
            Mutation::PaneResize(resize) => self.pane_resize(resize)?,
            Mutation::PaneFocus(focus) => self.pane_focus(focus)?,
            Mutation::PaneZoom(zoom) => self.pane_zoom(zoom)?,
            Mutation::PaneClose(close) => self.pane_close(close)?,
            Mutation::TabNew(new) => self.tab_new(new)?,
            Mutation::TabRename(rename) => self.tab_rename(rename)?,
            Mutation::TabMove(to) => self.tab_move(to)?,
            Mutation::TabFocus(focus) => self.tab_focus(focus)?,
            Mutation::TabClose(close) => self.tab_close(close)?,
            Mutation::LayoutApply(apply) => self.layout_apply(apply)?,
            Mutation::TerminalNew(new) => self.terminal_new(new)?,
            Mutation::TerminalRename(rename) => self.terminal_rename(rename)?,
            Mutation::TerminalResize(resize) => self.terminal_resize(resize)?,
            Mutation::TerminalClose(close) => self.terminal_close(close)?,
            Mutation::Happened(happened) => self.happened(happened)?,
            Mutation::NotificationPost(post) => return self.post(post).map(Value::Posted),
            Mutation::NotificationAck(ack) => return self.ack(ack).map(Value::Marked),
            Mutation::NotificationClear(clear) => return self.clear(clear).map(Value::Marked),
        };
        Ok(Value::Path(path))
    }

    /// A copy of a row.
    fn row<M: Model>(&self, id: M::Id) -> Result<M, Failure> {
        let found = self.graph.row::<M>(id).cloned();
        found.ok_or_else(|| {
            let kind = M::KIND.name();
            Failure::new(Code::Gone, format!("{kind} {id} is not there any more"))
        })
    }

    fn edit<M: Model>(&mut self, id: M::Id, edit: impl FnOnce(&mut M)) -> Result<(), Failure> {
        let mut row = self.row::<M>(id)?;
        edit(&mut row);
        self.put(row)
    }

    fn put(&mut self, row: impl Model) -> Result<(), Failure> {
        let stored = Stored::new(row.into_row())?;
        self.set(stored.row.id(), Some(stored));
        Ok(())
    }

    fn remove(&mut self, id: RowId) {
        self.set(id, None);
    }

    /// Puts or removes one row and remembers it: once a row, and not at all when it is as it was.
    fn set(&mut self, id: RowId, after: Option<std::sync::Arc<Stored>>) {
        let before = self.graph.set(id, after.clone());
        let known = self.changes.iter().position(|change| change.id == id);
        match known {
            Some(known) => self.changes[known].after = after,
            None if before == after => {}
            None => self.changes.push(Change { id, before, after }),
        }
        self.changes.retain(|change| change.before != change.after);
    }

    /// Gives rows their places in this order.
    fn number<M: Model>(&mut self, order: &[M::Id], place: fn(&mut M) -> &mut u64) -> Result<(), Failure> {
        for (index, id) in (0..).zip(order) {
            self.edit::<M>(*id, |row| *place(row) = index)?;
        }
        Ok(())
    }

    /// Keeps only the newest ended terminals.
    fn forget_ended(&mut self) {
        let ended = self.graph.terminals().filter(|row| row.is_past()).count();
        for _ in ENDED_TERMINALS_MAX..ended {
            if let Some(oldest) = self.graph.oldest_ended(self.target) {
                self.close_terminal(oldest);
            }
        }
    }

    /// Makes the rows fit in `limit` bytes: the oldest notifications go, then the oldest ended terminals.
    fn fit(&mut self, limit: usize) -> Result<(), Failure> {
        self.keep_notifications(NOTIFICATIONS_MAX);
        while self.graph.bytes() > limit {
            if self.drop_oldest_notification() {
                continue;
            }
            let Some(oldest) = self.graph.oldest_ended(self.target) else {
                let message = "the session holds as much as it may; close workspaces or terminals first";
                return Err(Failure::new(Code::TooLarge, message));
            };
            self.close_terminal(oldest);
        }
        Ok(())
    }

    fn keep_notifications(&mut self, most: usize) {
        let count = self.graph.all::<NotificationRow>().count();
        for _ in most..count {
            self.drop_oldest_notification();
        }
    }

    fn drop_oldest_notification(&mut self) -> bool {
        let kept = |row: &&NotificationRow| self.target != Some(RowId::Notification(row.id));
        let oldest = self.graph.all().filter(kept).min_by_key(|row| row.index);
        let oldest = oldest.map(|row| RowId::Notification(row.id));
        oldest.is_some_and(|id| {
            self.remove(id);
            true
        })
    }

    /// The place behind every row of a kind.
    fn next_index(&self, kind: Kind) -> u64 {
        let rows = self.graph.rows().filter(|stored| stored.row.id().kind() == kind);
        rows.map(|stored| stored.row.index() + 1).max().unwrap_or(0)
    }
}

/// Where nothing is but this terminal.
fn only(terminal: &TerminalRow) -> Path {
    Path { terminal: Some(terminal.id), ..Path::default() }
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Code::Invalid, message)
}

fn check_label(name: &str) -> Result<(), Failure> {
    check_text("a name", name, LABEL_MAX)
}

fn check_text(what: &str, text: &str, limit: usize) -> Result<(), Failure> {
    if text.len() <= limit {
        return Ok(());
    }
    Err(invalid(format!("{what} of {} bytes is over {limit}", text.len())))
}
