//! Rows of the session graph, typed, with their JSON.

use std::fmt;
use std::sync::Arc;

use keepline_protocol::api::{Json, Size};
use keepline_protocol::bounds::ROW_MAX;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{
    AttachmentId, DeviceId, LinkId, NotificationId, PaneId, ScreenId, TabId, TerminalId, WorkspaceId,
};
use keepline_protocol::record::Exit;
use serde::{Deserialize, Serialize, Serializer};

use super::layout::Layout;

/// A workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRow {
    /// Its id.
    pub id: WorkspaceId,
    /// Its label, never empty.
    pub name: String,
    /// Its place among the workspaces.
    pub index: u64,
    /// The screen that is looked at; null while there is none.
    pub active_screen_id: Option<ScreenId>,
    /// Unix time in milliseconds at which it was made.
    pub created_ms: u64,
    /// Unix time in milliseconds at which something in it was last given the focus.
    pub used_ms: u64,
}

/// A screen: what is looked at as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenRow {
    /// Its id.
    pub id: ScreenId,
    /// The workspace that it is in.
    pub workspace_id: WorkspaceId,
    /// Its label; empty for none.
    pub name: String,
    /// Its place among the workspace's screens.
    pub index: u64,
    /// How its panes share it.
    pub layout: Layout,
    /// The pane that gets the keys.
    pub focused_pane_id: PaneId,
    /// The pane that fills the screen; null for none.
    pub zoomed_pane_id: Option<PaneId>,
}

/// A pane: a part of a screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneRow {
    /// Its id.
    pub id: PaneId,
    /// The screen that it is in.
    pub screen_id: ScreenId,
    /// Its place in the screen's layout, from the upper left.
    pub index: u64,
    /// The tab that is shown.
    pub active_tab_id: TabId,
}

/// A tab: a terminal shown in a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabRow {
    /// Its id.
    pub id: TabId,
    /// The pane that it is in.
    pub pane_id: PaneId,
    /// The terminal that it shows.
    pub terminal_id: TerminalId,
    /// Its label; empty for the terminal's.
    pub name: String,
    /// Its place among the pane's tabs.
    pub index: u64,
}

/// Where a terminal is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Its row is there, its program not yet.
    Launching,
    /// Its program runs.
    Running,
    /// Its program ended or never ran; `exit` says how.
    Ended,
}

/// A terminal's size in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl From<Size> for Cells {
    fn from(size: Size) -> Self {
        Cells { cols: size.cols, rows: size.rows }
    }
}

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRow {
    /// Its id.
    pub id: TerminalId,
    /// Its label; empty for none.
    pub name: String,
    /// What its program calls it, at first the program's own name.
    pub title: String,
    /// Its working directory as last known.
    pub cwd: String,
    /// Its program and arguments.
    pub argv: Vec<String>,
    /// Its size.
    pub size: Cells,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
    /// How it ended: `{"status": n}`, `{"signal": n}` or `{"reason": words}`; null while it lives.
    #[serde(with = "exit_form")]
    pub exit: Option<Exit>,
    /// Process id of its program; null before it runs.
    pub pid: Option<u32>,
    /// The tabs that show it, in the order in which they were made; none when detached.
    pub tab_ids: Vec<TabId>,
    /// Its place among the terminals.
    pub index: u64,
    /// Unix time in milliseconds at which it was made.
    pub created_ms: u64,
    /// Unix time in milliseconds at which a person or program last used it.
    pub used_ms: u64,
    /// Unix time in milliseconds at which it ended; null while it lives.
    pub ended_ms: Option<u64>,
    /// The offset of output up to which its side effects (title, notifications, …) are in the graph.
    pub effects_through: u64,
    /// What its shell said of the last command that ended (OSC 133); null when it said nothing.
    #[serde(default)]
    pub last_command: Option<LastCommand>,
    /// Who decides its size.
    #[serde(default)]
    pub size_policy: SizePolicy,
}

/// A command that ended in a terminal's shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCommand {
    /// Its exit status; null when the shell says none.
    pub status: Option<i32>,
    /// Unix time in milliseconds at which it ended.
    pub ended_ms: u64,
    /// The lines that it wrote, as `terminal.read` takes them; null when they are not known.
    pub lines: Option<LineIds>,
}

