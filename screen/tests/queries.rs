//! Every query of the table in `spec/screen.md`, and those that are never answered.

#![allow(clippy::unwrap_used)]

use keepline_screen::{Limits, Screen, Size};

fn answer(sent: &str) -> String {
    let size = Size { cols: 80, rows: 24, x_pixels: 800, y_pixels: 480 };
    let effects = Screen::new(size, Limits::default()).feed(sent.as_bytes());
    String::from_utf8(effects.reply_bytes()).unwrap()
}

#[test]
fn every_query_has_its_answer() {
    let version = env!("CARGO_PKG_VERSION");
    let table: &[(&str, &str)] = &[
        ("\x1b[c", "\x1b[?62;6;22c"),
        ("\x1bZ", "\x1b[?62;6;22c"),
        ("\x1b[>c", "\x1b[>0;400;0c"),
        ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
        ("\x1b[>q", &format!("\x1bP>|keepline({version})\x1b\\")),
        ("\x1b[5n", "\x1b[0n"),
        ("abc\x1b[6n", "\x1b[1;4R"),
        ("\x1b[5;10r\x1b[?6h\x1b[2;3H\x1b[6n", "\x1b[2;3R"),
        ("\r\nabc\x1b[?6n", "\x1b[?2;4R"),
        ("\x1b[?15n\x1b[?25n\x1b[?26n", "\x1b[?13n\x1b[?21n\x1b[?27;1;0;0n"),
        ("\x1b[?53n\x1b[?55n\x1b[?56n", "\x1b[?50n\x1b[?50n\x1b[?57;0n"),
        ("\x1b[x", "\x1b[2;1;1;128;128;1;0x"),
        ("\x1b[1x", "\x1b[3;1;1;128;128;1;0x"),
        ("\x1b[4$p\x1b[4h\x1b[4$p\x1b[2$p", "\x1b[4;2$y\x1b[4;1$y\x1b[2;0$y"),
        ("\x1b[20h\x1b[20$p", "\x1b[20;1$y"),
        ("\x1b[?2027$p", "\x1b[?2027;3$y"),
        ("\x1b[?4242$p", "\x1b[?4242;0$y"),
        ("\x1b[1;4:3;31m\x1bP$qm\x1b\\", "\x1bP1$r0;1;4:3;31m\x1b\\"),
        ("\x1b[38;2;1;2;3;48;5;99;58:5:7m\x1bP$qm\x1b\\", "\x1bP1$r0;38;2;1;2;3;48;5;99;58:5:7m\x1b\\"),
        ("\x1b[3;7r\x1bP$qr\x1b\\", "\x1bP1$r3;7r\x1b\\"),
        ("\x1b[?69h\x1b[3;7s\x1bP$qs\x1b\\", "\x1bP1$r3;7s\x1b\\"),
        ("\x1b[5 q\x1bP$q q\x1b\\", "\x1bP1$r5 q\x1b\\"),
        ("\x1b[1\"q\x1bP$q\"q\x1b\\", "\x1bP1$r1\"q\x1b\\"),
        ("\x1bP$q\"p\x1b\\", "\x1bP1$r62;1\"p\x1b\\"),
        ("\x1bP$qt\x1b\\", "\x1bP1$r24t\x1b\\"),
        ("\x1bP$qz\x1b\\", "\x1bP0$r\x1b\\"),
        (
            "\x1bP+q544e;436F;00\x1b\\",
            "\x1bP1+r544e=787465726D2D323536636F6C6F72\x1b\\\x1bP1+r436F=323536\x1b\\\x1bP0+r00\x1b\\",
        ),
        ("\x1b[11t\x1b[13t", "\x1b[1t\x1b[3;0;0t"),
        ("\x1b[14t\x1b[15t\x1b[16t", "\x1b[4;480;800t\x1b[5;480;800t\x1b[6;20;10t"),
        ("\x1b[18t\x1b[19t", "\x1b[8;24;80t\x1b[9;24;80t"),
        ("\x1b]4;1;#abcdef\x07\x1b]4;1;?;2;?\x07", "\x1b]4;1;rgb:abab/cdcd/efef\x07\x1b]4;2;rgb:0000/cdcd/0000\x07"),
        ("\x1b]4;1;#abcdef\x07\x1b]104;1\x07\x1b]4;1;?\x1b\\", "\x1b]4;1;rgb:cdcd/0000/0000\x1b\\"),
        ("\x1b]10;?\x1b\\", "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
        (
            "\x1b]11;rgb:1/2/3\x07\x1b]11;?\x07\x1b]111\x07\x1b]11;?\x07",
            "\x1b]11;rgb:1111/2222/3333\x07\x1b]11;rgb:0000/0000/0000\x07",
        ),
        (
            "\x1b]10;?;?;?\x07",
            "\x1b]10;rgb:e5e5/e5e5/e5e5\x07\x1b]11;rgb:0000/0000/0000\x07\x1b]12;rgb:e5e5/e5e5/e5e5\x07",
        ),
        ("\x1b[>5u\x1b[?u\x1b[=2;2u\x1b[?u\x1b[=4;3u\x1b[?u\x1b[<u\x1b[?u", "\x1b[?5u\x1b[?7u\x1b[?3u\x1b[?0u"),
        ("\x1b[>4;1m\x1b[?4m\x1b[>4m\x1b[?4m", "\x1b[>4;1m\x1b[>4;0m"),
    ];
    for (sent, wanted) in table {
        assert_eq!(answer(sent), *wanted, "{sent:?}");
    }
}

#[test]
fn every_private_mode_that_is_set_says_so() {
    for mode in [
        1, 5, 6, 9, 12, 45, 47, 66, 67, 69, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1042, 1047, 1049,
        2004, 2026,
    ] {
        let sent = format!("\x1b[?{mode}$p\x1b[?{mode}h\x1b[?{mode}$p\x1b[?{mode}l\x1b[?{mode}$p");
        assert_eq!(answer(&sent), format!("\x1b[?{mode};2$y\x1b[?{mode};1$y\x1b[?{mode};2$y"));
    }
    for mode in [7, 25] {
        let sent = format!("\x1b[?{mode}$p\x1b[?{mode}l\x1b[?{mode}$p");
        assert_eq!(answer(&sent), format!("\x1b[?{mode};1$y\x1b[?{mode};2$y"));
    }
}

#[test]
fn what_a_program_set_is_never_typed() {
    assert_eq!(answer("\x1b]2;title\x07\x1b[20t\x1b[21t\x05"), "");
    assert_eq!(answer("\x1b]52;c;aGk=\x07\x1b]52;c;?\x07"), "");
    assert_eq!(answer("\x1bP+q;echo\x1b\\"), "");
}

#[test]
fn an_answer_says_where_its_query_ends() {
    let mut screen = Screen::new(Size::cells(80, 24), Limits::default());
    let ends = |effects: keepline_screen::Effects| effects.replies.iter().map(|reply| reply.at).collect::<Vec<_>>();
    assert_eq!(ends(screen.feed(b"ab\x1b[cd\x1b[5n\x1b]11;?\x1b")), [5, 10]);
    assert_eq!(ends(screen.feed(b"\\\x1bP$qm\x1b\\")), [1, 8]);
    assert_eq!(screen.through(), 25);
}
