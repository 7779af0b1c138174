//! Requests and conversations: what a link's streams are for.
//!
//! Each stream is served by a task of its own. It reads one request; a plain one is answered and the stream finished, a
//! conversation (`session.events`, `terminal.attach`) goes on until either side ends it.

mod attach;
mod events;
mod remote;
mod server;
mod terminal;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use keepline_carrier::link::{Link, Receiver, Sender};
use keepline_protocol::api::layout::Layout;
use keepline_protocol::api::remote::DeviceRef;
use keepline_protocol::api::session::Snapshot;
use keepline_protocol::api::{Cursor, Keyed, Path, Receipt};
use keepline_protocol::failure::{Code, Failure, FailureBody};
use keepline_protocol::id::DeviceId;
use keepline_protocol::message::{Message, encode_answer, encode_struct};
use keepline_protocol::registry::{self, FAILURE, Method, method};
use keepline_protocol::scope::{Scope, Scopes};
use tokio::sync::Semaphore;

use crate::bounds::REQUESTS_AT_ONCE;
use crate::clients::Presence;
use crate::daemon::Daemon;
use crate::session::audit::Event;
use crate::session::{Choice, Mutate, Origin};
use crate::terminals::Starts;

/// Who asks.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The device; nothing for the owner at this machine.
    device: Option<DeviceId>,
    /// What it may do.
    scopes: Scopes,
    /// What it asks for.
    method: Option<&'static str>,
    presence: Arc<Presence>,
}

impl Caller {
    /// The owner, on the local socket.
    pub(crate) fn owner(presence: Presence) -> Self {
        Caller { device: None, scopes: Scopes::ALL, method: None, presence: Arc::new(presence) }
    }

    /// A device, on a link of its own.
    pub(crate) fn device(device: DeviceId, scopes: Scopes, presence: Presence) -> Self {
        Caller { device: Some(device), scopes, method: None, presence: Arc::new(presence) }
    }

    /// Changes the graph as `params` say.
    async fn mutate<P: Keyed + Mutate>(&self, daemon: &Daemon, mut params: P) -> Result<Receipt<P::Answer>, Failure> {
        let (key, expect) = params.take_terms();
        let session = &daemon.inner.session;
        session.mutate(self.origin(key, expect), params).await
    }

    /// Refuses what the caller has no scope for.
    fn check(&self, daemon: &Daemon, method: &str, scope: Scope) -> Result<(), Failure> {
        if self.scopes.holds(scope) {
            return Ok(());
        }
        let gathered = daemon.inner.session.gathered();
        gathered.note(Event::Refused, self.device, method, None);
        let message = format!(
            "{method} needs the scope '{}', which this device does not have: the machine's owner gives it with `keepline \
             remote scope`",
            scope.name()
        );
        Err(Failure::new(Code::Refused, message))
    }

    fn origin(&self, key: Option<String>, expect: Option<Cursor>) -> Origin {
        Origin { device: self.device, key, expect, method: self.method }
    }
}

/// Serves a link's streams until it ends.
pub(crate) async fn serve_link(daemon: Daemon, link: Link, caller: Caller) {
    let requests = Arc::new(Semaphore::new(REQUESTS_AT_ONCE));
    while let Some((sender, receiver)) = link.accept().await {
        tokio::spawn(serve_stream(daemon.clone(), caller.clone(), requests.clone(), link.clone(), sender, receiver));
    }
}

