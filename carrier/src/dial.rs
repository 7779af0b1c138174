//! From a route to a carrier.

use std::io;
use std::path::PathBuf;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

use crate::bounds::CONNECT_TIME;
use crate::packet::{Carrier, web_socket_config};
use crate::route::Route;
use crate::socket::Socket;
use crate::ssh;

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
    /// Something else than a keepline daemon answers.
    #[error("what answers at {route} is not a keepline daemon: {reason}")]
    NotADaemon {
        /// The route, without its query.
        route: String,
        /// What it said.
        reason: String,
    },
}

/// Makes the connection, up to where the handshake starts.
///
/// # Errors
/// When it cannot be made.
pub async fn dial(route: &Route) -> Result<Carrier, DialError> {
    match timeout(CONNECT_TIME, connect(route)).await {
        Ok(result) => result,
        Err(_) => Err(DialError::Timeout(route.to_string())),
    }
}

async fn connect(route: &Route) -> Result<Carrier, DialError> {
    let failed = |source| DialError::Connect { route: route.to_string(), source };
    match route {
        Route::Ssh(destination) => ssh::connect(destination).await,
        Route::Unix(path) => {
            let stream = UnixStream::connect::<&PathBuf>(path).await.map_err(failed)?;
            Carrier::open_unix(stream).await.map_err(failed)
        }
        Route::WebSocket { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            let stream = Socket::new(stream).map_err(failed)?;
            let (stream, _) = client_async_with_config(route.url(), stream, Some(web_socket_config()))
                .await
                .map_err(|error| not_a_daemon(route, error))?;
            Ok(Carrier::web_socket(stream))
        }
    }
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
