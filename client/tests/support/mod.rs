//! A local socket with one terminal behind it, small enough to be obviously right, and what tests do with it.

#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(unreachable_pub, reason = "a test file is a crate of its own")]

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use keepline_protocol::api::Size;
use keepline_protocol::api::terminal::{Attached, TerminalAttach};
use keepline_protocol::failure::Code;
use keepline_protocol::id::{AttachmentId, TerminalId};
use keepline_protocol::record::{Exit, Record};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub const TERMINAL: TerminalId = TerminalId::from_bytes([7; 16]);

/// How long a test waits for what must happen. It is no measure of anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What the server knows and does.
pub struct State {
    pub output: Vec<u8>,
    pub input: Vec<u8>,
    pub written: HashMap<AttachmentId, u64>,
    pub acknowledges: bool,
    pub size: Size,
    pub votes: Vec<Size>,
    pub attaches: Vec<TerminalAttach>,
    /// Sent to every attachment that is open, and not remembered for later ones.
    pub records: Vec<Record>,
    /// Sent first on every attachment.
    pub greeting: Vec<Record>,
    pub ended: Option<Exit>,
    /// Every connection of an older count is closed.
    pub cuts: u64,
    /// By method: what is answered.
    pub answers: HashMap<String, Result<Value, (Code, String)>>,
    pub requests: Vec<Value>,
    pub notifications: Vec<Value>,
}

