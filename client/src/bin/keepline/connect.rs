//! `remote connect`: the relay in the foreground, or in the background behind an attachment.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use keepline_carrier::route::Route;
use keepline_client::attach::predict::When;
use keepline_client::bounds::HISTORY_LINES;
use keepline_client::cli::settings::{Attach, RemoteConnect};
use keepline_client::cli::{self, Consumer, Context, Host};
use keepline_client::local::LocalClient;
use keepline_client::paths::{Endpoint, MachineName, Paths, Whose};
use keepline_client::relay::{self, Report, Settings};
use keepline_client::state::State;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::invitation::{FILE_MAX, Invitation};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::background::{self, Background};

/// Does `remote connect`.
pub(crate) async fn connect<H: Host>(settings: RemoteConnect, mut context: Context<H>) -> u8 {
    let done = if settings.headless {
        headless(&settings, &context).await
    } else {
        match in_background(&settings, &context).await {
            Ok(machine) => {
                eprintln!("keepline: connected to '{machine}'; its relay stays in the background");
                context.common.machine = Some(machine);
                return attach(&mut context).await;
            }
            Err(failure) => Err(failure),
        }
    };
    match done {
        Ok(()) => 0,
        Err(failure) => cli::fail(&failure),
    }
}

async fn headless<H: Host>(settings: &RemoteConnect, context: &Context<H>) -> Result<(), Failure> {
    let settings = Settings {
        route: route(settings)?,
        invitation: settings.invite_file.as_deref().map(read_invitation).transpose()?,
        name: settings.name.clone(),
        trusted: settings.carrier,
        way: settings.way.clone(),
    };
    let mut teller = Teller {
        json: context.common.json,
        words: !context.common.json || background::is_background(),
        last: String::new(),
    };
    let relay = relay::run(settings, &context.paths, |report| teller.tell(report));
    let mut terminate = signals(SignalKind::terminate())?;
    let mut interrupt = signals(SignalKind::interrupt())?;
    tokio::select! {
        ended = relay => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

fn signals(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(Code::Failed, format!("cannot wait for a signal: {error}")))
}

fn route(settings: &RemoteConnect) -> Result<Route, Failure> {
    settings
        .route
        .parse()
        .map_err(|error: keepline_carrier::route::InvalidRoute| Failure::new(Code::Invalid, error.to_string()))
}

fn read_invitation(path: &Path) -> Result<Invitation, Failure> {
    let failed = |code, reason: String| Failure::new(code, format!("{}: {reason}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| failed(Code::Invalid, error.to_string()))?;
    if !metadata.is_file() || metadata.len() > FILE_MAX as u64 {
        return Err(failed(Code::Refused, "this is not a keepline invitation file".to_owned()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(failed(
            Code::Refused,
            "others may read this secret: ask for a new invitation, or make it `chmod 600` if none did".to_owned(),
        ));
    }
    let text = std::fs::read(path).map_err(|error| failed(Code::Invalid, error.to_string()))?;
    Invitation::from_file(&String::from_utf8_lossy(&text)).map_err(|error| failed(Code::Refused, error.to_string()))
}

/// Tells how a relay's link stands, on a stdout of JSON lines, or in words on stderr. In the background it does both: the
/// words go to the log. Nobody listening is no reason to end.
struct Teller {
    json: bool,
    words: bool,
    last: String,
}

impl Teller {
    fn tell(&mut self, report: &Report) {
        if self.json {
            let line = serde_json::to_string(report).expect("a struct of strings has a JSON form");
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdout.flush());
        }
        // What is new, and not each try that ends like the one before.
        if self.words
            && let Some(words) = in_words(report)
            && words != self.last
        {
            let _ = writeln!(std::io::stderr(), "keepline: {}", cli::text::clean(&words));
            self.last = words;
        }
    }
}

/// A report in words; nothing for what is no news.
fn in_words(report: &Report) -> Option<String> {
    let name = report.machine.as_deref().unwrap_or(&report.route);
    match (&*report.state, &report.message, report.retry_ms) {
        ("up", ..) => Some(format!("{name}: connected")),
        ("down", Some(message), Some(_)) => Some(format!("{name}: {message}; trying again")),
        // The sentence that ends it all is said last.
        ("down", ..) => None,
        (_, Some(message), _) => Some(format!("{name}: {message}")),
        _ => None,
    }
}

/// Starts the relay in the background, unless one runs, and waits until its link is up. Interrupted before that, it ends
/// the relay again.
async fn in_background<H: Host>(settings: &RemoteConnect, context: &Context<H>) -> Result<MachineName, Failure> {
    let route = route(settings)?.to_string();
    let state_dir = context.paths.state_dir()?;
    let state = State::open(state_dir)?;
    if let Some(machine) = running(&context.paths, &state, &route, settings.name.as_ref()).await? {
        return Ok(machine);
    }
    let mut arguments: Vec<OsString> =
        vec!["remote".into(), "connect".into(), settings.route.clone().into(), "--headless".into(), "--json".into()];
    if let Some(file) = &settings.invite_file {
        let file = std::fs::canonicalize(file)
            .map_err(|error| Failure::new(Code::Invalid, format!("{}: {error}", file.display())))?;
        arguments.extend(["--invite-file".into(), file.into()]);
    }
    arguments.extend(settings.way_arguments.iter().cloned());
    if settings.carrier {
        arguments.push("--carrier".into());
    }
    if let Some(name) = &settings.name {
        arguments.extend(["--name".into(), name.as_str().into()]);
    }
    let mut interrupt = signals(SignalKind::interrupt())?;
    let mut relay = background::start(&arguments, &state_dir.join("relay.log"))?;
    let connected = timeout(context.common.timeout, up(&mut relay));
    tokio::select! {
        connected = connected => match connected {
            Ok(connected) => connected,
            Err(_) => Err(Failure::new(
                Code::Timeout,
                format!(
                    "no link to {route} after {} s; the relay goes on trying, see {}",
                    context.common.timeout.as_secs(),
                    state_dir.join("relay.log").display()
                ),
            )),
        },
        _ = interrupt.recv() => {
            relay.stop().await;
            Err(Failure::new(Code::Failed, "interrupted; the relay that was started has ended"))
        }
    }
}

/// Waits until a relay's link is up, and says meanwhile what it waits for.
async fn up(relay: &mut Background) -> Result<MachineName, Failure> {
    let mut teller = Teller { json: false, words: true, last: String::new() };
    if let Some(mut lines) = relay.lines() {
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(report) = serde_json::from_str::<Report>(&line) else {
                continue;
            };
            if report.state == "up"
                && let Some(Ok(machine)) = report.machine.as_deref().map(str::parse)
            {
                return Ok(machine);
            }
            teller.tell(&report);
        }
    }
    Err(relay.end().await)
}

/// The machine at `route` whose relay runs and has its link.
async fn running(
    paths: &Paths,
    state: &State,
    route: &str,
    name: Option<&MachineName>,
) -> Result<Option<MachineName>, Failure> {
    for (machine, known) in state.known()? {
        if !known.routes.iter().any(|known| known == route) || name.is_some_and(|name| *name != machine) {
            continue;
        }
        let endpoint = Endpoint { path: paths.machine_socket(&machine)?, whose: Whose::Machine(machine.clone()) };
        if let Ok(mut client) = LocalClient::connect(&endpoint).await
            && let Ok(status) = client.call("relay.status", json!({}), Duration::from_secs(2)).await
            && status["state"] == "up"
        {
            return Ok(Some(machine));
        }
    }
    Ok(None)
}

async fn attach<H: Host>(context: &mut Context<H>) -> u8 {
    if !std::io::stdin().is_terminal() {
        return 0;
    }
    let attach = Attach {
        terminal: None,
        pipe_io: false,
        read_only: false,
        history: HISTORY_LINES,
        predict: When::Slow,
        clipboard: false,
    };
    cli::run(Consumer::Attach(attach), context).await
}
