//! Workspaces, screens, panes and tabs: what is shown where.
//!
//! A workspace may be empty; a screen has at least one pane and a pane at least one tab, so what closes the last one of
//! these closes what holds it too. What is new gets the focus.

use std::collections::HashSet;

use keepline_protocol::api::Path;
use keepline_protocol::api::layout::{
    PaneClose, PaneFocus, PaneMove, PaneResize, PaneSplit, PaneZoom, Ratio, ScreenClose, ScreenFocus, ScreenMove,
    ScreenNew, ScreenRename, TabClose, TabFocus, TabMove, TabNew, TabRename, WorkspaceClose, WorkspaceFocus,
    WorkspaceMove, WorkspaceNew, WorkspaceRename,
};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{PaneId, ScreenId, TabId, TerminalId, WorkspaceId};

use super::{Draft, check_label, invalid};
use crate::bounds::PANES_MAX;
use crate::session::layout::{Layout, Side};
use crate::session::rows::{Kind, PaneRow, RowId, ScreenRow, TabRow, TerminalRow, WorkspaceRow};

/// Where a new tab goes.
pub(super) enum Spot {
    /// Into a screen of its own.
    Screen(WorkspaceId, String),
    /// Into a pane of its own beside this one.
    Split(PaneId, Side, Ratio),
    /// Behind the tabs of a pane.
    Pane(PaneId),
}

