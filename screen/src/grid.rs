//! The rows of one buffer. Rows stay where they are in memory; scrolling changes their order.

use std::ops::{Index, IndexMut, Range};

use crate::cell::Cell;
use crate::row::{Row, Wrap};

#[derive(Clone, Debug)]
pub(crate) struct Grid {
    rows: Vec<Row>,
    /// Which of `rows` stands at each place from the top.
    order: Vec<u16>,
    pub(crate) columns: usize,
}

impl Grid {
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        let mut rows_of_grid = Vec::new();
        rows_of_grid.resize_with(rows, Row::default);
        Grid { rows: rows_of_grid, order: (0..rows as u16).collect(), columns }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> + ExactSizeIterator {
        self.order.iter().map(|slot| &self.rows[usize::from(*slot)])
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.iter().all(|row| row.content_len() == 0 && row.wrap == Wrap::No)
    }

    /// Blanks all.
    pub(crate) fn clear(&mut self) {
        self.rows.iter_mut().for_each(Row::clear);
    }

    /// Rows from the top down to the last that is not blank.
    pub(crate) fn used(&self) -> usize {
        self.iter().rposition(|row| row.content_len() > 0).map_or(0, |last| last + 1)
    }

    /// Gives the buffer another size without reflow: rows go or come at the bottom, columns at the right.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        if self.columns != columns {
            for row in &mut self.rows {
                row.truncate(columns);
            }
        }
        let mut kept: Vec<Row> = Vec::with_capacity(rows);
        for place in 0..rows.min(self.len()) {
            kept.push(std::mem::take(&mut self[place]));
        }
        kept.resize_with(rows, Row::default);
        if let Some(last) = kept.last_mut() {
            last.wrap = Wrap::No;
        }
        *self = Grid { rows: kept, order: (0..rows as u16).collect(), columns };
    }

    /// Rows move up by `count`, and blank ones come at the bottom.
    #[inline]
    pub(crate) fn scroll_up(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows.start > 0 {
            self[rows.start - 1].wrap = Wrap::No;
        }
        let from = rows.end - count;
        self.order[rows.clone()].rotate_left(count);
        for place in from..rows.end {
            self.blank_row(place, blank);
        }
        if from > rows.start {
            self[from - 1].wrap = Wrap::No;
        }
    }

    /// Rows move down by `count`, and blank ones come at the top.
    pub(crate) fn scroll_down(&mut self, rows: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        if rows.start > 0 {
            self[rows.start - 1].wrap = Wrap::No;
        }
        self.order[rows.clone()].rotate_right(count);
        for place in rows.start..rows.start + count {
            self.blank_row(place, blank);
        }
        self[rows.end - 1].wrap = Wrap::No;
    }

    /// The same between two columns.
    pub(crate) fn scroll_columns_up(&mut self, rows: Range<usize>, columns: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        for place in rows.start..rows.end - count {
            let cells = self[place + count].cells_between(columns.start, columns.end);
            self[place].copy_columns(columns.start, &cells);
            self.unwrap(place, columns.end);
        }
        for place in rows.end - count..rows.end {
            self.erase(place, columns.clone(), blank);
        }
    }

    /// The same between two columns.
    pub(crate) fn scroll_columns_down(&mut self, rows: Range<usize>, columns: Range<usize>, count: usize, blank: Cell) {
        let count = count.min(rows.len());
        for place in (rows.start + count..rows.end).rev() {
            let cells = self[place - count].cells_between(columns.start, columns.end);
            self[place].copy_columns(columns.start, &cells);
            self.unwrap(place, columns.end);
        }
        for place in rows.start..rows.start + count {
            self.erase(place, columns.clone(), blank);
        }
    }

    /// Notes that columns up to `end` were written: who writes the last one ends the row.
    #[inline]
    pub(crate) fn unwrap(&mut self, place: usize, end: usize) {
        if end >= self.columns {
            self[place].wrap = Wrap::No;
        }
    }

    pub(crate) fn erase(&mut self, place: usize, columns: Range<usize>, blank: Cell) {
        self[place].erase(columns.start, columns.end, blank);
        self.unwrap(place, columns.end);
    }

    pub(crate) fn blank_row(&mut self, place: usize, blank: Cell) {
        let columns = self.columns;
        let row = &mut self[place];
        row.clear();
        if blank != Cell::BLANK {
            row.erase(0, columns, blank);
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let heap: usize = self.rows.iter().map(Row::memory).sum();
        heap + self.rows.capacity() * size_of::<Row>() + self.order.capacity() * 2
    }

    pub(crate) fn shrink(&mut self) {
        self.rows.iter_mut().for_each(Row::shrink);
    }
}

impl Index<usize> for Grid {
    type Output = Row;

    #[inline]
    fn index(&self, place: usize) -> &Row {
        &self.rows[usize::from(self.order[place])]
    }
}

impl IndexMut<usize> for Grid {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Row {
        &mut self.rows[usize::from(self.order[place])]
    }
}
