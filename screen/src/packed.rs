//! A row as bytes that need nothing else: how history keeps rows, and how a saved state does.
//!
//! The first byte holds the wrap in its lowest two bits and says whether the rest is plain ASCII text. Other rows go on
//! with two varints (columns, bytes of text), the text, and runs of styles.
//!
//! Text is UTF-8 with markers below the blank: [`WIDE`] before what takes two columns, [`CLUSTER`] and [`END`] around
//! more than one character of a cell. A run of columns with one style begins with a control byte: two bits each for
//! the foreground's and the background's change (0 as before, 1 default, 2 an index follows, 3 red, green and blue
//! follow), a bit each when attributes with underline, and underline colour with link follow, two bits for the number of
//! columns (0: a varint follows). Columns behind the last run have no style.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::bounds::LINK_MAX;
use crate::cell::{Cell, Content};
use crate::row::{Row, Wrap};
use crate::style::{Color, Link};
use crate::tables::{Extra, Tables};

const PLAIN: u8 = 4;
const WIDE: u8 = 1;
const CLUSTER: u8 = 2;
const END: u8 = 3;

const LOOK: u8 = 1 << 4;
const EXTRA: u8 = 1 << 5;
/// Attributes and underline of a cell's look.
const LOOK_MASK: u32 = 0xfff;

/// Styles and for how many columns they go on.
pub(crate) type Runs = VecDeque<(Cell, usize)>;

/// A row as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed(Box<[u8]>);

impl Packed {
    pub(crate) fn of(row: &Row, tables: &Tables) -> Self {
        let length = row.content_len();
        match row.plain() {
            Some(text) => Packed::plain_text(&text[..length], row.wrap),
            None => Packed::of_cells(&row.styled()[..length], row.wrap, tables),
        }
    }

