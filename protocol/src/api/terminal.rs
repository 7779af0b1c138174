//! Terminals: `terminal.*`.

use serde::{Deserialize, Serialize};

use super::{Blob, Cursor, Json, Size, mutations};
use crate::id::{AttachmentId, TerminalId};

mutations! {
    /// Parameters of `terminal.new`.
    TerminalNew {
        /// The workspace that shows it; absent for the one that `caller` is in, else the most recently used one, else a
        /// new one named `main`.
        workspace: Option<String>,
        /// True to show it nowhere. Excludes `workspace`.
        detached: Option<bool>,
        /// The terminal from which the person asks.
        caller: Option<TerminalId>,
        /// Its label.
        name: Option<String>,
        /// Where it starts; absent for `$HOME`.
        cwd: Option<String>,
        /// Its first size; absent for 80x24.
        size: Option<Size>,
        /// The program and its arguments; absent or empty for the login shell.
        argv: Option<Vec<String>>,
    }
    /// Parameters of `terminal.rename`: its label, and that of every tab that shows it.
    TerminalRename {
        /// Id or unique name.
        terminal: String,
        /// The label; empty clears it back to the generated title.
        name: String,
    }
    /// Parameters of `terminal.close`.
    TerminalClose {
        /// Id or unique name.
        terminal: String,
    }
    /// Parameters of `terminal.resize`.
    TerminalResize {
        /// Id or unique name.
        terminal: String,
        /// The size that is pinned. Excludes `policy`.
        size: Option<Size>,
        /// Who decides from now on: `smallest`, the least of all who look, or `latest`, who attached, typed or voted last.
        policy: Option<String>,
    }
}

/// Parameters of `terminal.send`. Sending twice under one attachment id writes once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSend {
    /// Id or unique name.
    pub terminal: String,
    /// The conversation these bytes belong to; absent for a new one.
    pub attachment: Option<AttachmentId>,
    /// What is written, from offset 0 of the attachment.
    pub data: Blob,
}

/// Parameters of `terminal.keys`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalKeys {
    /// Id or unique name.
    pub terminal: String,
    /// What these keys are known by, so that they are pressed once; absent for a new name.
    pub attachment: Option<AttachmentId>,
    /// Their names, as `spec/screen.md` lists them.
    pub keys: Vec<String>,
}

/// Parameters of `terminal.paste`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalPaste {
    /// Id or unique name.
    pub terminal: String,
    /// What this text is known by, so that it is pasted once; absent for a new name.
    pub attachment: Option<AttachmentId>,
    /// The text.
    pub text: String,
}

/// Parameters of `terminal.mouse`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalMouse {
    /// Id or unique name.
    pub terminal: String,
    /// What this is known by, so that it is done once; absent for a new name.
    pub attachment: Option<AttachmentId>,
    /// `press`, `release`, `click`, `move`, `wheel-up`, `wheel-down`, `wheel-left` or `wheel-right`, with `C-`, `M-` and `S-`
    /// in front for what is held.
    pub action: String,
    /// `left`, `middle` or `right`; absent for none with `move`, else for `left`.
    pub button: Option<String>,
    /// Column from 0.
    pub column: u16,
    /// Row from 0.
    pub row: u16,
}

/// Answer to `terminal.send` and the like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Bytes of this attachment that were written to the terminal.
    pub written: u64,
}

/// Parameters of `terminal.signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSignal {
    /// Id or unique name.
    pub terminal: String,
    /// `INT`, `TERM`, `HUP`, `QUIT`, `KILL`, `STOP`, `CONT`, `USR1`, `USR2` or `WINCH`; sent to the foreground process group.
    pub signal: String,
}

/// Parameters of `terminal.read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRead {
    /// Id or unique name.
    pub terminal: String,
    /// True for rows with SGR sequences, else plain text.
    pub ansi: Option<bool>,
    /// True to have the rows with their styles as data, too.
    pub styled: Option<bool>,
    /// Lines of the main screen and its history; absent for the screen that is shown.
    pub lines: Option<LineRange>,
    /// True for the lines that the last command wrote, if the shell marks commands (OSC 133). Excludes `lines`.
    pub last_command: Option<bool>,
}

