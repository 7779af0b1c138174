//! Who is who: Ed25519 identities and the certificates they sign for Noise keys.
//!
//! What is pinned and enrolled is the long-lived Ed25519 identity key. It signs the X25519 key that the Noise handshake
//! uses, so that the X25519 key can be rotated without a new enrolment: a peer remembers the highest serial it has seen
//! and refuses lower ones.

use std::fmt;

use data_encoding::{BASE64_NOPAD, HEXLOWER};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::id::DeviceId;

/// What a certificate is good for. The two constants are signed, so that one role's certificate never serves the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A daemon.
    Daemon,
    /// A client's device.
    Device,
}

impl Role {
    const fn label(self) -> &'static [u8] {
        match self {
            Role::Daemon => b"keepline daemon certificate v1",
            Role::Device => b"keepline device certificate v1",
        }
    }
}

/// A public identity key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdentityKey([u8; 32]);

impl IdentityKey {
    /// The key with these bytes. Whether they are a point of the curve shows when a signature is verified.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        IdentityKey(bytes)
    }

    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key that `text`, 64 hex digits, stands for.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(IdentityKey)
    }

    /// The key as 64 hex digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// `SHA256:` and the base64 of the key's SHA-256, as ssh shows keys.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", BASE64_NOPAD.encode(&Sha256::digest(self.0)))
    }

    /// The id of the device with this key: the first 128 bits of its SHA-256.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        let digest: [u8; 32] = Sha256::digest(self.0).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        DeviceId::from_bytes(id)
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

/// What one side authenticates itself with: its identity, its Noise key, and the certificate that joins them.
#[derive(Clone)]
pub struct Credentials {
    identity: SigningKey,
    noise: NoiseSecret,
    certificate: Certificate,
    role: Role,
}

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct NoiseSecret([u8; 32]);

/// Text that is not a credentials file of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a keepline key file, or it is damaged")]
pub struct InvalidCredentials;

#[derive(Serialize, Deserialize)]
struct CredentialsFile {
    version: u32,
    identity: String,
    noise: String,
    serial: u64,
}

impl Credentials {
    /// Credentials from 64 bytes of fresh entropy, with serial 1.
    #[must_use]
    pub fn generate(role: Role, entropy: &[u8; 64]) -> Self {
        let (identity, noise) = entropy.split_at(32);
        let fixed = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).expect("half of 64 bytes is 32");
        Self::assemble(role, fixed(identity), fixed(noise), 1)
    }

    fn assemble(role: Role, identity: [u8; 32], noise: [u8; 32], serial: u64) -> Self {
        let identity = SigningKey::from_bytes(&identity);
        let public = x25519_dalek::PublicKey::from(&x25519_dalek::StaticSecret::from(noise)).to_bytes();
        let certificate = Certificate {
            identity: IdentityKey(identity.verifying_key().to_bytes()),
            noise: public,
            serial,
            signature: identity.sign(&signed(role, &public, serial)).to_bytes().to_vec(),
        };
        Credentials { identity, noise: NoiseSecret(noise), certificate, role }
    }

    /// The same identity with another Noise key, from 32 bytes of fresh entropy, and the next serial.
    #[must_use]
    pub fn rotated(&self, entropy: &[u8; 32]) -> Self {
        let serial = self.certificate.serial.saturating_add(1);
        Self::assemble(self.role, self.identity.to_bytes(), *entropy, serial)
    }

    /// The text of the key file. It holds both secrets; the file must be its owner's alone.
    #[must_use]
    pub fn to_file(&self) -> String {
        let file = CredentialsFile {
            version: 1,
            identity: HEXLOWER.encode(self.identity.as_bytes()),
            noise: HEXLOWER.encode(&self.noise.0),
            serial: self.certificate.serial,
        };
        serde_json::to_string_pretty(&file).expect("a struct of strings has a JSON form") + "\n"
    }

    /// The credentials in the text of a key file.
    ///
    /// # Errors
    /// When the text is no key file of this version.
    pub fn from_file(role: Role, text: &str) -> Result<Self, InvalidCredentials> {
        let file: CredentialsFile = serde_json::from_str(text).map_err(|_| InvalidCredentials)?;
        let secret = |text: &str| {
            HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(InvalidCredentials)
        };
        if file.version != 1 {
            return Err(InvalidCredentials);
        }
        Ok(Self::assemble(role, secret(&file.identity)?, secret(&file.noise)?, file.serial))
    }

    /// The public identity key.
    #[must_use]
    pub fn identity(&self) -> IdentityKey {
        self.certificate.identity
    }

    /// The certificate that a handshake sends.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The role that the certificate is signed for.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn noise_secret(&self) -> &[u8; 32] {
        &self.noise.0
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("identity", &self.certificate.identity).finish_non_exhaustive()
    }
}