async fn serve_stream(
    daemon: Daemon,
    mut caller: Caller,
    requests: Arc<Semaphore>,
    link: Link,
    sender: Sender,
    mut receiver: Receiver,
) {
    let request = match receiver.message().await {
        Ok(Some(request)) => request,
        // A stream without a request, or one that was given up: nothing is owed.
        Ok(None) => return sender.finish(),
        Err(error) => return tracing::debug!(%error, "a stream without a request"),
    };
    let entry = registry::by_number(request.number);
    caller.method = entry.map(|entry| entry.name);
    let allowed = entry.map_or(Ok(()), |entry| caller.check(&daemon, entry.name, entry.scope));
    let served = match request.number {
        _ if let Err(failure) = allowed => sender.send(encode_failure(failure)).await,
        method::SessionEvents::NUMBER => events::serve(&daemon, &request, &sender).await,
        method::TerminalWait::NUMBER => terminal::wait(&daemon, &request, &sender).await,
        method::TerminalAttach::NUMBER => attach::serve(&daemon, &caller, &request, &sender, receiver, &link).await,
        _ => {
            let turn = requests.acquire().await.expect("nobody closes it");
            let answer = answer(&daemon, &caller, &request).await;
            drop(request);
            // Until the answer is taken: what nobody reads is held for so many requests and no more.
            let sent = sender.send(answer).await;
            drop(turn);
            sent
        }
    };
    if served.is_ok() {
        sender.finish();
    }
}

async fn answer(daemon: &Daemon, caller: &Caller, request: &Message) -> Bytes {
    let Some(entry) = registry::by_number(request.number) else {
        let message = format!("this daemon does not know method {:#06x}: upgrade it", request.number);
        return encode_failure(Failure::new(Code::UnknownMethod, message));
    };
    let session = &daemon.inner.session;
    match request.number {
        method::SessionSnapshot::NUMBER => {
            reply::<method::SessionSnapshot, _>(request, |_| async {
                Ok(Snapshot { document: daemon.inner.session.snapshot() })
            })
            .await
        }
        method::LayoutExport::NUMBER => {
            reply::<method::LayoutExport, _>(request, |p| async move {
                let layout = daemon.inner.session.export_layout(&p.workspace)?;
                Ok(Layout { layout })
            })
            .await
        }
        method::TerminalNew::NUMBER => open::<method::TerminalNew, _>(daemon, caller, request).await,
        method::ScreenNew::NUMBER => open::<method::ScreenNew, _>(daemon, caller, request).await,
        method::PaneSplit::NUMBER => open::<method::PaneSplit, _>(daemon, caller, request).await,
        method::TabNew::NUMBER => open::<method::TabNew, _>(daemon, caller, request).await,
        method::TerminalClose::NUMBER => {
            reply::<method::TerminalClose, _>(request, |p| terminal::close(daemon, caller, p)).await
        }
        method::TerminalResize::NUMBER => {
            reply::<method::TerminalResize, _>(request, |p| terminal::resize(daemon, caller, p)).await
        }
        method::NotificationAck::NUMBER => {
            reply::<method::NotificationAck, _>(request, |mut p| {
                // What the client calls itself is what it has seen it as.
                p.client.get_or_insert_with(|| caller.presence.client().to_owned());
                caller.mutate(daemon, p)
            })
            .await
        }
        method::TerminalSend::NUMBER => reply::<method::TerminalSend, _>(request, |p| terminal::send(daemon, p)).await,
        method::TerminalKeys::NUMBER => reply::<method::TerminalKeys, _>(request, |p| terminal::keys(daemon, p)).await,
        method::TerminalPaste::NUMBER => {
            reply::<method::TerminalPaste, _>(request, |p| terminal::paste(daemon, p)).await
        }
        method::TerminalMouse::NUMBER => {
            reply::<method::TerminalMouse, _>(request, |p| terminal::mouse(daemon, p)).await
        }
        method::TerminalSignal::NUMBER => {
            reply::<method::TerminalSignal, _>(request, |p| terminal::signal(daemon, p)).await
        }
        method::TerminalRead::NUMBER => reply::<method::TerminalRead, _>(request, |p| terminal::read(daemon, p)).await,
        method::RemoteInvite::NUMBER => {
            reply::<method::RemoteInvite, _>(request, |p| remote::invite(daemon, caller, p)).await
        }
        method::RemotePending::NUMBER => reply::<method::RemotePending, _>(request, |_| remote::pending(daemon)).await,
        method::RemoteApprove::NUMBER => {
            let decide = |p: DeviceRef| session.decide(caller.device, p.device, Choice::Approve);
            reply::<method::RemoteApprove, _>(request, decide).await
        }
        method::RemoteDeny::NUMBER => {
            let decide = |p: DeviceRef| session.decide(caller.device, p.device, Choice::Deny);
            reply::<method::RemoteDeny, _>(request, decide).await
        }
        method::RemoteDevices::NUMBER => reply::<method::RemoteDevices, _>(request, |_| remote::devices(daemon)).await,
        method::RemoteConnections::NUMBER => {
            reply::<method::RemoteConnections, _>(request, |_| remote::connections(daemon)).await
        }
        method::RemoteRevoke::NUMBER => {
            let decide = |p: DeviceRef| session.decide(caller.device, p.device, Choice::Revoke);
            reply::<method::RemoteRevoke, _>(request, decide).await
        }
        method::RemoteScope::NUMBER => {
            reply::<method::RemoteScope, _>(request, |p| remote::scope(daemon, caller, p)).await
        }
        method::RemoteRotateKey::NUMBER => {
            reply::<method::RemoteRotateKey, _>(request, |_| remote::rotate_key(daemon, caller)).await
        }
        method::ServerStatus::NUMBER => reply::<method::ServerStatus, _>(request, |_| server::status(daemon)).await,
        method::ServerStop::NUMBER => reply::<method::ServerStop, _>(request, |_| server::stop(daemon)).await,
        method::ServerAudit::NUMBER => reply::<method::ServerAudit, _>(request, |p| server::audit(daemon, p)).await,
        _ => match change(daemon, caller, request).await {
            Some(answer) => answer,
            None => {
                let message = format!("{} is not a plain request", entry.name);
                encode_failure(Failure::new(Code::Invalid, message))
            }
        },
    }
}

