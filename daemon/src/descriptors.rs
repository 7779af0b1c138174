//! How many files the daemon may have open: as many as the system lets it. Its terminals' programs get the limit that it
//! was started with, because some of them go through all descriptors that they might have, or use `select`.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's soft limit to its hard one. When the system refuses, the limit stays.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        let _ = STARTED_WITH.set(limit);
    }
}

/// Gives a child the limit that this process was started with.
pub(crate) fn restore(child: Pid) {
    if let Some(limit) = STARTED_WITH.get() {
        // It may have ended already.
        let _ = prlimit(Some(child), Resource::Nofile, *limit);
    }
}
