//! How soon a dead path is noticed, and how soon a relay is back after it was stopped. Prints `goal, measured, met`.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use keepline_tests::process::{Signal, signal_process};
use keepline_tests::proxy::Proxy;
use keepline_tests::{Machine, wait_until};

const ROUNDS: usize = 3;

fn main() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let proxy = Proxy::start(&daemon.address());
    let relay = laptop.enrol(&owner, &proxy.route(), "box");
    let lines = |state: &str| {
        let lines = relay.process.stdout.json_lines();
        lines.iter().filter(|line| line["state"] == state).count()
    };
    let changes = |state: &str, since: Instant, before: usize| {
        wait_until(state, || match lines(state) {
            more if more > before => Ok(since.elapsed()),
            same => Err(same),
        })
    };
    println!("what, goal, measured, met");

    let mut noticed = Vec::new();
    for _ in 0..ROUNDS {
        settle(&relay.process.stdout);
        let (down, up) = (lines("down"), lines("up"));
        let began = Instant::now();
        proxy.swallow();
        noticed.push(changes("down", began, down));
        proxy.restore();
        laptop.ok(&["remote", "reconnect", "box"]);
        changes("up", began, up);
    }
    print("dead path noticed by the relay", 4_000, &noticed);

    let mut back = Vec::new();
    for _ in 0..ROUNDS {
        settle(&relay.process.stdout);
        let pid = relay.process.pid();
        signal_process(pid, Signal::STOP);
        wait_until("a detached link", || {
            let links = owner.json(&["remote", "connections"]);
            if links[0]["state"] == "detached" { Ok(()) } else { Err(links) }
        });
        let up = lines("up");
        let began = Instant::now();
        signal_process(pid, Signal::CONT);
        back.push(changes("up", began, up));
    }
    print("back after SIGCONT of the relay", 1_000, &back);

    // Stopped, and meanwhile the path died without a word: only the probe after waking tells.
    let mut woken = Vec::new();
    for _ in 0..ROUNDS {
        settle(&relay.process.stdout);
        let pid = relay.process.pid();
        signal_process(pid, Signal::STOP);
        proxy.swallow();
        std::thread::sleep(Duration::from_secs(5));
        proxy.restore();
        let up = lines("up");
        let began = Instant::now();
        signal_process(pid, Signal::CONT);
        woken.push(changes("up", began, up));
    }
    print("back after SIGCONT over a path that died", 1_000, &woken);
}

/// A link that has been up for a while, and whose round trip is measured.
fn settle(told: &keepline_tests::process::Seen) {
    wait_until("a measured link", || {
        let last = told.json_lines().pop().unwrap_or_default();
        if last["state"] == "up" && last["rtt_us"].is_u64() { Ok(()) } else { Err(last) }
    });
    std::thread::sleep(Duration::from_secs(1));
}

fn print(what: &str, goal_ms: u64, measured: &[Duration]) {
    let worst = measured.iter().max().unwrap();
    let all: Vec<u128> = measured.iter().map(Duration::as_millis).collect();
    let met = *worst <= Duration::from_millis(goal_ms);
    println!("{what}, {goal_ms} ms, {} ms of {all:?}, {met}", worst.as_millis());
}
