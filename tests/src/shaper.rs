//! A TCP relay that is a slow path: a rate, a one-way delay, and a queue in front of the slow part, as a router has one.
//!
//! ```text
//!   source ─▶ [socket] ─▶ queue ─▶ rate ─▶ delay ─▶ [socket] ─▶ sink        each direction by itself
//! ```
//!
//! When the queue is full nothing more is read, so the source waits as it waits for a full window: no byte is lost. What
//! the queue holds and what the source's socket holds count together, and together they stay within the queue that was
//! asked for, as far as the system makes small sockets: the buffers that it gave are printed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use socket2::{Domain, SockRef, Socket, Type};

/// Bytes of a segment: on loopback a segment would else be larger than the whole queue of a slow path.
const SEGMENT: u32 = 1448;
/// The rate is kept in pieces of so much time.
const PIECE: Duration = Duration::from_millis(1);

/// A path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Bytes a second, each way.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// How long the last byte of a full queue waits before it is sent.
    pub queue: Duration,
}

/// The relay. It stops to take connections, and ends those it has, when it is dropped.
pub struct Shaper {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    path: Path,
    black: AtomicBool,
    closed: AtomicBool,
    /// The longest wait in a queue so far, in microseconds: towards the listener's peer's server, and back.
    queued: [AtomicU64; 2],
    /// The largest receive buffer that the system gave, in bytes.
    buffer: AtomicUsize,
    ends: Mutex<Vec<TcpStream>>,
}

impl Path {
    /// Bytes that `time` takes.
    fn bytes(&self, time: Duration) -> usize {
        (self.rate as f64 * time.as_secs_f64()) as usize
    }

    fn time(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate as f64)
    }

    /// What the source's socket may hold: an eighth of the queue, so that most of the queue is where it can be counted.
    fn buffer(&self) -> usize {
        (self.bytes(self.queue) / 8).clamp(2048, 64 << 10)
    }

    /// The round trip of a byte that waits nowhere.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        2 * self.delay
    }
}

