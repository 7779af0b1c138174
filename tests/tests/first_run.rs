//! Proof 1: the first command gives a shell, and the daemon behind it stays; the daemon's own commands.

use std::fs;

use keepline_tests::process::{Process, Signal};
use keepline_tests::{Machine, wait_until};
use serde_json::Value;

fn status(machine: &Machine) -> Value {
    machine.json(&["server", "status"])
}

#[test]
fn the_first_command_gives_a_shell_and_a_second_one_finds_the_daemon() {
    let machine = Machine::new();
    let mut person = machine.pty(&[]);
    let before = person.modes();
    person.type_text("echo $((6*7))\r");
    person.screen.wait_for("42");
    person.type_text("exit\r");
    assert_eq!(person.exit(), 0, "{}", person.screen.text());
    person.screen.wait_for("terminal ended: exit status 0");
    let after = person.modes();
    assert_eq!(before.local_modes, after.local_modes);
    assert_eq!(before.input_modes, after.input_modes);

    let first = status(&machine);
    let mut second = machine.pty(&[]);
    second.type_text("echo $((6*8))\r");
    second.screen.wait_for("48");
    assert_eq!(status(&machine)["pid"], first["pid"]);
    assert_eq!(status(&machine)["generation"], first["generation"]);
    second.type_text("exit\r");
    assert_eq!(second.exit(), 0, "{}", second.screen.text());
}

#[test]
fn who_detaches_comes_back_to_the_same_shell() {
    let machine = Machine::new();
    let mut person = machine.pty(&[]);
    person.type_text("mark=a-$((6*7)); echo $mark\r");
    person.screen.wait_for("a-42");
    person.type_text("~.");
    assert_eq!(person.exit(), 0, "{}", person.screen.text());
    let terminals = machine.json(&["terminal", "list"]);
    assert_eq!(terminals.as_array().unwrap().len(), 1, "{terminals}");

    // The shell, with its variable, is the last used live terminal.
    let mut again = machine.pty(&[]);
    again.screen.wait_for("a-42");
    again.type_text("echo again-$mark\r");
    again.screen.wait_for("again-a-42");
    // Hanging up leaves it alone too.
    again.signal(Signal::HUP);
    assert_eq!(again.exit(), 129, "{}", again.screen.text());
    let terminals = machine.json(&["terminal", "list"]);
    assert_eq!(terminals[0]["lifecycle"], "running", "{terminals}");
}

#[test]
fn a_daemon_in_the_background_says_how_it_is_and_stops() {
    let machine = Machine::new();
    let stopped = machine.run(&["server", "status"]);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert_eq!(stopped.stdout, "");
    let stopped = machine.run(&["server", "status", "--json"]);
    assert_eq!((stopped.code, &*stopped.stdout), (1, "{\"serving\":false}\n"));

    machine.ok(&["server", "start", "--detach"]);
    let told = status(&machine);
    assert_eq!(told["serving"], true);
    let pid = told["pid"].as_u64().unwrap();
    assert!(machine.ok(&["server", "status"]).contains(&pid.to_string()));

    for arguments in [&["server", "start"][..], &["server", "start", "--detach"]] {
        let second = machine.run(arguments);
        assert_eq!(second.code, 3, "{second:?}");
        assert!(second.stderr.contains(&pid.to_string()), "{second:?}");
    }
    assert_eq!(status(&machine)["pid"], pid);

    let terminal = machine.terminal(&["--name", "sleeper", "--", "sleep", "1000"]);
    let row = machine.json(&["terminal", "list"])[0].clone();
    assert_eq!((&row["id"], &row["lifecycle"]), (&terminal.into(), &"running".into()));
    let child = row["pid"].as_u64().unwrap();

    machine.ok(&["server", "stop"]);
    assert_eq!(machine.run(&["server", "status"]).code, 1);
    wait_until("the end of the daemon and its terminal", || {
        match [pid, child].map(|pid| fs::exists(format!("/proc/{pid}/stat")).unwrap()) {
            [false, false] => Ok(()),
            alive => Err(format!("{alive:?}")),
        }
    });
    let gone = machine.run(&["server", "stop"]);
    assert_eq!(gone.code, 1, "{gone:?}");

    machine.ok(&["server", "start", "--detach"]);
    let after = machine.json(&["terminal", "list"])[0].clone();
    assert_eq!(after["id"], row["id"]);
    assert_eq!(after["lifecycle"], "ended", "{after}");
    assert_eq!(after["exit"]["reason"], "daemon stopped", "{after}");
}

#[test]
fn only_what_may_start_a_daemon_starts_one() {
    let machine = Machine::new();
    for arguments in [
        &["terminal", "list"][..],
        &["workspace", "new", "w"],
        &["session", "snapshot"],
        &["remote", "pending"],
        &["remote", "known-daemons"],
    ] {
        let known = arguments == ["remote", "known-daemons"];
        let output = machine.run(arguments);
        assert_eq!(output.code, i32::from(!known), "{arguments:?} {output:?}");
        assert_eq!(machine.serving("daemon"), None, "{arguments:?}");
    }
    let terminal = machine.terminal(&["--", "cat"]);
    assert!(machine.serving("daemon").is_some());
    let consumer = machine.pipe_io(&terminal, &[]);
    assert_eq!(consumer.detach().code, 0);
}

#[test]
fn a_path_that_is_too_long_and_a_directory_of_others_are_clear_errors() {
    let machine = Machine::new();
    let long = machine.home().join("long".repeat(30));
    fs::create_dir(&long).unwrap();
    let mut command = machine.command(&["server", "start"]);
    let mut refused = Process::spawn(command.env("XDG_RUNTIME_DIR", &long));
    assert_eq!(refused.exit(), 1);
    refused.stderr.wait_for("107");

    let runtime = machine.runtime_dir().join("keepline");
    fs::create_dir(&runtime).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&runtime, open).unwrap();
    let refused = machine.run(&["server", "start"]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("700"), "{refused:?}");
}
