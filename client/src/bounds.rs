//! Every limit of the client: its unit, its reason, and what happens when it is reached.

use std::time::Duration;

/// Bytes of a JSON-RPC line from a consumer to a local socket, its line end not counted. A consumer never sends a longer
/// one: it refuses the request before it is sent.
pub const LINE_TO_SERVER_MAX: usize = 1 << 20;
/// Bytes of a JSON-RPC line from a local socket to a consumer, its line end not counted: a whole document (3 MiB) fits.
/// A longer one ends the connection, and the request fails.
pub const LINE_TO_CONSUMER_MAX: usize = 4 << 20;
/// Bytes of a socket's path: `sun_path` of Linux holds 108 with the final zero. A longer one is one clear error.
pub const SOCKET_PATH_MAX: usize = 107;
/// Characters of a machine's name: it stands in file names and in tables. A longer one is a usage error.
pub const MACHINE_NAME_MAX: usize = 32;

/// Deadline of a request when `--timeout` does not say otherwise. After it the command exits 124.
pub const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Longest deadline that `--timeout` takes, in seconds: a day. More is a usage error.
pub const REQUEST_SECONDS_MAX: u32 = 86_400;
/// How much longer than the edge the consumer waits, so that the edge, which knows whether the request was sent, is the
/// one that says how it ended.
pub const REQUEST_GRACE: Duration = Duration::from_secs(1);
/// How long `remote known-daemons` waits for one relay's answer. A relay that takes longer is shown as not answering.
pub const RELAY_STATUS_TIME: Duration = Duration::from_secs(2);
/// Between two looks at whether a daemon that was told to stop is gone.
pub const STOP_POLL: Duration = Duration::from_millis(20);

/// Input of one attachment that is kept until it is acknowledged, in bytes. When it is full nothing more is read from
/// the person or the parent.
pub const TAIL_MAX: usize = 1 << 20;
/// Bytes of one input record: a keystroke behind a paste waits for one piece of it at most.
pub const INPUT_PIECE: usize = 16 << 10;
/// Bytes that may wait in front of a local socket that does not take them. When they are reached input stays in its tail.
pub const SOCKET_QUEUE: usize = 64 << 10;
/// Bytes of one `terminal.send`: its base64 and its frame stay below [`LINE_TO_SERVER_MAX`]. `terminal send -` sends
/// longer input in pieces.
pub const SEND_PIECE: usize = 512 << 10;
/// Bytes of text that `terminal paste -` reads from stdin. More is refused: a program takes so much for one paste.
pub const PASTE_MAX: usize = 16 << 20;
/// Bytes of output that may wait for a slow stdout before nothing more is read from the local socket; one record more
/// can be there. More would be output that an interrupt can no longer drop.
pub const OUTPUT_QUEUE: usize = 64 << 10;
/// Bytes that may wait for a slow stderr of `attach --pipe-io`. When they are reached diagnostics are left out, and of
/// link, size and lost input only the newest or the sum is kept until there is room.
pub const STDERR_QUEUE: usize = 64 << 10;
/// Bytes of one line on the stdin of `attach --pipe-io`. A longer one is one diagnostic and skipped.
pub const PIPE_LINE_MAX: usize = 2 << 20;
/// How long a lost local socket is tried again before the attachment ends.
pub const REATTACH_TIME: Duration = Duration::from_secs(5);
/// Between two tries to attach again: short, because a relay that starts is there at once.
pub const REATTACH_PAUSE: Duration = Duration::from_millis(100);
/// How often a local server may break the record protocol before the attachment ends instead of attaching again.
pub const VIOLATIONS_MAX: u32 = 5;
/// How long an attachment whose input ended waits for acknowledgement, and then for a slow stdout.
pub const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long stdout and stderr each get for what waits when an attachment ends and its parent has left: enough for a
/// stream that is read, little for one that is not. What is not taken by then is dropped.
pub const FLUSH_TIME: Duration = Duration::from_secs(1);
/// How long a person's terminal may take to accept the restoring bytes before the program ends without.
pub const RESTORE_TIME: Duration = Duration::from_secs(2);
/// How long after a size vote its effect is awaited before the parent is told that the size is another.
pub const SIZE_SETTLE: Duration = Duration::from_millis(300);
/// How long a person who detaches waits for the last keys to be acknowledged.
pub const DETACH_TIME: Duration = Duration::from_millis(500);
/// How long a link is down before a person is told: most cuts are shorter, and the line costs a redraw.
pub const STATUS_AFTER: Duration = Duration::from_millis(700);
/// Lines of history in a snapshot when `--history` does not say otherwise.
pub const HISTORY_LINES: u32 = 1_000;
/// Bytes of an escape sequence that are held back to see whether it is a query. A longer one is no query that anybody
/// sends, and passes.
pub const SEQUENCE_HELD: usize = 256;
/// Columns and rows that a size given by a person or a parent may have. More is refused: no screen has them, and a
/// daemon would have to hold them.
pub const SIDE_MAX: u16 = 10_000;

