//! `notification watch`.

use keepline_protocol::failure::{Code, Failure};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{Outcome, Said, cell};
use crate::bounds::ALERTS_A_SECOND;
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::text::clean;
use crate::local::LocalClient;
use crate::paths::{Endpoint, Whose};

/// Prints alerts until nobody reads them, or until the machine's socket is gone. With `--all-machines` those of every
/// machine that is served here now; one that goes away is said to, and ends nothing but itself.
pub(super) async fn watch<H: Host>(context: &Context<H>, jsonl: bool) -> Outcome {
    let endpoints = if context.common.all_machines {
        let mut all = vec![Endpoint { path: context.paths.daemon_socket()?, whose: Whose::OwnDaemon }];
        for daemon in context.host.known_daemons()? {
            if let Ok(name) = daemon.name.parse() {
                all.push(super::known::endpoint(context, &name)?);
            }
        }
        all.retain(|endpoint| endpoint.path.exists());
        all
    } else {
        vec![context.endpoint()?]
    };
    if endpoints.is_empty() {
        let message = "no machine is served here: `keepline remote connect` starts a relay";
        return Err(Failure::new(Code::Unreachable, message));
    }
    let (sender, mut alerts) = mpsc::channel::<Result<Value, Failure>>(1);
    for endpoint in endpoints {
        let (sender, timeout) = (sender.clone(), context.common.timeout);
        tokio::spawn(async move {
            let failure = async {
                let client = LocalClient::connect(&endpoint).await?;
                let mut stream = client.stream("notification.watch", &json!({}), timeout).await?;
                loop {
                    let (method, params) = stream.next().await?;
                    if method == "notification.alert" && sender.send(Ok(params)).await.is_err() {
                        return Ok(());
                    }
                }
            };
            if let Err::<(), Failure>(failure) = failure.await {
                // Nobody may listen any more.
                let _ = sender.send(Err(failure)).await;
            }
        });
    }
    drop(sender);
    let as_json = jsonl || context.common.json;
    let mut next = Instant::now();
    let mut last = None;
    while let Some(alert) = alerts.recv().await {
        let alert = match alert {
            Ok(alert) => alert,
            Err(failure) if context.common.all_machines => {
                print::note(&clean(&failure.message));
                last = Some(failure);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        sleep_until(next).await;
        next = Instant::now() + std::time::Duration::from_secs(1) / ALERTS_A_SECOND;
        let line = if as_json {
            format!("{alert}\n")
        } else {
            let machine = Some(cell(&alert, "machine")).filter(|name| name != "-");
            let machine = machine.map_or_else(String::new, |name| format!("{name}: "));
            let words = ["level", "title", "subtitle", "body"].map(|field| cell(&alert, field));
            let words: Vec<_> = words.into_iter().filter(|word| word != "-").collect();
            format!("{}\n", clean(&format!("{machine}{}", words.join("  "))))
        };
        if !print::stdout(&line)? {
            return Ok(Said::Exit(0));
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(Code::Unreachable, "no machine is served here any more")))
}
