use keepline_protocol::failure::Code;
use keepline_protocol::id::{DeviceId, InvitationId};
use keepline_protocol::scope::Scopes;
use sha2::{Digest, Sha256};
use tempfile::tempdir;

use super::super::enrolment::{Enrolment, device_id, fingerprint};
use super::super::{Choice, Claim, Decision, NewInvitation, Reason, Session, Standing};
use super::code;
use crate::bounds::{DEVICES_MAX, INVITATION_KEPT_MS, INVITATION_TTL_MAX_MS, INVITATIONS_MAX, PENDING_MAX_MS};

const TTL: u64 = 300_000;
const NOW: u64 = 1_000_000;
const ALICE: [u8; 32] = [0xa1; 32];
const BOB: [u8; 32] = [0xb0; 32];

fn invitation(number: u16, approval: bool) -> NewInvitation {
    let mut id = [0; 16];
    id[..2].copy_from_slice(&number.to_be_bytes());
    NewInvitation {
        id: InvitationId::from_bytes(id),
        key: Sha256::digest(id).into(),
        secret_hash: Sha256::digest(number.to_be_bytes()).into(),
        ttl_ms: TTL,
        approval,
        scopes: Scopes::INVITED,
    }
}

/// A claim of nothing.
fn bare(key: [u8; 32]) -> Claim {
    Claim { key, name: "laptop".to_owned(), serial: 1, invitation: None, trusted_carrier: false }
}

fn with(key: [u8; 32], invitation: &NewInvitation) -> Claim {
    Claim { invitation: Some((invitation.id, Some(invitation.secret_hash))), ..bare(key) }
}

fn refused(reason: Reason) -> Decision {
    Decision::Refused(reason)
}

/// An enrolment with one invitation.
fn invited(approval: bool) -> (Enrolment, NewInvitation) {
    let mut enrolment = Enrolment::default();
    let invitation = invitation(1, approval);
    assert_eq!(enrolment.invite(&invitation, NOW), Ok(NOW + TTL));
    (enrolment, invitation)
}

#[test]
fn an_unknown_key_without_an_invitation_stays_out() {
    let mut enrolment = Enrolment::default();
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), refused(Reason::UnknownDevice));
    assert_eq!(enrolment.claim(&with(ALICE, &invitation(9, true)), NOW), refused(Reason::InvitationUnknown));
    assert!(enrolment.take_edits().is_empty());
}

#[test]
fn a_claim_waits_for_approval_and_then_needs_no_invitation() {
    let (mut enrolment, invitation) = invited(true);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW), Decision::Pending);
    // It may retry, with the invitation or without.
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW + 1), Decision::Pending);
    assert_eq!(enrolment.claim(&bare(ALICE), NOW + TTL + 1), Decision::Pending);
    let pending = enrolment.pending(NOW);
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].id, pending[0].since), (device_id(&ALICE), NOW));
    assert_eq!(pending[0].fingerprint, fingerprint(&ALICE));
    let changed = enrolment.decide("laptop", Choice::Approve, NOW + 2).unwrap();
    assert_eq!((changed.device, changed.state.as_str()), (device_id(&ALICE), "enrolled"));
    assert!(enrolment.pending(NOW + 2).is_empty());
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW + 3), Decision::Enrolled);
    assert_eq!(enrolment.claim(&bare(ALICE), NOW + 10 * PENDING_MAX_MS), Decision::Enrolled);
    // Said again, an approval is no error.
    assert_eq!(enrolment.decide("laptop", Choice::Approve, NOW + 4).unwrap(), changed);
}

#[test]
fn an_invitation_without_approval_enrols_at_once() {
    let (mut enrolment, invitation) = invited(false);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW), Decision::Enrolled);
    assert_eq!(enrolment.standing(device_id(&ALICE), NOW), Some(Standing::Enrolled));
    assert_eq!(enrolment.claim(&with(BOB, &invitation), NOW), refused(Reason::InvitationUsed));
}

#[test]
fn the_first_key_owns_an_invitation() {
    let (mut enrolment, invitation) = invited(true);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW), Decision::Pending);
    assert_eq!(enrolment.claim(&with(BOB, &invitation), NOW), refused(Reason::InvitationUsed));
    assert_eq!(enrolment.claim(&bare(BOB), NOW), refused(Reason::UnknownDevice));
    enrolment.decide("laptop", Choice::Deny, NOW).unwrap();
    assert_eq!(enrolment.claim(&with(BOB, &invitation), NOW), refused(Reason::InvitationUsed));
}

