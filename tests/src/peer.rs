//! The other end of a daemon's port, by hand: bytes, HTTP, WebSocket, and a whole handshake with a link behind it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keepline_protocol::Time;
use keepline_protocol::handshake::{
    AwaitReply, Claim, HandshakeError, Initiator, LinkRequest, Outcome, Reply, VERSIONS,
};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Certificate, Credentials, Role};
use keepline_protocol::invitation::Invitation;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::Link;
use keepline_protocol::stream::{Read as StreamRead, StreamId};

/// How long a daemon may keep a connection that has nothing to say to it.
pub const CLOSED_WITHIN: Duration = Duration::from_secs(12);

/// A TCP connection to a daemon.
pub struct Peer {
    stream: TcpStream,
    /// What was read and not yet used.
    ahead: Vec<u8>,
}

/// How a connection ended, which must be within [`CLOSED_WITHIN`].
#[derive(Debug)]
pub struct Closed {
    /// What the daemon had said.
    pub said: String,
}

fn random<const N: usize>() -> [u8; N] {
    std::array::from_fn(|_| fastrand::u8(..))
}

impl Peer {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, ahead: Vec::new() }
    }

    /// Connects and asks for a WebSocket.
    ///
    /// # Panics
    /// When the daemon refuses.
    pub fn upgraded(address: &str) -> Self {
        let mut peer = Peer::connect(address);
        peer.write(request("/v1/link", "").as_bytes());
        let head = peer.read_until(|seen| {
            let end = seen.windows(4).position(|window| window == b"\r\n\r\n")?;
            Some(end + 4)
        });
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        peer
    }

    /// Writes bytes; the daemon may have closed already.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Writes a WebSocket message: `kind` 2 for binary, 1 for text.
    pub fn message(&mut self, kind: u8, payload: &[u8]) -> bool {
        self.message_of(kind, payload.len() as u64, payload)
    }

    /// Writes a WebSocket message that says it has `length` bytes.
    pub fn message_of(&mut self, kind: u8, length: u64, payload: &[u8]) -> bool {
        let mut frame = vec![0x80 | kind];
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(length @ ..126), _) => frame.push(0x80 | length),
            (_, Ok(length)) => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend(length.to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload as it is.
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.write(&frame)
    }

    /// Writes `bytes` again and again until the daemon takes no more or `most` bytes are written: how many it took.
    ///
    /// # Panics
    /// When it neither takes nor closes for [`CLOSED_WITHIN`].
    pub fn pour(&mut self, bytes: &[u8], most: usize) -> usize {
        let chunk = bytes.repeat((64 << 10) / bytes.len() + 1);
        self.stream.set_write_timeout(Some(CLOSED_WITHIN)).unwrap();
        let mut written = 0;
        while written < most {
            match self.stream.write(&chunk) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("neither taken nor closed within {CLOSED_WITHIN:?}")
                }
                Err(_) => break,
            }
        }
        written
    }

    /// The next binary message of the daemon's.
    ///
    /// # Panics
    /// When something else comes.
    pub fn binary(&mut self) -> Vec<u8> {
        let head = self.read_until(|seen| match *seen {
            [_, ..126, ..] => Some(2),
            [_, 126, _, _, ..] => Some(4),
            [_, 127, _, _, _, _, _, _, _, _, ..] => Some(10),
            _ => None,
        });
        assert_eq!(head[0], 0x82, "no binary message: {head:?}");
        let length = match head[1] {
            length @ ..126 => usize::from(length),
            _ => head[2..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
        };
        self.read_until(|seen| (seen.len() >= length).then_some(length))
    }

    /// Shakes hands as a client that brings this.
    ///
    /// # Errors
    /// When the daemon refuses before its verdict.
    pub fn shake_hands(&mut self, initiator: Initiator) -> Result<Outcome, HandshakeError> {
        let (client, first) = initiator.start(random());
        self.message(2, &first);
        match client.handle(&self.binary())? {
            Reply::Prove { message, next } => {
                self.message(2, &message);
                next.handle(&self.binary())
            }
            Reply::Decided(outcome) => Ok(outcome),
        }
    }

    /// Reads until `enough` says how many bytes are wanted.
    fn read_until(&mut self, enough: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
        self.stream.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        loop {
            if let Some(count) = enough(&self.ahead) {
                let rest = self.ahead.split_off(count);
                return std::mem::replace(&mut self.ahead, rest);
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).unwrap();
            assert_ne!(count, 0, "closed after {:?}", self.ahead);
            self.ahead.extend_from_slice(&chunk[..count]);
        }
    }

    /// Waits until the daemon closes the connection.
    ///
    /// # Panics
    /// When it does not within [`CLOSED_WITHIN`].
    pub fn closed(mut self) -> Closed {
        let deadline = Instant::now() + CLOSED_WITHIN;
        let mut said = std::mem::take(&mut self.ahead);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not closed within {CLOSED_WITHIN:?}");
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        Closed { said: String::from_utf8_lossy(&said).into_owned() }
    }
}

