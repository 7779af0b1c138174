//! All that a screen is, line by line, read from its own fields and cells; nothing of the encoders is used but for
//! unpacking history.

use crate::cell::{Cell, Content};
use crate::cursor::Cursor;
use crate::grid::Grid;
use crate::model::Model;
use crate::row::Wrap;
use crate::screen::Screen;
use crate::stream::Stream;
use crate::tables::Tables;

/// What a VT snapshot does not say is left out if `vt`.
pub(crate) fn describe(screen: &Screen, vt: bool) -> Vec<String> {
    let Screen { model, stream, through } = screen;
    let Model {
        columns,
        rows,
        pixels,
        grids,
        shown,
        history,
        tables,
        cursor,
        single_shift,
        saved,
        modes,
        margins,
        tabs,
        printed,
        title,
        titles,
        cwd,
        keyboard,
        modify_other_keys,
        palette,
        marks,
        effects,
        at: _,
    } = model;
    let mut all = vec![format!("size {columns} {rows} {pixels:?} shown {shown}")];
    let mut scratch = Tables::new();
    for (index, line) in history.lines().enumerate() {
        let mut cells = Vec::new();
        line.unpack(&mut scratch, *columns, &mut cells);
        all.push(format!("history {index}: {}", row(&cells, line.wrap(), &scratch)));
    }
    for (name, grid) in ["main", "alternate"].iter().zip(grids) {
        describe_grid(&mut all, name, grid, tables);
    }
    describe_cursor(&mut all, "cursor", cursor, tables);
    describe_cursor(&mut all, "saved in main", &saved[0], tables);
    describe_cursor(&mut all, "saved in alternate", &saved[1], tables);
    all.push(format!("single shift {single_shift:?} printed {printed:?}"));
    all.push(format!("modes {modes:?}"));
    all.push(format!("margins {margins:?}"));
    let stops: Vec<usize> = (0..tabs.len()).filter(|column| tabs[*column]).collect();
    all.push(format!("tabs of {} {stops:?}", tabs.len()));
    all.push(format!("titles {title:?} {titles:?}"));
    all.push(format!("keyboard {keyboard:?} {modify_other_keys}"));
    all.push(format!("palette {palette:?}"));
    let Stream { state, pending, dropping, .. } = stream;
    if !vt || !dropping {
        all.push(format!("half said {state:?} {pending:?} {dropping}"));
    }
    if !vt {
        all.push(format!("cwd {cwd:?} marks {marks:?} {effects:?} through {through}"));
        all.push(format!("ids {} {}..{}", history.epoch, history.first(), history.end()));
    }
    all
}

fn describe_grid(all: &mut Vec<String>, name: &str, grid: &Grid, tables: &Tables) {
    for (place, line) in grid.iter().enumerate() {
        let cells: Vec<Cell> = line.cells().collect();
        all.push(format!("{name} {place}: {}", row(&cells, line.wrap, tables)));
    }
}

fn row(cells: &[Cell], wrap: Wrap, tables: &Tables) -> String {
    let end = cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1);
    let mut text = String::new();
    let mut pen = Cell::BLANK;
    for (column, cell) in cells[..end].iter().enumerate() {
        if cell.style() != pen {
            pen = cell.style();
            text.push_str(&format!("<{:?}>", tables.style(pen)));
        }
        match cell.content() {
            Content::Spacer => {
                assert!(column > 0 && cells[column - 1].is_wide(), "a right half alone");
                text.push('·');
            }
            _ => tables.push_text(*cell, &mut text),
        }
        if cell.is_wide() {
            assert!(cells.get(column + 1).is_some_and(|next| next.is_spacer()), "a left half alone");
        }
        text.push('|');
    }
    format!("{text} {wrap:?}")
}

fn describe_cursor(all: &mut Vec<String>, name: &str, cursor: &Cursor, tables: &Tables) {
    let Cursor { row, column, pending, origin, pen, charsets } = cursor;
    let style = tables.style(*pen);
    all.push(format!("{name} {row} {column} waits {pending} origin {origin} {charsets:?} {style:?}"));
}

#[track_caller]
pub(crate) fn assert_same(context: &str, got: &Screen, wanted: &Screen, vt: bool) {
    let (got, wanted) = (describe(got, vt), describe(wanted, vt));
    let differences: Vec<_> = wanted
        .iter()
        .zip(&got)
        .filter(|(wanted, got)| wanted != got)
        .map(|(wanted, got)| format!("wanted {wanted}\n   got {got}"))
        .collect();
    assert!(
        differences.is_empty() && got.len() == wanted.len(),
        "{context}: {} lines wanted, {} got\n{}",
        wanted.len(),
        got.len(),
        differences.join("\n")
    );
}
