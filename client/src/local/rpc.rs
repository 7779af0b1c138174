//! JSON-RPC 2.0 on a local socket: requests, replies, notifications.

use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{SessionEvent, check_length};

#[derive(Serialize)]
pub(super) struct Request<'a, P: ?Sized> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
    timeout_ms: u64,
}

impl<P: Serialize + ?Sized> Request<'_, P> {
    /// The line of a request, with its line end.
    pub(super) fn line(id: u64, method: &str, params: &P, timeout: Duration) -> Result<Vec<u8>, Failure> {
        let request = Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let mut line = serde_json::to_vec(&request).map_err(|error| {
            Failure::new(Code::Internal, format!("the parameters of {method} have no JSON form: {error}"))
        })?;
        check_length(method, line.len())?;
        line.push(b'\n');
        Ok(line)
    }
}

/// A line that is no notification we asked for: an answer, or an error that belongs to no request.
pub(super) struct Reply {
    pub(super) id: Option<u64>,
    pub(super) outcome: Result<Box<RawValue>, Failure>,
    notification: bool,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<WireError>,
}

#[derive(Deserialize)]
struct WireError {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<WireData>,
}

#[derive(Deserialize)]
struct WireData {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    candidates: Vec<String>,
}

impl Reply {
    pub(super) fn parse(method: &str, line: &[u8]) -> Result<Self, Failure> {
        let wire: Wire = serde_json::from_slice(line).map_err(|_| malformed(method))?;
        let outcome = match (wire.result, wire.error) {
            (_, Some(error)) => Err(failure(error)),
            (Some(result), None) => Ok(result),
            // `"result": null` reads as absent.
            (None, None) => Ok(RawValue::NULL.to_owned()),
        };
        Ok(Reply { id: wire.id, outcome, notification: wire.method.is_some() })
    }

    /// Whether this says that the connection itself is at fault: an error under no request's id.
    pub(super) fn is_connection_error(&self) -> bool {
        self.id.is_none() && self.outcome.is_err() && !self.notification
    }
}

fn malformed(method: &str) -> Failure {
    Failure::new(Code::Failed, format!("what came as an answer to {method} is no JSON-RPC: is it a keepline socket?"))
}

fn failure(error: WireError) -> Failure {
    let (kind, candidates) = error.data.map_or((String::new(), Vec::new()), |data| (data.kind, data.candidates));
    let code = Code::from_name(&kind).unwrap_or(match error.code {
        -32601 => Code::UnknownMethod,
        -32602 | -32600 => Code::Invalid,
        -32700 => Code::Internal,
        code => u16::try_from(-32000 - code).map_or(Code::Failed, Code::from_number),
    });
    Failure { code, message: error.message, candidates }
}

#[derive(Deserialize)]
pub(super) struct Notification {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Reset {
    reason: String,
    document: Box<RawValue>,
}

impl Notification {
    /// A notification as it is: its method and its parameters.
    pub(super) fn plain(line: &[u8]) -> Result<(String, serde_json::Value), Failure> {
        let unreadable = |_| malformed("a notification");
        let notification: Notification = serde_json::from_slice(line).map_err(unreadable)?;
        let params = notification.params.map(|params| serde_json::from_str(params.get()));
        let params = params.transpose().map_err(unreadable)?;
        Ok((notification.method, params.unwrap_or_default()))
    }

    /// The event in a line; nothing for a notification of another kind, which a later version may send.
    pub(super) fn parse(line: &[u8]) -> Result<Option<SessionEvent>, Failure> {
        const STREAM: &str = "session.events";
        let notification: Notification = serde_json::from_slice(line).map_err(|_| malformed(STREAM))?;
        let params = notification.params;
        match notification.method.as_str() {
            "session.event" => params.map(|delta| Some(SessionEvent::Delta(delta))).ok_or_else(|| malformed(STREAM)),
            "session.reset" => {
                let reset: Reset = params
                    .and_then(|params| serde_json::from_str(params.get()).ok())
                    .ok_or_else(|| malformed(STREAM))?;
                Ok(Some(SessionEvent::Reset { reason: reset.reason, document: reset.document }))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Reply {
        Reply::parse("m", text.as_bytes()).unwrap()
    }

    #[test]
    fn an_error_keeps_its_kind_and_candidates() {
        let outcome = reply(
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32005,"message":"two fit","data":{"kind":"ambiguous","candidates":["a","b"]}}}"#,
        );
        assert_eq!(outcome.id, Some(3));
        let failure = outcome.outcome.unwrap_err();
        assert_eq!(failure.code, Code::Ambiguous);
        assert_eq!(failure.candidates, ["a", "b"]);
        for (text, code) in [
            (r#"{"id":1,"error":{"code":-32601,"message":"x"}}"#, Code::UnknownMethod),
            (r#"{"id":1,"error":{"code":-32602,"message":"x"}}"#, Code::Invalid),
            (r#"{"id":1,"error":{"code":-32011,"message":"x"}}"#, Code::Timeout),
            (r#"{"id":1,"error":{"code":-32499,"message":"x"}}"#, Code::Unknown(499)),
            (r#"{"id":1,"error":{"code":7,"message":"x"}}"#, Code::Failed),
        ] {
            assert_eq!(reply(text).outcome.unwrap_err().code, code, "{text}");
        }
        assert!(reply(r#"{"id":null,"error":{"code":-32700,"message":"x"}}"#).is_connection_error());
        assert!(Reply::parse("m", b"HTTP/1.1 400").is_err());
    }

    #[test]
    fn notifications_are_told_apart_and_unknown_ones_passed_over() {
        let parse = |text: &str| Notification::parse(text.as_bytes()).unwrap();
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"session.event","params":{"revision":1}}"#),
            Some(SessionEvent::Delta(delta)) if delta.get() == r#"{"revision":1}"#
        ));
        assert!(matches!(
            parse(r#"{"method":"session.reset","params":{"reason":"slow","document":{"cursor":null}}}"#),
            Some(SessionEvent::Reset { reason, .. }) if reason == "slow"
        ));
        assert!(parse(r#"{"method":"session.later","params":{}}"#).is_none());
    }

    #[test]
    fn a_request_that_nobody_would_read_is_not_sent() {
        let params = "x".repeat(crate::bounds::LINE_TO_SERVER_MAX);
        let failure = Request::line(1, "m", &params, Duration::ZERO).unwrap_err();
        assert_eq!(failure.code, Code::TooLarge);
        let line = Request::line(1, "m", "p", Duration::from_secs(2)).unwrap();
        assert_eq!(line, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":\"p\",\"timeout_ms\":2000}\n");
    }
}
