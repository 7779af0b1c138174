//! Where in a stream of VT bytes nothing is half said.
//!
//! A place is *ground* when no escape sequence, control string or UTF-8 character is under way. A snapshot is only ever
//! taken at ground, so that the bytes behind it can be followed by anybody. The states are those of
//! <https://vt100.net/emu/dec_ansi_parser>, as far as they decide where a sequence ends, and with the differences that
//! the engine's parser (`vte`) has: only 7-bit introducers, UTF-8, OSC strings also end at BEL.

use memchr::memchr;

const ESC: u8 = 0x1b;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    /// Inside a UTF-8 character.
    Character,
    Escape,
    EscapeIntermediate,
    Csi,
    DcsEntry,
    DcsParameter,
    DcsIntermediate,
    DcsIgnore,
    DcsPassthrough,
    Osc,
    /// SOS, PM or APC.
    String,
}

/// Follows a stream and tells where it was at ground last.
pub(super) struct Ground {
    state: State,
    /// The first bytes of the character that is under way, when `state` is `Character`.
    character: [u8; 4],
    length: usize,
}

impl Ground {
    pub(super) fn new() -> Self {
        Ground {
            state: State::Ground,
            character: [0; 4],
            length: 0,
        }
    }

    /// Takes the next bytes and returns how many of them lie before the last ground place among them; nothing when there
    /// is none.
    ///
    /// A character that breaks off is complete where the byte that breaks it begins, so the bytes before a ground place
    /// may end as [`open_character`] says.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut last = None;
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Ground => {
                    let rest = &bytes[at..];
                    if let Some(run) = memchr(ESC, rest) {
                        last = Some(at + run);
                        at += run + 1;
                        self.state = State::Escape;
                    } else {
                        let open = open_character(rest);
                        at = bytes.len();
                        last = Some(at - open);
                        if open > 0 {
                            self.character[..open].copy_from_slice(&bytes[at - open..]);
                            self.length = open;
                            self.state = State::Character;
                        }
                    }
                }
                State::Character => {
                    self.character[self.length] = bytes[at];
                    match std::str::from_utf8(&self.character[..=self.length]) {
                        Ok(_) => {
                            self.state = State::Ground;
                            at += 1;
                            last = Some(at);
                        }
                        Err(error) if error.error_len().is_none() => {
                            self.length += 1;
                            at += 1;
                        }
                        // It broke off; this byte begins something else.
                        Err(_) => {
                            self.state = State::Ground;
                            last = Some(at);
                        }
                    }
                }
                _ => {
                    self.step(bytes[at]);
                    at += 1;
                    if self.state == State::Ground {
                        last = Some(at);
                    }
                }
            }
        }
        last
    }

    /// Looks for the end of the sequence that is under way and returns where what follows it begins; nothing when the
    /// sequence does not end in `bytes`.
    pub(super) fn leave(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == ESC {
                self.state = State::Ground;
                return Some(at);
            }
            self.step(byte);
            if self.state == State::Ground {
                return Some(at + 1);
            }
        }
        None
    }

    /// What puts a fresh terminal into a state like this one without doing anything, so that the end of a sequence that
    /// was dropped does not show.
    pub(super) fn stand_in(&self) -> &'static [u8] {
        match self.state {
            State::Ground | State::Character => b"",
            State::Escape | State::EscapeIntermediate => b"\x1b   ",
            State::Csi => b"\x1b[0<",
            State::Osc => b"\x1b]9999;",
            _ => b"\x1b^",
        }
    }

    fn step(&mut self, byte: u8) {
        use State::{
            Csi, DcsEntry, DcsIgnore, DcsIntermediate, DcsParameter, DcsPassthrough, Escape,
            EscapeIntermediate, Osc, String,
        };
        self.state = match (self.state, byte) {
            (_, 0x18 | 0x1a) => State::Ground,
            (_, ESC) => Escape,
            (Escape, 0x20..=0x2f) => EscapeIntermediate,
            (Escape, b'[') => Csi,
            (Escape, b']') => Osc,
            (Escape, b'P') => DcsEntry,
            (Escape, b'X' | b'^' | b'_') => String,
            (Escape | EscapeIntermediate, 0x30..=0x7e) | (Csi, 0x40..=0x7e) => State::Ground,
            (DcsEntry | DcsParameter | DcsIntermediate, 0x20..=0x2f) => DcsIntermediate,
            (DcsEntry, 0x30..=0x3f) | (DcsParameter, 0x30..=0x3b) => DcsParameter,
            (DcsParameter, 0x3c..=0x3f) | (DcsIntermediate, 0x30..=0x3f) => DcsIgnore,
            (DcsEntry | DcsParameter | DcsIntermediate, 0x40..=0x7e) => DcsPassthrough,
            (DcsPassthrough, 0x9c) | (Osc, 0x07) => State::Ground,
            (state, _) => state,
        };
    }
}

