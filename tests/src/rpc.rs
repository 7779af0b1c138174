//! A local socket, by hand.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::PATIENCE;

/// A connection to a local socket.
pub struct Rpc {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Rpc {
    /// Connects.
    ///
    /// # Panics
    /// When nobody serves the socket.
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Rpc { stream, lines }
    }

    /// Writes bytes as they are; whether they were taken.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next line, as JSON.
    ///
    /// # Panics
    /// When there is none.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends one line and gives the next one that comes.
    pub fn ask(&mut self, line: &str) -> Value {
        assert!(self.write(format!("{line}\n").as_bytes()));
        self.line()
    }

    /// Reads until the other side closes.
    ///
    /// # Panics
    /// When it does not.
    pub fn closed(&mut self) {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }
}
