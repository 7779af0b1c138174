//! A local socket, by hand.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

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

    /// Asks for `method`, and gives the line that comes next, which must be the answer.
    ///
    /// # Panics
    /// When another line comes.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        let answer = self.ask(&request.to_string());
        assert_eq!(answer["id"], method, "{answer}");
        answer
    }

    /// The records that follow an answer to `terminal.attach`.
    pub fn into_records(self) -> Records {
        Records { connection: self }
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

/// An attachment's records, laid out as records.md says and not by the code under test.
pub struct Records {
    connection: Rpc,
}

/// The kinds of records.
pub mod kind {
    /// The exact screen.
    pub const SNAPSHOT: u8 = 1;
    /// Bytes of output.
    pub const OUTPUT: u8 = 2;
    /// The size, or a vote.
    pub const SIZE: u8 = 3;
    /// Bytes of input.
    pub const INPUT: u8 = 4;
    /// Up to where input was written.
    pub const INPUT_ACKNOWLEDGED: u8 = 5;
    /// How the terminal ended.
    pub const ENDED: u8 = 8;
}

impl Records {
    /// Sends a record; whether it was taken.
    ///
    /// # Panics
    /// When it is longer than a record can be.
    pub fn send(&mut self, kind: u8, body: &[u8]) -> bool {
        let mut record = vec![kind];
        record.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        record.extend(body);
        self.connection.write(&record)
    }

    /// Sends input; whether it was taken.
    pub fn input(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.send(kind::INPUT, &[&offset.to_be_bytes(), bytes].concat())
    }

    /// The next record, its kind and body; nothing at the end of the connection.
    ///
    /// # Panics
    /// When nothing comes, or the connection ends inside a record.
    pub fn record(&mut self) -> Option<(u8, Vec<u8>)> {
        let lines = &mut self.connection.lines;
        let mut kind = [0];
        if lines.read(&mut kind).unwrap() == 0 {
            return None;
        }
        let mut length = [0; 4];
        lines.read_exact(&mut length).unwrap();
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        lines.read_exact(&mut body).unwrap();
        Some((kind[0], body))
    }

    /// The connection, to see that it is closed.
    pub fn into_connection(self) -> Rpc {
        self.connection
    }
}
