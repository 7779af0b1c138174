//! A machine: a home directory of its own, and everything that is started in it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::keepline;
use crate::pipe_io::PipeIo;
use crate::process::{Process, Signal, signal_process};
use crate::pty::Pty;
use crate::wait_until;

/// A home of its own, with its state and sockets below it. Dropping it ends every daemon and relay in it.
pub struct Machine {
    root: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Output {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

/// A daemon in the foreground. Dropping it kills it.
pub struct Daemon {
    /// Its process.
    pub process: Process,
    /// What it said about itself: `{"pid", "socket", "listeners"}`.
    pub told: Value,
}

/// A relay in the foreground, which prints its changes of state as JSON lines. Dropping it kills it.
pub struct Relay {
    /// Its process.
    pub process: Process,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A fresh machine.
    ///
    /// # Panics
    /// When the system has no room for one.
    pub fn new() -> Self {
        // Not below $TMPDIR: a socket's path has at most 107 bytes.
        let root = tempfile::Builder::new()
            .prefix("kl")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in("/tmp")
            .unwrap();
        let machine = Machine { root };
        for directory in [machine.home(), machine.state_dir(), machine.runtime_dir()] {
            std::fs::create_dir(&directory).unwrap();
            std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        }
        machine
    }

    /// `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("h")
    }

    /// `$XDG_STATE_HOME`.
    pub fn state_dir(&self) -> PathBuf {
        self.root.path().join("s")
    }

    /// `$XDG_RUNTIME_DIR`.
    pub fn runtime_dir(&self) -> PathBuf {
        self.root.path().join("r")
    }

    /// The daemon's local socket.
    pub fn daemon_socket(&self) -> PathBuf {
        self.runtime_dir().join("keepline/daemon.sock")
    }

    /// The environment of everything that runs here, which has nothing of the test's own.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("HOME", self.home()),
            ("XDG_STATE_HOME", self.state_dir()),
            ("XDG_RUNTIME_DIR", self.runtime_dir()),
            ("PATH", std::env::var_os("PATH").unwrap_or_default().into()),
            ("SHELL", "/bin/bash".into()),
            ("TERM", "xterm-256color".into()),
            ("LANG", "C.UTF-8".into()),
        ]
    }

    /// A command of keepline's.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(keepline());
        command.args(arguments).env_clear().envs(self.environment()).current_dir(self.home());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, b"")
    }

    /// Runs a command to its end, with this on its stdin.
    pub fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        let mut process = Process::spawn(&mut self.command(arguments));
        process.write(stdin);
        process.close_stdin();
        let code = process.exit();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Output { code, stdout: text(process.stdout.all()), stderr: text(process.stderr.all()) }
    }

    /// Runs a command that must succeed, and gives what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs a command with `--json` that must succeed, and gives what it printed.
    ///
    /// # Panics
    /// When it fails or prints no JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut with_json = vec!["--json"];
        with_json.extend(arguments);
        let text = self.ok(&with_json);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// Starts a terminal, and gives its id.
    pub fn terminal(&self, arguments: &[&str]) -> String {
        let mut command = vec!["terminal", "new"];
        command.extend(arguments);
        self.ok(&command).trim().to_owned()
    }

    /// Starts a daemon and waits until it serves.
    pub fn daemon(&self, arguments: &[&str]) -> Daemon {
        let mut command = vec!["server", "start", "--json"];
        command.extend(arguments);
        let process = Process::spawn(&mut self.command(&command));
        let told = process.stdout.wait_json("a daemon's first line", |line| Some(line.clone()));
        Daemon { process, told }
    }

    /// Starts a daemon that listens on a free port of loopback.
    pub fn listening_daemon(&self) -> Daemon {
        self.daemon(&["--remote-ws", "127.0.0.1:0"])
    }

    /// Starts a relay.
    pub fn relay(&self, arguments: &[&str]) -> Relay {
        let mut command = vec!["remote", "connect", "--headless", "--json"];
        command.extend(arguments);
        Relay { process: Process::spawn(&mut self.command(&command)) }
    }

    /// Enrols this machine with `owner`'s daemon over `route`, without asking the owner, and gives the relay when its
    /// link is up.
    pub fn enrol(&self, owner: &Machine, route: &str, name: &str) -> Relay {
        let invitation = owner.invitation(&["--no-approval"]);
        let relay = self.relay(&[route, "--invite-file", &invitation.to_string_lossy(), "--name", name]);
        relay.wait_state("up");
        relay
    }

    /// Makes an invitation, and gives its file.
    pub fn invitation(&self, arguments: &[&str]) -> PathBuf {
        let mut command = vec!["remote", "invite"];
        command.extend(arguments);
        self.home().join(self.ok(&command).trim())
    }

    /// Attaches a program to a terminal.
    pub fn pipe_io(&self, terminal: &str, arguments: &[&str]) -> PipeIo {
        let mut command = vec!["attach", "--pipe-io", "--terminal", terminal];
        command.extend(arguments);
        PipeIo::new(Process::spawn(&mut self.command(&command)))
    }

    /// Runs a command of keepline's under a PTY of 80x24.
    pub fn pty(&self, arguments: &[&str]) -> Pty {
        let arguments = arguments.iter().map(AsRef::as_ref);
        Pty::spawn(keepline(), arguments, self.environment(), &self.home())
    }

    /// The process that serves a local socket here: `daemon` or `machine-NAME`.
    pub fn serving(&self, socket: &str) -> Option<u32> {
        let lock = self.runtime_dir().join(format!("keepline/{socket}.lock"));
        self.own_process(&lock)
    }

    /// The live process that a lock file names, when it is one of this machine's.
    fn own_process(&self, lock: &Path) -> Option<u32> {
        let pid: u32 = std::fs::read_to_string(lock).ok()?.trim().parse().ok()?;
        // A pid may belong to somebody else by now; a process of this machine's has its home in its environment.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = format!("HOME={}", self.home().display());
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()).then_some(pid)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What was started in the background is nobody's child.
        let Ok(entries) = std::fs::read_dir(self.runtime_dir().join("keepline")) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "lock")
                && let Some(pid) = self.own_process(&path)
            {
                signal_process(pid, Signal::KILL);
            }
        }
    }
}

