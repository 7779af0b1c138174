//! One consumer's connection: JSON-RPC 2.0 lines, until `terminal.attach` turns it into records.

use std::sync::Arc;
use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::{self, Effect, Method, method};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Edge;
use crate::bounds::{CARRIER_WAIT, LINE_TO_CONSUMER_MAX, LINE_TO_SERVER_MAX, REQUEST_TIME, REQUESTS_AT_ONCE};
use crate::document::COLLECTIONS;
use crate::local::{Line, Lines};

/// The method that only the edge has a stream for.
const WATCH: &str = "notification.watch";

/// JSON-RPC's own error numbers.
mod code {
    pub(super) const PARSE: i64 = -32700;
    pub(super) const INVALID_REQUEST: i64 = -32600;
    pub(super) const NO_METHOD: i64 = -32601;
    /// Ours are this less the failure's number.
    pub(super) const FAILURE: i64 = -32000;
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// Lines to a consumer. A line is written whole before the next; a consumer that does not read holds up only itself.
#[derive(Clone)]
pub(super) struct Output {
    writer: Arc<Mutex<OwnedWriteHalf>>,
}

/// The consumer is gone.
fn gone() -> Failure {
    Failure::new(Code::Gone, "the consumer closed the connection")
}

impl Output {
    async fn line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(value).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        if line.len() > LINE_TO_CONSUMER_MAX {
            let message = format!("the answer has {} bytes and at most {LINE_TO_CONSUMER_MAX} can be sent", line.len());
            return Err(Failure::new(Code::TooLarge, message));
        }
        line.push(b'\n');
        self.writer.lock().await.write_all(&line).await.map_err(|_| gone())
    }

    pub(super) async fn answer(&self, id: &Value, result: &RawValue) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Answer<'a> {
            jsonrpc: &'static str,
            id: &'a Value,
            result: &'a RawValue,
        }
        self.line(&Answer { jsonrpc: "2.0", id, result }).await
    }

    pub(super) async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Notification<'a, P> {
            jsonrpc: &'static str,
            method: &'a str,
            params: &'a P,
        }
        self.line(&Notification { jsonrpc: "2.0", method, params }).await
    }

    pub(super) async fn failure(&self, id: &Value, failure: &Failure) {
        let number = code::FAILURE - i64::from(failure.code.number());
        let data = json!({ "kind": failure.code.name(), "candidates": failure.candidates });
        self.error(id, number, &failure.message, data).await;
    }

    async fn error(&self, id: &Value, code: i64, message: &str, data: Value) {
        let error = json!({ "code": code, "message": message, "data": data });
        // A consumer that is gone needs no error.
        let _ = self.line(&json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }
}

