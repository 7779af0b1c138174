//! Input that is not acknowledged yet, so that it reaches its terminal exactly once.
//!
//! A tail counts in two numberings. Its own runs from where it was made and never jumps: this is what its user sees. The
//! peer's is the offset on the wire; it is the same until a peer forgets the attachment and starts counting again.
//!
//! ```text
//!        acknowledged          sent on this connection     end
//!   ──────────┼───────────────────────┼─────────────────────┼──→
//!    trimmed  │ resent after a cut    │ not sent yet        │ room
//! ```

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use crate::bounds::TAIL_MAX;

/// Input that will not be sent (again).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Bytes that were certainly not written to the terminal.
    pub unsent: u64,
    /// Bytes of which it is not known whether they were written.
    pub unknown: u64,
}

impl Lost {
    /// Whether nothing was lost.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.unsent == 0 && self.unknown == 0
    }

    /// All bytes.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.unsent.saturating_add(self.unknown)
    }
}

/// Unacknowledged input, at most [`TAIL_MAX`] bytes.
#[derive(Debug)]
pub struct Tail {
    pieces: VecDeque<Bytes>,
    length: usize,
    /// Own position of the first byte held: everything below is acknowledged or lost.
    start: u64,
    /// Own position of the next byte for this connection.
    next: u64,
    /// Own position below which every byte was once given to a connection.
    given: u64,
    /// The peer's offset for the own position `anchor.0`; both numberings run in step from there.
    anchor: (u64, u64),
}

