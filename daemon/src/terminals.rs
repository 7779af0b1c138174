//! Which terminals live, and how their rows follow them.
//!
//! Row before object: a terminal's row is committed as `launching`, then its program is spawned, then the row says
//! `running`; when the program cannot be spawned the row is ended. So a terminal without a row never exists, and a row
//! without a terminal is always an ended one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepline_protocol::api::terminal::TerminalPath;
use keepline_protocol::api::{Receipt, Size};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_protocol::record::Exit;
use tokio::time::{sleep, timeout};

use crate::bounds::{OBSERVED_PAUSE, RECORD_AGAIN, STOP_TIME};
use crate::daemon::now_ms;
use crate::session::{
    Cells, DAEMON_STOPPED, Lifecycle, NOT_STARTED, Origin, Place, Session, TerminalMutation,
};
use crate::terminal::{PtyIo, Spawn, Terminal};

pub(crate) struct Terminals {
    session: Session,
    socket: PathBuf,
    io: PtyIo,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// Running terminals, and ended ones whose screen can still be read.
    terminals: HashMap<TerminalId, Arc<Terminal>>,
    stopping: bool,
}

/// A terminal to make.
pub(crate) struct New {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) cwd: Option<String>,
    pub(crate) size: Size,
    pub(crate) argv: Vec<String>,
}

