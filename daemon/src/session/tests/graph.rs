use keepline_protocol::failure::Code;
use keepline_protocol::record::Exit;

use super::super::document;
use super::super::rows::{Kind, Lifecycle};
use super::*;
use crate::bounds::{
    ARGV_MAX, ENDED_TERMINALS_MAX, LABEL_MAX, LIVE_TERMINALS_MAX, REASON_MAX, ROWS_MAX, ROWS_RESERVE, TITLE_MAX,
};

fn ended(terminal: TerminalId) -> Happened {
    Happened::Ended { terminal, exit: Exit::Status(0) }
}

#[test]
fn generated_names_are_main_and_then_numbers_that_are_free() {
    let mut bench = Bench::default();
    let first = bench.workspace(WorkspaceNew { name: None, ..WorkspaceNew::default() });
    bench.workspace(WorkspaceNew { name: None, ..WorkspaceNew::default() });
    bench.workspace(new_workspace("workspace 3"));
    bench.workspace(WorkspaceNew { name: None, ..WorkspaceNew::default() });
    let mut names: Vec<_> = bench.graph.all::<WorkspaceRow>().map(|row| (row.index, row.name.as_str())).collect();
    names.sort_unstable();
    assert_eq!(names, [(0, "main"), (1, "workspace 2"), (2, "workspace 3"), (3, "workspace 4")]);
    bench.workspace(WorkspaceClose { workspace: first.to_string(), ..WorkspaceClose::default() });
    let again = bench.workspace(WorkspaceNew { name: None, ..WorkspaceNew::default() });
    assert_eq!(bench.graph.row::<WorkspaceRow>(again).unwrap().name, "workspace 5");
}

#[test]
fn a_workspace_has_a_name_within_bounds() {
    let mut bench = Bench::default();
    let workspace = bench.workspace(new_workspace("one")).to_string();
    let rename = |name: &str| WorkspaceRename {
        workspace: workspace.clone(),
        name: name.to_owned(),
        ..WorkspaceRename::default()
    };
    assert_eq!(bench.refusal(new_workspace("")).code, Code::Invalid);
    assert_eq!(bench.refusal(rename("")).code, Code::Invalid);
    // Bytes of UTF-8 count, not characters.
    let long = "é".repeat(LABEL_MAX / 2);
    bench.workspace(rename(&long));
    assert_eq!(bench.refusal(rename(&format!("{long}x"))).code, Code::Invalid);
    assert_eq!(bench.graph.resolve::<WorkspaceRow>(&long).unwrap().to_string(), workspace);
}

#[test]
fn a_reference_is_an_id_or_a_unique_name_and_ids_win() {
    let mut bench = Bench::default();
    let one = bench.workspace(new_workspace("twin"));
    assert_eq!(bench.graph.resolve::<WorkspaceRow>("twin"), Ok(one));
    let two = bench.workspace(new_workspace("twin"));
    let failure = bench.graph.resolve::<WorkspaceRow>("twin").unwrap_err();
    assert_eq!(failure.code, Code::Ambiguous);
    let mut twins = [one, two];
    twins.sort_unstable();
    assert_eq!(failure.candidates, twins.map(|id| format!("{id} twin")));
    bench.workspace(new_workspace(&one.to_string()));
    assert_eq!(bench.graph.resolve::<WorkspaceRow>(&one.to_string()), Ok(one));
    assert_eq!(code(bench.graph.resolve::<WorkspaceRow>("nobody")), Code::NotFound);
    assert_eq!(
        code(bench.graph.resolve::<WorkspaceRow>(&WorkspaceId::from_bytes([9; 16]).to_string())),
        Code::NotFound
    );
}

#[test]
fn a_terminal_is_called_by_its_label_else_by_its_title() {
    let mut bench = Bench::default();
    let (_, id) = bench.terminal(new_terminal(Place::Detached, ""));
    assert_eq!(bench.graph.resolve_terminal("sh"), Ok(id));
    bench.terminal(titled(id, 1, "vim"));
    assert_eq!(bench.graph.resolve_terminal("vim"), Ok(id));
    bench.terminal(TerminalRename {
        terminal: "vim".to_owned(),
        name: "editor".to_owned(),
        ..TerminalRename::default()
    });
    assert_eq!(bench.graph.resolve_terminal("editor"), Ok(id));
    assert_eq!(code(bench.graph.resolve_terminal("vim")), Code::NotFound);
    bench.terminal(TerminalRename { terminal: "editor".to_owned(), name: String::new(), ..TerminalRename::default() });
    assert_eq!(bench.graph.resolve_terminal("vim"), Ok(id));
    assert_eq!(code(bench.graph.resolve_terminal("")), Code::NotFound);
}

