//! When to try again: full jitter, so that many clients of one daemon do not come back at the same moment.

use std::time::Duration;

use crate::bounds::{FORGEABLE_FIRST, FORGEABLE_LONGEST, RETRY_FIRST, RETRY_LONGEST};

/// The waits between attempts. Randomness is an argument.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    forgeable: u32,
}

impl Backoff {
    /// The wait after an attempt that failed: anything up to a bound that doubles.
    pub(super) fn failed(&mut self, random: u64) -> Duration {
        let bound = doubled(RETRY_FIRST, self.failures, RETRY_LONGEST);
        self.failures += 1;
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(random % (micros + 1))
    }

    /// The wait after a refusal in clear, which anybody can forge: it must not drive a client away, nor make it hurry.
    pub(super) fn refused_in_clear(&mut self) -> Duration {
        let wait = doubled(FORGEABLE_FIRST, self.forgeable, FORGEABLE_LONGEST);
        self.forgeable += 1;
        wait
    }

    /// An authenticated handshake: the next wait starts small again.
    pub(super) fn succeeded(&mut self) {
        *self = Backoff::default();
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2u32.saturating_pow(times)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_to_its_limit_and_starts_again() {
        let mut backoff = Backoff::default();
        let bounds: Vec<u128> = (0..8)
            .map(|_| {
                let failures = backoff.failures;
                backoff.failed(0);
                doubled(RETRY_FIRST, failures, RETRY_LONGEST).as_millis()
            })
            .collect();
        assert_eq!(bounds, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.succeeded();
        for random in [0, 1, u64::MAX, 77_777] {
            let mut fresh = backoff;
            assert!(fresh.failed(random) <= RETRY_FIRST);
        }
        assert_eq!(backoff.refused_in_clear().as_secs(), 5);
        assert_eq!(backoff.refused_in_clear().as_secs(), 10);
        for _ in 0..10 {
            backoff.refused_in_clear();
        }
        assert_eq!(backoff.refused_in_clear().as_secs(), 60);
    }
}
