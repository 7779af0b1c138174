//! `terminal send|read`.

use std::io::Read;

use bytes::Bytes;
use keepline_protocol::api::Blob;
use keepline_protocol::api::terminal::{TerminalRead as ReadScreen, TerminalSend as Send};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::registry::method::{TerminalRead, TerminalSend};
use serde_json::json;

use super::{Outcome, Said, json_line, request};
use crate::bounds::SEND_PIECE;
use crate::cli::context::{Context, Host};
use crate::cli::settings::Text;
use crate::cli::text::{clean, clean_keeping_colours};
use crate::local::LocalClient;

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
                std::io::stdin().lock().take(SEND_PIECE as u64).read_to_end(&mut piece).map(|_| piece)
            });
            let piece = piece
                .await
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?
                .map_err(|error| Failure::new(Code::Failed, format!("cannot read stdin: {error}")))?;
            let last = piece.len() < SEND_PIECE;
            if !piece.is_empty() || written == 0 {
                written += send_piece(context, &mut client, &terminal, piece.into()).await?;
            }
            if last {
                break;
            }
        },
    }
    Ok(Said::Data(if context.common.json { json_line(&json!({ "written": written }))? } else { String::new() }))
}

async fn send_piece<H: Host>(
    context: &Context<H>,
    client: &mut LocalClient,
    terminal: &str,
    data: Bytes,
) -> Result<u64, Failure> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| Failure::new(Code::Failed, format!("no randomness from the system: {error}")))?;
    let params =
        Send { terminal: terminal.to_owned(), attachment: Some(AttachmentId::from_bytes(id)), data: Blob(data) };
    client.request::<TerminalSend>(&params, context.common.timeout).await.map(|sent| sent.written)
}

pub(super) async fn read<H: Host>(context: &Context<H>, terminal: String, ansi: bool) -> Outcome {
    let params = ReadScreen { terminal, ansi: ansi.then_some(true) };
    let screen = request::<TerminalRead, H>(context, params).await?;
    Ok(Said::Data(if context.common.json { json_line(&screen)? } else { screen_text(&screen.rows, ansi) }))
}

fn screen_text(rows: &[String], ansi: bool) -> String {
    let mut text = String::new();
    let mut kept = 0;
    for row in rows {
        let line = if ansi { clean_keeping_colours(row) } else { clean(row).trim_end().to_owned() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_a_line_per_row_without_blank_rows_at_its_end() {
        let rows = |rows: &[&str]| rows.iter().map(|&row| row.to_owned()).collect::<Vec<_>>();
        assert_eq!(screen_text(&rows(&["$ ls  ", "", "a\x1bb\u{202e}", " ", ""]), false), "$ ls\n\nab\n");
        assert_eq!(screen_text(&rows(&["\x1b[31mred", "\x1b]0;x\x07", ""]), true), "\x1b[31mred\x1b[m\n]0;x\n");
        assert_eq!(screen_text(&rows(&["", ""]), false), "");
    }
}
