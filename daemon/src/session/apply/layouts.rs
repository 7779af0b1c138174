//! A workspace's screens, panes and tabs as one JSON value, which says nothing of ids but those of terminals: to be kept,
//! and to be applied to a workspace again.

use keepline_protocol::api::layout::{LayoutApply, Ratio};
use keepline_protocol::api::{Json, Path};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{PaneId, ScreenId, TabId, TerminalId};
use serde::{Deserialize, Serialize};

use super::{Draft, check_label, invalid};
use crate::bounds::PANES_MAX;
use crate::session::graph::Graph;
use crate::session::layout::{Direction, Layout};
use crate::session::rows::{PaneRow, ScreenRow, TabRow, TerminalRow, WorkspaceRow};

#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(default)]
    name: Option<String>,
    screens: Vec<SavedScreen>,
}

#[derive(Serialize, Deserialize)]
struct SavedScreen {
    #[serde(default)]
    name: String,
    #[serde(default)]
    active: bool,
    layout: SavedLayout,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SavedLayout {
    Leaf {
        #[serde(default)]
        focused: bool,
        #[serde(default)]
        zoomed: bool,
        tabs: Vec<SavedTab>,
    },
    Split {
        direction: Direction,
        #[serde(default = "half")]
        ratio: Ratio,
        first: Box<SavedLayout>,
        second: Box<SavedLayout>,
    },
}

#[derive(Serialize, Deserialize)]
struct SavedTab {
    #[serde(default)]
    name: String,
    #[serde(default)]
    active: bool,
    terminal: String,
}

fn half() -> Ratio {
    Ratio::HALF
}

impl Graph {
    /// A workspace's places, as [`LayoutApply`] takes them.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn export(&self, workspace: &str) -> Result<Json, Failure> {
        let id = self.resolve::<WorkspaceRow>(workspace)?;
        let row = self.row::<WorkspaceRow>(id);
        let active = row.and_then(|row| row.active_screen_id);
        let screens = self.screens_of(id).into_iter().map(|screen| SavedScreen {
            name: screen.name.clone(),
            active: active == Some(screen.id),
            layout: self.saved(screen, &screen.layout),
        });
        let saved = Saved { name: row.map(|row| row.name.clone()), screens: screens.collect() };
        Json::of(&saved).map_err(|error| Failure::new(Code::Internal, error.to_string()))
    }

    fn saved(&self, screen: &ScreenRow, layout: &Layout) -> SavedLayout {
        match layout {
            Layout::Leaf { pane_id } => {
                let active = self.row::<PaneRow>(*pane_id).map(|row| row.active_tab_id);
                let tabs = self.tabs_of(*pane_id).into_iter().map(|tab| SavedTab {
                    name: tab.name.clone(),
                    active: active == Some(tab.id),
                    terminal: tab.terminal_id.to_string(),
                });
                SavedLayout::Leaf {
                    focused: screen.focused_pane_id == *pane_id,
                    zoomed: screen.zoomed_pane_id == Some(*pane_id),
                    tabs: tabs.collect(),
                }
            }
            Layout::Split { direction, ratio, first, second } => SavedLayout::Split {
                direction: *direction,
                ratio: *ratio,
                first: Box::new(self.saved(screen, first)),
                second: Box::new(self.saved(screen, second)),
            },
        }
    }
}

impl Draft<'_> {
    pub(super) fn layout_apply(&mut self, apply: &LayoutApply) -> Result<Path, Failure> {
        let saved: Saved = apply.layout.parse().map_err(|error| invalid(format!("this is no layout: {error}")))?;
        let workspace = match &apply.workspace {
            Some(workspace) => self.graph.resolve::<WorkspaceRow>(workspace)?,
            None => self.new_workspace(saved.name.as_deref())?,
        };
        self.close_screens(workspace)?;
        let mut active = None;
        for screen in saved.screens {
            check_label(&screen.name)?;
            let id = ScreenId::from_bytes(self.fresh.id());
            let mut panes = Panes::default();
            let Some(layout) = self.place(id, screen.layout, &mut panes)? else {
                continue;
            };
            if panes.count > PANES_MAX {
                return Err(invalid(format!("a screen has at most {PANES_MAX} panes")));
            }
            self.new_screen(workspace, id, screen.name, layout)?;
            self.number_panes(id)?;
            self.edit::<ScreenRow>(id, |row| {
                row.focused_pane_id = panes.focused.unwrap_or(row.focused_pane_id);
                row.zoomed_pane_id = panes.zoomed;
            })?;
            if screen.active || active.is_none() {
                active = Some(id);
            }
        }
        self.edit::<WorkspaceRow>(workspace, |row| row.active_screen_id = active)?;
        Ok(Path { workspace: Some(workspace), screen: active, ..Path::default() })
    }

    /// Makes the panes and tabs of a layout; nothing for one in which nothing is left.
    fn place(&mut self, screen: ScreenId, layout: SavedLayout, panes: &mut Panes) -> Result<Option<Layout>, Failure> {
        match layout {
            SavedLayout::Leaf { focused, zoomed, tabs } => {
                let pane_id = PaneId::from_bytes(self.fresh.id());
                let Some(active_tab_id) = self.place_tabs(pane_id, tabs)? else {
                    return Ok(None);
                };
                self.put(PaneRow { id: pane_id, screen_id: screen, index: 0, active_tab_id })?;
                panes.count += 1;
                panes.focused = panes.focused.or(focused.then_some(pane_id));
                panes.zoomed = panes.zoomed.or(zoomed.then_some(pane_id));
                Ok(Some(Layout::Leaf { pane_id }))
            }
            SavedLayout::Split { direction, ratio, first, second } => {
                let first = self.place(screen, *first, panes)?;
                let second = self.place(screen, *second, panes)?;
                Ok(match (first, second) {
                    (Some(first), Some(second)) => {
                        Some(Layout::Split { direction, ratio, first: Box::new(first), second: Box::new(second) })
                    }
                    (first, second) => first.or(second),
                })
            }
        }
    }

    /// Makes the tabs whose terminals are there; gives the one that is shown.
    fn place_tabs(&mut self, pane: PaneId, tabs: Vec<SavedTab>) -> Result<Option<TabId>, Failure> {
        let mut active = None;
        let mut index = 0;
        for tab in tabs {
            check_label(&tab.name)?;
            let terminal = tab.terminal.parse::<TerminalId>().ok();
            let Some(terminal) = terminal.filter(|id| self.graph.terminal(*id).is_some()) else {
                continue;
            };
            let id = TabId::from_bytes(self.fresh.id());
            self.put(TabRow { id, pane_id: pane, terminal_id: terminal, name: tab.name, index })?;
            self.edit::<TerminalRow>(terminal, |row| row.tab_ids.push(id))?;
            if tab.active || active.is_none() {
                active = Some(id);
            }
            index += 1;
        }
        Ok(active)
    }
}

/// What is known of the panes of a screen that is being made.
#[derive(Default)]
struct Panes {
    count: usize,
    focused: Option<PaneId>,
    zoomed: Option<PaneId>,
}
