//! A carrier over the person's own ssh: `keepline remote stdio` on the far side joins it to the daemon's socket.
//!
//! ssh is told by arguments alone; no shell on this side sees any of them, and the far side's sees three words that are always
//! the same. Whatever it prints before the four bytes `KPLN` (a greeting in a start-up file) is skipped.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use keepline_protocol::handshake::MAGIC;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{ChildStderr, Command};

use crate::bounds::{SSH_BUFFER, SSH_GREETING_MAX, SSH_SAYS_MAX};
use crate::dial::DialError;
use crate::packet::Carrier;
use crate::route::Destination;

/// Seconds between two of ssh's own probes; three in a row without an answer end it. The link's own are quicker; these end
/// a process that nobody misses.
const ALIVE_SECONDS: u32 = 15;

fn command(destination: &Destination) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args(["-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ServerAliveCountMax=3"]);
    ssh.arg("-o").arg(format!("ServerAliveInterval={ALIVE_SECONDS}"));
    if let Some(port) = destination.port {
        ssh.arg("-p").arg(port.to_string());
    }
    if let Some(user) = &destination.user {
        ssh.arg("-l").arg(user);
    }
    ssh.args(["--", &destination.host, "keepline", "remote", "stdio"]);
    ssh
}

/// Starts ssh and waits until keepline answers on its far side. When this is given up, ssh ends.
pub(crate) async fn connect(destination: &Destination) -> Result<Carrier, DialError> {
    let failed = |reason: String| DialError::Ssh { destination: destination.to_string(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    let (near, far) = std::os::unix::net::UnixStream::pair().map_err(io)?;
    // What is queued here cannot be overtaken by what is more urgent.
    set_socket_send_buffer_size(&near, SSH_BUFFER).map_err(|error| io(error.into()))?;
    near.set_nonblocking(true).map_err(io)?;
    let mut stream = UnixStream::from_std(near).map_err(io)?;
    let input = OwnedFd::from(far);
    let output = input.try_clone().map_err(io)?;
    let mut ssh = command(destination)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .process_group(0)
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => failed("there is no ssh on this machine".to_owned()),
            _ => io(error),
        })?;
    let said = ssh.stderr.take().map(|stderr| tokio::spawn(listen(stderr)));
    if greeted(&mut stream).await {
        stream.write_all(MAGIC).await.map_err(io)?;
        return Ok(Carrier::ssh(stream, ssh));
    }
    drop(stream);
    let status = ssh.wait().await.ok().and_then(|status| status.code());
    let said = match said {
        Some(said) => said.await.unwrap_or_default(),
        None => String::new(),
    };
    Err(failed(match (said.lines().rfind(|line| !line.trim().is_empty()), status) {
        (Some(last), _) => last.trim().to_owned(),
        (None, Some(status)) => format!("it ended with status {status} and said nothing"),
        (None, None) => "what answers there is not keepline".to_owned(),
    }))
}

/// Reads up to the four bytes; false when they do not come.
async fn greeted(stream: &mut UnixStream) -> bool {
    let mut last = [0; 4];
    for _ in 0..SSH_GREETING_MAX {
        let Ok(byte) = stream.read_u8().await else {
            return false;
        };
        last.rotate_left(1);
        last[3] = byte;
        if last == *MAGIC {
            return true;
        }
    }
    false
}

/// Reads what ssh says, so that it never waits for somebody to; the end of it is kept.
async fn listen(mut stderr: ChildStderr) -> String {
    let (mut said, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        said.extend_from_slice(&buffer[..read]);
        let surplus = said.len().saturating_sub(SSH_SAYS_MAX);
        said.drain(..surplus);
    }
    String::from_utf8_lossy(&said).into_owned()
}
