//! Records: what an open attachment carries, both ways.
//!
//! A record has a kind and a body with a fixed layout, integers big-endian. On the link it is a message whose number is
//! [`RECORD`](crate::registry::RECORD) plus the kind; on a local socket it is `u8 kind, u32 length, body`. The bodies are
//! the same bytes, so a relay passes them on without building them anew.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::api::Size;
use crate::bounds::MESSAGE_MAX;

/// One record.
#[derive(Clone, PartialEq, Eq)]
pub enum Record {
    /// The exact screen after `through` bytes of output, as VT bytes for a fresh terminal of the terminal's size.
    Snapshot {
        /// Offset of the first output byte that the snapshot does not show.
        through: u64,
        /// The bytes.
        vt: Bytes,
    },
    /// Output.
    Output {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// From the daemon: the terminal's size from here on. From the client: its vote.
    Size(Size),
    /// What was typed.
    Input {
        /// Offset of the first byte within the attachment.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// All input below this offset was written to the terminal or discarded by an interrupt.
    InputAcknowledged(u64),
    /// The link's state, on a local socket only.
    Link {
        /// The state.
        state: LinkState,
        /// Milliseconds until the next try; 0 when none is planned.
        retry_ms: u32,
    },
    /// Input that will not be sent.
    Lost {
        /// Bytes that were certainly not written.
        unsent: u64,
        /// Bytes of which it is not known whether they were written.
        unknown: u64,
    },
    /// The terminal ended and all its output was sent.
    Ended(Exit),
}

/// The link's state as a local consumer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// No carrier.
    Down,
    /// A handshake is under way, or the daemon's owner has not decided yet.
    Connecting,
    /// Frames flow.
    Up,
}

impl LinkState {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LinkState::Down => "down",
            LinkState::Connecting => "connecting",
            LinkState::Up => "up",
        }
    }
}

/// How a terminal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Its program exited with this status.
    Status(i32),
    /// Its program was ended by this signal.
    Signal(i32),
    /// It ended for another reason, named in a few words.
    Reason(String),
}

impl Exit {
    /// The status as a shell would give it: the exit status, 128 + the signal, or nothing.
    #[must_use]
    pub fn shell_status(&self) -> Option<i32> {
        match self {
            Exit::Status(status) => Some(*status),
            Exit::Signal(signal) => Some(128 + signal),
            Exit::Reason(_) => None,
        }
    }
}

/// Bytes that are no record: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No record has this kind.
    #[error("unknown record kind {0}")]
    Kind(u8),
    /// The body is not laid out as its kind says.
    #[error("malformed body of a record of kind {0}")]
    Body(u8),
    /// The body would be longer than a message may be.
    #[error("a record of {0} bytes is over the limit")]
    TooLong(u64),
}

/// Bytes in front of a record's body on a local socket.
pub const HEAD: usize = 5;

