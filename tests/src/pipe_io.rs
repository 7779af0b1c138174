//! `attach --pipe-io`, as a program has it.

use serde_json::{Value, json};

use crate::process::{Process, Seen};

/// What stands before every snapshot but the first.
pub const RESET: &[u8] = b"\x1bc";

/// A child of `attach --pipe-io`. Dropping it kills it.
pub struct PipeIo {
    /// Its process.
    pub process: Process,
}

/// How it ended.
#[derive(Debug)]
pub struct End {
    /// Its exit code.
    pub code: i32,
    /// `exit` of its last line.
    pub exit: Value,
    /// Every line on its stderr.
    pub told: Vec<Value>,
}

impl PipeIo {
    pub(crate) fn new(process: Process) -> Self {
        PipeIo { process }
    }

    /// The terminal's bytes so far.
    pub fn output(&self) -> &Seen {
        &self.process.stdout
    }

    /// The lines on its stderr so far.
    pub fn told(&self) -> &Seen {
        &self.process.stderr
    }

    /// Types `text`; whether the program took it.
    pub fn type_text(&mut self, text: &str) -> bool {
        let input = data_encoding::BASE64.encode(text.as_bytes());
        self.line(&json!({ "input": input }))
    }

    /// Asks for a size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.line(&json!({ "resize": { "cols": cols, "rows": rows } }));
    }

    fn line(&mut self, value: &Value) -> bool {
        self.process.write(format!("{value}\n").as_bytes())
    }

    /// Closes its stdin: it ends.
    pub fn detach(mut self) -> End {
        self.process.close_stdin();
        self.ended()
    }

    /// Waits until it ended.
    ///
    /// # Panics
    /// When its last line does not say how.
    pub fn ended(mut self) -> End {
        let code = self.process.exit();
        self.process.stderr.all();
        let told = self.process.stderr.json_lines();
        let exit = told.last().map(|line| line["exit"].clone());
        let exit = exit.filter(|exit| exit["reason"].is_string());
        End { code, exit: exit.unwrap_or_else(|| panic!("the last line is no exit: {told:?}")), told }
    }
}
