use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use keepline_protocol::api::{Path as ApiPath, Receipt};
use keepline_protocol::failure::Code;
use keepline_protocol::id::{DeviceId, Generation};
use keepline_protocol::scope::Scopes;
use rusqlite::Connection;
use tempfile::tempdir;

use super::super::store::{FILE, KEY_FILE, LOCK};
use super::super::writer::Request;
use super::super::{Claim, DAEMON_STOPPED, Decision, Event, NewInvitation, Origin, Reason, Session};
use super::*;
use crate::bounds::{JOURNAL_RECORDS_MAX, KEY_MAX, RECEIPTS_MAX};

fn keyed(key: &str) -> Origin {
    Origin { key: Some(key.to_owned()), ..Origin::default() }
}

async fn make(session: &Session, origin: Origin, name: &str) -> Result<Receipt<ApiPath>, Failure> {
    session.mutate(origin, new_workspace(name)).await
}

fn count(dir: &Path, table: &str) -> usize {
    let connection = Connection::open(dir.join(FILE)).unwrap();
    let count: i64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}

#[tokio::test]
async fn rows_are_back_after_a_restart_and_what_lived_has_ended() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.cursor().revision, 0);
    make(&session, Origin::default(), "work").await.unwrap();
    let place = Place::Workspace("work".to_owned());
    let made = session.mutate(Origin::default(), new_terminal(place, "t")).await.unwrap();
    assert_eq!((made.revision, made.replayed), (2, false));
    let started = Happened::Started { terminal: made.value.terminal.unwrap(), pid: 1 };
    session.mutate(Origin::default(), started).await.unwrap();
    session.close().await;

    let again = Session::open(dir.path()).unwrap();
    assert_ne!(again.generation(), session.generation());
    assert_eq!(again.cursor().revision, 1);
    let row = again.terminal(again.resolve_terminal("t").unwrap()).unwrap();
    assert_eq!(row.exit, Some(keepline_protocol::record::Exit::Reason(DAEMON_STOPPED.to_owned())));
    assert_eq!(row.tab_ids, [made.value.tab.unwrap()]);
    again.close().await;
    // Nothing lived, so there is nothing to commit.
    let third = Session::open(dir.path()).unwrap();
    assert_eq!(third.cursor().revision, 0);
    assert_eq!(third.terminals().len(), 1);
    third.close().await;
}

#[tokio::test]
async fn a_key_does_its_request_once_also_after_a_restart() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let first = make(&session, keyed("k"), "one").await.unwrap();
    let second = make(&session, keyed("k"), "one").await.unwrap();
    assert_eq!(second, Receipt { replayed: true, ..first.clone() });
    assert_eq!(code(make(&session, keyed("k"), "two").await), Code::Conflict);
    let terminal = new_terminal(Place::Recent, "");
    assert_eq!(code(session.mutate(keyed("k"), terminal).await), Code::Conflict);
    // Another device's key is another key.
    let device = Some(DeviceId::from_bytes([1; 16]));
    let other = make(&session, Origin { device, ..keyed("k") }, "one").await.unwrap();
    assert!(!other.replayed && other.value != first.value);
    // Two that wait together are still one.
    let (left, right) = tokio::join!(make(&session, keyed("j"), "x"), make(&session, keyed("j"), "x"));
    let (left, right) = (left.unwrap(), right.unwrap());
    assert_eq!(left.value, right.value);
    assert_ne!(left.replayed, right.replayed);
    // A refused request is not the key's result.
    assert_eq!(code(make(&session, keyed("l"), "").await), Code::Invalid);
    make(&session, keyed("l"), "l").await.unwrap();
    session.close().await;

    let again = Session::open(dir.path()).unwrap();
    assert_eq!(make(&again, keyed("k"), "one").await.unwrap(), Receipt { replayed: true, ..first });
    assert_eq!(again.cursor().revision, 0);
    for key in [String::new(), "k".repeat(KEY_MAX + 1)] {
        assert_eq!(code(make(&again, keyed(&key), "one").await), Code::Invalid);
    }
    make(&again, keyed(&"k".repeat(KEY_MAX)), "long").await.unwrap();
    again.close().await;
}

