//! Random mutations against a model that is small enough to be obviously right.

use keepline_protocol::api::session::WorkspacePath;
use keepline_protocol::api::terminal::TerminalPath;
use keepline_protocol::id::Generation;
use keepline_protocol::record::Exit;

use super::super::document;
use super::super::rows::Lifecycle;
use super::*;
use crate::bounds::{ENDED_TERMINALS_MAX, LIVE_TERMINALS_MAX};

/// SplitMix64: a stream of numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Terminal {
    id: TerminalId,
    workspace: Option<WorkspaceId>,
    label: String,
    title: String,
    lifecycle: Lifecycle,
    exit: Option<Exit>,
    used: u64,
    ended: u64,
}

/// Workspaces (id, name, made at) and terminals, each in the order in which they were made.
#[derive(Default)]
struct Model {
    workspaces: Vec<(WorkspaceId, String, u64)>,
    terminals: Vec<Terminal>,
}

impl Model {
    fn find_workspace(&self, text: &str) -> Result<usize, Code> {
        let by = |matches: &dyn Fn(&(WorkspaceId, String, u64)) -> bool| -> Vec<usize> {
            (0..self.workspaces.len())
                .filter(|at| matches(&self.workspaces[*at]))
                .collect()
        };
        if let [at] = by(&|row| row.0.to_string() == text)[..] {
            return Ok(at);
        }
        match by(&|row| row.1 == text)[..] {
            [at] => Ok(at),
            [] => Err(Code::NotFound),
            _ => Err(Code::Ambiguous),
        }
    }

    fn find_terminal(&self, text: &str) -> Result<usize, Code> {
        if let Some(at) = self
            .terminals
            .iter()
            .position(|row| row.id.to_string() == text)
        {
            return Ok(at);
        }
        let called = |row: &Terminal| {
            if row.label.is_empty() {
                row.title.clone()
            } else {
                row.label.clone()
            }
        };
        let found: Vec<usize> = (0..self.terminals.len())
            .filter(|at| called(&self.terminals[*at]) == text)
            .collect();
        match found[..] {
            [at] => Ok(at),
            [] => Err(Code::NotFound),
            _ => Err(Code::Ambiguous),
        }
    }

    fn apply(&mut self, mutation: &Mutation, now: u64, fresh: Fresh) -> Result<Value, Code> {
        match mutation {
            Mutation::Workspace(mutation) => self
                .workspace(mutation, now, fresh)
                .map(|workspace| Value::Workspace(WorkspacePath { workspace })),
            Mutation::Terminal(mutation) => {
                self.terminal(mutation, now, fresh).map(Value::Terminal)
            }
        }
    }

    fn workspace(
        &mut self,
        mutation: &WorkspaceMutation,
        now: u64,
        fresh: Fresh,
    ) -> Result<WorkspaceId, Code> {
        match mutation {
            WorkspaceMutation::New { name } => {
                let mut number = 1;
                let mut generated = "main".to_owned();
                while !self.workspaces.is_empty()
                    && (number == 1 || self.workspaces.iter().any(|row| row.1 == generated))
                {
                    number += 1;
                    generated = format!("workspace {number}");
                }
                self.workspaces
                    .push((fresh.workspace, name.clone().unwrap_or(generated), now));
                Ok(fresh.workspace)
            }
            WorkspaceMutation::Rename { name, .. } if name.is_empty() => Err(Code::Invalid),
            WorkspaceMutation::Rename { workspace, name } => {
                let at = self.find_workspace(workspace)?;
                self.workspaces[at].1 = name.clone();
                Ok(self.workspaces[at].0)
            }
            WorkspaceMutation::Close { workspace } => {
                let at = self.find_workspace(workspace)?;
                let (id, ..) = self.workspaces.remove(at);
                for terminal in &mut self.terminals {
                    if terminal.workspace == Some(id) {
                        terminal.workspace = None;
                    }
                }
                Ok(id)
            }
        }
    }