impl Tail {
    /// An empty tail whose first byte has the position `start` in both numberings.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Tail { pieces: VecDeque::new(), length: 0, start, next: start, given: start, anchor: (start, start) }
    }

    /// Bytes that may be pushed now.
    #[must_use]
    pub fn room(&self) -> usize {
        TAIL_MAX.saturating_sub(self.length)
    }

    /// Whether every byte is acknowledged or lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Own position of the first byte that is not acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.start
    }

    /// Own position of the next byte to be pushed.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    /// Adds as much of `bytes` as there is room for, and takes that from them.
    pub fn push(&mut self, bytes: &mut Bytes) {
        let taken = bytes.split_to(bytes.len().min(self.room()));
        if !taken.is_empty() {
            self.length += taken.len();
            self.pieces.push_back(taken);
        }
    }

    /// The next piece for this connection, at most `longest` bytes, with the peer's offset of its first byte.
    pub fn next_piece(&mut self, longest: usize) -> Option<(u64, Bytes)> {
        let mut skip = self.next - self.start;
        for piece in &self.pieces {
            let length = piece.len() as u64;
            if skip >= length {
                skip -= length;
                continue;
            }
            // Below the length of a piece, which is in memory.
            let from = usize::try_from(skip).ok()?;
            let bytes = piece.slice(from..piece.len().min(from.saturating_add(longest)));
            let offset = self.peer_offset(self.next);
            self.next += bytes.len() as u64;
            self.given = self.given.max(self.next);
            return Some((offset, bytes));
        }
        None
    }

    /// Trims what is below the peer's `offset`. An offset beyond what was given is taken as all of that: a peer cannot
    /// have what it was never sent.
    pub fn acknowledge(&mut self, offset: u64) {
        let position = self.own_position(offset).min(self.given);
        self.trim(position);
    }

    /// Drops `lost` from the front, because the peer said that it will never acknowledge it.
    pub fn drop_lost(&mut self, lost: Lost) {
        let position = self.start.saturating_add(lost.total()).min(self.end());
        self.trim(position);
        self.next = self.next.max(self.start);
        self.given = self.given.max(self.start);
    }

    /// Starts on a new connection whose peer answered that `written` is the highest offset it wrote, and whether it
    /// remembers the attachment. Everything held is then given again from there; what may not be is dropped and named.
    ///
    /// A peer that does not remember may have written any of what was given and not acknowledged. Those bytes are not
    /// repeated, and neither is what follows them: half a line is worse than none.
    pub fn attached(&mut self, written: u64, remembered: bool) -> Lost {
        let mut lost = Lost::default();
        if remembered {
            let position = self.own_position(written).clamp(self.start, self.end());
            self.trim(position);
        } else if self.given > self.start {
            lost = self.abandon();
        }
        self.anchor = (self.start, written);
        self.next = self.start;
        self.given = self.given.max(self.start);
        lost
    }

    /// Gives up everything held and names it.
    pub fn abandon(&mut self) -> Lost {
        let lost =
            Lost { unsent: self.end() - self.given.max(self.start), unknown: self.given.saturating_sub(self.start) };
        let end = self.end();
        self.trim(end);
        self.next = end;
        self.given = end;
        lost
    }

    fn peer_offset(&self, position: u64) -> u64 {
        self.anchor.1.saturating_add(position - self.anchor.0)
    }

    fn own_position(&self, offset: u64) -> u64 {
        self.anchor.0.saturating_add(offset.saturating_sub(self.anchor.1))
    }

    fn trim(&mut self, position: u64) {
        while self.start < position {
            let Some(piece) = self.pieces.front_mut() else {
                break;
            };
            let whole = piece.len();
            let cut = usize::try_from(position - self.start).map_or(whole, |cut| cut.min(whole));
            piece.advance(cut);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
            self.start += cut as u64;
            self.length -= cut;
        }
        self.next = self.next.max(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(tail: &mut Tail, text: &'static str) {
        let mut bytes = Bytes::from_static(text.as_bytes());
        tail.push(&mut bytes);
        assert!(bytes.is_empty());
    }

    fn drain(tail: &mut Tail, longest: usize) -> (Option<u64>, String) {
        let (mut first, mut text) = (None, String::new());
        while let Some((offset, bytes)) = tail.next_piece(longest) {
            assert_eq!(offset, first.unwrap_or(offset) + text.len() as u64);
            first.get_or_insert(offset);
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        (first, text)
    }

    #[test]
    fn what_is_not_acknowledged_is_given_again_and_nothing_else() {
        let mut tail = Tail::new(0);
        push(&mut tail, "hello ");
        push(&mut tail, "world");
        assert_eq!(drain(&mut tail, 4), (Some(0), "hello world".into()));
        tail.acknowledge(3);
        assert_eq!((tail.acknowledged(), tail.end()), (3, 11));
        push(&mut tail, "!");
        assert!(tail.attached(8, true).is_nothing());
        assert_eq!(drain(&mut tail, 100), (Some(8), "rld!".into()));
        tail.acknowledge(12);
        assert!(tail.is_empty());
        assert_eq!(tail.next_piece(9), None);
    }

    #[test]
    fn a_peer_that_forgot_costs_what_was_given_and_the_rest_behind_it() {
        let mut tail = Tail::new(0);
        push(&mut tail, "abcdef");
        tail.next_piece(4);
        tail.acknowledge(1);
        let lost = tail.attached(0, false);
        assert_eq!(lost, Lost { unsent: 2, unknown: 3 });
        push(&mut tail, "xyz");
        // The peer counts from 0 again, the tail goes on.
        assert_eq!(tail.acknowledged(), 6);
        assert_eq!(drain(&mut tail, 9), (Some(0), "xyz".into()));
        tail.acknowledge(2);
        assert_eq!(tail.acknowledged(), 8);
        assert!(tail.attached(2, true).is_nothing());
        assert_eq!(drain(&mut tail, 9), (Some(2), "z".into()));
    }

    #[test]
    fn what_was_never_given_is_not_lost_when_the_peer_forgot() {
        let mut tail = Tail::new(0);
        push(&mut tail, "ab");
        drain(&mut tail, 9);
        tail.acknowledge(2);
        push(&mut tail, "cd");
        assert!(tail.attached(0, false).is_nothing());
        assert_eq!(drain(&mut tail, 9), (Some(0), "cd".into()));
    }

    #[test]
    fn bytes_given_before_a_second_cut_stay_unknown() {
        let mut tail = Tail::new(0);
        push(&mut tail, "abcd");
        drain(&mut tail, 9);
        tail.attached(1, true);
        assert_eq!(tail.attached(0, false), Lost { unsent: 0, unknown: 3 });
    }

    #[test]
    fn a_relays_lost_is_dropped_from_the_front() {
        let mut tail = Tail::new(0);
        push(&mut tail, "abcdef");
        tail.next_piece(3);
        tail.drop_lost(Lost { unsent: 1, unknown: 3 });
        assert_eq!(drain(&mut tail, 9), (Some(4), "ef".into()));
        tail.drop_lost(Lost { unsent: 0, unknown: u64::MAX });
        assert!(tail.is_empty());
        assert_eq!(tail.end(), 6);
    }

    #[test]
    fn a_peer_that_lies_about_offsets_breaks_nothing() {
        let mut tail = Tail::new(10);
        push(&mut tail, "abc");
        tail.acknowledge(u64::MAX);
        assert_eq!(tail.acknowledged(), 10, "nothing was given yet");
        tail.next_piece(1);
        tail.acknowledge(u64::MAX);
        assert_eq!(tail.acknowledged(), 11);
        tail.acknowledge(0);
        assert!(tail.attached(u64::MAX, true).is_nothing());
        assert!(tail.is_empty());
        push(&mut tail, "d");
        assert_eq!(tail.next_piece(9).unwrap().0, u64::MAX);
        assert!(tail.attached(3, true).is_nothing());
        assert_eq!(drain(&mut tail, 9), (Some(3), "d".into()));
    }

    #[test]
    fn it_is_bounded() {
        let mut tail = Tail::new(0);
        let mut bytes = Bytes::from(vec![7; TAIL_MAX + 5]);
        tail.push(&mut bytes);
        assert_eq!((bytes.len(), tail.room()), (5, 0));
        tail.push(&mut bytes);
        assert_eq!(bytes.len(), 5);
        tail.next_piece(3);
        tail.acknowledge(3);
        tail.push(&mut bytes);
        assert_eq!(bytes.len(), 2);
    }
}
