//! The reference: what the two ends of a link said to each other, and what each may hear.
//!
//! A stream is two directions; a direction is the bytes that were written, in order. What its reader gets is the start of
//! them, and in the end all of them. That is the whole model: no lane, sequence, packet or carrier appears in it.

use std::collections::BTreeMap;

use crate::lane::Lane;
use crate::stream::{Read, StreamId};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Client,
    Daemon,
}

impl End {
    pub(super) fn of(daemon: bool) -> Self {
        if daemon { End::Daemon } else { End::Client }
    }

    pub(super) fn other(self) -> Self {
        End::of(self == End::Client)
    }
}

/// One direction of a stream.
#[derive(Default)]
struct Direction {
    written: Vec<u8>,
    finished: bool,
    read: usize,
    ended: bool,
}

/// A stream.
#[derive(Default)]
struct Conversation {
    /// By the end that writes.
    directions: BTreeMap<End, Direction>,
    /// Given up by an end: what is under way may be lost.
    reset: bool,
    /// The peer of the end that opened it knows of it.
    heard_of: bool,
}

/// All streams of one link.
#[derive(Default)]
pub(super) struct Reference {
    streams: BTreeMap<StreamId, Conversation>,
    /// Every byte written differs from its neighbours, so that one out of place shows.
    clock: u64,
    /// How often a reader has taken a whole window of a stream.
    pub(super) window_wraps: u64,
}

fn owner(id: StreamId) -> End {
    End::of(id.number.is_multiple_of(2))
}

impl Reference {
    pub(super) fn opened(&mut self, id: StreamId) {
        let fresh = self.streams.insert(id, Conversation::default()).is_none();
        assert!(fresh, "{id:?} was opened twice");
    }

    /// The peer says that it heard of a stream.
    pub(super) fn heard_of(&mut self, by: End, id: StreamId) {
        assert_ne!(owner(id), by, "{by:?} heard of its own {id:?}");
        let conversation = self
            .streams
            .get_mut(&id)
            .expect("a stream that nobody opened");
        assert!(!conversation.heard_of, "{id:?} was heard of twice");
        conversation.heard_of = true;
    }

    /// The streams that an end knows of.
    pub(super) fn known_to(&self, end: End) -> Vec<StreamId> {
        let known = |(id, conversation): &(&StreamId, &Conversation)| {
            owner(**id) == end || conversation.heard_of
        };
        self.streams
            .iter()
            .filter(known)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The bytes that an end writes next on a stream.
    pub(super) fn write(&mut self, by: End, id: StreamId, count: usize) -> Vec<u8> {
        let clock = &mut self.clock;
        let bytes: Vec<u8> = (0..count)
            .map(|_| {
                *clock = clock.wrapping_add(0x9e37_79b9_7f4a_7c15);
                (*clock >> 56) as u8
            })
            .collect();
        self.direction(by, id).written.extend_from_slice(&bytes);
        bytes
    }

    pub(super) fn finish(&mut self, by: End, id: StreamId) {
        self.direction(by, id).finished = true;
    }

    pub(super) fn reset(&mut self, id: StreamId) {
        self.streams
            .get_mut(&id)
            .expect("a stream that is known")
            .reset = true;
    }

    fn direction(&mut self, by: End, id: StreamId) -> &mut Direction {
        let conversation = self.streams.get_mut(&id).expect("a stream that is known");
        conversation.directions.entry(by).or_default()
    }

    /// Checks what an end read of a stream; false when there is nothing more to read now.
    pub(super) fn read(&mut self, by: End, id: StreamId, read: &Read, window: u64) -> bool {
        let given_up = self.streams[&id].reset;
        let direction = self.direction(by.other(), id);
        match read {
            Read::Data(bytes) => {
                assert!(!direction.ended, "bytes after the end of {id:?} to {by:?}");
                let from = direction.read;
                let to = from + bytes.len();
                assert!(
                    direction.written.get(from..to) == Some(bytes),
                    "{id:?} to {by:?}: what came at {from}..{to} is not what was written there"
                );
                direction.read = to;
                self.window_wraps += to as u64 / window - from as u64 / window;
                true
            }
            Read::Finished => {
                let whole = direction.finished && direction.read == direction.written.len();
                assert!(whole, "{id:?} to {by:?} ended early");
                direction.ended = true;
                false
            }
            Read::Reset(_) => {
                let over = direction.ended;
                assert!(given_up || over, "{id:?} to {by:?} was reset by nobody");
                direction.ended = true;
                false
            }
            Read::Blocked => false,
        }
    }

    /// What has not arrived, of what must.
    pub(super) fn outstanding(&self) -> Option<String> {
        let streams = self
            .streams
            .iter()
            .filter(|(_, conversation)| !conversation.reset);
        for (id, conversation) in streams {
            for (by, direction) in &conversation.directions {
                let (written, read) = (direction.written.len(), direction.read);
                if read < written || (direction.finished && !direction.ended) {
                    return Some(format!(
                        "{id:?} from {by:?}: {read} of {written} bytes, finished {}, ended {}",
                        direction.finished, direction.ended
                    ));
                }
            }
        }
        None
    }
}

/// The lane that a number picks.
pub(super) fn lane(pick: u8) -> Lane {
    Lane::from_bits(pick)
}
