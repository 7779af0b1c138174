//! The client's copy of a machine's session graph.
//!
//! A [`Document`] is installed from a snapshot and moves by deltas, each of which must continue it exactly. Rows are kept
//! as the JSON that came, so that fields which this version does not know survive. Anything that does not fit is refused
//! whole, and the caller asks for a new snapshot. It does no I/O.

use std::collections::BTreeMap;

use keepline_protocol::api::Cursor;
use keepline_protocol::id::Generation;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The collections that every document has, present even when empty.
pub(crate) const COLLECTIONS: &[&str] = &[
    "workspaces",
    "screens",
    "panes",
    "tabs",
    "terminals",
    "browsers",
    "agents",
    "notifications",
    "clients",
];

/// Why a snapshot or delta is not taken. All of these mean that a new snapshot is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not a document, or not a delta, or contradicts itself.
    #[error("{0}")]
    Malformed(String),
    /// It does not continue what is installed.
    #[error("the change does not continue the document")]
    NotNext,
    /// It changes rows of a kind that this version does not know.
    #[error("rows of kind '{0}' are not known to this version")]
    UnknownKind(String),
}

/// A machine's session graph at a cursor.
#[derive(Clone, Debug)]
pub struct Document {
    cursor: Cursor,
    /// By collection, then by id.
    rows: BTreeMap<String, BTreeMap<String, Row>>,
    /// Members of the document that are no collections.
    others: BTreeMap<String, Box<RawValue>>,
}

#[derive(Clone, Debug)]
struct Row {
    index: u64,
    json: Box<RawValue>,
}

#[derive(Deserialize)]
struct Keyed {
    id: String,
    #[serde(default)]
    index: u64,
}

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

impl Row {
    fn parse(json: Box<RawValue>) -> Result<(String, Self), Refused> {
        let keyed: Keyed = serde_json::from_str(json.get())
            .map_err(|error| Refused::Malformed(format!("a row has no id: {error}")))?;
        Ok((
            keyed.id,
            Row {
                index: keyed.index,
                json,
            },
        ))
    }
}

impl Document {
    /// The document in a snapshot's JSON text.
    ///
    /// # Errors
    /// When a modelled collection is missing, is no array, or holds an id twice.
    pub fn parse(json: &str) -> Result<Self, Refused> {
        let malformed =
            |error: serde_json::Error| Refused::Malformed(format!("no document: {error}"));
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(json).map_err(malformed)?;
        let cursor = members
            .remove("cursor")
            .ok_or_else(|| Refused::Malformed("no cursor".to_owned()))?;
        let cursor = serde_json::from_str(cursor.get()).map_err(malformed)?;
        let mut document = Document {
            cursor,
            rows: BTreeMap::new(),
            others: BTreeMap::new(),
        };
        for name in COLLECTIONS {
            if !members
                .get(*name)
                .is_some_and(|member| member.get().starts_with('['))
            {
                return Err(Refused::Malformed(format!(
                    "'{name}' is missing or no array"
                )));
            }
        }
        for (name, member) in members {
            if !member.get().starts_with('[') {
                document.others.insert(name, member);
                continue;
            }
            let rows: Vec<Box<RawValue>> = serde_json::from_str(member.get()).map_err(malformed)?;
            let mut collection = BTreeMap::new();
            for json in rows {
                let (id, row) = Row::parse(json)?;
                if collection.insert(id.clone(), row).is_some() {
                    return Err(Refused::Malformed(format!("'{name}' holds {id} twice")));
                }
            }
            document.rows.insert(name, collection);
        }
        Ok(document)
    }

    /// Moves by one delta, wholly or not at all.
    ///
    /// # Errors
    /// When the delta is not exactly the next one, is malformed, or changes rows of an unknown kind.
    pub fn apply(&mut self, json: &str) -> Result<(), Refused> {
        let delta: Delta = serde_json::from_str(json)
            .map_err(|error| Refused::Malformed(format!("no delta: {error}")))?;
        let next = delta.generation == self.cursor.generation
            && delta.previous_revision == self.cursor.revision
            && delta.revision.checked_sub(1) == Some(self.cursor.revision);
        if !next {
            return Err(Refused::NotNext);
        }
        let mut checked = Vec::with_capacity(delta.changes.len());
        for change in delta.changes {
            let collection = format!("{}s", change.kind);
            if !self.rows.contains_key(&collection) {
                return Err(Refused::UnknownKind(change.kind));
            }
            let row = match (change.op.as_str(), change.row) {
                ("delete", _) => None,
                ("upsert", Some(json)) => {
                    let (id, row) = Row::parse(json)?;
                    if id != change.id {
                        return Err(Refused::Malformed(format!(
                            "the row of {} says it is {id}",
                            change.id
                        )));
                    }
                    Some(row)
                }
                (op, _) => return Err(Refused::Malformed(format!("a change with op '{op}'"))),
            };
            checked.push((collection, change.id, row));
        }
        for (collection, id, row) in checked {
            let rows = self
                .rows
                .get_mut(&collection)
                .expect("the collection was looked up above");
            match row {
                Some(row) => rows.insert(id, row),
                None => rows.remove(&id),
            };
        }
        self.cursor.revision = delta.revision;
        Ok(())
    }

