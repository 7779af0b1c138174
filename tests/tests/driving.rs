//! Scripts that drive programs: keys, text and mouse in the modes that the program set, waiting, reading back, and who
//! decides the size.

use keepline_screen::{Limits, Screen, Size};
use keepline_tests::pipe_io::PipeIo;
use keepline_tests::process::Signal;
use keepline_tests::proxy::Proxy;
use keepline_tests::{Daemon, Machine, wait_until};
use serde_json::{Value, json};

struct Bench {
    machine: Machine,
    _daemon: Daemon,
}

impl Bench {
    fn new() -> Self {
        let machine = Machine::new();
        let daemon = machine.daemon(&[]);
        Bench { machine, _daemon: daemon }
    }

    fn terminal(&self, command: &[&str]) -> String {
        self.machine.terminal(&[&["--"], command].concat())
    }

    fn ok(&self, verb: &str, terminal: &str, more: &[&str]) -> String {
        self.machine.ok(&[&["terminal", verb, terminal], more].concat())
    }

    fn fails(&self, verb: &str, terminal: &str, more: &[&str]) -> (i32, String) {
        let output = self.machine.run(&[&["terminal", verb, terminal], more].concat());
        assert_eq!(output.stdout, "");
        (output.code, output.stderr)
    }

    fn row(&self, terminal: &str) -> Value {
        let rows = self.machine.json(&["terminal", "list"]);
        rows.as_array().unwrap().iter().find(|row| row["id"] == terminal).cloned().unwrap()
    }

    /// Whether there is such a program here; says so when not.
    fn has(program: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
        if !found {
            println!("skipped: there is no {program} here");
        }
        found
    }
}

/// A shell that marks its prompts and commands.
const MARKS: &str = r#"
PS0=$'\e]133;C\a'
PS1='\[\e]133;A\a\]$ \[\e]133;B\a\]'
PROMPT_COMMAND='printf "\e]133;D;$?\a"'
"#;

#[test]
fn a_script_waits_for_what_a_program_shows_and_for_its_end() {
    let bench = Bench::new();
    let terminal = bench.terminal(&["sh", "-c", "read x; seq 200; echo built $x; sleep 1; exit 3"]);
    let (code, said) = bench.fails("wait", &terminal, &["--match", "built", "--timeout", "1"]);
    assert_eq!(code, 124, "{said}");
    bench.ok("send", &terminal, &["it\r"]);
    assert_eq!(bench.ok("wait", &terminal, &["--match", "built (it)"]), "built it\n");
    assert_eq!(bench.ok("wait", &terminal, &["--exit"]), "status 3\n");
    assert_eq!(bench.machine.json(&["terminal", "wait", &terminal, "--exit"])["exit"], json!({"status": 3}));
    assert_eq!(bench.fails("wait", &terminal, &["--match", "never"]).0, 5);
    assert_eq!(bench.fails("wait", &terminal, &["--match", "(open"]).0, 2);
    assert_eq!(bench.fails("wait", &terminal, &[]).0, 2);
    assert_eq!(bench.fails("wait", "nobody", &["--exit"]).0, 4);
}

