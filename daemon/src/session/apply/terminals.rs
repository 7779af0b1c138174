//! Terminals, and what happens to them.

use keepline_protocol::api::terminal::{TerminalClose, TerminalNew, TerminalRename, TerminalResize};
use keepline_protocol::api::{Path, Size};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_protocol::record::Exit;

use super::places::Spot;
use super::{Draft, NOT_STARTED, check_label, check_text, cut, invalid, only};
use crate::bounds::{
    ARGV_MAX, CWD_MAX, LIVE_TERMINALS_MAX, NOTICES_AT_ONCE, NOTIFICATION_BODY_MAX, NOTIFICATION_TITLE_MAX, REASON_MAX,
    TITLE_MAX,
};
use crate::session::mutation::{Effects, Ended, Happened, Notice, Observed};
use crate::session::rows::{
    Cells, ClientRow, Kind, LastCommand, Lifecycle, LineIds, NotificationRow, RowId, SizePolicy, TabRow, TerminalRow,
};

/// The size of a terminal that nobody gave one.
pub(crate) const FIRST_SIZE: Size = Size::cells(80, 24);

/// The title of a bell's notification.
pub(crate) const BELL: &str = "Bell";

/// What a new terminal is to run.
pub(super) struct Program<'a> {
    pub(super) name: &'a str,
    pub(super) cwd: Option<&'a str>,
    pub(super) size: Option<Size>,
    pub(super) argv: Option<&'a [String]>,
}

