//! Several machines, and several clients that are taken for one.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use keepline_tests::proxy::Proxy;
use keepline_tests::{Machine, wait_until};
use serde_json::Value;

#[test]
fn a_list_over_machines_has_a_row_for_one_that_is_down() {
    let (one, two, laptop) = (Machine::new(), Machine::new(), Machine::new());
    let (first, second) = (one.listening_daemon(), two.listening_daemon());
    let _first = laptop.enrol(&one, &first.route(), "one");
    let relay = laptop.enrol(&two, &second.route(), "two");
    let _own = laptop.daemon(&[]);
    let new = ["terminal", "new", "--name", "shell", "--", "cat"];
    for machine in ["one", "two"] {
        laptop.ok(&[&["--machine", machine][..], &new].concat());
    }
    laptop.ok(&new);

    let list = ["--all-machines", "terminal", "list"];
    let machines = |rows: &Value| -> Vec<Value> {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["machine"].clone()).collect()
    };
    let rows = laptop.json(&list);
    assert_eq!(machines(&rows), ["local", "one", "two"], "{rows}");
    assert!(rows.as_array().unwrap().iter().all(|row| row["name"] == "shell"), "{rows}");

    second.stop();
    relay.wait_state("down");
    let with_json = [&["--json"][..], &list].concat();
    let rows = wait_until("a machine that waits for its next try", || {
        let output = laptop.run(&with_json);
        assert_eq!(output.code, 1, "a list that lacks one is partial: {output:?}");
        let rows: Value = serde_json::from_str(&output.stdout).unwrap();
        let waits = rows.as_array().unwrap().iter().any(|row| row["retry_ms"].is_u64());
        if waits { Ok(rows) } else { Err(rows) }
    });
    let rows = rows.as_array().unwrap();
    let down: Vec<_> = rows.iter().filter(|row| row["state"].is_string()).collect();
    assert_eq!(down.len(), 1, "{rows:?}");
    assert_eq!(down[0]["machine"], "two");
    assert!(down[0]["reason"].is_string() && down[0]["message"].is_string(), "{down:?}");
    // The others are all there, and what was known of it last.
    let named: Vec<_> = rows.iter().filter(|row| row["name"] == "shell").collect();
    assert_eq!(named.len(), 3, "{rows:?}");
    assert_eq!(named[2]["freshness"]["state"], "stale", "{named:?}");

    let output = laptop.run(&list);
    assert_eq!(output.code, 1, "{output:?}");
    let line = output.stdout.lines().find(|line| line.starts_with("two: "));
    assert!(line.unwrap().contains("next try"), "{output:?}");

    let output = laptop.run(&["--machine", "nowhere", "terminal", "list"]);
    assert_eq!(output.code, 4, "{output:?}");
    let candidates: Vec<_> = output.stderr.lines().skip(1).map(str::trim).collect();
    assert_eq!(candidates, ["one", "two"], "{output:?}");
}

/// One that takes the link of another comes back once; two that fight for it do not go on for ever.
#[test]
fn a_relay_that_is_superseded_once_comes_back_and_of_two_one_ends() {
    let (owner, laptop, copy) = (Machine::new(), Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let first = laptop.enrol(&owner, &daemon.route(), "box");
    let copied = Command::new("cp").args(["-a", "-T"]).args([laptop.state_dir(), copy.state_dir()]).status();
    assert!(copied.unwrap().success());
    let second = copy.relay(&[&daemon.route()]);
    let mut relays = [first, second];
    // Each is told once, and comes back; who is told again has met another relay.
    let ended = wait_until("one of two relays ends", || {
        let ended = relays.iter_mut().position(|relay| !relay.process.runs());
        ended.ok_or("both run")
    });
    let [first, second] = relays;
    let (loser, winner) = if ended == 0 { (first, second) } else { (second, first) };
    let states = loser.process.stdout.clone();
    let (code, said) = loser.ended();
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("another client with the same id"), "{said}");
    let told: Vec<_> = states.json_lines().into_iter().filter(|line| line["reason"] == "superseded").collect();
    assert_eq!(told.len(), 2, "once it came back: {told:?}");
    winner.wait_state("up");
}

