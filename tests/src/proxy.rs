//! A TCP proxy between a relay and a daemon that cuts the connection at chosen bytes, or swallows all of them.
//!
//! ```text
//!   relay ⇄ proxy ⇄ daemon          a connection:  handshake ──two messages from the daemon──▶ up
//! ```
//!
//! It reads along what the daemon sends: the head of its HTTP answer, then WebSocket messages. The second one carries
//! the daemon's verdict, so until that has passed whole a handshake is under way.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the relay to the daemon.
    ToDaemon,
    /// From the daemon to the relay.
    ToRelay,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// From the first byte to the daemon's verdict.
    Handshake,
    /// After it.
    Up,
}

/// A cut to make.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Only while the connection is here.
    pub phase: Phase,
    /// The bytes that count.
    pub direction: Direction,
    /// How many of them pass in this phase, of one connection for a handshake.
    pub after: u64,
    /// Whether the connection is reset, else closed in order.
    pub reset: bool,
}

/// A cut that was made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// How far the connection was.
    pub phase: Phase,
    /// Bytes that had passed on it, to the daemon and to the relay.
    pub passed: [u64; 2],
}

/// The proxy. It stops to take connections when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    cuts: VecDeque<Cut>,
    /// Bytes that count for the first of `cuts`.
    counted: u64,
    made: Vec<Made>,
    /// Bytes of the first whole handshake, to the daemon and to the relay.
    handshake: Option<[u64; 2]>,
    /// The connection that has passed a byte last.
    current: Option<Arc<[TcpStream; 2]>>,
    /// Connections so far.
    connections: u64,
    /// The last of those whose bytes vanish.
    swallowed: u64,
    /// Where connections lead instead of to the daemon.
    elsewhere: Option<SocketAddr>,
    black: bool,
    hole: bool,
    closed: bool,
}

/// One connection.
struct Connection {
    number: u64,
    ends: Arc<[TcpStream; 2]>,
    passed: [u64; 2],
    messages: Messages,
}

