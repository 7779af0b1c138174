//! Text, history, events, views and bounds.

#![allow(clippy::unwrap_used)]

use keepline_screen::bounds::{CLUSTER_MAX, SEQUENCE_MAX, TITLE_MAX};
use keepline_screen::{Attributes, Color, Event, Limits, Mark, Screen, Size};

fn screen(cols: u16, rows: u16) -> Screen {
    Screen::new(Size::cells(cols, rows), Limits::default())
}

fn shown(cols: u16, rows: u16, bytes: impl AsRef<[u8]>) -> Screen {
    let mut screen = screen(cols, rows);
    screen.feed(bytes.as_ref());
    screen
}

fn events(bytes: &str) -> Vec<Event> {
    screen(40, 5).feed(bytes.as_bytes()).events.into_iter().map(|occurrence| occurrence.event).collect()
}

#[test]
fn clusters_take_the_columns_that_the_table_says() {
    for (text, columns) in [
        ("e\u{301}", 1),
        ("\u{6f22}", 2),
        ("\u{ff21}", 2),
        ("\u{e9}\u{2500}\u{e0b0}", 3),
        ("\u{2764}", 1),
        ("\u{2764}\u{fe0f}", 2),
        ("1\u{fe0f}\u{20e3}", 2),
        ("\u{1f1e9}", 1),
        ("\u{1f1e9}\u{1f1ea}", 2),
        ("\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}", 4),
        ("\u{1f44d}\u{1f3fd}", 2),
        ("\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}", 2),
        ("\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}", 2),
        ("\u{1112}\u{1161}\u{11ab}", 2),
        ("a\u{ad}\u{200b}\u{200d}b", 2),
    ] {
        let screen = shown(20, 2, text);
        assert_eq!(screen.cursor(), (columns, 0), "{text:?}");
        assert_eq!(screen.rows(false)[0], text, "copied text is what was written");
    }
}

#[test]
fn a_cell_that_becomes_too_wide_for_the_last_column_moves() {
    let screen = shown(4, 2, "abc\u{2764}\u{fe0f}x");
    assert_eq!(screen.rows(false), ["abc", "\u{2764}\u{fe0f}x"]);
    let screen = shown(4, 2, "\x1b[?7labc\u{2764}\u{fe0f}");
    assert_eq!(screen.rows(false)[0], "ab\u{2764}\u{fe0f}");
}

#[test]
fn invalid_utf8_is_replaced_by_maximal_subparts() {
    // The example of Unicode 3.9, table 3-8.
    let screen = shown(40, 2, b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41");
    assert_eq!(screen.rows(false)[0], "\u{fffd}\u{fffd}\u{fffd}\u{fffd}A");
    let screen = shown(40, 2, b"\xc0\xaf\xed\xa0\x80\xff\x9b31m\xc2\x9bx");
    assert_eq!(screen.rows(false)[0], format!("{}31mx", "\u{fffd}".repeat(7)));
    let screen = shown(40, 2, b"\xe6\xbc\x1b[31mX");
    assert_eq!(screen.rows(false)[0], "\u{fffd}X");
}

#[test]
fn history_has_ids_that_output_does_not_shift() {
    let limits = Limits { history_lines: 5, ..Limits::default() };
    let mut screen = Screen::new(Size::cells(10, 3), limits);
    for line in 0..20 {
        screen.feed(format!("{line}\r\n").as_bytes());
    }
    assert_eq!(screen.history(), 13..18);
    assert_eq!(screen.line(13).unwrap().text(), "13");
    assert_eq!(screen.line(18).unwrap().text(), "18", "a row of the screen");
    assert_eq!(screen.line(12), None);
    assert_eq!(screen.line(21), None);
    let epoch = screen.history_epoch();
    screen.feed(b"more\r\n");
    assert_eq!((screen.history_epoch(), screen.line(15).unwrap().text()), (epoch, "15".into()));
    screen.feed(b"\x1b[3J");
    assert_eq!((screen.history_epoch(), screen.history()), (epoch + 1, 0..0));
    screen.resize(Size::cells(10, 4));
    assert_eq!(screen.history_epoch(), epoch + 2);
    screen.resize(Size { x_pixels: 100, ..Size::cells(10, 4) });
    assert_eq!(screen.history_epoch(), epoch + 2, "pixels move no line");
}

#[test]
fn history_is_bounded_in_bytes() {
    let limits = Limits { history_bytes: 10_000, ..Limits::default() };
    let mut screen = Screen::new(Size::cells(80, 3), limits);
    for _ in 0..2000 {
        screen.feed(b"\x1b[31ma\x1b[32mb\x1b]8;;http://example.org/\x07link\x1b]8;;\x07\r\n");
    }
    assert!(screen.history().start > 0);
    assert!(screen.memory() < 40_000, "{}", screen.memory());
}

#[test]
fn the_last_commands_output_is_known_through_scrolling_and_reflow() {
    let mut screen = screen(10, 4);
    screen.feed(b"\x1b]133;A\x07$ \x1b]133;B\x07seq\r\n\x1b]133;C\x07");
    screen.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n\x1b]133;D;3\x07\x1b]133;A\x07$ ");
    let text = |screen: &Screen| {
        let lines = screen.command_output().unwrap();
        lines.map(|id| screen.line(id).unwrap().text()).collect::<Vec<_>>()
    };
    assert_eq!(text(&screen), ["1", "2", "3", "4", "5"]);
    assert_eq!(screen.command_status(), Some(3));
    screen.resize(Size::cells(5, 3));
    assert_eq!(text(&screen), ["1", "2", "3", "4", "5"]);
    screen.feed(b"long\r\n\x1b]133;C\x07abcdefgh");
    assert_eq!(text(&screen), ["abcde", "fgh"], "while it runs");
    screen.resize(Size::cells(8, 3));
    assert_eq!(text(&screen), ["abcdefgh"]);
}

