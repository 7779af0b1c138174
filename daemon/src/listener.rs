//! TCP connections, and what they may cost before they are authenticated.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use keepline_carrier::upgrade;
use keepline_protocol::bounds::HANDSHAKE_TIME;
use keepline_protocol::failure::{Code, Failure};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::bounds::HALF_OPEN_MAX;
use crate::daemon::Daemon;

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
        let failed = |error: std::io::Error| {
            Failure::new(Code::Failed, format!("cannot listen on {address}: {error}"))
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        self.listening_on(bound);
        tokio::spawn(self.clone().accept_all(listener));
        Ok(bound)
    }

    async fn accept_all(self, listener: TcpListener) {
        let half_open = Arc::new(Semaphore::new(HALF_OPEN_MAX));
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: others have to end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(slot) = Arc::clone(&half_open).try_acquire_owned() else {
                tracing::debug!(%peer, "too many half-open connections");
                continue;
            };
            let daemon = self.clone();
            tokio::spawn(async move {
                if stream.set_nodelay(true).is_err() {
                    return;
                }
                let upgraded = timeout(HANDSHAKE_TIME, upgrade::accept(stream)).await;
                match upgraded {
                    Ok(Ok(carrier)) => {
                        daemon
                            .serve_carrier(carrier, peer.to_string(), Some(slot))
                            .await;
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "no link"),
                    Err(_) => tracing::debug!(%peer, "no request in time"),
                }
            });
        }
    }
}

/// Loopback, also when an IPv4 address is written as IPv6.
fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    }
}
