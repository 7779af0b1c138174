//! Interactive `attach`: the built program on a real PTY, which is put back on every way out.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::sync::Arc;

use keepline_protocol::api::Size;
use keepline_protocol::failure::Code;
use keepline_protocol::record::{Exit, LinkState, Record};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use support::{Fake, TERMINAL, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

struct Person {
    pty: pty_process::Pty,
    child: Child,
    before: Termios,
    shown: Vec<u8>,
}

impl Person {
    async fn start(fake: &Fake, arguments: &[&str]) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let before = tcgetattr(&pty).unwrap();
        let child = pty_process::Command::new(env!("CARGO_BIN_EXE_keepline"))
            .args(arguments)
            .env_clear()
            .env("HOME", fake.dir.path())
            .env("XDG_RUNTIME_DIR", fake.dir.path())
            .env("KEEPLINE_SOCKET", fake.path())
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        Person { pty, child, before, shown: Vec::new() }
    }

    async fn attached(fake: &Fake) -> Self {
        let id = TERMINAL.to_string();
        let mut person = Person::start(fake, &["attach", "--terminal", &id]).await;
        person.sees("<snapshot").await;
        let raw = tcgetattr(&person.pty).unwrap();
        assert!(!raw.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        person
    }

    async fn sees(&mut self, text: &str) {
        within(&format!("{text:?} on the screen"), async {
            while !String::from_utf8_lossy(&self.shown).contains(text) {
                assert_ne!(self.pty.read_buf(&mut self.shown).await.unwrap(), 0);
            }
        })
        .await;
    }

    async fn types(&mut self, keys: &[u8]) {
        self.pty.write_all(keys).await.unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the exit, and checks that the terminal is as it was. Gives the last line and the exit code.
    async fn leaves(mut self) -> (String, i32) {
        within("the screen's end", async {
            // A PTY without a slave ends with EIO.
            while let Ok(1..) = self.pty.read_buf(&mut self.shown).await {}
        })
        .await;
        let status = within("exit", self.child.wait()).await.unwrap();
        let shown = String::from_utf8_lossy(&self.shown).into_owned();
        let (screen, message) = shown.rsplit_once("[keepline: ").unwrap();
        assert!(message.ends_with("]\r\n"), "{message:?}");
        assert!(!message.contains('\x1b'), "nothing but the message follows the restoring bytes");
        let restore = &screen[screen.rfind("\x1b[?1049l").expect("the main screen")..];
        assert!(restore.ends_with("\x1b[999;1H\r\n"), "a fresh line below: {restore:?}");
        for mode in [9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1, 6, 69, 2004] {
            assert!(restore.contains(&format!("\x1b[?{mode}l")), "mode {mode} off");
        }
        for sequence in [
            "\x1b[?25h",
            "\x1b[0 q",
            "\x1b[?7h",
            "\x1b[r",
            "\x1b[m",
            "\x1b>",
            "\x1b(B",
            "\x0f",
            "\x1b[<99u",
            "\x1b[=0u",
            "\x1b[>4m",
            "\x1b[4l",
        ] {
            assert!(restore.contains(sequence), "{sequence:?}");
        }
        let after = tcgetattr(&self.pty).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        assert_eq!(after.control_modes, self.before.control_modes);
        (message.trim_end_matches("]\r\n").to_owned(), status.code().unwrap())
    }
}

#[tokio::test]
async fn a_person_types_sees_resizes_and_detaches() {
    let fake = Fake::start();
    let mut person = Person::attached(&fake).await;
    assert_eq!(fake.with(|state| state.attaches[0].clone()).size, Some(Size::cells(80, 24)));
    // The program turns everything on; its queries are the daemon's to answer.
    fake.print(b"\x1b[?1049h\x1b[?1003h\x1b[6n\x1b[>c\x1b]11;?\x07marker");
    person.sees("\x1b[?1049h\x1b[?1003hmarker").await;
    person.pty.resize(pty_process::Size::new(30, 100)).unwrap();
    fake.until("vote", |state| state.votes.contains(&Size::cells(100, 30))).await;
    person.types(b"a~.b\x03\r~~c\r").await;
    fake.until("input", |state| state.input == b"a~.b\x03\r~c\r").await;
    person.types(b"last\r~.").await;
    let (message, code) = person.leaves().await;
    assert!(message.starts_with("detached"), "{message}");
    assert!(message.contains(&TERMINAL.to_string()));
    assert_eq!(code, 0);
    assert_eq!(fake.with(|state| state.input.clone()), b"a~.b\x03\r~c\rlast\r");
}

#[tokio::test]
async fn signals_restore_the_terminal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let fake = Fake::start();
        let person = Person::attached(&fake).await;
        person.signal(signal);
        let (message, exit) = person.leaves().await;
        assert!(message.starts_with("ended by SIG"), "{message}");
        assert_eq!(exit, code);
    }
}

