//! Links over a real sshd on loopback, with its own host key and a throw-away user key.

use std::path::Path;

use keepline_tests::process::{Process, Signal, signal_process};
use keepline_tests::ssh::Sshd;
use keepline_tests::{Machine, wait_until};

fn sshd() -> Option<Sshd> {
    let sshd = Sshd::start();
    if sshd.is_none() {
        assert!(std::env::var_os("KEEPLINE_REQUIRE_SSH").is_none(), "there is no ssh, ssh-keygen or /usr/sbin/sshd");
        println!("skipped: there is no ssh, ssh-keygen or /usr/sbin/sshd here");
    }
    sshd
}

/// The path on which the `ssh` of this directory is found first.
fn path_with(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// The processes that the relay `parent` has started.
fn children(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).map(|tasks| tasks.flatten().map(of_task).collect());
    let all: String = tasks.unwrap_or(text);
    all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_link_over_ssh_starts_the_daemon_needs_no_invitation_and_survives_kills_of_ssh() {
    let Some(sshd) = sshd() else { return };
    let (owner, laptop) = (Machine::new(), Machine::new());
    let bin = sshd.client_for(&owner);
    let mut command =
        laptop.command(&["remote", "connect", "ssh://me@box:2222", "--headless", "--json", "--name", "box"]);
    let relay = Process::spawn(command.env("PATH", path_with(&bin)));
    relay.stdout.wait_json("the link", |report| (report["state"] == "up").then_some(()));
    // Who answers there can be seen without a relay, and is known.
    let probe = ["remote", "probe", "ssh://me@box:2222", "--json"];
    let mut probe = Process::spawn(laptop.command(&probe).env("PATH", path_with(&bin)));
    assert_eq!(probe.exit(), 0, "{}", probe.stderr.text());
    assert_eq!(probe.stdout.json_lines()[0]["machine"], "box");
    // Nobody started a daemon there; it has let the ssh account in with all rights.
    let devices = owner.json(&["remote", "devices"]);
    assert_eq!(devices[0]["state"], "trusted", "{devices}");
    let told = std::fs::read_to_string(bin.join("told")).unwrap();
    assert!(told.contains("-p 2222 -l me -- box keepline remote stdio"), "{told}");

    let script = "stty -echo; i=0; while read x; do i=$((i+1)); echo key $i $x; done";
    let terminal = laptop.terminal(&["--machine", "box", "--", "bash", "-c", script]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    for key in 1..=5 {
        assert!(consumer.type_text(&format!("{key}\n")));
        consumer.output().wait_for(&format!("key {key} {key}\r\n"));
        for ssh in children(relay.pid()) {
            signal_process(ssh, Signal::KILL);
        }
    }
    assert!(consumer.type_text("last\n"));
    consumer.output().wait_for("key 6 last\r\n");
    let output = consumer.output().text();
    assert!(!output.contains("\u{1b}c"), "no reset: {output}");
    let links = owner.json(&["remote", "connections"]);
    assert_eq!(links.as_array().unwrap().len(), 1, "{links}");
    assert!(links[0]["epoch"].as_u64().unwrap() >= 5, "one link, over one ssh after the other: {links}");
    assert_eq!(consumer.detach().code, 0);
    // What the relay started ends with it.
    let ssh = children(relay.pid());
    assert_eq!(ssh.len(), 1);
    relay.signal(Signal::TERM);
    wait_until("the end of ssh", || {
        if Path::new(&format!("/proc/{}", ssh[0])).exists() { Err("it runs") } else { Ok(()) }
    });

    // The owner can deny that key there.
    let device = devices[0]["device"].as_str().unwrap();
    owner.ok(&["remote", "revoke", device]);
    let mut command = laptop.command(&["remote", "connect", "ssh://me@box:2222", "--headless", "--name", "box"]);
    let mut denied = Process::spawn(command.env("PATH", path_with(&bin)));
    assert_eq!(denied.exit(), 6, "{}", denied.stderr.text());
}

#[test]
fn a_trusted_way_needs_no_invitation_and_a_probe_enrols_nobody() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.daemon(&["--remote-ws", "127.0.0.1:0", "--remote-ws-trusted-carrier"]);
    let route = daemon.route();
    let probed = laptop.json(&["remote", "probe", &route]);
    assert_eq!((&probed["version"], &probed["machine"]), (&1.into(), &serde_json::Value::Null), "{probed}");
    assert!(probed["fingerprint"].as_str().unwrap().starts_with("SHA256:"));
    assert_eq!(owner.json(&["remote", "devices"]).as_array().unwrap().len(), 0);
    // Which way is trusted is for both ends to say.
    assert_eq!(laptop.run(&["remote", "connect", &route, "--headless"]).code, 6);
    let relay = laptop.relay(&[&route, "--carrier", "--name", "box"]);
    relay.wait_state("up");
    let devices = owner.json(&["remote", "devices"]);
    assert_eq!(devices[0]["state"], "trusted", "{devices}");
    assert_eq!(laptop.json(&["remote", "probe", &route])["machine"], "box");
    let dead = laptop.run(&["remote", "probe", "ws://127.0.0.1:1"]);
    assert_eq!((dead.code, dead.stderr.lines().count()), (1, 1), "{dead:?}");
    assert_eq!(laptop.run(&["remote", "probe", "nowhere"]).code, 2);
}

#[test]
fn a_link_by_way_of_a_socks5_proxy_survives_its_kill() {
    let Some(sshd) = sshd() else { return };
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    // A name that only the proxy's side looks up is as good as another; loopback has one.
    let port = daemon.address().rsplit_once(':').unwrap().1.to_owned();
    let route = format!("ws://localhost:{port}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut proxy = sshd.socks5(&free);
    let invitation = owner.invitation(&["--no-approval"]);
    let file = invitation.to_string_lossy();
    let relay = laptop.relay(&[&route, "--invite-file", &file, "--name", "box", "--socks5", &free]);
    relay.wait_state("up");
    let terminal = laptop.terminal(&["--machine", "box", "--", "cat"]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    assert!(consumer.type_text("before\n"));
    consumer.output().wait_for("before\r\nbefore\r\n");
    proxy.kill();
    relay.wait_state("down");
    assert!(consumer.type_text("after\n"));
    let _again = sshd.socks5(&free);
    consumer.output().wait_for("after\r\nafter\r\n");
    assert!(!consumer.output().text().contains("\u{1b}c"), "no reset");
    assert_eq!(consumer.detach().code, 0);
    relay.process.signal(Signal::TERM);

    // The same over a socket of the proxy's.
    let socket = laptop.home().join("proxy.sock").to_string_lossy().into_owned();
    let _proxy = sshd.socks5(&socket);
    let relay = laptop.relay(&[&route, "--name", "box", "--socks5", &socket]);
    relay.wait_state("up");
    laptop.ok(&["--machine", "box", "terminal", "list"]);
    assert_eq!(laptop.run(&["remote", "connect", &route, "--socks5", "nowhere", "--headless"]).code, 2);
}

#[test]
fn what_ssh_says_is_the_reason_and_a_destination_is_never_an_option() {
    let laptop = Machine::new();
    let marker = laptop.home().join("marker");
    let option = format!("ssh://-oProxyCommand=touch${{IFS}}{}", marker.display());
    for route in [&*option, "ssh://-oProxyCommand=touch@box", "ssh://box -v", "ssh://"] {
        let output = laptop.run(&["remote", "connect", route, "--headless"]);
        assert_eq!((output.code, output.stderr.lines().count()), (2, 1), "{route}: {output:?}");
    }
    assert!(!marker.exists());
    let Some(sshd) = sshd() else { return };
    let bin = sshd.client_for(&laptop);
    // Another key than the server knows.
    std::fs::write(bin.join("ssh"), format!("#!/bin/sh\nexec /usr/bin/ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes -o IdentityAgent=none -i /nowhere -p {} -T 127.0.0.1 true\n", sshd.port())).unwrap();
    let mut command = laptop.command(&["remote", "connect", "ssh://box", "--headless"]);
    let relay = Process::spawn(command.env("PATH", path_with(&bin)));
    relay.stderr.wait_for("cannot connect to ssh://box");
    relay.stderr.wait_for("Permission denied");
    // A far side without keepline.
    std::fs::write(bin.join("ssh"), "#!/bin/sh\necho hello; echo 'sh: keepline: not found' >&2; exit 127\n").unwrap();
    let mut command = laptop.command(&["remote", "connect", "ssh://other", "--headless"]);
    let relay = Process::spawn(command.env("PATH", path_with(&bin)));
    relay.stderr.wait_for("cannot connect to ssh://other: sh: keepline: not found");
}
