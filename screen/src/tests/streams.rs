//! Random streams from a grammar of sequences.

use crate::screen::Size;

/// A small generator of numbers; the same seed gives the same ones.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Byte(u8),
    Resize(Size),
}

/// What streams are made of. A number sign stands for a small number.
const FRAGMENTS: &[&str] = &[
    "a",
    "bc",
    "hello ",
    "\u{4e16}",
    "\u{754c}\u{4e16}",
    "e\u{301}",
    "\u{1f600}",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    "\t",
    "\x08",
    "  ",
    "abcdefghijkl",
    "abcdefghijklmnopqrstuvwxyz",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "\u{1f1e9}",
    "\u{1f1e9}\u{1f1ea}",
    "\u{2764}\u{fe0f}",
    "1\u{fe0f}\u{20e3}",
    "\u{1f44d}\u{1f3fd}",
    "\u{1112}\u{1161}\u{11ab}",
    "\u{301}",
    "\u{200d}",
    "\u{903}",
    "\u{600}",
    "\u{915}\u{93f}",
    "\u{1f3fd}",
    "\u{fe0f}",
    "a\u{200b}b",
    "\u{ac}\u{e9}",
    "\u{2500}\u{2502}",
    "\x1b[3#m",
    "\x1b[4#m",
    "\x1b[1;4:3m",
    "\x1b[38;2;1;2;#m",
    "\x1b[48:5:#m",
    "\x1b[58:5:4;4m",
    "\x1b[m",
    "\x1b[m",
    "\x1b[7m",
    "\x1b[9#m",
    "\x1b[2;3;5;8;9;53m",
    "\x1b[59m",
    "\x1b[H",
    "\x1b[#;#H",
    "\x1b[5;12H",
    "\x1b[99;99H",
    "\x1b[#A",
    "\x1b[#B",
    "\x1b[#C",
    "\x1b[#D",
    "\x1b[#E",
    "\x1b[#F",
    "\x1b[#G",
    "\x1b[#d",
    "\x1b[#a",
    "\x1b[#e",
    "\x1b[#j",
    "\x1b[#k",
    "\x1b[J",
    "\x1b[1J",
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[K",
    "\x1b[1K",
    "\x1b[2K",
    "\x1b[?J",
    "\x1b[?K",
    "\x1b[?1K",
    "\x1b[1\"q",
    "\x1b[0\"q",
    "\x1b[#X",
    "\x1b[#@",
    "\x1b[#P",
    "\x1b[#L",
    "\x1b[#M",
    "\x1b[#S",
    "\x1b[#T",
    "\x1bM",
    "\x1bD",
    "\x1bE",
    "\x1b6",
    "\x1b9",
    "\x1b[#'}",
    "\x1b[#'~",
    "\x1b[# @",
    "\x1b[# A",
    "\x1b[2;4r",
    "\x1b[r",
    "\x1b[#;#r",
    "\x1b7",
    "\x1b8",
    "\x1b[s",
    "\x1b[u",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?47h",
    "\x1b[?47l",
    "\x1b[?1047h",
    "\x1b[?1047l",
    "\x1b[?1048h",
    "\x1b[?1048l",
    "\x1b[?25l",
    "\x1b[?25h",
    "\x1b[?2004h",
    "\x1b[?1000h",
    "\x1b[?1003h",
    "\x1b[?1003l",
    "\x1b[?1006h",
    "\x1b[?1016h",
    "\x1b[?9h",
    "\x1b[?1h",
    "\x1b[?66h",
    "\x1b[?67h",
    "\x1b=",
    "\x1b>",
    "\x1b(0",
    "\x1b(B",
    "\x1b)0",
    "\x1b)A",
    "\x1b*0",
    "\x1b+A",
    "\x0e",
    "\x0f",
    "\x1bn",
    "\x1bo",
    "\x1bN",
    "\x1bO",
    "qx#",
    "\x1b[3g",
    "\x1bH",
    "\x1b[g",
    "\x1b]0;title\x07",
    "\x1b]2;t\u{e9}\x1b\\",
    "\x1b[22t",
    "\x1b[23t",
    "\x1b]8;id=a;http://a\x07",
    "\x1b]8;;http://b\x07",
    "\x1b]8;;\x07",
    "\x1b]4;1;#123456\x07",
    "\x1b]11;rgb:1/2/3\x07",
    "\x1b]104\x07",
    "\x1b]111\x07",
    "\x1b[>1u",
    "\x1b[>5u",
    "\x1b[<u",
    "\x1b[<5u",
    "\x1b[=3;1u",
    "\x1b[=4;2u",
    "\x1b[?2026h",
    "\x1b[?2026l",
    "\x1b[4 q",
    "\x1b[?12h",
    "\x1b[#b",
    "\x1b[b",
    "\x1b[c",
    "\x1b[6n",
    "\x1b[?6n",
    "\x1b[?2004$p",
    "\x1b[4$p",
    "\x1b[?u",
    "\x1b#8",
    "\x1bP$qm\x1b\\",
    "\x1bP$qr\x1b\\",
    "\x1b_x\x1b\\",
    "\x1b^\u{1f600}\x1b\\",
    "\x1bXabc\x1b\\",
    "\x1b[?1004h",
    "\x1b[!p",
    "\x1bc",
    "\u{20ac}",
    "\x1b[#Z",
    "\x1b[#I",
    "\x1b[>4;1m",
    "\x1b[?6h",
    "\x1b[?6l",
    "\x1b[4h",
    "\x1b[4l",
    "\x1b[?7l",
    "\x1b[?7h",
    "\x1b[?45h",
    "\x1b[?45l",
    "\x1b[20h",
    "\x1b[20l",
    "\x1b[?69h",
    "\x1b[?69l",
    "\x1b[3;8s",
    "\x1b[#;#s",
    "\x1b]133;A\x07",
    "\x1b]133;C\x07",
    "\x1b]133;D;1\x07",
    "\x1b]7;file://h/tmp/a%20b\x07",
    "\x1b]9;hi\x07",
    "\x07",
    "\x1b[2;2;3;6$z",
    "\x1b[42;1;2;3;4$x",
    "\x1b[1;1;2;5;1;2;3;1$v",
    "\x1b[1;1;4;9${",
    "\x1b[?5h",
    "\u{ff}\u{85}",
    "\x1b[3\r1m",
];

pub(crate) fn random_steps(random: &mut Random, length: usize, resizes: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..length {
        if resizes && random.below(25) == 0 {
            let size = Size::cells(2 + random.below(20) as u16, 1 + random.below(8) as u16);
            steps.push(Step::Resize(size));
            continue;
        }
        for byte in random.pick(FRAGMENTS).bytes() {
            steps.push(Step::Byte(match byte {
                b'#' => b"0123456789"[random.below(10)],
                byte => byte,
            }));
        }
        match random.below(60) {
            // Sometimes a sequence or a character breaks off, or is no such thing.
            0 => drop(steps.pop()),
            1 => steps.push(Step::Byte(random.below(256) as u8)),
            2 => steps.push(Step::Byte(0x18)),
            _ => {}
        }
    }
    steps
}

pub(crate) fn bytes_of(steps: &[Step]) -> Vec<u8> {
    let byte = |step: &Step| {
        if let Step::Byte(byte) = step { *byte } else { b'?' }
    };
    steps.iter().map(byte).collect()
}