#[test]
fn a_new_terminal_goes_where_it_was_asked_for() {
    let mut bench = Bench::default();
    let (main, first) = bench.terminal(new_terminal(Place::Recent, "first"));
    let main = main.unwrap();
    assert_eq!(bench.graph.row::<WorkspaceRow>(main).unwrap().name, "main");
    let other = bench.workspace(new_workspace("other"));
    assert_eq!(bench.terminal(new_terminal(Place::Beside(first), "")).0, Some(main));
    // The terminal made last was used last.
    assert_eq!(bench.terminal(new_terminal(Place::Recent, "")).0, Some(main));
    let (in_other, _) = bench.terminal(new_terminal(Place::Workspace("other".to_owned()), ""));
    assert_eq!(in_other, Some(other));
    assert_eq!(bench.terminal(new_terminal(Place::Recent, "")).0, Some(other));
    let used_ms = Some(bench.now + 100);
    bench.terminal(Happened::Observed(Observed { terminal: Some(first), used_ms, ..Observed::default() }));
    assert_eq!(bench.terminal(new_terminal(Place::Recent, "")).0, Some(main));
    let (nowhere, detached) = bench.terminal(new_terminal(Place::Detached, ""));
    assert_eq!(nowhere, None);
    assert_eq!(bench.terminal(new_terminal(Place::Beside(detached), "")).0, Some(main));
    assert_eq!(bench.refusal(new_terminal(Place::Workspace("none".to_owned()), "")).code, Code::NotFound);
    let both = TerminalNew { detached: Some(true), ..new_terminal(Place::Workspace("main".to_owned()), "") };
    assert_eq!(bench.refusal(both).code, Code::Invalid);
}

#[test]
fn closing_a_workspace_detaches_its_terminals() {
    let mut bench = Bench::default();
    let (workspace, terminal) = bench.terminal(new_terminal(Place::Recent, ""));
    bench.workspace(WorkspaceClose { workspace: "main".to_owned(), ..WorkspaceClose::default() });
    assert!(bench.graph.row::<WorkspaceRow>(workspace.unwrap()).is_none());
    let row = bench.graph.terminal(terminal).unwrap();
    assert_eq!((row.tab_ids.len(), row.lifecycle), (0, Lifecycle::Launching));
}

#[test]
fn a_terminal_launches_runs_and_ends_once() {
    let mut bench = Bench::default();
    let (_, id) = bench.terminal(new_terminal(Place::Detached, "t"));
    bench.terminal(Happened::Started { terminal: id, pid: 7 });
    let row = bench.graph.terminal(id).unwrap();
    assert_eq!((row.lifecycle, row.pid), (Lifecycle::Running, Some(7)));
    let wide = Cells { cols: 132, rows: 24 };
    bench.terminal(TerminalResize {
        terminal: "t".to_owned(),
        size: Some(Size::cells(132, 24)),
        ..TerminalResize::default()
    });
    assert_eq!(bench.graph.terminal(id).unwrap().size, wide);
    bench.terminal(Happened::Ended { terminal: id, exit: Exit::Signal(9) });
    let at = bench.now;
    bench.terminal(ended(id));
    let row = bench.graph.terminal(id).unwrap();
    assert_eq!((row.lifecycle, &row.exit, row.ended_ms), (Lifecycle::Ended, &Some(Exit::Signal(9)), Some(at)));
    assert_eq!(bench.refusal(Happened::Started { terminal: id, pid: 8 }).code, Code::Gone);
    assert_eq!(
        bench.refusal(TerminalResize { terminal: "t".to_owned(), size: Some(SIZE), ..TerminalResize::default() }).code,
        Code::Gone
    );
    bench.terminal(TerminalClose { terminal: "t".to_owned(), ..TerminalClose::default() });
    assert!(bench.graph.terminal(id).is_none());
    assert_eq!(bench.refusal(ended(id)).code, Code::Gone);
    assert_eq!(bench.refusal(titled(id, 1, "x")).code, Code::Gone);
}

#[test]
fn what_was_not_started_says_so() {
    let mut bench = Bench::default();
    let (_, id) = bench.terminal(new_terminal(Place::Detached, ""));
    bench.terminal(Happened::NotStarted { terminal: id });
    let json = serde_json::to_value(bench.graph.terminal(id).unwrap()).unwrap();
    assert_eq!(json["lifecycle"], "ended");
    assert_eq!(json["exit"], serde_json::json!({"reason": "not started"}));
    assert_eq!(json["pid"], JsonValue::Null);
}

