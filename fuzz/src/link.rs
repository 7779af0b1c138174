//! A link whose peer, application and clock do as the input says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::Time;
use keepline_protocol::bounds::{
    AHEAD_MAX, FRAME_PAYLOAD_MAX, PACKET_MAX, REPLAY_LINK_MAX, STREAM_WINDOW_FIRST, STREAMS_MAX,
};
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::{Frame, PacketWriter, parse_packet};
use keepline_protocol::handshake::VERSIONS;
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::{Event, Link};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::{Read, StreamId};

use crate::input::Input;
use crate::packets;
use crate::{Reach, Reached};

const VERSION: u8 = *VERSIONS.end();
/// Of a new stream: payload bytes sent, and the limit.
const NOTHING_SENT: (u64, u64) = (0, STREAM_WINDOW_FIRST);
static FILLER: [u8; FRAME_PAYLOAD_MAX] = [0; FRAME_PAYLOAD_MAX];

/// The link, and what its peer knows of it.
struct Scene {
    link: Link,
    now: Time,
    reach: Reach,
    carriers: u32,
    /// Streams that the application has heard of or opened.
    streams: Vec<StreamId>,
    /// Of each lane, the highest sequence that the link has written.
    written: [u64; 4],
    /// Payload bytes that a stream has sent, and how many it may.
    sent: BTreeMap<StreamId, (u64, u64)>,
    /// Payload bytes that a stream has taken, and how many were read of them.
    taken: BTreeMap<StreamId, (u64, u64)>,
}

/// A link with a null cipher: a sequence of packets, calls of the application and lapses of time. It never panics; what
/// it writes is well formed, in sequence, and within its peer's credit; what it keeps is within its bounds.
pub fn link(input: &[u8]) -> Reach {
    let mut input = Input(input);
    let role = match input.byte() % 2 {
        0 => Role::Daemon,
        _ => Role::Device,
    };
    let mut scene = Scene {
        link: Link::new(role),
        now: Time::ZERO,
        reach: Reach::new(),
        carriers: 0,
        streams: Vec::new(),
        written: [0; 4],
        sent: BTreeMap::new(),
        taken: BTreeMap::new(),
    };
    scene.establish([0; 4]);
    while !input.is_empty() {
        scene.act(&mut input);
        scene.settle();
    }
    scene.reach
}

fn lane(input: &mut Input) -> Lane {
    Lane::from_bits(input.byte())
}

impl Scene {
    fn establish(&mut self, cursors: [u64; 4]) {
        // A daemon sends some of what is missing before it knows that the client is no recording.
        let ahead = if self.link.can_resume(cursors) { self.link.missing(cursors, AHEAD_MAX) } else { Vec::new() };
        let established = self.link.establish(self.now, Cipher::null(), VERSION, cursors);
        self.carriers += u32::from(established.is_ok());
        if established.is_ok() {
            self.link.sent_ahead(&ahead);
        }
        if self.carriers > 1 {
            self.reach.insert(Reached::Resumed);
        }
    }

