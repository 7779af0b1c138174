//! Answers to queries. `spec/screen.md` has the table of them.

use crate::model::Model;
use crate::modes::ANSI;
use crate::style::Attributes;

impl Model {
    /// DA1: a VT220 with selective erase and colours, as programs expect of an xterm.
    pub(crate) fn report_attributes(&mut self) {
        self.reply("\x1b[?62;6;22c");
    }

    /// DSR.
    pub(crate) fn report_status(&mut self, what: u16) {
        match what {
            5 => self.reply("\x1b[0n"),
            6 => {
                let (row, column) = self.position();
                self.reply(format!("\x1b[{};{}R", row + 1, column + 1));
            }
            _ => {}
        }
    }

    /// DSR with a question mark.
    pub(crate) fn report_private_status(&mut self, what: u16) {
        match what {
            6 => {
                let (row, column) = self.position();
                self.reply(format!("\x1b[?{};{}R", row + 1, column + 1));
            }
            // No printer, no keys that programs define, an American keyboard, no locator.
            15 => self.reply("\x1b[?13n"),
            25 => self.reply("\x1b[?21n"),
            26 => self.reply("\x1b[?27;1;0;0n"),
            53 | 55 => self.reply("\x1b[?50n"),
            56 => self.reply("\x1b[?57;0n"),
            _ => {}
        }
    }

    /// DECRQM.
    pub(crate) fn report_mode(&mut self, mode: u16) {
        let flag = ANSI.iter().find(|(number, _)| *number == mode);
        let state = match flag.map(|(_, flag)| self.modes.has(*flag)) {
            Some(true) => 1,
            Some(false) => 2,
            None => 0,
        };
        self.reply(format!("\x1b[{mode};{state}$y"));
    }

    pub(crate) fn report_private_mode(&mut self, mode: u16) {
        let state = match (mode, self.private_mode(mode)) {
            // Grapheme clusters, always.
            (2027, _) => 3,
            (_, Some(true)) => 1,
            (_, Some(false)) => 2,
            (_, None) => 0,
        };
        self.reply(format!("\x1b[?{mode};{state}$y"));
    }

    /// XTWINOPS: sizes, and the stack of titles. Titles are not reported: what a program can set it must not make the
    /// terminal type.
    pub(crate) fn window(&mut self, what: u16, which: u16) {
        let (columns, rows) = (self.columns, self.rows);
        let (width, height) = (usize::from(self.pixels.0), usize::from(self.pixels.1));
        let known = width > 0 && height > 0;
        match what {
            11 => self.reply("\x1b[1t"),
            13 => self.reply("\x1b[3;0;0t"),
            14 if known => self.reply(format!("\x1b[4;{height};{width}t")),
            15 if known => self.reply(format!("\x1b[5;{height};{width}t")),
            16 if known => {
                let (height, width) = (height / rows, width / columns);
                self.reply(format!("\x1b[6;{height};{width}t"));
            }
            18 => self.reply(format!("\x1b[8;{rows};{columns}t")),
            19 => self.reply(format!("\x1b[9;{rows};{columns}t")),
            22 if which != 1 => self.push_title(),
            23 if which != 1 => self.pop_title(),
            _ => {}
        }
    }

    /// DECRQSS: the setting with this name.
    pub(crate) fn report_setting(&mut self, name: &str) {
        let margins = self.margins;
        let setting = match name {
            "m" => self.rendition(),
            "r" => format!("{};{}", margins.top + 1, margins.bottom + 1),
            "s" => format!("{};{}", margins.left + 1, margins.right + 1),
            " q" => self.modes.cursor_style.to_string(),
            "\"q" => u8::from(self.cursor.pen.attributes().contains(Attributes::PROTECTED)).to_string(),
            "\"p" => "62;1".to_owned(),
            "t" => self.rows.to_string(),
            _ => return self.reply("\x1bP0$r\x1b\\"),
        };
        self.reply(format!("\x1bP1$r{setting}{name}\x1b\\"));
    }

    /// What SGR has set, as SGR sets it.
    fn rendition(&self) -> String {
        let style = self.tables.style(self.cursor.pen);
        let mut codes = String::from("0");
        crate::codes::put_codes(&style, &mut codes);
        codes
    }

    /// XTGETTCAP: a capability by the hexadecimal digits of its name.
    pub(crate) fn report_capability(&mut self, digits: &str) {
        let name = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        let value = match name.as_deref() {
            Ok(b"TN" | b"name") => "xterm-256color",
            Ok(b"Co" | b"colors") => "256",
            Ok(b"RGB") => "8/8/8",
            _ => return self.reply(format!("\x1bP0+r{digits}\x1b\\")),
        };
        let value = data_encoding::HEXUPPER.encode(value.as_bytes());
        self.reply(format!("\x1bP1+r{digits}={value}\x1b\\"));
    }

    /// An OSC's question for a colour, answered with the string terminator that asked.
    pub(crate) fn report_color(&mut self, prefix: &str, number: u16, terminator: &str) {
        let set = self.palette.get(&number).copied();
        let [r, g, b] = set.unwrap_or_else(|| crate::palette::default_color(number));
        self.reply(format!("\x1b]{prefix};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{terminator}"));
    }
}