#[test]
fn what_a_shell_marks_is_waited_for_read_and_in_the_graph() {
    let bench = Bench::new();
    let marks = bench.machine.home().join("marks.sh");
    std::fs::write(&marks, MARKS).unwrap();
    let terminal = bench.terminal(&["bash", "--noprofile", "--rcfile", &marks.to_string_lossy(), "-i"]);
    bench.ok("wait", &terminal, &["--prompt"]);
    bench.ok("send", &terminal, &["seq 3\r"]);
    bench.ok("wait", &terminal, &["--prompt"]);
    assert_eq!(bench.ok("read", &terminal, &["--last-command"]), "1\n2\n3\n");
    bench.ok("send", &terminal, &["seq 60; (exit 7)\r"]);
    let waited = bench.machine.json(&["terminal", "wait", &terminal, "--prompt"]);
    assert_eq!(waited["status"], 7);
    let output = bench.ok("read", &terminal, &["--last-command"]);
    assert_eq!(output.lines().count(), 60, "{output}");
    let last = wait_until("the command in the graph", || {
        let row = bench.row(&terminal);
        if row["last_command"]["status"] == 7 { Ok(row["last_command"].clone()) } else { Err(row) }
    });
    // The lines that the row names are those of the command.
    let (from, to) = (&last["lines"]["from"], &last["lines"]["to"]);
    let (range, epoch) = (format!("{from}..{to}"), last["lines"]["epoch"].to_string());
    assert_eq!(bench.ok("read", &terminal, &["--history", &range, "--epoch", &epoch]), output);
    let newest = bench.ok("read", &terminal, &["--history", "-2.."]);
    assert_eq!(newest.lines().count(), 2, "{newest}");
    let styled = bench.machine.json(&["terminal", "read", &terminal, "--history", &range]);
    assert_eq!(styled["styled"].as_array().unwrap().len(), 60);
    assert_eq!(styled["styled"][59]["runs"][0]["text"], "60");
    assert_eq!(bench.ok("read", &terminal, &["--digest"]).trim(), styled["digest"]);
    bench.ok("resize", &terminal, &["60x20"]);
    assert_eq!(bench.fails("read", &terminal, &["--history", "..", "--epoch", &epoch]).0, 5);
    assert_eq!(bench.fails("read", &terminal, &["--history", "some"]).0, 2);
}

#[test]
fn a_paste_of_many_lines_is_one_where_the_shell_asks_for_that() {
    let bench = Bench::new();
    let terminal = bench.terminal(&["bash", "--norc", "--noprofile", "-i"]);
    bench.ok("send", &terminal, &["bind 'set enable-bracketed-paste on'; PS1='ready> '\r"]);
    bench.ok("wait", &terminal, &["--match", "^ready> $"]);
    let text = "echo fir''st\necho sec''ond\u{1b}[201~\u{3}\n";
    bench.ok("paste", &terminal, &[text]);
    bench.ok("wait", &terminal, &["--match", "sec''ond"]);
    let screen = bench.ok("read", &terminal, &[]);
    assert!(!screen.contains("\nfirst") && !screen.contains("\nsecond"), "nothing ran yet: {screen}");
    bench.ok("keys", &terminal, &["Enter"]);
    bench.ok("wait", &terminal, &["--match", "^second"]);

    bench.ok("send", &terminal, &["bind 'set enable-bracketed-paste off'; clear; PS1='plain> '\r"]);
    bench.ok("wait", &terminal, &["--match", "^plain> $"]);
    let pasted = bench.machine.run_with(&["terminal", "paste", &terminal, "-"], text.as_bytes());
    assert_eq!(pasted.code, 0, "{pasted:?}");
    bench.ok("wait", &terminal, &["--match", "^second"]);
    assert!(bench.ok("read", &terminal, &[]).contains("\nfirst\n"));
}

#[test]
fn keys_and_mouse_do_in_vim_what_they_say() {
    if !Bench::has("vim") {
        return;
    }
    let bench = Bench::new();
    let file = bench.machine.home().join("file.txt");
    std::fs::write(&file, "one two three\n".repeat(40)).unwrap();
    let path = file.to_string_lossy();
    let vim = bench.terminal(&["vim", "--clean", "-n", "+set mouse=a ttymouse=sgr", &path]);
    bench.ok("wait", &vim, &["--match", "one two three"]);
    let cursor = |column: u64, row: u64| {
        wait_until("the cursor", || {
            let screen = bench.machine.json(&["terminal", "read", &vim]);
            let at = (screen["cursor_column"].as_u64(), screen["cursor_row"].as_u64());
            if at == (Some(column), Some(row)) { Ok(()) } else { Err(screen) }
        });
    };
    wait_until("vim to listen to the mouse", || {
        let clicked = bench.machine.run(&["terminal", "mouse", &vim, "click", "4,6"]);
        if clicked.code == 0 { Ok(()) } else { Err(clicked.stderr) }
    });
    cursor(4, 6);
    // In application mode cursor keys are other bytes; vim knows them in both.
    bench.ok("keys", &vim, &["Down", "Right", "S-i", "x", "y", "Escape"]);
    cursor(1, 7);
    bench.ok("keys", &vim, &[":", "w", "q", "Enter"]);
    assert_eq!(bench.ok("wait", &vim, &["--exit"]), "status 0\n");
    let lines = std::fs::read_to_string(&file).unwrap();
    assert_eq!(lines.lines().nth(7), Some("xyone two three"));

    let plain = bench.terminal(&["sh", "-c", "echo ready; read x"]);
    bench.ok("wait", &plain, &["--match", "ready"]);
    assert_eq!(bench.fails("mouse", &plain, &["click", "1,1"]).0, 6);
    assert_eq!(bench.fails("mouse", &plain, &["click", "1"]).0, 2);
    assert_eq!(bench.fails("mouse", &plain, &["jump", "1,1"]).0, 2);
    assert_eq!(bench.fails("keys", &plain, &["Hyper-x"]).0, 2);
}

