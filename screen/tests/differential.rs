//! Beside alacritty_terminal: text, cursor and styles, over recordings and random streams. Where the two are not of one
//! mind `spec/screen.md` says who is right; the streams here keep to the rest.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{Color as TheirColor, Processor, StdSyncHandler};
use keepline_screen::{Attributes, Color, Limits, Screen, Size, Underline};

struct Cells(usize, usize);

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.1
    }
    fn screen_lines(&self) -> usize {
        self.1
    }
    fn columns(&self) -> usize {
        self.0
    }
}

struct Both {
    ours: Screen,
    theirs: Term<VoidListener>,
    parser: Processor<StdSyncHandler>,
}

impl Both {
    fn new(cols: u16, rows: u16) -> Self {
        let size = Cells(cols.into(), rows.into());
        Both {
            ours: Screen::new(Size::cells(cols, rows), Limits::default()),
            theirs: Term::new(Config::default(), &size, VoidListener),
            parser: Processor::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.ours.feed(bytes);
        self.parser.advance(&mut self.theirs, bytes);
    }

    /// What each shows where they differ.
    fn differences(&self) -> Vec<String> {
        let mut all = Vec::new();
        let Size { cols, rows, .. } = self.ours.size();
        for row in 0..rows {
            for column in 0..cols {
                let (ours, theirs) = (self.our_cell(row, column), self.their_cell(row, column));
                // They give the column that a wide character left free its style.
                let left_free = Flags::LEADING_WIDE_CHAR_SPACER;
                let cell = &self.theirs.grid()[Line(row.into())][Column(column.into())];
                if cell.flags.contains(left_free) {
                    continue;
                }
                if ours != theirs {
                    all.push(format!("row {row}, column {column}: ours {ours}, theirs {theirs}"));
                }
            }
        }
        let point = self.theirs.grid().cursor.point;
        let theirs = (point.column.0 as u16, point.line.0 as u16);
        if self.ours.cursor() != theirs {
            all.push(format!("cursor: ours {:?}, theirs {theirs:?}", self.ours.cursor()));
        }
        all
    }

    fn our_cell(&self, row: u16, column: u16) -> String {
        let glyph = self.ours.glyph(row, column);
        let style = glyph.style;
        let text = if glyph.columns == 0 { " " } else { &glyph.text };
        let attributes = style.attributes - Attributes::BLINK - Attributes::OVERLINE - Attributes::PROTECTED;
        let colour = |color: Color| match color {
            Color::Default => "default".to_owned(),
            Color::Index(index) => index.to_string(),
            Color::Rgb(r, g, b) => format!("{r}/{g}/{b}"),
        };
        let (foreground, background) = (colour(style.foreground), colour(style.background));
        format!("{text:?} {foreground} on {background} {:09b} {:?}", attributes.bits(), style.underline)
    }

    fn their_cell(&self, row: u16, column: u16) -> String {
        let cell = &self.theirs.grid()[Line(row.into())][Column(column.into())];
        let spacer = Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
        let mut text: String = if cell.flags.intersects(spacer) || cell.c < ' ' { ' ' } else { cell.c }.into();
        text.extend(cell.zerowidth().into_iter().flatten());
        let mut attributes = Attributes::empty();
        for (flag, attribute) in [
            (Flags::BOLD, Attributes::BOLD),
            (Flags::DIM, Attributes::FAINT),
            (Flags::ITALIC, Attributes::ITALIC),
            (Flags::INVERSE, Attributes::INVERSE),
            (Flags::HIDDEN, Attributes::INVISIBLE),
            (Flags::STRIKEOUT, Attributes::STRIKE),
        ] {
            attributes.set(attribute, cell.flags.contains(flag));
        }
        let underline = [
            (Flags::UNDERLINE, Underline::Single),
            (Flags::DOUBLE_UNDERLINE, Underline::Double),
            (Flags::UNDERCURL, Underline::Curly),
            (Flags::DOTTED_UNDERLINE, Underline::Dotted),
            (Flags::DASHED_UNDERLINE, Underline::Dashed),
        ];
        let underline = underline.iter().find(|(flag, _)| cell.flags.contains(*flag));
        let underline = underline.map_or(Underline::None, |(_, underline)| *underline);
        let colour = |color: TheirColor| match color {
            TheirColor::Named(name) if (name as usize) < 16 => (name as usize).to_string(),
            TheirColor::Named(_) => "default".to_owned(),
            TheirColor::Indexed(index) => index.to_string(),
            TheirColor::Spec(rgb) => format!("{}/{}/{}", rgb.r, rgb.g, rgb.b),
        };
        let (foreground, background) = (colour(cell.fg), colour(cell.bg));
        format!("{text:?} {foreground} on {background} {:09b} {underline:?}", attributes.bits())
    }
}

#[test]
fn recordings_look_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut failed = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "vt") {
            continue;
        }
        let mut both = Both::new(80, 24);
        for (index, piece) in std::fs::read(&path).unwrap().chunks(997).enumerate() {
            both.feed(piece);
            let differences = both.differences();
            if !differences.is_empty() {
                let first: Vec<_> = differences.iter().take(6).collect();
                failed.push(format!("{}, after piece {index}: {first:#?}", path.display()));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

const FRAGMENTS: &[&str] = &[
    "a",
    "bc",
    "hello ",
    "\x1b[3G\u{4e16}",
    "\x1b[7G\u{754c}\u{4e16}",
    "e\u{301}",
    "\r\n",
    "\r",
    "\x08",
    "  ",
    "abcdefghijkl",
    "\x1b[31m",
    "\x1b[44m",
    "\x1b[1;4:3m",
    "\x1b[38;2;1;2;3m",
    "\x1b[48:5:77m",
    "\x1b[m",
    "\x1b[7m",
    "\x1b[2;3;8;9m",
    "\x1b[22;24m",
    "\x1b[93;104m",
    "\x1b[39;49m",
    "\x1b[H",
    "\x1b[3;4H",
    "\x1b[5;12H",
    "\x1b[C",
    "\x1b[3D",
    "\x1b[5G",
    "\x1b[3d",
    "\x1b[2J",
    "\x1b[2K",
    "\r\x1b[L",
    "\r\x1b[2M",
    "\x1b[S",
    "\x1b[T",
    "\r\x1bM",
    "\x1bE",
    "\x1b[?1049hqx\x1b[?1049l",
    "\x1b(0",
    "\x1b(B",
    "qx",
    "\x1b[?25l",
    "\x1b[4 q",
    "\x1b]0;title\x07",
];

/// Both stop at the edges of the screen, but only we at the margins (DEC STD 070, CUU and CUD).
const MOVES: &[&str] = &["\x1b#8\x1b[H", "\x1b[A", "\x1b[2B", "\x1b[2E", "\x1b[F"];
const MARGINS: &[&str] = &["\x1b[2;4r", "\x1b[r"];

#[test]
fn random_streams_look_the_same() {
    for seed in 0..1500u64 {
        let mut number = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut stream = String::new();
        let mut both = Both::new(12, 5);
        for _ in 0..60 {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            let others = if seed % 2 == 0 { MOVES } else { MARGINS };
            let at = (number >> 11) as usize % (FRAGMENTS.len() + others.len());
            let fragment = FRAGMENTS.get(at).unwrap_or_else(|| &others[at - FRAGMENTS.len()]);
            stream.push_str(fragment);
            both.feed(fragment.as_bytes());
            let differences = both.differences();
            assert!(differences.is_empty(), "seed {seed}, {stream:?}: {differences:#?}");
        }
    }
}
