//! The escape of an interactive attach: at the start of a line `~.` detaches, `~~` sends one `~`, `~?` helps.
//!
//! Bytes are passed on at once; only a `~` at the start of a line waits for the key behind it. Keys that the terminal
//! sends as sequences (kitty keyboard, modifyOtherKeys) count as the keys they are, pasted text as text, and what no
//! person typed (mouse, focus, answers) as nothing.

use bytes::Bytes;

/// What typed bytes mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send them to the terminal.
    Send(Bytes),
    /// Detach.
    Detach,
    /// Show what the escapes are.
    Help,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Enter,
    Char(char),
    Other,
    /// Not typed.
    Nothing,
    PasteStart,
    PasteEnd,
}

/// Finds the escapes in what is typed.
#[derive(Debug)]
pub(super) struct Escapes {
    /// Nothing that is typed goes anywhere: a line never begins.
    observer: bool,
    line_start: bool,
    tilde: Option<Vec<u8>>,
    pasting: bool,
    /// Inside a sequence whose start came in an earlier piece.
    inside: bool,
}

const ESC: u8 = 0x1b;

impl Escapes {
    pub(super) fn new(observer: bool) -> Self {
        Escapes { observer, line_start: true, tilde: None, pasting: false, inside: false }
    }

    /// What the next bytes mean, in order. Nothing follows a detach.
    pub(super) fn typed(&mut self, mut bytes: &[u8]) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut send = Vec::new();
        if std::mem::take(&mut self.inside) {
            let length = sequence_rest(bytes);
            self.inside = length.is_none();
            let (rest, after) = bytes.split_at(length.unwrap_or(bytes.len()));
            send.extend_from_slice(rest);
            bytes = after;
        }
        while !bytes.is_empty() {
            let (token, length) = token(bytes).unwrap_or_else(|| {
                self.inside = true;
                (Token::Other, bytes.len())
            });
            let (raw, rest) = bytes.split_at(length);
            bytes = rest;
            if self.pasting {
                self.pasting = token != Token::PasteEnd;
                send.extend_from_slice(raw);
                continue;
            }
            match (self.tilde.take(), token) {
                (tilde, Token::Nothing) => {
                    self.tilde = tilde;
                    send.extend_from_slice(raw);
                    continue;
                }
                (Some(_), Token::Char('.')) => {
                    push(&mut actions, &mut send);
                    actions.push(Action::Detach);
                    return actions;
                }
                (Some(_), Token::Char('?')) => {
                    push(&mut actions, &mut send);
                    actions.push(Action::Help);
                    self.line_start = true;
                    continue;
                }
                (Some(tilde), Token::Char('~')) => send.extend_from_slice(&tilde),
                (Some(tilde), _) => {
                    send.extend_from_slice(&tilde);
                    send.extend_from_slice(raw);
                }
                (None, Token::Char('~')) if self.line_start => {
                    self.tilde = Some(raw.to_vec());
                    continue;
                }
                (None, _) => send.extend_from_slice(raw),
            }
            // What a shell does with ^C and ^U leaves an empty line, too.
            self.line_start = self.observer || matches!(token, Token::Enter | Token::Char('\x03' | '\x15'));
            self.pasting = token == Token::PasteStart;
        }
        push(&mut actions, &mut send);
        actions
    }
}

fn push(actions: &mut Vec<Action>, send: &mut Vec<u8>) {
    if !send.is_empty() {
        actions.push(Action::Send(std::mem::take(send).into()));
    }
}

/// The first token and its length; nothing when it is a sequence whose end is not there.
fn token(bytes: &[u8]) -> Option<(Token, usize)> {
    match bytes {
        [b'\r' | b'\n', ..] => Some((Token::Enter, 1)),
        [ESC, b'[', rest @ ..] => {
            let last = rest.iter().position(|b| (0x40..=0x7e).contains(b))?;
            let (token, extra) = csi(&rest[..last], rest[last]);
            Some((token, (last + 3 + extra).min(bytes.len())))
        }
        [ESC, b'O', b'M', ..] => Some((Token::Enter, 3)),
        [ESC, b'O', _, ..] => Some((Token::Other, 3)),
        [ESC, b']' | b'P' | b'_', rest @ ..] => sequence_rest(rest).map(|length| (Token::Nothing, length + 2)),
        // Alone it is the key; with another behind it, that key with Alt.
        [ESC] => Some((Token::Other, 1)),
        [ESC, _, ..] => Some((Token::Other, 2)),
        [byte, ..] if byte.is_ascii() => Some((Token::Char(char::from(*byte)), 1)),
        [_, ..] => Some((Token::Other, 1)),
        [] => None,
    }
}

/// How much of `bytes` belongs to a sequence that began before them, if its end is there. Any byte that could end one
/// does; a mistake here only lets one escape go unnoticed.
fn sequence_rest(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|b| matches!(b, 0x07 | 0x1b | b'\r' | b'\n' | b'~' | b'u' | b'M'))?;
    match bytes[end..] {
        [ESC, b'\\', ..] => Some(end + 2),
        [ESC, ..] => Some(end),
        [0x07 | b'~' | b'u' | b'M', ..] => Some(end + 1),
        _ => Some(end),
    }
}