/// How long the lock of a socket is tried to take whose holder is dead: a child of its that was being started has it until
/// it runs its program.
pub const LOCK_TIME: Duration = Duration::from_millis(200);
/// Between two tries to take it.
pub const LOCK_POLL: Duration = Duration::from_millis(10);
/// How long a request waits for a carrier before it fails; then nothing was sent.
pub const CARRIER_WAIT: Duration = Duration::from_secs(2);
/// How long a mutation's answer is held until the document shows it, so that a script reads what it wrote.
pub const RECEIPT_WAIT: Duration = Duration::from_millis(500);
/// Refusals of what the daemon says of the document, in a row, that are repaired: after the last one a stream is started once
/// more, and when that fails too the document is followed again only on the next link.
pub const FAILURES_MAX: u32 = 5;
/// How long the document must be followed without a refusal until earlier ones no longer count.
pub const HEALTHY_TIME: Duration = Duration::from_secs(10);
/// Between two snapshots that are asked for because of rows of a kind that this version does not know: a daemon that makes
/// many of them must not be asked for a document each time.
pub const BARRIER_PAUSE: Duration = Duration::from_secs(1);
/// Own mutations that wait for their answer or for the document: twice the requests that can be under way. Past it the oldest
/// is forgotten, and nobody checks that the document shows it.
pub const PENDING_WRITES_MAX: usize = 1_024;
/// Former generations of a daemon whose snapshots are known to be old. Past it the oldest is forgotten: a snapshot of it
/// would have been under way for as many restarts.
pub const RETIRED_MAX: usize = 64;
/// Streams that a local socket's consumers have open at once, all together: half of what a daemon lets one link have, so
/// that they can never cost the link. A request past it waits for its turn; a stream of events or an attachment is refused
/// as busy.
pub const STREAMS_AT_ONCE: usize = 512;
/// Requests of one consumer that are served at once. The next ones wait unread.
pub const REQUESTS_AT_ONCE: usize = 64;
/// Shortest bound of the wait before a link is tried again; it doubles with each failure.
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest bound of that wait.
pub const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// Between two looks at whether this machine woke, or reaches the daemon from another address. On average a probe comes half
/// of it after the change.
pub const SURROUNDINGS_LOOK: Duration = Duration::from_secs(1);
/// How much later than asked a look must come before it follows that this process or its machine was stopped, which brings a
/// probe: a busy machine is late too.
pub const STOPPED: Duration = Duration::from_secs(2);
/// How long a relay that was refused for good stays to say so to those who ask it.
pub const LAST_WORDS: Duration = Duration::from_millis(50);
/// Wait before a refusal that anybody can forge is asked for again; it doubles up to [`FORGEABLE_LONGEST`].
pub const FORGEABLE_FIRST: Duration = Duration::from_secs(5);
/// Longest wait after a refusal that anybody can forge.
pub const FORGEABLE_LONGEST: Duration = Duration::from_secs(60);
/// Wait between two questions of a device that its daemon's owner has not decided about.
pub const PENDING_RETRY: Duration = Duration::from_secs(5);
/// How long after another link took its link's place a relay believes that it was a late attempt of its own. Within it a
/// second time is another relay of the same device and client id, and this one ends.
pub const SUPERSEDED_AGAIN: Duration = Duration::from_secs(60);
/// Handshakes that the daemon dropped right after an invitation was shown, in a row, before it is believed that the
/// invitation is wrong: a network that cuts does not do so at the same place again and again.
pub const CLAIMS_DROPPED_MAX: u32 = 3;
/// Bytes of a file of this install's state: a few hundred are needed. A longer one is refused.
pub const STATE_FILE_MAX: u64 = 64 << 10;
/// Silence of a daemon that holds a pending device's carrier, which it probes, after which the carrier counts as dead.
pub const PENDING_SILENCE: Duration = Duration::from_secs(10);

/// Alerts that one look at the document shows. Of more the oldest are passed over.
pub const ALERTS_AT_ONCE: usize = 16;
/// Alerts of one machine that are shown in a row. The next ones wait.
pub const ALERTS_BURST: usize = 5;
/// Time that gives one alert of a burst back.
pub const ALERT_PAUSE: Duration = Duration::from_secs(1);
/// Alerts a second that one command shows, of all machines together. The next ones wait.
pub const ALERTS_A_SECOND: u32 = 20;
/// Alerts that wait for a consumer that does not read. Of more the oldest are dropped.
pub const ALERTS_QUEUED: usize = 64;
/// Contents of alerts that are remembered, so that the same one is not shown again. The oldest is forgotten.
pub const ALERTS_RECENT: usize = 256;
/// How long the same content is not shown again.
pub const SAME_ALERT_TIME: Duration = Duration::from_secs(60);

/// Round trip above which typed characters are shown before their echo: below it nobody sees a difference.
pub const PREDICT_ABOVE: Duration = Duration::from_millis(30);
/// How long after the daemon wrote a key its echo may take. Then it is taken for a key that is not echoed.
pub const ECHO_TIME: Duration = Duration::from_millis(50);
/// Characters that are shown before their echo, and that one piece of input may have: more was not typed by hand.
pub const PREDICTED_MAX: usize = 64;
/// Lines of history that an owner may have each terminal keep. More is refused: a resize wraps all of them anew.
pub const HISTORY_LINES_MAX: usize = 1_000_000;
/// MiB of history that an owner may have each terminal keep. More is refused.
pub const HISTORY_MIB_MAX: usize = 1024;
/// How long the preferred route to a machine has a start before the next one is tried beside it (RFC 8305 has the like).
pub const RACE_AFTER: Duration = Duration::from_millis(250);
