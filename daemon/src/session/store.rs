//! The store: one SQLite file, one writer, one transaction per batch.
//!
//! | table | holds |
//! |---|---|
//! | `meta` | `schema`: the version of this layout |
//! | `rows` | the graph's rows by kind and id, as JSON |
//! | `journal` | the changes of this generation's newest transactions |
//! | `receipts` | the results of idempotency keys, by device |
//! | `devices`, `invitations` | who gets in, as JSON |
//! | `audit` | what happened, as JSON, by class and number |
//!
//! A store of an older layout is brought to this one by `STEPS`, one behind the other, in one transaction. There is no
//! way back.
//!
//! Write-ahead log and `synchronous = FULL`: what was committed survives the process and the power.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use keepline_protocol::api::Receipt;
use keepline_protocol::api::server::AuditEntry;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{DeviceId, Generation};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::audit::{CLASSES, Event};
use super::enrolment::{Edits, Enrolment};
use super::files;
use super::graph::{Change, Graph};
use super::mutation::Value;
use super::rows::Stored;
use crate::bounds::{JOURNAL_BYTES_MAX, JOURNAL_RECORDS_MAX, LOCK_POLL, LOCK_TIME, RECEIPTS_MAX};

/// The store's file in the state directory.
pub const FILE: &str = "keepline.db";
/// The file of the daemon's keys, beside it.
pub const KEY_FILE: &str = "daemon.key";
/// The file whose lock the daemon of a state directory holds; its content is that daemon's process id.
pub const LOCK: &str = "keepline.lock";

