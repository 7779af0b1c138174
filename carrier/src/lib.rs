//! What moves a link's packets, and the task that drives a link over it.
//!
//! `protocol` says what is said; this crate is the thin shell of I/O around it that both ends share: the daemon and the
//! client drive the same [`Link`](keepline_protocol::link::Link) over the same kinds of carrier.
//!
//! | module | holds |
//! |---|---|
//! | [`route`] | where a daemon can be reached, parsed once at the edge |
//! | [`packet`] | a carrier's two halves: packets in, packets out |
//! | [`dial`] | a client's way from a route to a carrier |
//! | [`tls`] | which certificates are trusted on `wss://` routes |
//! | `ssh` | a carrier over the person's own ssh |
//! | [`socket`] | sockets that are asked whether they take more before a packet is sealed |
//! | [`upgrade`] | a daemon's way from an accepted TCP connection to a WebSocket carrier |
//! | [`link`] | a link shared between its driver and the tasks that use its streams |
//! | [`bounds`] | this crate's limits |

pub mod bounds;
pub mod dial;
pub mod link;
pub mod packet;
pub mod route;
pub mod socket;
mod ssh;
pub mod tls;
pub mod upgrade;

mod clock;
mod entropy;

pub use clock::Clock;
pub use entropy::entropy;
