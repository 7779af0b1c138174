//! Packets and frames.
//!
//! A packet's plaintext is the protocol version, then one or more frames. A frame is
//!
//! ```text
//! u8 kind │ u8 flags │ u16 length │ length bytes
//! ```
//!
//! integers big-endian. A receiver skips kinds that it does not know; flags that it does not know are a violation.

use bytes::{Buf, BufMut, Bytes};

use crate::bounds::FRAME_PAYLOAD_MAX;
use crate::cipher::PLAIN_MAX;
use crate::lane::Lane;
use crate::refusal::Refusal;
use crate::stream::StreamId;

/// Bytes of a frame's head.
pub const FRAME_HEAD: usize = 4;
/// Bytes of a data frame before its payload: the head, the stream, the sequence.
pub const DATA_HEAD: usize = FRAME_HEAD + 4 + 8;

/// Numbers of the frame kinds. Never reused.
pub mod kind {
    /// Bytes of a stream.
    pub const DATA: u8 = 1;
    /// The sender gives a stream up.
    pub const RESET: u8 = 2;
    /// The sender of this frame has consumed: the stream may go on up to a limit.
    pub const CREDIT: u8 = 3;
    /// What was received, per lane.
    pub const ACK: u8 = 4;
    /// A probe.
    pub const PING: u8 = 5;
    /// A probe's answer.
    pub const PONG: u8 = 6;
    /// The daemon's decision.
    pub const VERDICT: u8 = 7;
    /// The link ends.
    pub const CLOSE: u8 = 8;
    /// The sender changes its key behind this packet.
    pub const REKEY: u8 = 9;
    /// Every kind of this version.
    pub const ALL: &[u8] = &[DATA, RESET, CREDIT, ACK, PING, PONG, VERDICT, CLOSE, REKEY];
}

const LANE_BITS: u8 = 0b0000_0011;
const OPEN: u8 = 0b0000_0100;
const FIN: u8 = 0b0000_1000;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of a stream; sequenced within the lane.
    Data {
        /// The stream.
        stream: StreamId,
        /// Position within the lane, from 1.
        sequence: u64,
        /// The first frame of the stream.
        open: bool,
        /// The last frame of the stream in this direction.
        fin: bool,
        /// The bytes.
        payload: Bytes,
    },
    /// The stream is given up in both directions; sequenced within the lane.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Position within the lane, from 1.
        sequence: u64,
        /// Why, for the application.
        code: u16,
    },
    /// Absolute limit of what may be sent on a stream.
    Credit {
        /// The stream.
        stream: StreamId,
        /// Bytes since the stream began.
        limit: u64,
    },
    /// Cursors: per lane, the highest contiguous sequence received.
    Ack {
        /// Interactive, control, tunnel, bulk.
        cursors: [u64; 4],
    },
    /// A probe.
    Ping {
        /// Comes back in the answer.
        nonce: u64,
    },
    /// A probe's answer.
    Pong {
        /// Of the probe.
        nonce: u64,
    },
    /// Postcard bytes of a [`Verdict`](crate::handshake::Verdict).
    Verdict(Bytes),
    /// The link ends.
    Close(Refusal),
    /// The sender changes its key behind this packet, of which this is the last frame.
    Rekey,
}

impl Frame {
    /// The lane and sequence of a frame that has one.
    #[must_use]
    pub fn sequence(&self) -> Option<(Lane, u64)> {
        match self {
            Frame::Data { stream, sequence, .. } | Frame::Reset { stream, sequence, .. } => {
                Some((stream.lane, *sequence))
            }
            _ => None,
        }
    }
}

/// Bytes that are no packet: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The packet is of another version than the handshake chose.
    #[error("a packet of version {0}")]
    Version(u8),
    /// A frame is cut short, or longer than its kind allows.
    #[error("a malformed frame of kind {0}")]
    Malformed(u8),
    /// A flag that this version does not know.
    #[error("unknown flags {flags:#04x} on a frame of kind {kind}")]
    Flags {
        /// The frame's kind.
        kind: u8,
        /// Its flags.
        flags: u8,
    },
    /// A packet without a frame.
    #[error("an empty packet")]
    Empty,
}

/// Reads the frames of a packet's plaintext, skipping kinds that this version does not know.
///
/// # Errors
/// When the packet has no frame or another version; each item is an error of its own, after which nothing follows.
pub fn parse_packet(
    version: u8,
    mut plain: Bytes,
) -> Result<impl Iterator<Item = Result<Frame, FrameError>>, FrameError> {
    match plain.try_get_u8() {
        Err(_) => return Err(FrameError::Empty),
        Ok(found) if found != version => return Err(FrameError::Version(found)),
        Ok(_) if plain.is_empty() => return Err(FrameError::Empty),
        Ok(_) => {}
    }
    Ok(std::iter::from_fn(move || {
        while !plain.is_empty() {
            match next_frame(&mut plain) {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => {}
                Err(error) => {
                    plain.clear();
                    return Some(Err(error));
                }
            }
        }
        None
    }))
}

