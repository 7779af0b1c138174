//! The ledger of what a person should see: the newest are kept.

use std::collections::HashSet;

use keepline_protocol::api::notification::{Marked, NotificationAck, NotificationClear, NotificationPost, Posted};
use keepline_protocol::failure::Failure;
use keepline_protocol::id::NotificationId;

use super::{Draft, check_text, invalid};
use crate::bounds::{CLIENT_ID_MAX, NOTIFICATION_BODY_MAX, NOTIFICATION_TITLE_MAX, READ_BY_MAX};
use crate::session::rows::{Kind, Level, NotificationRow, RowId, WorkspaceRow};

impl Draft<'_> {
    pub(super) fn post(&mut self, post: &NotificationPost) -> Result<Posted, Failure> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (subtitle, body) = (text(&post.subtitle), text(&post.body));
        check_text("a title", &post.title, NOTIFICATION_TITLE_MAX)?;
        check_text("a subtitle", &subtitle, NOTIFICATION_TITLE_MAX)?;
        check_text("a notification's text", &body, NOTIFICATION_BODY_MAX)?;
        if post.title.is_empty() && body.is_empty() {
            return Err(invalid("a notification has a title or a text"));
        }
        let level = match post.level.as_deref() {
            None | Some("info") => Level::Info,
            Some("warning") => Level::Warning,
            Some("error") => Level::Error,
            Some(_) => return Err(invalid("a level is info, warning or error")),
        };
        let workspace = post.workspace.as_deref();
        let workspace = workspace.map(|text| self.graph.resolve::<WorkspaceRow>(text));
        let workspace = workspace.transpose()?;
        let terminal_id = match (&post.terminal, workspace) {
            (Some(terminal), _) => Some(self.graph.resolve_terminal(terminal)?),
            (None, Some(_)) => None,
            // A caller that was closed meanwhile still has something to say.
            (None, None) => post.caller.filter(|id| self.graph.terminal(*id).is_some()),
        };
        let shown_in = terminal_id.and_then(|id| self.graph.path_of_terminal(id).workspace);
        let notification = self.notify(NotificationRow {
            title: post.title.clone(),
            subtitle,
            body,
            level,
            terminal_id,
            workspace_id: workspace.or(shown_in),
            ..self.blank_notification()
        })?;
        Ok(Posted { notification, terminal: terminal_id })
    }

    /// A notification that says nothing, to be filled in.
    pub(super) fn blank_notification(&self) -> NotificationRow {
        NotificationRow {
            id: NotificationId::from_bytes([0; 16]),
            title: String::new(),
            subtitle: String::new(),
            body: String::new(),
            level: Level::Info,
            terminal_id: None,
            workspace_id: None,
            // Also when all were cleared, a new one is behind what was there.
            index: self.next_index(Kind::Notification).max(self.now_ms),
            created_ms: self.now_ms,
            unread: true,
            read_by: Vec::new(),
        }
    }

    pub(super) fn notify(&mut self, row: NotificationRow) -> Result<NotificationId, Failure> {
        let id = NotificationId::from_bytes(self.fresh.id());
        self.target.get_or_insert(RowId::Notification(id));
        self.put(NotificationRow { id, ..row })?;
        Ok(id)
    }

    pub(super) fn ack(&mut self, ack: &NotificationAck) -> Result<Marked, Failure> {
        let client = ack.client.as_deref().unwrap_or_default();
        if !(1..=CLIENT_ID_MAX).contains(&client.len()) || !client.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
            return Err(invalid(format!("a client's id is 1 to {CLIENT_ID_MAX} printable ASCII characters")));
        }
        let marked = self.named(&ack.notifications);
        for id in &marked.notifications {
            self.edit::<NotificationRow>(*id, |row| {
                if !row.read_by.iter().any(|reader| reader == client) {
                    let excess = (row.read_by.len() + 1).saturating_sub(READ_BY_MAX);
                    row.read_by.drain(..excess);
                    row.read_by.push(client.to_owned());
                }
                row.unread &= !ack.everywhere.unwrap_or(false);
            })?;
        }
        Ok(marked)
    }

    pub(super) fn clear(&mut self, clear: &NotificationClear) -> Result<Marked, Failure> {
        let terminal = clear.terminal.as_deref();
        let terminal = terminal.map(|text| self.graph.resolve_terminal(text)).transpose()?;
        let workspace = clear.workspace.as_deref();
        let workspace = workspace.map(|text| self.graph.resolve::<WorkspaceRow>(text)).transpose()?;
        let all = terminal.is_none() && workspace.is_none() && clear.notifications.is_none();
        let mut marked = self.named(clear.notifications.as_deref().unwrap_or_default());
        let named: HashSet<NotificationId> = marked.notifications.iter().copied().collect();
        let about = |row: &&NotificationRow| {
            all || terminal.is_some() && row.terminal_id == terminal
                || workspace.is_some() && row.workspace_id == workspace
        };
        let others = self.graph.all().filter(about).map(|row| row.id);
        marked.notifications.extend(others.filter(|id| !named.contains(id)));
        for id in &marked.notifications {
            self.remove(RowId::Notification(*id));
        }
        Ok(marked)
    }

    /// The notifications that are there, each once, and what is not.
    fn named(&self, texts: &[String]) -> Marked {
        let mut marked = Marked::default();
        for text in texts {
            match self.graph.resolve::<NotificationRow>(text) {
                Ok(id) if marked.notifications.contains(&id) => {}
                Ok(id) => marked.notifications.push(id),
                Err(_) => marked.unknown.push(text.clone()),
            }
        }
        marked
    }
}
