//! What a link writes next.

use super::{Event, Link};
use crate::Time;
use crate::bounds::{
    ACK_BYTES, FRAME_PAYLOAD_MAX, LANE_TURN, REKEY_AFTER, REKEY_PACKETS, REPLAY_LANE_MAX, REPLAY_LINK_MAX,
    WINDOWS_LINK_MAX,
};
use crate::frame::{DATA_HEAD, FRAME_HEAD, Frame, PacketWriter};
use crate::lane::Lane;
use crate::stream::StreamId;

/// Room that is left at a packet's end for the acknowledgement and for the change of key.
const ACK_ROOM: usize = FRAME_HEAD + 32 + FRAME_HEAD;
/// Room for one credit frame.
const CREDIT_ROOM: usize = FRAME_HEAD + 12;
/// Bytes of a longer payload that are worth a frame of their own at a packet's end.
const PIECE_MIN: usize = 256;

/// What a packet carries of the lanes.
enum Filled {
    /// Nothing, or new frames.
    News,
    /// One frame that the peer misses, alone.
    Replay,
}

impl Link {
    /// The next packet to write, sealed; nothing when there is nothing to say now.
    ///
    /// Probes and their answers go first, then credit, then the lanes. It holds little of the measured rate, except
    /// that a frame which the peer misses goes as long as it was, alone.
    pub fn poll_packet(&mut self, now: Time) -> Option<Vec<u8>> {
        self.cipher.as_ref()?;
        let limit = self.rate.packet();
        let mut packet = PacketWriter::within(self.version, limit);
        if let Some(refusal) = self.farewell.take() {
            packet.push(&Frame::Close(refusal));
            let mut cipher = self.cipher.take()?;
            return Some(cipher.seal(packet.plain()));
        }
        if let Some(nonce) = self.pong.take() {
            packet.push(&Frame::Pong { nonce });
        }
        if let Some(nonce) = self.liveness.probe(now) {
            packet.push(&Frame::Ping { nonce });
        }
        self.write_credits(now, &mut packet);
        let ack_due = self.ack_due(now);
        let before = self.last_written();
        for lane in &mut self.lanes {
            lane.turns.within(limit);
        }
        let filled = self.fill(&mut packet, ack_due);
        let last = self.last_written();
        let data = last != before;
        if matches!(filled, Filled::News) {
            // A stream that begins here has its credit right behind.
            self.write_credits(now, &mut packet);
            let owes = self.lanes.iter().any(|lane| lane.receive.owes());
            if ack_due || (owes && !packet.is_empty()) {
                self.ack_at = None;
                self.lanes.iter_mut().for_each(|lane| lane.receive.tell());
                packet.push(&Frame::Ack { cursors: self.cursors() });
            }
            if (data || ack_due)
                && packet.room() >= FRAME_HEAD + 8 + FRAME_HEAD
                && let Some(nonce) = self.liveness.probe_along(now)
            {
                packet.push(&Frame::Ping { nonce });
            }
        }
        if data {
            self.rate.sent(now, packet.len(), last);
        } else {
            self.rate.ran_dry();
        }
        if packet.is_empty() {
            return None;
        }
        let cipher = self.cipher.as_mut()?;
        let rekey = cipher.sealed() + 1 >= REKEY_PACKETS || now.since(self.rekeyed_at) >= REKEY_AFTER;
        if rekey {
            packet.push(&Frame::Rekey);
        }
        let sealed = cipher.seal(packet.plain());
        if rekey {
            cipher.rekey_sending();
            self.rekeyed_at = now;
            self.rekeys += 1;
        }
        Some(sealed)
    }

    /// Frames that a peer with these cursors misses, the most urgent lanes first: at most `bytes` of them. Nothing is
    /// changed; see [`sent_ahead`](Self::sent_ahead).
    #[must_use]
    pub fn missing(&self, peer_cursors: [u64; 4], mut bytes: usize) -> Vec<Frame> {
        let lanes = self.lanes.iter().zip(peer_cursors);
        let mut frames = Vec::new();
        for frame in lanes.flat_map(|(lane, cursor)| lane.send.after(cursor)) {
            // A lane's frames must not skip one, so the first that does not fit is the last that is looked at.
            match bytes.checked_sub(crate::lane::cost(frame)) {
                Some(rest) => bytes = rest,
                None => break,
            }
            frames.push(frame.clone());
        }
        frames
    }

    /// Says that these frames, which [`missing`](Self::missing) gave, were written on the present carrier before it was
    /// established.
    pub fn sent_ahead(&mut self, frames: &[Frame]) {
        for (lane, sequence) in frames.iter().filter_map(Frame::sequence) {
            self.lanes[lane.index()].send.wrote_through(sequence);
        }
    }

    fn last_written(&self) -> [u64; 4] {
        std::array::from_fn(|lane| self.lanes[lane].send.last_written())
    }

    fn ack_due(&self, now: Time) -> bool {
        let many = |lane: &super::LaneState| lane.receive.untold_bytes() >= ACK_BYTES;
        self.ack_at.is_some_and(|at| at <= now) || self.lanes.iter().any(many)
    }

