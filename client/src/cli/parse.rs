//! From the command line as it is written to checked settings.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use keepline_carrier::dial::Way;
use keepline_carrier::tls::Trust;
use keepline_protocol::api::layout::{self, Ratio};
use keepline_protocol::api::{Cursor, Json, Size, notification, terminal};
use keepline_protocol::registry::{Method, method};
use keepline_protocol::scope::Scopes;
use keepline_screen::Limits;

use super::arguments::{
    AttachLine, AwaitedLine, Change, ClientVerb, KnownVerb, LayoutVerb, Line, NotificationVerb, NotifyLine, Noun,
    PaneVerb, ProgramLine, RemoteVerb, ScreenVerb, ServerStartLine, ServerVerb, SessionVerb, SideLine, TabVerb,
    TerminalVerb, WaitLine, WayLine, WorkspaceVerb,
};
use super::settings::{
    Ask, Attach, Command, Common, Consumer, Events, Invite, Invocation, Listed, Prints, Read, RemoteConnect,
    ServerStart, Text,
};
use crate::attach::predict::When;
use crate::bounds::{HISTORY_LINES, HISTORY_LINES_MAX, HISTORY_MIB_MAX, REQUEST_SECONDS_MAX, REQUEST_TIME, SIDE_MAX};
use crate::paths::MachineName;

/// A command line that asks for nothing that can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It asks for help or the version: print this on stdout and exit 0.
    Show(String),
    /// It is wrong: say this one sentence and exit 2, or 1 in the way of `attach --pipe-io` when it asks for that.
    Usage {
        /// What is wrong.
        sentence: String,
        /// Whether it asks for `attach --pipe-io`, which has its own way to fail.
        pipe_io: bool,
    },
}

const SIGNALS: [&str; 10] = ["INT", "TERM", "HUP", "QUIT", "KILL", "STOP", "CONT", "USR1", "USR2", "WINCH"];
const LEASE_DEFAULT: u32 = 120;
const LEASE_MAX: u32 = 86_400;

/// Reads a command line, the program's name first.
///
/// # Errors
/// When it asks for help, or cannot be used.
pub fn parse<I, T>(arguments: I) -> Result<Invocation, Unusable>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let written =
        |word: &str| arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == word);
    let pipe_io = written("attach") && written("--pipe-io");
    let usage = |sentence: String| Unusable::Usage { sentence, pipe_io };
    match Line::try_parse_from(&arguments) {
        Ok(line) => checked(line).map_err(usage),
        Err(error) => Err(match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Unusable::Show(error.render().to_string()),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                usage(format!("a command is missing: see {} --help", so_far(&arguments)))
            }
            _ => usage(sentence(&error.render().to_string())),
        }),
    }
}

