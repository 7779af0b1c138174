//! Text: characters become cells at the cursor.

use std::sync::Arc;

use crate::bounds::CLUSTER_MAX;
use crate::cell::Cell;
use crate::cursor::Charset;
use crate::model::Model;
use crate::modes::ModeFlags;
use crate::row::Wrap;
use crate::width::{char_width, cluster_width, joins, stands_alone};

impl Model {
    /// Prints ASCII characters from 0x20 to 0x7e.
    #[inline]
    pub(crate) fn print_ascii(&mut self, mut run: &[u8]) {
        let charsets = &self.cursor.charsets;
        if self.single_shift.is_some()
            || charsets.set(charsets.active) != Charset::Ascii
            || self.modes.has(ModeFlags::INSERT)
        {
            run.iter().for_each(|byte| self.print(char::from(*byte)));
            return;
        }
        while let Some(last) = run.last() {
            self.printed = Some(char::from(*last));
            self.leave_pending();
            let column = self.cursor.column;
            let limit = self.right_limit() + 1;
            let (now, rest) = run.split_at(run.len().min(limit - column));
            let end = column + now.len();
            let row = &mut self.grids[self.shown][self.cursor.row];
            row.write_ascii(column, now, self.cursor.pen);
            if end >= self.columns {
                row.wrap = Wrap::No;
            }
            self.cursor.pending = end == limit;
            self.cursor.column = end.min(limit - 1);
            // Without wrapping only the last character stays in the last column.
            run = if rest.is_empty() || self.modes.has(ModeFlags::AUTOWRAP) { rest } else { &rest[rest.len() - 1..] };
        }
    }

    /// Prints characters that take two columns each and stand alone.
    pub(crate) fn print_wide(&mut self, mut run: &[char]) {
        self.single_shift = None;
        while let Some(first) = run.first() {
            let limit = self.right_limit() + 1;
            let room = (limit - self.cursor.column) / 2;
            if self.cursor.pending || room == 0 || self.modes.has(ModeFlags::INSERT) {
                self.place_char(*first);
                run = &run[1..];
                continue;
            }
            let (now, rest) = run.split_at(run.len().min(room));
            let column = self.cursor.column;
            let end = column + 2 * now.len();
            let row = &mut self.grids[self.shown][self.cursor.row];
            row.write_wide(column, now, self.cursor.pen);
            if end >= self.columns {
                row.wrap = Wrap::No;
            }
            self.printed = now.last().copied();
            self.cursor.pending = end == limit;
            self.cursor.column = end.min(limit - 1);
            run = rest;
        }
    }

    /// Prints one character.
    #[inline]
    pub(crate) fn print(&mut self, c: char) {
        let charsets = &self.cursor.charsets;
        let set = self.single_shift.take().unwrap_or(charsets.active);
        self.place_char(if c.is_ascii() { charsets.set(set).map(c) } else { c });
    }

    fn place_char(&mut self, c: char) {
        if !stands_alone(c) && self.join(c) {
            return;
        }
        let width = char_width(c);
        if width > 0 {
            self.printed = Some(c);
            self.put(self.cursor.pen.with_char(c, width == 2));
        }
    }

    /// REP: prints the last character again.
    pub(crate) fn repeat(&mut self, count: usize) {
        let Some(c) = self.printed else {
            return;
        };
        // More only overwrites and scrolls away.
        for _ in 0..count.min(self.columns * self.rows) {
            self.place_char(c);
        }
    }

    /// Wraps if the character before filled the row.
    #[inline]
    fn leave_pending(&mut self) {
        if self.cursor.pending {
            if self.modes.has(ModeFlags::AUTOWRAP) {
                self.wrap(Wrap::Full);
            }
            self.cursor.pending = false;
        }
    }

    fn wrap(&mut self, wrap: Wrap) {
        let wrap = if self.full_width() { wrap } else { Wrap::No };
        self.index(wrap);
        self.cursor.column = self.margins.left;
        self.cursor.pending = false;
    }

    fn put(&mut self, cell: Cell) {
        let width = cell.width();
        self.leave_pending();
        let mut limit = self.right_limit() + 1;
        if self.cursor.column + width > limit {
            // The last column is too little for a wide character.
            if self.modes.has(ModeFlags::AUTOWRAP) {
                let row = self.cursor.row;
                self.grid().erase(row, limit - 1..limit, Cell::BLANK);
                self.wrap(Wrap::Short);
                limit = self.right_limit() + 1;
            } else {
                self.cursor.column = limit - width;
            }
        }
        let (column, blank) = (self.cursor.column, self.erased());
        let insert = self.modes.has(ModeFlags::INSERT);
        let end = column + width;
        let row = &mut self.grids[self.shown][self.cursor.row];
        if insert {
            row.insert(column, limit, width, blank);
        }
        row.put(column, cell);
        if end >= self.columns || insert && limit >= self.columns {
            row.wrap = Wrap::No;
        }
        self.cursor.pending = end >= limit;
        self.cursor.column = end.min(limit - 1);
    }

    /// Adds the character to the cell before the cursor if it belongs to it.
    fn join(&mut self, c: char) -> bool {
        let pending = self.cursor.pending;
        let row = self.cursor.row;
        let Some(mut at) = (self.cursor.column + usize::from(pending)).checked_sub(1) else {
            return false;
        };
        let mut cell = self.grid()[row].cell(at);
        if cell.is_spacer() {
            at -= 1;
            cell = self.grid()[row].cell(at);
        }
        let mut text = String::new();
        self.tables.push_text(cell, &mut text);
        if !joins(&text, c) {
            return false;
        }
        if text.len() + c.len_utf8() > CLUSTER_MAX {
            return true;
        }
        text.push(c);
        self.collect();
        let Some(cluster) = self.tables.clusters.intern(Arc::from(&text[..])) else {
            return true;
        };
        let widened = !cell.is_wide() && cluster_width(&text) == 2;
        let cell = cell.with_cluster(cluster, cell.is_wide() || widened);
        if !widened {
            self.grid()[row].replace(at, cell);
        } else if !pending {
            let limit = self.right_limit() + 1;
            let grid = self.grid();
            grid[row].put(at, cell);
            grid.unwrap(row, at + 2);
            self.cursor.pending = at + 2 == limit;
            self.cursor.column = (at + 2).min(self.columns - 1);
            if self.cursor.pending {
                self.cursor.column = limit - 1;
            }
        } else {
            // It no longer fits where it stands.
            self.cursor.pending = false;
            self.put(cell);
        }
        true
    }
}
