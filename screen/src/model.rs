//! All that a terminal is between two sequences. What changes it is in the modules that go on with `impl Model`: text in
//! [`print`](crate::print), the cursor and scrolling in [`motion`](crate::motion), erasing and shifting in
//! [`edit`](crate::edit), sequences in [`dispatch`](crate::dispatch) and [`strings`](crate::strings), sizes in
//! [`resize`](crate::resize).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds::TITLE_STACK_MAX;
use crate::cell::Cell;
use crate::cursor::Cursor;
use crate::effects::{Effects, Event, Occurrence, Reply};
use crate::grid::Grid;
use crate::history::{History, Limits};
use crate::modes::{ModeFlags, Modes};
use crate::palette::Rgb;
use crate::tables::Tables;

/// Rows and columns within which scrolling, and in origin mode the cursor, stays; all of them inclusive, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Margins {
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
}

/// A line by its id, and a column of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: usize,
}

/// Where the shell's last marks were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks {
    /// Where the last command's output began.
    pub(crate) output: Option<Place>,
    /// Where it ended, if it has.
    pub(crate) end: Option<Place>,
    pub(crate) status: Option<i32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// Width and height in pixels, zero when not known.
    pub(crate) pixels: (u16, u16),
    /// The main and the alternate buffer.
    pub(crate) grids: [Grid; 2],
    /// Which of them is shown.
    pub(crate) shown: usize,
    pub(crate) history: History,
    pub(crate) tables: Tables,
    pub(crate) cursor: Cursor,
    /// G2 or G3 for the next character only.
    pub(crate) single_shift: Option<u8>,
    /// What DECSC saved, by buffer.
    pub(crate) saved: [Cursor; 2],
    pub(crate) modes: Modes,
    pub(crate) margins: Margins,
    /// Per column, whether a tab stops there.
    pub(crate) tabs: Vec<bool>,
    /// What REP repeats.
    pub(crate) printed: Option<char>,
    /// Empty for none.
    pub(crate) title: String,
    pub(crate) titles: Vec<String>,
    pub(crate) cwd: Option<String>,
    /// Keyboard flags of the kitty protocol, by buffer; the last entry is in force, the first is never popped.
    pub(crate) keyboard: [Vec<u8>; 2],
    pub(crate) modify_other_keys: u8,
    /// Colours that were set, by number as in [`palette`](crate::palette).
    pub(crate) palette: BTreeMap<u16, Rgb>,
    pub(crate) marks: Marks,
    pub(crate) effects: Effects,
    /// Bytes of what is being fed up to the end of the sequence that is being carried out.
    pub(crate) at: usize,
}

/// The default tab stops of these columns.
pub(crate) fn default_tabs(columns: std::ops::Range<usize>) -> impl Iterator<Item = bool> {
    columns.map(|column| column % 8 == 0)
}

impl Model {
    pub(crate) fn new(columns: usize, rows: usize, limits: Limits) -> Self {
        Model {
            columns,
            rows,
            pixels: (0, 0),
            grids: [Grid::new(columns, rows), Grid::new(columns, rows)],
            shown: 0,
            history: History::new(limits),
            tables: Tables::new(),
            cursor: Cursor::default(),
            single_shift: None,
            saved: [Cursor::default(); 2],
            modes: Modes::default(),
            margins: Margins::all(columns, rows),
            tabs: default_tabs(0..columns).collect(),
            printed: None,
            title: String::new(),
            titles: Vec::new(),
            cwd: None,
            keyboard: [vec![0], vec![0]],
            modify_other_keys: 0,
            palette: BTreeMap::new(),
            marks: Marks::default(),
            effects: Effects::default(),
            at: 0,
        }
    }

