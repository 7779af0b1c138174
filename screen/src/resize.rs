//! Another size: the main screen and its history are wrapped anew, the alternate screen is cut or extended.

use std::collections::VecDeque;

use crate::cell::Cell;
use crate::cursor::Cursor;
use crate::grid::Grid;
use crate::model::{Margins, Model, Place, default_tabs};
use crate::packed::{Packed, Runs};
use crate::row::Wrap;
use crate::tables::Tables;

/// Something that stays with its text: a line and the columns before it in that line.
#[derive(Clone, Copy)]
struct Point {
    line: usize,
    column: usize,
    mapped: Option<(usize, usize)>,
}

/// Lines that are wrapped anew.
struct Reflow {
    /// Columns before and after.
    old: usize,
    columns: usize,
    out: VecDeque<Packed>,
    points: Vec<Point>,
    tables: Tables,
}

impl Model {
    /// Gives the screen this size.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        if (columns, rows) == (self.columns, self.rows) {
            return;
        }
        self.resize_alternate(columns, rows);
        self.resize_main(columns, rows);
        self.tabs.truncate(columns);
        let known = self.tabs.len();
        self.tabs.extend(default_tabs(known..columns));
        self.margins = Margins::all(columns, rows);
        (self.columns, self.rows) = (columns, rows);
    }

    fn resize_alternate(&mut self, columns: usize, rows: usize) {
        let shown = self.shown == 1;
        let surplus = if shown { (self.cursor.row + 1).saturating_sub(rows) } else { 0 };
        if surplus > 0 {
            let all = 0..self.rows;
            self.grids[1].scroll_up(all, surplus, Cell::BLANK);
            self.cursor.row -= surplus;
        }
        self.grids[1].resize(columns, rows);
        let same = columns == self.columns;
        let fit = |cursor: &mut Cursor| {
            cursor.row = cursor.row.min(rows - 1);
            cursor.column = cursor.column.min(columns - 1);
            cursor.pending &= same;
        };
        fit(&mut self.saved[1]);
        if shown {
            fit(&mut self.cursor);
        }
    }

    fn resize_main(&mut self, columns: usize, rows: usize) {
        let kept = self.history.len();
        let first = self.history.first();
        let shown = self.shown == 0;
        let cursor = if shown { self.cursor } else { self.saved[0] };
        let used = self.grids[0].used().max(cursor.row + 1);
        let full = used == self.rows;

        let point = |line: usize, column: usize| Point { line, column, mapped: None };
        let of_cursor = |cursor: &Cursor| point(kept + cursor.row, cursor.column + usize::from(cursor.pending));
        let of_place = |place: &Place| {
            let line = place.line.checked_sub(first)?;
            Some(point(usize::try_from(line).ok()?, place.column))
        };
        let mut points = vec![point(kept, 0), of_cursor(&cursor), of_cursor(&self.saved[0])];
        let places = [self.marks.output, self.marks.end].map(|place| place.as_ref().and_then(of_place));
        points.extend(places.iter().flatten());

        let mut lines = self.history.take();
        for row in self.grids[0].iter().take(used) {
            lines.push_back(Packed::of(row, &self.tables));
        }
        let mut reflow = Reflow {
            old: self.columns,
            columns,
            out: VecDeque::with_capacity(lines.len()),
            points,
            tables: Tables::new(),
        };
        let before = lines.len();
        reflow.run(lines);
        let Reflow { mut out, points, .. } = reflow;
        let total = out.len();
        // A place below all lines stays as far below them.
        let place = |point: &Point| point.mapped.unwrap_or((total + point.line - before.min(point.line), point.column));

        let (anchor, _) = place(&points[0]);
        let (cursor_line, _) = place(&points[1]);
        // What was full stays full; else the top stays, if all fits.
        let top = if full || total - anchor > rows { total.saturating_sub(rows) } else { anchor };
        let top = top.min(cursor_line);

        let set = |cursor: &mut Cursor, point: &Point| {
            let (line, column) = place(point);
            cursor.row = line.saturating_sub(top).min(rows - 1);
            // Only text that ends in the last column leaves a cursor waiting there.
            let waits = out.get(line).is_some_and(|line| line.columns() == columns && line.wrap() == Wrap::No);
            cursor.pending = column == columns && waits && line >= top;
            cursor.column = column.min(columns - 1);
        };
        if shown {
            set(&mut self.cursor, &points[1]);
        }
        set(&mut self.saved[0], &points[2]);
        let mut marked = points[3..].iter();
        for (mark, was) in [&mut self.marks.output, &mut self.marks.end].into_iter().zip(places) {
            *mark = was.and_then(|_| marked.next()).map(|point| {
                let (line, column) = place(point);
                Place { line: line as u64, column: column.min(columns - 1) }
            });
        }

        let screen = out.split_off(top);
        self.history.begin(self.history.epoch + 1, 0, out);
        self.grids[0] = Grid::new(columns, rows);
        let mut cells = Vec::new();
        for (row, line) in screen.iter().take(rows).enumerate() {
            self.load_row(0, row, line, &mut cells);
        }
        self.grids[0][rows - 1].wrap = Wrap::No;
    }

    /// Makes a row what was packed; `cells` is room to work in.
    pub(crate) fn load_row(&mut self, grid: usize, place: usize, line: &Packed, cells: &mut Vec<Cell>) {
        self.collect();
        cells.clear();
        let columns = self.grids[grid].columns;
        line.unpack(&mut self.tables, columns, cells);
        let row = &mut self.grids[grid][place];
        match line.plain() {
            Some(text) if text.len() == cells.len() => row.set_text(text),
            _ => row.set_cells(cells),
        }
        row.wrap = line.wrap();
    }
}

