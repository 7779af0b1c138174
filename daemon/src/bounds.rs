//! Every limit of the daemon: its unit, its reason, and what happens when it is reached.

use std::time::Duration;

pub use keepline_screen::bounds::{CELLS_MAX, COLUMNS_MIN, SIDE_MAX};

// # Session and store

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
pub const ROWS_RESERVE: usize = 512 << 10;
const _: () = assert!(LIVE_TERMINALS_MAX * (REASON_MAX + 256) <= ROWS_RESERVE);
/// Terminals that live at once: each holds a PTY, a process and a screen. One more is refused.
pub const LIVE_TERMINALS_MAX: usize = 1024;
/// Ended terminals that stay listed. Past it the oldest go.
pub const ENDED_TERMINALS_MAX: usize = 256;
/// Panes of one screen: more could not be read. One more is refused.
pub const PANES_MAX: usize = 64;
/// Notifications that are kept. Past it the oldest go.
pub const NOTIFICATIONS_MAX: usize = 256;
/// Bytes of a notification's title, and of its subtitle. A longer one is refused when asked for, cut when a program's
/// output brings it.
pub const NOTIFICATION_TITLE_MAX: usize = 512;
/// Bytes of a notification's text. Handled as [`NOTIFICATION_TITLE_MAX`].
pub const NOTIFICATION_BODY_MAX: usize = 4096;
/// Notifications that one terminal's output makes in one transaction. Of more, the oldest are dropped.
pub const NOTICES_AT_ONCE: usize = 8;
/// Clients that a notification remembers as having seen it. Past it the one that saw it first is forgotten.
pub const READ_BY_MAX: usize = 32;
/// Characters of a client's id.
pub const CLIENT_ID_MAX: usize = 128;
/// Attachments that a client's row shows. Of more, the oldest are left out.
pub const ATTACHED_SHOWN_MAX: usize = 64;
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
/// Rows of the audit about who gets in, and as many about links and refusals: all of them, with those about mutations, are
/// one answer within a message. Older ones of the same sort go.
pub const AUDIT_MAX: u64 = 2048;
/// Rows of the audit about mutations. Older ones go.
pub const AUDIT_MUTATIONS_MAX: u64 = 4096;
/// Links and refusals of different sorts that are gathered for the audit. Further ones are only counted.
pub const AUDIT_GATHERED_MAX: usize = 64;
/// How long they are gathered: what a crash may lose, and how seldom a flood of them is written.
pub const AUDIT_PAUSE: Duration = Duration::from_secs(5);
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

// # Terminals

/// Bytes of a terminal's newest output that stay readable by offset: a cut of a few seconds is then no lag. Older bytes
/// are forgotten; an attachment that still wanted them gets a snapshot.
pub const OUTPUT_MAX: usize = 1 << 20;
/// Bytes of output before an interrupt that an attachment is still sent. When more wait, a snapshot takes their place: who
/// interrupts wants to see the prompt.
pub const INTERRUPTED_MAX: u64 = 64 << 10;
/// Milliseconds that such output may take at the rate of the link. Handled as [`INTERRUPTED_MAX`].
pub const INTERRUPTED_MS: u64 = 100;
/// Bytes of output kept once a terminal is quiet and every attachment has caught up; the rest is given back.
pub const OUTPUT_QUIET: usize = 64 << 10;
/// Silence after which a terminal counts as quiet.
pub const QUIET_AFTER: Duration = Duration::from_secs(10);
/// Resizes kept at their offsets, so that a client which resizes without end costs nothing. Past it the oldest is
/// forgotten and an attachment that had not seen it gets a snapshot.
pub const RESIZES_MAX: usize = 256;
/// Bytes read from a PTY before they are handed on. With [`CHUNKS_WAITING`] it bounds how far the screen is behind the
/// newest output, which must stay well below [`OUTPUT_MAX`].
pub const CHUNK_MAX: usize = 64 << 10;
/// Chunks that wait for the parser. When they do, the PTY is not read, and the program waits as it would for a slow
/// terminal.
pub const CHUNKS_WAITING: usize = 2;
/// Lines of history in a snapshot, unless the attaching program asks for another number.
pub const SNAPSHOT_HISTORY_LINES: u32 = 1_000;
/// Bytes of history in a snapshot; the oldest lines are left out.
pub const SNAPSHOT_HISTORY_MAX: usize = 256 << 10;
/// Bytes of a snapshot: less than a message may have. A larger one leaves out history, then styles, then rows from
/// the top.
pub const SNAPSHOT_MAX: usize = 3 << 20;
/// Bytes of input accepted and not yet written. When it is reached, input waits.
pub const INPUT_WAITING_MAX: usize = 256 << 10;
/// Bytes of input that are queued in one piece, so that several attachments take turns.
pub const INPUT_PIECE: usize = 4 << 10;
/// Bytes of answers to a program's queries that are not yet written. A program that asks without reading gets no more.
pub const REPLIES_WAITING_MAX: usize = 64 << 10;
/// Attachments whose written input a terminal remembers. Past it the one not attached for longest is forgotten.
pub const ATTACHMENTS_REMEMBERED: usize = 64;
/// How long a terminal whose program is gone may still give output, when something else holds it open.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How long the processes of a closed terminal have between SIGHUP and SIGKILL.
pub const CLOSE_TIME: Duration = Duration::from_secs(5);
/// How long to wait before a PTY that nothing holds open is read again, while its program lives.
pub const REOPEN_TIME: Duration = Duration::from_millis(100);

