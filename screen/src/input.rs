//! What keys, pasted text and the mouse send to the program, in the modes that it has set.
//!
//! Sources: xterm's ctlseqs ("PC-Style Function Keys", "Mouse Tracking", modifyOtherKeys) and the kitty keyboard protocol.
//! Keys are pressed and never held, so no release is reported.

use crate::modes::ModeFlags;
use crate::screen::Screen;

const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CTRL: u8 = 4;

/// Flags of the kitty keyboard protocol.
const DISAMBIGUATE: u8 = 1;
const ALTERNATES: u8 = 4;
const ALL_AS_ESCAPES: u8 = 8;
const TEXT: u8 = 16;

/// A key with the modifiers that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    code: Code,
    modifiers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Char(char),
    Enter,
    Tab,
    Escape,
    Backspace,
    /// `CSI letter`, or `SS3 letter` in application mode or as a function key.
    Letter(char),
    /// `CSI number ~`.
    Number(u8),
}

/// Names of keys and what they are.
const NAMES: [(&str, Code); 36] = [
    ("Enter", Code::Enter),
    ("Return", Code::Enter),
    ("Tab", Code::Tab),
    ("Escape", Code::Escape),
    ("Esc", Code::Escape),
    ("Backspace", Code::Backspace),
    ("BSpace", Code::Backspace),
    ("Space", Code::Char(' ')),
    ("Up", Code::Letter('A')),
    ("Down", Code::Letter('B')),
    ("Right", Code::Letter('C')),
    ("Left", Code::Letter('D')),
    ("Home", Code::Letter('H')),
    ("End", Code::Letter('F')),
    ("Insert", Code::Number(2)),
    ("IC", Code::Number(2)),
    ("Delete", Code::Number(3)),
    ("DC", Code::Number(3)),
    ("PageUp", Code::Number(5)),
    ("PgUp", Code::Number(5)),
    ("PPage", Code::Number(5)),
    ("PageDown", Code::Number(6)),
    ("PgDn", Code::Number(6)),
    ("NPage", Code::Number(6)),
    ("F1", Code::Letter('P')),
    ("F2", Code::Letter('Q')),
    ("F3", Code::Letter('R')),
    ("F4", Code::Letter('S')),
    ("F5", Code::Number(15)),
    ("F6", Code::Number(17)),
    ("F7", Code::Number(18)),
    ("F8", Code::Number(19)),
    ("F9", Code::Number(20)),
    ("F10", Code::Number(21)),
    ("F11", Code::Number(23)),
    ("F12", Code::Number(24)),
];

/// Takes `C-`, `M-` and `S-` off the front of a name.
fn modifiers(mut name: &str) -> (u8, &str) {
    let mut modifiers = 0;
    while let Some((prefix, rest)) = name.split_once('-').filter(|(_, rest)| !rest.is_empty()) {
        modifiers |= match prefix {
            "C" => CTRL,
            "M" | "A" => ALT,
            "S" => SHIFT,
            _ => break,
        };
        name = rest;
    }
    (modifiers, name)
}

impl Key {
    /// The key of this name: a character, or `Enter`, `Left`, `F5` and the like, with `C-`, `M-` and `S-` in front for Ctrl,
    /// Alt and Shift. Upper and lower case of the longer names are the same.
    #[must_use]
    pub fn named(name: &str) -> Option<Key> {
        let (mut modifiers, name) = modifiers(name);
        if name.eq_ignore_ascii_case("BTab") {
            return Some(Key { code: Code::Tab, modifiers: modifiers | SHIFT });
        }
        let mut chars = name.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => {
                // Held with Ctrl, a capital letter means Shift too.
                if c.is_uppercase() && modifiers & (CTRL | ALT) != 0 {
                    modifiers |= SHIFT;
                }
                Code::Char(c)
            }
            _ => NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1,
        };
        Some(Key { code, modifiers })
    }
}

/// What the mouse does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// What.
    pub action: Action,
    /// With which button: 0 left, 1 middle, 2 right; 3 for none, with [`Action::Move`] only.
    pub button: u8,
    /// Column from 0.
    pub column: u16,
    /// Row from 0.
    pub row: u16,
    modifiers: u8,
}

/// What can be done with a mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A button goes down.
    Press,
    /// A button goes up.
    Release,
    /// Both.
    Click,
    /// It moves.
    Move,
    /// The wheel turns: 0 up, 1 down, 2 left, 3 right.
    Wheel(u8),
}

