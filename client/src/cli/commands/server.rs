//! `server status|stop`.

use keepline_protocol::api::Empty;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::method::{ServerStatus, ServerStop};
use serde_json::json;

use super::{Outcome, Said, json_line, request};
use crate::bounds::STOP_POLL;
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::text::{clean, table};
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
    let listeners = if status.listeners.is_empty() {
        "none".to_owned()
    } else {
        status.listeners.join(", ")
    };
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
    Ok(Said::Data(table(
        &["serving", &format!("pid {}", status.pid)],
        &rows,
    )))
}

/// Tells the daemon to stop, and waits until nobody serves its socket.
pub(super) async fn stop<H: Host>(context: &Context<H>) -> Outcome {
    let endpoint = context.endpoint()?;
    let mut client = LocalClient::connect(&endpoint).await?;
    match client
        .request::<ServerStop>(&Empty {}, context.common.timeout)
        .await
    {
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
        if tokio::time::timeout(context.common.timeout, gone)
            .await
            .is_err()
        {
            return Err(Failure::new(
                Code::Timeout,
                format!(
                    "the daemon was told to stop and still serves {}",
                    clean(&endpoint.path.to_string_lossy())
                ),
            ));
        }
    }
    Ok(Said::Data(if context.common.json {
        json_line(&json!({ "stopped": true }))?
    } else {
        String::new()
    }))
}
