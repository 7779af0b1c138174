//! `remote known-daemons [forget]`.

use std::path::PathBuf;

use keepline_protocol::failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

use super::{Outcome, Said, json_line};
use crate::bounds::RELAY_STATUS_TIME;
use crate::cli::context::{Context, Host, KnownDaemon};
use crate::cli::text::{age, now_ms, table};
use crate::local::LocalClient;
use crate::paths::{Endpoint, MachineName, Whose};

/// What a relay says of its link, and what is said of one that does not run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RelayStatus {
    /// `down`, `connecting` or `up`; `no-relay` when none runs.
    state: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    retry_ms: Option<u64>,
    #[serde(default)]
    route: Option<String>,
    #[serde(default)]
    pid: Option<u32>,
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
        let socket = daemon
            .name
            .parse::<MachineName>()
            .ok()
            .and_then(|name| Some((context.paths.machine_socket(&name).ok()?, name)));
        asked.spawn(async move { (index, ask(socket).await, daemon) });
    }
    let mut rows: Vec<(usize, Row)> = asked
        .join_all()
        .await
        .into_iter()
        .map(|(index, status, daemon)| (index, Row { daemon, status }))
        .collect();
    rows.sort_by_key(|(index, _)| *index);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    if context.common.json {
        return Ok(Said::Data(json_line(&rows)?));
    }
    let cells: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let why = row.status.reason.filter(|reason| !reason.is_empty());
            vec![
                row.daemon.name,
                why.map_or_else(
                    || row.status.state.clone(),
                    |why| format!("{} ({why})", row.status.state),
                ),
                row.status
                    .route
                    .or_else(|| row.daemon.routes.first().cloned())
                    .unwrap_or_else(|| "-".to_owned()),
                age(now_ms(), row.daemon.last_seen_ms),
                row.daemon.fingerprint,
            ]
        })
        .collect();
    Ok(Said::Data(table(
        &["NAME", "STATE", "ROUTE", "SEEN", "FINGERPRINT"],
        &cells,
    )))
}

/// A relay that does not run or does not answer is a state, never a failure.
async fn ask(socket: Option<(PathBuf, MachineName)>) -> RelayStatus {
    let without = |state: &str, reason: Option<String>| RelayStatus {
        state: state.to_owned(),
        reason,
        retry_ms: None,
        route: None,
        pid: None,
    };
    let Some((path, name)) = socket else {
        return without("no-relay", None);
    };
    let endpoint = Endpoint {
        path,
        whose: Whose::Machine(name),
    };
    let Ok(mut client) = LocalClient::connect(&endpoint).await else {
        return without("no-relay", None);
    };
    let answer = client
        .call("relay.status", json!({}), RELAY_STATUS_TIME)
        .await
        .and_then(|value| {
            serde_json::from_value(value).map_err(|_| {
                Failure::new(
                    keepline_protocol::failure::Code::Failed,
                    "its relay gave an answer that cannot be read",
                )
            })
        });
    answer.unwrap_or_else(|failure| without("down", Some(failure.message)))
}

pub(super) fn forget<H: Host>(context: &Context<H>, name: &MachineName) -> Outcome {
    context.host.forget_daemon(name)?;
    Ok(Said::Data(if context.common.json {
        json_line(&json!({ "forgotten": name.as_str() }))?
    } else {
        String::new()
    }))
}
