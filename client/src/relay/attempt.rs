//! One attempt to take a carrier: shake hands, hear the verdict.

use keepline_carrier::dial::DialError;
use keepline_carrier::entropy;
use keepline_carrier::packet::Carrier;
use keepline_protocol::bounds::HANDSHAKE_TIME;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::handshake::{Claim, HandshakeError, Initiator, LinkRequest, Outcome, Reply, VERSIONS, Verdict};
use keepline_protocol::identity::{Certificate, Credentials, IdentityKey};
use keepline_protocol::refusal::Refusal;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bounds::PENDING_SILENCE;

/// What an attempt needs.
pub(super) struct Attempt<'a> {
    pub(super) carrier: Carrier,
    pub(super) credentials: &'a Credentials,
    pub(super) client: &'a str,
    pub(super) name: &'a str,
    pub(super) pinned: Option<IdentityKey>,
    pub(super) serial: u64,
    pub(super) noise_key: Option<[u8; 32]>,
    pub(super) claim: Option<Claim>,
    pub(super) link: LinkRequest,
}

/// A carrier that the daemon accepted.
pub(super) struct Accepted {
    pub(super) carrier: Carrier,
    pub(super) cipher: Cipher,
    pub(super) version: u8,
    pub(super) verdict: Verdict,
    pub(super) daemon: Certificate,
}

/// Why an attempt gave no carrier.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("{0}")]
    Dial(#[from] DialError),
    /// The carrier ended or failed in the handshake.
    #[error("the connection was lost in the handshake")]
    Lost {
        /// The client had shown who it is.
        after_proof: bool,
    },
    #[error("the daemon did not answer the handshake in time")]
    Slow,
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The daemon's word.
    #[error("{0}")]
    Refused(Refusal),
}

impl Attempt<'_> {
    /// Runs the attempt. `on_pending` is called when the daemon's owner has to decide first.
    pub(super) async fn run(self, on_pending: impl FnOnce()) -> Result<Accepted, Failed> {
        let mut carrier = self.carrier;
        let initiator = Initiator {
            versions: VERSIONS,
            credentials: self.credentials,
            pinned: self.pinned,
            serial: self.serial,
            noise_key: self.noise_key,
            claim: self.claim,
            name: self.name.to_owned(),
            client: self.client.to_owned(),
            features: 0,
            link: self.link,
        };
        let shake = async {
            let lost = |after_proof| Failed::Lost { after_proof };
            let (client, first) = initiator.start(entropy());
            carrier.writer.write(first).await.map_err(|_| lost(false))?;
            let reply = carrier.reader.read().await.ok().flatten().ok_or(lost(false))?;
            let reply = client.handle(&reply)?;
            if let Reply::Prove { message, .. } = &reply {
                let written = carrier.writer.write(message.clone()).await;
                written.map_err(|_| lost(true))?;
            }
            Ok::<_, Failed>(reply)
        };
        let reply = timeout(HANDSHAKE_TIME, shake).await.map_err(|_| Failed::Slow)??;
        let mut client = match reply {
            Reply::Prove { next, .. } => next,
            Reply::Decided(outcome) => return decided(outcome, carrier),
        };
        let mut on_pending = Some(on_pending);
        let mut patience = HANDSHAKE_TIME;
        loop {
            let packet = timeout_at(Instant::now() + patience, carrier.reader.read()).await;
            let packet = packet.map_err(|_| Failed::Slow)?;
            let packet = packet.ok().flatten().ok_or(Failed::Lost { after_proof: true })?;
            match client.handle(&packet)? {
                Outcome::Waiting { reply, next, pending } => {
                    client = next;
                    if pending {
                        // From here on the daemon probes, and only its silence ends the wait.
                        patience = PENDING_SILENCE;
                        if let Some(on_pending) = on_pending.take() {
                            on_pending();
                        }
                    }
                    if let Some(reply) = reply
                        && carrier.writer.write(reply).await.is_err()
                    {
                        return Err(Failed::Lost { after_proof: true });
                    }
                }
                outcome => return decided(outcome, carrier),
            }
        }
    }
}

fn decided(outcome: Outcome, carrier: Carrier) -> Result<Accepted, Failed> {
    match outcome {
        Outcome::Accepted { cipher, verdict, daemon, version } => {
            Ok(Accepted { carrier, cipher, version, verdict, daemon })
        }
        Outcome::Refused { refusal, .. } => Err(Failed::Refused(refusal)),
        // IK decides at once, and XX says so by another way.
        Outcome::Waiting { .. } => Err(Failed::Handshake(HandshakeError::Malformed)),
    }
}
