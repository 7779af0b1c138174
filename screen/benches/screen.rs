//! How fast a screen takes output beside alacritty_terminal in the same run, what it weighs, and how long snapshots and
//! reflow take. Prints `goal, measured, met`. An argument runs only the parts whose names contain it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{Processor, StdSyncHandler};
use keepline_screen::{Limits, Screen, Size};

const BYTES: usize = 8 << 20;
const CHUNK: usize = 64 << 10;
const ROUNDS: usize = 3;

struct Cells(usize, usize);

impl Dimensions for Cells {
    fn total_lines(&self) -> usize {
        self.1
    }
    fn screen_lines(&self) -> usize {
        self.1
    }
    fn columns(&self) -> usize {
        self.0
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(&only[..]));
    println!("what, goal, measured, met");
    for (cols, rows) in [(80, 24), (200, 50)] {
        for (name, goal, make) in KINDS {
            let name = format!("{name} {cols}x{rows}");
            if wanted(&name) {
                speed(&name, *goal, &fill(|out| make(out, cols, rows)), cols, rows);
            }
        }
    }
    if wanted("memory") {
        memory();
    }
    if wanted("time") {
        times();
    }
}

type Make = fn(&mut String, usize, usize);

const KINDS: &[(&str, f64, Make)] = &[
    ("plain", 4.0, |out, cols, _| {
        let text =
            "fn main() { let x = compute(&input, 42)?; println!(\"{x:?} and more\"); } // and so it goes on and on ";
        let length = (out.len() * 7919) % cols;
        let line: String = text.chars().cycle().skip(length % 31).take(length).collect();
        let _ = write!(out, "{line}\r\n");
    }),
    ("scroll region", 2.0, |out, cols, rows| {
        if out.is_empty() {
            let _ = write!(out, "\x1b[2;{}r\x1b[{};1H", rows - 1, rows - 1);
        }
        let length = 10 + (out.len() * 7919) % (cols - 12);
        let _ = write!(out, "{}\r\n", "log line with some words in it ".repeat(8).get(..length).unwrap());
    }),
    ("colour", 1.2, |out, cols, _| {
        for column in 0..cols / 2 {
            let at = out.len();
            let _ = write!(out, "\x1b[38;5;{};48;5;{}m{:02}", (at * 7) % 256, (column + at) % 256, column % 100);
        }
        out.push_str("\x1b[m\r\n");
    }),
    ("wide", 1.2, |out, cols, _| {
        let text = "漢字仮名交じり文は端末の幅を二つ使うのである日本語の行が続く";
        let line: String = text.chars().cycle().skip(out.len() % 17).take(cols / 2 - 1).collect();
        let _ = write!(out, "{line}\r\n");
    }),
    ("cursor motion", 1.2, |out, cols, rows| {
        let at = out.len();
        let _ = write!(out, "\x1b[{};{}Hab\x1b[3Cc\x1b[K\x1b[A\x08\x08x", at % rows + 1, (at * 31) % cols + 1);
    }),
    ("full-screen frames", 1.2, |out, cols, rows| {
        out.push_str("\x1b[H");
        for row in 0..rows {
            let at = out.len();
            let _ = write!(out, "\x1b[1;3{}m{:>5} \x1b[0;37m", at % 8, at % 10_000);
            let rest = "process --with=arguments │ 12.3% ".chars().cycle().take(cols - 8).collect::<String>();
            let _ = write!(out, "{rest}\x1b[m\x1b[K");
            if row + 1 < rows {
                out.push_str("\r\n");
            }
        }
    }),
];

fn fill(mut make: impl FnMut(&mut String)) -> String {
    let mut out = String::new();
    while out.len() < BYTES {
        make(&mut out);
    }
    out
}

fn best(mut run: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| run()).min().unwrap()
}

fn speed(name: &str, goal: f64, stream: &str, cols: usize, rows: usize) {
    let mut ours = Duration::MAX;
    let mut theirs = Duration::MAX;
    for _ in 0..ROUNDS {
        let mut screen = Screen::new(Size::cells(cols as u16, rows as u16), Limits::default());
        let began = Instant::now();
        for chunk in stream.as_bytes().chunks(CHUNK) {
            std::hint::black_box(screen.feed(chunk));
        }
        ours = ours.min(began.elapsed());

        let config = Config { scrolling_history: 10_000, ..Config::default() };
        let mut term = Term::new(config, &Cells(cols, rows), VoidListener);
        let mut parser: Processor<StdSyncHandler> = Processor::new();
        let began = Instant::now();
        for chunk in stream.as_bytes().chunks(CHUNK) {
            parser.advance(&mut term, chunk);
        }
        theirs = theirs.min(began.elapsed());
    }
    let rate = |time: Duration| stream.len() as f64 / 1e6 / time.as_secs_f64();
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    println!("{name}, {goal} x, {ratio:.1} x ({:.0} MB/s beside {:.0}), {}", rate(ours), rate(theirs), ratio >= goal);
}

