//! Keeps the document at the daemon's state.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use keepline_carrier::link::{Link, ReceiveError};
use keepline_protocol::api::Cursor;
use keepline_protocol::api::session::{Delta, Events, EventsStarted};
use keepline_protocol::lane::Lane;
use keepline_protocol::message::encode_request;
use keepline_protocol::registry::{DELTA, RESET, method};
use tokio::sync::watch;

use crate::bounds::REPAIRS_MAX;
use crate::document::{Document, Refused};
use crate::uplink::Uplink;

/// How well the document follows the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It does.
    Healthy,
    /// A snapshot or delta was refused, and a new snapshot was asked for.
    Recovering,
    /// Too many were refused; the next link starts anew.
    Exhausted,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Healthy => "healthy",
            Phase::Recovering => "recovering",
            Phase::Exhausted => "exhausted",
        }
    }
}

/// The document and the task that keeps it; clones are the same.
#[derive(Clone)]
pub(super) struct Follower {
    shared: Arc<Shared>,
}

struct Shared {
    document: RwLock<Option<Document>>,
    cursor: watch::Sender<Option<Cursor>>,
    phase: watch::Sender<Phase>,
}

impl Follower {
    pub(super) fn start(uplink: Uplink) -> Self {
        let shared = Shared {
            document: RwLock::new(None),
            cursor: watch::channel(None).0,
            phase: watch::channel(Phase::Recovering).0,
        };
        let follower = Follower {
            shared: Arc::new(shared),
        };
        tokio::spawn(follower.clone().run(uplink));
        follower
    }

    /// Looks at the document, when there is one.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Document, Phase) -> T) -> Option<T> {
        let phase = *self.shared.phase.borrow();
        let document = self
            .shared
            .document
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        document.as_ref().map(|document| look(document, phase))
    }

    pub(super) fn is_following(&self) -> bool {
        *self.shared.phase.borrow() == Phase::Healthy
    }

    /// Waits until there is a document.
    pub(super) async fn present(&self) {
        let _ = self
            .shared
            .cursor
            .subscribe()
            .wait_for(Option::is_some)
            .await;
    }

    /// Waits until the document has reached a receipt, or no longer than `longest`, so that who wrote can read it.
    pub(super) async fn reached(&self, receipt: Cursor, longest: Duration) {
        let mut cursor = self.shared.cursor.subscribe();
        let reached = cursor.wait_for(|cursor| {
            cursor.is_some_and(|cursor| {
                cursor.generation != receipt.generation || cursor.revision >= receipt.revision
            })
        });
        let _ = tokio::time::timeout(longest, reached).await;
    }

    async fn run(self, uplink: Uplink) {
        let mut old: Option<Link> = None;
        loop {
            let link = uplink.link_after(old.as_ref()).await;
            let mut refused = 0;
            // The first question continues from what is there; after a refusal everything is asked for.
            let mut since = self.read(|document, _| document.cursor());
            while refused < REPAIRS_MAX {
                match self.follow(&link, since).await {
                    Ok(()) => break,
                    Err(error) => {
                        refused += 1;
                        since = None;
                        tracing::warn!(%error, "the document is asked for anew");
                        self.shared.phase.send_replace(Phase::Recovering);
                    }
                }
            }
            if refused == REPAIRS_MAX {
                self.shared.phase.send_replace(Phase::Exhausted);
            }
            old = Some(link);
        }
    }

    /// Follows on one stream until the link or the daemon has ended; an error when something was refused.
    async fn follow(&self, link: &Link, since: Option<Cursor>) -> Result<(), Refused> {
        let (sender, mut receiver) = link.open(Lane::Control);
        if sender
            .send(encode_request::<method::SessionEvents>(&Events { since }))
            .await
            .is_err()
        {
            return Ok(());
        }
        let malformed = |what: &dyn std::fmt::Display| Refused::Malformed(what.to_string());
        let mut started = false;
        loop {
            let message = match receiver.message().await {
                Ok(Some(message)) => message,
                // A daemon that stops ends its streams before its links.
                Ok(None) => {
                    self.shared.phase.send_replace(Phase::Recovering);
                    return Ok(());
                }
                Err(ReceiveError::Reset) => return Ok(()),
                Err(error) => return Err(malformed(&error)),
            };
            let begin = if !started {
                let answer = message
                    .answer::<method::SessionEvents>()
                    .map_err(|error| malformed(&error))?;
                Some(answer.map_err(|failure| malformed(&failure))?)
            } else if message.number == RESET {
                Some(
                    message
                        .parse::<EventsStarted>()
                        .map_err(|error| malformed(&error))?,
                )
            } else {
                None
            };
            match begin {
                Some(EventsStarted {
                    document: Some(document),
                    ..
                }) => {
                    self.install(Document::parse(document.as_str())?);
                }
                Some(EventsStarted { document: None, .. }) if since.is_none() => {
                    return Err(malformed(&"a first answer without a document"));
                }
                Some(_) => {}
                None if message.number == DELTA => {
                    let delta: Delta = message.parse().map_err(|error| malformed(&error))?;
                    self.apply(delta.delta.as_str())?;
                }
                // A message of a later version.
                None => {}
            }
            started = true;
            self.shared.phase.send_if_modified(|phase| {
                std::mem::replace(phase, Phase::Healthy) != Phase::Healthy
            });
        }
    }

    fn install(&self, document: Document) {
        let cursor = document.cursor();
        *self
            .shared
            .document
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(document);
        self.shared.cursor.send_replace(Some(cursor));
    }

    fn apply(&self, delta: &str) -> Result<(), Refused> {
        let mut document = self
            .shared
            .document
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(document) = document.as_mut() else {
            return Err(Refused::NotNext);
        };
        document.apply(delta)?;
        self.shared.cursor.send_replace(Some(document.cursor()));
        Ok(())
    }
}