#[tokio::test]
async fn an_expected_revision_must_be_the_current_one() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let cursor = session.cursor();
    let expecting = |expect: Cursor| Origin { expect: Some(expect), ..Origin::default() };
    make(&session, expecting(cursor), "one").await.unwrap();
    assert_eq!(code(make(&session, expecting(cursor), "two").await), Code::Conflict);
    let other = Cursor { generation: Generation::from_bytes([0; 16]), revision: 1 };
    assert_eq!(code(make(&session, expecting(other), "two").await), Code::Gone);
    // A retry expects what its first try did, and still gets that one's receipt.
    let retried = Origin { key: Some("k".to_owned()), ..expecting(session.cursor()) };
    assert!(!make(&session, retried.clone(), "two").await.unwrap().replayed);
    assert!(make(&session, retried, "two").await.unwrap().replayed);
    // What changes nothing is no transaction.
    let same = WorkspaceRename { workspace: "two".to_owned(), name: "two".to_owned(), ..WorkspaceRename::default() };
    assert_eq!(session.mutate(Origin::default(), same).await.unwrap().revision, 2);
    session.close().await;
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_names_the_first() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let failure = Session::open(dir.path()).map(drop).unwrap_err();
    assert_eq!(failure.code, Code::Busy);
    assert!(failure.message.contains(&format!("pid {}", std::process::id())), "{failure}");
    make(&session, Origin::default(), "still served").await.unwrap();
    session.close().await;
    assert_eq!(code(make(&session, Origin::default(), "late").await), Code::Failed);
    Session::open(dir.path()).unwrap().close().await;
}

#[tokio::test]
async fn state_is_private() {
    let dir = tempdir().unwrap();
    let state = dir.path().join("state");
    let session = Session::open(&state).unwrap();
    make(&session, Origin::default(), "one").await.unwrap();
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&state).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    assert!(names.iter().any(|name| name == FILE) && names.iter().any(|name| name == LOCK));
    session.close().await;
    let (db, away) = (state.join(FILE), dir.path().join("away.db"));
    fs::rename(&db, &away).unwrap();
    std::os::unix::fs::symlink(&away, &db).unwrap();
    assert_eq!(code(Session::open(&state).map(drop)), Code::Refused);
}

