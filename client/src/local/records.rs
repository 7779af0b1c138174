//! Records on a local socket, after `terminal.attach`.

use std::io;

use bytes::BytesMut;
use keepline_protocol::record::Record;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::bounds::SOCKET_QUEUE;

/// The records that the other side sends.
#[derive(Debug)]
pub struct RecordReader {
    reader: OwnedReadHalf,
    buffer: BytesMut,
}

const READ: usize = 64 << 10;

impl RecordReader {
    pub(crate) fn new(reader: OwnedReadHalf, buffer: BytesMut) -> Self {
        RecordReader { reader, buffer }
    }

    /// Waits for the next record; nothing when the other side closed the connection between two. May be dropped while
    /// it waits without losing any.
    ///
    /// # Errors
    /// When the connection broke or closed inside a record ([`io::ErrorKind::UnexpectedEof`]), or what came is no record
    /// ([`io::ErrorKind::InvalidData`]).
    pub async fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            let record = Record::from_local(&mut self.buffer)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if record.is_some() {
                return Ok(record);
            }
            self.buffer.reserve(READ);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }
}

/// The records that this side sends, through a bounded queue.
#[derive(Debug)]
pub struct RecordWriter {
    writer: OwnedWriteHalf,
    queue: BytesMut,
}

impl RecordWriter {
    pub(crate) fn new(writer: OwnedWriteHalf) -> Self {
        RecordWriter { writer, queue: BytesMut::new() }
    }

    /// Whether another record may be queued: less than [`SOCKET_QUEUE`] waits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.queue.len() < SOCKET_QUEUE
    }

    /// Queues a record; [`flush`](Self::flush) sends it.
    pub fn push(&mut self, record: &Record) {
        self.queue.extend_from_slice(&record.to_local());
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends what is queued, as far as the socket takes it in one write. May be dropped while it waits without losing
    /// or doubling anything.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.queue.is_empty() && self.writer.write_buf(&mut self.queue).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }
}
