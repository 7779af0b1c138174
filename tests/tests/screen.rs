//! Proof 5: what a full-screen program shows survives detach and attach, cell for cell.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use alacritty_terminal::index::Point;
use alacritty_terminal::term::TermMode;
use keepline_tests::pipe_io::PipeIo;
use keepline_tests::screen::Screen;
use keepline_tests::{Daemon, Machine, wait_until};

const COLS: u16 = 80;
const ROWS: u16 = 24;

/// Fills main screen and history in colour, runs the program that it is given, and says in titles, which are on no
/// screen, where it is. It starts at its first line of input and ends at its second.
const AROUND: &str = r#"
stty -echo
read -r line
number=1
while [ $number -le 60 ]; do
    printf '\033[3%d;4%dmmain %02d\033[m \033[1;38;5;%dmbold\033[m \033[7mreversed\033[m\r\n' \
        $((number % 8)) $(((number + 3) % 8)) $number $((number * 4))
    number=$((number + 1))
done
printf '\033[38;2;10;200;30m\033[4mbehind it \033[m\033]2;before-it\007'
"$@"
printf '\033]2;behind-it\007'
read -r line
"#;

/// A few hundred numbered lines in colours of every kind, some longer than the screen is wide.
fn coloured_file(machine: &Machine) -> String {
    let mut text = String::new();
    for number in 1..=400 {
        let color = number % 256;
        let _ = write!(text, "\x1b[1;3{}mline {number:04}\x1b[0m ", number % 8);
        let _ = match number % 5 {
            0 => write!(text, "\x1b[48;5;{color}m indexed background \x1b[m"),
            1 => write!(text, "\x1b[38;2;{color};100;7;3mdirect colour and italic\x1b[m"),
            2 => write!(text, "\x1b[4mwide 漢字 and e\u{301}\x1b[24;9m struck\x1b[m"),
            3 => write!(text, "\x1b[9{}m{}\x1b[m", number % 8, "long ".repeat(25)),
            _ => write!(text, "\x1b[7mreversed\x1b[27m plain \x1b[2mdim\x1b[m"),
        };
        text.push('\n');
    }
    let path = machine.home().join("coloured.txt");
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// A terminal in which [`AROUND`] runs `program`, and the consumer that has been there from the start.
struct Showing {
    machine: Machine,
    _daemon: Daemon,
    terminal: String,
    stayed: PipeIo,
}

fn after(bytes: &[u8]) -> Screen {
    Screen::after(bytes, COLS.into(), ROWS.into())
}

fn assert_same(what: &str, left: &Screen, right: &Screen) {
    if let Some(difference) = left.difference(right) {
        let (left, right) = (left.rows().join("\n"), right.rows().join("\n"));
        panic!("{what}: {difference}\n{left}\n=====\n{right}");
    }
}

/// Waits until what `consumer` shows is `screen`: what it has of a snapshot may be a part.
fn wait_same(what: &str, consumer: &PipeIo, screen: &Screen) {
    wait_until(what, || {
        let shown = after(&consumer.output().bytes());
        shown.difference(screen).map_or(Ok(()), Err)
    });
}

impl Showing {
    fn of(machine: Machine, program: &[&str]) -> Self {
        let daemon = machine.daemon(&[]);
        let around = machine.home().join("around.sh");
        std::fs::write(&around, AROUND).unwrap();
        let around = around.to_string_lossy();
        // Not at the size that the consumers ask for: theirs must have its effect.
        let mut command = vec!["--size", "100x30", "--", "sh", &around];
        command.extend(program);
        let terminal = machine.terminal(&command);
        let stayed = machine.pipe_io(&terminal, &[]);
        let mut showing = Showing { machine, _daemon: daemon, terminal, stayed };
        showing.stayed.resize(COLS, ROWS);
        wait_until("the size that the consumer asked for", || {
            let row = showing.machine.json(&["terminal", "list"])[0].clone();
            match (row["size"]["cols"].as_u64(), row["size"]["rows"].as_u64()) {
                (Some(80), Some(24)) => Ok(()),
                _ => Err(row),
            }
        });
        showing.stayed.type_text("\n");
        showing
    }

    fn attach(&self) -> PipeIo {
        let mut consumer = self.machine.pipe_io(&self.terminal, &[]);
        consumer.resize(COLS, ROWS);
        consumer
    }

    /// Waits until the screen of `consumer` is as `look` wants it.
    fn wait(&self, what: &str, consumer: &PipeIo, look: impl Fn(&Screen) -> bool) {
        consumer.output().wait(what, |bytes| look(&after(bytes)).then_some(()));
    }

    /// The screen before the program changed it.
    fn before(&self) -> Screen {
        let before = self.stayed.output().wait("the start of the program", |bytes| {
            let mark = b"before-it\x07";
            let at = bytes.windows(mark.len()).position(|part| part == mark)?;
            Some(bytes[..at + mark.len()].to_vec())
        });
        let before = after(&before);
        assert!(!before.is_alternate());
        assert_eq!(before.history.len(), 60 + 1 - usize::from(ROWS));
        assert_eq!(before.rows()[23], "behind it");
        before
    }

    fn assert_read(&self, what: &str, screen: &Screen) {
        let read = self.machine.ok(&["terminal", "read", "--ansi", &self.terminal]);
        let rows = read.trim_end_matches('\n').replace('\n', "\r\n");
        let read = after(rows.as_bytes()).as_read();
        assert_same(what, &read, &screen.clone().as_read());
    }

    /// Once the program's screen is there: detaches, attaches, has the program end, and compares at every step.
    fn survives(self, before: &Screen, steady: impl Fn(&Screen) -> bool, quit: &str) {
        let first = self.attach();
        self.wait("the program's screen", &first, &steady);
        let stayed = after(&self.stayed.output().bytes());
        wait_same("attached later", &first, &stayed);
        let output = first.output().clone();
        assert_eq!(first.detach().code, 0);
        let first = after(&output.all());
        assert_same("when it detached", &first, &stayed);
        self.assert_read("read", &first);
        assert!(first.is_alternate());
        let cells = first.cells.iter().flatten();
        let colors: BTreeSet<_> = cells.map(|cell| format!("{:?}", cell.fg)).collect();
        assert!(colors.len() > 3, "no colours to compare: {colors:?}");

        let mut again = self.attach();
        wait_same("attached again", &again, &first);
        wait_same("attached all the time", &self.stayed, &first);
        self.assert_read("read again", &first);

        again.type_text(quit);
        for consumer in [&again, &self.stayed] {
            consumer.output().wait_for("behind-it");
            wait_same("the main screen", consumer, before);
        }
        let last = self.attach();
        wait_same("the main screen, attached last", &last, before);
        self.assert_read("the main screen, read", before);

        again.type_text("\n");
        for consumer in [again, last, self.stayed] {
            let output = consumer.output().clone();
            let end = consumer.ended();
            assert_eq!((end.code, &end.exit["status"]), (0, &0.into()), "{end:?}");
            assert_eq!(end.exit["reason"], "terminal-ended", "{end:?}");
            assert_same("what was shown last", &after(&output.all()), before);
        }
    }
}

#[test]
fn less_on_a_coloured_file_survives_detach_and_attach() {
    let machine = Machine::new();
    let file = coloured_file(&machine);
    let mut less = Showing::of(machine, &["less", "-R", &file]);
    let before = less.before();
    less.wait("the first page", &less.stayed, |screen| {
        screen.rows()[0].starts_with("line 0001") && screen.rows()[23].contains("coloured.txt")
    });
    // A page, and a little more.
    less.stayed.type_text(" jjj");
    let steady = |screen: &Screen| screen.rows()[22].starts_with("line 0041") && screen.rows()[23] == ":";
    less.wait("the second page", &less.stayed, steady);
    less.survives(&before, steady, "q");
}

#[test]
fn vim_survives_detach_and_attach() {
    let vim = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .find(|directory| directory.join("vim").is_file());
    if vim.is_none() {
        println!("skipped: there is no vim here");
        return;
    }
    let machine = Machine::new();
    let file = machine.home().join("program.c");
    let mut text = String::new();
    for number in 1..=300 {
        let _ = writeln!(text, "int f{number}(void) {{ return {number}; }} /* \"text\" */ // 漢字");
    }
    std::fs::write(&file, text).unwrap();
    let mut vim = Showing::of(machine, &["vim", "--clean", "-n", "+syntax on", &file.to_string_lossy()]);
    let before = vim.before();
    // It has shown the file, and gives keys their meaning.
    vim.wait("the first page", &vim.stayed, |screen| {
        screen.rows()[0].starts_with("int f1(") && screen.cursor == Point::default()
    });
    vim.stayed.type_text("100Gzt:set number hlsearch\r/return\r:echo 'set' 'tled'\r");
    let steady = |screen: &Screen| {
        let rows = screen.rows();
        // Vim keeps five lines above the cursor, and shows the cursor when all is drawn.
        rows[5].contains("int f100(")
            && rows[23].starts_with("set tled")
            && rows[23].ends_with("33%")
            && screen.cursor.line == 5
            && screen.modes.contains(TermMode::SHOW_CURSOR)
    };
    vim.wait("the second page", &vim.stayed, steady);
    vim.survives(&before, steady, ":qa!\r");
}
