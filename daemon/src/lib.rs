//! The keepline daemon: it owns the terminals and the session graph of a machine, and serves them over links.
//!
//! ```text
//!  terminal ── session ──┐
//!                    services ⇄ link ⇄ admission ⇄ carrier (listener, Unix socket, memory)
//! ```
//!
//! [`Daemon`] is the root: [`Daemon::open`] takes the state directory, then carriers are handed to it
//! ([`Daemon::serve_carrier`], [`Daemon::listen`], [`Daemon::local_links`]) until [`Daemon::stopped`] says that somebody asked
//! for the end and [`Daemon::stop`] brings it about.
//!
//! | module | holds |
//! |---|---|
//! | [`terminal`] | programs on PTYs, exact screens, attachments |
//! | [`session`] | the session graph, its journal, enrolment: everything durable |
//! | `terminals` | which terminals live, and how their rows follow them |
//! | `admission` | handshakes: who gets a link |
//! | `links` | the links, their leases and epochs |
//! | `services` | requests and conversations on streams |
//! | `listener` | TCP connections and what they may cost before they are authenticated |
//! | `clients` | who is connected, and how the graph follows |
//! | [`descriptors`] | how many files may be open |
//! | [`bounds`] | every limit |

pub mod bounds;
pub mod descriptors;
pub mod session;
pub mod terminal;

mod admission;
mod clients;
mod daemon;
mod gate;
mod links;
mod listener;
mod services;
mod terminals;

pub use daemon::{Config, Daemon};
