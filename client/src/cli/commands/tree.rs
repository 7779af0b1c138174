//! `tree`: what a machine shows where.

use keepline_protocol::api::Empty;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::method::SessionSnapshot;
use serde_json::{Map, Value, json};

use super::list::{called, state};
use super::{Freshness, Outcome, Said, cell, in_order, json_line, request};
use crate::cli::context::{Context, Host};
use crate::cli::text::clean;

/// The document's collections, in order.
struct Session(Map<String, Value>);

impl Session {
    fn rows(&self, collection: &str) -> Vec<&Value> {
        self.0.get(collection).and_then(Value::as_array).into_iter().flatten().collect()
    }

    fn those(&self, collection: &str, field: &str, id: &Value) -> Vec<&Value> {
        let mut rows = self.rows(collection);
        rows.retain(|row| row.get(field) == Some(id));
        rows
    }

    /// A row with what it holds under `name`.
    fn with(row: &Value, name: &str, held: Vec<Value>) -> Value {
        let mut row = row.clone();
        row[name] = held.into();
        row
    }

    fn workspace(&self, row: &Value) -> Value {
        let screens = self.those("screens", "workspace_id", &row["id"]).into_iter();
        let screens = screens.map(|screen| {
            let panes = self.those("panes", "screen_id", &screen["id"]).into_iter();
            let panes = panes.map(|pane| {
                let tabs = self.those("tabs", "pane_id", &pane["id"]).into_iter();
                let tabs = tabs.map(|tab| {
                    let shown = self.those("terminals", "id", &tab["terminal_id"]);
                    let mut tab = tab.clone();
                    tab["terminal"] = shown.first().map_or(Value::Null, |row| (*row).clone());
                    tab
                });
                Session::with(pane, "tabs", tabs.collect())
            });
            Session::with(screen, "panes", panes.collect())
        });
        Session::with(row, "screens", screens.collect())
    }

    fn detached(&self) -> Vec<&Value> {
        let mut rows = self.rows("terminals");
        rows.retain(|row| row["tab_ids"].as_array().is_none_or(Vec::is_empty) && row["lifecycle"] != "ended");
        rows
    }
}

pub(super) async fn tree<H: Host>(context: &Context<H>, only: Option<String>) -> Outcome {
    let snapshot = request::<SessionSnapshot, H>(context, Empty {}).await?;
    let unreadable = |error: serde_json::Error| {
        Failure::new(Code::Failed, format!("the session's document cannot be read: {error}"))
    };
    let mut document: Map<String, Value> = snapshot.document.parse().map_err(unreadable)?;
    for rows in document.values_mut() {
        if let Value::Array(list) = rows {
            *list = in_order(std::mem::take(list));
        }
    }
    let session = Session(document);
    let freshness = session.0.get("freshness").cloned().unwrap_or_default();
    if let Ok(freshness) = serde_json::from_value::<Freshness>(freshness.clone()) {
        freshness.tell();
    }
    let mut workspaces = session.rows("workspaces");
    if let Some(only) = &only {
        workspaces.retain(|row| row["id"] == **only || row["name"] == **only);
        if workspaces.is_empty() {
            let message = format!("no workspace has the id or name '{only}'");
            return Err(Failure::new(Code::NotFound, message));
        }
    }
    let machine = context.common.machine.as_ref();
    let machine = machine.map_or("local", |machine| machine.as_str());
    let workspaces: Vec<_> = workspaces.into_iter().map(|row| session.workspace(row)).collect();
    let detached = if only.is_some() { Vec::new() } else { session.detached() };
    Ok(Said::Data(if context.common.json {
        json_line(&json!({
            "machine": machine, "workspaces": workspaces, "detached": detached, "freshness": freshness,
        }))?
    } else {
        drawn(machine, &workspaces, &detached)
    }))
}

/// Two blanks a level. Screens and panes have a line only where there are several.
fn drawn(machine: &str, workspaces: &[Value], detached: &[&Value]) -> String {
    let mut lines = vec![machine.to_owned()];
    for workspace in workspaces {
        lines.push(format!("  {}", cell(workspace, "name")));
        let screens = held(workspace, "screens");
        for (number, screen) in (1..).zip(screens) {
            let panes = held(screen, "panes");
            let mut depth = 2;
            if screens.len() > 1 || panes.len() > 1 {
                let mark = mark(workspace["active_screen_id"] == screen["id"]);
                lines.push(format!("    screen {number}{}{mark}", label(screen)));
                depth += 1;
            }
            for (number, pane) in (1..).zip(panes) {
                let mut depth = depth;
                if panes.len() > 1 {
                    let mark = mark(screen["focused_pane_id"] == pane["id"]);
                    lines.push(format!("{}pane {number}{mark}", "  ".repeat(depth)));
                    depth += 1;
                }
                for tab in held(pane, "tabs") {
                    let name = Some(cell(tab, "name")).filter(|name| name != "-");
                    lines.push(terminal_line(&tab["terminal"], name, depth));
                }
            }
        }
    }
    if !detached.is_empty() {
        lines.push("  (detached)".to_owned());
        lines.extend(detached.iter().map(|row| terminal_line(row, None, 2)));
    }
    lines.iter().map(|line| clean(line).into_owned() + "\n").collect()
}

fn held<'a>(row: &'a Value, name: &str) -> &'a [Value] {
    row[name].as_array().map_or(&[], Vec::as_slice)
}

fn label(row: &Value) -> String {
    match cell(row, "name") {
        name if name == "-" => String::new(),
        name => format!(" {name}"),
    }
}

const fn mark(has_the_focus: bool) -> &'static str {
    if has_the_focus { " *" } else { "" }
}

fn terminal_line(terminal: &Value, name: Option<String>, depth: usize) -> String {
    format!(
        "{}{}  {}  {}  {}",
        "  ".repeat(depth),
        name.unwrap_or_else(|| called(terminal)),
        cell(terminal, "cwd"),
        state(terminal),
        cell(terminal, "id"),
    )
}
