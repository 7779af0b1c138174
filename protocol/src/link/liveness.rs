//! Whether the peer is still there, and how far away it is.
//!
//! ```text
//!           heard                                                       dead
//!  silence ──┼────── PROBE_AFTER ──────┼── patience: four round trips ──┼
//!                                  probe                    within DEAD_AFTER
//!
//!  asked for ─┼── patience: four round trips, from PROBED_DEAD_AFTER on ──┼ dead
//!           probe
//! ```
//!
//! Any authentic packet shows that the peer lives, so a link on which anything flows is never dead. The probes go on
//! while it does, because their answers measure the round trip: one that waits in a full path behind what was written
//! before says, already while it waits, that the path is long. The shortest answers of late are those that waited nowhere.

use std::time::Duration;

use crate::Time;
use crate::bounds::{
    ASLEEP_AFTER, AWAITED_LOOK, DEAD_AFTER, PROBE_AFTER, PROBE_BUSY, PROBED_DEAD_AFTER, ROUND_TRIP_WINDOW,
};

/// Probes and their deadline.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Time,
    /// The probe that was written last.
    asked: Option<Time>,
    /// The first probe that is not answered.
    waiting: Option<Time>,
    /// When the next probe into silence is due, once none waits.
    probe_at: Time,
    /// Since when somebody wants to know: an answer to a later probe is due soon.
    wanted: Option<Time>,
    /// When this was last looked at.
    seen: Time,
    round_trip: Option<Duration>,
    /// How long the first probe that is not answered had waited when the peer was last heard: the round trip is at least
    /// that.
    waited: Duration,
    /// The shortest round trips of the present half of the window, which began at this moment, and of the one before.
    shortest: [Option<Duration>; 2],
    since: Time,
}

impl Liveness {
    /// On a new carrier, whose round trip is measured at once.
    pub(super) fn new(now: Time) -> Self {
        Liveness {
            heard: now,
            asked: None,
            waiting: None,
            probe_at: now,
            wanted: None,
            seen: now,
            round_trip: None,
            waited: Duration::ZERO,
            shortest: [None; 2],
            since: now,
        }
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.seen = now;
        self.waited = self.waiting.map_or(Duration::ZERO, |at| now.since(at));
    }

    /// Takes an answer, whose nonce is the moment of the probe in microseconds; earlier probes are answered with it. True
    /// when somebody wanted it, or it is the first one.
    pub(super) fn answered(&mut self, now: Time, nonce: u64) -> bool {
        let Some(asked) = self.asked.filter(|asked| nonce <= micros(*asked)) else {
            // No moment of ours: it says nothing.
            return false;
        };
        let at = Time::from_epoch(Duration::from_micros(nonce));
        let first = self.round_trip.is_none();
        self.sample(now, now.since(at));
        if self.waiting.is_some() {
            // The probe after it was written so much later at the least.
            self.waiting = (nonce < micros(asked)).then(|| asked.min(at + PROBE_BUSY));
        }
        self.waited = Duration::ZERO;
        self.probe_at = now + PROBE_AFTER;
        let wanted = self.wanted.is_some_and(|since| micros(since) <= nonce);
        if wanted {
            self.wanted = None;
        }
        wanted || first
    }

    fn sample(&mut self, now: Time, sample: Duration) {
        let smoothed = |known: Duration| (known * 7 + sample) / 8;
        self.round_trip = Some(self.round_trip.map_or(sample, smoothed));
        if now.since(self.since) > ROUND_TRIP_WINDOW / 2 {
            self.shortest = [None, self.shortest[0]];
            self.since = now;
        }
        self.shortest[0] = Some(self.shortest[0].map_or(sample, |known| known.min(sample)));
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The shortest round trip of late: that of the path without what waits in it.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.shortest.into_iter().flatten().min()
    }

    /// Wants to know now whether the peer is there.
    pub(super) fn probe_now(&mut self, now: Time) {
        self.probe_anew(now);
        self.wanted = Some(now);
    }

