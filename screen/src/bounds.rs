//! Every limit of a screen: its unit, its reason, and what happens when it is reached.

/// Columns of a screen, and rows. A size beyond is cut to it.
pub const SIDE_MAX: u16 = 10_000;
/// Fewest columns: a wide character must fit. A narrower size is widened to it.
pub const COLUMNS_MIN: u16 = 2;
/// Cells of a screen, 64 MiB of memory when each has a style of its own. A larger size loses rows.
pub const CELLS_MAX: usize = 4 << 20;
/// Bytes of history unless the owner asks for another number. Past it the oldest lines go.
pub const HISTORY_BYTES: usize = 10 << 20;
/// Lines of history unless the owner asks for another number. Past it the oldest lines go.
pub const HISTORY_LINES: usize = 50_000;
/// Bytes of one escape sequence or control string: real ones are far shorter. A longer one is dropped till its end, and
/// what follows it is shown.
pub const SEQUENCE_MAX: usize = 1 << 20;
/// Bytes of a title, which a program sets at will. A longer one is cut.
pub const TITLE_MAX: usize = 1024;
/// Titles on the title stack; xterm keeps 10. Past it the oldest is forgotten.
pub const TITLE_STACK_MAX: usize = 16;
/// Bytes of a working directory: Linux's `PATH_MAX`. A longer one is ignored.
pub const CWD_MAX: usize = 4096;
/// Bytes of a notification's title or text: more fits on no screen. Longer ones are cut.
pub const NOTIFICATION_MAX: usize = 4096;
/// Entries of each buffer's keyboard mode stack. When it is full the oldest is forgotten, as the kitty protocol asks.
pub const KEYBOARD_STACK_MAX: usize = 16;
/// Bytes of a link's URI and id together. A longer one is no link.
pub const LINK_MAX: usize = 2083;
/// Bytes of the characters of one cell: the longest emoji sequences have 35. More characters are dropped.
pub const CLUSTER_MAX: usize = 64;
/// Different clusters on both screens, and different pairs of link and underline colour. When all are in use, a further
/// character joins no cell, and a further link or underline colour is not kept.
pub const INTERNED_MAX: usize = 1 << 16;
/// Bytes of all such clusters, or of all such links. Past it the same happens.
pub const INTERNED_BYTES_MAX: usize = 4 << 20;
/// Lines of history in a snapshot of the whole, unless another number is asked for.
pub const SNAPSHOT_HISTORY_LINES: usize = 1_000;
