//! The engine with what it hides.
//!
//! `alacritty_terminal`'s `Term` decides what the screen is. Some of its state can be changed but not read: margins, tab
//! stops, title, stacks, the active character set. [`Engine`] stands between the parser and the `Term`, passes every
//! call on, and notes that state in [`Notes`]. It also answers what the `Term` leaves to its owner (colours, device
//! attributes, pixel sizes), keeps the few modes that the `Term` does not know, and holds unbounded things in bounds.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Cursor, Dimensions};
use alacritty_terminal::index::{Column, Point};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, KeyboardModes,
    KeyboardModesApplyBehavior, LineClearMode, Mode, ModifyOtherKeys, NamedPrivateMode,
    PrivateMode, Rgb, StandardCharset, TabulationClearMode,
};
use keepline_protocol::api::Size;
use unicode_width::UnicodeWidthChar;

use super::palette;
use crate::bounds::{COMBINING_MAX, KEYBOARD_STACK_MAX, LINK_MAX, TITLE_MAX, TITLE_STACK_MAX};

/// Private modes that the engine does not know and that change what a client's own terminal shows or sends: reverse
/// video, X10 mouse, reverse wrap, and the urxvt and pixel mouse encodings.
const EXTRA_MODES: [u16; 5] = [5, 9, 45, 1015, 1016];

/// A size in the engine's terms.
#[derive(Clone, Copy)]
pub(super) struct Cells {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl From<Size> for Cells {
    fn from(size: Size) -> Self {
        Cells {
            columns: usize::from(size.cols),
            rows: usize::from(size.rows),
        }
    }
}

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.rows
    }
    fn screen_lines(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.columns
    }
}

/// Gathers what the engine wants to write to the PTY.
#[derive(Clone, Default)]
pub(super) struct Replies(Arc<Mutex<Vec<u8>>>);

impl Replies {
    fn push(&self, reply: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(reply.as_bytes());
    }

    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventListener for Replies {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(reply) = event {
            self.push(&reply);
        }
    }
}

/// State that the engine hides or does not have.
pub(super) struct Notes {
    /// Rows of the scroll region, counted from the top of the screen.
    pub(super) margins: Range<usize>,
    /// Per column, whether a tab stops there.
    pub(super) tabs: Vec<bool>,
    pub(super) charset: CharsetIndex,
    /// Empty for none.
    pub(super) title: String,
    pub(super) titles: Vec<String>,
    /// Keyboard mode stacks of the main and the alternate screen.
    pub(super) keyboard: [Vec<KeyboardModes>; 2],
    pub(super) modify_other_keys: u8,
    pub(super) cursor_style: Option<CursorStyle>,
    /// A synchronized update is under way. It holds nothing back here.
    pub(super) synchronized: bool,
    /// Those of [`EXTRA_MODES`] that are set.
    pub(super) modes: Vec<u16>,
    /// The alternate screen's saved cursor, as it was when it was saved.
    pub(super) alternate_saved: Option<Cursor<Cell>>,
    /// What REP repeats.
    pub(super) printed: Option<char>,
    pub(super) bells: u32,
    pub(super) title_changed: bool,
}

impl Notes {
    fn new(size: Cells) -> Self {
        Notes {
            margins: 0..size.rows,
            tabs: default_tabs(0..size.columns).collect(),
            charset: CharsetIndex::G0,
            title: String::new(),
            titles: Vec::new(),
            keyboard: [Vec::new(), Vec::new()],
            modify_other_keys: 0,
            cursor_style: None,
            synchronized: false,
            modes: Vec::new(),
            alternate_saved: None,
            printed: None,
            bells: 0,
            title_changed: false,
        }
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        self.modes.retain(|&set| set != mode);
        if on && EXTRA_MODES.contains(&mode) {
            self.modes.push(mode);
        }
    }
}

/// The default tab stops of these columns.
pub(super) fn default_tabs(columns: Range<usize>) -> impl Iterator<Item = bool> {
    columns.map(|column| column % 8 == 0)
}

/// The engine and the notes about it.
pub(super) struct Engine {
    pub(super) term: Term<Replies>,
    pub(super) notes: Notes,
    pub(super) replies: Replies,
    /// Width and height in pixels, zero when not known.
    pub(super) pixels: (u16, u16),
}

impl Engine {
    pub(super) fn new(size: Cells, history: usize) -> Self {
        let replies = Replies::default();
        Engine {
            term: Term::new(config(history), &size, replies.clone()),
            notes: Notes::new(size),
            replies,
            pixels: (0, 0),
        }
    }

