//! The thread that owns the durable state.
//!
//! It alone changes the graph and the enrolment, and it alone touches the store, so that no lock is held over a disk's
//! wait. Requests that wait together share one commit; answers and news leave after it. When a commit fails, the state
//! in memory goes back to the last one published, and all who shared the commit are told.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use keepline_protocol::api::remote::DeviceChanged;
use keepline_protocol::api::server::AuditEntry;
use keepline_protocol::api::{Cursor, Receipt};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{DeviceId, Generation};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::Origin;
use super::audit::{Event, Gathered};
use super::enrolment::{Choice, Claim, Decision, Enrolment, NewInvitation};
use super::feed::{Committed, Feed};
use super::graph::{Change, Graph};
use super::mutation::{Fresh, Mutation, Value};
use super::store::{Batch, KeyOf, Store};
use crate::bounds::BATCH_MAX;

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, Failure>>;

/// A request to the session's thread.
pub(super) enum Request {
    Mutate {
        origin: Origin,
        mutation: Box<Mutation>,
        answer: Answer<Receipt<Value>>,
    },
    Enrol {
        act: Box<Act>,
        by: Option<DeviceId>,
        answer: Answer<Ruling>,
    },
    /// Writes what was gathered for the audit; gives all of it when `read`.
    Audit {
        read: bool,
        answer: Answer<Vec<AuditEntry>>,
    },
    Close {
        done: oneshot::Sender<()>,
    },
    #[cfg(test)]
    LimitPages(u32),
    #[cfg(test)]
    Crash(u32, super::store::CrashAt),
}

/// What is asked of the enrolment.
pub(super) enum Act {
    Invite(NewInvitation),
    Claim(Claim),
    Decide(String, Choice),
}

/// What the enrolment answers.
pub(super) enum Ruling {
    Invited { expires_ms: u64 },
    Decided(Decision),
    Changed(DeviceChanged),
}

/// A request that may write.
enum Job {
    Mutate { origin: Origin, mutation: Box<Mutation>, answer: Answer<Receipt<Value>> },
    Enrol { act: Box<Act>, by: Option<DeviceId>, answer: Answer<Ruling> },
    Audit { read: bool, answer: Answer<Vec<AuditEntry>> },
}

/// What a job gave, to be told once it is durable.
enum Outcome {
    Mutated(Result<Receipt<Value>, Failure>),
    Ruled(Result<Ruling, Failure>),
    Audited(Vec<AuditEntry>),
}

/// The thread's state.
pub(super) struct Writer {
    store: Store,
    feed: Arc<Feed>,
    graph: Graph,
    enrolment: Enrolment,
    revision: u64,
    gathered: Arc<Gathered>,
}

