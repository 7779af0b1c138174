//! The registry of method numbers.
//!
//! A number is never reused. A request's number has its high bit clear; its answer has the same number with the high bit
//! set; [`FAILURE`] answers any request. Numbers from `0x0f00` belong to messages that are no requests.
//! `spec/registry.md` lists the same numbers, and a test of `spec` compares the two.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{Empty, Path, Receipt, layout, notification, remote, server, session, terminal};
use crate::scope::Scope;

/// Set in the number of every answer.
pub const ANSWER: u16 = 0x8000;
/// Answers any request with a [`FailureBody`](crate::failure::FailureBody).
pub const FAILURE: u16 = 0xffff;
/// A [`session::Delta`], on a stream of `session.events`.
pub const DELTA: u16 = 0x0f01;
/// A [`session::EventsStarted`] in the middle of a stream of `session.events`: the reader was too slow, or the daemon starts anew.
pub const RESET: u16 = 0x0f02;
/// A [`record`](crate::record) on an open attachment: this number plus the record's kind.
pub const RECORD: u16 = 0x0f80;

/// What a request does to the daemon, which decides how it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing; may be repeated.
    Read,
    /// Changes the session graph; takes an idempotency key.
    Mutation,
    /// Changes something outside the graph and is safe to repeat because its parameters identify it.
    Input,
    /// Changes something outside the graph and must not be repeated.
    Once,
    /// Opens a conversation on its stream.
    Stream,
}

/// A request and its answer.
pub trait Method {
    /// The number of the request.
    const NUMBER: u16;
    /// The JSON-RPC name.
    const NAME: &'static str;
    /// What it does.
    const EFFECT: Effect;
    /// What its sender must be allowed.
    const SCOPE: Scope;
    /// Its parameters.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// Its answer.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
}

/// A method as a value: what is known of it without its types.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The number of the request.
    pub number: u16,
    /// The JSON-RPC name.
    pub name: &'static str,
    /// What it does.
    pub effect: Effect,
    /// What its sender must be allowed.
    pub scope: Scope,
    /// Postcard bytes of JSON parameters.
    pub params_from_json: fn(serde_json::Value) -> Result<Vec<u8>, serde_json::Error>,
    /// JSON of an answer's postcard bytes.
    pub answer_to_json: fn(&[u8]) -> Result<Box<serde_json::value::RawValue>, Unreadable>,
}

/// An answer that is not what its method promises: the peer's fault.
#[derive(Debug, thiserror::Error)]
#[error("the peer's answer to {method} cannot be read: {reason}")]
pub struct Unreadable {
    method: &'static str,
    reason: String,
}

fn params_from_json<M: Method>(params: serde_json::Value) -> Result<Vec<u8>, serde_json::Error> {
    let params: M::Params = serde_json::from_value(params)?;
    postcard::to_stdvec(&params).map_err(serde::de::Error::custom)
}

fn answer_to_json<M: Method>(bytes: &[u8]) -> Result<Box<serde_json::value::RawValue>, Unreadable> {
    let unreadable = |reason: String| Unreadable { method: M::NAME, reason };
    let answer: M::Answer = postcard::from_bytes(bytes).map_err(|e| unreadable(e.to_string()))?;
    serde_json::value::to_raw_value(&answer).map_err(|e| unreadable(e.to_string()))
}

