//! Two ends on a slow wire, in virtual time: what follows from the rate, and what an unread stream may cost.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::Time;
use keepline_protocol::bounds::{
    GATHERED_LINK_MAX, MESSAGE_MAX, PACKET_PLAIN_MIN, PACKET_TIME, STREAM_WINDOW, STREAM_WINDOW_FIRST,
    STREAM_WINDOW_MAX, STREAMS_MAX, WINDOWS_LINK_MAX,
};
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::{Frame, parse_packet};
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::{Event, Link};
use keepline_protocol::stream::{Read, StreamId};

const MILLISECOND: Duration = Duration::from_millis(1);
const CLIENT: usize = 0;
const DAEMON: usize = 1;

/// One direction of a wire: packets that are sent one after the other, at a rate, and arrive after a delay.
struct Wire {
    free_at: Time,
    under_way: VecDeque<(Time, Vec<u8>)>,
}

/// Two ends without encryption, so that what is written can be looked at.
struct Slow {
    now: Time,
    rate: f64,
    delay: Duration,
    links: [Link; 2],
    wires: [Wire; 2],
    /// Packets that each end wrote.
    written: [Vec<(Time, Vec<u8>)>; 2],
    events: [Vec<Event>; 2],
}

impl Slow {
    fn new(rate: u32, delay_ms: u32) -> Self {
        let wire = || Wire { free_at: Time::ZERO, under_way: VecDeque::new() };
        let mut slow = Slow {
            now: Time::from_epoch(Duration::from_secs(60)),
            rate: rate.into(),
            delay: MILLISECOND * delay_ms,
            links: [Link::new(Role::Device), Link::new(Role::Daemon)],
            wires: [wire(), wire()],
            written: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
        };
        slow.join();
        slow
    }

    fn join(&mut self) {
        let cursors = [self.links[0].cursors(), self.links[1].cursors()];
        for end in [CLIENT, DAEMON] {
            let peer = cursors[1 - end];
            self.links[end].establish(self.now, Cipher::null(), 1, peer).unwrap();
            self.wires[end].under_way.clear();
            self.wires[end].free_at = self.now;
        }
    }

    /// Whether the kernel below this end takes more.
    fn writable(&self, end: usize) -> bool {
        let unsent = self.wires[end].free_at.since(self.now).as_secs_f64() * self.rate;
        unsent < self.links[end].unsent_limit() as f64 / 2.0
    }

    fn write(&mut self, end: usize) -> bool {
        let Some(packet) = self.links[end].poll_packet(self.now) else {
            return false;
        };
        let time = Duration::from_secs_f64(packet.len() as f64 / self.rate);
        let wire = &mut self.wires[end];
        wire.free_at = wire.free_at.max(self.now) + time;
        let arrival = wire.free_at + self.delay;
        wire.under_way.push_back((arrival, packet.clone()));
        self.written[end].push((self.now, packet));
        true
    }

    /// Lets time pass, a millisecond at a time, and calls the application in between.
    fn run(&mut self, time: Duration, mut application: impl FnMut(&mut Self)) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + MILLISECOND;
            for end in [CLIENT, DAEMON] {
                let wire = &mut self.wires[1 - end].under_way;
                while wire.front().is_some_and(|(at, _)| *at <= self.now) {
                    let (_, packet) = wire.pop_front().unwrap();
                    self.links[end].handle_packet(self.now, &packet).unwrap();
                }
                self.links[end].handle_timeout(self.now);
            }
            application(self);
            for end in [CLIENT, DAEMON] {
                while self.writable(end) && self.write(end) {
                    application(self);
                }
                while let Some(event) = self.links[end].poll_event() {
                    assert_ne!(event, Event::CarrierDead);
                    self.events[end].push(event);
                }
            }
        }
    }

    /// Writes as much as a stream takes.
    fn fill(&mut self, end: usize, stream: StreamId) -> usize {
        let room = self.links[end].capacity(stream).unwrap();
        let bytes = Bytes::from(vec![7; room]);
        self.links[end].write(stream, bytes).unwrap();
        room
    }

    /// Reads all that there is.
    fn empty(&mut self, end: usize, stream: StreamId) -> usize {
        let mut bytes = 0;
        while let Read::Data(piece) = self.links[end].read(stream) {
            bytes += piece.len();
        }
        bytes
    }

    /// A stream that the client opened and the daemon knows of.
    fn open(&mut self, lane: Lane) -> StreamId {
        let stream = self.links[CLIENT].open(lane);
        self.links[CLIENT].write(stream, "x".into()).unwrap();
        let known = Event::Opened(stream);
        while !self.events[DAEMON].contains(&known) {
            self.run(MILLISECOND, |_| {});
        }
        self.empty(DAEMON, stream);
        stream
    }
}

