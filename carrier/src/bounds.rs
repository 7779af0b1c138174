//! This crate's limits: each with its unit, its reason, and what happens when it is reached.

use std::time::Duration;

/// Bytes of an HTTP request's head. Ours has about 300; a longer one is answered with 431.
pub const REQUEST_HEAD_MAX: usize = 16 << 10;
/// Header fields of an HTTP request. More are answered with 431.
pub const REQUEST_FIELDS_MAX: usize = 64;
/// How long a refused HTTP client may take to read its answer before the connection is dropped.
pub const REFUSED_LINGER: Duration = Duration::from_secs(1);
/// How long a TCP or Unix connection may take to be made.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Packets between the two ends of a carrier in memory. When it is full the writer waits.
pub const MEMORY_PACKETS: usize = 8;
/// Streams that the peer has opened and nobody has accepted yet are at most the protocol's `STREAMS_MAX`; this is how
/// long a closed link may take to say its farewell to a peer that does not read.
pub const FAREWELL_TIME: Duration = Duration::from_secs(2);
/// Bytes that wait in front of ssh's standard input: enough to keep it busy, and little to wait behind.
pub const SSH_BUFFER: usize = 32 << 10;
/// Bytes that a login may print before keepline answers over ssh. More is somebody else.
pub const SSH_GREETING_MAX: usize = 64 << 10;
/// Bytes of what ssh says that are kept, from its end.
pub const SSH_SAYS_MAX: usize = 4096;
