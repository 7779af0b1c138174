//! Streams: conversations within a lane, with credit and turns.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::Time;
use crate::bounds::{STREAM_QUANTUM, STREAM_WINDOW, STREAM_WINDOW_FIRST, STREAM_WINDOW_MAX};
use crate::lane::Lane;

/// One stream of a link. Odd numbers are the client's, even ones the daemon's; a lane's numbers are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The lane, for the stream's whole life.
    pub lane: Lane,
    /// The number within the lane.
    pub number: u32,
}

/// Reset code of a stream whose reader or writer went away.
pub const CANCELLED: u16 = 1;
/// Reset code of a stream whose peer broke the protocol of messages.
pub const MALFORMED: u16 = 2;

/// What a stream gives its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Bytes.
    Data(Bytes),
    /// Nothing now; a [`Readable`](crate::link::Event::Readable) event follows when there is.
    Blocked,
    /// The peer finished.
    Finished,
    /// The peer, or this end, gave the stream up, with this code.
    Reset(u16),
}

/// A stream that does not take more: it was finished, given up, or never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct StreamClosed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fin {
    No,
    Queued,
    Sent,
}

/// Both directions of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// Opened by the peer.
    pub(crate) foreign: bool,
    /// It counts as open: always when the peer opened it, else when there was a place for it among this end's.
    pub(crate) placed: bool,

    queue: VecDeque<Bytes>,
    queued: usize,
    sent: u64,
    credit: u64,
    /// The frame with the `open` flag was written.
    opened: bool,
    pub(crate) fin: Fin,
    /// Why this end's writer must stop: the peer or we gave the stream up.
    pub(crate) stopped: Option<u16>,
    /// The writer found no room and wants to hear when there is.
    starved: bool,

    inbox: VecDeque<Bytes>,
    received: u64,
    consumed: u64,
    granted: u64,
    /// What the stream is topped up to while the link has room.
    window: u64,
    /// What was granted and not consumed when credit was granted last, and when that was.
    share: u64,
    granted_at: Option<Time>,
    /// Bytes of a message that the application is gathering or working on, as far as the link counts them.
    pub(crate) gathered: u64,
    ended: Option<Ended>,
    /// The reader knows of the end.
    end_read: bool,
    /// Nobody reads any more.
    pub(crate) discard: bool,
    /// A `Credit` frame is due.
    credit_due: bool,
    /// The stream waits in the link's queue of such frames.
    credit_listed: bool,

    /// In one of the lane's queues of turns, which is so exactly when the stream can send.
    pub(crate) listed: bool,
    pub(crate) round: u64,
    pub(crate) deficit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Fin,
    Reset(u16),
}

/// What a peer did with a stream that it may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    OverCredit,
    AfterEnd,
}

/// What arrived for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// The reader had nothing to read before.
    pub(crate) wake: bool,
}

/// A piece of a stream for one frame.
pub(crate) struct Piece {
    pub(crate) payload: Bytes,
    pub(crate) open: bool,
    pub(crate) fin: bool,
}

impl Stream {
    pub(crate) fn new(id: StreamId, foreign: bool) -> Self {
        Stream {
            id,
            foreign,
            placed: foreign,
            queue: VecDeque::new(),
            queued: 0,
            sent: 0,
            credit: STREAM_WINDOW_FIRST,
            opened: foreign,
            fin: Fin::No,
            stopped: None,
            starved: false,
            inbox: VecDeque::new(),
            received: 0,
            consumed: 0,
            granted: STREAM_WINDOW_FIRST,
            window: STREAM_WINDOW[id.lane.index()],
            share: STREAM_WINDOW_FIRST,
            granted_at: None,
            gathered: 0,
            ended: None,
            end_read: false,
            discard: false,
            credit_due: false,
            credit_listed: false,
            listed: false,
            // No round has this number, so the first listing begins with a whole quantum.
            round: u64::MAX,
            deficit: 0,
        }
    }

    // The writer's side.

    fn open_for_writing(&self) -> Result<(), StreamClosed> {
        if self.fin == Fin::No && self.stopped.is_none() { Ok(()) } else { Err(StreamClosed) }
    }

    /// How many bytes the writer may queue now, where `limit` may be queued. It is not called for less than half of that
    /// while there is something to write meanwhile.
    pub(crate) fn capacity(&mut self, limit: usize) -> Result<usize, StreamClosed> {
        self.open_for_writing()?;
        let room = match limit.saturating_sub(self.queued) {
            room if room < limit / 2 => 0,
            room => room,
        };
        // Beyond the credit nothing is queued, so that what a consumer did not make room for stays with its maker.
        let credit = self.credit - self.sent - (self.queued as u64).min(self.credit - self.sent);
        let capacity = room.min(usize::try_from(credit).unwrap_or(usize::MAX));
        self.starved = capacity == 0;
        Ok(capacity)
    }

