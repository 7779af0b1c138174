//! What a command prints.

use std::io::{ErrorKind, Write};

use keepline_protocol::failure::{Code, Failure};

use super::parse::Unusable;
use super::text::clean;

/// Writes to stdout. False when nobody reads it any more, which ends a command quietly.
pub(super) fn stdout(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Code::Failed, format!("cannot write to stdout: {error}"))),
    }
}

/// Writes a line to stderr. Nobody can be told when that fails.
pub(super) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints help or a version, and gives the exit code.
pub fn show(text: &str) -> u8 {
    stdout(text).map_or(1, |_| 0)
}

/// Says why a command failed, and gives the exit code.
pub fn fail(failure: &Failure) -> u8 {
    let mut lines = clean(&failure.message).into_owned();
    for candidate in &failure.candidates {
        lines.push_str("\n  ");
        lines.push_str(&clean(candidate));
    }
    note(&lines);
    failure.code.exit()
}

/// Says why a command line cannot be used, or shows what it asks for, and gives the exit code.
pub async fn refuse_usage(unusable: &Unusable) -> u8 {
    match unusable {
        Unusable::Show(text) => show(text),
        Unusable::Usage { sentence, pipe_io: false } => fail(&Failure::new(Code::Invalid, sentence)),
        Unusable::Usage { sentence, pipe_io: true } => {
            crate::attach::pipe_io::refuse(&Failure::new(Code::Invalid, sentence)).await
        }
    }
}
