//! What each mutation does to the graph. All or nothing.

use std::collections::HashSet;

use keepline_protocol::api::session::WorkspacePath;
use keepline_protocol::api::terminal::TerminalPath;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{TerminalId, WorkspaceId};
use keepline_protocol::record::Exit;

use super::graph::{Change, Graph};
use super::mutation::{Fresh, Mutation, Place, TerminalMutation, Value, WorkspaceMutation};
use super::reference::cut;
use super::rows::{Cells, Lifecycle, Row, RowId, Stored, TerminalRow, WorkspaceRow};
use crate::bounds::{
    ARGV_MAX, CWD_MAX, ENDED_TERMINALS_MAX, LABEL_MAX, LIVE_TERMINALS_MAX, REASON_MAX, ROWS_MAX,
    ROWS_RESERVE, TITLE_MAX,
};

/// Why a terminal ended whose daemon did not go on.
pub const DAEMON_STOPPED: &str = "daemon stopped";
/// Why a terminal ended whose program could not be started.
pub const NOT_STARTED: &str = "not started";

/// What a mutation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The rows that it touched, each once, in an order in which no row ever names one that is missing. Empty when
    /// everything was as asked already.
    pub changes: Vec<Change>,
    /// What it made or changed.
    pub value: Value,
}

impl Graph {
    /// Does `mutation`, at `now_ms` (Unix time in milliseconds), with ids that nothing has yet.
    ///
    /// # Errors
    /// By code: `Invalid` for a text out of bounds, `NotFound` and `Ambiguous` for a reference, `Gone` for a terminal
    /// that is not there or has ended, `TooLarge` for a graph or a row over its bound. Then nothing was changed.
    pub fn apply(
        &mut self,
        mutation: &Mutation,
        now_ms: u64,
        fresh: Fresh,
    ) -> Result<Applied, Failure> {
        let held = self.bytes();
        let mut draft = Draft {
            graph: self,
            changes: Vec::new(),
            target: None,
        };
        let done = match mutation {
            Mutation::Workspace(mutation) => draft
                .workspace(mutation, now_ms, fresh)
                .map(Value::Workspace),
            Mutation::Terminal(mutation) => {
                draft.terminal(mutation, now_ms, fresh).map(Value::Terminal)
            }
        };
        let limit = match mutation {
            Mutation::Terminal(
                TerminalMutation::Started { .. }
                | TerminalMutation::NotStarted { .. }
                | TerminalMutation::Ended { .. },
            ) => ROWS_MAX,
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

    /// Ends every terminal that a former daemon left alive.
    pub fn restart(&mut self, now_ms: u64) -> Vec<Change> {
        let live: Vec<TerminalId> = self
            .terminals()
            .filter(|row| row.lifecycle != Lifecycle::Ended)
            .map(|row| row.id)
            .collect();
        let mut draft = Draft {
            graph: self,
            changes: Vec::new(),
            target: None,
        };
        for id in live {
            // A row too large to be marked (which the bounds exclude) is dropped, as its terminal is gone anyway.
            if draft
                .end(id, Exit::Reason(DAEMON_STOPPED.to_owned()), now_ms)
                .is_err()
            {
                draft.set(RowId::Terminal(id), None);
            }
        }
        draft.forget_ended();
        draft.changes
    }
}

struct Draft<'a> {
    graph: &'a mut Graph,
    changes: Vec<Change>,
    /// What the mutation is about, which does not make room for itself.
    target: Option<RowId>,
}

impl Draft<'_> {
    fn workspace(
        &mut self,
        mutation: &WorkspaceMutation,
        now_ms: u64,
        fresh: Fresh,
    ) -> Result<WorkspacePath, Failure> {
        let workspace = match mutation {
            WorkspaceMutation::New { name } => {
                self.new_workspace(name.as_deref(), now_ms, fresh.workspace)?
            }
            WorkspaceMutation::Rename { workspace, name } => {
                check_workspace_name(name)?;
                let id = self.graph.resolve_workspace(workspace)?;
                let mut row = self
                    .graph
                    .workspace(id)
                    .ok_or_else(|| gone("workspace", id))?
                    .clone();
                row.name.clone_from(name);
                self.put(Row::Workspace(row))?;
                id
            }
            WorkspaceMutation::Close { workspace } => {
                let id = self.graph.resolve_workspace(workspace)?;
                let shown: Vec<TerminalRow> = self
                    .graph
                    .terminals()
                    .filter(|row| row.workspace_id == Some(id))
                    .cloned()
                    .collect();
                for mut row in shown {
                    row.workspace_id = None;
                    self.put(Row::Terminal(row))?;
                }
                self.set(RowId::Workspace(id), None);
                id
            }
        };
        Ok(WorkspacePath { workspace })
    }

