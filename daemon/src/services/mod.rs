//! Requests and conversations: what a link's streams are for.
//!
//! Each stream is served by a task of its own. It reads one request; a plain one is answered and the stream finished, a
//! conversation (`session.events`, `terminal.attach`) goes on until either side ends it.

mod attach;
mod events;
mod remote;
mod server;
mod terminal;
mod workspace;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use keepline_carrier::link::{Link, Phase, Receiver, Sender};
use keepline_protocol::api::Cursor;
use keepline_protocol::api::session::Snapshot;
use keepline_protocol::failure::{Code, Failure, FailureBody};
use keepline_protocol::id::DeviceId;
use keepline_protocol::message::{Message, encode_answer, encode_struct};
use keepline_protocol::registry::{self, Effect, FAILURE, Method, method};
use tokio::sync::{Semaphore, watch};

use crate::bounds::REQUESTS_AT_ONCE;
use crate::daemon::Daemon;
use crate::session::Origin;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The device; nothing for the owner at this machine.
    device: Option<DeviceId>,
    admin: bool,
}

impl Caller {
    /// The owner, on the local socket.
    pub(crate) fn owner() -> Self {
        Caller {
            device: None,
            admin: true,
        }
    }

    /// A device, on a link of its own.
    pub(crate) fn device(device: DeviceId) -> Self {
        Caller {
            device: Some(device),
            admin: false,
        }
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
            attach::serve(&daemon, &request, &sender, receiver, phase).await
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
        method::WorkspaceNew::NUMBER => {
            reply::<method::WorkspaceNew, _>(request, |p| workspace::new(daemon, caller, p)).await
        }
        method::WorkspaceRename::NUMBER => {
            reply::<method::WorkspaceRename, _>(request, |p| workspace::rename(daemon, caller, p))
                .await
        }
        method::WorkspaceClose::NUMBER => {
            reply::<method::WorkspaceClose, _>(request, |p| workspace::close(daemon, caller, p))
                .await
        }
        method::TerminalNew::NUMBER => {
            reply::<method::TerminalNew, _>(request, |p| terminal::new(daemon, caller, p)).await
        }
        method::TerminalRename::NUMBER => {
            reply::<method::TerminalRename, _>(request, |p| terminal::rename(daemon, caller, p))
                .await
        }
        method::TerminalClose::NUMBER => {
            reply::<method::TerminalClose, _>(request, |p| terminal::close(daemon, caller, p)).await
        }
        method::TerminalResize::NUMBER => {
            reply::<method::TerminalResize, _>(request, |p| terminal::resize(daemon, caller, p))
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
        _ => {
            let message = format!("{} is not a plain request", entry.name);
            encode_failure(Failure::new(Code::Invalid, message))
        }
    }
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
