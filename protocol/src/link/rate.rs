//! How fast the carrier delivers, and what follows from it.
//!
//! The measure is that of the Internet draft "Delivery Rate Estimation" (draft-cheng-iccrg-delivery-rate-estimation):
//! each packet notes how much was acknowledged when it was written; when it is itself acknowledged, the bytes
//! acknowledged in between, over the time in between, are a sample. The rate is the greatest sample of the last round
//! trips. A sample of a time in which there was nothing to send says only that the path is at least so fast, so it may
//! raise the rate and never lower it.
//!
//! What a carrier may take at a time is stated in milliseconds of that rate: what is written cannot be overtaken any more.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;
use crate::bounds::{
    PACKET_PLAIN_MIN, PACKET_TIME, RATE_FIRST, RATE_MARKS, RATE_ROUNDS, RATE_WINDOW, STREAM_QUEUE, UNSENT_MIN,
    UNSENT_TIME,
};
use crate::cipher::PLAIN_MAX;

/// A packet that was written and not yet acknowledged.
#[derive(Debug)]
struct Mark {
    /// Per lane, the last sequence written up to here.
    last: [u64; 4],
    /// Bytes written up to here.
    sent: u64,
    at: Time,
    /// When the newest packet was written of which the acknowledgement was there.
    first_sent_at: Time,
    /// Bytes acknowledged then, and when they were.
    delivered: u64,
    delivered_at: Time,
    /// There had been nothing to send.
    dry: bool,
}

/// One carrier's rate in one direction.
#[derive(Debug)]
pub(super) struct Rate {
    marks: VecDeque<Mark>,
    sent: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// There was nothing to send when so many bytes were written.
    dry: Option<u64>,
    /// The round trip ends when so many bytes are acknowledged.
    round_ends: u64,
    /// Round trips of the present half of the window, which began at this moment.
    rounds: u32,
    since: Time,
    /// The greatest samples, in bytes a second, of the present half of the window and of the one before.
    best: [f64; 2],
    /// The present half has a sample of a time in which there was always something to send.
    full: bool,
    /// There ever was one.
    measured: bool,
}

impl Rate {
    pub(super) fn new(now: Time) -> Self {
        Rate {
            marks: VecDeque::new(),
            sent: 0,
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            // Nothing is under way yet, so the first round trip cannot show what the path takes.
            dry: Some(0),
            round_ends: 0,
            rounds: 0,
            since: now,
            best: [0.0; 2],
            full: false,
            measured: false,
        }
    }

    /// A packet of `bytes` is being written; `last` are the last sequences written with it.
    pub(super) fn sent(&mut self, now: Time, bytes: usize, last: [u64; 4]) {
        if self.delivered == self.sent {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.sent += bytes as u64;
        if self.marks.len() < RATE_MARKS {
            self.marks.push_back(Mark {
                last,
                sent: self.sent,
                at: now,
                first_sent_at: self.first_sent_at,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                dry: self.dry.is_some(),
            });
        }
    }

    /// The carrier would have taken more than there was.
    pub(super) fn ran_dry(&mut self) {
        self.dry = Some(self.sent);
    }

    /// The peer has received up to these sequences.
    pub(super) fn acknowledged(&mut self, now: Time, cursors: &[u64; 4], shortest: Option<Duration>) {
        let covered = |mark: &Mark| mark.last.iter().zip(cursors).all(|(last, at)| last <= at);
        let mut newest = None;
        while self.marks.front().is_some_and(covered) {
            newest = self.marks.pop_front();
        }
        let Some(mark) = newest else {
            return;
        };
        // With nothing left under way, packets that left no mark were received too.
        self.delivered = if self.marks.is_empty() { self.sent } else { mark.sent };
        self.delivered_at = now;
        self.first_sent_at = mark.at;
        if self.dry.is_some_and(|sent| self.delivered > sent) {
            self.dry = None;
        }
        if mark.delivered >= self.round_ends {
            self.round_ends = self.sent;
            self.rounds += 1;
        }
        let writing = mark.at.since(mark.first_sent_at);
        let time = now.since(mark.delivered_at).max(writing);
        // Acknowledgements that came in a heap say nothing of the path.
        if time < shortest.unwrap_or(Duration::from_millis(1)) || time.is_zero() {
            return;
        }
        self.sample(now, (mark.sent - mark.delivered) as f64 / time.as_secs_f64(), mark.dry);
    }

    fn sample(&mut self, now: Time, rate: f64, dry: bool) {
        if dry {
            if rate > self.known() {
                self.best[0] = rate;
            }
            return;
        }
        if self.full && self.rounds >= RATE_ROUNDS && now.since(self.since) >= RATE_WINDOW {
            self.best = [0.0, self.best[0]];
            (self.rounds, self.since, self.full) = (0, now, false);
        }
        if !self.measured {
            // What was seen so far were the beginnings.
            self.best = [0.0; 2];
            self.measured = true;
        }
        self.best[0] = self.best[0].max(rate);
        self.full = true;
    }

    fn known(&self) -> f64 {
        let seen = self.best[0].max(self.best[1]);
        if self.measured { seen } else { seen.max(RATE_FIRST as f64) }
    }

    /// Bytes a second, once measured.
    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        let known = self.known();
        (self.measured || known > RATE_FIRST as f64).then_some(known as u64)
    }

