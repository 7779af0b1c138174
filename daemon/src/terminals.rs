//! Which terminals live, and how their rows follow them.
//!
//! Row before object: a terminal's row is committed as `launching`, then its program is spawned, then the row says
//! `running`; when the program cannot be spawned the row is ended. So a terminal without a row never exists, and a row
//! without a terminal is always an ended one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepline_protocol::api::layout::{PaneSplit, ScreenNew, TabNew};
use keepline_protocol::api::terminal::TerminalNew;
use keepline_protocol::api::{Path, Receipt, Size};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_protocol::record::Exit;
use keepline_screen::Limits;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::bounds::{OBSERVED_PAUSE, RECORD_AGAIN, STOP_TIME};
use crate::daemon::now_ms;
use crate::session::{
    Cells, DAEMON_STOPPED, Effects, FIRST_SIZE, Happened, Lifecycle, Mutate, NOT_STARTED, Observed, Origin, Session,
};
use crate::terminal::{Policy, PtyIo, Spawn, Terminal};

pub(crate) struct Terminals {
    session: Session,
    socket: PathBuf,
    history: Limits,
    io: PtyIo,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// Running terminals, and ended ones whose screen can still be read.
    terminals: HashMap<TerminalId, Arc<Terminal>>,
    stopping: bool,
}

/// A mutation that may make a terminal's row, whose program is then to be started.
pub(crate) trait Starts: Mutate<Answer = Path> {
    /// What is to be started; nothing when it shows a terminal that lives.
    fn program(&self) -> Option<Program>;
}

/// A program to be started.
pub(crate) struct Program {
    argv: Vec<String>,
    cwd: Option<String>,
    size: Size,
}

macro_rules! starts {
    ($($name:ident: |$new:ident| $shows:expr;)*) => {$(
        impl Starts for $name {
            fn program(&self) -> Option<Program> {
                let $new = self;
                (!$shows).then(|| Program {
                    argv: self.argv.clone().unwrap_or_default(),
                    cwd: self.cwd.clone(),
                    size: self.size.unwrap_or(FIRST_SIZE),
                })
            }
        }
    )*};
}

starts! {
    TerminalNew: |_new| false;
    ScreenNew: |new| new.terminal.is_some();
    PaneSplit: |new| new.terminal.is_some();
    TabNew: |new| new.terminal.is_some();
}

