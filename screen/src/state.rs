//! A screen as plain data, to be kept or sent and made a screen again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::bounds::{KEYBOARD_STACK_MAX, SEQUENCE_MAX, TITLE_MAX, TITLE_STACK_MAX};
use crate::cursor::{Charsets, Cursor};
use crate::grid::Grid;
use crate::history::Limits;
use crate::model::{Margins, Marks, Model};
use crate::modes::{MOUSE, MOUSE_ENCODINGS, Modes};
use crate::packed::{Packed, Reader, put_varint};
use crate::palette::{CURSOR, Rgb};
use crate::screen::{Screen, Size};
use crate::stream::{State as Place, Stream};
use crate::style::Style;

/// The whole state of a [`Screen`]: what [`Screen::save`] gives and [`Screen::restore`] takes.
///
/// Two screens are alike when their states are equal. Rows are packed as the module `packed` describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    size: Size,
    limits: Limits,
    through: u64,
    epoch: u64,
    first: u64,
    history: ByteBuf,
    /// The main and the alternate buffer.
    grids: [ByteBuf; 2],
    alternate: bool,
    cursor: SavedCursor,
    saved: [SavedCursor; 2],
    single_shift: Option<u8>,
    modes: Modes,
    margins: Margins,
    tabs: Vec<bool>,
    printed: Option<char>,
    title: String,
    titles: Vec<String>,
    cwd: Option<String>,
    keyboard: [Vec<u8>; 2],
    modify_other_keys: u8,
    palette: BTreeMap<u16, Rgb>,
    marks: Marks,
    place: Place,
    pending: ByteBuf,
    dropping: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedCursor {
    row: usize,
    column: usize,
    pending: bool,
    origin: bool,
    style: Style,
    charsets: Charsets,
}

/// A state that no screen is ever in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("the saved state of a screen is malformed")
    }
}

impl std::error::Error for Malformed {}

pub(crate) fn save(screen: &Screen) -> State {
    let Screen { model, stream, through } = screen;
    let cursor = |cursor: &Cursor| SavedCursor {
        row: cursor.row,
        column: cursor.column,
        pending: cursor.pending,
        origin: cursor.origin,
        style: model.tables.style(cursor.pen),
        charsets: cursor.charsets,
    };
    let grid = |grid: &Grid| {
        let mut bytes = Vec::new();
        for row in grid.iter() {
            put_line(&mut bytes, &Packed::of(row, &model.tables));
        }
        ByteBuf::from(bytes)
    };
    let mut history = Vec::new();
    model.history.lines().for_each(|line| put_line(&mut history, line));
    State {
        size: screen.size(),
        limits: model.history.limits,
        through: *through,
        epoch: model.history.epoch,
        first: model.history.first(),
        history: history.into(),
        grids: [grid(&model.grids[0]), grid(&model.grids[1])],
        alternate: model.shown == 1,
        cursor: cursor(&model.cursor),
        saved: [cursor(&model.saved[0]), cursor(&model.saved[1])],
        single_shift: model.single_shift,
        modes: model.modes,
        margins: model.margins,
        tabs: model.tabs.clone(),
        printed: model.printed,
        title: model.title.clone(),
        titles: model.titles.clone(),
        cwd: model.cwd.clone(),
        keyboard: model.keyboard.clone(),
        modify_other_keys: model.modify_other_keys,
        palette: model.palette.clone(),
        marks: model.marks,
        place: stream.state,
        pending: stream.pending.clone().into(),
        dropping: stream.dropping,
    }
}

fn put_line(bytes: &mut Vec<u8>, line: &Packed) {
    put_varint(bytes, line.bytes().len());
    bytes.extend_from_slice(line.bytes());
}

