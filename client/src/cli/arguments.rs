//! The command line as it is written: what clap reads, before anything of it is checked.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// keepline keeps the line to your remote terminals.
///
/// Without a command it starts (or finds) this machine's daemon and attaches to the last used live terminal, else to a
/// new one.
#[derive(Debug, Parser)]
#[command(name = "keepline", version)]
pub(super) struct Line {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Option<Noun>,
}

/// What stands on every command.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Talk to this machine's daemon, through its relay
    #[arg(long, global = true, value_name = "MACHINE")]
    pub(super) machine: Option<String>,
    /// List on this machine and on every machine that is known here
    #[arg(long, global = true, conflicts_with = "machine")]
    pub(super) all_machines: bool,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Give up after this many seconds [default: 30]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(super) timeout: Option<u32>,
}

/// What stands on every command that changes the session.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// Idempotency key: a repetition under it does nothing and gives the first result
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Only when the session is at exactly this cursor
    #[arg(long, value_name = "GENERATION:REVISION")]
    pub(super) expect: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Noun {
    /// This machine's daemon
    #[command(subcommand)]
    Server(ServerVerb),
    /// Machines and devices
    #[command(subcommand)]
    Remote(RemoteVerb),
    /// The session as a whole
    #[command(subcommand)]
    Session(SessionVerb),
    /// Workspaces, which hold screens
    #[command(subcommand)]
    Workspace(WorkspaceVerb),
    /// Screens, which hold panes
    #[command(subcommand)]
    Screen(ScreenVerb),
    /// Panes, which share a screen and hold tabs
    #[command(subcommand)]
    Pane(PaneVerb),
    /// Tabs, each of which shows a terminal
    #[command(subcommand)]
    Tab(TabVerb),
    /// Terminals
    #[command(subcommand)]
    Terminal(TerminalVerb),
    /// Print what is shown where: workspaces, their terminals, and those that are shown nowhere
    Tree {
        /// Only this: MACHINE or MACHINE/WORKSPACE; `local` is this machine
        address: Option<String>,
    },
    /// A workspace's screens, panes and tabs as JSON
    #[command(subcommand)]
    Layout(LayoutVerb),
    /// Show people something, from the terminal that this runs in unless another one is named
    Notify(NotifyLine),
    /// What people should see
    #[command(subcommand)]
    Notification(NotificationVerb),
    /// Clients that are connected
    #[command(subcommand)]
    Client(ClientVerb),
    /// Attach to a terminal; ~. at the start of a line detaches
    Attach(AttachLine),
}