/// Tells the followers that nothing more comes, also when a bug ends the thread.
struct CloseOnDrop(Arc<Feed>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a batch did to the graph and the enrolment, to be published once it is durable.
#[derive(Default)]
struct News {
    commits: Vec<(Vec<Change>, Arc<Committed>)>,
    enrolment: bool,
    audited: Vec<(Event, AuditEntry)>,
}

/// Unix time in milliseconds.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Writer {
    /// Takes over an opened store: ends what a former daemon left alive, and makes that durable.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn start(
        mut store: Store,
        mut graph: Graph,
        enrolment: Enrolment,
        generation: Generation,
    ) -> Result<Self, Failure> {
        let now = now_ms();
        let changes = graph.restart(now);
        let revision = u64::from(!changes.is_empty());
        if !changes.is_empty() {
            let json = super::document::changes(&changes);
            store.batch(|batch| batch.commit_changes(revision, &changes, &json, now))?;
        }
        let feed = Arc::new(Feed::new(generation, revision, graph.clone(), enrolment.clone()));
        Ok(Writer { store, feed, graph, enrolment, revision, gathered: Arc::default() })
    }

    pub(super) fn gathered(&self) -> Arc<Gathered> {
        Arc::clone(&self.gathered)
    }

    pub(super) fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    /// Serves requests until told to close, or until nobody can ask any more.
    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let ended = CloseOnDrop(self.feed());
        let mut closing = None;
        while closing.is_none()
            && let Some(first) = requests.blocking_recv()
        {
            let mut jobs = Vec::new();
            let mut next = Some(first);
            while let Some(request) = next.take() {
                match request {
                    Request::Mutate { origin, mutation, answer } => jobs.push(Job::Mutate { origin, mutation, answer }),
                    Request::Enrol { act, by, answer } => {
                        jobs.push(Job::Enrol { act, by, answer });
                    }
                    Request::Audit { read, answer } => jobs.push(Job::Audit { read, answer }),
                    Request::Close { done } => {
                        if !self.gathered.is_empty() {
                            let (read, (answer, _)) = (false, oneshot::channel());
                            jobs.push(Job::Audit { read, answer });
                        }
                        closing = Some(done);
                        break;
                    }
                    #[cfg(test)]
                    Request::LimitPages(pages) => self.store.limit_pages(pages),
                    #[cfg(test)]
                    Request::Crash(commits, at) => self.store.crash = Some((commits, at)),
                }
                if jobs.len() < BATCH_MAX {
                    next = requests.try_recv().ok();
                }
            }
            if !jobs.is_empty() {
                self.serve(jobs);
            }
        }
        // The store is closed and its lock given back before anybody hears of it.
        drop(self);
        drop(requests);
        drop(ended);
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// Does these jobs in one commit and answers them.
    fn serve(&mut self, jobs: Vec<Job>) {
        let now = now_ms();
        let mut news = News::default();
        let Writer { store, graph, enrolment, revision, feed, gathered } = self;
        let mut state =
            State { gathered, graph, enrolment, revision, generation: feed.generation(), now, news: &mut news };
        let committed =
            store.batch(|batch| jobs.iter().map(|job| state.run(batch, job)).collect::<Result<Vec<_>, _>>());
        match committed {
            Ok(outcomes) => {
                let enrolment = news.enrolment.then(|| self.enrolment.clone());
                self.feed.publish(news.commits, enrolment);
                for (job, outcome) in jobs.into_iter().zip(outcomes) {
                    job.answer(outcome);
                }
            }
            Err(failure) => {
                tracing::error!(%failure, requests = jobs.len(), "a commit failed; its requests are refused");
                {
                    let published = self.feed.read();
                    self.graph = published.graph.clone();
                    self.enrolment = published.enrolment.clone();
                }
                self.revision = self.feed.cursor().revision;
                self.gathered.put_back(news.audited);
                let failure = Failure { message: format!("{}; nothing was changed", failure.message), ..failure };
                for job in jobs {
                    job.refuse(failure.clone());
                }
            }
        }
    }
}

impl Job {
    fn answer(self, outcome: Outcome) {
        // Who asked may have gone; what was done stays done.
        match (self, outcome) {
            (Job::Mutate { answer, .. }, Outcome::Mutated(result)) => drop(answer.send(result)),
            (Job::Enrol { answer, .. }, Outcome::Ruled(result)) => drop(answer.send(result)),
            (Job::Audit { answer, .. }, Outcome::Audited(rows)) => drop(answer.send(Ok(rows))),
            _ => unreachable!("a job's outcome is of the job's kind"),
        }
    }

    fn refuse(self, failure: Failure) {
        match self {
            Job::Mutate { answer, .. } => drop(answer.send(Err(failure))),
            Job::Enrol { answer, .. } => drop(answer.send(Err(failure))),
            Job::Audit { answer, .. } => drop(answer.send(Err(failure))),
        }
    }
}

/// What the jobs of one batch work on.
struct State<'a> {
    gathered: &'a Gathered,
    graph: &'a mut Graph,
    enrolment: &'a mut Enrolment,
    revision: &'a mut u64,
    generation: Generation,
    now: u64,
    news: &'a mut News,
}

