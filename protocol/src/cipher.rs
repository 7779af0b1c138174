//! What packets are sealed with after the handshake.

use std::fmt;

use snow::{HandshakeState, TransportState};

use crate::bounds::PACKET_MAX;

/// Bytes that sealing adds to a packet.
pub const TAG: usize = 16;
/// Longest plaintext of a packet.
pub const PLAIN_MAX: usize = PACKET_MAX - TAG;

/// The cipher of one carrier: Noise, or nothing inside one process.
///
/// Nonces count the packets of each direction, and the receiving one moves only when a packet is authentic. A change of
/// key (Noise specification, sections 4.2 and 11.3) leaves them as they are.
pub struct Cipher {
    kind: Kind,
    /// Packets sealed under the present key.
    sealed: u64,
}

enum Kind {
    Noise(Box<TransportState>),
    Null,
}

/// A packet that is not the peer's, or not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet cannot be decrypted")]
pub struct OpenError;

impl Cipher {
    pub(crate) fn noise(state: HandshakeState) -> Self {
        Cipher::new(Kind::Noise(Box::new(
            state.into_transport_mode().expect("the handshake has read or written its last message"),
        )))
    }

    fn new(kind: Kind) -> Self {
        Cipher { kind, sealed: 0 }
    }

    /// No encryption, for two ends in one process and for fuzzing the parser behind it.
    #[must_use]
    pub fn null() -> Self {
        Cipher::new(Kind::Null)
    }

    /// Packets sealed under the present key.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealed
    }

    /// Changes the key of what is sealed from now on.
    pub(crate) fn rekey_sending(&mut self) {
        self.sealed = 0;
        if let Kind::Noise(state) = &mut self.kind {
            state.rekey_outgoing();
        }
    }

    /// Changes the key of what is opened from now on.
    pub(crate) fn rekey_receiving(&mut self) {
        if let Kind::Noise(state) = &mut self.kind {
            state.rekey_incoming();
        }
    }

    /// Seals `plain`, at most [`PLAIN_MAX`] bytes, as the next packet.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        self.sealed += 1;
        match &mut self.kind {
            Kind::Null => plain.to_vec(),
            Kind::Noise(state) => {
                let mut packet = vec![0; plain.len() + TAG];
                let length = state
                    .write_message(plain, &mut packet)
                    .expect("the packet is within the limit and 2^64 packets are never sent");
                packet.truncate(length);
                packet
            }
        }
    }

    /// Opens the peer's next packet.
    ///
    /// # Errors
    /// When it is not authentic; the carrier cannot be used further.
    pub fn open(&mut self, packet: &[u8]) -> Result<Vec<u8>, OpenError> {
        match &mut self.kind {
            Kind::Null => Ok(packet.to_vec()),
            Kind::Noise(state) => {
                let mut plain = vec![0; packet.len()];
                let length = state.read_message(packet, &mut plain).map_err(|_| OpenError)?;
                plain.truncate(length);
                Ok(plain)
            }
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Noise(_) => "Cipher(Noise)",
            Kind::Null => "Cipher(null)",
        })
    }
}
