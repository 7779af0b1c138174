//! The reference model: what may arrive, given what was sent. It knows nothing of packets, sequences or carriers.
//!
//! A link is a set of streams. A stream has two sides. What a side is given is a prefix of what the other wrote, then the
//! other's end; when nobody gave the stream up, it is all of it in the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;

use crate::bounds::{STREAM_WINDOW_FIRST, STREAM_WINDOW_MAX};
use crate::lane::Lane;
use crate::stream::{CANCELLED, Read, StreamId};

/// One of the two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Daemon,
}

impl End {
    pub(super) const BOTH: [End; 2] = [End::Client, End::Daemon];

    pub(super) fn peer(self) -> End {
        match self {
            End::Client => End::Daemon,
            End::Daemon => End::Client,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Client => "client",
            End::Daemon => "daemon",
        })
    }
}

/// What was promised and did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation(pub(super) String);

pub(super) type Checked<T = ()> = Result<T, Violation>;

macro_rules! ensure {
    ($holds:expr, $($said:tt)*) => {
        if !$holds {
            return Err($crate::simulation::reference::Violation(format!($($said)*)));
        }
    };
}
pub(super) use ensure;

/// Bytes that an unread stream may hold at most.
fn window(lane: Lane) -> u64 {
    STREAM_WINDOW_MAX[lane.index()]
}

/// Noise to cut payloads from. A stream repeats it after a prime number of bytes, so that no piece fits anywhere else.
static NOISE: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(0);
    let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.u8(..)).collect();
    bytes.extend_from_within(..);
    bytes.into()
});
const PERIOD: usize = 65_521;

/// Bytes `from..from + length` of what `writer` writes on a stream; at most [`PERIOD`] of them.
pub(super) fn payload(link: u32, id: StreamId, writer: End, from: u64, length: usize) -> Bytes {
    let name = u64::from(link) << 40 | u64::from(id.number) << 4 | (id.lane as u64) << 1;
    let place = (name | writer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let start = ((place + from) % PERIOD as u64) as usize;
    NOISE.slice(start..start + length)
}

/// What one end did on a stream, and what came to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    /// It opened the stream or was told of it.
    pub(super) known: bool,
    pub(super) sent: u64,
    pub(super) finished: bool,
    /// It gave up both directions.
    gave_up: Option<u16>,
    /// It does not read any more.
    released: bool,
    /// It was told that it cannot write.
    shut: bool,
    pub(super) read: u64,
    /// It was told that nothing more comes.
    ended: bool,
    /// It was told that nothing is there, and not yet that something is.
    pub(super) blocked: bool,
    /// It was told that there is no room, and not yet that there is.
    pub(super) starved: bool,
    /// The highest limit that it granted.
    granted: u64,
}

impl Side {
    pub(super) fn writes(&self) -> bool {
        !self.finished && !self.shut && self.holds()
    }

    pub(super) fn reads(&self) -> bool {
        !self.ended && self.holds()
    }

    /// There is something left to do on the stream.
    pub(super) fn lives(&self) -> bool {
        self.reads() || self.writes()
    }

    /// The application has the stream.
    pub(super) fn holds(&self) -> bool {
        self.known && self.gave_up.is_none() && !self.released
    }
}

/// The model of one link.
#[derive(Default)]
pub(super) struct Reference {
    pub(super) number: u32,
    pub(super) streams: BTreeMap<StreamId, [Side; 2]>,
    /// There is a reason for which the daemon may have forgotten the link.
    pub(super) forgotten: Option<&'static str>,
    /// The highest epoch that took the link.
    pub(super) epoch: u32,
    cursors: [[u64; 4]; 2],
    /// How often a window was turned over.
    pub(super) turned: u64,
}

impl Reference {
    pub(super) fn new(number: u32) -> Self {
        Reference { number, ..Reference::default() }
    }

    fn sides(&mut self, end: End, id: StreamId) -> Checked<(&mut Side, &mut Side)> {
        let number = self.number;
        let Some([client, daemon]) = self.streams.get_mut(&id) else {
            return Err(Violation(format!("the {end} has {id:?}, which nobody opened on link {number}")));
        };
        Ok(match end {
            End::Client => (client, daemon),
            End::Daemon => (daemon, client),
        })
    }

    pub(super) fn side(&mut self, end: End, id: StreamId) -> Checked<&mut Side> {
        Ok(self.sides(end, id)?.0)
    }

    /// Of the streams that fit, the `choice`th, modulo their number.
    pub(super) fn pick(&self, end: End, choice: u32, fits: impl Fn(&Side) -> bool) -> Option<StreamId> {
        let fitting = || self.streams.iter().filter(|(_, sides)| fits(&sides[end as usize]));
        let count = fitting().count().max(1);
        fitting().nth(choice as usize % count).map(|(id, _)| *id)
    }

    pub(super) fn opens(&mut self, end: End, id: StreamId) -> Checked {
        let mut sides = [Side::default(), Side::default()];
        sides[end as usize].known = true;
        let before = self.streams.insert(id, sides);
        ensure!(before.is_none(), "{id:?} was opened twice");
        Ok(())
    }

