//! The colours of a terminal whose program set none: xterm's.

use alacritty_terminal::vte::ansi::Rgb;

const ANSI: [u32; 16] = [
    0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5,
    0x7f_7f7f, 0xff_0000, 0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
];
/// Index of the background among the engine's colours; the foreground is before it, the cursor behind.
const BACKGROUND: usize = 257;

/// The default colour with this index: 0 to 255 the palette, 256 foreground, 257 background, 258 cursor.
pub(super) fn default_color(index: usize) -> Rgb {
    match index {
        0..=15 => {
            let [_, r, g, b] = ANSI[index].to_be_bytes();
            Rgb { r, g, b }
        }
        16..=231 => {
            let level = |step: usize| [0, 95, 135, 175, 215, 255][step];
            let cube = index - 16;
            Rgb {
                r: level(cube / 36),
                g: level(cube / 6 % 6),
                b: level(cube % 6),
            }
        }
        232..=255 => {
            let grey = u8::try_from(8 + 10 * (index - 232)).expect("the last grey is 238");
            Rgb {
                r: grey,
                g: grey,
                b: grey,
            }
        }
        BACKGROUND => Rgb { r: 0, g: 0, b: 0 },
        _ => default_color(7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_is_xterms() {
        let hex = |index| default_color(index).to_string();
        assert_eq!(hex(12), "#5c5cff");
        assert_eq!(hex(196), "#ff0000");
        assert_eq!(hex(110), "#87afd7");
        assert_eq!(hex(255), "#eeeeee");
        assert_eq!(hex(256), "#e5e5e5");
        assert_eq!(hex(257), "#000000");
    }
}
