//! What a person should see: `notification.*`.

use serde::{Deserialize, Serialize};

use super::{Cursor, mutations};
use crate::id::{NotificationId, TerminalId};

mutations! {
    /// Parameters of `notification.post`.
    NotificationPost {
        /// One line, at most 512 bytes.
        title: String,
        /// A second line, at most 512 bytes.
        subtitle: Option<String>,
        /// The text, at most 4,096 bytes.
        body: Option<String>,
        /// `info`, `warning` or `error`; absent for `info`.
        level: Option<String>,
        /// The terminal that it is about.
        terminal: Option<String>,
        /// The workspace that it is about.
        workspace: Option<String>,
        /// The terminal from which it comes, which it is about when it names no other.
        caller: Option<TerminalId>,
    }
    /// Parameters of `notification.ack`: one client has seen these, in one revision.
    NotificationAck {
        /// Ids; those that are not there come back as unknown.
        notifications: Vec<String>,
        /// The client that has seen them, 1 to 128 printable ASCII characters; absent for the asker's own.
        client: Option<String>,
        /// True to clear the mark `unread`, which all clients share, too.
        everywhere: Option<bool>,
    }
    /// Parameters of `notification.clear`: these, and those about the terminal or the workspace, go; all when nothing is named.
    NotificationClear {
        /// Ids; those that are not there come back as unknown.
        notifications: Option<Vec<String>>,
        /// The terminal.
        terminal: Option<String>,
        /// The workspace.
        workspace: Option<String>,
    }
}

/// What `notification.post` made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// The notification.
    pub notification: NotificationId,
    /// The terminal that it is about.
    pub terminal: Option<TerminalId>,
}

/// What `notification.ack` and `notification.clear` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Those that were there.
    pub notifications: Vec<NotificationId>,
    /// What was named and is not there.
    pub unknown: Vec<String>,
}
