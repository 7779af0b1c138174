//! Every limit of the daemon: its unit, its reason, and what happens when it is reached.

use std::time::Duration;

// # Terminals

/// Bytes of a terminal's newest output that stay readable by offset: a cut of a few seconds is then no lag. Older bytes
/// are forgotten; an attachment that still wanted them gets a snapshot.
pub const OUTPUT_MAX: usize = 1 << 20;
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
/// Bytes of one escape sequence or control string. Real ones are far shorter (a title, a link, a palette); a longer one
/// is dropped whole, and what follows it is shown.
pub const SEQUENCE_MAX: usize = 64 << 10;
/// Bytes of a title, and titles on the stack. A longer title is cut at a character, and the oldest title of a full stack
/// is forgotten.
pub const TITLE_MAX: usize = 512;
/// Titles on the title stack; xterm keeps 10.
pub const TITLE_STACK_MAX: usize = 16;
/// Entries of each screen's keyboard mode stack. When it is full the oldest is forgotten, as the kitty protocol asks.
pub const KEYBOARD_STACK_MAX: usize = 16;
/// Bytes of a hyperlink's URI and id together. A longer one is no link.
pub const LINK_MAX: usize = 2083;
/// Combining characters of one cell. More are dropped.
pub const COMBINING_MAX: usize = 8;
/// Columns of a terminal, and rows. A size beyond is cut to it; below 2 columns the engine never returns.
pub const SIDE_MAX: u16 = 10_000;
/// Fewest columns.
pub const COLUMNS_MIN: u16 = 2;
/// Cells of a screen: 6 MiB of memory, and a snapshot of it without colours still fits one record. A larger size loses
/// rows.
pub const CELLS_MAX: usize = 1 << 18;
/// Lines of history.
pub const HISTORY_LINES_MAX: usize = 10_000;
/// Cells of history, about 64 MiB of memory. Wide terminals keep fewer lines.
pub const HISTORY_CELLS_MAX: usize = (64 << 20) / 24;
/// Lines of history in a snapshot, unless the attaching program asks for another number.
pub const SNAPSHOT_HISTORY_LINES: u32 = 1_000;
/// Bytes of history in a snapshot; the oldest lines are left out.
pub const SNAPSHOT_HISTORY_MAX: usize = 256 << 10;
/// Bytes of a snapshot: less than a message may have. A larger one leaves out history, then colours.
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
