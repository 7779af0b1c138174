//! PTYs. [`Pty`] is the one type that touches one, so that a process of its own can take its place.
//!
//! All PTYs are read, written and resized, and all children reaped, on one thread ([`PtyIo`]): reading and parsing in
//! one thread would halve the throughput, and one reader is always faster than the kernel's PTY. A PTY has two tasks
//! there:
//!
//! ```text
//!  program ⇄ PTY ─ read ─▶ Listener::output ─▶ Job::Output ─▶ the parser, elsewhere
//!                 ─ write ◀─ input and replies, in the order in which they were queued
//! ```
//!
//! Output and resizes reach the [`Listener`] and the parser in the same order. The last job is [`Job::End`].

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::thread;
use std::{io, os::fd::OwnedFd};

use bytes::Bytes;
use keepline_protocol::api::Size;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::AttachmentId;
use keepline_protocol::record::Exit;
use pty_process::{OwnedReadPty, OwnedWritePty};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize,
};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::launch::{Program, Spawn};
use crate::bounds::{CHUNK_MAX, CHUNKS_WAITING, DRAIN_TIME, REOPEN_TIME, REPLIES_WAITING_MAX};

/// The thread on which all PTYs are read and written.
///
/// It ends when this is dropped; terminals that still live then lose their programs.
pub struct PtyIo {
    handle: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl PtyIo {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread or no event queue.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("pty-io".to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
        })?;
        Ok(PtyIo { handle, _stop: stop })
    }
}

/// Who wants to know at once, on the thread of the PTYs, what happens to one. It must not wait.
pub(super) trait Listener: Send + Sync + 'static {
    /// The program's next output.
    fn output(&self, bytes: &[u8]);
    /// The terminal has this size from here on.
    fn resized(&self, size: Size);
    /// The next `length` bytes of this attachment's input were written.
    fn wrote(&self, attachment: AttachmentId, length: usize);
}

/// What the parser has to do, in this order.
#[derive(Debug)]
pub(super) enum Job {
    Output(Bytes),
    /// Take this size, and say when that is done.
    Resize(Size, oneshot::Sender<()>),
    End(Exit),
}

enum Command {
    Resize(Size, oneshot::Sender<()>),
    Signal(Signal, oneshot::Sender<Result<(), Failure>>),
}

enum Write {
    /// Counted, so that it can be told whether an interrupt came behind it.
    Input(u64, AttachmentId, Bytes, OwnedSemaphorePermit),
    Reply(Vec<u8>),
}

/// A program on a PTY. Dropping it ends the PTY, and so hangs up on the program.
pub(super) struct Pty {
    leader: Pid,
    commands: mpsc::UnboundedSender<Command>,
    writer: Writer,
}

/// What writes to a PTY.
#[derive(Clone)]
pub(super) struct Writer {
    queue: mpsc::UnboundedSender<Write>,
    /// Bytes of replies in the queue.
    replies: Arc<AtomicUsize>,
    control: Arc<OwnedFd>,
    interrupt: Arc<Interrupt>,
}

/// The newest interrupt among the input: what was queued before it and is not written yet is discarded, as the kernel does.
#[derive(Default)]
struct Interrupt {
    queued: AtomicU64,
    at: AtomicU64,
    came: Notify,
}

impl Writer {
    /// Queues input, and says whether it interrupts. The permit, one per byte, comes free when it is written.
    pub(super) fn input(&self, attachment: AttachmentId, bytes: Bytes, permit: OwnedSemaphorePermit) -> bool {
        let interrupts = self.interrupts(&bytes);
        let number = self.interrupt.queued.fetch_add(1, Ordering::Relaxed);
        // The queue is gone when the terminal ended; the bytes then count as not written.
        let _ = self.queue.send(Write::Input(number, attachment, bytes, permit));
        if interrupts {
            self.interrupt.at.store(number, Ordering::Relaxed);
            self.interrupt.came.notify_one();
        }
        interrupts
    }

    /// Whether the kernel takes one of these bytes for an interrupt (termios(3): VINTR while ISIG is set).
    fn interrupts(&self, bytes: &[u8]) -> bool {
        let Ok(modes) = tcgetattr(&self.control) else {
            return false;
        };
        let byte = modes.special_codes[SpecialCodeIndex::VINTR];
        // 0 stands for no such character.
        modes.local_modes.contains(LocalModes::ISIG) && byte != 0 && bytes.contains(&byte)
    }