#[test]
fn a_wrong_or_missing_secret_claims_nothing() {
    let (mut enrolment, invitation) = invited(true);
    let wrong = Claim { invitation: Some((invitation.id, Some([0; 32]))), ..bare(ALICE) };
    let missing = Claim { invitation: Some((invitation.id, None)), ..bare(ALICE) };
    for claim in [wrong, missing] {
        assert_eq!(enrolment.claim(&claim, NOW), refused(Reason::InvitationWrong));
        // Nor does it learn what became of the invitation.
        assert_eq!(enrolment.claim(&claim, NOW + TTL), refused(Reason::InvitationWrong));
    }
    assert_eq!(enrolment.claim(&with(BOB, &invitation), NOW), Decision::Pending);
}

#[test]
fn an_expired_invitation_is_known_for_a_day() {
    let (mut enrolment, invitation) = invited(true);
    let expires = NOW + TTL;
    assert_eq!(enrolment.invitation_key(invitation.id, NOW), Some(invitation.key));
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), expires), refused(Reason::InvitationExpired));
    let last = expires + INVITATION_KEPT_MS - 1;
    assert_eq!(enrolment.invitation_key(invitation.id, last), Some(invitation.key));
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), last), refused(Reason::InvitationExpired));
    assert_eq!(enrolment.invitation_key(invitation.id, last + 1), None);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), last + 1), refused(Reason::InvitationUnknown));
    assert_eq!(enrolment.invitation_key(InvitationId::from_bytes([9; 16]), NOW), None);
}

#[test]
fn an_invitation_is_good_to_its_last_millisecond() {
    let (mut enrolment, invitation) = invited(true);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW + TTL - 1), Decision::Pending);
}

#[test]
fn a_claim_lapses_when_the_owner_does_not_decide_within_a_day() {
    let (mut enrolment, invitation) = invited(true);
    enrolment.claim(&with(ALICE, &invitation), NOW);
    let last = NOW + PENDING_MAX_MS - 1;
    assert_eq!(enrolment.claim(&bare(ALICE), last), Decision::Pending);
    assert_eq!(enrolment.pending(last).len(), 1);
    assert!(enrolment.pending(last + 1).is_empty());
    assert_eq!(enrolment.standing(device_id(&ALICE), last + 1), None);
    assert_eq!(code(enrolment.decide("laptop", Choice::Approve, last + 1)), Code::NotFound);
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), last + 1), refused(Reason::InvitationExpired));
    assert_eq!(enrolment.claim(&bare(ALICE), last + 1), refused(Reason::UnknownDevice));
}

#[test]
fn a_denied_device_is_told_so_and_its_invitation_is_spent() {
    let mut enrolment = Enrolment::default();
    let invitation = NewInvitation { ttl_ms: INVITATION_TTL_MAX_MS, ..invitation(1, true) };
    enrolment.invite(&invitation, NOW).unwrap();
    enrolment.claim(&with(ALICE, &invitation), NOW);
    assert_eq!(enrolment.decide("laptop", Choice::Deny, NOW).unwrap().state, "denied");
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW), refused(Reason::Denied));
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), refused(Reason::Denied));
    assert!(enrolment.devices(NOW).is_empty() && enrolment.pending(NOW).is_empty());
    assert_eq!(code(enrolment.decide("laptop", Choice::Approve, NOW)), Code::NotFound);
    assert_eq!(enrolment.decide("laptop", Choice::Deny, NOW).unwrap().state, "denied");
    // After a day the device is forgotten, what it claimed is not.
    let later = NOW + PENDING_MAX_MS;
    assert_eq!(enrolment.claim(&bare(ALICE), later), refused(Reason::UnknownDevice));
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), later), refused(Reason::Denied));
    let second = self::invitation(2, true);
    enrolment.invite(&second, later).unwrap();
    assert_eq!(enrolment.claim(&with(ALICE, &second), later), Decision::Pending);
}

