//! Checked settings: what a command line means, with everything in it known to be possible.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use keepline_protocol::api::{Cursor, Size};

use crate::paths::MachineName;

/// A checked command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// How, in what all commands share.
    pub common: Common,
}

/// What all commands share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Whose daemon is meant; nothing for `$KEEPLINE_SOCKET` or this machine's own.
    pub machine: Option<MachineName>,
    /// Whether data is printed as JSON.
    pub json: bool,
    /// Deadline of each request.
    pub timeout: Duration,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `keepline` alone: start or find this machine's daemon, then attach. [`run`](super::run) does it.
    Bare(Attach),
    /// `server start`, which is the composition root's.
    ServerStart(ServerStart),
    /// `remote connect`, which is the composition root's.
    RemoteConnect(RemoteConnect),
    /// What a consumer of a local socket does. [`run`](super::run) does it.
    Consumer(Consumer),
}

/// `server start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStart {
    /// Whether to serve in the background.
    pub detach: bool,
    /// Where to listen for links over WebSocket. Each is loopback unless `remote_ws_insecure_bind`.
    pub remote_ws: Vec<SocketAddr>,
    /// Whether plain WebSocket is allowed off loopback.
    pub remote_ws_insecure_bind: bool,
    /// Whether every key is let in.
    pub remote_ws_trusted_carrier: bool,
    /// How long a link without a carrier is kept: 1 s to a day.
    pub resume_lease: Duration,
    /// Where the daemon's state is; nothing for the usual place.
    pub state_dir: Option<PathBuf>,
}

/// `remote connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConnect {
    /// Where the daemon is, as given. Its query is never shown.
    pub route: String,
    /// Whether to stay in the foreground and only keep the link.
    pub headless: bool,
    /// The invitation to enrol with.
    pub invite_file: Option<PathBuf>,
    /// What to call the machine; nothing for its host name.
    pub name: Option<MachineName>,
}

/// Idempotency and expectation of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Idempotency key; nothing for a random one.
    pub key: Option<String>,
    /// The cursor that must be the current one.
    pub expect: Option<Cursor>,
}

/// What a consumer of a local socket does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// `server status`.
    ServerStatus,
    /// `server stop`.
    ServerStop,
    /// `remote invite`.
    RemoteInvite(Invite),
    /// `remote pending`.
    RemotePending,
    /// `remote approve DEVICE`.
    RemoteApprove(String),
    /// `remote deny DEVICE`.
    RemoteDeny(String),
    /// `remote devices`.
    RemoteDevices,
    /// `remote connections`.
    RemoteConnections,
    /// `remote revoke DEVICE`.
    RemoteRevoke(String),
    /// `remote known-daemons`.
    KnownDaemons,
    /// `remote known-daemons forget NAME`.
    ForgetDaemon(MachineName),
    /// `remote reconnect MACHINE`.
    Reconnect(MachineName),
    /// `session snapshot`.
    SessionSnapshot,
    /// `session events`.
    SessionEvents(Events),
    /// `workspace new`.
    WorkspaceNew(Option<String>, Change),
    /// `workspace list`.
    WorkspaceList,
    /// `workspace rename WORKSPACE NAME`.
    WorkspaceRename(String, String, Change),
    /// `workspace close WORKSPACE`.
    WorkspaceClose(String, Change),
    /// `terminal new`.
    TerminalNew(TerminalNew, Change),
    /// `terminal list`.
    TerminalList,
    /// `terminal send TERMINAL TEXT`.
    TerminalSend(String, Text),
    /// `terminal read TERMINAL`, and whether with SGR sequences.
    TerminalRead(String, bool),
    /// `terminal resize TERMINAL SIZE`.
    TerminalResize(String, Size, Change),
    /// `terminal rename TERMINAL NAME`.
    TerminalRename(String, String, Change),
    /// `terminal close TERMINAL`.
    TerminalClose(String, Change),
    /// `terminal signal TERMINAL SIGNAL`.
    TerminalSignal(String, String),
    /// `attach`.
    Attach(Attach),
}

/// `remote invite`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invite {
    /// Where the file is written; nothing for a new name in the current directory.
    pub out: Option<PathBuf>,
    /// Seconds in which it can be claimed.
    pub ttl_seconds: Option<u32>,
    /// Whether the device needs no approval.
    pub no_approval: bool,
    /// Where the daemon can be reached; empty for where it listens.
    pub routes: Vec<String>,
}

/// `session events`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// One JSON value per line.
    pub jsonl: bool,
    /// What the asker has.
    pub since: Option<Cursor>,
}

/// `terminal new`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalNew {
    /// Id or unique name of the workspace that shows it.
    pub workspace: Option<String>,
    /// Whether it is shown nowhere.
    pub detached: bool,
    /// Its label.
    pub name: Option<String>,
    /// Where it starts.
    pub cwd: Option<String>,
    /// Its first size.
    pub size: Option<Size>,
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// What `terminal send` sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// This, as given.
    Given(String),
    /// All of stdin.
    Stdin,
}

/// `attach`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Id or unique name; nothing for the last used live one, else a new one.
    pub terminal: Option<String>,
    /// Whether a program attaches.
    pub pipe_io: bool,
    /// Whether to watch only.
    pub read_only: bool,
    /// Lines of history in a snapshot.
    pub history: u32,
}
