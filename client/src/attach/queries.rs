//! Takes out of what is shown what a person's terminal must not do.
//!
//! The daemon alone answers a program's queries. The person's terminal would answer them too, and its answers would
//! arrive as if they were typed. So sequences that ask (DA, DSR, DECRQM, colours, …) are left out; all others pass
//! unchanged, but for those that write to the person's clipboard (OSC 52), which pass only when they may. A sequence is
//! held back until it is known which of the two it is.

use bytes::Bytes;

use crate::bounds::SEQUENCE_HELD;

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    Csi,
    /// Inside OSC, DCS, APC, PM or SOS; whether the last byte was ESC.
    Text(bool),
}

#[derive(Debug, Default, PartialEq)]
enum Fate {
    /// Not known yet: held.
    #[default]
    Open,
    Passes,
    Dropped,
}

/// A filter of one stream of output.
#[derive(Debug, Default)]
pub(super) struct Queries {
    /// Whether programs may write to the clipboard.
    clipboard: bool,
    state: State,
    held: Vec<u8>,
    fate: Fate,
}

const ESC: u8 = 0x1b;
const ENQ: u8 = 0x05;
const CANCEL: [u8; 2] = [0x18, 0x1a];

impl Queries {
    pub(super) fn new(clipboard: bool) -> Self {
        Queries { clipboard, ..Queries::default() }
    }

    /// Forgets what was cut: what comes next starts in ground state.
    pub(super) fn reset(&mut self) {
        *self = Queries::new(self.clipboard);
    }

    /// The bytes to show, of these bytes and what was held before them.
    pub(super) fn filter(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len() + self.held.len());
        for &byte in bytes {
            self.byte(byte, &mut out);
        }
        out.into()
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Ground if byte == ESC => self.begin(),
            State::Ground if byte == ENQ => {}
            State::Ground => out.push(byte),
            _ if CANCEL.contains(&byte) => {
                self.keep(byte, out);
                self.finish(false, out);
            }
            State::Escape => match byte {
                ESC => {
                    self.finish(false, out);
                    self.begin();
                }
                b'[' => self.enter(State::Csi, byte, out),
                b']' | b'P' | b'_' | b'^' | b'X' => self.enter(State::Text(false), byte, out),
                0x30..=0x7e => {
                    self.keep(byte, out);
                    // DECID asks as DA does.
                    self.finish(byte == b'Z' && self.held.len() == 2, out);
                }
                _ => self.keep(byte, out),
            },
            State::Csi => match byte {
                ESC => {
                    self.finish(false, out);
                    self.begin();
                }
                0x40..=0x7e => {
                    self.keep(byte, out);
                    let asks = self.held.get(2..).is_some_and(csi_asks);
                    self.finish(asks, out);
                }
                _ => self.keep(byte, out),
            },
            State::Text(true) if byte != b'\\' => {
                // ESC and anything else ends the text and starts a sequence of its own.
                if self.held.last() == Some(&ESC) {
                    self.held.pop();
                }
                let asks = self.text_asks();
                self.finish(asks, out);
                self.begin();
                self.byte(byte, out);
            }
            State::Text(true) => {
                self.keep(byte, out);
                let asks = self.text_asks();
                self.finish(asks, out);
            }
            State::Text(false) => {
                if byte == ESC {
                    self.state = State::Text(true);
                    // A text that passes is shown as it comes, except for an ESC of which it is not known whether it
                    // ends it.
                    if self.fate == Fate::Open {
                        self.held.push(byte);
                    } else {
                        self.held = vec![byte];
                    }
                } else {
                    self.keep(byte, out);
                    if byte == 0x07 && self.held.get(1).is_none_or(|kind| *kind == b']') {
                        let asks = self.text_asks();
                        self.finish(asks, out);
                    }
                }
            }
        }
    }

    fn text_asks(&self) -> bool {
        text_asks(&self.held, self.clipboard)
    }

    fn begin(&mut self) {
        self.state = State::Escape;
        self.fate = Fate::Open;
        self.held.clear();
        self.held.push(ESC);
    }

    fn enter(&mut self, state: State, byte: u8, out: &mut Vec<u8>) {
        self.state = state;
        self.keep(byte, out);
    }

    fn keep(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.fate {
            Fate::Passes => {
                out.append(&mut self.held);
                out.push(byte);
            }
            Fate::Dropped => {}
            Fate::Open => {
                self.held.push(byte);
                if self.held.len() >= SEQUENCE_HELD {
                    if self.text_asks() {
                        self.fate = Fate::Dropped;
                    } else {
                        self.fate = Fate::Passes;
                        out.append(&mut self.held);
                    }
                    self.held.clear();
                }
            }
        }
    }

    fn finish(&mut self, asks: bool, out: &mut Vec<u8>) {
        let passes = match self.fate {
            Fate::Open => !asks,
            Fate::Passes => true,
            Fate::Dropped => false,
        };
        if passes {
            out.append(&mut self.held);
        }
        self.held.clear();
        self.state = State::Ground;
        self.fate = Fate::Open;
    }
}

