//! The cursor's ways, and scrolling.

use crate::cursor::Cursor;
use crate::model::{Margins, Model};
use crate::modes::ModeFlags;
use crate::packed::Packed;
use crate::row::Wrap;

impl Model {
    /// A control character that is no part of a sequence.
    #[inline]
    pub(crate) fn control(&mut self, byte: u8) {
        match byte {
            0x07 => self.event(crate::effects::Event::Bell),
            0x08 => self.back(1),
            0x09 => self.tab_forward(1),
            0x0a..=0x0c => self.line_feed(),
            0x0d => self.carriage_return(),
            0x0e => self.cursor.charsets.active = 1,
            0x0f => self.cursor.charsets.active = 0,
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn line_feed(&mut self) {
        self.index(Wrap::No);
        if self.modes.has(ModeFlags::NEWLINE) {
            self.carriage_return();
        }
    }

    #[inline]
    pub(crate) fn carriage_return(&mut self) {
        let left = self.margins.left;
        self.cursor.pending = false;
        self.cursor.column = if self.cursor.origin || self.cursor.column >= left { left } else { 0 };
    }

    fn within_side_margins(&self) -> bool {
        (self.margins.left..=self.margins.right).contains(&self.cursor.column)
    }

    /// IND: down, scrolling at the bottom margin. The row that is left goes on in the next one as `wrap` says.
    #[inline]
    pub(crate) fn index(&mut self, wrap: Wrap) {
        let row = self.cursor.row;
        self.cursor.pending = false;
        if row == self.margins.bottom {
            if self.within_side_margins() {
                let single = self.margins.top == row;
                if wrap != Wrap::No && single {
                    self.grid()[row].wrap = wrap;
                }
                self.scroll_up(1);
                if wrap != Wrap::No && !single {
                    self.grid()[row - 1].wrap = wrap;
                }
            }
        } else if row + 1 < self.rows {
            if wrap != Wrap::No {
                self.grid()[row].wrap = wrap;
            }
            self.cursor.row = row + 1;
        }
    }

    /// RI: up, scrolling at the top margin.
    pub(crate) fn reverse_index(&mut self) {
        self.cursor.pending = false;
        if self.cursor.row == self.margins.top {
            if self.within_side_margins() {
                self.scroll_down(1);
            }
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    /// The rows between the margins go up. What leaves the top of the main screen is history.
    pub(crate) fn scroll_up(&mut self, count: usize) {
        let Margins { top, bottom, left, right } = self.margins;
        let blank = self.erased();
        if !self.full_width() {
            self.grid().scroll_columns_up(top..bottom + 1, left..right + 1, count, blank);
            return;
        }
        if self.shown == 0 && top == 0 {
            for row in 0..count.min(bottom + 1) {
                let line = Packed::of(&self.grids[0][row], &self.tables);
                self.history.push(line);
            }
        }
        self.grid().scroll_up(top..bottom + 1, count, blank);
    }

    /// The rows between the margins go down.
    pub(crate) fn scroll_down(&mut self, count: usize) {
        let Margins { top, bottom, left, right } = self.margins;
        let blank = self.erased();
        if self.full_width() {
            self.grid().scroll_down(top..bottom + 1, count, blank);
        } else {
            self.grid().scroll_columns_down(top..bottom + 1, left..right + 1, count, blank);
        }
    }

    /// SU and SD: another row comes to be under the cursor.
    pub(crate) fn scroll_under_cursor(&mut self, up: bool, count: usize) {
        if up {
            self.scroll_up(count);
        } else {
            self.scroll_down(count);
        }
        self.settle_pending();
    }

    /// IL and DL: the rows from the cursor's to the bottom margin go down or up.
    pub(crate) fn shift_rows(&mut self, down: bool, count: usize) {
        let Margins { top, bottom, left, right } = self.margins;
        let row = self.cursor.row;
        if !(top..=bottom).contains(&row) || !self.within_side_margins() {
            return;
        }
        let (full, blank) = (self.full_width(), self.erased());
        let (rows, columns) = (row..bottom + 1, left..right + 1);
        let grid = self.grid();
        match (full, down) {
            (true, true) => grid.scroll_down(rows, count, blank),
            (true, false) => grid.scroll_up(rows, count, blank),
            (false, true) => grid.scroll_columns_down(rows, columns, count, blank),
            (false, false) => grid.scroll_columns_up(rows, columns, count, blank),
        }
        self.cursor.column = left;
        self.cursor.pending = false;
    }

    /// ICH and DCH, and for all rows between the margins DECIC, DECDC, SR and SL, from this column.
    pub(crate) fn shift_columns(&mut self, right: bool, count: usize, from: usize, all_rows: bool) {
        let margins = self.margins;
        self.cursor.pending = false;
        let outside = all_rows && !(margins.top..=margins.bottom).contains(&self.cursor.row);
        if outside || !self.within_side_margins() {
            return;
        }
        let rows = if all_rows { margins.top..=margins.bottom } else { self.cursor.row..=self.cursor.row };
        let (to, blank) = (margins.right + 1, self.erased());
        let grid = self.grid();
        for row in rows {
            if right {
                grid[row].insert(from, to, count, blank);
            } else {
                grid[row].delete(from, to, count, blank);
            }
            grid.unwrap(row, to);
        }
    }

    /// CUP in the terms of the origin mode, from 0.
    pub(crate) fn go_to(&mut self, row: usize, column: usize) {
        let Margins { top, bottom, left, right } = self.margins;
        let cursor = &mut self.cursor;
        cursor.pending = false;
        if cursor.origin {
            cursor.row = row.saturating_add(top).min(bottom);
            cursor.column = column.saturating_add(left).min(right);
        } else {
            cursor.row = row.min(self.rows - 1);
            cursor.column = column.min(self.columns - 1);
        }
    }

    /// Row and column of the cursor as [`go_to`](Self::go_to) takes them.
    pub(crate) fn position(&self) -> (usize, usize) {
        let Cursor { row, column, origin, .. } = self.cursor;
        if origin {
            (row.saturating_sub(self.margins.top), column.saturating_sub(self.margins.left))
        } else {
            (row, column)
        }
    }

    pub(crate) fn up(&mut self, count: usize) {
        let row = self.cursor.row;
        let top = if row >= self.margins.top { self.margins.top } else { 0 };
        self.cursor.row = row.saturating_sub(count).max(top);
        self.cursor.pending = false;
    }

    pub(crate) fn down(&mut self, count: usize) {
        let row = self.cursor.row;
        let bottom = if row <= self.margins.bottom { self.margins.bottom } else { self.rows - 1 };
        self.cursor.row = row.saturating_add(count).min(bottom);
        self.cursor.pending = false;
    }

    pub(crate) fn forward(&mut self, count: usize) {
        self.cursor.column = self.cursor.column.saturating_add(count).min(self.right_limit());
        self.cursor.pending = false;
    }

    /// CUB and BS; in reverse wrap mode they go on at the end of the row above, and above the top at the bottom.
    pub(crate) fn back(&mut self, mut count: usize) {
        let reverse = self.modes.has(ModeFlags::REVERSE_WRAP | ModeFlags::AUTOWRAP);
        if reverse && self.cursor.pending {
            count -= 1;
        }
        self.cursor.pending = false;
        loop {
            let column = self.cursor.column;
            let left = if column >= self.margins.left { self.margins.left } else { 0 };
            let step = count.min(column - left);
            self.cursor.column -= step;
            count -= step;
            if count == 0 || !reverse {
                return;
            }
            self.cursor.row = match self.cursor.row {
                row if row == self.margins.top => self.margins.bottom,
                0 => self.rows - 1,
                row => row - 1,
            };
            self.cursor.column = self.margins.right;
            count -= 1;
        }
    }

    pub(crate) fn tab_forward(&mut self, count: usize) {
        for _ in 0..count.min(self.columns) {
            let (column, limit) = (self.cursor.column, self.right_limit());
            let next = (column + 1..limit).find(|column| self.tabs[*column]);
            self.cursor.column = next.unwrap_or(limit);
            if next.is_none() {
                return;
            }
        }
    }

    pub(crate) fn tab_back(&mut self, count: usize) {
        self.cursor.pending = false;
        let left = if self.cursor.origin { self.margins.left } else { 0 };
        for _ in 0..count.min(self.columns) {
            let column = self.cursor.column;
            let next = (left..column).rev().find(|column| self.tabs[*column]);
            self.cursor.column = next.unwrap_or(left.min(column));
        }
    }

    /// DECSTBM, rows from 1; 0 for the first or last.
    pub(crate) fn set_rows(&mut self, top: usize, bottom: usize) {
        let top = top.max(1);
        let bottom = if bottom == 0 { self.rows } else { bottom.min(self.rows) };
        if top < bottom || top == 1 && bottom == self.rows {
            self.margins.top = top - 1;
            self.margins.bottom = bottom - 1;
            self.go_to(0, 0);
        }
    }

    /// DECSLRM, columns from 1; 0 for the first or last.
    pub(crate) fn set_columns(&mut self, left: usize, right: usize) {
        let left = left.max(1);
        let right = if right == 0 { self.columns } else { right.min(self.columns) };
        if left < right {
            self.margins.left = left - 1;
            self.margins.right = right - 1;
            self.go_to(0, 0);
        }
    }

    /// DECSC.
    pub(crate) fn save_cursor(&mut self) {
        self.saved[self.shown] = self.cursor;
    }

    /// DECRC.
    pub(crate) fn restore_cursor(&mut self) {
        let saved = self.saved[self.shown];
        self.cursor = saved;
        self.single_shift = None;
        let cursor = &mut self.cursor;
        cursor.row = cursor.row.min(self.rows - 1);
        cursor.column = cursor.column.min(self.columns - 1);
        if cursor.origin {
            cursor.row = cursor.row.clamp(self.margins.top, self.margins.bottom);
            cursor.column = cursor.column.clamp(self.margins.left, self.margins.right);
        }
        if (cursor.row, cursor.column) != (saved.row, saved.column) {
            cursor.pending = false;
        }
        self.settle_pending();
    }

    /// A cursor waits to wrap only where text wraps, and a row at whose end it waits does not go on yet.
    pub(crate) fn settle_pending(&mut self) {
        self.cursor.pending &= self.cursor.column == self.right_limit();
        if self.cursor.pending {
            let (row, end) = (self.cursor.row, self.cursor.column + 1);
            self.grid().unwrap(row, end);
        }
    }
}
