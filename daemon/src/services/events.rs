//! `session.events`: the graph's deltas on a stream.

use keepline_carrier::link::Sender;
use keepline_protocol::api::session::Delta;
use keepline_protocol::message::{Message, encode_answer, encode_struct};
use keepline_protocol::registry::{DELTA, RESET, method};
use keepline_protocol::stream::StreamClosed;

use super::parse;
use crate::daemon::Daemon;
use crate::session::Event;

/// Answers with what the asker misses, then sends one delta per transaction. A reader that is too slow gets the complete
/// graph anew; nothing is queued for it but what its stream's credit allows.
pub(super) async fn serve(daemon: &Daemon, request: &Message, sender: &Sender) -> Result<(), StreamClosed> {
    let params = match parse::<method::SessionEvents>(request) {
        Ok(params) => params,
        Err(failure) => {
            return sender.send(encode_answer::<method::SessionEvents>(&Err(failure))).await;
        }
    };
    let (started, mut subscription) = daemon.inner.session.subscribe(params.since);
    sender.send(encode_answer::<method::SessionEvents>(&Ok(started))).await?;
    loop {
        let event = tokio::select! {
            event = subscription.next() => event,
            () = sender.closed() => return Err(StreamClosed),
        };
        match event {
            Some(Event::Delta(committed)) => {
                let delta = Delta { delta: committed.delta.clone() };
                sender.send(encode_struct(DELTA, &delta)).await?;
            }
            Some(Event::Reset(started)) => sender.send(encode_struct(RESET, &started)).await?,
            None => return Ok(()),
        }
    }
}