fn next_frame(plain: &mut Bytes) -> Result<Option<Frame>, FrameError> {
    let Some((&[kind, flags, high, low], _)) = plain.split_first_chunk::<FRAME_HEAD>() else {
        return Err(FrameError::Malformed(plain[0]));
    };
    plain.advance(FRAME_HEAD);
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > plain.len() {
        return Err(FrameError::Malformed(kind));
    }
    let mut body = plain.split_to(length);
    let malformed = || FrameError::Malformed(kind);
    let known = |mask: u8| {
        if flags & !mask == 0 { Ok(()) } else { Err(FrameError::Flags { kind, flags }) }
    };
    let lane = Lane::from_bits(flags & LANE_BITS);
    let frame = match kind {
        kind::DATA => {
            known(LANE_BITS | OPEN | FIN)?;
            let stream = StreamId { lane, number: body.try_get_u32().map_err(|_| malformed())? };
            let sequence = body.try_get_u64().map_err(|_| malformed())?;
            if body.len() > FRAME_PAYLOAD_MAX {
                return Err(malformed());
            }
            let (open, fin) = (flags & OPEN != 0, flags & FIN != 0);
            return Ok(Some(Frame::Data { stream, sequence, open, fin, payload: body }));
        }
        kind::RESET => {
            known(LANE_BITS)?;
            let stream = StreamId { lane, number: body.try_get_u32().map_err(|_| malformed())? };
            let sequence = body.try_get_u64().map_err(|_| malformed())?;
            Frame::Reset { stream, sequence, code: body.try_get_u16().map_err(|_| malformed())? }
        }
        kind::CREDIT => {
            known(LANE_BITS)?;
            let stream = StreamId { lane, number: body.try_get_u32().map_err(|_| malformed())? };
            Frame::Credit { stream, limit: body.try_get_u64().map_err(|_| malformed())? }
        }
        kind::ACK => {
            known(0)?;
            let mut cursors = [0; 4];
            for cursor in &mut cursors {
                *cursor = body.try_get_u64().map_err(|_| malformed())?;
            }
            Frame::Ack { cursors }
        }
        kind::PING | kind::PONG => {
            known(0)?;
            let nonce = body.try_get_u64().map_err(|_| malformed())?;
            if kind == kind::PING { Frame::Ping { nonce } } else { Frame::Pong { nonce } }
        }
        kind::VERDICT => {
            known(0)?;
            return Ok(Some(Frame::Verdict(body)));
        }
        kind::CLOSE => {
            known(0)?;
            let number = body.try_get_u16().map_err(|_| malformed())?;
            let retry = body.try_get_u8().map_err(|_| malformed())? != 0;
            Frame::Close(Refusal::from_number(number, retry))
        }
        kind::REKEY => {
            known(0)?;
            // What follows would be under which key?
            if !plain.is_empty() {
                return Err(malformed());
            }
            Frame::Rekey
        }
        _ => return Ok(None),
    };
    if body.has_remaining() { Err(malformed()) } else { Ok(Some(frame)) }
}

/// Builds a packet's plaintext.
#[derive(Debug)]
pub struct PacketWriter {
    plain: Vec<u8>,
    limit: usize,
}

impl PacketWriter {
    /// A packet of `version` without frames.
    #[must_use]
    pub fn new(version: u8) -> Self {
        PacketWriter::within(version, PLAIN_MAX)
    }

    /// A packet of `version` without frames, which has room for `limit` bytes of plaintext.
    #[must_use]
    pub fn within(version: u8, limit: usize) -> Self {
        let mut plain = Vec::with_capacity(limit.min(PLAIN_MAX));
        plain.push(version);
        PacketWriter { plain, limit }
    }

    /// Whether no frame was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.len() == 1
    }

    /// Bytes that are left within the packet's limit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.plain.len())
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plain.len()
    }

    /// The plaintext.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Appends a frame, for which there must be room within a packet's limits, if not within this one's.
    pub fn push(&mut self, frame: &Frame) {
        let start = self.plain.len();
        let head = |kind: u8, flags: u8| [kind, flags, 0, 0];
        let out = &mut self.plain;
        match frame {
            Frame::Data { stream, sequence, open, fin, payload } => {
                let flags = stream.lane.bits() | if *open { OPEN } else { 0 } | if *fin { FIN } else { 0 };
                out.put_slice(&head(kind::DATA, flags));
                out.put_u32(stream.number);
                out.put_u64(*sequence);
                out.put_slice(payload);
            }
            Frame::Reset { stream, sequence, code } => {
                out.put_slice(&head(kind::RESET, stream.lane.bits()));
                out.put_u32(stream.number);
                out.put_u64(*sequence);
                out.put_u16(*code);
            }
            Frame::Credit { stream, limit } => {
                out.put_slice(&head(kind::CREDIT, stream.lane.bits()));
                out.put_u32(stream.number);
                out.put_u64(*limit);
            }
            Frame::Ack { cursors } => {
                out.put_slice(&head(kind::ACK, 0));
                cursors.iter().for_each(|cursor| out.put_u64(*cursor));
            }
            Frame::Ping { nonce } => {
                out.put_slice(&head(kind::PING, 0));
                out.put_u64(*nonce);
            }
            Frame::Pong { nonce } => {
                out.put_slice(&head(kind::PONG, 0));
                out.put_u64(*nonce);
            }
            Frame::Verdict(body) => {
                out.put_slice(&head(kind::VERDICT, 0));
                out.put_slice(body);
            }
            Frame::Close(refusal) => {
                out.put_slice(&head(kind::CLOSE, 0));
                out.put_u16(refusal.number());
                out.put_u8(u8::from(refusal.retry()));
            }
            Frame::Rekey => out.put_slice(&head(kind::REKEY, 0)),
        }
        let length = u16::try_from(out.len() - start - FRAME_HEAD).expect("a frame fits into a packet");
        out[start + 2..start + FRAME_HEAD].copy_from_slice(&length.to_be_bytes());
        assert!(out.len() <= PLAIN_MAX, "the caller left room for the frame");
    }
}
