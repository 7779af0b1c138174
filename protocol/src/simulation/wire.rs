//! One direction of a carrier: bytes under way, framed as on a Unix socket.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::Time;

/// What comes out of a wire.
pub(super) enum Arrival {
    /// A whole packet.
    Packet(BytesMut),
    /// The other end is gone; what was half a packet is dropped.
    End,
}

#[derive(Default)]
pub(super) struct Wire {
    under_way: VecDeque<(Time, Vec<u8>)>,
    bytes: usize,
    /// What arrived and is no whole packet yet.
    arrived: BytesMut,
    pub(super) delay: Duration,
    /// When the last bytes arrive: they do not overtake each other.
    last: Time,
    end: Option<Time>,
    /// It swallows everything and says nothing.
    silent: bool,
}

impl Wire {
    pub(super) fn new(delay: Duration) -> Self {
        Wire { delay, ..Wire::default() }
    }

    /// Bytes under way.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing will arrive, and nobody knows it yet.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(super) fn write(&mut self, now: Time, packet: &[u8]) {
        if self.silent || self.end.is_some() {
            return;
        }
        let length = u16::try_from(packet.len()).expect("a packet is at most 65,535 bytes");
        let mut bytes = Vec::with_capacity(packet.len() + 2);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(packet);
        self.last = self.last.max(now + self.delay);
        self.bytes += bytes.len();
        self.under_way.push_back((self.last, bytes));
    }

    /// The writer goes away; what is under way still arrives.
    pub(super) fn close(&mut self, now: Time) {
        self.last = self.last.max(now + self.delay);
        self.end.get_or_insert(self.last);
    }

    /// Breaks behind `kept` of the bytes under way, counted modulo what there is.
    pub(super) fn cut(&mut self, now: Time, kept: usize) {
        self.keep(kept % (self.bytes + 1));
        self.last = self.under_way.back().map_or(now, |(at, _)| *at);
        self.end = Some(self.last);
    }

    /// Nothing arrives before this moment.
    pub(super) fn stall(&mut self, until: Time) {
        self.last = self.last.max(until);
        for (at, _) in &mut self.under_way {
            *at = until.max(*at);
        }
        if let Some(end) = &mut self.end {
            *end = until.max(*end);
        }
    }

    /// Loses all that is under way and all that will be.
    pub(super) fn silence(&mut self) {
        self.keep(0);
        self.silent = true;
        self.end = None;
    }

    fn keep(&mut self, kept: usize) {
        while self.bytes > kept {
            let excess = self.bytes - kept;
            let (_, last) = self.under_way.back_mut().expect("bytes are in chunks");
            let cut = excess.min(last.len());
            last.truncate(last.len() - cut);
            self.bytes -= cut;
            if last.is_empty() {
                self.under_way.pop_back();
            }
        }
    }

    /// When something arrives next.
    pub(super) fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(at, _)| *at).or(self.end)
    }

    pub(super) fn receive(&mut self, now: Time) -> Option<Arrival> {
        loop {
            if let Some(&[high, low]) = self.arrived.first_chunk() {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if self.arrived.len() >= 2 + length {
                    self.arrived.advance(2);
                    return Some(Arrival::Packet(self.arrived.split_to(length)));
                }
            }
            match self.under_way.front() {
                Some((at, _)) if *at > now => return None,
                Some(_) => {
                    let (_, bytes) = self.under_way.pop_front().expect("it was looked at");
                    self.bytes -= bytes.len();
                    self.arrived.extend_from_slice(&bytes);
                }
                None => {
                    self.end.take_if(|at| *at <= now)?;
                    // Nothing is taken any more.
                    self.silent = true;
                    return Some(Arrival::End);
                }
            }
        }
    }
}