#[test]
fn events_come_out() {
    let notification = |title: &str, body: &str| Event::Notification { title: title.into(), body: body.into() };
    assert_eq!(
        events("\x1b]0;a\u{9c}b\x07\x07\x07\x1b]2;ab\x07\x1b]1;icon\x07"),
        [Event::Title("ab".into()), Event::Bell]
    );
    assert_eq!(events("\x1b]7;file://host/tmp/a%20b%zz\x07"), [Event::Cwd("/tmp/a b%zz".into())]);
    assert_eq!(events("\x1b]7;file://host/a%0ab\x07\x1b]7;relative\x07"), []);
    assert_eq!(
        events("\x1b]133;A\x07\x1b]133;B\x07\x1b]133;C\x07\x1b]133;D;1\x07\x1b]133;D\x07\x1b]133;Z\x07"),
        [Mark::Prompt, Mark::Command, Mark::Output, Mark::End(Some(1)), Mark::End(None)].map(Event::Mark)
    );
    assert_eq!(events("\x1b]9;build done\x07\x1b]9;4;1;50\x07"), [notification("", "build done")]);
    assert_eq!(events("\x1b]777;notify;T;b;c\x07"), [notification("T", "b;c")]);
    assert_eq!(
        events("\x1b]99;i=1:p=title;T\x1b\\\x1b]99;p=body:e=1;aGk=\x1b\\\x1b]99;p=icon;x\x1b\\"),
        [notification("T", ""), notification("", "hi")]
    );
    assert_eq!(
        events("\x1b]52;c;aGVsbG8=\x07\x1b]52;c;?\x07\x1b]52;;\x07"),
        [
            Event::Clipboard { selection: "c".into(), data: b"hello".into() },
            Event::Clipboard { selection: String::new(), data: Vec::new() },
        ]
    );
    let title = events(&format!("\x1b]2;{}\x07", "\u{e9}".repeat(1000)));
    assert!(matches!(&title[..], [Event::Title(title)] if title.len() == TITLE_MAX));
    assert_eq!(events("\x1b]2;a\x07\x1bc"), [Event::Title("a".into()), Event::Title(String::new())]);
}

#[test]
fn controls_within_a_sequence_act_at_once_and_are_not_kept() {
    let mut screen = shown(20, 3, "ab\x1b[3\r");
    assert_eq!(screen.cursor(), (0, 0));
    assert!(screen.snapshot_vt(0, 0).ends_with(b"\x1b[3"));
    screen.feed(b"1mX");
    assert_eq!(screen.rows(true)[0], "\x1b[0;31mX\x1b[mb");
}

#[test]
fn a_sequence_without_end_is_dropped_and_what_follows_is_shown() {
    for (opening, end) in
        [("\x1b]2;", "\x07"), ("\x1b]2;", "\x1b\\"), ("\x1bPq", "\x1b\\"), ("\x1b_", "\x1b\\"), ("\x1b[1", "m")]
    {
        let mut screen = shown(20, 3, "before ");
        screen.feed(opening.as_bytes());
        for _ in 0..5 {
            screen.feed(&vec![b'1'; SEQUENCE_MAX / 3]);
            assert!(screen.memory() < 3 * SEQUENCE_MAX);
        }
        let mut fresh = shown(20, 3, screen.snapshot_vt(0, 0));
        let mut restored = Screen::restore(screen.save()).unwrap();
        for screen in [&mut screen, &mut fresh, &mut restored] {
            assert_eq!(screen.feed(format!("11{end}after").as_bytes()).events, [], "{opening:?}");
            assert_eq!(screen.rows(false)[0], "before after", "{opening:?}");
        }
        assert!(screen.memory() < 20_000, "memory is given back");
    }
}

