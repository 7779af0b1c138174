//! How the panes of a screen share it: a tree of splits whose leaves are panes.

use keepline_protocol::api::layout::Ratio;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::PaneId;
use serde::{Deserialize, Serialize};

/// How the two sides of a split stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Side by side, the first on the left.
    Horizontal,
    /// Stacked, the first above.
    Vertical,
}

/// On which side of a pane another one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    direction: Direction,
    first: bool,
}

impl Side {
    /// The side that a word means.
    ///
    /// # Errors
    /// [`Code::Invalid`] for another word than `right`, `down`, `left` and `up`.
    pub fn parse(word: &str) -> Result<Self, Failure> {
        let (direction, first) = match word {
            "right" => (Direction::Horizontal, false),
            "left" => (Direction::Horizontal, true),
            "down" => (Direction::Vertical, false),
            "up" => (Direction::Vertical, true),
            _ => {
                let message = "a pane goes right, down, left or up of another one";
                return Err(Failure::new(Code::Invalid, message));
            }
        };
        Ok(Side { direction, first })
    }
}

/// A screen, or a side of a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Layout {
    /// One pane.
    Leaf {
        /// The pane.
        pane_id: PaneId,
    },
    /// Two sides.
    Split {
        /// How they stand.
        direction: Direction,
        /// The part of the first.
        ratio: Ratio,
        /// The left or upper one.
        first: Box<Layout>,
        /// The right or lower one.
        second: Box<Layout>,
    },
}

impl Layout {
    /// The panes, from the upper left.
    #[must_use]
    pub fn panes(&self) -> Vec<PaneId> {
        match self {
            Layout::Leaf { pane_id } => vec![*pane_id],
            Layout::Split { first, second, .. } => {
                let mut panes = first.panes();
                panes.extend(second.panes());
                panes
            }
        }
    }

    /// Splits the leaf `beside` and puts `pane` on one side of it.
    pub(super) fn insert(&mut self, beside: PaneId, pane: PaneId, side: Side, ratio: Ratio) {
        match self {
            Layout::Leaf { pane_id } if *pane_id == beside => {
                let (old, new) = (self.clone(), Layout::Leaf { pane_id: pane });
                let (first, second) = if side.first { (new, old) } else { (old, new) };
                *self = Layout::Split {
                    direction: side.direction,
                    ratio,
                    first: Box::new(first),
                    second: Box::new(second),
                };
            }
            Layout::Leaf { .. } => {}
            Layout::Split { first, second, .. } => {
                first.insert(beside, pane, side, ratio);
                second.insert(beside, pane, side, ratio);
            }
        }
    }

    /// The layout without `pane`, whose split its other side takes; nothing when it was the only one.
    pub(super) fn without(self, pane: PaneId) -> Option<Self> {
        match self {
            Layout::Leaf { pane_id } => (pane_id != pane).then_some(self),
            Layout::Split { direction, ratio, first, second } => match (first.without(pane), second.without(pane)) {
                (Some(first), Some(second)) => {
                    Some(Layout::Split { direction, ratio, first: Box::new(first), second: Box::new(second) })
                }
                (first, second) => first.or(second),
            },
        }
    }

    /// Gives `pane` this part of the split that it is a side of; false when it is a side of none.
    pub(super) fn resize(&mut self, pane: PaneId, part: Ratio) -> bool {
        let Layout::Split { ratio, first, second, .. } = self else {
            return false;
        };
        let is = |side: &Layout| matches!(side, Layout::Leaf { pane_id } if *pane_id == pane);
        if is(first) {
            *ratio = part;
        } else if is(second) {
            *ratio = part.other_side();
        } else {
            return first.resize(pane, part) || second.resize(pane, part);
        }
        true
    }
}
