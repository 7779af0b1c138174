//! Packets and frames.

use bytes::Bytes;
use keepline_protocol::bounds::FRAME_PAYLOAD_MAX;
use keepline_protocol::cipher::PLAIN_MAX;
use keepline_protocol::frame::{FRAME_HEAD, Frame, PacketWriter, kind, parse_packet};
use keepline_protocol::handshake::VERSIONS;

use crate::{Reach, Reached};

const VERSION: u8 = *VERSIONS.end();

/// The number of a frame's kind.
fn kind_of(frame: &Frame) -> u8 {
    match frame {
        Frame::Data { .. } => kind::DATA,
        Frame::Reset { .. } => kind::RESET,
        Frame::Credit { .. } => kind::CREDIT,
        Frame::Ack { .. } => kind::ACK,
        Frame::Ping { .. } => kind::PING,
        Frame::Pong { .. } => kind::PONG,
        Frame::Verdict(_) => kind::VERDICT,
        Frame::Close(_) => kind::CLOSE,
        Frame::Rekey => kind::REKEY,
    }
}

pub(crate) fn reached(frame: &Frame) -> Reached {
    match frame {
        Frame::Close(refusal) => Reached::Closed(refusal.number()),
        other => Reached::Frame(kind_of(other)),
    }
}

/// What is written of a frame is read as the same frame.
fn comes_back(frame: &Frame) {
    let mut packet = PacketWriter::new(VERSION);
    packet.push(frame);
    let plain = Bytes::copy_from_slice(packet.plain());
    let again: Vec<_> = parse_packet(VERSION, plain).unwrap().collect();
    assert_eq!(again, [Ok(frame.clone())]);
}

/// A packet's plaintext: nothing follows an error, no frame has more than the packet had or than a frame may have, and
/// each comes back.
pub fn packet(input: &[u8]) -> Reach {
    let mut reach = Reach::new();
    let plain = Bytes::copy_from_slice(&input[..input.len().min(PLAIN_MAX)]);
    let Ok(mut frames) = parse_packet(VERSION, plain) else {
        return reach;
    };
    let mut bytes = 1;
    while let Some(frame) = frames.next() {
        let Ok(frame) = frame else {
            assert!(frames.next().is_none());
            return reach;
        };
        comes_back(&frame);
        bytes += FRAME_HEAD;
        if let Frame::Data { payload, .. } | Frame::Verdict(payload) = &frame {
            bytes += payload.len();
        }
        reach.extend([Reached::Frame(kind_of(&frame)), reached(&frame)]);
    }
    assert!(bytes <= input.len() || reach.is_empty());
    reach
}

/// Kind, flags and body of one frame: a known kind is written as it was read, byte for byte, and an unknown one is
/// skipped with what follows it intact.
pub fn frame(input: &[u8]) -> Reach {
    let mut reach = Reach::new();
    let Some((&[found, flags], body)) = input.split_first_chunk::<2>() else {
        return reach;
    };
    let body = &body[..body.len().min(PLAIN_MAX - 64)];
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    let head = [VERSION, found, flags, length[0], length[1]];
    let alone = [&head, body].concat();
    let read = |plain: &[u8]| {
        let frames = parse_packet(VERSION, Bytes::copy_from_slice(plain)).unwrap();
        frames.collect::<Vec<_>>()
    };
    let ping = Frame::Ping { nonce: 7 };
    let mut follower = PacketWriter::new(VERSION);
    follower.push(&ping);
    let followed = read(&[&alone, &follower.plain()[1..]].concat());
    match &read(&alone)[..] {
        [] => {
            assert!(!kind::ALL.contains(&found));
            assert_eq!(followed, [Ok(ping)]);
            reach.insert(Reached::SkippedFrame);
        }
        [Ok(frame)] => {
            assert_eq!(kind_of(frame), found);
            match frame {
                Frame::Rekey => assert!(matches!(followed[..], [Err(_)])),
                _ => assert_eq!(followed, [Ok(frame.clone()), Ok(ping)]),
            }
            if let Frame::Data { payload, .. } = frame {
                assert!(payload.len() <= FRAME_PAYLOAD_MAX);
            }
            let mut written = PacketWriter::new(VERSION);
            written.push(frame);
            // The retry bit of a refusal is ours to say, once we know its number.
            assert!(alone == written.plain() || found == kind::CLOSE);
            reach.extend([Reached::Frame(found), reached(frame)]);
        }
        [Err(error)] => {
            assert!(kind::ALL.contains(&found));
            assert_eq!(followed, [Err(*error)]);
        }
        other => panic!("one frame became {other:?}"),
    }
    reach
}