/// Answers a mutation that changes the graph and nothing else; nothing for other methods.
async fn change(daemon: &Daemon, caller: &Caller, request: &Message) -> Option<Bytes> {
    macro_rules! of_the_graph {
        ($($method:ident)*) => {
            match request.number {
                $(method::$method::NUMBER => Some(
                    reply::<method::$method, _>(request, |p| caller.mutate(daemon, p)).await,
                ),)*
                _ => None,
            }
        };
    }
    of_the_graph! {
        WorkspaceNew WorkspaceRename WorkspaceMove WorkspaceFocus WorkspaceClose
        ScreenRename ScreenMove ScreenFocus ScreenClose
        PaneMove PaneResize PaneFocus PaneZoom PaneClose
        TabRename TabMove TabFocus TabClose
        LayoutApply TerminalRename NotificationPost NotificationClear
    }
}

/// Answers a mutation that may start a terminal.
async fn open<M, P>(daemon: &Daemon, caller: &Caller, request: &Message) -> Bytes
where
    M: Method<Params = P, Answer = Receipt<Path>>,
    P: Keyed + Starts,
{
    reply::<M, _>(request, |mut params: P| async move {
        if params.program().is_some() {
            caller.check(daemon, M::NAME, Scope::Exec)?;
        }
        let (key, expect) = params.take_terms();
        let terminals = &daemon.inner.terminals;
        terminals.open(caller.origin(key, expect), params).await
    })
    .await
}

/// Reads the parameters of `M`, calls, and gives the answer's wire form.
async fn reply<M: Method, F>(request: &Message, call: impl FnOnce(M::Params) -> F) -> Bytes
where
    F: Future<Output = Result<M::Answer, Failure>>,
{
    let answer = match parse::<M>(request) {
        Ok(params) => call(params).await,
        Err(failure) => Err(failure),
    };
    encode_answer::<M>(&answer)
}

fn parse<M: Method>(request: &Message) -> Result<M::Params, Failure> {
    request.parse().map_err(|_| Failure::new(Code::Invalid, format!("the parameters of {} cannot be read", M::NAME)))
}

fn encode_failure(failure: Failure) -> Bytes {
    encode_struct(FAILURE, &FailureBody::from(failure))
}
