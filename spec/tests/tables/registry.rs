//! `registry.md`.

use keepline_protocol::api::Size;
use keepline_protocol::failure::Code;
use keepline_protocol::frame::kind;
use keepline_protocol::record::{Exit, LinkState, Record};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::registry::{DELTA, FAILURE, METHODS, RECORD, RESET};
use keepline_protocol::stream::{CANCELLED, MALFORMED};

use super::{columns, row, table};

const TEXT: &str = include_str!("../../registry.md");

#[test]
fn methods() {
    let code: Vec<_> = METHODS
        .iter()
        .map(|entry| {
            let effect = format!("{:?}", entry.effect).to_lowercase();
            let (number, scope) = (format!("{:#06x}", entry.number), entry.scope.name());
            row![number, entry.name, effect, scope]
        })
        .collect();
    let written = table(TEXT, "Methods");
    assert_eq!(columns(&written, 4), code);
}

#[test]
fn other_messages() {
    let code: Vec<_> = [(DELTA, "delta"), (RESET, "reset"), (RECORD, "record"), (FAILURE, "failure")]
        .iter()
        .map(|(number, name)| row![format!("{number:#06x}"), name])
        .collect();
    assert_eq!(columns(&table(TEXT, "Other messages"), 2), code);
}

#[test]
fn frame_kinds() {
    let named = [
        (kind::DATA, "DATA"),
        (kind::RESET, "RESET"),
        (kind::CREDIT, "CREDIT"),
        (kind::ACK, "ACK"),
        (kind::PING, "PING"),
        (kind::PONG, "PONG"),
        (kind::VERDICT, "VERDICT"),
        (kind::CLOSE, "CLOSE"),
        (kind::REKEY, "REKEY"),
    ];
    assert_eq!(named.map(|(number, _)| number), kind::ALL);
    let code: Vec<_> = named.iter().map(|(number, name)| row![number, name]).collect();
    assert_eq!(columns(&table(TEXT, "Frame kinds"), 2), code);
    let layouts = table(include_str!("../../frames.md"), "Packets and frames");
    assert_eq!(columns(&layouts, 2), code, "frames.md has their layouts");
}

#[test]
fn refusals() {
    let code: Vec<_> = Refusal::ALL
        .iter()
        .map(|refusal| {
            let retry = if refusal.retry() { "yes" } else { "no" };
            row![refusal.number(), refusal.name(), retry, refusal.sentence()]
        })
        .collect();
    assert_eq!(table(TEXT, "Refusals"), code);
    let in_clear: Vec<_> = Refusal::ALL
        .iter()
        .filter(|refusal| refusal.in_clear())
        .map(|refusal| format!("`{}` ({})", refusal.name(), refusal.number()))
        .collect();
    let handshake = include_str!("../../handshake.md");
    let [version, busy, stale_key] = &in_clear[..] else {
        panic!("other refusals than three stand in clear: {in_clear:?}")
    };
    let sentence = format!("Only {version}, {busy} and {stale_key} may\n  stand here.");
    assert!(handshake.contains(&sentence), "{sentence}");
}

#[test]
fn failure_codes() {
    let code: Vec<_> = Code::ALL.iter().map(|code| row![code.number(), code.name(), code.exit()]).collect();
    assert_eq!(columns(&table(TEXT, "Failure codes"), 3), code);
}

#[test]
fn record_kinds() {
    let (state, retry_ms) = (LinkState::Up, 0);
    let (unsent, unknown) = (0, 0);
    let (offset, through) = (0, 0);
    let empty = Default::default;
    let records = [
        Record::Snapshot { through, vt: empty() },
        Record::Output { offset, bytes: empty() },
        Record::Size(Size::cells(80, 24)),
        Record::Input { offset, bytes: empty() },
        Record::InputAcknowledged(offset),
        Record::Link { state, retry_ms },
        Record::Lost { unsent, unknown },
        Record::Ended(Exit::Status(0)),
    ];
    // A new record does not compile until it stands here, and then in the text.
    let name = |record: &Record| match record {
        Record::Snapshot { .. } => "snapshot",
        Record::Output { .. } => "output",
        Record::Size(_) => "size",
        Record::Input { .. } => "input",
        Record::InputAcknowledged(_) => "input acknowledged",
        Record::Link { .. } => "link",
        Record::Lost { .. } => "lost",
        Record::Ended(_) => "ended",
    };
    let code: Vec<_> = records.iter().map(|record| row![record.kind(), name(record)]).collect();
    assert_eq!(columns(&table(TEXT, "Record kinds"), 2), code);
    let layouts = table(include_str!("../../records.md"), "Records");
    assert_eq!(layouts.len(), 2, "the two forms");
    let layouts: Vec<_> = include_str!("../../records.md")
        .lines()
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
        .map(super::cells)
        .collect();
    assert_eq!(columns(&layouts, 2), code, "records.md has their layouts");
}

#[test]
fn reset_codes() {
    let code = [row![CANCELLED, "cancelled"], row![MALFORMED, "malformed"]];
    assert_eq!(columns(&table(TEXT, "Reset codes"), 2), code);
}
