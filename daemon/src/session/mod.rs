//! The durable state of a daemon and its one writer.
//!
//! [`Session`] is a handle over one thread that owns the session [graph], the [enrolment] and the [store]. Nothing else
//! changes them, and nothing is answered or published before it is durable.
//!
//! ```text
//!  mutate, claim, … ──▶ bounded queue ──▶ thread "session": up to 32 jobs ──▶ one SQLite commit
//!                                                                               │
//!  answers ◀────────────────────────────────────────────────────────────────────┤
//!  snapshot, resolve, subscribe ◀── state and deltas as of the last commit ◀────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`rows`], [`layout`], [`graph`], [`mutation`], [`apply`] | the graph: rows, finding them, what can be done, and its rules; pure |
//! | `document` | the graph and its deltas as JSON |
//! | [`enrolment`] | devices and invitations; pure |
//! | [`audit`] | what happened, and what of it is gathered before it is written |
//! | [`store`] | SQLite, the lock of a state directory |
//! | [`feed`] | what was committed, for readers and followers |
//! | `writer` | the thread |
//! | [`files`] | private directories and files |

pub mod apply;
pub mod audit;
mod document;
pub mod enrolment;
pub mod feed;
pub mod files;
pub mod graph;
pub mod layout;
pub mod mutation;
mod reference;
pub mod rows;
pub mod store;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keepline_protocol::api::remote::{Device, DeviceChanged, PendingDevice};
use keepline_protocol::api::server::AuditEntry;
use keepline_protocol::api::session::EventsStarted;
use keepline_protocol::api::{Cursor, Json, Receipt};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{DeviceId, Generation, InvitationId, TerminalId};
use keepline_protocol::scope::Scopes;
use tokio::sync::{mpsc, oneshot, watch};

pub use self::apply::{DAEMON_STOPPED, NOT_STARTED};
pub(crate) use self::apply::{FIRST_SIZE, size_policy};
use self::audit::Gathered;
use self::enrolment::ANY;
pub use self::enrolment::{Choice, Claim, Decision, NewInvitation, Reason, Standing};
use self::feed::Feed;
pub use self::feed::{Committed, Event, Subscription};
pub use self::mutation::{Effects, Ended, Happened, Mutate, Mutation, Notice, Observed, Value};
pub(crate) use self::rows::exit_json;
pub use self::rows::{AttachedTo, Cells, ClientRow, Level, Lifecycle, SizePolicy, TerminalRow};
use self::writer::{Act, Answer, Request, Ruling, Writer, now_ms};
use crate::bounds::{KEY_MAX, SESSION_QUEUE};

/// Who asks for a mutation, and under which conditions.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The device, to which the key is scoped; nothing for the owner at this machine and for the daemon itself.
    pub device: Option<DeviceId>,
    /// Idempotency key: the same request under the same key is done once.
    pub key: Option<String>,
    /// The cursor that must be the current one.
    pub expect: Option<Cursor>,
    /// The method, for the audit; nothing for what the daemon does by itself, which is in none.
    pub method: Option<&'static str>,
}

/// The durable state of this daemon: a handle, cheap to clone.
///
/// Reads ([`snapshot`](Self::snapshot), [`resolve_terminal`](Self::resolve_terminal), …) answer at once with the state
/// as of the last commit. What changes something waits for its commit. The thread ends when every handle is dropped or
/// one of them is [closed](Self::close).
#[derive(Clone)]
pub struct Session {
    requests: mpsc::Sender<Request>,
    feed: Arc<Feed>,
    gathered: Arc<Gathered>,
    state_dir: PathBuf,
}