/// Lines by their ids. Output never moves a line to another id; a resize, and a clear of the history, begins a new epoch of
/// ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// The epoch that the ids are of; absent for the present one.
    pub epoch: Option<u64>,
    /// The first line. Below 0 it counts back from the screen's first row; absent for the oldest that is kept.
    pub from: Option<i64>,
    /// The line behind the last one, counted likewise; absent for the screen's first row.
    pub to: Option<i64>,
}

/// Answer to `terminal.read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenText {
    /// The terminal.
    pub terminal: TerminalId,
    /// The rows from the top, trailing blanks cut, without line ends.
    pub rows: Vec<String>,
    /// The same rows as `spec/screen.md` has them in JSON, if they were asked for.
    pub styled: Option<Json>,
    /// Column of the cursor, from 0.
    pub cursor_column: u16,
    /// Row of the cursor, from 0.
    pub cursor_row: u16,
    /// The size.
    pub size: Size,
    /// The offset of output that this screen shows.
    pub through: u64,
    /// Whether the alternate screen is shown, whose rows have no ids.
    pub alternate: bool,
    /// The epoch of line ids.
    pub epoch: u64,
    /// The id of the oldest line that is kept.
    pub first: u64,
    /// The id of the main screen's first row.
    pub end: u64,
    /// The id of the first of `rows`; absent on the alternate screen.
    pub from: Option<u64>,
    /// What did not fit one answer, to be asked for next.
    pub rest: Option<LineRange>,
    /// The status of the last command that ended, if the shell says one.
    pub status: Option<i32>,
    /// 16 hex digits that are the same for what looks the same: size, rows with styles, cursor.
    pub digest: String,
}

/// Parameters of `terminal.wait`: exactly one of `matching`, `exit`, `idle_ms` and `prompt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalWait {
    /// Id or unique name.
    pub terminal: String,
    /// Until a row of the screen, or a line that scrolled off it since, fits this regular expression. A line that was
    /// wrapped is one; blanks at the end of a row are none, but for those before the cursor.
    pub matching: Option<String>,
    /// True: until the program has ended.
    pub exit: Option<bool>,
    /// Until there was no output for so many milliseconds.
    pub idle_ms: Option<u32>,
    /// True: until the shell shows a prompt at which nothing was typed yet (OSC 133).
    pub prompt: Option<bool>,
}

/// Answer to `terminal.wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The terminal.
    pub terminal: TerminalId,
    /// What fitted the expression.
    pub matched: Option<String>,
    /// How the program ended, as in the terminal's row.
    pub exit: Option<Json>,
    /// The status of the last command that ended, if the shell says one.
    pub status: Option<i32>,
    /// The offset of output that was seen.
    pub through: u64,
}

/// Parameters of `terminal.attach`. After the answer the stream carries records only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalAttach {
    /// Id or unique name.
    pub terminal: String,
    /// Chosen by the attaching program; it counts its input bytes under this id.
    pub attachment: AttachmentId,
    /// The asker's size: its vote. Absent for no vote.
    pub size: Option<Size>,
    /// True to watch only: no input, no vote.
    pub observer: Option<bool>,
    /// The output offset that the asker holds; absent for a snapshot first.
    pub from_offset: Option<u64>,
    /// Lines of history in a snapshot.
    pub history: Option<u32>,
}

/// Answer to `terminal.attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The terminal.
    pub terminal: TerminalId,
    /// The highest input offset of this attachment that was written; the asker goes on from there.
    pub written: u64,
    /// Whether the daemon remembers this attachment. When it does not, whether bytes beyond what was acknowledged were written is not known.
    pub remembered: bool,
    /// The terminal's size.
    pub size: Size,
}
