//! A terminal's screen in the daemon's terms.
//!
//! [`keepline_screen`] decides what output makes of a screen. Here it meets the protocol's sizes, the bounds of a record,
//! and the graph.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_screen::{Event, Limits, Mark, Occurrence};

use crate::bounds::{SNAPSHOT_HISTORY_MAX, SNAPSHOT_MAX};
use crate::session::{Effects, Ended, Level, Notice};

/// A screen that no output can take down.
pub struct Screen {
    screen: keepline_screen::Screen,
    /// The offset of the first output byte that it does not show.
    through: u64,
}

/// What came of some output.
pub(super) struct Fed {
    /// What the program is answered.
    pub(super) replies: Vec<u8>,
    /// What goes to the graph.
    pub(super) effects: Effects,
    /// Whether the shell waits at a prompt now, if it said anything of that.
    pub(super) prompts: Option<bool>,
}

impl Screen {
    /// An empty screen of this size, cut to the bounds.
    #[must_use]
    pub fn new(size: Size, history: Limits) -> Self {
        Screen { screen: keepline_screen::Screen::new(sized(size), history), through: 0 }
    }

    /// Takes the program's next bytes. No output of a program may end the daemon: when it finds a fault of the screen's,
    /// the screen starts anew, empty.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Fed {
        let first = self.through;
        self.through += bytes.len() as u64;
        let fed = catch_unwind(AssertUnwindSafe(|| self.screen.feed(bytes)));
        let effects = fed.unwrap_or_else(|_| {
            tracing::error!("keepline has a bug: the screen failed and starts anew");
            let (size, limits) = (self.screen.size(), self.screen.limits());
            self.screen = keepline_screen::Screen::new(size, limits);
            keepline_screen::Effects::default()
        });
        let replies = effects.reply_bytes();
        let mut marks = effects.events.iter().filter_map(|occurrence| match occurrence.event {
            Event::Mark(mark) => Some(mark),
            _ => None,
        });
        let prompts = marks.next_back().map(|mark| matches!(mark, Mark::Prompt | Mark::Command));
        let mut effects = gathered(first, effects.events);
        if let Some(command) = &mut effects.command
            && self.screen.command_status() == command.status
        {
            command.epoch = self.screen.history_epoch();
            command.lines = self.screen.command_output();
        }
        Fed { replies, effects, prompts }
    }

    /// Gives the screen another size, cut to the bounds.
    pub(super) fn resize(&mut self, size: Size) {
        self.screen.resize(sized(size));
    }

    /// The screen as it is.
    pub(super) fn get(&self) -> &keepline_screen::Screen {
        &self.screen
    }

    /// The offset of the first output byte that the screen does not show.
    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// The size.
    pub(super) fn size(&self) -> Size {
        let size = self.screen.size();
        Size { cols: size.cols, rows: size.rows, x_pixels: size.x_pixels, y_pixels: size.y_pixels }
    }

    /// Gives memory back that holds nothing.
    pub(super) fn shrink(&mut self) {
        self.screen.shrink();
    }

    /// The screen as VT bytes for a fresh terminal of the same size, after at most `history_lines` lines of history. What
    /// does not fit a record leaves out history, then styles, then rows from the top.
    pub(super) fn snapshot(&self, history_lines: u32) -> Bytes {
        for lines in [history_lines, 0] {
            let vt = self.screen.snapshot_vt(lines as usize, SNAPSHOT_HISTORY_MAX);
            if vt.len() <= SNAPSHOT_MAX {
                return vt.into();
            }
        }
        let rows = self.screen.rows(false);
        let mut left = SNAPSHOT_MAX - 32;
        let fits = |row: &&String| {
            let fits = row.len() + 2 <= left;
            left = left.saturating_sub(row.len() + 2);
            fits
        };
        let kept: Vec<_> = rows.iter().rev().take_while(fits).collect();
        let kept: Vec<_> = kept.into_iter().rev().map(String::as_str).collect();
        let (column, row) = self.screen.cursor();
        let (first, column, row) = (rows.len() - kept.len() + 1, column + 1, row + 1);
        format!("\x1b[{first};1H{}\x1b[{row};{column}H", kept.join("\r\n")).into()
    }
}

/// The size within the bounds.
pub(super) fn fit(size: Size) -> Size {
    let fit = sized(size).fit();
    Size { cols: fit.cols, rows: fit.rows, ..size }
}

fn sized(size: Size) -> keepline_screen::Size {
    keepline_screen::Size { cols: size.cols, rows: size.rows, x_pixels: size.x_pixels, y_pixels: size.y_pixels }
}

/// What of these goes to the graph; `first` is the offset of the first byte that was fed.
fn gathered(first: u64, events: Vec<Occurrence>) -> Effects {
    let mut all = Effects::default();
    for Occurrence { at, event } in events {
        let mut effects = Effects { through: first + at as u64, ..Effects::default() };
        match event {
            Event::Title(title) => effects.title = Some(title),
            Event::Cwd(cwd) => effects.cwd = Some(cwd),
            Event::Bell => effects.notices.push(Notice::bell()),
            Event::Notification { title, body } => effects.notices.push(Notice { title, body, level: Level::Info }),
            Event::Mark(Mark::End(status)) => effects.command = Some(Ended { status, ..Ended::default() }),
            Event::Mark(_) | Event::Clipboard { .. } => continue,
        }
        all.add(effects);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_the_largest_screen_fits_a_record() {
        let mut screen = Screen::new(Size::cells(10_000, 400), Limits::default());
        let mut bytes = String::new();
        for number in 0..200_000 {
            bytes.push_str(&format!("\x1b[38;2;{};3;4m\u{2588}", number % 256));
        }
        bytes.push_str("\x1b[400;1Hthe end");
        for _ in 0..3 {
            screen.feed(bytes.as_bytes());
        }
        let vt = screen.snapshot(1_000);
        assert!(vt.len() <= SNAPSHOT_MAX);
        let mut fresh = Screen::new(screen.size(), Limits::default());
        fresh.feed(&vt);
        assert!(fresh.get().rows(false)[399].ends_with("the end"));
        assert_eq!(fresh.get().cursor(), screen.get().cursor());
    }

    #[test]
    fn side_effects_have_their_offsets() {
        let mut screen = Screen::new(Size::cells(80, 24), Limits::default());
        screen.feed(b"12345");
        let fed = screen.feed(b"\x1b]0;a title\x07\x07\x1b]777;notify;done;all\x07\x1b]7;file:///srv\x07tail");
        let expected = Effects {
            through: 5 + b"\x1b]0;a title\x07\x07\x1b]777;notify;done;all\x07\x1b]7;file:///srv\x07".len() as u64,
            title: Some("a title".to_owned()),
            cwd: Some("/srv".to_owned()),
            command: None,
            notices: vec![
                Notice::bell(),
                Notice { title: "done".to_owned(), body: "all".to_owned(), level: Level::Info },
            ],
        };
        assert_eq!(fed.effects, expected);
    }
}
