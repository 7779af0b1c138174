//! Who is attached to a terminal, how far they have read, and which size they vote for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keepline_protocol::api::Size;

use super::screen::fit;

struct Seat {
    vote: Option<Size>,
    present: bool,
    read: Arc<AtomicU64>,
}

/// The attachments of one terminal, and the size policy: `smallest`, or a pinned size.
pub(super) struct Seats {
    seats: HashMap<u64, Seat>,
    next: u64,
    pinned: Option<Size>,
    /// The size that the terminal was told last.
    size: Size,
}

impl Seats {
    pub(super) fn new(size: Size) -> Self {
        Seats { seats: HashMap::new(), next: 0, pinned: None, size }
    }

    /// Takes a seat, and returns its number and where its reader notes the offset it has read.
    pub(super) fn sit(&mut self, vote: Option<Size>) -> (u64, Arc<AtomicU64>) {
        let number = self.next;
        self.next += 1;
        let read = Arc::new(AtomicU64::new(0));
        let seat = Seat { vote: vote.filter(stated), present: true, read: Arc::clone(&read) };
        self.seats.insert(number, seat);
        (number, read)
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.seats.remove(&number);
    }

    pub(super) fn vote(&mut self, number: u64, size: Size) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.vote = Some(size).filter(stated);
        }
    }

    /// Whether the seat's vote counts.
    pub(super) fn set_present(&mut self, number: u64, present: bool) {
        if let Some(seat) = self.seats.get_mut(&number) {
            seat.present = present;
        }
    }

    pub(super) fn pin(&mut self, size: Option<Size>) {
        self.pinned = size.filter(stated);
    }

    /// The size that the terminal was told last.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Decides anew, and returns the size when it is another one.
    pub(super) fn settle(&mut self) -> Option<Size> {
        let size = self.pinned.map_or_else(|| self.smallest(), fit);
        let changed = size != self.size;
        self.size = size;
        changed.then_some(size)
    }

    /// Whether everybody has read everything below `head`.
    pub(super) fn caught_up(&self, head: u64) -> bool {
        self.seats.values().all(|seat| seat.read.load(Ordering::Relaxed) >= head)
    }

    /// The least columns and the least rows, each by itself; without votes the size stays.
    fn smallest(&self) -> Size {
        let votes = || self.seats.values().filter(|seat| seat.present).filter_map(|seat| seat.vote);
        let (Some(narrowest), Some(lowest)) = (
            votes().min_by_key(|size| (size.cols, size.x_pixels)),
            votes().min_by_key(|size| (size.rows, size.y_pixels)),
        ) else {
            return self.size;
        };
        fit(Size { cols: narrowest.cols, rows: lowest.rows, x_pixels: narrowest.x_pixels, y_pixels: lowest.y_pixels })
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
        seats.pin(Some(Size::cells(1, 1)));
        assert_eq!(seats.settle(), Some(Size::cells(2, 1)));
        seats.pin(None);
        seats.vote(tall, Size::cells(90, 30));
        assert_eq!(seats.settle(), Some(Size::cells(90, 30)));
        seats.leave(wide);
        seats.leave(tall);
        assert_eq!(seats.settle(), None);
        assert_eq!(seats.size(), Size::cells(90, 30));
    }
}