    fn new_workspace(
        &mut self,
        name: Option<&str>,
        now_ms: u64,
        id: WorkspaceId,
    ) -> Result<WorkspaceId, Failure> {
        let name = match name {
            Some(name) => {
                check_workspace_name(name)?;
                name.to_owned()
            }
            None => self.generated_name(),
        };
        let index = self
            .graph
            .workspaces()
            .map(|row| row.index + 1)
            .max()
            .unwrap_or(0);
        self.put(Row::Workspace(WorkspaceRow {
            id,
            name,
            index,
            created_ms: now_ms,
        }))?;
        Ok(id)
    }

    fn generated_name(&self) -> String {
        let taken: HashSet<&str> = self
            .graph
            .workspaces()
            .map(|row| row.name.as_str())
            .collect();
        if taken.is_empty() {
            return "main".to_owned();
        }
        (2u64..)
            .map(|number| format!("workspace {number}"))
            .find(|name| !taken.contains(name.as_str()))
            .expect("there are more numbers than workspaces")
    }

    fn terminal(
        &mut self,
        mutation: &TerminalMutation,
        now_ms: u64,
        fresh: Fresh,
    ) -> Result<TerminalPath, Failure> {
        match mutation {
            TerminalMutation::New {
                place,
                name,
                cwd,
                size,
                argv,
            } => self.new_terminal(place, (name, cwd, *size, argv), now_ms, fresh),
            TerminalMutation::Rename { terminal, name } => {
                check_label(name)?;
                let id = self.graph.resolve_terminal(terminal)?;
                self.edit(id, |row| row.name.clone_from(name))
            }
            TerminalMutation::Resize { terminal, size } => {
                let id = self.graph.resolve_terminal(terminal)?;
                if self
                    .graph
                    .terminal(id)
                    .is_some_and(|row| row.lifecycle == Lifecycle::Ended)
                {
                    return Err(Failure::new(
                        Code::Gone,
                        format!("{id} has ended and keeps its size"),
                    ));
                }
                self.edit(id, |row| row.size = *size)
            }
            TerminalMutation::Close { terminal } => {
                let id = self.graph.resolve_terminal(terminal)?;
                let path = self.path(id)?;
                self.set(RowId::Terminal(id), None);
                Ok(path)
            }
            TerminalMutation::Started { terminal, pid } => {
                let row = self
                    .graph
                    .terminal(*terminal)
                    .ok_or_else(|| gone("terminal", *terminal))?;
                if row.lifecycle == Lifecycle::Ended {
                    return Err(Failure::new(
                        Code::Gone,
                        format!("{terminal} has ended and does not start again"),
                    ));
                }
                self.edit(*terminal, |row| {
                    row.lifecycle = Lifecycle::Running;
                    row.pid = Some(*pid);
                })
            }
            TerminalMutation::NotStarted { terminal } => {
                let path = self.end(*terminal, Exit::Reason(NOT_STARTED.to_owned()), now_ms)?;
                self.forget_ended();
                Ok(path)
            }
            TerminalMutation::Ended { terminal, exit } => {
                let path = self.end(*terminal, exit.clone(), now_ms)?;
                self.forget_ended();
                Ok(path)
            }
            TerminalMutation::Observed {
                terminal,
                title,
                cwd,
                size,
                used_ms,
            } => self.edit(*terminal, |row| {
                if let Some(title) = title {
                    cut(title, TITLE_MAX).clone_into(&mut row.title);
                }
                // Half a path would be another path.
                if let Some(cwd) = cwd.as_ref().filter(|cwd| cwd.len() <= CWD_MAX) {
                    row.cwd.clone_from(cwd);
                }
                row.size = size.unwrap_or(row.size);
                row.used_ms = row.used_ms.max(used_ms.unwrap_or(0));
            }),
        }
    }

