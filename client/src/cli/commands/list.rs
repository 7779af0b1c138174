//! `workspace list` and its like: one collection of the session as a table.

use serde_json::Value;

use super::{Outcome, Said, age_cell, cell, in_order, json_line, rows};
use crate::cli::context::{Context, Host};
use crate::cli::settings::Listed;
use crate::cli::text::table;

impl Listed {
    /// The collection, and the method that lists it.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Listed::Workspaces => ("workspaces", "workspace.list"),
            Listed::Screens => ("screens", "screen.list"),
            Listed::Panes => ("panes", "pane.list"),
            Listed::Tabs => ("tabs", "tab.list"),
            Listed::Terminals => ("terminals", "terminal.list"),
            Listed::Notifications => ("notifications", "notification.list"),
            Listed::Clients => ("clients", "client.list"),
        }
    }

    /// Its rows as a person reads them.
    pub(super) fn table(self, rows: Vec<Value>) -> String {
        let head: &[&str] = match self {
            Listed::Workspaces => &["WORKSPACE", "NAME", "CREATED"],
            Listed::Screens => &["SCREEN", "NAME", "WORKSPACE"],
            Listed::Panes => &["PANE", "SCREEN", "TAB"],
            Listed::Tabs => &["TAB", "NAME", "PANE", "TERMINAL"],
            Listed::Terminals => &["TERMINAL", "NAME", "STATE", "SIZE", "USED"],
            Listed::Notifications => &["NOTIFICATION", "LEVEL", "AGE", "TERMINAL", "TITLE"],
            Listed::Clients => &["CLIENT", "NAME", "SINCE", "ATTACHED"],
        };
        let cells: Vec<_> = in_order(rows).iter().map(|row| self.cells(row)).collect();
        table(head, &cells)
    }

    fn cells(self, row: &Value) -> Vec<String> {
        let of = |fields: &[&str]| fields.iter().map(|field| cell(row, field)).collect::<Vec<_>>();
        let mut cells = match self {
            Listed::Workspaces => of(&["id", "name"]),
            Listed::Screens => of(&["id", "name", "workspace_id"]),
            Listed::Panes => of(&["id", "screen_id", "active_tab_id"]),
            Listed::Tabs => of(&["id", "name", "pane_id", "terminal_id"]),
            Listed::Terminals => vec![cell(row, "id"), called(row), state(row)],
            Listed::Notifications => of(&["id", "level"]),
            Listed::Clients => of(&["client", "name"]),
        };
        match self {
            Listed::Workspaces => cells.push(age_cell(row, "created_ms")),
            Listed::Terminals => {
                let size = row.get("size").unwrap_or(&Value::Null);
                cells.push(format!("{}x{}", cell(size, "cols"), cell(size, "rows")));
                cells.push(age_cell(row, "used_ms"));
            }
            Listed::Notifications => {
                cells.push(age_cell(row, "created_ms"));
                cells.push(cell(row, "terminal_id"));
                cells.push(match cell(row, "title") {
                    title if title == "-" => cell(row, "body"),
                    title => title,
                });
            }
            Listed::Clients => {
                cells.push(age_cell(row, "since_ms"));
                let attached = row.get("attached").and_then(Value::as_array);
                let terminals = attached.into_iter().flatten();
                let terminals: Vec<_> = terminals.map(|to| cell(to, "terminal_id")).collect();
                cells.push(terminals.join(" "));
            }
            _ => {}
        }
        cells
    }
}

pub(super) async fn list<H: Host>(context: &Context<H>, listed: Listed) -> Outcome {
    let (collection, method) = listed.names();
    let rows = rows(context, method, collection).await?;
    Ok(Said::Data(if context.common.json { json_line(&rows)? } else { listed.table(rows) }))
}

/// A terminal's label, else its title.
pub(super) fn called(row: &Value) -> String {
    match cell(row, "name") {
        name if name == "-" => cell(row, "title"),
        name => name,
    }
}

/// Where a terminal is in its life, and how it ended.
pub(super) fn state(row: &Value) -> String {
    let exit = row.get("exit").unwrap_or(&Value::Null);
    let member = |name| exit.get(name).map(|_| cell(exit, name));
    let how = if exit.is_null() {
        String::new()
    } else if let Some(status) = member("status") {
        format!(" {status}")
    } else if let Some(signal) = member("signal") {
        format!(" by signal {signal}")
    } else {
        let reason = member("reason").unwrap_or_else(|| cell(row, "exit"));
        format!(", {reason}")
    };
    format!("{}{how}", cell(row, "lifecycle"))
}
