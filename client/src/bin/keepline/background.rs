//! Starting this program again in the background.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Tells the program that it was started in the background.
const BACKGROUND: &str = "KEEPLINE_BACKGROUND";

/// A program in the background, and where it writes what it has to say.
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
    /// Where this start's words begin in the log.
    from: u64,
}

/// How long a program in the background may take to end when it is told to.
const END_TIME: Duration = Duration::from_secs(5);

/// Whether this program was started in the background.
pub(crate) fn is_background() -> bool {
    std::env::var_os(BACKGROUND).is_some()
}

/// In the background: leaves the terminal it was started from, so that closing that does not end it.
pub(crate) fn leave_terminal() {
    if is_background() {
        // It fails only for a leader of a process group, which has left already.
        let _ = rustix::process::setsid();
    }
}

/// Starts this program with `arguments` in the background. Its stderr goes to `log`, which is started anew when it has
/// grown; its stdout ends when nobody reads it any more.
///
/// # Errors
/// When the program cannot be started or the log not written.
pub(crate) fn start(arguments: &[OsString], log: &Path) -> Result<Background, Failure> {
    const LOG_MAX: u64 = 1 << 20;
    let failed =
        |error: std::io::Error| Failure::new(Code::Failed, format!("cannot start keepline in the background: {error}"));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log).map_err(failed)?;
    let mut from = file.metadata().map_err(failed)?.len();
    if from > LOG_MAX {
        file.set_len(0).map_err(failed)?;
        from = 0;
    }
    let child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(arguments)
        .env(BACKGROUND, "1")
        // A program in a terminal of keepline's starts a daemon or relay of its own right.
        .env_remove("KEEPLINE_TERMINAL_ID")
        .env_remove("KEEPLINE_SOCKET")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .map_err(failed)?;
    Ok(Background { child, log: log.to_owned(), from })
}

impl Background {
    /// What the program prints, line by line.
    pub(crate) fn lines(&mut self) -> Option<Lines<BufReader<ChildStdout>>> {
        Some(BufReader::new(self.child.stdout.take()?).lines())
    }

    /// The failure that ended the program, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<Failure> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(self.failure(status))
    }

    /// Waits until the program has ended, and gives the failure that ended it.
    pub(crate) async fn end(&mut self) -> Failure {
        match self.child.wait().await {
            Ok(status) => self.failure(status),
            Err(error) => Failure::new(Code::Failed, format!("cannot wait for keepline: {error}")),
        }
    }

    /// Tells the program to end, and sees to it that it does.
    pub(crate) async fn stop(&mut self) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(END_TIME, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    fn failure(&self, status: ExitStatus) -> Failure {
        let code = status.code().map_or(Code::Failed, |code| match code {
            2 => Code::Invalid,
            3 => Code::Busy,
            4 => Code::NotFound,
            6 => Code::Refused,
            _ => Code::Failed,
        });
        let mut said = String::new();
        if let Ok(mut file) = std::fs::File::open(&self.log) {
            let _ = file.seek(SeekFrom::Start(self.from));
            let _ = file.take(64 << 10).read_to_string(&mut said);
        }
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let message = match last {
            Some(line) => line.trim_start_matches("keepline: ").to_owned(),
            None => format!("keepline ended in the background ({status}); see {}", self.log.display()),
        };
        Failure::new(code, message)
    }

    /// The process id, until it has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}
