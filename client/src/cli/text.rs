//! Text for people: nothing in it that came from a machine can steer their terminal.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// `text` without control characters and without characters that change the direction of text or break lines.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(steers) {
        Cow::Owned(text.chars().filter(|&c| !steers(c)).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// `row` with SGR sequences kept and everything else cleaned.
#[must_use]
pub fn clean_keeping_colours(row: &str) -> String {
    let mut out = String::with_capacity(row.len());
    let mut rest = row;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&clean(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| !matches!(c, '0'..='9' | ';' | ':')).unwrap_or(sequence.len());
            if let Some(after) = sequence[end..].strip_prefix('m') {
                out.push_str("\x1b[");
                out.push_str(&sequence[..end]);
                out.push('m');
                rest = after;
            }
        }
    }
    out.push_str(&clean(rest));
    out
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Rows in aligned columns under a head, each line ended; nothing for no rows. Cells are cleaned.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let lines: Vec<Vec<Cow<'_, str>>> = std::iter::once(head.iter().map(|cell| Cow::from(*cell)).collect())
        .chain(rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()))
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.width()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.width().min(*width) + 2));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// How long before `now_ms` the moment `then_ms` was, as a person says it; `-` for no moment.
#[must_use]
pub fn age(now_ms: u64, then_ms: u64) -> String {
    if then_ms == 0 {
        return "-".to_owned();
    }
    match now_ms.saturating_sub(then_ms) / 1000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The time now, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_machine_steers_a_terminal() {
        assert_eq!(clean("a\x1b[31m\u{202e}b\u{9b}c\r\n\u{2066}d\u{200f}"), "a[31mbcd");
        assert!(matches!(clean("größe 日本"), Cow::Borrowed(_)));
        assert_eq!(
            clean_keeping_colours("\x1b[1;38:5:9mr\x1b[m\x1b]0;t\x07\x1b[2Jx\x1b"),
            "\x1b[1;38:5:9mr\x1b[m]0;t[2Jx"
        );
    }

    #[test]
    fn columns_align_by_width() {
        let rows = vec![
            vec!["1".to_owned(), "日本".to_owned(), "x".to_owned()],
            vec!["22".to_owned(), "a\x1bb".to_owned(), String::new()],
        ];
        assert_eq!(table(&["ID", "NAME", "Z"], &rows), "ID  NAME  Z\n1   日本  x\n22  ab\n");
        assert_eq!(table(&["ID"], &[]), "");
    }

    #[test]
    fn ages_are_short() {
        for (then, text) in [(0, "-"), (1, "1d"), (99_999_000, "1s"), (99_900_000, "1m"), (90_000_000, "2h")] {
            assert_eq!(age(100_000_000, then), text);
        }
    }
}
