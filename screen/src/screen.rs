//! The root type.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bounds::{CELLS_MAX, COLUMNS_MIN, SIDE_MAX};
use crate::cursor::Charsets;
use crate::effects::Effects;
use crate::history::Limits;
use crate::model::Model;
use crate::modes::{ModeFlags, Modes};
use crate::state::{self, Malformed, State};
use crate::stream::Stream;
use crate::style::Style;
use crate::view::{self, Glyph, Line};
use crate::vt;

/// How large a screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Width in pixels, 0 when not known.
    pub x_pixels: u16,
    /// Height in pixels, 0 when not known.
    pub y_pixels: u16,
}

impl Size {
    /// A size in cells.
    #[must_use]
    pub const fn cells(cols: u16, rows: u16) -> Self {
        Size { cols, rows, x_pixels: 0, y_pixels: 0 }
    }

    /// The size within the bounds.
    #[must_use]
    pub fn fit(self) -> Self {
        let cols = self.cols.clamp(COLUMNS_MIN, SIDE_MAX);
        let rows_max = (CELLS_MAX / usize::from(cols)).min(SIDE_MAX.into()) as u16;
        Size { cols, rows: self.rows.clamp(1, rows_max), ..self }
    }
}

/// What a terminal shows and is.
///
/// [`feed`](Self::feed) it the program's output in pieces of any size, and [`resize`](Self::resize) it when the terminal
/// is; do what the [`Effects`] say. Nothing else has an effect. What it is at any moment can be written down in two ways,
/// and either goes on exactly as the screen itself would: [`save`](Self::save) gives data for
/// [`restore`](Self::restore), [`snapshot_vt`](Self::snapshot_vt) gives bytes for any terminal.
#[derive(Clone)]
pub struct Screen {
    pub(crate) model: Model,
    pub(crate) stream: Stream,
    pub(crate) through: u64,
}

impl PartialEq for Screen {
    fn eq(&self, other: &Self) -> bool {
        self.save() == other.save()
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size()).field("through", &self.through).finish_non_exhaustive()
    }
}

impl Screen {
    /// An empty screen of this size, cut to the bounds.
    #[must_use]
    pub fn new(size: Size, limits: Limits) -> Self {
        let size = size.fit();
        let mut model = Model::new(size.cols.into(), size.rows.into(), limits);
        model.pixels = (size.x_pixels, size.y_pixels);
        Screen { model, stream: Stream::default(), through: 0 }
    }