/// Serves a connection until the consumer closes it, or it turns into an attachment.
pub(super) async fn serve(edge: &Edge, stream: UnixStream, prefix: &[u8]) {
    let (reader, writer) = stream.into_split();
    let mut lines = Lines::with_prefix(reader, LINE_TO_SERVER_MAX, prefix);
    let output = Output { writer: Arc::new(Mutex::new(writer)) };
    let slots = Arc::new(Semaphore::new(REQUESTS_AT_ONCE));
    // Dropped with the connection: what a consumer asked for ends when it goes away.
    let mut tasks = JoinSet::new();
    let mut following = false;
    while let Ok(Some(line)) = lines.next().await {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let message = format!("a line has more than {LINE_TO_SERVER_MAX} bytes");
                output.error(&Value::Null, code::INVALID_REQUEST, &message, json!({ "kind": "too-large" })).await;
                continue;
            }
        };
        let request: Request = match serde_json::from_slice(&line) {
            Ok(request) => request,
            Err(error) => {
                let number = if error.is_data() { code::INVALID_REQUEST } else { code::PARSE };
                let message = format!("this is no JSON-RPC request: {error}");
                output.error(&Value::Null, number, &message, json!({ "kind": "invalid" })).await;
                continue;
            }
        };
        // JSON-RPC answers no notification, and there is none that we know.
        let Some(id) = request.id else { continue };
        let params = request.params.unwrap_or_else(|| json!({}));
        let time = request.timeout_ms.map_or(REQUEST_TIME, Duration::from_millis);
        following |= matches!(&*request.method, method::SessionEvents::NAME | WATCH);
        if request.method == method::TerminalAttach::NAME && following {
            let message = "this connection follows the session: attach on another one";
            output.failure(&id, &Failure::new(Code::Invalid, message)).await;
            continue;
        }
        if request.method == method::TerminalAttach::NAME {
            while tasks.join_next().await.is_some() {}
            let _place = match edge.long_stream() {
                Ok(place) => place,
                Err(failure) => {
                    output.failure(&id, &failure).await;
                    continue;
                }
            };
            match edge.attach(&id, params, time, &output).await {
                // Refused: the connection still speaks JSON-RPC.
                None => continue,
                Some(attachment) => {
                    let (reader, rest) = lines.into_parts();
                    let Some(writer) = Arc::into_inner(output.writer).map(Mutex::into_inner) else {
                        return;
                    };
                    return attachment.run(reader, rest, writer).await;
                }
            }
        }
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        while tasks.try_join_next().is_some() {}
        let (edge, output) = (edge.clone(), output.clone());
        tasks.spawn(async move {
            let _slot = slot;
            edge.answer(id, &request.method, params, time, &output).await;
        });
    }
    // A consumer that said all it had to say may still listen; one that follows has nothing to wait for but this.
    while !following && tasks.join_next().await.is_some() {}
}

impl Edge {
    async fn answer(&self, id: Value, method: &str, params: Value, time: Duration, output: &Output) {
        if method == method::SessionEvents::NAME {
            return self.events(id, params, time, output).await;
        }
        if method == WATCH {
            if let Err(failure) = self.watch(&id, output).await {
                output.failure(&id, &failure).await;
            }
            return;
        }
        let raw = |value: Value| {
            serde_json::value::to_raw_value(&value).map_err(|error| Failure::new(Code::Internal, error.to_string()))
        };
        let by_itself = match method {
            "relay.status" | "relay.reconnect" if self.inner.uplink.machine().is_none() => None,
            "relay.status" => Some(Ok(self.relay_status())),
            "relay.reconnect" => {
                let rotated = params["rotated"] == true;
                Some(self.reconnect(rotated, time).await)
            }
            _ => None,
        };
        let from_document = self.answer_from_document(method, time).await;
        let answered = match (by_itself, from_document) {
            (Some(answer), _) => answer.and_then(raw),
            (None, Some(json)) => {
                RawValue::from_string(json).map_err(|error| Failure::new(Code::Internal, error.to_string()))
            }
            (None, None) => match registry::by_name(method) {
                Some(entry) if entry.effect != Effect::Stream => self.request(entry, params, time).await,
                _ if listed(method).is_some() => Err(self.inner.uplink.unreachable()),
                _ => {
                    let message = format!("there is no method '{method}'");
                    return output.error(&id, code::NO_METHOD, &message, json!({ "kind": "unknown-method" })).await;
                }
            },
        };
        let sent = match answered {
            Ok(result) => output.answer(&id, &result).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = sent {
            output.failure(&id, &failure).await;
        }
    }

    /// What the edge answers from its document, as JSON; nothing for every other method, and while there is none.
    async fn answer_from_document(&self, method: &str, time: Duration) -> Option<String> {
        let collection = listed(method);
        if collection.is_none() && method != method::SessionSnapshot::NAME {
            return None;
        }
        // A first document is on its way soon after the link is up.
        let _ = timeout(CARRIER_WAIT.min(time), self.inner.follower.present()).await;
        match collection {
            Some(collection) => self.list(collection),
            None => self.snapshot(),
        }
    }
}

/// The collection that a `list` is of.
fn listed(method: &str) -> Option<&'static str> {
    let kind = method.strip_suffix(".list")?;
    let found = COLLECTIONS.iter().find(|(known, _)| *known == kind)?;
    Some(found.1)
}
