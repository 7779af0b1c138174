//! The cursor with all that DECSC saves of it.

use serde::{Deserialize, Serialize};

use crate::cell::Cell;

/// What a byte from 0x20 to 0x7e means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Charset {
    #[default]
    Ascii,
    /// DEC special graphics.
    Graphics,
    /// ASCII with the pound sign for `#`.
    British,
}

impl Charset {
    /// The set with this final byte; what we do not have is ASCII.
    pub(crate) fn named(last: u8) -> Self {
        match last {
            b'0' => Charset::Graphics,
            b'A' => Charset::British,
            _ => Charset::Ascii,
        }
    }

    pub(crate) fn final_byte(self) -> u8 {
        match self {
            Charset::Ascii => b'B',
            Charset::Graphics => b'0',
            Charset::British => b'A',
        }
    }

    pub(crate) fn map(self, c: char) -> char {
        const GRAPHICS: [char; 32] = [
            ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽',
            '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
        ];
        match (self, c) {
            (Charset::Graphics, '_'..='~') => GRAPHICS[c as usize - '_' as usize],
            (Charset::British, '#') => '£',
            _ => c,
        }
    }
}

/// Sets G0 to G3, and which of them is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Charsets {
    pub(crate) sets: [Charset; 4],
    /// Below 4.
    pub(crate) active: u8,
}

impl Charsets {
    pub(crate) fn set(&self, number: u8) -> Charset {
        self.sets[usize::from(number & 3)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) row: usize,
    pub(crate) column: usize,
    /// The last column was written; the next character goes to the next row.
    pub(crate) pending: bool,
    /// Positions count from the margins and end there (DECOM).
    pub(crate) origin: bool,
    /// A blank in the style of what is written.
    pub(crate) pen: Cell,
    pub(crate) charsets: Charsets,
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor { row: 0, column: 0, pending: false, origin: false, pen: Cell::BLANK, charsets: Charsets::default() }
    }
}
