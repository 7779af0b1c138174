//! What a consumer's screen shows: its bytes, fed to a terminal engine.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, Processor};

/// A screen at one moment.
#[derive(Clone, PartialEq)]
pub struct Screen {
    /// The lines that scrolled off the top, oldest first; none while the alternate screen is shown.
    pub history: Vec<Vec<Cell>>,
    /// Row by row.
    pub cells: Vec<Vec<Cell>>,
    /// Where the cursor is.
    pub cursor: Point,
    /// The modes.
    pub modes: TermMode,
}

/// A cell whose first sixteen colours have no names: SGR 34 and SGR 38;5;4 are the same colour (spec/screen.md).
fn by_index(mut cell: Cell) -> Cell {
    for color in [&mut cell.fg, &mut cell.bg] {
        if let Color::Named(name) = *color
            && let index @ 0..16 = name as usize
        {
            *color = Color::Indexed(u8::try_from(index).expect("below 16"));
        }
    }
    cell
}

struct Size {
    cols: usize,
    rows: usize,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }
    fn screen_lines(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.cols
    }
}

impl Screen {
    /// What a fresh terminal shows after `bytes`.
    pub fn after(bytes: &[u8], cols: usize, rows: usize) -> Self {
        let size = Size { cols, rows };
        let mut term = Term::new(Config::default(), &size, VoidListener);
        let mut parser: Processor = Processor::new();
        parser.advance(&mut term, bytes);
        let grid = term.grid();
        let row = |line| (0..cols).map(|column| by_index(grid[Line(line)][Column(column)].clone())).collect();
        Screen {
            history: (grid.topmost_line().0..0).map(row).collect(),
            cells: (0..=grid.bottommost_line().0).map(row).collect(),
            cursor: grid.cursor.point,
            modes: *term.mode(),
        }
    }

    /// The rows' text, trailing blanks cut.
    pub fn rows(&self) -> Vec<String> {
        self.cells
            .iter()
            .map(|row| {
                let text: String = row.iter().map(|cell| cell.c).collect();
                text.trim_end().to_owned()
            })
            .collect()
    }

    /// Whether the alternate screen is shown.
    pub fn is_alternate(&self) -> bool {
        self.modes.contains(TermMode::ALT_SCREEN)
    }

    /// The screen as `terminal read --ansi` can show it: without history, cursor, modes and links, and without the
    /// marks of where a row goes on in the next one.
    #[must_use]
    pub fn as_read(mut self) -> Self {
        self.history.clear();
        self.cursor = Point::default();
        self.modes = TermMode::default();
        for cell in self.cells.iter_mut().flatten() {
            cell.flags.remove(Flags::WRAPLINE);
            cell.set_hyperlink(None);
        }
        self
    }

    /// The first difference from `other`, in words.
    pub fn difference(&self, other: &Screen) -> Option<String> {
        let lines = (self.history.len(), other.history.len());
        let parts = [("history", &self.history, &other.history), ("row", &self.cells, &other.cells)];
        let cells = parts.into_iter().find_map(|(what, left, right)| {
            let rows = left.iter().zip(right).enumerate();
            let mut cells = rows.flat_map(|(row, (left, right))| {
                let columns = left.iter().zip(right).enumerate();
                columns.map(move |(column, (left, right))| (row, column, left, right))
            });
            let (row, column, left, right) = cells.find(|(_, _, left, right)| left != right)?;
            Some(format!("{what} {row} column {column}: {left:?} and {right:?}"))
        });
        let differs = |differs, text| bool::then(differs, || text);
        cells
            .or_else(|| differs(lines.0 != lines.1, format!("lines of history {lines:?}")))
            .or_else(|| {
                let cursors = (self.cursor, other.cursor);
                differs(cursors.0 != cursors.1, format!("cursors {cursors:?}"))
            })
            .or_else(|| {
                let modes = (self.modes, other.modes);
                differs(modes.0 != modes.1, format!("modes {modes:?}"))
            })
    }
}
