//! The newest output of a terminal, by offset, with the resizes that lie between.
//!
//! Everybody who reads a terminal's output is a [`Position`] in the one [`Output`]; nobody has a buffer of their own.

use std::collections::VecDeque;

use bytes::Bytes;
use keepline_protocol::api::Size;

use crate::bounds::{OUTPUT_MAX, RESIZES_MAX};

/// A place in a terminal's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Bytes since the terminal's birth.
    pub(super) offset: u64,
    /// Resizes since the terminal's birth. Several may stand at one offset, so the offset alone does not say which of
    /// them were seen.
    pub(super) resizes: u64,
}

/// What is next at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Bytes from this offset, never none, up to the next resize at most.
    Bytes(u64, Bytes),
    /// The size from here on.
    Resize(Size),
    /// Nothing yet.
    Nothing,
    /// What came next is forgotten.
    Lagged,
}

struct Resize {
    offset: u64,
    size: Size,
}

/// The newest [`OUTPUT_MAX`] bytes of output and the resizes among them.
pub(super) struct Output {
    bytes: VecDeque<u8>,
    /// Offset of the first byte kept.
    tail: u64,
    resizes: VecDeque<Resize>,
    /// Resizes that are no longer kept.
    forgotten: u64,
    /// The size before the first resize kept.
    size_before: Size,
}

impl Output {
    /// No output yet, of a terminal that was born with this size.
    pub(super) fn new(size: Size) -> Self {
        Output { bytes: VecDeque::new(), tail: 0, resizes: VecDeque::new(), forgotten: 0, size_before: size }
    }

    /// Offset of the next byte to come.
    pub(super) fn head(&self) -> u64 {
        self.tail + self.bytes.len() as u64
    }

