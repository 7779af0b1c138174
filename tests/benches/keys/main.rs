//! How quick keys are, and how full a path: beside ssh, through the same shaper, in the same run.
//!
//! ```text
//! cargo bench -p keepline-tests --bench keys [-- PART…]
//! ```
//!
//! | part | what |
//! |---|---|
//! | `idle` | echo of a terminal through daemon, link, relay and `attach --pipe-io`, with nothing else to do |
//! | `link` | echo on a link beside a flood in the same lane and a bulk transfer, at 10 Mbit/s and 50 ms |
//! | `flood` | echo of a quiet terminal beside a flooding one, at the same |
//! | `interrupt` | from an interrupt under `yes` and under random text to the prompt, at 64 KB/s |
//! | `bulk` | what one bulk stream fills of 100 Mbit/s at 100 ms |
//! | `cat` | a large file through a terminal |
//!
//! Each prints lines of `goal`, `measured` and `met`. Nothing here fails for being slow.

mod ends;

use std::time::{Duration, Instant};

use keepline_tests::Machine;
use keepline_tests::measure::tmux;
use keepline_tests::measure::{Terminal, Times, ms, verdict};
use keepline_tests::shaper::{Path, Shaper};
use keepline_tests::ssh::Sshd;

/// A terminal that echoes each key and does nothing else.
const QUIET: &str = "stty -icanon; printf ready; exec cat >/dev/null";

type Part = fn(Option<&Sshd>);

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> = asked.iter().map(String::as_str).filter(|part| !part.starts_with('-')).collect();
    let sshd = Sshd::start();
    if sshd.is_none() {
        println!("ssh: not compared, there is no ssh, ssh-keygen or /usr/sbin/sshd here");
    }
    let all: [(&str, Part); 6] =
        [("idle", idle), ("link", link), ("flood", flood), ("interrupt", interrupt), ("bulk", bulk), ("cat", cat)];
    for (name, part) in all {
        if parts.is_empty() || parts.contains(&name) {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!("\n== {name} (load {})", load.trim_end());
            part(sshd.as_ref());
        }
    }
}

/// A daemon, a shaped path, and a relay on the other side of it.
struct Setting {
    owner: Machine,
    laptop: Machine,
    shaper: Option<Shaper>,
    _ends: (keepline_tests::Daemon, keepline_tests::Relay),
}

impl Setting {
    fn new(path: Option<Path>) -> Self {
        let (owner, laptop) = (Machine::new(), Machine::new());
        let daemon = owner.listening_daemon();
        let shaper = path.map(|path| Shaper::start(&daemon.address(), path));
        let route = shaper.as_ref().map_or(daemon.route(), Shaper::route);
        let relay = laptop.enrol(&owner, &route, "box");
        Setting { owner, laptop, shaper, _ends: (daemon, relay) }
    }

    fn terminal(&self, script: &[&str]) -> Terminal {
        let mut arguments = vec!["--machine", "box", "--"];
        arguments.extend(script);
        let id = self.laptop.terminal(&arguments);
        Terminal::Keepline(self.laptop.pipe_io(&id, &["--machine", "box"]))
    }

    fn queue(&self) -> Duration {
        let shaper = self.shaper.as_ref().expect("a path was asked for");
        shaper.greatest_queue()[1]
    }
}

fn idle(sshd: Option<&Sshd>) {
    let (count, pause) = (2_000, Duration::from_millis(2));
    let most = Duration::from_secs(60);
    let setting = Setting::new(None);
    let ours = setting.terminal(&["sh", "-c", QUIET]).echoes(count, pause, most);
    ours.print("keepline, idle echo");
    let id = setting.owner.terminal(&["--", "sh", "-c", QUIET]);
    let mut local = Terminal::Keepline(setting.owner.pipe_io(&id, &[]));
    let local = local.echoes(count, pause, most);
    local.print("keepline, idle echo at the daemon's own socket, without relay and TCP");
    let Some(sshd) = sshd else { return };
    let theirs = Terminal::Ssh(sshd.terminal(sshd.port(), QUIET)).echoes(count, pause, most);
    theirs.print("ssh, idle echo");
    let ratio = ours.at(0.5).as_secs_f64() / theirs.at(0.5).as_secs_f64();
    let tail = ours.at(0.99).as_secs_f64() / theirs.at(0.99).as_secs_f64();
    println!("keepline / ssh: median {ratio:.2}, p99 {tail:.2}");
}