impl Proxy {
    /// A proxy on a free port of loopback, in front of `daemon`.
    ///
    /// # Panics
    /// When the system has no port.
    pub fn start(daemon: &str) -> Self {
        let daemon: SocketAddr = daemon.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy { address: listener.local_addr().unwrap(), shared: Arc::default() };
        let shared = Arc::clone(&proxy.shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = shared.lock().unwrap();
                if state.closed {
                    return;
                }
                state.connections += 1;
                let number = state.connections;
                if state.hole {
                    state.swallowed = number;
                }
                if !state.black {
                    let daemon = state.elsewhere.unwrap_or(daemon);
                    drop(state);
                    serve(number, stream, daemon, &shared);
                }
            }
        });
        proxy
    }

    /// The route to it.
    pub fn route(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Makes these cuts, one after the other, after those that were asked for before.
    pub fn cut(&self, cuts: impl IntoIterator<Item = Cut>) {
        self.shared.lock().unwrap().cuts.extend(cuts);
    }

    /// The cuts that were made.
    pub fn made(&self) -> Vec<Made> {
        self.shared.lock().unwrap().made.clone()
    }

    /// Bytes of a whole handshake, to the daemon and to the relay, once there was one.
    pub fn handshake_bytes(&self) -> Option<[u64; 2]> {
        self.shared.lock().unwrap().handshake
    }

    /// Ends the present connection and takes no other until [`restore`](Self::restore).
    pub fn black_out(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.black = true;
        if let Some(ends) = shared.current.take() {
            end(&ends, false);
        }
    }

    /// From now on every byte vanishes, on each connection that is there or comes until [`restore`](Self::restore), and
    /// neither end is told: a dead path.
    pub fn swallow(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.hole = true;
        shared.swallowed = shared.connections;
    }

    /// Takes connections again. What was swallowed stays so.
    pub fn restore(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.black = false;
        shared.hole = false;
    }

    /// Leads connections that come from now on to `address` instead of to the daemon, or to the daemon again.
    pub fn lead_to(&self, address: Option<SocketAddr>) {
        self.shared.lock().unwrap().elsewhere = address;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().unwrap().closed = true;
        self.black_out();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(number: u64, relay: TcpStream, daemon: SocketAddr, shared: &Arc<Mutex<Shared>>) {
    // No daemon there: the relay sees its connection end.
    let Ok(daemon) = TcpStream::connect(daemon) else {
        return;
    };
    for stream in [&relay, &daemon] {
        stream.set_nodelay(true).unwrap();
    }
    let connection = Arc::new(Mutex::new(Connection {
        number,
        ends: Arc::new([relay, daemon]),
        passed: [0; 2],
        messages: Messages::default(),
    }));
    for direction in [Direction::ToDaemon, Direction::ToRelay] {
        let (connection, shared) = (Arc::clone(&connection), Arc::clone(shared));
        std::thread::spawn(move || pump(direction, &connection, &shared));
    }
}

fn pump(direction: Direction, connection: &Mutex<Connection>, shared: &Mutex<Shared>) {
    let ends = Arc::clone(&connection.lock().unwrap().ends);
    let (mut from, mut to) = match direction {
        Direction::ToDaemon => (&ends[0], &ends[1]),
        Direction::ToRelay => (&ends[1], &ends[0]),
    };
    let mut chunk = [0; 4096];
    loop {
        let read = from.read(&mut chunk);
        let (passes, cut) = {
            let mut shared = shared.lock().unwrap();
            let mut connection = connection.lock().unwrap();
            let count = match read {
                // The end vanishes like everything else; the other end gives up by itself.
                Ok(0) | Err(_) if connection.number <= shared.swallowed => return,
                Ok(0) | Err(_) => return end(&ends, false),
                Ok(count) => count,
            };
            if connection.number <= shared.swallowed {
                continue;
            }
            connection.pass(direction, &chunk[..count], &mut shared)
        };
        if to.write_all(&chunk[..passes]).is_err() {
            return end(&ends, false);
        }
        if let Some(cut) = cut {
            return end(&ends, cut.reset);
        }
    }
}

impl Connection {
    fn phase(&self) -> Phase {
        if self.messages.whole < 2 { Phase::Handshake } else { Phase::Up }
    }

    /// How many of these bytes pass, and the cut behind them.
    fn pass(&mut self, direction: Direction, bytes: &[u8], shared: &mut Shared) -> (usize, Option<Cut>) {
        if shared.black {
            end(&self.ends, false);
            return (0, None);
        }
        shared.current = Some(Arc::clone(&self.ends));
        if self.passed == [0; 2] {
            let of_one = |cut: &Cut| cut.phase == Phase::Handshake;
            if shared.cuts.front().is_some_and(of_one) {
                shared.counted = 0;
            }
        }
        for (index, byte) in bytes.iter().enumerate() {
            if let Some(cut) = shared.cuts.front().copied()
                && (cut.phase, cut.direction) == (self.phase(), direction)
            {
                if shared.counted == cut.after {
                    shared.cuts.pop_front();
                    shared.counted = 0;
                    let (phase, passed) = (self.phase(), self.passed);
                    shared.made.push(Made { phase, passed });
                    return (index, Some(cut));
                }
                shared.counted += 1;
            }
            self.passed[usize::from(direction == Direction::ToRelay)] += 1;
            if direction == Direction::ToRelay {
                let before = self.phase();
                self.messages.read(*byte);
                if before != self.phase() {
                    shared.handshake.get_or_insert(self.passed);
                }
            }
        }
        (bytes.len(), None)
    }
}

fn end(ends: &[TcpStream; 2], reset: bool) {
    for stream in ends {
        if reset {
            // Dissolves the association, which resets the connection.
            let _ = rustix::net::connect_unspec(stream);
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Counts the whole WebSocket messages in what a daemon sends.
#[derive(Default)]
struct Messages {
    whole: u32,
    state: Reading,
    /// The last bytes of the HTTP head, or the bytes of a frame's head.
    head: Vec<u8>,
    left: u64,
}

#[derive(Default)]
enum Reading {
    #[default]
    Http,
    Head,
    Payload,
}

impl Messages {
    fn read(&mut self, byte: u8) {
        match self.state {
            Reading::Http => {
                self.head.push(byte);
                if self.head.ends_with(b"\r\n\r\n") {
                    self.head.clear();
                    self.state = Reading::Head;
                }
            }
            Reading::Head => {
                self.head.push(byte);
                let length = match (self.head.get(1).map(|byte| byte & 0x7f), self.head.len()) {
                    (Some(length @ ..126), 2) => u64::from(length),
                    (Some(126), 4) | (Some(127), 10) => {
                        self.head[2..].iter().fold(0, |length, byte| length << 8 | u64::from(*byte))
                    }
                    _ => return,
                };
                self.head.clear();
                self.left = length;
                self.state = Reading::Payload;
                self.finish();
            }
            Reading::Payload => {
                self.left -= 1;
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        if self.left == 0 {
            self.whole += 1;
            self.state = Reading::Head;
        }
    }
}