    fn probe_anew(&mut self, now: Time) {
        self.waiting = None;
        self.waited = Duration::ZERO;
        self.probe_at = now;
    }

    /// Gives the nonce of the probe that is due now.
    pub(super) fn probe(&mut self, now: Time) -> Option<u64> {
        if self.waiting.is_some() || now < self.probe_at {
            return None;
        }
        Some(self.ask(now))
    }

    /// Gives the nonce of a probe that goes along with data: a busy link measures its round trip too.
    pub(super) fn probe_along(&mut self, now: Time) -> Option<u64> {
        match self.asked {
            Some(asked) if now.since(asked) < PROBE_BUSY => None,
            _ => Some(self.ask(now)),
        }
    }

    fn ask(&mut self, now: Time) -> u64 {
        self.asked = Some(now);
        self.waiting.get_or_insert(now);
        micros(now)
    }

    /// When silence will have been death.
    fn deadline(&self) -> Time {
        let four_round_trips = self.round_trip.unwrap_or_default().max(self.waited) * 4;
        // A path of which nothing is known may be a long one.
        match self.wanted.filter(|_| self.round_trip.is_some()) {
            Some(since) => {
                let patience = four_round_trips.clamp(PROBED_DEAD_AFTER, DEAD_AFTER.1);
                self.heard.max(since) + patience
            }
            None => {
                let patience = four_round_trips.clamp(DEAD_AFTER.0, DEAD_AFTER.1);
                self.heard + PROBE_AFTER + patience
            }
        }
    }

    /// Whether the peer was silent for too long. A pause of ours is not its silence: it then gets a new probe, and the
    /// time to answer it.
    pub(super) fn dead(&mut self, now: Time) -> bool {
        if now.since(self.next()) > ASLEEP_AFTER {
            self.heard = Time::from_epoch(now.since_epoch().saturating_sub(PROBE_AFTER));
            self.probe_anew(now);
        }
        self.seen = now;
        now >= self.deadline()
    }

    /// When to look again: after the last look, also while a carrier that takes nothing holds a probe up.
    pub(super) fn next(&self) -> Time {
        let look =
            if self.waiting.is_none() && self.probe_at > self.seen { self.probe_at } else { self.seen + AWAITED_LOOK };
        look.min(self.deadline()).max(self.seen)
    }
}

