//! The cell: what stands in one column of a row, in 16 bytes.

use crate::style::{Attributes, Color, Underline};

const CLUSTER: u32 = 1 << 24;
const WIDE: u32 = 1 << 25;
const SPACER: u32 = 1 << 26;
const UNDERLINE: u32 = 9;
const EXTRA: u32 = 12;

/// One column. Several characters of one cell, links and underline colours are numbers of entries in
/// [`Tables`](crate::tables::Tables).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// A character or the number of a cluster, whether it is wide; or the right half of a wide cell.
    pub(crate) content: u32,
    pub(crate) foreground: u32,
    pub(crate) background: u32,
    /// Attributes in the lowest 9 bits, underline in the next 3, then the number of the extra; 0 for none.
    pub(crate) look: u32,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Char(char),
    Cluster(u32),
    /// The right half of the wide cell before it.
    Spacer,
}

impl Cell {
    pub(crate) const BLANK: Cell = Cell { content: b' ' as u32, foreground: 0, background: 0, look: 0 };

    /// What erasing leaves with this pen: its background.
    pub(crate) fn erased(self) -> Cell {
        Cell { background: self.background, ..Cell::BLANK }
    }

    pub(crate) fn with_char(self, c: char, wide: bool) -> Cell {
        Cell { content: u32::from(c) | if wide { WIDE } else { 0 }, ..self }
    }

    pub(crate) fn with_ascii(self, byte: u8) -> Cell {
        Cell { content: u32::from(byte), ..self }
    }

    pub(crate) fn with_cluster(self, cluster: u32, wide: bool) -> Cell {
        Cell { content: cluster | CLUSTER | if wide { WIDE } else { 0 }, ..self }
    }

    /// The right half of this cell.
    pub(crate) fn spacer(self) -> Cell {
        Cell { content: SPACER, ..self }
    }

    pub(crate) fn content(self) -> Content {
        let value = self.content & 0xff_ffff;
        if self.is_spacer() {
            Content::Spacer
        } else if self.content & CLUSTER > 0 {
            Content::Cluster(value)
        } else {
            Content::Char(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER))
        }
    }

    pub(crate) fn is_spacer(self) -> bool {
        self.content == SPACER
    }

    pub(crate) fn is_wide(self) -> bool {
        self.content & WIDE > 0
    }

    /// Columns that the cell takes; 0 for a right half.
    pub(crate) fn width(self) -> usize {
        if self.is_spacer() { 0 } else { 1 + usize::from(self.is_wide()) }
    }

    /// The cell without its text.
    pub(crate) fn style(self) -> Cell {
        Cell { content: b' '.into(), ..self }
    }

    #[inline]
    pub(crate) fn same_style(self, other: Cell) -> bool {
        (self.foreground, self.background, self.look) == (other.foreground, other.background, other.look)
    }

    /// Whether text of this pen is plain ASCII text of a row.
    pub(crate) fn is_plain(self) -> bool {
        self.foreground | self.background | self.look == 0
    }

    pub(crate) fn attributes(self) -> Attributes {
        Attributes::from_bits_truncate((self.look & ((1 << UNDERLINE) - 1)) as u16)
    }

    pub(crate) fn set_attributes(&mut self, attributes: Attributes, on: bool) {
        let bits = u32::from(attributes.bits());
        self.look = if on { self.look | bits } else { self.look & !bits };
    }

    pub(crate) fn underline(self) -> Underline {
        Underline::from_number((self.look >> UNDERLINE & 7) as u16).unwrap_or_default()
    }

    pub(crate) fn set_underline(&mut self, underline: Underline) {
        self.look = self.look & !(7 << UNDERLINE) | (underline as u32) << UNDERLINE;
    }

    pub(crate) fn extra(self) -> u32 {
        self.look >> EXTRA
    }

    pub(crate) fn set_extra(&mut self, extra: u32) {
        self.look = self.look & ((1 << EXTRA) - 1) | extra << EXTRA;
    }

    pub(crate) fn set_foreground(&mut self, color: Color) {
        self.foreground = color.bits();
    }

    pub(crate) fn set_background(&mut self, color: Color) {
        self.background = color.bits();
    }
}
