use super::*;
use crate::cipher::Cipher;
use crate::frame::Frame;
use crate::id::InvitationId;
use crate::identity::{Credentials, IdentityKey, Role};
use crate::invitation::Secret;

struct Ends {
    device: Credentials,
    daemon: Credentials,
    pinned: Option<IdentityKey>,
    claim: Option<Claim>,
    known: InvitationKey,
    /// The daemon's Noise key, when the client knows it.
    noise_key: Option<[u8; 32]>,
}

impl Ends {
    fn new() -> Self {
        let daemon = Credentials::generate(Role::Daemon, &[1; 64]);
        let pinned = Some(daemon.identity());
        let device = Credentials::generate(Role::Device, &[2; 64]);
        Ends { device, daemon, pinned, claim: None, known: InvitationKey::NotClaimed, noise_key: None }
    }

    fn known() -> Self {
        let ends = Ends::new();
        Ends { noise_key: Some(ends.daemon.certificate().noise_key()), ..ends }
    }

    fn claiming(secret: u8, known: InvitationKey) -> Self {
        let claim = Claim { id: InvitationId::from_bytes([8; 16]), secret: Secret::from_bytes([secret; 32]) };
        Ends { claim: Some(claim), known, ..Ends::new() }
    }

    fn start(&self) -> (AwaitReply, Vec<u8>) {
        let link = LinkRequest { id: LinkId::from_bytes([5; 16]), epoch: 1, cursors: None };
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: &self.device,
            pinned: self.pinned,
            serial: 0,
            noise_key: self.noise_key,
            claim: self.claim.clone(),
            name: "laptop".to_owned(),
            client: "client-1".to_owned(),
            features: 0,
            link,
        };
        initiator.start([3; 96])
    }

    /// Runs the three messages, letting `tamper` change each before it arrives.
    fn run(&self, tamper: impl Fn(usize, &mut Vec<u8>)) -> Result<(AwaitVerdict, Authenticated), HandshakeError> {
        let (client, mut first) = self.start();
        tamper(1, &mut first);
        let responder = match Responder::start(&VERSIONS, &self.daemon, &first, [4; 64]) {
            Ok(Responder::Anonymous(responder)) => responder,
            Ok(Responder::Named(_)) => panic!("the head says IK"),
            Err(rejected) => return Err(answered(client, rejected)),
        };
        let (server, mut second) = responder.reply(&self.daemon, self.known)?;
        tamper(2, &mut second);
        let Reply::Prove { mut message, next: client } = client.handle(&second)? else { panic!("an answer to IK") };
        tamper(3, &mut message);
        let server = server.expect("the daemon goes on").handle(&message)?;
        Ok((client, server))
    }

    /// Runs the two messages of IK, likewise.
    fn run_known(
        &self,
        verdict: &Verdict,
        tamper: impl Fn(usize, &mut Vec<u8>),
    ) -> Result<(Outcome, Option<AwaitFirst>), HandshakeError> {
        let (client, mut first) = self.start();
        tamper(1, &mut first);
        let responder = match Responder::start(&VERSIONS, &self.daemon, &first, [4; 64]) {
            Ok(Responder::Named(responder)) => responder,
            Ok(Responder::Anonymous(_)) => panic!("the head says XX"),
            Err(rejected) => return Err(answered(client, rejected)),
        };
        assert_eq!(responder.hello.certificate.identity(), self.device.identity());
        let (server, mut second) = responder.reply(&self.daemon, verdict)?;
        tamper(2, &mut second);
        match client.handle(&second)? {
            Reply::Decided(outcome) => Ok((outcome, server)),
            Reply::Prove { .. } => panic!("an answer to XX"),
        }
    }
}

/// What the client makes of a first message that the daemon did not take.
fn answered(client: AwaitReply, rejected: Rejected) -> HandshakeError {
    match rejected.reply() {
        None => HandshakeError::Malformed,
        Some(reply) => client.handle(&reply).unwrap_err(),
    }
}

fn accepted() -> Verdict {
    Verdict { refusal: 0, retry: false, name: "box".to_owned(), ..Verdict::refused(Refusal::Busy, "") }
}