impl Record {
    /// The kind's number.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Record::Snapshot { .. } => 1,
            Record::Output { .. } => 2,
            Record::Size(_) => 3,
            Record::Input { .. } => 4,
            Record::InputAcknowledged(_) => 5,
            Record::Link { .. } => 6,
            Record::Lost { .. } => 7,
            Record::Ended(_) => 8,
        }
    }

    /// Appends the body to `out`.
    pub fn write_body(&self, out: &mut BytesMut) {
        match self {
            Record::Snapshot { through: offset, vt: bytes }
            | Record::Output { offset, bytes }
            | Record::Input { offset, bytes } => {
                out.reserve(8 + bytes.len());
                out.put_u64(*offset);
                out.put_slice(bytes);
            }
            Record::Size(size) => {
                for field in [size.cols, size.rows, size.x_pixels, size.y_pixels] {
                    out.put_u16(field);
                }
            }
            Record::InputAcknowledged(offset) => out.put_u64(*offset),
            Record::Link { state, retry_ms } => {
                out.put_u8(match state {
                    LinkState::Down => 0,
                    LinkState::Connecting => 1,
                    LinkState::Up => 2,
                });
                out.put_u32(*retry_ms);
            }
            Record::Lost { unsent, unknown } => {
                out.put_u64(*unsent);
                out.put_u64(*unknown);
            }
            Record::Ended(exit) => {
                let (tag, number, text) = match exit {
                    Exit::Status(status) => (0, *status, ""),
                    Exit::Signal(signal) => (1, *signal, ""),
                    Exit::Reason(reason) => (2, 0, reason.as_str()),
                };
                out.put_u8(tag);
                out.put_i32(number);
                out.put_slice(text.as_bytes());
            }
        }
    }

    /// The record of `kind` with this body.
    ///
    /// # Errors
    /// When no record has this kind or layout.
    pub fn parse(kind: u8, mut body: Bytes) -> Result<Self, RecordError> {
        let malformed = || RecordError::Body(kind);
        let with_offset = |mut body: Bytes| Ok((body.try_get_u64().map_err(|_| malformed())?, body));
        let record = match kind {
            1 => {
                let (through, vt) = with_offset(body)?;
                return Ok(Record::Snapshot { through, vt });
            }
            2 => {
                let (offset, bytes) = with_offset(body)?;
                return Ok(Record::Output { offset, bytes });
            }
            4 => {
                let (offset, bytes) = with_offset(body)?;
                return Ok(Record::Input { offset, bytes });
            }
            3 => {
                let mut field = || body.try_get_u16().map_err(|_| malformed());
                Record::Size(Size { cols: field()?, rows: field()?, x_pixels: field()?, y_pixels: field()? })
            }
            5 => Record::InputAcknowledged(body.try_get_u64().map_err(|_| malformed())?),
            6 => {
                let state = match body.try_get_u8() {
                    Ok(0) => LinkState::Down,
                    Ok(1) => LinkState::Connecting,
                    Ok(2) => LinkState::Up,
                    _ => return Err(malformed()),
                };
                Record::Link { state, retry_ms: body.try_get_u32().map_err(|_| malformed())? }
            }
            7 => {
                let mut field = || body.try_get_u64().map_err(|_| malformed());
                Record::Lost { unsent: field()?, unknown: field()? }
            }
            8 => {
                let tag = body.try_get_u8().map_err(|_| malformed())?;
                let number = body.try_get_i32().map_err(|_| malformed())?;
                let text = body.split_off(0);
                match (tag, number, text.is_empty()) {
                    (0, _, true) => Record::Ended(Exit::Status(number)),
                    (1, _, true) => Record::Ended(Exit::Signal(number)),
                    (2, 0, _) => {
                        let reason = std::str::from_utf8(&text).map_err(|_| malformed())?;
                        Record::Ended(Exit::Reason(reason.to_owned()))
                    }
                    _ => return Err(malformed()),
                }
            }
            _ => return Err(RecordError::Kind(kind)),
        };
        if body.has_remaining() { Err(malformed()) } else { Ok(record) }
    }

    /// The record as a local socket carries it.
    #[must_use]
    pub fn to_local(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_u8(self.kind());
        out.put_u32(0);
        self.write_body(&mut out);
        let length = u32::try_from(out.len() - HEAD).expect("a record is shorter than a message, which is bounded");
        out[1..HEAD].copy_from_slice(&length.to_be_bytes());
        out.freeze()
    }

    /// Takes one record from the front of what a local socket gave, when a whole one is there.
    ///
    /// # Errors
    /// When the bytes are no record; the length is checked before anything is waited for.
    pub fn from_local(buffer: &mut BytesMut) -> Result<Option<Self>, RecordError> {
        let Some((head, _)) = buffer.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let kind = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(1..=8).contains(&kind) {
            return Err(RecordError::Kind(kind));
        }
        if length > MESSAGE_MAX {
            return Err(RecordError::TooLong(length as u64));
        }
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        buffer.advance(HEAD);
        Record::parse(kind, buffer.split_to(length).freeze()).map(Some)
    }
}

impl std::fmt::Debug for Record {
    // Input and output are what people and programs said; only their extent is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Record::Snapshot { through, vt } => {
                write!(f, "Snapshot(through {through}, {} bytes)", vt.len())
            }
            Record::Output { offset, bytes } => {
                write!(f, "Output({offset}, {} bytes)", bytes.len())
            }
            Record::Input { offset, bytes } => write!(f, "Input({offset}, {} bytes)", bytes.len()),
            Record::Size(size) => write!(f, "Size({}x{})", size.cols, size.rows),
            Record::InputAcknowledged(offset) => write!(f, "InputAcknowledged({offset})"),
            Record::Link { state, retry_ms } => write!(f, "Link({}, {retry_ms} ms)", state.name()),
            Record::Lost { unsent, unknown } => {
                write!(f, "Lost(unsent {unsent}, unknown {unknown})")
            }
            Record::Ended(exit) => write!(f, "Ended({exit:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_survives_the_local_socket_byte_by_byte() {
        let records = [
            Record::Snapshot { through: 9, vt: Bytes::from_static(b"\x1b[H") },
            Record::Output { offset: u64::MAX, bytes: Bytes::new() },
            Record::Size(Size { cols: 80, rows: 24, x_pixels: 1, y_pixels: 2 }),
            Record::Input { offset: 1, bytes: Bytes::from_static(b"ls\r") },
            Record::InputAcknowledged(4),
            Record::Link { state: LinkState::Down, retry_ms: 250 },
            Record::Lost { unsent: 1, unknown: 2 },
            Record::Ended(Exit::Status(3)),
            Record::Ended(Exit::Signal(9)),
            Record::Ended(Exit::Reason("daemon stopped".to_owned())),
        ];
        let wire: Vec<u8> = records.iter().flat_map(|record| record.to_local()).collect();
        let mut buffer = BytesMut::new();
        let mut got = Vec::new();
        for byte in wire {
            buffer.put_u8(byte);
            while let Some(record) = Record::from_local(&mut buffer).unwrap() {
                got.push(record);
            }
        }
        assert_eq!(got, records);
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_end_for_a_reason_has_no_number() {
        let body = Bytes::from_static(b"\x02\0\0\0\x01gone");
        assert_eq!(Record::parse(8, body), Err(RecordError::Body(8)));
    }

    #[test]
    fn a_hostile_length_is_refused_before_it_is_waited_for() {
        let mut buffer = BytesMut::from(&[2, 0x40, 0, 0, 0][..]);
        assert_eq!(Record::from_local(&mut buffer), Err(RecordError::TooLong(1 << 30)));
        let mut buffer = BytesMut::from(&[77, 0, 0, 0, 0][..]);
        assert_eq!(Record::from_local(&mut buffer), Err(RecordError::Kind(77)));
    }
}
