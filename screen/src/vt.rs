//! A screen as VT bytes that rebuild it in a fresh terminal of the same size.
//!
//! The order matters, because most sequences do more than one thing:
//!
//! 1. what moves nothing: titles, palette, tab stops;
//! 2. what the hidden alternate buffer holds, if anything;
//! 3. history and main screen as rows that scroll up like a program's own output, so that the client's scrollback fills;
//! 4. the main buffer's saved cursor: if the alternate buffer is shown, `?1049h` saves it and the alternate rows follow;
//! 5. the character that REP repeats;
//! 6. margins, which move the cursor, then the cursor with its pen and character sets;
//! 7. modes, last of all those that change how text is written; a single shift; what is half said.
//!
//! No query is among it. A row that wraps is written to its end, and a blank in no style makes it wrap, so that neither
//! the next row's style nor its first character changes what comes out; then that row is written over the blank.
//! `spec/screen.md` lists what VT bytes cannot say. The file is long because each step counts on what the ones before it left.

use std::fmt::Write as _;

use crate::cell::{Cell, Content};
use crate::codes::{put_codes, same_codes};
use crate::cursor::{Charsets, Cursor};
use crate::grid::Grid;
use crate::model::{Margins, Model, default_tabs};
use crate::modes::{ANSI, ModeFlags, Modes, PRIVATE};
use crate::packed::Packed;
use crate::palette;
use crate::row::{Row, Wrap};
use crate::style::{Attributes, Style};
use crate::tables::Tables;
use crate::width::{char_width, joins, stands_alone};

/// Takes two columns and shows nothing.
const WIDE_BLANK: &str = "\u{3000}";

/// The bytes, with at most so many lines and bytes of history.
pub(crate) fn snapshot(model: &Model, history_lines: usize, history_bytes: usize) -> Vec<u8> {
    let mut out = Writer::new(&model.tables, model.columns);
    out.put_titles(model);
    out.put_palette(model);
    out.put_tabs(&model.tabs);
    let [main, alternate] = &model.grids;
    if model.shown == 0 {
        out.put_hidden_alternate(model);
    }
    out.put_history(model, history_lines, history_bytes);
    out.put_keyboard(&model.keyboard[0]);
    if model.shown == 0 {
        out.put_saved(&model.saved[0], main);
    } else {
        out.put_cursor(&model.saved[0], main, None);
        out.put("\x1b[?1049h");
        out.start_anew();
        out.put("\x1b[?6l\x1b[2J\x1b[H");
        out.put_screen(alternate);
        out.put_keyboard(&model.keyboard[1]);
        out.put_saved(&model.saved[1], alternate);
    }
    out.put_repeated(model);
    out.put_margins(model);
    let grid = &model.grids[model.shown];
    out.put_cursor(&model.cursor, grid, Some(model.margins));
    out.put_modes(model);
    match model.single_shift {
        Some(2) => out.put("\x1bN"),
        Some(_) => out.put("\x1bO"),
        None => {}
    }
    out.vt.into_bytes()
}

/// The text of these cells with SGR sequences.
pub(crate) fn colored(cells: &[Cell], tables: &Tables) -> String {
    let mut out = Writer::new(tables, usize::MAX);
    out.links = false;
    for cell in cells.iter().filter(|cell| !cell.is_spacer()) {
        out.put_cell(*cell);
    }
    out.set_pen(Cell::BLANK);
    out.vt
}

/// Writes VT bytes and knows what the terminal is like after them.
struct Writer<'a> {
    vt: String,
    tables: &'a Tables,
    columns: usize,
    /// The pen as `tables` has it, and what it is; history has tables of its own.
    pen: Cell,
    style: Style,
    charsets: Charsets,
    links: bool,
    /// The buffer's saved cursor was used for something else.
    saves: bool,
}

impl<'a> Writer<'a> {
    fn new(tables: &'a Tables, columns: usize) -> Self {
        Writer {
            vt: String::new(),
            tables,
            columns,
            pen: Cell::BLANK,
            style: Style::default(),
            charsets: Charsets::default(),
            links: true,
            saves: false,
        }
    }

    fn put(&mut self, text: &str) {
        self.vt.push_str(text);
    }

    fn put_ascii(&mut self, text: &[u8]) {
        self.vt.push_str(std::str::from_utf8(text).unwrap_or_default());
    }

