//! A carrier: two pipes of bytes with a delay, which may stall, and may end anywhere.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// Bytes that a pipe takes before its writer must wait: stands for a kernel's buffer.
const PIPE: usize = 96 << 10;

/// One direction.
pub(super) struct Pipe {
    delay: Duration,
    /// When each piece arrives, in order.
    under_way: VecDeque<(Time, Vec<u8>)>,
    not_before: Time,
    bytes: usize,
    /// What arrived and is no whole packet yet.
    arrived: Vec<u8>,
    /// Nothing is taken any more; what is under way still arrives.
    closed: bool,
}

impl Pipe {
    pub(super) fn new(delay: Duration) -> Self {
        Pipe {
            delay,
            under_way: VecDeque::new(),
            not_before: Time::ZERO,
            bytes: 0,
            arrived: Vec::new(),
            closed: false,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.closed && self.bytes < PIPE
    }

    /// Takes a packet, framed as on a Unix carrier.
    pub(super) fn write(&mut self, now: Time, packet: &[u8]) {
        let length = u16::try_from(packet.len()).expect("a packet is within its limit");
        self.write_raw(now, &[&length.to_be_bytes()[..], packet].concat());
    }

    pub(super) fn write_raw(&mut self, now: Time, bytes: &[u8]) {
        if !self.closed {
            let at = self.not_before.max(now + self.delay);
            self.not_before = at;
            self.bytes += bytes.len();
            self.under_way.push_back((at, bytes.to_vec()));
        }
    }

    pub(super) fn stall(&mut self, until: Time) {
        self.not_before = self.not_before.max(until);
        for (at, _) in &mut self.under_way {
            *at = (*at).max(until);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Fails: the first `bytes` of what is under way still arrive.
    pub(super) fn cut(&mut self, mut bytes: usize) {
        self.closed = true;
        for (_, piece) in &mut self.under_way {
            piece.truncate(bytes);
            bytes -= piece.len();
        }
    }

    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Whether nothing will arrive any more.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.under_way.is_empty()
    }

    /// The packets that have arrived by now.
    pub(super) fn read(&mut self, now: Time) -> Vec<Vec<u8>> {
        while self.next_arrival().is_some_and(|at| at <= now) {
            let (_, piece) = self.under_way.pop_front().expect("it was looked at");
            self.bytes = self.bytes.saturating_sub(piece.len());
            self.arrived.extend(piece);
        }
        if self.under_way.is_empty() {
            self.bytes = 0;
        }
        let mut packets = Vec::new();
        while let Some((&[high, low], rest)) = self.arrived.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if rest.len() < length {
                break;
            }
            packets.push(rest[..length].to_vec());
            self.arrived.drain(..2 + length);
        }
        packets
    }
}