impl Shaper {
    /// A relay on a free port of loopback, in front of `server`.
    ///
    /// # Panics
    /// When the system has no port.
    pub fn start(server: &str, path: Path) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // What is accepted inherits these; a window is told in the handshake, so they are set before.
        restrict(&SockRef::from(&listener), path);
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(64).unwrap();
        let listener = TcpListener::from(listener);
        let shaper = Shaper {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared {
                path,
                black: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                queued: Default::default(),
                buffer: AtomicUsize::new(0),
                ends: Mutex::default(),
            }),
        };
        let shared = Arc::clone(&shaper.shared);
        spawn(move || {
            for near in listener.incoming().flatten() {
                if shared.closed.load(Ordering::Relaxed) {
                    return;
                }
                connect(near, server, &shared);
            }
        });
        shaper
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The route to it.
    pub fn route(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// The longest that a byte has waited in a queue so far, before the rate and the delay: to the server, and from it.
    pub fn greatest_queue(&self) -> [Duration; 2] {
        let of = |index: usize| self.shared.queued[index].load(Ordering::Relaxed);
        [0, 1].map(|index| Duration::from_micros(of(index)))
    }

    /// The largest receive buffer of its sockets, in bytes, as the system counts: less than half of it is bytes.
    pub fn buffer(&self) -> usize {
        self.shared.buffer.load(Ordering::Relaxed)
    }

    /// From now on, until it is false again, nothing passes, and nobody is told.
    pub fn black_hole(&self, black: bool) {
        self.shared.black.store(black, Ordering::Relaxed);
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        for end in self.shared.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn restrict(socket: &SockRef<'_>, path: Path) {
    socket.set_recv_buffer_size(path.buffer()).unwrap();
    socket.set_tcp_mss(SEGMENT).unwrap();
}

fn connect(near: TcpStream, server: SocketAddr, shared: &Arc<Shared>) {
    let far = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    restrict(&SockRef::from(&far), shared.path);
    // No server there: the client sees its connection end.
    if far.connect(&server.into()).is_err() {
        return;
    }
    let far = TcpStream::from(far);
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        let socket = SockRef::from(stream);
        socket.set_send_buffer_size(shared.path.buffer()).unwrap();
        let given = socket.recv_buffer_size().unwrap();
        shared.buffer.fetch_max(given, Ordering::Relaxed);
    }
    let mut ends = shared.ends.lock().unwrap();
    ends.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
    drop(ends);
    let both = |stream: &TcpStream| stream.try_clone().unwrap();
    direction(0, both(&near), both(&far), shared);
    direction(1, far, near, shared);
}

/// Reads no faster than the rate and the queue allow, and delivers when the rate and the delay are over.
fn direction(index: usize, mut source: TcpStream, mut sink: TcpStream, shared: &Arc<Shared>) {
    let (deliver, arrivals) = mpsc::channel::<(Instant, Vec<u8>)>();
    let path = shared.path;
    let reading = Arc::clone(shared);
    spawn(move || {
        let piece = path.bytes(PIECE).clamp(64, 64 << 10);
        // The socket's share of the queue is the source's to fill.
        let held = path.queue.saturating_sub(path.time(path.buffer()));
        let mut chunk = vec![0; piece];
        let mut sent = Instant::now();
        loop {
            let wait = sent.saturating_duration_since(Instant::now());
            if wait > held {
                sleep(wait - held);
            }
            let Ok(count @ 1..) = source.read(&mut chunk) else {
                // The delivery ends with what is under way, and closes.
                return;
            };
            let now = Instant::now();
            let waiting = ioctl_fionread(&source).unwrap_or(0) as usize + count;
            let queued = sent.saturating_duration_since(now) + path.time(waiting);
            let queued = u64::try_from(queued.as_micros()).unwrap_or(u64::MAX);
            reading.queued[index].fetch_max(queued, Ordering::Relaxed);
            sent = sent.max(now) + path.time(count);
            if deliver.send((sent + path.delay, chunk[..count].to_vec())).is_err() {
                let _ = source.shutdown(Shutdown::Both);
                return;
            }
        }
    });
    let shared = Arc::clone(shared);
    spawn(move || {
        for (at, bytes) in arrivals {
            sleep(at.saturating_duration_since(Instant::now()));
            while shared.black.load(Ordering::Relaxed) && !shared.closed.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(5));
            }
            if sink.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = sink.shutdown(Shutdown::Write);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that takes everything and says how much it was once the other side has finished.
    fn counter() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all.len().to_be_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn everything_passes_at_the_rate_after_the_delay_and_the_queue_is_bounded() {
        let path = Path { rate: 1 << 20, delay: Duration::from_millis(20), queue: Duration::from_millis(50) };
        let shaper = Shaper::start(&counter(), path);
        let began = Instant::now();
        let mut stream = TcpStream::connect(shaper.address()).unwrap();
        stream.write_all(&vec![7; 512 << 10]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(usize::from_be_bytes(answer), 512 << 10);
        // It cannot be faster; how much slower a busy machine makes it is nobody's business.
        assert!(began.elapsed() >= path.time(512 << 10) + path.round_trip());
        let [there, back] = shaper.greatest_queue();
        assert!(there > Duration::ZERO && back < Duration::from_millis(5));
        assert!(there < path.queue * 2, "{there:?}");
    }

    #[test]
    fn nothing_passes_a_black_hole_and_nothing_is_lost() {
        let path = Path { rate: 1 << 20, delay: Duration::ZERO, queue: Duration::from_millis(50) };
        let shaper = Shaper::start(&counter(), path);
        let mut stream = TcpStream::connect(shaper.address()).unwrap();
        shaper.black_hole(true);
        stream.write_all(b"seven b").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let pause = Some(Duration::from_millis(100));
        stream.set_read_timeout(pause).unwrap();
        let mut answer = [0; 8];
        assert!(stream.read_exact(&mut answer).is_err());
        shaper.black_hole(false);
        stream.set_read_timeout(Some(crate::PATIENCE)).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(usize::from_be_bytes(answer), 7);
    }
}