#[test]
fn a_revoked_device_stays_out_until_it_claims_a_fresh_invitation() {
    let (mut enrolment, first) = invited(false);
    enrolment.claim(&with(ALICE, &first), NOW);
    assert_eq!(enrolment.decide("laptop", Choice::Revoke, NOW).unwrap().state, "revoked");
    for claim in [bare(ALICE), with(ALICE, &first), with(ALICE, &invitation(9, false))] {
        assert_eq!(enrolment.claim(&claim, NOW), refused(Reason::Revoked));
    }
    assert_eq!(enrolment.claim(&bare(ALICE), NOW + 100 * PENDING_MAX_MS), refused(Reason::Revoked));
    assert_eq!(code(enrolment.decide("laptop", Choice::Approve, NOW)), Code::NotFound);
    assert_eq!(enrolment.decide("laptop", Choice::Revoke, NOW).unwrap().state, "revoked");
    let second = invitation(2, true);
    enrolment.invite(&second, NOW).unwrap();
    assert_eq!(enrolment.claim(&with(ALICE, &second), NOW), Decision::Pending);
    assert_eq!(enrolment.decide("laptop", Choice::Approve, NOW).unwrap().state, "enrolled");
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), Decision::Enrolled);
    // A pending device can be revoked too.
    let third = invitation(3, true);
    enrolment.invite(&third, NOW).unwrap();
    enrolment.claim(&Claim { name: "phone".to_owned(), ..with(BOB, &third) }, NOW);
    enrolment.decide("phone", Choice::Revoke, NOW).unwrap();
    assert_eq!(enrolment.claim(&with(BOB, &third), NOW), refused(Reason::Revoked));
}

#[test]
fn a_lower_serial_than_the_highest_is_refused() {
    let (mut enrolment, invitation) = invited(true);
    let at = |serial: u64| Claim { serial, ..with(ALICE, &invitation) };
    assert_eq!(enrolment.claim(&at(5), NOW), Decision::Pending);
    assert_eq!(enrolment.claim(&at(4), NOW), refused(Reason::StaleSerial));
    enrolment.decide("laptop", Choice::Approve, NOW).unwrap();
    assert_eq!(enrolment.claim(&at(4), NOW), refused(Reason::StaleSerial));
    assert_eq!(enrolment.claim(&at(7), NOW), Decision::Enrolled);
    assert_eq!(enrolment.claim(&at(6), NOW), refused(Reason::StaleSerial));
    assert_eq!(enrolment.claim(&at(7), NOW), Decision::Enrolled);
    // Nor does a stale certificate use up an invitation.
    enrolment.decide("laptop", Choice::Revoke, NOW).unwrap();
    let second = self::invitation(2, true);
    enrolment.invite(&second, NOW).unwrap();
    assert_eq!(enrolment.claim(&Claim { serial: 6, ..with(ALICE, &second) }, NOW), refused(Reason::StaleSerial));
    assert_eq!(enrolment.claim(&with(BOB, &second), NOW), Decision::Pending);
}

#[test]
fn a_device_has_the_scopes_of_its_invitation_until_they_are_changed() {
    let mut enrolment = Enrolment::default();
    let view = Scopes::of(&["view"]).unwrap();
    let given = NewInvitation { scopes: view, ..invitation(1, true) };
    enrolment.invite(&given, NOW).unwrap();
    let alice = device_id(&ALICE);
    assert_eq!(enrolment.claim(&with(ALICE, &given), NOW), Decision::Pending);
    assert_eq!(enrolment.pending(NOW)[0].scopes, ["view"]);
    assert_eq!(enrolment.scopes(alice), Scopes::NONE, "it is not in yet");
    enrolment.decide("laptop", Choice::Approve, NOW).unwrap();
    assert_eq!(enrolment.scopes(alice), view);
    // Coming again changes nothing, with whatever it brings.
    let richer = invitation(2, true);
    enrolment.invite(&richer, NOW).unwrap();
    assert_eq!(enrolment.claim(&with(ALICE, &richer), NOW), Decision::Enrolled);
    assert_eq!(enrolment.scopes(alice), view);

    let more = Scopes::of(&["type"]).unwrap();
    let changed = enrolment.decide("laptop", Choice::Scopes(more), NOW + 1).unwrap();
    assert_eq!(changed.state, "enrolled");
    assert_eq!(enrolment.scopes(alice), more);
    assert_eq!(enrolment.devices(NOW)[0].scopes, ["view", "type"]);
    assert_eq!(enrolment.devices(NOW)[0].since, NOW, "its state is the same");
    enrolment.decide("laptop", Choice::Revoke, NOW + 2).unwrap();
    assert_eq!(enrolment.scopes(alice), Scopes::NONE);
    assert_eq!(code(enrolment.decide("laptop", Choice::Scopes(more), NOW)), Code::NotFound);

    // Who is let in by its carrier has no scopes of its own.
    let trusted = Claim { trusted_carrier: true, ..bare(BOB) };
    assert_eq!(enrolment.claim(&trusted, NOW), Decision::Enrolled);
    assert_eq!(enrolment.scopes(device_id(&BOB)), Scopes::NONE);
}

