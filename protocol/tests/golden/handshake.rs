//! Whole handshakes with fixed keys.

use data_encoding::HEXLOWER;
use keepline_protocol::frame::{Frame, kind};
use keepline_protocol::handshake::{
    Authenticated, Claim, DeviceHello, Initiator, InvitationKey, LinkRequest, Outcome, Rejected, Reply, Responder,
    VERSIONS, Verdict,
};
use keepline_protocol::id::InvitationId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::Secret;
use keepline_protocol::refusal::Refusal;
use libcrux_ml_kem::mlkem768;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::identity::{DAEMON_ENTROPY, DEVICE_ENTROPY, INVITATION_SECRET, certificate, hkdf};
use super::{INVITATION, LINK, check, hex, text};

const CLIENT_EPHEMERAL: [u8; 32] = [0xc3; 32];
const CLIENT_KEM_SEED: [u8; 64] = [0xc7; 64];
const DAEMON_EPHEMERAL: [u8; 32] = [0xe3; 32];
const DAEMON_KEM_ENTROPY: [u8; 32] = [0xe7; 32];

fn client_entropy() -> [u8; 96] {
    [&CLIENT_EPHEMERAL[..], &CLIENT_KEM_SEED].concat().try_into().unwrap()
}

fn daemon_entropy() -> [u8; 64] {
    [DAEMON_EPHEMERAL, DAEMON_KEM_ENTROPY].concat().try_into().unwrap()
}

/// What stands in clear, and the psk that follows from it.
struct Clear {
    head: Vec<u8>,
    ciphertext: Vec<u8>,
    shared: [u8; 32],
    psk: [u8; 32],
}

fn clear(pattern: u8, invitation: Option<InvitationId>, key: [u8; 32]) -> Clear {
    let pair = mlkem768::generate_key_pair(CLIENT_KEM_SEED);
    let (ciphertext, shared) = mlkem768::encapsulate(pair.public_key(), DAEMON_KEM_ENTROPY);
    let id = invitation.map_or([0; 16], |id| *id.as_bytes());
    let fixed = [&b"KPLN"[..], &[1, 1, pattern], &id, &[4, 160]].concat();
    let head = [&fixed[..], pair.pk()].concat();
    let ciphertext = ciphertext.as_slice().to_vec();
    let digest = Sha256::digest([&head[..], &ciphertext].concat());
    let psk = hkdf(&[key, shared].concat(), &[&b"keepline psk v1"[..], &digest].concat());
    Clear { head, ciphertext, shared, psk }
}

/// The handshake's messages, made with a Noise library from the text of the specification.
struct ByHand {
    first: Vec<u8>,
    second: Vec<u8>,
    third: Vec<u8>,
    daemon: snow::TransportState,
    client: snow::TransportState,
}

/// `payloads` are those of the pattern's messages: three in XX, two in IK.
fn by_hand(clear: &Clear, payloads: &[&[u8]]) -> ByHand {
    let known = payloads.len() == 2;
    let (name, place) =
        if known { ("Noise_IKpsk2_25519_AESGCM_SHA256", 2) } else { ("Noise_XXpsk3_25519_AESGCM_SHA256", 3) };
    let builder = |secret, ephemeral| {
        snow::Builder::new(name.parse().unwrap())
            .prologue(&clear.head)
            .and_then(|builder| builder.local_private_key(secret))
            .and_then(|builder| builder.psk(place, &clear.psk))
            .unwrap()
            .fixed_ephemeral_key_for_testing_only(ephemeral)
    };
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let host_key = host.certificate().noise_key();
    let mut client = builder(&DEVICE_ENTROPY[32..], &CLIENT_EPHEMERAL);
    if known {
        client = client.remote_public_key(&host_key).unwrap();
    }
    let mut client = client.build_initiator().unwrap();
    let mut daemon = builder(&DAEMON_ENTROPY[32..], &DAEMON_EPHEMERAL).build_responder().unwrap();
    let write = |from: &mut snow::HandshakeState, to: &mut snow::HandshakeState, payload: &[u8]| {
        let (mut out, mut read) = (vec![0; 2048], vec![0; 2048]);
        let length = from.write_message(payload, &mut out).unwrap();
        out.truncate(length);
        to.read_message(&out, &mut read).unwrap();
        out
    };
    let first = write(&mut client, &mut daemon, payloads[0]);
    let second = write(&mut daemon, &mut client, payloads[1]);
    let third = payloads.get(2).map(|payload| write(&mut client, &mut daemon, payload));
    ByHand {
        first: [&clear.head[..], &first].concat(),
        second: [&[0][..], &clear.ciphertext, &second].concat(),
        third: third.unwrap_or_default(),
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

/// A verdict's bytes: all its numbers here are below 128, so that each is one byte, but for the lease.
fn verdict_bytes(refusal: u8, retry: bool, held: bool, cursors: [u8; 4], lease: &[u8]) -> Vec<u8> {
    let name = [&[4][..], b"host"].concat();
    let flags = [refusal, u8::from(retry), u8::from(held)];
    [&flags[..], &name, &[0], &cursors, lease].concat()
}

fn verdict_packet(body: &[u8]) -> Vec<u8> {
    [&[1, kind::VERDICT, 0, 0, u8::try_from(body.len()).unwrap()], body].concat()
}

fn initiator<'a>(device: &'a Credentials, host: &Credentials, resume: Option<(u32, [u64; 4])>) -> Initiator<'a> {
    let (epoch, cursors) = resume.map_or((1, None), |(epoch, cursors)| (epoch, Some(cursors)));
    Initiator {
        versions: VERSIONS,
        credentials: device,
        pinned: Some(host.identity()),
        serial: 1,
        noise_key: None,
        claim: None,
        name: text("laptop"),
        client: text("client-1"),
        features: 0,
        link: LinkRequest { id: LINK, epoch, cursors },
    }
}

