//! Screens: what they show, what they answer, and that a snapshot and the rest are as good as never having cut.

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use keepline_protocol::api::Size;

use super::rows::wraps;
use super::screen::{Effects, Screen, fit, with_main_grid};
use super::testing::{Random, describe, has_broken_halves, wrap_is_lost};
use crate::bounds::*;

const ALL_HISTORY: u32 = 100_000;

fn screen(cols: u16, rows: u16) -> Screen {
    Screen::new(Size::cells(cols, rows))
}

fn shown(cols: u16, rows: u16, bytes: impl AsRef<[u8]>) -> Screen {
    let mut screen = screen(cols, rows);
    screen.feed(bytes.as_ref());
    screen
}

/// A fresh screen with the snapshot of this one.
fn restored(screen: &mut Screen) -> Screen {
    let vt = screen.snapshot(ALL_HISTORY, usize::MAX);
    let mut fresh = Screen::new(screen.size());
    let effects = fresh.feed(&vt);
    assert_eq!(effects.replies, b"", "a snapshot asks nothing");
    assert_eq!(effects.bells, 0);
    fresh
}

#[track_caller]
fn assert_same(context: &str, got: &mut Screen, expected: &mut Screen) {
    let (got, expected) = (describe(got), describe(expected));
    let differences: Vec<_> = expected
        .iter()
        .zip(&got)
        .filter(|(expected, got)| expected != got)
        .map(|(expected, got)| format!("expected {expected}\n     got {got}"))
        .collect();
    assert!(
        differences.is_empty() && got.len() == expected.len(),
        "{context}: {} and {} lines\n{}",
        expected.len(),
        got.len(),
        differences.join("\n")
    );
}

#[track_caller]
fn assert_survives(cols: u16, rows: u16, bytes: impl AsRef<[u8]>) {
    let mut screen = shown(cols, rows, bytes.as_ref());
    let mut fresh = restored(&mut screen);
    assert_same(
        &String::from_utf8_lossy(bytes.as_ref()),
        &mut fresh,
        &mut screen,
    );
}

#[test]
fn text_is_shown_with_trailing_blanks_cut() {
    let screen = shown(10, 4, "one\r\n  two\u{301}   \r\n\t\u{4e16}\u{754c}x");
    assert_eq!(
        screen.rows(false),
        ["one", "  two\u{301}", "        \u{4e16}", "\u{754c}x"]
    );
    assert_eq!(screen.cursor(), (3, 3));
    let screen = shown(10, 2, "\x1b[1;31mred\x1b[m plain");
    assert_eq!(screen.rows(true), ["\x1b[0;1;31mred\x1b[m plain", ""]);
}

#[test]
fn styles_colours_and_links_survive() {
    assert_survives(
        40,
        3,
        "\x1b[1;3;4:3;58:5:9;38;5;200mcurly\x1b[0;2;7;9;48;2;1;2;3mrgb\x1b[0;4:4;58:2::7:8:9;94mdots\
         \x1b[21m\x1b[m\x1b]8;id=a;http://x/?a;b\x1b\\link\x1b]8;;\x1b\\ \x1b]8;;http://y\x07other\x1b[8;53;106m",
    );
}

#[test]
fn wide_and_combining_characters_survive() {
    assert_survives(
        7,
        4,
        "\u{4e16}\u{754c}\u{4e16}\u{754c}a\u{301}\u{302}\r\n\u{1f600}\x1b[44m\u{4e16}",
    );
    assert_survives(4, 3, "abc\u{4e16}");
    assert_survives(4, 3, "\u{4e16}\u{4e16}\u{301}");
}

#[test]
fn wrapped_lines_stay_wrapped() {
    let mut screen = shown(
        10,
        4,
        "a line that is longer than the screen is wide\r\nnext",
    );
    let mut fresh = restored(&mut screen);
    for width in [20, 60, 7] {
        screen.resize(Size::cells(width, 4));
        fresh.resize(Size::cells(width, 4));
        assert_same("resized", &mut fresh, &mut screen);
    }
}

#[test]
fn a_cursor_about_to_wrap_survives() {
    let mut screen = shown(5, 3, "\x1b[31mabcd\x1b[32me\x1b[33m");
    let mut fresh = restored(&mut screen);
    assert_same("waiting", &mut fresh, &mut screen);
    fresh.feed(b"f");
    assert_eq!(fresh.rows(false), ["abcde", "f", ""]);
}

