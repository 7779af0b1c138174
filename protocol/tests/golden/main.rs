//! Golden bytes: the vectors in `spec/vectors` are what this crate puts on the wire, byte by byte.
//!
//! Each test builds the vectors of one file from fixed values and compares them with the file. With `KEEPLINE_BLESS=1`
//! in the environment it writes the file instead; a changed vector is a changed protocol, and nobody blesses it by chance.
//!
//! What is derived here (payloads, keys, the Noise messages) is derived from the text of `spec`, with the libraries and
//! not with this crate, so that the text is known to be enough.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test reads files and its environment")]

mod conversation;
mod frames;
mod handshake;
mod identity;
mod messages;
mod methods;
mod places;
mod records;

use std::path::Path;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use keepline_protocol::api::{Cursor, Json, Size};
use keepline_protocol::id::{AttachmentId, DeviceId, Generation, InvitationId, LinkId, TerminalId, WorkspaceId};
use keepline_protocol::message::Assembler;
use serde_json::{Value, json};

fn hex(bytes: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(bytes.as_ref())
}

/// Compares the vectors with their file, or writes it when that is asked for.
fn check(file: &str, about: &str, vectors: Vec<Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/vectors").join(file);
    if std::env::var_os("KEEPLINE_BLESS").is_some_and(|value| value == "1") {
        let content = json!({ "about": about, "vectors": vectors });
        let text = serde_json::to_string_pretty(&content).unwrap() + "\n";
        std::fs::write(&path, text).unwrap();
        return;
    }
    let text =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
    let content: Value = serde_json::from_str(&text).unwrap();
    let written = content["vectors"].as_array().unwrap();
    for (index, (written, made)) in written.iter().zip(&vectors).enumerate() {
        assert_eq!(written, made, "vector {index} of {file}");
    }
    assert_eq!(written.len(), vectors.len(), "the vectors of {file}");
}

/// The one message in `wire`, as `(number, body)`.
fn message(wire: &Bytes) -> keepline_protocol::message::Message {
    let mut assembler = Assembler::default();
    assembler.push(wire);
    let message = assembler.take().unwrap().unwrap();
    assembler.end().unwrap();
    message
}

const WORKSPACE: WorkspaceId = WorkspaceId::from_bytes([0x11; 16]);
const TERMINAL: TerminalId = TerminalId::from_bytes([0x22; 16]);
const DEVICE: DeviceId = DeviceId::from_bytes([0x33; 16]);
const INVITATION: InvitationId = InvitationId::from_bytes([0x44; 16]);
const LINK: LinkId = LinkId::from_bytes([0x55; 16]);
const ATTACHMENT: AttachmentId = AttachmentId::from_bytes([0x66; 16]);
const GENERATION: Generation = Generation::from_bytes([0x77; 16]);
const CURSOR: Cursor = Cursor { generation: GENERATION, revision: 300 };
const SIZE: Size = Size { cols: 132, rows: 43, x_pixels: 1320, y_pixels: 860 };
/// Unix time in milliseconds.
const MOMENT: u64 = 1_764_500_000_000;

fn text(text: &str) -> String {
    text.to_owned()
}

fn some(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Text and not a value, because the order of an object's keys stands in the bytes.
fn document() -> Json {
    Json::from_trusted(format!(
        r#"{{"cursor":{{"generation":"{GENERATION}","revision":300}},"workspaces":[],"screens":[],"panes":[],"tabs":[],"terminals":[],"browsers":[],"agents":[],"notifications":[],"clients":[]}}"#
    ))
}
