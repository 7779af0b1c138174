use std::sync::Arc;

use keepline_protocol::id::Generation;
use tempfile::tempdir;

use super::super::enrolment::Enrolment;
use super::super::feed::Feed;
use super::super::{Committed, Event, Origin, Session, Subscription, document};
use super::*;
use crate::bounds::{TAIL_BYTES_MAX, TAIL_DELTAS_MAX};

/// A feed without a store behind it.
struct Source {
    feed: Arc<Feed>,
    graph: Graph,
    cursor: Cursor,
}

impl Source {
    fn new() -> Self {
        let generation = Generation::from_bytes([3; 16]);
        let feed = Arc::new(Feed::new(generation, 0, Graph::default(), Enrolment::default()));
        Source { feed, graph: Graph::default(), cursor: Cursor { generation, revision: 0 } }
    }

    fn commit(&mut self, mutation: impl Into<Mutation>) {
        self.cursor.revision += 1;
        let applied = self.graph.apply(&mutation.into(), 1, fresh(self.cursor.revision)).unwrap();
        let json = document::changes(&applied.changes);
        let committed = Arc::new(Committed::new(self.cursor, &applied.changes, &json));
        self.feed.publish(vec![(applied.changes, committed)], None);
    }

    fn follow(&self, since: Option<u64>) -> (Option<String>, Option<Mirror>, Subscription) {
        let since = since.map(|revision| Cursor { revision, ..self.cursor });
        let (started, subscription) = Subscription::start(Arc::clone(&self.feed), since);
        assert_eq!(started.reset.is_some(), started.document.is_some());
        (started.reset, started.document.as_ref().map(Mirror::of), subscription)
    }
}

async fn delta(subscription: &mut Subscription) -> Arc<Committed> {
    match subscription.next().await {
        Some(Event::Delta(committed)) => committed,
        other => panic!("a delta was due, not {other:?}"),
    }
}

#[tokio::test]
async fn a_follower_gets_what_it_misses_or_is_told_why_it_starts_anew() {
    let mut source = Source::new();
    let (reset, mirror, mut from_start) = source.follow(None);
    assert_eq!(reset.as_deref(), Some("initial"));
    let mut mirror = mirror.unwrap();
    for name in ["a", "b", "c"] {
        source.commit(new_workspace(name));
    }
    let (reset, _, mut from_two) = source.follow(Some(2));
    assert_eq!(reset, None);
    assert_eq!(delta(&mut from_two).await.revision, 3);
    for _ in 0..3 {
        mirror.apply(&delta(&mut from_start).await.delta);
    }
    assert_eq!(from_start.cursor(), source.cursor);
    assert_eq!(Some(mirror), source.follow(None).1);
    assert_eq!(source.follow(Some(3)).0, None);
    assert_eq!(source.follow(Some(4)).0.as_deref(), Some("unknown-revision"));
    assert_eq!(source.follow(Some(u64::MAX)).0.as_deref(), Some("unknown-revision"));
    let other = Cursor { generation: Generation::from_bytes([4; 16]), revision: 3 };
    let (started, _) = Subscription::start(Arc::clone(&source.feed), Some(other));
    assert_eq!(started.reset.as_deref(), Some("generation-changed"));
    source.feed.close();
    assert_eq!(from_two.next().await, None);
}

#[tokio::test]
async fn a_follower_off_the_tail_starts_anew_and_goes_on() {
    let mut source = Source::new();
    source.commit(new_workspace("one"));
    let (_, _, mut slow) = source.follow(None);
    let workspace = source.graph.resolve::<WorkspaceRow>("one").unwrap().to_string();
    for number in 0..=TAIL_DELTAS_MAX {
        let name = format!("name {number}");
        source.commit(WorkspaceRename { workspace: workspace.clone(), name, ..WorkspaceRename::default() });
    }
    let Some(Event::Reset(started)) = slow.next().await else { panic!("it lost what it had not read") };
    assert_eq!(started.reset.as_deref(), Some("reader-too-slow"));
    let mut mirror = Mirror::of(&started.document.unwrap());
    assert_eq!(mirror.cursor, source.cursor);
    source.commit(WorkspaceRename { workspace, name: "last".to_owned(), ..WorkspaceRename::default() });
    mirror.apply(&delta(&mut slow).await.delta);
    assert_eq!(source.follow(Some(1)).0.as_deref(), Some("history-dropped"));
}

#[tokio::test]
async fn the_tail_is_bounded_in_bytes_too() {
    let mut source = Source::new();
    source.commit(new_terminal(Place::Detached, ""));
    let (_, _, mut slow) = source.follow(None);
    // Each delta is about 7 KB, so that bytes are over the bound long before their number is.
    source.commit(TerminalNew { argv: Some(vec!["x".repeat(6000)]), ..new_terminal(Place::Detached, "big") });
    let big = source.graph.resolve_terminal("big").unwrap();
    let count = TAIL_BYTES_MAX / 6000 + 1;
    assert!(count < TAIL_DELTAS_MAX);
    for number in 0..count {
        source.commit(TerminalRename {
            terminal: big.to_string(),
            name: number.to_string(),
            ..TerminalRename::default()
        });
    }
    assert!(matches!(slow.next().await, Some(Event::Reset(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_see_every_transaction_once_while_many_write() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let session = session.clone();
            tokio::spawn(async move {
                for number in 0..40 {
                    let mutation = new_workspace(&format!("{writer} {number}"));
                    let receipt = session.mutate(Origin::default(), mutation).await.unwrap();
                    // What is answered is published.
                    assert!(session.cursor().revision >= receipt.revision);
                }
            })
        })
        .collect();
    let mut followers = Vec::new();
    for _ in 0..3 {
        let (started, mut subscription) = session.subscribe(None);
        followers.push(tokio::spawn(async move {
            let mut mirror = Mirror::of(&started.document.unwrap());
            while mirror.cursor.revision < 160 {
                mirror.apply(&delta(&mut subscription).await.delta);
            }
            mirror
        }));
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let last = Mirror::of(&session.snapshot());
    assert_eq!(last.rows.len(), 160);
    for follower in followers {
        assert_eq!(follower.await.unwrap(), last);
    }
    session.close().await;
}

#[tokio::test]
async fn a_delta_names_the_terminals_that_went() {
    let mut source = Source::new();
    source.commit(new_terminal(Place::Detached, ""));
    let terminal = source.graph.resolve_terminal("sh").unwrap();
    let (_, _, mut follower) = source.follow(Some(1));
    source.commit(TerminalClose { terminal: "sh".to_owned(), ..TerminalClose::default() });
    assert_eq!(delta(&mut follower).await.removed, [terminal]);
}
