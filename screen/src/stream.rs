//! The stream: where text ends and sequences begin, and what is only half said.
//!
//! A sequence is carried out when its last byte comes; until then its bytes are kept. Control characters within escape
//! and control sequences act at once, as they do on a terminal, and are not kept. So between two bytes all state is
//! [`Model`], [`State`] and the kept bytes; the parser itself is always at ground.
//!
//! ```text
//!            ┌──────── ESC ────────► Escape ── [ ──► Csi ── final ─► done
//!   Ground ──┤                         │ ] ──► Osc ── BEL, ESC \ ──► done
//!            │                         │ P ──► Dcs ── ESC \ ───────► done
//!            └─ 0xC2.. ─► Character    └ X ^ _ ──► Ignored ── ESC \ ► nothing
//! ```
//!
//! CAN and SUB end all of them; ESC begins anew, and ends a string if `\` follows (ECMA-48 5.5 and 8.3.143). The states
//! are those of <https://vt100.net/emu/dec_ansi_parser> with 7-bit introducers only: UTF-8 leaves no others. OSC and DCS
//! strings are taken as they are, since the parser would keep 16 parameters of them.

use serde::{Deserialize, Serialize};
use vte::Parser;

use crate::bounds::SEQUENCE_MAX;
use crate::model::Model;
use crate::numbers::Numbers;
use crate::width::is_plain_wide;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// Wide characters that are printed in one go.
const RUN: usize = 32;
/// Bytes of memory for half a sequence that are kept when it ended.
const SPARE: usize = 256;

/// What is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    #[default]
    Ground,
    /// A UTF-8 character.
    Character,
    Escape,
    /// ESC and at least one intermediate.
    Intermediate,
    Csi,
    Osc,
    Dcs,
    /// SOS, PM or APC, which mean nothing to us.
    Ignored,
    /// ESC within one of the three before.
    OscEscape,
    DcsEscape,
    IgnoredEscape,
}

/// The way through the stream.
#[derive(Default)]
pub(crate) struct Stream {
    parser: Parser,
    pub(crate) state: State,
    /// The bytes of what is under way, as far as they matter.
    pub(crate) pending: Vec<u8>,
    /// It is longer than its bound and will not be carried out.
    pub(crate) dropping: bool,
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        Stream { parser: Parser::new(), state: self.state, pending: self.pending.clone(), dropping: self.dropping }
    }
}

