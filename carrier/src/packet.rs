//! A carrier's two halves: whole packets in, whole packets out.
//!
//! On a WebSocket one binary message is one packet. On a Unix socket and over ssh the four bytes `KPLN` come
//! first, then each packet as a 16-bit big-endian length and its bytes. In memory a packet is an item of a channel.

use std::io;

use bytes::{Buf, Bytes};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use keepline_protocol::bounds::PACKET_MAX;
use keepline_protocol::handshake::MAGIC;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message, protocol::WebSocketConfig};

use crate::bounds::MEMORY_PACKETS;
use crate::socket::{self, Socket, Wire};

/// What a carrier is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A WebSocket.
    WebSocket,
    /// A Unix socket.
    Unix,
    /// ssh, at the end that started it.
    Ssh,
    /// Inside one process.
    Memory,
}

impl Kind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::WebSocket => "ws",
            Kind::Unix => "unix",
            Kind::Ssh => "ssh",
            Kind::Memory => "memory",
        }
    }
}

/// A carrier.
pub struct Carrier {
    /// What it is.
    pub kind: Kind,
    /// Packets in.
    pub reader: PacketReader,
    /// Packets out.
    pub writer: PacketWriter,
}

/// The receiving half.
pub struct PacketReader(Reader);

enum Reader {
    Unix(BufReader<OwnedReadHalf>),
    WebSocket(SplitStream<WebSocketStream<Wire>>),
    Memory(mpsc::Receiver<Vec<u8>>),
}

/// The sending half.
pub struct PacketWriter(Writer);

enum Writer {
    /// With what has to live as long as the carrier.
    Unix(OwnedWriteHalf, Option<Box<Child>>),
    WebSocket {
        sink: SplitSink<WebSocketStream<Wire>, Message>,
        socket: Socket,
    },
    Memory(mpsc::Sender<Vec<u8>>),
}

/// The limits of every WebSocket of ours: no message is longer than a packet, and what is written goes out at once.
pub(crate) fn web_socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(PACKET_MAX))
        .max_frame_size(Some(PACKET_MAX))
        .read_buffer_size(64 << 10)
        .write_buffer_size(0)
}

impl Carrier {
    /// A carrier over a WebSocket whose HTTP part is done.
    #[must_use]
    pub fn web_socket(stream: WebSocketStream<Wire>) -> Self {
        let socket = stream.get_ref().socket().clone();
        let (sink, reader) = stream.split();
        Carrier {
            kind: Kind::WebSocket,
            reader: PacketReader(Reader::WebSocket(reader)),
            writer: PacketWriter(Writer::WebSocket { sink, socket }),
        }
    }

    /// A carrier over a Unix socket, after the four bytes that open it.
    #[must_use]
    pub fn unix(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Carrier {
            kind: Kind::Unix,
            reader: PacketReader(Reader::Unix(BufReader::with_capacity(64 << 10, reader))),
            writer: PacketWriter(Writer::Unix(writer, None)),
        }
    }

    /// A carrier over a Unix socket, from the connecting side: writes the four bytes that open it.
    ///
    /// # Errors
    /// When they cannot be written.
    pub async fn open_unix(mut stream: UnixStream) -> io::Result<Self> {
        stream.write_all(MAGIC).await?;
        Ok(Self::unix(stream))
    }

    /// A carrier over ssh, which ends with the carrier; `stream` is its standard input and output, behind the four bytes
    /// that open it.
    pub(crate) fn ssh(stream: UnixStream, ssh: Child) -> Self {
        let mut carrier = Self::unix(stream);
        carrier.kind = Kind::Ssh;
        if let Writer::Unix(_, held) = &mut carrier.writer.0 {
            *held = Some(Box::new(ssh));
        }
        carrier
    }

    /// Two carriers that are each other's peer, inside one process.
    #[must_use]
    pub fn memory() -> (Self, Self) {
        let (to_right, from_left) = mpsc::channel(MEMORY_PACKETS);
        let (to_left, from_right) = mpsc::channel(MEMORY_PACKETS);
        let end = |sender, receiver| Carrier {
            kind: Kind::Memory,
            reader: PacketReader(Reader::Memory(receiver)),
            writer: PacketWriter(Writer::Memory(sender)),
        };
        (end(to_right, from_right), end(to_left, from_left))
    }
}

impl PacketReader {
    /// The next packet; nothing when the peer closed the carrier.
    ///
    /// # Errors
    /// When the carrier fails, or the peer sends what is no packet.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
        match &mut self.0 {
            Reader::Unix(stream) => {
                let length = match stream.read_u16().await {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    length => usize::from(length?),
                };
                let mut packet = vec![0; length];
                stream.read_exact(&mut packet).await?;
                Ok(Some(packet.into()))
            }
            Reader::WebSocket(stream) => loop {
                match stream.next().await {
                    None | Some(Ok(Message::Close(_))) => return Ok(None),
                    Some(Ok(Message::Binary(packet))) => return Ok(Some(packet)),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(_)) => return Err(invalid("a text message on a link")),
                    Some(Err(error)) => return Err(web_socket_error(error)),
                }
            },
            Reader::Memory(receiver) => Ok(receiver.recv().await.map(Bytes::from)),
        }
    }
}

impl PacketWriter {
    /// Waits until the carrier takes a packet: until then what is queued for it can still be overtaken.
    ///
    /// # Errors
    /// When the carrier fails.
    pub async fn ready(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Writer::Unix(stream, _) => socket::writable(stream.as_ref()).await,
            Writer::WebSocket { socket, .. } => socket.writable().await,
            Writer::Memory(sender) => match sender.reserve().await {
                Ok(_) => Ok(()),
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    /// Lets the system below hold so many bytes unsent, where it can be told.
    pub fn hold_unsent(&mut self, bytes: usize) {
        if let Writer::WebSocket { socket, .. } = &self.0 {
            socket.hold_unsent(bytes);
        }
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// When the carrier fails.
    pub async fn write(&mut self, packet: Vec<u8>) -> io::Result<()> {
        match &mut self.0 {
            Writer::Unix(stream, _) => {
                let length = u16::try_from(packet.len()).map_err(|_| invalid("a packet over the limit"))?;
                let head = length.to_be_bytes();
                let mut framed = Buf::chain(&head[..], packet.as_slice());
                stream.write_all_buf(&mut framed).await
            }
            Writer::WebSocket { sink, .. } => sink.send(Message::Binary(packet.into())).await.map_err(web_socket_error),
            Writer::Memory(sender) => sender.send(packet).await.map_err(|_| io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Says that nothing more will be written.
    pub async fn close(&mut self) {
        match &mut self.0 {
            Writer::Unix(stream, _) => drop(stream.shutdown().await),
            Writer::WebSocket { sink, .. } => drop(sink.close().await),
            Writer::Memory(_) => {}
        }
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn web_socket_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            io::ErrorKind::ConnectionReset.into()
        }
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}
