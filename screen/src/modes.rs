//! Modes that programs set.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

bitflags! {
    /// Modes that are set or not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ModeFlags: u32 {
        /// DECCKM, 1: cursor keys send application sequences.
        const CURSOR_KEYS = 1;
        /// DECSCNM, 5: the whole screen is in reverse video.
        const REVERSE_SCREEN = 1 << 1;
        /// DECAWM, 7: text wraps at the right margin.
        const AUTOWRAP = 1 << 2;
        /// DECTCEM, 25.
        const CURSOR_VISIBLE = 1 << 3;
        /// 45: going back from the left margin reaches the row above.
        const REVERSE_WRAP = 1 << 4;
        /// DECNKM, 66, and DECKPAM: the keypad sends application sequences.
        const KEYPAD = 1 << 5;
        /// DECBKM, 67: the backarrow key sends BS.
        const BACKARROW = 1 << 6;
        /// DECLRMM, 69: there are left and right margins.
        const SIDE_MARGINS = 1 << 7;
        /// 1004: changes of focus are reported.
        const FOCUS = 1 << 8;
        /// 1007: the wheel sends cursor keys on the alternate screen.
        const ALTERNATE_SCROLL = 1 << 9;
        /// 1042: a bell asks for attention.
        const URGENCY = 1 << 10;
        /// 2004: pasted text is bracketed.
        const PASTE = 1 << 11;
        /// 2026: a synchronized update is under way. It holds nothing back.
        const SYNCHRONIZED = 1 << 12;
        /// IRM, 4: written text shifts what stands there.
        const INSERT = 1 << 13;
        /// LNM, 20: a line feed is also a carriage return.
        const NEWLINE = 1 << 14;
    }
}

/// Private modes that are plain flags.
pub(crate) const PRIVATE: [(u16, ModeFlags); 13] = [
    (1, ModeFlags::CURSOR_KEYS),
    (5, ModeFlags::REVERSE_SCREEN),
    (7, ModeFlags::AUTOWRAP),
    (25, ModeFlags::CURSOR_VISIBLE),
    (45, ModeFlags::REVERSE_WRAP),
    (66, ModeFlags::KEYPAD),
    (67, ModeFlags::BACKARROW),
    (69, ModeFlags::SIDE_MARGINS),
    (1004, ModeFlags::FOCUS),
    (1007, ModeFlags::ALTERNATE_SCROLL),
    (1042, ModeFlags::URGENCY),
    (2004, ModeFlags::PASTE),
    (2026, ModeFlags::SYNCHRONIZED),
];

/// Modes that are plain flags without the question mark.
pub(crate) const ANSI: [(u16, ModeFlags); 2] = [(4, ModeFlags::INSERT), (20, ModeFlags::NEWLINE)];

/// Which clicks and motions of the mouse are reported; they exclude each other.
pub(crate) const MOUSE: [u16; 4] = [9, 1000, 1002, 1003];

/// How the mouse is reported; they exclude each other.
pub(crate) const MOUSE_ENCODINGS: [u16; 4] = [1005, 1006, 1015, 1016];

/// All modes that matter to who sends keys and draws the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// The plain ones.
    pub flags: ModeFlags,
    /// What of the mouse is reported: 9, 1000, 1002, 1003, or 0 for nothing.
    pub mouse: u16,
    /// How it is encoded: 1005, 1006, 1015, 1016, or 0 for X10's way.
    pub mouse_encoding: u16,
    /// DECSCUSR: 0 the terminal's own, 1 and 2 block, 3 and 4 underline, 5 and 6 bar; the odd ones blink.
    pub cursor_style: u8,
}

impl Default for Modes {
    fn default() -> Self {
        Modes { flags: ModeFlags::AUTOWRAP | ModeFlags::CURSOR_VISIBLE, mouse: 0, mouse_encoding: 0, cursor_style: 0 }
    }
}

impl Modes {
    pub(crate) fn has(&self, flag: ModeFlags) -> bool {
        self.flags.contains(flag)
    }

    /// Whether a private mode that lives here is set; nothing for others.
    pub(crate) fn private(&self, mode: u16) -> Option<bool> {
        if let Some((_, flag)) = PRIVATE.iter().find(|(number, _)| *number == mode) {
            Some(self.has(*flag))
        } else if MOUSE.contains(&mode) {
            Some(self.mouse == mode)
        } else if MOUSE_ENCODINGS.contains(&mode) {
            Some(self.mouse_encoding == mode)
        } else if mode == 12 {
            Some(self.cursor_style % 2 == 1)
        } else {
            None
        }
    }

    /// Sets or resets a private mode that lives here.
    pub(crate) fn set_private(&mut self, mode: u16, on: bool) {
        if let Some((_, flag)) = PRIVATE.iter().find(|(number, _)| *number == mode) {
            self.flags.set(*flag, on);
        } else if MOUSE.contains(&mode) {
            self.mouse = if on { mode } else { 0 };
        } else if MOUSE_ENCODINGS.contains(&mode) {
            self.mouse_encoding = if on { mode } else { 0 };
        } else if mode == 12 {
            let shape = self.cursor_style.max(1).div_ceil(2);
            self.cursor_style = 2 * shape - u8::from(on);
        }
    }
}