impl Terminals {
    pub(crate) fn start(session: Session, socket: PathBuf) -> Result<Arc<Self>, Failure> {
        let io = PtyIo::start().map_err(|error| {
            Failure::new(
                Code::Failed,
                format!("cannot start the thread that serves terminals: {error}"),
            )
        })?;
        Ok(Arc::new(Terminals {
            session,
            socket,
            io,
            live: Mutex::default(),
        }))
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terminal that an id or a unique name means.
    pub(crate) fn find(&self, reference: &str) -> Result<Arc<Terminal>, Failure> {
        let id = self.session.resolve_terminal(reference)?;
        self.live()
            .terminals
            .get(&id)
            .cloned()
            .ok_or_else(|| match self.session.terminal(id) {
                Some(row) if row.lifecycle == Lifecycle::Launching => Failure::new(
                    Code::Busy,
                    format!("terminal {id} is just being started; try again"),
                ),
                _ => Failure::new(
                    Code::Gone,
                    format!("terminal {id} ended before this daemon started; its screen is gone"),
                ),
            })
    }

    /// How many terminals run.
    pub(crate) fn running(&self) -> usize {
        self.live()
            .terminals
            .values()
            .filter(|terminal| terminal.exited().borrow().is_none())
            .count()
    }

    /// Makes a row, then the terminal. A replayed request makes nothing again.
    pub(crate) async fn open(
        self: &Arc<Self>,
        origin: Origin,
        new: New,
    ) -> Result<Receipt<TerminalPath>, Failure> {
        if self.live().stopping {
            return Err(Failure::new(Code::Failed, "the daemon is stopping"));
        }
        let row = TerminalMutation::New {
            place: new.place,
            name: new.name,
            cwd: new.cwd.clone().unwrap_or_default(),
            size: new.size.into(),
            argv: new.argv.clone(),
        };
        let receipt = self.session.mutate(origin, row).await?;
        if receipt.replayed {
            return self.launched(receipt).await;
        }
        // Not given up when the asker goes away: a row is never left between launching and running.
        let (terminals, id) = (Arc::clone(self), receipt.value.terminal);
        let launched =
            tokio::spawn(async move { terminals.launch(id, new.argv, new.cwd, new.size).await });
        let revision = launched.await.unwrap_or_else(|_| {
            Err(Failure::new(
                Code::Internal,
                "keepline has a bug: a terminal's start panicked",
            ))
        })?;
        Ok(Receipt {
            revision,
            ..receipt
        })
    }

    /// Answers a replayed request as the first one was: when its terminal runs, or could not be started.
    async fn launched(
        &self,
        receipt: Receipt<TerminalPath>,
    ) -> Result<Receipt<TerminalPath>, Failure> {
        let id = receipt.value.terminal;
        let (_, mut changes) = self.session.subscribe(Some(self.session.cursor()));
        loop {
            match self.session.terminal(id) {
                Some(row) if row.lifecycle == Lifecycle::Launching => {}
                Some(row) if row.exit == Some(Exit::Reason(NOT_STARTED.to_owned())) => {
                    let message =
                        format!("terminal {id}, which this key made, could not be started");
                    return Err(Failure::new(Code::CannotStart, message));
                }
                _ => return Ok(receipt),
            }
            if changes.next().await.is_none() {
                return Err(Failure::new(Code::Failed, "the daemon is stopping"));
            }
        }
    }

    /// Spawns the program of a row; gives the revision at which the row says that it runs.
    async fn launch(
        self: Arc<Self>,
        id: TerminalId,
        argv: Vec<String>,
        cwd: Option<String>,
        size: Size,
    ) -> Result<u64, Failure> {
        let spawn = Spawn {
            id,
            argv,
            cwd,
            env: Vec::new(),
            socket: self.socket.clone(),
            size,
        };
        let terminal = match Terminal::spawn(&self.io, spawn).await {
            Ok(terminal) => terminal,
            Err(failure) => {
                self.record(TerminalMutation::NotStarted { terminal: id })
                    .await;
                return Err(failure);
            }
        };
        self.live().terminals.insert(id, Arc::clone(&terminal));
        let started = TerminalMutation::Started {
            terminal: id,
            pid: terminal.pid(),
        };
        let receipt = self.session.mutate(Origin::default(), started).await;
        tokio::spawn(Arc::clone(&self).follow(terminal));
        receipt.map(|receipt| receipt.revision)
    }

    /// Keeps a terminal's row true until it has ended.
    async fn follow(self: Arc<Self>, terminal: Arc<Terminal>) {
        let id = terminal.id();
        let (mut exited, mut title, mut size) =
            (terminal.exited(), terminal.title(), terminal.sizes());
        // What changed before this task began counts as a change.
        title.mark_changed();
        size.mark_changed();
        loop {
            tokio::select! {
                true = async { exited.wait_for(Option::is_some).await.is_ok() } => break,
                true = async { title.changed().await.is_ok() } => {}
                true = async { size.changed().await.is_ok() } => {}
                else => break,
            }
            let named = Some(title.borrow_and_update().clone()).filter(|title| !title.is_empty());
            let cells = Some(Cells::from(*size.borrow_and_update()));
            self.record(observed(id, named, cells, None)).await;
            // What changes faster than this is gathered.
            sleep(OBSERVED_PAUSE).await;
        }
        let exit = exited
            .borrow()
            .clone()
            .unwrap_or_else(|| Exit::Reason("lost".to_owned()));
        let ended = TerminalMutation::Ended { terminal: id, exit };
        // On a full disk the row would go on saying that the terminal runs: it is said again until it is durable.
        while !self.record(ended.clone()).await && !self.live().stopping {
            sleep(RECORD_AGAIN).await;
        }
        self.forget_closed();
    }

    /// Notes that somebody uses a terminal now.
    pub(crate) fn used(self: &Arc<Self>, id: TerminalId) {
        let terminals = Arc::clone(self);
        tokio::spawn(async move {
            terminals
                .record(observed(id, None, None, Some(now_ms())))
                .await
        });
    }

    /// Commits what happened to a terminal; false when that failed. A row that is gone needs nothing.
    async fn record(&self, mutation: TerminalMutation) -> bool {
        match self.session.mutate(Origin::default(), mutation).await {
            Ok(_) => true,
            Err(failure) if matches!(failure.code, Code::NotFound | Code::Gone) => true,
            Err(failure) => {
                tracing::error!(%failure, "what happened to a terminal could not be recorded");
                false
            }
        }
    }

    /// Lets go of ended terminals whose row is gone: closed, or older than the newest that are kept.
    fn forget_closed(&self) {
        let session = &self.session;
        self.live().terminals.retain(|id, terminal| {
            terminal.exited().borrow().is_none() || session.terminal(*id).is_some()
        });
    }

    /// Ends a terminal and deletes its row.
    pub(crate) async fn close(
        &self,
        origin: Origin,
        reference: String,
    ) -> Result<Receipt<TerminalPath>, Failure> {
        let receipt = self
            .session
            .mutate(
                origin,
                TerminalMutation::Close {
                    terminal: reference,
                },
            )
            .await?;
        let terminal = self.live().terminals.remove(&receipt.value.terminal);
        if let Some(terminal) = terminal {
            // Its programs have seconds to end; nobody needs to wait for that.
            tokio::spawn(async move { terminal.close().await });
        }
        Ok(receipt)
    }

    /// Pins a terminal's size.
    pub(crate) async fn resize(
        &self,
        origin: Origin,
        reference: String,
        size: Size,
    ) -> Result<Receipt<TerminalPath>, Failure> {
        let mutation = TerminalMutation::Resize {
            terminal: reference,
            size: size.into(),
        };
        let receipt = self.session.mutate(origin, mutation).await?;
        // Others may have resized it since a request that is replayed.
        if !receipt.replayed {
            let terminal = self.find(&receipt.value.terminal.to_string())?;
            terminal.pin(Some(size)).await;
        }
        Ok(receipt)
    }

    /// Hangs up on every terminal and records why they ended.
    pub(crate) async fn stop(&self) {
        let all: Vec<Arc<Terminal>> = {
            let mut live = self.live();
            live.stopping = true;
            live.terminals.values().cloned().collect()
        };
        for terminal in &all {
            terminal.end_because(DAEMON_STOPPED).await;
        }
        let ended = async {
            for terminal in &all {
                let _ = terminal.exited().wait_for(Option::is_some).await;
            }
        };
        let _ = timeout(STOP_TIME, ended).await;
        for terminal in &all {
            let exit = Exit::Reason(DAEMON_STOPPED.to_owned());
            self.record(TerminalMutation::Ended {
                terminal: terminal.id(),
                exit,
            })
            .await;
        }
    }
}

/// What was seen of a terminal; what is absent did not change.
fn observed(
    terminal: TerminalId,
    title: Option<String>,
    size: Option<Cells>,
    used_ms: Option<u64>,
) -> TerminalMutation {
    TerminalMutation::Observed {
        terminal,
        title,
        cwd: None,
        size,
        used_ms,
    }
}