    /// One thing that the input says.
    fn act(&mut self, input: &mut Input) {
        match input.byte() % 16 {
            0 => {
                let length = input.byte().into();
                let packet = [&[VERSION], input.bytes(length)].concat();
                self.receive(&packet);
            }
            1 | 2 => {
                let mut packet = PacketWriter::new(VERSION);
                for _ in 0..=input.byte() % 4 {
                    let frame = self.frame(input);
                    if packet.room() > FRAME_PAYLOAD_MAX + 64 || packet.is_empty() {
                        packet.push(&frame);
                    }
                    if frame == Frame::Rekey {
                        break;
                    }
                }
                self.receive(packet.plain());
            }
            3 => {
                // Up to two hours, in which an end changes its key.
                let shift = input.byte() % 8;
                let lapse = u64::from(input.number()) << shift;
                self.now = self.now + Duration::from_millis(lapse);
                self.link.handle_timeout(self.now);
            }
            4 => {
                for _ in 0..=input.byte() % 8 {
                    self.write();
                }
            }
            5 => {
                let id = self.link.open(lane(input));
                self.streams.push(id);
            }
            6 => {
                let id = self.stream(input);
                let length = usize::from(input.number());
                if let Ok(capacity) = self.link.capacity(id) {
                    let length = length.min(capacity).min(FILLER.len());
                    let bytes = Bytes::from_static(&FILLER[..length]);
                    self.link.write(id, bytes).unwrap();
                }
            }
            7 => {
                let id = self.stream(input);
                let _ = self.link.finish(id);
            }
            8 | 9 => {
                let id = self.stream(input);
                if let Read::Data(bytes) = self.link.read(id) {
                    let (taken, read) = self.taken.get_mut(&id).unwrap();
                    *read += bytes.len() as u64;
                    assert!(read <= taken, "bytes that never came");
                }
            }
            10 => {
                let id = self.stream(input);
                self.link.reset(id, input.number());
            }
            11 => {
                let id = self.stream(input);
                self.link.release(id);
            }
            12 => {
                self.link.carrier_lost();
                // The peer has some of what was written, or says something impossible.
                let cursors = self.written.map(|written| written.wrapping_sub(u64::from(input.byte())));
                self.establish(cursors);
            }
            13 => {
                let id = self.stream(input);
                self.link.gather(id, usize::from(input.number()) << 6);
            }
            14 => self.link.probe_now(self.now),
            _ => {
                let refusal = Refusal::ALL[usize::from(input.byte()) % Refusal::ALL.len()];
                // Rarely, or nothing else would be reached.
                if input.byte() == 0x5a {
                    self.link.close(refusal);
                }
            }
        }
    }

    fn stream(&self, input: &mut Input) -> StreamId {
        let index = usize::from(input.byte());
        let any = StreamId { lane: Lane::Interactive, number: 0 };
        let known = self.streams.len().min(1 << 8);
        // The last ones, or the oldest could hide them.
        let of_them = self.streams.iter().rev().nth(index.checked_rem(known).unwrap_or(0));
        of_them.copied().unwrap_or(any)
    }

    fn foreign(&self, input: &mut Input) -> StreamId {
        match input.byte() {
            255 => StreamId { lane: lane(input), number: input.number().into() },
            251.. => self.stream(input),
            number => StreamId { lane: Lane::from_bits(number), number: (number >> 2).into() },
        }
    }

    /// A frame of the peer's that is mostly good.
    fn frame(&mut self, input: &mut Input) -> Frame {
        let kind = input.byte() % 16;
        let sequence = |scene: &Scene, lane: Lane, input: &mut Input| {
            let next = scene.link.cursors()[lane.index()] + 1;
            match input.byte() {
                255 => input.large(),
                step @ 250.. => next.wrapping_add(u64::from(step)).wrapping_sub(252),
                _ => next,
            }
        };
        match kind {
            0 => Frame::Ack {
                cursors: self.written.map(|written| match input.byte() {
                    255 => input.large(),
                    behind => written.saturating_sub(behind.into()),
                }),
            },
            1 => Frame::Ping { nonce: input.large() },
            2 => Frame::Pong { nonce: input.large() },
            3 => Frame::Verdict(Bytes::copy_from_slice(input.bytes(8))),
            4 => match input.byte() {
                0x5a => Frame::Close(Refusal::from_number(input.number(), false)),
                _ => Frame::Ping { nonce: 0 },
            },
            9 => Frame::Rekey,
            5 | 6 => Frame::Credit {
                stream: self.foreign(input),
                limit: match input.byte() {
                    255 => input.large(),
                    more => STREAM_WINDOW_FIRST + (u64::from(more) << 12),
                },
            },
            7 | 8 => {
                let stream = self.foreign(input);
                Frame::Reset { stream, sequence: sequence(self, stream.lane, input), code: input.number() }
            }
            _ => {
                let stream = self.foreign(input);
                let flags = input.byte();
                let length = usize::from(input.number());
                let length = if flags & 4 == 0 { length % 64 } else { length };
                Frame::Data {
                    stream,
                    sequence: sequence(self, stream.lane, input),
                    open: flags & 1 != 0,
                    fin: flags & 2 != 0,
                    payload: Bytes::from_static(&FILLER[..length.min(FILLER.len())]),
                }
            }
        }
    }

