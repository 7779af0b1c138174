//! The daemon may open as many files as the system lets it; what runs in its terminals has the limit of before.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use keepline_tests::binary::keepline;
use keepline_tests::process::Process;
use keepline_tests::{Machine, wait_until};

#[test]
fn the_daemon_raises_its_limit_and_its_terminals_have_the_one_of_before() {
    let machine = Machine::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -S -n 300 && exec \"$0\" server start --json"])
        .arg(keepline())
        .env_clear()
        .envs(machine.environment());
    let daemon = Process::spawn(&mut command);
    daemon.stdout.wait_json("a daemon's first line", |line| Some(line.clone()));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let files: Vec<_> = files.unwrap().split_whitespace().skip(3).collect();
    assert_eq!(files[0], files[1], "{limits}");
    assert_ne!(files[0], "300", "{limits}");

    let terminal = machine.terminal(&["--", "sh"]);
    let ask = "echo limit=$(ulimit -S -n)=\n";
    machine.ok(&["terminal", "send", &terminal, ask]);
    wait_until("the shell's limit", || {
        let screen = machine.ok(&["terminal", "read", &terminal]);
        screen.contains("limit=300=").then_some(()).ok_or(screen)
    });
}
