//! Records, in both forms.

use bytes::{Bytes, BytesMut};
use keepline_protocol::message::encode_record;
use keepline_protocol::record::{Exit, LinkState, Record};
use serde_json::{Value, json};

use super::{SIZE, check, hex, message, text};

fn records() -> Vec<(Value, Record)> {
    let bytes = Bytes::from_static;
    vec![
        (
            json!({ "record": "snapshot", "through": 70_000, "vt": "1b5b48" }),
            Record::Snapshot { through: 70_000, vt: bytes(b"\x1b[H") },
        ),
        (
            json!({ "record": "output", "offset": 70_000, "bytes": "34320d0a" }),
            Record::Output { offset: 70_000, bytes: bytes(b"42\r\n") },
        ),
        (json!({ "record": "size", "cols": 132, "rows": 43, "x_pixels": 1320, "y_pixels": 860 }), Record::Size(SIZE)),
        (
            json!({ "record": "input", "offset": 5, "bytes": "6c730d" }),
            Record::Input { offset: 5, bytes: bytes(b"ls\r") },
        ),
        (json!({ "record": "input acknowledged", "offset": 8 }), Record::InputAcknowledged(8)),
        (
            json!({ "record": "link", "state": "down", "retry_ms": 250 }),
            Record::Link { state: LinkState::Down, retry_ms: 250 },
        ),
        (
            json!({ "record": "link", "state": "connecting", "retry_ms": 0 }),
            Record::Link { state: LinkState::Connecting, retry_ms: 0 },
        ),
        (json!({ "record": "link", "state": "up", "retry_ms": 0 }), Record::Link { state: LinkState::Up, retry_ms: 0 }),
        (json!({ "record": "lost", "unsent": 3, "unknown": 5 }), Record::Lost { unsent: 3, unknown: 5 }),
        (json!({ "record": "ended", "status": -1 }), Record::Ended(Exit::Status(-1))),
        (json!({ "record": "ended", "signal": 9 }), Record::Ended(Exit::Signal(9))),
        (json!({ "record": "ended", "reason": "daemon stopped" }), Record::Ended(Exit::Reason(text("daemon stopped")))),
    ]
}

#[test]
fn every_record_has_its_bytes_in_both_forms() {
    let mut vectors = Vec::new();
    let mut kinds = Vec::new();
    for (mut fields, record) in records() {
        let (on_link, local) = (encode_record(&record), record.to_local());
        assert_eq!(message(&on_link).record().unwrap(), record);
        let mut buffer = BytesMut::from(&local[..]);
        assert_eq!(Record::from_local(&mut buffer).unwrap(), Some(record.clone()));
        kinds.push(record.kind());
        fields["number"] = record.kind().into();
        fields["link"] = hex(on_link).into();
        fields["local"] = hex(local).into();
        vectors.push(fields);
    }
    kinds.dedup();
    assert_eq!(kinds, (1..=8).collect::<Vec<u8>>(), "every record is pinned");
    check(
        "records.json",
        "Records of an attachment: the message on a link's stream, and the form on a local socket.",
        vectors,
    );
}
