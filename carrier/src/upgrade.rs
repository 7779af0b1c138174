//! From an accepted TCP connection to a WebSocket carrier: the daemon's HTTP.
//!
//! The daemon serves one path and nothing to browsers: a request with an `Origin` is refused, whatever its value, because
//! a page has no business here. Everything is bounded before anything is authenticated; the time is the caller's.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::bounds::{REFUSED_LINGER, REQUEST_FIELDS_MAX, REQUEST_HEAD_MAX};
use crate::packet::{Carrier, web_socket_config};
use crate::route::LINK_PATH;
use crate::socket::{Socket, Wire};

/// What the bytes of a request mean so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// More bytes are needed.
    Incomplete,
    /// A WebSocket handshake for a link.
    Upgrade {
        /// The value of `Sec-WebSocket-Accept`.
        accept: String,
        /// Bytes of the head; what follows it belongs to the link.
        length: usize,
    },
    /// Something that is answered and closed.
    Refused {
        /// HTTP status and reason.
        status: &'static str,
        /// One sentence.
        sentence: &'static str,
    },
    /// No HTTP.
    Foreign,
}

/// Reads the head of a request.
#[must_use]
pub fn parse(bytes: &[u8]) -> Request {
    let refused = |status, sentence| Request::Refused { status, sentence };
    let mut fields = [httparse::EMPTY_HEADER; REQUEST_FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= REQUEST_HEAD_MAX => length,
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_HEAD_MAX => {
            return Request::Incomplete;
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return refused("431 Request Header Fields Too Large", "The request's head is too large.");
        }
        Err(_) => return Request::Foreign,
    };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    if path != LINK_PATH {
        return refused("404 Not Found", "A keepline daemon serves /v1/link and nothing else.");
    }
    if request.method != Some("GET") {
        return refused("405 Method Not Allowed", "A link is opened with GET.");
    }
    let values = |name: &'static str| {
        request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    };
    let has_token = |name, token: &str| {
        values(name)
            .filter_map(|value| std::str::from_utf8(value).ok())
            .flat_map(|value| value.split(','))
            .any(|found| found.trim().eq_ignore_ascii_case(token))
    };
    if values("origin").next().is_some() {
        return refused("403 Forbidden", "A keepline daemon does not talk to web pages.");
    }
    if !has_token("upgrade", "websocket") || !has_token("connection", "upgrade") {
        return refused("426 Upgrade Required", "A link is a WebSocket.");
    }
    if !has_token("sec-websocket-version", "13") {
        return refused("400 Bad Request", "A link is a WebSocket of version 13.");
    }
    match values("sec-websocket-key").next() {
        Some(key) if key.len() == 24 => Request::Upgrade { accept: derive_accept_key(key), length },
        _ => refused("400 Bad Request", "The request has no Sec-WebSocket-Key."),
    }
}

/// Why a connection became no carrier.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The connection failed or ended.
    #[error("the connection failed before the upgrade: {0}")]
    Io(#[from] io::Error),
    /// It was answered and closed.
    #[error("refused with HTTP {0}")]
    Refused(&'static str),
    /// It did not speak HTTP.
    #[error("not HTTP")]
    Foreign,
}

/// Reads a request from `stream`, answers it, and gives the carrier.
///
/// # Errors
/// When the connection is not one for a link. The caller bounds the time.
pub async fn accept(mut stream: TcpStream) -> Result<Carrier, UpgradeError> {
    let mut head = Vec::with_capacity(1024);
    loop {
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        head.extend_from_slice(&chunk[..count]);
        match parse(&head) {
            Request::Incomplete => {}
            Request::Foreign => return Err(UpgradeError::Foreign),
            Request::Refused { status, sentence } => {
                refuse(stream, status, sentence).await;
                return Err(UpgradeError::Refused(status));
            }
            Request::Upgrade { accept, length } => {
                let answer = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: {accept}\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await?;
                let rest = head.split_off(length);
                let config = Some(web_socket_config());
                let stream = Wire::Plain(Socket::new(stream)?);
                let socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, config).await;
                return Ok(Carrier::web_socket(socket));
            }
        }
    }
}

/// Answers, then reads on a little: closing with unread bytes would reset the connection and lose the answer.
async fn refuse(mut stream: TcpStream, status: &str, sentence: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{sentence}\n",
        sentence.len() + 1
    );
    let linger = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    let _ = timeout(REFUSED_LINGER, linger).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(path: &str, extra: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{extra}\r\n"
        )
        .into_bytes()
    }

    fn status(bytes: &[u8]) -> &'static str {
        match parse(bytes) {
            Request::Refused { status, .. } => status,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_link_is_upgraded_and_what_follows_is_kept() {
        let mut bytes = request("/v1/link?token=x", "");
        let head = bytes.len();
        bytes.extend_from_slice(b"more");
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
        assert_eq!(parse(&bytes), Request::Upgrade { accept, length: head });
        assert_eq!(parse(&bytes[..head - 1]), Request::Incomplete);
    }

    #[test]
    fn everything_else_is_answered_or_dropped() {
        assert_eq!(status(&request("/", "")), "404 Not Found");
        assert_eq!(status(&request("/v1/link", "Origin: null\r\n")), "403 Forbidden");
        assert_eq!(status(b"GET /v1/link HTTP/1.1\r\nHost: h\r\n\r\n"), "426 Upgrade Required");
        assert_eq!(status(b"POST /v1/link HTTP/1.1\r\nHost: h\r\n\r\n"), "405 Method Not Allowed");
        let large = format!("GET /v1/link HTTP/1.1\r\nX: {}", "x".repeat(300_000));
        assert_eq!(status(large.as_bytes()), "431 Request Header Fields Too Large");
        let whole = request("/v1/link", &format!("X: {}\r\n", "x".repeat(REQUEST_HEAD_MAX)));
        assert_eq!(status(&whole), "431 Request Header Fields Too Large");
        assert_eq!(parse(b"\x00\x01garbage\r\n"), Request::Foreign);
    }
}