/// What leads from each layout to the next one; the first makes layout 1 of an empty file. A step that was released never
/// changes.
const STEPS: &[fn(&Transaction<'_>) -> rusqlite::Result<()>] =
    &[|empty| empty.execute_batch(TABLES), |first| first.execute_batch(PLACES_SCOPES_AUDIT)];

/// The layout that this version reads and writes.
#[allow(clippy::cast_possible_wrap, reason = "a handful of steps")]
const SCHEMA: i64 = STEPS.len() as i64;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE rows (kind TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (kind, id)) STRICT;
    CREATE TABLE journal (generation TEXT NOT NULL, revision INTEGER NOT NULL, changes TEXT NOT NULL,
        at_ms INTEGER NOT NULL, PRIMARY KEY (generation, revision)) STRICT;
    CREATE TABLE receipts (seq INTEGER PRIMARY KEY, device TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,
        result TEXT NOT NULL, generation TEXT NOT NULL, revision INTEGER NOT NULL, UNIQUE (device, key)) STRICT;
    CREATE TABLE devices (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT;
    CREATE TABLE invitations (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT;
";

/// Before there were screens a terminal was in a workspace itself; it has ended with its daemon, and is shown nowhere.
/// Results under keys had another form. Who was let in before there were scopes could do all but what the owner does.
const PLACES_SCOPES_AUDIT: &str = r#"
    UPDATE rows SET json = json_set(json, '$.active_screen_id', NULL, '$.used_ms', json ->> '$.created_ms')
        WHERE kind = 'workspace';
    UPDATE rows SET json = json_set(json_remove(json, '$.workspace_id'), '$.tab_ids', json('[]'), '$.effects_through', 0)
        WHERE kind = 'terminal';
    DELETE FROM receipts;
    CREATE TABLE audit (class INTEGER NOT NULL, number INTEGER NOT NULL, json TEXT NOT NULL,
        PRIMARY KEY (class, number)) STRICT, WITHOUT ROWID;
    UPDATE devices SET json = json_set(json, '$.scopes', json(CASE json ->> '$.standing'
        WHEN 'trusted' THEN '[]' ELSE '["view","type","files","exec","forward"]' END));
    UPDATE invitations SET json = json_set(json, '$.scopes', json('["view","type","files","exec","forward"]'));
"#;

/// The open store.
pub(super) struct Store {
    connection: Connection,
    path: PathBuf,
    generation: Generation,
    /// Revisions in the journal, oldest first, with the bytes of their changes.
    journal: VecDeque<(u64, usize)>,
    journal_bytes: usize,
    /// The last number of each class of the audit.
    audited: [u64; CLASSES],
    /// Held until the connection is closed.
    _lock: File,
    /// Ends the process at a commit, before it or behind it.
    #[cfg(test)]
    pub(super) crash: Option<(u32, CrashAt)>,
}

/// Where a test lets the process end.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashAt {
    Before,
    After,
}

/// Idempotency receipts are kept by who asked and under which key.
#[derive(Clone, Copy)]
pub(super) struct KeyOf<'a> {
    pub(super) device: Option<DeviceId>,
    pub(super) key: &'a str,
    pub(super) digest: [u8; 32],
}

impl Store {
    /// Opens the store in `dir`, a private directory, for the daemon's start `generation`; makes it when there is none.
    /// The journal of former generations is dropped.
    ///
    /// # Errors
    /// [`Code::Busy`] when another daemon has it; [`Code::Refused`] for files that are not ours alone, that a newer
    /// version wrote, or that are no store, which are left untouched; [`Code::Failed`] when the disk fails.
    pub(super) fn open(dir: &Path, generation: Generation) -> Result<(Self, Graph, Enrolment), Failure> {
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        // An identity is made after its store, so that an empty file beside one has lost what it held.
        let lost = path.metadata().is_ok_and(|file| file.len() == 0) && dir.join(KEY_FILE).exists();
        // Made here and not by SQLite, so that it is private from its first moment.
        drop(files::open_private(&path)?);
        if lost {
            return Err(damaged(&path, "it is empty"));
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&path, flags).map_err(|e| failed(&path, &e))?;
        let schema = check_schema(&connection, &path)?;
        let mut store = Store {
            connection,
            path,
            generation,
            journal: VecDeque::new(),
            journal_bytes: 0,
            audited: [0; CLASSES],
            _lock: lock,
            #[cfg(test)]
            crash: None,
        };
        store.prepare(schema).map_err(|e| failed(&store.path, &e))?;
        let graph = Graph::with_rows(store.load_rows()?);
        let enrolment = Enrolment::with_records(store.load("devices")?, store.load("invitations")?);
        Ok((store, graph, enrolment))
    }

    fn prepare(&mut self, schema: usize) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in STEPS.iter().skip(schema) {
            step(&transaction)?;
        }
        let sql = "INSERT OR REPLACE INTO meta VALUES ('schema', ?1)";
        transaction.execute(sql, [SCHEMA])?;
        transaction.execute("DELETE FROM journal", [])?;
        transaction.commit()?;
        for (class, last) in self.audited.iter_mut().enumerate() {
            let sql = "SELECT coalesce(max(number), 0) FROM audit WHERE class = ?1";
            let number = self.connection.query_row(sql, [class.cast_signed()], |row| row.get(0))?;
            *last = number_column(0, number)?;
        }
        Ok(())
    }

    fn load_rows(&self) -> Result<Vec<std::sync::Arc<Stored>>, Failure> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = self.connection.prepare("SELECT kind, json FROM rows")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = read().map_err(|e| failed(&self.path, &e))?;
        let parsed = rows.into_iter().map(|(kind, json)| Stored::parse(&kind, json));
        parsed.collect::<Result<_, _>>().map_err(|e| damaged(&self.path, &e))
    }

    fn load<K, V>(&self, table: &str) -> Result<BTreeMap<K, V>, Failure>
    where
        K: std::str::FromStr<Err: ToString> + Ord,
        V: DeserializeOwned,
    {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = self.connection.prepare(&format!("SELECT id, json FROM {table}"))?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let mut records = BTreeMap::new();
        for (id, json) in read().map_err(|e| failed(&self.path, &e))? {
            let id = id.parse().map_err(|e: K::Err| damaged(&self.path, &e.to_string()))?;
            let record = serde_json::from_str(&json).map_err(|e| damaged(&self.path, &e.to_string()))?;
            records.insert(id, record);
        }
        Ok(records)
    }

    /// Runs `work` in one transaction and commits it; on an error nothing of it is in the store.
    ///
    /// # Errors
    /// [`Code::Failed`] when the disk fails or is full.
    pub(super) fn batch<T>(&mut self, work: impl FnOnce(&mut Batch<'_>) -> rusqlite::Result<T>) -> Result<T, Failure> {
        let written = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut batch = Batch {
                transaction,
                generation: self.generation,
                journal: Vec::new(),
                receipts: false,
                audited: self.audited,
            };
            let done = work(&mut batch)?;
            let dropped = excess(&self.journal, self.journal_bytes, &batch.journal);
            batch.prune(dropped.checked_sub(1).and_then(|last| self.journal.get(last)).map(|record| record.0))?;
            let Batch { transaction, journal, audited, .. } = batch;
            #[cfg(test)]
            crash(&mut self.crash, CrashAt::Before);
            transaction.commit()?;
            #[cfg(test)]
            crash(&mut self.crash, CrashAt::After);
            Ok((done, dropped, journal, audited))
        })();
        let (done, dropped, journal, audited) = written.map_err(|e| failed(&self.path, &e))?;
        self.audited = audited;
        self.journal_bytes -= self.journal.drain(..dropped).map(|record| record.1).sum::<usize>();
        self.journal_bytes += journal.iter().map(|record| record.1).sum::<usize>();
        self.journal.extend(journal);
        Ok(done)
    }

    /// Lets the file grow to `pages` pages at most, as a full disk would; 0 for what it has.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: u32) {
        self.connection
            .query_row(&format!("PRAGMA max_page_count = {}", pages.max(1)), [], |_| Ok(()))
            .expect("the pragma answers with the limit");
    }
}