#[test]
fn a_trusted_carrier_lets_every_key_in_but_revoked_ones_and_only_there() {
    let mut enrolment = Enrolment::default();
    let trusted = Claim { trusted_carrier: true, ..bare(ALICE) };
    assert_eq!(enrolment.claim(&trusted, NOW), Decision::Enrolled);
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), refused(Reason::UnknownDevice));
    assert_eq!(enrolment.devices(NOW)[0].state, "trusted");
    assert_eq!(enrolment.claim(&Claim { serial: 0, ..trusted.clone() }, NOW), refused(Reason::StaleSerial));
    let invitation = invitation(1, true);
    enrolment.invite(&invitation, NOW).unwrap();
    assert_eq!(enrolment.claim(&with(ALICE, &invitation), NOW), Decision::Pending);
    assert_eq!(enrolment.claim(&trusted, NOW), Decision::Enrolled);
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), Decision::Pending);
    enrolment.decide("laptop", Choice::Revoke, NOW).unwrap();
    assert_eq!(enrolment.claim(&trusted, NOW), refused(Reason::Revoked));
}

#[test]
fn a_device_is_meant_by_id_or_unique_name_or_the_start_of_its_id() {
    let mut enrolment = Enrolment::default();
    let keys: Vec<[u8; 32]> = (1..=40).map(|number| [number; 32]).collect();
    for (number, key) in (1..).zip(&keys) {
        let invitation = invitation(number, true);
        enrolment.invite(&invitation, NOW).unwrap();
        let name = if number < 3 { "twin".to_owned() } else { format!("device {number}") };
        enrolment.claim(&Claim { name, ..with(*key, &invitation) }, NOW);
    }
    let id = device_id(&keys[0]);
    let twins = enrolment.decide("twin", Choice::Approve, NOW).unwrap_err();
    assert_eq!((twins.code, twins.candidates.len()), (Code::Ambiguous, 2));
    assert!(twins.candidates.contains(&format!("{id} twin")));
    // Forty ids share sixteen first digits.
    let crowded = (0..16)
        .map(|digit| format!("dev_{digit:x}"))
        .filter(|start| keys.iter().filter(|key| device_id(key).to_string().starts_with(start.as_str())).count() > 1);
    for start in crowded {
        assert_eq!(code(enrolment.decide(&start, Choice::Approve, NOW)), Code::Ambiguous);
    }
    for nobody in ["", "dev_", "nobody", &DeviceId::from_bytes([0; 16]).to_string()] {
        assert_ne!(code(enrolment.decide(nobody, Choice::Approve, NOW)), Code::Internal, "{nobody}");
        assert!(enrolment.decide(nobody, Choice::Approve, NOW).is_err(), "{nobody}");
    }
    assert_eq!(enrolment.decide(&id.to_string(), Choice::Approve, NOW).unwrap().device, id);
    // One twin waits no more, so that the name is unique among those who do.
    assert_eq!(enrolment.decide("twin", Choice::Deny, NOW).unwrap().device, device_id(&keys[1]));
    let start = device_id(&keys[2]).to_string()[..16].to_owned();
    assert_eq!(enrolment.decide(&start, Choice::Approve, NOW).unwrap().device, device_id(&keys[2]));
    let start = device_id(&keys[3]).to_string()[4..16].to_owned();
    assert_eq!(enrolment.decide(&start, Choice::Approve, NOW).unwrap().device, device_id(&keys[3]));
    assert_eq!(code(enrolment.decide("device 99", Choice::Approve, NOW)), Code::NotFound);
}

#[test]
fn invitations_are_bounded_in_time_and_number() {
    let mut enrolment = Enrolment::default();
    for ttl_ms in [0, INVITATION_TTL_MAX_MS + 1, u64::MAX] {
        let invitation = NewInvitation { ttl_ms, ..invitation(1, true) };
        assert_eq!(code(enrolment.invite(&invitation, NOW)), Code::Invalid);
    }
    for number in 0..u16::try_from(INVITATIONS_MAX).unwrap() {
        enrolment.invite(&invitation(number, true), NOW).unwrap();
    }
    let next = invitation(9999, true);
    assert_eq!(code(enrolment.invite(&next, NOW)), Code::TooLarge);
    // A claimed one makes room.
    enrolment.claim(&with(ALICE, &invitation(0, true)), NOW);
    enrolment.invite(&next, NOW).unwrap();
    assert_eq!(enrolment.invitation_key(invitation(0, true).id, NOW), None);
    assert_eq!(enrolment.claim(&bare(ALICE), NOW), Decision::Pending);
}

