//! A consumer's plain request: one stream to the daemon, with a deadline.

use std::time::Duration;

use keepline_carrier::entropy;
use keepline_carrier::link::Link;
use keepline_protocol::api::{Cursor, Receipt};
use keepline_protocol::failure::{Code, Failure, FailureBody};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::lane::Lane;
use keepline_protocol::message::{Message, encode_raw};
use keepline_protocol::registry::{ANSWER, Effect, Entry, FAILURE};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use super::Edge;
use crate::bounds::{CARRIER_WAIT, RECEIPT_WAIT};
use crate::document::{Phase, Written};

impl Edge {
    /// Sends a request and gives its answer as JSON.
    ///
    /// Without a carrier it waits a little, and then nothing was sent. Once sent, it is repeated on later links, under
    /// its idempotency key, until its deadline.
    pub(super) async fn request(
        &self,
        entry: &Entry,
        mut params: Value,
        time: Duration,
    ) -> Result<Box<RawValue>, Failure> {
        let deadline = Instant::now() + time;
        name_the_request(entry, &mut params);
        self.fenced(&params)?;
        // Pages of history must not hold up what is live.
        let lane = match entry.effect {
            Effect::Input => Lane::Interactive,
            Effect::Read if params["lines"].is_object() => Lane::Bulk,
            _ => Lane::Control,
        };
        let asked = (entry.effect == Effect::Mutation).then(|| params.clone());
        let bytes = (entry.params_from_json)(params).map_err(|error| {
            Failure::new(Code::Invalid, format!("the parameters of {} do not fit: {error}", entry.name))
        })?;
        let uplink = &self.inner.uplink;
        let first = timeout(CARRIER_WAIT.min(time), uplink.link_after(None)).await;
        let mut link = first.map_err(|_| uplink.unreachable())?;
        let place = timeout_at(deadline, self.inner.streams.acquire()).await;
        let _place = place.map_err(|_| self.too_late(entry, time))?;
        let sent = asked.as_ref().map(|params| {
            let key = params["key"].as_str().unwrap_or_default();
            self.inner.follower.sent(entry.name, key.to_owned())
        });
        let repeatable = entry.effect != Effect::Once;
        let exchange = async {
            loop {
                match ask(&link, lane, entry, &bytes).await {
                    Some(message) => return Ok(message),
                    None if repeatable => link = uplink.link_after(Some(&link)).await,
                    None => return Err(outcome_unknown(entry)),
                }
            }
        };
        let message = timeout_at(deadline, exchange).await.map_err(|_| self.too_late(entry, time))??;
        let answer = read(entry, &message)?;
        if let (Some(sent), Some(params)) = (sent, asked)
            && let Ok(receipt) = serde_json::from_str::<Receipt<Value>>(answer.get())
            && !receipt.replayed
        {
            let cursor = Cursor { generation: receipt.generation, revision: receipt.revision };
            let written = Written::new(entry.name, &params, &receipt.value, cursor);
            sent.written(written, RECEIPT_WAIT).await;
        }
        Ok(answer)
    }

    /// Refuses a request that depends on a revision of a daemon that counts none.
    fn fenced(&self, params: &Value) -> Result<(), Failure> {
        let expects = !params["expect"].is_null();
        if expects && self.inner.follower.phase().0 == Phase::SnapshotOnly {
            let reason = self.inner.follower.read(|replica| {
                let reason = replica.reason().unwrap_or("the machine must be upgraded");
                Failure::new(Code::Refused, reason)
            });
            return Err(reason);
        }
        Ok(())
    }

    fn too_late(&self, entry: &Entry, time: Duration) -> Failure {
        let changes = !matches!(entry.effect, Effect::Read | Effect::Stream);
        if changes && !self.inner.uplink.is_up() {
            return outcome_unknown(entry);
        }
        Failure::new(Code::Timeout, format!("{} was not answered within {} s", entry.name, time.as_secs_f32()))
    }
}

fn outcome_unknown(entry: &Entry) -> Failure {
    let message = format!("the link failed during {}: whether it took effect is not known", entry.name);
    Failure::new(Code::OutcomeUnknown, message)
}

/// Gives a request that has none the name under which it can be repeated.
fn name_the_request(entry: &Entry, params: &mut Value) {
    let Value::Object(members) = params else {
        return;
    };
    let absent = |name: &str| members.get(name).is_none_or(Value::is_null);
    if entry.effect == Effect::Mutation && absent("key") {
        let key = data_encoding::HEXLOWER.encode(&entropy::<16>());
        members.insert("key".to_owned(), key.into());
    } else if entry.effect == Effect::Input && absent("attachment") {
        let attachment = AttachmentId::from_bytes(entropy());
        members.insert("attachment".to_owned(), attachment.to_string().into());
    }
}

/// Asks on one link; nothing when that link ended before the answer was there.
async fn ask(link: &Link, lane: Lane, entry: &Entry, params: &[u8]) -> Option<Message> {
    let (sender, mut receiver) = link.open(lane);
    sender.send(encode_raw(entry.number, params)).await.ok()?;
    sender.finish();
    receiver.message().await.ok().flatten()
}

fn read(entry: &Entry, message: &Message) -> Result<Box<RawValue>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::new(Code::Failed, error.to_string());
    if message.number == entry.number | ANSWER {
        (entry.answer_to_json)(&message.body).map_err(|error| unreadable(&error))
    } else if message.number == FAILURE {
        let body: FailureBody = message.parse().map_err(|error| unreadable(&error))?;
        Err(body.into())
    } else {
        Err(unreadable(&format!("the daemon answered {} with message {:#06x}", entry.name, message.number)))
    }
}
