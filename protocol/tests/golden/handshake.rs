//! Whole handshakes with fixed keys.

use data_encoding::HEXLOWER;
use keepline_protocol::frame::kind;
use keepline_protocol::handshake::{
    Authenticated, Claim, Initiator, InvitationKey, LinkRequest, Outcome, Rejected, Responder,
    VERSIONS, Verdict,
};
use keepline_protocol::id::InvitationId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::Secret;
use keepline_protocol::refusal::Refusal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::identity::{DAEMON_ENTROPY, DEVICE_ENTROPY, INVITATION_SECRET, certificate, hkdf};
use super::{INVITATION, LINK, check, hex, text};

const CLIENT_EPHEMERAL: [u8; 32] = [0xc3; 32];
const DAEMON_EPHEMERAL: [u8; 32] = [0xe3; 32];
const NOISE: &str = "Noise_XXpsk3_25519_AESGCM_SHA256";

/// The handshake's messages, made with a Noise library from the text of the specification.
struct ByHand {
    first: Vec<u8>,
    second: Vec<u8>,
    third: Vec<u8>,
    daemon: snow::TransportState,
    client: snow::TransportState,
}

fn by_hand(head: &[u8], psk: &[u8; 32], payload2: &[u8], payload3: &[u8]) -> ByHand {
    let builder = |secret, ephemeral| {
        snow::Builder::new(NOISE.parse().unwrap())
            .prologue(head)
            .and_then(|builder| builder.local_private_key(secret))
            .and_then(|builder| builder.psk(3, psk))
            .unwrap()
            .fixed_ephemeral_key_for_testing_only(ephemeral)
    };
    let mut client = builder(&DEVICE_ENTROPY[32..], &CLIENT_EPHEMERAL)
        .build_initiator()
        .unwrap();
    let mut daemon = builder(&DAEMON_ENTROPY[32..], &DAEMON_EPHEMERAL)
        .build_responder()
        .unwrap();
    let write = |from: &mut snow::HandshakeState, to: &mut snow::HandshakeState, payload: &[u8]| {
        let (mut out, mut read) = (vec![0; 2048], vec![0; 2048]);
        let length = from.write_message(payload, &mut out).unwrap();
        out.truncate(length);
        to.read_message(&out, &mut read).unwrap();
        out
    };
    let first = write(&mut client, &mut daemon, &[]);
    let second = write(&mut daemon, &mut client, payload2);
    let third = write(&mut client, &mut daemon, payload3);
    ByHand {
        first: [head, &first].concat(),
        second: [&[0][..], &second].concat(),
        third,
        daemon: daemon.into_transport_mode().unwrap(),
        client: client.into_transport_mode().unwrap(),
    }
}

fn seal(state: &mut snow::TransportState, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; plain.len() + 16];
    let length = state.write_message(plain, &mut out).unwrap();
    assert_eq!(length, out.len());
    out
}

fn head(invitation: Option<InvitationId>) -> Vec<u8> {
    let id = invitation.map_or([0; 16], |id| *id.as_bytes());
    [&b"KPLN"[..], &[1, 1, 1], &id, &[0, 0]].concat()
}

/// A verdict's bytes: all its numbers here are below 128, so that each is one byte, but for the lease.
fn verdict_bytes(refusal: u8, retry: bool, held: bool, cursors: [u8; 4], lease: &[u8]) -> Vec<u8> {
    let name = [&[4][..], b"host"].concat();
    let flags = [refusal, u8::from(retry), u8::from(held)];
    [&flags[..], &name, &[0], &cursors, lease].concat()
}

fn verdict_packet(body: &[u8]) -> Vec<u8> {
    [
        &[1, kind::VERDICT, 0, 0, u8::try_from(body.len()).unwrap()],
        body,
    ]
    .concat()
}

