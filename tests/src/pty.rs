//! A child under a PTY, as a person has it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::termios::{Termios, tcgetattr};

use crate::process::{Seen, Signal, exit_code, signal_process};
use crate::wait_until;

/// A child with a PTY of 80x24 as its terminal. Dropping it hangs up and kills it.
pub struct Pty {
    master: std::fs::File,
    child: Child,
    /// What it showed.
    pub screen: Seen,
}

impl Pty {
    /// This command, with its own environment, on a PTY of this size.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn of(command: &std::process::Command, cols: u16, rows: u16) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(rows, cols)).unwrap();
        let mut child = pty_process::blocking::Command::new(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            child = match value {
                Some(value) => child.env(name, value),
                None => child.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            child = child.current_dir(directory);
        }
        let child = child.spawn(pts).unwrap();
        let master = std::fs::File::from(OwnedFd::from(pty));
        Pty { screen: Seen::of(master.try_clone().unwrap()), master, child }
    }

    pub(crate) fn spawn<'a>(
        program: &Path,
        arguments: impl Iterator<Item = &'a OsStr>,
        environment: Vec<(&str, PathBuf)>,
        directory: &Path,
    ) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let child = pty_process::blocking::Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .current_dir(directory)
            .spawn(pts)
            .unwrap();
        let master = std::fs::File::from(OwnedFd::from(pty));
        Pty { screen: Seen::of(master.try_clone().unwrap()), master, child }
    }

    /// Types `text`.
    ///
    /// # Panics
    /// When the PTY is gone.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// The terminal's modes, as the child left them.
    ///
    /// # Panics
    /// When the PTY is gone.
    pub fn modes(&self) -> Termios {
        tcgetattr(self.master.as_fd()).unwrap()
    }

    /// Sends the child a signal.
    pub fn signal(&self, signal: Signal) {
        signal_process(self.child.id(), signal);
    }

    /// Waits until the child ended, and gives its exit code as a shell does.
    pub fn exit(&mut self) -> i32 {
        let status = wait_until("the end of a program under a PTY", || {
            let status = self.child.try_wait().expect("a child can be asked");
            status.ok_or_else(|| self.screen.text())
        });
        exit_code(status)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