/// Ends the process when its time has come, as SIGKILL does.
#[cfg(test)]
fn crash(crash: &mut Option<(u32, CrashAt)>, at: CrashAt) {
    if let Some((commits, asked)) = crash {
        if *commits == 0 && *asked == at {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        if at == CrashAt::After {
            *commits -= 1;
        }
    }
}

/// How many of the oldest records go so that the bounds hold with the `added` ones, which stay in any case.
fn excess(journal: &VecDeque<(u64, usize)>, bytes: usize, added: &[(u64, usize)]) -> usize {
    let mut records = journal.len() + added.len();
    let mut bytes = bytes + added.iter().map(|record| record.1).sum::<usize>();
    let over = |records: usize, bytes: usize| records > JOURNAL_RECORDS_MAX || bytes > JOURNAL_BYTES_MAX;
    journal
        .iter()
        .take_while(|record| {
            let drop = over(records, bytes);
            records -= 1;
            bytes -= record.1;
            drop
        })
        .count()
}

/// One transaction of the store.
pub(super) struct Batch<'a> {
    transaction: Transaction<'a>,
    generation: Generation,
    journal: Vec<(u64, usize)>,
    receipts: bool,
    audited: [u64; CLASSES],
}

impl Batch<'_> {
    /// The receipt under this key, with the digest of the parameters that it was given for.
    pub(super) fn receipt(&self, of: KeyOf<'_>) -> rusqlite::Result<Option<([u8; 32], Receipt<Value>)>> {
        let sql = "SELECT digest, result, generation, revision FROM receipts WHERE device = ?1 AND key = ?2";
        let mut statement = self.transaction.prepare_cached(sql)?;
        let found = statement.query_row(params![device(of.device), of.key], |row| {
            let receipt = Receipt {
                value: json_column(1, &row.get::<_, String>(1)?)?,
                generation: text_column(2, &row.get::<_, String>(2)?)?,
                revision: number_column(3, row.get(3)?)?,
                replayed: true,
            };
            Ok((row.get(0)?, receipt))
        });
        found.optional()
    }

    /// Keeps the receipt under this key.
    pub(super) fn put_receipt(&mut self, of: KeyOf<'_>, receipt: &Receipt<Value>) -> rusqlite::Result<()> {
        let sql = "INSERT INTO receipts (device, key, digest, result, generation, revision)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let generation = receipt.generation.to_string();
        let revision = receipt.revision.cast_signed();
        self.transaction.prepare_cached(sql)?.execute(params![
            device(of.device),
            of.key,
            of.digest,
            json(&receipt.value),
            generation,
            revision
        ])?;
        self.receipts = true;
        Ok(())
    }

    /// Writes one transaction of the graph: its rows, and `changes` (their JSON) to the journal.
    pub(super) fn commit_changes(
        &mut self,
        revision: u64,
        rows: &[Change],
        changes: &str,
        at_ms: u64,
    ) -> rusqlite::Result<()> {
        for change in rows {
            let (kind, id) = (change.id.kind().name(), change.id.to_string());
            match &change.after {
                Some(stored) => {
                    let sql = "INSERT OR REPLACE INTO rows (kind, id, json) VALUES (?1, ?2, ?3)";
                    self.transaction.prepare_cached(sql)?.execute(params![kind, id, &*stored.json])?
                }
                None => {
                    let sql = "DELETE FROM rows WHERE kind = ?1 AND id = ?2";
                    self.transaction.prepare_cached(sql)?.execute(params![kind, id])?
                }
            };
        }
        let sql = "INSERT INTO journal (generation, revision, changes, at_ms) VALUES (?1, ?2, ?3, ?4)";
        let generation = self.generation.to_string();
        let at_ms = at_ms.cast_signed();
        self.transaction.prepare_cached(sql)?.execute(params![generation, revision.cast_signed(), changes, at_ms])?;
        self.journal.push((revision, changes.len()));
        Ok(())
    }

    /// Writes what changed about devices and invitations.
    pub(super) fn put_edits(&mut self, edits: &Edits) -> rusqlite::Result<()> {
        for (id, record) in &edits.devices {
            self.put_record("devices", &id.to_string(), record.as_ref())?;
        }
        for (id, record) in &edits.invitations {
            self.put_record("invitations", &id.to_string(), record.as_ref())?;
        }
        Ok(())
    }

    /// Writes an entry of the audit, and drops the one for which there is no room any more.
    pub(super) fn audit(&mut self, event: Event, entry: &AuditEntry) -> rusqlite::Result<()> {
        let (class, most) = event.class();
        self.audited[class] += 1;
        let (number, class) = (self.audited[class], class.cast_signed());
        let sql = "INSERT INTO audit (class, number, json) VALUES (?1, ?2, ?3)";
        self.transaction.prepare_cached(sql)?.execute(params![class, number.cast_signed(), json(entry)])?;
        if let Some(through) = number.checked_sub(most) {
            let sql = "DELETE FROM audit WHERE class = ?1 AND number <= ?2";
            self.transaction.prepare_cached(sql)?.execute(params![class, through.cast_signed()])?;
        }
        Ok(())
    }

    /// The audit, oldest entry first.
    pub(super) fn audited(&self) -> rusqlite::Result<Vec<AuditEntry>> {
        let sql = "SELECT json FROM audit ORDER BY class, number";
        let mut statement = self.transaction.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| json_column(0, &row.get::<_, String>(0)?))?;
        let mut entries: Vec<AuditEntry> = rows.collect::<Result<_, _>>()?;
        entries.sort_by_key(|entry| entry.at);
        Ok(entries)
    }

    fn put_record<T: Serialize>(&self, table: &str, id: &str, record: Option<&T>) -> rusqlite::Result<()> {
        match record {
            Some(record) => {
                let sql = format!("INSERT OR REPLACE INTO {table} (id, json) VALUES (?1, ?2)");
                self.transaction.prepare_cached(&sql)?.execute(params![id, json(record)])?
            }
            None => {
                let sql = format!("DELETE FROM {table} WHERE id = ?1");
                self.transaction.prepare_cached(&sql)?.execute(params![id])?
            }
        };
        Ok(())
    }

    /// Drops the journal up to `through`, and the receipts over their bound.
    fn prune(&self, through: Option<u64>) -> rusqlite::Result<()> {
        if let Some(through) = through {
            let sql = "DELETE FROM journal WHERE generation = ?1 AND revision <= ?2";
            let generation = self.generation.to_string();
            self.transaction.prepare_cached(sql)?.execute(params![generation, through.cast_signed()])?;
        }
        if self.receipts {
            let sql = "DELETE FROM receipts WHERE seq <= (SELECT max(seq) FROM receipts) - ?1";
            self.transaction.prepare_cached(sql)?.execute([i64::try_from(RECEIPTS_MAX).unwrap_or(i64::MAX)])?;
        }
        Ok(())
    }
}

