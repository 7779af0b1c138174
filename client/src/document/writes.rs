//! The client's own writes, until the document has reached them: an overlay that never edits the document.

use std::collections::VecDeque;

use keepline_protocol::api::Cursor;
use keepline_protocol::id::Generation;
use serde_json::{Value, json};

use super::{COLLECTIONS, Document, Refused, collection_of};
use crate::bounds::PENDING_WRITES_MAX;

/// What the state at a receipt must show of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Present,
    Absent,
    Name(String),
}

#[derive(Clone, Debug)]
struct Claim {
    kind: String,
    id: String,
    shown: Shown,
}

/// A mutation's answer, as far as the document has to do with it.
#[derive(Clone, Debug)]
pub struct Written {
    /// Where it was committed.
    pub receipt: Cursor,
    claims: Vec<Claim>,
}

#[derive(Clone, Debug)]
struct Write {
    number: u64,
    method: &'static str,
    key: String,
    written: Option<Written>,
    /// The receipt was known when the stream was asked for, so a snapshot on it cannot be older.
    fenced: bool,
}

/// The writes that wait for their answer or for the document, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    writes: VecDeque<Write>,
    numbers: u64,
}

impl Written {
    /// What a mutation's parameters and value promise about the state at its receipt. Of methods that this version has no
    /// rule for, and of names whose form is the daemon's choice, nothing is promised.
    #[must_use]
    pub fn new(method: &str, params: &Value, value: &Value, receipt: Cursor) -> Self {
        let (noun, verb) = method.split_once('.').unwrap_or((method, ""));
        let claim = |kind: &str, shown| {
            let id = value.get(kind)?.as_str()?.to_owned();
            let kind = kind.to_owned();
            Some(Claim { kind, id, shown })
        };
        let name = params.get("name").and_then(Value::as_str).unwrap_or("");
        let claims = match verb {
            // The whole path is there.
            "new" => COLLECTIONS.iter().filter_map(|(kind, _)| claim(kind, Shown::Present)).collect(),
            "rename" if !name.is_empty() => {
                let shown = Shown::Name(name.to_owned());
                claim(noun, shown).into_iter().collect()
            }
            "close" => claim(noun, Shown::Absent).into_iter().collect(),
            _ => Vec::new(),
        };
        Written { receipt, claims }
    }

    fn check(&self, document: &Document) -> Result<(), Refused> {
        for Claim { kind, id, shown } in &self.claims {
            let row = document.json(&collection_of(kind), id);
            let holds = match (shown, row) {
                (Shown::Present, row) => row.is_some(),
                (Shown::Absent, row) => row.is_none(),
                (Shown::Name(name), Some(row)) => {
                    serde_json::from_str::<Value>(row).is_ok_and(|row| row["name"] == **name)
                }
                (Shown::Name(_), None) => false,
            };
            if !holds {
                return Err(Refused::Contradicts(id.clone()));
            }
        }
        Ok(())
    }
}

impl Writes {
    /// A mutation is about to be sent; gives the number that it goes by here.
    pub fn sent(&mut self, method: &'static str, key: String) -> u64 {
        self.numbers += 1;
        if self.writes.len() >= PENDING_WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back(Write { number: self.numbers, method, key, written: None, fenced: false });
        self.numbers
    }

    /// It was answered: well and for the first time, or not.
    pub fn answered(&mut self, number: u64, written: Option<Written>) {
        match written {
            None => self.writes.retain(|write| write.number != number),
            Some(written) => {
                let waits = self.writes.iter_mut().find(|write| write.number == number);
                if let Some(write) = waits {
                    write.written = Some(written);
                }
            }
        }
    }

    /// A stream is about to be asked for: what it begins with has what is committed now.
    pub fn asked(&mut self) {
        for write in &mut self.writes {
            write.fenced |= write.written.is_some();
        }
    }

    /// Whether a write waits for its answer or for the document.
    #[must_use]
    pub fn is_pending(&self, number: u64) -> bool {
        self.writes.iter().any(|write| write.number == number)
    }

    /// Whether a snapshot at `cursor` may be installed, as far as receipts are concerned.
    ///
    /// # Errors
    /// [`Refused::Old`] when a receipt that was known when it was asked for is newer.
    pub fn permit(&self, cursor: Cursor) -> Result<(), Refused> {
        let newer = self.receipts().any(|(receipt, fenced)| {
            fenced && receipt.generation == cursor.generation && receipt.revision > cursor.revision
        });
        if newer { Err(Refused::Old) } else { Ok(()) }
    }

    /// Whether the document shows what was written at exactly its cursor.
    ///
    /// # Errors
    /// [`Refused::Contradicts`] when it does not.
    pub fn check(&self, document: &Document) -> Result<(), Refused> {
        let here = document.cursor();
        self.writes
            .iter()
            .filter_map(|write| write.written.as_ref())
            .filter(|written| Some(written.receipt) == here)
            .try_for_each(|written| written.check(document))
    }

    /// The document has reached `cursor`: what it has, and receipts of generations that `retired` says are over, wait no
    /// longer.
    pub fn reached(&mut self, cursor: Option<Cursor>, retired: impl Fn(Generation) -> bool) {
        self.writes.retain(|write| {
            let (Some(written), Some(cursor)) = (&write.written, cursor) else {
                return true;
            };
            let receipt = written.receipt;
            if receipt.generation == cursor.generation {
                receipt.revision > cursor.revision
            } else {
                // One that was known before this generation's snapshot was asked for is of an older one.
                !write.fenced && !retired(receipt.generation)
            }
        });
    }

    /// The overlay as the export shows it: `[{method, key, receipt, shows: [{kind, id, name? | deleted?}]}]`, `receipt`
    /// null until the write is answered.
    #[must_use]
    pub fn export(&self) -> Value {
        let shows = |Claim { kind, id, shown }: &Claim| match shown {
            Shown::Present => json!({ "kind": kind, "id": id }),
            Shown::Absent => json!({ "kind": kind, "id": id, "deleted": true }),
            Shown::Name(name) => json!({ "kind": kind, "id": id, "name": name }),
        };
        let each = self.writes.iter().map(|write| {
            let claims = write.written.iter().flat_map(|written| &written.claims);
            json!({
                "method": write.method,
                "key": write.key,
                "receipt": write.written.as_ref().map(|written| written.receipt),
                "shows": claims.map(shows).collect::<Value>(),
            })
        });
        each.collect()
    }

    fn receipts(&self) -> impl Iterator<Item = (Cursor, bool)> {
        self.writes.iter().filter_map(|write| Some((write.written.as_ref()?.receipt, write.fenced)))
    }
}
