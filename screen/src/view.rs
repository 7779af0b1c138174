//! What a screen shows, for those who read it.

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::model::Model;
use crate::row::{Row, Wrap};
use crate::style::Style;
use crate::tables::Tables;
use crate::vt;

/// Text in one style.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The text.
    pub text: String,
    /// Columns that it takes.
    pub columns: usize,
    /// How it looks.
    pub style: Style,
}

/// A row of the screen or a line of history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// From the left, without trailing blanks that have no style.
    pub runs: Vec<Run>,
    /// Whether its text goes on in the next one.
    pub wraps: bool,
}

impl Line {
    /// The text, trailing blanks cut unless it goes on.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text: String = self.runs.iter().map(|run| &run.text[..]).collect();
        if !self.wraps {
            text.truncate(text.trim_end_matches(' ').len());
        }
        text
    }
}

/// What stands in one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glyph {
    /// The text; none in the right half of what takes two columns.
    pub text: String,
    /// Columns that it takes: 1 or 2, 0 in a right half.
    pub columns: usize,
    /// How it looks.
    pub style: Style,
}

pub(crate) fn glyph(cell: Cell, tables: &Tables) -> Glyph {
    let mut text = String::new();
    tables.push_text(cell, &mut text);
    Glyph { text, columns: cell.width(), style: tables.style(cell) }
}

pub(crate) fn line(cells: impl Iterator<Item = Cell>, wrap: Wrap, tables: &Tables) -> Line {
    let mut runs: Vec<Run> = Vec::new();
    let mut pen = None;
    for cell in cells {
        if pen != Some(cell.style()) {
            pen = Some(cell.style());
            runs.push(Run { text: String::new(), columns: 0, style: tables.style(cell) });
        }
        if let Some(run) = runs.last_mut() {
            tables.push_text(cell, &mut run.text);
            run.columns += 1;
        }
    }
    Line { runs, wraps: wrap != Wrap::No }
}

/// The text of these cells, trailing blanks cut; with SGR sequences if `ansi`.
fn text(cells: &[Cell], tables: &Tables, ansi: bool) -> String {
    let content = cells.len() - cells.iter().rev().take_while(|cell| **cell == Cell::BLANK).count();
    if ansi {
        return vt::colored(&cells[..content], tables);
    }
    let mut text = String::new();
    cells[..content].iter().for_each(|cell| tables.push_text(*cell, &mut text));
    text.truncate(text.trim_end_matches(' ').len());
    text
}

impl Model {
    pub(crate) fn rows_as_text(&self, ansi: bool) -> Vec<String> {
        let rows = self.grids[self.shown].iter();
        rows.map(|row| text(&row.cells().collect::<Vec<_>>(), &self.tables, ansi)).collect()
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.grids[self.shown].iter().map(|row| self.line_of(row)).collect()
    }

    fn line_of(&self, row: &Row) -> Line {
        line(row.cells().take(row.content_len()), row.wrap, &self.tables)
    }

    /// The line of history, or row of the main screen, with this id.
    pub(crate) fn line_by_id(&self, id: u64) -> Option<Line> {
        self.with_line(id, |cells, wrap, tables| {
            let content = cells.len() - cells.iter().rev().take_while(|cell| **cell == Cell::BLANK).count();
            line(cells[..content].iter().copied(), wrap, tables)
        })
    }

    /// The text of that line, and whether it goes on in the next one.
    pub(crate) fn text_by_id(&self, id: u64, ansi: bool) -> Option<(String, bool)> {
        self.with_line(id, |cells, wrap, tables| (text(cells, tables, ansi), wrap != Wrap::No))
    }

    fn with_line<R>(&self, id: u64, read: impl FnOnce(&[Cell], Wrap, &Tables) -> R) -> Option<R> {
        let index = usize::try_from(id.checked_sub(self.history.first())?).ok()?;
        let mut cells = Vec::new();
        if let Some(packed) = self.history.line(index) {
            let mut tables = Tables::new();
            packed.unpack(&mut tables, self.columns, &mut cells);
            return Some(read(&cells, packed.wrap(), &tables));
        }
        let row = index - self.history.len();
        (row < self.rows).then(|| {
            let row = &self.grids[0][row];
            cells.extend(row.cells());
            read(&cells, row.wrap, &self.tables)
        })
    }

    /// FNV-1a over what is seen, as `spec/screen.md` lays it out.
    pub(crate) fn digest(&self) -> u64 {
        let mut hash = Fnv::default();
        hash.number(self.columns as u64);
        hash.number(self.rows as u64);
        for row in self.grids[self.shown].iter() {
            let line = self.line_of(row);
            hash.number(line.runs.len() as u64);
            for run in &line.runs {
                let Style { foreground, background, attributes, underline, underline_color, link } = &run.style;
                hash.text(&run.text);
                hash.number(run.columns as u64);
                for color in [foreground, background, underline_color] {
                    hash.number(color.bits().into());
                }
                hash.number(attributes.bits().into());
                hash.number(*underline as u64);
                hash.text(link.as_ref().map_or("", |link| &link.uri));
            }
        }
        hash.number(self.cursor.row as u64);
        hash.number(self.cursor.column as u64);
        hash.0
    }
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}