#[tokio::test]
async fn the_terminals_end_is_said_and_exits_0() {
    let fake = Fake::start();
    let person = Person::attached(&fake).await;
    fake.print(b"\x1b]0;a string that is cut");
    fake.with(|state| state.ended = Some(Exit::Reason("daemon\x1b[31m stopped".to_owned())));
    let (message, exit) = person.leaves().await;
    assert_eq!(message, "terminal ended: daemon[31m stopped");
    assert_eq!(exit, 0);
}

#[tokio::test]
async fn a_lost_link_is_one_status_line_and_a_repaint() {
    let fake = Fake::start();
    let mut person = Person::attached(&fake).await;
    fake.send(Record::Link { state: LinkState::Down, retry_ms: 60_000 });
    person.sees("link down").await;
    fake.print(b"meanwhile");
    person.sees("meanwhile").await;
    fake.send(Record::Link { state: LinkState::Up, retry_ms: 0 });
    person.sees("<snapshot 9>").await;
    let last = fake.with(|state| state.attaches.last().unwrap().clone());
    assert_eq!((last.from_offset, last.history), (None, Some(0)));
    person.types(b"~?").await;
    person.sees("this help").await;
    person.types(b"~.").await;
    assert_eq!(person.leaves().await.1, 0);
}

#[tokio::test]
async fn a_lost_server_ends_it_after_a_while() {
    let fake = Fake::start();
    let mut person = Person::attached(&fake).await;
    fake.vanish();
    person.sees("link down").await;
    let (message, exit) = person.leaves().await;
    assert!(message.contains("KEEPLINE_SOCKET"), "{message}");
    assert_eq!(exit, 1);
}

#[tokio::test]
async fn watching_only_types_nothing_and_votes_for_nothing() {
    let fake = Fake::start();
    let id = TERMINAL.to_string();
    let mut person = Person::start(&fake, &["attach", "--terminal", &id, "--read-only", "--history", "5"]).await;
    person.sees("<snapshot").await;
    let attach = fake.with(|state| state.attaches[0].clone());
    assert_eq!((attach.size, attach.observer, attach.history), (None, Some(true), Some(5)));
    person.types(b"x\r~.").await;
    assert_eq!(person.leaves().await.1, 0);
    assert_eq!(fake.with(|state| state.input.clone()), b"");
}

#[tokio::test]
async fn without_a_terminal_named_it_is_the_last_used_live_one_else_a_new_one() {
    let fake = Fake::start();
    let row = |name: &str, lifecycle: &str, used: u64| {
        let id = format!("term_{}", name.repeat(32));
        serde_json::json!({"id": id, "name": name, "lifecycle": lifecycle, "used_ms": used})
    };
    let list = |rows: &[serde_json::Value]| serde_json::json!({"terminals": rows, "freshness": {"state": "live", "since_ms": 1}});
    fake.answer("terminal.list", list(&[row("a", "running", 5), row("b", "running", 9), row("c", "ended", 99)]));
    let detach = async |fake: &Arc<Fake>| {
        let mut person = Person::start(fake, &[]).await;
        person.sees("<snapshot").await;
        person.types(b"~.").await;
        assert_eq!(person.leaves().await.1, 0);
        fake.with(|state| state.attaches.pop().unwrap().terminal)
    };
    assert_eq!(detach(&fake).await, format!("term_{}", "b".repeat(32)));
    fake.answer("terminal.list", list(&[row("c", "ended", 99)]));
    fake.answer(
        "terminal.new",
        serde_json::json!({"value": {"workspace": null, "terminal": TERMINAL}, "generation": "ab".repeat(16),
            "revision": 1, "replayed": false}),
    );
    assert_eq!(detach(&fake).await, TERMINAL.to_string());
    let made = fake.with(|state| state.requests.iter().rfind(|request| request["method"] == "terminal.new").cloned());
    assert_eq!(made.unwrap()["params"]["size"]["cols"], 80);

    // A stale list may be read, but nothing is opened by it.
    let mut stale = list(&[row("b", "running", 9)]);
    stale["freshness"]["state"] = "stale".into();
    fake.answer("terminal.list", stale);
    let unreachable = "cannot reach 'box' — disconnected";
    fake.refuse("server.status", Code::Unreachable, unreachable);
    let mut person = Person::start(&fake, &[]).await;
    person.sees(unreachable).await;
    let status = within("exit", person.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(fake.with(|state| state.attaches.is_empty()));
}
