//! Messages on a stream: `u32 length, u16 number, body`, the length counting number and body.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::MESSAGE_MAX;
use crate::failure::{Failure, FailureBody};
use crate::record::{Record, RecordError};
use crate::registry::{ANSWER, FAILURE, Method, RECORD};

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// From the [registry](crate::registry).
    pub number: u16,
    /// Postcard bytes of the number's struct, or a record's body.
    pub body: Bytes,
}

/// Bytes that are no message: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length is below two or over [`MESSAGE_MAX`].
    #[error("a message of {0} bytes is outside the limits")]
    Length(u32),
    /// The body is not the struct that the number says.
    #[error("the body of message {number:#06x} is malformed")]
    Body {
        /// The message's number.
        number: u16,
    },
    /// Another message was due.
    #[error("message {number:#06x} is not expected here")]
    Unexpected {
        /// The message's number.
        number: u16,
    },
    /// A record is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The stream ended inside a message.
    #[error("the stream ended inside a message")]
    Truncated,
}

const HEAD: usize = 6;

fn encode(number: u16, body: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u32(0);
    out.put_u16(number);
    body(&mut out);
    let length = u32::try_from(out.len() - 4).expect("a message that we make is far below 4 GiB");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out.freeze()
}

/// The wire form of a message whose body is the postcard form of `body`.
pub fn encode_struct<T: Serialize>(number: u16, body: &T) -> Bytes {
    encode_raw(number, &postcard::to_stdvec(body).expect("a plain struct has a postcard form"))
}

/// The wire form of a message whose body is already encoded.
pub fn encode_raw(number: u16, body: &[u8]) -> Bytes {
    encode(number, |out| out.put_slice(body))
}

/// The wire form of a request.
pub fn encode_request<M: Method>(params: &M::Params) -> Bytes {
    encode_struct(M::NUMBER, params)
}

/// The wire form of a request's answer.
pub fn encode_answer<M: Method>(answer: &Result<M::Answer, Failure>) -> Bytes {
    match answer {
        Ok(answer) => encode_struct(M::NUMBER | ANSWER, answer),
        Err(failure) => encode_struct(FAILURE, &FailureBody::from(failure.clone())),
    }
}

/// The wire form of a record.
pub fn encode_record(record: &Record) -> Bytes {
    encode(RECORD + u16::from(record.kind()), |out| record.write_body(out))
}

impl Message {
    /// The body as the struct `T`.
    ///
    /// # Errors
    /// When it is not one, or has bytes behind it.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, MessageError> {
        match postcard::take_from_bytes(&self.body) {
            Ok((value, [])) => Ok(value),
            _ => Err(MessageError::Body { number: self.number }),
        }
    }

    /// The message as the answer to a request of `M`.
    ///
    /// # Errors
    /// The outer error when it is no answer to `M`; the inner one when the peer says that the request failed.
    pub fn answer<M: Method>(&self) -> Result<Result<M::Answer, Failure>, MessageError> {
        if self.number == M::NUMBER | ANSWER {
            self.parse().map(Ok)
        } else if self.number == FAILURE {
            self.parse::<FailureBody>().map(|body| Err(body.into()))
        } else {
            Err(MessageError::Unexpected { number: self.number })
        }
    }

    /// The message as a record.
    ///
    /// # Errors
    /// When it is none, or its body is malformed.
    pub fn record(self) -> Result<Record, MessageError> {
        match self.number.checked_sub(RECORD).map(u8::try_from) {
            Some(Ok(kind)) => Ok(Record::parse(kind, self.body)?),
            _ => Err(MessageError::Unexpected { number: self.number }),
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({:#06x}, {} bytes)", self.number, self.body.len())
    }
}

/// Gathers a stream's bytes into messages.
///
/// What it holds is bounded by [`MESSAGE_MAX`] and one frame: a length is checked as soon as it is there.
#[derive(Debug, Default)]
pub struct Assembler {
    buffer: BytesMut,
}

impl Assembler {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole message.
    ///
    /// # Errors
    /// When its length is outside the limits; the stream cannot be read further.
    pub fn take(&mut self) -> Result<Option<Message>, MessageError> {
        let Some((length, _)) = self.buffer.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length);
        let size = length as usize;
        if !(2..=MESSAGE_MAX + HEAD).contains(&size) {
            return Err(MessageError::Length(length));
        }
        if self.buffer.len() < 4 + size {
            return Ok(None);
        }
        self.buffer.advance(4);
        let mut message = self.buffer.split_to(size);
        let number = message.get_u16();
        Ok(Some(Message { number, body: message.freeze() }))
    }

    /// Bytes of the message that is being gathered, once its length is there; 0 while it is not. Only behind a
    /// [`take`](Self::take) that gave nothing is the length within the limits.
    #[must_use]
    pub fn gathering(&self) -> usize {
        let length = self.buffer.split_first_chunk::<4>();
        length.map_or(0, |(length, _)| u32::from_be_bytes(*length) as usize)
    }

    /// Says that the stream ended.
    ///
    /// # Errors
    /// When it ended inside a message.
    pub fn end(&self) -> Result<(), MessageError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(MessageError::Truncated) }
    }
}