fn handshake(name: &str, secret: Option<Secret>, resume: Option<(u32, [u64; 4])>) -> Value {
    let device = Credentials::generate(Role::Device, &DEVICE_ENTROPY);
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let (epoch, cursors) = resume.map_or((1, None), |(epoch, cursors)| (epoch, Some(cursors)));
    let claim = secret.clone().map(|secret| Claim {
        id: INVITATION,
        secret,
    });
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: &device,
        pinned: Some(host.identity()),
        serial: 1,
        claim: claim.clone(),
        name: text("laptop"),
        client: text("client-1"),
        features: 0,
        link: LinkRequest {
            id: LINK,
            epoch,
            cursors,
        },
    };
    let (client, first) = initiator.start(CLIENT_EPHEMERAL);
    let responder = Responder::start(&VERSIONS, &first).unwrap();
    let known = secret.as_ref().map_or(InvitationKey::NotClaimed, |secret| {
        InvitationKey::Known(secret.key())
    });
    let (daemon, second) = responder.reply(&host, known, DAEMON_EPHEMERAL).unwrap();
    let (client, third) = client.handle(&second).unwrap();
    let mut authenticated = daemon.unwrap().handle(&third).unwrap();

    let head = head(claim.map(|claim| claim.id));
    let key = secret.as_ref().map_or([0; 32], Secret::key);
    let digest = Sha256::digest(&head);
    let psk = hkdf(
        &[key, [0; 32]].concat(),
        &[&b"keepline psk v1"[..], &digest].concat(),
    );
    let payload2 = [
        &[1, 0][..],
        &certificate("keepline daemon certificate v1", &DAEMON_ENTROPY).1,
    ]
    .concat();
    let payload3 = postcard::to_stdvec(&authenticated.hello).unwrap();
    let mut hand = by_hand(&head, &psk, &payload2, &payload3);
    assert_eq!(
        (&hand.first, &hand.second, &hand.third),
        (&first, &second, &third)
    );

    let accepted = Verdict {
        refusal: 0,
        retry: false,
        held: false,
        name: text("host"),
        features: 0,
        cursors: [4, 3, 2, 1],
        lease_seconds: 120,
    };
    let held = Verdict {
        held: true,
        ..Verdict::refused(Refusal::Pending, "host")
    };
    let body = verdict_bytes(0, false, false, [4, 3, 2, 1], &[120]);
    let held_body = verdict_bytes(17, true, true, [0; 4], &[0]);
    let plains = [verdict_packet(&held_body), verdict_packet(&body)];
    let packets = [
        authenticated.verdict(&held),
        authenticated.verdict(&accepted),
    ];
    for (plain, packet) in plains.iter().zip(&packets) {
        assert_eq!(&seal(&mut hand.daemon, plain), packet);
    }
    let Outcome::Waiting {
        next,
        pending: true,
        ..
    } = client.handle(&packets[0]).unwrap()
    else {
        panic!("not held")
    };
    let Outcome::Accepted { mut cipher, .. } = next.handle(&packets[1]).unwrap() else {
        panic!("not accepted")
    };
    let ping = [1, 5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let pong = [1, 6, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let Authenticated {
        cipher: mut theirs,
        hello,
        ..
    } = authenticated;
    let sealed = [cipher.seal(&ping), theirs.seal(&pong)];
    assert_eq!(
        sealed,
        [seal(&mut hand.client, &ping), seal(&mut hand.daemon, &pong)]
    );

    json!({
        "name": name,
        "device": { "identity_secret": hex(&DEVICE_ENTROPY[..32]), "noise_secret": hex(&DEVICE_ENTROPY[32..]), "ephemeral_secret": hex(CLIENT_EPHEMERAL) },
        "daemon": { "identity_secret": hex(&DAEMON_ENTROPY[..32]), "noise_secret": hex(&DAEMON_ENTROPY[32..]), "ephemeral_secret": hex(DAEMON_EPHEMERAL) },
        "invitation_secret": secret.as_ref().map(|secret| hex(secret.as_bytes())),
        "hello": { "name": hello.name, "client": hello.client, "link": LINK, "epoch": epoch, "cursors": cursors },
        "key": hex(key), "head": hex(&head), "psk": hex(psk),
        "message_1": hex(first), "payload_2": hex(payload2), "message_2": hex(second),
        "payload_3": hex(payload3), "message_3": hex(third),
        "daemon_packets": [
            { "plain": hex(&plains[0]), "packet": hex(&packets[0]), "means": "a held verdict: pending" },
            { "plain": hex(&plains[1]), "packet": hex(&packets[1]), "means": "accepted" },
            { "plain": hex(pong), "packet": hex(&sealed[1]), "means": "the answer to the client's probe" },
        ],
        "client_packets": [{ "plain": hex(ping), "packet": hex(&sealed[0]), "means": "a probe" }],
    })
}

#[test]
fn handshakes_have_their_bytes() {
    let secret = || Secret::from_bytes(INVITATION_SECRET);
    let mut vectors = vec![
        handshake("a new link of an enrolled device", None, None),
        handshake("a resumed link", None, Some((300, [1, 200, 0, 70_000]))),
        handshake("a claimed invitation", Some(secret()), None),
    ];
    for refusal in [Refusal::Version, Refusal::Busy, Refusal::StaleKey] {
        let reply = Rejected::refused(refusal).reply.unwrap();
        vectors.push(
            json!({ "name": "a refusal in clear", "refusal": refusal.name(), "reply": hex(reply) }),
        );
    }
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let claimed = vectors[2]["message_1"]
        .as_str()
        .unwrap()
        .as_bytes()
        .to_vec();
    let first = HEXLOWER.decode(&claimed).unwrap();
    let responder = Responder::start(&VERSIONS, &first).unwrap();
    let (next, second) = responder
        .reply(&host, InvitationKey::Unknown, DAEMON_EPHEMERAL)
        .unwrap();
    assert!(next.is_none());
    let payload = [
        &[1, 22][..],
        &certificate("keepline daemon certificate v1", &DAEMON_ENTROPY).1,
    ]
    .concat();
    let hand = by_hand(&head(Some(INVITATION)), &[0; 32], &payload, &[]);
    assert_eq!(hand.second, second);
    vectors.push(json!({
        "name": "an invitation that the daemon does not know", "message_1": hex(first),
        "payload_2": hex(payload), "message_2": hex(second),
    }));
    check(
        "handshake.json",
        "Whole handshakes with fixed keys: every message, what is sealed in it, and the first packets.",
        vectors,
    );
}