/// A CSI sequence and how many bytes behind it belong to it.
fn csi(params: &[u8], last: u8) -> (Token, usize) {
    let text = std::str::from_utf8(params).unwrap_or("");
    match (text, last) {
        ("200", b'~') => (Token::PasteStart, 0),
        ("201", b'~') => (Token::PasteEnd, 0),
        ("", b'I' | b'O') => (Token::Nothing, 0),
        // The oldest mouse report: button, column and row as bytes.
        ("", b'M') => (Token::Nothing, 3),
        _ if text.starts_with(['<', '?', '>']) => (Token::Nothing, 0),
        (_, b'u') => (key(text), 0),
        (_, b'~') if text.starts_with("27;") => {
            let mut fields = text.split(';').skip(1);
            let modifiers = fields.next().unwrap_or("");
            let code = fields.next().unwrap_or("");
            (key(&format!("{code};{modifiers}")), 0)
        }
        _ => (Token::Other, 0),
    }
}

/// A key as the kitty keyboard protocol writes it: `code:shifted:base ; modifiers:event ; text`.
fn key(text: &str) -> Token {
    let mut fields = text.split(';');
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let mut codes = fields.next().unwrap_or("").split(':');
    let (code, shifted) = (number(codes.next()), number(codes.next()));
    let mut how = fields.next().unwrap_or("").split(':');
    let modifiers = number(how.next()).unwrap_or(1).saturating_sub(1);
    let event = number(how.next());
    let typed = number(fields.next());
    // Lock and modifier keys by themselves, and releases.
    if event == Some(3) || matches!(code, Some(57358..=57360 | 57441..=57454)) {
        return Token::Nothing;
    }
    // Shift, caps lock and num lock leave a character what it is.
    if modifiers & !(1 | 64 | 128) != 0 {
        return Token::Other;
    }
    let shifted = shifted.filter(|_| modifiers & 1 != 0);
    match typed.or(shifted).or(code) {
        Some(13 | 57414) => Token::Enter,
        Some(code) => char::from_u32(code).map_or(Token::Other, Token::Char),
        None => Token::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&str]) -> (String, Vec<&'static str>) {
        let mut escapes = Escapes::new(false);
        let (mut sent, mut others) = (String::new(), Vec::new());
        for piece in pieces {
            for action in escapes.typed(piece.as_bytes()) {
                match action {
                    Action::Send(bytes) => sent.push_str(std::str::from_utf8(&bytes).unwrap()),
                    Action::Detach => others.push("detach"),
                    Action::Help => others.push("help"),
                }
            }
        }
        (sent, others)
    }

    #[test]
    fn an_empty_line_begins_after_an_interrupt_and_always_for_who_only_watches() {
        for before in ["ls\x03", "ls\x15", "\r"] {
            let mut escapes = Escapes::new(false);
            escapes.typed(before.as_bytes());
            assert_eq!(escapes.typed(b"~."), [Action::Detach], "{before:?}");
        }
        let mut escapes = Escapes::new(false);
        escapes.typed(b"ls");
        assert_eq!(escapes.typed(b"~."), [Action::Send("~.".into())]);
        let mut watching = Escapes::new(true);
        watching.typed(b"ls");
        assert_eq!(watching.typed(b"~."), [Action::Detach]);
    }

    #[test]
    fn escapes_work_at_the_start_of_a_line_only() {
        let none: Vec<&str> = vec![];
        assert_eq!(all(&["~."]), (String::new(), vec!["detach"]));
        assert_eq!(all(&["ls\r", "~", "."]), ("ls\r".into(), vec!["detach"]));
        assert_eq!(all(&["ls ~."]), ("ls ~.".into(), none.clone()));
        assert_eq!(all(&["\r~~."]), ("\r~.".into(), none.clone()));
        assert_eq!(all(&["~", "/x"]), ("~/x".into(), none.clone()));
        assert_eq!(all(&["~?~."]), (String::new(), vec!["help", "detach"]));
        assert_eq!(all(&["~\r~."]), ("~\r".into(), vec!["detach"]));
        assert_eq!(all(&["~", "\r", "x"]), ("~\rx".into(), none));
    }

    #[test]
    fn pasted_text_and_reports_are_no_keys() {
        let paste = "\x1b[200~\r~.\x1b[201~";
        assert_eq!(all(&[paste, "x"]), (format!("{paste}x"), vec![]));
        assert_eq!(
            all(&["\r", "\x1b[I", "\x1b[<0;1;1M", "~", "\x1b[<0;1;1m", "."]),
            ("\r\x1b[I\x1b[<0;1;1M\x1b[<0;1;1m".into(), vec!["detach"])
        );
        assert_eq!(all(&["\r\x1b[A~."]), ("\r\x1b[A~.".into(), vec![]));
    }

    #[test]
    fn keys_sent_as_sequences_count() {
        let enter = "\x1b[13u";
        let (sent, others) = all(&[enter, "\x1b[57441;2u", "\x1b[96:126;2u", "\x1b[96;1:3u", "\x1b[46;;46u"]);
        assert_eq!(others, ["detach"]);
        assert!(sent.starts_with(enter));
        assert_eq!(all(&["\x1b[27;2;126~", "\x1b[46u"]).1, ["detach"]);
        assert_eq!(all(&["\x1b[126;5u", "."]).1, Vec::<&str>::new(), "with Ctrl it is another key");
    }

    #[test]
    fn a_sequence_cut_in_two_is_passed_on() {
        assert_eq!(all(&["a\x1b[1", ";5u", "\r~."]), ("a\x1b[1;5u\r".into(), vec!["detach"]));
    }
}
