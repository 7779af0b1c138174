//! What the tests of this module share.

use alacritty_terminal::grid::{Cursor, Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};

use super::rows::{Pen, character, is_wide, wraps};
use super::screen::{Screen, with_main_grid};

/// A small generator of numbers; the same seed gives the same ones.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Everything that a screen is, line by line, as far as a snapshot can say it.
pub(crate) fn describe(screen: &mut Screen) -> Vec<String> {
    let alternate = screen.engine().alternate();
    let mut all = Vec::new();
    if alternate {
        with_main_grid(screen.engine(), |grid| {
            describe_grid(&mut all, "main", grid);
            describe_cursor(&mut all, "main cursor", grid, &grid.cursor);
        });
    }
    let engine = screen.engine();
    let grid = engine.term.grid();
    describe_grid(&mut all, if alternate { "alternate" } else { "main" }, grid);
    describe_cursor(&mut all, "cursor", grid, &grid.cursor);
    describe_cursor(&mut all, "saved", grid, &grid.saved_cursor);
    all.push(format!("modes {:?}", engine.term.mode()));
    let notes = &engine.notes;
    all.push(format!(
        "margins {:?} charset {:?}",
        notes.margins, notes.charset
    ));
    all.push(format!("tabs {:?}", notes.tabs));
    all.push(format!("titles {:?} {:?}", notes.title, notes.titles));
    all.push(format!(
        "keyboard {:?} {}",
        notes.keyboard, notes.modify_other_keys
    ));
    all.push(format!(
        "style {:?} {}",
        notes.cursor_style, notes.synchronized
    ));
    all.push(format!("extra {:?}", notes.modes));
    let colors = engine.term.colors();
    let set = (0..259).filter_map(|index| Some((index, colors[index]?)));
    all.push(format!("palette {:?}", set.collect::<Vec<_>>()));
    // The engine numbers links that have no id of their own.
    all.iter()
        .map(|line| line.split("_alacritty").map(without_number).collect())
        .collect()
}

fn without_number(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn describe_grid(all: &mut Vec<String>, name: &str, grid: &Grid<Cell>) {
    for line in grid.topmost_line().0..=grid.bottommost_line().0 {
        let row = &grid[Line(line)];
        let mut text = format!("{name} {line}: ");
        let mut pen = Pen::default();
        for column in 0..row.len() {
            let cell = &row[Column(column)];
            // The place that a wide character left free has that one's pen, or had.
            let free = cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
                && line < grid.bottommost_line().0
                && is_wide(&grid[Line(line + 1)], 0);
            if !free && Pen::of(cell) != pen {
                pen = Pen::of(cell);
                text.push_str(&format!("<{pen:?}>"));
            }
            let second_half = column > 0 && is_wide(row, column - 1);
            text.push(if second_half {
                '·'
            } else {
                character(row, column)
            });
            text.extend(cell.zerowidth().into_iter().flatten());
        }
        if wraps(row) && !wrap_is_lost(grid, line) {
            text.push_str(" wraps");
        }
        all.push(text);
    }
}

/// Whether a snapshot cannot say that this line wraps: at the bottom, or where a cursor waits to wrap, for which the last
/// character is written again.
pub(crate) fn wrap_is_lost(grid: &Grid<Cell>, line: i32) -> bool {
    let waits = |cursor: &Cursor<Cell>| cursor.input_needs_wrap && cursor.point.line == line;
    line == grid.bottommost_line().0 || waits(&grid.cursor) || waits(&grid.saved_cursor)
}

/// Whether a half of a wide character stands alone.
pub(crate) fn has_broken_halves(grid: &Grid<Cell>) -> bool {
    let broken = |row: &Row<Cell>, column: usize| {
        let flags = row[Column(column)].flags;
        flags.contains(Flags::WIDE_CHAR) && !is_wide(row, column)
            || flags.contains(Flags::WIDE_CHAR_SPACER) && (column == 0 || !is_wide(row, column - 1))
    };
    (grid.topmost_line().0..=grid.bottommost_line().0)
        .map(|line| &grid[Line(line)])
        .any(|row| (0..row.len()).any(|column| broken(row, column)))
}

fn describe_cursor(all: &mut Vec<String>, name: &str, grid: &Grid<Cell>, cursor: &Cursor<Cell>) {
    let waits = cursor.input_needs_wrap && cursor.point.column == grid.last_column();
    let pen = Pen::of(&cursor.template);
    all.push(format!(
        "{name} {:?} {pen:?} {:?} waits {waits}",
        cursor.point, cursor.charsets
    ));
}