#[test]
fn a_relay_is_ended_by_name_and_with_the_machine_it_is_forgotten() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let mut relay = laptop.enrol(&owner, &daemon.route(), "box");
    laptop.ok(&["remote", "disconnect", "box"]);
    assert_eq!(relay.process.exit(), 0);
    assert!(laptop.run(&["remote", "disconnect", "box"]).stderr.contains("no relay runs for 'box' here"));
    let mut relay = laptop.relay(&[&daemon.route()]);
    relay.wait_state("up");
    laptop.ok(&["remote", "known-daemons", "forget", "box"]);
    assert_eq!(relay.process.exit(), 0);
    assert_eq!(laptop.json(&["remote", "known-daemons"]).as_array().map(Vec::len), Some(0));
    assert_eq!(laptop.run(&["remote", "disconnect", "box"]).code, 4);
    // Addresses call this machine so.
    assert_eq!(laptop.run(&["remote", "connect", &daemon.route(), "--name", "local", "--headless"]).code, 2);
    let mistyped = laptop.run(&["termnal", "list"]);
    assert_eq!((mistyped.code, mistyped.stderr.lines().count()), (2, 1), "{mistyped:?}");
    assert!(mistyped.stderr.contains("'terminal' exists") || mistyped.stderr.contains("similar"), "{mistyped:?}");
}

#[test]
fn a_link_moves_to_another_route_and_loses_nothing() {
    let (owner, stranger, laptop) = (Machine::new(), Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let other = stranger.listening_daemon();
    let (first, second) = (Proxy::start(&daemon.address()), Proxy::start(&daemon.address()));
    // Each connect adds its route to the machine.
    for proxy in [&first, &second] {
        let relay = match proxy.route() == first.route() {
            true => laptop.enrol(&owner, &proxy.route(), "box"),
            false => laptop.relay(&[&proxy.route(), "--name", "box"]),
        };
        relay.wait_state("up");
    }
    let known = laptop.json(&["remote", "known-daemons"]);
    assert_eq!(known[0]["routes"].as_array().map(Vec::len), Some(2), "{known}");
    let relay = laptop.relay(&[&first.route(), "--name", "box"]);
    relay.wait_state("up");
    let script = "stty -echo; i=0; while read x; do i=$((i+1)); echo key $i $x; done";
    let terminal = laptop.terminal(&["--machine", "box", "--", "bash", "-c", script]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    let mut keys = 0;
    let mut goes_on = |consumer: &mut keepline_tests::pipe_io::PipeIo| {
        keys += 1;
        assert!(consumer.type_text(&format!("{keys}\n")));
        consumer.output().wait_for(&format!("key {keys} {keys}\r\n"));
    };
    let over = |proxy: &Proxy| {
        let route = format!("{}/v1/link", proxy.route());
        wait_until("the link over a route", || {
            let known = laptop.json(&["remote", "known-daemons"]);
            let link = &known[0];
            if link["route"] == route && link["state"] == "up" { Ok(()) } else { Err(known) }
        });
    };
    over(&first);
    goes_on(&mut consumer);
    first.black_out();
    over(&second);
    goes_on(&mut consumer);
    second.black_out();
    first.restore();
    over(&first);
    goes_on(&mut consumer);
    // Somebody else answers at the preferred route.
    second.restore();
    first.lead_to(Some(other.address().parse().unwrap()));
    first.black_out();
    first.restore();
    over(&second);
    goes_on(&mut consumer);
    let output = consumer.output().text();
    assert!(!output.contains("\u{1b}c"), "no reset: {output}");
    let links = owner.json(&["remote", "connections"]);
    assert_eq!(links.as_array().unwrap().len(), 1, "one link, over one route after the other: {links}");
    assert_eq!(consumer.detach().code, 0);
}