    /// Gives the screen another size and the history another bound, in lines.
    pub(super) fn resize(&mut self, size: Cells, history: usize) {
        // Fewer lines first: the narrower screen may hold more of them than the wider one may.
        if size.columns > self.term.columns() {
            self.term.set_options(config(history));
        }
        self.term.resize(size);
        self.term.set_options(config(history));
        self.wait_at_the_end_only();
        self.notes.margins = 0..size.rows;
        let known = self.notes.tabs.len();
        self.notes.tabs.truncate(size.columns);
        if size.columns > known {
            self.notes.tabs.extend(default_tabs(known..size.columns));
        }
    }

    pub(super) fn alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// The keyboard modes in force, which the stack's top need not be.
    pub(super) fn keyboard_modes(&self) -> KeyboardModes {
        let mode = self.term.mode();
        [
            (
                TermMode::DISAMBIGUATE_ESC_CODES,
                KeyboardModes::DISAMBIGUATE_ESC_CODES,
            ),
            (
                TermMode::REPORT_EVENT_TYPES,
                KeyboardModes::REPORT_EVENT_TYPES,
            ),
            (
                TermMode::REPORT_ALTERNATE_KEYS,
                KeyboardModes::REPORT_ALTERNATE_KEYS,
            ),
            (
                TermMode::REPORT_ALL_KEYS_AS_ESC,
                KeyboardModes::REPORT_ALL_KEYS_AS_ESC,
            ),
            (
                TermMode::REPORT_ASSOCIATED_TEXT,
                KeyboardModes::REPORT_ASSOCIATED_TEXT,
            ),
        ]
        .into_iter()
        .filter(|(theirs, _)| mode.contains(*theirs))
        .fold(KeyboardModes::NO_MODE, |modes, (_, ours)| modes | ours)
    }

    fn keyboard_stack(&mut self) -> &mut Vec<KeyboardModes> {
        let screen = usize::from(self.alternate());
        &mut self.notes.keyboard[screen]
    }

    /// The cell that a combining character would join.
    fn joined_cell(&self) -> Point {
        let cursor = &self.term.grid().cursor;
        let mut point = cursor.point;
        if !cursor.input_needs_wrap {
            point.column.0 = point.column.saturating_sub(1);
        }
        let cell = &self.term.grid()[point];
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            point.column.0 = point.column.saturating_sub(1);
        }
        point
    }

    /// The engine sometimes lets a cursor wait to wrap in the middle of a row.
    fn wait_at_the_end_only(&mut self) {
        let last = self.term.columns() - 1;
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.input_needs_wrap &= cursor.point.column.0 == last;
    }

    /// The mark that the cursor's row wraps is on its last cell, and must not move with it.
    fn unwrap_row(&mut self) {
        let last = Column(self.term.columns() - 1);
        let line = self.term.grid().cursor.point.line;
        self.term.grid_mut()[line][last]
            .flags
            .remove(Flags::WRAPLINE);
    }

    fn set_title_to(&mut self, title: String) {
        self.notes.title_changed |= title != self.notes.title;
        self.notes.title = title;
    }
}

fn config(history: usize) -> Config {
    Config {
        scrolling_history: history,
        kitty_keyboard: true,
        // The clipboard is a person's, not a program's.
        osc52: Osc52::Disabled,
        ..Config::default()
    }
}

/// The title without control characters, cut to its bound.
fn clean_title(title: &str) -> String {
    let mut clean = String::new();
    for c in title.chars().filter(|c| !c.is_control()) {
        if clean.len() + c.len_utf8() > TITLE_MAX {
            break;
        }
        clean.push(c);
    }
    clean
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $name(&mut self, $($argument: $type),*) {
            self.term.$name($($argument),*);
        }
    )*};
}

impl Handler for Engine {
    pass_on! {
        goto(line: i32, column: usize);
        goto_line(line: i32);
        goto_col(column: usize);
        move_up(rows: usize);
        move_down(rows: usize);
        device_status(kind: usize);
        move_forward(columns: usize);
        move_backward(columns: usize);
        move_down_and_cr(rows: usize);
        move_up_and_cr(rows: usize);
        put_tab(count: u16);
        backspace();
        carriage_return();
        linefeed();
        substitute();
        newline();
        scroll_up(rows: usize);
        scroll_down(rows: usize);
        insert_blank_lines(count: usize);
        delete_lines(count: usize);
        erase_chars(count: usize);
        move_forward_tabs(count: u16);
        clear_line(mode: LineClearMode);
        clear_screen(mode: ClearMode);
        reverse_index();
        terminal_attribute(attribute: Attr);
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        report_mode(mode: Mode);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        set_color(index: usize, color: Rgb);
        reset_color(index: usize);
        decaln();
        text_area_size_chars();
        report_keyboard_mode();
    }

