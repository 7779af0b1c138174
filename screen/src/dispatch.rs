//! Escape and control sequences: what each of them is called, and what it does.

use vte::{Params, Perform};

use crate::bounds::KEYBOARD_STACK_MAX;
use crate::cursor::Charset;
use crate::model::{Margins, Model};
use crate::modes::{ANSI, ModeFlags};
use crate::numbers::Numbers;
use crate::style::Attributes;

impl Perform for Model {
    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        // More parameters than the parser keeps: styles are set as far as they go, all else would do something wrong.
        if ignore && (action != 'm' || !intermediates.is_empty()) {
            return;
        }
        let numbers = Numbers::from(params);
        match intermediates {
            [] => self.plain_sequence(&numbers, action),
            [b'?'] => self.private_sequence(&numbers, action),
            [b'>'] => self.greater_sequence(&numbers, action),
            [b'='] => match action {
                'u' => self.set_keyboard(numbers.at(0), numbers.at(1)),
                'c' if numbers.at(0) == 0 => self.reply("\x1bP!|00000000\x1b\\"),
                _ => {}
            },
            [b'<'] if action == 'u' => {
                let stack = self.keyboard_stack();
                stack.truncate(stack.len().saturating_sub(numbers.count()));
                if stack.is_empty() {
                    stack.push(0);
                }
            }
            [b'!'] if action == 'p' => self.soft_reset(),
            [b' '] => match action {
                'q' if numbers.at(0) <= 6 => self.modes.cursor_style = numbers.at(0) as u8,
                '@' => self.shift_columns(false, numbers.count(), self.margins.left, true),
                'A' => self.shift_columns(true, numbers.count(), self.margins.left, true),
                _ => {}
            },
            [b'"'] if action == 'q' => match numbers.at(0) {
                0 | 2 => self.cursor.pen.set_attributes(Attributes::PROTECTED, false),
                1 => self.cursor.pen.set_attributes(Attributes::PROTECTED, true),
                _ => {}
            },
            [b'\''] => match action {
                '}' => self.shift_columns(true, numbers.count(), self.cursor.column, true),
                '~' => self.shift_columns(false, numbers.count(), self.cursor.column, true),
                _ => {}
            },
            [b'$'] => match action {
                'p' => self.report_mode(numbers.at(0)),
                'x' => {
                    if let c @ 0x20..=0x7e = numbers.at(0) {
                        self.fill_rectangle(c as u8, numbers.rectangle(1));
                    }
                }
                'z' => self.erase_rectangle(numbers.rectangle(0), false),
                '{' => self.erase_rectangle(numbers.rectangle(0), true),
                'v' => {
                    let to = [5, 6].map(|place| usize::from(numbers.at(place)));
                    self.copy_rectangle(numbers.rectangle(0), to[0], to[1]);
                }
                _ => {}
            },
            [b'?', b'$'] if action == 'p' => self.report_private_mode(numbers.at(0)),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            ([], b'c') => self.reset(),
            ([], b'7') => self.save_cursor(),
            ([], b'8') => self.restore_cursor(),
            ([], b'D') => self.index(crate::row::Wrap::No),
            ([], b'E') => {
                self.index(crate::row::Wrap::No);
                self.carriage_return();
            }
            ([], b'H') => self.tabs[self.cursor.column] = true,
            ([], b'M') => self.reverse_index(),
            ([], b'N') => self.single_shift = Some(2),
            ([], b'O') => self.single_shift = Some(3),
            ([], b'Z') => self.report_attributes(),
            ([], b'=') => self.modes.flags |= ModeFlags::KEYPAD,
            ([], b'>') => self.modes.flags -= ModeFlags::KEYPAD,
            ([], b'n') => self.cursor.charsets.active = 2,
            ([], b'o') => self.cursor.charsets.active = 3,
            ([], b'6') => self.move_or_shift(false),
            ([], b'9') => self.move_or_shift(true),
            ([b'#'], b'8') => self.fill_with_e(),
            ([slot @ b'('..=b'+'], last) => {
                self.cursor.charsets.sets[usize::from(slot - b'(')] = Charset::named(last);
            }
            _ => {}
        }
    }
}

