//! Every limit of the protocol: its unit, its reason, and what happens when it is reached.

use std::time::Duration;

/// Bytes of one Noise transport message. The Noise specification permits 65,535; so do we.
pub const PACKET_MAX: usize = 65_535;
/// Bytes of a frame's payload: keeps a frame, its head and the cipher's tag well inside one packet. A longer one is a
/// violation and costs the peer its link.
pub const FRAME_PAYLOAD_MAX: usize = 48 * 1024;
/// Bytes of one message, and of one record: bounds what a peer can make us gather before we look at it. A longer one
/// is a violation and costs the peer its stream.
pub const MESSAGE_MAX: usize = 4 << 20;
/// Bytes of one row as JSON. A larger one is refused by who would store it.
pub const ROW_MAX: usize = 64 << 10;
/// Bytes of a handshake message's payload: certificates, names and cursors need about 300. A longer one ends the
/// handshake.
pub const HANDSHAKE_PAYLOAD_MAX: usize = 4096;
/// Unacknowledged bytes kept per lane for replay. When they are reached the lane waits for acknowledgement.
pub const REPLAY_LANE_MAX: usize = 4 << 20;
/// Unacknowledged bytes kept per link for replay, over all lanes. When they are reached the link waits.
pub const REPLAY_LINK_MAX: usize = 8 << 20;
/// Streams that an end has open at once, over all lanes. This end opens no more: what is written on a further stream waits
/// until another one is over.
pub const STREAMS_MAX: usize = 1024;
/// Streams beyond [`STREAMS_MAX`] that a peer may seem to have, because the ends of others are under way on other lanes.
/// One more is a violation and costs the peer its link.
pub const STREAMS_GRACE: usize = 256;
/// Bytes queued on one stream before its writer must wait, at most: two packets, less on a slow carrier, so that one is
/// made while the other is written, and what is queued can still be overtaken.
pub const STREAM_QUEUE: usize = 128 << 10;
/// Bytes of credit that each direction of a stream begins with. A receiver always allows as much, so this times
/// [`STREAMS_MAX`] is what a peer can make it hold whatever else it holds.
pub const STREAM_WINDOW_FIRST: u64 = 16 << 10;
/// Bytes of credit that a stream is topped up to, by lane: interactive, control, tunnel, bulk. An end that opens a stream
/// grants them at once, its peer when the first bytes are consumed. They bound what an unread stream costs its receiver.
pub const STREAM_WINDOW: [u64; 4] = [256 << 10, 256 << 10, 256 << 10, 1 << 20];
/// Bytes that they may grow to, by lane, when a stream's window is consumed within about two round trips. A bulk stream
/// so fills a path on which 4 MiB are under way; what is longer, it does not fill.
pub const STREAM_WINDOW_MAX: [u64; 4] = [1 << 20, 1 << 20, 4 << 20, 4 << 20];
/// Bytes of credit, beyond [`STREAM_WINDOW_FIRST`] each, that all streams of a link together have been given and not used.
/// When they are reached streams go on with [`STREAM_WINDOW_FIRST`] until others are read.
pub const WINDOWS_LINK_MAX: u64 = 16 << 20;
/// Bytes of messages longer than [`STREAM_WINDOW_FIRST`] that are being gathered, or worked on, on all streams of a link
/// together. When they are reached the next such messages wait, unread, in the order in which they began.
pub const GATHERED_LINK_MAX: u64 = 16 << 20;
/// Milliseconds of the measured rate that a packet's plaintext holds at most: what is in a packet cannot be overtaken.
/// Half of what the design allows, because a packet's first byte is of use only with its last.
pub const PACKET_TIME: Duration = Duration::from_millis(5);
/// Bytes that a packet's plaintext may hold however slow the carrier is: less would be all heads.
pub const PACKET_PLAIN_MIN: usize = 1 << 10;
/// Milliseconds of the measured rate that the system below may hold unsent: a packet to go on with while the next one is
/// made. A carrier that holds more than half of it is not ready to write.
pub const UNSENT_TIME: Duration = Duration::from_millis(10);
/// Bytes that it may hold unsent however slow the carrier is.
pub const UNSENT_MIN: usize = 2 << 10;
/// Bytes a second that a carrier is taken for before anything was measured: packets of 2.5 KiB, which 64 KB/s carry in 40
/// ms and which cost a fast path nothing for the one round trip that they last.
pub const RATE_FIRST: u64 = 512 << 10;
/// Packets under way whose acknowledgement gives a sample of the rate. The next ones give none.
pub const RATE_MARKS: usize = 1024;
/// Round trips of half of the window within which the greatest sample counts.
pub const RATE_ROUNDS: u32 = 5;
/// How long half of that window is at least: on a short path a few round trips are over before anything can be seen.
pub const RATE_WINDOW: Duration = Duration::from_millis(500);
/// How long the shortest round trip counts.
pub const ROUND_TRIP_WINDOW: Duration = Duration::from_secs(10);
/// Unacknowledged received bytes after which an acknowledgement is sent at once, so that the peer's replay buffer
/// empties while data flows.
pub const ACK_BYTES: usize = 64 << 10;
/// How long a received frame may wait for an acknowledgement to share a packet with something else.
pub const ACK_DELAY: Duration = Duration::from_millis(20);
/// Packets of higher lanes after which a waiting lower lane gets one.
pub const LANE_TURN: u32 = 8;
/// Bytes that a stream may send per turn within its lane, at most; never more than a packet may hold.
pub const STREAM_QUANTUM: usize = 16 << 10;
/// Time between the answer to a probe and the next one. It is also the silence that is no reason to wonder.
pub const PROBE_AFTER: Duration = Duration::from_millis(1500);
/// Time between two probes that go along with data, so that the round trip is known while the link is busy.
pub const PROBE_BUSY: Duration = Duration::from_millis(500);
/// Shortest and longest silence after a probe was due at which a carrier is taken for dead; between them, four round trips.
pub const DEAD_AFTER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));
/// Shortest silence after a probe that somebody asked for, because the machine woke or changed its network: then death is
/// likely, and waiting for it is what a person sees. The longest one is that of [`DEAD_AFTER`].
pub const PROBED_DEAD_AFTER: Duration = Duration::from_millis(500);
/// Between two looks at the clock while an answer is awaited: so a pause of this process is told from the peer's silence.
pub const AWAITED_LOOK: Duration = Duration::from_millis(500);
/// How much later than it was due a look may come before it follows that this process was stopped or asleep, and the peer
/// is given its time anew.
pub const ASLEEP_AFTER: Duration = Duration::from_secs(1);
/// Packets under one key, and the time with one: Noise asks for a change long before AES-GCM's limits, and what is taken
/// from a process then opens little of what was said before. The sender changes its key and says so.
pub const REKEY_PACKETS: u64 = 65_536;
/// See [`REKEY_PACKETS`].
pub const REKEY_AFTER: Duration = Duration::from_secs(3600);
/// Bytes of missing frames that a daemon may send before the client has proved that it is no recording: what a resumed
/// screen needs, little enough to be wasted on a recording.
pub const AHEAD_MAX: usize = 64 << 10;
/// Characters of a client id.
pub const CLIENT_ID_MAX: usize = 128;
/// Bytes of a device's, daemon's or machine's name in a handshake.
pub const NAME_MAX: usize = 128;
/// How long a handshake may take before it is given up.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