    #[inline]
    fn input(&mut self, c: char) {
        self.notes.printed = Some(c);
        // Combining characters begin at U+0300.
        if c >= '\u{300}' && c.width() == Some(0) {
            let joined = self.joined_cell();
            let combining = self.term.grid()[joined]
                .zerowidth()
                .map_or(0, <[char]>::len);
            if combining >= COMBINING_MAX {
                return;
            }
        }
        self.term.input(c);
    }

    fn insert_blank(&mut self, count: usize) {
        self.unwrap_row();
        self.term.insert_blank(count);
    }

    fn delete_chars(&mut self, count: usize) {
        self.unwrap_row();
        self.term.delete_chars(count);
    }

    fn move_backward_tabs(&mut self, count: u16) {
        self.term.move_backward_tabs(count);
        self.wait_at_the_end_only();
    }

    fn save_cursor_position(&mut self) {
        self.term.save_cursor_position();
        if self.alternate() {
            self.notes.alternate_saved = Some(self.term.grid().saved_cursor.clone());
        }
    }

    fn restore_cursor_position(&mut self) {
        self.term.restore_cursor_position();
        self.wait_at_the_end_only();
    }

    fn set_title(&mut self, title: Option<String>) {
        self.set_title_to(clean_title(&title.unwrap_or_default()));
    }

    fn push_title(&mut self) {
        if self.notes.titles.len() == TITLE_STACK_MAX {
            self.notes.titles.remove(0);
        }
        self.notes.titles.push(self.notes.title.clone());
    }

    fn pop_title(&mut self) {
        if let Some(title) = self.notes.titles.pop() {
            self.set_title_to(title);
        }
    }

    fn bell(&mut self) {
        self.notes.bells = self.notes.bells.saturating_add(1);
    }

    fn set_cursor_style(&mut self, style: Option<CursorStyle>) {
        self.notes.cursor_style = style;
        self.term.set_cursor_style(style);
    }

    fn set_cursor_shape(&mut self, shape: CursorShape) {
        self.notes.cursor_style.get_or_insert_default().shape = shape;
        self.term.set_cursor_shape(shape);
    }

    fn set_horizontal_tabstop(&mut self) {
        let column = self.term.grid().cursor.point.column.0;
        self.notes.tabs[column] = true;
        self.term.set_horizontal_tabstop();
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        match mode {
            TabulationClearMode::Current => {
                let column = self.term.grid().cursor.point.column.0;
                self.notes.tabs[column] = false;
            }
            TabulationClearMode::All => self.notes.tabs.fill(false),
        }
        self.term.clear_tabs(mode);
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.notes.charset = index;
        self.term.set_active_charset(index);
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        let rows = self.term.screen_lines();
        let bottom = bottom.unwrap_or(rows).min(rows);
        // The engine would take a region below the screen; a terminal ignores it.
        if top < bottom {
            self.notes.margins = top - 1..bottom;
            self.term.set_scrolling_region(top, Some(bottom));
        }
    }

