//! Which clients are there and what they are attached to, and how their rows follow them.
//!
//! What changes is gathered, and committed as a whole. A row goes when its link has ended, and with the daemon.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepline_protocol::api::Size;
use keepline_protocol::id::{DeviceId, LinkId};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::bounds::{ATTACHED_SHOWN_MAX, OBSERVED_PAUSE, RECORD_AGAIN};
use crate::daemon::now_ms;
use crate::session::{AttachedTo, ClientRow, Happened, Origin, Session};

/// The clients; clones are the same.
#[derive(Clone)]
pub(crate) struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    present: Mutex<Present>,
    changed: Notify,
}

#[derive(Default)]
struct Present {
    clients: BTreeMap<LinkId, Client>,
    /// Counts clients and attachments, so that newer ones have higher numbers.
    count: u64,
}

struct Client {
    row: ClientRow,
    attached: BTreeMap<u64, AttachedTo>,
}

impl Clients {
    /// Keeps the rows of `session` true.
    pub(crate) fn start(session: Session) -> Self {
        let clients = Clients { shared: Arc::new(Shared { present: Mutex::default(), changed: Notify::new() }) };
        let shared = Arc::clone(&clients.shared);
        tokio::spawn(async move {
            loop {
                shared.changed.notified().await;
                let now = Happened::Clients(shared.rows());
                match session.mutate(Origin::default(), now).await {
                    Ok(_) => sleep(OBSERVED_PAUSE).await,
                    Err(failure) => {
                        tracing::warn!(%failure, "who is connected could not be recorded");
                        shared.changed.notify_one();
                        sleep(RECORD_AGAIN).await;
                    }
                }
            }
        });
        clients
    }

    /// A client's link was opened; its row stays until what is returned is dropped.
    pub(crate) fn came(&self, id: LinkId, client: &str, device_id: Option<DeviceId>, name: &str) -> Presence {
        let mut present = self.shared.present();
        let index = present.next();
        let row = ClientRow {
            id,
            client: client.to_owned(),
            device_id,
            name: name.to_owned(),
            index,
            since_ms: now_ms(),
            attached: Vec::new(),
        };
        let attached = BTreeMap::new();
        present.clients.insert(id, Client { row, attached });
        drop(present);
        self.shared.changed.notify_one();
        Presence { shared: Arc::clone(&self.shared), id, client: client.to_owned() }
    }
}

impl Shared {
    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self) -> Vec<ClientRow> {
        let present = self.present();
        let rows = present.clients.values().map(|client| {
            let newest = client.attached.values().rev().take(ATTACHED_SHOWN_MAX);
            let mut attached: Vec<_> = newest.cloned().collect();
            attached.reverse();
            ClientRow { attached, ..client.row.clone() }
        });
        rows.collect()
    }

    fn change(&self, id: LinkId, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.present().clients.get_mut(&id) {
            change(client);
        }
        self.changed.notify_one();
    }
}

impl Present {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

/// A client that is there.
pub(crate) struct Presence {
    shared: Arc<Shared>,
    id: LinkId,
    client: String,
}

impl Presence {
    /// The client's own id.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// The client attached to a terminal; it is shown until what is returned is dropped.
    pub(crate) fn attached(self: &Arc<Self>, to: AttachedTo) -> AttachedHere {
        let number = self.shared.present().next();
        self.shared.change(self.id, |client| {
            client.attached.insert(number, to);
        });
        AttachedHere { presence: Arc::clone(self), number }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.shared.present().clients.remove(&self.id);
        self.shared.changed.notify_one();
    }
}

/// An attachment that is there.
pub(crate) struct AttachedHere {
    presence: Arc<Presence>,
    number: u64,
}

impl AttachedHere {
    /// It votes for another size.
    pub(crate) fn votes(&self, size: Size) {
        self.presence.shared.change(self.presence.id, |client| {
            if let Some(attached) = client.attached.get_mut(&self.number) {
                attached.size = Some(size.into());
            }
        });
    }
}

impl Drop for AttachedHere {
    fn drop(&mut self) {
        self.presence.shared.change(self.presence.id, |client| {
            client.attached.remove(&self.number);
        });
    }
}