pub(crate) fn restore(state: State) -> Result<Screen, Malformed> {
    if !valid(&state) {
        return Err(Malformed);
    }
    let (columns, rows) = (usize::from(state.size.cols), usize::from(state.size.rows));
    let mut model = Model::new(columns, rows, state.limits);
    let mut history = Reader(&state.history);
    let lines = std::iter::from_fn(|| line(&mut history));
    model.history.begin(state.epoch, state.first, lines);
    let mut cells = Vec::new();
    for (index, bytes) in state.grids.iter().enumerate() {
        let mut reader = Reader(bytes);
        for row in 0..rows {
            let line = line(&mut reader).ok_or(Malformed)?;
            model.load_row(index, row, &line, &mut cells);
        }
    }
    let mut cursor = |saved: &SavedCursor| Cursor {
        row: saved.row,
        column: saved.column,
        pending: saved.pending,
        origin: saved.origin,
        pen: model.tables.pen(&saved.style),
        charsets: saved.charsets,
    };
    model.cursor = cursor(&state.cursor);
    model.saved = [cursor(&state.saved[0]), cursor(&state.saved[1])];
    model.pixels = (state.size.x_pixels, state.size.y_pixels);
    model.shown = usize::from(state.alternate);
    model.single_shift = state.single_shift;
    model.modes = state.modes;
    model.margins = state.margins;
    model.tabs = state.tabs;
    model.printed = state.printed;
    model.title = state.title;
    model.titles = state.titles;
    model.cwd = state.cwd;
    model.keyboard = state.keyboard;
    model.modify_other_keys = state.modify_other_keys;
    model.palette = state.palette;
    model.marks = state.marks;
    let mut stream = Stream::default();
    stream.state = state.place;
    stream.pending = state.pending.into_vec();
    stream.dropping = state.dropping;
    Ok(Screen { model, stream, through: state.through })
}

fn line(reader: &mut Reader) -> Option<Packed> {
    let length = reader.varint()?;
    Some(Packed::from_bytes(reader.take(length)?))
}

/// Whether all that is counted on elsewhere holds.
fn valid(state: &State) -> bool {
    let Size { cols, rows, .. } = state.size;
    let (columns, rows) = (usize::from(cols), usize::from(rows));
    let Margins { top, bottom, left, right } = state.margins;
    let cursors = [&state.cursor, &state.saved[0], &state.saved[1]];
    let mouse = |kinds: &[u16], mode: u16| mode == 0 || kinds.contains(&mode);
    let text = |text: &String| !text.chars().any(char::is_control);
    state.size == state.size.fit()
        && top <= bottom
        && bottom < rows
        && left < right
        && right < columns
        && cursors.iter().all(|cursor| {
            let link = cursor.style.link.as_deref();
            cursor.row < rows
                && cursor.column < columns
                && cursor.charsets.active < 4
                && link.is_none_or(|link| text(&link.id) && text(&link.uri))
        })
        && state.tabs.len() == columns
        && state.single_shift.is_none_or(|set| set == 2 || set == 3)
        && state.modes.cursor_style <= 6
        && mouse(&MOUSE, state.modes.mouse)
        && mouse(&MOUSE_ENCODINGS, state.modes.mouse_encoding)
        && state.titles.len() <= TITLE_STACK_MAX
        && state.titles.iter().chain([&state.title]).all(|title| title.len() <= TITLE_MAX && text(title))
        && state.keyboard.iter().all(|stack| (1..=KEYBOARD_STACK_MAX).contains(&stack.len()))
        && state.modify_other_keys <= 3
        && state.palette.keys().all(|number| *number <= CURSOR)
        && state.pending.len() <= SEQUENCE_MAX
        && place_fits(state)
}

/// Whether the kept bytes are such as the place in the stream has them.
fn place_fits(state: &State) -> bool {
    let begins = |bytes: &[u8]| state.dropping || state.pending.starts_with(bytes);
    match state.place {
        Place::Ground => state.pending.is_empty() && !state.dropping,
        Place::Character => {
            let error = std::str::from_utf8(&state.pending).err();
            error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        }
        Place::Osc | Place::OscEscape => begins(b"\x1b]"),
        Place::Dcs | Place::DcsEscape => begins(b"\x1bP"),
        Place::Csi => begins(b"\x1b["),
        _ => begins(b"\x1b"),
    }
}
