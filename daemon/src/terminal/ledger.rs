//! Which input of which attachment was written, so that every byte is written exactly once.

use keepline_protocol::id::AttachmentId;

use crate::bounds::ATTACHMENTS_REMEMBERED;

/// Input that does not follow what was accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("input at offset {offset} leaves a gap: the next offset is {expected}")]
pub(super) struct Gap {
    /// Offset of the input's first byte.
    pub(super) offset: u64,
    /// Offset of the first byte that was not accepted yet.
    pub(super) expected: u64,
}

struct Entry {
    id: AttachmentId,
    /// Input below this is written or waits to be; nothing is known before the first input.
    accepted: Option<u64>,
    /// Input below this is written.
    written: u64,
    /// How many are attached under this id.
    attached: usize,
}

/// The newest attachments of one terminal, the one used last at the end.
#[derive(Default)]
pub(super) struct Ledger(Vec<Entry>);

/// What an attachment that comes (again) should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) written: u64,
    pub(super) remembered: bool,
}

impl Ledger {
    /// Notes that somebody attaches under `id`.
    pub(super) fn attach(&mut self, id: AttachmentId) -> Known {
        let known = match self.0.iter().position(|entry| entry.id == id) {
            Some(at) => {
                let entry = self.0.remove(at);
                let written = entry.written;
                self.0.push(entry);
                Known { written, remembered: true }
            }
            None => {
                if self.0.len() >= ATTACHMENTS_REMEMBERED {
                    let idle = self
                        .0
                        .iter()
                        .position(|entry| entry.attached == 0 && entry.accepted.is_none_or(|at| at == entry.written));
                    if let Some(at) = idle {
                        self.0.remove(at);
                    }
                }
                self.0.push(Entry { id, accepted: None, written: 0, attached: 0 });
                Known { written: 0, remembered: false }
            }
        };
        self.0.last_mut().expect("an entry was pushed above").attached += 1;
        known
    }

    /// Notes that somebody left who attached under `id`.
    pub(super) fn detach(&mut self, id: AttachmentId) {
        if let Some(entry) = self.entry(id) {
            entry.attached -= 1;
        }
    }

    /// Accepts input of `length` bytes from `offset`, and returns how many of the first bytes were accepted before and
    /// must be skipped.
    pub(super) fn accept(&mut self, id: AttachmentId, offset: u64, length: usize) -> Result<usize, Gap> {
        let Some(entry) = self.entry(id) else {
            return Ok(0);
        };
        let expected = *entry.accepted.get_or_insert_with(|| {
            // What a forgotten attachment sent before was written or is lost, and is not sent again.
            entry.written = offset;
            offset
        });
        if offset > expected {
            return Err(Gap { offset, expected });
        }
        let end = offset.saturating_add(length as u64).max(expected);
        entry.accepted = Some(end);
        Ok(length - (end - expected) as usize)
    }

    /// Notes that the next `length` accepted bytes were written.
    pub(super) fn wrote(&mut self, id: AttachmentId, length: usize) {
        if let Some(entry) = self.entry(id) {
            entry.written += length as u64;
        }
    }

    /// Input of `id` below this offset was accepted.
    pub(super) fn accepted(&self, id: AttachmentId) -> u64 {
        self.0.iter().find(|entry| entry.id == id).and_then(|entry| entry.accepted).unwrap_or(0)
    }

    /// Input of `id` below this offset was written.
    pub(super) fn written(&self, id: AttachmentId) -> u64 {
        self.0.iter().find(|entry| entry.id == id).map_or(0, |entry| entry.written)
    }

    /// Bytes of `id` that were accepted and not written.
    pub(super) fn waiting(&self, id: AttachmentId) -> u64 {
        let entry = self.0.iter().find(|entry| entry.id == id);
        entry.map_or(0, |entry| entry.accepted.map_or(0, |at| at - entry.written))
    }

    fn entry(&mut self, id: AttachmentId) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> AttachmentId {
        AttachmentId::from_bytes([n; 16])
    }

    #[test]
    fn input_is_accepted_once_and_in_order() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.attach(id(1)), Known { written: 0, remembered: false });
        assert_eq!(ledger.accept(id(1), 0, 5), Ok(0));
        assert_eq!(ledger.accept(id(1), 0, 5), Ok(5));
        assert_eq!(ledger.accept(id(1), 3, 4), Ok(2));
        assert_eq!(ledger.accept(id(1), 9, 1), Err(Gap { offset: 9, expected: 7 }));
        assert_eq!(ledger.waiting(id(1)), 7);
        ledger.wrote(id(1), 5);
        assert_eq!(ledger.attach(id(1)), Known { written: 5, remembered: true });
        assert_eq!(ledger.accept(id(1), 5, 2), Ok(2));
    }

    #[test]
    fn the_one_idle_for_longest_is_forgotten_and_may_go_on() {
        let mut ledger = Ledger::default();
        for n in 0..=ATTACHMENTS_REMEMBERED as u8 {
            ledger.attach(id(n));
            ledger.accept(id(n), 0, 3).unwrap();
            if n != 1 {
                ledger.wrote(id(n), 3);
            }
            if n != 0 {
                ledger.detach(id(n));
            }
        }
        // The first is attached, the second has input waiting: the third had to go.
        assert_eq!(ledger.attach(id(2)), Known { written: 0, remembered: false });
        assert_eq!(ledger.accept(id(2), 3, 2), Ok(0));
        assert_eq!(ledger.written(id(2)), 3);
        assert!(ledger.attach(id(0)).remembered);
        assert!(ledger.attach(id(1)).remembered);
    }
}
