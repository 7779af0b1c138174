//! Fuzz targets for everything that reads what a peer or a program says.
//!
//! A target takes any bytes and must neither panic nor break one of the properties that it asserts. It gives what the
//! input reached, so that the replay of the committed corpora (`tests/replay.rs`, a plain test) can require that
//! they reach every method, every kind of frame and every refusal.
//!
//! | target | input |
//! |---|---|
//! | [`handshake`] | a scene, then what the daemon or the client receives in it |
//! | [`packet`] | a packet's plaintext |
//! | [`frame`] | kind, flags and body of one frame |
//! | [`link`] | what a peer sends, what the application calls and how time passes, on a link with a null cipher |
//! | [`message`] | a message's number and body |
//! | [`assembler`] | the size of pieces, then a stream of messages |
//! | [`record`] | what a local socket carries |
//! | [`invitation`] | the text of an invitation or key file, or of a route |
//! | [`upgrade`] | an HTTP request |
//! | [`screen`] | what programs write to a terminal, its sizes, and where it is cut |
//!
//! `examples/seeds.rs` writes the seeds of the corpora, one for each thing that must be reached; the rest of the corpora
//! was found by fuzzing from there.

mod files;
mod handshake;
mod input;
mod link;
mod messages;
mod packets;
mod screen;

use std::collections::BTreeSet;

pub use files::{invitation, upgrade};
pub use handshake::{handshake, honest_messages};
pub use link::link;
pub use messages::{assembler, message, record};
pub use packets::{frame, packet};
pub use screen::screen;

/// Something that an input reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// Well-formed parameters of the method with this number.
    Request(u16),
    /// A well-formed answer of the method with this number.
    Answer(u16),
    /// A well-formed message that is neither, with this number.
    Other(u16),
    /// A record of this kind.
    Record(u8),
    /// A well-formed frame of this kind.
    Frame(u8),
    /// A frame of a kind that is skipped.
    SkippedFrame,
    /// A daemon that refuses in clear with this number.
    Refuses(u16),
    /// A client that is refused in clear with this number.
    RefusedInClear(u16),
    /// A client that is refused with this number by the daemon's key.
    Refused(u16),
    /// A link that a peer ends with this number.
    Closed(u16),
    /// A handshake that went to its good end.
    Accepted,
    /// A violation by a peer that costs it its carrier.
    Violation,
    /// A link that took a second carrier.
    Resumed,
    /// A link that changed its sending key.
    Rekeyed,
    /// A well-formed file, route or HTTP request.
    Read(&'static str),
}

/// All that an input reached.
pub type Reach = BTreeSet<Reached>;

/// The body of a target.
pub type Target = fn(&[u8]) -> Reach;

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("handshake", handshake),
    ("packet", packet),
    ("frame", frame),
    ("link", link),
    ("message", message),
    ("assembler", assembler),
    ("record", record),
    ("invitation", invitation),
    ("upgrade", upgrade),
    ("screen", screen),
];