impl Daemon {
    /// Its process id, as it says itself.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The address that it listens on.
    ///
    /// # Panics
    /// When it listens on none.
    pub fn address(&self) -> String {
        let address = self.told["listeners"][0].as_str();
        address.expect("the daemon listens").to_owned()
    }

    /// The route to it.
    pub fn route(&self) -> String {
        format!("ws://{}", self.address())
    }

    /// Ends it with SIGTERM, and waits until it ended well.
    ///
    /// # Panics
    /// When it does not.
    pub fn stop(mut self) {
        self.process.signal(Signal::TERM);
        let code = self.process.exit();
        assert_eq!(code, 0, "{}", self.process.stderr.text());
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

impl Relay {
    /// The last change of state that it told.
    pub fn last(&self) -> Option<Value> {
        self.process.stdout.json_lines().pop()
    }

    /// Waits until its present state is `state`, and gives the line that says so.
    pub fn wait_state(&self, state: &str) -> Value {
        wait_until(&format!("a relay that is {state}"), || {
            let last = self.last().unwrap_or_default();
            if last["state"] == state {
                return Ok(last);
            }
            Err(format!("{last} {}", self.process.stderr.text()))
        })
    }

    /// Waits until it ended by itself: its exit code and what it said last.
    pub fn ended(mut self) -> (i32, String) {
        let code = self.process.exit();
        let said = self.process.stderr.all();
        (code, String::from_utf8_lossy(&said).trim_end().to_owned())
    }
}
