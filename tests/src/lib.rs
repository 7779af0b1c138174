//! The harness of the end-to-end tests: real processes, sockets, PTYs and kills.
//!
//! | module | holds |
//! |---|---|
//! | [`binary`] | the `keepline` under test, built once |
//! | [`machine`] | [`Machine`]: a home of its own, and everything that is started in it |
//! | [`process`] | a child process and what it printed so far |
//! | [`pipe_io`] | `attach --pipe-io` |
//! | [`pty`] | a child under a PTY, as a person has it |
//! | [`proxy`] | a TCP proxy that cuts at chosen bytes, or swallows them |
//! | [`shaper`] | a TCP relay with a rate, a delay and a queue |
//! | [`refuser`] | a stranger at a daemon's port, who refuses in clear |
//! | [`peer`] | the other end of a daemon's port, by hand: HTTP, WebSocket, a whole handshake |
//! | [`rpc`] | the local socket, by hand |
//! | [`ssh`] | an ssh server on loopback, with its own keys |
//! | [`measure`] | what benchmarks share: terminals however reached, times, goals |
//! | [`screen`] | what a consumer's screen shows |
//!
//! Tests wait for conditions ([`wait_until`], [`Seen::wait`](process::Seen::wait)) with one generous limit, and fail
//! with what was seen instead. Whatever a test starts is killed, by its own process id, when its owner is dropped.

pub mod binary;
pub mod machine;
pub mod measure;
pub mod peer;
pub mod pipe_io;
pub mod process;
pub mod proxy;
pub mod pty;
pub mod refuser;
pub mod rpc;
pub mod screen;
pub mod shaper;
pub mod ssh;

use std::fmt::Display;
use std::time::{Duration, Instant};

pub use machine::{Daemon, Machine, Relay};

/// How long a condition may take to come true. It measures nothing: it only ends a test that would hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` gives something; until then it says what it saw instead.
///
/// # Panics
/// After [`PATIENCE`], with what was seen last.
pub fn wait_until<T, S: Display>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if Instant::now() > deadline => {
                panic!("{what}: not within {PATIENCE:?}; seen last: {seen}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
