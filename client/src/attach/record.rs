//! `terminal record`: what a terminal shows, as asciicast v2.
//!
//! A recording begins with a snapshot and follows the output by its offsets, so that a cut of the link leaves no hole. When so
//! much was missed that only a snapshot goes on, it stands behind a full reset. The file is a header and lines of
//! `[seconds, "o", text]`, `[seconds, "r", "COLSxROWS"]` (docs.asciinema.org, asciicast v2), whole after every line.

use std::io::{self, Write};
use std::time::Instant;

use keepline_protocol::api::Size;
use serde_json::json;

use super::pipe_io::RESET;

/// A recording that is being written.
pub struct Recording<W> {
    out: W,
    began: Option<Instant>,
    title: String,
    size: Option<Size>,
    /// Bytes of a character whose end has not come yet.
    cut: Vec<u8>,
}

impl<W: Write> Recording<W> {
    /// Nothing is written before the first snapshot.
    pub fn new(out: W, title: &str) -> Self {
        Recording { out, began: None, title: title.to_owned(), size: None, cut: Vec::new() }
    }

    /// The terminal has this size from here on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn size(&mut self, size: Size, now: Instant) -> io::Result<()> {
        self.size = Some(size);
        match self.began {
            Some(_) => self.line(now, "r", &format!("{}x{}", size.cols, size.rows)),
            None => Ok(()),
        }
    }

    /// The screen, as bytes for a fresh terminal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn snapshot(&mut self, vt: &[u8], now: Instant) -> io::Result<()> {
        if self.began.is_some() {
            self.cut.clear();
            return self.output(&[RESET, vt].concat(), now);
        }
        self.began = Some(now);
        let Size { cols, rows, .. } = self.size.unwrap_or(Size::cells(80, 24));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let header = json!({
            "version": 2, "width": cols, "height": rows, "timestamp": since.as_secs(), "title": self.title,
            "env": {"TERM": "xterm-256color"},
        });
        writeln!(self.out, "{header}")?;
        self.output(vt, now)
    }

    /// Output that follows.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn output(&mut self, bytes: &[u8], now: Instant) -> io::Result<()> {
        self.cut.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.cut);
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let rest = chunk.invalid();
            // What may still become a character waits for its end.
            let at_end = rest.as_ptr_range().end == bytes.as_ptr_range().end;
            if at_end && matches!(std::str::from_utf8(rest), Err(error) if error.error_len().is_none()) {
                self.cut = rest.to_vec();
            } else if !rest.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if text.is_empty() { Ok(()) } else { self.line(now, "o", &text) }
    }

    fn line(&mut self, now: Instant, kind: &str, data: &str) -> io::Result<()> {
        let began = self.began.unwrap_or(now);
        let seconds = (now.saturating_duration_since(began).as_secs_f64() * 1e6).round() / 1e6;
        // One write a line, so that who is killed leaves whole lines.
        self.out.write_all(format!("{}\n", json!([seconds, kind, data])).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_recording_has_a_header_and_a_line_per_piece() {
        let mut out = Vec::new();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut recording = Recording::new(&mut out, "build");
        recording.size(Size::cells(100, 30), began).unwrap();
        recording.snapshot(b"$ ", began).unwrap();
        recording.output(b"\xe6\xbc", at(500)).unwrap();
        recording.output(b"\xa2\xff!", at(1500)).unwrap();
        recording.size(Size::cells(90, 20), at(2000)).unwrap();
        recording.snapshot(b"again", at(2500)).unwrap();
        let lines: Vec<Value> =
            out.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(
            (&lines[0]["version"], &lines[0]["width"], &lines[0]["height"]),
            (&json!(2), &json!(100), &json!(30))
        );
        assert_eq!(
            lines[1..],
            [
                json!([0.0, "o", "$ "]),
                json!([1.5, "o", "漢\u{fffd}!"]),
                json!([2.0, "r", "90x20"]),
                json!([2.5, "o", "\u{1b}c\u{1b}[3Jagain"]),
            ]
        );
    }
}
