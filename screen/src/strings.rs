//! Control strings: OSC and DCS.

use std::sync::Arc;

use data_encoding::BASE64_NOPAD;

use crate::bounds::{CWD_MAX, LINK_MAX, NOTIFICATION_MAX, TITLE_MAX};
use crate::effects::{Event, Mark};
use crate::model::Model;
use crate::palette::{self, parse_color};
use crate::style::Link;

/// The text without control characters, cut to `max` bytes.
fn clean(text: &str, max: usize) -> String {
    let mut clean = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if clean.len() + c.len_utf8() > max {
            break;
        }
        clean.push(c);
    }
    clean
}

fn base64(text: &str) -> Option<Vec<u8>> {
    BASE64_NOPAD.decode(text.trim_end_matches('=').as_bytes()).ok()
}

impl Model {
    /// OSC, with the terminator that the program used.
    pub(crate) fn command(&mut self, string: &[u8], terminator: &str) {
        let string = String::from_utf8_lossy(string);
        let (number, rest) = string.split_once(';').unwrap_or((&string, ""));
        match number {
            "0" | "2" => self.set_title(clean(rest, TITLE_MAX)),
            "4" => self.set_palette(rest, terminator),
            "7" => self.set_cwd(rest),
            "8" => self.set_link(rest),
            "9" => {
                // With a number in front it is ConEmu's: progress and the like.
                let head = rest.split_once(';').map_or("", |(head, _)| head);
                if head.is_empty() || head.parse::<u8>().is_err() {
                    self.notify("", rest);
                }
            }
            "10" | "11" | "12" => self.set_dynamic(number, rest, terminator),
            "52" => self.set_clipboard(rest),
            "99" => self.notify_as_kitty(rest),
            "104" if rest.is_empty() => self.palette.retain(|number, _| *number >= palette::FOREGROUND),
            "104" => {
                for number in rest.split(';').filter_map(|number| number.parse::<u8>().ok()) {
                    self.palette.remove(&u16::from(number));
                }
            }
            "110" => drop(self.palette.remove(&palette::FOREGROUND)),
            "111" => drop(self.palette.remove(&palette::BACKGROUND)),
            "112" => drop(self.palette.remove(&palette::CURSOR)),
            "133" => self.mark(rest),
            "777" => {
                if let Some(notification) = rest.strip_prefix("notify;") {
                    let (title, body) = notification.split_once(';').unwrap_or(("", notification));
                    self.notify(title, body);
                }
            }
            _ => {}
        }
    }

    /// DCS: settings and capabilities that are asked for.
    pub(crate) fn device_control(&mut self, string: &[u8]) {
        let string = String::from_utf8_lossy(string);
        if let Some(name) = string.strip_prefix("$q") {
            self.report_setting(name);
        } else if let Some(names) = string.strip_prefix("+q") {
            for name in names.split(';') {
                // What is not hexadecimal is not repeated: it would be typed.
                if !name.is_empty() && name.len() <= 256 && name.bytes().all(|b| b.is_ascii_hexdigit()) {
                    self.report_capability(name);
                }
            }
        }
    }

    fn set_palette(&mut self, pairs: &str, terminator: &str) {
        let mut parts = pairs.split(';');
        while let (Some(number), Some(color)) = (parts.next(), parts.next()) {
            let Ok(number) = number.parse::<u8>() else {
                continue;
            };
            self.set_color(u16::from(number), color, &format!("4;{number}"), terminator);
        }
    }

    /// OSC 10, 11 and 12: further colours are those of the next numbers.
    fn set_dynamic(&mut self, first: &str, colors: &str, terminator: &str) {
        let first = first.parse::<u16>().unwrap_or(10);
        for (code, color) in (first..=12).zip(colors.split(';')) {
            let number = palette::FOREGROUND + code - 10;
            self.set_color(number, color, &code.to_string(), terminator);
        }
    }

    fn set_color(&mut self, number: u16, color: &str, prefix: &str, terminator: &str) {
        if color == "?" {
            self.report_color(prefix, number, terminator);
        } else if let Some(rgb) = parse_color(color) {
            self.palette.insert(number, rgb);
        }
    }

    fn set_cwd(&mut self, url: &str) {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
            None => url,
        };
        let mut bytes = Vec::with_capacity(path.len());
        let mut rest = path.as_bytes();
        while let Some((first, behind)) = rest.split_first() {
            let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) if *first == b'%' => {
                    bytes.push(byte);
                    rest = &behind[2..];
                }
                _ => {
                    bytes.push(*first);
                    rest = behind;
                }
            }
        }
        let Ok(path) = String::from_utf8(bytes) else {
            return;
        };
        let fits = path.starts_with('/') && path.len() <= CWD_MAX && !path.chars().any(char::is_control);
        if fits && self.cwd.as_ref() != Some(&path) {
            self.cwd = Some(path.clone());
            self.event(Event::Cwd(path));
        }
    }

    fn set_link(&mut self, rest: &str) {
        let (params, uri) = rest.split_once(';').unwrap_or((rest, ""));
        let id = params.split(':').find_map(|param| param.strip_prefix("id=")).unwrap_or("");
        let fits =
            !uri.is_empty() && uri.len() + id.len() <= LINK_MAX && !uri.chars().chain(id.chars()).any(char::is_control);
        let link = fits.then(|| Arc::new(Link { id: id.to_owned(), uri: uri.to_owned() }));
        self.set_extra(|extra| extra.link = link);
    }

    fn set_clipboard(&mut self, rest: &str) {
        let Some((selection, data)) = rest.split_once(';') else {
            return;
        };
        // What the clipboard holds is never told to a program.
        if data != "?"
            && let Some(data) = base64(data)
        {
            self.event(Event::Clipboard { selection: clean(selection, 16), data });
        }
    }

    fn notify(&mut self, title: &str, body: &str) {
        self.event(Event::Notification { title: clean(title, NOTIFICATION_MAX), body: clean(body, NOTIFICATION_MAX) });
    }

    /// OSC 99. Each piece of a notification is one.
    fn notify_as_kitty(&mut self, rest: &str) {
        let (metadata, payload) = rest.split_once(';').unwrap_or(("", rest));
        let value = |key: &str| metadata.split(':').find_map(|pair| pair.strip_prefix(key));
        let decoded = match value("e=") {
            Some("1") => base64(payload).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            _ => Some(payload.to_owned()),
        };
        match (value("p=").unwrap_or("title"), decoded) {
            (_, None) => {}
            (_, Some(text)) if text.is_empty() => {}
            ("title", Some(text)) => self.notify(&text, ""),
            ("body", Some(text)) => self.notify("", &text),
            _ => {}
        }
    }

    fn mark(&mut self, rest: &str) {
        let mut parts = rest.split(';');
        let place = Some(self.place());
        let marks = &mut self.marks;
        let mark = match parts.next() {
            Some("A") => {
                if marks.end.is_none() && marks.output.is_some() {
                    marks.end = place;
                }
                Mark::Prompt
            }
            Some("B") => Mark::Command,
            Some("C") => {
                (marks.output, marks.end, marks.status) = (place, None, None);
                Mark::Output
            }
            Some("D") => {
                marks.status = parts.next().and_then(|status| status.parse().ok());
                marks.end = place;
                Mark::End(marks.status)
            }
            _ => return,
        };
        self.event(Event::Mark(mark));
    }
}
