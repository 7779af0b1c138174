//! `terminal send|paste|read`.

use std::io::Read as _;

use bytes::Bytes;
use keepline_protocol::api::terminal::{
    ScreenText, TerminalPaste as Paste, TerminalRead as ReadScreen, TerminalSend as Send,
};
use keepline_protocol::api::{Blob, Json};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::registry::method::{TerminalPaste, TerminalRead, TerminalSend};
use serde_json::{Value, json};

use super::{Outcome, Said, json_line, random};
use crate::bounds::{PASTE_MAX, SEND_PIECE};
use crate::cli::context::{Context, Host};
use crate::cli::settings::{Read, Text};
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
    said_written(context, written)
}

fn said_written<H: Host>(context: &Context<H>, written: u64) -> Outcome {
    Ok(Said::Data(if context.common.json { json_line(&json!({ "written": written }))? } else { String::new() }))
}

async fn send_piece<H: Host>(
    context: &Context<H>,
    client: &mut LocalClient,
    terminal: &str,
    data: Bytes,
) -> Result<u64, Failure> {
    let params =
        Send { terminal: terminal.to_owned(), attachment: Some(AttachmentId::from_bytes(random()?)), data: Blob(data) };
    client.request::<TerminalSend>(&params, context.common.timeout).await.map(|sent| sent.written)
}

/// Pastes the text, a very long one in pieces.
pub(super) async fn paste<H: Host>(context: &Context<H>, terminal: String, text: Text) -> Outcome {
    let text = match text {
        Text::Given(text) => text,
        Text::Stdin => tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            std::io::stdin().lock().take(PASTE_MAX as u64 + 1).read_to_string(&mut text).map(|_| text)
        })
        .await
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))?
        .map_err(|error| Failure::new(Code::Failed, format!("cannot read text from stdin: {error}")))?,
    };
    if text.len() > PASTE_MAX {
        return Err(Failure::new(Code::TooLarge, format!("more than {PASTE_MAX} bytes cannot be pasted at once")));
    }
    let mut client = context.client().await?;
    let (mut rest, mut written) = (&text[..], 0);
    loop {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(SEND_PIECE));
        let attachment = Some(AttachmentId::from_bytes(random()?));
        let params = Paste { terminal: terminal.clone(), attachment, text: piece.to_owned() };
        written += client.request::<TerminalPaste>(&params, context.common.timeout).await?.written;
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    said_written(context, written)
}

/// Reads the screen, or lines as many answers as it takes.
pub(super) async fn read<H: Host>(context: &Context<H>, read: Read) -> Outcome {
    let mut params = ReadScreen {
        terminal: read.terminal,
        ansi: read.ansi.then_some(true),
        styled: context.common.json.then_some(true),
        lines: read.lines,
        last_command: read.last_command.then_some(true),
    };
    let mut client = context.client().await?;
    let mut whole = client.request::<TerminalRead>(&params, context.common.timeout).await?;
    let mut styled: Vec<Value> = rows_of(&whole)?;
    while let Some(rest) = whole.rest.take() {
        (params.lines, params.last_command) = (Some(rest), None);
        let page = client.request::<TerminalRead>(&params, context.common.timeout).await?;
        styled.extend(rows_of(&page)?);
        whole.rows.extend(page.rows);
        whole.rest = page.rest;
    }
    Ok(Said::Data(if read.digest {
        format!("{}\n", clean(&whole.digest))
    } else if context.common.json {
        whole.styled = Json::of(&styled).ok();
        json_line(&whole)?
    } else {
        screen_text(&whole.rows, read.ansi)
    }))
}

fn rows_of(screen: &ScreenText) -> Result<Vec<Value>, Failure> {
    let rows = screen.styled.as_ref().map(Json::parse).transpose();
    let unusable = |error| Failure::new(Code::Failed, format!("the rows of the screen cannot be read: {error}"));
    Ok(rows.map_err(unusable)?.unwrap_or_default())
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
