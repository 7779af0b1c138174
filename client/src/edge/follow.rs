//! Keeps the document at the daemon's state: the driver of a [`Replica`], which decides everything.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use keepline_carrier::Clock;
use keepline_carrier::link::{Link, ReceiveError};
use keepline_protocol::api::session::{Delta, Events, EventsStarted};
use keepline_protocol::api::{Cursor, Json};
use keepline_protocol::lane::Lane;
use keepline_protocol::message::{Message, encode_request};
use keepline_protocol::registry::{DELTA, RESET, method};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use crate::document::{Document, Phase, Refused, Replica, Step, Written};
use crate::uplink::{Uplink, now_ms};

/// The document and the task that keeps it; clones are the same.
#[derive(Clone)]
pub(super) struct Follower {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    replica: RwLock<Replica>,
    cursor: watch::Sender<Option<Cursor>>,
    /// The phase and the Unix time in milliseconds since which it is so.
    phase: watch::Sender<(Phase, u64)>,
    contradictions: mpsc::Sender<Refused>,
}

/// A mutation that was sent. Dropping it says that it was not answered well.
pub(super) struct Sent {
    follower: Follower,
    number: u64,
    answered: bool,
}

impl Follower {
    pub(super) fn start(uplink: Uplink) -> Self {
        let (contradictions, contradicted) = mpsc::channel(1);
        let shared = Shared {
            clock: Clock::start(),
            replica: RwLock::default(),
            cursor: watch::channel(None).0,
            phase: watch::channel((Phase::Recovering, now_ms())).0,
            contradictions,
        };
        let follower = Follower { shared: Arc::new(shared) };
        tokio::spawn(follower.clone().run(uplink, contradicted));
        follower
    }

    /// Looks at the document and what belongs to it.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Replica) -> T) -> T {
        look(&self.shared.replica.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The phase and the Unix time in milliseconds since which it is so.
    pub(super) fn phase(&self) -> (Phase, u64) {
        *self.shared.phase.borrow()
    }

    /// The document's cursor, as it moves.
    pub(super) fn cursor(&self) -> watch::Receiver<Option<Cursor>> {
        self.shared.cursor.subscribe()
    }

    /// Waits until there is a document.
    pub(super) async fn present(&self) {
        let present = |_: &(Phase, u64)| self.read(|replica| replica.document().is_some());
        let _ = self.shared.phase.subscribe().wait_for(present).await;
    }

    /// A mutation is about to be sent under `key`.
    pub(super) fn sent(&self, method: &'static str, key: String) -> Sent {
        Sent { follower: self.clone(), number: self.change(|replica| replica.sent(method, key)), answered: false }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Replica) -> T) -> T {
        change(&mut self.shared.replica.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets the replica take what came, and tells those who wait for it.
    fn step(&self, take: impl FnOnce(&mut Replica) -> Step) -> Step {
        let (step, cursor, phase) = self.change(|replica| {
            let step = take(replica);
            if let Some(reason) = replica.reason()
                && step != Step::Follow
            {
                tracing::warn!(phase = replica.phase().name(), "{reason}");
            }
            let cursor = replica.document().and_then(Document::cursor);
            (step, cursor, replica.phase())
        });
        self.shared.phase.send_if_modified(|now| {
            let changed = now.0 != phase;
            if changed {
                *now = (phase, now_ms());
            }
            changed
        });
        self.shared.cursor.send_if_modified(|now| {
            let changed = *now != cursor;
            *now = cursor;
            changed
        });
        step
    }

    async fn run(self, uplink: Uplink, mut contradicted: mpsc::Receiver<Refused>) {
        let mut old: Option<Link> = None;
        loop {
            let link = uplink.link_after(old.as_ref()).await;
            let now = self.shared.clock.now();
            let mut step = self.step(|replica| replica.linked(now));
            while let Step::Ask { since, at } = step {
                sleep_until(self.shared.clock.instant(at)).await;
                step = self.follow(&link, since, &mut contradicted).await;
            }
            old = Some(link);
        }
    }

    /// Follows on one stream until it is not gone on with.
    async fn follow(&self, link: &Link, since: Option<Cursor>, contradicted: &mut mpsc::Receiver<Refused>) -> Step {
        self.change(Replica::asked);
        let (sender, mut receiver) = link.open(Lane::Control);
        let request = encode_request::<method::SessionEvents>(&Events { since });
        if sender.send(request).await.is_err() {
            return self.step(Replica::ended);
        }
        let mut started = false;
        // What came before this stream was asked for is repaired by it.
        while contradicted.try_recv().is_ok() {}
        loop {
            let message = tokio::select! {
                message = receiver.message() => message,
                Some(error) = contradicted.recv() => {
                    let now = self.shared.clock.now();
                    return self.step(|replica| replica.refused(now, &error));
                }
            };
            let event = match message {
                Ok(Some(message)) => Event::read(&message, started),
                // A daemon that stops ends its streams before its links.
                Ok(None) | Err(ReceiveError::Reset) => return self.step(Replica::ended),
                Err(error) => Err(Refused::Malformed(error.to_string())),
            };
            let now = self.shared.clock.now();
            let step = match event {
                Ok(Event::Started(document)) => {
                    let document = document.map(|json| Document::parse(json.as_str()));
                    self.step(|replica| replica.started(now, document))
                }
                Ok(Event::Delta(delta)) => self.step(|replica| replica.delta(now, delta.as_str())),
                Ok(Event::Later) => Step::Follow,
                Err(error) => self.step(|replica| replica.refused(now, &error)),
            };
            if step != Step::Follow {
                return step;
            }
            started = true;
        }
    }
}

/// What a message on the stream says.
enum Event {
    Started(Option<Json>),
    Delta(Json),
    /// Something of a later version.
    Later,
}

impl Event {
    fn read(message: &Message, started: bool) -> Result<Self, Refused> {
        let malformed = |what: &dyn std::fmt::Display| Refused::Malformed(what.to_string());
        if !started {
            let answer = message.answer::<method::SessionEvents>().map_err(|error| malformed(&error))?;
            let answer = answer.map_err(|failure| malformed(&failure))?;
            return Ok(Event::Started(answer.document));
        }
        match message.number {
            DELTA => message.parse().map(|Delta { delta }| Event::Delta(delta)).map_err(|error| malformed(&error)),
            RESET => message
                .parse()
                .map(|EventsStarted { document, .. }| Event::Started(document))
                .map_err(|error| malformed(&error)),
            _ => Ok(Event::Later),
        }
    }
}

impl Sent {
    /// The mutation was answered with a receipt of its own. Waits until the document has reached it, or no longer than
    /// `longest`, so that who wrote can read it.
    pub(super) async fn written(mut self, written: Written, longest: Duration) {
        let (follower, number) = (self.follower.clone(), self.number);
        // From here on it waits for the document alone.
        self.answered = true;
        if let Err(error) = follower.change(|replica| replica.answered(number, Some(written))) {
            // One that waits already has the same repair made.
            let _ = follower.shared.contradictions.try_send(error);
        }
        let reached = |_: &Option<Cursor>| !follower.read(|replica| replica.writes().is_pending(number));
        let _ = timeout(longest, follower.cursor().wait_for(reached)).await;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.answered {
            let (follower, number) = (&self.follower, self.number);
            // It promised nothing, so there is nothing that could contradict it.
            let _ = follower.change(|replica| replica.answered(number, None));
        }
    }
}
