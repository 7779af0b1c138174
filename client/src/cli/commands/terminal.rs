//! `terminal new|list|send|read|resize|rename|close|signal`.

use std::io::Read;

use bytes::Bytes;
use keepline_protocol::api::terminal::{
    TerminalClose as Close, TerminalNew as New, TerminalRead as ReadScreen,
    TerminalRename as Rename, TerminalResize as Resize, TerminalSend as Send,
    TerminalSignal as Signal,
};
use keepline_protocol::api::{Blob, Empty, Size};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::registry::method::{
    TerminalClose, TerminalNew, TerminalRead, TerminalRename, TerminalResize, TerminalSend,
    TerminalSignal,
};
use serde_json::{Value, json};

use super::{Outcome, Said, age_cell, ask, cell, in_order, json_line, receipt, rows};
use crate::bounds::SEND_PIECE;
use crate::cli::context::{Context, Host};
use crate::cli::settings::{Change, TerminalNew as Settings, Text};
use crate::cli::text::{clean, clean_keeping_colours, table};
use crate::local::LocalClient;

pub(super) async fn new<H: Host>(
    context: &Context<H>,
    settings: Settings,
    change: Change,
) -> Outcome {
    let mut client = context.client_of_started().await?;
    let here = context.common.machine.is_none();
    let params = New {
        key: change.key()?,
        expect: change.expect,
        workspace: settings.workspace,
        detached: settings.detached.then_some(true),
        // Another machine knows nothing of the terminal that this runs in.
        caller: context.own_terminal().filter(|_| here),
        name: settings.name,
        cwd: settings
            .cwd
            .map(|cwd| if here { absolute(cwd) } else { Ok(cwd) })
            .transpose()?,
        size: settings.size,
        argv: (!settings.argv.is_empty()).then_some(settings.argv),
    };
    let made = client
        .request::<TerminalNew>(&params, context.common.timeout)
        .await?;
    receipt(context, &made, |path| format!("{}\n", path.terminal))
}

/// A relative directory is meant from where the person is, not from where the daemon is.
fn absolute(cwd: String) -> Result<String, Failure> {
    std::path::absolute(&cwd)
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| Failure::new(Code::Failed, format!("--cwd {cwd} cannot be made absolute")))
}

pub(super) async fn list<H: Host>(context: &Context<H>) -> Outcome {
    let rows = rows(context, "terminal.list", "terminals").await?;
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
            let name = match cell(row, "name") {
                name if name == "-" => cell(row, "title"),
                name => name,
            };
            let size = row.get("size").unwrap_or(&Value::Null);
            vec![
                cell(row, "id"),
                name,
                format!("{}{}", cell(row, "lifecycle"), exit(row)),
                format!("{}x{}", cell(size, "cols"), cell(size, "rows")),
                age_cell(row, "used_ms"),
            ]
        })
        .collect();
    table(&["TERMINAL", "NAME", "STATE", "SIZE", "USED"], &cells)
}

/// How a terminal ended, as it stands behind its state; nothing for one that lives.
fn exit(row: &Value) -> String {
    let exit = row.get("exit").unwrap_or(&Value::Null);
    let member = |name| exit.get(name).map(|_| cell(exit, name));
    if exit.is_null() {
        String::new()
    } else if let Some(status) = member("status") {
        format!(" {status}")
    } else if let Some(signal) = member("signal") {
        format!(" by signal {signal}")
    } else {
        format!(
            ", {}",
            member("reason").unwrap_or_else(|| cell(row, "exit"))
        )
    }
}

/// Sends the text, a long one in pieces. Each piece is one conversation of its own, so that a repetition on the way
/// writes it once.
pub(super) async fn send<H: Host>(context: &Context<H>, terminal: String, text: Text) -> Outcome {
    let mut client = context.client().await?;
    let mut written = 0;
    match text {
        Text::Given(text) => {
            let mut text = Bytes::from(text);
            loop {
                let piece = text.split_to(text.len().min(SEND_PIECE));
                written += send_piece(context, &mut client, &terminal, piece).await?;
                if text.is_empty() {
                    break;
                }
            }
        }
        Text::Stdin => loop {
            let piece = tokio::task::spawn_blocking(|| {
                let mut piece = Vec::new();
                std::io::stdin()
                    .lock()
                    .take(SEND_PIECE as u64)
                    .read_to_end(&mut piece)
                    .map(|_| piece)
            });
            let piece = piece
                .await
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?
                .map_err(|error| {
                    Failure::new(Code::Failed, format!("cannot read stdin: {error}"))
                })?;
            let last = piece.len() < SEND_PIECE;
            if !piece.is_empty() || written == 0 {
                written += send_piece(context, &mut client, &terminal, piece.into()).await?;
            }
            if last {
                break;
            }
        },
    }
    Ok(Said::Data(if context.common.json {
        json_line(&json!({ "written": written }))?
    } else {
        String::new()
    }))
}

