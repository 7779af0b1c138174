//! How often a snapshot may still be asked for.
//!
//! ```text
//!              refused                 five in a row, then the allowance too
//!  healthy ──────────────▶ recovering ───────────────────────────────────────▶ exhausted
//!     ▲ ◀──────────────────────┘ a snapshot, or what was missing                   │
//!     └──────────────────────────────────────────── a new link ────────────────────┘
//!  snapshot_only: a document without a cursor, until a new link brings one with a cursor
//! ```

use keepline_protocol::Time;

use crate::bounds::{BARRIER_PAUSE, FAILURES_MAX, HEALTHY_TIME};

/// How well the document follows the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It does.
    Healthy,
    /// There is none yet, or something was refused and a new snapshot was asked for.
    Recovering,
    /// Too much was refused; the next link starts anew.
    Exhausted,
    /// The daemon gives no cursor, so that nothing can be followed.
    SnapshotOnly,
}

impl Phase {
    /// Its name in an export.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Healthy => "healthy",
            Phase::Recovering => "recovering",
            Phase::Exhausted => "exhausted",
            Phase::SnapshotOnly => "snapshot_only",
        }
    }
}

/// Failures in a row, and the phase that they lead to.
#[derive(Clone, Debug)]
pub struct Repairs {
    phase: Phase,
    failures: u32,
    /// Whether the one stream beyond the budget was started.
    allowance_used: bool,
    healthy_since: Option<Time>,
    /// The earliest moment of the next repair of an unknown kind.
    barrier_after: Time,
}

impl Default for Repairs {
    fn default() -> Self {
        Repairs {
            phase: Phase::Recovering,
            failures: 0,
            allowance_used: false,
            healthy_since: None,
            barrier_after: Time::ZERO,
        }
    }
}

impl Repairs {
    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// A new authenticated link starts with the whole budget.
    pub fn linked(&mut self) {
        *self = Repairs { barrier_after: self.barrier_after, ..Repairs::default() };
    }

    /// The stream has started well, or goes on well.
    pub fn healthy(&mut self, now: Time) {
        self.phase = Phase::Healthy;
        self.healthy_since.get_or_insert(now);
    }

    /// The daemon has ended the stream: no failure.
    pub fn ended(&mut self) {
        self.phase = Phase::Recovering;
        self.healthy_since = None;
    }

    /// The document has no cursor.
    pub fn snapshot_only(&mut self) {
        self.phase = Phase::SnapshotOnly;
    }

    /// Something was refused. Whether a snapshot may be asked for now.
    pub fn failed(&mut self, now: Time) -> bool {
        if let Some(since) = self.healthy_since.take()
            && now.since(since) >= HEALTHY_TIME
        {
            (self.failures, self.allowance_used) = (0, false);
        }
        self.failures += 1;
        let last = self.failures >= FAILURES_MAX;
        if last && self.allowance_used {
            self.phase = Phase::Exhausted;
            return false;
        }
        self.allowance_used = last;
        self.phase = Phase::Recovering;
        true
    }

    /// A kind of a later version came. When a snapshot, which has it, may be asked for; the budget is untouched.
    pub fn barrier(&mut self, now: Time) -> Time {
        self.phase = Phase::Recovering;
        let at = self.barrier_after.max(now);
        self.barrier_after = at + BARRIER_PAUSE;
        at
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn five_failures_and_the_allowance_are_all() {
        let (mut repairs, mut now) = (Repairs::default(), Time::ZERO);
        for _ in 0..FAILURES_MAX {
            repairs.healthy(now);
            now = now + (HEALTHY_TIME - MILLISECOND);
            assert!(repairs.failed(now));
            assert_eq!(repairs.phase(), Phase::Recovering);
        }
        // The last stream may be healthy, but the budget is not given back by that.
        repairs.healthy(now);
        assert_eq!(repairs.phase(), Phase::Healthy);
        assert!(!repairs.failed(now + MILLISECOND));
        assert_eq!(repairs.phase(), Phase::Exhausted);
        repairs.linked();
        assert_eq!(repairs.phase(), Phase::Recovering);
        assert!(repairs.failed(now));
    }

    #[test]
    fn ten_healthy_seconds_give_the_budget_and_the_allowance_back() {
        let (mut repairs, mut now) = (Repairs::default(), Time::ZERO);
        for _ in 0..2 {
            for _ in 0..FAILURES_MAX {
                assert!(repairs.failed(now));
            }
            repairs.healthy(now);
            repairs.healthy(now + MILLISECOND);
            now = now + HEALTHY_TIME;
        }
        assert!(repairs.failed(now));
    }

    #[test]
    fn an_unknown_kind_costs_a_repair_a_second_and_no_budget() {
        let (mut repairs, start) = (Repairs::default(), Time::from_epoch(HEALTHY_TIME));
        repairs.healthy(start);
        for seconds in 0..20 {
            let at = repairs.barrier(start);
            assert_eq!(at, start + BARRIER_PAUSE * seconds);
            assert_eq!(repairs.phase(), Phase::Recovering);
            repairs.healthy(at);
        }
        for _ in 0..FAILURES_MAX {
            assert!(repairs.failed(start));
        }
    }
}