/// Lines of a terminal by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineIds {
    /// The epoch that the ids are of.
    pub epoch: u64,
    /// The first line.
    pub from: u64,
    /// The line behind the last one.
    pub to: u64,
}

/// Who decides a terminal's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizePolicy {
    /// The least columns and the least rows of all who look.
    #[default]
    Smallest,
    /// Who attached, typed or voted last.
    Latest,
    /// Who pinned it.
    Pinned,
}

/// How much a notification matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Something failed.
    Error,
}

/// Something that a person should see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationRow {
    /// Its id.
    pub id: NotificationId,
    /// One line.
    pub title: String,
    /// A second line; empty for none.
    pub subtitle: String,
    /// The text; empty for none.
    pub body: String,
    /// How much it matters.
    pub level: Level,
    /// The terminal that it is about; null for none. It may be gone.
    pub terminal_id: Option<TerminalId>,
    /// The workspace that it is about; null for none. It may be gone.
    pub workspace_id: Option<WorkspaceId>,
    /// Counts notifications, so that newer ones have a higher one.
    pub index: u64,
    /// Unix time in milliseconds at which it was made.
    pub created_ms: u64,
    /// Whether nobody has marked it for all clients yet.
    pub unread: bool,
    /// The clients that have seen it, the newest 32.
    pub read_by: Vec<String>,
}

/// A client that has a link, or the consumers of the daemon's own socket. Its row does not outlive the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    /// The id of its link.
    pub id: LinkId,
    /// The client's own id, one per install; `local` for the daemon's own socket.
    pub client: String,
    /// Its device; null for the daemon's own socket.
    pub device_id: Option<DeviceId>,
    /// What its device calls itself.
    pub name: String,
    /// Counts clients since the daemon's start.
    pub index: u64,
    /// Unix time in milliseconds at which its link was opened.
    pub since_ms: u64,
    /// What it is attached to, the newest 64.
    pub attached: Vec<AttachedTo>,
}

/// One attachment of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedTo {
    /// The terminal.
    pub terminal_id: TerminalId,
    /// The attachment.
    pub attachment: AttachmentId,
    /// Its vote for the terminal's size; null for none.
    pub size: Option<Cells>,
    /// Whether it only watches.
    pub observer: bool,
}

/// A type of row of the graph.
pub trait Model: Clone + Sized + 'static {
    /// What identifies one.
    type Id: Copy + Ord + fmt::Display + std::str::FromStr;
    /// The kind.
    const KIND: Kind;
    /// The row's id as a row's of any kind.
    fn row_id(id: Self::Id) -> RowId;
    /// The row as one of any kind.
    fn into_row(self) -> Row;
    /// `row` when it is of this type.
    fn of(row: &Row) -> Option<&Self>;
    /// Its id.
    fn id(&self) -> Self::Id;
    /// What a person calls it, besides its id; empty for nothing.
    fn called(&self) -> &str {
        ""
    }
    /// Whether it is less likely to be meant by a name than one of which this is false.
    fn is_past(&self) -> bool {
        false
    }
}

macro_rules! kinds {
    ($($kind:ident($row:ident, $id:ident) $name:literal { $($more:tt)* })*) => {
        /// A kind of row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($row), "`].")] $kind,)*
        }

        impl Kind {
            /// The name in a delta; a document's collection has an `s` behind it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }
        }

        /// The id of a row of any kind. Ids of one kind stand together.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RowId {
            $(#[doc = concat!("Of a ", $name, ".")] $kind($id),)*
        }

        impl RowId {
            /// The kind of row.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(RowId::$kind(_) => Kind::$kind,)* }
            }

            /// Before every row of this kind.
            pub(super) const fn first(kind: Kind) -> Self {
                match kind { $(Kind::$kind => RowId::$kind($id::from_bytes([0; 16])),)* }
            }
        }

        impl fmt::Display for RowId {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(RowId::$kind(id) => id.fmt(f),)* }
            }
        }

        /// A row of any kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Row {
            $(#[doc = concat!("A ", $name, ".")] $kind($row),)*
        }

        impl Row {
            /// Its id.
            #[must_use]
            pub const fn id(&self) -> RowId {
                match self { $(Row::$kind(row) => RowId::$kind(row.id),)* }
            }

            /// Its place among the rows that it stands with.
            #[must_use]
            pub const fn index(&self) -> u64 {
                match self { $(Row::$kind(row) => row.index,)* }
            }

            fn parse(kind: &str, json: &str) -> Result<Self, String> {
                match kind {
                    $($name => serde_json::from_str(json).map(Row::$kind).map_err(|e| e.to_string()),)*
                    _ => Err(format!("no row is of kind '{kind}'")),
                }
            }
        }

        impl Serialize for Row {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Row::$kind(row) => row.serialize(serializer),)* }
            }
        }

        $(impl Model for $row {
            type Id = $id;
            const KIND: Kind = Kind::$kind;
            fn row_id(id: $id) -> RowId {
                RowId::$kind(id)
            }
            fn into_row(self) -> Row {
                Row::$kind(self)
            }
            fn of(row: &Row) -> Option<&Self> {
                match row {
                    Row::$kind(row) => Some(row),
                    #[allow(unreachable_patterns)] // with one kind
                    _ => None,
                }
            }
            fn id(&self) -> $id {
                self.id
            }
            $($more)*
        })*
    };
}

