//! Identities, certificates, ids and invitations.

use ed25519_dalek::{Signer, SigningKey};
use hkdf::Hkdf;
use keepline_protocol::identity::{Certificate, Credentials, Role};
use keepline_protocol::invitation::{Invitation, Secret};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{ATTACHMENT, DEVICE, GENERATION, INVITATION, LINK, MOMENT, TERMINAL, WORKSPACE, check, hex, text};

pub(super) const DEVICE_ENTROPY: [u8; 64] = halves(0xd1, 0xd2);
pub(super) const DAEMON_ENTROPY: [u8; 64] = halves(0xe1, 0xe2);

/// An identity's secret and a Noise secret.
const fn halves(identity: u8, noise: u8) -> [u8; 64] {
    let mut entropy = [identity; 64];
    let mut at = 32;
    while at < 64 {
        entropy[at] = noise;
        at += 1;
    }
    entropy
}

/// A certificate's bytes, made from the text of the specification.
pub(super) fn certificate(label: &str, entropy: &[u8; 64]) -> (Vec<u8>, Vec<u8>) {
    let fixed = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).unwrap();
    let identity = SigningKey::from_bytes(&fixed(&entropy[..32]));
    let secret = x25519_dalek::StaticSecret::from(fixed(&entropy[32..]));
    let noise = x25519_dalek::PublicKey::from(&secret).to_bytes();
    let signed = [label.as_bytes(), &noise, &1u64.to_be_bytes()].concat();
    let signature = identity.sign(&signed).to_bytes();
    let public = identity.verifying_key().to_bytes();
    let certificate = [&public, &noise, &[1, 64][..], &signature];
    (signed, certificate.concat())
}

#[test]
fn identities_have_their_bytes() {
    let ends = [
        (Role::Device, "keepline device certificate v1", DEVICE_ENTROPY),
        (Role::Daemon, "keepline daemon certificate v1", DAEMON_ENTROPY),
    ];
    let identities = ends.map(|(role, label, entropy)| {
        let credentials = Credentials::generate(role, &entropy);
        let (signed, bytes) = certificate(label, &entropy);
        let made = postcard::to_stdvec(credentials.certificate()).unwrap();
        assert_eq!(made, bytes, "a certificate is as the text says");
        let read: Certificate = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(&read, credentials.certificate());
        json!({
            "role": label,
            "identity_secret": hex(&entropy[..32]),
            "noise_secret": hex(&entropy[32..]),
            "serial": 1,
            "identity": credentials.identity().to_hex(),
            "fingerprint": credentials.identity().fingerprint(),
            "device_id": credentials.identity().device_id(),
            "signed": hex(signed),
            "certificate": hex(bytes),
            "key_file": credentials.to_file(),
        })
    });
    let ids = json!({
        "ids": [WORKSPACE.to_string(), TERMINAL.to_string(), DEVICE.to_string(), INVITATION.to_string(),
            LINK.to_string(), ATTACHMENT.to_string(), GENERATION.to_string()],
    });
    check(
        "identity.json",
        "Identities, certificates and key files; the text form of each kind of id.",
        identities.into_iter().chain([ids]).collect(),
    );
}

pub(super) fn hkdf(key: &[u8], info: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    Hkdf::<Sha256>::new(None, key).expand(info, &mut out).unwrap();
    out
}

pub(super) const INVITATION_SECRET: [u8; 32] = [0xa5; 32];
const KEY_INFO: &[u8] = b"keepline invitation key v1";

#[test]
fn an_invitation_has_its_bytes() {
    let secret = Secret::from_bytes(INVITATION_SECRET);
    assert_eq!(secret.key(), hkdf(&INVITATION_SECRET, KEY_INFO));
    let proof: [u8; 32] = Sha256::digest(INVITATION_SECRET).into();
    assert_eq!(secret.proof(), proof);
    let daemon = Credentials::generate(Role::Daemon, &DAEMON_ENTROPY).identity();
    let vectors =
        [vec![text("ws://127.0.0.1:7001/v1/link"), text("ws://[::1]:7001/v1/link")], Vec::new()].map(|routes| {
            let invitation = Invitation {
                id: INVITATION,
                daemon,
                secret: secret.clone(),
                expires_ms: MOMENT,
                routes: routes.clone(),
            };
            let file = invitation.to_file();
            assert_eq!(Invitation::from_file(&file).unwrap(), invitation);
            let mut checked = Sha256::new();
            for part in [INVITATION.to_string(), daemon.to_hex(), hex(INVITATION_SECRET), MOMENT.to_string()]
                .into_iter()
                .chain(routes.clone())
            {
                checked.update(part);
                checked.update([0]);
            }
            let check = hex(&checked.finalize()[..8]);
            assert!(file.contains(&check), "the check is as the text says");
            json!({
                "id": INVITATION, "daemon": daemon.to_hex(), "secret": hex(INVITATION_SECRET),
                "expires_ms": MOMENT, "routes": routes, "check": check, "file": file,
                "key": hex(secret.key()), "proof": hex(secret.proof()),
            })
        });
    check(
        "invitation.json",
        "Invitation files, and what the daemon keeps of the secret: key (K) and proof (H).",
        vectors.into(),
    );
}
