//! How many columns text takes, and which characters share a cell.
//!
//! Widths are those of the crate `unicode-width`. A cell holds an extended grapheme cluster (UAX #29) and is as wide as
//! that crate says for the whole of it, at least one column and at most two. Characters without a width of their own
//! always belong to the cell before them, so that no text is lost.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a character that stands alone; 0 for one that needs another to stand on.
#[inline]
pub(crate) fn char_width(c: char) -> usize {
    match c {
        '\u{20}'..='\u{7e}' | '\u{2500}'..='\u{259f}' => 1,
        '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' => 2,
        _ => c.width().unwrap_or(0),
    }
}

/// Whether `c` is of the kana or ideographs that take two columns and stand alone.
#[inline]
pub(crate) fn is_plain_wide(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

/// Columns of a cell with this text.
pub(crate) fn cluster_width(text: &str) -> usize {
    text.width().clamp(1, 2)
}

/// Whether `c` stands alone whatever is before it: letters of the first blocks, lines and blocks, kana, ideographs, what
/// is for private use. Saves asking for most text.
#[inline]
pub(crate) fn stands_alone(c: char) -> bool {
    matches!(c,
        '\0'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}' | '\u{3000}'..='\u{3029}'
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30ff}' | '\u{3400}'..='\u{a4cf}'
        | '\u{e000}'..='\u{f8ff}' | '\u{ff01}'..='\u{ff9d}')
}

/// Whether `c` joins a cell with this text.
pub(crate) fn joins(text: &str, c: char) -> bool {
    if stands_alone(c) {
        return false;
    }
    if char_width(c) == 0 {
        return true;
    }
    // A blank is no text that something with a width of its own could belong to.
    if text == " " {
        return false;
    }
    let mut joined = String::with_capacity(text.len() + 4);
    joined.push_str(text);
    joined.push(c);
    // Where the last boundary is decides: the text may be several clusters that characters without width keep together.
    joined.grapheme_indices(true).next_back().is_some_and(|(start, _)| start < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_alone_never_joins_by_the_rules() {
        for c in (0x80..0x1_0000).filter_map(char::from_u32).filter(|c| stands_alone(*c)) {
            for before in ["a", "\u{4e16}", "\u{1f468}", "\u{ac00}", "\u{1f1e6}"] {
                assert!(format!("{before}{c}").graphemes(true).count() > 1, "{c:?}");
            }
        }
    }
}
