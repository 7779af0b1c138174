//! Other keys under the same identities, without a new enrolment; the old ones are refused.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use keepline_tests::{Machine, wait_until};
use serde_json::{Value, json};

fn parsed(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn daemon_key(owner: &Machine) -> PathBuf {
    owner.state_dir().join("keepline/daemon/daemon.key")
}

fn device_key(laptop: &Machine) -> PathBuf {
    laptop.state_dir().join("keepline/client/device.key")
}

fn known(laptop: &Machine) -> Value {
    parsed(&laptop.state_dir().join("keepline/client/machines/box.json"))
}

/// How often a device was enrolled at all.
fn enrolments(owner: &Machine) -> usize {
    let audit = owner.json(&["server", "audit"]);
    let entries = audit.as_array().unwrap().iter();
    entries.filter(|entry| entry["event"] == "enrolled").count()
}

#[test]
fn a_daemons_key_is_rotated_under_its_links_and_its_clients_follow() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (route, address) = (daemon.route(), daemon.address());
    let relay = laptop.enrol(&owner, &route, "box");
    let first = known(&laptop);
    let old = fs::read(daemon_key(&owner)).unwrap();
    let link = relay.wait_state("up")["link"].clone();

    assert_eq!(owner.json(&["remote", "rotate-key"]), json!({ "serial": 2 }));
    assert_eq!(parsed(&daemon_key(&owner))["serial"], 2);
    // The running link goes on, and knows nothing of it.
    laptop.ok(&["--machine", "box", "terminal", "new", "--", "true"]);
    assert_eq!(relay.last().unwrap()["link"], link);
    assert_eq!(known(&laptop)["serial"], 1);

    // The next carrier meets `stale-key` and goes the long way, against the pinned identity.
    drop(relay);
    let relay = laptop.relay(&[&route]);
    relay.wait_state("up");
    let second = known(&laptop);
    assert_eq!((&second["serial"], &second["identity"]), (&json!(2), &first["identity"]));
    assert_ne!(second["noise_key"], first["noise_key"]);
    assert_eq!(enrolments(&owner), 1);
    let audit = owner.json(&["server", "audit"]);
    let rotated = audit.as_array().unwrap().iter();
    let rotated: Vec<_> = rotated.filter(|entry| entry["event"] == "key-rotated").collect();
    assert_eq!(rotated.len(), 1, "{audit}");
    assert_eq!(rotated[0]["detail"], "2");

    // Across a restart it is still the new one; whoever has the old one is refused.
    daemon.stop();
    let daemon = owner.daemon(&["--remote-ws", &address]);
    relay.wait_state("up");
    daemon.stop();
    fs::write(daemon_key(&owner), old).unwrap();
    let _daemon = owner.daemon(&["--remote-ws", &address]);
    let (code, said) = relay.ended();
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("older key"), "{said}");
    let (code, said) = laptop.relay(&[&route]).ended();
    assert_eq!((code, said.contains("older key")), (6, true), "{said}");
}

#[test]
fn a_devices_key_is_rotated_and_its_daemon_refuses_the_older_one() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (route, address) = (daemon.route(), daemon.address());
    let relay = laptop.enrol(&owner, &route, "box");
    let link = relay.wait_state("up")["link"].clone();
    let device = owner.json(&["remote", "devices"])[0]["device"].clone();
    let old = fs::read(device_key(&laptop)).unwrap();
    let terminal = laptop.terminal(&["--machine", "box", "--", "cat"]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    consumer.type_text("before\n");
    consumer.output().wait_for("before");

    // The running relay shows it to its daemon at once, and its link goes on.
    let said = laptop.json(&["remote", "rotate-key", "--device"]);
    let all = json!({ "serial": 2, "known_to": ["box"] });
    assert_eq!(said, all);
    assert_eq!(parsed(&device_key(&laptop))["serial"], 2);
    let up = relay.wait_state("up");
    assert_eq!(up["link"], link, "{up}");
    consumer.type_text("after\n");
    consumer.output().wait_for("after");
    assert_eq!(consumer.detach().code, 0);
    assert_eq!(enrolments(&owner), 1);
    let devices = owner.json(&["remote", "devices"]);
    assert_eq!((devices.as_array().unwrap().len(), &devices[0]["device"]), (1, &device));
    drop(relay);

    // Somebody with the old key, also after the daemon was started anew.
    let new = fs::read(device_key(&laptop)).unwrap();
    fs::write(device_key(&laptop), &old).unwrap();
    let (code, said) = laptop.relay(&[&route]).ended();
    assert_eq!((code, said.contains("rotated since")), (6, true), "{said}");
    daemon.stop();
    let _daemon = owner.daemon(&["--remote-ws", &address]);
    let (code, said) = laptop.relay(&[&route]).ended();
    assert_eq!((code, said.contains("rotated since")), (6, true), "{said}");
    fs::write(device_key(&laptop), new).unwrap();
    laptop.relay(&[&route]).wait_state("up");
}

#[test]
fn a_daemon_that_is_away_learns_of_a_devices_key_when_it_is_back() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (route, address) = (daemon.route(), daemon.address());
    let relay = laptop.enrol(&owner, &route, "box");
    daemon.stop();
    relay.wait_state("down");
    let said = laptop.json(&["--timeout", "5", "remote", "rotate-key", "--device"]);
    assert_eq!(said["known_to"], json!([]), "{said}");
    let _daemon = owner.daemon(&["--remote-ws", &address]);
    relay.wait_state("up");
    wait_until("the new key is known", || {
        let audit = owner.json(&["server", "audit"]);
        let mut entries = audit.as_array().unwrap().iter();
        let rotated = entries.any(|entry| entry["event"] == "key-rotated" && entry["detail"] == "2");
        rotated.then_some(()).ok_or(audit.to_string())
    });
    assert_eq!(enrolments(&owner), 1);
}