#[test]
fn erased_backgrounds_survive() {
    assert_survives(
        9,
        4,
        "\x1b[44m\x1b[2J\x1b[2;3Hx\x1b[41m\x1b[K\x1b[m\r\n\x1b[42m\x1b[J\x1b[m",
    );
    assert_survives(5, 2, "abcde\x1b[45mf\r\n\x1b[mg\r\nh");
}

#[test]
fn the_alternate_screen_and_the_main_one_below_survive() {
    let mut screen = shown(
        12,
        4,
        "one\r\ntwo\r\nthree\r\nfour\r\nfive \x1b[35m\x1b[?1049h\x1b[2;2H\x1b[46malt\x1b7\x1b[3;4r\x1b[?25l\x1b[4;9Hend",
    );
    let mut fresh = restored(&mut screen);
    assert_same("in the alternate screen", &mut fresh, &mut screen);
    for screen in [&mut screen, &mut fresh] {
        screen.feed(b"\x1b[?1049lback\x1b[r");
    }
    assert_same("back in the main one", &mut fresh, &mut screen);
    assert_eq!(fresh.rows(false), ["two", "three", "four", "five back"]);
}

#[test]
fn margins_origin_tabs_charsets_and_saved_cursor_survive() {
    assert_survives(
        20,
        6,
        "\x1b[3g\x1b[4G\x1bH\x1b[11G\x1bH\x1b(0lqk\x1b[5;3H\x1b[36m\x1b7\x1b[m\x1b)0\x1b(B\x1b[2;4r\x1b[?6h\x1b[2;2H\x0eq",
    );
}

#[test]
fn modes_survive() {
    assert_survives(
        20,
        3,
        "\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[?7l\x1b[4h\x1b[20h\x1b[?25l\x1b[?1007l\x1b[5 q\
         \x1b[>5u\x1b[>3u\x1b[=1;2u\x1b[>4;2m\x1b[?2026h\x1b]2;a; title\x07\x1b[22t\x1b]0;two\x07\
         \x1b]4;3;#102030\x07\x1b]11;rgb:ff/00/80\x07\x1b[?5h",
    );
    assert_survives(20, 3, "\x1b[?1000h\x1b[?9h\x1b[?1006h\x1b[?1016h");
    assert_survives(20, 3, "\x1b[?1049h\x1b[>7u\x1b[?1049l\x1b[>1u");
}

#[test]
fn what_rep_repeats_survives() {
    let mut screen = shown(20, 3, "abc\x1b[1;1Hx\x1b[3;3H");
    let mut fresh = restored(&mut screen);
    for screen in [&mut screen, &mut fresh] {
        screen.feed(b"\x1b[3b");
    }
    assert_same("repeated", &mut fresh, &mut screen);
    assert_eq!(fresh.rows(false)[2], "  xxx");
}

#[test]
fn history_comes_oldest_first_and_within_its_bounds() {
    let lines: String = (0..100).map(|n| format!("line {n}\r\n")).collect();
    let mut screen = shown(20, 4, lines);
    let mut fresh = restored(&mut screen);
    assert_same("all history", &mut fresh, &mut screen);

    let vt = screen.snapshot(10, usize::MAX);
    assert!(
        vt.starts_with(b"line 87\r\nline 88\r\n"),
        "{:?}",
        String::from_utf8_lossy(&vt[..30])
    );
    let vt = screen.snapshot(ALL_HISTORY, 25);
    assert!(
        vt.starts_with(b"line 94\r\nline 95\r\n"),
        "{:?}",
        String::from_utf8_lossy(&vt[..30])
    );
    let vt = screen.snapshot(0, usize::MAX);
    assert!(vt.starts_with(b"line 97\r\n"));
}