    /// RIS: all anew but the size, the working directory and what is on its way out.
    pub(crate) fn reset(&mut self) {
        let mut fresh = Model::new(self.columns, self.rows, self.history.limits);
        fresh.pixels = self.pixels;
        fresh.history.begin(self.history.epoch, 0, []);
        fresh.cwd = self.cwd.take();
        fresh.effects = std::mem::take(&mut self.effects);
        fresh.at = self.at;
        let titled = !self.title.is_empty();
        let cleared = self.history.end() > 0;
        let history = &mut fresh.history;
        history.epoch += u64::from(cleared);
        *self = fresh;
        if titled {
            self.event(Event::Title(String::new()));
        }
    }

    /// DECSTR.
    pub(crate) fn soft_reset(&mut self) {
        let keep = self.cursor;
        self.cursor = Cursor { row: keep.row, column: keep.column, pending: keep.pending, ..Cursor::default() };
        self.saved[self.shown] = Cursor::default();
        self.single_shift = None;
        self.margins = Margins::all(self.columns, self.rows);
        let off = ModeFlags::CURSOR_KEYS
            | ModeFlags::KEYPAD
            | ModeFlags::INSERT
            | ModeFlags::SIDE_MARGINS
            | ModeFlags::REVERSE_WRAP;
        self.modes.flags -= off;
        self.modes.flags |= ModeFlags::CURSOR_VISIBLE | ModeFlags::AUTOWRAP;
        self.settle_pending();
    }

    pub(crate) fn grid(&mut self) -> &mut Grid {
        &mut self.grids[self.shown]
    }

    pub(crate) fn keyboard_stack(&mut self) -> &mut Vec<u8> {
        &mut self.keyboard[self.shown]
    }

    /// What erasing leaves.
    pub(crate) fn erased(&self) -> Cell {
        self.cursor.pen.erased()
    }

    /// Whether the margins leave all columns free.
    pub(crate) fn full_width(&self) -> bool {
        self.margins.left == 0 && self.margins.right + 1 == self.columns
    }

    /// The column at which text written at the cursor wraps.
    pub(crate) fn right_limit(&self) -> usize {
        if self.cursor.column <= self.margins.right { self.margins.right } else { self.columns - 1 }
    }

    pub(crate) fn reply(&mut self, bytes: impl Into<Vec<u8>>) {
        self.effects.replies.push(Reply { at: self.at, bytes: bytes.into() });
    }

    pub(crate) fn event(&mut self, event: Event) {
        if event == Event::Bell
            && let Some(last) = self.effects.events.last_mut()
            && last.event == Event::Bell
        {
            last.at = self.at;
            return;
        }
        self.effects.events.push(Occurrence { at: self.at, event });
    }

    pub(crate) fn set_title(&mut self, title: String) {
        if title != self.title {
            self.title.clone_from(&title);
            self.event(Event::Title(title));
        }
    }

    pub(crate) fn push_title(&mut self) {
        if self.titles.len() == TITLE_STACK_MAX {
            self.titles.remove(0);
        }
        self.titles.push(self.title.clone());
    }

    pub(crate) fn pop_title(&mut self) {
        if let Some(title) = self.titles.pop() {
            self.set_title(title);
        }
    }

    /// Makes room in the tables when they are full of what nothing has any more.
    pub(crate) fn collect(&mut self) {
        if !self.tables.want_collection() {
            return;
        }
        let rows = self.grids.iter().flat_map(Grid::iter);
        let styled = rows.filter(|row| row.plain().is_none());
        let pens = [self.cursor.pen, self.saved[0].pen, self.saved[1].pen];
        self.tables.collect(styled.flat_map(|row| row.cells()).chain(pens));
    }

    /// The place of the cursor as marks name it.
    pub(crate) fn place(&self) -> Place {
        Place { line: self.history.end() + self.cursor.row as u64, column: self.cursor.column }
    }
}

impl Margins {
    pub(crate) fn all(columns: usize, rows: usize) -> Self {
        Margins { top: 0, bottom: rows - 1, left: 0, right: columns - 1 }
    }
}
