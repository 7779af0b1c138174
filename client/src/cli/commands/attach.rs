//! `attach`, `keepline` alone, and `terminal record`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use keepline_protocol::api::Empty;
use keepline_protocol::api::terminal::TerminalNew as New;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_protocol::registry::method::{ServerStatus, TerminalNew};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{Freshness, Outcome, Said, random_key, read_rows};
use crate::attach::record::Recording;
use crate::attach::session::{AttachRequest, Event, Session};
use crate::attach::{person, pipe_io};
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::settings::Attach;
use crate::local::LocalClient;
use crate::paths::{Endpoint, Whose};

pub(super) async fn attach<H: Host>(context: &Context<H>, settings: Attach) -> Outcome {
    if settings.pipe_io {
        let exit = match prepare(context, &settings).await {
            Ok((endpoint, request)) => pipe_io::run(endpoint, request).await,
            Err(failure) => pipe_io::refuse(&failure).await,
        };
        return Ok(Said::Exit(exit));
    }
    person::check_terminal()?;
    let (endpoint, request) = prepare(context, &settings).await?;
    let manner = person::Manner { predict: settings.predict, clipboard: settings.clipboard };
    person::run(endpoint, request, manner).await.map(Said::Exit)
}

/// Records a terminal until it ends or the person says so.
pub(super) async fn record<H: Host>(context: &Context<H>, terminal: String, file: &Path) -> Outcome {
    let failed = |error: std::io::Error| {
        let message = match error.kind() {
            ErrorKind::AlreadyExists => format!("'{}' exists, and is not overwritten", file.display()),
            _ => format!("cannot record to '{}': {error}", file.display()),
        };
        Failure::new(Code::Failed, message)
    };
    let request = AttachRequest {
        terminal: terminal.clone(),
        size: None,
        observer: true,
        history: 0,
        timeout: context.common.timeout,
        patient: false,
    };
    let mut session = Session::start(context.endpoint()?, request)?;
    session.attached().await?;
    // A second one would be of no use, and neither is one that nobody can end.
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    let out = std::fs::OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    let mut recording = Recording::new(out, &terminal);
    let began = Instant::now();
    print::note(&format!("recording to '{}'; Ctrl-C ends it", file.display()));
    loop {
        let told = futures_util::future::select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv())));
        let event = tokio::select! {
            event = session.next() => event,
            _ = told => break,
        };
        let now = Instant::now();
        match event {
            Event::Snapshot { vt, .. } => recording.snapshot(&vt, now).map_err(failed)?,
            Event::Output(bytes) => recording.output(&bytes, now).map_err(failed)?,
            Event::Size(size) => recording.size(size, now).map_err(failed)?,
            Event::Ended(_) => break,
            Event::Gone(failure) => return Err(failure),
            Event::Link { .. } | Event::Acknowledged | Event::Lost(_) => {}
        }
    }
    print::note(&format!("recorded {} s", began.elapsed().as_secs()));
    Ok(Said::Data(String::new()))
}

async fn prepare<H: Host>(context: &Context<H>, settings: &Attach) -> Result<(Endpoint, AttachRequest), Failure> {
    let endpoint = context.endpoint()?;
    let own = context.own_terminal();
    let terminal = match &settings.terminal {
        Some(terminal) => {
            if endpoint.whose == Whose::OwnDaemon {
                context.client_of_started().await?;
            }
            terminal.clone()
        }
        None => last_or_new(context, own).await?,
    };
    if let Some(own) = own
        && means(&endpoint, context, &terminal, own).await
    {
        return Err(Failure::new(
            Code::Refused,
            "attach refuses the terminal that it runs in: its output would be its own input",
        ));
    }
    Ok((
        endpoint,
        AttachRequest {
            terminal,
            size: None,
            observer: settings.read_only,
            history: settings.history,
            timeout: context.common.timeout,
            patient: settings.pipe_io,
        },
    ))
}

/// Whether `terminal`, an id or a name, means the terminal `own`. When the list cannot be had, a name is taken for
/// another one: attaching will fail for the same reason.
async fn means<H: Host>(endpoint: &Endpoint, context: &Context<H>, terminal: &str, own: TerminalId) -> bool {
    if let Ok(id) = terminal.parse::<TerminalId>() {
        return id == own;
    }
    let Ok(mut client) = LocalClient::connect(endpoint).await else {
        return false;
    };
    let own = own.to_string();
    let rows = client
        .call("terminal.list", json!({}), context.common.timeout)
        .await
        .ok()
        .and_then(|answer| read_rows(answer, "terminals"))
        .unwrap_or_default();
    rows.iter().any(|row| text(row, "id") == own && text(row, "name") == terminal)
}

/// The live terminal that was used last, else a new one of this screen's size.
async fn last_or_new<H: Host>(context: &Context<H>, own: Option<TerminalId>) -> Result<String, Failure> {
    let mut client = context.client_of_started().await?;
    let timeout = context.common.timeout;
    let answer = client.call("terminal.list", json!({}), timeout).await?;
    if is_stale(&answer) {
        // What was used last may be another terminal by now. Without a link this says that there is none.
        client.request::<ServerStatus>(&Empty {}, timeout).await?;
        return Err(Failure::new(
            Code::Unreachable,
            "which terminal was used last is not known while the list is stale: name one with --terminal",
        ));
    }
    let own_text = own.map(|own| own.to_string());
    let last = read_rows(answer, "terminals")
        .unwrap_or_default()
        .into_iter()
        .filter(|row| matches!(text(row, "lifecycle"), "running" | "launching"))
        .filter(|row| Some(text(row, "id")) != own_text.as_deref())
        .max_by_key(|row| row.get("used_ms").and_then(Value::as_u64).unwrap_or(0));
    if let Some(row) = last {
        return Ok(text(&row, "id").to_owned());
    }
    let params = New {
        key: Some(random_key()?),
        caller: own.filter(|_| context.common.machine.is_none()),
        size: person::size(),
        ..New::default()
    };
    let made = client.request::<TerminalNew>(&params, timeout).await?;
    made.value
        .terminal
        .map(|id| id.to_string())
        .ok_or_else(|| Failure::new(Code::Failed, "the daemon made a terminal and does not say which"))
}

fn is_stale(answer: &Value) -> bool {
    Freshness::deserialize(&answer["freshness"]).is_ok_and(|freshness| freshness.is_stale())
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or("")
}
