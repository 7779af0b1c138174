//! Lists over this machine and all that are known here. A machine that is down is a row with its reason, never a failed
//! list; exit 1 says that there is one.

use std::time::Duration;

use keepline_protocol::failure::{Code, Failure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::known::{self, RelayStatus};
use super::{Outcome, Said, json_line, read_rows};
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::settings::Listed;
use crate::cli::text::clean;
use crate::local::LocalClient;
use crate::paths::{Endpoint, Whose};

pub(super) async fn list<H: Host>(context: &Context<H>, listed: Listed) -> Outcome {
    let (collection, method) = listed.names();
    context.paths.check_runtime_dir()?;
    let own = Endpoint { path: context.paths.daemon_socket()?, whose: Whose::OwnDaemon };
    let time = context.common.timeout;
    let mut asked = JoinSet::new();
    // A daemon that does not run here is no machine that is down.
    if own.path.exists() {
        asked.spawn(async move { (None, None, rows(&own, method, collection, time).await) });
    }
    for daemon in context.host.known_daemons()? {
        let name = daemon.name.parse().ok();
        let endpoint = name.and_then(|name| known::endpoint(context, &name).ok());
        asked.spawn(async move {
            let status = known::ask(endpoint.clone()).await;
            let rows = match endpoint.filter(|_| status.state != "no-relay") {
                Some(endpoint) => rows(&endpoint, method, collection, time).await,
                None => Ok(Vec::new()),
            };
            let down = (status.state != "up").then_some(status);
            (Some(daemon.name), down, rows)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by(|left, right| left.0.cmp(&right.0));
    let (mut all, mut text, mut partial) = (Vec::new(), String::new(), false);
    for (machine, mut down, rows) in answers {
        let mut rows = rows.unwrap_or_else(|failure| {
            let failed = || RelayStatus::without("down", failure.code.name(), failure.message);
            down.get_or_insert_with(failed);
            Vec::new()
        });
        partial |= down.is_some();
        // What follows of a machine that is down is what was known last.
        // As in addresses.
        let machine = machine.unwrap_or_else(|| "local".to_owned());
        let mut line = machine.clone();
        if let Some(status) = &down {
            let reason = status.reason.as_deref().unwrap_or("-");
            let message = status.message.as_deref().unwrap_or("-");
            let (state, next) = (&status.state, status.next());
            line = format!("{line}: {state} ({reason}), next try {next}: {message}");
            all.push(json!({ "machine": machine, "state": state, "reason": reason,
                "message": message, "retry_ms": status.retry_ms }));
        }
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.insert("machine".to_owned(), json!(machine));
        }
        text.push_str(&format!("{}\n", clean(&line)));
        text.push_str(&listed.table(rows.clone()));
        all.append(&mut rows);
    }
    let text = if context.common.json { json_line(&all)? } else { text };
    print::stdout(&text)?;
    Ok(Said::Exit(u8::from(partial)))
}

async fn rows(endpoint: &Endpoint, method: &str, collection: &str, time: Duration) -> Result<Vec<Value>, Failure> {
    let mut client = LocalClient::connect(endpoint).await?;
    let answer = client.call(method, json!({}), time).await?;
    let unreadable = || Failure::new(Code::Failed, format!("{method} has no {collection}"));
    read_rows(answer, collection).ok_or_else(unreadable)
}
