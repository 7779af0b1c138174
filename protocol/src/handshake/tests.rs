use super::*;
use crate::cipher::Cipher;
use crate::id::InvitationId;
use crate::identity::{Credentials, IdentityKey, Role};
use crate::invitation::Secret;

struct Ends {
    device: Credentials,
    daemon: Credentials,
    pinned: Option<IdentityKey>,
    claim: Option<Claim>,
    known: InvitationKey,
}

impl Ends {
    fn new() -> Self {
        let daemon = Credentials::generate(Role::Daemon, &[1; 64]);
        let pinned = Some(daemon.identity());
        let device = Credentials::generate(Role::Device, &[2; 64]);
        Ends {
            device,
            daemon,
            pinned,
            claim: None,
            known: InvitationKey::NotClaimed,
        }
    }

    fn claiming(secret: u8, known: InvitationKey) -> Self {
        let claim = Claim {
            id: InvitationId::from_bytes([8; 16]),
            secret: Secret::from_bytes([secret; 32]),
        };
        Ends {
            claim: Some(claim),
            known,
            ..Ends::new()
        }
    }

    fn start(&self) -> (AwaitReply, Vec<u8>) {
        let link = LinkRequest {
            id: LinkId::from_bytes([5; 16]),
            epoch: 1,
            cursors: None,
        };
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: &self.device,
            pinned: self.pinned,
            serial: 0,
            claim: self.claim.clone(),
            name: "laptop".to_owned(),
            client: "client-1".to_owned(),
            features: 0,
            link,
        };
        initiator.start([3; 32])
    }

    /// Runs the three messages, letting `tamper` change each before it arrives.
    fn run(
        &self,
        tamper: impl Fn(usize, &mut Vec<u8>),
    ) -> Result<(AwaitVerdict, Authenticated), HandshakeError> {
        let (client, mut first) = self.start();
        tamper(1, &mut first);
        let responder = match Responder::start(&VERSIONS, &first) {
            Ok(responder) => responder,
            Err(Rejected { reply: None }) => return Err(HandshakeError::Malformed),
            Err(Rejected { reply: Some(reply) }) => return Err(client.handle(&reply).unwrap_err()),
        };
        let (server, mut second) = responder.reply(&self.daemon, self.known, [4; 32])?;
        tamper(2, &mut second);
        let (client, mut third) = client.handle(&second)?;
        tamper(3, &mut third);
        Ok((client, server.expect("the daemon goes on").handle(&third)?))
    }
}

fn accepted() -> Verdict {
    Verdict {
        refusal: 0,
        retry: false,
        name: "box".to_owned(),
        ..Verdict::refused(Refusal::Busy, "")
    }
}

#[test]
fn a_handshake_ends_in_a_verdict_and_ciphers_that_fit() {
    let ends = Ends::new();
    let (client, mut server) = ends.run(|_, _| {}).unwrap();
    assert_eq!(server.hello.certificate.identity(), ends.device.identity());
    let packet = server.verdict(&accepted());
    let Outcome::Accepted {
        mut cipher,
        verdict,
        daemon,
        ..
    } = client.handle(&packet).unwrap()
    else {
        panic!("not accepted")
    };
    assert_eq!(
        (verdict.name.as_str(), daemon.identity()),
        ("box", ends.daemon.identity())
    );
    let sealed = cipher.seal(b"to the daemon");
    assert_eq!(server.cipher.open(&sealed).unwrap(), b"to the daemon");
    assert!(
        server.cipher.open(&sealed).is_err(),
        "a packet is taken once"
    );
    let next = cipher.seal(b"again");
    assert_eq!(
        server.cipher.open(&next).unwrap(),
        b"again",
        "a forged packet moves no nonce"
    );
}

