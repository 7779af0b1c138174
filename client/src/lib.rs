//! The keepline client.
//!
//! ```text
//!  cli, attach ⇄ local socket ⇄ edge ⇄ uplink ⇄ relay ⇄ carrier ⇄ daemon
//!                                └── document
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`cli`], [`attach`], [`local`] | consumers of a local socket: commands, the two ways to attach, the JSON-RPC client |
//! | [`edge`] | the server of a local socket, of a relay and of the daemon alike |
//! | [`document`] | the client's copy of a machine's session graph |
//! | [`uplink`], [`relay`] | how the link stands; keeping it |
//! | [`state`] | what this install remembers: its keys and the machines it knows |
//! | [`paths`], [`bounds`] | where things are; every limit |

pub mod attach;
pub mod bounds;
pub mod cli;
pub mod document;
pub mod edge;
pub mod local;
pub mod paths;
pub mod relay;
pub mod state;
pub mod uplink;
