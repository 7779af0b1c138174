//! The rows that scrolled off the main screen, oldest first, within bounds of bytes and lines.

use std::collections::VecDeque;

use crate::packed::Packed;

/// What one entry costs besides its bytes.
const ENTRY: usize = size_of::<Packed>();

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bytes of memory that all lines together take. Past it the oldest go.
    pub history_bytes: usize,
    /// Lines. Past it the oldest go.
    pub history_lines: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { history_bytes: crate::bounds::HISTORY_BYTES, history_lines: crate::bounds::HISTORY_LINES }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct History {
    lines: VecDeque<Packed>,
    bytes: usize,
    /// Lines of this epoch that are no longer kept: the id of the oldest kept one.
    first: u64,
    pub(crate) epoch: u64,
    pub(crate) limits: Limits,
}

impl History {
    pub(crate) fn new(limits: Limits) -> Self {
        History { lines: VecDeque::new(), bytes: 0, first: 0, epoch: 0, limits }
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The id of the oldest line.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The id that the next line gets, which is also that of the screen's first row.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// The line with this index, 0 the oldest.
    pub(crate) fn line(&self, index: usize) -> Option<&Packed> {
        self.lines.get(index)
    }

    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &Packed> + ExactSizeIterator {
        self.lines.iter()
    }

    pub(crate) fn push(&mut self, line: Packed) {
        self.bytes += line.memory() + ENTRY;
        self.lines.push_back(line);
        while self.bytes > self.limits.history_bytes || self.lines.len() > self.limits.history_lines {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.memory() + ENTRY;
            self.first += 1;
        }
    }

    /// Starts a new range of ids with these lines.
    pub(crate) fn begin(&mut self, epoch: u64, first: u64, lines: impl IntoIterator<Item = Packed>) {
        self.lines.clear();
        self.bytes = 0;
        self.first = first;
        self.epoch = epoch;
        for line in lines {
            self.push(line);
        }
    }

    /// Hands out all lines, to be given back with [`begin`](Self::begin).
    pub(crate) fn take(&mut self) -> VecDeque<Packed> {
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes + (self.lines.capacity() - self.lines.len()) * ENTRY
    }

    pub(crate) fn shrink(&mut self) {
        self.lines.shrink_to_fit();
    }
}