    /// Adds the program's newest output.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(OUTPUT_MAX);
        let kept = &bytes[skipped..];
        let surplus = (self.bytes.len() + kept.len()).saturating_sub(OUTPUT_MAX);
        self.bytes.drain(..surplus);
        self.bytes.extend(kept);
        self.tail += (surplus + skipped) as u64;
        self.forget_resizes();
    }

    /// Notes that the terminal has another size from here on.
    pub(super) fn resize(&mut self, size: Size) {
        if self.resizes.len() == RESIZES_MAX {
            self.forget_resize();
        }
        self.resizes.push_back(Resize { offset: self.head(), size });
    }

    /// What is next at `position`, at most `max` bytes of it; the position moves past what is returned.
    pub(super) fn read(&self, position: &mut Position, max: usize) -> Next {
        if position.offset < self.tail || position.offset > self.head() || position.resizes < self.forgotten {
            return Next::Lagged;
        }
        let resize = self.resizes.get((position.resizes - self.forgotten) as usize);
        if let Some(resize) = resize.filter(|resize| resize.offset <= position.offset) {
            position.resizes += 1;
            return Next::Resize(resize.size);
        }
        let end = resize.map_or(self.head(), |resize| resize.offset);
        let length = ((end - position.offset) as usize).min(max);
        if length == 0 {
            return Next::Nothing;
        }
        let from = (position.offset - self.tail) as usize;
        let (front, back) = self.bytes.as_slices();
        let bytes = if from >= front.len() {
            let from = from - front.len();
            Bytes::copy_from_slice(&back[from..from + length])
        } else if from + length <= front.len() {
            Bytes::copy_from_slice(&front[from..from + length])
        } else {
            let mut joined = Vec::with_capacity(length);
            joined.extend_from_slice(&front[from..]);
            joined.extend_from_slice(&back[..length - joined.len()]);
            joined.into()
        };
        let offset = position.offset;
        position.offset += length as u64;
        Next::Bytes(offset, bytes)
    }

    /// The position of somebody who holds all output below `offset`, and the size there; nothing when that place is no
    /// longer, or not yet, in the output.
    pub(super) fn position(&self, offset: u64) -> Option<(Position, Size)> {
        if offset < self.tail || offset > self.head() {
            return None;
        }
        // Whether a resize at this very offset was seen is not known; seeing it again changes nothing.
        let passed = self.resizes.partition_point(|resize| resize.offset < offset);
        let size = match passed.checked_sub(1) {
            Some(last) => self.resizes[last].size,
            None => self.size_before,
        };
        let resizes = self.forgotten + passed as u64;
        Some((Position { offset, resizes }, size))
    }

    /// Forgets all but the newest `keep` bytes and gives the memory back.
    pub(super) fn shrink(&mut self, keep: usize) {
        let surplus = self.bytes.len().saturating_sub(keep);
        self.bytes.drain(..surplus);
        self.bytes.shrink_to_fit();
        self.tail += surplus as u64;
        self.forget_resizes();
    }

    fn forget_resizes(&mut self) {
        while self.resizes.front().is_some_and(|resize| resize.offset < self.tail) {
            self.forget_resize();
        }
    }

    fn forget_resize(&mut self) {
        if let Some(resize) = self.resizes.pop_front() {
            self.size_before = resize.size;
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Position = Position { offset: 0, resizes: 0 };
    const BIRTH: Size = Size::cells(80, 24);

    #[test]
    fn bytes_stop_at_a_resize_and_go_on_behind_it() {
        let mut output = Output::new(BIRTH);
        output.append(b"ab");
        output.resize(Size::cells(90, 24));
        output.resize(Size::cells(91, 24));
        output.append(b"cd");
        let mut position = START;
        assert_eq!(output.read(&mut position, 1), Next::Bytes(0, "a".into()));
        assert_eq!(output.read(&mut position, 9), Next::Bytes(1, "b".into()));
        assert_eq!(output.read(&mut position, 9), Next::Resize(Size::cells(90, 24)));
        assert_eq!(output.read(&mut position, 9), Next::Resize(Size::cells(91, 24)));
        assert_eq!(output.read(&mut position, 9), Next::Bytes(2, "cd".into()));
        assert_eq!(output.read(&mut position, 9), Next::Nothing);
    }

    #[test]
    fn the_size_at_an_offset_is_known() {
        let mut output = Output::new(BIRTH);
        output.append(b"ab");
        output.resize(Size::cells(90, 24));
        output.append(b"cd");
        let (mut position, size) = output.position(2).unwrap();
        assert_eq!(size, BIRTH);
        assert_eq!(output.read(&mut position, 9), Next::Resize(Size::cells(90, 24)));
        let (mut position, size) = output.position(3).unwrap();
        assert_eq!(size, Size::cells(90, 24));
        assert_eq!(output.read(&mut position, 9), Next::Bytes(3, "d".into()));
        assert_eq!(output.position(5), None);
    }

    #[test]
    fn only_the_newest_bytes_are_kept_and_a_reader_of_older_ones_lags() {
        let mut output = Output::new(BIRTH);
        output.append(b"old");
        output.resize(Size::cells(90, 24));
        for piece in 0..40 {
            output.append(&vec![piece; OUTPUT_MAX / 20]);
        }
        assert_eq!(output.read(&mut START.clone(), 9), Next::Lagged);
        assert_eq!(output.position(0), None);
        let (mut position, size) = output.position(output.tail).unwrap();
        assert_eq!(size, Size::cells(90, 24));
        let mut got = 0;
        while let Next::Bytes(_, bytes) = output.read(&mut position, 10_000) {
            got += bytes.len();
        }
        assert!((OUTPUT_MAX - 20..=OUTPUT_MAX).contains(&got));
        output.append(&vec![7; 3 * OUTPUT_MAX]);
        assert_eq!(output.head() - output.tail, OUTPUT_MAX as u64);
    }

    #[test]
    fn memory_is_given_back() {
        let mut output = Output::new(BIRTH);
        output.append(&vec![1; OUTPUT_MAX]);
        let head = output.head();
        output.shrink(100);
        assert_eq!((output.head(), output.tail), (head, head - 100));
        assert!(output.bytes.capacity() < 1000);
    }

    #[test]
    fn endless_resizes_cost_nothing_and_make_a_reader_lag() {
        let mut output = Output::new(BIRTH);
        for cols in 0..2000 {
            output.resize(Size::cells(cols, 24));
        }
        assert_eq!(output.resizes.len(), RESIZES_MAX);
        assert_eq!(output.read(&mut START.clone(), 9), Next::Lagged);
    }
}