fn micros(at: Time) -> u64 {
    u64::try_from(at.since_epoch().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    /// A link that was up at `ms`, and whose first probe was answered a round trip later.
    fn measured(ms: u64, round_trip: u64) -> Liveness {
        let mut liveness = Liveness::new(at(ms));
        let nonce = liveness.probe(at(ms)).unwrap();
        liveness.heard(at(ms + round_trip));
        assert!(liveness.answered(at(ms + round_trip), nonce), "the first one");
        liveness
    }

    /// Looks whenever it is due, and gives the moment of death.
    fn death(liveness: &mut Liveness) -> Time {
        loop {
            let now = liveness.next();
            if liveness.dead(now) {
                return now;
            }
            let _ = liveness.probe(now);
            assert!(liveness.next() > now, "a look that changes nothing");
        }
    }

    #[test]
    fn a_dead_path_is_noticed_within_four_seconds_at_ordinary_round_trips() {
        for round_trip in [0, 1, 50, 200, 500] {
            let mut liveness = measured(1_000, round_trip);
            let silent_for = death(&mut liveness).since(at(1_000 + round_trip));
            assert!(silent_for >= Duration::from_secs(2), "{silent_for:?}");
            assert!(silent_for <= Duration::from_secs(4), "{silent_for:?}");
        }
        // Nothing was ever heard.
        assert!(death(&mut Liveness::new(at(0))) <= at(4_000));
    }

    #[test]
    fn a_long_round_trip_has_its_time_and_an_end() {
        let mut liveness = measured(1_000, 2_000);
        assert_eq!(death(&mut liveness), at(3_000 + 1_500 + 8_000));
        let mut liveness = measured(1_000, 10_000);
        assert_eq!(death(&mut liveness), at(11_000 + 1_500 + 15_000));
    }

    #[test]
    fn a_probe_that_waits_while_the_peer_is_heard_says_that_the_path_is_long() {
        let mut liveness = measured(1_000, 20);
        // A full queue: data arrives once in a while, the answer to the probe of 2,520 behind it does not.
        for heard in [2_520, 4_520, 5_520] {
            while liveness.next() < at(heard) {
                let now = liveness.next();
                assert!(!liveness.dead(now));
            }
            liveness.heard(at(heard));
            let _ = liveness.probe(at(heard));
        }
        assert_eq!(death(&mut liveness), at(5_520 + 1_500 + 4 * 3_000));
    }

    #[test]
    fn probes_that_go_along_measure_a_busy_path() {
        let mut liveness = measured(1_000, 20);
        let first = liveness.probe_along(at(1_600)).unwrap();
        assert_eq!(liveness.probe_along(at(2_000)), None);
        let second = liveness.probe_along(at(2_100)).unwrap();
        liveness.heard(at(2_600));
        assert_eq!(liveness.waited, Duration::from_secs(1));
        // An answer to the second is one to both.
        assert!(!liveness.answered(at(2_600), second));
        assert_eq!(liveness.waiting, None);
        assert!(!liveness.answered(at(2_600), first), "late, and no harm");
        assert_eq!(liveness.shortest(), Some(Duration::from_millis(20)));
        assert!(!liveness.answered(at(2_600), second + 1), "no probe of ours");
        assert_eq!(liveness.shortest(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn what_arrives_counts_as_life_whether_or_not_probes_are_answered() {
        let mut liveness = measured(1_000, 20);
        for now in (1_020..60_000).step_by(1_000) {
            assert!(!liveness.dead(at(now)));
            let _ = liveness.probe(at(now));
            liveness.heard(at(now));
        }
    }

    #[test]
    fn who_asks_is_answered_soon_one_way_or_the_other() {
        let mut liveness = measured(1_000, 40);
        liveness.probe_now(at(1_500));
        let nonce = liveness.probe(at(1_500)).unwrap();
        liveness.heard(at(1_540));
        assert!(liveness.answered(at(1_540), nonce));
        assert!(liveness.next() >= at(2_540), "from here on as it was before");

        liveness.probe_now(at(2_000));
        // An old answer and old bytes are no answer to this one, but they are life.
        assert!(!liveness.answered(at(2_010), nonce));
        liveness.heard(at(2_010));
        assert_eq!(death(&mut liveness), at(2_010) + PROBED_DEAD_AFTER);

        // Over a path of which nothing is known yet it takes as long as ever.
        let mut liveness = Liveness::new(at(1_000));
        liveness.probe_now(at(1_000));
        assert_eq!(death(&mut liveness), at(4_500));
        // A carrier that takes no probe is no excuse.
        let mut liveness = measured(1_000, 40);
        liveness.probe_now(at(1_500));
        assert!(!liveness.dead(at(1_900)));
        assert!(liveness.dead(at(2_000)));
    }

    #[test]
    fn a_pause_of_ours_is_not_the_peers_silence() {
        let mut liveness = measured(0, 40);
        assert!(liveness.probe(at(1_540)).is_some());
        assert!(!liveness.dead(at(60_000)));
        assert_eq!(liveness.probe(at(60_000)), Some(60_000_000));
        liveness.heard(at(60_040));
        assert!(!liveness.answered(at(60_040), 60_000_000));
        assert_eq!(liveness.round_trip(), Some(Duration::from_millis(40)));
        assert!(!liveness.dead(at(61_500)));
        // Also in the middle of waiting for an answer.
        assert!(liveness.probe(at(61_600)).is_some());
        assert!(!liveness.dead(at(62_000)));
        assert!(!liveness.dead(at(64_000)));
        assert!(death(&mut liveness) >= at(66_000));
    }
}
