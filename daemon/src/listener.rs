//! TCP connections, up to where their handshake begins.

use std::net::{IpAddr, SocketAddr};

use keepline_carrier::upgrade::{self, UpgradeError};
use keepline_protocol::bounds::HANDSHAKE_TIME;
use keepline_protocol::failure::{Code, Failure};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::bounds::{ACCEPT_AGAIN, ACCEPT_QUEUE};
use crate::daemon::Daemon;
use crate::gate::{Gate, Lost, Place};

impl Daemon {
    /// Listens for links on `address` and gives the address that was bound. Off loopback only with `insecure`: the link
    /// encrypts for itself, but anybody can reach the port.
    ///
    /// # Errors
    /// When the address is not loopback and that was not asked for, or cannot be bound.
    pub async fn listen(&self, address: SocketAddr, insecure: bool) -> Result<SocketAddr, Failure> {
        if !is_loopback(address.ip()) && !insecure {
            let message = format!(
                "{address} is not a loopback address: put a TLS gateway in front of it, or say --remote-ws-insecure-bind"
            );
            return Err(Failure::new(Code::Invalid, message));
        }
        let failed = |error: std::io::Error| Failure::new(Code::Failed, format!("cannot listen on {address}: {error}"));
        let listener = bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        self.listening_on(bound);
        tokio::spawn(self.clone().accept_all(listener));
        Ok(bound)
    }

    async fn accept_all(self, listener: TcpListener) {
        let gate = Gate::new();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: others have to end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let (place, lost) = gate.enter(peer.ip());
            let served = self.clone().serve_connection(stream, peer, place, lost);
            tokio::spawn(served);
        }
    }

    async fn serve_connection(self, stream: TcpStream, peer: SocketAddr, place: Place, mut lost: Lost) {
        let upgraded = tokio::select! {
            upgraded = timeout(HANDSHAKE_TIME, upgrade::accept(stream)) => upgraded,
            () = lost.wait() => return tracing::debug!(%peer, "pushed out before a request"),
        };
        match upgraded {
            Ok(Ok(carrier)) => {
                self.serve_gated(carrier, &peer.to_string(), place, lost).await;
            }
            Ok(Err(error)) => {
                // Who only went away did nothing bad.
                if !matches!(error, UpgradeError::Io(_)) {
                    place.misbehaved();
                }
                tracing::debug!(%peer, %error, "no link");
            }
            Err(_) => {
                place.misbehaved();
                tracing::debug!(%peer, "no request in time");
            }
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A daemon that comes back takes its port while connections to the one before are still being forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_QUEUE)
}

/// Loopback, also when an IPv4 address is written as IPv6.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}
