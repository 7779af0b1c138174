//! The `keepline` binary: the composition root.

use std::process::ExitCode;

use keepline_client::cli::{self, Command, Consumer, Context, Host, KnownDaemon};
use keepline_client::paths::{Environment, MachineName, Paths};
use keepline_protocol::failure::{Code, Failure};

struct Root;

impl Host for Root {
    async fn ensure_daemon(&self) -> Result<(), Failure> {
        Err(Failure::new(
            Code::Failed,
            "this build cannot start a daemon",
        ))
    }

    fn known_daemons(&self) -> Result<Vec<KnownDaemon>, Failure> {
        Ok(Vec::new())
    }

    fn forget_daemon(&self, name: &MachineName) -> Result<(), Failure> {
        Err(Failure::new(
            Code::NotFound,
            format!("no machine is called '{name}'"),
        ))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(unusable) => return ExitCode::from(cli::refuse_usage(&unusable).await),
    };
    let environment = Environment::of_this_process();
    let context = Context {
        host: Root,
        paths: Paths::new(&environment),
        environment,
        common: invocation.common,
    };
    let consumer = match invocation.command {
        Command::Consumer(consumer) => consumer,
        Command::Bare(attach) => Consumer::Attach(attach),
        Command::ServerStart(_) | Command::RemoteConnect(_) => {
            let failure = Failure::new(Code::Failed, "this build cannot do that");
            return ExitCode::from(cli::fail(&failure));
        }
    };
    ExitCode::from(cli::run(consumer, &context).await)
}