    /// The link takes a packet.
    fn receive(&mut self, packet: &[u8]) {
        let packet = &packet[..packet.len().min(PACKET_MAX)];
        let was_up = self.link.is_up();
        let before = self.link.cursors();
        let result = self.link.handle_packet(self.now, packet);
        if let Ok(frames) = parse_packet(VERSION, Bytes::copy_from_slice(packet)) {
            let mut cursors = before;
            for frame in frames.map_while(Result::ok) {
                match &frame {
                    Frame::Data { stream, sequence, open, payload, .. }
                        if was_up && *sequence == cursors[stream.lane.index()] + 1 =>
                    {
                        cursors[stream.lane.index()] += 1;
                        self.taken.entry(*stream).or_default().0 += payload.len() as u64;
                        // A peer may use a number again when the stream is over, though it should not.
                        if *open {
                            self.sent.insert(*stream, NOTHING_SENT);
                        }
                    }
                    Frame::Reset { stream, sequence, .. } if *sequence == cursors[stream.lane.index()] + 1 => {
                        cursors[stream.lane.index()] += 1;
                    }
                    Frame::Credit { stream, limit } => {
                        let (_, may) = self.sent.entry(*stream).or_insert(NOTHING_SENT);
                        *may = (*may).max(*limit);
                    }
                    _ => {}
                }
                if result.is_ok() && was_up {
                    self.reach.insert(packets::reached(&frame));
                }
            }
        }
        let after = self.link.cursors();
        assert!(before.iter().zip(after).all(|(before, after)| *before <= after));
        if result.is_err() && was_up {
            self.reach.insert(Reached::Violation);
            self.link.carrier_lost();
        }
    }

    /// The link writes a packet.
    fn write(&mut self) {
        let Some(packet) = self.link.poll_packet(self.now) else {
            return;
        };
        assert!(packet.len() <= PACKET_MAX);
        for frame in parse_packet(VERSION, packet.into()).unwrap() {
            let frame = frame.unwrap();
            let (Frame::Data { stream, sequence, .. } | Frame::Reset { stream, sequence, .. }) = &frame else {
                continue;
            };
            let written = &mut self.written[stream.lane.index()];
            assert!(*sequence <= *written + 1, "a gap in what is written");
            if *sequence == *written + 1 {
                *written += 1;
                if let Frame::Data { payload, .. } = &frame {
                    let (sent, may) = self.sent.entry(*stream).or_insert(NOTHING_SENT);
                    *sent += payload.len() as u64;
                    assert!(sent <= may, "more than the peer granted");
                }
            }
        }
    }

    /// What a driver does after each call, and what must hold then.
    fn settle(&mut self) {
        let mut events = 0;
        while let Some(event) = self.link.poll_event() {
            events += 1;
            match event {
                Event::Opened(id) => self.streams.push(id),
                Event::Readable(_) | Event::Writable(_) | Event::Alive => {}
                Event::CarrierDead => self.link.carrier_lost(),
                Event::Closed(refusal) => {
                    self.reach.insert(Reached::Closed(refusal.number()));
                }
            }
        }
        // One call takes at most one packet, a frame has at least four bytes, and none makes more than two events.
        assert!(events <= PACKET_MAX / 2 + 4 * STREAMS_MAX);
        assert!(self.link.replay_bytes() <= REPLAY_LINK_MAX + 4 * PACKET_MAX);
        if self.link.rekeys() > 0 {
            self.reach.insert(Reached::Rekeyed);
        }
        if let Some(at) = self.link.poll_timeout() {
            assert!(self.link.is_up());
            assert!(at.since(self.now) <= Duration::from_secs(60), "a deadline out of reach");
        }
    }
}
