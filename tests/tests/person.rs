//! `attach` as a person has it: their terminal afterwards, prediction, the clipboard, escapes under another keyboard
//! protocol; and `terminal record`.

use std::time::Duration;

use keepline_screen::{Limits, Modes, Screen, Size, Style};
use keepline_tests::process::{Process, Signal};
use keepline_tests::proxy::Proxy;
use keepline_tests::pty::Pty;
use keepline_tests::shaper::{Path, Shaper};
use keepline_tests::{Daemon, Machine, wait_until};
use serde_json::Value;

/// Sets everything that a program can leave behind, on both screens, and says when it is done.
const NASTY: &str = r"printf '\033]2;a title\007\033[>1u\033[?1049h\033[>5u\033[=3;1u\033[?1000h\033[?1003h\033[?1006h';
printf '\033[?1004h\033[?2004h\033[?1h\033=\033[4h\033[20h\033[?69h\033[5;10r\033[3;40s\033[?6h\033[?5h\033(0\016\033[1;4;31m';
printf '\033[?25l\033[3 q\033[>4;2m\033[?2026h\033]11;#102030\007\033[?7lnasty'; read x";

fn screen_of(bytes: &[u8], size: Size) -> Screen {
    let mut screen = Screen::new(size, Limits::default());
    screen.feed(bytes);
    screen
}

const SIZE: Size = Size::cells(80, 24);

/// The person's terminal is as a shell expects it.
fn assert_clean(way: &str, bytes: &[u8]) {
    let mut screen = screen_of(bytes, SIZE);
    assert!(!screen.alternate(), "{way}");
    assert_eq!(screen.modes(), Modes::default(), "{way}");
    assert_eq!((screen.keyboard_flags(), screen.modify_other_keys()), (0, 0), "{way}");
    assert!(screen.writes_plainly(), "{way}");
    assert_eq!(screen.pen(), Style::default(), "{way}");
    assert_eq!((screen.title(), screen.cursor().0), ("", 0), "{way}");
    // Neither a margin nor a colour is left, and the other screen's keyboard is its own.
    screen.feed(b"\x1b[999;999Hx");
    assert_eq!(screen.cursor(), (79, 23), "{way}");
    assert_eq!(
        screen.feed(b"\x1b]11;?\x07").reply_bytes(),
        Screen::new(SIZE, Limits::default()).feed(b"\x1b]11;?\x07").reply_bytes()
    );
    screen.feed(b"\x1b[?1049h");
    assert_eq!(screen.keyboard_flags(), 0, "{way}");
}

/// Waits until what a person sees satisfies `look`.
fn wait_seen(person: &Pty, what: &str, look: impl Fn(&Screen) -> bool) {
    person.screen.wait(what, |bytes| look(&screen_of(bytes, SIZE)).then_some(()));
}

fn last_row(screen: &Screen) -> String {
    screen.rows(false)[usize::from(screen.cursor().1)].clone()
}

#[test]
fn every_way_out_leaves_a_clean_terminal() {
    let machine = Machine::new();
    let mut daemon = Some(machine.daemon(&[]));
    // Under the kitty keyboard protocol the escape is other bytes.
    let ways: [(&str, i32); 7] =
        [("detach", 0), ("kitty detach", 0), ("TERM", 143), ("INT", 130), ("HUP", 129), ("end", 0), ("daemon", 1)];
    for (way, code) in ways {
        let terminal = machine.terminal(&["--", "sh", "-c", NASTY]);
        let mut person = machine.pty(&["attach", "--terminal", &terminal]);
        let before = person.modes();
        // The programs' name for what is written in the line drawing set.
        wait_seen(&person, "the program's modes", |screen| screen.modes().mouse == 1003 && screen.alternate());
        assert!(screen_of(&person.screen.bytes(), SIZE).keyboard_flags() > 0);
        match way {
            "detach" => person.type_text("~."),
            "kitty detach" => person.type_text("\x1b[13u\x1b[126u\x1b[46u"),
            "TERM" => person.signal(Signal::TERM),
            "INT" => person.signal(Signal::INT),
            "HUP" => person.signal(Signal::HUP),
            "end" => drop(machine.ok(&["terminal", "send", &terminal, "\r"])),
            _ => daemon.take().unwrap().kill(),
        }
        assert_eq!(person.exit(), code, "{way}: {}", person.screen.text());
        assert_clean(way, &person.screen.all());
        let after = person.modes();
        assert_eq!((after.local_modes, after.output_modes), (before.local_modes, before.output_modes), "{way}");
    }
}

/// A daemon behind a slow path, and a laptop whose relay goes that way.
struct Far {
    laptop: Machine,
    owner: Machine,
    shaper: Shaper,
    _relay: keepline_tests::Relay,
    _daemon: Daemon,
}

impl Far {
    fn new() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let (delay, queue) = (Duration::from_millis(50), Duration::from_millis(100));
        let shaper = Shaper::start(&daemon.address(), Path { rate: 1 << 20, delay, queue });
        let relay = laptop.enrol(&owner, &shaper.route(), "box");
        Far { laptop, owner, shaper, _relay: relay, _daemon: daemon }
    }
}

