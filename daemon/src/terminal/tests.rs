//! Terminals with real programs on real PTYs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::api::terminal::{LineRange, ScreenText, TerminalRead, TerminalWait};
use keepline_protocol::failure::Code;
use keepline_protocol::id::{AttachmentId, TerminalId};
use keepline_protocol::record::{Exit, Record};
use keepline_screen::Limits;
use tokio::time::timeout;

use super::screen::Screen;
use super::{Attach, Attachment, Policy, PtyIo, Spawn, Terminal};
use crate::bounds::*;

/// Longer than anything takes here; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(60);
const SIZE: Size = Size::cells(80, 24);

fn spawn_of(argv: &[&str]) -> Spawn {
    Spawn {
        id: TerminalId::from_bytes([7; 16]),
        argv: argv.iter().map(|&text| text.to_owned()).collect(),
        cwd: Some("/".to_owned()),
        env: vec![],
        socket: "/run/keepline/daemon.sock".into(),
        size: SIZE,
        history: Limits::default(),
    }
}

async fn start(argv: &[&str]) -> (PtyIo, Arc<Terminal>) {
    let io = PtyIo::start().unwrap();
    let terminal = Terminal::spawn(&io, spawn_of(argv)).await.unwrap();
    (io, terminal)
}

async fn sh(script: &str) -> (PtyIo, Arc<Terminal>) {
    start(&["/bin/sh", "-c", script]).await
}

fn attachment(n: u8) -> AttachmentId {
    AttachmentId::from_bytes([n; 16])
}

fn attach(n: u8) -> Attach {
    Attach { attachment: attachment(n), size: Some(SIZE), observer: false, from_offset: None, history: None }
}

fn from_start(n: u8) -> Attach {
    Attach { from_offset: Some(0), ..attach(n) }
}

fn looked(terminal: &Terminal, ansi: bool) -> ScreenText {
    terminal.read(&TerminalRead { ansi: Some(ansi), ..TerminalRead::default() }).unwrap()
}

/// What an attachment gave, put together.
#[derive(Default, Debug)]
struct Got {
    output: Vec<u8>,
    /// Offset of the first byte of `output`.
    offset: Option<u64>,
    snapshots: Vec<(u64, Bytes)>,
    sizes: Vec<Size>,
    acknowledged: u64,
    exit: Option<Exit>,
}

impl Got {
    fn take(&mut self, record: Record) {
        assert!(self.exit.is_none(), "the end is last");
        match record {
            Record::Snapshot { through, vt } => {
                self.snapshots.push((through, vt));
                self.output.clear();
                self.offset = Some(through);
            }
            Record::Output { offset, bytes } => {
                assert!(!bytes.is_empty());
                let expected = *self.offset.get_or_insert(offset) + self.output.len() as u64;
                assert_eq!(offset, expected, "no byte is missing or doubled");
                self.output.extend_from_slice(&bytes);
            }
            Record::Size(size) => self.sizes.push(size),
            Record::InputAcknowledged(offset) => {
                assert!(offset > self.acknowledged);
                self.acknowledged = offset;
            }
            Record::Ended(exit) => self.exit = Some(exit),
            Record::Lost { .. } | Record::Link { .. } | Record::Input { .. } => {}
        }
    }

