//! The engine of attach against a fake local server: everything exactly once, through cuts, lies and loss.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use keepline_client::attach::input::Lost;
use keepline_client::attach::session::{AttachRequest, Event, Session};
use keepline_client::bounds::{REQUEST_TIME, VIOLATIONS_MAX};
use keepline_client::paths::{Endpoint, Whose};
use keepline_protocol::api::Size;
use keepline_protocol::failure::Code;
use keepline_protocol::record::{Exit, LinkState, Record};
use support::{Fake, TERMINAL, snapshot, within};

fn session(fake: &Fake) -> Session {
    Session::start(
        Endpoint { path: fake.path(), whose: Whose::Given },
        AttachRequest {
            terminal: "shell".to_owned(),
            size: None,
            observer: false,
            history: 9,
            timeout: REQUEST_TIME,
            patient: false,
        },
    )
    .unwrap()
}

/// Drives the session until `done` says so of what came.
async fn drive(session: &mut Session, events: &mut Vec<Event>, done: impl Fn(&[Event]) -> bool) {
    within("events", async {
        while !done(events) {
            events.push(session.next().await);
        }
    })
    .await;
}

/// Drives the session until the server's state says so.
async fn drive_until(
    session: &mut Session,
    events: &mut Vec<Event>,
    fake: &Fake,
    what: &str,
    condition: impl Fn(&support::State) -> bool,
) {
    tokio::select! {
        () = async { loop { events.push(session.next().await) } } => {}
        () = fake.until(what, condition) => {}
    }
}

fn output(events: &[Event]) -> Vec<u8> {
    let pieces = events.iter().filter_map(|event| match event {
        Event::Output(bytes) => Some(&bytes[..]),
        _ => None,
    });
    pieces.flatten().copied().collect()
}

fn snapshots(events: &[Event]) -> Vec<(bool, Bytes)> {
    let each = events.iter().filter_map(|event| match event {
        Event::Snapshot { first, vt } => Some((*first, vt.clone())),
        _ => None,
    });
    each.collect()
}

#[tokio::test]
async fn output_and_input_are_exactly_once_through_cuts() {
    let fake = Fake::start();
    let mut session = session(&fake);
    let mut events = Vec::new();
    let (mut printed, mut typed) = (Vec::new(), Vec::new());
    drive(&mut session, &mut events, |events| !snapshots(events).is_empty()).await;
    for round in 0..30_u8 {
        let line = format!("line {round}\r\n").repeat(usize::from(round) * 40);
        fake.print(line.as_bytes());
        printed.extend_from_slice(line.as_bytes());
        let keys = format!("key {round};").repeat(usize::from(round) * 30);
        typed.extend_from_slice(keys.as_bytes());
        fake.with(|state| state.acknowledges = round % 3 == 0);
        session.push(&mut Bytes::from(keys));
        let some = printed.len() * usize::from(round % 5) / 5;
        drive(&mut session, &mut events, |events| output(events).len() >= some).await;
        fake.cut();
    }
    fake.with(|state| state.acknowledges = true);
    drive(&mut session, &mut events, |events| output(events).len() >= printed.len()).await;
    within("acknowledgement", async {
        while !session.is_acknowledged() {
            events.push(session.next().await);
        }
    })
    .await;
    assert_eq!(output(&events), printed);
    assert_eq!(fake.with(|state| state.input.clone()), typed);
    assert_eq!(snapshots(&events), [(true, snapshot(0))]);
    assert!(!events.iter().any(|event| matches!(event, Event::Lost(_))));
    // A name may mean another terminal later; what is attached to again is the id.
    let attaches = fake.with(|state| std::mem::take(&mut state.attaches));
    assert!(attaches.len() > 10);
    assert_eq!(attaches[0].terminal, "shell");
    assert!(attaches[1..].iter().all(|attach| attach.terminal == TERMINAL.to_string()));
    assert!(attaches.iter().all(|attach| attach.attachment == attaches[0].attachment));
}

#[tokio::test]
async fn overlapping_output_is_dropped_and_missing_output_costs_a_snapshot() {
    let fake = Fake::start();
    let mut session = session(&fake);
    let mut events = Vec::new();
    fake.print(b"abcdef");
    drive(&mut session, &mut events, |events| output(events) == b"abcdef" || !snapshots(events).is_empty()).await;
    let held = fake.with(|state| state.output.len()) as u64;
    let record = |offset, bytes: &'static [u8]| Record::Output { offset, bytes: Bytes::from_static(bytes) };
    events.clear();
    fake.send(record(held - 2, b"ef"));
    fake.send(record(held - 2, b"efgh"));
    drive(&mut session, &mut events, |events| output(events) == b"gh").await;
    fake.send(record(held + 100, b"far"));
    drive(&mut session, &mut events, |events| !snapshots(events).is_empty()).await;
    assert_eq!(output(&events), b"gh");
    assert_eq!(snapshots(&events), [(false, snapshot(6))]);
    let last = fake.with(|state| state.attaches.last().unwrap().clone());
    assert_eq!((last.from_offset, last.history), (None, Some(9)));
}

