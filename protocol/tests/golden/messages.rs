//! Messages that are no requests and no answers of their own.

use keepline_protocol::api::{Json, session};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::message::{encode_answer, encode_struct};
use keepline_protocol::registry::{DELTA, RESET, method};
use serde_json::{Value, json};

use super::{GENERATION, WORKSPACE, check, document, hex, message, some, text};

#[test]
fn every_failure_and_notice_has_its_bytes() {
    let failures = Code::ALL.iter().map(|&code| {
        let candidates = match code {
            Code::Ambiguous => vec![format!("{WORKSPACE} main"), text("second")],
            _ => Vec::new(),
        };
        let failure = Failure { code, message: text("what happened"), candidates: candidates.clone() };
        let wire = encode_answer::<method::ServerStatus>(&Err(failure.clone()));
        let read = message(&wire).answer::<method::ServerStatus>().unwrap();
        assert_eq!(read.unwrap_err(), failure);
        json!({
            "name": "failure", "code": code.number(), "text": "what happened",
            "candidates": candidates, "message": hex(&wire),
        })
    });
    let mut vectors: Vec<Value> = failures.collect();
    let delta = session::Delta {
        delta: Json::from_trusted(format!(
            r#"{{"generation":"{GENERATION}","previous_revision":300,"revision":301,"changes":[{{"op":"delete","kind":"workspace","id":"{WORKSPACE}","row":null}}]}}"#
        )),
    };
    let wire = encode_struct(DELTA, &delta);
    assert_eq!(message(&wire).parse::<session::Delta>().unwrap(), delta);
    vectors.push(json!({ "name": "delta", "body": delta, "message": hex(&wire) }));
    let reset = session::EventsStarted { reset: some("reader-too-slow"), document: Some(document()) };
    let wire = encode_struct(RESET, &reset);
    assert_eq!(message(&wire).parse::<session::EventsStarted>().unwrap(), reset);
    vectors.push(json!({ "name": "reset", "body": reset, "message": hex(&wire) }));
    check(
        "messages.json",
        "Messages that are no requests and no answers of their own: failures by code, deltas, resets.",
        vectors,
    );
}
