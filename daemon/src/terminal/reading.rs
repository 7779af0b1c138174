//! What is read of a terminal: its screen, lines by their ids, and waiting for what they come to show.

use std::ops::Range;
use std::time::Duration;

use keepline_protocol::api::Json;
use keepline_protocol::api::terminal::{LineRange, ScreenText, TerminalRead, TerminalWait, Waited};
use keepline_protocol::failure::{Code, Failure};
use keepline_screen::Line;
use regex::{Regex, RegexBuilder};
use tokio::time::{sleep, timeout};

use super::Terminal;
use crate::bounds::{LOOK_LINES, LOOK_PAUSE, PATTERN_COMPILED_MAX, PATTERN_MAX, READ_MAX};
use crate::session::exit_json;

/// Rows as an answer has them.
#[derive(Default)]
struct Rows {
    text: Vec<String>,
    styled: Vec<Line>,
    /// Bytes, roughly, that they take in an answer.
    bytes: usize,
}

impl Rows {
    /// Adds a row, unless there is one already and both would be too much for an answer.
    fn add(&mut self, text: String, line: Option<Line>) -> bool {
        let runs = line.iter().flat_map(|line| &line.runs);
        // A run says its style in about so many bytes.
        let bytes = text.len() + runs.map(|run| 160 + run.text.len()).sum::<usize>();
        if !self.text.is_empty() && self.bytes + bytes > READ_MAX {
            return false;
        }
        self.bytes += bytes;
        self.text.push(text);
        self.styled.extend(line);
        true
    }
}

impl Terminal {
    /// The screen that is shown, or lines of it and of the history; also when the program has ended.
    ///
    /// # Errors
    /// `Gone` when the lines are of an epoch that has passed, `NotFound` when the shell marked no command, `TooLarge` when
    /// an alternate screen does not fit an answer, `Invalid` when both lines and the last command are asked for.
    pub fn read(&self, read: &TerminalRead) -> Result<ScreenText, Failure> {
        let (ansi, styled) = (read.ansi == Some(true), read.styled == Some(true));
        self.shared.look(|screen| {
            let seen = screen.get();
            let (kept, epoch, size) = (seen.history(), seen.history_epoch(), screen.size());
            let ids = match (&read.lines, read.last_command == Some(true)) {
                (Some(_), true) => {
                    return Err(Failure::new(Code::Invalid, "either lines are read or the last command's output"));
                }
                (Some(lines), false) => Some(ids_of(lines, epoch, &kept, size.rows)?),
                (None, true) => Some(seen.command_output().ok_or_else(|| {
                    Failure::new(Code::NotFound, "the shell in this terminal has marked no command (OSC 133)")
                })?),
                (None, false) if seen.alternate() => None,
                (None, false) => Some(kept.end..kept.end + u64::from(size.rows)),
            };
            let (mut rows, mut rest) = (Rows::default(), None);
            if let Some(ids) = &ids {
                for id in ids.clone() {
                    let Some((text, _)) = seen.line_text(id, ansi) else {
                        break;
                    };
                    let line = if styled { seen.line(id) } else { None };
                    if !rows.add(text, line) {
                        let numbers = (i64::try_from(id).ok(), i64::try_from(ids.end).ok());
                        rest = Some(LineRange { epoch: Some(epoch), from: numbers.0, to: numbers.1 });
                        break;
                    }
                }
            } else {
                let mut lines = if styled { seen.lines() } else { Vec::new() }.into_iter();
                if !seen.rows(ansi).into_iter().all(|text| rows.add(text, lines.next())) {
                    let message = format!("the screen is larger than the {READ_MAX} bytes of an answer");
                    return Err(Failure::new(Code::TooLarge, message));
                }
            }
            let (cursor_column, cursor_row) = seen.cursor();
            Ok(ScreenText {
                terminal: self.id,
                styled: if styled { Json::of(&rows.styled).ok() } else { None },
                rows: rows.text,
                cursor_column,
                cursor_row,
                size,
                through: screen.through(),
                alternate: seen.alternate(),
                epoch,
                first: kept.start,
                end: kept.end,
                from: ids.map(|ids| ids.start),
                rest,
                status: seen.command_status(),
                digest: format!("{:016x}", seen.digest()),
            })
        })
    }

    /// Waits for one thing. Cancelling it is free.
    ///
    /// # Errors
    /// `Invalid` when not exactly one thing is asked for or the expression cannot be used, `Gone` when the program ended
    /// and what was waited for can no longer come.
    pub async fn wait(&self, wait: &TerminalWait) -> Result<Waited, Failure> {
        let mut matched = None;
        match (&wait.matching, wait.exit == Some(true), wait.idle_ms, wait.prompt == Some(true)) {
            (Some(pattern), false, None, false) => matched = Some(self.wait_for_match(&expression(pattern)?).await?),
            (None, true, None, false) => drop(self.exited().wait_for(Option::is_some).await),
            (None, false, Some(idle), false) => self.wait_for_silence(Duration::from_millis(idle.into())).await,
            (None, false, None, true) => self.wait_for_prompt().await?,
            _ => return Err(Failure::new(Code::Invalid, "exactly one thing is waited for")),
        }
        let exit = self.shared.exit.borrow().clone();
        let (status, through) = self.shared.look(|screen| (screen.get().command_status(), screen.through()));
        Ok(Waited { terminal: self.id, matched, exit: exit.as_ref().map(exit_json), status, through })
    }

