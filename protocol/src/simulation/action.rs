//! What is done to a link: a recorded list of events, made from a seed, written as text and read back.

use serde::{Deserialize, Serialize};

/// One event. Numbers pick among what there is when the event happens, so that a list stays meaningful when others are
/// left out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    /// An end opens a stream and writes a byte.
    Open { daemon: bool, lane: u8 },
    /// An end writes on a stream, as far as it may.
    Write { daemon: bool, pick: u16, bytes: u32 },
    /// An end finishes its direction of a stream.
    Finish { daemon: bool, pick: u16 },
    /// An end gives a stream up.
    Reset { daemon: bool, pick: u16 },
    /// An end's application takes what there is, at most so many pieces.
    Read { daemon: bool, pick: u16, pieces: u8 },
    /// Time passes.
    Pass { ms: u16 },
    /// The client takes a new carrier, when it has none; with `force` also when it has one, or is at work on one.
    Connect { known: bool, force: bool },
    /// A carrier fails: of what is under way, so many bytes in each direction still arrive.
    Cut {
        pick: u8,
        to_daemon: u16,
        to_client: u16,
    },
    /// Nothing arrives in one direction of a carrier for a while.
    Stall { pick: u8, daemon: bool, ms: u16 },
    /// Somebody sends the daemon what a client once sent it: its first message, or all.
    Replay { pick: u8, whole: bool },
    /// The client asks to resume with cursors that it had earlier.
    StaleCursors { known: bool },
    /// An attempt that was overtaken by a later one.
    StaleEpoch { known: bool },
    /// The daemon's lease ends, when the link has no carrier.
    Expire,
}

/// The events of a seed.
pub(super) fn generate(seed: u64, count: usize) -> Vec<Action> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x6b65_6570_6c69_6e65);
    // A seed has its own temper: some write much, some are cut all the time.
    let (busy, hasty) = (random.u32(10..40), random.u32(1..6));
    (0..count)
        .map(|_| {
            let daemon = random.bool();
            let pick = random.u16(..);
            match random.u32(..100 + busy + hasty) {
                0..4 => Action::Open {
                    daemon,
                    lane: random.u8(..4),
                },
                4..6 => Action::Finish { daemon, pick },
                6 => Action::Reset { daemon, pick },
                7..45 => Action::Read {
                    daemon,
                    pick,
                    pieces: random.u8(1..12),
                },
                45..75 => Action::Pass {
                    ms: random.u16(..60),
                },
                75 => Action::Pass {
                    ms: random.u16(..6_000),
                },
                76..86 => Action::Connect {
                    known: random.u8(..4) > 0,
                    force: random.u8(..10) == 0,
                },
                86..89 => Action::Stall {
                    pick: random.u8(..),
                    daemon,
                    ms: random.u16(1..) >> random.u32(2..12),
                },
                89..92 => Action::Replay {
                    pick: random.u8(..),
                    whole: random.bool(),
                },
                92 => Action::StaleCursors {
                    known: random.bool(),
                },
                93 => Action::StaleEpoch {
                    known: random.bool(),
                },
                94 if random.bool() => Action::Expire,
                94..96 => Action::Write {
                    daemon,
                    pick,
                    bytes: 1 << 20,
                },
                96..100 => Action::Write {
                    daemon,
                    pick,
                    bytes: random.u32(1..100_000),
                },
                tail if tail < 100 + busy => {
                    let bytes = random.u32(1..3_000);
                    Action::Write {
                        daemon,
                        pick,
                        bytes,
                    }
                }
                _ => Action::Cut {
                    pick: random.u8(..),
                    to_daemon: random.u16(..) >> random.u32(..16),
                    to_client: random.u16(..) >> random.u32(..16),
                },
            }
        })
        .collect()
}

/// The list as text, an event a line.
pub(super) fn to_text(actions: &[Action]) -> String {
    let line = |action| serde_json::to_string(action).expect("plain numbers have a JSON form");
    actions.iter().map(|action| line(action) + "\n").collect()
}

/// The list in a text.
pub(super) fn from_text(text: &str) -> Vec<Action> {
    let parse = |line| serde_json::from_str(line).expect("a line is an event");
    text.lines().map(parse).collect()
}
