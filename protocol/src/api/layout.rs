//! What a session shows where: `workspace.*`, `screen.*`, `pane.*`, `tab.*`, `layout.*`.
//!
//! A workspace holds screens, a screen panes, a pane tabs, and a tab shows one terminal. A *reference* is an id, the unique
//! start of one, or a unique name; a pane is also meant by a terminal or a tab that it holds.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Cursor, Json, Size, mutations};
use crate::id::TerminalId;

/// The part of a split that its first side has, in thousandths: a number from 0.05 to 0.95 in JSON, a `u16` on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u16);

impl Ratio {
    /// Both sides have the same.
    pub const HALF: Ratio = Ratio(500);
    const LEAST: u16 = 50;

    /// The nearest ratio to `part`, of which either side keeps a twentieth. Not a number counts as a half.
    #[must_use]
    pub fn of(part: f64) -> Self {
        if part.is_nan() {
            return Ratio::HALF;
        }
        let least = f64::from(Ratio::LEAST) / 1000.0;
        let thousandths = (part.clamp(least, 1.0 - least) * 1000.0).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 50 and 950
        Ratio(thousandths as u16)
    }

    /// The ratio as seen from the other side.
    #[must_use]
    pub fn other_side(self) -> Self {
        Ratio(1000 - self.0)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_f64(f64::from(self.0) / 1000.0)
        } else {
            serializer.serialize_u16(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return f64::deserialize(deserializer).map(Ratio::of);
        }
        let thousandths = u16::deserialize(deserializer)?;
        if (Ratio::LEAST..=1000 - Ratio::LEAST).contains(&thousandths) {
            Ok(Ratio(thousandths))
        } else {
            Err(de::Error::custom("a ratio is from 50 to 950 thousandths"))
        }
    }
}

mutations! {
    /// Parameters of `workspace.new`.
    WorkspaceNew {
        /// Its name; absent for a generated one.
        name: Option<String>,
    }
    /// Parameters of `workspace.rename`.
    WorkspaceRename {
        /// The workspace.
        workspace: String,
        /// The new name, never empty.
        name: String,
    }
    /// Parameters of `workspace.move`.
    WorkspaceMove {
        /// The workspace.
        workspace: String,
        /// Its new place among the workspaces, from 0; past the end means last.
        index: u32,
    }
    /// Parameters of `workspace.focus`: it becomes the most recently used one.
    WorkspaceFocus {
        /// The workspace.
        workspace: String,
    }
    /// Parameters of `workspace.close`: its terminals live on, detached.
    WorkspaceClose {
        /// The workspace.
        workspace: String,
    }
    /// Parameters of `screen.new`: a screen of one pane with one tab.
    ScreenNew {
        /// The workspace; absent as in `terminal.new`.
        workspace: Option<String>,
        /// The terminal from which the person asks.
        caller: Option<TerminalId>,
        /// Its label.
        name: Option<String>,
        /// A live terminal that it shows; absent to start one.
        terminal: Option<String>,
        /// Where a new terminal starts; absent for `$HOME`.
        cwd: Option<String>,
        /// A new terminal's first size; absent for 80x24.
        size: Option<Size>,
        /// A new terminal's program and arguments; absent or empty for the login shell.
        argv: Option<Vec<String>>,
    }
    /// Parameters of `screen.rename`.
    ScreenRename {
        /// The screen.
        screen: String,
        /// The label; empty clears it.
        name: String,
    }
    /// Parameters of `screen.move`.
    ScreenMove {
        /// The screen.
        screen: String,
        /// The workspace that it moves to; absent for its own.
        workspace: Option<String>,
        /// Its place among the workspace's screens, from 0; absent, or past the end, for last.
        index: Option<u32>,
    }
    /// Parameters of `screen.focus`.
    ScreenFocus {
        /// The screen.
        screen: String,
    }
    /// Parameters of `screen.close`: its terminals live on, detached.
    ScreenClose {
        /// The screen.
        screen: String,
    }
    /// Parameters of `pane.split`: a new pane beside another one, with one tab.
    PaneSplit {
        /// The pane that is split; absent for the one that shows `caller`.
        pane: Option<String>,
        /// The terminal from which the person asks.
        caller: Option<TerminalId>,
        /// Where the new pane is: `right`, `down`, `left` or `up`.
        direction: String,
        /// The part that the first (left or upper) side gets; absent for a half.
        ratio: Option<Ratio>,
        /// A live terminal that it shows; absent to start one.
        terminal: Option<String>,
        /// Where a new terminal starts; absent for `$HOME`.
        cwd: Option<String>,
        /// A new terminal's first size; absent for 80x24.
        size: Option<Size>,
        /// A new terminal's program and arguments; absent or empty for the login shell.
        argv: Option<Vec<String>>,
    }
    /// Parameters of `pane.move`: a pane goes beside another one, of its own or another screen.
    PaneMove {
        /// The pane.
        pane: String,
        /// The pane beside which it goes.
        beside: String,
        /// On which side: `right`, `down`, `left` or `up`.
        direction: String,
    }
    /// Parameters of `pane.resize`.
    PaneResize {
        /// The pane.
        pane: String,
        /// Its part of the split that it is a side of.
        ratio: Option<Ratio>,
    }
    /// Parameters of `pane.focus`.
    PaneFocus {
        /// The pane.
        pane: String,
    }
    /// Parameters of `pane.zoom`.
    PaneZoom {
        /// The pane.
        pane: String,
        /// Whether it fills its screen; absent for the other way than now.
        zoomed: Option<bool>,
    }
    /// Parameters of `pane.close`: its terminals live on, detached.
    PaneClose {
        /// The pane.
        pane: String,
    }
    /// Parameters of `tab.new`.
    TabNew {
        /// The pane; absent for the one that `workspace`, or else `caller`, or else the most recently used workspace is at.
        pane: Option<String>,
        /// The workspace whose focused pane is meant.
        workspace: Option<String>,
        /// The terminal from which the person asks.
        caller: Option<TerminalId>,
        /// Its label.
        name: Option<String>,
        /// A live terminal that it shows; absent to start one.
        terminal: Option<String>,
        /// Where a new terminal starts; absent for `$HOME`.
        cwd: Option<String>,
        /// A new terminal's first size; absent for 80x24.
        size: Option<Size>,
        /// A new terminal's program and arguments; absent or empty for the login shell.
        argv: Option<Vec<String>>,
    }
    /// Parameters of `tab.rename`.
    TabRename {
        /// The tab.
        tab: String,
        /// The label; empty clears it back to the terminal's.
        name: String,
    }
    /// Parameters of `tab.move`.
    TabMove {
        /// The tab.
        tab: String,
        /// The pane that it moves to; absent for its own.
        pane: Option<String>,
        /// Its place among the pane's tabs, from 0; absent, or past the end, for last.
        index: Option<u32>,
    }
    /// Parameters of `tab.focus`.
    TabFocus {
        /// The tab.
        tab: String,
    }
    /// Parameters of `tab.close`: its terminal lives on.
    TabClose {
        /// The tab.
        tab: String,
    }
    /// Parameters of `layout.apply`.
    LayoutApply {
        /// The workspace whose screens are replaced; absent for a new one.
        workspace: Option<String>,
        /// What `layout.export` gave. Terminals that are not there are dropped, and what is empty then goes.
        layout: Json,
    }
}

/// Parameters of `layout.export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutExport {
    /// The workspace.
    pub workspace: String,
}

/// Answer to `layout.export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The workspace's screens, panes and tabs as JSON, without ids but those of terminals.
    pub layout: Json,
}