macro_rules! methods {
    ($($number:literal $name:literal $method:ident: $effect:ident $scope:ident ($params:ty) -> $answer:ty;)*) => {
        /// One type per method; see the registry's table in `spec`.
        pub mod method {
            $(#[doc = concat!("`", $name, "`")] pub enum $method {})*
        }
        $(impl Method for method::$method {
            const NUMBER: u16 = $number;
            const NAME: &'static str = $name;
            const EFFECT: Effect = Effect::$effect;
            const SCOPE: Scope = Scope::$scope;
            type Params = $params;
            type Answer = $answer;
        })*

        /// Every method of this version, by number.
        pub const METHODS: &[Entry] = &[$(Entry {
            number: $number,
            name: $name,
            effect: Effect::$effect,
            scope: Scope::$scope,
            params_from_json: params_from_json::<method::$method>,
            answer_to_json: answer_to_json::<method::$method>,
        },)*];
    };
}

methods! {
    0x0101 "session.snapshot" SessionSnapshot: Read View (Empty) -> session::Snapshot;
    0x0102 "session.events" SessionEvents: Stream View (session::Events) -> session::EventsStarted;
    0x0201 "workspace.new" WorkspaceNew: Mutation Type (layout::WorkspaceNew) -> Receipt<Path>;
    0x0202 "workspace.rename" WorkspaceRename: Mutation Type (layout::WorkspaceRename) -> Receipt<Path>;
    0x0203 "workspace.close" WorkspaceClose: Mutation Type (layout::WorkspaceClose) -> Receipt<Path>;
    0x0204 "workspace.move" WorkspaceMove: Mutation Type (layout::WorkspaceMove) -> Receipt<Path>;
    0x0205 "workspace.focus" WorkspaceFocus: Mutation Type (layout::WorkspaceFocus) -> Receipt<Path>;
    0x0301 "terminal.new" TerminalNew: Mutation Exec (terminal::TerminalNew) -> Receipt<Path>;
    0x0302 "terminal.rename" TerminalRename: Mutation Type (terminal::TerminalRename) -> Receipt<Path>;
    0x0303 "terminal.close" TerminalClose: Mutation Type (terminal::TerminalClose) -> Receipt<Path>;
    0x0304 "terminal.resize" TerminalResize: Mutation Type (terminal::TerminalResize) -> Receipt<Path>;
    0x0305 "terminal.send" TerminalSend: Input Type (terminal::TerminalSend) -> terminal::Sent;
    0x0306 "terminal.signal" TerminalSignal: Once Type (terminal::TerminalSignal) -> Empty;
    0x0307 "terminal.read" TerminalRead: Read View (terminal::TerminalRead) -> terminal::ScreenText;
    0x0308 "terminal.attach" TerminalAttach: Stream View (terminal::TerminalAttach) -> terminal::Attached;
    0x0309 "terminal.wait" TerminalWait: Read View (terminal::TerminalWait) -> terminal::Waited;
    0x030a "terminal.keys" TerminalKeys: Input Type (terminal::TerminalKeys) -> terminal::Sent;
    0x030b "terminal.paste" TerminalPaste: Input Type (terminal::TerminalPaste) -> terminal::Sent;
    0x030c "terminal.mouse" TerminalMouse: Input Type (terminal::TerminalMouse) -> terminal::Sent;
    0x0401 "remote.invite" RemoteInvite: Once Admin (remote::Invite) -> remote::Invited;
    0x0402 "remote.pending" RemotePending: Read Admin (Empty) -> remote::PendingDevices;
    0x0403 "remote.approve" RemoteApprove: Once Admin (remote::DeviceRef) -> remote::DeviceChanged;
    0x0404 "remote.deny" RemoteDeny: Once Admin (remote::DeviceRef) -> remote::DeviceChanged;
    0x0405 "remote.devices" RemoteDevices: Read Admin (Empty) -> remote::Devices;
    0x0406 "remote.connections" RemoteConnections: Read Admin (Empty) -> remote::Connections;
    0x0407 "remote.revoke" RemoteRevoke: Once Admin (remote::DeviceRef) -> remote::DeviceChanged;
    0x0408 "remote.scope" RemoteScope: Once Admin (remote::DeviceScopes) -> remote::DeviceChanged;
    0x0409 "remote.rotate-key" RemoteRotateKey: Once Admin (Empty) -> remote::KeyRotated;
    0x0501 "server.status" ServerStatus: Read View (Empty) -> server::Status;
    0x0502 "server.stop" ServerStop: Once Admin (Empty) -> Empty;
    0x0503 "server.audit" ServerAudit: Read Admin (server::AuditQuery) -> server::Audit;
    0x0601 "screen.new" ScreenNew: Mutation Type (layout::ScreenNew) -> Receipt<Path>;
    0x0602 "screen.rename" ScreenRename: Mutation Type (layout::ScreenRename) -> Receipt<Path>;
    0x0603 "screen.move" ScreenMove: Mutation Type (layout::ScreenMove) -> Receipt<Path>;
    0x0604 "screen.focus" ScreenFocus: Mutation Type (layout::ScreenFocus) -> Receipt<Path>;
    0x0605 "screen.close" ScreenClose: Mutation Type (layout::ScreenClose) -> Receipt<Path>;
    0x0611 "pane.split" PaneSplit: Mutation Type (layout::PaneSplit) -> Receipt<Path>;
    0x0612 "pane.move" PaneMove: Mutation Type (layout::PaneMove) -> Receipt<Path>;
    0x0613 "pane.resize" PaneResize: Mutation Type (layout::PaneResize) -> Receipt<Path>;
    0x0614 "pane.focus" PaneFocus: Mutation Type (layout::PaneFocus) -> Receipt<Path>;
    0x0615 "pane.zoom" PaneZoom: Mutation Type (layout::PaneZoom) -> Receipt<Path>;
    0x0616 "pane.close" PaneClose: Mutation Type (layout::PaneClose) -> Receipt<Path>;
    0x0621 "tab.new" TabNew: Mutation Type (layout::TabNew) -> Receipt<Path>;
    0x0622 "tab.rename" TabRename: Mutation Type (layout::TabRename) -> Receipt<Path>;
    0x0623 "tab.move" TabMove: Mutation Type (layout::TabMove) -> Receipt<Path>;
    0x0624 "tab.focus" TabFocus: Mutation Type (layout::TabFocus) -> Receipt<Path>;
    0x0625 "tab.close" TabClose: Mutation Type (layout::TabClose) -> Receipt<Path>;
    0x0631 "layout.export" LayoutExport: Read View (layout::LayoutExport) -> layout::Layout;
    0x0632 "layout.apply" LayoutApply: Mutation Type (layout::LayoutApply) -> Receipt<Path>;
    0x0701 "notification.post" NotificationPost: Mutation Type (notification::NotificationPost) -> Receipt<notification::Posted>;
    0x0702 "notification.ack" NotificationAck: Mutation Type (notification::NotificationAck) -> Receipt<notification::Marked>;
    0x0703 "notification.clear" NotificationClear: Mutation Type (notification::NotificationClear) -> Receipt<notification::Marked>;
}

/// The method with this number.
#[must_use]
pub fn by_number(number: u16) -> Option<&'static Entry> {
    METHODS.iter().find(|entry| entry.number == number)
}

/// The method with this JSON-RPC name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Entry> {
    METHODS.iter().find(|entry| entry.name == name)
}
