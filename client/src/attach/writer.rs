//! Standard streams in threads of their own.
//!
//! A pipe or a terminal that nobody reads blocks who writes to it, and one that nobody writes to blocks who reads. A
//! thread may wait like that for ever: it ends with the process, which the runtime's own blocking threads would keep.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc as channel, watch};

#[derive(Clone, Copy, Default)]
struct Progress {
    written: u64,
    broken: bool,
}

/// A stream that is written by a thread. What waits is bounded by who pushes: [`Output::waiting`] says how much it is.
pub(crate) struct Output {
    queue: mpsc::Sender<Bytes>,
    progress: watch::Receiver<Progress>,
    pushed: u64,
}

/// Between two tries on a stream that somebody made non-blocking.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

impl Output {
    pub(crate) fn stdout() -> std::io::Result<Self> {
        Ok(Output::new(std::io::stdout().as_fd().try_clone_to_owned()?))
    }

    pub(crate) fn stderr() -> std::io::Result<Self> {
        Ok(Output::new(std::io::stderr().as_fd().try_clone_to_owned()?))
    }

    fn new(fd: OwnedFd) -> Self {
        let (queue, pieces) = mpsc::channel::<Bytes>();
        let (report, progress) = watch::channel(Progress::default());
        std::thread::spawn(move || {
            let mut file = File::from(fd);
            for piece in pieces {
                let broken = write_all(&mut file, &piece).is_err();
                report.send_modify(|progress| {
                    progress.written += piece.len() as u64;
                    progress.broken |= broken;
                });
                if broken {
                    return;
                }
            }
        });
        Output { queue, progress, pushed: 0 }
    }

    /// Queues bytes; on a broken stream they are dropped.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        let length = bytes.len() as u64;
        if self.queue.send(bytes).is_ok() {
            self.pushed += length;
        }
    }

    /// Bytes that are not written yet.
    pub(crate) fn waiting(&self) -> u64 {
        let progress = *self.progress.borrow();
        if progress.broken { 0 } else { self.pushed - progress.written }
    }

    /// Whether nobody can read this stream any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.progress.borrow().broken
    }

    /// Waits until more was written than when this was last awaited, or the stream broke; for ever when nothing waits. What
    /// was written between a look at [`waiting`](Self::waiting) and this counts: who stopped for it must hear of it.
    pub(crate) async fn progress(&mut self) {
        if self.progress.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until everything was written or the stream broke.
    pub(crate) async fn drained(&mut self) {
        while self.waiting() > 0 {
            self.progress().await;
        }
    }
}

fn write_all(file: &mut File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

const READ: usize = 64 << 10;

/// Standard input, in pieces; the channel closes at its end. Two pieces may wait.
pub(crate) fn stdin() -> std::io::Result<channel::Receiver<Bytes>> {
    let mut file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let (pieces, receiver) = channel::channel(1);
    std::thread::spawn(move || {
        let mut buffer = vec![0; READ];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    if pieces.blocking_send(Bytes::copy_from_slice(&buffer[..read])).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(_) => return,
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_written_before_anybody_waited_is_told() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut output = Output::new(writer.into());
        output.push("all of it".into());
        let mut taken = [0; 9];
        reader.read_exact(&mut taken).unwrap();
        while output.waiting() > 0 {
            std::thread::yield_now();
        }
        output.progress().await;
    }
}
