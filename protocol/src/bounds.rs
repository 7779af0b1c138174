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
/// Streams that one peer may have open at once. One more is a violation and costs the peer its link.
pub const STREAMS_MAX: usize = 1024;
/// Bytes queued on one stream before its writer must wait: enough to fill a packet while the next piece is made, little
/// enough that what is queued can still be overtaken.
pub const STREAM_QUEUE: usize = 64 << 10;
/// Bytes of credit that a stream starts with and is kept topped up to, by lane: interactive, control, tunnel, bulk. It
/// bounds what an unread stream costs its receiver.
pub const STREAM_WINDOW: [u64; 4] = [256 << 10, 256 << 10, 256 << 10, 1 << 20];
/// Unacknowledged received bytes after which an acknowledgement is sent at once, so that the peer's replay buffer
/// empties while data flows.
pub const ACK_BYTES: usize = 64 << 10;
/// How long a received frame may wait for an acknowledgement to share a packet with something else.
pub const ACK_DELAY: Duration = Duration::from_millis(20);
/// Packets of higher lanes after which a waiting lower lane gets one.
pub const LANE_TURN: u32 = 8;
/// Bytes that a stream may send per turn within its lane.
pub const STREAM_QUANTUM: usize = 16 << 10;
/// Silence after which a probe is sent.
pub const PROBE_AFTER: Duration = Duration::from_millis(1500);
/// Shortest and longest silence after a probe was due at which a carrier is taken for dead; between them, four round trips.
pub const DEAD_AFTER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));
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
