//! Messages by number, their stream, and records.

use bytes::{Bytes, BytesMut};
use keepline_protocol::api::session::{Delta, EventsStarted};
use keepline_protocol::bounds::MESSAGE_MAX;
use keepline_protocol::failure::FailureBody;
use keepline_protocol::message::{Assembler, Message, encode_raw, encode_record, encode_struct};
use keepline_protocol::record::Record;
use keepline_protocol::registry::{ANSWER, DELTA, FAILURE, Method, RECORD, RESET, method};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::input::Input;
use crate::{Reach, Reached};

/// What a method's number says about a message.
struct Checks {
    number: u16,
    params: fn(&Message) -> bool,
    answer: fn(&Message) -> bool,
}

macro_rules! checks {
    ($($method:ident)*) => {
        &[$(Checks {
            number: <method::$method as Method>::NUMBER,
            params: params::<<method::$method as Method>::Params>,
            answer: comes_back::<<method::$method as Method>::Answer>,
        }),*]
    };
}

/// Every method; the replay test compares with the registry.
const METHODS: &[Checks] = checks! {
    SessionSnapshot SessionEvents WorkspaceNew WorkspaceRename WorkspaceClose TerminalNew TerminalRename TerminalClose
    TerminalResize TerminalSend TerminalSignal TerminalRead TerminalWait TerminalKeys TerminalPaste TerminalMouse TerminalAttach RemoteInvite RemotePending RemoteApprove
    RemoteDeny RemoteDevices RemoteConnections RemoteRevoke RemoteScope RemoteRotateKey ServerStatus
    ServerStop ServerAudit WorkspaceMove WorkspaceFocus ScreenNew ScreenRename ScreenMove ScreenFocus ScreenClose PaneSplit
    PaneMove PaneResize PaneFocus PaneZoom PaneClose TabNew TabRename TabMove TabFocus TabClose LayoutExport LayoutApply
    NotificationPost NotificationAck NotificationClear
};

fn wire<T: Serialize>(number: u16, value: &T) -> Message {
    let mut assembler = Assembler::default();
    assembler.push(&encode_struct(number, value));
    let message = assembler.take().unwrap().unwrap();
    assembler.end().unwrap();
    message
}

/// Whether the body is a `T`; if it is, what is written of it is read and written as the same bytes. (The body itself
/// may have been longer: postcard takes a number in more bytes than it needs.)
fn comes_back<T: Serialize + DeserializeOwned>(message: &Message) -> bool {
    let Ok(value) = message.parse::<T>() else {
        return false;
    };
    let written = wire(message.number, &value);
    assert!(written.body.len() <= message.body.len());
    let again: T = written.parse().unwrap();
    assert!(wire(message.number, &again) == written);
    true
}

/// As [`comes_back`], and by way of JSON, in which consumers of a local socket say the same.
fn params<T: Serialize + DeserializeOwned>(message: &Message) -> bool {
    if !comes_back::<T>(message) {
        return false;
    }
    let value: T = message.parse().unwrap();
    let json = serde_json::to_string(&value).unwrap();
    let again: T = serde_json::from_str(&json).unwrap();
    assert!(wire(message.number, &again) == wire(message.number, &value));
    true
}

fn check(message: &Message) -> Option<Reached> {
    let number = message.number;
    let other = |read: bool| read.then_some(Reached::Other(number));
    match number {
        FAILURE => other(comes_back::<FailureBody>(message)),
        DELTA => other(comes_back::<Delta>(message)),
        RESET => other(comes_back::<EventsStarted>(message)),
        RECORD..ANSWER => {
            let record = message.clone().record().ok()?;
            let mut assembler = Assembler::default();
            assembler.push(&encode_record(&record));
            assert!(assembler.take().unwrap().as_ref() == Some(message));
            Some(Reached::Record(record.kind()))
        }
        _ => {
            let checks = METHODS.iter();
            let checks = checks.clone().find(|checks| checks.number == number & !ANSWER)?;
            if number & ANSWER == 0 {
                (checks.params)(message).then_some(Reached::Request(number))
            } else {
                (checks.answer)(message).then_some(Reached::Answer(checks.number))
            }
        }
    }
}

/// A message's number and body: what can be read of it comes back.
pub fn message(input: &[u8]) -> Reach {
    let Some((number, body)) = input.split_first_chunk::<2>() else {
        return Reach::new();
    };
    let message = Message { number: u16::from_be_bytes(*number), body: Bytes::copy_from_slice(body) };
    check(&message).into_iter().collect()
}

/// A stream of messages that arrives in pieces: the same messages as all at once, none larger than a message may be.
pub fn assembler(input: &[u8]) -> Reach {
    let mut input = Input(input);
    let piece = usize::from(input.byte()) + 1;
    let stream = input.0;
    let gather = |piece: usize| {
        let mut assembler = Assembler::default();
        let mut messages = Vec::new();
        for piece in stream.chunks(piece) {
            assembler.push(piece);
            loop {
                match assembler.take() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(error) => return (messages, Some(error)),
                }
            }
        }
        let end = assembler.end().err();
        (messages, end)
    };
    let (messages, end) = gather(piece);
    assert!((&messages, &end) == (&gather(stream.len().max(1)).0, &gather(stream.len().max(1)).1));
    let written: Vec<u8> = messages
        .iter()
        .inspect(|message| assert!(message.body.len() <= MESSAGE_MAX + 4))
        .flat_map(|message| encode_raw(message.number, &message.body))
        .collect();
    assert!(stream.starts_with(&written));
    assert_eq!(end.is_none(), stream.len() == written.len());
    messages.iter().filter_map(check).collect()
}

/// What a local socket carries: each record comes back, byte for byte.
pub fn record(input: &[u8]) -> Reach {
    let mut reach = Reach::new();
    let mut buffer = BytesMut::from(input);
    loop {
        let before = buffer.clone();
        let Ok(Some(record)) = Record::from_local(&mut buffer) else {
            return reach;
        };
        let written = record.to_local();
        assert!(before.starts_with(&written) && before.len() == written.len() + buffer.len());
        reach.insert(Reached::Record(record.kind()));
    }
}