/// Who decides, as design and README say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Smallest,
    Latest,
    Pinned(u16, u16),
}

/// The rule, in its plainest form.
struct Model {
    policy: Policy,
    /// Votes, who was active last at the end.
    votes: Vec<(usize, (u16, u16))>,
    size: (u16, u16),
}

impl Model {
    fn act(&mut self, who: usize, vote: Option<(u16, u16)>) {
        let old = self.votes.iter().position(|(voter, _)| *voter == who).map(|at| self.votes.remove(at).1);
        self.votes.extend(vote.or(old).map(|vote| (who, vote)));
    }

    fn settle(&mut self) -> (u16, u16) {
        let votes = || self.votes.iter().map(|(_, vote)| *vote);
        let decided = match self.policy {
            Policy::Pinned(cols, rows) => Some((cols, rows)),
            Policy::Latest => votes().next_back(),
            Policy::Smallest => votes().map(|vote| vote.0).min().zip(votes().map(|vote| vote.1).min()),
        };
        self.size = decided.unwrap_or(self.size);
        self.size
    }
}

#[test]
fn sizes_follow_the_policy_whoever_comes_and_goes() {
    for (most, steps) in [(2, 25), (5, 40)] {
        let seed: u64 = std::env::var("KEEPLINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
        println!("up to {most} attachments, seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let bench = Bench::new();
        let terminal = bench.terminal(&["sh", "-c", "stty raw -echo; echo ready; exec cat >/dev/null"]);
        bench.ok("wait", &terminal, &["--match", "ready"]);
        let mut model = Model { policy: Policy::Smallest, votes: Vec::new(), size: (80, 24) };
        let mut here: Vec<(usize, PipeIo)> = Vec::new();
        for step in 0..steps {
            let size = (random.u16(20..200), random.u16(5..80));
            let who = random.usize(0..here.len().max(1));
            match random.u32(0..12) {
                0..4 if here.len() < most => {
                    let mut consumer = bench.machine.pipe_io(&terminal, &[]);
                    consumer.resize(size.0, size.1);
                    model.act(step, Some(size));
                    here.push((step, consumer));
                }
                4..6 if !here.is_empty() => {
                    here[who].1.resize(size.0, size.1);
                    model.act(here[who].0, Some(size));
                }
                6..8 if !here.is_empty() => {
                    here[who].1.type_text("x");
                    model.act(here[who].0, None);
                }
                8..10 if !here.is_empty() => {
                    let (gone, consumer) = here.remove(who);
                    model.votes.retain(|(voter, _)| *voter != gone);
                    if random.bool() {
                        assert_eq!(consumer.detach().code, 0);
                    } else {
                        consumer.process.signal(Signal::KILL);
                    }
                }
                _ => {
                    let (policy, said) = match random.u32(0..3) {
                        0 => (Policy::Smallest, ["--policy".to_owned(), "smallest".to_owned()].to_vec()),
                        1 => (Policy::Latest, ["--policy".to_owned(), "latest".to_owned()].to_vec()),
                        _ => (Policy::Pinned(size.0, size.1), vec![format!("{}x{}", size.0, size.1)]),
                    };
                    model.policy = policy;
                    bench.ok("resize", &terminal, &said.iter().map(String::as_str).collect::<Vec<_>>());
                }
            }
            let (cols, rows) = model.settle();
            let policy = match model.policy {
                Policy::Smallest => "smallest",
                Policy::Latest => "latest",
                Policy::Pinned(..) => "pinned",
            };
            wait_until("the size that the policy says", || {
                let row = bench.row(&terminal);
                let as_said = row["size"] == json!({"cols": cols, "rows": rows}) && row["size_policy"] == policy;
                if as_said { Ok(()) } else { Err(format!("step {step}: {cols}x{rows} {:?}; {row}", model.policy)) }
            });
        }
    }
}

/// What a consumer shows that has had these bytes.
fn digest(bytes: &[u8], cols: u16, rows: u16) -> (String, Screen) {
    let mut screen = Screen::new(Size::cells(cols, rows), Limits::default());
    screen.feed(bytes);
    (format!("{:016x}", screen.digest()), screen)
}

#[test]
fn vim_with_mouse_and_kitty_keyboard_survives_a_cut_and_another_size() {
    if !Bench::has("vim") {
        return;
    }
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let proxy = Proxy::start(&daemon.address());
    let relay = laptop.enrol(&owner, &proxy.route(), "box");
    let file = laptop.home().join("program.c");
    let text: String = (1..=300).map(|n| format!("int f{n}(void) {{ return {n}; }} // \u{6f22}\u{5b57}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let kitty = r#"let &t_TI="\<Esc>[>1u" | let &t_TE="\<Esc>[<u" | set mouse=a ttymouse=sgr"#;
    let path = file.to_string_lossy();
    let vim = owner.terminal(&["--", "vim", "--clean", "-n", "--cmd", kitty, "+syntax on", &path]);
    let same = |what: &str, consumer: &PipeIo, cols, rows, look: &dyn Fn(&Screen) -> bool| {
        wait_until(what, || {
            let (seen, screen) = digest(&consumer.output().bytes(), cols, rows);
            let has = owner.ok(&["terminal", "read", &vim, "--digest"]);
            let kept =
                screen.keyboard_flags() == 1 && screen.modes().mouse > 0 && screen.modes().mouse_encoding == 1006;
            let same = seen == has.trim() && kept && look(&screen);
            if same { Ok(()) } else { Err(screen.rows(false).join("\n")) }
        });
    };
    let mut first = laptop.pipe_io(&vim, &["--machine", "box"]);
    first.resize(80, 24);
    same("the first page", &first, 80, 24, &|screen| screen.rows(false)[0].starts_with("int f1("));
    proxy.black_out();
    relay.wait_state("down");
    first.type_text(":set number hlsearch\r/return 50;\rzt");
    proxy.restore();
    relay.wait_state("up");
    let moved = |screen: &Screen| screen.rows(false).iter().any(|row| row.contains("50 int f50("));
    same("what was typed while the link was down", &first, 80, 24, &moved);
    assert!(!first.output().bytes().windows(2).any(|pair| pair == b"\x1bc"), "a cut is no reset");

    let mut second = laptop.pipe_io(&vim, &["--machine", "box"]);
    assert_eq!(first.detach().code, 0);
    second.resize(100, 30);
    second.type_text(":echo 'size' &columns &lines\r");
    let sized = |screen: &Screen| screen.rows(false)[29].starts_with("size 100 30") && moved(screen);
    same("the other size", &second, 100, 30, &sized);
    // A click reaches it in the encoding that it asked for.
    laptop.ok(&["--machine", "box", "terminal", "mouse", &vim, "click", "10,12"]);
    same("the click", &second, 100, 30, &|screen| screen.cursor() == (10, 12));
    second.type_text(":qa!\r");
    let end = second.ended();
    assert_eq!((end.code, &end.exit["reason"]), (0, &"terminal-ended".into()));
}