impl Mouse {
    /// The action of this name (`press`, `release`, `click`, `move`, `wheel-up`, `wheel-down`, `wheel-left`, `wheel-right`),
    /// with `C-`, `M-` and `S-` in front.
    #[must_use]
    pub fn named(name: &str, button: u8, column: u16, row: u16) -> Option<Mouse> {
        let (modifiers, name) = modifiers(name);
        let action = match name {
            "press" => Action::Press,
            "release" => Action::Release,
            "click" => Action::Click,
            "move" => Action::Move,
            "wheel-up" => Action::Wheel(0),
            "wheel-down" => Action::Wheel(1),
            "wheel-left" => Action::Wheel(2),
            "wheel-right" => Action::Wheel(3),
            _ => return None,
        };
        Some(Mouse { action, button, column, row, modifiers })
    }
}

impl Screen {
    /// What this key sends.
    #[must_use]
    pub fn key_bytes(&self, key: Key) -> Vec<u8> {
        let kitty = self.keyboard_flags();
        let text = match key.code {
            Code::Char(c) if kitty & (DISAMBIGUATE | ALL_AS_ESCAPES) != 0 => kitty_char(c, key.modifiers, kitty),
            Code::Char(c) => self.char_bytes(c, key.modifiers),
            Code::Letter(letter) => self.letter(letter, key.modifiers, kitty),
            Code::Number(number) => with_modifiers(&number.to_string(), key.modifiers, '~'),
            Code::Enter | Code::Tab | Code::Escape | Code::Backspace => self.named_bytes(key, kitty),
        };
        text.into_bytes()
    }

    fn letter(&self, letter: char, modifiers: u8, kitty: u8) -> String {
        let function = matches!(letter, 'P'..='S');
        match (modifiers, kitty) {
            (0, 0) if function || self.modes().flags.contains(ModeFlags::CURSOR_KEYS) => format!("\x1bO{letter}"),
            (0, 0) => format!("\x1b[{letter}"),
            // CSI R is the answer to a cursor query there.
            (_, 1..) if letter == 'R' => with_modifiers("13", modifiers, '~'),
            (0, _) => format!("\x1b[{letter}"),
            (modifiers, _) => with_modifiers("1", modifiers, letter),
        }
    }

    fn named_bytes(&self, Key { code, modifiers }: Key, kitty: u8) -> String {
        let backarrow = self.modes().flags.contains(ModeFlags::BACKARROW);
        let (number, plain) = match code {
            Code::Enter if self.modes().flags.contains(ModeFlags::NEWLINE) => (13, "\r\n"),
            Code::Enter => (13, "\r"),
            Code::Tab => (9, "\t"),
            Code::Escape => (27, "\x1b"),
            _ if backarrow != (modifiers & CTRL != 0 && kitty == 0) => (127, "\x08"),
            _ => (127, "\x7f"),
        };
        if kitty & ALL_AS_ESCAPES != 0 || kitty != 0 && (modifiers != 0 || code == Code::Escape) {
            return with_modifiers(&number.to_string(), modifiers, 'u');
        }
        if code == Code::Tab && modifiers == SHIFT {
            return "\x1b[Z".to_owned();
        }
        let other = match self.modify_other_keys() {
            0 => false,
            1 => modifiers != 0 && code != Code::Backspace && modifiers != ALT,
            _ => modifiers != 0,
        };
        if other {
            return format!("\x1b[27;{};{number}~", 1 + modifiers);
        }
        let alt = if modifiers & ALT != 0 { "\x1b" } else { "" };
        format!("{alt}{plain}")
    }

    fn char_bytes(&self, c: char, modifiers: u8) -> String {
        let shifted = if modifiers & SHIFT != 0 { c.to_uppercase().next().unwrap_or(c) } else { c };
        let control = control_of(c);
        let other = match self.modify_other_keys() {
            0 => false,
            1 => modifiers & CTRL != 0 && control.is_none(),
            _ => modifiers & (CTRL | ALT) != 0,
        };
        if other {
            return format!("\x1b[27;{};{}~", 1 + modifiers, u32::from(shifted));
        }
        let sent = if modifiers & CTRL != 0 { control.unwrap_or(shifted) } else { shifted };
        let alt = if modifiers & ALT != 0 { "\x1b" } else { "" };
        format!("{alt}{sent}")
    }

    /// What pasting this text sends: line ends as Enter does, other control characters but tabs left out, in brackets if the
    /// program asked for them.
    #[must_use]
    pub fn paste_bytes(&self, text: &str) -> Vec<u8> {
        let lines = text.replace("\r\n", "\r").replace('\n', "\r");
        let clean: String = lines.chars().filter(|c| !c.is_control() || matches!(c, '\r' | '\t')).collect();
        if self.modes().flags.contains(ModeFlags::PASTE) {
            format!("\x1b[200~{clean}\x1b[201~").into_bytes()
        } else {
            clean.into_bytes()
        }
    }

