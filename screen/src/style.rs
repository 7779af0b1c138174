//! How a cell looks: colours, attributes, underline, link.

use std::sync::Arc;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// A colour as the program named it; what it looks like is up to the palette.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// One of the palette: 0 to 7, bright 8 to 15, a cube of 216, 24 greys.
    Index(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

impl Color {
    /// The colour in the four bytes that a cell has for it.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Color::Default => 0,
            Color::Index(index) => 1 << 24 | index as u32,
            Color::Rgb(r, g, b) => u32::from_be_bytes([2, r, g, b]),
        }
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits.to_be_bytes() {
            [2, r, g, b] => Color::Rgb(r, g, b),
            [1, _, _, index] => Color::Index(index),
            _ => Color::Default,
        }
    }
}

bitflags! {
    /// What a cell's text looks like besides its colours.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub struct Attributes: u16 {
        /// SGR 1.
        const BOLD = 1;
        /// SGR 2.
        const FAINT = 1 << 1;
        /// SGR 3.
        const ITALIC = 1 << 2;
        /// SGR 5 and 6.
        const BLINK = 1 << 3;
        /// SGR 7.
        const INVERSE = 1 << 4;
        /// SGR 8.
        const INVISIBLE = 1 << 5;
        /// SGR 9.
        const STRIKE = 1 << 6;
        /// SGR 53.
        const OVERLINE = 1 << 7;
        /// DECSCA: selective erasing leaves the cell alone.
        const PROTECTED = 1 << 8;
    }
}

/// The line under a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Underline {
    /// There is none.
    #[default]
    None,
    /// SGR 4, 4:1.
    Single,
    /// SGR 21, 4:2.
    Double,
    /// SGR 4:3.
    Curly,
    /// SGR 4:4.
    Dotted,
    /// SGR 4:5.
    Dashed,
}

impl Underline {
    /// The style with this number in SGR 4:N.
    pub(crate) fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            0 => Underline::None,
            1 => Underline::Single,
            2 => Underline::Double,
            3 => Underline::Curly,
            4 => Underline::Dotted,
            5 => Underline::Dashed,
            _ => return None,
        })
    }
}

/// Where a cell leads (OSC 8).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// What joins cells that are apart; empty for none.
    pub id: String,
    /// The target, as the program gave it.
    pub uri: String,
}

/// How text looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Style {
    /// The text's colour.
    pub foreground: Color,
    /// The colour behind it.
    pub background: Color,
    /// Bold and the like.
    pub attributes: Attributes,
    /// The line under it.
    pub underline: Underline,
    /// That line's colour.
    pub underline_color: Color,
    /// Where it leads.
    pub link: Option<Arc<Link>>,
}

impl Style {
    /// The SGR sequence after which text looks so, whatever came before; a link is none of its business.
    #[must_use]
    pub fn sgr(&self) -> String {
        let mut codes = "\x1b[0".to_owned();
        crate::codes::put_codes(self, &mut codes);
        codes.push('m');
        codes
    }
}
