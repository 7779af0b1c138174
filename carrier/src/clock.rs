use std::time::Duration;

use keepline_protocol::Time;
use tokio::time::Instant;

/// The moments that a link's driver passes to the core: one monotonic clock per link.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock whose epoch is a minute ago, so that the core can look back beyond its start.
    #[must_use]
    pub fn start() -> Self {
        let now = Instant::now();
        Clock { epoch: now.checked_sub(Duration::from_secs(60)).unwrap_or(now) }
    }

    /// The present moment.
    #[must_use]
    pub fn now(self) -> Time {
        Time::from_epoch(self.epoch.elapsed())
    }

    /// The moment as the runtime counts it.
    #[must_use]
    pub fn instant(self, time: Time) -> Instant {
        self.epoch + time.since_epoch()
    }
}