    pub(crate) fn write(&mut self, bytes: Bytes) -> Result<(), StreamClosed> {
        self.open_for_writing()?;
        if !bytes.is_empty() {
            self.queued += bytes.len();
            self.queue.push_back(bytes);
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), StreamClosed> {
        self.open_for_writing()?;
        self.fin = Fin::Queued;
        Ok(())
    }

    /// Whether a starved writer has room again; true once.
    pub(crate) fn relieved(&mut self, limit: usize) -> bool {
        self.starved && (self.stopped.is_some() || self.capacity(limit).is_ok_and(|capacity| capacity > 0)) && {
            self.starved = false;
            true
        }
    }

    pub(crate) fn raise_credit(&mut self, limit: u64) {
        self.credit = self.credit.max(limit);
    }

    pub(crate) fn can_send(&self) -> bool {
        self.stopped.is_none() && if self.queued > 0 { self.credit > self.sent } else { self.fin == Fin::Queued }
    }

    /// Takes at most `most` bytes for a frame; only when [`can_send`](Self::can_send).
    pub(crate) fn take_piece(&mut self, most: usize) -> Piece {
        let credit = usize::try_from(self.credit - self.sent).unwrap_or(usize::MAX);
        let most = most.min(credit).min(self.queued);
        let payload = self.dequeue(most);
        self.queued -= payload.len();
        self.sent += payload.len() as u64;
        let open = !std::mem::replace(&mut self.opened, true);
        let fin = self.queued == 0 && self.fin == Fin::Queued;
        if fin {
            self.fin = Fin::Sent;
        }
        Piece { payload, open, fin }
    }

    /// The first `most` queued bytes; one chunk is passed on as it is, several are gathered.
    fn dequeue(&mut self, most: usize) -> Bytes {
        let mut gathered = BytesMut::new();
        while gathered.len() < most {
            let front = self.queue.front_mut().expect("`most` is within what is queued");
            let part = front.split_to(front.len().min(most - gathered.len()));
            if front.is_empty() {
                self.queue.pop_front();
            }
            if part.len() == most {
                return part;
            }
            gathered.extend_from_slice(&part);
        }
        gathered.freeze()
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Whether the peer has heard of this stream.
    pub(crate) fn opened(&self) -> bool {
        self.opened
    }

    /// Gives up what is queued, and takes nothing more.
    pub(crate) fn stop(&mut self, code: u16) {
        self.queue.clear();
        self.queued = 0;
        self.stopped.get_or_insert(code);
    }

    // The reader's side.

    pub(crate) fn receive(&mut self, payload: Bytes, fin: bool) -> Result<Arrived, Violation> {
        match self.ended {
            None => {}
            // The peer's frames that were under way when this end gave up.
            Some(Ended::Reset(_)) => return Ok(Arrived { wake: false }),
            Some(Ended::Fin) => return Err(Violation::AfterEnd),
        }
        self.received += payload.len() as u64;
        if self.received > self.granted {
            return Err(Violation::OverCredit);
        }
        #[cfg(test)]
        if crate::fault::is(crate::fault::Fault::CreditOnReceipt) {
            self.credit_due = true;
        }
        let wake = self.inbox.is_empty();
        if self.discard {
            self.consume(payload.len());
        } else if !payload.is_empty() {
            self.inbox.push_back(payload);
        }
        if fin {
            self.ended = Some(Ended::Fin);
            self.granted = self.received;
        }
        Ok(Arrived { wake })
    }

    pub(crate) fn receive_reset(&mut self, code: u16) {
        if self.ended.is_none() {
            self.inbox.clear();
            self.ended = Some(Ended::Reset(code));
            (self.granted, self.consumed) = (self.received, self.received);
        }
    }

    pub(crate) fn read(&mut self) -> Read {
        match (self.inbox.front_mut(), self.ended) {
            (Some(front), _) => {
                // In pieces, so that a reader which stops to gather holds little beyond what it was given credit for.
                let piece = front.len().min(STREAM_WINDOW_FIRST as usize);
                let bytes = front.split_to(piece);
                if front.is_empty() {
                    self.inbox.pop_front();
                }
                self.consume(bytes.len());
                Read::Data(bytes)
            }
            (None, None) => Read::Blocked,
            (None, Some(ended)) => {
                self.end_read = true;
                match ended {
                    Ended::Fin => Read::Finished,
                    Ended::Reset(code) => Read::Reset(code),
                }
            }
        }
    }

    /// Credit is due here and nowhere else but for a beginning: when bytes are consumed, not when they arrive.
    fn consume(&mut self, bytes: usize) {
        self.consumed += bytes as u64;
        if self.ended.is_none() && self.granted - self.consumed <= self.share / 2 {
            self.credit_due = true;
        }
    }

    /// Says that the stream begins: its reader grants more than every stream begins with.
    pub(crate) fn begin_credit(&mut self) {
        self.credit_due = self.ended.is_none();
    }

    /// What this end granted beyond what a receiver always allows, and was not consumed.
    pub(crate) fn beyond(&self) -> u64 {
        (self.granted - self.consumed).saturating_sub(STREAM_WINDOW_FIRST)
    }

    /// Whether the stream must be put into the queue of credit frames; true once per frame.
    pub(crate) fn list_credit(&mut self) -> bool {
        self.credit_due && !std::mem::replace(&mut self.credit_listed, true)
    }

    /// The limit for the credit frame that is being written, with at most `spare` more [`beyond`](Self::beyond).
    ///
    /// The window doubles when the stream had a whole one and half of it was consumed within two round trips: then it
    /// may be the window that bounds the rate.
    pub(crate) fn take_credit(&mut self, now: Time, round_trip: Option<Duration>, spare: u64) -> u64 {
        self.credit_due = false;
        self.credit_listed = false;
        if self.ended.is_some() {
            return self.granted;
        }
        let left = self.granted - self.consumed;
        if left <= self.share / 2 {
            let since = self.granted_at.replace(now).map(|at| now.since(at));
            let quickly = since.zip(round_trip).is_some_and(|(t, rtt)| t < 2 * rtt);
            if quickly && self.share >= self.window {
                self.window = (self.window * 2).min(STREAM_WINDOW_MAX[self.id.lane.index()]);
            }
        }
        let most = STREAM_WINDOW_FIRST + self.beyond() + spare;
        self.share = self.window.min(most).max(left);
        self.granted = self.consumed + self.share;
        #[cfg(test)]
        if crate::fault::is(crate::fault::Fault::CreditOnReceipt) {
            self.granted = self.received + self.share;
        }
        self.granted
    }

    /// After a change of carrier the peer may believe in less credit than it has, because credit frames are not replayed.
    pub(crate) fn repeat_credit(&mut self) {
        self.credit_due |= self.granted > STREAM_WINDOW_FIRST && self.ended.is_none();
    }

    /// Checks what holds at every moment: nobody may send more than a window beyond what was consumed.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let unread = self.received - self.consumed;
        assert!(
            self.granted - self.consumed <= self.window && unread <= self.window,
            "{:?} has more credit than a window",
            self.id
        );
    }

    pub(crate) fn receiving_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether nothing is left to do for either direction.
    pub(crate) fn over(&self) -> bool {
        let writing_over = self.fin == Fin::Sent || self.stopped.is_some();
        writing_over && self.ended.is_some() && (self.end_read || self.discard)
    }
}

/// The order in which a lane's streams send: deficit round robin, and a stream that was quiet goes first.
///
/// A stream is quiet when it has not used up its quantum in the present round; a round ends when one has. So a stream
/// that sends a little now and then overtakes the busy ones, and cannot do so for more than a quantum.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Each with what it may still send in this round, those with the most first: a keystroke goes before the end of a
    /// burst.
    quiet: VecDeque<(usize, u32)>,
    busy: VecDeque<u32>,
    round: u64,
    quantum: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { quiet: VecDeque::new(), busy: VecDeque::new(), round: 0, quantum: STREAM_QUANTUM }
    }
}

