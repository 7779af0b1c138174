//! The colours of a terminal whose program set none: xterm's. And colours as programs write them.

/// Red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// Number of the foreground behind the palette of 256.
pub(crate) const FOREGROUND: u16 = 256;
/// Number of the background.
pub(crate) const BACKGROUND: u16 = 257;
/// Number of the cursor's colour, the last.
pub(crate) const CURSOR: u16 = 258;

const ANSI: [u32; 16] = [
    0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5, 0x7f_7f7f, 0xff_0000,
    0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
];

/// The default colour with this number: 0 to 255 the palette, then foreground, background, cursor.
pub(crate) fn default_color(number: u16) -> Rgb {
    match number {
        0..=15 => {
            let [_, r, g, b] = ANSI[usize::from(number)].to_be_bytes();
            [r, g, b]
        }
        16..=231 => {
            let level = |step: u16| [0, 95, 135, 175, 215, 255][usize::from(step)];
            let cube = number - 16;
            [level(cube / 36), level(cube / 6 % 6), level(cube % 6)]
        }
        232..=255 => [(8 + 10 * (number - 232)) as u8; 3],
        BACKGROUND => [0; 3],
        _ => default_color(7),
    }
}

/// A colour as XParseColor takes it: `rgb:R/G/B` with one to four digits each, or `#` and three numbers of one to four
/// digits.
pub(crate) fn parse_color(text: &str) -> Option<Rgb> {
    if let Some(numbers) = text.strip_prefix("rgb:") {
        let mut parts = numbers.split('/');
        let mut part = || {
            let digits = parts.next()?;
            let max = (1u32 << (4 * digits.len().clamp(1, 4))) - 1;
            Some((number(digits)? * 255 / max) as u8)
        };
        let color = [part()?, part()?, part()?];
        return parts.next().is_none().then_some(color);
    }
    let digits = text.strip_prefix('#')?;
    let each = digits.len() / 3;
    let part = |index: usize| {
        let value = number(digits.get(index * each..(index + 1) * each)?)?;
        // The digits are the highest ones of 16 bits.
        Some((value << (4 * (4 - each)) >> 8) as u8)
    };
    (digits.len() == 3 * each).then_some([part(0)?, part(1)?, part(2)?])
}

fn number(digits: &str) -> Option<u32> {
    let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    (hex && (1..=4).contains(&digits.len())).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_is_xterms() {
        assert_eq!(default_color(12), [0x5c, 0x5c, 0xff]);
        assert_eq!(default_color(196), [0xff, 0, 0]);
        assert_eq!(default_color(110), [0x87, 0xaf, 0xd7]);
        assert_eq!(default_color(255), [0xee; 3]);
        assert_eq!(default_color(FOREGROUND), [0xe5; 3]);
        assert_eq!(default_color(BACKGROUND), [0; 3]);
    }

    #[test]
    fn colours_are_read_as_x_does() {
        assert_eq!(parse_color("rgb:12/34/56"), Some([0x12, 0x34, 0x56]));
        assert_eq!(parse_color("rgb:f/0/8"), Some([0xff, 0, 0x88]));
        assert_eq!(parse_color("rgb:ffff/8000/0000"), Some([0xff, 0x7f, 0]));
        assert_eq!(parse_color("#abcdef"), Some([0xab, 0xcd, 0xef]));
        assert_eq!(parse_color("#f80"), Some([0xf0, 0x80, 0]));
        assert_eq!(parse_color("#1234567"), None);
        assert_eq!(parse_color("#+1+2+3"), None);
        assert_eq!(parse_color("rgb:1/2"), None);
        assert_eq!(parse_color(""), None);
    }
}
