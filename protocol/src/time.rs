use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, as the time since an epoch of the caller's choosing.
///
/// The core never asks for the time. A driver passes moments of one monotonic clock; tests pass moments of a virtual
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(Duration);

impl Time {
    /// The caller's epoch.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// The moment `since_epoch` after the epoch.
    #[must_use]
    pub const fn from_epoch(since_epoch: Duration) -> Self {
        Time(since_epoch)
    }

    /// How long after the epoch this moment is.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment, zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, rhs: Duration) -> Time {
        Time(self.0.saturating_add(rhs))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, rhs: Time) -> Duration {
        self.since(rhs)
    }
}
