//! The commands, by noun.

mod ask;
mod attach;
mod known;
mod list;
mod many;
mod notification;
mod remote;
mod server;
mod session;
mod stdio;
mod terminal;
mod tree;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::{Context, Host};
use super::print;
use super::settings::Consumer;
use super::text;

/// What a command says when it is done.
enum Said {
    /// Data for stdout.
    Data(String),
    /// It printed what there was itself, and exits with this code.
    Exit(u8),
}

type Outcome = Result<Said, Failure>;

pub(super) async fn run<H: Host>(mut consumer: Consumer, context: &mut Context<H>) -> u8 {
    if let Err(failure) = context.address(&mut consumer) {
        return print::fail(&failure);
    }
    let outcome = match consumer {
        Consumer::ServerStatus => server::status(context).await,
        Consumer::ServerStop => server::stop(context).await,
        Consumer::ServerAudit(device) => server::audit(context, device).await,
        Consumer::RemoteInvite(invite) => remote::invite(context, invite).await,
        Consumer::RemotePending => remote::pending(context).await,
        Consumer::RemoteApprove(device) => remote::approve(context, device).await,
        Consumer::RemoteDeny(device) => remote::deny(context, device).await,
        Consumer::RemoteDevices => remote::devices(context).await,
        Consumer::RemoteConnections => remote::connections(context).await,
        Consumer::RemoteRevoke(device) => remote::revoke(context, device).await,
        Consumer::RemoteScope(device, scopes) => remote::scope(context, device, scopes).await,
        Consumer::RotateDaemonKey => remote::rotate_daemon_key(context).await,
        Consumer::RotateDeviceKey => known::rotate_device_key(context).await,
        Consumer::Probe(route, way) => known::probe(context, &route, &way).await,
        Consumer::RemoteStdio => stdio::stdio(context).await,
        Consumer::KnownDaemons => known::list(context).await,
        Consumer::ForgetDaemon(name) => known::forget(context, &name).await,
        Consumer::Disconnect(name) => known::disconnect(context, &name).await,
        Consumer::Reconnect(name) => known::reconnect(context, &name).await,
        Consumer::SessionSnapshot => session::snapshot(context).await,
        Consumer::SessionEvents(events) => session::events(context, events).await,
        Consumer::Ask(request) => ask::run(context, request).await,
        Consumer::LayoutApply(file, request) => ask::apply_layout(context, &file, request).await,
        Consumer::List(listed) if context.common.all_machines => many::list(context, listed).await,
        Consumer::List(listed) => list::list(context, listed).await,
        Consumer::Tree(workspace) => tree::tree(context, workspace).await,
        Consumer::NotificationWatch(jsonl) => notification::watch(context, jsonl).await,
        Consumer::TerminalSend(terminal, text) => terminal::send(context, terminal, text).await,
        Consumer::TerminalPaste(terminal, text) => terminal::paste(context, terminal, text).await,
        Consumer::TerminalRead(read) => terminal::read(context, read).await,
        Consumer::TerminalRecord(terminal, file) => attach::record(context, terminal, &file).await,
        Consumer::Attach(settings) => attach::attach(context, settings).await,
    };
    let outcome = outcome.and_then(|said| match said {
        Said::Data(data) => print::stdout(&data).map(|_| 0),
        Said::Exit(exit) => Ok(exit),
    });
    outcome.unwrap_or_else(|failure| print::fail(&failure))
}

/// `value` as one line of JSON.
fn json_line<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(Code::Internal, format!("no JSON form: {error}")))
}

/// Asks for `M` on a new connection.
async fn request<M: Method, H: Host>(context: &Context<H>, params: M::Params) -> Result<M::Answer, Failure> {
    context.client().await?.request::<M>(&params, context.common.timeout).await
}

/// The key of a change that was given none: what is repeated on the way must be known to be the same.
fn random_key() -> Result<String, Failure> {
    Ok(data_encoding::HEXLOWER.encode(&random()?))
}

fn random() -> Result<[u8; 16], Failure> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::new(Code::Failed, format!("no randomness from the system: {error}")))?;
    Ok(random)
}

/// How fresh what an edge answers from its document is.
#[derive(Debug, Deserialize)]
struct Freshness {
    state: String,
    #[serde(default)]
    since_ms: u64,
}

impl Freshness {
    fn is_stale(&self) -> bool {
        self.state != "live"
    }

    /// Tells a person that what they see is not live.
    fn tell(&self) {
        if self.is_stale() {
            print::note(&format!(
                "stale: the machine is not connected, this is from {} ago",
                text::age(text::now_ms(), self.since_ms)
            ));
        }
    }
}

/// Asks for a list that the edge answers from its document: its rows, told when they are stale. Stale rows say so
/// themselves too, because an array has no place for it.
async fn rows<H: Host>(context: &Context<H>, method: &str, collection: &str) -> Result<Vec<Value>, Failure> {
    let mut client = context.client().await?;
    let answer = client.call(method, serde_json::json!({}), context.common.timeout).await?;
    read_rows(answer, collection).ok_or_else(|| {
        Failure::new(
            Code::Failed,
            format!("the answer to {method} has no {collection}: is the other side another version?"),
        )
    })
}

fn read_rows(mut answer: Value, collection: &str) -> Option<Vec<Value>> {
    let freshness = answer.get_mut("freshness").map(Value::take);
    let Value::Array(mut rows) = answer.get_mut(collection)?.take() else {
        return None;
    };
    if let Some(value) = freshness
        && let Ok(freshness) = serde_json::from_value::<Freshness>(value.clone())
        && freshness.is_stale()
    {
        freshness.tell();
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.insert("freshness".to_owned(), value.clone());
        }
    }
    Some(rows)
}

/// Rows in the order that they say themselves.
fn in_order(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| row.get("index").and_then(Value::as_u64).unwrap_or(u64::MAX));
    rows
}

/// A field of a row as a person reads it; `-` when it is absent, null or empty.
fn cell(row: &Value, field: &str) -> String {
    match row.get(field) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A round trip as a person reads it; `-` when there is none.
fn milliseconds(microseconds: Option<u64>) -> String {
    microseconds.map_or_else(|| "-".to_owned(), |rtt| format!("{}.{} ms", rtt / 1000, rtt % 1000 / 100))
}

/// A field that is a time, as how long ago it was.
fn age_cell(row: &Value, field: &str) -> String {
    let then = row.get(field).and_then(Value::as_u64).unwrap_or(0);
    text::age(text::now_ms(), then)
}