#[test]
fn queries_are_answered() {
    let answer = |query: &str| {
        let mut screen = Screen::new(Size {
            cols: 80,
            rows: 24,
            x_pixels: 800,
            y_pixels: 480,
        });
        String::from_utf8(screen.feed(query.as_bytes()).replies).unwrap()
    };
    assert_eq!(answer("\x1b[c"), "\x1b[?62;22c");
    assert_eq!(answer("\x1bZ"), "\x1b[?62;22c");
    assert!(answer("\x1b[>c").starts_with("\x1b[>0;"));
    assert_eq!(answer("\x1b[5n"), "\x1b[0n");
    assert_eq!(answer("abc\x1b[6n"), "\x1b[1;4R");
    assert_eq!(answer("\x1b[?2004$p"), "\x1b[?2004;2$y");
    assert_eq!(answer("\x1b[?2026h\x1b[?2026$p"), "\x1b[?2026;1$y");
    assert_eq!(answer("\x1b[?9h\x1b[?9$p"), "\x1b[?9;1$y");
    assert_eq!(answer("\x1b[?4242$p"), "\x1b[?4242;0$y");
    assert_eq!(answer("\x1b[4h\x1b[4$p"), "\x1b[4;1$y");
    assert_eq!(answer("\x1b]11;?\x07"), "\x1b]11;rgb:0000/0000/0000\x07");
    assert_eq!(
        answer("\x1b]10;?\x1b\\"),
        "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"
    );
    assert_eq!(
        answer("\x1b]4;1;#abcdef\x07\x1b]4;1;?\x07"),
        "\x1b]4;1;rgb:abab/cdcd/efef\x07"
    );
    assert_eq!(answer("\x1b[>5u\x1b[?u"), "\x1b[?5u");
    assert_eq!(answer("\x1b[>4;1m\x1b[?4m"), "\x1b[>4;1m");
    assert_eq!(answer("\x1b[14t\x1b[18t"), "\x1b[4;480;800t\x1b[8;24;80t");
    assert_eq!(answer("\x1b]52;c;?\x07"), "");
}

#[test]
fn titles_and_bells_come_out() {
    let mut screen = screen(20, 3);
    let effects = screen.feed("\x1b]0;a\u{9c}b\x07\x07\x07".as_bytes());
    assert_eq!(
        effects,
        Effects {
            replies: vec![],
            title: Some("ab".to_owned()),
            bells: 2
        }
    );
    assert_eq!(screen.feed(b"\x1b]2;ab\x07"), Effects::default());
    let effects = screen.feed(format!("\x1b]2;{}\x07", "\u{e9}".repeat(1000)).as_bytes());
    assert_eq!(effects.title.unwrap().len(), TITLE_MAX);
    assert_eq!(screen.feed(b"\x1bc").title.as_deref(), Some(""));
}

#[test]
fn what_is_half_said_is_held_back() {
    let mut screen = screen(20, 3);
    screen.feed(b"ab\x1b[3");
    assert_eq!(screen.through(), 2);
    screen.feed(b"1mred\xe2\x82");
    assert_eq!(screen.through(), 10);
    let mut fresh = restored(&mut screen);
    screen.feed(b"\xac!");
    fresh.feed("\u{20ac}!".as_bytes());
    assert_eq!(screen.rows(false)[0], "abred\u{20ac}!");
    assert_same("completed", &mut fresh, &mut screen);
    assert_eq!(screen.through(), 14);
}

#[test]
fn a_synchronized_update_holds_nothing_back() {
    let screen = shown(20, 3, "\x1b[?2026hat once");
    assert_eq!(screen.rows(false)[0], "at once");
}

#[test]
fn a_sequence_without_end_is_dropped_and_what_follows_is_shown() {
    for (opening, end) in [
        ("\x1b]2;", "\x07"),
        ("\x1b]2;", "\x1b\\"),
        ("\x1bPq", "\x1b\\"),
        ("\x1b_", "\x1b\\"),
        ("\x1b[1", "m"),
    ] {
        let mut screen = shown(20, 3, "before ");
        screen.feed(opening.as_bytes());
        for _ in 0..5 {
            screen.feed(&[b'1'; SEQUENCE_MAX / 3]);
        }
        let mut fresh = restored(&mut screen);
        assert_eq!(
            screen.through(),
            7 + opening.len() as u64 + 5 * (SEQUENCE_MAX / 3) as u64
        );
        for screen in [&mut screen, &mut fresh] {
            assert_eq!(
                screen.feed(format!("11{end}after").as_bytes()),
                Effects::default()
            );
            assert_eq!(screen.rows(false)[0], "before after", "{opening:?}");
        }
    }
}

#[test]
fn hostile_output_costs_little() {
    let mut screen = screen(20, 3);
    screen.feed("e".as_bytes());
    screen.feed("\u{301}".repeat(10_000).as_bytes());
    assert_eq!(screen.rows(false)[0].chars().count(), 1 + COMBINING_MAX);
    screen.feed("\x1b[>1u".repeat(10_000).as_bytes());
    screen.feed("\x1b[22t".repeat(10_000).as_bytes());
    screen.feed(format!("\x1b]8;;http://{}\x07x", "a".repeat(LINK_MAX)).as_bytes());
    assert!(screen.snapshot(0, 0).len() < 2000);
    assert_eq!(fit(Size::cells(0, 0)), Size::cells(2, 1));
    let huge = fit(Size::cells(u16::MAX, u16::MAX));
    assert!(usize::from(huge.cols) * usize::from(huge.rows) <= CELLS_MAX);
}