    /// The end was told of a stream.
    pub(super) fn heard_of(&mut self, end: End, id: StreamId) -> Checked {
        let (side, peer) = self.sides(end, id)?;
        ensure!(!side.known, "{end} was told of {id:?} twice");
        ensure!(peer.sent > 0 || peer.finished, "{end} was told of {id:?}, on which nothing was sent");
        side.known = true;
        Ok(())
    }

    pub(super) fn sends(&mut self, end: End, id: StreamId, bytes: u64) -> Checked {
        let (side, peer) = self.sides(end, id)?;
        side.sent += bytes;
        ensure!(
            !peer.holds() && peer.known || side.sent - peer.read <= window(id.lane),
            "{end} may send {} bytes on {id:?}, of which {} are read",
            side.sent,
            peer.read
        );
        Ok(())
    }

    /// The link took no more of what the end writes.
    pub(super) fn refused(&mut self, end: End, id: StreamId) -> Checked {
        let (side, peer) = self.sides(end, id)?;
        ensure!(
            !side.writes() || peer.gave_up.is_some() || peer.released,
            "{id:?} is closed for the {end} for no reason"
        );
        side.shut = true;
        Ok(())
    }

    pub(super) fn finishes(&mut self, end: End, id: StreamId) -> Checked {
        self.side(end, id)?.finished = true;
        Ok(())
    }

    pub(super) fn gives_up(&mut self, end: End, id: StreamId, code: u16) -> Checked {
        self.side(end, id)?.gave_up = Some(code);
        Ok(())
    }

    pub(super) fn releases(&mut self, end: End, id: StreamId) -> Checked {
        let side = self.side(end, id)?;
        side.released = true;
        // Releasing a stream that was not finished gives it up, unless the peer did so before.
        if !side.finished {
            side.gave_up = Some(CANCELLED);
        }
        Ok(())
    }

    /// The end has read.
    pub(super) fn reads(&mut self, end: End, id: StreamId, read: &Read) -> Checked {
        let number = self.number;
        let (side, peer) = self.sides(end, id)?;
        ensure!(side.reads(), "{end} reads {id:?} after its end");
        match read {
            Read::Data(bytes) => {
                let before = side.read;
                side.read += bytes.len() as u64;
                ensure!(
                    side.read <= peer.sent,
                    "{end} has read {} bytes of {id:?}, of which {} were sent",
                    side.read,
                    peer.sent
                );
                let expected = payload(number, id, end.peer(), before, bytes.len());
                ensure!(*bytes == expected, "{end} was given other bytes than those at {before} of {id:?}");
                self.turned += side.read / STREAM_WINDOW_FIRST - before / STREAM_WINDOW_FIRST;
            }
            Read::Blocked => side.blocked = true,
            Read::Finished => {
                ensure!(
                    peer.finished && side.read == peer.sent,
                    "{end} was told the end of {id:?} at {} of {} bytes",
                    side.read,
                    peer.sent
                );
                side.ended = true;
            }
            Read::Reset(code) => {
                ensure!(peer.gave_up == Some(*code), "{end} was told that {id:?} was given up with {code}");
                side.ended = true;
            }
        }
        Ok(())
    }

    /// The end allows its peer so many bytes.
    pub(super) fn grants(&mut self, end: End, id: StreamId, limit: u64) -> Checked {
        let side = self.side(end, id)?;
        if limit <= side.granted {
            return Ok(());
        }
        side.granted = limit;
        ensure!(
            !side.holds() || limit <= side.read + window(id.lane),
            "{end} grants {limit} bytes on {id:?}, of which {} are read",
            side.read
        );
        Ok(())
    }

    /// The end has these cursors.
    pub(super) fn stands(&mut self, end: End, cursors: [u64; 4]) -> Checked {
        let before = std::mem::replace(&mut self.cursors[end as usize], cursors);
        ensure!(
            before.iter().zip(cursors).all(|(before, now)| *before <= now),
            "the {end}'s cursors went from {before:?} to {cursors:?}"
        );
        Ok(())
    }

    /// An attempt takes the link.
    pub(super) fn taken(&mut self, epoch: u32) -> Checked {
        let before = std::mem::replace(&mut self.epoch, epoch);
        ensure!(before < epoch, "epoch {epoch} took the link after {before}");
        Ok(())
    }

    /// After a calm in which everybody wrote and read: whatever was not given up has arrived.
    pub(super) fn is_complete(&self) -> Checked {
        for (id, sides) in &self.streams {
            for end in End::BOTH {
                let (side, peer) = (&sides[end as usize], &sides[end.peer() as usize]);
                if peer.gave_up.is_none() && side.holds() {
                    ensure!(
                        side.read == peer.sent,
                        "{} of {} bytes of {id:?} arrived at the {end}",
                        side.read,
                        peer.sent
                    );
                }
                // Who opened a stream and gave it up at once has told nobody.
                if side.holds() && (peer.finished || peer.gave_up.is_some()) {
                    ensure!(side.ended, "the {end} was not told the end of {id:?}");
                }
            }
        }
        Ok(())
    }
}
