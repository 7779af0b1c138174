//! Terminal cases: what a screen must show, by xterm's or kitty's behaviour. One table, one short closure each.
//!
//! `t(s)` feeds `s` to a fresh screen of 24 rows and 80 columns; `row` is a row's text with trailing blanks cut; `cursor`
//! is (row, column) from 0; `full` is history then screen, trailing blank rows dropped, joined by `|`.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Col, Terminal as E, eq, ev, full, has, rep, t};

type Case = (&'static str, fn() -> Result<(), String>);

#[test]
fn every_case_is_right() {
    let failed: Vec<String> =
        CASES.iter().filter_map(|(name, case)| Some(format!("{name}: {}", case().err()?))).collect();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("deferred wrap at col 80 then CRLF", || { let mut e = t(&(rep('x', 80) + "\r\ny")); eq("row1", e.row(1, 80), "y".into())?; eq("row2", e.row(2, 80), "".into()) }),
    ("DECAWM off keeps overwriting last column", || { let mut e = t(&format!("\x1b[?7l{}YZ", rep('x', 80))); eq("c79", e.cell(0, 79).text, "Z".into())?; eq("row1", e.row(1, 80), "".into()) }),
    ("DECSC/DECRC keep SGR and position", || { let mut e = t("\x1b[5;10H\x1b[1;31m\x1b7\x1b[m\x1b[H\x1b8X"); let c = e.cell(4, 9); eq("text", c.text, "X".into())?; eq("bold", c.bold, true)?; eq("fg", c.fg, Col::Idx(1)) }),
    ("alt screen 1049 restores text and cursor", || { let mut e = t("main\x1b[10;20H\x1b[?1049h\x1b[Halt\x1b[?1049l"); eq("row0", e.row(0, 80), "main".into())?; eq("cur", e.cursor(), (9, 19)) }),
    ("alt screen adds nothing to scrollback", || { let mut e = t("\x1b[?1049h"); for i in 0..100 { e.feed(format!("{i}\r\n").as_bytes()) } e.feed(b"\x1b[?1049l"); eq("hist", e.history_len(), 0) }),
    ("SO/SI with G1 line drawing", || { let mut e = t("\x1b)0\x0eq\x0fq"); eq("row", e.row(0, 80), "─q".into()) }),
    ("tab stops HTS TBC CBT", || { let mut e = t("\x1b[3g\x1b[1;5H\x1bH\x1b[1;11H\x1bH\r\tA\tB\x1b[1;40H\x1b[ZC"); eq("A", e.cell(0, 4).text, "A".into())?; eq("B->C", e.cell(0, 10).text, "C".into()) }),
    ("REP", || { let mut e = t("a\x1b[3b"); eq("row", e.row(0, 80), "aaaa".into()) }),
    ("EL uses background colour (BCE)", || { let mut e = t("abc\x1b[44m\x1b[K"); eq("bg", e.cell(0, 40).bg, Col::Idx(4)) }),
    ("ICH DCH ECH", || { let mut e = t("abcdef\x1b[1;2H\x1b[2@"); eq("ich", e.row(0, 80), "a  bcdef".into())?; e.feed(b"\x1b[2P"); eq("dch", e.row(0, 80), "abcdef".into())?; e.feed(b"\x1b[2X"); eq("ech", e.row(0, 80), "a  def".into()) }),
    ("origin mode addressing and CPR", || { let mut e = t("\x1b[5;10r\x1b[?6h\x1b[2;3H\x1b[6nX"); eq("c", e.cell(5, 2).text, "X".into())?; has("cpr", &e.replies(), b"\x1b[2;3R") }),
    ("scroll region leaves outside rows alone", || { let mut e = t("\x1b[Htop\x1b[24;1Hbot\x1b[2;23r\x1b[23;1H"); for _ in 0..50 { e.feed(b"z\r\n") } eq("top", e.row(0, 80), "top".into())?; eq("bot", e.row(23, 80), "bot".into())?; eq("hist", e.history_len(), 0) }),
    ("LF at bottom of region 1..n goes to scrollback (xterm)", || { let mut e = t("\x1b[1;10r\x1b[10;1H"); for i in 0..30 { e.feed(format!("l{i}\r\n").as_bytes()) } if e.history_len() >= 20 { Ok(()) } else { Err(format!("hist {}", e.history_len())) } }),
    ("DECALN", || { let mut e = t("\x1b#8"); eq("c", e.cell(23, 79).text, "E".into()) }),
    ("CAN aborts a sequence", || { let mut e = t("\x1b[31\x18X"); let c = e.cell(0, 0); eq("t", c.text, "X".into())?; eq("fg", c.fg, Col::Def) }),
    ("escape sequence split between feeds", || { let mut e = t("\x1b[3"); e.feed(b"1;1"); e.feed(b"mX"); let c = e.cell(0, 0); eq("fg", c.fg, Col::Idx(1))?; eq("bold", c.bold, true) }),
    ("huge and many parameters do not break", || { let mut e = t("\x1b[99999999999999A\x1b[99999;99999HX"); eq("corner", e.cell(23, 79).text, "X".into())?; let s: String = "0;".repeat(200); e.feed(format!("\x1b[H\x1b[{s}mX").as_bytes()); eq("x", e.cell(0, 0).text, "X".into()) }),
    ("DECSTR resets SGR, margins, origin, insert", || { let mut e = t("\x1b[5;10r\x1b[?6h\x1b[4h\x1b[31m\x1b[!p\x1b[HX"); eq("x", e.cell(0, 0).text, "X".into())?; eq("fg", e.cell(0, 0).fg, Col::Def) }),
    ("HPA HPR VPA VPR", || { let mut e = t("\x1b[5d\x1b[7`\x1b[2e\x1b[3aX"); eq("x", e.cell(6, 9).text, "X".into()) }),
    ("LNM (mode 20)", || { let mut e = t("\x1b[20hab\nc"); eq("row1", e.row(1, 80), "c".into()) }),
    ("left/right margins DECLRMM/DECSLRM", || { let mut e = t("\x1b[?69h\x1b[10;20s\x1b[1;10H"); e.feed(rep('x', 15).as_bytes()); eq("row1", e.cell(1, 9).text, "x".into()) }),
    ("wide char does not split at last column", || { let mut e = t(&(rep('x', 79) + "漢")); eq("r1", e.cell(1, 0).text, "漢".into())?; eq("r0", e.row(0, 80), rep('x', 79)) }),
    ("overwrite right half of a wide char", || { let mut e = t("漢\x1b[1;2Ha"); eq("row", e.row(0, 80), " a".into()) }),
    ("combining mark joins its base", || { let mut e = t("e\u{301}x"); eq("c0", e.cell(0, 0).text, "e\u{301}".into())?; eq("c1", e.cell(0, 1).text, "x".into()) }),
    ("combining mark in pending-wrap state", || { let mut e = t(&(rep('x', 79) + "e\u{301}")); eq("c79", e.cell(0, 79).text, "e\u{301}".into())?; eq("r1", e.row(1, 80), "".into()) }),
    ("skin tone emoji is one 2-wide cluster", || { let mut e = t("👍🏽x"); eq("cur", e.cursor(), (0, 3))?; eq("c0", e.cell(0, 0).text, "👍🏽".into()) }),
    ("ZWJ family is one 2-wide cluster", || { let mut e = t("👨‍👩‍👧‍👦x"); eq("cur", e.cursor(), (0, 3))?; eq("c0", e.cell(0, 0).text, "👨‍👩‍👧‍👦".into()) }),
    ("Hangul jamo compose to 2 wide", || { let mut e = t("\u{1112}\u{1161}\u{11ab}x"); eq("cur", e.cursor(), (0, 3)) }),
    ("ZWJ text survives (no codepoint lost)", || { let mut e = t("👨‍👩‍👧x"); let r = e.row(0, 80); eq("row", r, "👨‍👩‍👧x".into()) }),
    ("invalid UTF-8 becomes U+FFFD", || { let mut e = t(""); e.feed(b"a\xffb\xe6\xbcXc"); eq("row", e.row(0, 80), "a\u{fffd}b\u{fffd}Xc".into()) }),
    ("zero width space / soft hyphen take no cell", || { let mut e = t("a\u{200b}b"); eq("cur", e.cursor(), (0, 2)) }),
    ("underline styles 4:2..4:5, 21, 24", || { let mut e = t("\x1b[4mA\x1b[4:2mB\x1b[4:3mC\x1b[4:4mD\x1b[4:5mE\x1b[4:0mF\x1b[21mG\x1b[24mH"); let v: Vec<u8> = (0..8).map(|i| e.cell(0, i).ul).collect(); eq("ul", v, vec![1, 2, 3, 4, 5, 0, 2, 0]) }),
    ("underline colour 58/59", || { let mut e = t("\x1b[4;58:2::1:2:3mA\x1b[58;5;9mB\x1b[59mC"); eq("A", e.cell(0, 0).ulc, Col::Rgb(1, 2, 3))?; eq("B", e.cell(0, 1).ulc, Col::Idx(9))?; eq("C", e.cell(0, 2).ulc, Col::Def) }),
    ("bright colours 90-97,100-107", || { let mut e = t("\x1b[91;104mA"); eq("fg", e.cell(0, 0).fg, Col::Idx(9))?; eq("bg", e.cell(0, 0).bg, Col::Idx(12)) }),
    ("OSC 8 plain link", || { let mut e = t("\x1b]8;;http://x/\x1b\\L\x1b]8;;\x1b\\N"); eq("L", e.cell(0, 0).link, Some("http://x/".into()))?; eq("N", e.cell(0, 1).link, None) }),
    ("title with BEL and ST, UTF-8 byte 0x9C inside", || { let mut e = t("\x1b]2;\u{dc}ber\x07"); eq("bel", e.title(), Some("Über".into()))?; e.feed("\x1b]0;zwei 本\x1b\\A".as_bytes()); eq("st", e.title(), Some("zwei 本".into()))?; eq("row", e.row(0, 80), "A".into()) }),
    ("title stack 22t/23t", || { let mut e = t("\x1b]2;one\x07\x1b[22;0t\x1b]2;two\x07\x1b[23;0t"); eq("title", e.title(), Some("one".into())) }),
    ("OSC 4 set then query", || { let mut e = t("\x1b]4;5;rgb:12/34/56\x07\x1b]4;5;?\x07"); let r = e.replies(); if r.starts_with(b"\x1b]4;5;rgb:1212/3434/5656") { return Ok(()) } ev(&mut e, "color-query:5") }),
    ("OSC 52 clipboard reported", || { let mut e = t("\x1b]52;c;aGVsbG8=\x07"); ev(&mut e, "clipboard") }),
    ("OSC 133 prompt marks reported", || { let mut e = t("\x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07out\r\n\x1b]133;D;0\x07"); ev(&mut e, "133") }),
    ("OSC 9 notification reported", || { let mut e = t("\x1b]9;hello\x07"); ev(&mut e, "notify") }),
    ("100 KB OSC does not print", || { let mut e = t("\x1b]1337;File="); let big = vec![b'A'; 100_000]; e.feed(&big); e.feed(b"\x07X"); eq("row", e.row(0, 80), "X".into()) }),
    ("APC, PM, SOS, DCS strings are swallowed", || { let mut e = t("\x1b_Gf=100;AAAA\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\\x1bPq#0~~\x1b\\\x1bP+q544e\x1b\\X"); eq("row", e.row(0, 80), "X".into()) }),
    ("mouse 1003 + SGR-pixels 1016", || { let mut e = t("\x1b[?1003;1016h"); for m in ["1003", "1016"] { eq(m, e.mode(m), Some(true))? } Ok(()) }),
    ("DECCKM, DECKPAM, cursor hidden", || { let mut e = t("\x1b[?1h\x1b=\x1b[?25l"); eq("decckm", e.mode("decckm"), Some(true))?; eq("deckpam", e.mode("deckpam"), Some(true))?; eq("25", e.mode("25"), Some(false)) }),
    ("kitty keyboard stack is per screen", || { let mut e = t("\x1b[>1u\x1b[?1049h\x1b[?u"); has("alt", &e.replies(), b"\x1b[?0u")?; e.feed(b"\x1b[?1049l\x1b[?u"); has("main", &e.replies(), b"\x1b[?1u") }),
    ("synchronized output 2026: DECRQM", || { let mut e = t("\x1b[?2026$p"); has("rst", &e.replies(), b"\x1b[?2026;2$y")?; e.feed(b"\x1b[?2026h\x1b[?2026$p\x1b[?2026l"); let r = e.replies(); has("set", &r, b"\x1b[?2026;1$y") }),
    ("DECRQSS SGR", || { let mut e = t("\x1b[1;31m\x1bP$qm\x1b\\"); has("rqss", &e.replies(), b"\x1bP1$r") }),
    ("DECSCUSR visible in state", || { let mut e = t("\x1b[5 q"); eq("style", e.mode("bar"), Some(true)) }),
    ("reflow narrower splits a line, nothing lost", || { let mut e = t(&(rep('x', 70) + "\r\nend")); e.resize(24, 40); eq("all", full(&mut e, 24, 40), format!("{}|{}|end", rep('x', 40), rep('x', 30))) }),
    ("reflow narrower with free rows below keeps the top line on screen", || { let mut e = t(&(rep('x', 70) + "\r\nend")); e.resize(24, 40); eq("r1", e.row(1, 40), rep('x', 30))?; eq("r2", e.row(2, 40), "end".into()) }),
    ("reflow also in scrollback", || { let mut e = E::new(5, 80, 1000); e.feed((rep('y', 100) + "\r\n").as_bytes()); for _ in 0..20 { e.feed(b"z\r\n") } e.resize(5, 120); eq("h0", e.history_line(0), rep('y', 100)) }),
    ("fewer rows pushes to scrollback, more pulls back", || { let mut e = E::new(10, 80, 1000); for i in 0..9 { e.feed(format!("l{i}\r\n").as_bytes()) } e.feed(b"l9"); e.resize(4, 80); eq("top", e.row(0, 80), "l6".into())?; eq("hist", e.history_len(), 6)?; e.resize(10, 80); eq("back", e.row(0, 80), "l0".into()) }),
    ("reflow keeps wide chars whole", || { let mut e = t("漢字漢字漢字"); e.resize(24, 5); eq("narrow", full(&mut e, 24, 5), "漢字|漢字|漢字".into())?; e.resize(24, 80); eq("back", full(&mut e, 24, 80), "漢字漢字漢字".into()) }),
    ("cursor stays with its text through reflow", || { let mut e = t(&(rep('x', 100) + "\r\n$ ")); e.resize(24, 50); e.resize(24, 120); e.feed(b"Z"); let f = full(&mut e, 24, 120); eq("all", f, format!("{}|$ Z", rep('x', 100))) }),
    ("re-encode the screen as VT bytes and replay", || { let mut e = t("\x1b[31mred \x1b[1;4:3;38;2;9;8;7mstyled\x1b[m 漢 e\u{301}\r\n\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\x1b[5;10r\x1b[?1h\x1b[?2004h\x1b[10;20Hx"); let b = e.reencode().ok_or("no such function")?; let mut f = E::new(24, 80, 1000); f.feed(&b); let mut diff = vec![]; for r in 0..24 { for c in 0..80 { let (x, y) = (e.cell(r, c), f.cell(r, c)); if x != y && !(x.text.trim().is_empty() && y.text.trim().is_empty() && x.bg == y.bg) { diff.push((r, c)) } } } if !diff.is_empty() { return Err(format!("{} cells differ, first {:?}: {:?} vs {:?}", diff.len(), diff[0], e.cell(diff[0].0, diff[0].1), f.cell(diff[0].0, diff[0].1))) } eq("cur", f.cursor(), e.cursor())?; eq("decckm", f.mode("decckm"), e.mode("decckm"))?; eq("2004", f.mode("2004"), e.mode("2004"))?; f.feed(b"\x1b[10;1H\n\n"); e.feed(b"\x1b[10;1H\n\n"); eq("region kept", f.row(7, 80), e.row(7, 80)) }),
];