    /// What the mouse sends; nothing when the program has not asked for that.
    #[must_use]
    pub fn mouse_bytes(&self, mouse: Mouse) -> Option<Vec<u8>> {
        let modes = self.modes();
        let wheel = matches!(mouse.action, Action::Wheel(_));
        if modes.mouse == 0 {
            // The wheel moves as cursor keys do where nothing else can scroll.
            let scrolls = self.alternate() && modes.flags.contains(ModeFlags::ALTERNATE_SCROLL);
            let letter = match mouse.action {
                Action::Wheel(0) => 'A',
                Action::Wheel(1) => 'B',
                _ => return None,
            };
            return scrolls.then(|| self.letter(letter, 0, self.keyboard_flags()).repeat(3).into_bytes());
        }
        let wanted = match modes.mouse {
            9 => matches!(mouse.action, Action::Press | Action::Click),
            1000 => mouse.action != Action::Move,
            1002 => mouse.action != Action::Move || mouse.button < 3,
            _ => true,
        };
        if !wanted {
            return None;
        }
        let held = if modes.mouse == 9 { 0 } else { 4 * mouse.modifiers };
        let base = match mouse.action {
            Action::Wheel(turn) => 64 + turn,
            Action::Move => 32 + mouse.button,
            _ => mouse.button,
        };
        let code = base | held;
        let mut sent = Vec::new();
        if mouse.action != Action::Release {
            self.report(&mut sent, code, mouse, false);
        }
        let releases = matches!(mouse.action, Action::Release | Action::Click) && modes.mouse != 9 && !wheel;
        if releases {
            self.report(&mut sent, code, mouse, true);
        }
        Some(sent)
    }

    fn report(&self, sent: &mut Vec<u8>, code: u8, mouse: Mouse, release: bool) {
        let size = self.size();
        let encoding = self.modes().mouse_encoding;
        let (mut x, mut y) = (u32::from(mouse.column) + 1, u32::from(mouse.row) + 1);
        if encoding == 1016 && size.x_pixels > 0 && size.y_pixels > 0 {
            // The middle of the cell.
            let middle = |cell: u16, pixels: u16, cells: u16| {
                (2 * u32::from(cell) + 1) * u32::from(pixels) / (2 * u32::from(cells)) + 1
            };
            (x, y) = (middle(mouse.column, size.x_pixels, size.cols), middle(mouse.row, size.y_pixels, size.rows));
        }
        // Only SGR says which button went up.
        let plain = if release { code & !3 | 3 } else { code };
        match encoding {
            1006 | 1016 => {
                let end = if release { 'm' } else { 'M' };
                sent.extend(format!("\x1b[<{code};{x};{y}{end}").bytes());
            }
            1015 => sent.extend(format!("\x1b[{};{x};{y}M", u32::from(plain) + 32).bytes()),
            1005 => {
                let utf8 = |number: u32| char::from_u32(number.min(2015) + 32).unwrap_or(' ');
                sent.extend(format!("\x1b[M{}{}{}", utf8(plain.into()), utf8(x), utf8(y)).bytes());
            }
            _ => {
                let byte = |number: u32| (number.min(223) + 32) as u8;
                sent.extend([0x1b, b'[', b'M', byte(plain.into()), byte(x), byte(y)]);
            }
        }
    }
}

fn with_modifiers(number: &str, modifiers: u8, end: char) -> String {
    match modifiers {
        0 => format!("\x1b[{number}{end}"),
        modifiers => format!("\x1b[{number};{}{end}", 1 + modifiers),
    }
}

/// The control character that Ctrl makes of a key.
fn control_of(c: char) -> Option<char> {
    let code = match c.to_ascii_lowercase() {
        letter @ 'a'..='z' => letter as u8 & 0x1f,
        '@' | ' ' | '2' => 0,
        '[' | '3' => 27,
        '\\' | '4' => 28,
        ']' | '5' => 29,
        '^' | '6' => 30,
        '_' | '7' | '/' => 31,
        '?' | '8' => 127,
        _ => return None,
    };
    Some(char::from(code))
}

fn kitty_char(c: char, modifiers: u8, flags: u8) -> String {
    let lower = c.to_lowercase().next().unwrap_or(c);
    let upper = c.to_uppercase().next().unwrap_or(c);
    let shift = modifiers & SHIFT != 0 || lower != c;
    let modifiers = modifiers | if shift { SHIFT } else { 0 };
    let text = if shift { upper } else { c };
    if flags & ALL_AS_ESCAPES == 0 && modifiers & (CTRL | ALT) == 0 {
        return text.to_string();
    }
    let mut key = u32::from(lower).to_string();
    if flags & ALTERNATES != 0 && shift && upper != lower {
        key.push_str(&format!(":{}", u32::from(upper)));
    }
    if flags & ALL_AS_ESCAPES != 0 && flags & TEXT != 0 && modifiers & (CTRL | ALT) == 0 {
        let held = if modifiers == 0 { String::new() } else { (1 + modifiers).to_string() };
        return format!("\x1b[{key};{held};{}u", u32::from(text));
    }
    with_modifiers(&key, modifiers, 'u')
}