#[test]
fn devices_are_bounded_and_revoked_ones_make_room() {
    let mut enrolment = Enrolment::default();
    let key = |number: u16| -> [u8; 32] { Sha256::digest(number.to_be_bytes()).into() };
    let enrol = |enrolment: &mut Enrolment, number: u16| {
        let invitation = invitation(number, false);
        enrolment.invite(&invitation, NOW).map(|_| enrolment.claim(&with(key(number), &invitation), NOW))
    };
    for number in 0..100 {
        let met = Claim { trusted_carrier: true, ..bare(key(60_000 + number)) };
        assert_eq!(enrolment.claim(&met, NOW), Decision::Enrolled);
    }
    let most = u16::try_from(DEVICES_MAX).unwrap();
    for number in 0..most {
        assert_eq!(enrol(&mut enrolment, number), Ok(Decision::Enrolled), "{number}");
    }
    assert_eq!(enrolment.devices(NOW).len(), DEVICES_MAX);
    assert_eq!(code(enrol(&mut enrolment, most)), Code::TooLarge);
    // One more on a trusted carrier gets in there and is not remembered.
    let met = Claim { trusted_carrier: true, ..bare(ALICE) };
    assert_eq!(enrolment.claim(&met, NOW), Decision::Enrolled);
    assert_eq!(enrolment.standing(device_id(&ALICE), NOW), None);
    enrolment.decide(&device_id(&key(7)).to_string(), Choice::Revoke, NOW).unwrap();
    assert_eq!(enrol(&mut enrolment, most), Ok(Decision::Enrolled));
    // As an unknown one it does not get in either, nor by the invitation that it had.
    let again = with(key(7), &invitation(7, false));
    assert!(matches!(enrolment.claim(&again, NOW), Decision::Refused(_)));
}

#[test]
fn what_is_kept_enrols_nobody_by_itself_and_shows_no_key() {
    let (mut enrolment, invitation) = invited(true);
    let edits = enrolment.take_edits();
    let record = edits.invitations[&invitation.id].clone().unwrap();
    assert_eq!(record.key, invitation.key);
    assert!(!format!("{record:?}").contains("key"), "{record:?}");
    let back: super::super::enrolment::InvitationRecord =
        serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(back, record);
    assert!(enrolment.take_edits().is_empty());
}

#[tokio::test]
async fn decisions_are_durable_and_announced() {
    let dir = tempdir().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let (first, second) = (invitation(1, true), invitation(2, true));
    session.invite(None, first.clone()).await.unwrap();
    session.invite(None, second.clone()).await.unwrap();
    assert_eq!(session.invitation_key(first.id), Some(first.key));
    assert_eq!(session.claim(with(ALICE, &first)).await, Ok(Decision::Pending));
    let other = Claim { name: "phone".to_owned(), ..with(BOB, &second) };
    assert_eq!(session.claim(other.clone()).await, Ok(Decision::Pending));
    let mut decisions = session.decisions();
    let waiting = tokio::spawn({
        let session = session.clone();
        async move {
            while session.standing(device_id(&ALICE)) == Some(Standing::Pending) {
                decisions.changed().await.unwrap();
            }
        }
    });
    session.decide(None, "laptop".to_owned(), Choice::Approve).await.unwrap();
    waiting.await.unwrap();
    session.decide(None, "phone".to_owned(), Choice::Revoke).await.unwrap();
    // What changes nothing is announced to nobody.
    let mut decisions = session.decisions();
    decisions.mark_unchanged();
    assert_eq!(session.claim(bare(ALICE)).await, Ok(Decision::Enrolled));
    assert!(!decisions.has_changed().unwrap());
    assert_eq!(session.cursor().revision, 0, "devices are no part of the graph");
    session.close().await;

    let again = Session::open(dir.path()).unwrap();
    assert_eq!(again.devices(), session.devices());
    assert_eq!(again.claim(bare(ALICE)).await, Ok(Decision::Enrolled));
    assert_eq!(again.claim(other).await, Ok(Decision::Refused(Reason::Revoked)));
    assert_eq!(again.invitation_key(first.id), Some(first.key));
    assert_eq!(code(again.decide(None, "nobody".to_owned(), Choice::Approve).await), Code::NotFound);
    again.close().await;
}
