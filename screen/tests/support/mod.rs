//! A screen as the terminal cases see it.

#![allow(dead_code)]

use keepline_screen::{Attributes, Color, Event, Limits, Screen, Size, Style};

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Col {
    Def,
    Idx(u8),
    Rgb(u8, u8, u8),
}

impl From<Color> for Col {
    fn from(color: Color) -> Self {
        match color {
            Color::Default => Col::Def,
            Color::Index(index) => Col::Idx(index),
            Color::Rgb(r, g, b) => Col::Rgb(r, g, b),
        }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub fg: Col,
    pub bg: Col,
    pub bold: bool,
    pub faint: bool,
    pub strike: bool,
    pub invisible: bool,
    pub ul: u8,
    pub ulc: Col,
    pub link: Option<String>,
}

/// A screen with what came of it.
pub struct Terminal {
    pub screen: Screen,
    replies: Vec<u8>,
    events: Vec<Event>,
}

impl Terminal {
    pub fn new(rows: u16, cols: u16, history_lines: usize) -> Self {
        let limits = Limits { history_lines, ..Limits::default() };
        Terminal { screen: Screen::new(Size::cells(cols, rows), limits), replies: Vec::new(), events: Vec::new() }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let effects = self.screen.feed(bytes);
        self.replies.extend(effects.reply_bytes());
        self.events.extend(effects.events.into_iter().map(|occurrence| occurrence.event));
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(Size::cells(cols, rows));
    }

    pub fn row(&mut self, row: u16, cols: u16) -> String {
        let text: String = (0..cols).map(|column| self.screen.glyph(row, column).text).collect();
        text.trim_end_matches(' ').to_owned()
    }

    pub fn cell(&mut self, row: u16, column: u16) -> Cell {
        let glyph = self.screen.glyph(row, column);
        let Style { foreground, background, attributes, underline, underline_color, link } = glyph.style;
        Cell {
            text: glyph.text,
            fg: foreground.into(),
            bg: background.into(),
            bold: attributes.contains(Attributes::BOLD),
            faint: attributes.contains(Attributes::FAINT),
            strike: attributes.contains(Attributes::STRIKE),
            invisible: attributes.contains(Attributes::INVISIBLE),
            ul: underline as u8,
            ulc: underline_color.into(),
            link: link.map(|link| link.uri.clone()),
        }
    }

    pub fn cursor(&mut self) -> (u16, u16) {
        let (column, row) = self.screen.cursor();
        (row, column)
    }

    pub fn replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub fn history_len(&mut self) -> usize {
        let ids = self.screen.history();
        (ids.end - ids.start) as usize
    }

    pub fn history_line(&mut self, index: u64) -> String {
        let first = self.screen.history().start;
        self.screen.line(first + index).unwrap().text()
    }

    pub fn title(&mut self) -> Option<String> {
        Some(self.screen.title().to_owned()).filter(|title| !title.is_empty())
    }

    pub fn mode(&mut self, name: &str) -> Option<bool> {
        match name {
            "decckm" => self.screen.private_mode(1),
            "deckpam" => self.screen.private_mode(66),
            "bar" => Some(self.screen.modes().cursor_style >= 5),
            number => self.screen.private_mode(number.parse().ok()?),
        }
    }

    pub fn reencode(&mut self) -> Option<Vec<u8>> {
        Some(self.screen.snapshot_vt(1000, usize::MAX))
    }
}

pub fn t(text: &str) -> Terminal {
    let mut terminal = Terminal::new(24, 80, 1000);
    terminal.feed(text.as_bytes());
    terminal
}

pub fn rep(c: char, count: usize) -> String {
    c.to_string().repeat(count)
}

pub fn eq<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: got {got:?}, wanted {wanted:?}")) }
}

pub fn has(what: &str, bytes: &[u8], part: &[u8]) -> Result<(), String> {
    if bytes.windows(part.len()).any(|window| window == part) {
        Ok(())
    } else {
        Err(format!("{what}: {:?}", String::from_utf8_lossy(bytes)))
    }
}

pub fn ev(terminal: &mut Terminal, what: &str) -> Result<(), String> {
    let events = terminal.events();
    let found = events.iter().any(|event| match event {
        Event::Clipboard { .. } => what == "clipboard",
        Event::Mark(_) => what == "133",
        Event::Notification { .. } => what == "notify",
        _ => false,
    });
    if found { Ok(()) } else { Err(format!("{what}: {events:?}")) }
}

pub fn full(terminal: &mut Terminal, rows: u16, cols: u16) -> String {
    let mut lines: Vec<String> = (0..terminal.history_len() as u64).map(|index| terminal.history_line(index)).collect();
    lines.extend((0..rows).map(|row| terminal.row(row, cols)));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("|")
}