#[derive(Debug, Subcommand)]
pub(super) enum ServerVerb {
    /// Serve, in the foreground
    Start(ServerStartLine),
    /// Say whether the daemon serves
    Status,
    /// Print who got in, who was refused, and who changed the session
    Audit {
        /// Only what this device did, or what was done to it: id, start of one, or name
        #[arg(long, value_name = "DEVICE")]
        device: Option<String>,
    },
    /// End the daemon, and in this version its terminals with it
    Stop {
        /// Say that its terminals are meant too: in this version they always are
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ServerStartLine {
    /// Serve in the background
    #[arg(long)]
    pub(super) detach: bool,
    /// Listen for links over WebSocket here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) remote_ws: Vec<String>,
    /// Allow plain WebSocket on an address that is not loopback
    #[arg(long)]
    pub(super) remote_ws_insecure_bind: bool,
    /// Let every key in: who can reach the listener may do everything
    #[arg(long)]
    pub(super) remote_ws_trusted_carrier: bool,
    /// Keep a link without a carrier this long, 1 to 86400 [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub(super) remote_resume_lease_seconds: Option<u32>,
    /// Lines of history that each terminal keeps, up to 1000000 [default: 50000]
    #[arg(long, value_name = "LINES")]
    pub(super) history_lines: Option<usize>,
    /// MiB of history that each terminal keeps, up to 1024 [default: 10]
    #[arg(long, value_name = "MIB")]
    pub(super) history_mib: Option<usize>,
    /// Where the daemon's state is
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,
}

/// How WebSocket routes are reached.
#[derive(Debug, Args)]
pub(super) struct WayLine {
    /// Reach ws:// and wss:// routes by way of this SOCKS5 proxy, which also looks up names
    #[arg(long, value_name = "HOST:PORT|PATH")]
    pub(super) socks5: Option<String>,
    /// On wss:// routes trust who these authorities vouch for (PEM), and not who this machine trusts
    #[arg(long, value_name = "FILE")]
    pub(super) tls_ca: Option<PathBuf>,
    /// On wss:// routes trust the certificate with this SHA-256 alone
    #[arg(long, value_name = "SHA256", conflicts_with = "tls_ca")]
    pub(super) tls_pin: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RemoteVerb {
    /// Make an invitation file, which enrols one device, and print its path
    Invite {
        /// Write it here
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Seconds in which it can be claimed [default: 300]
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u32>,
        /// Enrol the device without asking
        #[arg(long)]
        no_approval: bool,
        /// Where this daemon can be reached; may be given several times
        #[arg(long, value_name = "ROUTE")]
        route: Vec<String>,
        /// What the device may do: view, type, files, exec, forward, admin [default: all but admin]
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
        scope: Vec<String>,
    },
    /// List devices that wait for approval
    Pending,
    /// Let a device in
    Approve {
        /// Id, start of one, or name
        device: String,
    },
    /// Do not let a device in
    Deny {
        /// Id, start of one, or name
        device: String,
    },
    /// List devices
    Devices,
    /// List links
    Connections,
    /// Take a device's access away
    Revoke {
        /// Id, start of one, or name
        device: String,
    },
    /// Change what a device may do
    Scope {
        /// Id, start of one, or name
        device: String,
        /// All that it may do from now on: view, type, files, exec, forward, admin
        #[arg(value_name = "SCOPE,…", value_delimiter = ',', required = true)]
        scope: Vec<String>,
    },
    /// Take another key for links; enrolments stay, and the old key is refused
    RotateKey {
        /// This device's own key, and not the daemon's
        #[arg(long, conflicts_with = "machine")]
        device: bool,
    },
    /// Keep a link to a machine
    Connect {
        /// Where its daemon is, as ssh://[USER@]HOST[:PORT], ws://HOST:PORT, wss://HOST[:PORT] or unix:PATH
        route: String,
        /// Stay in the foreground and only keep the link
        #[arg(long)]
        headless: bool,
        /// Enrol with this invitation
        #[arg(long, value_name = "FILE")]
        invite_file: Option<PathBuf>,
        /// Call the machine this
        #[arg(long, value_name = "MACHINE")]
        name: Option<String>,
        /// Trust the way there, as a private network's: no invitation, and the key that answers first is kept
        #[arg(long, conflicts_with = "invite_file")]
        carrier: bool,
        #[command(flatten)]
        way: WayLine,
    },
    /// Say who answers at a route, without enrolling there
    Probe {
        /// ssh://[USER@]HOST[:PORT], ws://HOST:PORT, wss://HOST[:PORT] or unix:PATH
        route: String,
        #[command(flatten)]
        way: WayLine,
    },
    /// Join stdin and stdout to this machine's daemon; `remote connect ssh://…` runs it on the far side
    Stdio,
    /// Try now to reach a machine whose relay waits, or see whether one that is connected still is
    Reconnect {
        /// The machine's name
        #[arg(value_name = "MACHINE")]
        name: String,
    },
    /// End the relay to a machine, wherever it was started here
    Disconnect {
        /// The machine's name
        #[arg(value_name = "MACHINE")]
        name: String,
    },
    /// List the daemons that this client knows, and how their links stand
    #[command(args_conflicts_with_subcommands = true)]
    KnownDaemons {
        #[command(subcommand)]
        verb: Option<KnownVerb>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum KnownVerb {
    /// Forget a daemon and its key
    Forget {
        /// The machine's name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionVerb {
    /// Print the session as it is
    Snapshot,
    /// Print the session's changes as they come
    Events {
        /// One JSON value per line
        #[arg(long)]
        jsonl: bool,
        /// Begin after this cursor
        #[arg(long, value_name = "GENERATION:REVISION")]
        since: Option<String>,
    },
}

/// What a new terminal runs.
#[derive(Debug, Args)]
pub(super) struct ProgramLine {
    /// Where it starts [default: the home directory]
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<String>,
    /// Its first size [default: 80x24]
    #[arg(long, value_name = "COLSxROWS")]
    pub(super) size: Option<String>,
    /// The program and its arguments [default: the login shell]
    #[arg(last = true)]
    pub(super) argv: Vec<String>,
}

/// On which side a pane goes.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct SideLine {
    /// To the right of it [default]
    #[arg(long)]
    pub(super) right: bool,
    /// Below it
    #[arg(long)]
    pub(super) down: bool,
    /// To the left of it
    #[arg(long)]
    pub(super) left: bool,
    /// Above it
    #[arg(long)]
    pub(super) up: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkspaceVerb {
    /// Make a workspace and print its id
    New {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        change: Change,
    },
    /// List workspaces
    List,
    /// Name a workspace
    Rename {
        /// Id or unique name
        workspace: String,
        /// The new name
        name: String,
        #[command(flatten)]
        change: Change,
    },
    /// Give a workspace another place among the others
    Move {
        /// Id or unique name
        workspace: String,
        /// Its place, from 0
        index: u32,
        #[command(flatten)]
        change: Change,
    },
    /// Make a workspace the one that new terminals go to
    Focus {
        /// Id or unique name
        workspace: String,
        #[command(flatten)]
        change: Change,
    },
    /// Close a workspace; its terminals live on, detached
    Close {
        /// Id or unique name
        workspace: String,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ScreenVerb {
    /// Make a screen that shows a new terminal, or one that lives, and print the screen's id
    New {
        /// The workspace [default: the caller's own, else the last used one]
        #[arg(long)]
        workspace: Option<String>,
        /// Its label
        #[arg(long)]
        name: Option<String>,
        /// Show this terminal
        #[arg(long, conflicts_with_all = ["cwd", "size", "argv"])]
        terminal: Option<String>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        program: ProgramLine,
    },
    /// List screens
    List,
    /// Name a screen; an empty name clears it
    Rename {
        /// Id or unique name
        screen: String,
        /// The new name
        name: String,
        #[command(flatten)]
        change: Change,
    },
    /// Give a screen another place, or another workspace
    Move {
        /// Id or unique name
        screen: String,
        /// The workspace that it moves to
        #[arg(long)]
        workspace: Option<String>,
        /// Its place there, from 0 [default: the last]
        #[arg(long)]
        index: Option<u32>,
        #[command(flatten)]
        change: Change,
    },
    /// Make a screen the one that its workspace is looked at
    Focus {
        /// Id or unique name
        screen: String,
        #[command(flatten)]
        change: Change,
    },
    /// Close a screen; its terminals live on, detached
    Close {
        /// Id or unique name
        screen: String,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PaneVerb {
    /// Put a new pane beside one, with a new terminal or one that lives, and print the pane's id
    #[command(visible_alias = "new")]
    Split {
        /// Its id, or a tab or terminal in it [default: the one that this runs in]
        pane: Option<String>,
        #[command(flatten)]
        side: SideLine,
        /// The part that the left or upper side gets, 0.05 to 0.95 [default: 0.5]
        #[arg(long)]
        ratio: Option<f64>,
        /// Show this terminal
        #[arg(long, conflicts_with_all = ["cwd", "size", "argv"])]
        terminal: Option<String>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        program: ProgramLine,
    },
    /// List panes
    List,
    /// Put a pane beside another one
    Move {
        /// Its id, or a tab or terminal in it
        pane: String,
        /// The other one
        beside: String,
        #[command(flatten)]
        side: SideLine,
        #[command(flatten)]
        change: Change,
    },
    /// Give a pane another part of what it shares with its neighbour
    Resize {
        /// Its id, or a tab or terminal in it
        pane: String,
        /// Its part, 0.05 to 0.95
        ratio: f64,
        #[command(flatten)]
        change: Change,
    },
    /// Make a pane the one that gets the keys
    Focus {
        /// Its id, or a tab or terminal in it
        pane: String,
        #[command(flatten)]
        change: Change,
    },
    /// Have a pane fill its screen, or no more
    Zoom {
        /// Its id, or a tab or terminal in it
        pane: String,
        /// Whatever it does now, on or off [default: the other way than now]
        #[arg(long, value_name = "on|off")]
        to: Option<String>,
        #[command(flatten)]
        change: Change,
    },
    /// Close a pane; its terminals live on, detached
    Close {
        /// Its id, or a tab or terminal in it
        pane: String,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum TabVerb {
    /// Make a tab that shows a new terminal, or one that lives, and print the tab's id
    New {
        /// The pane: its id, or a tab or terminal in it [default: the one that this runs in]
        #[arg(long)]
        pane: Option<String>,
        /// The workspace whose focused pane is meant
        #[arg(long, conflicts_with = "pane")]
        workspace: Option<String>,
        /// Its label
        #[arg(long)]
        name: Option<String>,
        /// Show this terminal
        #[arg(long, conflicts_with_all = ["cwd", "size", "argv"])]
        terminal: Option<String>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        program: ProgramLine,
    },
    /// List tabs
    List,
    /// Name a tab; an empty name clears it back to the terminal's
    Rename {
        /// Its id or unique name, or the terminal that it alone shows
        tab: String,
        /// The new name
        name: String,
        #[command(flatten)]
        change: Change,
    },
    /// Give a tab another place, or another pane
    Move {
        /// Its id or unique name, or the terminal that it alone shows
        tab: String,
        /// The pane that it moves to
        #[arg(long)]
        pane: Option<String>,
        /// Its place there, from 0 [default: the last]
        #[arg(long)]
        index: Option<u32>,
        #[command(flatten)]
        change: Change,
    },
    /// Make a tab the one that is shown
    Focus {
        /// Its id or unique name, or the terminal that it alone shows
        tab: String,
        #[command(flatten)]
        change: Change,
    },
    /// Close a tab; its terminal lives on
    Close {
        /// Its id or unique name, or the terminal that it alone shows
        tab: String,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum LayoutVerb {
    /// Print a workspace's screens, panes and tabs as JSON
    Export {
        /// Id or unique name
        workspace: String,
    },
    /// Replace a workspace's screens by those of a file, or make a new workspace of them, and print its id
    Apply {
        /// What `layout export` printed; - reads stdin
        file: PathBuf,
        /// The workspace [default: a new one]
        #[arg(long)]
        workspace: Option<String>,
        #[command(flatten)]
        change: Change,
    },
}

#[derive(Debug, Args)]
pub(super) struct NotifyLine {
    /// One line
    #[arg(value_name = "TITLE")]
    pub(super) text: Option<String>,
    /// The same
    #[arg(long, conflicts_with = "text")]
    pub(super) title: Option<String>,
    /// A second line
    #[arg(long)]
    pub(super) subtitle: Option<String>,
    /// The text
    #[arg(long)]
    pub(super) body: Option<String>,
    /// info, warning or error
    #[arg(long)]
    pub(super) level: Option<String>,
    /// The terminal that it is about
    #[arg(long)]
    pub(super) terminal: Option<String>,
    /// The workspace that it is about
    #[arg(long)]
    pub(super) workspace: Option<String>,
    /// Clear what there is about it instead
    #[arg(long, conflicts_with_all = ["text", "title", "subtitle", "body", "level"])]
    pub(super) clear: bool,
    /// Not possible: nobody is asked anything
    #[arg(long, hide = true)]
    pub(super) reply: bool,
    #[command(flatten)]
    pub(super) change: Change,
}

#[derive(Debug, Subcommand)]
pub(super) enum NotificationVerb {
    /// List notifications
    List,
    /// Note that this client has seen notifications
    Ack {
        /// Ids
        #[arg(required = true)]
        notifications: Vec<String>,
        /// The client that has seen them [default: this one]
        #[arg(long)]
        client: Option<String>,
        /// Clear the mark "unread", which all clients share, too
        #[arg(long)]
        everywhere: bool,
        #[command(flatten)]
        change: Change,
    },
    /// Remove notifications: those named, or all
    Clear {
        /// Ids
        notifications: Vec<String>,
        /// Those about this terminal
        #[arg(long)]
        terminal: Option<String>,
        /// Those about this workspace
        #[arg(long)]
        workspace: Option<String>,
        #[command(flatten)]
        change: Change,
    },
    /// Print notifications as they come, each once
    Watch {
        /// One JSON value per line
        #[arg(long)]
        jsonl: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ClientVerb {
    /// List clients and what they are attached to
    List,
}

/// What `terminal wait` waits for.
#[derive(Debug, Args)]
pub(super) struct WaitLine {
    /// Id or unique name
    pub(super) terminal: String,
    #[command(flatten)]
    pub(super) what: AwaitedLine,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct AwaitedLine {
    /// A row of the screen, or a line that scrolls off it, fits this regular expression; prints what fits
    #[arg(long = "match", value_name = "REGEX")]
    pub(super) matching: Option<String>,
    /// The program ends; prints how
    #[arg(long)]
    pub(super) exit: bool,
    /// Nothing is written for so many milliseconds
    #[arg(long, value_name = "MS")]
    pub(super) idle: Option<u32>,
    /// The shell shows a prompt at which nothing was typed yet (OSC 133)
    #[arg(long)]
    pub(super) prompt: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum TerminalVerb {
    /// Start a terminal and print its id
    New {
        /// Show it in this workspace
        #[arg(long, value_name = "WORKSPACE", conflicts_with = "detached")]
        workspace: Option<String>,
        /// Show it nowhere
        #[arg(long)]
        detached: bool,
        /// Its label
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        program: ProgramLine,
    },
    /// List terminals
    List,
    /// Send text as if it were typed, as given
    Send {
        /// Id or unique name
        terminal: String,
        /// The text; - reads stdin
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Press keys, as C-c, M-x, Enter, S-Left or F5, in the way that the program understands now
    Keys {
        /// Id or unique name
        terminal: String,
        /// Their names; a single character is its own
        #[arg(required = true, value_name = "KEY", allow_hyphen_values = true)]
        keys: Vec<String>,
    },
    /// Paste text: in brackets if the program asked for them, without control characters
    Paste {
        /// Id or unique name
        terminal: String,
        /// The text; - reads stdin
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Do something with the mouse, if the program listens to it
    Mouse {
        /// Id or unique name
        terminal: String,
        /// press, release, click, move, wheel-up, wheel-down, wheel-left or wheel-right; C-, M-, S- in front are held keys
        action: String,
        /// Where, from 0,0 at the upper left
        #[arg(value_name = "COL,ROW")]
        place: String,
        /// left, middle or right [default: left; none with move]
        #[arg(long)]
        button: Option<String>,
    },
    /// Wait for something, at most as long as --timeout says
    Wait(WaitLine),
    /// Print what the screen shows, a line per row
    Read {
        /// Id or unique name
        terminal: String,
        /// With colours and attributes
        #[arg(long, conflicts_with = "json")]
        ansi: bool,
        /// Lines of the history and screen by their ids instead; below 0 they count back from the screen's first row
        #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
        history: Option<String>,
        /// The epoch of those ids, as --json says it: when they mean other lines by now, exit 5
        #[arg(long, requires = "history")]
        epoch: Option<u64>,
        /// What the last command wrote, if the shell marks commands (OSC 133)
        #[arg(long, conflicts_with = "history")]
        last_command: bool,
        /// Only 16 hex digits that are the same for what looks the same
        #[arg(long, conflicts_with_all = ["ansi", "history", "last_command"])]
        digest: bool,
    },
    /// Record what a terminal shows, as asciicast v2, until it ends or Ctrl-C
    Record {
        /// Id or unique name
        terminal: String,
        /// Write it here; the file must not exist
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Pin a terminal's size, or say who decides it
    Resize {
        /// Id or unique name
        terminal: String,
        /// The size that is pinned
        #[arg(value_name = "COLSxROWS", required_unless_present = "policy", conflicts_with = "policy")]
        size: Option<String>,
        /// smallest: the least of all who look; latest: who attached or typed last
        #[arg(long, value_name = "smallest|latest")]
        policy: Option<String>,
        #[command(flatten)]
        change: Change,
    },
    /// Name a terminal; an empty name clears it back to the title
    Rename {
        /// Id or unique name
        terminal: String,
        /// The new name
        name: String,
        #[command(flatten)]
        change: Change,
    },
    /// End a terminal
    Close {
        /// Id or unique name
        terminal: String,
        #[command(flatten)]
        change: Change,
    },
    /// Send a signal to a terminal's foreground programs
    Signal {
        /// Id or unique name
        terminal: String,
        /// INT, TERM, HUP, QUIT, KILL, STOP, CONT, USR1, USR2 or WINCH
        signal: String,
    },
}

#[derive(Debug, Default, Args)]
pub(super) struct AttachLine {
    /// Id or unique name [default: the last used live one, else a new one]
    #[arg(value_name = "TERMINAL")]
    pub(super) named: Option<String>,
    /// The same, for programs
    #[arg(long, value_name = "ID", conflicts_with = "named")]
    pub(super) terminal: Option<String>,
    /// For programs: VT bytes on stdout, JSON lines on stdin and stderr
    #[arg(long)]
    pub(super) pipe_io: bool,
    /// Watch only
    #[arg(long)]
    pub(super) read_only: bool,
    /// Lines of history in a snapshot [default: 1000]
    #[arg(long, value_name = "LINES")]
    pub(super) history: Option<u32>,
    /// Show what is typed before its echo: auto (above 30 ms of round trip), always or never [default: auto]
    #[arg(long, value_name = "WHEN", conflicts_with = "pipe_io")]
    pub(super) predict: Option<String>,
    /// Whether programs may write to the clipboard (OSC 52): off or write [default: off]
    #[arg(long, value_name = "POLICY", conflicts_with = "pipe_io")]
    pub(super) clipboard: Option<String>,
}