impl Turns {
    pub(crate) fn is_empty(&self) -> bool {
        self.quiet.is_empty() && self.busy.is_empty()
    }

    /// Takes what a packet may hold for a quantum, if it is less.
    pub(crate) fn within(&mut self, packet: usize) {
        self.quantum = packet.min(STREAM_QUANTUM);
    }

    /// Lists a stream that has become able to send.
    pub(crate) fn list(&mut self, stream: &mut Stream) {
        if stream.listed || !stream.can_send() {
            return;
        }
        if stream.round != self.round {
            stream.round = self.round;
            stream.deficit = self.quantum;
        }
        stream.listed = true;
        let entry = (stream.deficit, stream.id.number);
        if stream.deficit > 0 {
            let place = self.quiet.partition_point(|(most, _)| *most >= entry.0);
            self.quiet.insert(place, entry);
        } else {
            stream.deficit = self.quantum;
            self.busy.push_back(stream.id.number);
        }
    }

    /// Takes a stream off that is not able to send any more for a reason other than its turn.
    pub(crate) fn unlist(&mut self, stream: &mut Stream) {
        if std::mem::take(&mut stream.listed) {
            self.quiet.retain(|&(_, number)| number != stream.id.number);
            self.busy.retain(|&number| number != stream.id.number);
        }
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<u32> {
        let quiet = self.quiet.front().map(|(_, number)| number);
        quiet.or(self.busy.front()).copied()
    }

    /// Whether only one stream can send.
    pub(crate) fn one_alone(&self) -> bool {
        self.quiet.len() + self.busy.len() == 1
    }

    /// Accounts for what the stream whose turn it was has sent.
    pub(crate) fn sent(&mut self, stream: &mut Stream, bytes: usize) {
        stream.deficit = stream.deficit.saturating_sub(bytes);
        let (over, used_up) = (!stream.can_send(), stream.deficit == 0);
        if let Some(first) = self.quiet.front_mut() {
            first.0 = stream.deficit;
            if over || used_up {
                self.quiet.pop_front();
            }
        } else if over || used_up {
            self.busy.pop_front();
        }
        if over {
            stream.listed = false;
        } else if used_up {
            self.round += 1;
            stream.round = self.round;
            stream.deficit = self.quantum;
            self.busy.push_back(stream.id.number);
        }
    }
}
