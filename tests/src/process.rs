//! A child process, and what it printed so far.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};
use serde_json::Value;

pub use rustix::process::Signal;

use crate::{PATIENCE, wait_until};

/// What a stream gave so far; a thread of its own reads it, so that a child never waits for a test.
#[derive(Clone)]
pub struct Seen {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Seen {
    /// Reads `reader` to its end.
    pub fn of(mut reader: impl Read + Send + 'static) -> Self {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let seen = Seen { shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            let mut chunk = [0; 16 << 10];
            loop {
                // A PTY whose other end is gone gives an error instead of an end.
                let count = reader.read(&mut chunk).unwrap_or(0);
                let mut state = shared.0.lock().unwrap();
                state.bytes.extend_from_slice(&chunk[..count]);
                state.ended = count == 0;
                shared.1.notify_all();
                if state.ended {
                    return;
                }
            }
        });
        seen
    }

    /// The bytes so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.shared.0.lock().unwrap().bytes.clone()
    }

    /// The text so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Waits until `look` finds something in the bytes so far.
    ///
    /// # Panics
    /// When the stream ended without, or after [`PATIENCE`]; with the end of what was seen.
    pub fn wait<T>(&self, what: &str, look: impl FnMut(&[u8]) -> Option<T>) -> T {
        self.wait_within(PATIENCE, look).unwrap_or_else(|| {
            let state = self.shared.0.lock().unwrap();
            let tail = &state.bytes[state.bytes.len().saturating_sub(2000)..];
            let how = if state.ended { "ended" } else { "has no" };
            let tail = tail.escape_ascii();
            panic!("{what}: the stream {how} without it; seen: {tail}")
        })
    }

    /// Waits until `look` finds something in the bytes so far; nothing when the stream ended without, or after `time`.
    pub fn wait_within<T>(&self, time: Duration, mut look: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + time;
        let mut state = self.shared.0.lock().unwrap();
        loop {
            if let Some(found) = look(&state.bytes) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return None;
            }
            state = self.shared.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits until `text` is there.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_for(&self, text: &str) {
        self.wait(text, |bytes| String::from_utf8_lossy(bytes).contains(text).then_some(()));
    }

    /// The whole lines so far, as JSON.
    ///
    /// # Panics
    /// When one is none.
    pub fn json_lines(&self) -> Vec<Value> {
        json_lines(&self.bytes())
    }

    /// Waits for a line of JSON for which `look` gives something.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_json<T>(&self, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        self.wait(what, |bytes| json_lines(bytes).iter().find_map(&look))
    }

    /// Waits for the end, and gives everything.
    pub fn all(&self) -> Vec<u8> {
        wait_until("the end of a stream", || {
            let state = self.shared.0.lock().unwrap();
            if state.ended {
                return Ok(());
            }
            Err(String::from_utf8_lossy(&state.bytes).into_owned())
        });
        self.bytes()
    }
}

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| {
            serde_json::from_slice(line).unwrap_or_else(|error| panic!("no JSON ({error}): {}", line.escape_ascii()))
        })
        .collect()
}

/// A child with its three streams. Dropping it kills it.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    /// What it printed.
    pub stdout: Seen,
    /// What it said.
    pub stderr: Seen,
}

impl Process {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Process {
            stdin: child.stdin.take(),
            stdout: Seen::of(child.stdout.take().expect("it was piped")),
            stderr: Seen::of(child.stderr.take().expect("it was piped")),
            child,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its stdin; whether it took it.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let stdin = self.stdin.as_mut().expect("its stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).is_ok()
    }

    /// Closes its stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        signal_process(self.pid(), signal);
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Waits until it ended by itself, and gives its exit code as a shell does.
    pub fn exit(&mut self) -> i32 {
        let status = wait_until("the end of a process", || {
            self.child
                .try_wait()
                .expect("a child can be asked")
                .ok_or_else(|| format!("{}{}", self.stdout.text(), self.stderr.text()))
        });
        exit_code(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The exit code as a shell gives it.
pub fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).expect("it exited or was killed")
}

/// Sends a signal to a process that a test started.
pub fn signal_process(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended by itself.
    let _ = kill_process(pid.expect("a pid is a small positive number"), signal);
}

/// Resident memory of a process, in bytes.
///
/// # Panics
/// When it does not run.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = field.expect("a process that runs has resident memory");
    let kilobytes = kilobytes.trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("it is a number") << 10
}
