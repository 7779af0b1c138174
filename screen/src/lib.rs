//! The terminal model: what a program's output makes of a screen, exactly.
//!
//! ```text
//!   bytes ─► stream ─┬─ text ──────► print ─┐
//!                    └─ sequences ─► dispatch, strings ─► motion, edit, sgr, replies
//!                                           │
//!                   model: grids of rows of cells, cursor, modes … ─► history (packed rows)
//!                                           │
//!                        save ─ State ─ restore     snapshot_vt     rows, lines, digest
//! ```
//!
//! It is pure: no clock, no I/O, no randomness, no tasks; `clippy.toml` says so. It knows nothing of PTYs, links or the
//! protocol. No bytes and no size make it panic, and all that it keeps is bounded ([`bounds`]). Start reading at
//! [`Screen`]; `spec/screen.md` says what it answers, how wide text is, and what snapshots cannot say.

pub mod bounds;
mod cell;
mod codes;
mod cursor;
mod dispatch;
mod edit;
mod effects;
mod grid;
mod history;
mod input;
mod model;
mod modes;
mod motion;
mod numbers;
mod packed;
mod palette;
mod print;
mod replies;
mod resize;
mod row;
mod screen;
mod sgr;
mod state;
mod stream;
mod strings;
mod style;
mod tables;
mod view;
mod vt;
mod width;

pub use effects::{Effects, Event, Mark, Occurrence, Reply};
pub use history::Limits;
pub use input::{Action, Key, Mouse};
pub use modes::{ModeFlags, Modes};
pub use screen::{Screen, Size};
pub use state::{Malformed, State};
pub use style::{Attributes, Color, Link, Style, Underline};
pub use view::{Glyph, Line, Run};

#[cfg(test)]
mod tests;
