//! `notification.watch`: a line for each new notification, once for all consumers of this socket.
//!
//! What was shown last is kept in a file, so that neither a restart nor a repair of the document shows anything again, and
//! what came while nobody watched is shown to who watches next.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep};

use super::Edge;
use super::connection::Output;
use super::follow::Follower;
use crate::bounds::{ALERT_PAUSE, ALERTS_AT_ONCE, ALERTS_BURST, ALERTS_QUEUED, ALERTS_RECENT, SAME_ALERT_TIME};
use crate::state;

/// A notification's row, as far as an alert needs it.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    subtitle: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    terminal_id: Option<String>,
    index: u64,
    #[serde(default)]
    created_ms: u64,
}

/// Which notifications are shown when: pure, the time is an argument.
#[derive(Debug, Default)]
struct Alerts {
    /// The index of the newest one that was shown or passed over; nothing before the first look.
    shown: Option<u64>,
    /// Contents that were shown lately, and when.
    recent: VecDeque<(u64, Duration)>,
    /// When each of the newest alerts was shown, as far as they count against the next one.
    spent: VecDeque<Duration>,
}

impl Alerts {
    /// What of these rows is to be shown at `now`, oldest first, and after what time there is more to show.
    fn take(&mut self, mut rows: Vec<Row>, now: Duration) -> (Vec<Row>, Option<Duration>) {
        rows.sort_by_key(|row| row.index);
        let newest = rows.last().map_or(0, |row| row.index);
        // What was there before anybody ever looked is not new.
        let shown = *self.shown.get_or_insert(newest);
        rows.retain(|row| row.index > shown);
        let passed_over = rows.len().saturating_sub(ALERTS_AT_ONCE);
        let mut alerts = Vec::new();
        for row in rows.drain(..).skip(passed_over) {
            while self.spent.front().is_some_and(|at| now >= *at + ALERT_PAUSE) {
                // Each second gives one back.
                let given_back = self.spent.pop_front();
                if let (Some(at), Some(next)) = (given_back, self.spent.front_mut()) {
                    *next = (*next).max(at + ALERT_PAUSE);
                }
            }
            let mut hasher = DefaultHasher::new();
            (&row.title, &row.subtitle, &row.body, &row.terminal_id).hash(&mut hasher);
            let content = hasher.finish();
            self.recent.retain(|(_, at)| now < *at + SAME_ALERT_TIME);
            if self.recent.iter().any(|(known, _)| *known == content) {
                self.shown = Some(row.index);
                continue;
            }
            if self.spent.len() >= ALERTS_BURST {
                let next = self.spent.front().map(|at| (*at + ALERT_PAUSE).saturating_sub(now));
                return (alerts, next);
            }
            self.spent.push_back(now);
            self.recent.push_back((content, now));
            let excess = self.recent.len().saturating_sub(ALERTS_RECENT);
            self.recent.drain(..excess);
            self.shown = Some(row.index);
            alerts.push(row);
        }
        (alerts, None)
    }
}

/// The consumers that watch; clones are the same.
#[derive(Clone)]
pub(super) struct Watchers {
    alerts: broadcast::Sender<Arc<RawValue>>,
    came: Arc<Notify>,
}

impl Watchers {
    /// Shows the notifications of the document that `follower` keeps; `file` holds what was shown last.
    pub(super) fn start(follower: Follower, machine: Option<String>, file: Option<PathBuf>) -> Self {
        let watchers = Watchers { alerts: broadcast::channel(ALERTS_QUEUED).0, came: Arc::default() };
        let run = watchers.clone();
        tokio::spawn(async move { run.run(follower, machine, file).await });
        watchers
    }

