//! A screen as VT bytes that rebuild it in a fresh terminal of the same size.
//!
//! The order matters, because most sequences do more than one thing:
//!
//! 1. what moves nothing: titles, palette, tab stops;
//! 2. history and main screen as rows that scroll up like a program's own output, so that the client's scrollback fills;
//! 3. if the alternate screen is active, the main cursor, then `?1049h` (which copies and saves that cursor) and the
//!    alternate rows;
//! 4. margins, which move the cursor, and the saved cursor;
//! 5. the character that REP repeats;
//! 6. the cursor with its pen and character sets;
//! 7. modes, last of all those that change how text is written.
//!
//! No query is among it: nothing here makes the client's terminal answer. What the engine cannot be told by VT bytes is
//! lost: a wrap mark on the bottom row or on one where a cursor waits to wrap, halves of broken wide characters, a cursor outside its margins in origin mode, and
//! what REP repeats if the cursor waits to wrap behind another character or no cell is free to print it in.

use alacritty_terminal::grid::{Charsets, Cursor, Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, CursorShape, KeyboardModes};
use unicode_width::UnicodeWidthChar;

use super::engine::{Engine, default_tabs};
use super::rows::{Pen, Writer, character, content_end, is_wide, wraps};
use super::screen::with_main_grid;
use crate::bounds::SNAPSHOT_MAX;

/// The VT bytes, with at most `history_lines` lines and `history_max` bytes of history.
pub(super) fn encode(engine: &mut Engine, history_lines: usize, history_max: usize) -> Vec<u8> {
    let vt = encode_with(engine, history_lines, history_max, false);
    if vt.len() <= SNAPSHOT_MAX {
        return vt;
    }
    let vt = encode_with(engine, 0, 0, false);
    if vt.len() <= SNAPSHOT_MAX {
        return vt;
    }
    encode_with(engine, 0, 0, true)
}

fn encode_with(
    engine: &mut Engine,
    history_lines: usize,
    history_max: usize,
    bare: bool,
) -> Vec<u8> {
    let mut out = Writer::new(bare);
    put_titles(&mut out, engine);
    put_palette(&mut out, engine);
    put_tabs(&mut out, engine);
    let [main_keyboard, alternate_keyboard] = engine.notes.keyboard.clone();
    if engine.alternate() {
        with_main_grid(engine, |grid| {
            put_grid(&mut out, grid, history_lines, history_max);
            put_cursor(&mut out, grid, &grid.cursor, 0);
        });
        put_keyboard(&mut out, &main_keyboard);
        out.put("\x1b[?1049h");
        out.set_pen(&Pen::default());
        out.set_charsets(Charsets::default());
        // It begins with the background of the main cursor's pen.
        out.put("\x1b[H\x1b[2J");
        put_grid(&mut out, engine.term.grid(), 0, 0);
        put_keyboard(&mut out, &alternate_keyboard);
    } else {
        put_hidden_alternate(&mut out, engine);
        put_grid(&mut out, engine.term.grid(), history_lines, history_max);
        put_keyboard(&mut out, &main_keyboard);
    }
    put_margins(&mut out, engine);
    put_saved_cursor(&mut out, engine);
    put_repeated(&mut out, engine);
    put_active_cursor(&mut out, engine);
    put_modes(&mut out, engine);
    out.vt
}

fn put_titles(out: &mut Writer, engine: &Engine) {
    let notes = &engine.notes;
    for title in &notes.titles {
        out.put(format!("\x1b]2;{title}\x1b\\\x1b[22;0t"));
    }
    if !notes.title.is_empty() || !notes.titles.is_empty() {
        out.put(format!("\x1b]2;{}\x1b\\", notes.title));
    }
}

fn put_palette(out: &mut Writer, engine: &Engine) {
    let colors = engine.term.colors();
    for index in 0..=258 {
        if let Some(rgb) = colors[index] {
            let code = match index {
                0..256 => format!("4;{index}"),
                // Foreground, background and cursor are 256 to 258, and OSC 10 to 12.
                _ => format!("{}", index - 246),
            };
            out.put(format!(
                "\x1b]{code};rgb:{:02x}/{:02x}/{:02x}\x1b\\",
                rgb.r, rgb.g, rgb.b
            ));
        }
    }
}

fn put_tabs(out: &mut Writer, engine: &Engine) {
    let tabs = &engine.notes.tabs;
    if tabs.iter().copied().eq(default_tabs(0..tabs.len())) {
        return;
    }
    out.put("\x1b[3g");
    for (column, _) in tabs.iter().enumerate().filter(|(_, stop)| **stop) {
        out.put(format!("\x1b[{}G\x1bH", column + 1));
    }
    out.put("\r");
}

fn put_keyboard(out: &mut Writer, stack: &[KeyboardModes]) {
    for modes in stack {
        out.put(format!("\x1b[>{}u", modes.bits()));
    }
}

