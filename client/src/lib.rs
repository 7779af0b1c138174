//! The keepline client.
//!
//! What talks to a local socket: the command line ([`cli`]), its JSON-RPC client ([`local`]) and the two ways to attach
//! ([`attach`]). Where that socket is, is [`paths`]; every limit is in [`bounds`].

pub mod attach;
pub mod bounds;
pub mod cli;
pub mod local;
pub mod paths;