impl Terminals {
    pub(crate) fn start(session: Session, socket: PathBuf, history: Limits) -> Result<Arc<Self>, Failure> {
        let io = PtyIo::start().map_err(|error| {
            Failure::new(Code::Failed, format!("cannot start the thread that serves terminals: {error}"))
        })?;
        Ok(Arc::new(Terminals { session, socket, history, io, live: Mutex::default() }))
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terminal that an id or a unique name means.
    pub(crate) fn find(&self, reference: &str) -> Result<Arc<Terminal>, Failure> {
        let id = self.session.resolve_terminal(reference)?;
        self.live().terminals.get(&id).cloned().ok_or_else(|| match self.session.terminal(id) {
            Some(row) if row.lifecycle == Lifecycle::Launching => {
                Failure::new(Code::Busy, format!("terminal {id} is just being started; try again"))
            }
            _ => {
                Failure::new(Code::Gone, format!("terminal {id} ended before this daemon started; its screen is gone"))
            }
        })
    }

    /// How many terminals run.
    pub(crate) fn running(&self) -> usize {
        self.live().terminals.values().filter(|terminal| terminal.exited().borrow().is_none()).count()
    }

    /// Makes a row, then the terminal. A replayed request makes nothing again.
    pub(crate) async fn open<M: Starts>(self: &Arc<Self>, origin: Origin, new: M) -> Result<Receipt<Path>, Failure> {
        if self.live().stopping {
            return Err(Failure::new(Code::Failed, "the daemon is stopping"));
        }
        let program = new.program();
        let receipt = self.session.mutate(origin, new).await?;
        let (Some(program), Some(id)) = (program, receipt.value.terminal) else {
            return Ok(receipt);
        };
        if receipt.replayed {
            return self.launched(id, receipt).await;
        }
        // Not given up when the asker goes away: a row is never left between launching and running.
        let terminals = Arc::clone(self);
        let launched = tokio::spawn(async move { terminals.launch(id, program).await });
        let revision = launched
            .await
            .unwrap_or_else(|_| Err(Failure::new(Code::Internal, "keepline has a bug: a terminal's start panicked")))?;
        Ok(Receipt { revision, ..receipt })
    }

    /// Answers a replayed request as the first one was: when its terminal runs, or could not be started.
    async fn launched(&self, id: TerminalId, receipt: Receipt<Path>) -> Result<Receipt<Path>, Failure> {
        let (_, mut changes) = self.session.subscribe(Some(self.session.cursor()));
        loop {
            match self.session.terminal(id) {
                Some(row) if row.lifecycle == Lifecycle::Launching => {}
                Some(row) if row.exit == Some(Exit::Reason(NOT_STARTED.to_owned())) => {
                    let message = format!("terminal {id}, which this key made, could not be started");
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
    async fn launch(self: Arc<Self>, id: TerminalId, program: Program) -> Result<u64, Failure> {
        let spawn = Spawn {
            id,
            argv: program.argv,
            cwd: program.cwd,
            env: Vec::new(),
            socket: self.socket.clone(),
            history: self.history,
            size: program.size,
        };
        let terminal = match Terminal::spawn(&self.io, spawn).await {
            Ok(terminal) => terminal,
            Err(failure) => {
                self.record(Happened::NotStarted { terminal: id }).await;
                return Err(failure);
            }
        };
        self.live().terminals.insert(id, Arc::clone(&terminal));
        let started = Happened::Started { terminal: id, pid: terminal.pid() };
        let receipt = self.session.mutate(Origin::default(), started).await;
        tokio::spawn(Arc::clone(&self).follow(terminal));
        receipt.map(|receipt| receipt.revision)
    }

    /// Keeps a terminal's row true until it has ended.
    async fn follow(self: Arc<Self>, terminal: Arc<Terminal>) {
        let id = terminal.id();
        let (mut exited, mut size) = (terminal.exited(), terminal.sizes());
        let mut affected = terminal.effects().subscribe();
        // What changed before this task began counts as a change.
        affected.mark_changed();
        size.mark_changed();
        loop {
            tokio::select! {
                true = async { exited.wait_for(Option::is_some).await.is_ok() } => break,
                true = async { affected.changed().await.is_ok() } => {}
                true = async { size.changed().await.is_ok() } => {}
                else => break,
            }
            self.observe(&terminal, &mut size, &mut affected).await;
            // What changes faster than this is gathered.
            sleep(OBSERVED_PAUSE).await;
        }
        self.observe(&terminal, &mut size, &mut affected).await;
        let exit = exited.borrow().clone().unwrap_or_else(|| Exit::Reason("lost".to_owned()));
        let ended = Happened::Ended { terminal: id, exit };
        // On a full disk the row would go on saying that the terminal runs: it is said again until it is durable.
        while !self.record(ended.clone()).await && !self.live().stopping {
            sleep(RECORD_AGAIN).await;
        }
        self.forget_closed();
    }

    /// Commits what a terminal's output and size have done since the last time.
    async fn observe(
        &self,
        terminal: &Terminal,
        size: &mut watch::Receiver<Size>,
        affected: &mut watch::Receiver<Effects>,
    ) {
        let mut taken = Effects::default();
        terminal.effects().send_if_modified(|effects| {
            taken = std::mem::take(effects);
            false
        });
        affected.mark_unchanged();
        let observed = Observed {
            terminal: Some(terminal.id()),
            size: Some(Cells::from(*size.borrow_and_update())),
            effects: (!taken.is_empty()).then(|| taken.clone()),
            ..Observed::default()
        };
        if !self.record(Happened::Observed(observed)).await {
            // Gathered again with what comes later, until the disk takes it.
            terminal.effects().send_modify(|effects| {
                taken.add(std::mem::take(effects));
                *effects = taken;
            });
            sleep(RECORD_AGAIN).await;
        }
    }

    /// Notes that somebody uses a terminal now.
    pub(crate) fn used(self: &Arc<Self>, id: TerminalId) {
        let terminals = Arc::clone(self);
        tokio::spawn(async move {
            terminals
                .record(Happened::Observed(Observed {
                    terminal: Some(id),
                    used_ms: Some(now_ms()),
                    ..Observed::default()
                }))
                .await
        });
    }

    /// Commits what happened to a terminal; false when that failed. A row that is gone needs nothing.
    async fn record(&self, mutation: Happened) -> bool {
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
        self.live()
            .terminals
            .retain(|id, terminal| terminal.exited().borrow().is_none() || session.terminal(*id).is_some());
    }

    /// Ends a terminal whose row was deleted.
    pub(crate) fn end(&self, closed: &Receipt<Path>) {
        let id = closed.value.terminal;
        let terminal = id.and_then(|id| self.live().terminals.remove(&id));
        if let Some(terminal) = terminal {
            // Its programs have seconds to end; nobody needs to wait for that.
            tokio::spawn(async move { terminal.close().await });
        }
    }

    /// Gives a terminal the size, or the policy, that its row says.
    pub(crate) async fn resized(&self, receipt: &Receipt<Path>, policy: Policy) -> Result<(), Failure> {
        // Others may have resized it since a request that is replayed.
        if let Some(id) = receipt.value.terminal.filter(|_| !receipt.replayed) {
            self.find(&id.to_string())?.set_policy(policy).await;
        }
        Ok(())
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
            self.record(Happened::Ended { terminal: terminal.id(), exit }).await;
        }
    }
}
