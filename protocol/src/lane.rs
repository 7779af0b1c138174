//! Lanes: sequences, acknowledgement and replay.
//!
//! A lane numbers its frames when they are written, keeps them until the peer acknowledges them, and after a change of
//! carrier sends again what the peer has not received. So each frame is delivered exactly once and in order.

use std::collections::VecDeque;

use crate::frame::{DATA_HEAD, Frame};

/// A priority and replay class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Keys, resizes, signals, terminal output.
    Interactive,
    /// Requests and graph events.
    Control,
    /// Forwarded sockets.
    Tunnel,
    /// Files, history, big outputs.
    Bulk,
}

impl Lane {
    /// Every lane, the most urgent first.
    pub const ALL: [Lane; 4] = [Lane::Interactive, Lane::Control, Lane::Tunnel, Lane::Bulk];

    /// The lane with these bits on the wire; only the low two are looked at.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Lane::Interactive,
            1 => Lane::Control,
            2 => Lane::Tunnel,
            _ => Lane::Bulk,
        }
    }

    /// The lane's bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The lane's place in arrays by lane.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A cursor that names frames which were never sent, or were forgotten because the peer had acknowledged them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImpossibleCursor;

/// A lane's sending side.
#[derive(Debug)]
pub(crate) struct SendLane {
    /// The sequence that the next new frame gets.
    next: u64,
    /// Frames that were written and not acknowledged, in order; the last one has sequence `next - 1`.
    kept: VecDeque<Frame>,
    /// What `kept` holds, in bytes.
    bytes: usize,
    /// How many of `kept`, from the front, were written on this carrier.
    written: usize,
}

impl SendLane {
    pub(crate) fn new() -> Self {
        SendLane { next: 1, kept: VecDeque::new(), bytes: 0, written: 0 }
    }

    /// The sequence for the next new frame.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Keeps a new frame that is being written now.
    pub(crate) fn keep(&mut self, frame: Frame) {
        debug_assert!(self.missing().is_none(), "what is missing goes before what is new");
        self.next += 1;
        self.bytes += cost(&frame);
        self.kept.push_back(frame);
        self.written += 1;
    }

    /// Bytes kept for replay.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next frame that the peer misses on this carrier.
    pub(crate) fn missing(&self) -> Option<&Frame> {
        self.kept.get(self.written)
    }

    /// Says that the [`missing`](Self::missing) frame is being written.
    pub(crate) fn wrote_missing(&mut self) {
        self.written += 1;
    }

    /// The frames behind `cursor` that were written on some carrier.
    pub(crate) fn after(&self, cursor: u64) -> impl Iterator<Item = &Frame> {
        let acknowledged = self.next - 1 - self.kept.len() as u64;
        let skipped = usize::try_from(cursor.saturating_sub(acknowledged)).unwrap_or(usize::MAX);
        self.kept.iter().skip(skipped)
    }

    /// Says that frames up to and including `sequence` were written on this carrier.
    pub(crate) fn wrote_through(&mut self, sequence: u64) {
        let acknowledged = self.next - 1 - self.kept.len() as u64;
        let written = usize::try_from(sequence.saturating_sub(acknowledged)).unwrap_or(usize::MAX);
        self.written = self.written.max(written.min(self.kept.len()));
    }

    /// The last sequence that was written on this carrier or received on one before.
    pub(crate) fn last_written(&self) -> u64 {
        self.next - 1 - (self.kept.len() - self.written) as u64
    }

    /// Drops what the peer has received, up to and including `cursor`.
    pub(crate) fn acknowledge(&mut self, cursor: u64) -> Result<(), ImpossibleCursor> {
        if cursor >= self.next {
            return Err(ImpossibleCursor);
        }
        let first_kept = self.next - self.kept.len() as u64;
        let gone = cursor.saturating_add(1).saturating_sub(first_kept);
        for _ in 0..gone {
            let frame = self.kept.pop_front().expect("the cursor is below the next sequence, so the frame is kept");
            self.bytes -= cost(&frame);
            self.written = self.written.saturating_sub(1);
        }
        Ok(())
    }

    /// Whether a peer that has received up to and including `cursor` can be sent all that it misses.
    pub(crate) fn can_resume(&self, cursor: u64) -> bool {
        let acknowledged = self.next - 1 - self.kept.len() as u64;
        (acknowledged..self.next).contains(&cursor)
    }

    /// Starts on a new carrier, on which the peer has received up to and including `cursor`, which
    /// [`can_resume`](Self::can_resume).
    pub(crate) fn resume(&mut self, cursor: u64) {
        self.acknowledge(cursor).expect("the cursor was checked");
        self.written = 0;
        #[cfg(test)]
        self.err();
    }

