//! Workspaces, screens, panes and tabs, against a model that nests them as a person sees them.

use keepline_protocol::api::layout::{
    LayoutApply, PaneClose, PaneFocus, PaneMove, PaneResize, PaneSplit, PaneZoom, Ratio, ScreenClose, ScreenFocus,
    ScreenMove, ScreenNew, ScreenRename, TabClose, TabFocus, TabMove, TabNew, TabRename, WorkspaceFocus, WorkspaceMove,
};
use keepline_protocol::id::{PaneId, ScreenId, TabId};

use super::super::layout::Layout;
use super::super::rows::{PaneRow, ScreenRow, TabRow, TerminalRow};
use super::model::Dice;
use super::*;
use crate::bounds::PANES_MAX;

/// What always holds between the rows.
pub(super) fn check(graph: &Graph) {
    for row in graph.all::<WorkspaceRow>() {
        let screens: Vec<_> = graph.screens_of(row.id).iter().map(|screen| screen.id).collect();
        match row.active_screen_id {
            Some(active) => assert!(screens.contains(&active), "{row:?}"),
            None => assert!(screens.is_empty(), "{row:?}"),
        }
    }
    for row in graph.all::<ScreenRow>() {
        assert!(graph.row::<WorkspaceRow>(row.workspace_id).is_some());
        let panes = row.layout.panes();
        assert!(panes.contains(&row.focused_pane_id), "{row:?}");
        assert!(row.zoomed_pane_id.is_none_or(|id| panes.contains(&id)));
        let placed = graph.in_order(|pane: &PaneRow| (pane.screen_id == row.id).then_some(pane.index));
        assert_eq!(placed.iter().map(|pane| pane.id).collect::<Vec<_>>(), panes);
    }
    for row in graph.all::<PaneRow>() {
        assert!(graph.row::<ScreenRow>(row.screen_id).is_some());
        assert!(graph.tabs_of(row.id).iter().any(|tab| tab.id == row.active_tab_id), "{row:?}");
    }
    for row in graph.all::<TabRow>() {
        assert!(graph.row::<PaneRow>(row.pane_id).is_some());
        let shown = graph.terminal(row.terminal_id).unwrap();
        assert_eq!(shown.tab_ids.iter().filter(|id| **id == row.id).count(), 1);
    }
    for row in graph.terminals() {
        for tab in &row.tab_ids {
            assert_eq!(graph.row::<TabRow>(*tab).unwrap().terminal_id, row.id);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Workspace {
    id: WorkspaceId,
    active: Option<ScreenId>,
    screens: Vec<Screen>,
}

#[derive(Clone, Debug, PartialEq)]
struct Screen {
    id: ScreenId,
    focused: PaneId,
    zoomed: Option<PaneId>,
    tree: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Leaf(Pane),
    Split(Box<Node>, Box<Node>),
}

#[derive(Clone, Debug, PartialEq)]
struct Pane {
    id: PaneId,
    active: TabId,
    tabs: Vec<(TabId, TerminalId)>,
}

impl Node {
    fn panes(&mut self) -> Vec<&mut Pane> {
        match self {
            Node::Leaf(pane) => vec![pane],
            Node::Split(first, second) => {
                let mut panes = first.panes();
                panes.extend(second.panes());
                panes
            }
        }
    }

    /// Without the panes that have no tab.
    fn pruned(self) -> Option<Node> {
        match self {
            Node::Leaf(pane) => (!pane.tabs.is_empty()).then_some(Node::Leaf(pane)),
            Node::Split(first, second) => match (first.pruned(), second.pruned()) {
                (Some(first), Some(second)) => Some(Node::Split(first.into(), second.into())),
                (first, second) => first.or(second),
            },
        }
    }

    fn split(self, beside: PaneId, new: &Pane, first: bool) -> Node {
        match self {
            Node::Leaf(pane) if pane.id == beside => {
                let (old, new) = (Node::Leaf(pane), Node::Leaf(new.clone()));
                let (left, right) = if first { (new, old) } else { (old, new) };
                Node::Split(left.into(), right.into())
            }
            Node::Split(left, right) => {
                Node::Split(left.split(beside, new, first).into(), right.split(beside, new, first).into())
            }
            leaf @ Node::Leaf(_) => leaf,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model(Vec<Workspace>);

impl Model {
    fn of(graph: &Graph) -> Self {
        fn node(graph: &Graph, layout: &Layout) -> Node {
            match layout {
                Layout::Leaf { pane_id } => {
                    let tabs = graph.tabs_of(*pane_id);
                    Node::Leaf(Pane {
                        id: *pane_id,
                        active: graph.row::<PaneRow>(*pane_id).unwrap().active_tab_id,
                        tabs: tabs.iter().map(|tab| (tab.id, tab.terminal_id)).collect(),
                    })
                }
                Layout::Split { first, second, .. } => {
                    Node::Split(node(graph, first).into(), node(graph, second).into())
                }
            }
        }
        let screens = |id| {
            let rows = graph.screens_of(id).into_iter();
            rows.map(|row| Screen {
                id: row.id,
                focused: row.focused_pane_id,
                zoomed: row.zoomed_pane_id,
                tree: node(graph, &row.layout),
            })
            .collect()
        };
        let rows = graph.in_order(|row: &WorkspaceRow| Some(row.index)).into_iter();
        Model(
            rows.map(|row| Workspace { id: row.id, active: row.active_screen_id, screens: screens(row.id) }).collect(),
        )
    }

    fn screens(&mut self) -> impl Iterator<Item = &mut Screen> {
        self.0.iter_mut().flat_map(|workspace| &mut workspace.screens)
    }

    fn panes(&mut self) -> impl Iterator<Item = &mut Pane> {
        self.screens().flat_map(|screen| screen.tree.panes())
    }

    fn tabs(&mut self) -> Vec<(TabId, TerminalId)> {
        self.panes().flat_map(|pane| pane.tabs.clone()).collect()
    }

    fn focus(&mut self, pane: PaneId) {
        for workspace in &mut self.0 {
            for screen in &mut workspace.screens {
                if screen.tree.panes().iter().any(|other| other.id == pane) {
                    screen.focused = pane;
                    screen.zoomed = screen.zoomed.filter(|zoomed| *zoomed == pane);
                    workspace.active = Some(screen.id);
                }
            }
        }
    }

    /// Takes tabs out, and what is empty then; the neighbour is looked at.
    fn take(&mut self, gone: impl Fn(TabId) -> bool) {
        for workspace in &mut self.0 {
            for screen in std::mem::take(&mut workspace.screens) {
                let Screen { id, mut focused, mut zoomed, mut tree } = screen;
                // One at a time, as a person would close them.
                let tabs: Vec<_> = tree.panes().iter().flat_map(|pane| pane.tabs.clone()).collect();
                let mut left = Some(tree);
                for (tab, _) in tabs.into_iter().filter(|(tab, _)| gone(*tab)) {
                    let mut tree = left.unwrap();
                    let mut panes = tree.panes();
                    let place = panes.iter().position(|pane| pane.tabs.iter().any(|held| held.0 == tab)).unwrap();
                    let pane = &mut panes[place];
                    let pane_id = pane.id;
                    pane.tabs.retain(|held| held.0 != tab);
                    if let Some(last) = pane.tabs.last()
                        && pane.active == tab
                    {
                        pane.active = last.0;
                    }
                    let empty = pane.tabs.is_empty();
                    left = tree.pruned();
                    if let Some(tree) = &mut left
                        && empty
                    {
                        let panes = tree.panes();
                        if focused == pane_id {
                            focused = panes[place.min(panes.len() - 1)].id;
                        }
                        zoomed = zoomed.filter(|zoomed| *zoomed != pane_id);
                    }
                    if left.is_none() {
                        break;
                    }
                }
                workspace.screens.extend(left.map(|tree| Screen { id, focused, zoomed, tree }));
            }
            let screens = &workspace.screens;
            if !screens.iter().any(|screen| Some(screen.id) == workspace.active) {
                workspace.active = screens.last().map(|screen| screen.id);
            }
        }
    }
}

fn pick<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[dice.below(of.len())]
}

#[test]
fn places_are_what_a_person_sees() {
    for seed in 0..12 {
        eprintln!("seed {seed}");
        let mut dice = Dice(seed);
        let mut bench = Bench::default();
        let (mut model, mut splits, mut closes) = (Model::default(), 0, 0);
        for name in ["one", "two", "three"] {
            bench.workspace(new_workspace(name));
        }
        let terminals: Vec<TerminalId> = (0..6).map(|_| bench.terminal(new_terminal(Place::Detached, "")).1).collect();
        model.0.extend(Model::of(&bench.graph).0);
        for _ in 0..500 {
            let terminal = pick(&mut dice, &terminals);
            let workspace = pick(&mut dice, &model.0.iter().map(|row| row.id).collect::<Vec<_>>());
            let panes: Vec<PaneId> = model.panes().map(|pane| pane.id).collect();
            let tabs = model.tabs();
            if dice.below(12) == 0 || panes.is_empty() {
                let path = bench.path(ScreenNew {
                    workspace: Some(workspace.to_string()),
                    terminal: Some(terminal.to_string()),
                    ..ScreenNew::default()
                });
                let (pane, tab) = (path.pane.unwrap(), path.tab.unwrap());
                let row = model.0.iter_mut().find(|row| row.id == workspace).unwrap();
                row.screens.push(Screen {
                    id: path.screen.unwrap(),
                    focused: pane,
                    zoomed: None,
                    tree: Node::Leaf(Pane { id: pane, active: tab, tabs: vec![(tab, terminal)] }),
                });
                row.active = path.screen;
                assert_eq!(Model::of(&bench.graph), model);
                continue;
            }
            let (pane, other) = (pick(&mut dice, &panes), pick(&mut dice, &panes));
            let (tab, _) = pick(&mut dice, &tabs);
            let direction = pick(&mut dice, &["right", "down", "left", "up"]);
            let first = matches!(direction, "left" | "up");
            match dice.below(9) {
                0 => {
                    splits += 1;
                    let path = bench.path(PaneSplit {
                        pane: Some(pane.to_string()),
                        direction: direction.to_owned(),
                        terminal: Some(terminal.to_string()),
                        ..PaneSplit::default()
                    });
                    let new = Pane {
                        id: path.pane.unwrap(),
                        active: path.tab.unwrap(),
                        tabs: vec![(path.tab.unwrap(), terminal)],
                    };
                    for screen in model.screens() {
                        screen.tree = screen.tree.clone().split(pane, &new, first);
                    }
                    model.focus(new.id);
                }
                1 => {
                    let path = bench.path(TabNew {
                        pane: Some(pane.to_string()),
                        terminal: Some(terminal.to_string()),
                        ..TabNew::default()
                    });
                    let tab = path.tab.unwrap();
                    let held = model.panes().find(|held| held.id == pane).unwrap();
                    held.tabs.push((tab, terminal));
                    held.active = tab;
                    model.focus(pane);
                }
                2 => {
                    closes += 1;
                    bench.path(TabClose { tab: tab.to_string(), ..TabClose::default() });
                    model.take(|other| other == tab);
                }
                3 if dice.below(3) == 0 => {
                    closes += 1;
                    let held = model.panes().find(|held| held.id == pane).unwrap();
                    let held: Vec<_> = held.tabs.iter().map(|tab| tab.0).collect();
                    bench.path(PaneClose { pane: pane.to_string(), ..PaneClose::default() });
                    model.take(|tab| held.contains(&tab));
                }
                4 => {
                    bench.path(TabFocus { tab: tab.to_string(), ..TabFocus::default() });
                    let mut panes = model.panes();
                    let held = panes.find(|held| held.tabs.iter().any(|held| held.0 == tab));
                    let held = held.unwrap();
                    held.active = tab;
                    let pane = held.id;
                    drop(panes);
                    model.focus(pane);
                }
                5 => {
                    let index = dice.below(4);
                    bench.path(TabMove {
                        tab: tab.to_string(),
                        pane: Some(pane.to_string()),
                        index: Some(u32::try_from(index).unwrap()),
                        ..TabMove::default()
                    });
                    let shown = tabs.iter().find(|held| held.0 == tab).unwrap().1;
                    let stays = |held: &Pane| held.id == pane && held.tabs.iter().any(|held| held.0 == tab);
                    if model.panes().any(|held| stays(held)) {
                        let held = model.panes().find(|held| held.id == pane).unwrap();
                        held.tabs.retain(|held| held.0 != tab);
                        held.tabs.insert(index.min(held.tabs.len()), (tab, shown));
                    } else {
                        model.take(|other| other == tab);
                        let held = model.panes().find(|held| held.id == pane).unwrap();
                        held.tabs.insert(index.min(held.tabs.len()), (tab, shown));
                        held.active = tab;
                    }
                }
                6 if pane != other => {
                    bench.path(PaneMove {
                        pane: pane.to_string(),
                        beside: other.to_string(),
                        direction: direction.to_owned(),
                        ..PaneMove::default()
                    });
                    let moved = model.panes().find(|held| held.id == pane).unwrap().clone();
                    model.take(|tab| moved.tabs.iter().any(|held| held.0 == tab));
                    for screen in model.screens() {
                        screen.tree = screen.tree.clone().split(other, &moved, first);
                    }
                    model.focus(pane);
                }
                7 => {
                    bench.path(PaneZoom { pane: pane.to_string(), ..PaneZoom::default() });
                    model.focus(pane);
                    for screen in model.screens() {
                        if screen.tree.panes().iter().any(|held| held.id == pane) {
                            screen.zoomed = screen.zoomed.is_none().then_some(pane);
                        }
                    }
                }
                8 if dice.below(4) == 0 => {
                    let screens: Vec<_> = model.screens().map(|screen| screen.id).collect();
                    let screen = pick(&mut dice, &screens);
                    let index = dice.below(3);
                    bench.path(ScreenMove {
                        screen: screen.to_string(),
                        workspace: Some(workspace.to_string()),
                        index: Some(u32::try_from(index).unwrap()),
                        ..ScreenMove::default()
                    });
                    let from = |row: &&mut Workspace| row.screens.iter().any(|held| held.id == screen);
                    let from = model.0.iter_mut().find(from).unwrap();
                    let at = from.screens.iter().position(|held| held.id == screen).unwrap();
                    let moved = from.screens.remove(at);
                    let stays = from.id == workspace;
                    if !stays && from.active == Some(screen) {
                        from.active = from.screens.last().map(|held| held.id);
                    }
                    let to = model.0.iter_mut().find(|row| row.id == workspace).unwrap();
                    to.screens.insert(index.min(to.screens.len()), moved);
                    if !stays {
                        to.active = Some(screen);
                    }
                }
                _ => {
                    bench.path(PaneFocus { pane: pane.to_string(), ..PaneFocus::default() });
                    model.focus(pane);
                }
            }
            assert_eq!(Model::of(&bench.graph), model);
            if dice.below(20) == 0 {
                let before = bench.graph.export(&workspace.to_string()).unwrap();
                bench.path(LayoutApply {
                    workspace: Some(workspace.to_string()),
                    layout: before.clone(),
                    ..LayoutApply::default()
                });
                assert_eq!(bench.graph.export(&workspace.to_string()).unwrap(), before);
                model = Model::of(&bench.graph);
            }
        }
        assert!(splits > 20 && closes > 20, "{splits} splits, {closes} closes");
    }
}

/// A workspace `main` of two panes: `left` and `right`, whose terminals are called so.
fn two_panes() -> (Bench, PaneId, PaneId) {
    let mut bench = Bench::default();
    let left = bench.path(new_terminal(Place::Recent, "left"));
    let right = bench.path(PaneSplit {
        pane: Some("left".to_owned()),
        direction: "right".to_owned(),
        ratio: Some(Ratio::of(0.3)),
        ..PaneSplit::default()
    });
    bench.path(TerminalRename {
        terminal: right.terminal.unwrap().to_string(),
        name: "right".to_owned(),
        ..TerminalRename::default()
    });
    (bench, left.pane.unwrap(), right.pane.unwrap())
}

#[test]
fn a_place_is_meant_by_what_is_in_it_and_by_a_path() {
    let (mut bench, left, right) = two_panes();
    let graph = &bench.graph;
    assert_eq!(graph.resolve_pane("left"), Ok(left));
    assert_eq!(graph.resolve_pane("main/right"), Ok(right));
    let start = &right.to_string()[..12];
    assert_eq!(graph.resolve_pane(start), Ok(right));
    let terminal = graph.resolve_terminal("right").unwrap();
    assert_eq!(graph.resolve_terminal("main/right"), Ok(terminal));
    assert_eq!(graph.resolve_terminal(&terminal.to_string()[..14]), Ok(terminal));
    assert_eq!(code(graph.resolve_terminal("other/right")), Code::NotFound);
    let tab = graph.resolve_tab("main/right").unwrap();
    assert_eq!(graph.row::<TabRow>(tab).unwrap().pane_id, right);
    bench.path(TabRename { tab: tab.to_string(), name: "logs".to_owned(), ..TabRename::default() });
    assert_eq!(bench.graph.resolve_tab("main/right/logs"), Ok(tab));
    // Shown twice, a terminal does not mean a tab any more.
    bench.path(TabNew { pane: Some(left.to_string()), terminal: Some("right".to_owned()), ..TabNew::default() });
    assert_eq!(code(bench.graph.resolve_tab("right")), Code::Ambiguous);
    assert_eq!(code(bench.graph.resolve_pane("right")), Code::Ambiguous);
}

#[test]
fn renaming_a_terminal_renames_the_tabs_that_show_it_and_renaming_a_tab_only_that() {
    let (mut bench, left, _) = two_panes();
    let again =
        bench.path(TabNew { pane: Some(left.to_string()), terminal: Some("right".to_owned()), ..TabNew::default() });
    let names = |bench: &Bench| {
        let row = bench.graph.terminal(again.terminal.unwrap()).unwrap();
        let tabs = row.tab_ids.iter().map(|tab| bench.graph.row::<TabRow>(*tab).unwrap().name.clone());
        tabs.chain([row.name.clone()]).collect::<Vec<_>>()
    };
    bench.path(TerminalRename { terminal: "right".to_owned(), name: "both".to_owned(), ..TerminalRename::default() });
    assert_eq!(names(&bench), ["both", "both", "both"]);
    bench.path(TabRename { tab: again.tab.unwrap().to_string(), name: "one".to_owned(), ..TabRename::default() });
    assert_eq!(names(&bench), ["both", "one", "both"]);
}

#[test]
fn closing_shows_the_neighbour_and_leaves_terminals_alive() {
    let (mut bench, left, right) = two_panes();
    bench.path(PaneZoom { pane: right.to_string(), zoomed: Some(true), ..PaneZoom::default() });
    bench.path(PaneClose { pane: right.to_string(), ..PaneClose::default() });
    let screen = bench.graph.all::<ScreenRow>().next().unwrap().clone();
    assert_eq!((screen.focused_pane_id, screen.zoomed_pane_id), (left, None));
    let detached = bench.graph.resolve_terminal("right").unwrap();
    assert!(bench.graph.terminal(detached).unwrap().tab_ids.is_empty());
    // An ended terminal goes on being shown until it is closed; then its pane goes, and the screen.
    let ended = bench.graph.resolve_terminal("left").unwrap();
    bench.terminal(Happened::Ended { terminal: ended, exit: keepline_protocol::record::Exit::Status(0) });
    assert_eq!(bench.graph.terminal(ended).unwrap().tab_ids.len(), 1);
    bench.path(TerminalClose { terminal: "left".to_owned(), ..TerminalClose::default() });
    assert_eq!(bench.graph.all::<ScreenRow>().count(), 0);
    assert_eq!(bench.graph.all::<WorkspaceRow>().count(), 1);
    // A terminal that never ran was never seen.
    let path = bench.path(new_terminal(Place::Recent, ""));
    let terminal = path.terminal.unwrap();
    bench.path(Happened::NotStarted { terminal });
    assert_eq!(bench.graph.all::<TabRow>().count(), 0);
}

#[test]
fn a_layout_drops_what_is_not_there() {
    let (mut bench, ..) = two_panes();
    let layout = bench.graph.export("main").unwrap();
    let gone = bench.graph.resolve_terminal("right").unwrap();
    bench.path(TerminalClose { terminal: gone.to_string(), ..TerminalClose::default() });
    let apply = |layout: Json| LayoutApply { layout, ..LayoutApply::default() };
    let made = bench.path(apply(layout));
    let row = bench.graph.row::<WorkspaceRow>(made.workspace.unwrap()).unwrap();
    assert_eq!(row.name, "main");
    let screen = bench.graph.row::<ScreenRow>(made.screen.unwrap()).unwrap();
    assert_eq!(screen.layout.panes().len(), 1);
    let of = |text: &str| apply(Json::from_trusted(text.to_owned()));
    let empty = r#"{"screens": [{"layout": {"type": "leaf", "tabs": [{"terminal": "nobody"}]}}]}"#;
    let made = bench.path(of(empty));
    assert_eq!(bench.graph.screens_of(made.workspace.unwrap()).len(), 0);
    for wrong in ["1", "{}", r#"{"screens": [{"layout": {"type": "whale"}}]}"#] {
        assert_eq!(bench.refusal(of(wrong)).code, Code::Invalid);
    }
}

#[test]
fn places_have_bounds_and_move_within_them() {
    let (mut bench, left, right) = two_panes();
    let split = PaneSplit {
        pane: Some("right".to_owned()),
        direction: "down".to_owned(),
        terminal: Some("left".to_owned()),
        ..PaneSplit::default()
    };
    for _ in 2..PANES_MAX {
        bench.path(split.clone());
    }
    assert_eq!(bench.refusal(split).code, Code::TooLarge);
    let to = |direction: &str| PaneMove {
        pane: left.to_string(),
        beside: right.to_string(),
        direction: direction.to_owned(),
        ..PaneMove::default()
    };
    bench.path(to("up"));
    assert_eq!(bench.refusal(to("inside")).code, Code::Invalid);
    let onto_itself = PaneMove { beside: left.to_string(), ..to("up") };
    assert_eq!(bench.refusal(onto_itself).code, Code::Invalid);
    let resize = |pane: PaneId, ratio: f64| PaneResize {
        pane: pane.to_string(),
        ratio: Some(Ratio::of(ratio)),
        ..PaneResize::default()
    };
    bench.path(resize(left, 0.2));
    let screen = bench.graph.all::<ScreenRow>().next().unwrap();
    assert!(serde_json::to_string(&screen.layout).unwrap().contains("0.2"));
    let alone = bench.path(ScreenNew {
        terminal: Some("left".to_owned()),
        name: Some("alone".to_owned()),
        ..ScreenNew::default()
    });
    assert_eq!(bench.refusal(resize(alone.pane.unwrap(), 0.5)).code, Code::Invalid);
    bench.path(ScreenRename { screen: "alone".to_owned(), name: "other".to_owned(), ..ScreenRename::default() });
    bench.path(ScreenFocus { screen: "other".to_owned(), ..ScreenFocus::default() });
    bench.path(ScreenClose { screen: "other".to_owned(), ..ScreenClose::default() });
    for name in ["b", "c"] {
        bench.workspace(new_workspace(name));
    }
    bench.path(WorkspaceMove { workspace: "c".to_owned(), index: 0, ..WorkspaceMove::default() });
    let names = bench.graph.in_order(|row: &WorkspaceRow| Some(row.index));
    let names: Vec<_> = names.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["c", "main", "b"]);
    bench.path(WorkspaceFocus { workspace: "b".to_owned(), ..WorkspaceFocus::default() });
    let recent = bench.graph.recent_workspace().unwrap();
    assert_eq!(bench.graph.row::<WorkspaceRow>(recent).unwrap().name, "b");
    let both = TabNew { pane: Some(left.to_string()), workspace: Some("b".to_owned()), ..TabNew::default() };
    assert_eq!(bench.refusal(both).code, Code::Invalid);
    let ended = bench.graph.resolve_terminal("left").unwrap();
    bench.terminal(Happened::Ended { terminal: ended, exit: keepline_protocol::record::Exit::Status(0) });
    let shown = TabNew { terminal: Some("left".to_owned()), ..TabNew::default() };
    assert_eq!(bench.refusal(shown).code, Code::Gone);
    assert!(bench.graph.all::<TerminalRow>().count() > 1);
}