    fn text(&self) -> String {
        let mut all: Vec<u8> = self.snapshots.last().map(|(_, vt)| vt.to_vec()).unwrap_or_default();
        all.extend_from_slice(&self.output);
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Pulls records until `enough`.
async fn pull(from: &mut Attachment, got: &mut Got, what: &str, enough: impl Fn(&Got) -> bool) {
    let pulled = timeout(LONG, async {
        while !enough(got) {
            match from.next(1000) {
                Some(record) => got.take(record),
                None => from.changed().await,
            }
        }
    });
    if pulled.await.is_err() {
        panic!("waited in vain for {what}; text {:?}, {got:?}", got.text());
    }
}

async fn pull_all(from: &mut Attachment) -> Got {
    let mut got = Got::default();
    pull(from, &mut got, "the end", |got| got.exit.is_some()).await;
    got
}

async fn end_of(terminal: &Terminal) -> Exit {
    let mut exited = terminal.exited();
    let exit = timeout(LONG, exited.wait_for(Option::is_some)).await.expect("the terminal ends");
    exit.unwrap().clone().unwrap()
}

/// Waits until the screen satisfies `shown`.
async fn wait_for_screen(terminal: &Terminal, what: &str, shown: impl Fn(&[String]) -> bool) {
    let mut changed = terminal.shared.changed.subscribe();
    let waited = timeout(LONG, async {
        while !shown(&looked(terminal, false).rows) {
            // The parser is a little behind what wakes us.
            let _ = timeout(Duration::from_millis(5), changed.changed()).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: {:?}", looked(terminal, false).rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_answers_and_its_end_is_the_last_record() {
    let (_io, terminal) = start(&["/bin/sh"]).await;
    let (attached, mut attachment) = terminal.attach(attach(1)).await;
    assert_eq!((attached.written, attached.remembered, attached.size), (0, false, SIZE));
    let mut got = Got::default();
    attachment.hand().input(0, Bytes::from_static(b"echo $((6*7))\n")).await.unwrap();
    pull(&mut attachment, &mut got, "42", |got| got.text().contains("42\r\n")).await;
    attachment.hand().input(14, Bytes::from_static(b"exit 5\n")).await.unwrap();
    pull(&mut attachment, &mut got, "the end", |got| got.exit.is_some()).await;
    assert_eq!(got.exit, Some(Exit::Status(5)));
    assert_eq!(got.acknowledged, 21);
    assert!(attachment.next(1000).is_none());
    assert_eq!(end_of(&terminal).await, Exit::Status(5));
    // An ended terminal is readable, and can be attached to.
    assert!(looked(&terminal, false).rows.iter().any(|row| row.ends_with("42")));
    let (_, mut late) = terminal.attach(attach(2)).await;
    let got = pull_all(&mut late).await;
    assert!(got.text().contains("42"));
    let refused = attachment.hand().input(21, Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(refused.code, Code::Gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_counted_from_birth_and_can_be_resumed() {
    let (_io, terminal) = sh("printf 'one\\n'; printf 'two\\n'; read x; printf 'three\\n'").await;
    let (_, mut whole) = terminal.attach(from_start(1)).await;
    let mut got = Got::default();
    pull(&mut whole, &mut got, "ten bytes", |got| got.output.len() == 10).await;
    assert_eq!(got.output, b"one\r\ntwo\r\n");
    let (_, mut resumed) = terminal.attach(Attach { from_offset: Some(7), ..attach(2) }).await;
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    let rest = pull_all(&mut resumed).await;
    assert_eq!((rest.offset, &rest.output[..]), (Some(7), &b"o\r\n\r\nthree\r\n"[..]));
    assert!(rest.snapshots.is_empty());
    // An offset that was never given is answered with a snapshot.
    let (_, mut beyond) = terminal.attach(Attach { from_offset: Some(1 << 40), ..attach(3) }).await;
    let got = pull_all(&mut beyond).await;
    assert_eq!(got.snapshots.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_what_follows_is_what_the_terminal_shows() {
    let script =
        "for i in $(seq 400); do printf '\\033[3%dmline %d \\033[4munder\\033[m\\r\\n' $((i % 8)) $i; done; read x";
    let (_io, terminal) = sh(script).await;
    let mut all = Vec::new();
    for n in 0..6 {
        let (_, attachment) = terminal.attach(attach(n)).await;
        let mut got = Got::default();
        let mut attachment = attachment;
        pull(&mut attachment, &mut got, "a snapshot", |got| !got.snapshots.is_empty()).await;
        all.push((attachment, got));
    }
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    end_of(&terminal).await;
    for (mut attachment, mut got) in all {
        pull(&mut attachment, &mut got, "the end", |got| got.exit.is_some()).await;
        let mut screen = Screen::new(SIZE, Limits::default());
        screen.feed(&got.snapshots[0].1);
        screen.feed(&got.output);
        let read = looked(&terminal, true);
        assert_eq!(screen.get().rows(true), read.rows);
        assert_eq!(screen.get().cursor(), (read.cursor_column, read.cursor_row));
        assert_eq!(got.offset.unwrap() + got.output.len() as u64, read.through);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_lags_and_stalls_nobody() {
    let (_io, terminal) =
        sh("read x; yes 0123456789012345678901234567890123456789012345678 | head -100000; echo done").await;
    let (_, mut idle) = terminal.attach(attach(1)).await;
    assert!(matches!(idle.next(100), Some(Record::Snapshot { through: 0, .. })));
    let (_, mut busy) = terminal.attach(from_start(2)).await;
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    let mut got = Got::default();
    let mut total = 0;
    timeout(LONG, async {
        while got.exit.is_none() {
            match busy.next(1 << 20) {
                Some(record) => got.take(record),
                None => busy.changed().await,
            }
            total += got.output.len();
            got.offset = got.offset.map(|offset| offset + got.output.len() as u64);
            got.output.clear();
        }
    })
    .await
    .expect("the program ends");
    // This one may lag too on a busy machine, but then it says so.
    if got.snapshots.is_empty() {
        assert_eq!(total, 2 + 100_000 * 51 + 6);
    }
    let got = pull_all(&mut idle).await;
    assert_eq!(got.snapshots.len(), 1);
    assert!(got.snapshots[0].0 > 5_000_000);
    assert!(got.text().contains("done"));
    let history = got.snapshots[0].1.windows(8).filter(|bytes| bytes == b"01234567").count();
    assert!(history > 500, "the history that was missed is in the snapshot: {history}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_is_written_exactly_once() {
    let (_io, terminal) = sh("stty -echo; echo ready; cat").await;
    let (_, mut first) = terminal.attach(attach(1)).await;
    let mut got = Got::default();
    pull(&mut first, &mut got, "ready", |got| got.text().contains("ready")).await;
    first.hand().input(0, Bytes::from_static(b"abc\n")).await.unwrap();
    first.hand().input(0, Bytes::from_static(b"abc\n")).await.unwrap();
    first.hand().input(2, Bytes::from_static(b"c\ndef\n")).await.unwrap();
    let gap = first.hand().input(100, Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(gap.code, Code::Invalid);
    pull(&mut first, &mut got, "acknowledgement", |got| got.acknowledged == 8).await;
    drop(first);
    let (attached, mut second) = terminal.attach(attach(1)).await;
    assert_eq!((attached.written, attached.remembered), (8, true));
    second.hand().input(4, Bytes::from_static(b"def\nlast\n")).await.unwrap();
    assert_eq!(terminal.send(attachment(5), Bytes::from_static(b"sent\n")).await, Ok(5));
    assert_eq!(terminal.send(attachment(5), Bytes::from_static(b"sent\n")).await, Ok(5));
    second.hand().input(13, Bytes::from_static(b"\x04")).await.unwrap();
    let mut got = Got::default();
    pull(&mut second, &mut got, "the end", |got| got.exit.is_some()).await;
    let rows = looked(&terminal, false).rows;
    assert_eq!(&rows[..6], ["ready", "abc", "def", "last", "sent", ""]);
    let (_, observer) = terminal.attach(Attach { observer: true, ..attach(8) }).await;
    assert_eq!(observer.hand().input(0, Bytes::from_static(b"x")).await.unwrap_err().code, Code::Refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_paste_waits_for_room_and_arrives_whole() {
    let (_io, terminal) = sh("stty raw -echo; printf ready; head -c 1000000 | cksum").await;
    let (_, mut typing) = terminal.attach(attach(1)).await;
    let mut got = Got::default();
    pull(&mut typing, &mut got, "ready", |got| got.text().contains("ready")).await;
    let paste: Vec<u8> = (0..1_000_000u32).map(|n| b'a' + (n % 23) as u8).collect();
    timeout(LONG, typing.hand().input(0, paste.into())).await.expect("the paste is taken").unwrap();
    pull(&mut typing, &mut got, "the end", |got| got.exit.is_some()).await;
    assert_eq!(got.acknowledged, 1_000_000);
    assert!(got.text().contains(" 1000000"), "{}", got.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smallest_vote_is_the_size_and_is_told_in_order() {
    let (_io, terminal) = sh("trap 'stty size' WINCH; echo ready; while :; do read x && exit; done").await;
    let (attached, mut large) = terminal.attach(Attach { size: Some(Size::cells(100, 40)), ..attach(1) }).await;
    assert_eq!(attached.size, Size::cells(100, 40));
    let mut got = Got::default();
    pull(&mut large, &mut got, "ready", |got| got.text().contains("ready")).await;
    assert_eq!(got.sizes, [], "it has the size it asked for");
    let (attached, small) = terminal.attach(Attach { size: Some(Size::cells(60, 50)), ..attach(2) }).await;
    assert_eq!(attached.size, Size::cells(60, 40));
    pull(&mut large, &mut got, "the size", |got| got.sizes == [Size::cells(60, 40)]).await;
    pull(&mut large, &mut got, "the program's size", |got| got.text().contains("40 60")).await;
    let (_, mut observer) =
        terminal.attach(Attach { size: Some(Size::cells(10, 10)), observer: true, ..attach(3) }).await;
    assert!(matches!(observer.next(1000), Some(Record::Size(size)) if size == Size::cells(60, 40)));
    assert!(matches!(observer.next(1000), Some(Record::Snapshot { .. })));
    small.hand().vote(Size::cells(70, 30)).await;
    assert_eq!(terminal.size(), Size::cells(70, 30));
    drop(small);
    pull(&mut large, &mut got, "the larger size", |got| got.sizes.last() == Some(&Size::cells(100, 40))).await;
    terminal.set_policy(Policy::Pinned(Size::cells(90, 20))).await;
    assert_eq!(looked(&terminal, false).size, Size::cells(90, 20));
    terminal.set_policy(Policy::Smallest).await;
    large.hand().set_present(false).await;
    assert_eq!(terminal.size(), Size::cells(100, 40), "without votes the size stays");
    // Who resumes from before the resizes gets them where they were.
    let (_, mut resumed) = terminal.attach(Attach { size: None, ..from_start(4) }).await;
    let mut again = Got::default();
    pull(&mut resumed, &mut again, "all sizes", |got| got.sizes.len() >= 7).await;
    assert_eq!(again.sizes[..3], [SIZE, Size::cells(100, 40), Size::cells(60, 40)]);
    assert_eq!(again.sizes.last(), Some(&Size::cells(100, 40)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_and_exits_are_told_apart() {
    let (_io, terminal) = sh("echo ready; exec sleep 1000").await;
    wait_for_screen(&terminal, "ready", |rows| rows[0] == "ready").await;
    assert_eq!(terminal.signal("NONSENSE").await.unwrap_err().code, Code::Invalid);
    terminal.signal("TERM").await.unwrap();
    assert_eq!(end_of(&terminal).await, Exit::Signal(15));
    assert_eq!(terminal.signal("TERM").await.unwrap_err().code, Code::Gone);

    let (_io, terminal) = sh("exit 3").await;
    assert_eq!(end_of(&terminal).await, Exit::Status(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_even_who_does_not_listen() {
    let (_io, terminal) = start(&[
        "/bin/bash",
        "-c",
        "trap '' HUP TERM; set -m; (trap '' HUP; sleep 1000) & echo ready; while :; do sleep 1000; done",
    ])
    .await;
    wait_for_screen(&terminal, "ready", |rows| rows.iter().any(|row| row.contains("ready"))).await;
    let leader = terminal.pty.leader();
    assert!(super::processes::groups(leader).len() >= 2);
    timeout(LONG, terminal.close()).await.expect("it ends");
    assert_eq!(end_of(&terminal).await, Exit::Signal(9));
    timeout(LONG, async {
        while !super::processes::groups(leader).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("nobody of its session is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_wakes_who_is_stopped() {
    let (_io, terminal) = sh("trap 'echo bye; exit 4' HUP; echo ready; kill -STOP $$; sleep 1000").await;
    wait_for_screen(&terminal, "ready", |rows| rows[0] == "ready").await;
    let stat = format!("/proc/{}/stat", terminal.pid());
    let stopped = async {
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, stopped).await.expect("it stops itself");
    timeout(LONG, terminal.close()).await.expect("it ends");
    assert_eq!(end_of(&terminal).await, Exit::Status(4));
    assert!(looked(&terminal, false).rows.contains(&"bye".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_ends_although_something_holds_it_open() {
    let (_io, terminal) = sh("trap '' HUP; sleep 1000 & echo $!; exit 2").await;
    assert_eq!(end_of(&terminal).await, Exit::Status(2));
    let sleeper: i32 = looked(&terminal, false).rows[0].parse().unwrap();
    let sleeper = rustix::process::Pid::from_raw(sleeper).unwrap();
    let _ = rustix::process::kill_process(sleeper, rustix::process::Signal::KILL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn less_survives_cell_for_cell() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("coloured");
    let lines: String = (0..500)
        .map(|n| {
            format!(
                "\x1b[{};4{}mline {n}\x1b[m \x1b[38;5;{}mand \u{4e16}\u{754c} \x1b[4:3mmore\x1b[m\n",
                n % 9,
                n % 8,
                n % 256
            )
        })
        .collect();
    std::fs::write(&file, lines).unwrap();
    let mut spawn = spawn_of(&["less", "-R", file.to_str().unwrap()]);
    spawn.env = vec![("LESS".to_owned(), String::new())];
    let io = PtyIo::start().unwrap();
    let terminal = Terminal::spawn(&io, spawn).await.unwrap();
    let (_, mut first) = terminal.attach(from_start(1)).await;
    wait_for_screen(&terminal, "less", |rows| rows[22].starts_with("line 22")).await;
    first.hand().input(0, Bytes::from_static(b" jj/line 77\n")).await.unwrap();
    wait_for_screen(&terminal, "found", |rows| rows[0].starts_with("line 77") && rows[23] == ":").await;

    let (_, mut second) = terminal.attach(attach(2)).await;
    let Some(Record::Snapshot { through, vt }) = second.next(1000) else {
        panic!("a snapshot comes first");
    };
    let mut got = Got::default();
    pull(&mut first, &mut got, "all output", |got| got.output.len() as u64 >= through).await;
    let mut never_cut = Screen::new(SIZE, Limits::default());
    never_cut.feed(&got.output[..through as usize]);
    let mut restored = Screen::new(SIZE, Limits::default());
    restored.feed(&vt);
    assert_eq!(restored.get().lines(), never_cut.get().lines());
    assert_eq!(restored.get().modes(), never_cut.get().modes());
    assert_eq!(restored.get().digest(), never_cut.get().digest());
    terminal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_is_a_terminals_own() {
    let mut spawn =
        spawn_of(&["/bin/sh", "-c", "env; echo \"cwd $(pwd)\"; tty; stty -a; ls -l /proc/self/fd; echo end"]);
    spawn.size = Size::cells(200, 200);
    spawn.env = vec![("EXTRA".to_owned(), "1".to_owned()), ("NO_COLOR_X".to_owned(), "1".to_owned())];
    let io = PtyIo::start().unwrap();
    let other = Terminal::spawn(&io, spawn_of(&["/bin/cat"])).await.unwrap();
    let terminal = Terminal::spawn(&io, spawn).await.unwrap();
    end_of(&terminal).await;
    let rows = looked(&terminal, false).rows;
    for expected in [
        "KEEPLINE_SOCKET=/run/keepline/daemon.sock",
        "TERM=xterm-256color",
        "COLORTERM=truecolor",
        "EXTRA=1",
        "cwd /",
        &format!("KEEPLINE_TERMINAL_ID={}", terminal.id()),
    ] {
        assert!(rows.iter().any(|row| row == expected), "{expected} in {rows:?}");
    }
    assert!(!rows.iter().any(|row| row.starts_with("NO_COLOR=")));
    assert!(rows.iter().any(|row| row.starts_with("/dev/pts/")));
    assert!(rows.iter().any(|row| row.contains(" iutf8")));
    assert!(!rows.iter().any(|row| row.contains("ptmx")), "no PTY leaks into a program: {rows:?}");
    assert!(!rows.iter().any(|row| row.contains("eventpoll")), "{rows:?}");
    drop(other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_login_shell_is_the_default() {
    let mut spawn = spawn_of(&[]);
    spawn.cwd = None;
    let io = PtyIo::start().unwrap();
    let terminal = Terminal::spawn(&io, spawn).await.unwrap();
    terminal.send(attachment(1), Bytes::from_static(b"echo \"<$0> <$PWD>\"; exit\n")).await.unwrap();
    end_of(&terminal).await;
    let rows = looked(&terminal, false).rows;
    let home = std::env::var("HOME").unwrap();
    assert!(rows.iter().any(|row| row.starts_with("<-") && row.ends_with(&format!("<{home}>"))), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_start_says_why() {
    let io = PtyIo::start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let failure = |spawn: Spawn| {
        let io = &io;
        async move { Terminal::spawn(io, spawn).await.err().expect("it cannot start") }
    };
    let missing = failure(spawn_of(&["no-such-program-here"])).await;
    assert_eq!(
        (missing.code, &missing.message[..]),
        (Code::NoSuchProgram, "there is no program 'no-such-program-here'")
    );
    assert_eq!(failure(spawn_of(&[plain.to_str().unwrap()])).await.code, Code::CannotStart);
    assert_eq!(failure(spawn_of(&["a\0b"])).await.code, Code::Invalid);
    let nowhere = Spawn { cwd: Some("/no/such/place".to_owned()), ..spawn_of(&["/bin/sh"]) };
    let nowhere = failure(nowhere).await;
    assert_eq!(
        (nowhere.code, &nowhere.message[..]),
        (Code::Invalid, "there is no directory '/no/such/place' to start in")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_answered_once_without_anybody_attached() {
    let (_io, terminal) =
        sh("stty raw -echo min 0 time 100; printf '\\033[5n'; head -c 4 | od -An -c; stty time 5; head -c 9 | wc -c")
            .await;
    end_of(&terminal).await;
    let rows = looked(&terminal, false).rows.join("\n");
    assert!(rows.contains("033   [   0   n"), "{rows}");
    assert!(rows.trim_end().ends_with('0'), "nothing came twice: {rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_drops_the_output_that_waits_and_nobody_elses() {
    let (_io, terminal) = sh("stty -icanon -echo; trap 'echo interrupted' INT; \
         head -c 300000 /dev/zero | tr '\\0' x; echo; echo end; while :; do sleep 0.1; done")
    .await;
    let (_, mut slow) = terminal.attach(from_start(1)).await;
    let (_, mut quick) = terminal.attach(from_start(2)).await;
    let mut got = Got::default();
    pull(&mut quick, &mut got, "all output", |got| got.output.ends_with(b"end\r\n")).await;
    let hand = quick.hand();
    hand.input(0, Bytes::from(vec![b'a'; 3_000])).await.unwrap();
    hand.input(3_000, Bytes::from_static(b"\x03")).await.unwrap();
    pull(&mut quick, &mut got, "the interrupt", |got| {
        got.output.ends_with(b"interrupted\r\n") && got.acknowledged == 3_001
    })
    .await;
    assert!(got.snapshots.is_empty(), "who had read everything goes on untouched");
    let mut late = Got::default();
    pull(&mut slow, &mut late, "a snapshot", |late| !late.snapshots.is_empty()).await;
    assert!(late.output.is_empty(), "{} bytes came first", late.output.len());
    assert_eq!(late.snapshots.len(), 1);
    terminal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_come_out() {
    let (_io, terminal) = sh("printf '\\033]0;a title\\007'; read x; printf '\\033]0;\\007'").await;
    let mut affected = terminal.effects().subscribe();
    let titled = |title: &'static str| move |effects: &crate::session::Effects| effects.title.as_deref() == Some(title);
    timeout(LONG, affected.wait_for(titled("a title"))).await.unwrap().unwrap();
    terminal.send(attachment(1), Bytes::from_static(b"\n")).await.unwrap();
    timeout(LONG, affected.wait_for(titled(""))).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_given_back_when_all_is_quiet() {
    let (_io, terminal) = sh("head -c 2000000 /dev/zero | tr '\\0' x; exec sleep 1000").await;
    let (_, mut slow) = terminal.attach(attach(1)).await;
    let mut got = Got::default();
    pull(&mut slow, &mut got, "all output", |got| got.offset.unwrap_or(0) + got.output.len() as u64 == 2_000_000).await;
    timeout(LONG, async {
        while terminal.shared.output().position(2_000_000 - OUTPUT_QUIET as u64 - 1).is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("memory is given back");
    let from = 2_000_000 - OUTPUT_QUIET as u64;
    let (_, mut resumed) = terminal.attach(Attach { from_offset: Some(from), ..attach(2) }).await;
    assert!(matches!(resumed.next(10), Some(Record::Output { offset, .. }) if offset == from));
    terminal.close().await;
}

fn waiting() -> TerminalWait {
    TerminalWait::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_read_by_ids_that_output_does_not_move() {
    let (_io, terminal) = sh("for i in $(seq 100); do echo line $i; done; read x; seq 5; read x").await;
    wait_for_screen(&terminal, "100", |rows| rows.iter().any(|row| row == "line 100")).await;
    let lines =
        |from, to, epoch| TerminalRead { lines: Some(LineRange { epoch, from, to }), ..TerminalRead::default() };
    let all = terminal.read(&lines(None, None, None)).unwrap();
    assert_eq!((all.first, all.from, all.rows.len() as u64), (0, Some(0), all.end));
    assert_eq!(&all.rows[..2], ["line 1", "line 2"]);
    let newest = terminal.read(&lines(Some(-2), None, None)).unwrap();
    assert_eq!(newest.rows, all.rows[all.rows.len() - 2..]);
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    wait_for_screen(&terminal, "5", |rows| rows.iter().any(|row| row == "5")).await;
    assert_eq!(terminal.read(&lines(Some(10), Some(12), Some(all.epoch))).unwrap().rows, ["line 11", "line 12"]);
    assert_eq!(terminal.read(&lines(Some(90), Some(20), None)).unwrap().rows, [""; 0]);
    terminal.set_policy(Policy::Pinned(Size::cells(50, 24))).await;
    let gone = terminal.read(&lines(Some(10), None, Some(all.epoch))).unwrap_err();
    assert_eq!(gone.code, Code::Gone);
    // The digest follows what is seen.
    let styled = terminal.read(&TerminalRead { styled: Some(true), ..TerminalRead::default() }).unwrap();
    assert_eq!(styled.digest, looked(&terminal, false).digest);
    assert_ne!(styled.digest, all.digest);
    assert!(styled.styled.unwrap().as_str().contains("\"text\":\"line 100\""));
    terminal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_history_comes_in_pages() {
    let (_io, terminal) = sh("seq -f 'a rather long line %040g' 20000; read x").await;
    wait_for_screen(&terminal, "the end", |rows| rows.iter().any(|row| row.ends_with("20000"))).await;
    let mut asked = LineRange::default();
    let (mut got, mut pages) = (Vec::new(), 0);
    loop {
        let page = terminal.read(&TerminalRead { lines: Some(asked), ..TerminalRead::default() }).unwrap();
        got.extend(page.rows);
        pages += 1;
        match page.rest {
            Some(rest) => asked = rest,
            None => break,
        }
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(got.len() as u64, looked(&terminal, false).end);
    assert!(got.iter().enumerate().all(|(index, row)| row.ends_with(&(index + 1).to_string())));
    terminal.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_waited_for_is_found_on_the_screen_and_in_what_scrolled_off() {
    let (_io, terminal) = sh("echo old; read x; seq 500; printf 'exit code: 7'; read x; exit 3").await;
    wait_for_screen(&terminal, "ready", |rows| rows[0] == "old").await;
    let matching = |pattern: &str| TerminalWait { matching: Some(pattern.to_owned()), ..waiting() };
    assert_eq!(terminal.wait(&matching("o(l)d")).await.unwrap().matched.as_deref(), Some("old"));
    let (waiter, early) = (Arc::clone(&terminal), matching("^123$"));
    let early = tokio::spawn(async move { waiter.wait(&early).await });
    let (waiter, never) = (Arc::clone(&terminal), matching("nothing like it"));
    let never = tokio::spawn(async move { waiter.wait(&never).await });
    tokio::task::yield_now().await;
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    assert_eq!(timeout(LONG, early).await.unwrap().unwrap().unwrap().matched.as_deref(), Some("123"));
    let last = timeout(LONG, terminal.wait(&matching(r"exit code: \d"))).await.unwrap().unwrap();
    assert_eq!(last.matched.as_deref(), Some("exit code: 7"));
    let idle = TerminalWait { idle_ms: Some(50), ..waiting() };
    timeout(LONG, terminal.wait(&idle)).await.unwrap().unwrap();
    terminal.send(attachment(8), Bytes::from_static(b"\n")).await.unwrap();
    let exit = TerminalWait { exit: Some(true), ..waiting() };
    let exit = timeout(LONG, terminal.wait(&exit)).await.unwrap().unwrap();
    assert_eq!(exit.exit.unwrap().as_str(), r#"{"status":3}"#);
    assert_eq!(timeout(LONG, never).await.unwrap().unwrap().unwrap_err().code, Code::Gone);
    for wrong in [waiting(), matching("(unclosed"), matching(&"x".repeat(PATTERN_MAX + 1))] {
        assert_eq!(terminal.wait(&wrong).await.unwrap_err().code, Code::Invalid);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_a_shell_marks_are_known() {
    let prompt = r"printf '\033]133;A\007$ \033]133;B\007'; read x; printf '\033]133;C\007'";
    let script = format!("{prompt}; seq 3; printf '\\033]133;D;7\\007'; {prompt}; sleep 1000");
    let (_io, terminal) = sh(&script).await;
    let prompted = TerminalWait { prompt: Some(true), ..waiting() };
    timeout(LONG, terminal.wait(&prompted)).await.unwrap().unwrap();
    assert_eq!(terminal.read(&last_command()).unwrap_err().code, Code::NotFound);
    terminal.send(attachment(9), Bytes::from_static(b"\n")).await.unwrap();
    let waited = timeout(LONG, terminal.wait(&prompted)).await.unwrap().unwrap();
    assert_eq!(waited.status, Some(7));
    let output = terminal.read(&last_command()).unwrap();
    assert_eq!((&output.rows[..], output.status), (&["1".to_owned(), "2".to_owned(), "3".to_owned()][..], Some(7)));
    let mut affected = terminal.effects().subscribe();
    let command = timeout(LONG, affected.wait_for(|effects| effects.command.is_some())).await.unwrap().unwrap();
    let command = command.command.clone().unwrap();
    assert_eq!((command.status, command.lines), (Some(7), Some(1..4)));
    terminal.close().await;
}

fn last_command() -> TerminalRead {
    TerminalRead { last_command: Some(true), ..TerminalRead::default() }
}