    /// Makes the deliberate faults of a resume.
    #[cfg(test)]
    fn err(&mut self) {
        use crate::fault::{self, Fault};
        if fault::is(Fault::FrameDroppedOnResume) && !self.kept.is_empty() {
            self.written = 1;
        }
        if fault::is(Fault::ReplayDoubled)
            && let Some(Frame::Data { stream, open: false, fin: false, payload, .. }) = self.kept.back().cloned()
        {
            let sequence = self.next;
            self.next += 1;
            self.bytes += DATA_HEAD + payload.len();
            self.kept.push_back(Frame::Data { stream, sequence, open: false, fin: false, payload });
        }
    }
}

/// Bytes that a kept frame counts for.
pub(crate) fn cost(frame: &Frame) -> usize {
    match frame {
        Frame::Data { payload, .. } => DATA_HEAD + payload.len(),
        _ => DATA_HEAD,
    }
}

/// A gap in a lane's sequences, which no honest peer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap;

/// A lane's receiving side.
#[derive(Debug, Default)]
pub(crate) struct ReceiveLane {
    cursor: u64,
    told: u64,
    untold_bytes: usize,
    duplicates: u64,
}

impl ReceiveLane {
    /// Whether the frame with this sequence is the next one; false for one that was received before.
    pub(crate) fn accept(&mut self, sequence: u64, bytes: usize) -> Result<bool, Gap> {
        if sequence == self.cursor + 1 {
            self.cursor = sequence;
            self.untold_bytes += bytes;
            Ok(true)
        } else if sequence <= self.cursor && sequence > 0 {
            self.duplicates += 1;
            Ok(false)
        } else {
            Err(Gap)
        }
    }

    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Whether the peer was told less than was received.
    pub(crate) fn owes(&self) -> bool {
        self.told < self.cursor
    }

    pub(crate) fn untold_bytes(&self) -> usize {
        self.untold_bytes
    }

    /// Says that the peer is being told the cursor.
    pub(crate) fn tell(&mut self) {
        self.told = self.cursor;
        self.untold_bytes = 0;
    }

    /// Frames that arrived more than once.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::stream::StreamId;

    fn frame(sequence: u64) -> Frame {
        let stream = StreamId { lane: Lane::Control, number: 1 };
        Frame::Data { stream, sequence, open: false, fin: false, payload: Bytes::from_static(b"x") }
    }

    fn lane_with(frames: u64) -> SendLane {
        let mut lane = SendLane::new();
        for sequence in 1..=frames {
            assert_eq!(lane.next_sequence(), sequence);
            lane.keep(frame(sequence));
        }
        lane
    }

    #[test]
    fn a_resumed_lane_misses_exactly_what_was_not_received() {
        let mut lane = lane_with(5);
        lane.acknowledge(2).unwrap();
        lane.resume(3);
        let mut missing = Vec::new();
        while let Some(frame) = lane.missing().cloned() {
            missing.push(frame);
            lane.wrote_missing();
        }
        assert_eq!(missing, [frame(4), frame(5)]);
    }

    #[test]
    fn an_acknowledgement_may_overtake_the_replay() {
        let mut lane = lane_with(5);
        lane.resume(0);
        lane.wrote_missing();
        lane.acknowledge(3).unwrap();
        assert_eq!(lane.missing(), Some(&frame(4)));
        lane.acknowledge(3).unwrap();
        lane.acknowledge(1).unwrap();
        assert_eq!(lane.missing(), Some(&frame(4)));
    }

    #[test]
    fn cursors_that_cannot_be_are_refused() {
        let mut lane = lane_with(5);
        assert_eq!(lane.acknowledge(6), Err(ImpossibleCursor));
        lane.acknowledge(4).unwrap();
        assert!(!lane.can_resume(3) && !lane.can_resume(6) && lane.can_resume(4));
        lane.resume(5);
        assert_eq!(lane.bytes(), 0);
    }

    #[test]
    fn duplicates_are_dropped_and_gaps_refused() {
        let mut lane = ReceiveLane::default();
        assert_eq!(lane.accept(1, 1), Ok(true));
        assert_eq!(lane.accept(1, 1), Ok(false));
        assert_eq!(lane.accept(3, 1), Err(Gap));
        assert_eq!(lane.accept(0, 1), Err(Gap));
        assert_eq!((lane.cursor(), lane.duplicates()), (1, 1));
    }
}
