//! The one type for the engine: bytes and sizes go in, and what the screen is comes out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::Term;
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::vte::ansi::{Handler, KeyboardModesApplyBehavior, Processor, Timeout};
use bytes::Bytes;
use keepline_protocol::api::Size;

use super::engine::{Cells, Engine, Replies};
use super::ground::{Ground, open_character};
use super::{rows, snapshot};
use crate::bounds::{
    CELLS_MAX, COLUMNS_MIN, HISTORY_CELLS_MAX, HISTORY_LINES_MAX, SEQUENCE_MAX, SIDE_MAX,
};

/// What a program's output asks for besides the screen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Answers to the program's queries, to be written to the PTY.
    pub replies: Vec<u8>,
    /// The title, when it changed; empty for none.
    pub title: Option<String>,
    /// How often the bell rang.
    pub bells: u32,
}

/// A synchronized update holds nothing back: attachments get the bytes as they come.
#[derive(Default)]
struct NeverHeld;

impl Timeout for NeverHeld {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

/// What a terminal shows.
///
/// The engine only ever gets whole sequences and characters, so that its state is exactly that after
/// [`through`](Self::through) bytes and can be written down. What is not whole yet is held back.
pub struct Screen {
    engine: Engine,
    parser: Processor<NeverHeld>,
    ground: Ground,
    held: Vec<u8>,
    /// A sequence longer than its bound is under way and is being dropped.
    dropping: bool,
    through: u64,
    size: Size,
}

impl Screen {
    /// An empty screen of this size, cut to the bounds.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let size = fit(size);
        let mut engine = Engine::new(size.into(), history_lines(size));
        engine.pixels = (size.x_pixels, size.y_pixels);
        Screen {
            engine,
            parser: Processor::new(),
            ground: Ground::new(),
            held: Vec::new(),
            dropping: false,
            through: 0,
            size,
        }
    }

    /// The offset of the first output byte that the screen does not show.
    #[must_use]
    pub fn through(&self) -> u64 {
        self.through
    }

    /// The size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// The title, empty for none.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.engine.notes.title
    }

    /// Column and row of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        let point = self.engine.term.grid().cursor.point;
        let narrow = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        (
            narrow(point.column.0),
            narrow(usize::try_from(point.line.0).unwrap_or(0)),
        )
    }

    /// The rows from the top, trailing blanks cut; with SGR sequences if `ansi`.
    #[must_use]
    pub fn rows(&self, ansi: bool) -> Vec<String> {
        let grid = self.engine.term.grid();
        (0..grid.screen_lines())
            .map(|row| &grid[Line::from(row)])
            .map(|row| {
                if ansi {
                    rows::colored(row)
                } else {
                    rows::plain(row)
                }
            })
            .collect()
    }

    /// Takes the program's next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Effects {
        if self.dropping {
            let Some(end) = self.ground.leave(bytes) else {
                self.through += bytes.len() as u64;
                return Effects::default();
            };
            self.dropping = false;
            self.through += end as u64;
            bytes = &bytes[end..];
        }
        if let Some(whole) = self.ground.advance(bytes) {
            if self.held.is_empty() {
                self.parse(&bytes[..whole]);
            } else {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(&bytes[..whole]);
                self.parse(&held);
            }
            bytes = &bytes[whole..];
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > SEQUENCE_MAX {
            self.through += self.held.len() as u64;
            self.held = Vec::new();
            self.dropping = true;
        }
        self.effects()
    }

    /// Gives the screen another size, cut to the bounds.
    pub fn resize(&mut self, size: Size) {
        let size = fit(size);
        self.size = size;
        self.engine.pixels = (size.x_pixels, size.y_pixels);
        self.guard(|screen| screen.engine.resize(size.into(), history_lines(size)));
    }

    /// The screen as VT bytes for a fresh terminal of the same size: `history_lines` lines of history at most, as far as
    /// they fit `history_max` bytes, then the screen. The bytes ask nothing of the terminal that they are given to.
    #[must_use]
    pub fn snapshot(&mut self, history_lines: u32, history_max: usize) -> Bytes {
        let stand_in = if self.dropping {
            self.ground.stand_in()
        } else {
            b""
        };
        let mut vt = snapshot::encode(&mut self.engine, history_lines as usize, history_max);
        vt.extend_from_slice(stand_in);
        vt.into()
    }

    fn parse(&mut self, whole: &[u8]) {
        self.through += whole.len() as u64;
        self.guard(|screen| {
            screen.parser.advance(&mut screen.engine, whole);
            if open_character(whole) > 0 {
                // What follows breaks the last character off. The parser would wait to see that; NUL does nothing else.
                screen.parser.advance(&mut screen.engine, b"\0");
            }
        });
    }

    /// Runs the engine. No output of a program may end the daemon, and the engine is somebody else's code: when it
    /// panics, the screen starts anew, empty.
    fn guard(&mut self, run: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| run(self))).is_err() {
            tracing::error!("the terminal engine failed; the screen starts anew");
            self.engine = Engine::new(self.size.into(), history_lines(self.size));
            self.engine.pixels = (self.size.x_pixels, self.size.y_pixels);
            self.parser = Processor::new();
        }
    }

    fn effects(&mut self) -> Effects {
        let notes = &mut self.engine.notes;
        let title = std::mem::take(&mut notes.title_changed).then(|| notes.title.clone());
        Effects {
            replies: self.engine.replies.take(),
            title,
            bells: std::mem::take(&mut notes.bells),
        }
    }

    #[cfg(test)]
    pub(super) fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

/// Shows `look` the main screen's grid while the alternate screen is active. The engine hides the inactive grid, so the
/// two are swapped and swapped back around it.
pub(super) fn with_main_grid<R>(engine: &mut Engine, look: impl FnOnce(&Grid<Cell>) -> R) -> R {
    let keyboard = engine.keyboard_modes();
    let term: &mut Term<Replies> = &mut engine.term;
    // Swapping resets the alternate grid, so that one is taken out and a tiny one stands in for it.
    let alternate = std::mem::replace(term.grid_mut(), Grid::new(1, usize::from(COLUMNS_MIN), 0));
    term.swap_alt();
    let result = look(term.grid());
    term.swap_alt();
    *term.grid_mut() = alternate;
    Handler::set_keyboard_mode(term, keyboard, KeyboardModesApplyBehavior::Replace);
    result
}

/// The size within the bounds.
pub(super) fn fit(size: Size) -> Size {
    let cols = size.cols.clamp(COLUMNS_MIN, SIDE_MAX);
    let rows_max = u16::try_from(CELLS_MAX / usize::from(cols))
        .unwrap_or(u16::MAX)
        .min(SIDE_MAX);
    Size {
        cols,
        rows: size.rows.clamp(1, rows_max),
        ..size
    }
}

fn history_lines(size: Size) -> usize {
    (HISTORY_CELLS_MAX / Cells::from(size).columns).min(HISTORY_LINES_MAX)
}