/// The layout of a file, 0 for an empty one. Refuses a file that this version does not understand, without a change to it.
fn check_schema(connection: &Connection, path: &Path) -> Result<usize, Failure> {
    let check = || -> rusqlite::Result<Option<i64>> {
        // Otherwise closing the connection would move another version's write-ahead log into its file.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let found = if connection.table_exists(None, "meta")? {
            let sql = "SELECT value FROM meta WHERE key = 'schema'";
            connection.query_row(sql, [], |row| row.get(0)).optional()?.or(Some(0))
        } else {
            let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            (tables > 0).then_some(0)
        };
        Ok(found)
    };
    let refused =
        |why: String| Failure::new(Code::Refused, format!("'{}' {why}; it was left untouched", path.display()));
    let found = match check() {
        Ok(None) => 0,
        Ok(Some(known @ 1..=SCHEMA)) => known.unsigned_abs(),
        Ok(Some(newer)) if newer > SCHEMA => {
            let why = format!("was written by a newer keepline (layout {newer}, this one knows {SCHEMA})");
            return Err(refused(why));
        }
        Ok(Some(_)) => return Err(refused("is not a keepline store".to_owned())),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(refused("is not a keepline store".to_owned()));
        }
        Err(e) => return Err(failed(path, &e)),
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(|e| failed(path, &e))?;
    Ok(usize::try_from(found).unwrap_or(STEPS.len()))
}