/// 10 Mbit/s, with a queue of a tenth of a second.
const BUSY: Path = Path { rate: 10_000_000 / 8, delay: Duration::from_millis(25), queue: Duration::from_millis(100) };
const ECHOES: usize = 200;
const PAUSE: Duration = Duration::from_millis(40);

fn judge_echoes(what: &str, times: &Times, queue: Duration) {
    times.print(what);
    let goal = BUSY.round_trip() + queue + Duration::from_millis(25);
    let goal_text = format!("{what}: p99 <= RTT {} + queue {} + 25 ms", ms(BUSY.round_trip()), ms(queue));
    verdict(&goal_text, &ms(times.at(0.99)), times.at(0.99) <= goal);
}

fn link(sshd: Option<&Sshd>) {
    let measured = ends::flooded(BUSY, ECHOES, PAUSE);
    println!("the link's rate: {:?} bytes/s; receive buffer {} bytes", measured.rate, measured.buffer);
    judge_echoes("a link with a flood and a bulk transfer", &Times::new(measured.echoes), measured.queue);
    if let Some(sshd) = sshd {
        ssh_beside(sshd, true);
    }
}

/// The same by ssh: sessions on one connection.
fn ssh_beside(sshd: &Sshd, transfer: bool) {
    let shaper = Shaper::start(&sshd.address(), BUSY);
    let port = shaper.address().port();
    let _master = sshd.master(port);
    let mut quiet = Terminal::Ssh(sshd.piped(port, "printf ready; exec cat"));
    quiet.output().wait_for("ready");
    let bulk = transfer.then(|| sshd.plain(port, "exec cat /dev/zero"));
    let flooding = Terminal::Ssh(sshd.piped(port, "exec yes"));
    flooding.output().wait("a flood", |bytes| (bytes.len() > 500_000).then_some(()));
    let theirs = quiet.echoes(ECHOES, PAUSE, Duration::from_secs(40));
    let what = match transfer {
        true => "ssh, one connection, with a flood and a bulk transfer",
        false => "ssh, one connection, with a flood",
    };
    judge_echoes(what, &theirs, shaper.greatest_queue()[1]);
    drop((bulk, flooding));
}

fn flood(sshd: Option<&Sshd>) {
    let most = Duration::from_secs(40);
    let setting = Setting::new(Some(BUSY));
    let flooding = setting.terminal(&["yes"]);
    flooding.output().wait("a flood", |bytes| (bytes.len() > 500_000).then_some(()));
    let ours = setting.terminal(&["sh", "-c", QUIET]).echoes(ECHOES, PAUSE, most);
    judge_echoes("terminals with a flood", &ours, setting.queue());
    drop(flooding);
    if let Some(sshd) = sshd {
        ssh_beside(sshd, false);
    }
}