async fn send_piece<H: Host>(
    context: &Context<H>,
    client: &mut LocalClient,
    terminal: &str,
    data: Bytes,
) -> Result<u64, Failure> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        Failure::new(
            Code::Failed,
            format!("no randomness from the system: {error}"),
        )
    })?;
    let params = Send {
        terminal: terminal.to_owned(),
        attachment: Some(AttachmentId::from_bytes(id)),
        data: Blob(data),
    };
    client
        .request::<TerminalSend>(&params, context.common.timeout)
        .await
        .map(|sent| sent.written)
}

pub(super) async fn read<H: Host>(context: &Context<H>, terminal: String, ansi: bool) -> Outcome {
    let params = ReadScreen {
        terminal,
        ansi: ansi.then_some(true),
    };
    let screen = ask::<TerminalRead, H>(context, params).await?;
    Ok(Said::Data(if context.common.json {
        json_line(&screen)?
    } else {
        screen_text(&screen.rows, ansi)
    }))
}

fn screen_text(rows: &[String], ansi: bool) -> String {
    let mut text = String::new();
    let mut kept = 0;
    for row in rows {
        let line = if ansi {
            clean_keeping_colours(row)
        } else {
            clean(row).trim_end().to_owned()
        };
        let coloured = line.contains('\x1b');
        text.push_str(&line);
        // A colour must not run into the next row, nor into the shell.
        if coloured && !line.ends_with("\x1b[m") && !line.ends_with("\x1b[0m") {
            text.push_str("\x1b[m");
        }
        text.push('\n');
        if coloured || !line.trim_end().is_empty() {
            kept = text.len();
        }
    }
    text.truncate(kept);
    text
}

pub(super) async fn resize<H: Host>(
    context: &Context<H>,
    terminal: String,
    size: Size,
    change: Change,
) -> Outcome {
    let params = Resize {
        key: change.key()?,
        expect: change.expect,
        terminal,
        size,
    };
    let changed = ask::<TerminalResize, H>(context, params).await?;
    receipt(context, &changed, |_| String::new())
}

pub(super) async fn rename<H: Host>(
    context: &Context<H>,
    terminal: String,
    name: String,
    change: Change,
) -> Outcome {
    let params = Rename {
        key: change.key()?,
        expect: change.expect,
        terminal,
        name,
    };
    let changed = ask::<TerminalRename, H>(context, params).await?;
    receipt(context, &changed, |_| String::new())
}

pub(super) async fn close<H: Host>(
    context: &Context<H>,
    terminal: String,
    change: Change,
) -> Outcome {
    let params = Close {
        key: change.key()?,
        expect: change.expect,
        terminal,
    };
    let changed = ask::<TerminalClose, H>(context, params).await?;
    receipt(context, &changed, |_| String::new())
}

pub(super) async fn signal<H: Host>(
    context: &Context<H>,
    terminal: String,
    signal: String,
) -> Outcome {
    let Empty {} = ask::<TerminalSignal, H>(context, Signal { terminal, signal }).await?;
    Ok(Said::Data(if context.common.json {
        json_line(&json!({}))?
    } else {
        String::new()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_a_line_per_row_without_blank_rows_at_its_end() {
        let rows = |rows: &[&str]| rows.iter().map(|&row| row.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            screen_text(&rows(&["$ ls  ", "", "a\x1bb\u{202e}", " ", ""]), false),
            "$ ls\n\nab\n"
        );
        assert_eq!(
            screen_text(&rows(&["\x1b[31mred", "\x1b]0;x\x07", ""]), true),
            "\x1b[31mred\x1b[m\n]0;x\n"
        );
        assert_eq!(screen_text(&rows(&["", ""]), false), "");
    }
}