    /// Queues an answer to a query, unless too many wait.
    pub(super) fn reply(&self, reply: Vec<u8>) {
        if reply.is_empty() {
            return;
        }
        let length = reply.len();
        if self.replies.fetch_add(length, Ordering::Relaxed) + length > REPLIES_WAITING_MAX {
            self.replies.fetch_sub(length, Ordering::Relaxed);
        } else {
            let _ = self.queue.send(Write::Reply(reply));
        }
    }
}

impl Pty {
    /// Starts a program on a new PTY.
    ///
    /// # Errors
    /// When the directory or the program is missing, or the program or the PTY cannot be started.
    pub(super) async fn start(
        io: &PtyIo,
        spawn: Spawn,
        listener: Arc<dyn Listener>,
    ) -> Result<(Pty, mpsc::Receiver<Job>), Failure> {
        let started = io.handle.spawn(async move { start(&spawn, listener) }).await;
        started.unwrap_or_else(|_| Err(Failure::new(Code::Failed, "the thread that serves terminals has ended")))
    }

    /// The leader of the terminal's session.
    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Gives the terminal another size. What is returned comes true when the parser has taken it over, or fails when
    /// the terminal ended before.
    pub(super) fn resize(&self, size: Size) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Resize(size, done));
        receiver
    }

    /// Sends a signal to the foreground process group.
    ///
    /// # Errors
    /// When the terminal has ended, or the system refuses.
    pub(super) async fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let (done, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Signal(signal, done));
        receiver.await.unwrap_or_else(|_| Err(Failure::new(Code::Gone, "the terminal has ended")))
    }
}

fn start(spawn: &Spawn, listener: Arc<dyn Listener>) -> Result<(Pty, mpsc::Receiver<Job>), Failure> {
    let no_pty =
        |error: &dyn std::fmt::Display| Failure::new(Code::CannotStart, format!("cannot open a terminal: {error}"));
    let program = Program::new(spawn)?;
    let name = program.name().to_owned();
    let (pty, pts) = pty_process::open().map_err(|error| no_pty(&error))?;
    let Size { cols, rows, x_pixels, y_pixels } = spawn.size;
    pty.resize(pty_process::Size::new_with_pixel(rows, cols, x_pixels, y_pixels)).map_err(|error| no_pty(&error))?;
    let mut modes = tcgetattr(&pts).map_err(|error| no_pty(&error))?;
    // Erasing a character in line mode erases all of its bytes.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&pts, OptionalActions::Now, &modes).map_err(|error| no_pty(&error))?;
    // A second handle for what needs neither reading nor writing; like the first it is closed on exec.
    let control = rustix::io::fcntl_dupfd_cloexec(&pty, 3).map_err(|error| no_pty(&error))?;
    let control = Arc::new(control);
    let child = program.command.spawn(pts).map_err(|error| Program::failure(&name, &error))?;
    let leader = child
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        .ok_or_else(|| Failure::new(Code::CannotStart, format!("'{name}' ended before it began")))?;
    crate::descriptors::restore(leader);

    let (reading, writing) = pty.into_split();
    let (commands, commands_received) = mpsc::unbounded_channel();
    let (queue, queued) = mpsc::unbounded_channel();
    let (jobs, jobs_received) = mpsc::channel(CHUNKS_WAITING);
    let writer = Writer { queue, replies: Arc::default(), control: Arc::clone(&control), interrupt: Arc::default() };
    let write = tokio::spawn(write(
        writing,
        queued,
        Arc::clone(&writer.replies),
        Arc::clone(&writer.interrupt),
        Arc::clone(&listener),
    ));
    let read = Reading { pty: reading, control, child, leader, commands: commands_received, listener, jobs };
    tokio::spawn(async move {
        read.run().await;
        write.abort();
    });
    Ok((Pty { leader, commands, writer }, jobs_received))
}

struct Reading {
    pty: OwnedReadPty,
    control: Arc<OwnedFd>,
    child: Child,
    leader: Pid,
    commands: mpsc::UnboundedReceiver<Command>,
    listener: Arc<dyn Listener>,
    jobs: mpsc::Sender<Job>,
}

