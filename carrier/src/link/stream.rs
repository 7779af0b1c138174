//! A stream's two halves, for the tasks that use it.

use std::sync::Arc;

use bytes::Bytes;
use keepline_protocol::bounds::STREAM_WINDOW_FIRST;
use keepline_protocol::message::{Assembler, Message, MessageError};
use keepline_protocol::stream::{MALFORMED, Read, StreamClosed, StreamId};

use super::{Shared, Wakers};

/// Both halves hold this; when the last is dropped the stream is released.
pub(super) struct Stream {
    pub(super) link: Arc<Shared>,
    pub(super) id: StreamId,
    pub(super) wakers: Arc<Wakers>,
}

/// The halves of a stream.
pub(super) fn halves(stream: Stream) -> (Sender, Receiver) {
    let stream = Arc::new(stream);
    let sender = Sender { stream: stream.clone() };
    let receiver = Receiver { stream, assembler: Assembler::default(), gathers: false, given: false };
    (sender, receiver)
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.link.change(|state| {
            state.wakers.remove(&self.id);
            state.core.release(self.id);
        });
    }
}

/// The writing half of a stream.
pub struct Sender {
    stream: Arc<Stream>,
}

impl Sender {
    /// Waits until something may be written, and says how much.
    ///
    /// # Errors
    /// When the stream takes nothing more.
    pub async fn ready(&self) -> Result<usize, StreamClosed> {
        loop {
            let capacity = self.stream.link.lock().core.capacity(self.stream.id)?;
            if capacity > 0 {
                return Ok(capacity);
            }
            self.stream.wakers.writable.notified().await;
        }
    }

    /// Writes bytes, waiting for room.
    ///
    /// # Errors
    /// When the stream takes nothing more.
    pub async fn send(&self, mut bytes: Bytes) -> Result<(), StreamClosed> {
        while !bytes.is_empty() {
            let room = self.ready().await?;
            let part = bytes.split_to(room.min(bytes.len()));
            self.stream.link.change(|state| state.core.write(self.stream.id, part))?;
        }
        Ok(())
    }

    /// Says that nothing more will be written.
    pub fn finish(&self) {
        // A stream that is closed already needs no end.
        let _ = self.stream.link.change(|state| state.core.finish(self.stream.id));
    }

    /// Gives the stream up in both directions.
    pub fn reset(&self, code: u16) {
        self.stream.link.change(|state| state.core.reset(self.stream.id, code));
    }

    /// Waits until the peer has given the stream up or the link has ended.
    pub async fn closed(&self) {
        loop {
            if self.stream.link.lock().core.capacity(self.stream.id).is_err() {
                return;
            }
            self.stream.wakers.writable.notified().await;
        }
    }
}

/// The reading half of a stream.
pub struct Receiver {
    stream: Arc<Stream>,
    assembler: Assembler,
    /// The link counts what is gathered here.
    gathers: bool,
    /// The message that was gathered has been given to the application.
    given: bool,
}

/// Why a stream gives no further message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The peer gave it up, or the link ended.
    #[error("the stream was given up")]
    Reset,
    /// The peer sent what is no message. The stream has been reset.
    #[error("the peer broke the protocol of messages: {0}")]
    Malformed(#[from] MessageError),
}

impl Receiver {
    /// The next message; nothing when the peer has finished. Nothing is lost when the wait is given up.
    ///
    /// A large message counts within the link's bound from when its length is known until the next one is asked for.
    ///
    /// # Errors
    /// When there will be no further message.
    pub async fn message(&mut self) -> Result<Option<Message>, ReceiveError> {
        if std::mem::take(&mut self.given) && std::mem::take(&mut self.gathers) {
            self.gather(0);
        }
        loop {
            match self.assembler.take() {
                Ok(Some(message)) => {
                    self.given = true;
                    return Ok(Some(message));
                }
                Ok(None) => {}
                Err(error) => return Err(self.malformed(error)),
            }
            let length = self.assembler.gathering();
            if length as u64 > STREAM_WINDOW_FIRST && !self.gathers {
                if !self.gather(length) {
                    self.stream.wakers.readable.notified().await;
                    continue;
                }
                self.gathers = true;
            }
            let read = self.stream.link.change(|state| state.core.read(self.stream.id));
            match read {
                Read::Data(bytes) => self.assembler.push(&bytes),
                Read::Finished => {
                    return match self.assembler.end() {
                        Ok(()) => Ok(None),
                        Err(error) => Err(self.malformed(error)),
                    };
                }
                Read::Reset(_) => return Err(ReceiveError::Reset),
                Read::Blocked => self.stream.wakers.readable.notified().await,
            }
        }
    }

    /// Gives the stream up in both directions.
    pub fn reset(&self, code: u16) {
        self.stream.link.change(|state| state.core.reset(self.stream.id, code));
    }

    /// Whether the link lets a message of so many bytes be gathered.
    fn gather(&self, bytes: usize) -> bool {
        self.stream.link.change(|state| state.core.gather(self.stream.id, bytes))
    }

    fn malformed(&self, error: MessageError) -> ReceiveError {
        self.reset(MALFORMED);
        error.into()
    }
}