fn signed(role: Role, noise: &[u8; 32], serial: u64) -> Vec<u8> {
    [role.label(), noise, &serial.to_be_bytes()].concat()
}

/// An identity's signature over (a constant for the role, its X25519 Noise key, a serial).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    identity: IdentityKey,
    noise: [u8; 32],
    serial: u64,
    #[serde(with = "serde_bytes")]
    signature: Vec<u8>,
}

/// A certificate that does not prove what it should: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The signature is not the identity's.
    #[error("the signature of the peer's certificate is wrong")]
    Signature,
    /// The certificate is for another Noise key than the one the peer used in this handshake.
    #[error("the peer's certificate is for another key than the one it used")]
    OtherKey,
}

impl Certificate {
    /// Checks that the identity signed, for `role`, the key `used` that the peer proved in this very handshake.
    ///
    /// # Errors
    /// When it did not.
    pub fn verify(&self, role: Role, used: &[u8; 32]) -> Result<(), CertificateError> {
        if self.noise != *used {
            return Err(CertificateError::OtherKey);
        }
        let key = VerifyingKey::from_bytes(&self.identity.0).map_err(|_| CertificateError::Signature)?;
        let signature = Signature::from_slice(&self.signature).map_err(|_| CertificateError::Signature)?;
        key.verify_strict(&signed(role, &self.noise, self.serial), &signature).map_err(|_| CertificateError::Signature)
    }

    /// Whose certificate it is.
    #[must_use]
    pub fn identity(&self) -> IdentityKey {
        self.identity
    }

    /// The X25519 Noise key that it is for.
    #[must_use]
    pub fn noise_key(&self) -> [u8; 32] {
        self.noise
    }

    /// Grows with each rotation of the Noise key.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_holds_for_its_role_and_key_only() {
        let daemon = Credentials::generate(Role::Daemon, &[3; 64]);
        let certificate = daemon.certificate();
        let used = certificate.noise;
        assert_eq!(certificate.verify(Role::Daemon, &used), Ok(()));
        assert_eq!(certificate.verify(Role::Device, &used), Err(CertificateError::Signature));
        assert_eq!(certificate.verify(Role::Daemon, &[0; 32]), Err(CertificateError::OtherKey));
        let mut raised = certificate.clone();
        raised.serial += 1;
        assert_eq!(raised.verify(Role::Daemon, &used), Err(CertificateError::Signature));
    }

    #[test]
    fn a_key_file_gives_back_the_same_credentials() {
        let device = Credentials::generate(Role::Device, &[9; 64]);
        let again = Credentials::from_file(Role::Device, &device.to_file()).unwrap();
        assert_eq!(again.certificate(), device.certificate());
        assert_eq!(again.noise_secret(), device.noise_secret());
        assert!(Credentials::from_file(Role::Device, "{}").is_err());
    }

    #[test]
    fn a_rotated_key_is_the_same_identitys_with_a_higher_serial() {
        let first = Credentials::generate(Role::Device, &[9; 64]);
        let second = first.rotated(&[7; 32]);
        let (old, new) = (first.certificate(), second.certificate());
        assert_eq!(new.identity(), old.identity());
        assert_eq!((old.serial(), new.serial()), (1, 2));
        assert_ne!(new.noise_key(), old.noise_key());
        assert_eq!(new.verify(Role::Device, &new.noise_key()), Ok(()));
        let again = Credentials::from_file(Role::Device, &second.to_file()).unwrap();
        assert_eq!(again.certificate(), new);
    }
}
