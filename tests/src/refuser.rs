//! A stranger at a daemon's port: it speaks WebSocket and refuses everybody in clear, as anybody on the way can.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tungstenite::Message;

/// What is answered to a first message: kind 1, and the number of `busy`.
const BUSY: [u8; 3] = [1, 0, 2];

/// The stranger. It stops to take connections when it is dropped.
pub struct Refuser {
    /// Where it listens.
    pub address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Refuser {
    /// Refuses on a free port of loopback.
    ///
    /// # Panics
    /// When the system has no port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refuser = Refuser { address: listener.local_addr().unwrap(), closed: Arc::default() };
        let closed = Arc::clone(&refuser.closed);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || refuse(stream));
            }
        });
        refuser
    }
}

fn refuse(stream: TcpStream) {
    let Ok(mut socket) = tungstenite::accept(stream) else {
        return;
    };
    if socket.read().is_ok() {
        let _ = socket.send(Message::binary(BUSY.to_vec()));
        // The other end closes when it has read it.
        while socket.read().is_ok() {}
    }
}

impl Drop for Refuser {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}