/// How many bytes at the end of `run` begin a UTF-8 character that is not complete.
pub(super) fn open_character(run: &[u8]) -> usize {
    let tail = &run[run.len().saturating_sub(3)..];
    match tail.iter().rposition(|&byte| byte >= 0xc0) {
        Some(start) => match std::str::from_utf8(&tail[start..]) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() == 0 => {
                tail.len() - start
            }
            _ => 0,
        },
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use alacritty_terminal::vte;

    use super::*;
    use crate::terminal::testing::Random;

    /// Counts what the parser prints and does.
    #[derive(Default)]
    struct Printed(usize);

    impl vte::Perform for Printed {
        fn print(&mut self, _: char) {
            self.0 += 1;
        }
    }

    /// Whether the parser is at ground after `bytes`: then, and only then, `X` is one printed character.
    fn parser_at_ground(bytes: &[u8]) -> bool {
        let mut parser = vte::Parser::new();
        parser.advance(&mut Printed::default(), bytes);
        let mut printed = Printed::default();
        parser.advance(&mut printed, b"X");
        printed.0 == 1
    }

    #[test]
    fn ground_is_where_the_parser_is_at_ground() {
        const BYTES: &[u8] = b"\x1b\x1b\x1b[[]]PX^_\x07\x18\x1a\\;:<0m \x7f\n#hq\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x80\x9c\xff";
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let stream: Vec<u8> = (0..30).map(|_| *random.pick(BYTES)).collect();
            let mut ground = Ground::new();
            let mut at = 0;
            while at < stream.len() {
                let length = (1 + random.below(4)).min(stream.len() - at);
                let last = ground.advance(&stream[at..at + length]);
                for end in last.unwrap_or(0)..=length {
                    let before = &stream[..at + end];
                    // A character that the next byte breaks off is only complete to us.
                    let expected = parser_at_ground(before) || open_character(before) > 0;
                    match last {
                        Some(last) if end == last => assert!(expected, "seed {seed}: {before:x?}"),
                        _ if end > 0 => {
                            assert!(!parser_at_ground(before), "seed {seed}: {before:x?}")
                        }
                        _ => {}
                    }
                }
                at += length;
            }
        }
    }

    #[test]
    fn the_end_of_a_dropped_sequence_is_found() {
        for (opening, rest, end) in [
            (&b"\x1b]0;"[..], &b"abc\x07X"[..], Some(4)),
            (b"\x1b]0;", b"abc\x1b\\X", Some(3)),
            (b"\x1bPq", b"abc\x07X", None),
            (b"\x1b_", b"ab\x18X", Some(3)),
            (b"\x1b[0", b";;mX", Some(3)),
        ] {
            let mut ground = Ground::new();
            assert_eq!(ground.advance(opening), Some(0));
            assert_eq!(ground.leave(rest), end, "{opening:?}");
        }
    }
}
