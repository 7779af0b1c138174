use keepline_protocol::api::server::AuditEntry;
use keepline_protocol::id::{DeviceId, InvitationId};
use keepline_protocol::scope::Scopes;
use tempfile::tempdir;

use keepline_protocol::api::layout::{WorkspaceClose, WorkspaceRename};

use super::super::audit::{Event, Gathered};
use super::super::enrolment::device_id;
use super::super::writer::Request;
use super::super::{Choice, Claim, NewInvitation, Origin, Session};
use super::*;
use crate::bounds::{AUDIT_GATHERED_MAX, AUDIT_MAX, AUDIT_MUTATIONS_MAX};

const ALICE: [u8; 32] = [0xa1; 32];

fn by(device: Option<DeviceId>) -> Origin {
    Origin { device, method: Some("workspace.new"), ..Origin::default() }
}

fn invitation() -> NewInvitation {
    NewInvitation {
        id: InvitationId::from_bytes([1; 16]),
        key: [1; 32],
        secret_hash: [2; 32],
        ttl_ms: 60_000,
        approval: true,
        scopes: Scopes::of(&["type"]).unwrap(),
    }
}

fn alice() -> Claim {
    Claim {
        key: ALICE,
        name: "laptop".to_owned(),
        serial: 1,
        invitation: Some((invitation().id, Some(invitation().secret_hash))),
        trusted_carrier: false,
    }
}

fn events(entries: &[AuditEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.event).collect()
}

#[tokio::test]
async fn what_took_effect_stands_in_the_audit_also_after_a_restart() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let (device, admin) = (device_id(&ALICE), DeviceId::from_bytes([7; 16]));
    session.invite(Some(admin), invitation()).await.unwrap();
    session.claim(alice()).await.unwrap();
    let laptop = || "laptop".to_owned();
    let approved = session.decide(Some(admin), laptop(), Choice::Approve).await;
    approved.unwrap();
    let rotated = Claim { serial: 2, ..alice() };
    session.claim(rotated.clone()).await.unwrap();
    session.claim(rotated).await.unwrap();
    let made = session.mutate(by(Some(device)), new_workspace("secret name")).await.unwrap();
    // What the daemon does by itself, what is refused and what changes nothing is in none.
    let place = Place::Workspace("secret name".to_owned());
    session.mutate(Origin::default(), new_terminal(place, "t")).await.unwrap();
    session.mutate(by(Some(device)), new_workspace("")).await.unwrap_err();
    let same = WorkspaceRename {
        workspace: "secret name".to_owned(),
        name: "secret name".to_owned(),
        ..WorkspaceRename::default()
    };
    session.mutate(by(Some(device)), same).await.unwrap();
    for choice in [Choice::Scopes(Scopes::ALL), Choice::Revoke] {
        session.decide(None, laptop(), choice).await.unwrap();
    }
    session.close().await;

    let again = Session::open(dir.path()).unwrap();
    let entries = again.audit(None).await.unwrap();
    let expected = ["invited", "pending", "enrolled", "key-rotated", "mutation", "scopes", "revoked"];
    let mut found = events(&entries);
    // Within a millisecond they are in the order of their sorts.
    found.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    let of = |event: &str| entries.iter().find(|entry| entry.event == event).unwrap();
    assert_eq!(of("invited").by, Some(admin));
    assert_eq!(of("invited").detail.as_deref(), Some("view,type"));
    assert_eq!(of("pending").device, Some(device));
    assert_eq!(of("enrolled").by, Some(admin));
    assert_eq!(of("key-rotated").detail.as_deref(), Some("2"));
    let mutation = of("mutation");
    assert_eq!(mutation.detail.as_deref(), Some("workspace.new"));
    let cursor = mutation.cursor.unwrap();
    assert_eq!((cursor.generation, cursor.revision), (made.generation, made.revision));
    let text = serde_json::to_string(&entries).unwrap();
    assert!(!text.contains("secret name"), "{text}");

    let mine = again.audit(Some("laptop")).await.unwrap();
    assert_eq!(mine.len(), expected.len() - 1);
    assert_eq!(again.audit(Some(&admin.to_string())).await.unwrap().len(), 2);
    assert_eq!(code(again.audit(Some("nobody")).await), Code::NotFound);
    again.close().await;
}

#[test]
fn a_flood_is_a_few_entries() {
    let gathered = Gathered::default();
    let device = DeviceId::from_bytes([7; 16]);
    for number in 0..1_000_u64 {
        let peer = format!("10.0.0.1:{number}");
        gathered.note(Event::Refused, Some(device), "revoked", Some(&peer));
    }
    let taken = gathered.take();
    assert_eq!(taken.len(), 1);
    let entry = &taken[0].1;
    assert!(entry.at > 0);
    assert_eq!(entry.count, 1_000);
    assert_eq!(entry.peer.as_deref(), Some("10.0.0.1:999"));
    assert!(gathered.is_empty());

    // Of endless different ones the rest is only counted.
    for number in 0..1_000_u32 {
        gathered.note(Event::Refused, None, &number.to_string(), None);
    }
    let taken = gathered.take();
    assert_eq!(taken.len(), AUDIT_GATHERED_MAX + 1);
    let count: u32 = taken.iter().map(|(_, entry)| entry.count).sum();
    assert_eq!(count, 1_000);
    gathered.put_back(taken);
    gathered.note(Event::Refused, None, "0", None);
    let again = gathered.take();
    let count: u32 = again.iter().map(|(_, entry)| entry.count).sum();
    assert_eq!(count, 1_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_bounded_by_sort_and_a_busy_device_pushes_out_only_its_own() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    session.invite(None, invitation()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..32 {
        let session = session.clone();
        tasks.spawn(async move {
            for _ in 0..(AUDIT_MUTATIONS_MAX / 32 + 2) {
                let name = format!("w{task}");
                let made = session.mutate(by(None), new_workspace(&name)).await;
                let close = WorkspaceClose {
                    workspace: made.unwrap().value.workspace.unwrap().to_string(),
                    ..WorkspaceClose::default()
                };
                session.mutate(by(None), close).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    for number in 0..AUDIT_MAX + 5 {
        let detail = (number % 2).to_string();
        session.gathered().note(Event::LinkOpened, None, &detail, None);
        session.write_audit().await.unwrap();
    }
    let entries = session.audit(None).await.unwrap();
    let count = |event: &str| entries.iter().filter(|entry| entry.event == event).count() as u64;
    assert_eq!(count("mutation"), AUDIT_MUTATIONS_MAX);
    assert_eq!(count("link-opened"), AUDIT_MAX);
    assert_eq!(count("invited"), 1, "nobody pushes out who was let in");
    session.close().await;
}

#[tokio::test]
async fn what_the_full_disk_did_not_take_stays_gathered() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let limit = |pages| session.requests.send(Request::LimitPages(pages));
    limit(0).await.ok().unwrap();
    let note = |number: u64| {
        let detail = format!("{number}{}", "x".repeat(1_000));
        let gathered = session.gathered();
        gathered.note(Event::Refused, None, &detail, None);
    };
    let mut written = 0;
    loop {
        note(written);
        match session.write_audit().await {
            Ok(()) => written += 1,
            Err(failure) => {
                assert_eq!(failure.code, Code::Failed);
                break;
            }
        }
    }
    assert!(!session.gathered().is_empty());
    limit(u32::MAX - 1).await.ok().unwrap();
    let entries = session.audit(None).await.unwrap();
    assert_eq!(entries.len() as u64, written + 1);
    session.close().await;
}