kinds! {
    Workspace(WorkspaceRow, WorkspaceId) "workspace" {
        fn called(&self) -> &str { &self.name }
    }
    Screen(ScreenRow, ScreenId) "screen" {
        fn called(&self) -> &str { &self.name }
    }
    Pane(PaneRow, PaneId) "pane" {}
    Tab(TabRow, TabId) "tab" {
        fn called(&self) -> &str { &self.name }
    }
    Terminal(TerminalRow, TerminalId) "terminal" {
        fn called(&self) -> &str {
            if self.name.is_empty() { &self.title } else { &self.name }
        }
        fn is_past(&self) -> bool { self.lifecycle == Lifecycle::Ended }
    }
    Notification(NotificationRow, NotificationId) "notification" {}
    Client(ClientRow, LinkId) "client" {}
}

/// A row and its JSON, made once: the store, the deltas, the document and the bound on all rows need the same text.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// The row.
    pub row: Row,
    /// Its JSON.
    pub json: Box<str>,
}

impl Stored {
    /// The row with its JSON.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when its JSON is over [`ROW_MAX`].
    pub fn new(row: Row) -> Result<Arc<Self>, Failure> {
        let json = serde_json::to_string(&row).expect("rows have string keys and finite numbers").into_boxed_str();
        if json.len() > ROW_MAX {
            let kind = row.id().kind().name();
            let message =
                format!("the {kind}'s row would be {} bytes, over {ROW_MAX}; shorten its arguments", json.len());
            return Err(Failure::new(Code::TooLarge, message));
        }
        Ok(Arc::new(Stored { row, json }))
    }

    /// The row of this kind with this JSON, as the store gives it.
    ///
    /// # Errors
    /// In words, when no row is meant.
    pub(super) fn parse(kind: &str, json: String) -> Result<Arc<Self>, String> {
        let row = Row::parse(kind, &json)?;
        Ok(Arc::new(Stored { row, json: json.into_boxed_str() }))
    }
}

/// The JSON form of an optional [`Exit`].
/// How a terminal ended, as its row says it.
pub(crate) fn exit_json(exit: &Exit) -> Json {
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Form(#[serde(with = "exit_form")] Option<Exit>);
    Json::of(&Form(Some(exit.clone()))).expect("an exit has a JSON form")
}

pub(super) mod exit_form {
    use keepline_protocol::record::Exit;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Form {
        Status(i32),
        Signal(i32),
        Reason(String),
    }

    pub(in super::super) fn serialize<S: Serializer>(exit: &Option<Exit>, serializer: S) -> Result<S::Ok, S::Error> {
        exit.as_ref()
            .map(|exit| match exit {
                Exit::Status(status) => Form::Status(*status),
                Exit::Signal(signal) => Form::Signal(*signal),
                Exit::Reason(reason) => Form::Reason(reason.clone()),
            })
            .serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Exit>, D::Error> {
        Ok(Option::<Form>::deserialize(deserializer)?.map(|form| match form {
            Form::Status(status) => Exit::Status(status),
            Form::Signal(signal) => Exit::Signal(signal),
            Form::Reason(reason) => Exit::Reason(reason),
        }))
    }
}
