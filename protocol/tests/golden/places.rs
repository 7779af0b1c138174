//! Requests and answers of what a session shows where, and of notifications.

use keepline_protocol::api::layout::Ratio;
use keepline_protocol::api::{Json, Path, Receipt, layout, notification};
use keepline_protocol::id::{NotificationId, PaneId, ScreenId, TabId};
use keepline_protocol::registry::method;

use super::methods::{Methods, receipt};
use super::{CURSOR, SIZE, TERMINAL, WORKSPACE, some, text};

const NOTIFICATION: NotificationId = NotificationId::from_bytes([0xbb; 16]);

/// A path of everything, and one of nothing.
pub(super) fn paths() -> Vec<Receipt<Path>> {
    let whole = Path {
        workspace: Some(WORKSPACE),
        screen: Some(ScreenId::from_bytes([0x88; 16])),
        pane: Some(PaneId::from_bytes([0x99; 16])),
        tab: Some(TabId::from_bytes([0xaa; 16])),
        terminal: Some(TERMINAL),
    };
    vec![receipt(whole), receipt(Path::default())]
}

pub(super) fn workspace_methods(methods: &mut Methods) {
    methods.pin::<method::WorkspaceNew>(
        &[
            layout::WorkspaceNew { key: some("key-1"), expect: Some(CURSOR), name: some("main") },
            layout::WorkspaceNew { key: None, expect: None, name: None },
        ],
        paths(),
    );
    methods.pin::<method::WorkspaceRename>(
        &[
            layout::WorkspaceRename {
                key: some("key-1"),
                expect: Some(CURSOR),
                workspace: text("main"),
                name: text("büro"),
            },
            layout::WorkspaceRename { key: None, expect: None, workspace: text("main"), name: text("büro") },
        ],
        paths(),
    );
    methods.pin::<method::WorkspaceClose>(
        &[
            layout::WorkspaceClose { key: some("key-1"), expect: Some(CURSOR), workspace: text("main") },
            layout::WorkspaceClose { key: None, expect: None, workspace: text("main") },
        ],
        paths(),
    );
    methods.pin::<method::WorkspaceMove>(
        &[
            layout::WorkspaceMove { key: some("key-1"), expect: Some(CURSOR), workspace: text("main"), index: 300 },
            layout::WorkspaceMove { key: None, expect: None, workspace: text("main"), index: 300 },
        ],
        paths(),
    );
    methods.pin::<method::WorkspaceFocus>(
        &[
            layout::WorkspaceFocus { key: some("key-1"), expect: Some(CURSOR), workspace: text("main") },
            layout::WorkspaceFocus { key: None, expect: None, workspace: text("main") },
        ],
        paths(),
    );
}

pub(super) fn screen_methods(methods: &mut Methods) {
    methods.pin::<method::ScreenNew>(
        &[
            layout::ScreenNew {
                key: some("key-1"),
                expect: Some(CURSOR),
                workspace: some("main"),
                caller: Some(TERMINAL),
                name: some("main"),
                terminal: some("main"),
                cwd: some("main"),
                size: Some(SIZE),
                argv: Some(vec![text("sh"), text("-c"), text("make")]),
            },
            layout::ScreenNew {
                key: None,
                expect: None,
                workspace: None,
                caller: None,
                name: None,
                terminal: None,
                cwd: None,
                size: None,
                argv: None,
            },
        ],
        paths(),
    );
    methods.pin::<method::ScreenRename>(
        &[
            layout::ScreenRename {
                key: some("key-1"), expect: Some(CURSOR), screen: text("main"), name: text("büro")
            },
            layout::ScreenRename { key: None, expect: None, screen: text("main"), name: text("büro") },
        ],
        paths(),
    );
    methods.pin::<method::ScreenMove>(
        &[
            layout::ScreenMove {
                key: some("key-1"),
                expect: Some(CURSOR),
                screen: text("main"),
                workspace: some("main"),
                index: Some(300),
            },
            layout::ScreenMove { key: None, expect: None, screen: text("main"), workspace: None, index: None },
        ],
        paths(),
    );
    methods.pin::<method::ScreenFocus>(
        &[
            layout::ScreenFocus { key: some("key-1"), expect: Some(CURSOR), screen: text("main") },
            layout::ScreenFocus { key: None, expect: None, screen: text("main") },
        ],
        paths(),
    );
    methods.pin::<method::ScreenClose>(
        &[
            layout::ScreenClose { key: some("key-1"), expect: Some(CURSOR), screen: text("main") },
            layout::ScreenClose { key: None, expect: None, screen: text("main") },
        ],
        paths(),
    );
}