// # Links and services

/// How long the lock of a state directory is tried to take whose holder is dead: a child of its that was being started has
/// it until it runs its program.
pub const LOCK_TIME: Duration = Duration::from_millis(200);
/// Between two tries to take it.
pub const LOCK_POLL: Duration = Duration::from_millis(10);
/// Bytes of the daemon's key file: about 250 are needed. A longer one is refused.
pub const KEY_FILE_MAX: usize = 4096;
/// Connections that have not proved who they are: each holds at most a request head and a handshake message. When all
/// are taken, the oldest one of the source that weighs most is closed for a new one.
pub const HALF_OPEN_MAX: usize = 256;
/// Such connections of one enrolled device, whose first message may be a recording. The device's oldest is closed for one
/// more.
pub const HALF_OPEN_DEVICE_MAX: usize = 4;
/// Sources whose bad behaviour is remembered. Past it the one seen longest ago is forgotten.
pub const SOURCES_MAX: usize = 4096;
/// Bad handshakes of one source that count. More make it no worse, so that it is forgiven within minutes.
pub const BAD_BEHAVIOUR_MAX: u32 = 1 << 10;
/// Time in which what is remembered of a source halves.
pub const BAD_BEHAVIOUR_HALVES: Duration = Duration::from_secs(10);
/// How long a pending device's carrier is held open. Then it is told `pending` and comes back by itself.
pub const PENDING_HELD: Duration = Duration::from_secs(600);
/// Silence after which a held carrier counts as dead: several probes went unanswered.
pub const PENDING_SILENCE: Duration = Duration::from_secs(10);
/// Connections that the system keeps until they are accepted. Past it the system drops them, and an honest client's comes
/// back only after a second.
pub const ACCEPT_QUEUE: u32 = 1024;
/// Between two tries to accept a connection, while the system has no descriptor for one.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long a refused client may take to read why. Then it is dropped.
pub const PARTING_TIME: Duration = Duration::from_secs(2);
/// How long an invitation can be claimed when its maker does not say.
pub const INVITATION_TTL: Duration = Duration::from_secs(300);
/// Routes in one invitation. More are refused.
pub const INVITATION_ROUTES_MAX: usize = 16;
/// Bytes of one route in an invitation. A longer one is refused.
pub const INVITATION_ROUTE_MAX: usize = 512;
/// Bytes of output in one record: large enough to be cheap, small enough that keys are not held up behind it.
pub const OUTPUT_PIECE: usize = 32 << 10;
/// How long after a change of title or size the next one is committed at the earliest: a program may change its title at
/// every line.
pub const OBSERVED_PAUSE: Duration = Duration::from_millis(100);
/// How long the daemon's end waits for terminals that were hung up on.
pub const STOP_TIME: Duration = Duration::from_millis(1500);
/// How long a vote for a terminal's size outlives its link's carrier: a short cut must not resize what others look at.
pub const VOTE_KEPT: Duration = Duration::from_secs(10);
/// Links that are kept, with a carrier or in their lease. One more is refused as busy.
pub const LINKS_MAX: usize = 1024;
/// Links of one device: each of its clients has one, and each link may hold what the protocol's bounds allow a link. One
/// more is refused as busy.
pub const LINKS_DEVICE_MAX: usize = 16;
/// Ids of ended links that are remembered, so that no attempt which was long on its way opens one again. Past it the
/// oldest is forgotten.
pub const LINKS_ENDED_MAX: usize = 1024;
/// Bytes that all links together keep for replay. Past it the link that has been without a carrier for longest is ended
/// early.
pub const REPLAY_DAEMON_MAX: usize = 256 << 20;
/// Between two looks at [`REPLAY_DAEMON_MAX`].
pub const REPLAY_LOOK: Duration = Duration::from_secs(1);
/// Requests of one link that are worked on at once, conversations not counted. The next ones wait.
pub const REQUESTS_AT_ONCE: usize = 64;
/// Between two tries to record that a terminal ended, while the disk takes nothing.
pub const RECORD_AGAIN: Duration = Duration::from_secs(1);
/// Bytes of rows in an answer, so that it fits a message and a line of JSON in any spelling. The rest is asked for anew.
pub const READ_MAX: usize = 512 << 10;
/// Bytes of an expression that is waited for. A longer one is refused.
pub const PATTERN_MAX: usize = 4096;
/// Bytes of memory that an expression may take. One that takes more is refused.
pub const PATTERN_COMPILED_MAX: usize = 1 << 20;
/// Lines that are searched before others may look at the screen.
pub const LOOK_LINES: u64 = 1000;
/// Between two searches of a screen for what is waited for: output comes in many pieces.
pub const LOOK_PAUSE: Duration = Duration::from_millis(10);