    async fn wait_for_silence(&self, silence: Duration) {
        let (mut shown, mut exited) = (self.shared.shown.subscribe(), self.exited());
        loop {
            let quiet = tokio::select! {
                changed = timeout(silence, shown.changed()) => changed.is_err(),
                _ = exited.wait_for(Option::is_some) => true,
            };
            if quiet {
                return;
            }
        }
    }

    async fn wait_for_prompt(&self) -> Result<(), Failure> {
        let mut shown = self.shared.shown.subscribe();
        loop {
            if self.shared.at_prompt() {
                return Ok(());
            }
            self.more(&mut shown).await?;
        }
    }

    async fn wait_for_match(&self, expression: &Regex) -> Result<String, Failure> {
        let mut shown = self.shared.shown.subscribe();
        let mut looked = Looked::default();
        loop {
            shown.mark_unchanged();
            // Whoever sees the end before looking sees all that was ever shown.
            let ended = self.shared.exit.borrow().is_some();
            loop {
                match self.shared.look(|screen| looked.look(screen.get(), expression)) {
                    Look::Found(text) => return Ok(text),
                    Look::More => tokio::task::yield_now().await,
                    Look::Nothing => break,
                }
            }
            if ended {
                return Err(ended_meanwhile());
            }
            self.more(&mut shown).await?;
            sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits for more output, or once for the end.
    async fn more(&self, shown: &mut tokio::sync::watch::Receiver<u64>) -> Result<(), Failure> {
        let mut exited = self.exited();
        tokio::select! {
            biased;
            _ = shown.changed() => Ok(()),
            _ = exited.wait_for(Option::is_some) => match shown.has_changed() {
                // What it showed last is still to be looked at.
                Ok(true) => Ok(()),
                _ => Err(ended_meanwhile()),
            },
        }
    }
}

fn ended_meanwhile() -> Failure {
    Failure::new(Code::Gone, "the terminal ended, and what was waited for did not come")
}

fn expression(pattern: &str) -> Result<Regex, Failure> {
    let invalid = |why: &str| Failure::new(Code::Invalid, format!("'{pattern}' cannot be waited for: {why}"));
    if pattern.len() > PATTERN_MAX {
        let message = format!("an expression of {} bytes is over {PATTERN_MAX}", pattern.len());
        return Err(Failure::new(Code::Invalid, message));
    }
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_COMPILED_MAX).build();
    built.map_err(|error| invalid(error.to_string().lines().last().unwrap_or_default()))
}

/// The ids that a range means, as far as there are such lines.
fn ids_of(lines: &LineRange, epoch: u64, kept: &Range<u64>, rows: u16) -> Result<Range<u64>, Failure> {
    if let Some(asked) = lines.epoch.filter(|asked| *asked != epoch) {
        let message = format!(
            "the lines of epoch {asked} have other ids now: a resize or a clear of the history began epoch {epoch}"
        );
        return Err(Failure::new(Code::Gone, message));
    }
    let id = |number: i64| match u64::try_from(number) {
        Ok(id) => id,
        Err(_) => kept.end.saturating_sub(number.unsigned_abs()),
    };
    let from = lines.from.map_or(kept.start, id).max(kept.start);
    let to = lines.to.map_or(kept.end, id).min(kept.end + u64::from(rows));
    Ok(from..to.max(from))
}

/// Blanks between the text of the cursor's row and the cursor, as behind a prompt: they were written, and are looked for.
fn before_cursor(screen: &keepline_screen::Screen, id: u64) -> String {
    let columns = screen.line(id).map_or(0, |line| line.runs.iter().map(|run| run.columns).sum());
    " ".repeat(usize::from(screen.cursor().0).saturating_sub(columns))
}

/// What a search has looked at.
#[derive(Default)]
struct Looked {
    /// Epoch and id of the line with which the next look begins; nothing before the first one.
    next: Option<(u64, u64)>,
}

enum Look {
    Found(String),
    /// There are more lines than one look takes.
    More,
    Nothing,
}

impl Looked {
    /// Looks at lines that it has not seen whole, and at the screen that is shown.
    fn look(&mut self, screen: &keepline_screen::Screen, expression: &Regex) -> Look {
        let (kept, epoch) = (screen.history(), screen.history_epoch());
        let top = kept.end;
        // In a new epoch the old ids mean nothing: it begins with the screen.
        let begin = self.next.filter(|(of, _)| *of == epoch).map_or(top, |(_, id)| id.max(kept.start));
        let found = |text: &str| expression.find(text).map(|found| found.as_str().to_owned());
        let mut whole = String::new();
        let mut id = begin;
        // Where the text begins that goes on line after line.
        let mut first = begin;
        while let Some((text, goes_on)) = screen.line_text(id, false) {
            whole.push_str(&text);
            if !screen.alternate() && id == top + u64::from(screen.cursor().1) {
                whole.push_str(&before_cursor(screen, id));
            }
            id += 1;
            if goes_on && whole.len() < READ_MAX {
                continue;
            }
            if let Some(text) = found(&whole) {
                return Look::Found(text);
            }
            whole.clear();
            if id <= top {
                first = id;
                if id - begin >= LOOK_LINES {
                    self.next = Some((epoch, id));
                    return Look::More;
                }
            }
        }
        self.next = Some((epoch, first.min(top)));
        let shown = found(&whole).or_else(|| {
            let rows = if screen.alternate() { screen.rows(false) } else { Vec::new() };
            rows.iter().find_map(|row| found(row))
        });
        shown.map_or(Look::Nothing, Look::Found)
    }
}
