//! Starting this program again in the background.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use keepline_protocol::failure::{Code, Failure};

/// Tells the program that it was started in the background.
const BACKGROUND: &str = "KEEPLINE_BACKGROUND";

/// A program in the background, and where it writes what it has to say.
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
    /// Where this start's words begin in the log.
    from: u64,
}

/// In the background: leaves the terminal it was started from, so that closing that does not end it.
pub(crate) fn leave_terminal() {
    if std::env::var_os(BACKGROUND).is_some() {
        // It fails only for a leader of a process group, which has left already.
        let _ = rustix::process::setsid();
    }
}

/// Starts this program with `arguments` in the background. Its stderr goes to `log`, which is started anew when it has
/// grown.
///
/// # Errors
/// When the program cannot be started or the log not written.
pub(crate) fn start(arguments: &[OsString], log: &Path) -> Result<Background, Failure> {
    const LOG_MAX: u64 = 1 << 20;
    let failed = |error: std::io::Error| {
        Failure::new(
            Code::Failed,
            format!("cannot start keepline in the background: {error}"),
        )
    };
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)
        .map_err(failed)?;
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
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .map_err(failed)?;
    Ok(Background {
        child,
        log: log.to_owned(),
        from,
    })
}

impl Background {
    /// The failure that ended the program, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<Failure> {
        let status = self.child.try_wait().ok().flatten()?;
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
            None => format!(
                "keepline ended in the background ({status}); see {}",
                self.log.display()
            ),
        };
        Some(Failure::new(code, message))
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}