    fn terminal(
        &mut self,
        mutation: &TerminalMutation,
        now: u64,
        fresh: Fresh,
    ) -> Result<TerminalPath, Code> {
        let present = |model: &Self, id: &TerminalId| {
            model
                .terminals
                .iter()
                .position(|row| row.id == *id)
                .ok_or(Code::Gone)
        };
        let at = match mutation {
            TerminalMutation::New { place, name, .. } => {
                if self
                    .terminals
                    .iter()
                    .filter(|row| row.lifecycle != Lifecycle::Ended)
                    .count()
                    >= LIVE_TERMINALS_MAX
                {
                    return Err(Code::TooLarge);
                }
                let workspace = self.place(place, now, fresh)?;
                self.terminals.push(Terminal {
                    id: fresh.terminal,
                    workspace,
                    label: name.clone(),
                    title: "sh".to_owned(),
                    lifecycle: Lifecycle::Launching,
                    exit: None,
                    used: now,
                    ended: 0,
                });
                self.terminals.len() - 1
            }
            TerminalMutation::Rename { terminal, name } => {
                let at = self.find_terminal(terminal)?;
                self.terminals[at].label = name.clone();
                at
            }
            TerminalMutation::Close { terminal } => {
                let gone = self.find_terminal(terminal)?;
                let gone = self.terminals.remove(gone);
                return Ok(TerminalPath {
                    workspace: gone.workspace,
                    terminal: gone.id,
                });
            }
            TerminalMutation::Started { terminal, .. } => {
                let at = present(self, terminal)?;
                if self.terminals[at].lifecycle == Lifecycle::Ended {
                    return Err(Code::Gone);
                }
                self.terminals[at].lifecycle = Lifecycle::Running;
                at
            }
            TerminalMutation::NotStarted { terminal } => self.end(
                present(self, terminal)?,
                Exit::Reason("not started".to_owned()),
                now,
            ),
            TerminalMutation::Ended { terminal, exit } => {
                self.end(present(self, terminal)?, exit.clone(), now)
            }
            TerminalMutation::Observed {
                terminal,
                title,
                used_ms,
                ..
            } => {
                let at = present(self, terminal)?;
                let row = &mut self.terminals[at];
                row.title = title.clone().unwrap_or(row.title.clone());
                row.used = row.used.max(used_ms.unwrap_or(0));
                at
            }
            TerminalMutation::Resize { .. } => unreachable!("the dice never throw it"),
        };
        let row = &self.terminals[at];
        Ok(TerminalPath {
            workspace: row.workspace,
            terminal: row.id,
        })
    }

    fn end(&mut self, at: usize, exit: Exit, now: u64) -> usize {
        let id = self.terminals[at].id;
        let row = &mut self.terminals[at];
        if row.lifecycle != Lifecycle::Ended {
            (row.lifecycle, row.exit, row.ended) = (Lifecycle::Ended, Some(exit), now);
        }
        loop {
            let mut ended: Vec<(u64, usize)> = (0..self.terminals.len())
                .filter(|at| self.terminals[*at].lifecycle == Lifecycle::Ended)
                .map(|at| (self.terminals[at].ended, at))
                .collect();
            if ended.len() <= ENDED_TERMINALS_MAX {
                return self.terminals.iter().position(|row| row.id == id).unwrap();
            }
            ended.retain(|(_, at)| self.terminals[*at].id != id);
            ended.sort_unstable();
            self.terminals.remove(ended[0].1);
        }
    }

    fn place(
        &mut self,
        place: &Place,
        now: u64,
        fresh: Fresh,
    ) -> Result<Option<WorkspaceId>, Code> {
        let beside = match place {
            Place::Detached => return Ok(None),
            Place::Workspace(text) => {
                return self
                    .find_workspace(text)
                    .map(|at| Some(self.workspaces[at].0));
            }
            Place::Beside(caller) => self
                .terminals
                .iter()
                .find(|row| row.id == *caller)
                .and_then(|row| row.workspace),
            Place::Recent => None,
        };
        let used = |workspace: &(WorkspaceId, String, u64)| {
            let inside = self
                .terminals
                .iter()
                .filter(|row| row.workspace == Some(workspace.0));
            inside
                .map(|row| row.used)
                .chain([workspace.2])
                .max()
                .unwrap()
        };
        // Of equals the last one made.
        if let Some(id) = beside.or_else(|| {
            self.workspaces
                .iter()
                .max_by_key(|row| used(row))
                .map(|row| row.0)
        }) {
            return Ok(Some(id));
        }
        self.workspace(&WorkspaceMutation::New { name: None }, now, fresh)
            .map(Some)
    }
}

