//! Random mutations against a model that is small enough to be obviously right.

use keepline_protocol::id::Generation;
use keepline_protocol::record::Exit;

use super::super::document;
use super::super::rows::{Lifecycle, TerminalRow};
use super::*;
use crate::bounds::{ENDED_TERMINALS_MAX, LIVE_TERMINALS_MAX};

/// SplitMix64: a stream of numbers that a seed repeats.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: usize) -> usize {
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

/// Workspaces (id, name, used at) and terminals, each in the order in which they were made.
#[derive(Default)]
struct Model {
    workspaces: Vec<(WorkspaceId, String, u64)>,
    terminals: Vec<Terminal>,
}

impl Model {
    fn find_workspace(&self, text: &str) -> Result<usize, Code> {
        let by = |matches: &dyn Fn(&(WorkspaceId, String, u64)) -> bool| -> Vec<usize> {
            (0..self.workspaces.len()).filter(|at| matches(&self.workspaces[*at])).collect()
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
        if let Some(at) = self.terminals.iter().position(|row| row.id.to_string() == text) {
            return Ok(at);
        }
        let called = |row: &Terminal| {
            if row.label.is_empty() { row.title.clone() } else { row.label.clone() }
        };
        let found: Vec<usize> = (0..self.terminals.len()).filter(|at| called(&self.terminals[*at]) == text).collect();
        let lives = |at: &usize| self.terminals[*at].lifecycle != Lifecycle::Ended;
        let live: Vec<usize> = found.iter().copied().filter(lives).collect();
        match (if live.is_empty() { found } else { live })[..] {
            [at] => Ok(at),
            [] => Err(Code::NotFound),
            _ => Err(Code::Ambiguous),
        }
    }

    /// What is to happen: the workspace and terminal that the mutation is about.
    fn apply(&mut self, mutation: &Mutation, now: u64, mut fresh: Fresh) -> Result<About, Code> {
        match mutation {
            Mutation::WorkspaceNew(new) => Ok((Some(self.make(new.name.clone(), now, &mut fresh)), None)),
            Mutation::WorkspaceRename(rename) if rename.name.is_empty() => Err(Code::Invalid),
            Mutation::WorkspaceRename(rename) => {
                let at = self.find_workspace(&rename.workspace)?;
                self.workspaces[at].1 = rename.name.clone();
                Ok((Some(self.workspaces[at].0), None))
            }
            Mutation::WorkspaceClose(close) => {
                let at = self.find_workspace(&close.workspace)?;
                let (id, ..) = self.workspaces.remove(at);
                for terminal in &mut self.terminals {
                    if terminal.workspace == Some(id) {
                        terminal.workspace = None;
                    }
                }
                Ok((Some(id), None))
            }
            other => self.terminal(other, now, &mut fresh),
        }
    }

    fn make(&mut self, name: Option<String>, now: u64, fresh: &mut Fresh) -> WorkspaceId {
        let mut number = 1;
        let mut generated = "main".to_owned();
        while !self.workspaces.is_empty() && (number == 1 || self.workspaces.iter().any(|row| row.1 == generated)) {
            number += 1;
            generated = format!("workspace {number}");
        }
        let id = WorkspaceId::from_bytes(fresh.id());
        self.workspaces.push((id, name.unwrap_or(generated), now));
        id
    }

    fn terminal(&mut self, mutation: &Mutation, now: u64, fresh: &mut Fresh) -> Result<About, Code> {
        let present =
            |model: &Self, id: &TerminalId| model.terminals.iter().position(|row| row.id == *id).ok_or(Code::Gone);
        let at = match mutation {
            Mutation::TerminalNew(new) => {
                let lives = |row: &&Terminal| row.lifecycle != Lifecycle::Ended;
                let full = self.terminals.iter().filter(lives).count() >= LIVE_TERMINALS_MAX;
                let held = self.workspaces.clone();
                let workspace = self.place(new, now, fresh)?;
                if full {
                    self.workspaces = held;
                    return Err(Code::TooLarge);
                }
                if let Some(row) = self.workspaces.iter_mut().find(|row| Some(row.0) == workspace) {
                    row.2 = now;
                }
                self.terminals.push(Terminal {
                    id: TerminalId::from_bytes(fresh.id()),
                    workspace,
                    label: new.name.clone().unwrap_or_default(),
                    title: "sh".to_owned(),
                    lifecycle: Lifecycle::Launching,
                    exit: None,
                    used: now,
                    ended: 0,
                });
                self.terminals.len() - 1
            }
            Mutation::TerminalRename(rename) => {
                let at = self.find_terminal(&rename.terminal)?;
                self.terminals[at].label = rename.name.clone();
                at
            }
            Mutation::TerminalClose(close) => {
                let gone = self.find_terminal(&close.terminal)?;
                let gone = self.terminals.remove(gone);
                return Ok((gone.workspace, Some(gone.id)));
            }
            Mutation::Happened(Happened::Started { terminal, .. }) => {
                let known = present(self, terminal);
                if known.is_ok_and(|at| self.terminals[at].lifecycle == Lifecycle::Ended) {
                    return Err(Code::Gone);
                }
                let at = known?;
                self.terminals[at].lifecycle = Lifecycle::Running;
                at
            }
            Mutation::Happened(Happened::NotStarted { terminal }) => {
                let reason = Exit::Reason("not started".to_owned());
                let at = self.end(present(self, terminal)?, reason, now);
                self.terminals[at].workspace = None;
                at
            }
            Mutation::Happened(Happened::Ended { terminal, exit }) => {
                self.end(present(self, terminal)?, exit.clone(), now)
            }
            Mutation::Happened(Happened::Observed(seen)) => {
                let at = present(self, &seen.terminal.unwrap())?;
                let row = &mut self.terminals[at];
                if let Some(title) = seen.effects.as_ref().and_then(|effects| effects.title.clone()) {
                    row.title = title;
                }
                row.used = row.used.max(seen.used_ms.unwrap_or(0));
                return Ok((None, Some(row.id)));
            }
            other => unreachable!("the dice never throw {other:?}"),
        };
        let row = &self.terminals[at];
        Ok((row.workspace, Some(row.id)))
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

    fn place(&mut self, new: &TerminalNew, now: u64, fresh: &mut Fresh) -> Result<Option<WorkspaceId>, Code> {
        if new.detached == Some(true) {
            return Ok(None);
        }
        if let Some(text) = &new.workspace {
            return self.find_workspace(text).map(|at| Some(self.workspaces[at].0));
        }
        let caller = self.terminals.iter().find(|row| Some(row.id) == new.caller);
        let used = |workspace: &(WorkspaceId, String, u64)| {
            let inside = self.terminals.iter().filter(|row| row.workspace == Some(workspace.0));
            inside.map(|row| row.used).chain([workspace.2]).max().unwrap()
        };
        // Of equals the last one made.
        let recent = || self.workspaces.iter().max_by_key(|row| used(row)).map(|row| row.0);
        let chosen = caller.and_then(|row| row.workspace).or_else(recent);
        Ok(Some(chosen.unwrap_or_else(|| self.make(None, now, fresh))))
    }
}

/// The workspace and the terminal that a mutation is about.
type About = (Option<WorkspaceId>, Option<TerminalId>);

/// A mutation, of things that are there, were there, or never were, by id or by one of few names.
fn throw(dice: &mut Dice, met: &[About], now: u64) -> Mutation {
    let name = |dice: &mut Dice| ["a", "b", "c", "main", "sh", "workspace 2"][dice.below(6)].to_owned();
    let recent = |dice: &mut Dice| {
        let back = dice.below(60) + 1;
        met.get(met.len().saturating_sub(back)).copied().unwrap_or_default()
    };
    let terminal = |dice: &mut Dice| recent(dice).1.unwrap_or(TerminalId::from_bytes([9; 16]));
    let terminal_text = |dice: &mut Dice| match dice.below(3) {
        0 => name(dice),
        _ => terminal(dice).to_string(),
    };
    let workspace_text = |dice: &mut Dice| match (dice.below(3), recent(dice).0) {
        (0, Some(id)) => id.to_string(),
        _ => name(dice),
    };
    let label = |dice: &mut Dice| match dice.below(2) {
        0 => String::new(),
        _ => name(dice),
    };
    match dice.below(100) {
        0..6 => WorkspaceNew { name: (dice.below(2) == 0).then(|| name(dice)), ..WorkspaceNew::default() }.into(),
        6..10 => WorkspaceRename {
            workspace: workspace_text(dice),
            name: if dice.below(9) == 0 { String::new() } else { name(dice) },
            ..WorkspaceRename::default()
        }
        .into(),
        10..15 => WorkspaceClose { workspace: workspace_text(dice), ..WorkspaceClose::default() }.into(),
        15..45 => {
            let place = match dice.below(4) {
                0 => Place::Detached,
                1 => Place::Workspace(workspace_text(dice)),
                2 => Place::Beside(terminal(dice)),
                _ => Place::Recent,
            };
            new_terminal(place, &label(dice)).into()
        }
        45..60 => Happened::Started { terminal: terminal(dice), pid: 1 }.into(),
        60..63 => Happened::NotStarted { terminal: terminal(dice) }.into(),
        63..85 => {
            let exit = Exit::Status(i32::try_from(dice.below(3)).unwrap());
            let terminal = terminal(dice);
            Happened::Ended { terminal, exit }.into()
        }
        85..88 => TerminalClose { terminal: terminal_text(dice), ..TerminalClose::default() }.into(),
        88..92 => {
            TerminalRename { terminal: terminal_text(dice), name: label(dice), ..TerminalRename::default() }.into()
        }
        _ => Happened::Observed(Observed {
            terminal: Some(terminal(dice)),
            used_ms: (dice.below(2) == 0).then_some(now),
            effects: (dice.below(2) == 0).then(|| Effects {
                through: u64::try_from(met.len()).unwrap() + 1,
                title: Some(name(dice)),
                ..Effects::default()
            }),
            ..Observed::default()
        })
        .into(),
    }
}

fn compare(graph: &Graph, model: &Model) {
    let workspaces = graph.in_order(|row: &WorkspaceRow| Some(row.index));
    let workspaces = workspaces.into_iter().map(|row| (row.id, row.name.clone()));
    let expected = model.workspaces.iter().map(|row| (row.0, row.1.clone()));
    assert_eq!(workspaces.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let terminals = graph.in_order(|row: &TerminalRow| Some(row.index));
    let terminals = terminals.into_iter().map(|row| Terminal {
        id: row.id,
        workspace: graph.path_of_terminal(row.id).workspace,
        label: row.name.clone(),
        title: row.title.clone(),
        lifecycle: row.lifecycle,
        exit: row.exit.clone(),
        used: row.used_ms,
        ended: row.ended_ms.unwrap_or(0),
    });
    assert_eq!(terminals.collect::<Vec<_>>(), model.terminals);
    assert_eq!(graph.bytes(), graph.rows().map(|stored| stored.json.len()).sum::<usize>());
}

#[test]
fn the_graph_does_what_the_model_does_and_its_deltas_say_so() {
    for seed in 0..4 {
        eprintln!("seed {seed}");
        let mut dice = Dice(seed);
        let (mut graph, mut model) = (Graph::default(), Model::default());
        let mut cursor = Cursor { generation: Generation::from_bytes([7; 16]), revision: 0 };
        let mut mirror = Mirror::of(&document::document(cursor, Vec::new()));
        let mut now = 0;
        let mut met: Vec<About> = Vec::new();
        for count in 1..1600 {
            // The clock stands still now and then, as clocks do within a millisecond.
            now += dice.below(3) as u64;
            let mutation = throw(&mut dice, &met, now);
            let before = graph.clone();
            let done = graph.apply(&mutation, now, fresh(count));
            let expected = model.apply(&mutation, now, fresh(count));
            match done {
                Ok(applied) => {
                    let Value::Path(path) = applied.value else {
                        panic!("{mutation:?} gave no path");
                    };
                    let about = (path.workspace, path.terminal);
                    assert_eq!(Ok(about), expected, "{mutation:?}");
                    met.push(about);
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
            super::places::check(&graph);
        }
        assert!(model.terminals.len() > ENDED_TERMINALS_MAX, "the bound was never met");
        assert_eq!(mirror, Mirror::of(&document::document(cursor, graph.rows().cloned().collect())));
    }
}