    fn within(&self, time: Duration) -> usize {
        (self.known() * time.as_secs_f64()) as usize
    }

    /// Bytes of a packet's plaintext.
    pub(super) fn packet(&self) -> usize {
        self.within(PACKET_TIME).clamp(PACKET_PLAIN_MIN, PLAIN_MAX)
    }

    /// Bytes that the system below may hold unsent.
    pub(super) fn unsent(&self) -> usize {
        self.within(UNSENT_TIME).max(UNSENT_MIN)
    }

    /// Bytes that a stream may queue: two packets, one that is written while the other is made.
    pub(super) fn queue(&self) -> usize {
        (2 * self.packet()).min(STREAM_QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    /// Writes a packet a millisecond and acknowledges each after 50, from `start` for `time` milliseconds.
    fn stream(rate: &mut Rate, start: u64, time: u64, bytes: usize, next: &mut u64) {
        for now in start..start + time {
            rate.sent(at(now), bytes, [*next, 0, 0, 0]);
            *next += 1;
            if let Some(cursor) = next.checked_sub(50) {
                rate.acknowledged(at(now), &[cursor, 0, 0, 0], Some(Duration::from_millis(50)));
            }
        }
    }

    #[test]
    fn a_rate_is_measured_followed_up_and_followed_down() {
        let mut rate = Rate::new(at(0));
        assert_eq!(rate.bytes_per_second(), None);
        let mut next = 1;
        for (start, bytes) in [(0, 100), (3_000, 1_000), (6_000, 64)] {
            stream(&mut rate, start, 3_000, bytes, &mut next);
            let found = rate.bytes_per_second().unwrap() as usize;
            let expected = bytes * 1_000;
            assert!(found.abs_diff(expected) < expected / 20, "{found} instead of {expected}");
        }
        assert_eq!(rate.packet(), PACKET_PLAIN_MIN);
        assert_eq!(rate.unsent(), UNSENT_MIN);
    }

    #[test]
    fn a_quiet_application_does_not_make_a_path_slow() {
        let mut rate = Rate::new(at(0));
        let mut next = 1;
        stream(&mut rate, 0, 2_000, 1_000, &mut next);
        let known = rate.bytes_per_second();
        rate.acknowledged(at(2_050), &[next - 1, 0, 0, 0], None);
        for now in (3_000..60_000).step_by(200) {
            rate.ran_dry();
            rate.sent(at(now), 50, [next, 0, 0, 0]);
            rate.acknowledged(at(now + 50), &[next, 0, 0, 0], None);
            next += 1;
        }
        assert_eq!(rate.bytes_per_second(), known);
    }

    #[test]
    fn acknowledgements_in_a_heap_do_not_make_a_path_fast() {
        let mut rate = Rate::new(at(0));
        let shortest = Some(Duration::from_millis(50));
        for now in 0..4_000 {
            rate.sent(at(now), 100, [now + 1, 0, 0, 0]);
            // Every 300 ms, those of all that was written up to 50 ms ago at once.
            if now % 300 == 299 {
                for cursor in (now - 240..now - 49).step_by(10) {
                    rate.acknowledged(at(now), &[cursor, 0, 0, 0], shortest);
                }
            }
        }
        let found = rate.bytes_per_second().unwrap();
        assert!((80_000..140_000).contains(&found), "{found}");
    }
}