/// What the alternate screen remembers while the main one is active.
fn put_hidden_alternate(out: &mut Writer, engine: &Engine) {
    let notes = &engine.notes;
    if notes.keyboard[1].is_empty() && notes.alternate_saved.is_none() {
        return;
    }
    out.put("\x1b[?1049h");
    put_keyboard(out, &notes.keyboard[1]);
    if let Some(saved) = &notes.alternate_saved {
        let (line, column) = (saved.point.line.0 + 1, saved.point.column.0 + 1);
        out.put(format!("\x1b[{line};{column}H"));
        out.set_charsets(saved.charsets);
        out.set_pen(&Pen::of(&saved.template));
        out.put("\x1b7");
        out.set_charsets(Charsets::default());
        out.set_pen(&Pen::default());
    }
    out.put("\x1b[?1049l");
}

/// Writes history and screen from the top left of an empty one, whose pen is the default one.
fn put_grid(out: &mut Writer, grid: &Grid<Cell>, history_lines: usize, history_max: usize) {
    let history = i32::try_from(history_lines.min(grid.history_size())).unwrap_or(i32::MAX);
    let bottom = grid.bottommost_line().0;
    // From the newest line back, as many as fit.
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut length = 0;
    for line in (-history..0).rev() {
        let mut row = Writer::new(false);
        put_line(&mut row, grid, line);
        length += row.vt.len();
        if length > history_max {
            break;
        }
        lines.push(row.vt);
    }
    let top = -i32::try_from(lines.len()).unwrap_or(i32::MAX);
    // Without history nothing has to scroll, and blank rows at the bottom need not be written.
    let last = if lines.is_empty() {
        let written = |line: i32| content_end(&grid[Line(line)]) > 0 || is_joined(grid, line);
        (0..=bottom).rfind(|&line| written(line)).unwrap_or(0)
    } else {
        bottom
    };
    for line in top..=last {
        if line > top && !is_joined(grid, line) {
            out.put("\r\n");
        }
        match lines.pop() {
            Some(row) => out.put(row),
            None => put_line(out, grid, line),
        }
    }
}

/// Whether the line before wraps into this one.
fn is_joined(grid: &Grid<Cell>, line: i32) -> bool {
    line > grid.topmost_line().0 && wraps(&grid[Line(line - 1)])
}

fn put_line(out: &mut Writer, grid: &Grid<Cell>, line: i32) {
    let row = &grid[Line(line)];
    let next = (wraps(row) && line < grid.bottommost_line().0).then(|| &grid[Line(line + 1)]);
    out.put_row(row, is_joined(grid, line), next);
}

/// Prints the character that REP repeats, where it leaves no trace.
fn put_repeated(out: &mut Writer, engine: &Engine) {
    let Some(printed) = engine.notes.printed else {
        return;
    };
    let grid = engine.term.grid();
    let width = printed.width().unwrap_or(0);
    let columns = grid.columns();
    // The last column would leave the cursor about to wrap, and not every terminal erases then.
    let free = |row: i32, column: usize| {
        let first = &grid[Line(row)][Column(column)];
        let erased = Cell {
            bg: first.bg,
            ..Cell::default()
        };
        (column..column + width).all(|column| grid[Line(row)][Column(column)] == erased)
    };
    let rows = 0..=grid.bottommost_line().0;
    for row in rows.clone().rev() {
        let Some(column) = (0..columns.saturating_sub(width)).rfind(|&column| free(row, column))
        else {
            continue;
        };
        if width == 0 {
            break;
        }
        out.put(format!("\x1b[{};{}H", row + 1, column + 1));
        out.set_pen(&Pen::default());
        out.put(printed.to_string());
        let erased = Cell {
            bg: grid[Line(row)][Column(column)].bg,
            ..Cell::default()
        };
        out.set_pen(&Pen::of(&erased));
        out.put(format!("\x1b[{};{}H\x1b[{width}X", row + 1, column + 1));
        return;
    }
    // No free place: perhaps it stands somewhere and can be written again.
    for row in rows {
        let cells = &grid[Line(row)];
        let place = (0..columns.saturating_sub(width)).find(|&column| {
            let cell = &cells[Column(column)];
            character(cells, column) == printed
                && !cell.flags.contains(Flags::WIDE_CHAR_SPACER)
                && cell.zerowidth().is_none_or(<[char]>::is_empty)
        });
        if let Some(column) = place {
            out.put(format!("\x1b[{};{}H", row + 1, column + 1));
            out.put_cell(cells, column);
            return;
        }
    }
}

fn put_margins(out: &mut Writer, engine: &Engine) {
    let margins = &engine.notes.margins;
    if *margins != (0..engine.term.screen_lines()) {
        out.put(format!("\x1b[{};{}r", margins.start + 1, margins.end));
    }
}

