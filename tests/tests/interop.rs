//! A client that this project shares no code with, written from the text of `spec` alone on a Noise implementation, an
//! ML-KEM, a WebSocket library and a language of others, against a real daemon.

use std::path::{Path, PathBuf};
use std::process::Command;

use keepline_tests::Machine;
use serde_json::{Value, json};

/// Debian's, which has the packages that `.ci/run` installs; another one may stand before it in `PATH`.
const PYTHON: &str = "/usr/bin/python3";
const MODULES: &str = "import cryptography, dissononce, kyber_py, websockets";

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(name)
}

/// Runs a command and gives what it said when it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The Python of a virtual environment under `target` that has all that the client needs.
fn prepared() -> Result<PathBuf, String> {
    // …/TARGET/PROFILE/deps/TEST
    let test = std::env::current_exe().expect("a process knows its program");
    let target = test.ancestors().nth(3);
    let environment = target.expect("cargo puts tests into TARGET/PROFILE/deps").join("interop");
    let python = environment.join("bin/python");
    let mut check = Command::new(&python);
    if run(check.args(["-c", MODULES])).is_err() {
        let mut venv = Command::new(PYTHON);
        run(venv.args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        run(pip
            .args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"])
            .args(["--no-deps", "--require-hashes", "--requirement"])
            .arg(beside("requirements.txt")))?;
        run(&mut check)?;
    }
    Ok(python)
}

#[test]
fn a_client_written_from_the_text_alone_shakes_hands_asks_and_resumes() {
    let python = match prepared() {
        Ok(python) => python,
        // Left out on a developer's machine; `.ci/run` installs what is needed and sets the variable.
        Err(missing) if std::env::var_os("KEEPLINE_REQUIRE_INTEROP").is_none() => {
            return println!("skipped: it needs python3-dissononce, python3-websockets and python3-venv: {missing}");
        }
        Err(missing) => panic!("the client's needs are not met: {missing}"),
    };
    let owner = Machine::new();
    let daemon = owner.listening_daemon();
    let invitation = owner.invitation(&["--no-approval"]);
    let output =
        Command::new("timeout").arg("60").arg(python).arg(beside("client.py")).arg(&invitation).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();

    // It has read what the daemon says of itself elsewhere too.
    let status = owner.json(&["server", "status"]);
    for field in ["pid", "version", "generation", "fingerprint", "listeners", "state_dir"] {
        assert_eq!(told["status"][field], status[field], "{field}: {told}");
    }
    assert_eq!(told["status"]["pid"], daemon.pid());
    assert_eq!(told["unknown_method"]["code"], 13, "{told}");
    // One link on three carriers; the mutation was done once.
    let connections = owner.json(&["remote", "connections"]);
    let link = format!("link_{}", told["link"].as_str().unwrap());
    assert_eq!(connections.as_array().unwrap().len(), 1, "{connections}");
    assert_eq!(connections[0]["link"], *link, "{connections}");
    assert_eq!((&connections[0]["epoch"], &told["epoch"]), (&json!(3), &json!(3)));
    for (answer, replayed) in [("first", false), ("second", true), ("third", true)] {
        assert_eq!(told[answer]["replayed"], replayed, "{told}");
        for field in ["workspace", "generation", "revision"] {
            assert_eq!(told[answer][field], told["first"][field], "{told}");
        }
    }
    let document = owner.json(&["session", "snapshot"]);
    let workspaces = document["workspaces"].as_array().unwrap().iter();
    let named: Vec<_> = workspaces.filter(|row| row["name"] == "from python").collect();
    let made = format!("ws_{}", told["first"]["workspace"].as_str().unwrap());
    assert_eq!(named.len(), 1, "{document}");
    assert_eq!(named[0]["id"], *made, "{document}");
    let devices = owner.json(&["remote", "devices"]);
    assert_eq!(devices[0]["name"], "a python", "{devices}");
    assert_eq!(devices.as_array().unwrap().len(), 1, "{devices}");
}
