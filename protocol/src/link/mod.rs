//! The link: the root type, which survives its carriers.
//!
//! # How to drive it
//!
//! A [`Link`] is one end of a link. It starts without a carrier. When a handshake has ended well, its
//! [`Cipher`] and the peer's cursors go into [`establish`](Link::establish); from then on, and until the
//! carrier is gone, the driver does three things in any order, always passing the present time:
//!
//! - what the carrier received, one packet at a time, goes into [`handle_packet`](Link::handle_packet);
//! - while the carrier takes more, [`poll_packet`](Link::poll_packet) gives the next packet to write, or nothing. What is
//!   queued can be overtaken until then, so a driver asks only when the carrier is ready to write;
//! - at [`poll_timeout`](Link::poll_timeout), [`handle_timeout`](Link::handle_timeout) is called. The moment changes with
//!   every other call.
//!
//! After each of these, and after each call of the application's, [`poll_event`](Link::poll_event) is drained, and
//! `poll_packet` is asked again.
//!
//! When a carrier fails, [`carrier_lost`](Link::carrier_lost) is called (an error from `handle_packet` and
//! [`Event::CarrierDead`] call for it too), and everything waits for the next `establish`. Nothing that was written is
//! lost by that, and nothing arrives twice. [`Event::Closed`] is the end: the link takes and gives nothing more.
//!
//! The application opens, writes, reads, finishes and resets streams at any time, with a carrier or without.
//!
//! A peer can make no call panic. A driver that breaks the contract (establishing a closed link) is told by an error.
//!
//! ```text
//!            establish                  carrier_lost
//!  new ─▶ detached ──────────▶ up ─────────────────────▶ detached …
//!             │                 │ close, Close received
//!             └──── close ──────┴──────────────────────▶ closed
//! ```

mod liveness;
mod rate;
mod receive;
mod transmit;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::Time;
use crate::bounds::{GATHERED_LINK_MAX, STREAM_WINDOW_FIRST, STREAMS_MAX};
use crate::cipher::Cipher;
use crate::identity::Role;
use crate::lane::{Lane, ReceiveLane, SendLane};
use crate::refusal::Refusal;
use crate::stream::{CANCELLED, Fin, Read, Stream, StreamClosed, StreamId, Turns};

use liveness::Liveness;
use rate::Rate;
pub use receive::PacketError;

/// What happened on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream.
    Opened(StreamId),
    /// A stream whose reader was blocked has something to read, may gather, or has ended.
    Readable(StreamId),
    /// A stream whose writer found no room has room, or has ended.
    Writable(StreamId),
    /// Nothing was heard for too long: call [`Link::carrier_lost`].
    CarrierDead,
    /// The first probe of a carrier was answered, or the one that [`Link::probe_now`] asked for.
    Alive,
    /// The link ended.
    Closed(Refusal),
}

/// Why a link cannot be established on a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstablishError {
    /// The link ended.
    #[error("the link is closed")]
    Closed,
    /// The peer's cursors name frames that were never sent or were acknowledged before: it is not the peer of this link.
    #[error("the peer's cursors do not belong to this link")]
    Cursors,
}

struct LaneState {
    send: SendLane,
    receive: ReceiveLane,
    turns: Turns,
    /// Streams that were given up here and whose peer does not know yet.
    resets: VecDeque<(u32, u16)>,
    /// The number that the next stream opened here gets.
    next_number: u32,
    /// Packets of higher lanes since this lane, waiting, got one.
    passed_over: u32,
}

/// One end of a link; see the [module](self) for how it is driven.
pub struct Link {
    role: Role,
    version: u8,
    cipher: Option<Cipher>,
    closed: Option<Refusal>,
    /// To be said to the peer before the end.
    farewell: Option<Refusal>,
    lanes: [LaneState; 4],
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that the peer opened.
    foreign_streams: usize,
    /// Streams opened here that have a place, and those that wait for one.
    own_streams: usize,
    unplaced: VecDeque<StreamId>,
    credits: VecDeque<StreamId>,
    /// The sum of what streams were granted [beyond](Stream::beyond) what each is always allowed.
    beyond: u64,
    /// The sum of what is being gathered, and the messages that wait to be.
    gathered: u64,
    to_gather: VecDeque<(StreamId, u64)>,
    ack_at: Option<Time>,
    /// When the sending key was made.
    rekeyed_at: Time,
    rekeys: u64,
    pong: Option<u64>,
    liveness: Liveness,
    rate: Rate,
    events: VecDeque<Event>,
    /// Acknowledged and not delivered: a deliberate fault.
    #[cfg(test)]
    deferred: Vec<(StreamId, bool, bool, Bytes)>,
}