fn put_saved_cursor(out: &mut Writer, engine: &Engine) {
    let grid = engine.term.grid();
    if grid.saved_cursor != Cursor::default() || engine.alternate() {
        put_cursor(out, grid, &grid.saved_cursor, 0);
        out.put("\x1b7");
    }
    out.set_charsets(Charsets::default());
}

fn put_active_cursor(out: &mut Writer, engine: &Engine) {
    let grid = engine.term.grid();
    let origin = engine.term.mode().contains(TermMode::ORIGIN);
    if origin {
        out.put("\x1b[?6h");
    }
    put_cursor(
        out,
        grid,
        &grid.cursor,
        if origin {
            engine.notes.margins.start
        } else {
            0
        },
    );
    let shifted = engine.notes.charset == CharsetIndex::G1;
    if shifted {
        out.put("\x0e");
    }
    if let Some((row, column)) = waiting_cell(grid, &grid.cursor) {
        // The last character was written once more, and is now what REP repeats. If it came out of another character
        // set, what was printed was the one that stands for it there.
        let charsets = grid.cursor.charsets;
        let printed = engine.notes.printed.unwrap_or_default();
        let shown = character(row, column);
        if printed != shown && charsets[engine.notes.charset].map(printed) == shown {
            let cell = &row[Column(column)];
            out.put(format!("\x1b[{}G", column + 1));
            out.set_pen(&Pen::of(cell));
            out.put(printed.to_string());
            out.set_pen(&Pen::of(&grid.cursor.template));
        }
    }
}

/// The row and column of the cell behind which `cursor` waits to wrap, if it does.
fn waiting_cell<'a>(grid: &'a Grid<Cell>, cursor: &Cursor<Cell>) -> Option<(&'a Row<Cell>, usize)> {
    let last = grid.columns() - 1;
    let row = &grid[cursor.point.line];
    (cursor.input_needs_wrap && cursor.point.column == last).then(|| {
        (
            row,
            if is_wide(row, last - 1) {
                last - 1
            } else {
                last
            },
        )
    })
}

/// Brings the terminal's cursor to where and what `cursor` is, the rows counted from `top`.
fn put_cursor(out: &mut Writer, grid: &Grid<Cell>, cursor: &Cursor<Cell>, top: usize) {
    let line = usize::try_from(cursor.point.line.0).unwrap_or(0);
    let waiting = waiting_cell(grid, cursor);
    let column = waiting.map_or(cursor.point.column.0, |(_, column)| column);
    out.put(format!(
        "\x1b[{};{}H",
        (line + 1).saturating_sub(top).max(1),
        column + 1
    ));
    // Only printing makes a cursor wait to wrap: the last character is written again.
    if let Some((row, column)) = waiting {
        out.put_cell(row, column);
    }
    out.set_charsets(cursor.charsets);
    out.set_pen(&Pen::of(&cursor.template));
}

fn put_modes(out: &mut Writer, engine: &Engine) {
    let notes = &engine.notes;
    let mode = *engine.term.mode();
    for (flag, set) in [
        (TermMode::APP_CURSOR, "\x1b[?1h"),
        (TermMode::APP_KEYPAD, "\x1b="),
        (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h"),
        (TermMode::MOUSE_DRAG, "\x1b[?1002h"),
        (TermMode::MOUSE_MOTION, "\x1b[?1003h"),
        (TermMode::FOCUS_IN_OUT, "\x1b[?1004h"),
        (TermMode::UTF8_MOUSE, "\x1b[?1005h"),
        (TermMode::SGR_MOUSE, "\x1b[?1006h"),
        (TermMode::BRACKETED_PASTE, "\x1b[?2004h"),
        (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h"),
        (TermMode::INSERT, "\x1b[4h"),
    ] {
        if mode.contains(flag) {
            out.put(set);
        }
    }
    for (flag, unset) in [
        (TermMode::ALTERNATE_SCROLL, "\x1b[?1007l"),
        (TermMode::URGENCY_HINTS, "\x1b[?1042l"),
        (TermMode::SHOW_CURSOR, "\x1b[?25l"),
        (TermMode::LINE_WRAP, "\x1b[?7l"),
    ] {
        if !mode.contains(flag) {
            out.put(unset);
        }
    }
    for mode in &notes.modes {
        out.put(format!("\x1b[?{mode}h"));
    }
    if let Some(style) = notes.cursor_style {
        let steady = match style.shape {
            CursorShape::Underline => 4,
            CursorShape::Beam => 6,
            _ => 2,
        };
        out.put(format!("\x1b[{} q", steady - u8::from(style.blinking)));
    }
    let keyboard = engine.keyboard_modes();
    let stack = &notes.keyboard[usize::from(engine.alternate())];
    if keyboard != stack.last().copied().unwrap_or_default() {
        out.put(format!("\x1b[={};1u", keyboard.bits()));
    }
    if notes.modify_other_keys > 0 {
        out.put(format!("\x1b[>4;{}m", notes.modify_other_keys));
    }
    if notes.synchronized {
        out.put("\x1b[?2026h");
    }
}