pub(super) fn pane_methods(methods: &mut Methods) {
    methods.pin::<method::PaneSplit>(
        &[
            layout::PaneSplit {
                key: some("key-1"),
                expect: Some(CURSOR),
                pane: some("main"),
                caller: Some(TERMINAL),
                direction: text("down"),
                ratio: Some(Ratio::of(0.3)),
                terminal: some("main"),
                cwd: some("main"),
                size: Some(SIZE),
                argv: Some(vec![text("sh"), text("-c"), text("make")]),
            },
            layout::PaneSplit {
                key: None,
                expect: None,
                pane: None,
                caller: None,
                direction: text("down"),
                ratio: None,
                terminal: None,
                cwd: None,
                size: None,
                argv: None,
            },
        ],
        paths(),
    );
    methods.pin::<method::PaneMove>(
        &[
            layout::PaneMove {
                key: some("key-1"),
                expect: Some(CURSOR),
                pane: text("main"),
                beside: text("main"),
                direction: text("down"),
            },
            layout::PaneMove {
                key: None,
                expect: None,
                pane: text("main"),
                beside: text("main"),
                direction: text("down"),
            },
        ],
        paths(),
    );
    methods.pin::<method::PaneResize>(
        &[
            layout::PaneResize {
                key: some("key-1"),
                expect: Some(CURSOR),
                pane: text("main"),
                ratio: Some(Ratio::of(0.3)),
            },
            layout::PaneResize { key: None, expect: None, pane: text("main"), ratio: None },
        ],
        paths(),
    );
    methods.pin::<method::PaneFocus>(
        &[
            layout::PaneFocus { key: some("key-1"), expect: Some(CURSOR), pane: text("main") },
            layout::PaneFocus { key: None, expect: None, pane: text("main") },
        ],
        paths(),
    );
    methods.pin::<method::PaneZoom>(
        &[
            layout::PaneZoom { key: some("key-1"), expect: Some(CURSOR), pane: text("main"), zoomed: Some(true) },
            layout::PaneZoom { key: None, expect: None, pane: text("main"), zoomed: None },
        ],
        paths(),
    );
    methods.pin::<method::PaneClose>(
        &[
            layout::PaneClose { key: some("key-1"), expect: Some(CURSOR), pane: text("main") },
            layout::PaneClose { key: None, expect: None, pane: text("main") },
        ],
        paths(),
    );
}

pub(super) fn tab_methods(methods: &mut Methods) {
    methods.pin::<method::TabNew>(
        &[
            layout::TabNew {
                key: some("key-1"),
                expect: Some(CURSOR),
                pane: some("main"),
                workspace: some("main"),
                caller: Some(TERMINAL),
                name: some("main"),
                terminal: some("main"),
                cwd: some("main"),
                size: Some(SIZE),
                argv: Some(vec![text("sh"), text("-c"), text("make")]),
            },
            layout::TabNew {
                key: None,
                expect: None,
                pane: None,
                workspace: None,
                caller: None,
                name: None,
                terminal: None,
                cwd: None,
                size: None,
                argv: None,
            },
        ],
        paths(),
    );
    methods.pin::<method::TabRename>(
        &[
            layout::TabRename { key: some("key-1"), expect: Some(CURSOR), tab: text("main"), name: text("büro") },
            layout::TabRename { key: None, expect: None, tab: text("main"), name: text("büro") },
        ],
        paths(),
    );
    methods.pin::<method::TabMove>(
        &[
            layout::TabMove {
                key: some("key-1"),
                expect: Some(CURSOR),
                tab: text("main"),
                pane: some("main"),
                index: Some(300),
            },
            layout::TabMove { key: None, expect: None, tab: text("main"), pane: None, index: None },
        ],
        paths(),
    );
    methods.pin::<method::TabFocus>(
        &[
            layout::TabFocus { key: some("key-1"), expect: Some(CURSOR), tab: text("main") },
            layout::TabFocus { key: None, expect: None, tab: text("main") },
        ],
        paths(),
    );
    methods.pin::<method::TabClose>(
        &[
            layout::TabClose { key: some("key-1"), expect: Some(CURSOR), tab: text("main") },
            layout::TabClose { key: None, expect: None, tab: text("main") },
        ],
        paths(),
    );
}

pub(super) fn layout_methods(methods: &mut Methods) {
    methods.pin::<method::LayoutExport>(
        &[layout::LayoutExport { workspace: text("main") }],
        vec![layout::Layout { layout: Json::from_trusted(text("{\"screens\":[]}")) }],
    );
    methods.pin::<method::LayoutApply>(
        &[
            layout::LayoutApply {
                key: some("key-1"),
                expect: Some(CURSOR),
                workspace: some("main"),
                layout: Json::from_trusted(text("{\"screens\":[]}")),
            },
            layout::LayoutApply {
                key: None,
                expect: None,
                workspace: None,
                layout: Json::from_trusted(text("{\"screens\":[]}")),
            },
        ],
        paths(),
    );
}

pub(super) fn notification_methods(methods: &mut Methods) {
    methods.pin::<method::NotificationPost>(
        &[
            notification::NotificationPost {
                key: some("key-1"),
                expect: Some(CURSOR),
                title: text("main"),
                subtitle: some("main"),
                body: some("main"),
                level: some("warning"),
                terminal: some("main"),
                workspace: some("main"),
                caller: Some(TERMINAL),
            },
            notification::NotificationPost {
                key: None,
                expect: None,
                title: text("main"),
                subtitle: None,
                body: None,
                level: None,
                terminal: None,
                workspace: None,
                caller: None,
            },
        ],
        vec![receipt(notification::Posted { notification: NOTIFICATION, terminal: Some(TERMINAL) })],
    );
    methods.pin::<method::NotificationAck>(
        &[
            notification::NotificationAck {
                key: some("key-1"),
                expect: Some(CURSOR),
                notifications: vec![text("note_1")],
                client: some("main"),
                everywhere: Some(true),
            },
            notification::NotificationAck {
                key: None,
                expect: None,
                notifications: vec![text("note_1")],
                client: None,
                everywhere: None,
            },
        ],
        vec![receipt(notification::Marked { notifications: vec![NOTIFICATION], unknown: vec![text("note_1")] })],
    );
    methods.pin::<method::NotificationClear>(
        &[
            notification::NotificationClear {
                key: some("key-1"),
                expect: Some(CURSOR),
                notifications: Some(vec![text("sh"), text("-c"), text("make")]),
                terminal: some("main"),
                workspace: some("main"),
            },
            notification::NotificationClear {
                key: None,
                expect: None,
                notifications: None,
                terminal: None,
                workspace: None,
            },
        ],
        vec![receipt(notification::Marked { notifications: vec![NOTIFICATION], unknown: vec![text("note_1")] })],
    );
}