    fn put_fmt(&mut self, text: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = self.vt.write_fmt(text);
    }

    /// Makes the terminal write as `pen` says.
    fn set_pen(&mut self, pen: Cell) {
        if self.pen.same_style(pen) {
            return;
        }
        self.pen = pen;
        let style = self.tables.style(pen);
        if self.links && self.style.link != style.link {
            match style.link.as_deref() {
                Some(link) if link.id.is_empty() => self.put_fmt(format_args!("\x1b]8;;{}\x1b\\", link.uri)),
                Some(link) => self.put_fmt(format_args!("\x1b]8;id={};{}\x1b\\", link.id, link.uri)),
                None => self.put("\x1b]8;;\x1b\\"),
            }
        }
        let protected = |style: &Style| style.attributes.contains(Attributes::PROTECTED);
        if protected(&self.style) != protected(&style) && self.links {
            self.put(if protected(&style) { "\x1b[1\"q" } else { "\x1b[0\"q" });
        }
        if !same_codes(&self.style, &style) {
            let plain = same_codes(&Style::default(), &style);
            self.put(if plain { "\x1b[" } else { "\x1b[0" });
            put_codes(&style, &mut self.vt);
            self.vt.push('m');
        }
        self.style = style;
    }

    /// Both buffers share pen and character sets: these are the default ones again.
    fn start_anew(&mut self) {
        self.set_charsets(Charsets::default());
        self.set_pen(Cell::BLANK);
    }

    fn set_charsets(&mut self, charsets: Charsets) {
        for (slot, (set, known)) in "()*+".chars().zip(charsets.sets.iter().zip(self.charsets.sets)) {
            if *set != known {
                self.put_fmt(format_args!("\x1b{slot}{}", char::from(set.final_byte())));
            }
        }
        if self.charsets.active != charsets.active {
            self.put(["\x0f", "\x0e", "\x1bn", "\x1bo"][usize::from(charsets.active & 3)]);
        }
        self.charsets = charsets;
    }

    /// Writes a cell at the cursor, both halves of a wide one.
    fn put_cell(&mut self, cell: Cell) {
        self.set_pen(cell);
        self.tables.push_text(cell, &mut self.vt);
    }

    fn go_to(&mut self, row: usize, column: usize) {
        self.put_fmt(format_args!("\x1b[{};{}H", row + 1, column + 1));
    }

    /// Whether writing `cell` behind `before` would join the two.
    fn would_join(&self, before: Cell, cell: Cell) -> bool {
        let first = match cell.content() {
            Content::Char(c) => c,
            Content::Cluster(number) => self.tables.cluster(number).chars().next().unwrap_or(' '),
            Content::Spacer => return false,
        };
        if stands_alone(first) {
            return false;
        }
        let mut text = String::new();
        self.tables.push_text(before, &mut text);
        joins(&text, first)
    }

    /// Writes whole cells that stand from column 0 on; the cursor is behind the last one, or waits there.
    fn put_cells(&mut self, cells: &[Cell]) {
        let mut column = 0;
        while column < cells.len() {
            let cell = cells[column];
            // Behind it stands what joins nothing: so it is with almost all text.
            if let ascii @ 0x20..0x7f = cell.content
                && cells.get(column + 1).is_none_or(|next| next.content < 0xad)
            {
                self.set_pen(cell);
                self.vt.push(char::from(ascii as u8));
                column += 1;
                continue;
            }
            let next = column + cells[column].width().max(1);
            if next < cells.len() && self.would_join(cells[column], cells[next]) {
                column = self.put_chain(cells, column);
            } else {
                self.put_cell(cells[column]);
                column = next;
            }
        }
    }

    /// Writes cells that would join if one were written behind the other, from right to left. Returns where they end.
    fn put_chain(&mut self, cells: &[Cell], first: usize) -> usize {
        let mut chain = vec![first];
        let mut end = first + cells[first].width().max(1);
        while end < cells.len() && self.would_join(cells[chain[chain.len() - 1]], cells[end]) {
            chain.push(end);
            end += cells[end].width().max(1);
        }
        for (index, at) in chain.into_iter().rev().enumerate() {
            self.put_fmt(format_args!("\x1b[{}G", at + 1));
            self.put_cell(cells[at]);
            if index == 0 {
                // Saved cursors come later, and only so a cursor waits again.
                self.put("\x1b7");
                self.saves = true;
            }
        }
        self.set_pen(cells[end - 1]);
        self.put("\x1b8");
        end
    }