impl Link {
    /// A link without a carrier. `role` is this end's.
    #[must_use]
    pub fn new(role: Role) -> Self {
        let first = match role {
            Role::Device => 1,
            Role::Daemon => 2,
        };
        let lane = || LaneState {
            send: SendLane::new(),
            receive: ReceiveLane::default(),
            turns: Turns::default(),
            resets: VecDeque::new(),
            next_number: first,
            passed_over: 0,
        };
        Link {
            role,
            version: *crate::handshake::VERSIONS.end(),
            cipher: None,
            closed: None,
            farewell: None,
            lanes: [lane(), lane(), lane(), lane()],
            streams: BTreeMap::new(),
            foreign_streams: 0,
            own_streams: 0,
            unplaced: VecDeque::new(),
            credits: VecDeque::new(),
            beyond: 0,
            gathered: 0,
            to_gather: VecDeque::new(),
            ack_at: None,
            rekeyed_at: Time::ZERO,
            rekeys: 0,
            pong: None,
            liveness: Liveness::new(Time::ZERO),
            rate: Rate::new(Time::ZERO),
            events: VecDeque::new(),
            #[cfg(test)]
            deferred: Vec::new(),
        }
    }

    /// Takes a carrier whose handshake ended well, in place of an older one. `peer_cursors` are zeros on a new link.
    ///
    /// # Errors
    /// When the link is closed or the cursors cannot be the peer's; the link is then as it was before.
    pub fn establish(
        &mut self,
        now: Time,
        cipher: Cipher,
        version: u8,
        peer_cursors: [u64; 4],
    ) -> Result<(), EstablishError> {
        if self.closed.is_some() {
            return Err(EstablishError::Closed);
        }
        if !self.can_resume(peer_cursors) {
            return Err(EstablishError::Cursors);
        }
        self.version = version;
        self.cipher = Some(cipher);
        self.pong = None;
        // Another carrier is another path.
        self.liveness = Liveness::new(now);
        self.rate = Rate::new(now);
        for (lane, cursor) in self.lanes.iter_mut().zip(peer_cursors) {
            lane.send.resume(cursor);
            lane.turns.within(self.rate.packet());
        }
        self.rekeyed_at = now;
        if self.role == Role::Device {
            // A client with nothing else to send sends its cursors: the daemon waits for its first packet.
            self.ack_at = Some(now);
        }
        // Credit frames are absolute and not sequenced; those under way on the old carrier may be lost.
        for stream in self.streams.values_mut() {
            stream.repeat_credit();
            if stream.list_credit() {
                self.credits.push_back(stream.id);
            }
        }
        Ok(())
    }

    /// Whether a peer with these cursors can be sent all that it misses.
    #[must_use]
    pub fn can_resume(&self, peer_cursors: [u64; 4]) -> bool {
        let mut lanes = self.lanes.iter().zip(peer_cursors);
        lanes.all(|(lane, cursor)| lane.send.can_resume(cursor))
    }

    /// Forgets the carrier. What the peer has not acknowledged is sent again on the next one.
    pub fn carrier_lost(&mut self) {
        self.cipher = None;
        #[cfg(test)]
        self.deferred.clear();
    }