impl Draft<'_> {
    pub(super) fn terminal_new(&mut self, new: &TerminalNew) -> Result<Path, Failure> {
        let spot = match (&new.workspace, new.detached) {
            (Some(_), Some(true)) => {
                return Err(invalid("a terminal is either detached or in a workspace; name one or the other"));
            }
            (None, Some(true)) => None,
            (workspace, _) => {
                let workspace = self.workspace_for(workspace.as_deref(), new.caller)?;
                Some(self.spot_in(workspace)?)
            }
        };
        let program = Program {
            name: new.name.as_deref().unwrap_or_default(),
            cwd: new.cwd.as_deref(),
            size: new.size,
            argv: new.argv.as_deref(),
        };
        let terminal = self.launch(&program)?;
        match spot {
            Some(spot) => self.show(spot, terminal, ""),
            None => Ok(self.graph.path_of_terminal(terminal)),
        }
    }

    /// The terminal that a new place shows: one that lives, or a new one.
    pub(super) fn shown(&mut self, existing: Option<&str>, program: &Program<'_>) -> Result<TerminalId, Failure> {
        let Some(existing) = existing else {
            return self.launch(program);
        };
        if program.cwd.is_some() || program.size.is_some() || program.argv.is_some() {
            return Err(invalid(
                "a terminal that lives has its program, directory and size already; name only the terminal",
            ));
        }
        let id = self.graph.resolve_terminal(existing)?;
        self.check_lives(id)?;
        Ok(id)
    }

    /// Makes a row, `launching`. What was spawned, or was not, is told by [`Happened`].
    fn launch(&mut self, program: &Program<'_>) -> Result<TerminalId, Failure> {
        let (cwd, argv) = (program.cwd.unwrap_or_default(), program.argv.unwrap_or_default());
        check_label(program.name)?;
        check_text("a working directory", cwd, CWD_MAX)?;
        let length: usize = argv.iter().map(String::len).sum();
        if length > ARGV_MAX {
            return Err(invalid(format!("a program and its arguments of {length} bytes are over {ARGV_MAX}")));
        }
        let live = self.graph.terminals().filter(|row| row.lifecycle != Lifecycle::Ended).count();
        if live >= LIVE_TERMINALS_MAX {
            let message = format!("{live} terminals live already, the most there may be; close one first");
            return Err(Failure::new(Code::TooLarge, message));
        }
        let called = argv.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
        let id = TerminalId::from_bytes(self.fresh.id());
        self.put(TerminalRow {
            id,
            name: program.name.to_owned(),
            title: cut(called, TITLE_MAX).to_owned(),
            cwd: cwd.to_owned(),
            argv: argv.to_vec(),
            size: Cells::from(program.size.unwrap_or(FIRST_SIZE)),
            lifecycle: Lifecycle::Launching,
            exit: None,
            pid: None,
            tab_ids: Vec::new(),
            index: self.next_index(Kind::Terminal),
            created_ms: self.now_ms,
            used_ms: self.now_ms,
            ended_ms: None,
            effects_through: 0,
            last_command: None,
            size_policy: SizePolicy::default(),
        })?;
        Ok(id)
    }

    pub(super) fn terminal_rename(&mut self, rename: &TerminalRename) -> Result<Path, Failure> {
        check_label(&rename.name)?;
        let id = self.graph.resolve_terminal(&rename.terminal)?;
        let path = self.graph.path_of_terminal(id);
        let row = self.row::<TerminalRow>(id)?;
        for tab in &row.tab_ids {
            self.edit::<TabRow>(*tab, |tab| tab.name.clone_from(&rename.name))?;
        }
        self.edit::<TerminalRow>(id, |row| row.name.clone_from(&rename.name))?;
        Ok(path)
    }

    pub(super) fn terminal_resize(&mut self, resize: &TerminalResize) -> Result<Path, Failure> {
        let id = self.graph.resolve_terminal(&resize.terminal)?;
        self.check_lives(id)?;
        let policy = size_policy(resize)?;
        self.edit::<TerminalRow>(id, |row| {
            row.size = resize.size.map_or(row.size, Cells::from);
            row.size_policy = policy;
        })?;
        Ok(self.graph.path_of_terminal(id))
    }

    /// Deletes a row, of a live or an ended terminal. Whoever holds the terminal ends it.
    pub(super) fn terminal_close(&mut self, close: &TerminalClose) -> Result<Path, Failure> {
        let id = self.graph.resolve_terminal(&close.terminal)?;
        let path = self.graph.path_of_terminal(id);
        self.close_terminal(id);
        Ok(path)
    }

    pub(super) fn close_terminal(&mut self, id: TerminalId) {
        self.hide(id);
        self.remove(RowId::Terminal(id));
    }

    /// Closes every tab that shows a terminal.
    fn hide(&mut self, id: TerminalId) {
        let tabs = self.graph.terminal(id).map(|row| row.tab_ids.clone());
        for tab in tabs.unwrap_or_default() {
            self.close_tab(tab).expect("a terminal names only tabs that are there, and their rows get no larger");
        }
    }

    fn check_lives(&self, id: TerminalId) -> Result<(), Failure> {
        match self.graph.terminal(id) {
            Some(row) if row.lifecycle == Lifecycle::Ended => Err(Failure::new(Code::Gone, format!("{id} has ended"))),
            _ => Ok(()),
        }
    }

    pub(super) fn happened(&mut self, happened: &Happened) -> Result<Path, Failure> {
        let terminal = match happened {
            Happened::Started { terminal, pid } => {
                self.target = Some(RowId::Terminal(*terminal));
                self.check_lives(*terminal)?;
                self.edit::<TerminalRow>(*terminal, |row| {
                    row.lifecycle = Lifecycle::Running;
                    row.pid = Some(*pid);
                })?;
                *terminal
            }
            Happened::NotStarted { terminal } => {
                self.end(*terminal, &Exit::Reason(NOT_STARTED.to_owned()))?;
                // Nothing was ever to be seen in it.
                self.hide(*terminal);
                self.forget_ended();
                *terminal
            }
            Happened::Ended { terminal, exit } => {
                self.end(*terminal, exit)?;
                self.forget_ended();
                *terminal
            }
            Happened::Observed(observed) => return self.observed(observed),
            Happened::Clients(clients) => return self.clients(clients),
        };
        Ok(self.graph.path_of_terminal(terminal))
    }

    /// Ends a live terminal; one that has ended stays as it is.
    pub(super) fn end(&mut self, id: TerminalId, exit: &Exit) -> Result<(), Failure> {
        self.target = Some(RowId::Terminal(id));
        let now_ms = self.now_ms;
        self.edit::<TerminalRow>(id, |row| {
            if row.lifecycle == Lifecycle::Ended {
                return;
            }
            row.lifecycle = Lifecycle::Ended;
            row.ended_ms = Some(now_ms);
            row.exit = Some(match exit {
                Exit::Reason(reason) => Exit::Reason(cut(reason, REASON_MAX).to_owned()),
                exit => exit.clone(),
            });
        })
    }

    fn observed(&mut self, observed: &Observed) -> Result<Path, Failure> {
        let id = observed.terminal.ok_or_else(|| invalid("nothing was observed"))?;
        self.target = Some(RowId::Terminal(id));
        let mut row = self.row::<TerminalRow>(id)?;
        row.size = observed.size.unwrap_or(row.size);
        row.used_ms = row.used_ms.max(observed.used_ms.unwrap_or(0));
        if let Some(effects) = &observed.effects
            && effects.through > row.effects_through
        {
            row.effects_through = effects.through;
            self.take_effects(&mut row, effects)?;
        }
        let path = only(&row);
        self.put(row)?;
        Ok(path)
    }

    fn take_effects(&mut self, row: &mut TerminalRow, effects: &Effects) -> Result<(), Failure> {
        if let Some(title) = effects.title.as_ref().filter(|title| !title.is_empty()) {
            cut(title, TITLE_MAX).clone_into(&mut row.title);
        }
        // Half a path would be another path.
        if let Some(cwd) = effects.cwd.as_ref().filter(|cwd| cwd.len() <= CWD_MAX) {
            row.cwd.clone_from(cwd);
        }
        if let Some(Ended { status, epoch, lines }) = &effects.command {
            let lines = lines.as_ref().map(|ids| LineIds { epoch: *epoch, from: ids.start, to: ids.end });
            row.last_command = Some(LastCommand { status: *status, ended_ms: self.now_ms, lines });
        }
        let newest = effects.notices.len().saturating_sub(NOTICES_AT_ONCE);
        for Notice { title, body, level } in &effects.notices[newest..] {
            let workspace_id = self.graph.path_of_terminal(row.id).workspace;
            // A bell that nobody has answered yet rings no louder twice.
            let rings = |old: &NotificationRow| old.title == BELL && old.unread && old.terminal_id == Some(row.id);
            if title == BELL && self.graph.all().any(rings) {
                continue;
            }
            self.notify(NotificationRow {
                title: cut(title, NOTIFICATION_TITLE_MAX).to_owned(),
                body: cut(body, NOTIFICATION_BODY_MAX).to_owned(),
                level: *level,
                terminal_id: Some(row.id),
                workspace_id,
                ..self.blank_notification()
            })?;
        }
        Ok(())
    }

    /// The clients are these and no others.
    fn clients(&mut self, clients: &[ClientRow]) -> Result<Path, Failure> {
        let gone: Vec<_> = self
            .graph
            .all::<ClientRow>()
            .map(|row| row.id)
            .filter(|id| clients.iter().all(|row| row.id != *id))
            .collect();
        for id in gone {
            self.remove(RowId::Client(id));
        }
        for row in clients {
            self.put(row.clone())?;
        }
        Ok(Path::default())
    }
}

/// Who decides a terminal's size from now on.
pub(crate) fn size_policy(resize: &TerminalResize) -> Result<SizePolicy, Failure> {
    match (resize.size, resize.policy.as_deref()) {
        (Some(_), None) => Ok(SizePolicy::Pinned),
        (None, Some("smallest")) => Ok(SizePolicy::Smallest),
        (None, Some("latest")) => Ok(SizePolicy::Latest),
        _ => Err(invalid("a terminal is given either a size or a policy, which is smallest or latest")),
    }
}

impl Spot {
    /// The program of a new terminal in a new place.
    pub(super) fn program<'a>(
        cwd: Option<&'a String>,
        size: Option<Size>,
        argv: Option<&'a Vec<String>>,
    ) -> Program<'a> {
        Program { name: "", cwd: cwd.map(String::as_str), size, argv: argv.map(Vec::as_slice) }
    }
}