fn report(what: &str, goal: f64, measured: f64, unit: &str) {
    println!("{what}, {goal} {unit}, {measured:.2} {unit}, {}", measured <= goal);
}

/// 10,000 lines of 200 columns, with a style of its own every so many columns; 0 for none.
fn long_history(each: usize) -> Screen {
    let limits = Limits { history_bytes: 64 << 20, history_lines: 10_000 };
    let mut screen = Screen::new(Size::cells(200, 50), limits);
    for line in 0..10_050 {
        let mut out = String::new();
        for column in 0..200 {
            if each > 0 && column % each == 0 {
                let number = line * 200 + column;
                let _ = write!(out, "\x1b[38;2;{};{};9;48;5;{}m", number % 256, number / 256 % 256, column % 256);
            }
            out.push((b'a' + (column % 26) as u8).into());
        }
        screen.feed(out.as_bytes());
        screen.feed(b"\x1b[m\r\n");
    }
    screen
}

fn memory() {
    let mb = |screen: &Screen| screen.memory() as f64 / 1e6;
    report("memory of 10,000 lines of 200 columns, plain", 8.0, mb(&long_history(0)), "MB");
    report("memory of the same, a style each 5 columns", 20.0, mb(&long_history(5)), "MB");
    report("memory of the same, a style each column", 20.0, mb(&long_history(1)), "MB");
    let mut idle = Screen::new(Size::cells(80, 24), Limits::default());
    idle.feed(b"\x1b]0;user@host: ~\x07\x1b[01;32muser@host\x1b[00m:\x1b[01;34m~\x1b[00m$ ");
    report("memory of an idle 80x24 with a prompt", 64.0, idle.memory() as f64 / 1024.0, "KiB");
    let before = resident();
    let idle: Vec<Screen> = (0..1000)
        .map(|_| {
            let mut screen = Screen::new(Size::cells(80, 24), Limits::default());
            screen.feed(b"\x1b[01;32muser@host\x1b[00m:\x1b[01;34m~\x1b[00m$ ");
            screen
        })
        .collect();
    report(
        "resident memory of each of 1,000 such",
        64.0,
        (resident() - before) as f64 / 1024.0 / idle.len() as f64,
        "KiB",
    );
    let mut full = Screen::new(Size::cells(80, 24), Limits::default());
    full.feed("x".repeat(80 * 24).as_bytes());
    report("memory of a full 80x24", 64.0, full.memory() as f64 / 1024.0, "KiB");
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

fn times() {
    for (name, kind, goal) in [("text", 0, 100.0), ("frames", 5, 100.0), ("a style each 2 columns", 2, 100.0)] {
        for (cols, rows) in [(80, 24), (200, 50)] {
            let mut screen = Screen::new(Size::cells(cols, rows), Limits { history_bytes: 0, history_lines: 0 });
            let mut stream = String::new();
            while stream.len() < 200_000 {
                KINDS[kind].2(&mut stream, cols.into(), rows.into());
            }
            screen.feed(stream.as_bytes());
            let time = |run: &dyn Fn()| {
                let once = best(|| {
                    let began = Instant::now();
                    (0..100).for_each(|_| run());
                    began.elapsed() / 100
                });
                once.as_secs_f64() * 1e6
            };
            let vt = time(&|| drop(std::hint::black_box(screen.snapshot_vt(0, 0))));
            report(&format!("snapshot of {cols}x{rows} as VT, {name}"), goal, vt, "us");
            let saved = time(&|| drop(std::hint::black_box(screen.save())));
            report(&format!("snapshot of {cols}x{rows} as data, {name}"), goal, saved, "us");
            let state = screen.save();
            let restored = time(&|| drop(std::hint::black_box(Screen::restore(state.clone()).unwrap())));
            report(&format!("restoring it, {name}"), goal, restored, "us");
        }
    }
    for (name, each) in [("plain", 0), ("a style each 5 columns", 5)] {
        let screen = long_history(each);
        for cols in [150, 300] {
            let time = best(|| {
                let mut screen = screen.clone();
                let began = Instant::now();
                screen.resize(Size::cells(cols, 50));
                began.elapsed()
            });
            let what = format!("reflow of 10,000 lines of 200 columns to {cols}, {name}");
            report(&what, 10.0, time.as_secs_f64() * 1e3, "ms");
        }
        let state = screen.save();
        let time = best(|| {
            let began = Instant::now();
            drop(std::hint::black_box(Screen::restore(state.clone()).unwrap()));
            began.elapsed()
        });
        report(&format!("restoring 200x50 with 10,000 lines, {name}"), 100.0, time.as_secs_f64() * 1e3, "ms");
    }
}
