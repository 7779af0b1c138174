//! The `keepline` binary: the composition root, the only place that names both the daemon and the client.
//!
//! | module | holds |
//! |---|---|
//! | `server` | `server start`: the daemon, its listeners, and the local socket that joins it to the JSON edge |
//! | `connect` | `remote connect`: the relay, in the foreground or behind an attachment |
//! | `background` | starting this program again in the background |

mod background;
mod connect;
mod server;

use std::process::ExitCode;

use keepline_client::cli::{self, Command, Consumer, Context, Host, KnownDaemon};
use keepline_client::paths::{Environment, MachineName, Paths};
use keepline_client::state::State;
use keepline_protocol::failure::{Code, Failure};

struct Root {
    paths: Paths,
}

impl Root {
    fn state(&self) -> Result<State, Failure> {
        State::open(self.paths.state_dir()?)
    }
}

impl Host for Root {
    async fn ensure_daemon(&self) -> Result<(), Failure> {
        server::ensure(&self.paths).await
    }

    fn known_daemons(&self) -> Result<Vec<KnownDaemon>, Failure> {
        Ok(self.state()?.known()?.into_iter().map(KnownDaemon::from).collect())
    }

    fn forget_daemon(&self, name: &MachineName) -> Result<(), Failure> {
        self.state()?.forget(name)
    }

    fn rotate_key(&self) -> Result<u64, Failure> {
        self.state()?.rotate_key()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    background::leave_terminal();
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(unusable) => return ExitCode::from(cli::refuse_usage(&unusable).await),
    };
    log_to_stderr();
    let environment = Environment::of_this_process();
    let paths = Paths::new(&environment);
    let mut context = Context { host: Root { paths: paths.clone() }, paths, environment, common: invocation.common };
    let code = match invocation.command {
        Command::Consumer(consumer) => cli::run(consumer, &mut context).await,
        Command::Bare(_) if context.environment.terminal.is_some() => cli::fail(&inside()),
        Command::Bare(attach) => cli::run(Consumer::Attach(attach), &mut context).await,
        Command::ServerStart(settings) => server::start(settings, &context).await,
        Command::RemoteConnect(settings) => connect::connect(settings, context).await,
    };
    ExitCode::from(code)
}

/// A shell in a terminal of keepline's that attaches to whatever was used last can end up looking at itself.
fn inside() -> Failure {
    let message = "this is a terminal of keepline's already: name another one with `keepline attach --terminal`, or \
                   detach first with ~.";
    Failure::new(Code::Refused, message)
}

/// Diagnostics for whoever looks for them: `KEEPLINE_LOG=info keepline server start`.
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("KEEPLINE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    subscriber.init();
}
