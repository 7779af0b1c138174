//! `workspace.*`.

use keepline_protocol::api::Receipt;
use keepline_protocol::api::session::{
    WorkspaceClose, WorkspaceNew, WorkspacePath, WorkspaceRename,
};
use keepline_protocol::failure::Failure;

use super::Caller;
use crate::daemon::Daemon;
use crate::session::WorkspaceMutation;

type Done = Result<Receipt<WorkspacePath>, Failure>;

pub(super) async fn new(daemon: &Daemon, caller: &Caller, params: WorkspaceNew) -> Done {
    let mutation = WorkspaceMutation::New { name: params.name };
    daemon
        .inner
        .session
        .mutate(caller.origin(params.key, params.expect), mutation)
        .await
}

pub(super) async fn rename(daemon: &Daemon, caller: &Caller, params: WorkspaceRename) -> Done {
    let mutation = WorkspaceMutation::Rename {
        workspace: params.workspace,
        name: params.name,
    };
    daemon
        .inner
        .session
        .mutate(caller.origin(params.key, params.expect), mutation)
        .await
}

pub(super) async fn close(daemon: &Daemon, caller: &Caller, params: WorkspaceClose) -> Done {
    let mutation = WorkspaceMutation::Close {
        workspace: params.workspace,
    };
    daemon
        .inner
        .session
        .mutate(caller.origin(params.key, params.expect), mutation)
        .await
}
