//! One row of cells as text: plain, with SGR sequences, or as VT bytes that write the same cells.

use alacritty_terminal::grid::{Charsets, Row};
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{CharsetIndex, Color, NamedColor, StandardCharset};

const STYLE: Flags = Flags::INVERSE
    .union(Flags::BOLD_ITALIC)
    .union(Flags::ALL_UNDERLINES)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT);

/// What a cell was written with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pen {
    foreground: Color,
    background: Color,
    style: Flags,
    underline: Option<Color>,
    link: Option<Hyperlink>,
}

impl Default for Pen {
    fn default() -> Self {
        Pen::of(&Cell::default())
    }
}

impl Pen {
    pub(super) fn of(cell: &Cell) -> Self {
        Pen {
            foreground: cell.fg,
            background: cell.bg,
            style: cell.flags.intersection(STYLE),
            underline: cell.underline_color(),
            link: cell.hyperlink(),
        }
    }

    fn is_plain(&self) -> bool {
        *self
            == Pen {
                link: self.link.clone(),
                ..Pen::default()
            }
    }
}

/// Writes VT bytes and knows the pen that the terminal has after them.
pub(super) struct Writer {
    pub(super) vt: Vec<u8>,
    pen: Pen,
    charsets: Charsets,
    /// Without colours, styles, links and combining characters, for a screen whose exact form is too large.
    bare: bool,
    /// Links are written, too.
    links: bool,
}

impl Writer {
    pub(super) fn new(bare: bool) -> Self {
        Writer {
            vt: Vec::new(),
            pen: Pen::default(),
            charsets: Charsets::default(),
            bare,
            links: true,
        }
    }

    pub(super) fn put(&mut self, text: impl AsRef<[u8]>) {
        self.vt.extend_from_slice(text.as_ref());
    }

    /// Makes the terminal write as `pen` says.
    pub(super) fn set_pen(&mut self, pen: &Pen) {
        if self.bare || self.pen == *pen {
            return;
        }
        if self.links && self.pen.link != pen.link {
            match &pen.link {
                Some(link) => self.put(format!("\x1b]8;id={};{}\x1b\\", link.id(), link.uri())),
                None => self.put("\x1b]8;;\x1b\\"),
            }
        }
        let styled = Pen {
            link: pen.link.clone(),
            ..self.pen.clone()
        } != *pen;
        if styled && pen.is_plain() {
            self.put("\x1b[m");
        } else if styled {
            self.put("\x1b[0");
            for (flag, code) in [
                (Flags::BOLD, ";1"),
                (Flags::DIM, ";2"),
                (Flags::ITALIC, ";3"),
                (Flags::UNDERLINE, ";4"),
                (Flags::DOUBLE_UNDERLINE, ";4:2"),
                (Flags::UNDERCURL, ";4:3"),
                (Flags::DOTTED_UNDERLINE, ";4:4"),
                (Flags::DASHED_UNDERLINE, ";4:5"),
                (Flags::INVERSE, ";7"),
                (Flags::HIDDEN, ";8"),
                (Flags::STRIKEOUT, ";9"),
            ] {
                if pen.style.contains(flag) {
                    self.put(code);
                }
            }
            self.put_color(pen.foreground, 30);
            self.put_color(pen.background, 40);
            // With colons, so that a terminal that does not know the code skips it whole.
            match pen.underline {
                Some(Color::Indexed(index)) => self.put(format!(";58:5:{index}")),
                Some(Color::Spec(rgb)) => self.put(format!(";58:2::{}:{}:{}", rgb.r, rgb.g, rgb.b)),
                Some(Color::Named(_)) | None => {}
            }
            self.put("m");
        }
        self.pen = pen.clone();
    }