impl Reflow {
    fn run(&mut self, mut lines: VecDeque<Packed>) {
        let mut at = 0;
        while let Some(first) = lines.pop_front() {
            if first.wrap() == Wrap::No && first.columns() <= self.columns {
                self.map(at, &[0], &[0]);
                self.out.push_back(first);
                at += 1;
                continue;
            }
            let mut group = vec![first];
            while group.last().is_some_and(|line| line.wrap() != Wrap::No) {
                let Some(next) = lines.pop_front() else {
                    break;
                };
                group.push(next);
            }
            self.wrap(at, &group);
            at += group.len();
        }
    }

    /// Wraps one line of text, whose rows were `group`, the first of them line `at`.
    fn wrap(&mut self, at: usize, group: &[Packed]) {
        let mut starts = Vec::with_capacity(group.len());
        let mut begins = Vec::new();
        if !self.wrap_ascii(group, &mut starts, &mut begins) {
            starts.clear();
            self.wrap_cells(group, &mut starts, &mut begins);
        }
        let base = self.out.len() - begins.len();
        self.map_from(at, &starts, base, &begins);
    }

    /// Wraps a line whose characters take a column each; else does nothing and says so.
    fn wrap_ascii(&mut self, group: &[Packed], starts: &mut Vec<usize>, begins: &mut Vec<usize>) -> bool {
        let mut text = Vec::new();
        let mut runs = Runs::new();
        self.forget();
        for (index, line) in group.iter().enumerate() {
            starts.push(text.len());
            if line.wrap() == Wrap::Short || !line.append_ascii(&mut text, &mut runs, &mut self.tables) {
                return false;
            }
            if index + 1 < group.len() {
                let end = starts[index] + self.old;
                runs.push_back((Cell::BLANK, end.saturating_sub(text.len())));
                text.resize(end.max(text.len()), b' ');
            }
        }
        // Blanks at the end are text only in a style.
        while let Some((pen, columns)) = runs.back().copied() {
            let blanks = text.iter().rev().take(columns).take_while(|byte| **byte == b' ').count();
            let blanks = if pen == Cell::BLANK { blanks } else { 0 };
            text.truncate(text.len() - blanks);
            if blanks < columns {
                break;
            }
            runs.pop_back();
        }
        let rows = text.len().div_ceil(self.columns).max(1);
        for row in 0..rows {
            let begin = row * self.columns;
            begins.push(begin);
            let wrap = if row + 1 == rows { Wrap::No } else { Wrap::Full };
            let part = &text[begin..(begin + self.columns).min(text.len())];
            let line = Packed::of_runs(part, &mut runs, wrap, &self.tables);
            self.out.push_back(line);
        }
        true
    }

    /// Forgets what lines before had, before there is too much of it.
    fn forget(&mut self) {
        if self.tables.want_collection() {
            self.tables = Tables::new();
        }
    }

    fn wrap_cells(&mut self, group: &[Packed], starts: &mut Vec<usize>, begins: &mut Vec<usize>) {
        self.forget();
        let mut cells = Vec::new();
        for (index, line) in group.iter().enumerate() {
            let start = cells.len();
            starts.push(start);
            line.unpack(&mut self.tables, self.old, &mut cells);
            let width = match line.wrap() {
                _ if index + 1 == group.len() => cells.len() - start,
                Wrap::No => cells.len() - start,
                Wrap::Full => self.old,
                Wrap::Short => self.old - 1,
            };
            cells.truncate(start + width);
            cells.resize(start + width, Cell::BLANK);
        }
        cells.truncate(content(&cells));
        let mut begin = 0;
        loop {
            begins.push(begin);
            if cells.len() - begin <= self.columns {
                break;
            }
            let mut end = begin + self.columns;
            let mut wrap = Wrap::Full;
            if cells[end].is_spacer() {
                end -= 1;
                wrap = Wrap::Short;
            }
            self.push(&cells[begin..end], wrap);
            begin = end;
        }
        self.push(&cells[begin..], Wrap::No);
    }

    fn push(&mut self, cells: &[Cell], wrap: Wrap) {
        let cells = &cells[..content(cells)];
        let line = Packed::of_cells(cells, wrap, &self.tables);
        self.out.push_back(line);
    }

    fn map(&mut self, at: usize, starts: &[usize], begins: &[usize]) {
        let base = self.out.len();
        self.map_from(at, starts, base, begins);
    }

    /// Moves the points in lines from `at`, which began at `starts` of the text, to lines from `base`, which begin at
    /// `begins` of it.
    fn map_from(&mut self, at: usize, starts: &[usize], base: usize, begins: &[usize]) {
        for point in &mut self.points {
            let Some(start) = point.line.checked_sub(at).and_then(|index| starts.get(index)) else {
                continue;
            };
            let offset = start + point.column;
            let row = begins.partition_point(|begin| *begin <= offset).max(1) - 1;
            point.mapped = Some((base + row, offset - begins[row]));
        }
    }
}

fn content(cells: &[Cell]) -> usize {
    cells.len() - cells.iter().rev().take_while(|cell| **cell == Cell::BLANK).count()
}
