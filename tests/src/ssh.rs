//! ssh, to compare with and to be carried by: a server of its own on a port of loopback, with its own keys.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::machine::Machine;
use crate::process::Process;
use crate::pty::Pty;
use crate::wait_until;

const SERVER: &str = "/usr/sbin/sshd";

/// A running server. Dropping it kills it.
pub struct Sshd {
    root: TempDir,
    process: Child,
    port: u16,
}

impl Sshd {
    /// Starts one; nothing when ssh is not installed.
    pub fn start() -> Option<Self> {
        if !Path::new(SERVER).exists() {
            return None;
        }
        let root = tempfile::tempdir().ok()?;
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(root.path().join(key))
                .status();
            if !made.is_ok_and(|status| status.success()) {
                return None;
            }
        }
        // What a package's start-up script makes: root's server insists on it.
        let _ = std::fs::create_dir("/run/sshd");
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let directory = root.path().display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {directory}/host\nPidFile none\n\
             AuthorizedKeysFile {directory}/user.pub\nStrictModes no\nUsePAM no\nUseDNS no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\nPrintMotd no\nPrintLastLog no\nMaxSessions 32\n"
        );
        let file = root.path().join("config");
        std::fs::write(&file, config).ok()?;
        let process = Command::new(SERVER)
            .args(["-D", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let sshd = Sshd { root, process, port };
        wait_until("an ssh server", || {
            TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| error.to_string())
        });
        Some(sshd)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn command(&self, port: u16, options: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"])
            .args(["-o", "StrictHostKeyChecking=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null"])
            .arg("-o")
            .arg(format!("ControlPath={}/{port}", self.root.path().display()))
            .arg("-i")
            .arg(self.root.path().join("user"))
            .args(["-p", &port.to_string()])
            .args(options)
            .arg("127.0.0.1");
        command
    }

    /// A directory whose `ssh` reaches this server, with its keys, whatever host is named; what it is told besides is written
    /// to `told` in there. On the far side `keepline` is the one under test, in the home of `machine`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn client_for(&self, machine: &Machine) -> PathBuf {
        let bin = self.root.path().join(format!("bin{}", fastrand::u32(..)));
        std::fs::create_dir(&bin).unwrap();
        let root = self.root.path().display();
        let environment: String =
            machine.environment().iter().map(|(name, value)| format!("{name}='{}' ", value.display())).collect();
        let keepline = crate::binary::keepline().display();
        let far = bin.join("far");
        std::fs::write(
            &far,
            format!("#!/bin/sh\necho 'Welcome to this machine'\nexec env -i {environment}{keepline} \"$@\"\n"),
        )
        .unwrap();
        let ssh = bin.join("ssh");
        // All but the last words, which are the far side's command.
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{told}\nexec {real} -F none -o BatchMode=yes -o LogLevel=ERROR \\\n\
             -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {root}/user -p {port} \\\n\
             -T 127.0.0.1 {far} remote stdio\n",
            told = bin.join("told").display(),
            real = "/usr/bin/ssh",
            port = self.port,
            far = far.display()
        );
        std::fs::write(&ssh, script).unwrap();
        for file in [&far, &ssh] {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        bin
    }

    /// A SOCKS5 proxy of ssh's own on this port of loopback or socket, which leads where this server can reach.
    ///
    /// # Panics
    /// When it is not there within a minute.
    pub fn socks5(&self, at: &str) -> Process {
        let process = Process::spawn(&mut self.command(self.port, &["-N", "-D", at]));
        wait_until("a SOCKS5 proxy", || {
            let there = if at.starts_with('/') { Path::new(at).exists() } else { TcpStream::connect(at).is_ok() };
            if there { Ok(()) } else { Err(process.stderr.text()) }
        });
        process
    }

    /// One connection through `port` that the following sessions through it share.
    pub fn master(&self, port: u16) -> Process {
        let process = Process::spawn(&mut self.command(port, &["-M", "-N"]));
        let socket = self.root.path().join(port.to_string());
        wait_until("a shared connection", || if socket.exists() { Ok(()) } else { Err(process.stderr.text()) });
        process
    }

    /// A session with a terminal.
    pub fn terminal(&self, port: u16, script: &str) -> Process {
        Process::spawn(self.command(port, &["-tt"]).arg(script))
    }

    /// A session with a terminal, as a person has it.
    pub fn person(&self, script: &str, cols: u16, rows: u16) -> Pty {
        let mut command = self.command(self.port, &["-t"]);
        Pty::of(command.arg(script), cols, rows)
    }

    /// A session without one: over a shared connection ssh takes no input for a terminal that is none.
    pub fn piped(&self, port: u16, script: &str) -> Process {
        Process::spawn(self.command(port, &[]).arg(script))
    }

    /// The same, and its output is dropped.
    pub fn plain(&self, port: u16, script: &str) -> Session {
        let child = self
            .command(port, &[])
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh can be started");
        Session(child)
    }

    /// Runs a session without a terminal to its end, and drops its output.
    pub fn whole(&self, port: u16, script: &str) {
        let mut session = self.plain(port, script);
        let status = session.0.wait().expect("a child can be waited for");
        assert!(status.success(), "ssh failed: {status}");
    }
}

/// A session whose output nobody keeps. Dropping it kills it.
pub struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
