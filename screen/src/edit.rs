//! Erasing, filling, copying, and the change between the two buffers.

use std::ops::Range;

use crate::cell::Cell;
use crate::model::{Margins, Model};

impl Model {
    fn erase(&mut self, row: usize, columns: Range<usize>, selected: bool) {
        let blank = self.erased();
        let grid = self.grid();
        if selected {
            grid[row].erase_selected(columns.start, columns.end);
            grid.unwrap(row, columns.end);
        } else {
            grid.erase(row, columns, blank);
        }
    }

    /// ED and DECSED.
    pub(crate) fn erase_display(&mut self, what: u16, selected: bool) {
        let row = self.cursor.row;
        let rows = match what {
            0 => {
                self.erase_line(0, selected);
                row + 1..self.rows
            }
            1 => {
                self.erase_line(1, selected);
                0..row
            }
            2 => 0..self.rows,
            3 if !selected => return self.clear_history(),
            _ => return,
        };
        for row in rows {
            self.erase(row, 0..self.columns, selected);
        }
    }

    /// EL and DECSEL.
    pub(crate) fn erase_line(&mut self, what: u16, selected: bool) {
        let column = self.cursor.column;
        let columns = match what {
            0 => {
                self.cursor.pending = false;
                column..self.columns
            }
            1 => 0..column + 1,
            2 => 0..self.columns,
            _ => return,
        };
        self.erase(self.cursor.row, columns, selected);
    }

    /// ECH.
    pub(crate) fn erase_characters(&mut self, count: usize) {
        self.cursor.pending = false;
        let column = self.cursor.column;
        let end = column.saturating_add(count).min(self.columns);
        self.erase(self.cursor.row, column..end, false);
    }

    fn clear_history(&mut self) {
        if self.history.len() > 0 {
            let offset = self.history.end();
            self.history.begin(self.history.epoch + 1, 0, []);
            // Lines of the screen are counted from here on.
            let moved = |place: &mut Option<crate::model::Place>| {
                if let Some(at) = place {
                    match at.line.checked_sub(offset) {
                        Some(line) => at.line = line,
                        None => *place = None,
                    }
                }
            };
            moved(&mut self.marks.output);
            moved(&mut self.marks.end);
        }
    }

    /// DECALN.
    pub(crate) fn fill_with_e(&mut self) {
        self.margins = Margins::all(self.columns, self.rows);
        self.cursor.origin = false;
        self.go_to(0, 0);
        let (columns, rows) = (self.columns, self.rows);
        let grid = self.grid();
        for row in 0..rows {
            grid[row].set_text(&vec![b'E'; columns]);
            grid.unwrap(row, columns);
        }
    }

    /// The rows and columns of a rectangle, given from 1 as the program counts them; 0 for the first or last.
    pub(crate) fn rectangle(&self, numbers: [usize; 4]) -> Option<(Range<usize>, Range<usize>)> {
        let all = Margins::all(self.columns, self.rows);
        let within = if self.cursor.origin { self.margins } else { all };
        let first = |number: usize, from: usize| from + number.max(1) - 1;
        let last = |number: usize, from: usize, to: usize| {
            if number == 0 { to + 1 } else { from.saturating_add(number).min(to + 1) }
        };
        let [top, left, bottom, right] = numbers;
        let rows = first(top, within.top)..last(bottom, within.top, within.bottom);
        let columns = first(left, within.left)..last(right, within.left, within.right);
        (rows.start < rows.end && columns.start < columns.end).then_some((rows, columns))
    }

    /// DECERA and DECSERA.
    pub(crate) fn erase_rectangle(&mut self, numbers: [usize; 4], selected: bool) {
        if let Some((rows, columns)) = self.rectangle(numbers) {
            for row in rows {
                self.erase(row, columns.clone(), selected);
            }
        }
    }

    /// DECFRA.
    pub(crate) fn fill_rectangle(&mut self, c: u8, numbers: [usize; 4]) {
        let cell = self.cursor.pen.with_ascii(c);
        if let Some((rows, columns)) = self.rectangle(numbers) {
            let cells = vec![cell; columns.len()];
            let grid = self.grid();
            for row in rows {
                grid[row].copy_columns(columns.start, &cells);
                grid.unwrap(row, columns.end);
            }
        }
    }

    /// DECCRA: the rectangle's copy begins at this row and column.
    pub(crate) fn copy_rectangle(&mut self, numbers: [usize; 4], row: usize, column: usize) {
        let (Some((rows, columns)), Some((to_rows, to_columns))) =
            (self.rectangle(numbers), self.rectangle([row, column, 0, 0]))
        else {
            return;
        };
        let width = columns.len().min(to_columns.len());
        let grid = self.grid();
        let copies: Vec<Vec<Cell>> =
            rows.map(|row| grid[row].cells_between(columns.start, columns.start + width)).collect();
        for (row, cells) in to_rows.zip(copies) {
            grid[row].copy_columns(to_columns.start, &cells);
            grid.unwrap(row, to_columns.start + width);
        }
    }

    /// Shows the alternate buffer or the main one.
    pub(crate) fn show(&mut self, alternate: bool) {
        self.shown = usize::from(alternate);
        self.settle_pending();
    }

    /// Modes 47, 1047 and 1049.
    pub(crate) fn set_alternate(&mut self, mode: u16, on: bool) {
        if on {
            if mode == 1049 {
                self.save_cursor();
            }
            self.show(true);
            if mode == 1049 {
                self.erase_display(2, false);
            }
        } else {
            if self.shown == 1 && mode != 47 {
                // Who comes back with 47 would see what was left; with the others it is cleared anyway.
                self.grids[1].clear();
            }
            self.show(false);
            if mode == 1049 {
                self.restore_cursor();
            }
        }
    }
}
