//! Attaching, beside ssh and tmux over ssh on the same machine.
//!
//! ```text
//! cargo bench -p keepline-tests --bench attach [-- PART…]
//! ```
//!
//! | part | what |
//! |---|---|
//! | `cat` | 256 MB through a terminal to a consumer, beside the kernel's PTY alone |
//! | `paint` | from the start of `attach` to the last line of the screen, with a full history |
//! | `echo` | echo of an interactive `attach` through a relay |
//! | `lag` | a second `attach` while the first one stands still and the program floods |
//!
//! Each prints lines of `goal`, `measured` and `met`. Nothing here fails for being slow.

use std::process::Command;
use std::time::{Duration, Instant};

use keepline_tests::measure::{Terminal, Times, ms, tmux, verdict};
use keepline_tests::process::{Signal, resident};
use keepline_tests::pty::Pty;
use keepline_tests::ssh::Sshd;
use keepline_tests::{Machine, wait_until};

type Part = fn(Option<&Sshd>);

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let sshd = Sshd::start();
    if sshd.is_none() || !tmux::is_here() {
        println!("ssh and tmux: not compared, as far as they are not here");
    }
    let all: [(&str, Part); 4] = [("cat", cat), ("paint", paint), ("echo", echo), ("lag", lag)];
    for (name, part) in all {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!("\n== {name} (load {})", load.trim_end());
            part(sshd.as_ref());
        }
    }
}

/// A daemon and a laptop with a relay to it.
struct Setting {
    owner: Machine,
    laptop: Machine,
    ends: (keepline_tests::Daemon, keepline_tests::Relay),
}

impl Setting {
    fn new() -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let relay = laptop.enrol(&owner, &daemon.route(), "box");
        Setting { owner, laptop, ends: (daemon, relay) }
    }

    fn person(&self, terminal: &str, cols: u16, rows: u16) -> Pty {
        let arguments = ["--machine", "box", "attach", "--terminal", terminal];
        Pty::of(&self.laptop.command(&arguments), cols, rows)
    }
}

fn cat(sshd: Option<&Sshd>) {
    const MB: usize = 256;
    let file = tempfile::NamedTempFile::new().expect("there is room for a file");
    let line = format!("{}\n", "0123456789abcdef".repeat(5));
    std::fs::write(file.path(), line.repeat(MB * 1_000_000 / line.len())).expect("it can be written");
    let script = format!("stty -echo; printf ready; read x; cat {}; printf END; read x", file.path().display());
    let run = |what: &str, terminal: &mut Terminal| {
        terminal.output().wait_for("ready");
        let shown = terminal.shown();
        let began = Instant::now();
        terminal.type_text("\r");
        terminal.output().wait("the end", |bytes| {
            bytes[bytes.len().saturating_sub(400)..].windows(3).any(|window| window == b"END").then_some(())
        });
        let rate = MB as f64 / began.elapsed().as_secs_f64();
        let resets = terminal.output().bytes().windows(6).filter(|window| window == b"\x1bc\x1b[3J").count();
        let delivered = (terminal.shown() - shown) as f64 / 1e6;
        println!("{what}: {rate:.0} MB/s; {delivered:.0} MB delivered, {resets} resets");
        rate
    };
    let mut shell = Command::new("sh");
    let kernel = run("the kernel's PTY", &mut Terminal::Person(Pty::of(shell.args(["-c", &script]), 80, 24)));
    let setting = Setting::new();
    let id = setting.laptop.terminal(&["--machine", "box", "--", "sh", "-c", &script]);
    let mut ours = Terminal::Keepline(setting.laptop.pipe_io(&id, &["--machine", "box"]));
    let ours = run("keepline, attach --pipe-io through a relay", &mut ours);
    let goal = "cat of 256 MB to a consumer: 0.8 of the kernel's PTY";
    verdict(goal, &format!("{:.2}", ours / kernel), ours >= 0.8 * kernel);
    let Some(sshd) = sshd else { return };
    let theirs = run("ssh -tt", &mut Terminal::Ssh(sshd.terminal(sshd.port(), &script)));
    println!("keepline / ssh -tt: {:.2}", ours / theirs);
    if tmux::is_here() {
        let tmux = tmux::Server::new();
        let command = tmux.command(&format!("new-session '{script}'"));
        let theirs = run("tmux over ssh", &mut Terminal::Person(sshd.person(&command, 80, 24)));
        println!("keepline / tmux over ssh: {:.2}", ours / theirs);
    }
}