    fn new_terminal(
        &mut self,
        place: &Place,
        (name, cwd, size, argv): (&str, &str, Cells, &[String]),
        now_ms: u64,
        fresh: Fresh,
    ) -> Result<TerminalPath, Failure> {
        check_label(name)?;
        check_text("a working directory", cwd, CWD_MAX)?;
        let length: usize = argv.iter().map(String::len).sum();
        if length > ARGV_MAX {
            let message =
                format!("a program and its arguments of {length} bytes are over {ARGV_MAX}");
            return Err(Failure::new(Code::Invalid, message));
        }
        let live = self
            .graph
            .terminals()
            .filter(|row| row.lifecycle != Lifecycle::Ended)
            .count();
        if live >= LIVE_TERMINALS_MAX {
            let message =
                format!("{live} terminals live already, the most there may be; close one first");
            return Err(Failure::new(Code::TooLarge, message));
        }
        let recent = |graph: &Graph| graph.recent_workspace();
        let chosen = match place {
            Place::Detached => None,
            Place::Workspace(reference) => Some(self.graph.resolve_workspace(reference)?),
            Place::Beside(_) | Place::Recent => {
                let beside = match place {
                    Place::Beside(caller) => self
                        .graph
                        .terminal(*caller)
                        .and_then(|row| row.workspace_id),
                    _ => None,
                };
                match beside.or_else(|| recent(self.graph)) {
                    Some(id) => Some(id),
                    None => Some(self.new_workspace(None, now_ms, fresh.workspace)?),
                }
            }
        };
        let index = self
            .graph
            .terminals()
            .map(|row| row.index + 1)
            .max()
            .unwrap_or(0);
        let program = argv
            .first()
            .map_or("", |program| program.rsplit('/').next().unwrap_or(program));
        let row = TerminalRow {
            id: fresh.terminal,
            workspace_id: chosen,
            name: name.to_owned(),
            title: cut(program, TITLE_MAX).to_owned(),
            cwd: cwd.to_owned(),
            argv: argv.to_vec(),
            size,
            lifecycle: Lifecycle::Launching,
            exit: None,
            pid: None,
            index,
            created_ms: now_ms,
            used_ms: now_ms,
            ended_ms: None,
        };
        self.put(Row::Terminal(row))?;
        self.path(fresh.terminal)
    }

    /// Ends a live terminal; one that has ended stays as it is.
    fn end(&mut self, id: TerminalId, exit: Exit, now_ms: u64) -> Result<TerminalPath, Failure> {
        self.edit(id, |row| {
            if row.lifecycle == Lifecycle::Ended {
                return;
            }
            row.lifecycle = Lifecycle::Ended;
            row.ended_ms = Some(now_ms);
            row.exit = Some(match exit {
                Exit::Reason(reason) => Exit::Reason(cut(&reason, REASON_MAX).to_owned()),
                exit => exit,
            });
        })
    }

    fn edit(
        &mut self,
        id: TerminalId,
        edit: impl FnOnce(&mut TerminalRow),
    ) -> Result<TerminalPath, Failure> {
        self.target = Some(RowId::Terminal(id));
        let mut row = self
            .graph
            .terminal(id)
            .ok_or_else(|| gone("terminal", id))?
            .clone();
        edit(&mut row);
        self.put(Row::Terminal(row))?;
        self.path(id)
    }

    fn path(&self, id: TerminalId) -> Result<TerminalPath, Failure> {
        let row = self
            .graph
            .terminal(id)
            .ok_or_else(|| gone("terminal", id))?;
        Ok(TerminalPath {
            workspace: row.workspace_id,
            terminal: id,
        })
    }

    /// Keeps only the newest ended terminals.
    fn forget_ended(&mut self) {
        let ended = self
            .graph
            .terminals()
            .filter(|row| row.lifecycle == Lifecycle::Ended)
            .count();
        for _ in ENDED_TERMINALS_MAX..ended {
            if let Some(oldest) = self.graph.oldest_ended(self.target) {
                self.set(RowId::Terminal(oldest), None);
            }
        }
    }

    /// Makes the rows fit in `limit` bytes: the oldest ended terminals go.
    fn fit(&mut self, limit: usize) -> Result<(), Failure> {
        while self.graph.bytes() > limit {
            let Some(oldest) = self.graph.oldest_ended(self.target) else {
                let message =
                    "the session holds as much as it may; close workspaces or terminals first";
                return Err(Failure::new(Code::TooLarge, message));
            };
            self.set(RowId::Terminal(oldest), None);
        }
        Ok(())
    }

    fn put(&mut self, row: Row) -> Result<(), Failure> {
        let stored = Stored::new(row)?;
        self.set(stored.row.id(), Some(stored));
        Ok(())
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
}

fn gone(kind: &str, id: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Gone, format!("{kind} {id} is not there any more"))
}

fn check_workspace_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::new(
            Code::Invalid,
            "a workspace's name cannot be empty",
        ));
    }
    check_label(name)
}

fn check_label(name: &str) -> Result<(), Failure> {
    check_text("a name", name, LABEL_MAX)
}

fn check_text(what: &str, text: &str, limit: usize) -> Result<(), Failure> {
    if text.len() <= limit {
        return Ok(());
    }
    Err(Failure::new(
        Code::Invalid,
        format!("{what} of {} bytes is over {limit}", text.len()),
    ))
}