    pub(crate) fn plain_text(text: &[u8], wrap: Wrap) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.push(PLAIN | wrap as u8);
        bytes.extend_from_slice(text);
        Packed(bytes.into_boxed_slice())
    }

    /// Packs whole cells, the last of them not blank.
    pub(crate) fn of_cells(cells: &[Cell], wrap: Wrap, tables: &Tables) -> Self {
        let mut text = Vec::with_capacity(2 * cells.len());
        let mut styles = Vec::new();
        let mut run = (Cell::BLANK, 0);
        let mut before = Cell::BLANK;
        for (column, cell) in cells.iter().enumerate() {
            match cell.content {
                ascii @ 0x20..0x7f => text.push(ascii as u8),
                _ => put_text(&mut text, *cell, tables),
            }
            if !cell.same_style(run.0) {
                put_run(&mut styles, before, run.0, column - run.1, tables);
                before = run.0;
                run = (*cell, column);
            }
        }
        let columns = cells.len();
        run.0 = run.0.style();
        if run.0 != Cell::BLANK {
            put_run(&mut styles, before, run.0, columns - run.1, tables);
        }
        Packed::joined(&text, &styles, columns, wrap)
    }

    /// Packs ASCII text whose styles are those of `runs`, of which as many columns are taken as the text has.
    pub(crate) fn of_runs(text: &[u8], runs: &mut Runs, wrap: Wrap, tables: &Tables) -> Self {
        let mut styles = Vec::new();
        let mut before = Cell::BLANK;
        let mut run = (Cell::BLANK, 0);
        let mut left = text.len();
        while left > 0 {
            let Some((pen, columns)) = runs.front_mut() else {
                break;
            };
            let taken = left.min(*columns);
            left -= taken;
            *columns -= taken;
            if pen.same_style(run.0) {
                run.1 += taken;
            } else {
                put_run(&mut styles, before, run.0, run.1, tables);
                before = run.0;
                run = (*pen, taken);
            }
            if *columns == 0 {
                runs.pop_front();
            }
        }
        let mut text = text;
        if run.0 == Cell::BLANK {
            // Blanks at the end are not kept, as of any row.
            let blanks = text.iter().rev().take(run.1).take_while(|byte| **byte == b' ').count();
            text = &text[..text.len() - blanks];
        } else {
            put_run(&mut styles, before, run.0, run.1, tables);
        }
        Packed::joined(text, &styles, text.len(), wrap)
    }

    fn joined(text: &[u8], styles: &[u8], columns: usize, wrap: Wrap) -> Self {
        if styles.is_empty() && text.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Packed::plain_text(text, wrap);
        }
        let mut bytes = Vec::with_capacity(text.len() + styles.len() + 7);
        bytes.push(wrap as u8);
        put_varint(&mut bytes, columns);
        put_varint(&mut bytes, text.len());
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(styles);
        Packed(bytes.into_boxed_slice())
    }

    /// Adds the row's text and styles if all of it is ASCII; else does nothing and says so.
    pub(crate) fn append_ascii(&self, text: &mut Vec<u8>, runs: &mut Runs, tables: &mut Tables) -> bool {
        if let Some(plain) = self.plain() {
            text.extend_from_slice(plain);
            runs.push_back((Cell::BLANK, plain.len()));
            return true;
        }
        let mut reader = Reader(&self.0[1..]);
        let Some((columns, Reader(row))) = reader.head() else {
            return false;
        };
        if row.len() != columns || !row.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return false;
        }
        text.extend_from_slice(row);
        let mut pen = Cell::BLANK;
        let mut left = columns;
        while let Some((control, columns)) = reader.run() {
            if reader.style(control, &mut pen, tables).is_none() {
                break;
            }
            runs.push_back((pen, columns.min(left)));
            left -= columns.min(left);
        }
        runs.push_back((Cell::BLANK, left));
        true
    }

    /// The row that somebody else packed. Whatever the bytes are, reading them ends and does no harm.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Packed(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn wrap(&self) -> Wrap {
        match self.0.first().map_or(0, |first| first & 3) {
            1 => Wrap::Full,
            2 => Wrap::Short,
            _ => Wrap::No,
        }
    }

    /// The text, if that is all there is.
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        match self.0.split_first() {
            Some((first, text)) if first & PLAIN > 0 => Some(text),
            Some(_) => None,
            None => Some(&[]),
        }
    }

    /// Columns up to the last that is not blank.
    pub(crate) fn columns(&self) -> usize {
        match self.plain() {
            Some(text) => text.len(),
            None => Reader(&self.0[1..]).varint().unwrap_or(0),
        }
    }

    /// Adds the cells of at most `max` columns to `cells`.
    pub(crate) fn unpack(&self, tables: &mut Tables, max: usize, cells: &mut Vec<Cell>) {
        let start = cells.len();
        if let Some(text) = self.plain() {
            // Only printable characters are ever packed so, but the bytes may come from elsewhere.
            let printable = |byte: &u8| {
                if (0x20..0x7f).contains(byte) { *byte } else { b' ' }
            };
            cells.extend(text.iter().take(max).map(|byte| Cell::BLANK.with_ascii(printable(byte))));
            return;
        }
        let mut reader = Reader(&self.0[1..]);
        let Some((columns, mut text)) = reader.head() else {
            return;
        };
        let end = start + columns.min(max);
        cells.reserve(end - start);
        while cells.len() < end {
            if let Some((byte @ 0x20..0x7f, rest)) = text.0.split_first() {
                cells.push(Cell::BLANK.with_ascii(*byte));
                text.0 = rest;
                continue;
            }
            let Some((cell, wide)) = text.cell(tables) else {
                break;
            };
            if wide && cells.len() + 1 >= end {
                break;
            }
            cells.push(cell);
            if wide {
                cells.push(cell.spacer());
            }
        }
        let mut pen = Cell::BLANK;
        let mut rest = &mut cells[start..];
        while let Some((control, columns)) = reader.run() {
            if reader.style(control, &mut pen, tables).is_none() {
                break;
            }
            let (run, behind) = rest.split_at_mut(columns.min(rest.len()));
            for cell in run {
                *cell = Cell { content: cell.content, ..pen };
            }
            rest = behind;
        }
        // A run must not end within a wide cell.
        let mut before = Cell::BLANK;
        for cell in &mut cells[start..] {
            if cell.is_spacer() {
                *cell = before.spacer();
            }
            before = *cell;
        }
    }

    /// Bytes on the heap with what the allocator adds.
    pub(crate) fn memory(&self) -> usize {
        self.0.len() + 16
    }
}

#[inline]
fn put_text(text: &mut Vec<u8>, cell: Cell, tables: &Tables) {
    match cell.content() {
        Content::Spacer => {}
        Content::Char(c) => {
            // At once, as most text that is not ASCII is wide.
            let mut bytes = [WIDE; 5];
            let length = c.encode_utf8(&mut bytes[1..]).len();
            text.extend_from_slice(&bytes[usize::from(!cell.is_wide())..=length]);
        }
        Content::Cluster(number) => {
            if cell.is_wide() {
                text.push(WIDE);
            }
            text.push(CLUSTER);
            text.extend_from_slice(tables.cluster(number).as_bytes());
            text.push(END);
        }
    }
}