    async fn run(self, follower: Follower, machine: Option<String>, file: Option<PathBuf>) {
        let (mut cursor, start) = (follower.cursor(), Instant::now());
        let kept = file.as_deref().and_then(|file| state::read(file).ok().flatten());
        let mut alerts = Alerts { shown: kept.and_then(|text| text.trim().parse().ok()), ..Alerts::default() };
        let mut again: Option<Duration> = None;
        loop {
            tokio::select! {
                changed = cursor.changed() => if changed.is_err() { return },
                () = self.came.notified() => {}
                () = sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
            cursor.mark_unchanged();
            if self.alerts.receiver_count() == 0 && alerts.shown.is_some() {
                again = None;
                continue;
            }
            let rows = follower.read(|replica| {
                let document = replica.document()?;
                let rows: Vec<Row> = serde_json::from_str(&document.rows("notifications")).ok()?;
                // An alert names only what this machine has.
                let known = |id: &String| document.json("terminals", id).is_some();
                let own = |row: Row| Row { terminal_id: row.terminal_id.filter(known), ..row };
                Some(rows.into_iter().map(own).collect::<Vec<_>>())
            });
            let Some(rows) = rows else { continue };
            let before = alerts.shown;
            let (show, next) = alerts.take(rows, start.elapsed());
            again = next;
            // Kept first: a line that was never seen is better than one that is seen twice.
            if let (Some(file), Some(shown)) = (&file, alerts.shown)
                && before != alerts.shown
                && let Err(failure) = state::write(file, &format!("{shown}\n"))
            {
                tracing::warn!(%failure, "which notifications were shown could not be kept");
            }
            for row in show {
                let alert = json!({
                    "machine": machine, "id": row.id, "title": row.title, "subtitle": row.subtitle,
                    "body": row.body, "level": row.level, "terminal_id": row.terminal_id,
                    "created_ms": row.created_ms,
                });
                if let Ok(alert) = serde_json::value::to_raw_value(&alert) {
                    // Nobody may watch any more.
                    let _ = self.alerts.send(alert.into());
                }
            }
        }
    }
}

impl Edge {
    /// Serves a consumer's `notification.watch` until it goes away.
    pub(super) async fn watch(&self, id: &Value, output: &Output) -> Result<(), Failure> {
        let _place = self.long_stream()?;
        let watchers = &self.inner.watchers;
        let mut alerts = watchers.alerts.subscribe();
        let empty =
            RawValue::from_string("{}".to_owned()).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        output.answer(id, &empty).await?;
        watchers.came.notify_one();
        loop {
            match alerts.recv().await {
                Ok(alert) => output.notify("notification.alert", &&*alert).await?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: u64, title: &str) -> Row {
        Row {
            id: format!("note_{index}"),
            title: title.to_owned(),
            subtitle: String::new(),
            body: String::new(),
            level: "info".to_owned(),
            terminal_id: None,
            index,
            created_ms: 0,
        }
    }

    fn numbers(from: u64, to: u64) -> Vec<Row> {
        (from..=to).map(|index| row(index, &index.to_string())).collect()
    }

    fn shown(alerts: &mut Alerts, rows: Vec<Row>, seconds: u64) -> (Vec<u64>, Option<Duration>) {
        let (show, next) = alerts.take(rows, Duration::from_secs(seconds));
        (show.iter().map(|row| row.index).collect(), next)
    }

    #[test]
    fn what_was_there_is_not_new_and_nothing_is_shown_twice() {
        let mut alerts = Alerts::default();
        assert_eq!(shown(&mut alerts, numbers(1, 3), 0).0, Vec::<u64>::new());
        assert_eq!(shown(&mut alerts, numbers(1, 5), 0).0, [4, 5]);
        // Repairs, and rows that were dropped, change nothing.
        assert_eq!(shown(&mut alerts, numbers(3, 5), 1).0, Vec::<u64>::new());
        let kept = Alerts { shown: Some(5), ..Alerts::default() };
        let mut alerts = kept;
        assert_eq!(shown(&mut alerts, numbers(1, 6), 2).0, [6]);
    }

    #[test]
    fn bursts_are_followed_by_one_a_second_and_of_many_the_newest_are_shown() {
        let mut alerts = Alerts { shown: Some(0), ..Alerts::default() };
        let rows = numbers(1, 30);
        let (first, next) = shown(&mut alerts, rows.clone(), 0);
        assert_eq!(first, [15, 16, 17, 18, 19]);
        assert_eq!(next, Some(Duration::from_secs(1)));
        for (second, index) in (1..=11).zip(20..) {
            assert_eq!(shown(&mut alerts, rows.clone(), second).0, [index]);
        }
        assert_eq!(shown(&mut alerts, rows.clone(), 12), (vec![], None));
        // After a quiet time there may be a burst again.
        assert_eq!(shown(&mut alerts, numbers(31, 36), 60).0, [31, 32, 33, 34, 35]);
    }

    #[test]
    fn the_same_content_is_shown_once_in_a_while() {
        let mut alerts = Alerts { shown: Some(0), ..Alerts::default() };
        assert_eq!(shown(&mut alerts, vec![row(1, "x"), row(2, "x")], 0).0, [1]);
        assert_eq!(shown(&mut alerts, vec![row(3, "x")], 59).0, Vec::<u64>::new());
        assert_eq!(shown(&mut alerts, vec![row(4, "x")], 60).0, [4]);
    }
}