#[test]
fn a_held_verdict_keeps_the_carrier_and_answers_probes() {
    let (client, mut server) = Ends::new().run(|_, _| {}).unwrap();
    let held = Verdict {
        held: true,
        ..Verdict::refused(Refusal::Pending, "box")
    };
    let Outcome::Waiting {
        pending: true,
        reply: None,
        next,
    } = client.handle(&server.verdict(&held)).unwrap()
    else {
        panic!("not held")
    };
    let Outcome::Waiting {
        pending: false,
        reply: Some(pong),
        next,
    } = next.handle(&server.probe(7)).unwrap()
    else {
        panic!("not answered")
    };
    server.handle(&pong).unwrap();
    let refused = server.verdict(&Verdict::refused(Refusal::Denied, "box"));
    let Outcome::Refused {
        refusal: Refusal::Denied,
        ..
    } = next.handle(&refused).unwrap()
    else {
        panic!("not refused")
    };
}

#[test]
fn any_changed_byte_fails_the_handshake() {
    let ends = Ends::new();
    let lengths = std::cell::RefCell::new([0; 4]);
    ends.run(|message, bytes| lengths.borrow_mut()[message] = bytes.len())
        .unwrap();
    for message in 1..=3 {
        for at in 0..lengths.borrow()[message] {
            let changed = ends.run(|which, bytes| {
                if which == message {
                    bytes[at] ^= 1;
                }
            });
            // The certificate's signature and the device's fields lie inside the sealed payloads.
            assert!(
                changed.is_err(),
                "byte {at} of message {message} may be changed"
            );
        }
    }
}

#[test]
fn another_daemon_gets_nothing_of_the_device() {
    let mut ends = Ends::new();
    ends.pinned = Some(IdentityKey::from_bytes([9; 32]));
    assert!(matches!(
        ends.run(|_, _| {}),
        Err(HandshakeError::OtherDaemon { .. })
    ));
}

#[test]
fn an_invitation_is_proved_or_refused() {
    let secret = Secret::from_bytes([6; 32]);
    let (_, server) = Ends::claiming(6, InvitationKey::Known(secret.key()))
        .run(|_, _| {})
        .unwrap();
    assert_eq!(
        server
            .hello
            .secret
            .map(|shown| Secret::from_bytes(shown).proof()),
        Some(secret.proof())
    );
    let wrong = Ends::claiming(7, InvitationKey::Known(secret.key())).run(|_, _| {});
    assert_eq!(wrong.unwrap_err(), HandshakeError::Decrypt);

    let unknown = Ends::claiming(6, InvitationKey::Unknown);
    let (client, first) = unknown.start();
    let responder = Responder::start(&VERSIONS, &first).unwrap();
    assert_eq!(
        responder.invitation(),
        Some(InvitationId::from_bytes([8; 16]))
    );
    let (server, second) = responder
        .reply(&unknown.daemon, InvitationKey::Unknown, [4; 32])
        .unwrap();
    assert!(server.is_none());
    let refused = HandshakeError::Refused {
        refusal: Refusal::InvitationUnknown,
        authenticated: true,
    };
    assert_eq!(client.handle(&second).unwrap_err(), refused);
}

#[test]
fn versions_are_ranges_with_a_typed_refusal() {
    let ends = Ends::new();
    let (client, first) = ends.start();
    assert!(Responder::start(&(1..=2), &first).is_ok());
    let Rejected { reply: Some(reply) } = Responder::start(&(2..=3), &first).unwrap_err() else {
        panic!("not answered")
    };
    let refused = HandshakeError::Refused {
        refusal: Refusal::Version,
        authenticated: false,
    };
    assert_eq!(client.handle(&reply).unwrap_err(), refused);
    assert!(
        Responder::start(&VERSIONS, b"GET / HTTP/1.1\r\n\r\n")
            .unwrap_err()
            .reply
            .is_none()
    );
}

#[test]
fn clear_refusals_are_only_those_that_a_client_retries() {
    let (client, _) = Ends::new().start();
    let reply = Rejected::refused(Refusal::Revoked)
        .reply
        .expect("a refusal has bytes");
    assert_eq!(
        client.handle(&reply).unwrap_err(),
        HandshakeError::Malformed
    );
}

#[test]
fn the_null_cipher_is_its_own_inverse() {
    let mut cipher = Cipher::null();
    let sealed = cipher.seal(b"x");
    assert_eq!(cipher.open(&sealed).unwrap(), b"x");
}
