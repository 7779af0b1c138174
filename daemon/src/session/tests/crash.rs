//! A process that is killed at any moment loses nothing that it said was done.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use tempfile::tempdir;

use super::super::store::{CrashAt, FILE};
use super::super::writer::Request;
use super::super::{Origin, Session};
use super::*;

/// Names the state directory to the child.
const CHILD: &str = "KEEPLINE_TEST_CRASH_CHILD";

/// Names the commit at which the child ends: `before N` or `after N`.
const POINT: &str = "KEEPLINE_TEST_CRASH_POINT";

/// Makes workspaces `0`, `1`, …, each under its key, and says so, until the process ends at its commit.
async fn one_by_one_until(session: &Session, point: &str) {
    let (at, commits) = point.split_once(' ').unwrap();
    let at = if at == "before" { CrashAt::Before } else { CrashAt::After };
    let crash = Request::Crash(commits.parse().unwrap(), at);
    session.requests.send(crash).await.ok().unwrap();
    for number in 0.. {
        let name = number.to_string();
        session.mutate(keyed(&name), new_workspace(&name)).await.unwrap();
        println!("\nacknowledged {name}");
    }
}

#[tokio::test]
async fn before_a_commit_nothing_of_it_is_there_and_behind_it_everything() {
    for commits in 0..5_usize {
        for at in ["before", "after"] {
            let dir = tempdir().unwrap();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "session::tests::crash::child_of_the_crash_test", "--nocapture"])
                .env(CHILD, dir.path())
                .env(POINT, format!("{at} {commits}"))
                .output()
                .unwrap();
            assert!(!child.status.success(), "it ended by itself");
            let said = String::from_utf8(child.stdout).unwrap();
            let acknowledged = said.matches("acknowledged").count();
            assert_eq!(acknowledged, commits, "{at} {commits}");
            let session = Session::open(dir.path()).unwrap();
            let rows = Mirror::of(&session.snapshot()).rows;
            let there = if at == "after" { commits + 1 } else { commits };
            assert_eq!(rows.len(), there, "{at} {commits}");
            // The one whose answer was never heard is asked for again.
            let name = commits.to_string();
            let again = session.mutate(keyed(&name), new_workspace(&name)).await.unwrap();
            assert_eq!(again.replayed, at == "after");
            session.close().await;
        }
    }
}

fn keyed(name: &str) -> Origin {
    Origin { key: Some(format!("key of {name}")), ..Origin::default() }
}

/// What the child runs: several tasks that make, rename and close workspaces, each saying what was acknowledged. In the
/// test suite itself it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn child_of_the_crash_test() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let session = Session::open(Path::new(&dir)).unwrap();
    if let Ok(point) = std::env::var(POINT) {
        return one_by_one_until(&session, &point).await;
    }
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        // A line of its own also behind what the test harness wrote.
        write!(out, "\n{line}\n").and_then(|()| out.flush()).unwrap();
    };
    say(format!("document {}", session.snapshot().as_str()));
    let run = session.generation().to_string();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let (session, run) = (session.clone(), run.clone());
        tasks.spawn(async move {
            for number in 0.. {
                let name = format!("{run} {task} {number}");
                let made = session.mutate(keyed(&name), new_workspace(&name)).await.unwrap();
                say(format!("made {} {} {name}", made.revision, made.value.workspace.unwrap()));
                if number % 3 == 0 {
                    let close = WorkspaceClose {
                        workspace: made.value.workspace.unwrap().to_string(),
                        ..WorkspaceClose::default()
                    };
                    let closed = session.mutate(Origin::default(), close).await.unwrap();
                    say(format!("closed {} {}", closed.revision, made.value.workspace.unwrap()));
                }
            }
        });
    }
    tasks.join_next().await;
}

/// What the child said before it was killed.
#[derive(Default)]
struct Said {
    document: Option<Json>,
    made: HashMap<String, String>,
    closed: Vec<String>,
    revision: u64,
}