impl Draft<'_> {
    pub(super) fn workspace_new(&mut self, new: &WorkspaceNew) -> Result<Path, Failure> {
        let workspace = Some(self.new_workspace(new.name.as_deref())?);
        Ok(Path { workspace, ..Path::default() })
    }

    pub(super) fn new_workspace(&mut self, name: Option<&str>) -> Result<WorkspaceId, Failure> {
        let name = match name {
            Some(name) => {
                check_workspace_name(name)?;
                name.to_owned()
            }
            None => self.generated_name(),
        };
        let id = WorkspaceId::from_bytes(self.fresh.id());
        self.put(WorkspaceRow {
            id,
            name,
            index: self.next_index(Kind::Workspace),
            active_screen_id: None,
            created_ms: self.now_ms,
            used_ms: self.now_ms,
        })?;
        Ok(id)
    }

    fn generated_name(&self) -> String {
        let taken: HashSet<&str> = self.graph.all::<WorkspaceRow>().map(|row| row.name.as_str()).collect();
        if taken.is_empty() {
            return "main".to_owned();
        }
        (2u64..)
            .map(|number| format!("workspace {number}"))
            .find(|name| !taken.contains(name.as_str()))
            .expect("there are more numbers than workspaces")
    }

    /// The workspace that is named, else the caller's own, else the most recently used one, else a new one.
    pub(super) fn workspace_for(
        &mut self,
        named: Option<&str>,
        caller: Option<TerminalId>,
    ) -> Result<WorkspaceId, Failure> {
        if let Some(named) = named {
            return self.graph.resolve::<WorkspaceRow>(named);
        }
        let own = caller.and_then(|caller| self.graph.path_of_terminal(caller).workspace);
        match own.or_else(|| self.graph.recent_workspace()) {
            Some(id) => Ok(id),
            None => self.new_workspace(None),
        }
    }

    /// Where a workspace is looked at: its active screen's focused pane, else a new screen.
    pub(super) fn spot_in(&self, workspace: WorkspaceId) -> Result<Spot, Failure> {
        Ok(match self.row::<WorkspaceRow>(workspace)?.active_screen_id {
            Some(screen) => Spot::Pane(self.row::<ScreenRow>(screen)?.focused_pane_id),
            None => Spot::Screen(workspace, String::new()),
        })
    }

    pub(super) fn workspace_rename(&mut self, rename: &WorkspaceRename) -> Result<Path, Failure> {
        check_workspace_name(&rename.name)?;
        let id = self.graph.resolve::<WorkspaceRow>(&rename.workspace)?;
        self.edit::<WorkspaceRow>(id, |row| row.name.clone_from(&rename.name))?;
        Ok(workspace_path(id))
    }

    pub(super) fn workspace_move(&mut self, to: &WorkspaceMove) -> Result<Path, Failure> {
        let id = self.graph.resolve::<WorkspaceRow>(&to.workspace)?;
        let rows = self.graph.in_order(|row: &WorkspaceRow| Some(row.index));
        let order = reordered(rows.into_iter().map(|row| row.id), id, Some(to.index));
        self.number::<WorkspaceRow>(&order, |row| &mut row.index)?;
        Ok(workspace_path(id))
    }

    pub(super) fn workspace_focus(&mut self, focus: &WorkspaceFocus) -> Result<Path, Failure> {
        let id = self.graph.resolve::<WorkspaceRow>(&focus.workspace)?;
        let now_ms = self.now_ms;
        self.edit::<WorkspaceRow>(id, |row| row.used_ms = now_ms)?;
        Ok(workspace_path(id))
    }

    pub(super) fn workspace_close(&mut self, close: &WorkspaceClose) -> Result<Path, Failure> {
        let id = self.graph.resolve::<WorkspaceRow>(&close.workspace)?;
        self.close_screens(id)?;
        self.remove(RowId::Workspace(id));
        Ok(workspace_path(id))
    }

    pub(super) fn close_screens(&mut self, workspace: WorkspaceId) -> Result<(), Failure> {
        let screens: Vec<_> = self.graph.screens_of(workspace).iter().map(|row| row.id).collect();
        screens.into_iter().try_for_each(|id| self.close_screen(id))
    }

    pub(super) fn screen_new(&mut self, new: &ScreenNew) -> Result<Path, Failure> {
        let name = new.name.clone().unwrap_or_default();
        check_label(&name)?;
        let program = Spot::program(new.cwd.as_ref(), new.size, new.argv.as_ref());
        let workspace = self.workspace_for(new.workspace.as_deref(), new.caller)?;
        let terminal = self.shown(new.terminal.as_deref(), &program)?;
        self.show(Spot::Screen(workspace, name), terminal, "")
    }

    pub(super) fn screen_rename(&mut self, rename: &ScreenRename) -> Result<Path, Failure> {
        check_label(&rename.name)?;
        let id = self.graph.resolve::<ScreenRow>(&rename.screen)?;
        self.edit::<ScreenRow>(id, |row| row.name.clone_from(&rename.name))?;
        self.screen_path(id)
    }

    pub(super) fn screen_move(&mut self, to: &ScreenMove) -> Result<Path, Failure> {
        let id = self.graph.resolve::<ScreenRow>(&to.screen)?;
        let from = self.row::<ScreenRow>(id)?.workspace_id;
        let workspace = match &to.workspace {
            Some(workspace) => self.graph.resolve::<WorkspaceRow>(workspace)?,
            None => from,
        };
        let screens = self.graph.screens_of(workspace);
        let order = reordered(screens.iter().map(|row| row.id), id, to.index);
        self.edit::<ScreenRow>(id, |row| row.workspace_id = workspace)?;
        self.number::<ScreenRow>(&order, |row| &mut row.index)?;
        if workspace != from {
            self.left_by_screen(from, id)?;
            self.edit::<WorkspaceRow>(workspace, |row| row.active_screen_id = Some(id))?;
        }
        self.screen_path(id)
    }

    pub(super) fn screen_focus(&mut self, focus: &ScreenFocus) -> Result<Path, Failure> {
        let id = self.graph.resolve::<ScreenRow>(&focus.screen)?;
        let pane = self.row::<ScreenRow>(id)?.focused_pane_id;
        self.focus_pane(pane)?;
        self.screen_path(id)
    }

    pub(super) fn screen_close(&mut self, close: &ScreenClose) -> Result<Path, Failure> {
        let id = self.graph.resolve::<ScreenRow>(&close.screen)?;
        let path = self.screen_path(id)?;
        self.close_screen(id)?;
        Ok(path)
    }

    fn close_screen(&mut self, id: ScreenId) -> Result<(), Failure> {
        let panes = self.row::<ScreenRow>(id)?.layout.panes();
        panes.into_iter().try_for_each(|pane| self.close_pane(pane))
    }

    fn screen_path(&self, id: ScreenId) -> Result<Path, Failure> {
        Ok(Path { screen: Some(id), ..workspace_path(self.row::<ScreenRow>(id)?.workspace_id) })
    }

    pub(super) fn pane_split(&mut self, split: &PaneSplit) -> Result<Path, Failure> {
        let side = Side::parse(&split.direction)?;
        let pane = match (&split.pane, split.caller) {
            (Some(pane), _) => self.graph.resolve_pane(pane)?,
            (None, Some(caller)) => self.graph.resolve_pane(&caller.to_string())?,
            (None, None) => return Err(invalid("name the pane that is split")),
        };
        let program = Spot::program(split.cwd.as_ref(), split.size, split.argv.as_ref());
        let terminal = self.shown(split.terminal.as_deref(), &program)?;
        let ratio = split.ratio.unwrap_or(Ratio::HALF);
        self.show(Spot::Split(pane, side, ratio), terminal, "")
    }

    pub(super) fn pane_move(&mut self, to: &PaneMove) -> Result<Path, Failure> {
        let side = Side::parse(&to.direction)?;
        let pane = self.graph.resolve_pane(&to.pane)?;
        let beside = self.graph.resolve_pane(&to.beside)?;
        if pane == beside {
            return Err(invalid("a pane does not go beside itself"));
        }
        let from = self.row::<PaneRow>(pane)?.screen_id;
        let screen = self.row::<PaneRow>(beside)?.screen_id;
        if screen != from {
            self.check_room(screen)?;
        }
        self.left_by_pane(from, pane)?;
        self.edit::<PaneRow>(pane, |row| row.screen_id = screen)?;
        self.edit::<ScreenRow>(screen, |row| {
            row.layout.insert(beside, pane, side, Ratio::HALF);
        })?;
        self.number_panes(screen)?;
        self.focus_pane(pane)?;
        Ok(self.graph.path_of_pane(pane))
    }

    pub(super) fn pane_resize(&mut self, resize: &PaneResize) -> Result<Path, Failure> {
        let pane = self.graph.resolve_pane(&resize.pane)?;
        let mut screen = self.row::<ScreenRow>(self.row::<PaneRow>(pane)?.screen_id)?;
        let ratio = resize.ratio.unwrap_or(Ratio::HALF);
        if !screen.layout.resize(pane, ratio) {
            return Err(invalid("the pane has its screen to itself"));
        }
        self.put(screen)?;
        Ok(self.graph.path_of_pane(pane))
    }

    pub(super) fn pane_focus(&mut self, focus: &PaneFocus) -> Result<Path, Failure> {
        let pane = self.graph.resolve_pane(&focus.pane)?;
        self.focus_pane(pane)?;
        Ok(self.graph.path_of_pane(pane))
    }

    pub(super) fn pane_zoom(&mut self, zoom: &PaneZoom) -> Result<Path, Failure> {
        let pane = self.graph.resolve_pane(&zoom.pane)?;
        self.focus_pane(pane)?;
        let screen = self.row::<PaneRow>(pane)?.screen_id;
        self.edit::<ScreenRow>(screen, |row| {
            let zoomed = row.zoomed_pane_id == Some(pane);
            row.zoomed_pane_id = zoom.zoomed.unwrap_or(!zoomed).then_some(pane);
        })?;
        Ok(self.graph.path_of_pane(pane))
    }

    pub(super) fn pane_close(&mut self, close: &PaneClose) -> Result<Path, Failure> {
        let pane = self.graph.resolve_pane(&close.pane)?;
        let path = self.graph.path_of_pane(pane);
        self.close_pane(pane)?;
        Ok(path)
    }

    fn close_pane(&mut self, pane: PaneId) -> Result<(), Failure> {
        let tabs: Vec<_> = self.graph.tabs_of(pane).iter().map(|row| row.id).collect();
        tabs.into_iter().try_for_each(|tab| self.close_tab(tab))
    }

    pub(super) fn tab_new(&mut self, new: &TabNew) -> Result<Path, Failure> {
        let name = new.name.as_deref().unwrap_or_default();
        check_label(name)?;
        let program = Spot::program(new.cwd.as_ref(), new.size, new.argv.as_ref());
        let own = new.caller.and_then(|id| self.graph.path_of_terminal(id).pane);
        let spot = match (&new.pane, &new.workspace, own) {
            (Some(pane), None, _) => Spot::Pane(self.graph.resolve_pane(pane)?),
            (Some(_), Some(_), _) => return Err(invalid("name a pane or a workspace, not both")),
            (None, None, Some(own)) => Spot::Pane(own),
            (None, workspace, _) => {
                let workspace = self.workspace_for(workspace.as_deref(), new.caller)?;
                self.spot_in(workspace)?
            }
        };
        let terminal = self.shown(new.terminal.as_deref(), &program)?;
        self.show(spot, terminal, name)
    }

    pub(super) fn tab_rename(&mut self, rename: &TabRename) -> Result<Path, Failure> {
        check_label(&rename.name)?;
        let id = self.graph.resolve_tab(&rename.tab)?;
        self.edit::<TabRow>(id, |row| row.name.clone_from(&rename.name))?;
        Ok(self.graph.path_of_tab(id))
    }

    pub(super) fn tab_move(&mut self, to: &TabMove) -> Result<Path, Failure> {
        let id = self.graph.resolve_tab(&to.tab)?;
        let from = self.row::<TabRow>(id)?.pane_id;
        let pane = match &to.pane {
            Some(pane) => self.graph.resolve_pane(pane)?,
            None => from,
        };
        let tabs = self.graph.tabs_of(pane);
        let order = reordered(tabs.iter().map(|row| row.id), id, to.index);
        self.edit::<TabRow>(id, |row| row.pane_id = pane)?;
        self.number::<TabRow>(&order, |row| &mut row.index)?;
        if pane != from {
            self.left_by_tab(from, id)?;
            self.edit::<PaneRow>(pane, |row| row.active_tab_id = id)?;
        }
        Ok(self.graph.path_of_tab(id))
    }

    pub(super) fn tab_focus(&mut self, focus: &TabFocus) -> Result<Path, Failure> {
        let id = self.graph.resolve_tab(&focus.tab)?;
        self.focus_tab(id)?;
        Ok(self.graph.path_of_tab(id))
    }

    pub(super) fn tab_close(&mut self, close: &TabClose) -> Result<Path, Failure> {
        let id = self.graph.resolve_tab(&close.tab)?;
        let path = self.graph.path_of_tab(id);
        self.close_tab(id)?;
        Ok(path)
    }

    /// Shows a terminal in a new tab, which gets the focus.
    pub(super) fn show(&mut self, spot: Spot, terminal: TerminalId, name: &str) -> Result<Path, Failure> {
        let tab = TabId::from_bytes(self.fresh.id());
        let pane = self.pane_for(spot, tab)?;
        let index = self.graph.tabs_of(pane).last().map_or(0, |row| row.index + 1);
        self.put(TabRow { id: tab, pane_id: pane, terminal_id: terminal, name: name.to_owned(), index })?;
        self.edit::<TerminalRow>(terminal, |row| row.tab_ids.push(tab))?;
        self.focus_tab(tab)?;
        Ok(self.graph.path_of_tab(tab))
    }

    /// The pane of a spot, made when it is a new one, whose tab this will be.
    fn pane_for(&mut self, spot: Spot, tab: TabId) -> Result<PaneId, Failure> {
        let (screen, pane) = match spot {
            Spot::Pane(pane) => return Ok(pane),
            Spot::Split(beside, side, ratio) => {
                let screen = self.row::<PaneRow>(beside)?.screen_id;
                self.check_room(screen)?;
                let pane = PaneId::from_bytes(self.fresh.id());
                self.edit::<ScreenRow>(screen, |row| row.layout.insert(beside, pane, side, ratio))?;
                (screen, pane)
            }
            Spot::Screen(workspace, name) => {
                let screen = ScreenId::from_bytes(self.fresh.id());
                let pane = PaneId::from_bytes(self.fresh.id());
                self.new_screen(workspace, screen, name, Layout::Leaf { pane_id: pane })?;
                (screen, pane)
            }
        };
        self.put(PaneRow { id: pane, screen_id: screen, index: 0, active_tab_id: tab })?;
        self.number_panes(screen)?;
        Ok(pane)
    }

    /// Puts a screen behind the others of its workspace; its first pane has the focus.
    pub(super) fn new_screen(
        &mut self,
        workspace: WorkspaceId,
        id: ScreenId,
        name: String,
        layout: Layout,
    ) -> Result<(), Failure> {
        let screens = self.graph.screens_of(workspace);
        self.put(ScreenRow {
            id,
            workspace_id: workspace,
            name,
            index: screens.last().map_or(0, |row| row.index + 1),
            focused_pane_id: layout.panes()[0],
            layout,
            zoomed_pane_id: None,
        })
    }

    fn check_room(&self, screen: ScreenId) -> Result<(), Failure> {
        if self.row::<ScreenRow>(screen)?.layout.panes().len() < PANES_MAX {
            return Ok(());
        }
        let message = format!("a screen has at most {PANES_MAX} panes; open another screen");
        Err(Failure::new(Code::TooLarge, message))
    }

    fn focus_tab(&mut self, tab: TabId) -> Result<(), Failure> {
        let pane = self.row::<TabRow>(tab)?.pane_id;
        self.edit::<PaneRow>(pane, |row| row.active_tab_id = tab)?;
        self.focus_pane(pane)
    }

    pub(super) fn focus_pane(&mut self, pane: PaneId) -> Result<(), Failure> {
        let id = self.row::<PaneRow>(pane)?.screen_id;
        let mut screen = self.row::<ScreenRow>(id)?;
        screen.focused_pane_id = pane;
        screen.zoomed_pane_id = screen.zoomed_pane_id.filter(|zoomed| *zoomed == pane);
        let (workspace, now_ms) = (screen.workspace_id, self.now_ms);
        self.put(screen)?;
        self.edit::<WorkspaceRow>(workspace, |row| {
            row.active_screen_id = Some(id);
            row.used_ms = now_ms;
        })
    }

    pub(super) fn close_tab(&mut self, tab: TabId) -> Result<(), Failure> {
        let row = self.row::<TabRow>(tab)?;
        self.remove(RowId::Tab(tab));
        self.edit::<TerminalRow>(row.terminal_id, |terminal| {
            terminal.tab_ids.retain(|id| *id != tab);
        })?;
        self.left_by_tab(row.pane_id, tab)
    }

    /// A tab is not in a pane any more: its neighbour is shown, or the pane goes too.
    fn left_by_tab(&mut self, pane: PaneId, tab: TabId) -> Result<(), Failure> {
        let order: Vec<_> = self.graph.tabs_of(pane).iter().map(|row| row.id).collect();
        let row = self.row::<PaneRow>(pane)?;
        if order.is_empty() {
            self.remove(RowId::Pane(pane));
            return self.left_by_pane(row.screen_id, pane);
        }
        self.number::<TabRow>(&order, |row| &mut row.index)?;
        if row.active_tab_id == tab {
            let next = order[order.len() - 1];
            self.edit::<PaneRow>(pane, |row| row.active_tab_id = next)?;
        }
        Ok(())
    }

    /// A pane is not in a screen any more: its side takes its place, or the screen goes too.
    fn left_by_pane(&mut self, screen: ScreenId, pane: PaneId) -> Result<(), Failure> {
        let mut row = self.row::<ScreenRow>(screen)?;
        let place = row.layout.panes().iter().position(|id| *id == pane);
        let Some(layout) = row.layout.without(pane) else {
            self.remove(RowId::Screen(screen));
            return self.left_by_screen(row.workspace_id, screen);
        };
        let panes = layout.panes();
        if row.focused_pane_id == pane {
            row.focused_pane_id = panes[place.unwrap_or(0).min(panes.len() - 1)];
        }
        row.zoomed_pane_id = row.zoomed_pane_id.filter(|zoomed| *zoomed != pane);
        row.layout = layout;
        self.put(row)?;
        self.number_panes(screen)
    }

    /// A screen is not in a workspace any more: its neighbour is looked at.
    fn left_by_screen(&mut self, workspace: WorkspaceId, screen: ScreenId) -> Result<(), Failure> {
        let order: Vec<_> = self.graph.screens_of(workspace).iter().map(|row| row.id).collect();
        self.number::<ScreenRow>(&order, |row| &mut row.index)?;
        self.edit::<WorkspaceRow>(workspace, |row| {
            if row.active_screen_id == Some(screen) {
                row.active_screen_id = order.last().copied();
            }
        })
    }

    pub(super) fn number_panes(&mut self, screen: ScreenId) -> Result<(), Failure> {
        let order = self.row::<ScreenRow>(screen)?.layout.panes();
        self.number::<PaneRow>(&order, |row| &mut row.index)
    }
}

/// `ids` with `id` at `index`, or last.
fn reordered<I: PartialEq + Copy>(ids: impl Iterator<Item = I>, id: I, index: Option<u32>) -> Vec<I> {
    let mut order: Vec<I> = ids.filter(|other| *other != id).collect();
    let last = order.len();
    let index = index.and_then(|index| usize::try_from(index).ok());
    order.insert(index.unwrap_or(last).min(last), id);
    order
}

fn workspace_path(id: WorkspaceId) -> Path {
    Path { workspace: Some(id), ..Path::default() }
}

fn check_workspace_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(invalid("a workspace's name cannot be empty"));
    }
    check_label(name)
}