/// A mutation, of things that are there, were there, or never were, by id or by one of few names.
fn throw(dice: &mut Dice, count: u64, now: u64) -> Mutation {
    let name =
        |dice: &mut Dice| ["a", "b", "c", "main", "sh", "workspace 2"][dice.below(6)].to_owned();
    let recent = |dice: &mut Dice| fresh(count.saturating_sub(dice.below(60) as u64));
    let terminal = |dice: &mut Dice| recent(dice).terminal;
    let terminal_text = |dice: &mut Dice| match dice.below(3) {
        0 => name(dice),
        _ => terminal(dice).to_string(),
    };
    let workspace_text = |dice: &mut Dice| match dice.below(3) {
        0 => recent(dice).workspace.to_string(),
        _ => name(dice),
    };
    match dice.below(100) {
        0..6 => WorkspaceMutation::New {
            name: (dice.below(2) == 0).then(|| name(dice)),
        }
        .into(),
        6..10 => {
            let name = if dice.below(9) == 0 {
                String::new()
            } else {
                name(dice)
            };
            WorkspaceMutation::Rename {
                workspace: workspace_text(dice),
                name,
            }
            .into()
        }
        10..15 => WorkspaceMutation::Close {
            workspace: workspace_text(dice),
        }
        .into(),
        15..45 => {
            let place = match dice.below(4) {
                0 => Place::Detached,
                1 => Place::Workspace(workspace_text(dice)),
                2 => Place::Beside(terminal(dice)),
                _ => Place::Recent,
            };
            let label = if dice.below(2) == 0 {
                String::new()
            } else {
                name(dice)
            };
            new_terminal(place, &label).into()
        }
        45..60 => TerminalMutation::Started {
            terminal: terminal(dice),
            pid: 1,
        }
        .into(),
        60..63 => TerminalMutation::NotStarted {
            terminal: terminal(dice),
        }
        .into(),
        63..85 => {
            let exit = Exit::Status(i32::try_from(dice.below(3)).unwrap());
            TerminalMutation::Ended {
                terminal: terminal(dice),
                exit,
            }
            .into()
        }
        85..88 => TerminalMutation::Close {
            terminal: terminal_text(dice),
        }
        .into(),
        88..92 => {
            let label = if dice.below(2) == 0 {
                String::new()
            } else {
                name(dice)
            };
            TerminalMutation::Rename {
                terminal: terminal_text(dice),
                name: label,
            }
            .into()
        }
        _ => TerminalMutation::Observed {
            terminal: terminal(dice),
            title: (dice.below(2) == 0).then(|| name(dice)),
            cwd: None,
            size: None,
            used_ms: (dice.below(2) == 0).then_some(now),
        }
        .into(),
    }
}

fn compare(graph: &Graph, model: &Model) {
    let mut workspaces: Vec<_> = graph.workspaces().collect();
    workspaces.sort_by_key(|row| row.index);
    let workspaces: Vec<_> = workspaces
        .into_iter()
        .map(|row| (row.id, row.name.clone(), row.created_ms))
        .collect();
    assert_eq!(workspaces, model.workspaces);
    let mut terminals: Vec<_> = graph.terminals().collect();
    terminals.sort_by_key(|row| row.index);
    let terminals = terminals.into_iter().map(|row| Terminal {
        id: row.id,
        workspace: row.workspace_id,
        label: row.name.clone(),
        title: row.title.clone(),
        lifecycle: row.lifecycle,
        exit: row.exit.clone(),
        used: row.used_ms,
        ended: row.ended_ms.unwrap_or(0),
    });
    assert_eq!(terminals.collect::<Vec<_>>(), model.terminals);
    assert_eq!(
        graph.bytes(),
        graph.rows().map(|stored| stored.json.len()).sum::<usize>()
    );
}

#[test]
fn the_graph_does_what_the_model_does_and_its_deltas_say_so() {
    for seed in 0..4 {
        eprintln!("seed {seed}");
        let mut dice = Dice(seed);
        let (mut graph, mut model) = (Graph::default(), Model::default());
        let mut cursor = Cursor {
            generation: Generation::from_bytes([7; 16]),
            revision: 0,
        };
        let mut mirror = Mirror::of(&document::document(cursor, Vec::new()));
        let mut now = 0;
        for count in 1..1600 {
            // The clock stands still now and then, as clocks do within a millisecond.
            now += dice.below(3) as u64;
            let mutation = throw(&mut dice, count, now);
            let before = graph.clone();
            let done = graph.apply(&mutation, now, fresh(count));
            let expected = model.apply(&mutation, now, fresh(count));
            match done {
                Ok(applied) => {
                    assert_eq!(Ok(applied.value), expected, "{mutation:?}");
                    if applied.changes.is_empty() {
                        assert_eq!(graph, before);
                    } else {
                        cursor.revision += 1;
                        let changes = document::changes(&applied.changes);
                        mirror.apply(&document::delta(cursor, &changes));
                    }
                    let mut undone = graph.clone();
                    undone.undo(&applied.changes);
                    assert_eq!(undone, before);
                    let mut installed = before;
                    installed.install(&applied.changes);
                    assert_eq!(installed, graph);
                }
                Err(failure) => {
                    assert_eq!(Err(failure.code), expected, "{mutation:?}: {failure}");
                    assert_eq!(graph, before);
                }
            }
            compare(&graph, &model);
        }
        assert!(
            model.terminals.len() > ENDED_TERMINALS_MAX,
            "the bound was never met"
        );
        assert_eq!(
            mirror,
            Mirror::of(&document::document(cursor, graph.rows().cloned().collect()))
        );
    }
}
