//! Who is attached to a terminal, how far they have read, and which size they vote for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keepline_protocol::api::Size;

use super::screen::fit;

struct Seat {
    vote: Option<Size>,
    present: bool,
    /// When it was last active, as [`Seats::moves`] counts.
    active: u64,
    read: Arc<AtomicU64>,
}

/// Who decides a terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The least columns and the least rows of all votes, each by itself.
    Smallest,
    /// The vote of who attached, typed or voted last.
    Latest,
    /// Whoever said so.
    Pinned(Size),
}

/// The attachments of one terminal, and the size policy.
pub(super) struct Seats {
    seats: HashMap<u64, Seat>,
    next: u64,
    /// Counts what attachments do.
    moves: u64,
    policy: Policy,
    /// The size that the terminal was told last.
    size: Size,
}

impl Seats {
    pub(super) fn new(size: Size) -> Self {
        Seats { seats: HashMap::new(), next: 0, moves: 0, policy: Policy::Smallest, size }
    }

    /// Takes a seat, and returns its number and where its reader notes the offset it has read.
    pub(super) fn sit(&mut self, vote: Option<Size>) -> (u64, Arc<AtomicU64>) {
        let number = self.next;
        self.next += 1;
        let read = Arc::new(AtomicU64::new(0));
        let seat = Seat { vote: vote.filter(stated), present: true, active: 0, read: Arc::clone(&read) };
        self.seats.insert(number, seat);
        self.acted(number);
        (number, read)
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.seats.remove(&number);
    }

    pub(super) fn vote(&mut self, number: u64, size: Size) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.vote = Some(size).filter(stated);
        }
        self.acted(number);
    }

    /// Somebody typed there, attached or voted; says whether that may decide the size.
    pub(super) fn acted(&mut self, number: u64) -> bool {
        self.moves += 1;
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.active = self.moves;
        }
        self.policy == Policy::Latest
    }

    /// Whether the seat's vote counts.
    pub(super) fn set_present(&mut self, number: u64, present: bool) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.present = present;
        }
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The size that the terminal was told last.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Decides anew, and returns the size when it is another one.
    pub(super) fn settle(&mut self) -> Option<Size> {
        // Without votes the size stays.
        let size = match self.policy {
            Policy::Pinned(size) => fit(size),
            Policy::Smallest => self.smallest().unwrap_or(self.size),
            Policy::Latest => self.latest().unwrap_or(self.size),
        };
        let changed = size != self.size;
        self.size = size;
        changed.then_some(size)
    }

    /// Whether everybody has read everything below `head`.
    pub(super) fn caught_up(&self, head: u64) -> bool {
        self.seats.values().all(|seat| seat.read.load(Ordering::Relaxed) >= head)
    }

    fn voters(&self) -> impl Iterator<Item = (&Seat, Size)> {
        self.seats.values().filter(|seat| seat.present).filter_map(|seat| Some((seat, seat.vote?)))
    }

    fn smallest(&self) -> Option<Size> {
        let votes = || self.voters().map(|(_, size)| size);
        let narrowest = votes().min_by_key(|size| (size.cols, size.x_pixels))?;
        let lowest = votes().min_by_key(|size| (size.rows, size.y_pixels))?;
        Some(fit(Size {
            cols: narrowest.cols,
            rows: lowest.rows,
            x_pixels: narrowest.x_pixels,
            y_pixels: lowest.y_pixels,
        }))
    }

    fn latest(&self) -> Option<Size> {
        self.voters().max_by_key(|(seat, _)| seat.active).map(|(_, size)| fit(size))
    }
}

/// A size of no columns or rows is what a program without a terminal says: no vote.
fn stated(size: &Size) -> bool {
    size.cols > 0 && size.rows > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_each_side_counts_and_the_last_size_stays() {
        let mut seats = Seats::new(Size::cells(80, 24));
        assert_eq!(seats.settle(), None);
        let (wide, _) = seats.sit(Some(Size::cells(200, 20)));
        assert_eq!(seats.settle(), Some(Size::cells(200, 20)));
        let (tall, _) = seats.sit(Some(Size::cells(100, 50)));
        let (_observer, _) = seats.sit(None);
        let (_pipe, _) = seats.sit(Some(Size::cells(0, 0)));
        assert_eq!(seats.settle(), Some(Size::cells(100, 20)));
        seats.set_present(wide, false);
        assert_eq!(seats.settle(), Some(Size::cells(100, 50)));
        seats.set_policy(Policy::Pinned(Size::cells(1, 1)));
        assert_eq!(seats.settle(), Some(Size::cells(2, 1)));
        seats.set_policy(Policy::Smallest);
        seats.vote(tall, Size::cells(90, 30));
        assert_eq!(seats.settle(), Some(Size::cells(90, 30)));
        seats.leave(wide);
        seats.leave(tall);
        assert_eq!(seats.settle(), None);
        assert_eq!(seats.size(), Size::cells(90, 30));
    }

    #[test]
    fn the_latest_is_who_attached_voted_or_typed_last_and_is_there() {
        let mut seats = Seats::new(Size::cells(80, 24));
        seats.set_policy(Policy::Latest);
        let (first, _) = seats.sit(Some(Size::cells(100, 30)));
        let (second, _) = seats.sit(Some(Size::cells(200, 50)));
        let (observer, _) = seats.sit(None);
        assert_eq!(seats.settle(), Some(Size::cells(200, 50)));
        assert!(seats.acted(first));
        assert_eq!(seats.settle(), Some(Size::cells(100, 30)));
        seats.acted(observer);
        assert_eq!(seats.settle(), None, "who has no vote decides nothing");
        seats.vote(second, Size::cells(201, 51));
        assert_eq!(seats.settle(), Some(Size::cells(201, 51)));
        seats.set_present(second, false);
        assert_eq!(seats.settle(), Some(Size::cells(100, 30)));
        seats.leave(first);
        assert_eq!(seats.settle(), None);
    }
}