fn interrupt(sshd: Option<&Sshd>) {
    let path = Path { rate: 64_000, delay: Duration::from_millis(25), queue: Duration::from_millis(200) };
    const SHELL: &str = "PS1=PROMPT exec bash --norc --noprofile -i";
    let judge = |what: &str, times: &Times, queue: Duration| {
        times.print(what);
        let goal = path.round_trip() + queue + Duration::from_millis(300);
        let goal_text = format!("{what}: at most RTT {} + queue {} + 300 ms", ms(path.round_trip()), ms(queue));
        verdict(&goal_text, &ms(times.at(1.0)), times.at(1.0) <= goal);
    };
    for flood in ["yes", "cat /dev/urandom | base64"] {
        println!("{flood}:");
        let setting = Setting::new(Some(path));
        let mut terminal = setting.terminal(&["sh", "-c", SHELL]);
        terminal.output().wait_for("PROMPT");
        let ours = terminal.interrupts(flood, 5);
        judge("keepline, interrupt to prompt", &ours, setting.queue());

        let Some(sshd) = sshd else { continue };
        let shaper = Shaper::start(&sshd.address(), path);
        let mut terminal = Terminal::Ssh(sshd.terminal(shaper.address().port(), SHELL));
        terminal.output().wait_for("PROMPT");
        let theirs = terminal.interrupts(flood, 3);
        judge("ssh, interrupt to prompt", &theirs, shaper.greatest_queue()[1]);
        drop(terminal);

        if !tmux::is_here() {
            println!("tmux: not compared, it is not here");
            continue;
        }
        let shaper = Shaper::start(&sshd.address(), path);
        let tmux = tmux::Server::new();
        let command = tmux.command(&format!("new-session \"{SHELL}\""));
        let mut terminal = Terminal::Ssh(sshd.terminal(shaper.address().port(), &command));
        terminal.output().wait_for("PROMPT");
        let theirs = terminal.interrupts(flood, 3);
        judge("tmux over ssh, interrupt to prompt", &theirs, shaper.greatest_queue()[1]);
    }
}

fn bulk(sshd: Option<&Sshd>) {
    const BYTES: usize = 128 << 20;
    let path = Path { rate: 100_000_000 / 8, delay: Duration::from_millis(50), queue: Duration::from_millis(50) };
    let judge = |what: &str, time: Duration| {
        let filled = BYTES as f64 / time.as_secs_f64() / path.rate as f64 * 100.0;
        let goal = format!("{what}: at least 85 % of 100 Mbit/s at 100 ms, 128 MiB from its start");
        verdict(&goal, &format!("{filled:.1} %"), filled >= 85.0);
    };
    let moved = ends::bulk(path, BYTES);
    println!("the link's rate: {:?} bytes/s; greatest queue {}", moved.rate, ms(moved.queue));
    judge("one bulk stream", moved.time);

    let Some(sshd) = sshd else { return };
    let shaper = Shaper::start(&sshd.address(), path);
    let port = shaper.address().port();
    let _master = sshd.master(port);
    let began = Instant::now();
    sshd.whole(port, &format!("exec head -c {BYTES} /dev/zero"));
    judge("ssh", began.elapsed());
}

fn cat(sshd: Option<&Sshd>) {
    const MIB: usize = 64;
    let file = tempfile::NamedTempFile::new().expect("there is room for a file");
    let line = format!("{}\n", "0123456789abcdef".repeat(5));
    std::fs::write(file.path(), line.repeat((MIB << 20) / line.len())).expect("it can be written");
    let script = format!("printf ready; read x; cat {}; printf END", file.path().display());
    let run = |what: &str, mut terminal: Terminal| {
        terminal.output().wait_for("ready");
        let shown = terminal.shown();
        let began = Instant::now();
        terminal.type_text("\n");
        terminal.output().wait("the end", |bytes| {
            bytes[bytes.len().saturating_sub(200)..].windows(3).any(|window| window == b"END").then_some(())
        });
        let time = began.elapsed();
        let bytes = terminal.shown() - shown;
        println!(
            "{what}: {MIB} MiB in {:.2} s, {:.0} MB/s; {:.0} % of the bytes were shown, the rest was overtaken",
            time.as_secs_f64(),
            (MIB << 20) as f64 / time.as_secs_f64() / 1e6,
            // Each line end is two bytes on a terminal.
            bytes as f64 / (MIB << 20) as f64 / (82.0 / 81.0) * 100.0
        );
    };
    let setting = Setting::new(None);
    run("keepline", setting.terminal(&["sh", "-c", &script]));
    let Some(sshd) = sshd else { return };
    run("ssh", Terminal::Ssh(sshd.terminal(sshd.port(), &script)));
}
