//! `session snapshot|events`.

use keepline_protocol::api::Empty;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::method::SessionSnapshot;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Freshness, Outcome, Said, cell, request};
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::settings::{Events, Listed};
use crate::cli::text::clean;
use crate::local::SessionEvent;

pub(super) async fn snapshot<H: Host>(context: &Context<H>) -> Outcome {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default)]
        freshness: Option<Freshness>,
        #[serde(default)]
        sync_reason: Option<String>,
        #[serde(default)]
        cursor: Value,
        #[serde(default)]
        workspaces: Vec<Value>,
        #[serde(default)]
        terminals: Vec<Value>,
        #[serde(default)]
        notifications: Vec<Value>,
    }
    let snapshot = request::<SessionSnapshot, H>(context, Empty {}).await?;
    let document: Document = snapshot
        .document
        .parse()
        .map_err(|error| Failure::new(Code::Failed, format!("the session's document cannot be read: {error}")))?;
    if let Some(freshness) = &document.freshness {
        freshness.tell();
    }
    if let Some(reason) = &document.sync_reason {
        print::note(&clean(reason));
    }
    if context.common.json {
        return Ok(Said::Data(format!("{}\n", snapshot.document.as_str())));
    }
    let cursor = format!(
        "cursor {}:{}\n",
        clean(&cell(&document.cursor, "generation")),
        clean(&cell(&document.cursor, "revision"))
    );
    let tables = [
        Listed::Workspaces.table(document.workspaces),
        Listed::Terminals.table(document.terminals),
        Listed::Notifications.table(document.notifications),
    ];
    let mut text = cursor;
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(table);
    }
    Ok(Said::Data(text))
}

/// Prints changes until the other side goes away or nobody reads them.
pub(super) async fn events<H: Host>(context: &Context<H>, events: Events) -> Outcome {
    let as_json = events.jsonl || context.common.json;
    let (started, mut stream) = context.client().await?.events(events.since, context.common.timeout).await?;
    if let (Some(reason), Some(document)) = (started.reset, started.document)
        && !print::stdout(&reset_line(&reason, document.as_str(), as_json))?
    {
        return Ok(Said::Exit(0));
    }
    loop {
        let line = match stream.next().await? {
            SessionEvent::Delta(delta) if as_json => format!("{}\n", delta.get()),
            SessionEvent::Delta(delta) => delta_lines(&delta),
            SessionEvent::Reset { reason, document } => reset_line(&reason, document.get(), as_json),
        };
        if !print::stdout(&line)? {
            return Ok(Said::Exit(0));
        }
    }
}

fn reset_line(reason: &str, document: &str, as_json: bool) -> String {
    if as_json {
        // The document is passed on as the text that it is.
        format!("{{\"reset\":{},\"document\":{document}}}\n", json!(reason))
    } else {
        format!("reset: {}\n", clean(reason))
    }
}

fn delta_lines(delta: &RawValue) -> String {
    let delta: Value = serde_json::from_str(delta.get()).unwrap_or_default();
    let mut lines = String::new();
    for change in delta.get("changes").and_then(Value::as_array).into_iter().flatten() {
        let name = change.get("row").map_or_else(String::new, |row| match cell(row, "name").as_str() {
            "-" => String::new(),
            name => format!(" {name}"),
        });
        let line = format!(
            "{} {} {} {}{name}",
            cell(&delta, "revision"),
            cell(change, "op"),
            cell(change, "kind"),
            cell(change, "id"),
        );
        lines.push_str(&clean(&line));
        lines.push('\n');
    }
    lines
}