/// What every vector of a handshake begins with.
fn ends(name: &str, pattern: &str, clear: &Clear, hello: &DeviceHello) -> Value {
    json!({
        "name": name, "pattern": pattern,
        "device": { "identity_secret": hex(&DEVICE_ENTROPY[..32]), "noise_secret": hex(&DEVICE_ENTROPY[32..]), "ephemeral_secret": hex(CLIENT_EPHEMERAL), "kem_seed": hex(CLIENT_KEM_SEED) },
        "daemon": { "identity_secret": hex(&DAEMON_ENTROPY[..32]), "noise_secret": hex(&DAEMON_ENTROPY[32..]), "ephemeral_secret": hex(DAEMON_EPHEMERAL), "kem_entropy": hex(DAEMON_KEM_ENTROPY) },
        "hello": { "name": hello.name, "client": hello.client, "link": hello.link.id, "epoch": hello.link.epoch, "cursors": hello.link.cursors },
        "head": hex(&clear.head), "ciphertext": hex(&clear.ciphertext), "shared": hex(clear.shared), "psk": hex(clear.psk),
    })
}

/// `left` with the members of `right` behind its own.
fn joined(mut left: Value, right: Value) -> Value {
    let Value::Object(more) = right else { panic!("an object") };
    left.as_object_mut().unwrap().extend(more);
    left
}