    /// Where in the graph's history this is.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The rows of a collection, by index.
    #[must_use]
    pub fn rows(&self, collection: &str) -> Vec<&RawValue> {
        let mut rows: Vec<(&String, &Row)> =
            self.rows.get(collection).into_iter().flatten().collect();
        rows.sort_by_key(|(id, row)| (row.index, *id));
        rows.into_iter().map(|(_, row)| &*row.json).collect()
    }

    /// Every member but the cursor, as a JSON object's members.
    #[must_use]
    pub fn members(&self) -> serde_json::Map<String, serde_json::Value> {
        let value =
            |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(serde_json::Value::Null);
        let mut members: serde_json::Map<_, _> = self
            .others
            .iter()
            .map(|(name, raw)| (name.clone(), value(raw)))
            .collect();
        for name in self.rows.keys() {
            members.insert(
                name.clone(),
                self.rows(name).into_iter().map(value).collect(),
            );
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: &str = "00112233445566778899aabbccddeeff";

    fn snapshot(revision: u64, terminals: &str) -> String {
        let empty: Vec<String> = COLLECTIONS
            .iter()
            .filter(|name| **name != "terminals")
            .map(|name| format!("\"{name}\":[]"))
            .collect();
        format!(
            "{{\"cursor\":{{\"generation\":\"{GENERATION}\",\"revision\":{revision}}},\"terminals\":{terminals},\"later\":{{\"x\":1}},{}}}",
            empty.join(",")
        )
    }

    fn delta(previous: u64, revision: u64, changes: &str) -> String {
        format!(
            "{{\"generation\":\"{GENERATION}\",\"previous_revision\":{previous},\"revision\":{revision},\"changes\":{changes}}}"
        )
    }

    fn terminals(document: &Document) -> Vec<String> {
        document
            .rows("terminals")
            .into_iter()
            .map(|row| row.get().to_owned())
            .collect()
    }

    #[test]
    fn a_delta_moves_the_document_and_unknown_fields_survive() {
        let mut document = Document::parse(&snapshot(
            4,
            r#"[{"id":"b","index":2,"new":[1]},{"id":"a","index":1}]"#,
        ))
        .unwrap();
        assert_eq!(
            terminals(&document),
            [
                r#"{"id":"a","index":1}"#,
                r#"{"id":"b","index":2,"new":[1]}"#
            ]
        );
        let change = r#"[{"op":"delete","kind":"terminal","id":"a"},{"op":"upsert","kind":"terminal","id":"c","row":{"id":"c","index":0}}]"#;
        document.apply(&delta(4, 5, change)).unwrap();
        assert_eq!(
            terminals(&document),
            [
                r#"{"id":"c","index":0}"#,
                r#"{"id":"b","index":2,"new":[1]}"#
            ]
        );
        assert_eq!(document.cursor().revision, 5);
        assert_eq!(document.members()["later"]["x"], 1);
    }

    #[test]
    fn what_does_not_continue_the_document_leaves_it_untouched() {
        let mut document = Document::parse(&snapshot(4, r#"[{"id":"a"}]"#)).unwrap();
        assert_eq!(document.apply(&delta(3, 4, "[]")), Err(Refused::NotNext));
        assert_eq!(document.apply(&delta(4, 6, "[]")), Err(Refused::NotNext));
        let other = delta(4, 5, "[]").replace(GENERATION, "ff112233445566778899aabbccddeeff");
        assert_eq!(document.apply(&other), Err(Refused::NotNext));
        let half = r#"[{"op":"delete","kind":"terminal","id":"a"},{"op":"upsert","kind":"whale","id":"w","row":{"id":"w"}}]"#;
        assert_eq!(
            document.apply(&delta(4, 5, half)),
            Err(Refused::UnknownKind("whale".to_owned()))
        );
        let lying = r#"[{"op":"upsert","kind":"terminal","id":"a","row":{"id":"b"}}]"#;
        assert!(matches!(
            document.apply(&delta(4, 5, lying)),
            Err(Refused::Malformed(_))
        ));
        assert_eq!(terminals(&document), [r#"{"id":"a"}"#]);
        assert_eq!(document.cursor().revision, 4);
    }

    #[test]
    fn a_snapshot_that_contradicts_itself_is_refused_whole() {
        assert!(Document::parse(&snapshot(1, r#"[{"id":"a"},{"id":"a"}]"#)).is_err());
        assert!(Document::parse(&snapshot(1, "{}")).is_err());
        assert!(Document::parse(&snapshot(1, "[{}]")).is_err());
        assert!(Document::parse("{}").is_err());
    }
}