/// Takes the lock of a state directory, which the system gives back when this process ends in whatever way.
fn lock(dir: &Path) -> Result<File, Failure> {
    let path = dir.join(LOCK);
    let mut file = files::open_private(&path)?;
    let wrong = |e: std::io::Error| Failure::new(Code::Failed, format!("cannot lock '{}': {e}", path.display()));
    let deadline = Instant::now() + LOCK_TIME;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) => {}
            Err(e) => return Err(wrong(e.into())),
        }
        let mut holder = String::new();
        let _ = file.rewind();
        let _ = (&file).take(16).read_to_string(&mut holder);
        let holder = holder.trim().parse().ok().and_then(Pid::from_raw);
        // One that is dead has left it to a child that was just started and lets go of it in a moment; one that just took
        // it may not have written its id yet.
        let holder = holder.filter(|pid| test_kill_process(*pid) != Err(Errno::SRCH));
        // Nor does this process's own id say more: a child that it was starting may still have the lock of a former session.
        let elsewhere = holder.is_some_and(|pid| pid != rustix::process::getpid());
        if elsewhere || Instant::now() > deadline {
            let holder = holder.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            let message = format!("another daemon{holder} runs on '{}'; stop it first", dir.display());
            return Err(Failure::new(Code::Busy, message));
        }
        std::thread::sleep(LOCK_POLL);
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(wrong)?;
    Ok(file)
}

fn device(device: Option<DeviceId>) -> String {
    // Requests on the daemon's own socket come from no device and share one scope, its owner's.
    device.map_or_else(String::new, |device| device.to_string())
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records have string keys and finite numbers")
}

fn json_column<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|e| wrong_column(column, e))
}

fn text_column<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    column: usize,
    text: &str,
) -> rusqlite::Result<T> {
    text.parse().map_err(|e| wrong_column(column, e))
}

fn number_column(column: usize, number: i64) -> rusqlite::Result<u64> {
    u64::try_from(number).map_err(|e| wrong_column(column, e))
}

fn wrong_column(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

fn failed(path: &Path, error: &rusqlite::Error) -> Failure {
    let message = format!("the state in '{}' cannot be read or saved: {error}", path.display());
    Failure::new(Code::Failed, message)
}

fn damaged(path: &Path, what: &str) -> Failure {
    let message = format!("the state in '{}' is damaged ({what}); move it away to start anew", path.display());
    Failure::new(Code::Failed, message)
}
