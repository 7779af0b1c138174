//! SGR: how what is written next looks.

use crate::cell::Cell;
use crate::model::Model;
use crate::numbers::Numbers;
use crate::style::{Attributes, Color, Underline};
use crate::tables::Extra;

impl Model {
    pub(crate) fn select_graphic_rendition(&mut self, numbers: &Numbers) {
        let mut params = numbers.iter();
        while let Some(param) = params.next() {
            let code = param.first().copied().unwrap_or(0);
            let pen = &mut self.cursor.pen;
            match code {
                0 => {
                    let protected = pen.attributes() & Attributes::PROTECTED;
                    let link = self.tables.extra(*pen).link;
                    *pen = Cell::BLANK;
                    pen.set_attributes(protected, true);
                    if link.is_some() {
                        self.set_extra(|extra| extra.link = link);
                    }
                }
                1 => pen.set_attributes(Attributes::BOLD, true),
                2 => pen.set_attributes(Attributes::FAINT, true),
                3 => pen.set_attributes(Attributes::ITALIC, true),
                4 => {
                    let style = param.get(1).map_or(Some(Underline::Single), |n| Underline::from_number(*n));
                    if let Some(style) = style {
                        pen.set_underline(style);
                    }
                }
                5 | 6 => pen.set_attributes(Attributes::BLINK, true),
                7 => pen.set_attributes(Attributes::INVERSE, true),
                8 => pen.set_attributes(Attributes::INVISIBLE, true),
                9 => pen.set_attributes(Attributes::STRIKE, true),
                21 => pen.set_underline(Underline::Double),
                22 => pen.set_attributes(Attributes::BOLD | Attributes::FAINT, false),
                23 => pen.set_attributes(Attributes::ITALIC, false),
                24 => pen.set_underline(Underline::None),
                25 => pen.set_attributes(Attributes::BLINK, false),
                27 => pen.set_attributes(Attributes::INVERSE, false),
                28 => pen.set_attributes(Attributes::INVISIBLE, false),
                29 => pen.set_attributes(Attributes::STRIKE, false),
                53 => pen.set_attributes(Attributes::OVERLINE, true),
                55 => pen.set_attributes(Attributes::OVERLINE, false),
                30..=37 => pen.set_foreground(Color::Index((code - 30) as u8)),
                39 => pen.set_foreground(Color::Default),
                40..=47 => pen.set_background(Color::Index((code - 40) as u8)),
                49 => pen.set_background(Color::Default),
                90..=97 => pen.set_foreground(Color::Index((code - 82) as u8)),
                100..=107 => pen.set_background(Color::Index((code - 92) as u8)),
                59 => self.set_extra(|extra| extra.underline_color = Color::Default),
                38 | 48 | 58 => {
                    let color = if param.len() > 1 { color_of(&param[1..]) } else { color_behind(&mut params) };
                    match (code, color) {
                        (_, None) => {}
                        (38, Some(color)) => pen.set_foreground(color),
                        (48, Some(color)) => pen.set_background(color),
                        (_, Some(color)) => self.set_extra(|extra| extra.underline_color = color),
                    }
                }
                _ => {}
            }
        }
    }

    /// Changes the link or the underline colour of what is written next.
    pub(crate) fn set_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let mut extra = self.tables.extra(self.cursor.pen);
        change(&mut extra);
        self.collect();
        self.tables.set_extra(&mut self.cursor.pen, extra);
    }
}

/// The colour in the subparameters behind 38: `5:INDEX`, `2:R:G:B`, `2:SPACE:R:G:B`.
fn color_of(parts: &[u16]) -> Option<Color> {
    match *parts {
        [5, index, ..] => Some(Color::Index(u8::try_from(index).ok()?)),
        [2, r, g, b] | [2, _, r, g, b, ..] => rgb(r, g, b),
        _ => None,
    }
}

/// The colour in the parameters behind 38: `5;INDEX`, `2;R;G;B`.
fn color_behind<'a>(params: &mut impl Iterator<Item = &'a [u16]>) -> Option<Color> {
    let mut next = || params.next()?.first().copied();
    match next()? {
        5 => Some(Color::Index(u8::try_from(next()?).ok()?)),
        2 => rgb(next()?, next()?, next()?),
        _ => None,
    }
}

fn rgb(r: u16, g: u16, b: u16) -> Option<Color> {
    Some(Color::Rgb(u8::try_from(r).ok()?, u8::try_from(g).ok()?, u8::try_from(b).ok()?))
}