impl State<'_> {
    fn run(&mut self, batch: &mut Batch<'_>, job: &Job) -> rusqlite::Result<Outcome> {
        match job {
            Job::Mutate { origin, mutation, .. } => self.mutate(batch, origin, mutation).map(Outcome::Mutated),
            Job::Enrol { act, by, .. } => self.enrol(batch, act, *by).map(Outcome::Ruled),
            Job::Audit { read, .. } => {
                let taken = self.gathered.take();
                self.news.audited.extend(taken.iter().cloned());
                for (event, entry) in &taken {
                    batch.audit(*event, entry)?;
                }
                let rows = if *read { batch.audited()? } else { Vec::new() };
                Ok(Outcome::Audited(rows))
            }
        }
    }

    fn mutate(
        &mut self,
        batch: &mut Batch<'_>,
        origin: &Origin,
        mutation: &Mutation,
    ) -> rusqlite::Result<Result<Receipt<Value>, Failure>> {
        let of = origin.key.as_deref().map(|key| KeyOf { device: origin.device, key, digest: digest(mutation) });
        if let Some(of) = of
            && let Some((digest, receipt)) = batch.receipt(of)?
        {
            return Ok(if digest == of.digest { Ok(receipt) } else { Err(reused(of.key)) });
        }
        if let Err(failure) = self.check_expected(origin.expect) {
            return Ok(Err(failure));
        }
        let fresh = match fresh() {
            Ok(fresh) => fresh,
            Err(failure) => return Ok(Err(failure)),
        };
        let applied = match self.graph.apply(mutation, self.now, fresh) {
            Ok(applied) => applied,
            Err(failure) => return Ok(Err(failure)),
        };
        // What changes nothing is no transaction of the graph.
        if !applied.changes.is_empty() {
            *self.revision += 1;
            let json = super::document::changes(&applied.changes);
            batch.commit_changes(*self.revision, &applied.changes, &json, self.now)?;
            let committed = Committed::new(self.cursor(), &applied.changes, &json);
            self.news.commits.push((applied.changes, Arc::new(committed)));
            if let Some(method) = origin.method {
                let entry = AuditEntry {
                    cursor: Some(self.cursor()),
                    ..Event::Mutation.entry(self.now, origin.device, method)
                };
                batch.audit(Event::Mutation, &entry)?;
            }
        }
        let Cursor { generation, revision } = self.cursor();
        let receipt = Receipt { value: applied.value, generation, revision, replayed: false };
        if let Some(of) = of {
            batch.put_receipt(of, &receipt)?;
        }
        Ok(Ok(receipt))
    }

    fn check_expected(&self, expect: Option<Cursor>) -> Result<(), Failure> {
        match expect {
            Some(expect) if expect.generation != self.generation => {
                Err(Failure::new(Code::Gone, "the daemon was started anew since the expected revision; look again"))
            }
            Some(expect) if expect.revision != *self.revision => {
                let message =
                    format!("revision {} was expected and it is {}; look again", expect.revision, self.revision);
                Err(Failure::new(Code::Conflict, message))
            }
            _ => Ok(()),
        }
    }

    fn cursor(&self) -> Cursor {
        Cursor { generation: self.generation, revision: *self.revision }
    }

    fn enrol(
        &mut self,
        batch: &mut Batch<'_>,
        act: &Act,
        by: Option<DeviceId>,
    ) -> rusqlite::Result<Result<Ruling, Failure>> {
        let (enrolment, now) = (&mut *self.enrolment, self.now);
        let ruling = match act {
            Act::Invite(new) => enrolment.invite(new, now).map(|expires_ms| Ruling::Invited { expires_ms }),
            Act::Claim(claim) => Ok(Ruling::Decided(enrolment.claim(claim, now))),
            Act::Decide(device, choice) => enrolment.decide(device, *choice, now).map(Ruling::Changed),
        };
        let edits = enrolment.take_edits();
        if !edits.is_empty() {
            batch.put_edits(&edits)?;
            for (event, device, detail) in &edits.events {
                let entry = AuditEntry { by, ..event.entry(now, *device, detail) };
                batch.audit(*event, &entry)?;
            }
            self.news.enrolment = true;
        }
        Ok(ruling)
    }
}

/// The digest that tells whether a key is used for the same request again.
fn digest(mutation: &Mutation) -> [u8; 32] {
    let json = serde_json::to_vec(mutation).expect("mutations have string keys and finite numbers");
    Sha256::digest(json).into()
}

fn reused(key: &str) -> Failure {
    let message = format!("the key '{key}' was used with other parameters; use another key");
    Failure::new(Code::Conflict, message)
}

fn fresh() -> Result<Fresh, Failure> {
    super::random().map(Fresh::new)
}
