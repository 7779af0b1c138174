//! `workspace new|list|rename|close`.

use keepline_protocol::api::session::{
    WorkspaceClose as Close, WorkspaceNew as New, WorkspaceRename as Rename,
};
use keepline_protocol::registry::method::{WorkspaceClose, WorkspaceNew, WorkspaceRename};
use serde_json::Value;

use super::{Outcome, Said, age_cell, ask, cell, in_order, json_line, receipt, rows};
use crate::cli::context::{Context, Host};
use crate::cli::settings::Change;
use crate::cli::text::table;

pub(super) async fn new<H: Host>(
    context: &Context<H>,
    name: Option<String>,
    change: Change,
) -> Outcome {
    let params = New {
        key: change.key()?,
        expect: change.expect,
        name,
    };
    let made = ask::<WorkspaceNew, H>(context, params).await?;
    receipt(context, &made, |path| format!("{}\n", path.workspace))
}

pub(super) async fn list<H: Host>(context: &Context<H>) -> Outcome {
    let rows = rows(context, "workspace.list", "workspaces").await?;
    Ok(Said::Data(if context.common.json {
        json_line(&rows)?
    } else {
        table_of(in_order(rows))
    }))
}

pub(super) fn table_of(rows: Vec<Value>) -> String {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                cell(row, "id"),
                cell(row, "name"),
                age_cell(row, "created_ms"),
            ]
        })
        .collect();
    table(&["WORKSPACE", "NAME", "CREATED"], &cells)
}

pub(super) async fn rename<H: Host>(
    context: &Context<H>,
    workspace: String,
    name: String,
    change: Change,
) -> Outcome {
    let params = Rename {
        key: change.key()?,
        expect: change.expect,
        workspace,
        name,
    };
    let changed = ask::<WorkspaceRename, H>(context, params).await?;
    receipt(context, &changed, |_| String::new())
}

pub(super) async fn close<H: Host>(
    context: &Context<H>,
    workspace: String,
    change: Change,
) -> Outcome {
    let params = Close {
        key: change.key()?,
        expect: change.expect,
        workspace,
    };
    let changed = ask::<WorkspaceClose, H>(context, params).await?;
    receipt(context, &changed, |_| String::new())
}
