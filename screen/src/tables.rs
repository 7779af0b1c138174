//! What cells have by number: clusters of characters, and links with underline colours.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bounds::{INTERNED_BYTES_MAX, INTERNED_MAX};
use crate::cell::{Cell, Content};
use crate::style::{Color, Link, Style};

/// Below so many entries nothing is collected: the search costs more than they do.
const COLLECT_FROM: usize = 256;

/// What few cells have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extra {
    pub(crate) underline_color: Color,
    pub(crate) link: Option<Arc<Link>>,
}

/// Something that takes memory beyond its own size.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

impl Weight for Arc<str> {
    fn weight(&self) -> usize {
        self.len()
    }
}

impl Weight for Extra {
    fn weight(&self) -> usize {
        self.link.as_ref().map_or(0, |link| link.id.len() + link.uri.len())
    }
}

/// Values that each have one number, from 1.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    numbers: BTreeMap<T, u32>,
    values: Vec<Option<T>>,
    free: Vec<u32>,
    bytes: usize,
    collect_at: usize,
}

impl<T: Clone + Ord + Weight> Interned<T> {
    fn new() -> Self {
        Interned { numbers: BTreeMap::new(), values: Vec::new(), free: Vec::new(), bytes: 0, collect_at: COLLECT_FROM }
    }

    pub(crate) fn value(&self, number: u32) -> Option<&T> {
        self.values.get((number as usize).checked_sub(1)?)?.as_ref()
    }

    /// Whether unused entries should be looked for before the next one comes.
    fn wants_collection(&self) -> bool {
        self.numbers.len() >= self.collect_at || self.bytes > INTERNED_BYTES_MAX
    }

    /// The number of `value`; nothing when there is no room for it.
    pub(crate) fn intern(&mut self, value: T) -> Option<u32> {
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        if self.numbers.len() >= INTERNED_MAX || self.bytes > INTERNED_BYTES_MAX {
            return None;
        }
        self.bytes += value.weight();
        let number = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            self.values.len() as u32
        });
        self.values[number as usize - 1] = Some(value.clone());
        self.numbers.insert(value, number);
        Some(number)
    }

    /// Forgets the entries that are not `used`.
    fn keep(&mut self, used: &[bool]) {
        let forgotten = |number: &u32| !used.get(*number as usize).copied().unwrap_or(false);
        let free: Vec<u32> = self.numbers.values().copied().filter(forgotten).collect();
        for number in free {
            if let Some(value) = self.values[number as usize - 1].take() {
                self.bytes -= value.weight();
                self.numbers.remove(&value);
                self.free.push(number);
            }
        }
        if self.numbers.is_empty() {
            *self = Interned::new();
        }
        self.collect_at = (2 * self.numbers.len()).clamp(COLLECT_FROM, INTERNED_MAX);
    }

    fn memory(&self) -> usize {
        self.numbers.len() * (3 * size_of::<T>() + 32) + self.bytes + self.values.capacity() * size_of::<T>()
    }
}

/// Both tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) clusters: Interned<Arc<str>>,
    pub(crate) extras: Interned<Extra>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Tables { clusters: Interned::new(), extras: Interned::new() }
    }

    /// Whether [`collect`](Self::collect) should be called before more is interned.
    pub(crate) fn want_collection(&self) -> bool {
        self.clusters.wants_collection() || self.extras.wants_collection()
    }

    /// Forgets what none of these cells has.
    pub(crate) fn collect(&mut self, cells: impl Iterator<Item = Cell>) {
        let mut clusters = vec![false; self.clusters.values.len() + 1];
        let mut extras = vec![false; self.extras.values.len() + 1];
        for cell in cells {
            if let Content::Cluster(number) = cell.content() {
                clusters[number as usize] = true;
            }
            extras[cell.extra() as usize] = true;
        }
        self.clusters.keep(&clusters);
        self.extras.keep(&extras);
    }

    pub(crate) fn extra(&self, cell: Cell) -> Extra {
        self.extras.value(cell.extra()).cloned().unwrap_or_default()
    }

    /// Gives the pen this underline colour and link, as far as there is room for them.
    pub(crate) fn set_extra(&mut self, pen: &mut Cell, extra: Extra) {
        let number = if extra == Extra::default() { 0 } else { self.extras.intern(extra).unwrap_or(0) };
        pen.set_extra(number);
    }

    /// Adds the cell's text to `text`; none for a right half.
    pub(crate) fn push_text(&self, cell: Cell, text: &mut String) {
        match cell.content() {
            Content::Char(c) => text.push(c),
            Content::Cluster(number) => text.push_str(self.cluster(number)),
            Content::Spacer => {}
        }
    }

    pub(crate) fn cluster(&self, number: u32) -> &str {
        self.clusters.value(number).map_or("\u{fffd}", |text| text)
    }

    pub(crate) fn style(&self, cell: Cell) -> Style {
        let extra = self.extra(cell);
        Style {
            foreground: Color::from_bits(cell.foreground),
            background: Color::from_bits(cell.background),
            attributes: cell.attributes(),
            underline: cell.underline(),
            underline_color: extra.underline_color,
            link: extra.link,
        }
    }

    /// A blank in this style.
    pub(crate) fn pen(&mut self, style: &Style) -> Cell {
        let mut pen = Cell::BLANK;
        pen.set_foreground(style.foreground);
        pen.set_background(style.background);
        pen.set_attributes(style.attributes, true);
        pen.set_underline(style.underline);
        let extra = Extra { underline_color: style.underline_color, link: style.link.clone() };
        self.set_extra(&mut pen, extra);
        pen
    }

    pub(crate) fn memory(&self) -> usize {
        self.clusters.memory() + self.extras.memory()
    }
}