    /// Writes a row from its first column; the cursor stands there.
    fn put_row(&mut self, cells: &[Cell], wrap: Wrap) {
        let content = cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1);
        let mut cells = cells[..content].to_vec();
        let background = cells.last().map(|last| last.erased());
        let mut erased = None;
        match wrap {
            Wrap::Full => cells.resize(self.columns, Cell::BLANK),
            Wrap::Short => cells.resize(self.columns - 1, Cell::BLANK),
            Wrap::No => {
                // Cells erased in one colour up to the end of the row: erasing makes the same of them.
                if let Some(blank) = background.filter(|blank| content == self.columns && *blank != Cell::BLANK) {
                    let tail = cells.iter().rev().take_while(|cell| **cell == blank).count();
                    if tail > 1 {
                        cells.truncate(content - tail);
                        erased = Some(blank);
                    }
                }
            }
        }
        self.put_cells(&cells);
        if let Some(blank) = erased.filter(|_| cells.len() < self.columns) {
            self.set_pen(blank);
            self.put("\x1b[K");
        }
        self.set_pen(Cell::BLANK);
    }

    /// Goes from a row that ends with `wrap` to the next one.
    fn put_break(&mut self, wrap: Wrap) {
        self.put(match wrap {
            Wrap::No => "\r\n",
            Wrap::Full => " \r",
            Wrap::Short => "\u{3000}\r\x1b[2X",
        });
    }

    fn put_grid_row(&mut self, row: &Row) {
        match row.plain() {
            Some(text) if row.wrap == Wrap::No => {
                self.put_ascii(&text[..row.content_len()]);
            }
            _ => {
                let cells: Vec<Cell> = row.cells().collect();
                self.put_row(&cells, row.wrap)
            }
        }
    }

    /// Writes the rows of a blank buffer from its top left, as far as they are not blank.
    fn put_screen(&mut self, grid: &Grid) {
        let wrapped = grid.iter().rposition(|row| row.wrap != Wrap::No).map_or(0, |last| last + 2);
        self.put_rows(grid, grid.used().max(wrapped).min(grid.len()));
    }

    fn put_rows(&mut self, grid: &Grid, count: usize) {
        let mut after = Wrap::No;
        for (place, row) in grid.iter().take(count).enumerate() {
            if place > 0 {
                self.put_break(after);
            }
            self.put_grid_row(row);
            after = row.wrap;
        }
    }

    /// Writes history and main screen.
    fn put_history(&mut self, model: &Model, max_lines: usize, max_bytes: usize) {
        let grid = &model.grids[0];
        // From the newest line back, as many as fit.
        let mut lines = Vec::new();
        let mut length = 0;
        let mut tables = Tables::new();
        for line in model.history.lines().rev().take(max_lines) {
            let (vt, saves) = self.history_line(line, &mut tables);
            self.saves |= saves;
            length += vt.len() + 2;
            if length > max_bytes {
                break;
            }
            lines.push((vt, line.wrap()));
        }
        if lines.is_empty() {
            return self.put_screen(grid);
        }
        for (vt, wrap) in lines.iter().rev() {
            self.put(vt);
            self.put_break(*wrap);
        }
        self.put_rows(grid, grid.len());
    }

    fn history_line(&self, line: &Packed, tables: &mut Tables) -> (String, bool) {
        if let Some(text) = line.plain()
            && line.wrap() == Wrap::No
        {
            return (String::from_utf8_lossy(text).into_owned(), false);
        }
        let mut cells = Vec::new();
        if tables.want_collection() {
            *tables = Tables::new();
        }
        line.unpack(tables, self.columns, &mut cells);
        let mut out = Writer::new(tables, self.columns);
        out.put_row(&cells, line.wrap());
        (out.vt, out.saves)
    }

    /// What the alternate buffer holds while the main one is shown.
    fn put_hidden_alternate(&mut self, model: &Model) {
        let grid = &model.grids[1];
        let (keyboard, saved) = (&model.keyboard[1], &model.saved[1]);
        let blank = grid.is_blank();
        if blank && *keyboard == [0] && *saved == Cursor::default() {
            return;
        }
        // Leaving with 1049 clears it; with 47 it stays.
        self.put(if blank { "\x1b[?1049h" } else { "\x1b[?47h" });
        self.put_screen(grid);
        self.put_keyboard(keyboard);
        self.put_saved(saved, grid);
        self.start_anew();
        self.put(if blank { "\x1b[?1049l" } else { "\x1b[?47l" });
        self.put("\x1b[?6l\x1b[H");
    }

    /// Saves this cursor.
    fn put_saved(&mut self, saved: &Cursor, grid: &Grid) {
        if *saved == Cursor::default() && !std::mem::take(&mut self.saves) {
            return;
        }
        self.put_cursor(saved, grid, None);
        self.put("\x1b7");
        self.start_anew();
        if saved.origin {
            self.put("\x1b[?6l");
        }
        if saved.pending {
            self.put_wrap(grid, saved.row);
        }
    }

    /// Brings the terminal's cursor to where and what `cursor` is. Without margins there are none yet.
    fn put_cursor(&mut self, cursor: &Cursor, grid: &Grid, margins: Option<Margins>) {
        if cursor.origin {
            self.put("\x1b[?6h");
        }
        let (top, left) = match margins.filter(|_| cursor.origin) {
            Some(margins) => (margins.top, margins.left),
            None => (0, 0),
        };
        let row = &grid[cursor.row];
        let mut column = cursor.column;
        // Only printing makes a cursor wait to wrap: the last character is written again.
        let half = usize::from(row.cell(column).is_spacer());
        let before = (column - half).checked_sub(1).map(|before| row.cell(before));
        let waits = cursor.pending
            && !before.is_some_and(|before| self.would_join(lead(row, before, column - half), row.cell(column - half)));
        if waits {
            column -= half;
        }
        self.go_to(cursor.row.saturating_sub(top), column.saturating_sub(left));
        if waits {
            self.put_cell(row.cell(column));
        }
        self.set_charsets(cursor.charsets);
        self.set_pen(cursor.pen);
    }

    /// Makes a row wrap again that was written at its end.
    fn put_wrap(&mut self, grid: &Grid, place: usize) {
        let wrap = grid[place].wrap;
        if wrap == Wrap::No || place + 1 >= grid.len() {
            return;
        }
        let row = &grid[place];
        let last = self.columns - 1;
        if wrap == Wrap::Full {
            let at = last - usize::from(row.cell(last).is_spacer());
            self.go_to(place, at);
            self.put_cell(row.cell(at));
            self.set_pen(Cell::BLANK);
        } else {
            self.go_to(place, last);
        }
        self.put(if wrap == Wrap::Full { " " } else { WIDE_BLANK });
        // What stood there.
        let next = &grid[place + 1];
        let mut column = 0;
        self.go_to(place + 1, 0);
        while column < 2 && column < self.columns {
            let cell = next.cell(column);
            self.put_cell(cell);
            column += cell.width().max(1);
        }
        self.set_pen(Cell::BLANK);
        if column >= self.columns {
            self.put_wrap(grid, place + 1);
        }
    }

    /// Prints the character that REP repeats, where it leaves no trace.
    fn put_repeated(&mut self, model: &Model) {
        let Some(printed) = model.printed.filter(|_| !model.cursor.pending) else {
            return;
        };
        let grid = &model.grids[model.shown];
        let width = char_width(printed).max(1);
        let columns = self.columns.saturating_sub(width);
        let free = |row: &Row, column: usize| {
            let first = row.cell(column).erased();
            // Behind a blank nothing joins.
            (column..column + width).all(|at| row.cell(at) == first)
        };
        for (place, row) in grid.iter().enumerate() {
            if let Some(column) = (0..columns).rfind(|column| free(row, *column)) {
                let before = column.checked_sub(1).map(|at| lead(row, row.cell(at), column));
                let joined =
                    before.is_some_and(|before| self.would_join(before, Cell::BLANK.with_char(printed, false)));
                if joined {
                    continue;
                }
                self.go_to(place, column);
                self.set_pen(Cell::BLANK);
                self.vt.push(printed);
                self.set_pen(row.cell(column));
                self.go_to(place, column);
                self.put_fmt(format_args!("\x1b[{width}X"));
                self.set_pen(Cell::BLANK);
                return;
            }
        }
        // No free place: perhaps it stands somewhere and can be written again.
        for (place, row) in grid.iter().enumerate() {
            let found = (0..columns).find(|column| {
                let before = column.checked_sub(1).map(|at| lead(row, row.cell(at), *column));
                let cell = row.cell(*column);
                cell.content() == Content::Char(printed) && !before.is_some_and(|before| self.would_join(before, cell))
            });
            if let Some(column) = found {
                self.go_to(place, column);
                self.put_cell(row.cell(column));
                self.set_pen(Cell::BLANK);
                return;
            }
        }
    }

    fn put_titles(&mut self, model: &Model) {
        for title in &model.titles {
            self.put_fmt(format_args!("\x1b]2;{title}\x1b\\\x1b[22;0t"));
        }
        if !model.title.is_empty() || !model.titles.is_empty() {
            self.put_fmt(format_args!("\x1b]2;{}\x1b\\", model.title));
        }
    }

    fn put_palette(&mut self, model: &Model) {
        for (number, [r, g, b]) in &model.palette {
            match *number {
                number @ 0..palette::FOREGROUND => self.put_fmt(format_args!("\x1b]4;{number};")),
                number => self.put_fmt(format_args!("\x1b]{};", number - palette::FOREGROUND + 10)),
            }
            self.put_fmt(format_args!("rgb:{r:02x}/{g:02x}/{b:02x}\x1b\\"));
        }
    }

    fn put_tabs(&mut self, tabs: &[bool]) {
        if tabs.iter().copied().eq(default_tabs(0..tabs.len())) {
            return;
        }
        self.put("\x1b[3g");
        for (column, _) in tabs.iter().enumerate().filter(|(_, stop)| **stop) {
            self.put_fmt(format_args!("\x1b[{}G\x1bH", column + 1));
        }
        self.put("\r");
    }

    fn put_keyboard(&mut self, stack: &[u8]) {
        for (place, flags) in stack.iter().enumerate() {
            match (place, flags) {
                (0, 0) => {}
                (0, flags) => self.put_fmt(format_args!("\x1b[={flags};1u")),
                (_, flags) => self.put_fmt(format_args!("\x1b[>{flags}u")),
            }
        }
    }

    fn put_margins(&mut self, model: &Model) {
        let Margins { top, bottom, left, right } = model.margins;
        if (top, bottom + 1) != (0, model.rows) {
            self.put_fmt(format_args!("\x1b[{};{}r", top + 1, bottom + 1));
        }
        if model.modes.has(ModeFlags::SIDE_MARGINS) {
            self.put("\x1b[?69h");
            if !model.full_width() {
                self.put_fmt(format_args!("\x1b[{};{}s", left + 1, right + 1));
            }
        }
    }

    fn put_modes(&mut self, model: &Model) {
        let modes = &model.modes;
        let changed = modes.flags ^ Modes::default().flags;
        for (mode, flag) in PRIVATE {
            if changed.contains(flag) && flag != ModeFlags::SIDE_MARGINS {
                let (keypad, set) = (flag == ModeFlags::KEYPAD, modes.has(flag));
                match (keypad, set) {
                    (true, _) => self.put("\x1b="),
                    (_, true) => self.put_fmt(format_args!("\x1b[?{mode}h")),
                    (_, false) => self.put_fmt(format_args!("\x1b[?{mode}l")),
                }
            }
        }
        for (mode, flag) in ANSI {
            if changed.contains(flag) {
                self.put_fmt(format_args!("\x1b[{mode}h"));
            }
        }
        for mode in [modes.mouse, modes.mouse_encoding] {
            if mode > 0 {
                self.put_fmt(format_args!("\x1b[?{mode}h"));
            }
        }
        if modes.cursor_style > 0 {
            self.put_fmt(format_args!("\x1b[{} q", modes.cursor_style));
        }
        if model.modify_other_keys > 0 {
            self.put_fmt(format_args!("\x1b[>4;{}m", model.modify_other_keys));
        }
    }
}

/// The whole cell to which `cell`, in the column before `column`, belongs.
fn lead(row: &Row, cell: Cell, column: usize) -> Cell {
    if cell.is_spacer() && column >= 2 { row.cell(column - 2) } else { cell }
}
