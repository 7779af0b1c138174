//! The command line: what may be written ([`parse`]), what it means ([`settings`]), and every command that is a consumer
//! of a local socket ([`run`]).
//!
//! The composition root parses, does `server start` and `remote connect` itself, and hands the rest to [`run`] with a
//! [`Context`] of what only it can do.

mod arguments;
mod commands;
mod context;
mod parse;
mod print;
pub mod settings;
pub mod text;

pub use context::{Context, Host, KnownDaemon};
pub use parse::{Unusable, parse};
pub use print::{fail, refuse_usage, show};
pub use settings::{Command, Consumer, Invocation};

/// Does what a consumer of a local socket does, prints it, and gives the exit code.
pub async fn run<H: Host>(consumer: Consumer, context: &mut Context<H>) -> u8 {
    commands::run(consumer, context).await
}
