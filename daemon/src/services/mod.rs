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
use keepline_carrier::link::{Link, Phase, Receiver, Sender};
use keepline_protocol::api::layout::Layout;
use keepline_protocol::api::session::Snapshot;
use keepline_protocol::api::{Cursor, Keyed, Path, Receipt};
use keepline_protocol::failure::{Code, Failure, FailureBody};
use keepline_protocol::id::DeviceId;
use keepline_protocol::message::{Message, encode_answer, encode_struct};
use keepline_protocol::registry::{self, Effect, FAILURE, Method, method};
use tokio::sync::{Semaphore, watch};

use crate::bounds::REQUESTS_AT_ONCE;
use crate::clients::Presence;
use crate::daemon::Daemon;
use crate::session::{Mutate, Origin};
use crate::terminals::Starts;

/// Who asks.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The device; nothing for the owner at this machine.
    device: Option<DeviceId>,
    admin: bool,
    presence: Arc<Presence>,
}

impl Caller {
    /// The owner, on the local socket.
    pub(crate) fn owner(presence: Presence) -> Self {
        Caller {
            device: None,
            admin: true,
            presence: Arc::new(presence),
        }
    }

    /// A device, on a link of its own.
    pub(crate) fn device(device: DeviceId, presence: Presence) -> Self {
        Caller {
            device: Some(device),
            admin: false,
            presence: Arc::new(presence),
        }
    }

    /// Changes the graph as `params` say.
    async fn mutate<P: Keyed + Mutate>(
        &self,
        daemon: &Daemon,
        mut params: P,
    ) -> Result<Receipt<P::Answer>, Failure> {
        let (key, expect) = params.take_terms();
        let session = &daemon.inner.session;
        session.mutate(self.origin(key, expect), params).await
    }

    fn origin(&self, key: Option<String>, expect: Option<Cursor>) -> Origin {
        Origin {
            device: self.device,
            key,
            expect,
        }
    }
}

/// Serves a link's streams until it ends.
pub(crate) async fn serve_link(daemon: Daemon, link: Link, caller: Caller) {
    let requests = Arc::new(Semaphore::new(REQUESTS_AT_ONCE));
    while let Some((sender, receiver)) = link.accept().await {
        tokio::spawn(serve_stream(
            daemon.clone(),
            caller.clone(),
            requests.clone(),
            link.phase(),
            sender,
            receiver,
        ));
    }
}

async fn serve_stream(
    daemon: Daemon,
    caller: Caller,
    requests: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
    sender: Sender,
    mut receiver: Receiver,
) {
    let request = match receiver.message().await {
        Ok(Some(request)) => request,
        // A stream without a request, or one that was given up: nothing is owed.
        Ok(None) => return sender.finish(),
        Err(error) => return tracing::debug!(%error, "a stream without a request"),
    };
    let served = match request.number {
        method::SessionEvents::NUMBER => events::serve(&daemon, &request, &sender).await,
        method::TerminalAttach::NUMBER => {
            attach::serve(&daemon, &caller, &request, &sender, receiver, phase).await
        }
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
        let message = format!(
            "this daemon does not know method {:#06x}: upgrade it",
            request.number
        );
        return encode_failure(Failure::new(Code::UnknownMethod, message));
    };
    if entry.effect == Effect::Admin && !caller.admin {
        let message = format!(
            "{} is for the daemon's owner: run it on the machine itself",
            entry.name
        );
        return encode_failure(Failure::new(Code::Refused, message));
    }
    match request.number {
        method::SessionSnapshot::NUMBER => {
            reply::<method::SessionSnapshot, _>(request, |_| async {
                Ok(Snapshot {
                    document: daemon.inner.session.snapshot(),
                })
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
        method::TerminalNew::NUMBER => {
            open::<method::TerminalNew, _>(daemon, caller, request).await
        }
        method::ScreenNew::NUMBER => open::<method::ScreenNew, _>(daemon, caller, request).await,
        method::PaneSplit::NUMBER => open::<method::PaneSplit, _>(daemon, caller, request).await,
        method::TabNew::NUMBER => open::<method::TabNew, _>(daemon, caller, request).await,
        method::TerminalClose::NUMBER => {
            reply::<method::TerminalClose, _>(request, |p| terminal::close(daemon, caller, p)).await
        }
        method::TerminalResize::NUMBER => {
            reply::<method::TerminalResize, _>(request, |p| terminal::resize(daemon, caller, p))
                .await
        }
        method::NotificationAck::NUMBER => {
            reply::<method::NotificationAck, _>(request, |mut p| {
                // What the client calls itself is what it has seen it as.
                p.client
                    .get_or_insert_with(|| caller.presence.client().to_owned());
                caller.mutate(daemon, p)
            })
            .await
        }
        method::TerminalSend::NUMBER => {
            reply::<method::TerminalSend, _>(request, |p| terminal::send(daemon, p)).await
        }
        method::TerminalSignal::NUMBER => {
            reply::<method::TerminalSignal, _>(request, |p| terminal::signal(daemon, p)).await
        }
        method::TerminalRead::NUMBER => {
            reply::<method::TerminalRead, _>(request, |p| terminal::read(daemon, p)).await
        }
        method::RemoteInvite::NUMBER => {
            reply::<method::RemoteInvite, _>(request, |p| remote::invite(daemon, p)).await
        }
        method::RemotePending::NUMBER => {
            reply::<method::RemotePending, _>(request, |_| remote::pending(daemon)).await
        }
        method::RemoteApprove::NUMBER => {
            reply::<method::RemoteApprove, _>(request, |p| daemon.inner.session.approve(p.device))
                .await
        }
        method::RemoteDeny::NUMBER => {
            reply::<method::RemoteDeny, _>(request, |p| daemon.inner.session.deny(p.device)).await
        }
        method::RemoteDevices::NUMBER => {
            reply::<method::RemoteDevices, _>(request, |_| remote::devices(daemon)).await
        }
        method::RemoteConnections::NUMBER => {
            reply::<method::RemoteConnections, _>(request, |_| remote::connections(daemon)).await
        }
        method::RemoteRevoke::NUMBER => {
            reply::<method::RemoteRevoke, _>(request, |p| daemon.inner.session.revoke(p.device))
                .await
        }
        method::ServerStatus::NUMBER => {
            reply::<method::ServerStatus, _>(request, |_| server::status(daemon)).await
        }
        method::ServerStop::NUMBER => {
            reply::<method::ServerStop, _>(request, |_| server::stop(daemon)).await
        }
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
    reply::<M, _>(request, |mut params: P| {
        let (key, expect) = params.take_terms();
        let terminals = &daemon.inner.terminals;
        terminals.open(caller.origin(key, expect), params)
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
    request.parse().map_err(|_| {
        Failure::new(
            Code::Invalid,
            format!("the parameters of {} cannot be read", M::NAME),
        )
    })
}

fn encode_failure(failure: Failure) -> Bytes {
    encode_struct(FAILURE, &FailureBody::from(failure))
}