#[tokio::test]
async fn input_that_may_be_written_is_named_when_the_daemon_forgot() {
    let fake = Fake::start();
    let mut session = session(&fake);
    let mut events = Vec::new();
    session.push(&mut Bytes::from_static(b"seen"));
    drive(&mut session, &mut events, |events| events.contains(&Event::Acknowledged)).await;
    fake.with(|state| state.acknowledges = false);
    session.push(&mut Bytes::from_static(b"maybe"));
    drive_until(&mut session, &mut events, &fake, "input", |state| state.input == b"seenmaybe").await;
    fake.with(|state| {
        state.written.clear();
        state.acknowledges = true;
        state.cuts += 1;
    });
    let lost = Event::Lost(Lost { unsent: 0, unknown: 5 });
    drive(&mut session, &mut events, |events| events.contains(&lost)).await;
    session.push(&mut Bytes::from_static(b"more"));
    drive_until(&mut session, &mut events, &fake, "input", |state| state.input == b"seenmaybemore").await;
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Lost(_))).count(), 1);
}

#[tokio::test]
async fn what_the_server_says_comes_once_and_votes_are_sent() {
    let fake = Fake::start();
    let mut session = session(&fake);
    let mut events = Vec::new();
    assert_eq!(session.attached().await, Ok(TERMINAL));
    let down = Record::Link { state: LinkState::Down, retry_ms: 250 };
    drive(&mut session, &mut events, |events| !snapshots(events).is_empty()).await;
    fake.send(down.clone());
    fake.send(down);
    fake.send(Record::Size(Size::cells(80, 24)));
    fake.send(Record::Size(Size::cells(90, 30)));
    session.vote(Size::cells(100, 40));
    drive_until(&mut session, &mut events, &fake, "vote", |state| state.votes == [Size::cells(100, 40)]).await;
    fake.print(b"bye");
    fake.with(|state| state.ended = Some(Exit::Status(3)));
    drive(&mut session, &mut events, |events| matches!(events.last(), Some(Event::Ended(_)))).await;
    events.retain(|event| !matches!(event, Event::Snapshot { .. }));
    assert_eq!(
        events,
        [
            Event::Size(Size::cells(80, 24)),
            Event::Link { state: LinkState::Down, retry_ms: 250 },
            Event::Size(Size::cells(90, 30)),
            Event::Output(Bytes::from_static(b"bye")),
            Event::Ended(Exit::Status(3)),
        ]
    );
}

#[tokio::test]
async fn a_first_attach_that_is_refused_ends_at_once() {
    let fake = Fake::start();
    fake.refuse("terminal.attach", Code::Ambiguous, "two fit");
    let failure = session(&fake).attached().await.unwrap_err();
    assert_eq!(failure.code, Code::Ambiguous);
    assert_eq!(failure.candidates, ["one", "two"]);
    fake.vanish();
    let failure = session(&fake).attached().await.unwrap_err();
    assert_eq!(failure.code, Code::Unreachable);
}

#[tokio::test]
async fn a_server_that_is_gone_for_long_ends_it_and_one_that_comes_back_does_not() {
    let fake = Fake::start();
    let mut session = session(&fake);
    let mut events = Vec::new();
    drive(&mut session, &mut events, |events| !snapshots(events).is_empty()).await;
    fake.vanish();
    fake.print(b"while away");
    let down =
        |events: &[Event]| events.iter().any(|event| matches!(event, Event::Link { state: LinkState::Down, .. }));
    drive(&mut session, &mut events, down).await;
    fake.serve();
    drive(&mut session, &mut events, |events| output(events) == b"while away").await;
    assert!(events.contains(&Event::Link { state: LinkState::Up, retry_ms: 0 }));
    fake.vanish();
    drive(&mut session, &mut events, |events| matches!(events.last(), Some(Event::Gone(_)))).await;
    assert_eq!(snapshots(&events).len(), 1);
    assert!(Arc::strong_count(&fake) >= 1);
}

#[tokio::test]
async fn a_server_that_keeps_talking_nonsense_ends_it() {
    let fake = Fake::start();
    fake.with(|state| {
        state.greeting = vec![Record::Input { offset: 0, bytes: Bytes::new() }];
    });
    let mut session = session(&fake);
    let mut events = Vec::new();
    drive(&mut session, &mut events, |events| matches!(events.last(), Some(Event::Gone(_)))).await;
    let Some(Event::Gone(failure)) = events.last() else { unreachable!("the last event was looked at") };
    assert_eq!(failure.code, Code::Failed);
    assert_eq!(fake.with(|state| state.attaches.len()), usize::try_from(VIOLATIONS_MAX).unwrap());
}
