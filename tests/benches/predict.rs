//! How much of what is typed is shown before its echo, and how much of that wrongly.
//!
//! ```text
//! cargo bench -p keepline-tests --bench predict [-- KEYS]
//! ```
//!
//! A seeded person types at real programs: commands with mistakes that are taken back, history, completion and a password in
//! bash, text and commands in vim. What each key makes the program write is recorded; then an hour of it (as many keys as
//! that takes, unless told otherwise) is played to the predictor in virtual time at a round trip of 100 ms.

use std::process::Command;
use std::time::{Duration, Instant};

use keepline_client::attach::predict::{Outcome, Predictor, When};
use keepline_protocol::api::Size;
use keepline_tests::measure::verdict;
use keepline_tests::pty::Pty;

const TRIP: Duration = Duration::from_millis(100);
/// A fast typist's pause between two keys, on average.
const PAUSE: Duration = Duration::from_millis(220);
/// Silence after which a program has written what a key makes it write.
const QUIET: Duration = Duration::from_millis(4);

/// A key and what came of it.
struct Stroke {
    key: String,
    output: Vec<u8>,
}

/// Programs that end by themselves, and arguments.
const WORDS: [&str; 16] = [
    "ls",
    "-la",
    "echo",
    "true",
    "src/main.rs",
    "git",
    "status",
    "date",
    "-rn",
    "printf",
    "make",
    "-j8",
    "test",
    "..",
    "seq",
    "x=1",
];

/// What is typed at a shell: lines of words, some letters mistyped and taken back.
fn shell_keys(random: &mut fastrand::Rng, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        match random.u32(0..20) {
            0 => keys.extend(["\x1b[A", "\x1b[A", "\x15"].map(str::to_owned)),
            1 => keys.extend("read -s secret\rhunter2\r".chars().map(String::from)),
            2 => keys.extend(["l", "s", " ", "/us", "\t", "\x15"].map(str::to_owned)),
            3 => keys.extend("echo abc\x1b[D\x1b[Dxy\r".split_inclusive('D').flat_map(split).collect::<Vec<_>>()),
            _ => {
                for word in 0..random.usize(1..7) {
                    if word > 0 {
                        keys.push(" ".to_owned());
                    }
                    for letter in WORDS[random.usize(..WORDS.len())].chars() {
                        if random.u32(0..25) == 0 {
                            keys.extend(["q".to_owned(), "\x7f".to_owned()]);
                        }
                        keys.push(letter.to_string());
                    }
                }
                keys.push(if random.bool() { "\r" } else { "\x03" }.to_owned());
            }
        }
    }
    keys
}

/// Single keys, sequences whole.
fn split(text: &str) -> Vec<String> {
    let (plain, sequence) = text.split_at(text.find('\x1b').unwrap_or(text.len()));
    let keys = plain.chars().map(String::from);
    keys.chain((!sequence.is_empty()).then(|| sequence.to_owned())).collect()
}

/// What is typed in vim: text, and commands between.
fn vim_keys(random: &mut fastrand::Rng, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    while keys.len() < count {
        keys.push("o".to_owned());
        for _ in 0..random.usize(3..9) {
            keys.extend(WORDS[random.usize(..WORDS.len())].chars().chain([' ']).map(String::from));
        }
        keys.push("\x1b".to_owned());
        keys.extend(["j", "k", "dd", "w", "x"].iter().take(random.usize(..5)).map(|key| (*key).to_owned()));
    }
    keys
}

/// Types the keys at a program, and notes what it writes after each.
fn record(program: &mut Command, ready: &str, keys: Vec<String>) -> (Vec<u8>, Vec<Stroke>) {
    let mut pty = Pty::of(program, 80, 24);
    pty.screen.wait_for(ready);
    let settle = |pty: &Pty| {
        let mut length = pty.screen.bytes().len();
        loop {
            std::thread::sleep(QUIET);
            let now = pty.screen.bytes().len();
            if std::mem::replace(&mut length, now) == now {
                return now;
            }
        }
    };
    let mut seen = settle(&pty);
    let start = pty.screen.bytes();
    let mut strokes = Vec::new();
    for key in keys {
        pty.type_text(&key);
        let now = settle(&pty);
        let output = pty.screen.wait("its output", |bytes| Some(bytes[seen..now].to_vec()));
        seen = now;
        strokes.push(Stroke { key, output });
    }
    (start, strokes)
}