#[test]
fn what_is_typed_is_seen_before_its_echo_can_come_and_a_password_is_not() {
    let far = Far::new();
    let script = r#"PS1='$ ' exec bash --norc --noprofile -i"#;
    let terminal = far.owner.terminal(&["--size", "80x24", "--", "sh", "-c", script]);
    let mut person = far.laptop.pty(&["--machine", "box", "attach", "--terminal", &terminal]);
    wait_seen(&person, "the prompt", |screen| last_row(screen) == "$");
    person.type_text("e");
    wait_seen(&person, "an echo", |screen| last_row(screen) == "$ e");
    let underlined = |screen: &Screen, column| screen.glyph(screen.cursor().1, column).style != Style::default();
    // From here on nothing comes through.
    far.shaper.black_hole(true);
    person.type_text("ch");
    person.type_text("o");
    wait_seen(&person, "what nobody echoed", |screen| last_row(screen) == "$ echo" && underlined(screen, 5));
    person.type_text("\x7f");
    wait_seen(&person, "what was taken back", |screen| last_row(screen) == "$ ech");
    far.shaper.black_hole(false);
    wait_seen(&person, "the echo", |screen| last_row(screen) == "$ ech" && !underlined(screen, 4));

    // What is not echoed is not shown, whatever was echoed before.
    person.type_text("o; read -s secret; echo got ${#secret}\r");
    person.screen.wait("the command's line", |bytes| {
        let screen = screen_of(bytes, SIZE);
        (last_row(&screen).is_empty() && screen.cursor() == (0, 2)).then_some(())
    });
    for key in "hunter2".chars() {
        person.type_text(&key.to_string());
    }
    person.type_text("\r");
    wait_seen(&person, "the end of the password", |screen| screen.rows(false).iter().any(|row| row == "got 7"));
    let shown = person.screen.text();
    for part in ["hunter", "hun", "ter2"] {
        assert!(!shown.contains(part), "{part}: {shown:?}");
    }
    // And the screen is what the daemon has.
    person.type_text("\r");
    wait_until("the same screen at both ends", || {
        let seen = screen_of(&person.screen.bytes(), SIZE).rows(false).join("\n");
        let read = far.owner.ok(&["terminal", "read", &terminal]);
        if seen.trim_end() == read.trim_end() { Ok(()) } else { Err(format!("{seen}\n====\n{read}")) }
    });
    person.type_text("\r~.");
    assert_eq!(person.exit(), 0);
}

#[test]
fn the_clipboard_is_a_programs_only_when_the_person_says_so() {
    let machine = Machine::new();
    let _daemon = machine.daemon(&[]);
    let script = r"read x; printf 'first\033]52;c;c2VjcmV0\007last'; read x";
    for (policy, passes) in [("off", false), ("write", true)] {
        let terminal = machine.terminal(&["--", "sh", "-c", script]);
        let mut person = machine.pty(&["attach", "--terminal", &terminal, "--clipboard", policy]);
        person.screen.wait_for("\x1b[2J");
        person.type_text("\r");
        person.screen.wait_for("last");
        assert_eq!(person.screen.text().contains("]52;c;c2VjcmV0"), passes, "{policy}");
        person.type_text("\r");
        assert_eq!(person.exit(), 0);
    }
    assert_eq!(machine.run(&["attach", "--clipboard", "read"]).code, 2);
    assert_eq!(machine.run(&["attach", "--predict", "perhaps"]).code, 2);
}

#[test]
fn a_recording_has_no_hole_although_the_link_was_cut() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let proxy = Proxy::start(&daemon.address());
    let _relay = laptop.enrol(&owner, &proxy.route(), "box");
    let script = "stty -echo; read x; for i in $(seq 3000); do printf 'line %d \\303\\251\\n' $i; done; read x";
    let terminal = owner.terminal(&["--size", "90x20", "--", "bash", "-c", script]);
    let file = laptop.home().join("record.cast");
    let path = file.to_string_lossy().into_owned();
    let arguments = ["--machine", "box", "terminal", "record", &terminal, "--out", &path];
    let recorder = Process::spawn(&mut laptop.command(&arguments));
    wait_until("the recording", || {
        std::fs::read_to_string(&file).map(|text| text.contains("\"o\"")).unwrap_or(false).then_some(()).ok_or("none")
    });
    proxy.black_out();
    owner.ok(&["terminal", "send", &terminal, "\r"]);
    owner.ok(&["terminal", "wait", &terminal, "--match", "line 3000"]);
    proxy.restore();
    wait_until("what was missed", || {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("line 3000") { Ok(()) } else { Err(text.len()) }
    });
    recorder.signal(Signal::INT);
    let mut recorder = recorder;
    assert_eq!(recorder.exit(), 0, "{}", recorder.stderr.text());
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!((&header["width"], &header["height"]), (&90.into(), &20.into()));
    // Behind the snapshot.
    let output = lines.filter(|line| line[1] == "o").skip(1);
    let output: String = output.map(|line| line[2].as_str().unwrap().to_owned()).collect();
    let numbers: Vec<&str> = output.lines().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(numbers.len(), 3000, "every line once");
    assert!(numbers.iter().enumerate().all(|(index, line)| *line == format!("line {} é", index + 1)));
    assert!(!output.contains('\u{fffd}'));
    // Another recording does not take its place.
    assert_eq!(laptop.run(&arguments).code, 1);
}
