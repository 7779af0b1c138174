//! One row of a buffer: plain text as bytes, or cells once it has styles or other than ASCII characters. What was never
//! written costs nothing.

use crate::cell::Cell;
use crate::style::Attributes;

/// Whether a row's text goes on in the next row, as far as the program did not break it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// It ends here.
    #[default]
    No,
    /// It goes on.
    Full,
    /// It goes on with a wide character for which the last column was too little; that column is no text.
    Short,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// ASCII characters without style from column 0, when `cells` is empty.
    text: Vec<u8>,
    cells: Vec<Cell>,
    pub(crate) wrap: Wrap,
}

impl Row {
    /// Columns that may be other than blank.
    pub(crate) fn len(&self) -> usize {
        self.text.len().max(self.cells.len())
    }

    /// The row's text, if that is all there is.
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        self.cells.is_empty().then_some(&self.text[..])
    }

    pub(crate) fn cell(&self, column: usize) -> Cell {
        if self.cells.is_empty() {
            match self.text.get(column) {
                Some(byte) => Cell::BLANK.with_ascii(*byte),
                None => Cell::BLANK,
            }
        } else {
            self.cells.get(column).copied().unwrap_or(Cell::BLANK)
        }
    }

    /// The cells, unless the row is plain text.
    pub(crate) fn styled(&self) -> &[Cell] {
        &self.cells
    }

    pub(crate) fn cells(&self) -> impl DoubleEndedIterator<Item = Cell> + ExactSizeIterator + '_ {
        (0..self.len()).map(|column| self.cell(column))
    }

    /// The cells from column 0 to `end` at least.
    #[inline]
    fn cells_to(&mut self, end: usize) -> &mut [Cell] {
        if !self.text.is_empty() {
            self.cells.clear();
            let text = self.text.iter();
            self.cells.extend(text.map(|byte| Cell::BLANK.with_ascii(*byte)));
            self.text.clear();
        }
        if self.cells.len() < end {
            self.cells.resize(end, Cell::BLANK);
        }
        &mut self.cells
    }

    /// Takes these cells for the row's.
    pub(crate) fn set_cells(&mut self, cells: &[Cell]) {
        self.clear();
        self.cells.extend_from_slice(cells);
        self.trim();
    }

    pub(crate) fn set_text(&mut self, text: &[u8]) {
        self.clear();
        self.text.extend_from_slice(text);
    }

    /// Blanks the row.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
        self.wrap = Wrap::No;
    }

    fn trim(&mut self) {
        let blank = |cell: &&Cell| **cell == Cell::BLANK;
        let blanks = self.cells.iter().rev().take_while(blank).count();
        self.cells.truncate(self.cells.len() - blanks);
        let blanks = self.text.iter().rev().take_while(|byte| **byte == b' ').count();
        self.text.truncate(self.text.len() - blanks);
    }

    /// Columns up to the last that is not blank.
    pub(crate) fn content_len(&self) -> usize {
        match self.plain() {
            Some(text) => text.trim_ascii_end().len(),
            None => {
                let blank = |cell: &&Cell| **cell == Cell::BLANK;
                self.cells.len() - self.cells.iter().rev().take_while(blank).count()
            }
        }
    }

    /// Sees to it that no wide cell lies across the left edge of this column: its halves become blanks of its style.
    #[inline]
    pub(crate) fn cut(&mut self, column: usize) {
        if column == 0 || column >= self.cells.len() || !self.cells[column].is_spacer() {
            return;
        }
        for at in [column - 1, column] {
            self.cells[at] = self.cells[at].style();
        }
    }

    /// Writes printable ASCII characters.
    #[inline]
    pub(crate) fn write_ascii(&mut self, column: usize, run: &[u8], pen: Cell) {
        let end = column + run.len();
        if self.cells.is_empty() && pen.is_plain() {
            if column >= self.text.len() {
                self.text.resize(column, b' ');
                self.text.extend_from_slice(run);
            } else {
                if end > self.text.len() {
                    self.text.resize(end, b' ');
                }
                self.text[column..end].copy_from_slice(run);
            }
            return;
        }
        self.cut(column);
        self.cut(end);
        let cells = &mut self.cells_to(end)[column..end];
        for (cell, byte) in cells.iter_mut().zip(run) {
            *cell = pen.with_ascii(*byte);
        }
    }

    /// Writes characters that take two columns each.
    pub(crate) fn write_wide(&mut self, column: usize, run: &[char], pen: Cell) {
        let end = column + 2 * run.len();
        self.cut(column);
        self.cut(end);
        let cells = self.cells_to(end)[column..end].chunks_exact_mut(2);
        let spacer = pen.spacer();
        for (pair, c) in cells.zip(run) {
            pair.copy_from_slice(&[pen.with_char(*c, true), spacer]);
        }
    }

    /// Writes a cell, both halves of a wide one.
    #[inline]
    pub(crate) fn put(&mut self, column: usize, cell: Cell) {
        if column == self.cells.len() && self.text.is_empty() {
            self.cells.push(cell);
            if cell.is_wide() {
                self.cells.push(cell.spacer());
            }
            return;
        }
        let end = column + cell.width();
        self.cut(column);
        self.cut(end);
        let cells = self.cells_to(end);
        cells[column] = cell;
        if end > column + 1 {
            cells[column + 1] = cell.spacer();
        }
    }

    /// Replaces a cell whose width stays.
    pub(crate) fn replace(&mut self, column: usize, cell: Cell) {
        self.cells_to(column + 1)[column] = cell;
    }

    /// Makes the columns `from..to` like `blank`.
    pub(crate) fn erase(&mut self, from: usize, to: usize, blank: Cell) {
        self.cut(from);
        self.cut(to);
        if blank != Cell::BLANK {
            self.cells_to(to)[from..to].fill(blank);
        } else if to >= self.len() {
            self.text.truncate(from);
            self.cells.truncate(from);
        } else if self.cells.is_empty() {
            self.text[from.min(to)..to].fill(b' ');
        } else {
            self.cells[from.min(to)..to].fill(blank);
        }
    }

    /// Blanks the text of the columns `from..to` where it is not protected, and leaves the style.
    pub(crate) fn erase_selected(&mut self, from: usize, to: usize) {
        let cells = self.cells_to(0);
        let to = to.min(cells.len());
        for cell in &mut cells[from.min(to)..to] {
            if !cell.attributes().contains(Attributes::PROTECTED) {
                *cell = cell.style();
            }
        }
        // A wide cell of which only one half lies in the range.
        for column in 1..cells.len() {
            if cells[column].is_spacer() && !cells[column - 1].is_wide() {
                cells[column] = cells[column].style();
            }
        }
        for column in 0..cells.len() {
            let whole = cells.get(column + 1).is_some_and(|next| next.is_spacer());
            if cells[column].is_wide() && !whole {
                cells[column] = cells[column].style();
            }
        }
    }

    /// Shifts the columns `from..to` right by `count`; what leaves them is lost.
    pub(crate) fn insert(&mut self, from: usize, to: usize, count: usize, blank: Cell) {
        let count = count.min(to - from);
        self.cut(from);
        self.cut(to);
        self.cut(to - count);
        if self.len() > from {
            self.cells_to(to)[from..to].rotate_right(count);
        }
        self.erase(from, from + count, blank);
    }

    /// Shifts the columns `from..to` left by `count`; what leaves them is lost.
    pub(crate) fn delete(&mut self, from: usize, to: usize, count: usize, blank: Cell) {
        let count = count.min(to - from);
        self.cut(from);
        self.cut(from + count);
        self.cut(to);
        if self.len() > from {
            self.cells_to(to)[from..to].rotate_left(count);
        }
        self.erase(to - count, to, blank);
    }

    /// The cells of these columns, halves of wide ones blanked.
    pub(crate) fn cells_between(&self, from: usize, to: usize) -> Vec<Cell> {
        let mut cells: Vec<Cell> = (from..to).map(|column| self.cell(column)).collect();
        if let Some(first) = cells.first_mut().filter(|first| first.is_spacer()) {
            *first = first.style();
        }
        if let Some(last) = cells.last_mut().filter(|last| last.is_wide()) {
            *last = last.style();
        }
        cells
    }

    /// Writes whole cells from this column.
    pub(crate) fn copy_columns(&mut self, from: usize, cells: &[Cell]) {
        let to = from + cells.len();
        self.cut(from);
        self.cut(to);
        self.cells_to(to)[from..to].copy_from_slice(cells);
    }

    /// Loses what lies right of this column.
    pub(crate) fn truncate(&mut self, columns: usize) {
        self.cut(columns);
        self.text.truncate(columns);
        self.cells.truncate(columns);
        self.wrap = Wrap::No;
    }

    /// Bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        self.text.capacity() + self.cells.capacity() * size_of::<Cell>()
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        self.trim();
        let plain = |cell: &Cell| cell.is_plain() && (0x20..0x7f).contains(&cell.content);
        if !self.cells.is_empty() && self.cells.iter().all(plain) {
            self.text = self.cells.iter().map(|cell| cell.content as u8).collect();
            self.cells.clear();
        }
        self.text.shrink_to_fit();
        self.cells.shrink_to_fit();
    }
}