    /// Takes the program's next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Effects {
        self.model.at = 0;
        self.stream.feed(&mut self.model, bytes);
        self.through += bytes.len() as u64;
        std::mem::take(&mut self.model.effects)
    }

    /// Gives the screen another size, cut to the bounds. The main screen and its history are wrapped anew, the alternate
    /// screen is not; margins go.
    pub fn resize(&mut self, size: Size) {
        let size = size.fit();
        self.model.resize(size.cols.into(), size.rows.into());
        self.model.pixels = (size.x_pixels, size.y_pixels);
    }

    /// The offset of the first output byte that was not fed yet.
    #[must_use]
    pub fn through(&self) -> u64 {
        self.through
    }

    /// The size.
    #[must_use]
    pub fn size(&self) -> Size {
        Size {
            cols: self.model.columns as u16,
            rows: self.model.rows as u16,
            x_pixels: self.model.pixels.0,
            y_pixels: self.model.pixels.1,
        }
    }

    /// How much history is kept.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.model.history.limits
    }

    /// The title, empty for none.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.model.title
    }

    /// The working directory that the program reported last.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.model.cwd.as_deref()
    }

    /// Column and row of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        (self.model.cursor.column as u16, self.model.cursor.row as u16)
    }

    /// Whether a character that is typed and echoed now appears at the cursor and does nothing else: neither a sequence nor an
    /// update is under way, and no mode or character set makes something else of it.
    #[must_use]
    pub fn writes_plainly(&self) -> bool {
        let Model { cursor, modes, .. } = &self.model;
        let odd = modes.flags & (ModeFlags::INSERT | ModeFlags::SYNCHRONIZED);
        !cursor.origin
            && !cursor.pending
            && cursor.charsets == Charsets::default()
            && self.model.single_shift.is_none()
            && odd.is_empty()
            && modes.flags.contains(ModeFlags::CURSOR_VISIBLE)
            && self.stream.tail().is_empty()
    }

    /// How text that is written now looks.
    #[must_use]
    pub fn pen(&self) -> Style {
        self.model.tables.style(self.model.cursor.pen)
    }

    /// The modes that matter to who sends keys and draws the cursor.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.model.modes
    }

    /// Whether the private mode with this number is set, by DECRQM's numbers; nothing for one that there is not.
    #[must_use]
    pub fn private_mode(&self, mode: u16) -> Option<bool> {
        self.model.private_mode(mode)
    }

    /// Whether the alternate screen is shown.
    #[must_use]
    pub fn alternate(&self) -> bool {
        self.model.shown == 1
    }

    /// The flags of the kitty keyboard protocol in force.
    #[must_use]
    pub fn keyboard_flags(&self) -> u8 {
        self.model.keyboard[self.model.shown].last().copied().unwrap_or(0)
    }

    /// The level of modifyOtherKeys.
    #[must_use]
    pub fn modify_other_keys(&self) -> u8 {
        self.model.modify_other_keys
    }

    /// The rows from the top, trailing blanks cut; with SGR sequences if `ansi`.
    #[must_use]
    pub fn rows(&self, ansi: bool) -> Vec<String> {
        self.model.rows_as_text(ansi)
    }

    /// The rows from the top, with their styles.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.model.lines()
    }

    /// What stands in this row and column, from 0; a blank where there is none.
    #[must_use]
    pub fn glyph(&self, row: u16, column: u16) -> Glyph {
        let grid = &self.model.grids[self.model.shown];
        let row = usize::from(row).min(grid.len() - 1);
        view::glyph(grid[row].cell(column.into()), &self.model.tables)
    }

    /// Counts the ranges of line ids: each resize, and each clearing of the history, begins a new one.
    #[must_use]
    pub fn history_epoch(&self) -> u64 {
        self.model.history.epoch
    }

    /// The ids of the lines of history, oldest first. They go on with the rows of the main screen; output never moves a
    /// line to another id.
    #[must_use]
    pub fn history(&self) -> Range<u64> {
        self.model.history.first()..self.model.history.end()
    }

    /// The line of history, or the row of the main screen, with this id in the present epoch.
    #[must_use]
    pub fn line(&self, id: u64) -> Option<Line> {
        self.model.line_by_id(id)
    }

    /// The text of that line, trailing blanks cut, with SGR sequences if `ansi`; and whether it goes on in the next one.
    #[must_use]
    pub fn line_text(&self, id: u64, ansi: bool) -> Option<(String, bool)> {
        self.model.text_by_id(id, ansi)
    }

    /// The ids of the lines that the last command wrote, as far as they are kept, if the shell marks commands (OSC 133).
    #[must_use]
    pub fn command_output(&self) -> Option<Range<u64>> {
        let marks = self.model.marks;
        let output = marks.output?;
        let end = marks.end.unwrap_or(self.model.place());
        // What ends at the beginning of a line has nothing on it.
        let end = end.line + u64::from(end.column > 0);
        let first = self.model.history.first();
        Some(output.line.max(first)..end.max(output.line).max(first))
    }

    /// The status of the last command that ended, if the shell says one.
    #[must_use]
    pub fn command_status(&self) -> Option<i32> {
        self.model.marks.status
    }

    /// A number for what is seen (size, rows with styles, cursor): the same on every machine, and other when anything of
    /// it is other, but for one chance in 2^64.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.model.digest()
    }

    /// The whole state as data.
    #[must_use]
    pub fn save(&self) -> State {
        state::save(self)
    }

    /// The screen with this state.
    ///
    /// # Errors
    ///
    /// When it is no state of a screen, which [`save`](Self::save) never gives.
    pub fn restore(state: State) -> Result<Self, Malformed> {
        state::restore(state)
    }

    /// The state as VT bytes for a fresh terminal of the same size: at most `history_lines` lines of history, as far as
    /// they fit `history_bytes`, oldest first, then the screen, and last what is half said. The bytes ask nothing of the
    /// terminal that they are given to.
    #[must_use]
    pub fn snapshot_vt(&self, history_lines: usize, history_bytes: usize) -> Vec<u8> {
        let mut bytes = vt::snapshot(&self.model, history_lines, history_bytes);
        bytes.extend(self.stream.tail());
        bytes
    }

    /// Bytes of memory that the screen takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let model = &self.model;
        let grids: usize = model.grids.iter().map(crate::grid::Grid::memory).sum();
        let texts = model.title.len() + model.titles.iter().map(String::len).sum::<usize>();
        size_of::<Self>()
            + grids
            + model.history.memory()
            + model.tables.memory()
            + model.tabs.capacity()
            + self.stream.pending.capacity()
            + texts
            + model.palette.len() * 8
    }

    /// Gives back memory that holds nothing, for a screen that rests.
    pub fn shrink(&mut self) {
        self.model.grids.iter_mut().for_each(crate::grid::Grid::shrink);
        self.model.history.shrink();
        self.stream.pending.shrink_to_fit();
    }
}
