//! Checked settings: what a command line means, with everything in it known to be possible.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use keepline_carrier::dial::Way;
use keepline_protocol::api::Cursor;
use keepline_protocol::api::terminal::LineRange;
use keepline_protocol::scope::Scopes;
use keepline_screen::Limits;

use crate::attach::predict::When;
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
    /// Whether this machine and all that are known here are meant; only of lists.
    pub all_machines: bool,
    /// Whether data is printed as JSON.
    pub json: bool,
    /// Deadline of each request.
    pub timeout: Duration,
}

impl Consumer {
    /// What names something of the session, so that it may begin with a machine's name.
    pub(super) fn addresses(&mut self) -> Vec<&mut String> {
        const NAMES: [&str; 6] = ["workspace", "screen", "pane", "beside", "tab", "terminal"];
        match self {
            Consumer::Ask(ask) | Consumer::LayoutApply(_, ask) => ask
                .params
                .as_object_mut()
                .into_iter()
                .flatten()
                .filter(|(name, _)| NAMES.contains(&name.as_str()))
                .filter_map(|(_, value)| match value {
                    serde_json::Value::String(text) => Some(text),
                    _ => None,
                })
                .collect(),
            Consumer::TerminalSend(terminal, _)
            | Consumer::TerminalPaste(terminal, _)
            | Consumer::TerminalRecord(terminal, _)
            | Consumer::TerminalRead(Read { terminal, .. }) => vec![terminal],
            Consumer::Attach(attach) => attach.terminal.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
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
    /// How much history each terminal keeps.
    pub history: Limits,
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
    /// Whether whoever answers at the route is trusted, so that no invitation is needed.
    pub carrier: bool,
    /// How it is reached.
    pub way: Way,
    /// The same as arguments, for a relay in the background.
    pub way_arguments: Vec<OsString>,
}

/// A request whose answer is all there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The method's JSON-RPC name.
    pub method: &'static str,
    /// Its parameters. A key that is absent is made; `caller` is filled in; `cwd` is made absolute.
    pub params: serde_json::Value,
    /// What is printed without `--json`.
    pub prints: Prints,
}

/// What of an answer a person or a script wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prints {
    /// Nothing.
    Nothing,
    /// This member of a receipt's value.
    Value(&'static str),
    /// This member of the answer, which is JSON.
    Json(&'static str),
    /// What a receipt says of notifications: those that are not there.
    Unknown,
    /// What was waited for.
    Waited,
}

/// A collection of the session, listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Workspaces.
    Workspaces,
    /// Screens.
    Screens,
    /// Panes.
    Panes,
    /// Tabs.
    Tabs,
    /// Terminals.
    Terminals,
    /// Notifications.
    Notifications,
    /// Clients.
    Clients,
}

/// What a consumer of a local socket does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// `server status`.
    ServerStatus,
    /// `server stop`.
    ServerStop,
    /// `server audit`, and of which device only.
    ServerAudit(Option<String>),
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
    /// `remote scope DEVICE SCOPE,…`.
    RemoteScope(String, Scopes),
    /// `remote rotate-key`, of the daemon.
    RotateDaemonKey,
    /// `remote rotate-key --device`.
    RotateDeviceKey,
    /// `remote probe ROUTE`.
    Probe(String, Way),
    /// `remote stdio`.
    RemoteStdio,
    /// `remote known-daemons`.
    KnownDaemons,
    /// `remote known-daemons forget NAME`.
    ForgetDaemon(MachineName),
    /// `remote reconnect MACHINE`.
    Reconnect(MachineName),
    /// `remote disconnect MACHINE`.
    Disconnect(MachineName),
    /// `session snapshot`.
    SessionSnapshot,
    /// `session events`.
    SessionEvents(Events),
    /// A request and its answer.
    Ask(Ask),
    /// `layout apply FILE`, whose parameters lack what the file holds.
    LayoutApply(PathBuf, Ask),
    /// `workspace list` and the like.
    List(Listed),
    /// `tree`, and of which workspace.
    Tree(Option<String>),
    /// `notification watch`, and whether as JSON lines.
    NotificationWatch(bool),
    /// `terminal send TERMINAL TEXT`.
    TerminalSend(String, Text),
    /// `terminal paste TERMINAL TEXT`.
    TerminalPaste(String, Text),
    /// `terminal read TERMINAL`.
    TerminalRead(Read),
    /// `terminal record TERMINAL`, and to which file.
    TerminalRecord(String, PathBuf),
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
    /// What the device may do; nothing for what invitations give.
    pub scopes: Option<Scopes>,
}

/// `session events`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// One JSON value per line.
    pub jsonl: bool,
    /// What the asker has.
    pub since: Option<Cursor>,
}

/// What `terminal send` sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// This, as given.
    Given(String),
    /// All of stdin.
    Stdin,
}

/// `terminal read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Id or unique name.
    pub terminal: String,
    /// Whether with SGR sequences.
    pub ansi: bool,
    /// Which lines; nothing for the screen that is shown.
    pub lines: Option<LineRange>,
    /// Whether what the last command wrote is meant.
    pub last_command: bool,
    /// Whether only the digest is printed.
    pub digest: bool,
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
    /// When typed characters are shown before their echo.
    pub predict: When,
    /// Whether programs may write to the person's clipboard.
    pub clipboard: bool,
}
