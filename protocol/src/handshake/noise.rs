//! Our use of snow: the suite, the psk, and entropy as an argument.

use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{BoxedCryptoResolver, CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::kem::SharedSecret;
use super::{HandshakeError, Pattern};
use crate::bounds::HANDSHAKE_PAYLOAD_MAX;

const PSK_LABEL: &[u8] = b"keepline psk v1";

/// The psk: HKDF-SHA256 over `key ‖ shared secret`, bound to everything that stood in clear. `key` is the invitation's, or
/// zeros.
pub(super) fn psk(key: &[u8; 32], shared: &SharedSecret, head: &[u8], ciphertext: &[u8]) -> [u8; 32] {
    let transcript = Sha256::new().chain_update(head).chain_update(ciphertext).finalize();
    let mut psk = [0; 32];
    let material = Zeroizing::new([&key[..], &shared[..]].concat());
    Hkdf::<Sha256>::new(None, &material)
        .expand(&[PSK_LABEL, &transcript[..]].concat(), &mut psk)
        .expect("32 bytes are within HKDF-SHA256's output limit");
    psk
}

/// Which side of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Initiator,
    Responder,
}

/// Starts a handshake. `peer` is the daemon's static key, for a client with [`Pattern::Ik`]; `entropy` becomes the ephemeral
/// key and must never be used twice.
pub(super) fn start(
    side: Side,
    pattern: Pattern,
    head: &[u8],
    secret: &[u8; 32],
    peer: Option<&[u8; 32]>,
    entropy: [u8; 32],
) -> HandshakeState {
    let params = pattern.noise_name().parse().expect("the names of our patterns are Noise names");
    let mut builder = Builder::with_resolver(params, resolver(entropy))
        .prologue(head)
        .and_then(|builder| builder.local_private_key(secret))
        .expect("a fresh builder takes a prologue and a key");
    if let Some(peer) = peer {
        builder = builder.remote_public_key(peer).expect("a fresh builder takes the peer's key");
    }
    match side {
        Side::Initiator => builder.build_initiator(),
        Side::Responder => builder.build_responder(),
    }
    .expect("the builder has all that our patterns need")
}

/// Puts the psk in, when it is known and before the message that uses it.
pub(super) fn set_psk(state: &mut HandshakeState, pattern: Pattern, psk: &[u8; 32]) {
    state.set_psk(pattern.psk_place().into(), psk).expect("our patterns have a psk at this place");
}

/// Writes the next handshake message behind what is in `out`.
pub(super) fn write(state: &mut HandshakeState, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + payload.len() + 512, 0);
    let length = state
        .write_message(payload, &mut out[start..])
        .expect("it is our turn, and the buffer has room for every token");
    out.truncate(start + length);
}

/// Reads the peer's next handshake message and gives its payload.
pub(super) fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    if message.len() > HANDSHAKE_PAYLOAD_MAX + 512 {
        return Err(HandshakeError::Malformed);
    }
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).map_err(|_| HandshakeError::Decrypt)?;
    payload.truncate(length);
    Ok(payload)
}

/// The peer's static key, which our patterns have transmitted by the time this is asked.
pub(super) fn peer_key(state: &HandshakeState) -> [u8; 32] {
    state.get_remote_static().and_then(|key| key.try_into().ok()).expect("the pattern has transmitted the peer's key")
}

/// ring where it has the primitive (AES-GCM, SHA-256), snow's defaults for X25519, and the caller's entropy.
fn resolver(entropy: [u8; 32]) -> BoxedCryptoResolver {
    Box::new(Resolver { primitives: FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver)), entropy })
}

struct Resolver {
    primitives: FallbackResolver,
    entropy: [u8; 32],
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Entropy(Some(self.entropy))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        self.primitives.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.primitives.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        self.primitives.resolve_cipher(choice)
    }
}

/// Gives the caller's 32 bytes once, for the one ephemeral key of a side, and nothing after.
struct Entropy(Option<[u8; 32]>);

impl Random for Entropy {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        match self.0.take() {
            Some(bytes) if dest.len() == bytes.len() => {
                dest.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err(snow::Error::Rng),
        }
    }
}
