//! The `keepline` under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The built program. A test of another package has no `CARGO_BIN_EXE`, so the first call lets cargo build it, in the
/// same target directory and profile as this test; that is quick when it is built already.
///
/// # Panics
/// When it cannot be built.
pub fn keepline() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    // …/TARGET/PROFILE/deps/TEST
    let test = std::env::current_exe().expect("a process knows its program");
    let profile = test.parent().and_then(Path::parent);
    let profile = profile.expect("cargo puts tests into TARGET/PROFILE/deps");
    let target = profile.parent().expect("a profile is inside the target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "keepline"])
        .args(["--bin", "keepline", "--message-format", "json"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    // What cargo tells a test of its package would make build scripts that look at it (ring's) run again.
    for (name, _) in std::env::vars_os() {
        let of_the_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        if of_the_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs, it started this test");
    assert!(output.status.success(), "keepline cannot be built");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "keepline")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the program that it built")
}
