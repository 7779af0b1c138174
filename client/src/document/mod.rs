//! The client's copy of a machine's session graph, without I/O and without a clock.
//!
//! ```text
//!  snapshots, deltas ──▶ replica ──▶ Step: go on, ask anew (when, from where), wait for a new link
//!  receipts ───────────▶    │
//!                           ├── document   what is installed: canonical rows and an index
//!                           ├── writes     own mutations until the document has reached their receipts
//!                           └── phase      failures, and how often a snapshot may still be asked for
//! ```
//!
//! A [`Document`] is installed from a snapshot and moves by deltas, each of which must continue it exactly. Rows are kept
//! as canonical JSON (RFC 8785), with the fields and kinds that this version does not know. What does not fit is refused
//! whole: then nothing has changed, and the caller asks for a new snapshot. The rules are those of `spec/document.md`.

mod phase;
mod replica;
mod row;
mod writes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use keepline_protocol::api::Cursor;
use keepline_protocol::id::Generation;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use phase::{Phase, Repairs};
pub use replica::{Replica, Step};
use row::Row;
pub use row::collection_of;
pub use writes::{Writes, Written};

/// The collections that every document has, present even when empty, by the kind of their rows.
pub const COLLECTIONS: [(&str, &str); 9] = [
    ("workspace", "workspaces"),
    ("screen", "screens"),
    ("pane", "panes"),
    ("tab", "tabs"),
    ("terminal", "terminals"),
    ("browser", "browsers"),
    ("agent", "agents"),
    ("notification", "notifications"),
    ("client", "clients"),
];

/// Why a snapshot or delta is not taken. All of these mean that a new snapshot is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not a document, or not a delta, or contradicts itself.
    #[error("{0}")]
    Malformed(String),
    /// It does not continue what is installed.
    #[error("a change does not continue the document")]
    NotNext,
    /// It is older than what is known already.
    #[error("a snapshot is older than what is known already")]
    Old,
    /// It is the state of a mutation's receipt and does not show what was written.
    #[error("at its receipt the state does not show what was written: {0}")]
    Contradicts(String),
    /// It changes rows of a kind for which the document has no collection. Not the daemon's fault, but a newer version's
    /// word: a snapshot has the rows.
    #[error("rows of kind '{0}' are not known to this version")]
    UnknownKind(String),
}

fn malformed(what: impl std::fmt::Display) -> Refused {
    Refused::Malformed(what.to_string())
}

/// A machine's session graph at a cursor.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Nothing for a daemon that counts no revisions: such a document is shown and never followed.
    cursor: Option<Cursor>,
    collections: BTreeMap<String, Collection>,
    /// Members of the document that are no collections, as canonical JSON.
    others: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct Collection {
    rows: HashMap<String, Row>,
    /// The derived index: how many rows name this one. Zeros are left out.
    named: HashMap<String, usize>,
}

/// What a delta did, newest last, so that it can be taken back: collection, id, and what was there.
type Undo = Vec<(String, String, Option<Row>)>;

#[derive(Deserialize)]
struct Delta {
    generation: Generation,
    previous_revision: u64,
    revision: u64,
    changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    op: String,
    kind: String,
    id: String,
    #[serde(default)]
    row: Option<Box<RawValue>>,
}

