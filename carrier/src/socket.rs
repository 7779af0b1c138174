//! Sockets as a carrier uses them: asked whether they take more before there is anything to write.
//!
//! A packet is sealed when it is written, and what is sealed cannot be overtaken. So the writer waits until the kernel
//! holds little unsent, and only then asks the link for a packet.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// A connection that belongs to a WebSocket and to the writer who looks whether it takes more.
#[derive(Clone, Debug)]
pub struct Socket(Arc<Stream>);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    /// To a proxy on this machine.
    Unix(UnixStream),
}

/// Calls the same method of either.
macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match &*$socket.0 {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// Takes a connection, at either end: a packet is sent when it is written, however small it is.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Socket(Arc::new(Stream::Tcp(stream))))
    }

    /// Takes a connection to a proxy on this machine.
    pub(crate) fn local(stream: UnixStream) -> Self {
        Socket(Arc::new(Stream::Unix(stream)))
    }

    /// Waits until the kernel takes more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        loop {
            either!(self, stream => stream.writable().await)?;
            let taken = either!(self, stream => stream.try_io(Interest::WRITABLE, || takes_more(stream)));
            match taken {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Lets the kernel hold so many bytes unsent; with half of them it takes more.
    pub(crate) fn hold_unsent(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).map_or(i32::MAX.cast_unsigned(), |b| b.min(1 << 30));
        // A kernel that does not know the option only queues more.
        if let Stream::Tcp(stream) = &*self.0 {
            let _ = SockRef::from(stream).set_tcp_notsent_lowat(bytes);
        }
    }
}

/// Waits until the kernel takes more.
pub(crate) async fn writable(stream: &UnixStream) -> io::Result<()> {
    loop {
        stream.writable().await?;
        match stream.try_io(Interest::WRITABLE, || takes_more(stream)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// Asks the kernel itself: the runtime only remembers that a write was not refused yet.
fn takes_more(socket: impl AsFd) -> io::Result<()> {
    let mut asked = [PollFd::new(&socket, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default()))?;
    // A connection that failed is for the write to report.
    if asked[0].revents().is_empty() {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(either!(self, stream => stream.poll_read_ready(context)))?;
            match either!(self, stream => stream.try_read(buffer.initialize_unfilled())) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(either!(self, stream => stream.poll_write_ready(context)))?;
            match either!(self, stream => stream.try_write(bytes)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(either!(self, stream => SockRef::from(stream).shutdown(std::net::Shutdown::Write)))
    }
}

/// What a WebSocket is spoken on.
#[derive(Debug)]
pub enum Wire {
    /// The connection itself.
    Plain(Socket),
    /// TLS over it.
    Tls(Box<TlsStream<Socket>>),
}

impl Wire {
    /// The connection below.
    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Calls the same method of either.
macro_rules! through {
    ($wire:expr, $stream:ident => $call:expr) => {
        match $wire.get_mut() {
            Wire::Plain($stream) => $call,
            Wire::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        through!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        through!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        through!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        through!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn tcp(socket: &Socket) -> &TcpStream {
        match &*socket.0 {
            Stream::Tcp(stream) => stream,
            Stream::Unix(_) => panic!("a TCP connection was made"),
        }
    }

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Socket::new(near.unwrap()).unwrap(), far.unwrap().0)
    }

    #[tokio::test]
    async fn a_small_packet_does_not_wait_for_company() {
        let (socket, _peer) = pair().await;
        assert!(tcp(&socket).nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_socket_takes_no_more_while_little_is_unsent() {
        let (socket, mut peer) = pair().await;
        socket.hold_unsent(64 << 10);
        let mut written = 0;
        while socket.writable().now_or_never().is_some() {
            written += tcp(&socket).try_write(&[7; 1 << 10]).unwrap();
        }
        // The kernel itself would still take more.
        written += SockRef::from(tcp(&socket)).send(b"x").unwrap();
        let mut taken = vec![0; written];
        let (writable, read) = tokio::join!(socket.writable(), peer.read_exact(&mut taken));
        writable.unwrap();
        read.unwrap();
    }
}
