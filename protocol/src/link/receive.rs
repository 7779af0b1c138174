//! What a packet does to a link.

use bytes::Bytes;

use super::{Event, Link};
use crate::Time;
use crate::bounds::{ACK_BYTES, ACK_DELAY, STREAMS_GRACE, STREAMS_MAX};
use crate::cipher::OpenError;
use crate::frame::{Frame, FrameError, parse_packet};
use crate::identity::Role;
use crate::lane::Lane;
use crate::stream::{Stream, StreamId, Violation};

/// A packet that costs the peer its carrier. All of these are the peer's fault, or that of who changed its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// There is no carrier that it could have come from.
    #[error("a packet without a carrier")]
    NoCarrier,
    /// It is not authentic.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is malformed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A lane's sequence has a gap.
    #[error("a gap in the sequence of lane {0:?}")]
    Gap(Lane),
    /// An acknowledgement of what was never sent.
    #[error("an acknowledgement of what was not sent on lane {0:?}")]
    Acknowledgement(Lane),
    /// A stream was opened with a number that is in use or this end's.
    #[error("stream {0:?} cannot be opened")]
    StreamNumber(StreamId),
    /// More streams than the peer may have open.
    #[error("more than {STREAMS_MAX} streams")]
    TooManyStreams,
    /// More bytes than the stream's credit allows.
    #[error("more bytes than granted on stream {0:?}")]
    OverCredit(StreamId),
    /// Bytes after the end of a stream.
    #[error("bytes after the end of stream {0:?}")]
    AfterEnd(StreamId),
    /// A verdict where none is due.
    #[error("a verdict on an open link")]
    Verdict,
}

impl Link {
    /// Takes a packet that the carrier received. A closed link takes nothing: its peer may not have heard of the end yet.
    ///
    /// # Errors
    /// When the packet breaks the protocol: the carrier must be given up with
    /// [`carrier_lost`](Self::carrier_lost). Frames before the broken one have taken effect.
    pub fn handle_packet(&mut self, now: Time, packet: &[u8]) -> Result<(), PacketError> {
        if self.closed.is_some() {
            return Ok(());
        }
        let Some(cipher) = &mut self.cipher else {
            return Err(PacketError::NoCarrier);
        };
        let plain = Bytes::from(cipher.open(packet)?);
        self.handle_plain(now, plain)
    }

    /// Takes the plaintext of a packet that was opened before the link was established: the client's first one, in IK.
    ///
    /// # Errors
    /// As [`handle_packet`](Self::handle_packet).
    pub fn handle_plain(&mut self, now: Time, plain: Bytes) -> Result<(), PacketError> {
        self.liveness.heard(now);
        #[cfg(test)]
        for (stream, open, fin, payload) in std::mem::take(&mut self.deferred) {
            self.handle_data(stream, open, fin, payload)?;
        }
        let length = plain.len();
        for frame in parse_packet(self.version, plain)? {
            self.handle_frame(now, frame?, length)?;
            if self.closed.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, now: Time, frame: Frame, packet_length: usize) -> Result<(), PacketError> {
        match frame {
            Frame::Data { stream, sequence, open, fin, payload } => {
                if self.accept(now, stream.lane, sequence, payload.len())? {
                    // A piece must not keep a packet's buffer alive that is more than twice as large.
                    let payload =
                        if payload.len() * 2 < packet_length { Bytes::copy_from_slice(&payload) } else { payload };
                    #[cfg(test)]
                    if crate::fault::is(crate::fault::Fault::AcknowledgeBeforeDelivery) {
                        self.deferred.push((stream, open, fin, payload));
                        return Ok(());
                    }
                    self.handle_data(stream, open, fin, payload)?;
                }
            }
            Frame::Reset { stream, sequence, code } => {
                if self.accept(now, stream.lane, sequence, 0)? {
                    self.handle_reset(stream, code);
                }
            }
            Frame::Credit { stream, limit } => {
                let queue = self.rate.queue();
                if let Some(state) = self.streams.get_mut(&stream) {
                    state.raise_credit(limit);
                    if state.relieved(queue) {
                        self.events.push_back(Event::Writable(stream));
                    }
                    self.list(stream);
                }
            }
            Frame::Ack { cursors } => {
                for (lane, cursor) in Lane::ALL.into_iter().zip(cursors) {
                    self.lanes[lane.index()]
                        .send
                        .acknowledge(cursor)
                        .map_err(|_| PacketError::Acknowledgement(lane))?;
                }
                let shortest = self.liveness.shortest();
                self.rate.acknowledged(now, &cursors, shortest);
            }
            Frame::Ping { nonce } => self.pong = Some(nonce),
            Frame::Pong { nonce } => {
                if self.liveness.answered(now, nonce) {
                    self.events.push_back(Event::Alive);
                }
            }
            Frame::Verdict(_) => return Err(PacketError::Verdict),
            Frame::Close(refusal) => {
                self.end(refusal);
                self.cipher = None;
            }
            Frame::Rekey => {
                if let Some(cipher) = &mut self.cipher {
                    cipher.rekey_receiving();
                }
            }
        }
        Ok(())
    }

    /// Whether a sequenced frame is new. Acknowledgement follows from its delivery: the cursor and the stream's inbox
    /// change in the same call.
    fn accept(&mut self, now: Time, lane: Lane, sequence: u64, bytes: usize) -> Result<bool, PacketError> {
        let receive = &mut self.lanes[lane.index()].receive;
        let new = receive.accept(sequence, bytes).map_err(|_| PacketError::Gap(lane))?;
        let due = if receive.untold_bytes() >= ACK_BYTES || !new { now } else { now + ACK_DELAY };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
        Ok(new)
    }

    fn handle_data(&mut self, id: StreamId, open: bool, fin: bool, payload: Bytes) -> Result<(), PacketError> {
        if open {
            let ours = (id.number % 2 == 1) == (self.role == Role::Device);
            if ours || self.streams.contains_key(&id) {
                return Err(PacketError::StreamNumber(id));
            }
            if self.foreign_streams >= STREAMS_MAX + STREAMS_GRACE {
                return Err(PacketError::TooManyStreams);
            }
            self.foreign_streams += 1;
            self.streams.insert(id, Stream::new(id, true));
            self.events.push_back(Event::Opened(id));
        }
        // Bytes for a stream that was given up here were under way; they are acknowledged and dropped.
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let before = stream.beyond();
        let arrived = stream.receive(payload, fin).map_err(|violation| match violation {
            Violation::OverCredit => PacketError::OverCredit(id),
            Violation::AfterEnd => PacketError::AfterEnd(id),
        })?;
        self.beyond = self.beyond - before + stream.beyond();
        if arrived.wake {
            self.events.push_back(Event::Readable(id));
        }
        self.grant(id);
        if self.streams.get(&id).is_some_and(|stream| stream.discard) {
            self.retire(id);
        }
        Ok(())
    }

    fn handle_reset(&mut self, id: StreamId, code: u16) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        self.beyond -= stream.beyond();
        stream.receive_reset(code);
        stream.stop(code);
        self.beyond += stream.beyond();
        self.lanes[id.lane.index()].turns.unlist(stream);
        self.events.push_back(Event::Readable(id));
        self.events.push_back(Event::Writable(id));
        self.retire(id);
    }
}