impl Session {
    /// Opens the state in `state_dir`, making the directory when there is none, as a new generation. Terminals that a
    /// former daemon left alive are ended, [`DAEMON_STOPPED`], in one transaction. Blocks on the disk.
    ///
    /// # Errors
    /// [`Code::Busy`] when another daemon has it, naming its pid; [`Code::Refused`] for a directory or files that are
    /// not ours alone or that a newer version wrote; [`Code::Failed`] when the disk fails.
    pub fn open(state_dir: &Path) -> Result<Self, Failure> {
        let state_dir = files::private_dir(state_dir)?;
        let generation = Generation::from_bytes(random()?);
        let (store, graph, enrolment) = store::Store::open(&state_dir, generation)?;
        let writer = Writer::start(store, graph, enrolment, generation)?;
        let (feed, gathered) = (writer.feed(), writer.gathered());
        let (requests, queue) = mpsc::channel(SESSION_QUEUE);
        std::thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|e| Failure::new(Code::Failed, format!("cannot start the session's thread: {e}")))?;
        Ok(Session { requests, feed, gathered, state_dir })
    }

    /// The state directory, without symbolic links.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// This start of the daemon.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.feed.generation()
    }

    /// The cursor of the last commit.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.feed.cursor()
    }

    /// Does `mutation`, all or nothing, and answers once it is durable. A request whose key was used for the same
    /// request before gets the first receipt, marked `replayed`, and does nothing. Dropping the future after it was
    /// polled does not take the mutation back.
    ///
    /// # Errors
    /// Those of [`Graph::apply`](graph::Graph::apply); [`Code::Invalid`] for a key that is empty or over
    /// [`KEY_MAX`]; [`Code::Conflict`] for a key used with other parameters, or another revision than expected;
    /// [`Code::Gone`] for another generation than expected; [`Code::Failed`] when it could not be made durable. Then
    /// nothing was changed.
    pub async fn mutate<M: Mutate>(&self, origin: Origin, mutation: M) -> Result<Receipt<M::Answer>, Failure> {
        if let Some(key) = &origin.key
            && !(1..=KEY_MAX).contains(&key.len())
        {
            let message = format!("an idempotency key has 1 to {KEY_MAX} bytes, this one {}", key.len());
            return Err(Failure::new(Code::Invalid, message));
        }
        let mutation = Box::new(mutation.into());
        let receipt = self.ask(|answer| Request::Mutate { origin, mutation, answer }).await?;
        let Receipt { value, generation, revision, replayed } = receipt;
        let value = M::answer(value).ok_or_else(|| bug("a mutation gave a value of another kind"))?;
        Ok(Receipt { value, generation, revision, replayed })
    }

    /// The complete graph: an object with `cursor` and every modelled collection.
    #[must_use]
    pub fn snapshot(&self) -> Json {
        self.feed.document().1
    }

    /// Follows the graph after `since`, or, when that cannot be continued, from the complete graph in the answer.
    #[must_use]
    pub fn subscribe(&self, since: Option<Cursor>) -> (EventsStarted, Subscription) {
        Subscription::start(Arc::clone(&self.feed), since)
    }

    /// The terminal that an id or a unique name means.
    ///
    /// # Errors
    /// [`Code::NotFound`], or [`Code::Ambiguous`] with the candidates.
    pub fn resolve_terminal(&self, reference: &str) -> Result<TerminalId, Failure> {
        self.feed.read().graph.resolve_terminal(reference)
    }

    /// A workspace's places as JSON.
    ///
    /// # Errors
    /// As [`resolve_terminal`](Self::resolve_terminal).
    pub fn export_layout(&self, workspace: &str) -> Result<Json, Failure> {
        self.feed.read().graph.export(workspace)
    }

    /// A terminal's row.
    #[must_use]
    pub fn terminal(&self, id: TerminalId) -> Option<TerminalRow> {
        self.feed.read().graph.terminal(id).cloned()
    }

    /// All terminals' rows, by index.
    #[must_use]
    pub fn terminals(&self) -> Vec<TerminalRow> {
        let mut rows: Vec<TerminalRow> = self.feed.read().graph.terminals().cloned().collect();
        rows.sort_by_key(|row| row.index);
        rows
    }

    /// Makes an invitation; gives the Unix time in milliseconds at which it expires.
    ///
    /// # Errors
    /// Those of [`Enrolment::invite`](enrolment::Enrolment::invite); [`Code::Failed`] when it could not be made durable.
    pub async fn invite(&self, by: Option<DeviceId>, new: NewInvitation) -> Result<u64, Failure> {
        match self.enrol(by, Act::Invite(new)).await? {
            Ruling::Invited { expires_ms } => Ok(expires_ms),
            Ruling::Decided(_) | Ruling::Changed(_) => Err(bug("an invitation got another answer")),
        }
    }

    /// Decides about a device that asks to get in; the decision is durable.
    ///
    /// # Errors
    /// [`Code::Failed`] when it could not be made durable; that is no refusal, the device may come again.
    pub async fn claim(&self, claim: Claim) -> Result<Decision, Failure> {
        match self.enrol(None, Act::Claim(claim)).await? {
            Ruling::Decided(decision) => Ok(decision),
            Ruling::Invited { .. } | Ruling::Changed(_) => Err(bug("a claim got another answer")),
        }
    }

    /// Does what the owner, or the device `by` that may, decided about a device, which is meant by id, an unambiguous start
    /// of it, or unique name.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::Ambiguous`]; [`Code::Failed`] when it could not be made durable.
    pub async fn decide(&self, by: Option<DeviceId>, device: String, choice: Choice) -> Result<DeviceChanged, Failure> {
        match self.enrol(by, Act::Decide(device, choice)).await? {
            Ruling::Changed(changed) => Ok(changed),
            Ruling::Invited { .. } | Ruling::Decided(_) => Err(bug("a decision got another answer")),
        }
    }

    /// Where links and refusals are noted for the audit.
    #[must_use]
    pub fn gathered(&self) -> &Arc<Gathered> {
        &self.gathered
    }

    /// Writes what was gathered for the audit.
    ///
    /// # Errors
    /// [`Code::Failed`] when it could not be made durable; then it stays gathered.
    pub async fn write_audit(&self) -> Result<(), Failure> {
        let read = false;
        let written = self.ask(|answer| Request::Audit { read, answer }).await;
        written.map(drop)
    }

    /// The audit, oldest entry first: all of it, or what is about one device, by id, an unambiguous start of it, or
    /// unique name.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::Ambiguous`]; [`Code::Failed`] when the disk fails.
    pub async fn audit(&self, device: Option<&str>) -> Result<Vec<AuditEntry>, Failure> {
        // An id may be of one that the daemon has forgotten since.
        let find = |reference: &str| match reference.parse() {
            Ok(id) => Ok(id),
            Err(_) => self.feed.read().enrolment.find(reference, &ANY),
        };
        let device = device.map(find).transpose()?;
        let read = true;
        let mut entries = self.ask(|answer| Request::Audit { read, answer }).await?;
        entries.retain(|entry| device.is_none() || entry.device == device || entry.by == device);
        Ok(entries)
    }

    /// The devices that wait for the owner, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingDevice> {
        self.feed.read().enrolment.pending(now_ms())
    }

    /// The devices that are known, oldest first.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        self.feed.read().enrolment.devices(now_ms())
    }

    /// What a device may do; nothing for an unknown one.
    #[must_use]
    pub fn standing(&self, device: DeviceId) -> Option<Standing> {
        self.feed.read().enrolment.standing(device, now_ms())
    }

    /// What an enrolled device may do by itself; nothing for every other one.
    #[must_use]
    pub fn scopes(&self, device: DeviceId) -> Scopes {
        self.feed.read().enrolment.scopes(device)
    }

    /// What [`claim`](Self::claim) would decide about a device that shows no invitation; nothing is changed.
    #[must_use]
    pub fn foresee(&self, claim: &Claim) -> Decision {
        self.feed.read().enrolment.foresee(claim, now_ms())
    }

    /// K of an invitation that is known, for the handshake: also of one that is used, or expired within the last day,
    /// so that the refusal is authenticated.
    #[must_use]
    pub fn invitation_key(&self, invitation: InvitationId) -> Option<[u8; 32]> {
        self.feed.read().enrolment.invitation_key(invitation, now_ms())
    }

    /// Changes whenever something about a device or an invitation did. Who waits for a decision, or serves a device,
    /// looks at its [`standing`](Self::standing) then.
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<u64> {
        self.feed.decisions()
    }

    /// Ends the thread once everything asked before is durable, closes the store, and gives its lock back.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // An error means that it is closed already.
        if self.requests.send(Request::Close { done }).await.is_ok() {
            let _ = closed.await;
        }
    }

    async fn enrol(&self, by: Option<DeviceId>, act: Act) -> Result<Ruling, Failure> {
        self.ask(|answer| Request::Enrol { act: Box::new(act), by, answer }).await
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let stopping = |_| Failure::new(Code::Failed, "the daemon is stopping; nothing was changed");
        self.requests.send(request(answer)).await.map_err(stopping)?;
        // Dropped unanswered: it stood behind the request to close (or a bug ended the thread, which then is in the log).
        answered.await.map_err(|_| Failure::new(Code::Failed, "the daemon is stopping"))?
    }
}

fn bug(what: &str) -> Failure {
    Failure::new(Code::Internal, format!("keepline has a bug: {what}"))
}

/// Fresh random bytes.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| Failure::new(Code::Failed, format!("the system gives no randomness: {e}")))?;
    Ok(bytes)
}