#[test]
fn a_handshake_ends_in_a_verdict_and_ciphers_that_fit() {
    let ends = Ends::new();
    let (client, mut server) = ends.run(|_, _| {}).unwrap();
    assert_eq!(server.hello.certificate.identity(), ends.device.identity());
    let packet = server.verdict(&accepted());
    let Outcome::Accepted { mut cipher, verdict, daemon, .. } = client.handle(&packet).unwrap() else {
        panic!("not accepted")
    };
    assert_eq!((verdict.name.as_str(), daemon.identity()), ("box", ends.daemon.identity()));
    let sealed = cipher.seal(b"to the daemon");
    assert_eq!(server.cipher.open(&sealed).unwrap(), b"to the daemon");
    assert!(server.cipher.open(&sealed).is_err(), "a packet is taken once");
    let next = cipher.seal(b"again");
    assert_eq!(server.cipher.open(&next).unwrap(), b"again", "a forged packet moves no nonce");
}

#[test]
fn a_held_verdict_keeps_the_carrier_and_answers_probes() {
    let (client, mut server) = Ends::new().run(|_, _| {}).unwrap();
    let held = Verdict { held: true, ..Verdict::refused(Refusal::Pending, "box") };
    let Outcome::Waiting { pending: true, reply: None, next } = client.handle(&server.verdict(&held)).unwrap() else {
        panic!("not held")
    };
    let Outcome::Waiting { pending: false, reply: Some(pong), next } = next.handle(&server.probe(7)).unwrap() else {
        panic!("not answered")
    };
    server.handle(&pong).unwrap();
    let refused = server.verdict(&Verdict::refused(Refusal::Denied, "box"));
    let Outcome::Refused { refusal: Refusal::Denied, .. } = next.handle(&refused).unwrap() else {
        panic!("not refused")
    };
}

#[test]
fn any_changed_byte_fails_the_handshake() {
    let ends = Ends::new();
    let lengths = std::cell::RefCell::new([0; 4]);
    ends.run(|message, bytes| lengths.borrow_mut()[message] = bytes.len()).unwrap();
    for message in 1..=3 {
        for at in 0..lengths.borrow()[message] {
            let changed = ends.run(|which, bytes| {
                if which == message {
                    bytes[at] ^= 1;
                }
            });
            // The certificate's signature and the device's fields lie inside the sealed payloads.
            assert!(changed.is_err(), "byte {at} of message {message} may be changed");
        }
    }
}

#[test]
fn another_daemon_gets_nothing_of_the_device() {
    let mut ends = Ends::new();
    ends.pinned = Some(IdentityKey::from_bytes([9; 32]));
    assert!(matches!(ends.run(|_, _| {}), Err(HandshakeError::OtherDaemon { .. })));
}

#[test]
fn an_invitation_is_proved_or_refused() {
    let secret = Secret::from_bytes([6; 32]);
    let (_, server) = Ends::claiming(6, InvitationKey::Known(secret.key())).run(|_, _| {}).unwrap();
    assert_eq!(server.secret.map(|shown| Secret::from_bytes(shown).proof()), Some(secret.proof()));
    let wrong = Ends::claiming(7, InvitationKey::Known(secret.key())).run(|_, _| {});
    assert_eq!(wrong.unwrap_err(), HandshakeError::Decrypt);

    let unknown = Ends::claiming(6, InvitationKey::Unknown);
    let (client, first) = unknown.start();
    let Ok(Responder::Anonymous(responder)) = Responder::start(&VERSIONS, &unknown.daemon, &first, [4; 64]) else {
        panic!("the daemon does not answer")
    };
    assert_eq!(responder.invitation(), Some(InvitationId::from_bytes([8; 16])));
    let (server, second) = responder.reply(&unknown.daemon, InvitationKey::Unknown).unwrap();
    assert!(server.is_none());
    let refused = HandshakeError::Refused { refusal: Refusal::InvitationUnknown, authenticated: true };
    assert_eq!(client.handle(&second).unwrap_err(), refused);
}

#[test]
fn a_known_daemon_decides_in_its_first_message() {
    let ends = Ends::known();
    let verdict = Verdict { cursors: [1, 2, 3, 4], ..accepted() };
    let (outcome, server) = ends.run_known(&verdict, |_, _| {}).unwrap();
    let Outcome::Accepted { mut cipher, verdict: told, daemon, version: 1 } = outcome else { panic!("not accepted") };
    assert_eq!((told, daemon.identity()), (verdict, ends.daemon.identity()));
    let mut server = server.expect("the daemon goes on");
    let [ahead] = &server.ahead(&[Frame::Ping { nonce: 5 }])[..] else { panic!("one frame, one packet") };
    assert_eq!(cipher.open(ahead).unwrap()[1], crate::frame::kind::PING);
    let (authenticated, plain) = server.handle(&cipher.seal(b"first")).unwrap();
    assert_eq!(&plain[..], b"first");
    assert_eq!(authenticated.hello.link.epoch, 1);
    assert!(authenticated.secret.is_none());
}

