//! `remote known-daemons [forget]`, `remote reconnect`, `remote probe`: the machines that are known here, and their relays.

use keepline_carrier::dial::Way;
use keepline_carrier::route::{InvalidRoute, Route};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::VERSIONS;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Outcome, Said, json_line, milliseconds};
use crate::bounds::{RELAY_STATUS_TIME, STOP_POLL};
use crate::cli::context::{Context, Host, KnownDaemon};
use crate::cli::print;
use crate::cli::text::{age, clean, now_ms, table};
use crate::local::LocalClient;
use crate::paths::{Endpoint, MachineName, Whose};

/// What a relay says of its link, and what is said of one that does not run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RelayStatus {
    /// `down`, `connecting` or `up`; `no-relay` when none runs.
    pub(super) state: String,
    /// Why it is not up, in one word.
    pub(super) reason: Option<String>,
    /// The same, in one sentence.
    pub(super) message: Option<String>,
    pub(super) retry_ms: Option<u64>,
    link: Option<String>,
    epoch: Option<u32>,
    rtt_us: Option<u64>,
    since_ms: Option<u64>,
    seen_ms: Option<u64>,
    route: Option<String>,
    pid: Option<u32>,
}

impl RelayStatus {
    pub(super) fn without(state: &str, reason: &str, message: String) -> Self {
        RelayStatus {
            state: state.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            ..RelayStatus::default()
        }
    }

    /// When the next try is, as a person reads it.
    pub(super) fn next(&self) -> String {
        match self.retry_ms {
            Some(1..) if self.state == "down" => in_seconds(self.retry_ms.unwrap_or_default()),
            _ => "-".to_owned(),
        }
    }
}

fn in_seconds(milliseconds: u64) -> String {
    format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100)
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    daemon: KnownDaemon,
    #[serde(flatten)]
    status: RelayStatus,
}

pub(super) async fn list<H: Host>(context: &Context<H>) -> Outcome {
    let mut asked = JoinSet::new();
    for (index, daemon) in context.host.known_daemons()?.into_iter().enumerate() {
        let endpoint = daemon.name.parse().ok().and_then(|name| endpoint(context, &name).ok());
        asked.spawn(async move { (index, ask(endpoint).await, daemon) });
    }
    let mut rows: Vec<(usize, Row)> = asked
        .join_all()
        .await
        .into_iter()
        .map(|(index, status, mut daemon)| {
            // The file says when a carrier was taken; a relay that runs knows better.
            daemon.last_seen_ms = daemon.last_seen_ms.max(status.seen_ms.unwrap_or(0));
            (index, Row { daemon, status })
        })
        .collect();
    rows.sort_by_key(|(index, _)| *index);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    if context.common.json {
        return Ok(Said::Data(json_line(&rows)?));
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|Row { daemon, status }| {
            let route = status.route.as_ref().or_else(|| daemon.routes.first());
            vec![
                daemon.name.clone(),
                status.state.clone(),
                status.reason.clone().unwrap_or_else(|| "-".to_owned()),
                status.next(),
                milliseconds(status.rtt_us),
                age(now_ms(), daemon.last_seen_ms),
                route.map_or_else(|| "-".to_owned(), Clone::clone),
            ]
        })
        .collect();
    print::stdout(&table(&["NAME", "STATE", "REASON", "NEXT", "RTT", "SEEN", "ROUTE"], &cells))?;
    for Row { daemon, status } in &rows {
        // That no relay runs, the row says itself.
        if let Some(message) = &status.message
            && status.reason.as_deref() != Some("no-relay")
        {
            print::note(&clean(&format!("{}: {message}", daemon.name)));
        }
    }
    Ok(Said::Exit(0))
}

pub(super) fn endpoint<H: Host>(context: &Context<H>, name: &MachineName) -> Result<Endpoint, Failure> {
    Ok(Endpoint { path: context.paths.machine_socket(name)?, whose: Whose::Machine(name.clone()) })
}

/// A relay that does not run or does not answer is a state, never a failure.
pub(super) async fn ask(endpoint: Option<Endpoint>) -> RelayStatus {
    let none = || {
        let message = "no relay runs for it here: `keepline remote connect` starts one";
        RelayStatus::without("no-relay", "no-relay", message.to_owned())
    };
    let Some(endpoint) = endpoint else {
        return none();
    };
    let Ok(mut client) = LocalClient::connect(&endpoint).await else {
        // A relay that ends in order takes its socket with it.
        return if endpoint.path.exists() {
            let message = "its relay has died: `keepline remote connect` starts another one";
            RelayStatus::without("no-relay", "relay-died", message.to_owned())
        } else {
            none()
        };
    };
    let answer = client.call("relay.status", json!({}), RELAY_STATUS_TIME).await.and_then(read);
    answer.unwrap_or_else(|failure| RelayStatus::without("down", "no-answer", failure.message))
}

fn read(value: serde_json::Value) -> Result<RelayStatus, Failure> {
    serde_json::from_value(value)
        .map_err(|_| Failure::new(Code::Failed, "its relay gave an answer that cannot be read: is it another version?"))
}

