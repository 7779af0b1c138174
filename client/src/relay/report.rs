//! What a relay says of its link, to who started it and to those who use its socket.

use std::borrow::Cow;

use keepline_carrier::route::Route;
use keepline_protocol::id::LinkId;
use keepline_protocol::record::LinkState;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Relay;
use crate::paths::MachineName;
use crate::uplink::{Reason, Status, now_ms};

/// One line of `remote connect --json`: a change of state, or the first round trip of a carrier that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `connecting`, `up` or `down`.
    pub state: Cow<'static, str>,
    /// The machine's name, once it is known.
    pub machine: Option<String>,
    /// The route, without its query.
    pub route: String,
    /// Why the link is not up, in one word.
    pub reason: Option<Cow<'static, str>>,
    /// The same, in one sentence.
    pub message: Option<String>,
    /// Milliseconds until the next try.
    pub retry_ms: Option<u32>,
    /// The link.
    pub link: Option<LinkId>,
    /// Attempts to take a carrier, of this link.
    pub epoch: u32,
    /// Smoothed round trip in microseconds, once measured on this link.
    pub rtt_us: Option<u64>,
}

impl Report {
    pub(super) fn new(status: &Status, machine: Option<&MachineName>, route: &Route) -> Self {
        Report {
            state: status.state.name().into(),
            machine: machine.map(ToString::to_string),
            route: route.to_string(),
            reason: status.reason.as_ref().map(|reason| reason.word.into()),
            message: status.reason.as_ref().map(|reason| reason.sentence.clone()),
            retry_ms: status.retry_at.map(|_| status.retry_ms()),
            link: status.link_id,
            epoch: status.epoch,
            rtt_us: status.rtt_us(),
        }
    }
}

impl<R: FnMut(&Report)> Relay<'_, R> {
    /// Changes how the link stands, and says so.
    pub(super) fn tell(&mut self, state: LinkState, reason: Option<Reason>, retry_at: Option<Instant>) {
        self.status.send_modify(|status| {
            if (status.state == LinkState::Up) != (state == LinkState::Up) {
                status.since_ms = now_ms();
            }
            if status.state == LinkState::Up && state != LinkState::Up {
                status.lost_ms = Some(status.since_ms);
            }
            status.tries += u64::from(state == LinkState::Connecting);
            status.state = state;
            status.reason = reason;
            status.retry_at = retry_at;
            status.link = Some(self.link.clone());
            status.link_id = Some(self.link_id);
            status.epoch = self.epoch;
        });
        self.report();
    }

    /// Says how the link stands.
    pub(super) fn report(&mut self) {
        let machine = self.machine.as_ref().map(|(name, _)| name);
        let report = Report::new(&self.status.borrow(), machine, &self.route);
        (self.report)(&report);
    }
}