#[test]
fn a_restart_ends_what_lived_and_nothing_else() {
    let mut bench = Bench::default();
    let (_, launching) = bench.terminal(new_terminal(Place::Recent, ""));
    let (_, running) = bench.terminal(new_terminal(Place::Recent, ""));
    bench.terminal(Happened::Started { terminal: running, pid: 1 });
    let (_, done) = bench.terminal(new_terminal(Place::Recent, ""));
    bench.terminal(ended(done));
    assert_eq!(bench.graph.restart(99).len(), 2);
    for id in [launching, running] {
        let row = bench.graph.terminal(id).unwrap();
        assert_eq!(row.exit, Some(Exit::Reason("daemon stopped".to_owned())));
        assert_eq!((row.lifecycle, row.ended_ms), (Lifecycle::Ended, Some(99)));
    }
    assert_eq!(bench.graph.terminal(done).unwrap().exit, Some(Exit::Status(0)));
    assert_eq!(bench.graph.restart(100), []);
}

#[test]
fn texts_of_programs_are_cut_and_texts_of_people_are_refused() {
    let mut bench = Bench::default();
    let (_, id) = bench.terminal(new_terminal(Place::Detached, ""));
    let effects =
        Effects { through: 1, title: Some("é".repeat(TITLE_MAX)), cwd: Some("/".repeat(5000)), ..Effects::default() };
    bench.terminal(affected(id, effects));
    let row = bench.graph.terminal(id).unwrap();
    assert_eq!((row.title.len(), row.cwd.as_str()), (TITLE_MAX, "/"));
    bench.terminal(Happened::Ended { terminal: id, exit: Exit::Reason("x".repeat(9999)) });
    let reason = bench.graph.terminal(id).unwrap().exit.clone();
    assert_eq!(reason, Some(Exit::Reason("x".repeat(REASON_MAX))));
    let long = new_terminal(Place::Detached, &"x".repeat(LABEL_MAX + 1));
    assert_eq!(bench.refusal(long).code, Code::Invalid);
    let with_argv = |word: String| TerminalNew { argv: Some(vec![word]), ..TerminalNew::default() };
    assert_eq!(bench.refusal(with_argv("x".repeat(ARGV_MAX + 1))).code, Code::Invalid);
    // Escaped, each of these bytes takes six: the row is over its bound, and the workspace made for it goes too.
    assert_eq!(bench.refusal(with_argv("\u{1}".repeat(ARGV_MAX))).code, Code::TooLarge);
    assert_eq!(bench.graph.all::<WorkspaceRow>().count(), 0);
}

#[test]
fn the_newest_ended_terminals_stay() {
    let mut bench = Bench::default();
    let mut ids = Vec::new();
    for _ in 0..ENDED_TERMINALS_MAX + 3 {
        let (_, id) = bench.terminal(new_terminal(Place::Detached, ""));
        bench.terminal(ended(id));
        ids.push(id);
    }
    let left = ids.iter().filter(|id| bench.graph.terminal(**id).is_some()).collect::<Vec<_>>();
    assert_eq!(left, ids[3..].iter().collect::<Vec<_>>());
}

#[test]
fn only_so_many_terminals_live_at_once() {
    let mut bench = Bench::default();
    let (_, first) = bench.terminal(new_terminal(Place::Detached, ""));
    for _ in 1..LIVE_TERMINALS_MAX {
        bench.terminal(new_terminal(Place::Detached, ""));
    }
    assert_eq!(bench.refusal(new_terminal(Place::Detached, "")).code, Code::TooLarge);
    bench.terminal(ended(first));
    bench.terminal(new_terminal(Place::Detached, ""));
}

#[test]
fn a_full_graph_lets_ended_terminals_go_then_refuses_but_still_records_ends() {
    let mut bench = Bench::default();
    let big = |bench: &mut Bench| {
        bench.apply(TerminalNew { argv: Some(vec!["x".repeat(ARGV_MAX - 1)]), ..new_terminal(Place::Detached, "") })
    };
    let mut live = Vec::new();
    let mut gone = Vec::new();
    for _ in 0..20 {
        let Ok(Value::Path(path)) = big(&mut bench) else { panic!("there is room") };
        let id = path.terminal.unwrap();
        bench.terminal(ended(id));
        gone.push(id);
    }
    let failure = loop {
        match big(&mut bench) {
            Ok(Value::Path(path)) => live.push(path.terminal.unwrap()),
            Ok(other) => panic!("a terminal was made, not {other:?}"),
            Err(failure) => break failure,
        }
        assert!(bench.graph.bytes() <= ROWS_MAX - ROWS_RESERVE);
        // The oldest went first.
        let left: Vec<bool> = gone.iter().map(|id| bench.graph.terminal(*id).is_some()).collect();
        assert!(left.is_sorted(), "{left:?}");
    };
    assert_eq!(failure.code, Code::TooLarge);
    assert!(gone.iter().all(|id| bench.graph.terminal(*id).is_none()));
    // Small things still fit, until they do not either; what shrinks, starts or ends always does.
    while bench.apply(new_workspace(&"x".repeat(LABEL_MAX))).is_ok() {}
    for id in &live {
        bench.terminal(Happened::Started { terminal: *id, pid: u32::MAX });
    }
    assert!(bench.graph.bytes() > ROWS_MAX - ROWS_RESERVE);
    let workspace = bench.graph.all::<WorkspaceRow>().next().unwrap().id.to_string();
    bench.workspace(WorkspaceRename { workspace, name: "x".to_owned(), ..WorkspaceRename::default() });
    for id in &live {
        bench.terminal(Happened::Ended { terminal: *id, exit: Exit::Reason("x".repeat(REASON_MAX)) });
    }
    assert!(bench.graph.terminal(live[0]).is_some());
    assert!(bench.graph.bytes() <= ROWS_MAX);
    bench.terminal(TerminalClose { terminal: live[0].to_string(), ..TerminalClose::default() });
}

