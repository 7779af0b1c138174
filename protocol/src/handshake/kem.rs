//! ML-KEM-768 (FIPS 203), the half of the exchange that a quantum computer does not open.
//!
//! The client's key stands in the clear head and the daemon's ciphertext before Noise message 2. Their shared secret goes
//! into the psk, so that the session's keys fall only with both X25519 and ML-KEM. Randomness is an argument.

use libcrux_ml_kem::mlkem768;
use libcrux_ml_kem::mlkem768::{MlKem768Ciphertext, MlKem768PrivateKey, MlKem768PublicKey};
use zeroize::Zeroizing;

/// Bytes of an encapsulation key.
pub(super) const KEY: usize = 1184;
/// Bytes of a ciphertext.
pub(super) const CIPHERTEXT: usize = 1088;
/// Bytes of the randomness that a key is made from.
pub(super) const SEED: usize = 64;

/// What both sides come to share.
pub(super) type SharedSecret = Zeroizing<[u8; 32]>;

/// The client's decapsulation key of one attempt.
pub(super) struct DecapsulationKey(Box<Zeroizing<[u8; 2400]>>);

/// Makes a key pair. `seed` must be fresh.
pub(super) fn generate(seed: [u8; SEED]) -> (DecapsulationKey, [u8; KEY]) {
    let (secret, public) = mlkem768::generate_key_pair(seed).into_parts();
    let secret = Box::new(Zeroizing::new(*secret.as_slice()));
    (DecapsulationKey(secret), *public.as_slice())
}

/// Makes a shared secret for the holder of `key`; nothing when that is no ML-KEM-768 key. `entropy` must be fresh.
pub(super) fn encapsulate(key: &[u8; KEY], entropy: [u8; 32]) -> Option<([u8; CIPHERTEXT], SharedSecret)> {
    let key = MlKem768PublicKey::from(key);
    // FIPS 203, section 7.2: the modulus check.
    if !mlkem768::validate_public_key(&key) {
        return None;
    }
    let (ciphertext, secret) = mlkem768::encapsulate(&key, entropy);
    Some((*ciphertext.as_slice(), Zeroizing::new(secret)))
}

impl DecapsulationKey {
    /// The shared secret in `ciphertext`. One that was not made for this key gives a secret that nobody else has, so
    /// that the handshake fails with it.
    pub(super) fn decapsulate(&self, ciphertext: &[u8; CIPHERTEXT]) -> SharedSecret {
        let key = MlKem768PrivateKey::from(&**self.0);
        let ciphertext = MlKem768Ciphertext::from(ciphertext);
        Zeroizing::new(mlkem768::decapsulate(&key, &ciphertext))
    }
}

impl std::fmt::Debug for DecapsulationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecapsulationKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_come_to_the_same_secret() {
        let (secret, public) = generate([7; SEED]);
        let (ciphertext, theirs) = encapsulate(&public, [9; 32]).unwrap();
        assert_eq!(secret.decapsulate(&ciphertext), theirs);
        let mut changed = ciphertext;
        changed[500] ^= 1;
        assert_ne!(secret.decapsulate(&changed), theirs);
    }

    #[test]
    fn a_key_outside_the_modulus_is_no_key() {
        assert!(encapsulate(&[0xff; KEY], [9; 32]).is_none());
    }
}
