//! From a route to a carrier.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_socks::tcp::Socks5Stream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use crate::bounds::CONNECT_TIME;
use crate::packet::{Carrier, web_socket_config};
use crate::route::Route;
use crate::socket::{Socket, Wire};
use crate::ssh;
use crate::tls::Trust;

/// Why a route leads nowhere now. All of these may pass.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The connection cannot be made.
    #[error("cannot connect to {route}: {source}")]
    Connect {
        /// The route, without its query.
        route: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("cannot connect to {0}: no answer within 10 seconds")]
    Timeout(String),
    /// ssh does not lead to a keepline.
    #[error("cannot connect to ssh://{destination}: {reason}")]
    Ssh {
        /// What ssh was told to reach.
        destination: String,
        /// What it said last.
        reason: String,
    },
    /// The certificate of who answers is not to be trusted, or TLS failed otherwise.
    #[error("cannot trust what answers at {route}: {reason}")]
    Untrusted {
        /// The route, without its query.
        route: String,
        /// Why.
        reason: String,
    },
    /// Something else than a keepline daemon answers.
    #[error("what answers at {route} is not a keepline daemon: {reason}")]
    NotADaemon {
        /// The route, without its query.
        route: String,
        /// What it said.
        reason: String,
    },
}

/// A SOCKS5 proxy (RFC 1928), without authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socks5 {
    /// `HOST:PORT`.
    Tcp(String),
    /// A Unix socket on this machine.
    Unix(PathBuf),
}

impl FromStr for Socks5 {
    type Err = String;

    /// Reads `HOST:PORT`, or the absolute path of a socket.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Socks5::Unix(text.into()));
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
        match port {
            Some(1..=u16::MAX) => Ok(Socks5::Tcp(text.to_owned())),
            _ => Err(format!("'{text}' is no SOCKS5 proxy: write HOST:PORT or the path of its socket")),
        }
    }
}

/// How WebSocket routes are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The proxy in between.
    pub proxy: Option<Socks5>,
    /// Which certificates are trusted on `wss://` routes.
    pub trust: Trust,
}

/// Makes the connection, up to where the handshake starts. A WebSocket goes by way of the proxy, if there is one, which then
/// looks up the host's name.
///
/// # Errors
/// When it cannot be made.
pub async fn dial(route: &Route, way: &Way) -> Result<Carrier, DialError> {
    match timeout(CONNECT_TIME, connect(route, way)).await {
        Ok(result) => result,
        Err(_) => Err(DialError::Timeout(route.to_string())),
    }
}

async fn connect(route: &Route, way: &Way) -> Result<Carrier, DialError> {
    let failed = |source| DialError::Connect { route: route.to_string(), source };
    match route {
        Route::Ssh(destination) => ssh::connect(destination).await,
        Route::Unix(path) => {
            let stream = UnixStream::connect::<&PathBuf>(path).await.map_err(failed)?;
            Carrier::open_unix(stream).await.map_err(failed)
        }
        Route::WebSocket { tls, host, port, .. } => {
            let there = (host.as_str(), *port);
            let refused = |error: tokio_socks::Error| failed(io::Error::other(format!("the SOCKS5 proxy: {error}")));
            let socket = match &way.proxy {
                None => Socket::new(TcpStream::connect(there).await.map_err(failed)?).map_err(failed)?,
                Some(Socks5::Tcp(proxy)) => {
                    let proxied = Socks5Stream::connect(proxy.as_str(), there).await.map_err(refused)?;
                    Socket::new(proxied.into_inner()).map_err(failed)?
                }
                Some(Socks5::Unix(path)) => {
                    let stream = UnixStream::connect(path).await.map_err(failed)?;
                    let proxied = Socks5Stream::connect_with_socket(stream, there).await.map_err(refused)?;
                    Socket::local(proxied.into_inner())
                }
            };
            let stream = if *tls { secured(route, host, socket, &way.trust).await? } else { Wire::Plain(socket) };
            let (stream, _) = client_async_with_config(route.url(), stream, Some(web_socket_config()))
                .await
                .map_err(|error| not_a_daemon(route, error))?;
            Ok(Carrier::web_socket(stream))
        }
    }
}

async fn secured(route: &Route, host: &str, socket: Socket, trust: &Trust) -> Result<Wire, DialError> {
    let untrusted = |reason: String| DialError::Untrusted { route: route.to_string(), reason };
    let connector = trust.connector().map_err(untrusted)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| untrusted(error.to_string()))?;
    let stream = connector.connect(name, socket).await.map_err(|error| match error.get_ref() {
        // TLS says why it ends.
        Some(reason) => untrusted(reason.to_string()),
        None => DialError::Connect { route: route.to_string(), source: error },
    })?;
    Ok(Wire::Tls(Box::new(stream)))
}

fn not_a_daemon(route: &Route, error: tungstenite::Error) -> DialError {
    let reason = match error {
        tungstenite::Error::Io(source) => {
            return DialError::Connect { route: route.to_string(), source };
        }
        // A tunnel whose other end finds nobody takes the connection and closes it.
        tungstenite::Error::Protocol(ProtocolError::HandshakeIncomplete) => {
            return DialError::Connect {
                route: route.to_string(),
                source: io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed at once"),
            };
        }
        tungstenite::Error::Http(response) => format!("it answered HTTP {}", response.status()),
        // The text of a URL error would show the query.
        tungstenite::Error::Url(_) | tungstenite::Error::HttpFormat(_) => "the URL cannot be asked for".to_owned(),
        other => other.to_string(),
    };
    DialError::NotADaemon { route: route.to_string(), reason }
}
