//! Every limit of the daemon: its unit, its reason, and what happens when it is reached.

// Session and store

/// Bytes of a workspace's or terminal's label: a line on a screen is shorter. A longer one is refused.
pub const LABEL_MAX: usize = 256;
/// Bytes of a terminal's title, which its program sets at will. A longer one is cut.
pub const TITLE_MAX: usize = 1024;
/// Bytes of a working directory: Linux's `PATH_MAX`. A longer one is refused when asked for, ignored when a program
/// reports it.
pub const CWD_MAX: usize = 4096;
/// Bytes of a terminal's program and arguments together: what fits in a row beside the rest. More is refused.
pub const ARGV_MAX: usize = 32 << 10;
/// Bytes of the words that say why a terminal ended. Longer ones are cut.
pub const REASON_MAX: usize = 256;
/// Bytes of all rows as JSON, so that a snapshot fits in one message. Past it the oldest ended terminals go; a change
/// that still does not fit is refused.
pub const ROWS_MAX: usize = 3 << 20;
/// Bytes of [`ROWS_MAX`] that only a terminal's start and end may use, so that what happened can always be recorded:
/// [`LIVE_TERMINALS_MAX`] times what these add to a row.
pub const ROWS_RESERVE: usize = 256 << 10;
const _: () = assert!(LIVE_TERMINALS_MAX * (REASON_MAX + 256) <= ROWS_RESERVE);
/// Terminals that live at once: each holds a PTY, a process and a screen. One more is refused.
pub const LIVE_TERMINALS_MAX: usize = 512;
/// Ended terminals that stay listed. Past it the oldest go.
pub const ENDED_TERMINALS_MAX: usize = 256;
/// Candidates that an ambiguous name lists: more help nobody. The rest are left out.
pub const CANDIDATES_MAX: usize = 32;
/// Bytes of an idempotency key. A longer one is refused.
pub const KEY_MAX: usize = 128;
/// Requests that wait for the session's thread. The next one waits for room.
pub const SESSION_QUEUE: usize = 256;
/// Mutations that share one commit: measured, 32 cost twice what one does. The next ones wait for the next commit.
pub const BATCH_MAX: usize = 32;
/// Records that the journal keeps in the store. Older ones go.
pub const JOURNAL_RECORDS_MAX: usize = 4096;
/// Bytes of records that the journal keeps in the store: a record can be as large as all rows. Older ones go.
pub const JOURNAL_BYTES_MAX: usize = 32 << 20;
/// Deltas kept in memory for those who follow the graph. A reader further behind gets a snapshot.
pub const TAIL_DELTAS_MAX: usize = 4096;
/// Bytes of deltas kept in memory: to replay more than a snapshot's size is worse than a snapshot. A reader further
/// behind gets one.
pub const TAIL_BYTES_MAX: usize = 4 << 20;
/// Idempotency receipts that are kept, of all devices together: hours of work, far longer than any retry. Older ones
/// go, and their keys count as new.
pub const RECEIPTS_MAX: usize = 4096;
/// Devices that are known, in any state. Past it those denied or met on a trusted carrier go, then the longest
/// revoked; when all are enrolled or pending no further invitation is made.
pub const DEVICES_MAX: usize = 1024;
/// Invitations that are known. Past it the oldest claimed or expired ones go; when all are open no further one is made.
pub const INVITATIONS_MAX: usize = 256;
/// Milliseconds in which an invitation must be claimed, at most: a forgotten file must stop working. A longer time is
/// refused.
pub const INVITATION_TTL_MAX_MS: u64 = 30 * 24 * 3_600_000;
/// Milliseconds that an expired invitation stays known, so that who comes with it gets an authenticated refusal; then
/// it is unknown.
pub const INVITATION_KEPT_MS: u64 = 24 * 3_600_000;
/// Milliseconds in which the owner must decide about a pending device. Then its claim lapses.
pub const PENDING_MAX_MS: u64 = 24 * 3_600_000;