    /// Whether the link has a carrier.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.cipher.is_some()
    }

    /// Why the link ended, once it has.
    #[must_use]
    pub fn closed(&self) -> Option<Refusal> {
        self.closed
    }

    /// Per lane, the highest contiguous sequence received: what a handshake tells the peer.
    #[must_use]
    pub fn cursors(&self) -> [u64; 4] {
        #[cfg(test)]
        if crate::fault::is(crate::fault::Fault::CursorOffByOne) {
            return std::array::from_fn(|lane| match self.lanes[lane].receive.cursor() {
                0 => 0,
                cursor => cursor + 1,
            });
        }
        std::array::from_fn(|lane| self.lanes[lane].receive.cursor())
    }

    /// Ends the link. With a carrier, the peer is told why by the next packet.
    pub fn close(&mut self, refusal: Refusal) {
        if self.closed.is_some() {
            return;
        }
        self.farewell = Some(refusal);
        self.end(refusal);
    }

    fn end(&mut self, refusal: Refusal) {
        self.closed = Some(refusal);
        self.events.clear();
        self.events.push_back(Event::Closed(refusal));
        for lane in &mut self.lanes {
            lane.turns = Turns::default();
            lane.resets.clear();
        }
        self.credits.clear();
        self.streams.clear();
        self.unplaced.clear();
        self.to_gather.clear();
        (self.foreign_streams, self.own_streams) = (0, 0);
        (self.beyond, self.gathered) = (0, 0);
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Asks for a probe now, because there is reason to doubt the carrier: an [`Event::Alive`] or an
    /// [`Event::CarrierDead`] follows, sooner than silence alone would bring it. Without a carrier it does nothing.
    pub fn probe_now(&mut self, now: Time) {
        self.liveness.probe_now(now);
    }

    /// The smoothed round trip, once measured.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.liveness.round_trip()
    }

    /// The rate at which the carrier delivers what this end sends, in bytes a second, once measured. It is the greatest of
    /// the last round trips in which there was always something to send.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.rate.bytes_per_second()
    }

    /// Bytes that the system below the carrier may hold unsent. A carrier that holds more is not ready to write, and
    /// [`poll_packet`](Self::poll_packet) should not be asked.
    #[must_use]
    pub fn unsent_limit(&self) -> usize {
        self.rate.unsent()
    }

    /// Streams that are not over at this end.
    #[cfg(test)]
    pub(crate) fn streams_held(&self) -> usize {
        self.streams.len()
    }

    /// Bytes kept for replay, over all lanes.
    #[must_use]
    pub fn replay_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.send.bytes()).sum()
    }

    /// Frames that arrived more than once and were dropped.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.receive.duplicates()).sum()
    }

    /// How often this end has changed its sending key.
    #[must_use]
    pub fn rekeys(&self) -> u64 {
        self.rekeys
    }

    /// Checks what holds at every moment.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        use crate::bounds::{FRAME_PAYLOAD_MAX, REPLAY_LINK_MAX, WINDOWS_LINK_MAX};
        assert!(self.replay_bytes() <= REPLAY_LINK_MAX + FRAME_PAYLOAD_MAX + 16);
        assert!(self.beyond <= WINDOWS_LINK_MAX && self.own_streams <= STREAMS_MAX);
        let beyond: u64 = self.streams.values().map(Stream::beyond).sum();
        assert_eq!(beyond, self.beyond, "the sum of windows is kept");
        for stream in self.streams.values() {
            stream.check();
        }
    }

    // Streams.

    /// Opens a stream. The peer hears of it with its first byte, or its end; past [`STREAMS_MAX`] streams of this end's,
    /// not before another one is over.
    pub fn open(&mut self, lane: Lane) -> StreamId {
        let state = &mut self.lanes[lane.index()];
        let id = StreamId { lane, number: state.next_number };
        state.next_number += 2;
        if self.closed.is_none() {
            self.streams.insert(id, Stream::new(id, false));
        }
        id
    }

    fn stream(&mut self, id: StreamId) -> Result<&mut Stream, StreamClosed> {
        self.streams.get_mut(&id).ok_or(StreamClosed)
    }

    /// How many bytes may be written on a stream now. When none, an [`Event::Writable`] follows.
    ///
    /// # Errors
    /// When the stream takes nothing more.
    pub fn capacity(&mut self, id: StreamId) -> Result<usize, StreamClosed> {
        let limit = self.rate.queue();
        self.stream(id)?.capacity(limit)
    }

    /// Queues bytes on a stream, within its [`capacity`](Self::capacity).
    ///
    /// # Errors
    /// When the stream takes nothing more.
    pub fn write(&mut self, id: StreamId, bytes: Bytes) -> Result<(), StreamClosed> {
        self.stream(id)?.write(bytes)?;
        self.list(id);
        Ok(())
    }

    /// Says that nothing more will be written on a stream.
    ///
    /// # Errors
    /// When the stream takes nothing more already.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamClosed> {
        self.stream(id)?.finish()?;
        self.list(id);
        Ok(())
    }

    /// Takes what the peer wrote on a stream. This is what grants it credit.
    pub fn read(&mut self, id: StreamId) -> Read {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Read::Reset(CANCELLED);
        };
        let before = stream.beyond();
        let read = stream.read();
        self.beyond = self.beyond - before + stream.beyond();
        self.grant(id);
        if !matches!(read, Read::Data(_) | Read::Blocked) {
            self.retire(id);
        }
        read
    }

    /// Says that the application gathers, on this stream, a message of so many bytes, or none any more. While it is false
    /// the application does not read on; an [`Event::Readable`] follows.
    ///
    /// Messages of at most [`STREAM_WINDOW_FIRST`] bytes are not counted: what is always allowed holds them.
    pub fn gather(&mut self, id: StreamId, bytes: usize) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        let bytes = match bytes as u64 {
            ..=STREAM_WINDOW_FIRST => 0,
            bytes => bytes.min(GATHERED_LINK_MAX),
        };
        // What is left of a stream that has ended is within its credit.
        if stream.receiving_over() {
            return true;
        }
        let others = self.gathered - stream.gathered;
        let waits = self.to_gather.iter().any(|(waiting, _)| *waiting == id);
        if bytes <= stream.gathered || (self.to_gather.is_empty() && others + bytes <= GATHERED_LINK_MAX) {
            self.gathered = others + bytes;
            stream.gathered = bytes;
            self.gather_waiting();
            return true;
        }
        if !waits {
            self.to_gather.push_back((id, bytes));
        }
        false
    }

    /// Lets those gather who waited for room.
    fn gather_waiting(&mut self) {
        while let Some(&(id, bytes)) = self.to_gather.front() {
            if let Some(stream) = self.streams.get_mut(&id) {
                let others = self.gathered - stream.gathered;
                if others + bytes > GATHERED_LINK_MAX {
                    return;
                }
                self.gathered = others + bytes;
                stream.gathered = bytes;
                self.events.push_back(Event::Readable(id));
            }
            self.to_gather.pop_front();
        }
    }

    /// Gives a stream up in both directions.
    pub fn reset(&mut self, id: StreamId, code: u16) {
        if let Some(stream) = self.remove(id)
            && stream.opened()
        {
            let resets = &mut self.lanes[id.lane.index()].resets;
            resets.push_back((id.number, code));
        }
    }

    /// Forgets a stream, and what it took of the link's bounds.
    fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let mut stream = self.streams.remove(&id)?;
        self.lanes[id.lane.index()].turns.unlist(&mut stream);
        self.beyond -= stream.beyond();
        self.gathered -= stream.gathered;
        self.gather_waiting();
        if stream.foreign {
            self.foreign_streams -= 1;
        } else if stream.placed {
            self.own_streams -= 1;
            while self.own_streams < STREAMS_MAX
                && let Some(next) = self.unplaced.pop_front()
            {
                self.list(next);
            }
        }
        Some(stream)
    }

    /// Says that the application has let go of a stream: what it finished is still sent; anything else is given up.
    pub fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.fin == Fin::No && stream.stopped.is_none() {
            self.reset(id, CANCELLED);
        } else {
            stream.discard = true;
            self.retire(id);
        }
    }

    /// Lets a stream send if it can, once it has a place among this end's.
    fn list(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if !stream.placed {
            if self.own_streams >= STREAMS_MAX {
                if !self.unplaced.contains(&id) {
                    self.unplaced.push_back(id);
                }
                return;
            }
            self.own_streams += 1;
            stream.placed = true;
        }
        self.lanes[id.lane.index()].turns.list(stream);
    }

    fn grant(&mut self, id: StreamId) {
        if self.streams.get_mut(&id).is_some_and(Stream::list_credit) {
            self.credits.push_back(id);
        }
    }

    /// Removes a stream for which nothing is left to do.
    fn retire(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        if stream.over() {
            self.remove(id);
        } else if stream.discard && stream.fin == Fin::Sent && !stream.receiving_over() {
            // All that was to be said is said and nobody listens: the peer's writer is told to stop.
            self.reset(id, CANCELLED);
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("role", &self.role)
            .field("up", &self.is_up())
            .field("closed", &self.closed)
            .field("streams", &self.streams.len())
            .field("replay_bytes", &self.replay_bytes())
            .finish_non_exhaustive()
    }
}
