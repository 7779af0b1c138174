//! `attach --pipe-io`: the built program between real pipes, against a fake local server.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64;
use keepline_client::bounds::PIPE_LINE_MAX;
use keepline_protocol::api::Size;
use keepline_protocol::failure::Code;
use keepline_protocol::record::{Exit, LinkState, Record};
use serde_json::{Value, json};
use support::{Fake, TERMINAL, keepline, within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Pipe {
    fn start(fake: &Fake) -> Self {
        Pipe::with(fake, &["attach", "--terminal", &TERMINAL.to_string(), "--pipe-io"])
    }

    fn with(fake: &Fake, arguments: &[&str]) -> Self {
        let mut child = keepline(fake, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Pipe {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().unwrap(),
            stderr: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
        }
    }

    async fn ask(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).await.unwrap();
        stdin.write_all(b"\n").await.unwrap();
    }

    async fn type_in(&mut self, text: &[u8]) {
        self.ask(json!({"input": BASE64.encode(text)}).to_string().as_bytes()).await;
    }

    async fn shows(&mut self, expected: &[u8]) {
        let mut got = vec![0; expected.len()];
        within("output", self.stdout.read_exact(&mut got)).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected));
    }

    async fn told(&mut self) -> Value {
        let line = within("a line on stderr", self.stderr.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    /// Waits for the end: the last line on stderr, what was left on stdout, and the exit.
    async fn end(mut self) -> (Vec<Value>, Vec<u8>, ExitStatus) {
        let mut rest = Vec::new();
        within("stdout's end", self.stdout.read_to_end(&mut rest)).await.unwrap();
        let mut lines = Vec::new();
        while let Some(line) = within("stderr's end", self.stderr.next_line()).await.unwrap() {
            lines.push(serde_json::from_str(&line).unwrap());
        }
        let status = within("exit", self.child.wait()).await.unwrap();
        (lines, rest, status)
    }
}

fn exit(reason: &str, status: impl Into<Value>) -> Value {
    json!({"exit": {"reason": reason, "status": status.into()}})
}

#[tokio::test]
async fn bytes_sizes_links_and_the_end_are_told_as_they_are_specified() {
    let fake = Fake::start();
    fake.print(b"before");
    let mut pipe = Pipe::start(&fake);
    pipe.shows(b"<snapshot 6>").await;
    assert_eq!(pipe.told().await, json!({"size": {"cols": 80, "rows": 24}}));

    fake.print("größer\x1b[m".as_bytes());
    pipe.shows("größer\x1b[m".as_bytes()).await;
    pipe.type_in(b"ls\r\x00\xff").await;
    fake.until("input", |state| state.input == b"ls\r\x00\xff").await;

    pipe.ask(br#"{"resize":{"cols":100,"rows":40},"later":1}"#).await;
    fake.until("vote", |state| state.votes == [Size::cells(100, 40)]).await;
    // The server did not follow the vote.
    assert_eq!(pipe.told().await, json!({"size": {"cols": 80, "rows": 24}}));
    fake.send(Record::Size(Size::cells(100, 40)));
    assert_eq!(pipe.told().await, json!({"size": {"cols": 100, "rows": 40}}));

    fake.send(Record::Link { state: LinkState::Down, retry_ms: 250 });
    assert_eq!(pipe.told().await, json!({"link": {"state": "down", "retry_ms": 250}}));
    fake.send(Record::Link { state: LinkState::Up, retry_ms: 0 });
    assert_eq!(pipe.told().await, json!({"link": {"state": "up", "retry_ms": 0}}));
    fake.send(Record::Lost { unsent: 3, unknown: 4 });
    assert_eq!(pipe.told().await, json!({"input": {"unsent": 3, "unknown": 4}}));

    // Each later snapshot is the bytes of one behind exactly a reset.
    let through = fake.with(|state| state.output.len() as u64);
    fake.send(Record::Snapshot { through, vt: Bytes::from_static(b"again") });
    pipe.shows(b"\x1bc\x1b[3Jagain").await;

    fake.print(b"the end");
    fake.with(|state| state.ended = Some(Exit::Status(7)));
    let (lines, rest, status) = pipe.end().await;
    assert_eq!(rest, b"the end");
    assert_eq!(lines, [exit("terminal-ended", 7)]);
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_bad_line_is_one_diagnostic_and_costs_only_itself() {
    let fake = Fake::start();
    let mut pipe = Pipe::start(&fake);
    pipe.told().await;
    pipe.ask(b"secret").await;
    pipe.ask(br#"{"input":"secret!"}"#).await;
    pipe.ask(&vec![b'x'; PIPE_LINE_MAX + 1]).await;
    pipe.ask(b"").await;
    pipe.ask(b"{}").await;
    pipe.type_in(b"good").await;
    fake.until("input", |state| state.input == b"good").await;
    for line in 1..=3 {
        let told = pipe.told().await;
        let text = told["diagnostic"].as_str().unwrap();
        assert!(text.starts_with(&format!("line {line} of stdin")), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    drop(pipe.stdin.take());
    let (lines, _, status) = pipe.end().await;
    assert_eq!(lines, [exit("parent-closed", 0)]);
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn the_end_of_stdin_waits_for_acknowledgement() {
    let fake = Fake::start();
    fake.with(|state| state.acknowledges = false);
    let mut pipe = Pipe::start(&fake);
    pipe.told().await;
    // More than a tail holds, so that most of it is not even read at first.
    let text = vec![b'x'; 3 << 20];
    for piece in text.chunks(1 << 20) {
        let line = json!({"input": BASE64.encode(piece)}).to_string() + "\n";
        let mut stdin = pipe.stdin.take().unwrap();
        pipe.stdin = Some(
            tokio::spawn(async move {
                stdin.write_all(line.as_bytes()).await.unwrap();
                stdin
            })
            .await
            .unwrap(),
        );
        fake.with(|state| state.acknowledges = true);
    }
    // The last line has no end.
    let last = json!({"input": BASE64.encode(b"end")}).to_string();
    pipe.stdin.as_mut().unwrap().write_all(last.as_bytes()).await.unwrap();
    drop(pipe.stdin.take());
    let (lines, _, status) = pipe.end().await;
    assert_eq!(lines, [exit("parent-closed", 0)]);
    assert_eq!(status.code(), Some(0));
    let input = fake.with(|state| state.input.clone());
    assert!(input.len() == (3 << 20) + 3 && input.ends_with(b"xend"));
}

#[tokio::test]
async fn input_that_is_never_acknowledged_is_named_after_a_while() {
    let fake = Fake::start();
    fake.with(|state| state.acknowledges = false);
    let mut pipe = Pipe::start(&fake);
    pipe.told().await;
    pipe.type_in(b"12345").await;
    fake.until("input", |state| state.input == b"12345").await;
    drop(pipe.stdin.take());
    let (lines, _, status) = pipe.end().await;
    assert_eq!(lines, [json!({"input": {"unsent": 0, "unknown": 5}}), exit("parent-closed", 0)]);
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_cut_is_bridged_without_a_reset_and_a_loss_is_exit_2() {
    let fake = Fake::start();
    let mut pipe = Pipe::start(&fake);
    pipe.shows(b"<snapshot 0>").await;
    pipe.told().await;
    fake.print(b"one ");
    pipe.shows(b"one ").await;
    fake.cut();
    fake.print(b"two ");
    pipe.type_in(b"typed").await;
    pipe.shows(b"two ").await;
    fake.until("input", |state| state.input == b"typed").await;
    assert_eq!(pipe.told().await["link"]["state"], "down");
    assert_eq!(pipe.told().await["link"]["state"], "up");

    fake.vanish();
    assert_eq!(pipe.told().await["link"]["state"], "down");
    pipe.type_in(b"lost").await;
    let (lines, rest, status) = pipe.end().await;
    assert_eq!(rest, b"");
    assert_eq!(lines.last(), Some(&exit("daemon-lost", 2)));
    // The acknowledgement of what was typed before may have been cut off.
    let lost = lines.iter().find_map(|line| line.get("input")).unwrap();
    assert_eq!(lost["unsent"], 4);
    assert!(lost["unknown"] == 0 || lost["unknown"] == 5);
    assert_eq!(status.code(), Some(2));
}

#[tokio::test]
async fn a_slow_stdout_does_not_hold_input_back() {
    let fake = Fake::start();
    let mut pipe = Pipe::start(&fake);
    pipe.told().await;
    let flood: Vec<u8> = (0..200_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    fake.print(&flood);
    // The snapshot may already show some of it. Nothing is read, yet keys arrive.
    for n in 0..50 {
        pipe.type_in(format!("{n};").as_bytes()).await;
    }
    fake.until("input", |state| state.input.ends_with(b"49;")).await;
    fake.with(|state| state.ended = Some(Exit::Signal(9)));
    let (lines, rest, status) = pipe.end().await;
    assert!(rest.ends_with(&flood));
    assert_eq!(lines.last(), Some(&exit("terminal-ended", 137)));
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_parent_that_closes_stdout_or_signals_ends_it() {
    let fake = Fake::start();
    let mut pipe = Pipe::start(&fake);
    pipe.told().await;
    let pid = rustix::process::Pid::from_raw(pipe.child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (lines, _, status) = pipe.end().await;
    assert_eq!(lines, [exit("parent-closed", 0)]);
    assert_eq!(status.code(), Some(0));

    let Pipe { stdout, mut stderr, mut child, stdin: _stdin } = Pipe::start(&fake);
    drop(stdout);
    fake.print(b"x");
    let mut last = String::new();
    while let Some(line) = within("stderr", stderr.next_line()).await.unwrap() {
        last = line;
    }
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap(), exit("parent-closed", 0));
    assert_eq!(within("exit", child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn what_cannot_be_attached_to_has_its_own_exit_codes() {
    let fake = Fake::start();
    let run = async |fake: &Arc<Fake>, arguments: &[&str]| {
        let (mut lines, rest, status) = Pipe::with(fake, arguments).end().await;
        assert_eq!(rest, b"");
        let last = lines.pop().unwrap();
        assert!(lines[0]["diagnostic"].is_string());
        (last["exit"]["reason"].as_str().unwrap().to_owned(), status.code().unwrap())
    };
    let id = TERMINAL.to_string();
    let attach = ["attach", "--pipe-io", "--terminal", &id];
    assert_eq!(run(&fake, &attach[..2]).await, ("usage".to_owned(), 1));
    assert_eq!(run(&fake, &["attach", "--pipe-io", "--terminal", &id, "--nonsense"]).await, ("usage".to_owned(), 1));
    fake.refuse("terminal.attach", Code::NotFound, "no such terminal");
    assert_eq!(run(&fake, &attach).await, ("not-found".to_owned(), 4));
    fake.refuse("terminal.attach", Code::Refused, "not yours");
    assert_eq!(run(&fake, &attach).await, ("refused".to_owned(), 6));
    fake.refuse("terminal.attach", Code::Unreachable, "cannot reach 'box' — disconnected");
    assert_eq!(run(&fake, &attach).await, ("daemon-lost".to_owned(), 2));

    let mut command = keepline(&fake, &attach);
    let output = within("exit", command.env("KEEPLINE_TERMINAL_ID", &id).output()).await.unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert!(output.stderr.ends_with(b"{\"exit\":{\"reason\":\"refused\",\"status\":6}}\n"));
}