fn frames(packet: &[u8]) -> Vec<Frame> {
    let packet = Bytes::copy_from_slice(packet);
    parse_packet(1, packet).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_packet_holds_only_so_much_time_of_the_measured_rate() {
    for (rate, delay) in [(20_000, 50), (64_000, 25), (1_250_000, 25), (50_000_000, 5)] {
        let mut slow = Slow::new(rate, delay);
        let stream = slow.open(Lane::Bulk);
        let began = slow.now;
        slow.run(Duration::from_secs(4), |slow| {
            slow.fill(DAEMON, stream);
            slow.empty(CLIENT, stream);
        });
        let measured = slow.links[DAEMON].rate().unwrap();
        assert!(measured.abs_diff(rate.into()) < u64::from(rate) / 8, "{measured} instead of {rate}");
        let most = (f64::from(rate) * 1.125 * PACKET_TIME.as_secs_f64()) as usize;
        let most = most.max(PACKET_PLAIN_MIN);
        let late = |(at, _): &&(Time, Vec<u8>)| at.since(began) > Duration::from_secs(2);
        let lengths = slow.written[DAEMON].iter().filter(late).map(|(_, packet)| packet.len());
        let longest = lengths.max().unwrap();
        assert!(longest <= most, "{longest} bytes at {rate} a second");
        assert!(longest > most.min(60 << 10) / 2, "{longest} bytes at {rate} a second");
    }
}

#[test]
fn a_key_goes_in_the_next_packet_before_a_transfer_that_waits() {
    let mut slow = Slow::new(64_000, 25);
    let (bulk, key) = (slow.open(Lane::Bulk), slow.open(Lane::Interactive));
    let flood = slow.open(Lane::Interactive);
    for round in 0..20 {
        slow.run(MILLISECOND * (500 + round), |slow| {
            slow.fill(DAEMON, bulk);
            slow.fill(DAEMON, flood);
            slow.empty(CLIENT, bulk);
            slow.empty(CLIENT, flood);
        });
        slow.fill(DAEMON, flood);
        slow.links[DAEMON].write(key, "k".into()).unwrap();
        // A lower lane that was passed over has its packet first, and no more than that one.
        let next: Vec<_> = (0..2).flat_map(|_| frames(&slow.links[DAEMON].poll_packet(slow.now).unwrap())).collect();
        let data = |frame: &Frame| match frame {
            Frame::Data { stream, .. } => Some(*stream),
            _ => None,
        };
        let order: Vec<_> = next.iter().filter_map(data).collect();
        let place = order.iter().position(|stream| *stream == key);
        let place = place.unwrap_or_else(|| panic!("no key in {order:?}"));
        assert!(order[..place].iter().all(|stream| *stream == bulk), "{order:?}");
        // Those two packets were taken off the wire.
        slow.links.iter_mut().for_each(Link::carrier_lost);
        slow.join();
    }
}

#[test]
fn a_replayed_frame_is_alone_in_its_packet_and_whole() {
    let mut slow = Slow::new(50_000_000, 20);
    let bulk = slow.open(Lane::Bulk);
    let control = slow.open(Lane::Control);
    slow.run(Duration::from_secs(2), |slow| {
        slow.fill(DAEMON, bulk);
        slow.fill(DAEMON, control);
        slow.empty(CLIENT, bulk);
        slow.empty(CLIENT, control);
    });
    // What is under way is lost; what comes next is known to be new by its sequence.
    slow.links.iter_mut().for_each(Link::carrier_lost);
    slow.rate = 64_000.0;
    slow.join();
    let mut sent = BTreeMap::new();
    for (_, packet) in &slow.written[DAEMON] {
        for frame in frames(packet) {
            if let Frame::Data { stream, sequence, payload, .. } = frame {
                sent.insert((stream.lane, sequence), payload);
            }
        }
    }
    slow.written[DAEMON].clear();
    slow.fill(DAEMON, bulk);
    slow.run(Duration::from_secs(60), |slow| {
        slow.empty(CLIENT, bulk);
        slow.empty(CLIENT, control);
    });
    let (mut replayed, mut longest) = (0, 0);
    for (_, packet) in &slow.written[DAEMON] {
        let frames = frames(packet);
        for frame in &frames {
            let Frame::Data { stream, sequence, payload, .. } = frame else {
                continue;
            };
            if let Some(first) = sent.get(&(stream.lane, *sequence)) {
                assert_eq!(payload, first);
                assert_eq!(frames.len(), 1, "{frames:?}");
                replayed += 1;
                longest = longest.max(payload.len());
            } else {
                assert!(packet.len() <= 4 << 10);
            }
        }
    }
    assert!(replayed > 10 && longest > 8 << 10, "{replayed} frames, the longest of {longest} bytes");
}

#[test]
fn a_window_grows_until_it_fills_the_path_and_no_further() {
    // 1.25 MB are under way on this path, more than a bulk stream's window at first.
    let rate = 12_500_000;
    let mut slow = Slow::new(rate, 50);
    let bulk = slow.open(Lane::Bulk);
    let mut consumed = 0;
    let mut late = 0;
    slow.run(Duration::from_secs(3), |slow| {
        slow.fill(DAEMON, bulk);
        consumed += slow.empty(CLIENT, bulk) as u64;
    });
    slow.run(Duration::from_secs(1), |slow| {
        slow.fill(DAEMON, bulk);
        late += slow.empty(CLIENT, bulk) as u64;
    });
    assert!(late > u64::from(rate) * 95 / 100, "{late} bytes in a second");
    // When nobody reads any more, what was granted arrives and nothing else.
    let mut unread = 0;
    slow.run(Duration::from_secs(3), |slow| {
        slow.fill(DAEMON, bulk);
    });
    unread += slow.empty(CLIENT, bulk) as u64;
    let most = STREAM_WINDOW_MAX[Lane::Bulk.index()];
    assert!(unread > STREAM_WINDOW[Lane::Bulk.index()] && unread <= most, "{unread} bytes");
}

#[test]
fn unread_streams_cost_a_link_its_bound_and_others_nothing() {
    let mut slow = Slow::new(100_000_000, 1);
    let unread: Vec<_> = (0..200).map(|_| slow.open(Lane::Interactive)).collect();
    slow.run(Duration::from_secs(2), |slow| {
        for stream in &unread {
            slow.fill(DAEMON, *stream);
        }
    });
    // A stream that is opened now still has its first window, again and again.
    let read = slow.open(Lane::Interactive);
    let mut passed = 0;
    slow.run(Duration::from_secs(1), |slow| {
        slow.fill(DAEMON, read);
        passed += slow.empty(CLIENT, read);
    });
    assert!(passed > 1 << 20, "{passed} bytes passed");
    let first = slow.empty(CLIENT, unread[0]) as u64;
    assert_eq!(first, STREAM_WINDOW[Lane::Interactive.index()]);
    // What was freed is there for others.
    let held: u64 = unread[1..].iter().map(|stream| slow.empty(CLIENT, *stream) as u64).sum();
    let most = WINDOWS_LINK_MAX + 200 * STREAM_WINDOW_FIRST;
    assert!(first + held <= most, "{} bytes were held", first + held);
    assert!(first + held > most * 9 / 10, "{} bytes were held", first + held);
}

#[test]
fn an_end_opens_no_more_streams_than_its_peer_takes() {
    let mut slow = Slow::new(100_000_000, 1);
    let streams: Vec<_> = (0..STREAMS_MAX + 2)
        .map(|_| {
            let stream = slow.links[CLIENT].open(Lane::Control);
            slow.links[CLIENT].write(stream, "x".into()).unwrap();
            stream
        })
        .collect();
    slow.run(Duration::from_secs(1), |_| {});
    let opened = |slow: &Slow, stream: usize| slow.events[DAEMON].contains(&Event::Opened(streams[stream]));
    assert!(opened(&slow, STREAMS_MAX - 1) && !opened(&slow, STREAMS_MAX));
    slow.links[CLIENT].reset(streams[5], 1);
    slow.run(Duration::from_secs(1), |_| {});
    assert!(opened(&slow, STREAMS_MAX) && !opened(&slow, STREAMS_MAX + 1));
}

#[test]
fn large_messages_wait_for_their_turn_to_be_gathered() {
    let mut slow = Slow::new(100_000_000, 1);
    let streams: Vec<_> = (0..6).map(|_| slow.open(Lane::Control)).collect();
    let at_once = GATHERED_LINK_MAX as usize / MESSAGE_MAX;
    for (index, stream) in streams.iter().enumerate() {
        assert_eq!(slow.links[DAEMON].gather(*stream, MESSAGE_MAX), index < at_once);
    }
    // A small one needs no turn.
    let small = slow.open(Lane::Control);
    assert!(slow.links[DAEMON].gather(small, STREAM_WINDOW_FIRST as usize));
    slow.events[DAEMON].clear();
    assert!(slow.links[DAEMON].gather(streams[0], 0));
    slow.links[DAEMON].reset(streams[1], 1);
    slow.run(MILLISECOND, |_| {});
    let readable: Vec<_> = streams[4..].iter().map(|stream| Event::Readable(*stream)).collect();
    assert_eq!(slow.events[DAEMON], readable);
    assert!(slow.links[DAEMON].gather(streams[4], MESSAGE_MAX));
    assert!(slow.links[DAEMON].gather(streams[5], MESSAGE_MAX));
}