fn so_far(arguments: &[OsString]) -> String {
    std::iter::once("keepline".into())
        .chain(arguments.iter().skip(1).map(|a| a.to_string_lossy()))
        .filter(|word: &std::borrow::Cow<'_, str>| !word.starts_with('-'))
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first paragraph of clap's message, as one line, and its tip.
fn sentence(message: &str) -> String {
    let mut lines = message.lines().map(str::trim);
    let paragraph: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let line = paragraph.join(" ");
    let said = line.strip_prefix("error: ").unwrap_or(&line).to_owned();
    match lines.find_map(|line| line.strip_prefix("tip: ")) {
        Some(tip) => format!("{said}: {tip}"),
        None => said,
    }
}

fn checked(line: Line) -> Result<Invocation, String> {
    let machine = line.common.machine.as_deref().map(machine_name).transpose()?;
    let timeout = match line.common.timeout {
        None => REQUEST_TIME,
        Some(seconds @ 1..=REQUEST_SECONDS_MAX) => Duration::from_secs(seconds.into()),
        Some(_) => {
            return Err(format!("--timeout takes 1 to {REQUEST_SECONDS_MAX} seconds"));
        }
    };
    let command = command(line.command)?;
    let own = matches!(
        &command,
        Command::ServerStart(_)
            | Command::RemoteConnect(_)
            | Command::Consumer(
                Consumer::KnownDaemons
                    | Consumer::ForgetDaemon(_)
                    | Consumer::Reconnect(_)
                    | Consumer::Disconnect(_)
                    | Consumer::RotateDeviceKey
                    | Consumer::Probe(..)
                    | Consumer::RemoteStdio
            )
    );
    if own && machine.is_some() {
        return Err("--machine does not stand on this command, which is about this machine".into());
    }
    if line.common.all_machines
        && !matches!(&command, Command::Consumer(Consumer::List(_) | Consumer::NotificationWatch(_)))
    {
        return Err("--all-machines stands on lists, as terminal list, and on notification watch only".into());
    }
    Ok(Invocation {
        command,
        common: Common { machine, all_machines: line.common.all_machines, json: line.common.json, timeout },
    })
}

fn command(noun: Option<Noun>) -> Result<Command, String> {
    Ok(match noun {
        None => Command::Bare(attach(AttachLine::default())?),
        Some(Noun::Server(ServerVerb::Start(line))) => Command::ServerStart(server_start(line)?),
        Some(Noun::Server(ServerVerb::Status)) => Command::Consumer(Consumer::ServerStatus),
        // Until there is a keeper, every terminal ends with the daemon.
        Some(Noun::Server(ServerVerb::Stop { all: _ })) => Command::Consumer(Consumer::ServerStop),
        Some(Noun::Server(ServerVerb::Audit { device })) => Command::Consumer(Consumer::ServerAudit(device)),
        Some(Noun::Remote(verb)) => remote(verb)?,
        Some(Noun::Session(SessionVerb::Snapshot)) => Command::Consumer(Consumer::SessionSnapshot),
        Some(Noun::Session(SessionVerb::Events { jsonl, since })) => {
            Command::Consumer(Consumer::SessionEvents(Events {
                jsonl,
                since: since.as_deref().map(cursor).transpose()?,
            }))
        }
        Some(Noun::Workspace(verb)) => Command::Consumer(workspace(verb)?),
        Some(Noun::Screen(verb)) => Command::Consumer(screen(verb)?),
        Some(Noun::Pane(verb)) => Command::Consumer(pane(verb)?),
        Some(Noun::Tab(verb)) => Command::Consumer(tab(verb)?),
        Some(Noun::Terminal(verb)) => Command::Consumer(terminal(verb)?),
        Some(Noun::Tree { address }) => Command::Consumer(Consumer::Tree(address)),
        Some(Noun::Layout(verb)) => Command::Consumer(layout_verb(verb)?),
        Some(Noun::Notify(line)) => Command::Consumer(notify(line)?),
        Some(Noun::Notification(verb)) => Command::Consumer(notification_verb(verb)?),
        Some(Noun::Client(ClientVerb::List)) => Command::Consumer(Consumer::List(Listed::Clients)),
        Some(Noun::Attach(line)) => Command::Consumer(Consumer::Attach(attach(line)?)),
    })
}

fn server_start(line: ServerStartLine) -> Result<ServerStart, String> {
    let seconds = line.remote_resume_lease_seconds.unwrap_or(LEASE_DEFAULT);
    if !(1..=LEASE_MAX).contains(&seconds) {
        return Err(format!("--remote-resume-lease-seconds takes 1 to {LEASE_MAX}"));
    }
    let remote_ws = line.remote_ws.iter().map(|text| listen_address(text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(open) = remote_ws.iter().find(|address| !address.ip().is_loopback() && !line.remote_ws_insecure_bind) {
        return Err(format!(
            "--remote-ws {open} is not loopback: plain WebSocket there needs --remote-ws-insecure-bind"
        ));
    }
    let usual = Limits::default();
    let history_lines = line.history_lines.unwrap_or(usual.history_lines);
    let mib = line.history_mib.unwrap_or(usual.history_bytes >> 20);
    if history_lines > HISTORY_LINES_MAX || mib > HISTORY_MIB_MAX {
        return Err(format!("a terminal keeps at most {HISTORY_LINES_MAX} lines and {HISTORY_MIB_MAX} MiB of history"));
    }
    Ok(ServerStart {
        history: Limits { history_lines, history_bytes: mib << 20 },
        detach: line.detach,
        remote_ws,
        remote_ws_insecure_bind: line.remote_ws_insecure_bind,
        remote_ws_trusted_carrier: line.remote_ws_trusted_carrier,
        resume_lease: Duration::from_secs(seconds.into()),
        state_dir: line.state_dir,
    })
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(Ok(port)) = text.strip_prefix("localhost:").map(str::parse::<u16>) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| format!("'{text}' is no address to listen on: write 127.0.0.1:PORT or [::1]:PORT"))
}

fn remote(verb: RemoteVerb) -> Result<Command, String> {
    Ok(Command::Consumer(match verb {
        RemoteVerb::Connect { route, headless, invite_file, name, carrier, way: raw } => {
            return Ok(Command::RemoteConnect(RemoteConnect {
                route,
                headless,
                invite_file,
                name: name.as_deref().map(machine_name).transpose()?,
                carrier,
                way_arguments: way_arguments(&raw),
                way: way(raw)?,
            }));
        }
        RemoteVerb::Invite { out, ttl, no_approval, route, scope } => {
            if ttl == Some(0) {
                return Err("--ttl takes at least one second".into());
            }
            Consumer::RemoteInvite(Invite {
                out,
                ttl_seconds: ttl,
                no_approval,
                routes: route,
                scopes: (!scope.is_empty()).then(|| scopes(&scope)).transpose()?,
            })
        }
        RemoteVerb::Probe { route, way: raw } => Consumer::Probe(route, way(raw)?),
        RemoteVerb::Stdio => Consumer::RemoteStdio,
        RemoteVerb::Pending => Consumer::RemotePending,
        RemoteVerb::Approve { device } => Consumer::RemoteApprove(device),
        RemoteVerb::Deny { device } => Consumer::RemoteDeny(device),
        RemoteVerb::Devices => Consumer::RemoteDevices,
        RemoteVerb::Connections => Consumer::RemoteConnections,
        RemoteVerb::Revoke { device } => Consumer::RemoteRevoke(device),
        RemoteVerb::Scope { device, scope } => Consumer::RemoteScope(device, scopes(&scope)?),
        RemoteVerb::RotateKey { device: false } => Consumer::RotateDaemonKey,
        RemoteVerb::RotateKey { device: true } => Consumer::RotateDeviceKey,
        RemoteVerb::Reconnect { name } => Consumer::Reconnect(machine_name(&name)?),
        RemoteVerb::Disconnect { name } => Consumer::Disconnect(machine_name(&name)?),
        RemoteVerb::KnownDaemons { verb: None } => Consumer::KnownDaemons,
        RemoteVerb::KnownDaemons { verb: Some(KnownVerb::Forget { name }) } => {
            Consumer::ForgetDaemon(machine_name(&name)?)
        }
    }))
}

fn way(raw: WayLine) -> Result<Way, String> {
    let trust = match (raw.tls_ca, raw.tls_pin) {
        (Some(file), _) => Trust::authorities(&file)?,
        (None, Some(pin)) => Trust::pinned(&pin)?,
        (None, None) => Trust::System,
    };
    Ok(Way { proxy: raw.socks5.as_deref().map(str::parse).transpose()?, trust })
}

/// The same for a relay that is started in the background, from any directory.
fn way_arguments(raw: &WayLine) -> Vec<OsString> {
    let file = raw.tls_ca.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let options = [
        ("--socks5", raw.socks5.as_ref().map(OsString::from)),
        ("--tls-ca", file.map(OsString::from)),
        ("--tls-pin", raw.tls_pin.as_ref().map(OsString::from)),
    ];
    options.into_iter().filter_map(|(name, value)| Some([name.into(), value?])).flatten().collect()
}

fn scopes(names: &[String]) -> Result<Scopes, String> {
    Scopes::of(names).map_err(|unknown| unknown.to_string())
}

fn machine_name(text: &str) -> Result<MachineName, String> {
    text.parse::<MachineName>().map_err(|error| error.to_string())
}

/// A request whose parameters are known to be of its method.
fn ask<M: Method>(params: M::Params, prints: Prints) -> Ask {
    Ask { method: M::NAME, params: serde_json::to_value(params).expect("parameters have a JSON form"), prints }
}

fn change<M: Method>(params: M::Params, prints: Prints) -> Consumer {
    Consumer::Ask(ask::<M>(params, prints))
}

/// Parameters with the terms of a change.
macro_rules! params {
    ($name:ident, $change:ident $(, $field:ident $(: $value:expr)?)*) => {{
        let (key, expect) = terms($change)?;
        layout::$name { key, expect, $($field $(: $value)?,)* }
    }};
}

fn workspace(verb: WorkspaceVerb) -> Result<Consumer, String> {
    let named = |name: &str| {
        if name.is_empty() { Err("a workspace's name is never empty".to_owned()) } else { Ok(()) }
    };
    Ok(match verb {
        WorkspaceVerb::New { name, change: raw } => {
            name.as_deref().map(named).transpose()?;
            let params = params!(WorkspaceNew, raw, name);
            change::<method::WorkspaceNew>(params, Prints::Value("workspace"))
        }
        WorkspaceVerb::List => Consumer::List(Listed::Workspaces),
        WorkspaceVerb::Rename { workspace, name, change: raw } => {
            named(&name)?;
            let params = params!(WorkspaceRename, raw, workspace, name);
            change::<method::WorkspaceRename>(params, Prints::Nothing)
        }
        WorkspaceVerb::Move { workspace, index, change: raw } => {
            let params = params!(WorkspaceMove, raw, workspace, index);
            change::<method::WorkspaceMove>(params, Prints::Nothing)
        }
        WorkspaceVerb::Focus { workspace, change: raw } => {
            let params = params!(WorkspaceFocus, raw, workspace);
            change::<method::WorkspaceFocus>(params, Prints::Nothing)
        }
        WorkspaceVerb::Close { workspace, change: raw } => {
            let params = params!(WorkspaceClose, raw, workspace);
            change::<method::WorkspaceClose>(params, Prints::Nothing)
        }
    })
}

fn screen(verb: ScreenVerb) -> Result<Consumer, String> {
    Ok(match verb {
        ScreenVerb::New { workspace, name, terminal, change: raw, program } => {
            let Program { cwd, size, argv } = program.try_into()?;
            let params = params!(
                ScreenNew, raw, workspace, caller: None, name, terminal, cwd, size, argv
            );
            change::<method::ScreenNew>(params, Prints::Value("screen"))
        }
        ScreenVerb::List => Consumer::List(Listed::Screens),
        ScreenVerb::Rename { screen, name, change: raw } => {
            let params = params!(ScreenRename, raw, screen, name);
            change::<method::ScreenRename>(params, Prints::Nothing)
        }
        ScreenVerb::Move { screen, workspace, index, change: raw } => {
            let params = params!(ScreenMove, raw, screen, workspace, index);
            change::<method::ScreenMove>(params, Prints::Nothing)
        }
        ScreenVerb::Focus { screen, change: raw } => {
            let params = params!(ScreenFocus, raw, screen);
            change::<method::ScreenFocus>(params, Prints::Nothing)
        }
        ScreenVerb::Close { screen, change: raw } => {
            let params = params!(ScreenClose, raw, screen);
            change::<method::ScreenClose>(params, Prints::Nothing)
        }
    })
}

fn direction(side: &SideLine) -> String {
    let word = match side {
        SideLine { down: true, .. } => "down",
        SideLine { left: true, .. } => "left",
        SideLine { up: true, .. } => "up",
        _ => "right",
    };
    word.to_owned()
}

fn ratio(part: f64) -> Result<Ratio, String> {
    if (0.05..=0.95).contains(&part) { Ok(Ratio::of(part)) } else { Err("a ratio is from 0.05 to 0.95".to_owned()) }
}

fn pane(verb: PaneVerb) -> Result<Consumer, String> {
    Ok(match verb {
        PaneVerb::Split { pane, side, ratio: part, terminal, change: raw, program } => {
            let Program { cwd, size, argv } = program.try_into()?;
            let params = params!(
                PaneSplit, raw, pane, caller: None, direction: direction(&side),
                ratio: part.map(ratio).transpose()?, terminal, cwd, size, argv
            );
            change::<method::PaneSplit>(params, Prints::Value("pane"))
        }
        PaneVerb::List => Consumer::List(Listed::Panes),
        PaneVerb::Move { pane, beside, side, change: raw } => {
            let params = params!(PaneMove, raw, pane, beside, direction: direction(&side));
            change::<method::PaneMove>(params, Prints::Nothing)
        }
        PaneVerb::Resize { pane, ratio: part, change: raw } => {
            let params = params!(PaneResize, raw, pane, ratio: Some(ratio(part)?));
            change::<method::PaneResize>(params, Prints::Nothing)
        }
        PaneVerb::Focus { pane, change: raw } => {
            change::<method::PaneFocus>(params!(PaneFocus, raw, pane), Prints::Nothing)
        }
        PaneVerb::Zoom { pane, to, change: raw } => {
            let zoomed = match to.as_deref() {
                None => None,
                Some("on") => Some(true),
                Some("off") => Some(false),
                Some(_) => return Err("--to takes on or off".to_owned()),
            };
            change::<method::PaneZoom>(params!(PaneZoom, raw, pane, zoomed), Prints::Nothing)
        }
        PaneVerb::Close { pane, change: raw } => {
            change::<method::PaneClose>(params!(PaneClose, raw, pane), Prints::Nothing)
        }
    })
}

fn tab(verb: TabVerb) -> Result<Consumer, String> {
    Ok(match verb {
        TabVerb::New { pane, workspace, name, terminal, change: raw, program } => {
            let Program { cwd, size, argv } = program.try_into()?;
            let params = params!(
                TabNew, raw, pane, workspace, caller: None, name, terminal, cwd, size, argv
            );
            change::<method::TabNew>(params, Prints::Value("tab"))
        }
        TabVerb::List => Consumer::List(Listed::Tabs),
        TabVerb::Rename { tab, name, change: raw } => {
            change::<method::TabRename>(params!(TabRename, raw, tab, name), Prints::Nothing)
        }
        TabVerb::Move { tab, pane, index, change: raw } => {
            change::<method::TabMove>(params!(TabMove, raw, tab, pane, index), Prints::Nothing)
        }
        TabVerb::Focus { tab, change: raw } => change::<method::TabFocus>(params!(TabFocus, raw, tab), Prints::Nothing),
        TabVerb::Close { tab, change: raw } => change::<method::TabClose>(params!(TabClose, raw, tab), Prints::Nothing),
    })
}

fn layout_verb(verb: LayoutVerb) -> Result<Consumer, String> {
    Ok(match verb {
        LayoutVerb::Export { workspace } => {
            let params = layout::LayoutExport { workspace };
            change::<method::LayoutExport>(params, Prints::Json("layout"))
        }
        LayoutVerb::Apply { file, workspace, change: raw } => {
            let params = params!(LayoutApply, raw, workspace, layout: Json::default());
            let ask = ask::<method::LayoutApply>(params, Prints::Value("workspace"));
            Consumer::LayoutApply(file, ask)
        }
    })
}

fn notify(line: NotifyLine) -> Result<Consumer, String> {
    if line.reply {
        return Err("notify cannot wait for a reply: nobody is asked anything".to_owned());
    }
    let (key, expect) = terms(line.change)?;
    if line.clear {
        let params = notification::NotificationClear {
            key,
            expect,
            notifications: (line.terminal.is_some() || line.workspace.is_some()).then(Vec::new),
            terminal: line.terminal,
            workspace: line.workspace,
        };
        return Ok(change::<method::NotificationClear>(params, Prints::Nothing));
    }
    let title = line.text.or(line.title);
    if title.is_none() && line.body.is_none() {
        return Err("notify needs a title or --body".to_owned());
    }
    let params = notification::NotificationPost {
        key,
        expect,
        title: title.unwrap_or_default(),
        subtitle: line.subtitle,
        body: line.body,
        level: line.level,
        terminal: line.terminal,
        workspace: line.workspace,
        caller: None,
    };
    Ok(change::<method::NotificationPost>(params, Prints::Value("notification")))
}

fn notification_verb(verb: NotificationVerb) -> Result<Consumer, String> {
    Ok(match verb {
        NotificationVerb::List => Consumer::List(Listed::Notifications),
        NotificationVerb::Ack { notifications, client, everywhere, change: raw } => {
            let (key, expect) = terms(raw)?;
            let params = notification::NotificationAck {
                key,
                expect,
                notifications,
                client,
                everywhere: everywhere.then_some(true),
            };
            change::<method::NotificationAck>(params, Prints::Unknown)
        }
        NotificationVerb::Clear { notifications, terminal, workspace, change: raw } => {
            let (key, expect) = terms(raw)?;
            let params = notification::NotificationClear {
                key,
                expect,
                notifications: (!notifications.is_empty()).then_some(notifications),
                terminal,
                workspace,
            };
            change::<method::NotificationClear>(params, Prints::Unknown)
        }
        NotificationVerb::Watch { jsonl } => Consumer::NotificationWatch(jsonl),
    })
}

/// What a new terminal runs, as parameters.
struct Program {
    cwd: Option<String>,
    size: Option<Size>,
    argv: Option<Vec<String>>,
}

impl TryFrom<ProgramLine> for Program {
    type Error = String;
    fn try_from(line: ProgramLine) -> Result<Self, String> {
        Ok(Program {
            cwd: line.cwd,
            size: line.size.as_deref().map(size).transpose()?,
            argv: (!line.argv.is_empty()).then_some(line.argv),
        })
    }
}

fn terminal(verb: TerminalVerb) -> Result<Consumer, String> {
    Ok(match verb {
        TerminalVerb::New { workspace, detached, name, change: raw, program } => {
            let Program { cwd, size, argv } = program.try_into()?;
            let (key, expect) = terms(raw)?;
            let params = terminal::TerminalNew {
                key,
                expect,
                workspace,
                detached: detached.then_some(true),
                caller: None,
                name,
                cwd,
                size,
                argv,
            };
            change::<method::TerminalNew>(params, Prints::Value("terminal"))
        }
        TerminalVerb::List => Consumer::List(Listed::Terminals),
        TerminalVerb::Send { terminal, text } => Consumer::TerminalSend(terminal, text_of(text)),
        TerminalVerb::Keys { terminal, keys } => {
            let params = terminal::TerminalKeys { terminal, attachment: None, keys };
            change::<method::TerminalKeys>(params, Prints::Nothing)
        }
        TerminalVerb::Paste { terminal, text } => Consumer::TerminalPaste(terminal, text_of(text)),
        TerminalVerb::Mouse { terminal, action, place, button } => {
            let cell = place.split_once(',').and_then(|(column, row)| Some((column.parse().ok()?, row.parse().ok()?)));
            let (column, row) = cell.ok_or_else(|| format!("'{place}' is no place on a screen: it is COL,ROW"))?;
            let params = terminal::TerminalMouse { terminal, attachment: None, action, button, column, row };
            change::<method::TerminalMouse>(params, Prints::Nothing)
        }
        TerminalVerb::Wait(WaitLine { terminal, what: AwaitedLine { matching, exit, idle, prompt } }) => {
            let flag = |set: bool| set.then_some(true);
            let (exit, prompt) = (flag(exit), flag(prompt));
            let params = terminal::TerminalWait { terminal, matching, exit, idle_ms: idle, prompt };
            change::<method::TerminalWait>(params, Prints::Waited)
        }
        TerminalVerb::Read { terminal, ansi, history, epoch, last_command, digest } => {
            let lines = history.as_deref().map(|text| lines(text, epoch)).transpose()?;
            Consumer::TerminalRead(Read { terminal, ansi, lines, last_command, digest })
        }
        TerminalVerb::Resize { terminal, size: raw_size, policy, change: raw } => {
            let (key, expect) = terms(raw)?;
            let size = raw_size.as_deref().map(size).transpose()?;
            let params = terminal::TerminalResize { key, expect, terminal, size, policy };
            change::<method::TerminalResize>(params, Prints::Nothing)
        }
        TerminalVerb::Record { terminal, out } => Consumer::TerminalRecord(terminal, out),
        TerminalVerb::Rename { terminal, name, change: raw } => {
            let (key, expect) = terms(raw)?;
            let params = terminal::TerminalRename { key, expect, terminal, name };
            change::<method::TerminalRename>(params, Prints::Nothing)
        }
        TerminalVerb::Close { terminal, change: raw } => {
            let (key, expect) = terms(raw)?;
            let params = terminal::TerminalClose { key, expect, terminal };
            change::<method::TerminalClose>(params, Prints::Nothing)
        }
        TerminalVerb::Signal { terminal, signal } => {
            let upper = signal.to_ascii_uppercase();
            let name = upper.strip_prefix("SIG").unwrap_or(&upper);
            if !SIGNALS.contains(&name) {
                return Err(format!("'{signal}' is no signal that can be sent: it is one of {}", SIGNALS.join(", ")));
            }
            let params = terminal::TerminalSignal { terminal, signal: name.to_owned() };
            change::<method::TerminalSignal>(params, Prints::Nothing)
        }
    })
}

fn text_of(text: String) -> Text {
    if text == "-" { Text::Stdin } else { Text::Given(text) }
}

/// `FROM..TO`, each of which may be absent.
fn lines(text: &str, epoch: Option<u64>) -> Result<terminal::LineRange, String> {
    let wrong = || format!("'{text}' are no lines: write FROM..TO, as -100.. or 20..40");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let id = |text: &str| (!text.is_empty()).then(|| text.parse().map_err(|_| wrong())).transpose();
    Ok(terminal::LineRange { epoch, from: id(from)?, to: id(to)? })
}

fn attach(mut line: AttachLine) -> Result<Attach, String> {
    line.terminal = line.terminal.or(line.named.take());
    if line.pipe_io && line.terminal.is_none() {
        return Err("attach --pipe-io needs --terminal ID".into());
    }
    Ok(Attach {
        terminal: line.terminal,
        pipe_io: line.pipe_io,
        read_only: line.read_only,
        history: line.history.unwrap_or(HISTORY_LINES),
        predict: match line.predict.as_deref() {
            None | Some("auto") => When::Slow,
            Some("always") => When::Always,
            Some("never") => When::Never,
            Some(other) => return Err(format!("--predict takes auto, always or never, and not '{other}'")),
        },
        clipboard: match line.clipboard.as_deref() {
            None | Some("off") => false,
            Some("write") => true,
            Some(other) => return Err(format!("--clipboard takes off or write, and not '{other}'")),
        },
    })
}

/// The idempotency key and the expected cursor of a change.
fn terms(raw: Change) -> Result<(Option<String>, Option<Cursor>), String> {
    if raw.key.as_deref() == Some("") {
        return Err("an idempotency key is never empty".into());
    }
    Ok((raw.key, raw.expect.as_deref().map(cursor).transpose()?))
}

fn cursor(text: &str) -> Result<Cursor, String> {
    text.split_once(':')
        .and_then(|(generation, revision)| {
            Some(Cursor { generation: generation.parse().ok()?, revision: revision.parse().ok()? })
        })
        .ok_or_else(|| format!("'{text}' is no cursor: it is GENERATION:REVISION, as session snapshot shows it"))
}

fn size(text: &str) -> Result<Size, String> {
    text.split_once(['x', 'X'])
        .and_then(|(cols, rows)| Some((cols.parse().ok()?, rows.parse().ok()?)))
        .filter(|(cols, rows)| (1..=SIDE_MAX).contains(cols) && (1..=SIDE_MAX).contains(rows))
        .map(|(cols, rows)| Size::cells(cols, rows))
        .ok_or_else(|| format!("'{text}' is no size: it is COLSxROWS, each 1 to {SIDE_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Invocation, Unusable> {
        parse(std::iter::once("keepline").chain(line.split_whitespace()))
    }

    fn consumer(line: &str) -> Consumer {
        match read(line).unwrap().command {
            Command::Consumer(consumer) => consumer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Line::command().debug_assert();
    }

    #[test]
    fn commands_mean_what_they_say() {
        let generation = "ab".repeat(16);
        let Consumer::Ask(ask) =
            consumer(&format!("terminal new --workspace w --size 100x30 --key k --expect {generation}:7 -- sh -c x"))
        else {
            panic!("no terminal new");
        };
        assert_eq!(ask.method, "terminal.new");
        assert_eq!(ask.params["size"]["cols"], 100);
        assert_eq!(ask.params["argv"], serde_json::json!(["sh", "-c", "x"]));
        assert_eq!(ask.params["key"], "k");
        assert_eq!(ask.params["expect"]["revision"], 7);
        let Consumer::Ask(split) = consumer("pane split build --down --ratio 0.3") else {
            panic!("no pane split");
        };
        assert_eq!(split.params["direction"], "down");
        assert_eq!(split.params["ratio"], 0.3);
        assert_eq!(consumer("terminal send t -"), Consumer::TerminalSend("t".into(), Text::Stdin));
        assert_eq!(consumer("terminal send t -la"), Consumer::TerminalSend("t".into(), Text::Given("-la".into())));
        let Consumer::Ask(signal) = consumer("terminal signal t sigint") else {
            panic!("no terminal signal");
        };
        assert_eq!(signal.params["signal"], "INT");
        assert_eq!(consumer("remote known-daemons"), Consumer::KnownDaemons);
        assert_eq!(
            consumer("remote scope laptop type,exec"),
            Consumer::RemoteScope("laptop".into(), Scopes::of(&["type", "exec"]).unwrap())
        );
        assert!(read("terminal list --all-machines").unwrap().common.all_machines);
        assert_eq!(consumer("remote reconnect box"), Consumer::Reconnect("box".parse().unwrap()));
        let list = read("workspace list --machine box --json --timeout 3").unwrap();
        assert_eq!(list.common.machine.unwrap().as_str(), "box");
        assert!(list.common.json);
        assert_eq!(list.common.timeout, Duration::from_secs(3));
        assert!(matches!(read("").unwrap().command, Command::Bare(Attach { history: 1000, .. })));
        let Command::ServerStart(start) =
            read("server start --remote-ws [::1]:7 --remote-ws localhost:8").unwrap().command
        else {
            panic!("no server start");
        };
        assert_eq!(start.remote_ws.len(), 2);
        assert_eq!(start.resume_lease, Duration::from_secs(120));
        let Command::RemoteConnect(connect) =
            read("remote connect ws://h:1 --headless --name box --json").unwrap().command
        else {
            panic!("no remote connect");
        };
        assert!(connect.headless);
    }

    #[test]
    fn a_wrong_line_gets_one_sentence() {
        for line in [
            "nonsense",
            "terminal",
            "terminal new --size 0x3",
            "terminal resize t",
            "workspace rename w",
            "attach --history many",
            "session events --since 7",
            "terminal signal t NOPE",
            "server start --remote-ws 0.0.0.0:1",
            "server start --remote-ws nowhere",
            "server start --remote-resume-lease-seconds 0",
            "server start --machine m",
            "workspace list --machine UPPER",
            "workspace list --timeout 0",
            "terminal list --key k",
            "pane split --right --down",
            "pane split p --ratio 2",
            "pane zoom p --to maybe",
            "tab new --terminal t -- sh",
            "notify",
            "notify done --reply",
            "terminal new --workspace w --detached",
            "remote connect ws://h --name -x",
            "remote reconnect",
            "remote reconnect -x",
            "remote reconnect box --machine box",
            "remote rotate-key --device --machine box",
            "remote invite --scope view,root",
            "remote scope laptop",
            "terminal new --all-machines",
            "terminal list --all-machines --machine box",
        ] {
            match read(line) {
                Err(Unusable::Usage { sentence, pipe_io }) => {
                    assert!(!pipe_io, "{line}");
                    assert!(!sentence.is_empty() && !sentence.contains('\n'), "{sentence}");
                    assert!(!sentence.contains("Usage:"), "{sentence}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(read("attach --pipe-io"), Err(Unusable::Usage { pipe_io: true, .. })));
        assert!(matches!(read("--version"), Err(Unusable::Show(text)) if text.starts_with("keepline ")));
        assert!(matches!(read("terminal new --help"), Err(Unusable::Show(_))));
    }
}