pub struct Fake {
    pub dir: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Fake {
    pub fn start() -> Arc<Self> {
        let state = State {
            output: Vec::new(),
            input: Vec::new(),
            written: HashMap::new(),
            acknowledges: true,
            size: Size::cells(80, 24),
            votes: Vec::new(),
            attaches: Vec::new(),
            records: Vec::new(),
            greeting: Vec::new(),
            ended: None,
            cuts: 0,
            answers: HashMap::new(),
            requests: Vec::new(),
            notifications: Vec::new(),
        };
        let fake = Arc::new(Fake {
            dir: tempfile::tempdir().unwrap(),
            state: Arc::new(Mutex::new(state)),
            changed: watch::channel(()).0,
            serving: Mutex::new(None),
        });
        fake.serve();
        fake
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("fake.sock")
    }

    pub fn serve(self: &Arc<Self>) {
        let _ = std::fs::remove_file(self.path());
        let listener = UnixListener::bind(self.path()).unwrap();
        let fake = Arc::clone(self);
        *self.serving.lock().unwrap() = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let fake = Arc::clone(&fake);
                tokio::spawn(async move { fake.connection(stream).await });
            }
        }));
    }

    /// Closes every connection and serves no more.
    pub fn vanish(&self) {
        if let Some(serving) = self.serving.lock().unwrap().take() {
            serving.abort();
        }
        std::fs::remove_file(self.path()).unwrap();
        self.cut();
    }

    pub fn cut(&self) {
        self.with(|state| state.cuts += 1);
    }

    /// Changes the state, and lets every connection look at it.
    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state.lock().unwrap());
        self.changed.send_replace(());
        value
    }

    pub fn answer(&self, method: &str, answer: Value) {
        self.with(|state| state.answers.insert(method.to_owned(), Ok(answer)));
    }

    pub fn refuse(&self, method: &str, code: Code, message: &str) {
        self.with(|state| state.answers.insert(method.to_owned(), Err((code, message.to_owned()))));
    }

    pub fn print(&self, bytes: &[u8]) {
        self.with(|state| state.output.extend_from_slice(bytes));
    }

    pub fn send(&self, record: Record) {
        self.with(|state| state.records.push(record));
    }

    pub async fn until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        within(what, async {
            while !condition(&self.state.lock().unwrap()) {
                changed.changed().await.unwrap();
            }
        })
        .await;
    }

    async fn connection(self: Arc<Self>, stream: UnixStream) {
        let cuts = self.with(|state| state.cuts);
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader);
        let mut line = String::new();
        let mut changed = self.changed.subscribe();
        loop {
            line.clear();
            tokio::select! {
                read = lines.read_line(&mut line) => if !matches!(read, Ok(1..)) {
                    return;
                },
                _ = changed.changed() => {
                    if self.with_quietly(|state| state.cuts) != cuts {
                        return;
                    }
                    continue;
                }
            }
            let request: Value = serde_json::from_str(&line).unwrap();
            let method = request["method"].as_str().unwrap().to_owned();
            self.with(|state| state.requests.push(request.clone()));
            let answer = self.with_quietly(|state| state.answers.get(&method).cloned());
            let reply = |outcome: &Result<Value, (Code, String)>| {
                let mut reply = match outcome {
                    Ok(result) => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
                    Err((code, message)) => {
                        json!({"jsonrpc": "2.0", "id": request["id"], "error": {
                            "code": -32000 - i64::from(code.number()),
                            "message": message,
                            "data": {"kind": code.name(), "candidates": ["one", "two"]},
                        }})
                    }
                }
                .to_string();
                reply.push('\n');
                reply
            };
            match answer {
                None if method == "terminal.attach" => {
                    let params = serde_json::from_value(request["params"].clone()).unwrap();
                    let (attached, sent) = self.attach(&params);
                    let line = reply(&Ok(serde_json::to_value(attached).unwrap()));
                    if writer.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                    return self.attachment(params, sent, lines, writer, cuts).await;
                }
                // A method without an answer is never answered.
                None => {}
                Some(outcome) => {
                    let _ = writer.write_all(reply(&outcome).as_bytes()).await;
                    if method == "session.events" {
                        let notifications = self.with_quietly(|state| state.notifications.clone());
                        for notification in notifications {
                            let line = format!("{notification}\n");
                            let _ = writer.write_all(line.as_bytes()).await;
                        }
                    }
                }
            }
        }
    }

    fn with_quietly<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    fn attach(&self, params: &TerminalAttach) -> (Attached, Vec<Record>) {
        self.with(|state| {
            let remembered = state.written.contains_key(&params.attachment);
            let written = *state.written.entry(params.attachment).or_default();
            state.attaches.push(params.clone());
            if let Some(size) = params.size {
                state.votes.push(size);
                state.size = size;
            }
            let attached = Attached { terminal: TERMINAL, written, remembered, size: state.size };
            let first = if params.from_offset.is_some() {
                Vec::new()
            } else {
                vec![Record::Snapshot { through: state.output.len() as u64, vt: snapshot(state.output.len()) }]
            };
            (attached, [state.greeting.clone(), first].concat())
        })
    }

    async fn attachment(
        self: Arc<Self>,
        params: TerminalAttach,
        first: Vec<Record>,
        mut reader: impl AsyncReadExt + Unpin,
        mut writer: impl AsyncWriteExt + Unpin,
        cuts: u64,
    ) {
        let mut offset = params.from_offset;
        let mut acknowledged = 0;
        let mut extra = self.with_quietly(|state| state.records.len());
        let mut changed = self.changed.subscribe();
        let mut buffer = BytesMut::new();
        let mut out = BytesMut::new();
        let mut over = false;
        for record in first {
            if let Record::Snapshot { through, .. } = &record {
                offset = Some(*through);
            }
            out.extend_from_slice(&record.to_local());
        }
        loop {
            self.with_quietly(|state| {
                let from = usize::try_from(offset.unwrap_or(0)).unwrap();
                let to = state.output.len().min(from + 30_000);
                if out.len() < 60_000 && from < to {
                    out.extend_from_slice(
                        &Record::Output { offset: from as u64, bytes: Bytes::copy_from_slice(&state.output[from..to]) }
                            .to_local(),
                    );
                    offset = Some(to as u64);
                }
                for record in &state.records[extra..] {
                    out.extend_from_slice(&record.to_local());
                }
                extra = state.records.len();
                let written = state.written.get(&params.attachment).copied().unwrap_or(0);
                if state.acknowledges && written > acknowledged {
                    acknowledged = written;
                    out.extend_from_slice(&Record::InputAcknowledged(written).to_local());
                }
                if let Some(exit) = &state.ended
                    && offset == Some(state.output.len() as u64)
                    && !std::mem::replace(&mut over, true)
                {
                    out.extend_from_slice(&Record::Ended(exit.clone()).to_local());
                }
                over |= state.cuts != cuts;
            });
            if self.with_quietly(|state| state.cuts) != cuts {
                return;
            }
            if over && out.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                read = reader.read_buf(&mut buffer) => {
                    if !matches!(read, Ok(1..)) {
                        return;
                    }
                    while let Some(record) = Record::from_local(&mut buffer).unwrap() {
                        self.heard(&params, record);
                    }
                }
                written = writer.write_buf(&mut out), if !out.is_empty() => if written.is_err() {
                    return;
                },
                _ = changed.changed() => {}
            }
        }
    }

    fn heard(&self, params: &TerminalAttach, record: Record) {
        self.with(|state| match record {
            Record::Input { offset, bytes } => {
                let written = state.written.entry(params.attachment).or_default();
                assert!(offset <= *written, "input is missing before {offset}");
                let known = usize::try_from(*written - offset).unwrap();
                if known < bytes.len() {
                    *written = offset + bytes.len() as u64;
                    state.input.extend_from_slice(&bytes[known..]);
                }
            }
            Record::Size(size) => state.votes.push(size),
            other => panic!("{other:?} came from a client"),
        });
    }
}

/// What a snapshot after `through` bytes looks like.
pub fn snapshot(through: usize) -> Bytes {
    Bytes::from(format!("<snapshot {through}>"))
}

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// The built program, in an environment of its own.
pub fn keepline(fake: &Fake, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_keepline"));
    command
        .args(arguments)
        .current_dir(fake.dir.path())
        .env_clear()
        .env("HOME", fake.dir.path())
        .env("XDG_RUNTIME_DIR", fake.dir.path())
        .env("KEEPLINE_SOCKET", fake.path())
        .kill_on_drop(true);
    command
}