#[test]
fn a_snapshot_of_the_largest_screen_fits_a_record() {
    let mut screen = screen(1024, 256);
    let mut random = Random::new(1);
    let mut bytes = String::new();
    for _ in 0..CELLS_MAX {
        bytes.push_str(&format!(
            "\x1b[38;2;{};3;4;48;2;100;200;{}m\u{2588}",
            random.below(256),
            random.below(256)
        ));
    }
    screen.feed(bytes.as_bytes());
    let vt = screen.snapshot(ALL_HISTORY, usize::MAX);
    assert!(vt.len() <= SNAPSHOT_MAX);
    let mut fresh = Screen::new(screen.size());
    fresh.feed(&vt);
    assert_eq!(fresh.rows(false), screen.rows(false));
}

#[test]
fn resizes_end_and_keep_within_the_bounds() {
    let mut screen = screen(80, 24);
    let lines: String = (0..3000)
        .map(|n| format!("a line that will be wrapped {n} \u{4e16}\r\n"))
        .collect();
    screen.feed(lines.as_bytes());
    for (cols, rows) in [
        (1, 1),
        (2, 2),
        (3, 500),
        (10_000, 10_000),
        (5, 5),
        (u16::MAX, 1),
        (80, 24),
    ] {
        screen.resize(Size::cells(cols, rows));
        screen.feed(b"x\r\n");
        let fresh = restored(&mut screen);
        assert_eq!(fresh.rows(false), screen.rows(false));
    }
}

