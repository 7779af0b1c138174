//! What a consumer's screen shows: its bytes, fed to a terminal engine.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::Processor;

/// A screen at one moment.
#[derive(PartialEq)]
pub struct Screen {
    /// Row by row.
    pub cells: Vec<Vec<Cell>>,
    /// Where the cursor is.
    pub cursor: Point,
    /// The modes.
    pub modes: TermMode,
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
        let lines = 0..i32::try_from(rows).expect("a screen is small");
        let row = |line| {
            (0..cols)
                .map(|column| term.grid()[Line(line)][Column(column)].clone())
                .collect()
        };
        Screen {
            cells: lines.map(row).collect(),
            cursor: term.grid().cursor.point,
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

    /// The first difference from `other`, in words.
    pub fn difference(&self, other: &Screen) -> Option<String> {
        for (line, (left, right)) in self.cells.iter().zip(&other.cells).enumerate() {
            for (column, (left, right)) in left.iter().zip(right).enumerate() {
                if left != right {
                    return Some(format!(
                        "row {line} column {column}: {left:?} and {right:?}"
                    ));
                }
            }
        }
        if self.cursor != other.cursor {
            return Some(format!("cursor {:?} and {:?}", self.cursor, other.cursor));
        }
        let modes = (self.modes != other.modes).then_some((self.modes, other.modes));
        modes.map(|(left, right)| format!("modes {left:?} and {right:?}"))
    }
}