    fn put_color(&mut self, color: Color, base: usize) {
        match color {
            Color::Named(name) => match name as usize {
                index @ 0..8 => self.put(format!(";{}", base + index)),
                index @ 8..16 => self.put(format!(";{}", base + 52 + index)),
                _ => {}
            },
            Color::Indexed(index) => self.put(format!(";{};5;{index}", base + 8)),
            Color::Spec(rgb) => {
                self.put(format!(";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b));
            }
        }
    }

    /// Gives the terminal these character sets.
    pub(super) fn set_charsets(&mut self, charsets: Charsets) {
        for (index, slot) in [
            (CharsetIndex::G0, '('),
            (CharsetIndex::G1, ')'),
            (CharsetIndex::G2, '*'),
            (CharsetIndex::G3, '+'),
        ] {
            if self.charsets[index] != charsets[index] {
                let set = match charsets[index] {
                    StandardCharset::Ascii => 'B',
                    StandardCharset::SpecialCharacterAndLineDrawing => '0',
                };
                self.put(format!("\x1b{slot}{set}"));
            }
        }
        self.charsets = charsets;
    }

    /// Writes the cell in this column at the cursor, both halves of a wide one.
    pub(super) fn put_cell(&mut self, row: &Row<Cell>, column: usize) {
        let cell = &row[Column(column)];
        self.set_pen(&Pen::of(cell));
        let mut buffer = [0; 4];
        self.put(character(row, column).encode_utf8(&mut buffer));
        if !self.bare {
            for c in cell.zerowidth().into_iter().flatten() {
                self.put(c.encode_utf8(&mut buffer));
            }
        }
    }

    /// Writes a row from its first column; the cursor stands there, or waits to wrap there when `joined` says that the
    /// row before it wraps into this one. A row that `wraps` is written to its end, so that the next one joins it. The
    /// pen is the default one before and after.
    pub(super) fn put_row(&mut self, row: &Row<Cell>, joined: bool, wraps: Option<&Row<Cell>>) {
        let columns = row.len();
        let mut end = match wraps {
            // A wide character that did not fit leaves the last column free and wraps by itself.
            Some(next) if is_leading_spacer(&row[Column(columns - 1)]) && is_wide(next, 0) => {
                columns - 1
            }
            Some(_) => columns,
            None => content_end(row),
        };
        // Cells erased in one colour up to the end of the row: erasing makes the same of them.
        let erased = (wraps.is_none() && !self.bare && end == columns)
            .then(|| erased_tail(row))
            .filter(|from| columns - from > 1);
        end = erased.unwrap_or(end).max(usize::from(joined));
        // A row that joins the one before may be scrolled in with the background of its first character.
        let tainted = joined && row[Column(0)].bg != Color::Named(NamedColor::Background);
        let mut column = 0;
        while column < end {
            let wide = is_wide(row, column);
            self.put_cell(row, column);
            column += if wide { 2 } else { 1 };
        }
        if erased.is_some() && column < columns {
            let background = Cell {
                bg: row[Column(columns - 1)].bg,
                ..Cell::default()
            };
            self.set_pen(&Pen::of(&background));
            self.put("\x1b[K");
        }
        self.set_pen(&Pen::default());
        if tainted && erased.is_none() && column < columns {
            self.put("\x1b[K");
        }
    }
}

/// The character in this column; halves of broken wide characters and tabs are blanks.
pub(super) fn character(row: &Row<Cell>, column: usize) -> char {
    let cell = &row[Column(column)];
    let half = cell
        .flags
        .intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER);
    if cell.c < ' ' || half && !is_wide(row, column) {
        ' '
    } else {
        cell.c
    }
}

pub(super) fn is_wide(row: &Row<Cell>, column: usize) -> bool {
    row[Column(column)].flags.contains(Flags::WIDE_CHAR)
        && column + 1 < row.len()
        && row[Column(column + 1)]
            .flags
            .contains(Flags::WIDE_CHAR_SPACER)
}

fn is_leading_spacer(cell: &Cell) -> bool {
    cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
}

/// Whether the row goes on in the next one.
pub(super) fn wraps(row: &Row<Cell>) -> bool {
    row.last()
        .is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE))
}

/// Where the row's blank rest begins.
pub(super) fn content_end(row: &Row<Cell>) -> usize {
    let blank = |column: usize| {
        let cell = &row[Column(column)];
        character(row, column) == ' '
            && Pen::of(cell) == Pen::default()
            && cell.zerowidth().is_none_or(<[char]>::is_empty)
    };
    (0..row.len())
        .rfind(|&column| !blank(column))
        .map_or(0, |column| column + 1)
}

/// Where the cells begin that are all as erasing with the last one's background would leave them.
fn erased_tail(row: &Row<Cell>) -> usize {
    let columns = row.len();
    let erased = Cell {
        bg: row[Column(columns - 1)].bg,
        ..Cell::default()
    };
    (0..columns)
        .rfind(|&column| row[Column(column)] != erased)
        .map_or(0, |column| column + 1)
}

/// The row's text, trailing blanks cut.
pub(super) fn plain(row: &Row<Cell>) -> String {
    let mut text = String::new();
    let mut column = 0;
    while column < row.len() {
        let cell = &row[Column(column)];
        text.push(character(row, column));
        text.extend(cell.zerowidth().into_iter().flatten());
        column += if is_wide(row, column) { 2 } else { 1 };
    }
    text.truncate(text.trim_end_matches(' ').len());
    text
}

/// The row's text with SGR sequences, trailing blanks without a background cut.
pub(super) fn colored(row: &Row<Cell>) -> String {
    let mut writer = Writer::new(false);
    writer.links = false;
    let end = content_end(row);
    let mut column = 0;
    while column < end {
        writer.put_cell(row, column);
        column += if is_wide(row, column) { 2 } else { 1 };
    }
    writer.set_pen(&Pen::default());
    String::from_utf8_lossy(&writer.vt).into_owned()
}
