//! Terminals: `terminal.*`.

use serde::{Deserialize, Serialize};

use super::{Blob, Cursor, Size, mutations};
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
        /// The size that is pinned.
        size: Size,
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

/// Answer to `terminal.send`.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRead {
    /// Id or unique name.
    pub terminal: String,
    /// True for rows with SGR sequences, else plain text.
    pub ansi: Option<bool>,
}

/// Answer to `terminal.read`: the screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenText {
    /// The terminal.
    pub terminal: TerminalId,
    /// The rows from the top, trailing blanks cut, without line ends.
    pub rows: Vec<String>,
    /// Column of the cursor, from 0.
    pub cursor_column: u16,
    /// Row of the cursor, from 0.
    pub cursor_row: u16,
    /// The size.
    pub size: Size,
    /// The offset of output that this screen shows.
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