impl Stream {
    pub(crate) fn feed(&mut self, model: &mut Model, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at = match self.state {
                State::Ground => self.ground(model, bytes, at),
                State::Character => self.character(model, bytes[at], at),
                State::Osc | State::Dcs | State::Ignored => self.string(model, bytes, at),
                State::OscEscape | State::DcsEscape | State::IgnoredEscape => self.string_end(model, bytes[at], at),
                State::Escape | State::Intermediate | State::Csi => {
                    self.sequence(model, bytes[at], at + 1);
                    at + 1
                }
            };
        }
    }

    /// What makes a fresh terminal go on as this one does with the bytes to come.
    pub(crate) fn tail(&self) -> Vec<u8> {
        if !self.dropping {
            return self.pending.clone();
        }
        // Unknown sequences of the same kind, so that the end of the dropped one does not show.
        match self.state {
            State::Escape | State::Intermediate => b"\x1b   ".to_vec(),
            State::Csi => b"\x1b[0<".to_vec(),
            State::Osc => b"\x1b]9999;".to_vec(),
            State::OscEscape => b"\x1b]9999;\x1b".to_vec(),
            State::DcsEscape => b"\x1b^\x1b".to_vec(),
            _ => b"\x1b^".to_vec(),
        }
    }

    #[inline]
    fn ground(&mut self, model: &mut Model, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        match rest[0] {
            0x20..=0x7e => {
                let run = printable(rest);
                model.print_ascii(&rest[..run]);
                at + run
            }
            ESC => self.escape(model, bytes, at),
            control @ 0..0x20 => {
                model.at = at + 1;
                model.control(control);
                at + 1
            }
            0x7f => at + 1,
            0xe3..=0xe9 => {
                let mut run = ['\0'; RUN];
                let mut length = 0;
                for place in &mut run {
                    match decode(&rest[3 * length..]) {
                        Decoded::Char(c, 3) if is_plain_wide(c) => *place = c,
                        _ => break,
                    }
                    length += 1;
                }
                if length == 0 {
                    return self.other(model, bytes, at);
                }
                model.print_wide(&run[..length]);
                at + 3 * length
            }
            _ => self.other(model, bytes, at),
        }
    }

    /// A character that is not ASCII.
    fn other(&mut self, model: &mut Model, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        match decode(rest) {
            Decoded::Char(c, length) => {
                print(model, c);
                at + length
            }
            Decoded::Invalid(length) => {
                model.print(char::REPLACEMENT_CHARACTER);
                at + length
            }
            Decoded::Incomplete => {
                self.pending.extend_from_slice(rest);
                self.state = State::Character;
                bytes.len()
            }
        }
    }

    /// A control sequence that is there in one piece is carried out at once, without the parser if it has nothing but
    /// numbers; others are gathered.
    fn escape(&mut self, model: &mut Model, bytes: &[u8], at: usize) -> usize {
        if let Some(rest) = bytes[at..].strip_prefix(b"\x1b[")
            && let Some(length) = rest.iter().position(|byte| !(0x20..0x40).contains(byte))
            && (0x40..0x7f).contains(&rest[length])
            && length + 3 <= SEQUENCE_MAX
        {
            let end = at + length + 3;
            model.at = end;
            match Numbers::parse(&rest[..length]) {
                Some(numbers) => model.plain_sequence(&numbers, rest[length].into()),
                None => self.parser.advance(model, &bytes[at..end]),
            }
            return end;
        }
        self.begin();
        at + 1
    }

    fn begin(&mut self) {
        self.leave();
        self.pending.push(ESC);
        self.state = State::Escape;
    }

    fn leave(&mut self) {
        self.pending.clear();
        self.pending.shrink_to(SPARE);
        self.dropping = false;
        self.state = State::Ground;
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.dropping || self.pending.len() + bytes.len() > SEQUENCE_MAX {
            self.pending = Vec::new();
            self.dropping = true;
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn character(&mut self, model: &mut Model, byte: u8, at: usize) -> usize {
        self.pending.push(byte);
        let decoded = decode(&self.pending);
        match decoded {
            Decoded::Incomplete => at + 1,
            Decoded::Char(c, _) => {
                self.leave();
                print(model, c);
                at + 1
            }
            // It broke off; this byte begins something else.
            Decoded::Invalid(_) => {
                self.leave();
                model.print(char::REPLACEMENT_CHARACTER);
                at
            }
        }
    }

    /// The next byte of an escape or control sequence, which ends at `end`.
    fn sequence(&mut self, model: &mut Model, byte: u8, end: usize) {
        match (self.state, byte) {
            (_, CAN | SUB) => self.leave(),
            (_, ESC) => self.begin(),
            (_, 0..0x20) => {
                model.at = end;
                model.control(byte);
            }
            (State::Csi, 0x20..0x40) => self.keep(&[byte]),
            (State::Escape | State::Intermediate, 0x20..0x30) => {
                self.keep(&[byte]);
                self.state = State::Intermediate;
            }
            (State::Escape, b'[') => self.enter(State::Csi, byte),
            (State::Escape, b']') => self.enter(State::Osc, byte),
            (State::Escape, b'P') => self.enter(State::Dcs, byte),
            (State::Escape, b'X' | b'^' | b'_') => self.enter(State::Ignored, byte),
            (_, 0x30..0x7f) => {
                self.keep(&[byte]);
                if !self.dropping {
                    model.at = end;
                    self.parser.advance(model, &self.pending);
                }
                self.leave();
            }
            _ => {}
        }
    }

    fn enter(&mut self, state: State, byte: u8) {
        self.keep(&[byte]);
        self.state = state;
    }

    fn string(&mut self, model: &mut Model, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let run = rest.iter().position(|byte| *byte < 0x20).unwrap_or(rest.len());
        if run > 0 {
            if self.state != State::Ignored {
                self.keep(&rest[..run]);
            }
            return at + run;
        }
        match (rest[0], self.state) {
            (CAN | SUB, _) => self.leave(),
            (BEL, State::Osc) => self.carry_out(model, at + 1, "\x07"),
            (ESC, state) => {
                self.keep(&[ESC]);
                self.state = match state {
                    State::Osc => State::OscEscape,
                    State::Dcs => State::DcsEscape,
                    _ => State::IgnoredEscape,
                };
            }
            _ => {}
        }
        at + 1
    }

    fn string_end(&mut self, model: &mut Model, byte: u8, at: usize) -> usize {
        if byte == b'\\' {
            self.pending.pop();
            self.carry_out(model, at + 1, "\x1b\\");
            return at + 1;
        }
        // The string is lost.
        self.begin();
        at
    }

    fn carry_out(&mut self, model: &mut Model, end: usize, terminator: &str) {
        if !self.dropping {
            model.at = end;
            match self.state {
                State::Osc | State::OscEscape => model.command(&self.pending[2..], terminator),
                State::DcsEscape => model.device_control(&self.pending[2..]),
                _ => {}
            }
        }
        self.leave();
    }
}

/// C1 controls, which UTF-8 can spell, are no text, and nothing else either.
#[inline]
fn print(model: &mut Model, c: char) {
    if !c.is_control() {
        model.print(c);
    }
}

/// How many bytes from the first are printable ASCII characters.
#[inline]
fn printable(bytes: &[u8]) -> usize {
    let other = |byte: &u8| byte.wrapping_sub(0x20) > 0x5e;
    let mut length = 0;
    for chunk in bytes.chunks_exact(16) {
        if chunk.iter().fold(false, |found, byte| found | other(byte)) {
            break;
        }
        length += 16;
    }
    length + bytes[length..].iter().take_while(|byte| !other(byte)).count()
}

enum Decoded {
    /// And its bytes.
    Char(char, usize),
    /// So many bytes are one replacement character (Unicode 3.9, maximal subparts).
    Invalid(usize),
    Incomplete,
}

#[inline]
fn decode(bytes: &[u8]) -> Decoded {
    // The common case: three bytes, neither overlong nor a surrogate.
    if let [first @ (0xe1..=0xec | 0xee | 0xef), second @ 0x80..=0xbf, third @ 0x80..=0xbf, ..] = *bytes {
        let [first, second, third] = [first, second, third].map(u32::from);
        let code = (first & 0xf) << 12 | (second & 0x3f) << 6 | third & 0x3f;
        if let Some(c) = char::from_u32(code) {
            return Decoded::Char(c, 3);
        }
    }
    let bytes = &bytes[..bytes.len().min(4)];
    let (valid, error) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]);
            (valid.unwrap_or_default(), Some(error.error_len()))
        }
    };
    match (valid.chars().next(), error) {
        (Some(c), _) => Decoded::Char(c, c.len_utf8()),
        (None, Some(Some(length))) => Decoded::Invalid(length),
        (None, _) => Decoded::Incomplete,
    }
}