impl Document {
    /// The document in a snapshot's JSON text.
    ///
    /// # Errors
    /// When the cursor is malformed; when a modelled collection is missing or no array; when a row has no id, an id stands
    /// twice in a collection, or a row names one that is not there or does not name it back.
    pub fn parse(json: &str) -> Result<Self, Refused> {
        let no_document = |error: serde_json::Error| malformed(format!("no document: {error}"));
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).map_err(no_document)?;
        let mut document = Document::default();
        if let Some(cursor) = members.remove("cursor") {
            document.cursor = serde_json::from_str(cursor.get())
                .map_err(|error| malformed(format!("a malformed cursor: {error}")))?;
        }
        for (_, name) in COLLECTIONS {
            let member = members.remove(name).ok_or_else(|| malformed(format!("'{name}' is missing")))?;
            document.collect(name, &member)?;
        }
        for (name, member) in members {
            // An array of rows is a kind of a later version; anything else is only kept.
            if document.collect(&name, &member).is_err() {
                document.collections.remove(&name);
                let kept = row::canonical(member.get()).map_err(no_document)?;
                document.others.insert(name, kept);
            }
        }
        for (name, collection) in &document.collections {
            for (id, row) in &collection.rows {
                document.check(name, id, row)?;
            }
        }
        Ok(document)
    }

    fn collect(&mut self, name: &str, member: &RawValue) -> Result<(), Refused> {
        self.collections.entry(name.to_owned()).or_default();
        let rows: Vec<Box<RawValue>> =
            serde_json::from_str(member.get()).map_err(|error| malformed(format!("'{name}' is no array: {error}")))?;
        for json in rows {
            let (id, row) = Row::parse(name, &json)?;
            if self.set(name, &id, Some(row)).is_some() {
                return Err(malformed(format!("'{name}' holds {id} twice")));
            }
        }
        Ok(())
    }

    /// Moves by one delta, wholly or not at all. `shows` is asked about the state that it leads to.
    ///
    /// # Errors
    /// When the delta is not exactly the next one, is malformed, changes rows of an unknown kind, leaves a row that names
    /// one that is not there, or leads to what `shows` refuses.
    pub fn apply(&mut self, json: &str, shows: impl FnOnce(&Document) -> Result<(), Refused>) -> Result<(), Refused> {
        let delta: Delta = serde_json::from_str(json).map_err(|error| malformed(format!("no delta: {error}")))?;
        let Some(cursor) = self.cursor else {
            return Err(Refused::NotNext);
        };
        let next = delta.generation == cursor.generation
            && delta.previous_revision == cursor.revision
            && delta.revision.checked_sub(1) == Some(cursor.revision);
        if !next {
            return Err(Refused::NotNext);
        }
        let mut undo = Undo::new();
        self.cursor = Some(Cursor { revision: delta.revision, ..cursor });
        let outcome =
            self.change(delta.changes, &mut undo).and_then(|()| self.check_changed(&undo)).and_then(|()| shows(self));
        if outcome.is_err() {
            self.cursor = Some(cursor);
            for (collection, id, before) in undo.into_iter().rev() {
                self.set(&collection, &id, before);
            }
        }
        outcome
    }

    fn change(&mut self, changes: Vec<Change>, undo: &mut Undo) -> Result<(), Refused> {
        for change in &changes {
            if !self.collections.contains_key(&*collection_of(&change.kind)) {
                return Err(Refused::UnknownKind(change.kind.clone()));
            }
        }
        let mut seen = HashSet::new();
        for Change { op, kind, id, row } in changes {
            let collection = collection_of(&kind).into_owned();
            let after = match (op.as_str(), row) {
                ("delete", _) => None,
                ("upsert", Some(json)) => {
                    let (said, row) = Row::parse(&collection, &json)?;
                    if said != id {
                        return Err(malformed(format!("the row of {id} says it is {said}")));
                    }
                    Some(row)
                }
                (op, _) => return Err(malformed(format!("a change with op '{op}'"))),
            };
            if !seen.insert((collection.clone(), id.clone())) {
                return Err(malformed(format!("a change names {id} twice")));
            }
            let deleted = after.is_none();
            let before = self.set(&collection, &id, after);
            if deleted && before.is_none() {
                return Err(malformed(format!("{id} is deleted and was not there")));
            }
            undo.push((collection, id, before));
        }
        Ok(())
    }

    /// Checks what changed rows name, and the rows that they named or name now, which must still be named back.
    fn check_changed(&self, undo: &Undo) -> Result<(), Refused> {
        for (collection, id, before) in undo {
            let after = self.row(collection, id);
            match after {
                Some(row) => self.check(collection, id, row)?,
                None if self.collections[collection].named.contains_key(id) => {
                    return Err(malformed(format!("{id} is gone and still named")));
                }
                None => {}
            }
            for (owners, owner) in [before.as_ref(), after].into_iter().flatten().flat_map(|row| row.owners()) {
                if let Some(row) = self.row(owners, owner) {
                    self.check(owners, owner, row)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that what a row names is there, and that what it owns says so too.
    fn check(&self, collection: &str, id: &str, row: &Row) -> Result<(), Refused> {
        for (owners, owner) in row.owners() {
            if self.row(owners, owner).is_none() {
                return Err(malformed(format!("{id} names {owner}, which is not there")));
            }
        }
        for (children, child) in row.owned() {
            let named_back = self
                .row(children, child)
                .is_some_and(|child| child.owners().any(|(owners, owner)| owners == collection && owner == id));
            if !named_back {
                return Err(malformed(format!("{id} has {child}, which is not its own")));
            }
        }
        Ok(())
    }

    /// Puts or removes one row, keeps the index, and gives what was there.
    fn set(&mut self, collection: &str, id: &str, row: Option<Row>) -> Option<Row> {
        for (collection, id) in row.iter().flat_map(Row::named) {
            let named = &mut self.collections.entry(collection.to_owned()).or_default().named;
            *named.entry(id.to_owned()).or_default() += 1;
        }
        let rows =
            &mut self.collections.get_mut(collection).expect("rows are put into collections that were looked up").rows;
        let before = match row {
            Some(row) => rows.insert(id.to_owned(), row),
            None => rows.remove(id),
        };
        for (collection, id) in before.iter().flat_map(Row::named) {
            if let Some(collection) = self.collections.get_mut(collection)
                && let Some(count) = collection.named.get_mut(id)
            {
                *count -= 1;
                if *count == 0 {
                    collection.named.remove(id);
                }
            }
        }
        before
    }

    fn row(&self, collection: &str, id: &str) -> Option<&Row> {
        self.collections.get(collection)?.rows.get(id)
    }

    /// Where in the graph's history this is; nothing for a daemon that does not say.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }

    /// The canonical JSON of a row.
    #[must_use]
    pub fn json(&self, collection: &str, id: &str) -> Option<&str> {
        Some(self.row(collection, id)?.json())
    }

    /// The rows of a collection as a JSON array, by index and then by id.
    #[must_use]
    pub fn rows(&self, collection: &str) -> String {
        let mut rows: Vec<(&String, &Row)> = match self.collections.get(collection) {
            Some(collection) => collection.rows.iter().collect(),
            None => Vec::new(),
        };
        rows.sort_unstable_by_key(|(id, row)| (row.index(), *id));
        let mut out = String::from("[");
        for (at, (_, row)) in rows.into_iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            out.push_str(row.json());
        }
        out.push(']');
        out
    }

    /// Every member but the cursor, as `,"name":value` each.
    #[must_use]
    pub fn members(&self) -> String {
        let mut out = String::new();
        let collections = self.collections.keys().map(|name| (name, self.rows(name)));
        let others = self.others.iter().map(|(name, json)| (name, json.clone()));
        for (name, json) in collections.chain(others) {
            // A name that came from outside may need escapes.
            let name = serde_json::Value::from(name.as_str());
            write!(out, ",{name}:{json}").expect("a string takes what is written to it");
        }
        out
    }
}