#[test]
fn changes_name_each_row_once_with_what_it_was_and_can_be_taken_back() {
    let mut bench = Bench::default();
    let (_, terminal) = bench.terminal(new_terminal(Place::Recent, ""));
    let before = bench.graph.clone();
    let close = WorkspaceClose { workspace: "main".to_owned(), ..WorkspaceClose::default() };
    let applied = bench.graph.apply(&close.into(), 9, fresh(9)).unwrap();
    let mut kinds: Vec<_> = applied.changes.iter().map(|change| (change.id.kind(), change.after.is_some())).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            (Kind::Workspace, false),
            (Kind::Screen, false),
            (Kind::Pane, false),
            (Kind::Tab, false),
            (Kind::Terminal, true),
        ]
    );
    bench.graph.undo(&applied.changes);
    assert_eq!(bench.graph, before);
    let same = TerminalRename { terminal: terminal.to_string(), name: String::new(), ..TerminalRename::default() };
    assert_eq!(bench.graph.apply(&same.into(), 10, fresh(10)).unwrap().changes, []);
}

#[test]
fn a_document_has_every_collection_even_when_empty() {
    let cursor = Cursor { generation: keepline_protocol::id::Generation::from_bytes([1; 16]), revision: 5 };
    let document = document::document(cursor, Vec::new());
    let value: JsonValue = document.parse().unwrap();
    assert_eq!(value["cursor"], serde_json::json!({"generation": "01".repeat(16), "revision": 5}));
    for collection in
        ["workspaces", "screens", "panes", "tabs", "terminals", "browsers", "agents", "notifications", "clients"]
    {
        assert_eq!(value[collection], serde_json::json!([]), "{collection}");
    }
}

#[test]
fn the_rows_have_the_fields_that_clients_read() {
    let mut bench = Bench::default();
    let (workspace, terminal) = bench.terminal(new_terminal(Place::Recent, "label \"\u{1}\u{202e}"));
    let (workspace_text, terminal_text) = (workspace.unwrap().to_string(), terminal.to_string());
    let mirror = Mirror::of(&document::document(
        Cursor { generation: keepline_protocol::id::Generation::from_bytes([1; 16]), revision: 1 },
        bench.graph.rows().cloned().collect(),
    ));
    let row = |kind: &str, id: &str| mirror.rows[&(kind.to_owned(), id.to_owned())].clone();
    let shown = row("terminal", &terminal_text);
    let tab = row("tab", shown["tab_ids"][0].as_str().unwrap());
    let pane = row("pane", tab["pane_id"].as_str().unwrap());
    let screen = row("screen", pane["screen_id"].as_str().unwrap());
    assert_eq!(
        row("workspace", &workspace_text),
        serde_json::json!({
            "id": workspace_text, "name": "main", "index": 0, "active_screen_id": screen["id"], "created_ms": 1,
            "used_ms": 1
        })
    );
    assert_eq!(
        screen,
        serde_json::json!({
            "id": screen["id"], "workspace_id": workspace_text, "name": "", "index": 0,
            "layout": {"type": "leaf", "pane_id": pane["id"]}, "focused_pane_id": pane["id"], "zoomed_pane_id": null
        })
    );
    assert_eq!(
        pane,
        serde_json::json!({
            "id": pane["id"], "screen_id": screen["id"], "index": 0, "active_tab_id": tab["id"]
        })
    );
    assert_eq!(
        tab,
        serde_json::json!({
            "id": tab["id"], "pane_id": pane["id"], "terminal_id": terminal_text, "name": "", "index": 0
        })
    );
    assert_eq!(
        shown,
        serde_json::json!({
            "id": terminal_text, "name": "label \"\u{1}\u{202e}", "title": "sh", "cwd": "/", "argv": ["/bin/sh"],
            "size": {"cols": 80, "rows": 24}, "lifecycle": "launching", "exit": null, "pid": null,
            "tab_ids": [tab["id"]], "index": 0, "created_ms": 1, "used_ms": 1, "ended_ms": null, "effects_through": 0,
            "last_command": null, "size_policy": "smallest"
        })
    );
}
