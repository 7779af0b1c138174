//! `server status|stop|audit`.

use keepline_protocol::api::Empty;
use keepline_protocol::api::server::AuditQuery;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::method::{ServerAudit, ServerStatus, ServerStop};
use serde_json::json;

use super::remote::short_ids;
use super::{Outcome, Said, json_line, request};
use crate::bounds::STOP_POLL;
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::text::{age, clean, now_ms, table};
use crate::local::LocalClient;
use crate::paths::Whose;

pub(super) async fn status<H: Host>(context: &Context<H>) -> Outcome {
    let status = match request::<ServerStatus, H>(context, Empty {}).await {
        Ok(status) => status,
        Err(failure) if failure.code == Code::Unreachable => {
            if context.common.json {
                print::stdout(&json_line(&json!({ "serving": false }))?)?;
            }
            return Ok(Said::Exit(print::fail(&failure)));
        }
        Err(failure) => return Err(failure),
    };
    if context.common.json {
        let mut value = serde_json::to_value(&status)
            .map_err(|error| Failure::new(Code::Internal, format!("no JSON form: {error}")))?;
        value["serving"] = true.into();
        return Ok(Said::Data(json_line(&value)?));
    }
    let listeners = if status.listeners.is_empty() { "none".to_owned() } else { status.listeners.join(", ") };
    let rows: Vec<Vec<String>> = [
        ("version", status.version),
        ("generation", status.generation.to_string()),
        ("fingerprint", status.fingerprint),
        ("listeners", listeners),
        ("terminals", status.terminals.to_string()),
        ("links", status.links.to_string()),
        ("state", status.state_dir),
    ]
    .into_iter()
    .map(|(name, value)| vec![name.to_owned(), value])
    .collect();
    Ok(Said::Data(table(&["serving", &format!("pid {}", status.pid)], &rows)))
}

pub(super) async fn audit<H: Host>(context: &Context<H>, device: Option<String>) -> Outcome {
    let entries = request::<ServerAudit, H>(context, AuditQuery { device }).await?.entries;
    if context.common.json {
        return Ok(Said::Data(json_line(&entries)?));
    }
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ids = entries.iter().filter_map(|entry| entry.device);
    let mut ids = short_ids(ids).into_iter();
    let rows: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let revision = entry.cursor.map(|cursor| cursor.revision.to_string());
            vec![
                age(now_ms(), entry.at),
                entry.event,
                cell(entry.device.and_then(|_| ids.next())),
                cell(entry.detail),
                cell(revision),
                entry.count.to_string(),
                cell(entry.peer),
            ]
        })
        .collect();
    let head = ["AGO", "EVENT", "DEVICE", "DETAIL", "REVISION", "COUNT", "PEER"];
    Ok(Said::Data(table(&head, &rows)))
}

/// Tells the daemon to stop, and waits until nobody serves its socket.
pub(super) async fn stop<H: Host>(context: &Context<H>) -> Outcome {
    let endpoint = context.endpoint()?;
    let mut client = LocalClient::connect(&endpoint).await?;
    let running =
        client.request::<ServerStatus>(&Empty {}, context.common.timeout).await.map_or(0, |now| now.terminals);
    match client.request::<ServerStop>(&Empty {}, context.common.timeout).await {
        // A daemon that is quick to end takes its answer with it; whether it ended is seen below.
        Ok(Empty {}) => {}
        Err(failure) if failure.code == Code::OutcomeUnknown => {}
        Err(failure) => return Err(failure),
    }
    // Behind a relay the socket outlives the daemon.
    if !matches!(endpoint.whose, Whose::Machine(_)) {
        let gone = async {
            while LocalClient::connect(&endpoint).await.is_ok() {
                tokio::time::sleep(STOP_POLL).await;
            }
        };
        if tokio::time::timeout(context.common.timeout, gone).await.is_err() {
            return Err(Failure::new(
                Code::Timeout,
                format!("the daemon was told to stop and still serves {}", clean(&endpoint.path.to_string_lossy())),
            ));
        }
    }
    if running > 0 && !context.common.json {
        let them = if running == 1 { "terminal" } else { "terminals" };
        print::note(&format!("stopped; {running} {them} that ran ended with the daemon"));
    }
    Ok(Said::Data(if context.common.json { json_line(&json!({ "stopped": true }))? } else { String::new() }))
}
