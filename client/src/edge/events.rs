//! `session.events` for a consumer: the daemon's deltas, passed on.

use std::time::Duration;

use keepline_carrier::link::Link;
use keepline_protocol::api::Cursor;
use keepline_protocol::api::session::{Delta, Events, EventsStarted};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::Generation;
use keepline_protocol::lane::Lane;
use keepline_protocol::message::{Message, encode_request};
use keepline_protocol::registry::{DELTA, RESET, method};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Edge;
use super::connection::Output;
use crate::bounds::CARRIER_WAIT;

/// Where a consumer's stream is, so that it can go on after a new link or a new daemon.
struct Position {
    answered: bool,
    cursor: Option<Cursor>,
}

#[derive(Deserialize)]
struct DeltaCursor {
    generation: Generation,
    revision: u64,
}

#[derive(Deserialize)]
struct DocumentCursor {
    cursor: Cursor,
}

impl Edge {
    /// Serves a consumer's `session.events` until it goes away. The stream goes on over later links: with what is missing,
    /// or with `session.reset`.
    pub(super) async fn events(&self, id: Value, params: Value, time: Duration, output: &Output) {
        let events: Events = match serde_json::from_value(params) {
            Ok(events) => events,
            Err(error) => {
                let message = format!("the parameters of session.events do not fit: {error}");
                return output.failure(&id, &Failure::new(Code::Invalid, message)).await;
            }
        };
        let _place = match self.long_stream() {
            Ok(place) => place,
            Err(failure) => return output.failure(&id, &failure).await,
        };
        let uplink = &self.inner.uplink;
        let Ok(mut link) = timeout(CARRIER_WAIT.min(time), uplink.link_after(None)).await else {
            return output.failure(&id, &uplink.unreachable()).await;
        };
        let mut position = Position { answered: false, cursor: events.since };
        loop {
            if let Err(failure) = position.follow(&link, &id, output).await {
                if !position.answered {
                    output.failure(&id, &failure).await;
                }
                return;
            }
            link = uplink.link_after(Some(&link)).await;
        }
    }
}

impl Position {
    /// Passes on what one link brings; an error when the daemon refuses or the consumer is gone.
    async fn follow(&mut self, link: &Link, id: &Value, output: &Output) -> Result<(), Failure> {
        let unreadable = |error: &dyn std::fmt::Display| Failure::new(Code::Failed, error.to_string());
        let (sender, mut receiver) = link.open(Lane::Control);
        let request = encode_request::<method::SessionEvents>(&Events { since: self.cursor });
        if sender.send(request).await.is_err() {
            return Ok(());
        }
        let mut first = true;
        loop {
            let Ok(Some(message)) = receiver.message().await else {
                return Ok(());
            };
            if std::mem::take(&mut first) {
                let started = message.answer::<method::SessionEvents>().map_err(|error| unreadable(&error))??;
                self.started(started, id, output).await?;
            } else {
                self.passed(&message, output).await?;
            }
        }
    }

    async fn started(&mut self, started: EventsStarted, id: &Value, output: &Output) -> Result<(), Failure> {
        if let Some(document) = &started.document {
            self.cursor = document.parse::<DocumentCursor>().ok().map(|document| document.cursor);
        }
        if !std::mem::replace(&mut self.answered, true) {
            let answer = serde_json::value::to_raw_value(&started)
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
            return output.answer(id, &answer).await;
        }
        match started.document {
            Some(document) => {
                let params = json!({ "reason": started.reset, "document": document });
                output.notify("session.reset", &params).await
            }
            None => Ok(()),
        }
    }

    async fn passed(&mut self, message: &Message, output: &Output) -> Result<(), Failure> {
        let unreadable = |error: &dyn std::fmt::Display| Failure::new(Code::Failed, error.to_string());
        match message.number {
            DELTA => {
                let delta: Delta = message.parse().map_err(|error| unreadable(&error))?;
                let cursor: DeltaCursor = delta.delta.parse().map_err(|error| unreadable(&error))?;
                self.cursor = Some(Cursor { generation: cursor.generation, revision: cursor.revision });
                output.notify("session.event", &delta.delta).await
            }
            RESET => {
                let started: EventsStarted = message.parse().map_err(|error| unreadable(&error))?;
                self.started(started, &Value::Null, output).await
            }
            // A message of a later version.
            _ => Ok(()),
        }
    }
}