/// A directory that may already hold something when it becomes a state directory.
fn private_tempdir() -> tempfile::TempDir {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

/// Every file in `dir` but the lock, with its bytes.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.file_name().unwrap() != LOCK && !path.to_str().unwrap().ends_with("-shm"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect()
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_refused_untouched() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    make(&session, Origin::default(), "one").await.unwrap();
    session.close().await;
    // The newer version crashed: its last words are in the write-ahead log only.
    let newer = private_tempdir();
    {
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'schema'", []).unwrap();
        for name in [FILE, "keepline.db-wal"] {
            fs::copy(dir.path().join(name), newer.path().join(name)).unwrap();
            fs::set_permissions(newer.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    let before = content(newer.path());
    let failure = Session::open(newer.path()).map(drop).unwrap_err();
    assert_eq!(failure.code, Code::Refused);
    assert!(failure.message.contains("newer"), "{failure}");
    assert_eq!(content(newer.path()), before);
    assert!(before.contains_key("keepline.db-wal"));
}

#[tokio::test]
async fn what_is_no_store_is_refused_untouched() {
    for text in ["", "CREATE TABLE other (x)", "CREATE TABLE meta (key, value)"] {
        let dir = private_tempdir();
        let path = dir.path().join(FILE);
        if text.is_empty() {
            fs::write(&path, "this is a letter, not a database, and it is long enough to be read as one".repeat(40))
                .unwrap();
        } else {
            Connection::open(&path).unwrap().execute_batch(text).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let before = content(dir.path());
        let failure = Session::open(dir.path()).map(drop).unwrap_err();
        assert_eq!(failure.code, Code::Refused, "{text}");
        assert!(failure.message.contains("not a keepline store"), "{failure}");
        assert_eq!(content(dir.path()), before);
    }
}

/// Layout 1 as it was, with a row of each sort.
const LAYOUT_1: &str = r#"
    CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE rows (kind TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (kind, id)) STRICT;
    CREATE TABLE journal (generation TEXT NOT NULL, revision INTEGER NOT NULL, changes TEXT NOT NULL,
        at_ms INTEGER NOT NULL, PRIMARY KEY (generation, revision)) STRICT;
    CREATE TABLE receipts (seq INTEGER PRIMARY KEY, device TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,
        result TEXT NOT NULL, generation TEXT NOT NULL, revision INTEGER NOT NULL, UNIQUE (device, key)) STRICT;
    CREATE TABLE devices (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT;
    CREATE TABLE invitations (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT;
    INSERT INTO meta VALUES ('schema', 1);
    INSERT INTO rows VALUES ('workspace', 'ws_55555555555555555555555555555555',
        '{"id":"ws_55555555555555555555555555555555","name":"main","index":1,"created_ms":7}'),
        ('terminal', 'term_66666666666666666666666666666666', '{"id":"term_66666666666666666666666666666666",
            "workspace_id":"ws_55555555555555555555555555555555","name":"build","title":"make","cwd":"/srv","argv":["make"],
            "size":{"cols":80,"rows":24},"lifecycle":"running","exit":null,"pid":7,"index":1,"created_ms":8,"used_ms":9,
            "ended_ms":null}');
    INSERT INTO receipts VALUES (1, '', 'k', x'00', '{"Workspace":{"workspace":"ws_55555555555555555555555555555555"}}',
        '77777777777777777777777777777777', 1);
    INSERT INTO devices VALUES
        ('dev_11111111111111111111111111111111', '{"key":"1111111111111111111111111111111111111111111111111111111111111111",
            "name":"laptop","standing":"enrolled","since_ms":5,"serial":1,"invitation":null}'),
        ('dev_22222222222222222222222222222222', '{"key":"2222222222222222222222222222222222222222222222222222222222222222",
            "name":"relay","standing":"trusted","since_ms":6,"serial":1,"invitation":null}');
    INSERT INTO invitations VALUES ('inv_33333333333333333333333333333333',
        '{"key":"3333333333333333333333333333333333333333333333333333333333333333",
        "secret_hash":"4444444444444444444444444444444444444444444444444444444444444444",
        "expires_ms":9999999999999,"approval":true,"claimed":"open"}');
"#;

#[tokio::test]
async fn a_store_of_layout_1_is_brought_to_this_one() {
    let dir = private_tempdir();
    let path = dir.path().join(FILE);
    Connection::open(&path).unwrap().execute_batch(LAYOUT_1).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // Twice: a store that was brought to this layout is one of it.
    for _ in 0..2 {
        let session = Session::open(dir.path()).unwrap();
        let devices = session.devices();
        let scopes = devices.iter().map(|device| device.scopes.join(","));
        let scopes: Vec<_> = scopes.collect();
        // Who was let in before there were scopes may what invitations give.
        assert_eq!(scopes, [Scopes::INVITED.to_string(), String::new()]);
        session.close().await;
    }
    let session = Session::open(dir.path()).unwrap();
    let claim = Claim {
        key: [9; 32],
        name: "phone".to_owned(),
        serial: 1,
        invitation: Some(("inv_33333333333333333333333333333333".parse().unwrap(), Some([0x44; 32]))),
        trusted_carrier: false,
    };
    assert_eq!(session.claim(claim).await, Ok(Decision::Pending));
    assert_eq!(session.pending()[0].scopes, Scopes::INVITED.names());
    assert_eq!(session.audit(None).await.unwrap().len(), 1);
    // What was shown in a workspace itself is shown nowhere, and has ended with its daemon.
    let terminal = session.resolve_terminal("build").unwrap();
    let terminal = session.terminal(terminal).unwrap();
    assert_eq!((terminal.tab_ids.len(), terminal.cwd.as_str()), (0, "/srv"));
    assert_eq!(terminal.lifecycle, super::super::Lifecycle::Ended);
    let made = make(&session, keyed("k"), "new").await.unwrap();
    assert!(!made.replayed);
    let rename = WorkspaceRename { workspace: "main".to_owned(), name: "old".to_owned(), ..WorkspaceRename::default() };
    session.mutate(Origin::default(), rename).await.unwrap();
    session.close().await;
}

#[tokio::test]
async fn an_empty_store_beside_an_identity_has_lost_what_it_held() {
    let dir = private_tempdir();
    let path = dir.path().join(FILE);
    let empty = |path: &Path| {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    empty(&path);
    // A first start that was cut off leaves no identity yet.
    Session::open(dir.path()).unwrap().close().await;
    for name in fs::read_dir(dir.path()).unwrap() {
        fs::remove_file(name.unwrap().path()).unwrap();
    }
    empty(&path);
    empty(&dir.path().join(KEY_FILE));
    let failure = Session::open(dir.path()).map(drop).unwrap_err();
    assert_eq!(failure.code, Code::Failed);
    assert!(failure.message.contains("damaged"), "{failure}");
    assert_eq!(fs::read(&path).unwrap(), b"", "it was left as it is");
}

#[tokio::test]
async fn damaged_rows_are_one_clear_sentence() {
    let dir = tempdir().unwrap();
    Session::open(dir.path()).unwrap().close().await;
    let connection = Connection::open(dir.path().join(FILE)).unwrap();
    connection.execute("INSERT INTO rows VALUES ('terminal', 'x', '{}')", []).unwrap();
    drop(connection);
    let failure = Session::open(dir.path()).map(drop).unwrap_err();
    assert_eq!(failure.code, Code::Failed);
    assert!(failure.message.contains("damaged"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_changes_nothing_and_serving_goes_on() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    make(&session, keyed("first"), "first").await.unwrap();
    let (_, mut follower) = session.subscribe(None);
    session.requests.send(Request::LimitPages(0)).await.ok().unwrap();
    let mut made = Vec::new();
    let name = |number: usize| format!("{number} {}", "x".repeat(200));
    let failure = loop {
        let number = made.len();
        let long = name(number);
        match make(&session, keyed(&format!("l{number}")), &long).await {
            Ok(receipt) => made.push(receipt),
            Err(failure) => break failure,
        }
        assert!(made.len() < 10_000, "the disk never got full");
    };
    assert_eq!(failure.code, Code::Failed);
    assert!(failure.message.contains("full") && failure.message.contains("nothing was changed"), "{failure}");
    let shown = Mirror::of(&session.snapshot());
    assert_eq!(shown.rows.len(), made.len() + 1);
    // Nothing of what was refused is left in memory either.
    let close = WorkspaceClose { workspace: name(made.len()), ..WorkspaceClose::default() };
    assert_eq!(code(session.mutate(Origin::default(), close).await), Code::NotFound);
    // Reads, and requests that write nothing, go on.
    assert!(make(&session, keyed("first"), "first").await.unwrap().replayed);
    let standing = session.cursor();
    session.requests.send(Request::LimitPages(u32::MAX - 1)).await.ok().unwrap();
    let number = made.len();
    let next = make(&session, keyed(&format!("l{number}")), &name(number)).await.unwrap();
    assert_eq!((next.revision, next.replayed), (standing.revision + 1, false));
    for revision in 2..=next.revision {
        let Some(Event::Delta(committed)) = follower.next().await else { panic!("a delta was due") };
        assert_eq!(committed.revision, revision);
    }
    let last = Mirror::of(&session.snapshot()).rows;
    session.close().await;
    let again = Session::open(dir.path()).unwrap();
    assert_eq!(Mirror::of(&again.snapshot()).rows, last);
    again.close().await;
}

#[tokio::test]
async fn an_invitation_that_was_not_saved_is_none() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let limit = |pages| session.requests.send(Request::LimitPages(pages));
    limit(0).await.ok().unwrap();
    let mut numbers = 0..=u8::MAX;
    let unsaved = loop {
        let new = invitation(numbers.next().expect("the disk gets full"));
        if let Err(failure) = session.invite(None, new.clone()).await {
            assert_eq!(failure.code, Code::Failed);
            break new;
        }
    };
    let claim = Claim {
        key: [9; 32],
        name: "laptop".to_owned(),
        serial: 1,
        invitation: Some((unsaved.id, Some(unsaved.secret_hash))),
        trusted_carrier: false,
    };
    assert_eq!(session.invitation_key(unsaved.id), None);
    let unknown = Decision::Refused(Reason::InvitationUnknown);
    assert_eq!(session.claim(claim.clone()).await, Ok(unknown));
    limit(u32::MAX - 1).await.ok().unwrap();
    session.invite(None, unsaved).await.unwrap();
    assert_eq!(session.claim(claim).await, Ok(Decision::Pending));
    session.close().await;
}

fn invitation(number: u8) -> NewInvitation {
    NewInvitation {
        id: keepline_protocol::id::InvitationId::from_bytes([number; 16]),
        key: [1; 32],
        secret_hash: [2; 32],
        ttl_ms: 60_000,
        approval: true,
        scopes: Scopes::INVITED,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_and_receipts_are_bounded_and_former_generations_go() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let made = make(&session, Origin::default(), "one").await.unwrap();
    let over = JOURNAL_RECORDS_MAX.max(RECEIPTS_MAX) + 100;
    let mut renames = tokio::task::JoinSet::new();
    for number in 0..over {
        let (session, workspace) = (session.clone(), made.value.workspace.unwrap().to_string());
        renames.spawn(async move {
            let mutation = WorkspaceRename { workspace, name: format!("name {number}"), ..WorkspaceRename::default() };
            session.mutate(keyed(&format!("key {number}")), mutation).await.unwrap();
        });
    }
    while let Some(done) = renames.join_next().await {
        done.unwrap();
    }
    assert_eq!(session.cursor().revision, over as u64 + 1);
    assert_eq!(count(dir.path(), "journal"), JOURNAL_RECORDS_MAX);
    assert_eq!(count(dir.path(), "receipts"), RECEIPTS_MAX);
    session.close().await;
    let again = Session::open(dir.path()).unwrap();
    assert_eq!(count(dir.path(), "journal"), 0);
    again.close().await;
}