impl Reading {
    /// Reads until the child is reaped and the PTY drained, or [`DRAIN_TIME`] after the child.
    async fn run(mut self) {
        let mut exit = None;
        let mut drained = false;
        // When the PTY may be read again, and when there has been time enough to drain it.
        let mut read_again = Instant::now();
        let mut drain_end = Instant::now();
        while !(drained && exit.is_some()) {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::Resize(size, done)) => {
                        if !self.resize(size, done).await {
                            return;
                        }
                    }
                    Some(Command::Signal(signal, done)) => {
                        let _ = done.send(self.signal(signal));
                    }
                    None => return,
                },
                chunk = read(&mut self.pty), if !drained => match chunk {
                    Ok(chunk) if !chunk.is_empty() => {
                        self.listener.output(&chunk);
                        if self.jobs.send(Job::Output(chunk)).await.is_err() {
                            return;
                        }
                    }
                    // Nothing holds the other end open, which the program may still change while it lives.
                    Ok(_) | Err(_) => {
                        drained = true;
                        read_again = Instant::now() + REOPEN_TIME;
                    }
                },
                () = sleep_until(read_again), if drained && exit.is_none() => drained = false,
                status = self.child.wait(), if exit.is_none() => {
                    exit = Some(status.map_or_else(|error| Exit::Reason(error.to_string()), exit_of));
                    drain_end = Instant::now() + DRAIN_TIME;
                    // What it wrote last may have come after the last look.
                    drained = false;
                }
                () = sleep_until(drain_end), if exit.is_some() => break,
            }
        }
        if let Some(exit) = exit {
            let _ = self.jobs.send(Job::End(exit)).await;
        }
    }

    async fn resize(&self, size: Size, done: oneshot::Sender<()>) -> bool {
        let window = rustix::termios::Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: size.x_pixels,
            ws_ypixel: size.y_pixels,
        };
        // This fails only when the terminal is about to end.
        let _ = tcsetwinsize(&self.control, window);
        self.listener.resized(size);
        self.jobs.send(Job::Resize(size, done)).await.is_ok()
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        // Without a foreground group the session's leader is meant.
        let group = tcgetpgrp(&self.control).unwrap_or(self.leader);
        kill_process_group(group, signal)
            .map_err(|error| Failure::new(Code::Failed, format!("the signal could not be sent: {error}")))
    }
}

thread_local! {
    /// What all PTYs are read into, one after the other: a terminal that is idle needs none.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK_MAX]);
}

/// Reads what there is, up to [`CHUNK_MAX`]: at least one byte, or none at the end.
async fn read(pty: &mut OwnedReadPty) -> io::Result<Bytes> {
    std::future::poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut filled = 0;
            loop {
                let mut rest = ReadBuf::new(&mut buffer[filled..]);
                let polled = Pin::new(&mut *pty).poll_read(context, &mut rest);
                let length = rest.filled().len();
                let more = matches!(polled, Poll::Ready(Ok(()))) && length > 0;
                filled += length;
                if filled > 0 && (!more || filled == buffer.len()) {
                    // An error comes again at the next read.
                    return Poll::Ready(Ok(Bytes::copy_from_slice(&buffer[..filled])));
                }
                ready!(polled)?;
                if length == 0 {
                    return Poll::Ready(Ok(Bytes::new()));
                }
            }
        })
    })
    .await
}

async fn write(
    mut pty: OwnedWritePty,
    mut queue: mpsc::UnboundedReceiver<Write>,
    replies: Arc<AtomicUsize>,
    interrupt: Arc<Interrupt>,
    listener: Arc<dyn Listener>,
) {
    while let Some(next) = queue.recv().await {
        match next {
            Write::Input(number, attachment, mut bytes, mut permit) => {
                while !bytes.is_empty() {
                    if number < interrupt.at.load(Ordering::Relaxed) {
                        // What is discarded counts as written: nobody is to send it again.
                        listener.wrote(attachment, bytes.len());
                        break;
                    }
                    let written = tokio::select! {
                        written = pty.write(&bytes) => written,
                        () = interrupt.came.notified() => continue,
                    };
                    // At the end of the terminal this task is stopped; until then an error may pass.
                    let Ok(length) = written else {
                        tokio::time::sleep(REOPEN_TIME).await;
                        continue;
                    };
                    bytes = bytes.split_off(length);
                    drop(permit.split(length));
                    listener.wrote(attachment, length);
                }
            }
            Write::Reply(reply) => {
                let _ = pty.write_all(&reply).await;
                replies.fetch_sub(reply.len(), Ordering::Relaxed);
            }
        }
    }
}

fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Reason(status.to_string()),
    }
}