/// Whether a CSI sequence, without its introducer, asks for an answer.
fn csi_asks(sequence: &[u8]) -> bool {
    let Some((&last, rest)) = sequence.split_last() else {
        return false;
    };
    let prefix = rest.first().copied().filter(|b| (0x3c..=0x3f).contains(b));
    let intermediate = rest.iter().copied().find(|b| (0x20..=0x2f).contains(b));
    let first = rest
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0_u32, |n, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0')));
    match (prefix, intermediate, last) {
        // Device attributes, status reports, kitty keyboard, key modifiers, graphics.
        (None | Some(b'>' | b'='), None, b'c') => true,
        (None | Some(b'?'), None, b'n') => true,
        (Some(b'?'), None, b'u' | b'm' | b'S') => true,
        // Version, terminal parameters, window reports.
        (Some(b'>'), None, b'q') | (None, None, b'x') => true,
        (None, None, b't') => matches!(first, 11 | 13..=16 | 18..=21),
        // Modes, presentation state, terminal state, checksum, locator, preferred set, displayed extent.
        (_, Some(b'$'), b'p' | b'w' | b'u')
        | (_, Some(b'*'), b'y')
        | (_, Some(b'\''), b'|')
        | (_, Some(b'&'), b'u')
        | (_, Some(b'"'), b'v') => true,
        _ => false,
    }
}

/// Whether an OSC, DCS or APC asks for an answer, given its first bytes or all of it.
fn text_asks(sequence: &[u8], clipboard: bool) -> bool {
    let Some((kind, text)) = sequence.get(1..).and_then(<[u8]>::split_first) else {
        return false;
    };
    let text = text.strip_suffix(b"\x1b\\").or_else(|| text.strip_suffix(b"\x07")).unwrap_or(text);
    match kind {
        b']' => {
            let mut fields = text.split(|&b| b == b';');
            let number = fields
                .next()
                .and_then(|field| std::str::from_utf8(field).ok())
                .and_then(|field| field.parse::<u16>().ok());
            let mut asked = fields.map(|field| field == b"?" || field.ends_with(b"=?"));
            match number {
                Some(52) if !clipboard => true,
                Some(4 | 5 | 10..=19 | 21 | 50 | 52) => asked.any(|asked| asked),
                Some(60 | 61) => true,
                _ => false,
            }
        }
        b'P' => {
            let control: &[u8] = &text[text.iter().take_while(|b| b.is_ascii_digit() || **b == b';').count()..];
            control.starts_with(b"$q") || control.starts_with(b"+q")
        }
        b'_' => text.strip_prefix(b"G").is_some_and(|control| {
            control.split(|&b| b == b';').next().is_some_and(|keys| keys.split(|&b| b == b',').any(|key| key == b"a=q"))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(input: &[u8]) -> Vec<u8> {
        let whole = Queries::new(true).filter(input).to_vec();
        let mut queries = Queries::new(true);
        let single: Vec<u8> = input.iter().flat_map(|byte| queries.filter(&[*byte])).collect();
        assert_eq!(whole, single, "the cut does not matter");
        whole
    }

    #[test]
    fn queries_are_left_out() {
        for query in [
            "\x1b[c",
            "\x1b[0c",
            "\x1b[>c",
            "\x1b[=0c",
            "\x1b[5n",
            "\x1b[6n",
            "\x1b[?6n",
            "\x1b[?996n",
            "\x1b[?2026$p",
            "\x1b[4$p",
            "\x1b[?u",
            "\x1b[>q",
            "\x1b[>0q",
            "\x1b[18t",
            "\x1b[14;2t",
            "\x1b[x",
            "\x1b[1;1;1;1;1;1*y",
            "\x1bZ",
            "\x05",
            "\x1b]11;?\x07",
            "\x1b]10;?\x1b\\",
            "\x1b]4;1;?;2;?\x07",
            "\x1b]52;c;?\x07",
            "\x1bP$qm\x1b\\",
            "\x1bP+q544e\x1b\\",
            "\x1b_Gi=1,a=q;AAAA\x1b\\",
            "\x1b[?4m",
        ] {
            assert_eq!(shown(format!("a{query}b").as_bytes()), b"ab", "{query:?}");
        }
        let long = format!("a\x1bP+q{}\x1b\\b", "54".repeat(SEQUENCE_HELD));
        assert_eq!(shown(long.as_bytes()), b"ab");
    }

    #[test]
    fn the_clipboard_is_written_only_when_that_is_allowed() {
        let long = format!("a\x1b]52;c;{}\x1b\\b", "QUJD".repeat(SEQUENCE_HELD));
        for text in ["a\x1b]52;c;QUJD\x07b", "a\x1b]52;;\x1b\\b", &long] {
            assert_eq!(Queries::new(false).filter(text.as_bytes()), "ab", "{text:.20?}");
            assert_eq!(shown(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn everything_else_passes_unchanged() {
        let long = format!("\x1b]52;c;{}\x07x\x1bPq{}\x1b\\y", "QUJD".repeat(200), "#0~".repeat(300));
        for text in [
            "plain ünïcödé \u{7f}",
            "\x1b[1;31mred\x1b[m",
            "\x1b[?1049h\x1b[2 q\x1b[>4;2m\x1b[>1u\x1b[<u",
            "\x1b]0;is it?;?\x07",
            "\x1b]8;;http://x/?a=?\x1b\\link\x1b]8;;\x1b\\",
            "\x1b(B\x1b7\x1b8\x1bc",
            "\x1b[8;24;80t\x1b[22;0t\x1b[s\x1b[u",
            "\x1b[3\x18x",
            "\x1b]0;cut\x1b[1mx",
            "\x1b]11;#000\x07",
            "\x1b_Ga=T,f=100;AAAA\x1b\\",
            "\x1b[1\n2H",
            "\x1b\x1b[Ax",
            &long,
        ] {
            assert_eq!(shown(text.as_bytes()), text.as_bytes(), "{text:?}");
        }
    }
}
