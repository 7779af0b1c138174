//! Styles as parameters of SGR.

use crate::style::{Attributes, Color, Style, Underline};

/// Adds the SGR parameters of a style to those that `codes` has.
pub(crate) fn put_codes(style: &Style, codes: &mut String) {
    for (attribute, code) in [
        (Attributes::BOLD, ";1"),
        (Attributes::FAINT, ";2"),
        (Attributes::ITALIC, ";3"),
        (Attributes::BLINK, ";5"),
        (Attributes::INVERSE, ";7"),
        (Attributes::INVISIBLE, ";8"),
        (Attributes::STRIKE, ";9"),
        (Attributes::OVERLINE, ";53"),
    ] {
        if style.attributes.contains(attribute) {
            codes.push_str(code);
        }
    }
    codes.push_str(match style.underline {
        Underline::None => "",
        Underline::Single => ";4",
        Underline::Double => ";4:2",
        Underline::Curly => ";4:3",
        Underline::Dotted => ";4:4",
        Underline::Dashed => ";4:5",
    });
    put_color(codes, style.foreground, 30);
    put_color(codes, style.background, 40);
    // With colons, so that a terminal that does not know the code skips it whole.
    match style.underline_color {
        Color::Default => {}
        Color::Index(index) => put_numbers(codes, ";58:5:", &[index.into()], ':'),
        Color::Rgb(r, g, b) => put_numbers(codes, ";58:2::", &[r.into(), g.into(), b.into()], ':'),
    }
}

/// The parameter that sets a colour; 30 is the base of the foreground's, 40 of the background's.
fn put_color(codes: &mut String, color: Color, base: u16) {
    match color {
        Color::Default => {}
        Color::Index(index @ 0..8) => put_numbers(codes, ";", &[base + u16::from(index)], ';'),
        Color::Index(index @ 8..16) => put_numbers(codes, ";", &[base + 52 + u16::from(index)], ';'),
        Color::Index(index) => put_numbers(codes, ";", &[base + 8, 5, index.into()], ';'),
        Color::Rgb(r, g, b) => put_numbers(codes, ";", &[base + 8, 2, r.into(), g.into(), b.into()], ';'),
    }
}

/// Numbers below 1,000, without the ways of formatting, which cost most of a coloured snapshot.
fn put_numbers(codes: &mut String, prefix: &str, numbers: &[u16], separator: char) {
    codes.push_str(prefix);
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            codes.push(separator);
        }
        for unit in [100, 10, 1] {
            if *number >= unit || unit == 1 {
                codes.push(char::from(b'0' + (number / unit % 10) as u8));
            }
        }
    }
}

/// Whether SGR says the same for both.
pub(crate) fn same_codes(one: &Style, other: &Style) -> bool {
    let shown = |style: &Style| style.attributes - Attributes::PROTECTED;
    shown(one) == shown(other)
        && one.foreground == other.foreground
        && one.background == other.background
        && one.underline == other.underline
        && one.underline_color == other.underline_color
}