fn paint(sshd: Option<&Sshd>) {
    const COUNT: usize = 15;
    for (cols, rows) in [(80, 24), (200, 50)] {
        let script = "stty -echo; seq -f 'a line of history that is no short one %06.0f' 60000; printf LAST; read x";
        let size = format!("{cols}x{rows}");
        let time = |mut attach: Box<dyn FnMut() -> Pty + '_>| {
            let times = (0..COUNT).map(|_| {
                let began = Instant::now();
                let person = attach();
                person.screen.wait_for("LAST");
                began.elapsed()
            });
            Times::new(times.collect())
        };
        let setting = Setting::new();
        let id = setting.owner.terminal(&["--size", &size, "--", "sh", "-c", script]);
        setting.owner.ok(&["terminal", "wait", &id, "--match", "LAST"]);
        let ours = time(Box::new(|| setting.person(&id, cols, rows)));
        ours.print(&format!("keepline, first paint at {size} through a relay"));
        let Some(sshd) = sshd.filter(|_| tmux::is_here()) else { continue };
        let tmux = tmux::Server::new();
        let first = sshd.person(&tmux.command(&format!("new-session '{}'", script.replace('\'', "\""))), cols, rows);
        first.screen.wait_for("LAST");
        let theirs = time(Box::new(|| sshd.person(&tmux.command("attach"), cols, rows)));
        theirs.print(&format!("tmux attach over ssh, first paint at {size}"));
        println!("keepline / tmux over ssh: {:.2}", ours.at(0.5).as_secs_f64() / theirs.at(0.5).as_secs_f64());
    }
}

fn echo(sshd: Option<&Sshd>) {
    const QUIET: &str = "stty -icanon; printf ready; exec cat >/dev/null";
    let (count, pause, most) = (1_000, Duration::from_millis(3), Duration::from_secs(60));
    let setting = Setting::new();
    let id = setting.owner.terminal(&["--size", "80x24", "--", "sh", "-c", QUIET]);
    let ours = Terminal::Person(setting.person(&id, 80, 24)).echoes(count, pause, most);
    ours.print("keepline, echo of an interactive attach through a relay");
    let Some(sshd) = sshd else { return };
    let theirs = Terminal::Person(sshd.person(QUIET, 80, 24)).echoes(count, pause, most);
    theirs.print("ssh, echo");
    println!("keepline / ssh: {:.2}", ours.at(0.5).as_secs_f64() / theirs.at(0.5).as_secs_f64());
    if tmux::is_here() {
        let tmux = tmux::Server::new();
        let command = tmux.command(&format!("new-session '{QUIET}'"));
        let theirs = Terminal::Person(sshd.person(&command, 80, 24)).echoes(count, pause, most);
        theirs.print("tmux over ssh, echo");
        println!("keepline / tmux over ssh: {:.2}", ours.at(0.5).as_secs_f64() / theirs.at(0.5).as_secs_f64());
    }
}

fn lag(_: Option<&Sshd>) {
    let setting = Setting::new();
    let id = setting.owner.terminal(&["--size", "80x24", "--", "sh", "-c", "exec yes 'a line of output'"]);
    let through = || setting.owner.json(&["terminal", "read", &id])["through"].as_u64().expect("an offset");
    let rate = || {
        let (before, began) = (through(), Instant::now());
        std::thread::sleep(Duration::from_secs(3));
        (through() - before) as f64 / began.elapsed().as_secs_f64() / 1e6
    };
    let pid = setting.ends.0.pid();
    let alone = rate();
    let stopped = setting.owner.pipe_io(&id, &[]);
    stopped.output().wait("output", |bytes| (bytes.len() > 1 << 20).then_some(()));
    stopped.process.signal(Signal::STOP);
    let before = resident(pid);
    let beside = rate();
    println!("a flooding program: {alone:.0} MB/s alone, {beside:.0} MB/s beside a client that stands still");
    verdict("the program at full speed: 0.9 of alone", &format!("{:.2}", beside / alone), beside >= 0.9 * alone);
    let times = (0..10).map(|_| {
        let began = Instant::now();
        let second = setting.owner.pipe_io(&id, &[]);
        second.output().wait_for("a line of output");
        began.elapsed()
    });
    let times = Times::new(times.collect());
    times.print("a second attach, its process's start and all");
    let goal = Duration::from_millis(200);
    verdict("a second client attaches within 200 ms", &ms(times.at(1.0)), times.at(1.0) < goal);
    let grown = resident(pid).saturating_sub(before) >> 20;
    verdict("the daemon grows by at most 16 MiB", &format!("{grown} MiB"), grown <= 16);
    stopped.process.signal(Signal::CONT);
    wait_until("the one that stood still", || {
        let bytes = stopped.output().bytes();
        if bytes.windows(2).any(|pair| pair == b"\x1bc") { Ok(()) } else { Err(bytes.len()) }
    });
}