fn put_run(styles: &mut Vec<u8>, before: Cell, pen: Cell, columns: usize, tables: &Tables) {
    if columns == 0 {
        // The row begins with a style; nothing came before.
        return;
    }
    let at = styles.len();
    styles.push(0);
    let mut control = 0;
    if columns < 4 {
        control |= (columns as u8) << 6;
    } else {
        put_varint(styles, columns);
    }
    control |= put_color_change(styles, before.foreground, pen.foreground);
    control |= put_color_change(styles, before.background, pen.background) << 2;
    if (before.look ^ pen.look) & LOOK_MASK > 0 {
        control |= LOOK;
        styles.extend_from_slice(&((pen.look & LOOK_MASK) as u16).to_le_bytes());
    }
    if before.extra() != pen.extra() {
        control |= EXTRA;
        let extra = tables.extra(pen);
        styles.extend_from_slice(&extra.underline_color.bits().to_be_bytes());
        let link = extra.link.as_deref();
        for part in [link.map(|link| &link.uri), link.map(|link| &link.id)] {
            let part = part.map_or("", |part| part);
            put_varint(styles, part.len());
            styles.extend_from_slice(part.as_bytes());
        }
    }
    styles[at] = control;
}

fn put_color_change(styles: &mut Vec<u8>, before: u32, color: u32) -> u8 {
    if before == color {
        return 0;
    }
    let kind = 1 + (color >> 24) as u8;
    styles.extend_from_slice(match &color.to_be_bytes() {
        [1, _, _, index @ ..] => index,
        [2, rgb @ ..] => rgb,
        _ => &[],
    });
    kind
}

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads what may have been written by anybody.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Columns and text of a row; the styles remain.
    fn head(&mut self) -> Option<(usize, Reader<'a>)> {
        let columns = self.varint()?;
        let length = self.varint()?;
        Some((columns, Reader(self.take(length)?)))
    }

    /// The next cell of a text, and whether it is wide.
    fn cell(&mut self, tables: &mut Tables) -> Option<(Cell, bool)> {
        let wide = self.0.first() == Some(&WIDE);
        if wide {
            self.byte();
        }
        let cell = if self.0.first() == Some(&CLUSTER) {
            let end = self.0.iter().position(|byte| *byte == END)?;
            let text = std::str::from_utf8(self.take(end + 1)?.get(1..end)?).ok()?;
            match tables.clusters.intern(Arc::from(text)) {
                Some(number) => Cell::BLANK.with_cluster(number, wide),
                None => Cell::BLANK.with_char(text.chars().next()?, wide),
            }
        } else {
            let length = match *self.0.first()? {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            let c = std::str::from_utf8(self.take(length)?).ok()?.chars().next()?;
            Cell::BLANK.with_char(if c.is_control() { ' ' } else { c }, wide)
        };
        Some((cell, wide))
    }

    /// The control byte and the columns of the next run.
    fn run(&mut self) -> Option<(u8, usize)> {
        let control = self.byte()?;
        let columns = match control >> 6 {
            0 => self.varint()?,
            columns => usize::from(columns),
        };
        Some((control, columns))
    }

    fn style(&mut self, control: u8, pen: &mut Cell, tables: &mut Tables) -> Option<()> {
        pen.foreground = self.color(control & 3, pen.foreground)?;
        pen.background = self.color(control >> 2 & 3, pen.background)?;
        if control & LOOK > 0 {
            let bytes = [self.byte()?, self.byte()?];
            pen.look = pen.look & !LOOK_MASK | u32::from(u16::from_le_bytes(bytes)) & LOOK_MASK;
        }
        if control & EXTRA > 0 {
            let color = self.take(4)?.try_into().ok()?;
            let mut string = || {
                let length = self.varint()?;
                let bytes = self.take(length)?;
                Some(std::str::from_utf8(bytes).ok()?.to_owned())
            };
            let (uri, id) = (string()?, string()?);
            let fits = !uri.is_empty() && uri.len() + id.len() <= LINK_MAX;
            let extra = Extra {
                underline_color: Color::from_bits(u32::from_be_bytes(color)),
                link: fits.then(|| Arc::new(Link { id, uri })),
            };
            tables.set_extra(pen, extra);
        }
        Some(())
    }

    fn color(&mut self, kind: u8, before: u32) -> Option<u32> {
        Some(match kind {
            0 => before,
            1 => 0,
            2 => Color::Index(self.byte()?).bits(),
            _ => match self.take(3)? {
                [r, g, b] => Color::Rgb(*r, *g, *b).bits(),
                _ => return None,
            },
        })
    }
}
