//! What can be done to the session graph.
//!
//! A mutation is its parameters and nothing else: neither the moment nor fresh ids are in it, and its key and expected
//! cursor are taken out, so that the digest of a mutation tells whether an idempotency key is used for the same request
//! again.

use keepline_protocol::api::Path;
use keepline_protocol::api::layout::{
    LayoutApply, PaneClose, PaneFocus, PaneMove, PaneResize, PaneSplit, PaneZoom, ScreenClose, ScreenFocus, ScreenMove,
    ScreenNew, ScreenRename, TabClose, TabFocus, TabMove, TabNew, TabRename, WorkspaceClose, WorkspaceFocus,
    WorkspaceMove, WorkspaceNew, WorkspaceRename,
};
use keepline_protocol::api::notification::{Marked, NotificationAck, NotificationClear, NotificationPost, Posted};
use keepline_protocol::api::terminal::{TerminalClose, TerminalNew, TerminalRename, TerminalResize};
use keepline_protocol::id::TerminalId;
use keepline_protocol::record::Exit;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::apply::BELL;
use super::rows::{Cells, ClientRow, Level, exit_form};
use crate::bounds::NOTICES_AT_ONCE;

/// What a mutation made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Where that is.
    Path(Path),
    /// A notification.
    Posted(Posted),
    /// Notifications.
    Marked(Marked),
}

/// A mutation whose answer has a type.
pub trait Mutate: Into<Mutation> {
    /// What it makes or changes.
    type Answer;
    /// `value` as that type; nothing when it is of another, which only a bug makes.
    fn answer(value: Value) -> Option<Self::Answer>;
}

macro_rules! mutations {
    ($($name:ident -> $answer:ident;)*) => {
        /// A change of the graph.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        pub enum Mutation {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
        }
        $(
            impl From<$name> for Mutation {
                fn from(mutation: $name) -> Self {
                    Mutation::$name(mutation)
                }
            }
            impl Mutate for $name {
                type Answer = $answer;
                fn answer(value: Value) -> Option<$answer> {
                    match value {
                        Value::$answer(answer) => Some(answer),
                        _ => None,
                    }
                }
            }
        )*
    };
}

mutations! {
    WorkspaceNew -> Path;
    WorkspaceRename -> Path;
    WorkspaceMove -> Path;
    WorkspaceFocus -> Path;
    WorkspaceClose -> Path;
    ScreenNew -> Path;
    ScreenRename -> Path;
    ScreenMove -> Path;
    ScreenFocus -> Path;
    ScreenClose -> Path;
    PaneSplit -> Path;
    PaneMove -> Path;
    PaneResize -> Path;
    PaneFocus -> Path;
    PaneZoom -> Path;
    PaneClose -> Path;
    TabNew -> Path;
    TabRename -> Path;
    TabMove -> Path;
    TabFocus -> Path;
    TabClose -> Path;
    LayoutApply -> Path;
    TerminalNew -> Path;
    TerminalRename -> Path;
    TerminalResize -> Path;
    TerminalClose -> Path;
    NotificationPost -> Posted;
    NotificationAck -> Marked;
    NotificationClear -> Marked;
    Happened -> Path;
}

/// What programs and connections cause. The daemon itself says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Happened {
    /// A terminal's program runs.
    Started {
        /// The terminal.
        terminal: TerminalId,
        /// The process.
        pid: u32,
    },
    /// A terminal's program could not be started: it ended, `not started`.
    NotStarted {
        /// The terminal.
        terminal: TerminalId,
    },
    /// A terminal's program ended.
    Ended {
        /// The terminal.
        terminal: TerminalId,
        /// How.
        #[serde(serialize_with = "serialize_exit")]
        exit: Exit,
    },
    /// A terminal's program or the people at it changed something.
    Observed(Observed),
    /// Clients came, went or attached elsewhere: all that there are now.
    Clients(Vec<ClientRow>),
}

/// What was seen of a terminal; what is absent did not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// The terminal.
    pub terminal: Option<TerminalId>,
    /// Its size.
    pub size: Option<Cells>,
    /// Unix time in milliseconds at which it was last used.
    pub used_ms: Option<u64>,
    /// What its output did besides changing the screen.
    pub effects: Option<Effects>,
}

/// Side effects of a terminal's output, up to an offset. Those of bytes whose effects are in the graph already are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effects {
    /// Where the output that caused them ends.
    pub through: u64,
    /// Its title.
    pub title: Option<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The last command that ended.
    pub command: Option<Ended>,
    /// What a person should see, oldest first.
    pub notices: Vec<Notice>,
}

/// What a shell says of a command that ended (OSC 133).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its exit status, if the shell says one.
    pub status: Option<i32>,
    /// The epoch of `lines`.
    pub epoch: u64,
    /// The ids of the lines that it wrote; nothing when another command has begun since.
    pub lines: Option<std::ops::Range<u64>>,
}

/// A notification that a program's output asks for, or its bell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// One line; cut to its bound.
    pub title: String,
    /// The text; cut to its bound.
    pub body: String,
    /// How much it matters.
    pub level: Level,
}

impl Effects {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.cwd.is_none() && self.command.is_none() && self.notices.is_empty()
    }

    /// Adds later ones. Of too many notices the oldest are dropped.
    pub fn add(&mut self, later: Effects) {
        self.through = later.through;
        self.title = later.title.or(self.title.take());
        self.cwd = later.cwd.or(self.cwd.take());
        self.command = later.command.or(self.command.take());
        self.notices.extend(later.notices);
        let excess = self.notices.len().saturating_sub(NOTICES_AT_ONCE);
        self.notices.drain(..excess);
    }
}

impl Notice {
    /// The bell's.
    #[must_use]
    pub fn bell() -> Self {
        Notice { title: BELL.to_owned(), ..Notice::default() }
    }
}

fn serialize_exit<S: serde::Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    exit_form::serialize(&Some(exit.clone()), serializer)
}

/// Ids that nothing has yet, for what a mutation may make: as many as it needs, all from 128 random bits.
#[derive(Clone, Debug)]
pub struct Fresh {
    seed: [u8; 16],
    given: u32,
}

impl Fresh {
    /// Ids from these random bits.
    #[must_use]
    pub fn new(seed: [u8; 16]) -> Self {
        Fresh { seed, given: 0 }
    }

    /// The next id's bits.
    pub(super) fn id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        let digest = Sha256::new().chain_update(self.seed).chain_update(self.given.to_be_bytes()).finalize();
        id.copy_from_slice(&digest[..16]);
        self.given += 1;
        id
    }
}