const FRAGMENTS: &[&str] = &[
    "a",
    "bc",
    "hello ",
    "\u{4e16}",
    "\u{754c}\u{4e16}",
    "e\u{301}",
    "\u{1f600}",
    "\r\n",
    "\n",
    "\r",
    "\t",
    "\x08",
    "  ",
    "abcdefghijkl",
    "\x1b[31m",
    "\x1b[44m",
    "\x1b[1;4:3m",
    "\x1b[38;2;1;2;3m",
    "\x1b[58:5:4;4m",
    "\x1b[m",
    "\x1b[7m",
    "\x1b[H",
    "\x1b[3;4H",
    "\x1b[5;12H",
    "\x1b[A",
    "\x1b[2B",
    "\x1b[C",
    "\x1b[3D",
    "\x1b[J",
    "\x1b[1J",
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[K",
    "\x1b[1K",
    "\x1b[2K",
    "\x1b[2X",
    "\x1b[2@",
    "\x1b[2P",
    "\x1b[L",
    "\x1b[M",
    "\x1b[S",
    "\x1b[T",
    "\x1bM",
    "\x1bD",
    "\x1bE",
    "\x1b[2;4r",
    "\x1b[r",
    "\x1b7",
    "\x1b8",
    "\x1b[s",
    "\x1b[u",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?25l",
    "\x1b[?25h",
    "\x1b[?2004h",
    "\x1b[?1000h",
    "\x1b[?1003h",
    "\x1b[?1006h",
    "\x1b[?9h",
    "\x1b[?1h",
    "\x1b=",
    "\x1b>",
    "\x1b(0",
    "\x1b(B",
    "\x1b)0",
    "\x0e",
    "\x0f",
    "qx",
    "\x1b[3g",
    "\x1bH",
    "\x1b[g",
    "\x1b]0;title\x07",
    "\x1b]2;t\u{e9}\x1b\\",
    "\x1b[22t",
    "\x1b[23t",
    "\x1b]8;id=a;http://a\x07",
    "\x1b]8;;\x07",
    "\x1b]4;1;#123456\x07",
    "\x1b]104\x07",
    "\x1b[>1u",
    "\x1b[>5u",
    "\x1b[<u",
    "\x1b[=3;1u",
    "\x1b[?2026h",
    "\x1b[?2026l",
    "\x1b[4 q",
    "\x1b[?12h",
    "\x1b[3b",
    "\x1b[c",
    "\x1b[6n",
    "\x1b[?2004$p",
    "\x1b[?u",
    "\x1b#8",
    "\x1bP1$r\x1b\\",
    "\x1b_x\x1b\\",
    "\x1b[?1004h",
    "\x1b[!p",
    "\x1bc",
    "\u{20ac}",
    "\x1b[Z",
    "\x1b[I",
    "\x1b[>4;1m",
];

/// Modes in which the engine itself loses what a snapshot would have to say; they have tests of their own.
const ROUGH: &[&str] = &[
    "\x1b[?6h", "\x1b[?6l", "\x1b[4h", "\x1b[4l", "\x1b[?7l", "\x1b[?7h",
];

enum Step {
    Byte(u8),
    Resize(Size),
}

fn random_steps(
    random: &mut Random,
    length: usize,
    fragments: &[&str],
    resizes: bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..length {
        if resizes && random.below(40) == 0 {
            let size = Size::cells(2 + random.below(20) as u16, 1 + random.below(8) as u16);
            steps.push(Step::Resize(size));
        } else {
            steps.extend(random.pick(fragments).bytes().map(Step::Byte));
            if random.below(30) == 0 {
                // Sometimes a sequence or a character breaks off.
                steps.pop();
            }
        }
    }
    steps
}

fn text(steps: &[Step]) -> String {
    let bytes: Vec<u8> = steps
        .iter()
        .map(|step| {
            if let Step::Byte(byte) = step {
                *byte
            } else {
                b'?'
            }
        })
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn run(screen: &mut Screen, steps: &[Step]) -> Vec<u8> {
    let mut replies = Vec::new();
    for step in steps {
        match step {
            Step::Byte(byte) => replies.extend(screen.feed(&[*byte]).replies),
            Step::Resize(size) => screen.resize(*size),
        }
    }
    replies
}

#[test]
fn a_snapshot_at_any_cut_and_the_rest_are_as_good_as_never_having_cut() {
    let (mut cuts, mut skipped) = (0, 0);
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let steps = random_steps(&mut random, 40, FRAGMENTS, false);
        let mut whole = screen(12, 5);
        let answers = run(&mut whole, &steps);
        let mut first = screen(12, 5);
        let mut answered = Vec::new();
        for cut in 0..steps.len() {
            let mut fresh = restored(&mut first);
            assert_same(
                &format!("seed {seed}, at cut {cut}"),
                &mut fresh,
                &mut first,
            );
            cuts += 1;
            if cannot_be_said(&mut first, &mut fresh) {
                skipped += 1;
            } else {
                let through = first.through() as usize;
                let context = format!("seed {seed}, cut {cut} after {:?}", text(&steps[..through]));
                let rest = run(&mut fresh, &steps[through..]);
                assert_same(&context, &mut fresh, &mut whole);
                assert_eq!([&answered[..], &rest].concat(), answers, "{context}");
            }
            answered.extend(run(&mut first, &steps[cut..=cut]));
        }
    }
    assert!(skipped * 8 < cuts, "{skipped} of {cuts} cuts were skipped");
}

/// Whether the screen is in one of the states that `snapshot` says it loses, and the loss would show later.
fn cannot_be_said(screen: &mut Screen, fresh: &mut Screen) -> bool {
    let engine = screen.engine();
    if engine.alternate() && with_main_grid(engine, has_broken_halves) {
        return true;
    }
    let grid = engine.term.grid();
    let wrap_lost = (0..=grid.bottommost_line().0)
        .any(|line| wraps(&grid[Line(line)]) && wrap_is_lost(grid, line));
    wrap_lost || has_broken_halves(grid) || engine.notes.printed != fresh.engine().notes.printed
}

/// The seeds to run: as many as `count`, or `KEEPLINE_TEST_SEEDS` (`FROM..TO`) to look for more or to replay one.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("KEEPLINE_TEST_SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("FROM..TO");
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => 0..count,
    }
}

#[test]
fn no_output_breaks_the_engine() {
    let all: Vec<&str> = FRAGMENTS.iter().chain(ROUGH).copied().collect();
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let steps = random_steps(&mut random, 300, &all, true);
        let mut screen = screen(12, 5);
        run(&mut screen, &steps);
        restored(&mut screen);
    }
}

#[test]
fn rows_with_colours_have_no_links() {
    let mut screen = Screen::new(Size::cells(40, 4));
    screen.feed(b"\x1b]8;;http://example.org/\x1b\\\x1b[31mlink\x1b]8;;\x1b\\\x1b[m plain");
    let rows = screen.rows(true);
    assert!(
        rows[0].contains("link") && rows[0].contains("\x1b["),
        "{rows:?}"
    );
    assert!(!rows[0].contains("example.org"), "{rows:?}");
}