/// A request for a WebSocket, with more header lines, each with its line end.
pub fn request(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

fn initiator(credentials: &Credentials, id: LinkId, epoch: u32) -> Initiator<'_> {
    Initiator {
        versions: VERSIONS,
        credentials,
        pinned: None,
        serial: 0,
        noise_key: None,
        claim: None,
        name: "by hand".to_owned(),
        client: "tests".to_owned(),
        features: 0,
        link: LinkRequest { id, epoch, cursors: None },
    }
}

/// An enrolled device with a link of its own, which says what it likes on it.
pub struct Device {
    /// The connection.
    pub peer: Peer,
    /// The link.
    pub link: Link,
    credentials: Credentials,
    /// The daemon's, from its last handshake.
    daemon: Certificate,
    id: LinkId,
    epoch: u32,
    began: Instant,
}

impl Device {
    /// Enrols with an invitation that needs no approval, and opens a link.
    ///
    /// # Panics
    /// When the daemon does not accept.
    pub fn enrolled(address: &str, invitation: &Invitation) -> Self {
        let credentials = Credentials::generate(Role::Device, &random());
        let mut peer = Peer::upgraded(address);
        let id = LinkId::from_bytes(random());
        let initiator = Initiator {
            pinned: Some(invitation.daemon),
            claim: Some(Claim { id: invitation.id, secret: invitation.secret.clone() }),
            ..initiator(&credentials, id, 1)
        };
        let Ok(Outcome::Accepted { cipher, verdict, version, daemon }) = peer.shake_hands(initiator) else {
            panic!("the daemon did not accept");
        };
        let mut link = Link::new(Role::Device);
        link.establish(Time::ZERO, cipher, version, verdict.cursors).unwrap();
        Device { peer, link, credentials, daemon, id, epoch: 1, began: Instant::now() }
    }

    /// Sends message 1 of IK for the next epoch on a new connection, and leaves the link as it is: the connection, what
    /// takes the answer, and the message.
    pub fn knock(&mut self, address: &str) -> (Peer, AwaitReply, Vec<u8>) {
        self.epoch += 1;
        let initiator = Initiator {
            pinned: Some(self.daemon.identity()),
            noise_key: Some(self.daemon.noise_key()),
            link: LinkRequest { id: self.id, epoch: self.epoch, cursors: Some(self.link.cursors()) },
            ..initiator(&self.credentials, self.id, self.epoch)
        };
        let (client, first) = initiator.start(random());
        let mut peer = Peer::upgraded(address);
        peer.message(2, &first);
        (peer, client, first)
    }

    /// Gives the carrier up and resumes the link on a new one, by IK. Nothing is sent behind message 1 yet.
    ///
    /// # Panics
    /// When the daemon does not accept.
    pub fn resume(&mut self, address: &str) {
        self.link.carrier_lost();
        let (mut peer, client, _) = self.knock(address);
        let Reply::Decided(Outcome::Accepted { cipher, verdict, version, .. }) = client.handle(&peer.binary()).unwrap()
        else {
            panic!("the daemon did not accept");
        };
        let now = Time::from_epoch(self.began.elapsed());
        self.link.establish(now, cipher, version, verdict.cursors).unwrap();
        self.peer = peer;
    }

    /// Takes the daemon's next packet, and answers nothing.
    ///
    /// # Panics
    /// When it breaks the protocol.
    pub fn hear(&mut self) {
        let packet = self.peer.binary();
        let now = Time::from_epoch(self.began.elapsed());
        self.link.handle_packet(now, &packet).unwrap();
    }

    /// Writes bytes on a new stream.
    ///
    /// # Panics
    /// When the link is closed.
    pub fn write(&mut self, bytes: &[u8]) -> StreamId {
        let stream = self.link.open(Lane::Control);
        let bytes = Bytes::copy_from_slice(bytes);
        self.link.write(stream, bytes).unwrap();
        self.flush();
        stream
    }

    /// Writes what the link has to say.
    pub fn flush(&mut self) {
        let now = Time::from_epoch(self.began.elapsed());
        while let Some(packet) = self.link.poll_packet(now) {
            self.peer.message(2, &packet);
        }
    }

    /// Waits until the daemon answers on a stream or gives it up: the bytes of its answer, or nothing.
    ///
    /// # Panics
    /// When it does neither.
    pub fn answer(&mut self, stream: StreamId) -> Option<Bytes> {
        loop {
            match self.link.read(stream) {
                StreamRead::Data(bytes) => return Some(bytes),
                StreamRead::Finished | StreamRead::Reset(_) => return None,
                StreamRead::Blocked => {}
            }
            let packet = Bytes::from(self.peer.binary());
            let now = Time::from_epoch(self.began.elapsed());
            self.link.handle_packet(now, &packet).unwrap();
            self.flush();
        }
    }

    /// The connection, given up by the link.
    pub fn into_peer(self) -> Peer {
        self.peer
    }
}