    fn reset_state(&mut self) {
        let size = Cells {
            columns: self.term.columns(),
            rows: self.term.screen_lines(),
        };
        let before = std::mem::replace(&mut self.notes, Notes::new(size));
        self.notes.printed = before.printed;
        self.notes.bells = before.bells;
        self.notes.title_changed = before.title_changed || !before.title.is_empty();
        self.term.reset_state();
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Unknown(9) => {
                // Mouse protocols exclude each other.
                self.unset_private_mode(NamedPrivateMode::ReportMouseClicks.into());
                self.unset_private_mode(NamedPrivateMode::ReportCellMouseMotion.into());
                self.unset_private_mode(NamedPrivateMode::ReportAllMouseMotion.into());
                self.notes.set_mode(9, true);
            }
            PrivateMode::Unknown(encoding @ (1015 | 1016)) => {
                self.unset_private_mode(NamedPrivateMode::Utf8Mouse.into());
                self.unset_private_mode(NamedPrivateMode::SgrMouse.into());
                self.notes.set_mode(1015, false);
                self.notes.set_mode(1016, false);
                self.notes.set_mode(encoding, true);
            }
            PrivateMode::Unknown(mode) => self.notes.set_mode(mode, true),
            PrivateMode::Named(named) => {
                match named {
                    NamedPrivateMode::ReportMouseClicks
                    | NamedPrivateMode::ReportCellMouseMotion
                    | NamedPrivateMode::ReportAllMouseMotion => self.notes.set_mode(9, false),
                    NamedPrivateMode::Utf8Mouse | NamedPrivateMode::SgrMouse => {
                        self.notes.set_mode(1015, false);
                        self.notes.set_mode(1016, false);
                    }
                    NamedPrivateMode::SyncUpdate => self.notes.synchronized = true,
                    NamedPrivateMode::ColumnMode => {
                        self.notes.margins = 0..self.term.screen_lines()
                    }
                    NamedPrivateMode::BlinkingCursor => {
                        self.notes.cursor_style.get_or_insert_default().blinking = true;
                    }
                    _ => {}
                }
                self.term.set_private_mode(mode);
            }
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        match mode {
            PrivateMode::Unknown(mode) => self.notes.set_mode(mode, false),
            PrivateMode::Named(named) => {
                match named {
                    NamedPrivateMode::SyncUpdate => self.notes.synchronized = false,
                    NamedPrivateMode::ColumnMode => {
                        self.notes.margins = 0..self.term.screen_lines()
                    }
                    NamedPrivateMode::BlinkingCursor => {
                        self.notes.cursor_style.get_or_insert_default().blinking = false;
                    }
                    _ => {}
                }
                self.term.unset_private_mode(mode);
            }
        }
    }

    fn report_private_mode(&mut self, mode: PrivateMode) {
        let set = match mode {
            PrivateMode::Named(NamedPrivateMode::SyncUpdate) => self.notes.synchronized,
            PrivateMode::Unknown(mode) if EXTRA_MODES.contains(&mode) => {
                self.notes.modes.contains(&mode)
            }
            _ => return self.term.report_private_mode(mode),
        };
        let state = if set { 1 } else { 2 };
        self.replies
            .push(&format!("\x1b[?{};{state}$y", mode.raw()));
    }

    fn identify_terminal(&mut self, intermediate: Option<char>) {
        match intermediate {
            // A VT220 with colours, as programs expect of an xterm.
            None => self.replies.push("\x1b[?62;22c"),
            other => self.term.identify_terminal(other),
        }
    }

    fn dynamic_color_sequence(&mut self, prefix: String, index: usize, terminator: &str) {
        let color = self.term.colors()[index].unwrap_or_else(|| palette::default_color(index));
        let Rgb { r, g, b } = color;
        self.replies.push(&format!(
            "\x1b]{prefix};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{terminator}"
        ));
    }

    fn text_area_size_pixels(&mut self) {
        let (width, height) = self.pixels;
        if width > 0 && height > 0 {
            self.replies.push(&format!("\x1b[4;{height};{width}t"));
        }
    }

    fn set_hyperlink(&mut self, hyperlink: Option<Hyperlink>) {
        let fits = |link: &Hyperlink| {
            let id = link.id.as_deref().unwrap_or_default();
            // The parser lets C1 controls through, which would end the link early when a snapshot repeats it.
            let clean = |text: &str| !text.chars().any(char::is_control);
            link.uri.len() + id.len() <= LINK_MAX && clean(&link.uri) && clean(id)
        };
        self.term.set_hyperlink(hyperlink.filter(fits));
    }

    fn push_keyboard_mode(&mut self, mode: KeyboardModes) {
        let stack = self.keyboard_stack();
        if stack.len() < KEYBOARD_STACK_MAX {
            stack.push(mode);
            self.term.push_keyboard_mode(mode);
        } else {
            stack.remove(0);
            stack.push(mode);
            let stack = stack.clone();
            self.term.pop_keyboard_modes(u16::MAX);
            for mode in stack {
                self.term.push_keyboard_mode(mode);
            }
        }
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        let stack = self.keyboard_stack();
        stack.truncate(stack.len().saturating_sub(usize::from(count)));
        self.term.pop_keyboard_modes(count);
    }

    fn set_keyboard_mode(&mut self, mode: KeyboardModes, behaviour: KeyboardModesApplyBehavior) {
        Handler::set_keyboard_mode(&mut self.term, mode, behaviour);
    }

    fn set_modify_other_keys(&mut self, mode: ModifyOtherKeys) {
        self.notes.modify_other_keys = mode as u8;
    }

    fn report_modify_other_keys(&mut self) {
        self.replies
            .push(&format!("\x1b[>4;{}m", self.notes.modify_other_keys));
    }
}
