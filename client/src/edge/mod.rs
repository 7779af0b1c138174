//! The server of a local socket: JSON-RPC lines from consumers, messages on a link to the daemon.
//!
//! ```text
//!  consumer ⇄ connection ─┬─ request ── one stream each ──┐
//!                         ├─ events ─── one stream ───────┤ uplink ⇄ daemon
//!                         ├─ attach ─── one stream ───────┤
//!                         └─ follow ─── the document ─────┘
//! ```
//!
//! It is written once: the daemon's own socket and a relay's serve the same thing, so a consumer cannot tell them apart.

mod alerts;
mod attach;
mod connection;
mod events;
mod follow;
mod listener;
mod relay;
mod request;

use std::path::PathBuf;
use std::sync::Arc;

use keepline_protocol::api::Cursor;
use keepline_protocol::failure::{Code, Failure};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::bounds::STREAMS_AT_ONCE;
use crate::document::Phase;
use crate::uplink::Uplink;
use alerts::Watchers;
use follow::Follower;
pub use listener::LocalListener;

/// The server of one machine's local socket; clones are the same server.
#[derive(Clone)]
pub struct Edge {
    inner: Arc<Inner>,
}

struct Inner {
    uplink: Uplink,
    follower: Follower,
    watchers: Watchers,
    /// One permit per stream that consumers may have open.
    streams: Semaphore,
}

impl Edge {
    /// Serves the machine behind `uplink`; `shown` is the file that holds which
    /// notification was shown last.
    #[must_use]
    pub fn start(uplink: Uplink, shown: Option<PathBuf>) -> Self {
        let follower = Follower::start(uplink.clone());
        let machine = uplink.machine().map(str::to_owned);
        let watchers = Watchers::start(follower.clone(), machine, shown);
        Edge { inner: Arc::new(Inner { uplink, follower, watchers, streams: Semaphore::new(STREAMS_AT_ONCE) }) }
    }

    /// Serves a consumer until it goes away. `prefix` was read from the connection already.
    pub async fn serve(&self, stream: UnixStream, prefix: &[u8]) {
        connection::serve(self, stream, prefix).await;
    }

    /// A place for a stream that stays open.
    fn long_stream(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.inner.streams.try_acquire().map_err(|_| {
            let message = "too many consumers of this socket have streams open; close some first";
            Failure::new(Code::Busy, message)
        })
    }

    /// The document as `session.snapshot` gives it, as JSON; nothing when there is none yet.
    fn snapshot(&self) -> Option<String> {
        let (freshness, disconnected) = (self.freshness(), !self.inner.uplink.is_up());
        self.inner.follower.read(|replica| {
            let document = replica.document()?;
            let mode = if disconnected {
                "disconnected"
            } else {
                replica.phase().name()
            };
            let (cursor, members) = (json!(document.cursor()), document.members());
            let (reason, writes) = (json!(replica.reason()), replica.writes().export());
            Some(format!(
                r#"{{"document":{{"cursor":{cursor},"sync_mode":"{mode}","sync_reason":{reason},"freshness":{freshness},"pending_writes":{writes}{members}}}}}"#
            ))
        })
    }

    /// A collection as its `list` gives it, as JSON; nothing when there is no document yet.
    fn list(&self, collection: &str) -> Option<String> {
        let freshness = self.freshness();
        self.inner.follower.read(|replica| {
            let rows = replica.document()?.rows(collection);
            Some(format!(r#"{{"{collection}":{rows},"freshness":{freshness}}}"#))
        })
    }

    /// The cursor of the document, as it moves: nothing while there is no document.
    #[must_use]
    pub fn cursor(&self) -> watch::Receiver<Option<Cursor>> {
        self.inner.follower.cursor()
    }

    fn freshness(&self) -> Value {
        let (phase, since_ms) = self.inner.follower.phase();
        let live = self.inner.uplink.is_up() && phase == Phase::Healthy;
        let since = self.inner.uplink.status().since_ms.max(since_ms);
        json!({ "state": if live { "live" } else { "stale" }, "since_ms": since })
    }
}
