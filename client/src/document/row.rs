//! One row: its canonical JSON, and which rows it names.

use std::borrow::Cow;

use keepline_protocol::bounds::ROW_MAX;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{COLLECTIONS, Refused, malformed};

/// The collection of a kind. One that this version does not know has an `s` behind it.
#[must_use]
pub fn collection_of(kind: &str) -> Cow<'static, str> {
    match COLLECTIONS.iter().find(|(known, _)| *known == kind) {
        Some((_, collection)) => Cow::Borrowed(collection),
        None => Cow::Owned(format!("{kind}s")),
    }
}

/// JSON in the form of RFC 8785: one text for one value, whoever wrote it.
pub(super) fn canonical(json: &str) -> serde_json::Result<String> {
    serde_json_canonicalizer::to_string(&serde_json::from_str::<Value>(json)?)
}

/// Another row: its collection and id.
type Name = (&'static str, String);

/// A row of the graph.
#[derive(Clone, Debug)]
pub(super) struct Row {
    json: Box<str>,
    index: u64,
    /// What this row belongs to. It must be there.
    owners: Box<[Name]>,
    /// What belongs to this row. It must be there and name this row as its owner.
    owned: Box<[Name]>,
}

#[derive(Deserialize)]
struct Keyed {
    id: String,
    #[serde(default)]
    index: u64,
}

#[derive(Deserialize)]
struct Workspace {
    #[serde(default)]
    active_screen_id: Option<String>,
}

#[derive(Deserialize)]
struct Screen {
    workspace_id: String,
    layout: Layout,
    #[serde(default)]
    focused_pane_id: Option<String>,
    #[serde(default)]
    zoomed_pane_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Layout {
    Leaf {
        pane_id: String,
    },
    Split {
        first: Box<Layout>,
        second: Box<Layout>,
    },
    /// A later version's: what it shows is not known here.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Pane {
    screen_id: String,
    #[serde(default)]
    active_tab_id: Option<String>,
}

#[derive(Deserialize)]
struct Tab {
    pane_id: String,
    #[serde(default)]
    terminal_id: Option<String>,
    #[serde(default)]
    browser_id: Option<String>,
}

#[derive(Deserialize)]
struct Terminal {
    #[serde(default)]
    tab_ids: Vec<String>,
}

impl Layout {
    fn panes(self, into: &mut Vec<String>) {
        match self {
            Layout::Leaf { pane_id } => into.push(pane_id),
            Layout::Split { first, second } => {
                first.panes(into);
                second.panes(into);
            }
            Layout::Unknown => {}
        }
    }
}

impl Row {
    /// A row of `collection` and its id.
    ///
    /// # Errors
    /// When it is too large, has no id, or the fields by which its kind names others are not what they must be.
    pub(super) fn parse(collection: &str, json: &RawValue) -> Result<(String, Self), Refused> {
        let wrong = |error: serde_json::Error| malformed(format!("no row of '{collection}': {error}"));
        if json.get().len() > ROW_MAX {
            return Err(malformed(format!("a row of '{collection}' has {} bytes, over {ROW_MAX}", json.get().len())));
        }
        let value: Value = serde_json::from_str(json.get()).map_err(wrong)?;
        let Keyed { id, index } = Keyed::deserialize(&value).map_err(wrong)?;
        let (mut owners, mut owned) = (Vec::new(), Vec::new());
        match collection {
            "workspaces" => {
                let workspace = Workspace::deserialize(&value).map_err(wrong)?;
                owned.extend(workspace.active_screen_id.map(|screen| ("screens", screen)));
            }
            "screens" => {
                let screen = Screen::deserialize(&value).map_err(wrong)?;
                let mut panes = Vec::new();
                screen.layout.panes(&mut panes);
                let shown = panes.len();
                panes.sort();
                panes.dedup();
                if panes.len() < shown {
                    return Err(malformed(format!("the layout of {id} has a pane twice")));
                }
                panes.extend(screen.focused_pane_id);
                panes.extend(screen.zoomed_pane_id);
                owners.push(("workspaces", screen.workspace_id));
                owned.extend(panes.into_iter().map(|pane| ("panes", pane)));
            }
            "panes" => {
                let pane = Pane::deserialize(&value).map_err(wrong)?;
                owners.push(("screens", pane.screen_id));
                owned.extend(pane.active_tab_id.map(|tab| ("tabs", tab)));
            }
            "tabs" => {
                let tab = Tab::deserialize(&value).map_err(wrong)?;
                owners.push(("panes", tab.pane_id));
                owners.extend(tab.terminal_id.map(|terminal| ("terminals", terminal)));
                owners.extend(tab.browser_id.map(|browser| ("browsers", browser)));
                if owners.len() < 2 {
                    return Err(malformed(format!("{id} shows nothing")));
                }
            }
            "terminals" => {
                let terminal = Terminal::deserialize(&value).map_err(wrong)?;
                owned.extend(terminal.tab_ids.into_iter().map(|tab| ("tabs", tab)));
            }
            // What a notification and a client name may be gone before they are.
            _ => {}
        }
        let json = serde_json_canonicalizer::to_string(&value).map_err(wrong)?;
        let row = Row {
            json: json.into_boxed_str(),
            index,
            owners: owners.into_boxed_slice(),
            owned: owned.into_boxed_slice(),
        };
        Ok((id, row))
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    /// Its place among the rows of its kind; 0 for a kind without.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.owners.iter().map(|(collection, id)| (*collection, id.as_str()))
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.owned.iter().map(|(collection, id)| (*collection, id.as_str()))
    }

    /// All that it names.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.owners().chain(self.owned())
    }
}