#[test]
fn hostile_output_costs_little() {
    let mut screen = screen(20, 3);
    screen.feed(b"e");
    screen.feed("\u{301}".repeat(10_000).as_bytes());
    assert!(screen.rows(false)[0].len() <= CLUSTER_MAX);
    screen.feed("\x1b[>1u".repeat(10_000).as_bytes());
    screen.feed("\x1b[22t".repeat(10_000).as_bytes());
    screen.feed(format!("\x1b]8;;http://{}\x07x", "a".repeat(3000)).as_bytes());
    for number in 0..200_000 {
        screen.feed(
            format!("\x1b]8;;http://{number}\x07\x1b[58:2::1:{}:{}mx", number / 256 % 256, number % 256).as_bytes(),
        );
        screen.feed(format!("a{}", char::from_u32(0x300 + number % 0x60).unwrap()).as_bytes());
    }
    screen.feed(b"\x1b[65535b\x1b[65535S\x1b[65535L\x1b[65535@\x1b[65535I\x1b[?45h\x1b[65535D");
    screen.feed(b"\x1bc");
    assert!(screen.memory() < 200_000, "{}", screen.memory());
    assert!(screen.snapshot_vt(0, 0).len() < 2000);
}

#[test]
fn sizes_are_cut_to_the_bounds() {
    for (cols, rows) in [(0, 0), (1, 1), (u16::MAX, u16::MAX), (u16::MAX, 1), (2, u16::MAX)] {
        let mut screen = shown(cols, rows, "a\u{6f22}b\r\n".repeat(50));
        let size = screen.size();
        assert!(usize::from(size.cols) * usize::from(size.rows) <= 4 << 20);
        screen.resize(Size::cells(7, 3));
        screen.resize(Size::cells(cols, rows));
        assert_eq!(screen.size(), size);
    }
    assert!(screen(10_000, 400).memory() < 200_000, "rows that were never written cost nothing");
}

#[test]
fn rows_and_runs_have_styles() {
    let screen = shown(40, 3, "\x1b[1;31mred\x1b[m plain\r\n\x1b]8;;http://a\x1b\\\x1b[44m\u{6f22}\x1b]8;;\x1b\\");
    assert_eq!(screen.rows(true), ["\x1b[0;1;31mred\x1b[m plain", "\x1b[0;44m\u{6f22}\x1b[m", ""]);
    let lines = screen.lines();
    let red = &lines[0].runs[0];
    assert_eq!((&red.text[..], red.columns, red.style.foreground), ("red", 3, Color::Index(1)));
    assert!(red.style.attributes.contains(Attributes::BOLD));
    let wide = &lines[1].runs[0];
    assert_eq!((&wide.text[..], wide.columns), ("\u{6f22}", 2));
    assert_eq!(wide.style.link.as_ref().unwrap().uri, "http://a");
    serde_json::to_string(&lines).unwrap();
}

#[test]
fn the_digest_is_of_what_is_seen() {
    // Pinned: it must be the same on every machine, and in every version that says so.
    assert_eq!(screen(80, 24).digest(), DIGEST_OF_NOTHING);
    let one = shown(80, 24, "a\x1b[31mb");
    assert_eq!(one.digest(), shown(80, 24, "\x1b[31mxb\r\x1b[ma\x1b[2G\x1b[C").digest());
    for other in ["ab", "a\x1b[32mb", "a\x1b[31mb\x1b[D", "a\x1b[31;1mb", "a \x1b[31mb"] {
        assert_ne!(one.digest(), shown(80, 24, other).digest(), "{other:?}");
    }
}

const DIGEST_OF_NOTHING: u64 = 16_835_934_036_267_422_189;

#[test]
fn a_state_that_is_none_is_refused() {
    let good = postcard::to_stdvec(&shown(20, 5, "hello \x1b[31m\u{6f22}\x1b]2;t").save()).unwrap();
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            // Whatever comes of it, nothing panics, now or later.
            if let Ok(state) = postcard::from_bytes(&bad)
                && let Ok(mut screen) = Screen::restore(state)
            {
                screen.feed("x\x1b[2;2H\u{6f22}\x1b8\x1b[?1049h\t\n\x1b[3b\x07".as_bytes());
                screen.resize(Size::cells(10, 3));
                drop(screen.snapshot_vt(100, 10_000));
            }
        }
    }
}

#[test]
fn a_resting_screen_gives_memory_back() {
    let mut screen = shown(80, 24, "\x1b[31m".to_owned() + &"red ".repeat(480) + "\x1b[m");
    screen.feed("plain".repeat(384).as_bytes());
    let before = screen.memory();
    screen.shrink();
    assert!(screen.memory() < before / 3, "{} of {before}", screen.memory());
    assert_eq!(screen.rows(false)[0], "plain".repeat(16));
}
