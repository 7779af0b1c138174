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
/// Nonces count the packets of each direction, and the receiving one moves only when a packet is authentic.
pub struct Cipher(Kind);

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
        Cipher(Kind::Noise(Box::new(
            state
                .into_transport_mode()
                .expect("the handshake has read or written its last message"),
        )))
    }

    /// No encryption, for two ends in one process and for fuzzing the parser behind it.
    #[must_use]
    pub fn null() -> Self {
        Cipher(Kind::Null)
    }

    /// Seals `plain`, at most [`PLAIN_MAX`] bytes, as the next packet.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        match &mut self.0 {
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
        match &mut self.0 {
            Kind::Null => Ok(packet.to_vec()),
            Kind::Noise(state) => {
                let mut plain = vec![0; packet.len()];
                let length = state
                    .read_message(packet, &mut plain)
                    .map_err(|_| OpenError)?;
                plain.truncate(length);
                Ok(plain)
            }
        }
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Noise(_) => "Cipher(Noise)",
            Kind::Null => "Cipher(null)",
        })
    }
}