/// Makes a machine's relay try, or probe, now; exit 0 when its link is up then.
/// Says who answers at a route, and whether this client knows them.
pub(super) async fn probe<H: Host>(context: &Context<H>, route: &str, way: &Way) -> Outcome {
    let route: Route = route.parse().map_err(|error: InvalidRoute| Failure::new(Code::Invalid, error.to_string()))?;
    let probed = crate::relay::probe(&route, way).await?;
    let fingerprint = probed.identity.fingerprint();
    let known = context.host.known_daemons()?.into_iter().find(|known| known.fingerprint == fingerprint);
    let machine = known.map(|known| known.name);
    let versions = [*VERSIONS.start(), *VERSIONS.end()];
    Ok(Said::Data(if context.common.json {
        json_line(&json!({
            "route": route.to_string(), "version": probed.version, "versions_offered": versions,
            "fingerprint": fingerprint, "machine": machine,
        }))?
    } else {
        let known = machine.map_or("not known here".to_owned(), |machine| format!("known here as '{machine}'"));
        format!("{route}: keepline, version {}, {fingerprint}, {known}\n", probed.version)
    }))
}

pub(super) async fn reconnect<H: Host>(context: &Context<H>, name: &MachineName) -> Outcome {
    let known = context.known(name)?;
    let endpoint = endpoint(context, name)?;
    let Ok(mut client) = LocalClient::connect(&endpoint).await else {
        let route = known.routes.first().map_or("ROUTE", String::as_str);
        let message =
            format!("no relay runs for '{name}' here: `keepline remote connect {route} --headless` starts one");
        return Err(Failure::new(Code::Unreachable, message));
    };
    let status = client.call("relay.reconnect", json!({}), context.common.timeout).await.and_then(read)?;
    if context.common.json {
        print::stdout(&json_line(&status)?)?;
    }
    if status.state == "up" {
        let said = format!("{name}: up, round trip {}\n", milliseconds(status.rtt_us));
        return Ok(if context.common.json { Said::Exit(0) } else { Said::Data(said) });
    }
    let message = status.message.as_deref().unwrap_or("no reason is known");
    let next = match status.retry_ms {
        Some(retry_ms @ 1..) => format!("; the next try is in {}", in_seconds(retry_ms)),
        _ => String::new(),
    };
    let message = format!("{name}: {}: {message}{next}", status.state);
    Ok(Said::Exit(print::fail(&Failure::new(Code::Unreachable, message))))
}

/// Gives this device another key, and has every relay that runs show it to its daemon, which refuses the older one from
/// then on. A daemon that is not reached now learns of it when it is.
pub(super) async fn rotate_device_key<H: Host>(context: &Context<H>) -> Outcome {
    let serial = context.host.rotate_key()?;
    let mut shown = JoinSet::new();
    for daemon in context.host.known_daemons()? {
        let name = daemon.name.parse().ok();
        let endpoint = name.and_then(|name| endpoint(context, &name).ok());
        let time = context.common.timeout;
        shown.spawn(async move {
            let mut client = LocalClient::connect(&endpoint?).await.ok()?;
            let params = json!({ "rotated": true });
            let answer = client.call("relay.reconnect", params, time).await;
            let status = answer.and_then(read).ok()?;
            (status.state == "up").then_some(daemon.name)
        });
    }
    let mut known_to: Vec<String> = shown.join_all().await.into_iter().flatten().collect();
    known_to.sort();
    Ok(Said::Data(if context.common.json {
        json_line(&json!({ "serial": serial, "known_to": known_to }))?
    } else {
        let machines = match known_to.is_empty() {
            true => "no daemon yet".to_owned(),
            false => known_to.join(", "),
        };
        format!("this device's key is number {serial} now, known to {machines}\n")
    }))
}

/// Ends a machine's relay, and waits until it has ended.
pub(super) async fn disconnect<H: Host>(context: &Context<H>, name: &MachineName) -> Outcome {
    context.known(name)?;
    let pid = end_relay(context, name).await?;
    if pid.is_none() && !context.common.json {
        print::note(&format!("no relay runs for '{name}' here"));
    }
    Ok(Said::Data(if context.common.json { json_line(&json!({ "ended": pid }))? } else { String::new() }))
}

async fn end_relay<H: Host>(context: &Context<H>, name: &MachineName) -> Result<Option<u32>, Failure> {
    let endpoint = endpoint(context, name)?;
    let Some(pid) = ask(Some(endpoint.clone())).await.pid else {
        return Ok(None);
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let failed = |why: String| Failure::new(Code::Failed, format!("the relay of '{name}', pid {pid}, {why}"));
    let told = process.map(|process| kill_process(process, Signal::TERM));
    if let Some(Err(error)) = told {
        return Err(failed(format!("cannot be told to end: {error}")));
    }
    let gone = async {
        while LocalClient::connect(&endpoint).await.is_ok() {
            sleep(STOP_POLL).await;
        }
    };
    timeout(context.common.timeout, gone).await.map_err(|_| failed("was told to end and still runs".to_owned()))?;
    Ok(Some(pid))
}

/// Forgets a machine, whose relay ends first: it would remember it again.
pub(super) async fn forget<H: Host>(context: &Context<H>, name: &MachineName) -> Outcome {
    context.known(name)?;
    end_relay(context, name).await?;
    context.host.forget_daemon(name)?;
    Ok(Said::Data(if context.common.json { json_line(&json!({ "forgotten": name.as_str() }))? } else { String::new() }))
}
