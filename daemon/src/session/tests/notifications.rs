use keepline_protocol::api::notification::{Marked, NotificationAck, NotificationClear, NotificationPost, Posted};

use super::super::mutation::Notice;
use super::super::rows::{Level, NotificationRow};
use super::*;
use crate::bounds::{NOTICES_AT_ONCE, NOTIFICATION_BODY_MAX, NOTIFICATION_TITLE_MAX, NOTIFICATIONS_MAX, READ_BY_MAX};

fn post(bench: &mut Bench, title: &str) -> Posted {
    let post = NotificationPost { title: title.to_owned(), ..NotificationPost::default() };
    match bench.apply(post).unwrap() {
        Value::Posted(posted) => posted,
        other => panic!("{other:?}"),
    }
}

fn marked(bench: &mut Bench, mutation: impl Into<Mutation>) -> Marked {
    match bench.apply(mutation).unwrap() {
        Value::Marked(marked) => marked,
        other => panic!("{other:?}"),
    }
}

fn ack(ids: &[String], client: &str) -> NotificationAck {
    NotificationAck { notifications: ids.to_vec(), client: Some(client.to_owned()), ..NotificationAck::default() }
}

fn titles(bench: &Bench) -> Vec<String> {
    let rows = bench.graph.in_order(|row: &NotificationRow| Some(row.index));
    rows.into_iter().map(|row| row.title.clone()).collect()
}

#[test]
fn the_newest_notifications_stay_with_their_marks() {
    let mut bench = Bench::default();
    let first = post(&mut bench, "0").notification;
    marked(&mut bench, ack(&[first.to_string()], "laptop"));
    for number in 1..=NOTIFICATIONS_MAX {
        post(&mut bench, &number.to_string());
    }
    let kept = titles(&bench);
    assert_eq!(kept.len(), NOTIFICATIONS_MAX);
    assert_eq!((kept[0].as_str(), kept.last().unwrap().as_str()), ("1", "256"));
}

#[test]
fn an_acknowledgement_is_one_clients_and_leaves_the_shared_mark() {
    let mut bench = Bench::default();
    let ids: Vec<String> = ["a", "b"].map(|title| post(&mut bench, title).notification.to_string()).into();
    let mut asked = ids.clone();
    asked.push("note_nothing".to_owned());
    let done = marked(&mut bench, ack(&asked, "laptop"));
    assert_eq!(done.unknown, ["note_nothing"]);
    assert_eq!(done.notifications.len(), 2);
    for row in bench.graph.all::<NotificationRow>() {
        assert_eq!((row.unread, &row.read_by[..]), (true, &["laptop".to_owned()][..]));
    }
    // Twice is once, and the first of too many is forgotten.
    for number in 0..READ_BY_MAX {
        marked(&mut bench, ack(&ids[..1], "laptop"));
        marked(&mut bench, ack(&ids[..1], &number.to_string()));
    }
    let row = bench.graph.resolve::<NotificationRow>(&ids[0]).unwrap();
    let row = bench.graph.row::<NotificationRow>(row).unwrap();
    assert_eq!(row.read_by.len(), READ_BY_MAX);
    let everywhere = NotificationAck { everywhere: Some(true), ..ack(&ids, "phone") };
    marked(&mut bench, everywhere);
    assert!(bench.graph.all::<NotificationRow>().all(|row| !row.unread));
    for client in ["", "é", &"x".repeat(129)] {
        assert_eq!(bench.refusal(ack(&ids, client)).code, Code::Invalid);
    }
}

#[test]
fn what_is_named_is_cleared_and_nothing_else() {
    let mut bench = Bench::default();
    let (workspace, terminal) = bench.terminal(new_terminal(Place::Recent, "t"));
    let about = |bench: &mut Bench, title: &str| {
        let post = NotificationPost { title: title.to_owned(), caller: Some(terminal), ..NotificationPost::default() };
        bench.apply(post).unwrap();
    };
    about(&mut bench, "one");
    post(&mut bench, "other");
    let row = bench.graph.all::<NotificationRow>().find(|row| row.title == "one").unwrap();
    assert_eq!((row.terminal_id, row.workspace_id), (Some(terminal), workspace));
    let of_terminal = NotificationClear {
        terminal: Some("t".to_owned()),
        notifications: Some(vec!["note_none".to_owned()]),
        ..NotificationClear::default()
    };
    let done = marked(&mut bench, of_terminal);
    assert_eq!((done.notifications.len(), done.unknown.len()), (1, 1));
    assert_eq!(titles(&bench), ["other"]);
    about(&mut bench, "two");
    let of_workspace = NotificationClear { workspace: Some("main".to_owned()), ..NotificationClear::default() };
    marked(&mut bench, of_workspace);
    assert_eq!(titles(&bench), ["other"]);
    marked(&mut bench, NotificationClear::default());
    assert_eq!(titles(&bench), Vec::<String>::new());
}

#[test]
fn texts_have_bounds_and_levels_names() {
    let mut bench = Bench::default();
    let refused = |bench: &mut Bench, change: fn(&mut NotificationPost)| {
        let mut post = NotificationPost { title: "t".to_owned(), ..NotificationPost::default() };
        change(&mut post);
        assert_eq!(bench.refusal(post).code, Code::Invalid);
    };
    refused(&mut bench, |post| post.title = "x".repeat(NOTIFICATION_TITLE_MAX + 1));
    refused(&mut bench, |post| post.subtitle = Some("x".repeat(NOTIFICATION_TITLE_MAX + 1)));
    refused(&mut bench, |post| post.body = Some("x".repeat(NOTIFICATION_BODY_MAX + 1)));
    refused(&mut bench, |post| post.level = Some("loud".to_owned()));
    refused(&mut bench, |post| post.title = String::new());
}

#[test]
fn effects_of_output_come_once_by_their_offset() {
    let mut bench = Bench::default();
    let (_, id) = bench.terminal(new_terminal(Place::Detached, ""));
    let notices = |through: u64, count: usize| {
        let notice = |number| Notice {
            title: format!("{through} {number}"),
            body: "x".repeat(NOTIFICATION_BODY_MAX + 9),
            level: Level::Info,
        };
        let notices = (0..count).map(notice).collect();
        affected(id, Effects { through, notices, ..Effects::default() })
    };
    bench.apply(notices(10, 1)).unwrap();
    bench.apply(notices(10, 1)).unwrap();
    bench.apply(notices(9, 1)).unwrap();
    assert_eq!(titles(&bench), ["10 0"]);
    assert_eq!(bench.graph.terminal(id).unwrap().effects_through, 10);
    let longest = bench.graph.all::<NotificationRow>().next().unwrap().body.len();
    assert_eq!(longest, NOTIFICATION_BODY_MAX);
    bench.apply(notices(20, NOTICES_AT_ONCE + 3)).unwrap();
    assert_eq!(titles(&bench).len(), 1 + NOTICES_AT_ONCE);
    assert_eq!(titles(&bench)[1], "20 3");
}
