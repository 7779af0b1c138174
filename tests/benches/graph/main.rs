//! What the session graph costs: to change it, to follow it, and to start with it.
//!
//! ```text
//! cargo bench -p keepline-tests --bench graph [-- PART…]
//! ```
//!
//! | part | what |
//! |---|---|
//! | `commits` | mutations a second of 1 writer and of 50, each waiting for its answer |
//! | `fanout` | from a mutation to the last of 100 followers in this process, 1,000 rows, 200 mutations a second; memory |
//! | `wire` | bytes of one rename among 1,000 rows, on a follower's connection |
//! | `start` | from the process's start until it serves, by length of history |
//!
//! Each prints lines of `goal`, `measured` and `met`. Nothing here fails for being slow.

#![allow(clippy::unwrap_used)]

mod follow;

use std::path::Path;
use std::time::{Duration, Instant};

use keepline_tests::Machine;
use keepline_tests::rpc::Rpc;
use serde_json::{Value, json};

const ROWS: usize = 1_000;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> = asked.iter().map(String::as_str).filter(|part| !part.starts_with('-')).collect();
    let all: [(&str, fn()); 4] =
        [("commits", commits), ("fanout", follow::fanout), ("wire", follow::wire), ("start", start)];
    for (name, part) in all {
        if parts.is_empty() || parts.contains(&name) {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!("\n== {name} (load {})", load.trim_end());
            part();
        }
    }
}

fn verdict(goal: &str, measured: &str, met: bool) {
    let met = if met { "yes" } else { "NO" };
    println!("goal: {goal} | measured: {measured} | met: {met}");
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn request(id: usize, method: &str, params: &Value) -> String {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    format!("{request}\n")
}

/// Asks for all of `requests` on one connection, 32 at a time, and gives the values of their answers in order.
fn pipelined(socket: &Path, method: &str, requests: &[Value]) -> Vec<Value> {
    let mut rpc = Rpc::connect(socket);
    let mut values = vec![Value::Null; requests.len()];
    for (number, some) in requests.chunks(32).enumerate() {
        let lines: Vec<String> =
            some.iter().enumerate().map(|(at, params)| request(number * 32 + at, method, params)).collect();
        assert!(rpc.write(lines.concat().as_bytes()));
        for _ in some {
            let mut answer = rpc.line();
            assert!(answer["error"].is_null(), "{method}: {answer}");
            let at = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
            values[at] = answer["result"]["value"].take();
        }
    }
    values
}

/// Makes workspaces, and gives their ids.
fn workspaces(socket: &Path, count: usize) -> Vec<Value> {
    let new: Vec<Value> = (0..count).map(|at| json!({ "name": format!("workspace {at}") })).collect();
    pipelined(socket, "workspace.new", &new).into_iter().map(|mut value| value["workspace"].take()).collect()
}

fn commits() {
    let machine = Machine::new();
    let _daemon = machine.daemon(&[]);
    let socket = machine.daemon_socket();
    let ids = workspaces(&socket, 50);
    let time = Duration::from_secs(3);
    let rate = |writers: usize| {
        let count: usize = std::thread::scope(|scope| {
            let each = ids.iter().take(writers).map(|id| {
                let socket = &socket;
                scope.spawn(move || {
                    let (mut rpc, began, mut count) = (Rpc::connect(socket), Instant::now(), 0);
                    while began.elapsed() < time {
                        let params = json!({"workspace": id, "name": format!("name {count}")});
                        let answer = rpc.call("workspace.rename", &params);
                        assert!(answer["error"].is_null(), "{answer}");
                        count += 1;
                    }
                    count
                })
            });
            let started: Vec<_> = each.collect();
            started.into_iter().map(|one| one.join().unwrap()).sum()
        });
        count as f64 / time.as_secs_f64()
    };
    let (one, fifty) = (rate(1), rate(50));
    verdict("1 writer: 500/s", &format!("{one:.0}/s"), one >= 500.0);
    verdict("50 writers: 3 times that of one", &format!("{fifty:.0}/s, {:.1} times", fifty / one), fifty >= 3.0 * one);
}

/// Starts with 1,000 rows behind ever longer histories.
fn start() {
    let machine = Machine::new();
    let socket = machine.daemon_socket();
    let (mut ids, mut past) = (Vec::new(), 0);
    for history in [ROWS, 10_000, 100_000] {
        let daemon = machine.daemon(&[]);
        if ids.is_empty() {
            ids = workspaces(&socket, ROWS);
            past = ROWS;
        }
        let writers = 8;
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (ids, socket) = (&ids, &socket);
                scope.spawn(move || {
                    let renames: Vec<Value> = (past + writer..history)
                        .step_by(writers)
                        .map(|at| json!({"workspace": ids[at % ROWS], "name": format!("name {at}")}))
                        .collect();
                    pipelined(socket, "workspace.rename", &renames);
                });
            }
        });
        past = history;
        daemon.stop();
        let mut times: Vec<Duration> = (0..7)
            .map(|_| {
                let began = Instant::now();
                let daemon = machine.daemon(&[]);
                Rpc::connect(&socket).call("server.status", &json!({}));
                let time = began.elapsed();
                daemon.stop();
                time
            })
            .collect();
        times.sort();
        let (median, greatest) = (times[times.len() / 2], times[times.len() - 1]);
        verdict(
            &format!("start with {ROWS} rows and {history} past revisions: 300 ms"),
            &format!("median {}, greatest {}", ms(median), ms(greatest)),
            greatest <= Duration::from_millis(300),
        );
    }
}
