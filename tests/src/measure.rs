//! What benchmarks share: terminals however they are reached, times, and goals.

use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::pipe_io::PipeIo;
use crate::process::{Process, Seen};
use crate::pty::Pty;

/// A time in milliseconds.
pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Prints a goal, what was measured, and whether it is met.
pub fn verdict(goal: &str, measured: &str, met: bool) {
    let met = if met { "yes" } else { "NO" };
    println!("goal: {goal} | measured: {measured} | met: {met}");
}

/// Times in order.
pub struct Times(Vec<Duration>);

impl Times {
    /// These, whatever their order.
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Times(times)
    }

    /// The one at this part of all, 0.5 the median.
    pub fn at(&self, part: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let index = (self.0.len() as f64 * part) as usize;
        self.0.get(index.min(last)).copied().unwrap_or_default()
    }

    /// Prints median, p99 and the greatest.
    pub fn print(&self, what: &str) {
        println!(
            "{what}: median {}, p99 {}, greatest {} of {}",
            ms(self.at(0.5)),
            ms(self.at(0.99)),
            ms(self.at(1.0)),
            self.0.len()
        );
    }
}

/// A terminal, however it is reached. What takes longer than [`PATIENCE`] counts as that.
pub enum Terminal {
    /// By `attach --pipe-io`.
    Keepline(PipeIo),
    /// By a session of ssh.
    Ssh(Process),
    /// As a person has it.
    Person(Pty),
}

impl Terminal {
    /// Types `text`.
    pub fn type_text(&mut self, text: &str) {
        match self {
            Terminal::Keepline(terminal) => drop(terminal.type_text(text)),
            Terminal::Ssh(process) => drop(process.write(text.as_bytes())),
            Terminal::Person(pty) => pty.type_text(text),
        }
    }

    /// What it showed.
    pub fn output(&self) -> &Seen {
        match self {
            Terminal::Keepline(terminal) => terminal.output(),
            Terminal::Ssh(process) => &process.stdout,
            Terminal::Person(pty) => &pty.screen,
        }
    }

    /// How many bytes it showed.
    pub fn shown(&self) -> usize {
        self.output().wait("a length", |bytes| Some(bytes.len()))
    }

    /// Types `count` keys, but for no longer than `most`, and measures each echo.
    pub fn echoes(&mut self, count: usize, pause: Duration, most: Duration) -> Times {
        self.output().wait_for("ready");
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < count && began.elapsed() < most {
            let shown = self.shown();
            let typed = Instant::now();
            self.type_text("x");
            self.output().wait_within(PATIENCE, |bytes| (bytes.len() > shown).then_some(()));
            times.push(typed.elapsed());
            std::thread::sleep(pause.mul_f64(0.5 + fastrand::f64()));
        }
        Times::new(times)
    }

    /// Floods for a while with this command, interrupts, and measures the time to the prompt.
    pub fn interrupts(&mut self, flood: &str, count: usize) -> Times {
        let times = (0..count).map(|_| {
            self.type_text(&format!("{flood}\n"));
            let shown = self.shown();
            self.output().wait("a flood", |bytes| (bytes.len() > shown + 50_000).then_some(()));
            std::thread::sleep(Duration::from_secs(2));
            let shown = self.shown();
            let typed = Instant::now();
            self.type_text("\u{3}");
            self.output().wait_within(PATIENCE, |bytes| {
                let new = String::from_utf8_lossy(&bytes[shown..]);
                new.contains("PROMPT").then_some(())
            });
            typed.elapsed()
        });
        Times::new(times.collect())
    }
}

/// tmux, to compare with.
pub mod tmux {
    use std::process::Command;

    /// A server of its own, whose end is that of this value.
    pub struct Server(String);

    /// Whether tmux is installed.
    pub fn is_here() -> bool {
        Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success())
    }

    impl Default for Server {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Server {
        /// A name that nobody has; tmux starts it with its first session.
        pub fn new() -> Self {
            Server(format!("kl{}-{:x}", std::process::id(), fastrand::u32(..)))
        }

        /// A shell's command line for this server, with its usual history of 50,000 lines.
        pub fn command(&self, verb: &str) -> String {
            format!("TERM=xterm-256color exec tmux -L {} -f /dev/null set -g history-limit 50000 \\; {verb}", self.0)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            // It may never have started.
            let _ = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
        }
    }
}