impl Said {
    fn hear(&mut self, line: &str) {
        if let Some(document) = line.strip_prefix("document ") {
            self.document = Some(Json::from_trusted(document.to_owned()));
            return;
        }
        let mut words = line.splitn(4, ' ');
        let verb = words.next().unwrap();
        if verb != "made" && verb != "closed" {
            return;
        }
        self.revision = self.revision.max(words.next().unwrap().parse().unwrap());
        let id = words.next().unwrap().to_owned();
        if verb == "made" {
            self.made.insert(id, words.next().unwrap().to_owned());
        } else {
            self.closed.push(id);
        }
    }
}

/// Lets a child work on `dir` until it acknowledged `after` mutations, and kills it.
fn run_and_kill(dir: &Path, after: usize) -> Said {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "session::tests::crash::child_of_the_crash_test", "--nocapture"])
        .env(CHILD, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = Said::default();
    let mut line = String::new();
    let mut killed = false;
    // What it said before the kill still stands in the pipe; a line that was cut does not count.
    while out.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        said.hear(line.trim_end());
        line.clear();
        if said.document.is_some() && said.made.len() + said.closed.len() >= after && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    assert!(killed, "the child ended by itself");
    child.wait().unwrap();
    said
}

#[tokio::test]
async fn what_was_acknowledged_survives_sigkill_and_the_journal_leads_to_the_rows() {
    let dir = tempdir().unwrap();
    let mut kept: HashMap<String, String> = HashMap::new();
    for (round, after) in [0, 1, 2, 5, 17, 60, 150, 301].into_iter().enumerate() {
        let said = run_and_kill(dir.path(), after);
        // The file as the killed process left it, before a daemon sees it again.
        let mut mirror = Mirror::of(said.document.as_ref().unwrap());
        let generation = mirror.cursor.generation.to_string();
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        let mut journal =
            connection.prepare("SELECT generation, revision, changes FROM journal ORDER BY revision").unwrap();
        let records = journal
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?)))
            .unwrap();
        for (record, expected) in records.zip(1..) {
            let (of, revision, changes) = record.unwrap();
            assert_eq!((of, revision), (generation.clone(), expected), "round {round}");
            mirror.change(&serde_json::from_str(&changes).unwrap());
            mirror.cursor.revision += 1;
        }
        assert!(mirror.cursor.revision >= said.revision, "an acknowledged revision is not in the journal");
        let mut rows = connection.prepare("SELECT kind, id, json FROM rows").unwrap();
        let rows = rows.query_map([], |row| {
            let json: String = row.get(2)?;
            Ok(((row.get(0)?, row.get(1)?), serde_json::from_str(&json).unwrap()))
        });
        let rows: BTreeMap<(String, String), JsonValue> = rows.unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, mirror.rows, "round {round}");

        let session = Session::open(dir.path()).unwrap();
        assert_eq!(Mirror::of(&session.snapshot()).rows, rows);
        // A request that was answered is answered the same again; one that was cut off is done once.
        for (id, name) in &said.made {
            let receipt = session.mutate(keyed(name), new_workspace(name)).await.unwrap();
            assert_eq!((receipt.replayed, &receipt.value.workspace.unwrap().to_string()), (true, id), "round {round}");
        }
        session.close().await;
        kept.extend(said.made);
        for closed in said.closed {
            kept.remove(&closed);
            assert!(!rows.contains_key(&("workspace".to_owned(), closed)), "what was closed is back");
        }
        for (id, name) in &kept {
            match rows.get(&("workspace".to_owned(), id.clone())) {
                Some(row) => assert_eq!(row["name"], **name),
                // Closed by the child, which was killed before it could say so.
                None => assert!(name.rsplit(' ').next().unwrap().parse::<u64>().unwrap() % 3 == 0, "{name} is lost"),
            }
        }
        kept.retain(|id, _| rows.contains_key(&("workspace".to_owned(), id.clone())));
    }
    assert!(kept.len() > 100);
}