/// IKpsk2: a handshake with a daemon whose Noise key is known.
fn short_handshake(name: &str, resume: Option<(u32, [u64; 4])>) -> Value {
    let device = Credentials::generate(Role::Device, &DEVICE_ENTROPY);
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let initiator = Initiator { noise_key: Some(host.certificate().noise_key()), ..initiator(&device, &host, resume) };
    let (client, first) = initiator.start(client_entropy());
    let Ok(Responder::Named(responder)) = Responder::start(&VERSIONS, &host, &first, daemon_entropy()) else {
        panic!("not IK")
    };
    let hello = responder.hello.clone();
    let accepted = Verdict {
        name: text("host"),
        cursors: [4, 3, 2, 1],
        lease_seconds: 120,
        refusal: 0,
        retry: false,
        ..Verdict::refused(Refusal::Busy, "")
    };
    let (daemon, second) = responder.reply(&host, &accepted).unwrap();
    let Reply::Decided(Outcome::Accepted { mut cipher, .. }) = client.handle(&second).unwrap() else {
        panic!("not accepted")
    };

    let clear = clear(2, None, [0; 32]);
    let payload1 = postcard::to_stdvec(&hello).unwrap();
    let payload2 = [
        &[1][..],
        &certificate("keepline daemon certificate v1", &DAEMON_ENTROPY).1,
        &verdict_bytes(0, false, false, [4, 3, 2, 1], &[120]),
    ]
    .concat();
    let mut hand = by_hand(&clear, &[&payload1, &payload2]);
    assert_eq!((&hand.first, &hand.second), (&first, &second));
    let ping = [1, 5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let mut daemon = daemon.unwrap();
    let ahead = daemon.ahead(&[Frame::Ping { nonce: 9 }]).remove(0);
    assert_eq!(seal(&mut hand.daemon, &ping), ahead);
    let sealed = cipher.seal(&ping);
    assert_eq!(seal(&mut hand.client, &ping), sealed);
    assert_eq!(daemon.handle(&sealed).unwrap().1, ping[..]);
    joined(
        ends(name, "IKpsk2", &clear, &hello),
        json!({
            "payload_1": hex(payload1), "message_1": hex(first),
            "payload_2": hex(payload2), "message_2": hex(second),
            "daemon_packets": [{ "plain": hex(ping), "packet": hex(&ahead), "means": "a probe right behind message 2" }],
            "client_packets": [{ "plain": hex(ping), "packet": hex(&sealed), "means": "a probe: it proves that message 1 is no recording" }],
        }),
    )
}

/// XXpsk3: a handshake with a daemon whose Noise key is not known.
fn handshake(name: &str, secret: Option<Secret>, resume: Option<(u32, [u64; 4])>) -> Value {
    let device = Credentials::generate(Role::Device, &DEVICE_ENTROPY);
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let claim = secret.clone().map(|secret| Claim { id: INVITATION, secret });
    let initiator = Initiator { claim: claim.clone(), ..initiator(&device, &host, resume) };
    let (client, first) = initiator.start(client_entropy());
    let Ok(Responder::Anonymous(responder)) = Responder::start(&VERSIONS, &host, &first, daemon_entropy()) else {
        panic!("not XX")
    };
    let known = secret.as_ref().map_or(InvitationKey::NotClaimed, |secret| InvitationKey::Known(secret.key()));
    let (daemon, second) = responder.reply(&host, known).unwrap();
    let Reply::Prove { message: third, next: client } = client.handle(&second).unwrap() else { panic!("not XX") };
    let mut authenticated = daemon.unwrap().handle(&third).unwrap();

    let key = secret.as_ref().map_or([0; 32], Secret::key);
    let clear = clear(1, claim.map(|claim| claim.id), key);
    let payload2 = [&[1, 0][..], &certificate("keepline daemon certificate v1", &DAEMON_ENTROPY).1].concat();
    let mut payload3 = postcard::to_stdvec(&authenticated.hello).unwrap();
    payload3.extend(postcard::to_stdvec(&authenticated.secret).unwrap());
    let mut hand = by_hand(&clear, &[&[], &payload2, &payload3]);
    assert_eq!((&hand.first, &hand.second, &hand.third), (&first, &second, &third));

    let accepted = Verdict {
        refusal: 0,
        retry: false,
        held: false,
        name: text("host"),
        features: 0,
        cursors: [4, 3, 2, 1],
        lease_seconds: 120,
    };
    let held = Verdict { held: true, ..Verdict::refused(Refusal::Pending, "host") };
    let body = verdict_bytes(0, false, false, [4, 3, 2, 1], &[120]);
    let held_body = verdict_bytes(17, true, true, [0; 4], &[0]);
    let plains = [verdict_packet(&held_body), verdict_packet(&body)];
    let packets = [authenticated.verdict(&held), authenticated.verdict(&accepted)];
    for (plain, packet) in plains.iter().zip(&packets) {
        assert_eq!(&seal(&mut hand.daemon, plain), packet);
    }
    let Outcome::Waiting { next, pending: true, .. } = client.handle(&packets[0]).unwrap() else { panic!("not held") };
    let Outcome::Accepted { mut cipher, .. } = next.handle(&packets[1]).unwrap() else { panic!("not accepted") };
    let ping = [1, 5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let pong = [1, 6, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let Authenticated { cipher: mut theirs, hello, .. } = authenticated;
    let sealed = [cipher.seal(&ping), theirs.seal(&pong)];
    assert_eq!(sealed, [seal(&mut hand.client, &ping), seal(&mut hand.daemon, &pong)]);

    joined(
        ends(name, "XXpsk3", &clear, &hello),
        json!({
        "invitation_secret": secret.as_ref().map(|secret| hex(secret.as_bytes())), "key": hex(key),
        "message_1": hex(first), "payload_2": hex(payload2), "message_2": hex(second),
        "payload_3": hex(payload3), "message_3": hex(third),
        "daemon_packets": [
            { "plain": hex(&plains[0]), "packet": hex(&packets[0]), "means": "a held verdict: pending" },
            { "plain": hex(&plains[1]), "packet": hex(&packets[1]), "means": "accepted" },
            { "plain": hex(pong), "packet": hex(&sealed[1]), "means": "the answer to the client's probe" },
        ],
        "client_packets": [{ "plain": hex(ping), "packet": hex(&sealed[0]), "means": "a probe" }],
        }),
    )
}

#[test]
fn handshakes_have_their_bytes() {
    let secret = || Secret::from_bytes(INVITATION_SECRET);
    let mut vectors = vec![
        handshake("a new link of an enrolled device", None, None),
        handshake("a resumed link", None, Some((300, [1, 200, 0, 70_000]))),
        handshake("a claimed invitation", Some(secret()), None),
        short_handshake("a new link with a known daemon", None),
        short_handshake("a resumed link with a known daemon", Some((300, [1, 200, 0, 70_000]))),
    ];
    for refusal in [Refusal::Version, Refusal::Busy, Refusal::StaleKey] {
        let rejected = Rejected { refusal: Some(refusal) };
        let reply = rejected.reply().unwrap();
        vectors.push(json!({ "name": "a refusal in clear", "refusal": refusal.name(), "reply": hex(reply) }));
    }
    let host = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY);
    let claimed = vectors[2]["message_1"].as_str().unwrap().as_bytes().to_vec();
    let first = HEXLOWER.decode(&claimed).unwrap();
    let Ok(Responder::Anonymous(responder)) = Responder::start(&VERSIONS, &host, &first, daemon_entropy()) else {
        panic!("not XX")
    };
    let (next, second) = responder.reply(&host, InvitationKey::Unknown).unwrap();
    assert!(next.is_none());
    let payload = [&[1, 22][..], &certificate("keepline daemon certificate v1", &DAEMON_ENTROPY).1].concat();
    let clear = clear(1, Some(INVITATION), [0; 32]);
    let hand = by_hand(&clear, &[&[], &payload, &[]]);
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