/// Plays strokes at a round trip, and gives what came of those that could be shown, and how many there were.
fn play(random: &mut fastrand::Rng, start: &[u8], strokes: &[Stroke]) -> (Outcome, u64) {
    let mut predictor = Predictor::new(When::Slow);
    let mut now = Instant::now();
    predictor.begin(Size::cells(80, 24), true);
    predictor.fed(start, now);
    // What comes back, in order: when, up to which input, and the bytes.
    let mut coming = std::collections::VecDeque::new();
    let (mut input, mut printable) = (0, 0);
    for stroke in strokes {
        let next = now + PAUSE.mul_f64(0.3 + 1.4 * random.f64());
        arrive(&mut predictor, &mut coming, next);
        now = next;
        input += stroke.key.len() as u64;
        printable += u64::from(stroke.key.len() == 1 && stroke.key.as_bytes()[0] >= b' ');
        let _ = predictor.hide();
        predictor.typed(stroke.key.as_bytes(), input, now);
        let _ = predictor.over();
        coming.push_back((now + TRIP, input, &stroke.output));
    }
    arrive(&mut predictor, &mut coming, now + Duration::from_secs(10));
    (predictor.outcome(), printable)
}

type Coming<'a> = std::collections::VecDeque<(Instant, u64, &'a Vec<u8>)>;

fn arrive(predictor: &mut Predictor, coming: &mut Coming<'_>, until: Instant) {
    loop {
        let due = predictor.due().filter(|due| *due <= until);
        let arrival = coming.front().map(|(at, ..)| *at).filter(|at| *at <= until);
        let _ = predictor.hide();
        match (due, arrival) {
            (Some(due), arrival) if arrival.is_none_or(|at| due < at) => predictor.expire(due),
            (_, Some(at)) => {
                let (_, written, output) = coming.pop_front().expect("it was just seen");
                predictor.written(written, at);
                if !output.is_empty() {
                    predictor.fed(output, at);
                }
            }
            (_, None) => {
                let _ = predictor.over();
                return;
            }
        }
        let _ = predictor.over();
    }
}

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let hour = (3600.0 / PAUSE.as_secs_f64()) as usize;
    let count: usize = asked.unwrap_or(hour);
    let mut random = fastrand::Rng::with_seed(7);
    let home = tempfile::tempdir().expect("there is room");
    let mut all = (Outcome::default(), 0);
    // Nine keys of ten at the shell, as where an agent writes the text.
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").env("HOME", home.path()).current_dir(home.path());
    let mut vim = Command::new("vim");
    vim.args(["--clean", "-n", "text"]).env("TERM", "xterm-256color").current_dir(home.path());
    let keys = [shell_keys(&mut random, count * 9 / 10), vim_keys(&mut random, count / 10)];
    for ((name, program, ready), keys) in [("bash", bash, "$ "), ("vim", vim, "~")].into_iter().zip(keys) {
        let mut program = program;
        if Command::new(program.get_program()).arg("--version").output().is_err() {
            println!("{name}: left out, it is not here");
            continue;
        }
        let (start, strokes) = record(&mut program, ready, keys);
        let (outcome, printable) = play(&mut random, &start, &strokes);
        println!(
            "{name}: {} keys, {printable} of them characters; {} shown at once, {} of those wrongly",
            strokes.len(),
            outcome.shown,
            outcome.wrong
        );
        all.0.shown += outcome.shown;
        all.0.wrong += outcome.wrong;
        all.1 += strokes.len() as u64;
    }
    let (Outcome { shown, wrong }, keys) = all;
    let part = |count: u64, of: u64| 100.0 * count as f64 / of.max(1) as f64;
    let at_once = part(shown, keys);
    verdict("keys shown at once: 70 %", &format!("{at_once:.1} %"), at_once >= 70.0);
    let wrongly = part(wrong, shown);
    verdict("of those, shown wrongly: at most 1 %", &format!("{wrongly:.2} %"), wrongly <= 1.0);
}