impl Model {
    /// A control sequence without intermediates.
    #[inline]
    pub(crate) fn plain_sequence(&mut self, numbers: &Numbers, action: char) {
        let count = numbers.count();
        match action {
            'm' => self.select_graphic_rendition(numbers),
            'H' | 'f' => self.go_to(numbers.index(0), numbers.index(1)),
            'A' => self.up(count),
            'B' => self.down(count),
            'C' => self.forward(count),
            'D' => self.back(count),
            'E' => {
                self.down(count);
                self.carriage_return();
            }
            'F' => {
                self.up(count);
                self.carriage_return();
            }
            'G' | '`' => {
                let (row, _) = self.position();
                self.go_to(row, numbers.index(0));
            }
            'd' => {
                let (_, column) = self.position();
                self.go_to(numbers.index(0), column);
            }
            'a' => {
                let (row, column) = self.position();
                self.go_to(row, column + count);
            }
            'e' => {
                let (row, column) = self.position();
                self.go_to(row + count, column);
            }
            'I' => self.tab_forward(count),
            'Z' => self.tab_back(count),
            'g' => match numbers.at(0) {
                0 => self.tabs[self.cursor.column] = false,
                3 => self.tabs.fill(false),
                _ => {}
            },
            'J' => self.erase_display(numbers.at(0), false),
            'K' => self.erase_line(numbers.at(0), false),
            'X' => self.erase_characters(count),
            '@' => self.shift_columns(true, count, self.cursor.column, false),
            'P' => self.shift_columns(false, count, self.cursor.column, false),
            'L' => self.shift_rows(true, count),
            'M' => self.shift_rows(false, count),
            'S' => self.scroll_under_cursor(true, count),
            'T' if numbers.len() <= 1 => self.scroll_under_cursor(false, count),
            '^' => self.scroll_under_cursor(false, count),
            'b' => self.repeat(count),
            'h' | 'l' => {
                for param in numbers.iter() {
                    let mode = ANSI.iter().find(|(mode, _)| param.first() == Some(mode));
                    if let Some((_, flag)) = mode {
                        self.modes.flags.set(*flag, action == 'h');
                    }
                }
            }
            'r' => self.set_rows(numbers.at(0).into(), numbers.at(1).into()),
            's' if self.modes.has(ModeFlags::SIDE_MARGINS) => {
                self.set_columns(numbers.at(0).into(), numbers.at(1).into());
            }
            's' if numbers.at(0) == 0 => {
                self.save_cursor();
                // SCOSC saves a position only: where the next character wraps is not told by it.
                self.saved[self.shown].pending = false;
            }
            'u' if numbers.at(0) == 0 => self.restore_cursor(),
            'c' if numbers.at(0) == 0 => self.report_attributes(),
            'n' => self.report_status(numbers.at(0)),
            't' => self.window(numbers.at(0), numbers.at(1)),
            'x' if numbers.at(0) <= 1 => {
                let kind = numbers.at(0) + 2;
                self.reply(format!("\x1b[{kind};1;1;128;128;1;0x"));
            }
            _ => {}
        }
    }

    /// One that begins with a question mark.
    pub(crate) fn private_sequence(&mut self, numbers: &Numbers, action: char) {
        match action {
            'h' | 'l' => {
                for param in numbers.iter() {
                    if let Some(mode) = param.first() {
                        self.set_private_mode(*mode, action == 'h');
                    }
                }
            }
            'J' => self.erase_display(numbers.at(0), true),
            'K' => self.erase_line(numbers.at(0), true),
            'n' => self.report_private_status(numbers.at(0)),
            'u' => {
                let flags = self.keyboard_stack().last().copied().unwrap_or(0);
                self.reply(format!("\x1b[?{flags}u"));
            }
            'm' if numbers.at(0) == 4 => {
                let level = self.modify_other_keys;
                self.reply(format!("\x1b[>4;{level}m"));
            }
            _ => {}
        }
    }

    fn greater_sequence(&mut self, numbers: &Numbers, action: char) {
        match action {
            'u' => {
                let stack = self.keyboard_stack();
                if stack.len() == KEYBOARD_STACK_MAX {
                    stack.remove(0);
                }
                stack.push((numbers.at(0) & 31) as u8);
            }
            'm' if numbers.at(0) == 4 => self.modify_other_keys = numbers.at(1).min(3) as u8,
            'm' if numbers.len() <= 1 && numbers.at(0) == 0 => self.modify_other_keys = 0,
            'n' if numbers.at(0) == 4 => self.modify_other_keys = 0,
            'c' if numbers.at(0) == 0 => self.reply("\x1b[>0;400;0c"),
            'q' if numbers.at(0) == 0 => {
                self.reply(concat!("\x1bP>|keepline(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
            }
            _ => {}
        }
    }

    fn set_keyboard(&mut self, flags: u16, how: u16) {
        let flags = (flags & 31) as u8;
        if let Some(top) = self.keyboard_stack().last_mut() {
            *top = match how {
                0 | 1 => flags,
                2 => *top | flags,
                3 => *top & !flags,
                _ => *top,
            };
        }
    }

    fn set_private_mode(&mut self, mode: u16, on: bool) {
        match mode {
            6 => {
                self.cursor.origin = on;
                self.go_to(0, 0);
            }
            47 | 1047 | 1049 => self.set_alternate(mode, on),
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            _ => {
                self.modes.set_private(mode, on);
                if mode == 69 && !on {
                    let all = Margins::all(self.columns, self.rows);
                    (self.margins.left, self.margins.right) = (all.left, all.right);
                    self.settle_pending();
                }
            }
        }
    }

    /// Whether a private mode is set; nothing for one that we do not have.
    pub(crate) fn private_mode(&self, mode: u16) -> Option<bool> {
        match mode {
            6 => Some(self.cursor.origin),
            47 | 1047 | 1049 => Some(self.shown == 1),
            _ => self.modes.private(mode),
        }
    }

    /// DECFI and DECBI: the cursor moves on, and at the margin all else does.
    fn move_or_shift(&mut self, forward: bool) {
        let margins = self.margins;
        let edge = if forward { margins.right } else { margins.left };
        if self.cursor.column == edge {
            self.shift_columns(!forward, 1, margins.left, true);
        } else if forward {
            self.forward(1);
        } else {
            self.cursor.column = self.cursor.column.saturating_sub(1);
            self.cursor.pending = false;
        }
    }
}
