//! `remote stdio`: the far side of a carrier over ssh, which joins its standard input and output to the daemon's socket.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::MAGIC;
use tokio::sync::mpsc;

use super::{Outcome, Said};
use crate::cli::context::{Context, Host};

/// Joins them until either side ends, after the four bytes that tell keepline from what a login prints.
pub(super) async fn stdio<H: Host>(context: &Context<H>) -> Outcome {
    // Starts the daemon when there is none.
    context.client_of_started().await?;
    let failed = |error: io::Error| Failure::new(Code::Failed, format!("cannot join the daemon: {error}"));
    let socket = UnixStream::connect(context.paths.daemon_socket()?).map_err(failed)?;
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    output.write_all(MAGIC).map_err(failed)?;
    let (ended, mut end) = mpsc::channel(2);
    let to_daemon = socket.try_clone().map_err(failed)?;
    // In threads: nobody knows whether these are pipes, sockets or files, and they end with the process.
    copy(input, to_daemon, Some(socket.try_clone().map_err(failed)?), ended.clone());
    copy(socket, output, None, ended);
    let _ = end.recv().await;
    Ok(Said::Exit(0))
}

/// Copies until the end, and then closes the daemon's side of what was read.
fn copy(
    mut from: impl io::Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    closes: Option<UnixStream>,
    ended: mpsc::Sender<()>,
) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        // Whichever way it ends: the link goes on over another carrier.
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        if let Some(socket) = closes {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let _ = ended.blocking_send(());
    });
}