    fn write_credits(&mut self, now: Time, packet: &mut PacketWriter) {
        while packet.room() >= CREDIT_ROOM + ACK_ROOM
            && let Some(id) = self.credits.pop_front()
        {
            if let Some(stream) = self.streams.get_mut(&id) {
                let before = stream.beyond();
                let spare = WINDOWS_LINK_MAX.saturating_sub(self.beyond);
                let limit = stream.take_credit(now, self.liveness.shortest(), spare);
                self.beyond = self.beyond - before + stream.beyond();
                packet.push(&Frame::Credit { stream: id, limit });
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.cipher.as_ref()?;
        let liveness = self.liveness.next();
        Some(self.ack_at.map_or(liveness, |at| at.min(liveness)))
    }

    /// Looks at the clock: whether the peer is silent for too long. Probes and acknowledgements that have become due come
    /// with the next [`poll_packet`](Self::poll_packet).
    pub fn handle_timeout(&mut self, now: Time) {
        if self.cipher.is_some() && self.liveness.dead(now) {
            self.events.push_back(Event::CarrierDead);
        }
    }

    /// Fills a packet from the lane whose turn it is, then, while there is room, from the others by rank. What the peer
    /// misses of a lane goes before what is new on it, each frame alone; `ack_due` is then its own packet too.
    fn fill(&mut self, packet: &mut PacketWriter, ack_due: bool) -> Filled {
        let waiting: [bool; 4] = std::array::from_fn(|lane| self.waits(lane));
        let Some(first) = self.lane_in_turn(&waiting) else {
            return Filled::News;
        };
        let mut served = [false; 4];
        let mut filled = Filled::News;
        if let Some(missing) = self.lanes[first.index()].send.missing() {
            if ack_due || !packet.is_empty() {
                return filled;
            }
            packet.push(missing);
            let opened = match missing {
                Frame::Data { stream, open: true, .. } => Some(*stream),
                _ => None,
            };
            self.lanes[first.index()].send.wrote_missing();
            if let Some(id) = opened
                && let Some(stream) = self.streams.get_mut(&id)
            {
                // The credit that was repeated before this frame found nobody who knew the stream.
                stream.repeat_credit();
                self.grant(id);
            }
            served[first.index()] = true;
            filled = Filled::Replay;
        } else {
            let by_rank = Lane::ALL.into_iter().filter(|&lane| lane != first);
            for lane in std::iter::once(first).chain(by_rank) {
                if self.lanes[lane.index()].send.missing().is_some() {
                    continue;
                }
                while let Some(frame) = self.new_frame(lane, packet) {
                    packet.push(&frame);
                    self.lanes[lane.index()].send.keep(frame);
                    served[lane.index()] = true;
                }
            }
        }
        for lane in Lane::ALL {
            let passed_over = waiting[lane.index()] && !served[lane.index()] && lane > first;
            let count = &mut self.lanes[lane.index()].passed_over;
            *count = if passed_over { *count + 1 } else { 0 };
        }
        filled
    }

    /// The highest lane that waits, except that one which higher lanes have passed over often enough goes before them.
    fn lane_in_turn(&self, waiting: &[bool; 4]) -> Option<Lane> {
        let waiting = || Lane::ALL.into_iter().filter(|lane| waiting[lane.index()]);
        let passed_over = |lane: &Lane| self.lanes[lane.index()].passed_over;
        waiting().filter(|lane| passed_over(lane) >= LANE_TURN).max_by_key(passed_over).or_else(|| waiting().next())
    }

    fn may_keep_more(&self, lane: usize) -> bool {
        self.lanes[lane].send.bytes() < REPLAY_LANE_MAX && self.replay_bytes() < REPLAY_LINK_MAX
    }

    fn waits(&self, lane: usize) -> bool {
        let state = &self.lanes[lane];
        let news = !state.turns.is_empty() || !state.resets.is_empty();
        state.send.missing().is_some() || (news && self.may_keep_more(lane))
    }

    /// The next new frame of a lane that fits.
    fn new_frame(&mut self, lane: Lane, packet: &PacketWriter) -> Option<Frame> {
        let room = packet.room().saturating_sub(ACK_ROOM);
        if room <= DATA_HEAD + 2 || !self.may_keep_more(lane.index()) {
            return None;
        }
        self.new_reset(lane).or_else(|| self.new_data(lane, room - DATA_HEAD))
    }

    fn new_reset(&mut self, lane: Lane) -> Option<Frame> {
        let state = &mut self.lanes[lane.index()];
        let (number, code) = state.resets.pop_front()?;
        Some(Frame::Reset { stream: StreamId { lane, number }, sequence: state.send.next_sequence(), code })
    }

    fn new_data(&mut self, lane: Lane, most: usize) -> Option<Frame> {
        let state = &mut self.lanes[lane.index()];
        let id = StreamId { lane, number: state.turns.first()? };
        let stream = self.streams.get_mut(&id).expect("a stream that is listed is there");
        if most < PIECE_MIN.min(stream.queued()) {
            return None;
        }
        let turn = if state.turns.one_alone() { usize::MAX } else { stream.deficit };
        let piece = stream.take_piece(most.min(FRAME_PAYLOAD_MAX).min(turn));
        state.turns.sent(stream, piece.payload.len());
        if piece.open {
            stream.begin_credit();
        }
        let relieved = stream.relieved(self.rate.queue());
        let frame = Frame::Data {
            stream: id,
            sequence: state.send.next_sequence(),
            open: piece.open,
            fin: piece.fin,
            payload: piece.payload,
        };
        if relieved {
            self.events.push_back(Event::Writable(id));
        }
        if piece.open {
            self.grant(id);
        }
        if piece.fin {
            self.retire(id);
        }
        Some(frame)
    }
}