#[test]
fn any_changed_byte_fails_the_short_handshake_too() {
    let ends = Ends::known();
    let lengths = std::cell::RefCell::new([0; 3]);
    ends.run_known(&accepted(), |message, bytes| {
        lengths.borrow_mut()[message] = bytes.len();
    })
    .unwrap();
    for message in 1..=2 {
        for at in 0..lengths.borrow()[message] {
            let changed = ends.run_known(&accepted(), |which, bytes| {
                // The pattern's number changed means the other pattern.
                bytes[at] ^= if which == message { 4 } else { 0 };
            });
            assert!(changed.is_err(), "byte {at} of message {message} may be changed");
        }
    }
}

#[test]
fn a_first_message_that_is_sent_again_gets_nothing() {
    let ends = Ends::known();
    let (_, recorded) = ends.start();
    let Ok(Responder::Named(again)) = Responder::start(&VERSIONS, &ends.daemon, &recorded, [5; 64]) else {
        panic!("a recording is answered")
    };
    let (server, _) = again.reply(&ends.daemon, &accepted()).unwrap();
    // Who only has the recording makes no packet under the new keys.
    assert_eq!(server.unwrap().handle(&[0; 64]).unwrap_err(), HandshakeError::Decrypt);
}

#[test]
fn a_rotated_key_is_said_in_clear_and_a_refusal_is_sealed() {
    let mut ends = Ends::known();
    ends.noise_key = Some([9; 32]);
    let stale = HandshakeError::Refused { refusal: Refusal::StaleKey, authenticated: false };
    assert_eq!(ends.run_known(&accepted(), |_, _| {}).unwrap_err(), stale);
    let refused = Verdict::refused(Refusal::Revoked, "box");
    let (outcome, server) = Ends::known().run_known(&refused, |_, _| {}).unwrap();
    assert!(server.is_none());
    assert!(matches!(outcome, Outcome::Refused { refusal: Refusal::Revoked, .. }));
}

#[test]
fn a_claim_goes_the_long_way() {
    // What is sealed to the daemon's key in message 1 is not forward secret, and a secret may not stand there.
    let secret = Secret::from_bytes([6; 32]);
    let ends = Ends { noise_key: Ends::known().noise_key, ..Ends::claiming(6, InvitationKey::Known(secret.key())) };
    let (_, server) = ends.run(|_, _| {}).unwrap();
    assert_eq!(server.secret, Some([6; 32]));
}

#[test]
fn versions_are_ranges_with_a_typed_refusal() {
    let ends = Ends::new();
    let (client, first) = ends.start();
    let start = |versions| Responder::start(&versions, &ends.daemon, &first, [4; 64]);
    assert!(start(1..=2).is_ok());
    let rejected = start(2..=3).unwrap_err();
    let refused = HandshakeError::Refused { refusal: Refusal::Version, authenticated: false };
    assert_eq!(answered(client, rejected), refused);
    let foreign = b"GET / HTTP/1.1\r\n\r\n";
    let rejected = Responder::start(&VERSIONS, &ends.daemon, foreign, [4; 64]).unwrap_err();
    assert!(rejected.reply().is_none());
}

#[test]
fn only_one_length_of_ml_kem_key_is_spoken() {
    let ends = Ends::new();
    let (_, mut first) = ends.start();
    first[24] ^= 1;
    let rejected = Responder::start(&VERSIONS, &ends.daemon, &first, [4; 64]).unwrap_err();
    assert_eq!(rejected.refusal, Some(Refusal::Version));
    let rejected = Responder::start(&VERSIONS, &ends.daemon, &first[..100], [4; 64]).unwrap_err();
    assert_eq!(rejected.refusal, Some(Refusal::Version));
}

#[test]
fn clear_refusals_are_only_those_that_a_client_retries() {
    let (client, _) = Ends::new().start();
    let rejected = Rejected { refusal: Some(Refusal::Revoked) };
    assert_eq!(answered(client, rejected), HandshakeError::Malformed);
}

#[test]
fn the_null_cipher_is_its_own_inverse() {
    let mut cipher = Cipher::null();
    let sealed = cipher.seal(b"x");
    assert_eq!(cipher.open(&sealed).unwrap(), b"x");
}
