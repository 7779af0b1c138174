//! `relay.*`: what a relay answers about itself. A daemon's own socket has none of it.

use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::record::LinkState;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Edge;
use crate::uplink::now_ms;

impl Edge {
    pub(super) fn relay_status(&self) -> Value {
        let status = self.inner.uplink.status();
        let seen_ms = match status.state {
            LinkState::Up => Some(now_ms()),
            _ => status.lost_ms,
        };
        json!({
            "machine": self.inner.uplink.machine(),
            "state": status.state.name(),
            "reason": status.reason.as_ref().map(|reason| reason.word),
            "message": status.reason.as_ref().map(|reason| &reason.sentence),
            "retry_ms": status.retry_ms(),
            "link": status.link_id,
            "epoch": status.epoch,
            "rtt_us": status.rtt_us(),
            "since_ms": status.since_ms,
            "seen_ms": seen_ms,
            "route": status.route,
            "pid": std::process::id(),
        })
    }

    /// Probes a link that is up, tries one that is not, and says how it stands then. With `rotated`, because this device's
    /// key was, one that is up takes another carrier instead.
    pub(super) async fn reconnect(&self, rotated: bool, time: Duration) -> Result<Value, Failure> {
        let uplink = &self.inner.uplink;
        let mut changes = uplink.changes();
        let asked = uplink.status();
        let outcome = async {
            let link = asked.link.as_ref().filter(|_| asked.state == LinkState::Up);
            if let Some(link) = link
                && !rotated
                && link.probe().await.is_some()
            {
                return;
            }
            uplink.nudge();
            // What counts is an attempt that began after the question; one that was under way may succeed first.
            let decided = changes.wait_for(|status| {
                let anew = status.tries > asked.tries;
                match status.state {
                    LinkState::Up => anew || link.is_none(),
                    LinkState::Down => anew,
                    // A daemon whose owner has to decide holds the attempt.
                    LinkState::Connecting => anew && status.reason.is_some(),
                }
            });
            let _ = decided.await;
        };
        match timeout(time, outcome).await {
            Ok(()) => Ok(self.relay_status()),
            Err(_) => Err(Failure::new(
                Code::Timeout,
                format!(
                    "the attempt to reach '{}' has not ended within {} s",
                    uplink.machine().unwrap_or_default(),
                    time.as_secs_f32()
                ),
            )),
        }
    }
}
