//! Lines of a bounded length.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The line.
    Whole(Bytes),
    /// A line over the bound, which was skipped to its end.
    TooLong,
}

/// Gathers bytes into lines; what it holds is bounded by the longest line and one read.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    buffer: BytesMut,
    /// Bytes at the buffer's start that are known to hold no line end.
    searched: usize,
    skipping: bool,
    longest: usize,
}

impl LineBuffer {
    pub(crate) fn new(longest: usize) -> Self {
        LineBuffer { buffer: BytesMut::new(), searched: 0, skipping: false, longest }
    }

    /// Adds bytes, after [`take`](Self::take) has given every line there was.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line, when its end is there.
    pub(crate) fn take(&mut self) -> Option<Line> {
        let found = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n').map(|at| self.searched + at);
        match found {
            None if self.skipping || self.buffer.len() > self.longest => {
                self.buffer.clear();
                self.searched = 0;
                self.skipping = true;
                None
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
            Some(at) => {
                let line = self.buffer.split_to(at);
                self.buffer.advance(1);
                self.searched = 0;
                if std::mem::take(&mut self.skipping) || line.len() > self.longest {
                    return Some(Line::TooLong);
                }
                Some(Line::Whole(line.freeze()))
            }
        }
    }

    /// At the end of the input: the line that has no end.
    pub(crate) fn rest(&mut self) -> Option<Line> {
        self.searched = 0;
        let line = self.buffer.split();
        if std::mem::take(&mut self.skipping) {
            return Some(Line::TooLong);
        }
        (!line.is_empty()).then(|| Line::Whole(line.freeze()))
    }
}

/// Reads lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    lines: LineBuffer,
}

const READ: usize = 16 << 10;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, longest: usize) -> Self {
        Lines { reader, lines: LineBuffer::new(longest) }
    }

    /// Reads on from `prefix`, which was read already.
    pub(crate) fn with_prefix(reader: R, longest: usize, prefix: &[u8]) -> Self {
        let mut lines = Lines::new(reader, longest);
        lines.lines.push(prefix);
        lines
    }

    /// Waits for the next line; nothing at the end of the input, where an unfinished line counts as a line. May be
    /// dropped while it waits without losing anything.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.take() {
                return Ok(Some(line));
            }
            self.lines.buffer.reserve(READ);
            if self.reader.read_buf(&mut self.lines.buffer).await? == 0 {
                return Ok(self.lines.rest());
            }
        }
    }

    /// The reader, and what was read behind the last line.
    pub(crate) fn into_parts(self) -> (R, BytesMut) {
        (self.reader, self.lines.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], longest: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, longest);
        let mut got = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            got.push(line);
        }
        got
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_come_whole_and_a_long_one_costs_only_itself() {
        assert_eq!(all(b"a\n\nbc\nrest", 4).await, [whole("a"), whole(""), whole("bc"), whole("rest")]);
        let mut input = vec![b'x'; 100_000];
        input.extend_from_slice(b"\nab\n12345\ncd\n");
        assert_eq!(all(&input, 4).await, [Line::TooLong, whole("ab"), Line::TooLong, whole("cd")]);
        assert_eq!(all(&[b'x'; 100], 4).await, [Line::TooLong]);
    }
}
