//! The way up from a local socket to a machine's daemon, as those who use it see it.
//!
//! The relay keeps the link and says here how it stands; inside the daemon the link is always there.

use std::sync::Arc;
use std::time::Duration;

use keepline_carrier::link::Link;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::LinkId;
use keepline_protocol::record::{LinkState, Record};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Why a link is not up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One word that stays the same, for programs.
    pub word: &'static str,
    /// One sentence, for people.
    pub sentence: String,
}

/// How the link stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its state.
    pub state: LinkState,
    /// Why it is not up.
    pub reason: Option<Reason>,
    /// When the next try is.
    pub retry_at: Option<Instant>,
    /// Unix time in milliseconds of the last change of state.
    pub since_ms: u64,
    /// The link, while there is one: also without a carrier, as long as it may be resumed.
    pub link: Option<Link>,
    /// The link's id; nothing inside the daemon.
    pub link_id: Option<LinkId>,
    /// Attempts to take a carrier, of this link.
    pub epoch: u32,
    /// Attempts to take a carrier, of every link.
    pub tries: u64,
    /// Unix time in milliseconds at which the last carrier was lost.
    pub lost_ms: Option<u64>,
    /// The route that is used, or was last, without its query; nothing inside the daemon.
    pub route: Option<String>,
}

impl Status {
    /// Milliseconds until the next try; 0 when none is planned.
    #[must_use]
    pub fn retry_ms(&self) -> u32 {
        let left = self.retry_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
    }

    /// Smoothed round trip of the link in microseconds, once measured.
    #[must_use]
    pub fn rtt_us(&self) -> Option<u64> {
        let round_trip = self.link.as_ref()?.round_trip()?;
        u64::try_from(round_trip.as_micros()).ok()
    }

    /// The record that tells an attachment's consumer.
    #[must_use]
    pub fn record(&self) -> Record {
        Record::Link { state: self.state, retry_ms: self.retry_ms() }
    }
}

/// The way up.
#[derive(Clone, Debug)]
pub struct Uplink {
    status: watch::Receiver<Status>,
    /// The machine's name and how its relay is made to look at the link now; nothing inside the daemon itself.
    relay: Option<(String, Arc<Notify>)>,
}

impl Uplink {
    /// The way up to `machine`, whose relay keeps `status` true and looks at the link when `nudge` says so.
    #[must_use]
    pub fn new(machine: String, status: watch::Receiver<Status>, nudge: Arc<Notify>) -> Self {
        Uplink { status, relay: Some((machine, nudge)) }
    }

    /// The way up inside the daemon's own process: each of `links` is there until the next one.
    #[must_use]
    pub fn local(mut links: watch::Receiver<Link>) -> Self {
        let status = Status {
            state: LinkState::Up,
            reason: None,
            retry_at: None,
            since_ms: now_ms(),
            link: Some(links.borrow_and_update().clone()),
            link_id: None,
            epoch: 1,
            tries: 1,
            lost_ms: None,
            route: None,
        };
        let (sender, receiver) = watch::channel(status);
        tokio::spawn(async move {
            while links.changed().await.is_ok() {
                let link = links.borrow_and_update().clone();
                sender.send_modify(|status| status.link = Some(link));
            }
        });
        Uplink { status: receiver, relay: None }
    }

    /// The machine's name; nothing inside the daemon itself.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.relay.as_ref().map(|(machine, _)| machine.as_str())
    }

    /// Makes the relay look at the link now: it probes one that is up, and waits no longer to try one that is not.
    pub fn nudge(&self) {
        if let Some((_, nudge)) = &self.relay {
            nudge.notify_one();
        }
    }

    /// How the link stands now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Each change, from now on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Status> {
        let mut changes = self.status.clone();
        changes.mark_unchanged();
        changes
    }

    /// Whether frames flow.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.status.borrow().state == LinkState::Up
    }

    /// The link, as soon as it is up and is not `old`.
    ///
    /// Waits for ever when nobody keeps the link any more; bound the wait.
    pub async fn link_after(&self, old: Option<&Link>) -> Link {
        let mut status = self.status.clone();
        let usable = |status: &Status| match &status.link {
            Some(link) if status.state == LinkState::Up => old.is_none_or(|old| !old.is(link)),
            _ => false,
        };
        let found = status.wait_for(usable).await.ok().and_then(|status| status.link.clone());
        match found {
            Some(link) => link,
            None => std::future::pending().await,
        }
    }

    /// The failure of a request for which there was no carrier: nothing was sent.
    #[must_use]
    pub fn unreachable(&self) -> Failure {
        let name = self.machine().unwrap_or("this machine");
        Failure::new(Code::Unreachable, format!("cannot reach '{name}' — disconnected"))
    }
}

/// The present moment as Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
