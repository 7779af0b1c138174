//! Whether the peer is still there, and how far away it is.

use std::time::Duration;

use crate::Time;
use crate::bounds::{DEAD_AFTER, PROBE_AFTER, PROBE_BUSY, ROUND_TRIP_WINDOW};

/// A pause in the driver's calls from which it follows that this process was stopped or asleep: the driver is due at
/// least every [`PROBE_AFTER`].
const ASLEEP: Duration = Duration::from_secs(1);

/// Probes and their deadline. Any authentic packet shows that the peer lives; a probe is sent only into silence.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Time,
    probed: bool,
    /// When this was last looked at.
    seen: Time,
    round_trip: Option<Duration>,
    /// When a probe was last written.
    asked: Option<Time>,
    /// The shortest round trips of the present half of the window, which began at this moment, and of the one before.
    shortest: [Option<Duration>; 2],
    since: Time,
}

impl Liveness {
    pub(super) fn new(now: Time) -> Self {
        Liveness {
            heard: now,
            probed: false,
            seen: now,
            round_trip: None,
            asked: None,
            shortest: [None; 2],
            since: now,
        }
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.seen = now;
        self.probed = false;
    }

    /// Takes an answer: its nonce is the moment of the probe in microseconds.
    pub(super) fn answered(&mut self, now: Time, nonce: u64) {
        let sample = now.since(Time::from_epoch(Duration::from_micros(nonce)));
        // A nonce that is no moment of ours says nothing.
        if sample < Duration::from_secs(60) {
            self.round_trip = Some(
                self.round_trip
                    .map_or(sample, |smoothed| (smoothed * 7 + sample) / 8),
            );
            if now.since(self.since) > ROUND_TRIP_WINDOW / 2 {
                self.shortest = [None, self.shortest[0]];
                self.since = now;
            }
            self.shortest[0] = Some(self.shortest[0].map_or(sample, |known| known.min(sample)));
        }
    }

    /// The shortest round trip of late: that of the path without what waits in it.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.shortest.into_iter().flatten().min()
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Gives the nonce of the probe that is due now.
    pub(super) fn probe(&mut self, now: Time) -> Option<u64> {
        if self.probed || now.since(self.heard) < PROBE_AFTER {
            return None;
        }
        self.probed = true;
        self.ask(now)
    }

    /// Gives the nonce of a probe that goes along with data: a busy link measures its round trip too.
    pub(super) fn probe_along(&mut self, now: Time) -> Option<u64> {
        match self.asked {
            Some(asked) if now.since(asked) < PROBE_BUSY => None,
            _ => self.ask(now),
        }
    }

    fn ask(&mut self, now: Time) -> Option<u64> {
        self.asked = Some(now);
        u64::try_from(now.since_epoch().as_micros()).ok()
    }

    /// Silence after a probe was due that means death.
    fn patience(&self) -> Duration {
        (self.round_trip.unwrap_or_default() * 4).clamp(DEAD_AFTER.0, DEAD_AFTER.1)
    }

    /// Whether the peer was silent for too long. A pause of ours is not its silence: it then gets a new probe.
    pub(super) fn dead(&mut self, now: Time) -> bool {
        if now.since(self.seen) > PROBE_AFTER + ASLEEP {
            self.heard = Time::from_epoch(now.since_epoch().saturating_sub(PROBE_AFTER));
            self.probed = false;
        }
        self.seen = now;
        now.since(self.heard) >= PROBE_AFTER + self.patience()
    }

    /// When to look again.
    pub(super) fn next(&self) -> Time {
        if self.probed {
            self.heard + PROBE_AFTER + self.patience()
        } else {
            self.heard + PROBE_AFTER
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    #[test]
    fn silence_is_probed_and_then_it_is_death() {
        let mut liveness = Liveness::new(at(0));
        assert_eq!(liveness.probe(liveness.next()), Some(1_500_000));
        assert_eq!(liveness.probe(at(1_600)), None);
        assert!(!liveness.dead(at(1_600)));
        assert!(!liveness.dead(at(3_400)));
        assert!(liveness.dead(liveness.next()));
    }

    #[test]
    fn a_pause_of_ours_is_not_the_peers_silence() {
        let mut liveness = Liveness::new(at(0));
        assert_eq!(liveness.probe(at(1_500)), Some(1_500_000));
        assert!(!liveness.dead(at(60_000)));
        assert_eq!(liveness.probe(at(60_000)), Some(60_000_000));
        liveness.answered(at(60_040), 60_000_000);
        liveness.heard(at(60_040));
        assert_eq!(liveness.round_trip(), Some(Duration::from_millis(40)));
        assert!(!liveness.dead(at(61_500)));
    }
}
