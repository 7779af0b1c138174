//! A link shared between the task that drives it and the tasks that use its streams.
//!
//! The core is behind one lock that is held for a call at a time, never over I/O or a wait. Each carrier is served by
//! one call of [`Link::run`]: it reads packets, writes packets when the carrier takes them, and looks at the clock. Tasks
//! that read or write streams sleep until the core says that there is something to read or room to write.

mod stream;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use keepline_protocol::bounds::AHEAD_MAX;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::frame::Frame;
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::link::{self as core, EstablishError, Event, PacketError};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::stream::StreamId;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, sleep_until};

use crate::Clock;
use crate::bounds::FAREWELL_TIME;
use crate::packet::{Carrier, PacketReader, PacketWriter};

use stream::Stream;
pub use stream::{ReceiveError, Receiver, Sender};

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has no carrier.
    Detached,
    /// It has its carrier number so many.
    Up(u64),
    /// It ended.
    Closed(Refusal),
}

/// Why a carrier was given up.
#[derive(Debug, thiserror::Error)]
pub enum CarrierEnd {
    /// The other end closed it.
    #[error("the connection was closed")]
    Eof,
    /// It failed.
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
    /// Nothing was heard for too long.
    #[error("nothing was heard for too long")]
    Silent,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(#[from] PacketError),
    /// A newer carrier took its place.
    #[error("a newer connection took over")]
    Fenced,
    /// The link ended.
    #[error("{0}")]
    Closed(Refusal),
}

/// A link; clones are the same link.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// There may be something to write.
    outgoing: Notify,
    /// A stream was opened by the peer, or the link ended.
    incoming: Notify,
    /// A probe was asked for: what there was to look at is due sooner.
    doubted: Notify,
    /// The first probe of a carrier was answered, or one that was asked for.
    alive: Notify,
    phase: watch::Sender<Phase>,
}

struct State {
    core: core::Link,
    carriers: u64,
    wakers: HashMap<StreamId, Arc<Wakers>>,
    opened: VecDeque<StreamId>,
}

#[derive(Default)]
struct Wakers {
    readable: Notify,
    writable: Notify,
}

impl Link {
    /// A link without a carrier. `role` is this end's.
    #[must_use]
    pub fn new(role: Role) -> Self {
        let state = State { core: core::Link::new(role), carriers: 0, wakers: HashMap::new(), opened: VecDeque::new() };
        let shared = Shared {
            clock: Clock::start(),
            state: Mutex::new(state),
            outgoing: Notify::new(),
            incoming: Notify::new(),
            doubted: Notify::new(),
            alive: Notify::new(),
            phase: watch::channel(Phase::Detached).0,
        };
        Link { shared: Arc::new(shared) }
    }

    /// Takes a carrier whose handshake ended well, and gives the number to [`run`](Self::run) it under. An older carrier
    /// is fenced off from this moment.
    ///
    /// # Errors
    /// When the link is closed, or the peer's cursors are not this link's.
    pub fn establish(&self, cipher: Cipher, version: u8, peer_cursors: [u64; 4]) -> Result<u64, EstablishError> {
        let mut state = self.shared.lock();
        state.core.establish(self.shared.clock.now(), cipher, version, peer_cursors)?;
        state.carriers += 1;
        let carrier = state.carriers;
        self.shared.phase.send_replace(Phase::Up(carrier));
        Ok(carrier)
    }

    /// Frames that a peer with these cursors misses, as many as may go ahead of its first packet. Nothing is changed.
    #[must_use]
    pub fn ahead(&self, peer_cursors: [u64; 4]) -> Vec<Frame> {
        self.shared.lock().core.missing(peer_cursors, AHEAD_MAX)
    }

    /// Follows [`establish`](Self::establish) when the peer spoke first: `ahead` was sent before its first packet, whose
    /// plaintext is `first`.
    ///
    /// # Errors
    /// When the packet breaks the protocol; the carrier is then fenced off.
    pub fn begin(&self, ahead: &[Frame], first: Bytes) -> Result<(), PacketError> {
        let now = self.shared.clock.now();
        let handled = self.shared.change(|state| {
            state.core.sent_ahead(ahead);
            state.core.handle_plain(now, first)
        });
        if handled.is_err() {
            self.fence();
        }
        handled
    }

    /// Fences off the present carrier: from this moment nothing that it brings is taken, so that the cursors which a new
    /// carrier's handshake tells stay true.
    pub fn fence(&self) {
        let mut state = self.shared.lock();
        state.carriers += 1;
        state.core.carrier_lost();
        if state.core.closed().is_none() {
            self.shared.phase.send_replace(Phase::Detached);
        }
    }

    /// Whether a peer with these cursors can be sent all that it misses.
    #[must_use]
    pub fn can_resume(&self, peer_cursors: [u64; 4]) -> bool {
        self.shared.lock().core.can_resume(peer_cursors)
    }

    /// Per lane, the highest contiguous sequence received.
    #[must_use]
    pub fn cursors(&self) -> [u64; 4] {
        self.shared.lock().core.cursors()
    }

    /// Bytes kept for replay.
    #[must_use]
    pub fn replay_bytes(&self) -> usize {
        self.shared.lock().core.replay_bytes()
    }

    /// Whether the two are the same link.
    #[must_use]
    pub fn is(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Where the link is now, and each change.
    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.shared.phase.subscribe()
    }

    /// The smoothed round trip, once measured.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.lock().core.round_trip()
    }

    /// The rate at which the carrier delivers what this end sends, in bytes a second, once measured.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.shared.lock().core.rate()
    }

    /// Asks for a probe now, because there is reason to doubt the carrier: if it is dead, that is known soon.
    pub fn probe_now(&self) {
        let now = self.shared.clock.now();
        self.shared.change(|state| state.core.probe_now(now));
        self.shared.doubted.notify_waiters();
    }

    /// Probes now, and gives the round trip when the peer has answered; nothing when there is no carrier or it is given up
    /// before.
    pub async fn probe(&self) -> Option<Duration> {
        let mut phase = self.phase();
        let now = *phase.borrow_and_update();
        if !matches!(now, Phase::Up(_)) {
            return None;
        }
        let alive = self.shared.alive.notified();
        self.probe_now();
        tokio::select! {
            () = alive => self.round_trip(),
            _ = phase.wait_for(|phase| *phase != now) => None,
        }
    }

    /// Waits until the present carrier's round trip is measured.
    pub async fn measured(&self) {
        loop {
            let alive = self.shared.alive.notified();
            if self.round_trip().is_some() {
                return;
            }
            alive.await;
        }
    }

    /// Ends the link and tells the peer why, when there is a carrier.
    pub fn close(&self, refusal: Refusal) {
        self.shared.change(|state| state.core.close(refusal));
    }

    /// Opens a stream.
    #[must_use]
    pub fn open(&self, lane: Lane) -> (Sender, Receiver) {
        let mut state = self.shared.lock();
        let id = state.core.open(lane);
        self.shared.halves(&mut state, id)
    }

    /// The next stream that the peer opened; nothing once the link has ended.
    pub async fn accept(&self) -> Option<(Sender, Receiver)> {
        loop {
            let incoming = self.shared.incoming.notified();
            {
                let mut state = self.shared.lock();
                if let Some(id) = state.opened.pop_front() {
                    return Some(self.shared.halves(&mut state, id));
                }
                if state.core.closed().is_some() {
                    return None;
                }
            }
            incoming.await;
        }
    }

    /// Serves a carrier until it is given up, and says why.
    pub async fn run(&self, number: u64, carrier: Carrier) -> CarrierEnd {
        let Carrier { mut reader, mut writer, .. } = carrier;
        let mut phase = self.phase();
        let fenced = async {
            loop {
                let now = *phase.borrow_and_update();
                match now {
                    Phase::Up(current) if current == number => {}
                    Phase::Up(_) => return CarrierEnd::Fenced,
                    Phase::Detached => return CarrierEnd::Silent,
                    // The writer ends the carrier, after the farewell, if the peer takes that.
                    Phase::Closed(refusal) => {
                        sleep(FAREWELL_TIME).await;
                        return CarrierEnd::Closed(refusal);
                    }
                }
                if phase.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let end = tokio::select! {
            end = self.read(number, &mut reader) => end,
            end = self.write(number, &mut writer) => end,
            end = self.watch_clock(number) => end,
            end = fenced => end,
        };
        let mut state = self.shared.lock();
        if state.carriers == number {
            state.core.carrier_lost();
            if state.core.closed().is_none() {
                self.shared.phase.send_replace(Phase::Detached);
            }
        }
        drop(state);
        // This carrier's writer may have taken the notice that was meant for the next one's.
        self.shared.outgoing.notify_one();
        end
    }

    async fn read(&self, number: u64, reader: &mut PacketReader) -> CarrierEnd {
        loop {
            let packet = match reader.read().await {
                Ok(Some(packet)) => packet,
                Ok(None) => return CarrierEnd::Eof,
                Err(error) => return error.into(),
            };
            let now = self.shared.clock.now();
            let handled = self.shared.change(|state| {
                // After an end of this side's making the writer has the last word.
                if state.carriers != number || state.core.closed().is_some() {
                    return Ok(None);
                }
                state.core.handle_packet(now, &packet)?;
                Ok(state.core.closed())
            });
            match handled {
                Ok(None) => {}
                Ok(Some(refusal)) => return CarrierEnd::Closed(refusal),
                Err::<_, PacketError>(error) => return error.into(),
            }
        }
    }

    async fn write(&self, number: u64, writer: &mut PacketWriter) -> CarrierEnd {
        let mut held: usize = 0;
        loop {
            if let Err(error) = writer.ready().await {
                return error.into();
            }
            let outgoing = self.shared.outgoing.notified();
            let now = self.shared.clock.now();
            let (packet, unsent, deadline, closed) = {
                let mut state = self.shared.lock();
                if state.carriers != number {
                    return CarrierEnd::Fenced;
                }
                state.core.handle_timeout(now);
                let packet = state.core.poll_packet(now);
                if self.shared.drain(&mut state) {
                    return CarrierEnd::Silent;
                }
                let core = &state.core;
                (packet, core.unsent_limit(), core.poll_timeout(), core.closed())
            };
            if held.abs_diff(unsent) > held / 4 {
                writer.hold_unsent(unsent);
                held = unsent;
            }
            match (packet, closed) {
                (Some(packet), None) => {
                    if let Err(error) = writer.write(packet).await {
                        return error.into();
                    }
                }
                (packet, Some(refusal)) => {
                    if let Some(packet) = packet {
                        let _ = writer.write(packet).await;
                    }
                    writer.close().await;
                    return CarrierEnd::Closed(refusal);
                }
                (None, None) => match deadline {
                    Some(deadline) => tokio::select! {
                        () = outgoing => {}
                        () = sleep_until(self.shared.clock.instant(deadline)) => {}
                    },
                    None => outgoing.await,
                },
            }
        }
    }

    /// Looks at the clock also while the carrier takes nothing.
    async fn watch_clock(&self, number: u64) -> CarrierEnd {
        loop {
            let doubted = self.shared.doubted.notified();
            let deadline = {
                let mut state = self.shared.lock();
                if state.carriers != number {
                    return CarrierEnd::Fenced;
                }
                let now = self.shared.clock.now();
                state.core.handle_timeout(now);
                if self.shared.drain(&mut state) {
                    return CarrierEnd::Silent;
                }
                // What is due in the meantime is the writer's; here only silence counts, which is slow.
                state.core.poll_timeout().map(|at| at.max(now + Duration::from_millis(250)))
            };
            match deadline {
                Some(deadline) => tokio::select! {
                    () = doubted => {}
                    () = sleep_until(self.shared.clock.instant(deadline)) => {}
                },
                None => std::future::pending().await,
            }
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.lock().core.fmt(f)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of ours in the core poisons one link, not the process; the state is still the best that there is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the core, passes on what happened, and wakes the writer.
    fn change<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state);
        self.drain(&mut state);
        drop(state);
        self.outgoing.notify_one();
        result
    }

    /// Passes on what happened; true when the carrier is dead.
    fn drain(&self, state: &mut State) -> bool {
        let mut dead = false;
        while let Some(event) = state.core.poll_event() {
            match event {
                Event::Opened(id) => {
                    state.opened.push_back(id);
                    self.incoming.notify_one();
                }
                Event::Readable(id) => {
                    if let Some(wakers) = state.wakers.get(&id) {
                        wakers.readable.notify_one();
                    }
                }
                Event::Writable(id) => {
                    if let Some(wakers) = state.wakers.get(&id) {
                        wakers.writable.notify_one();
                    }
                }
                Event::CarrierDead => dead = true,
                Event::Alive => self.alive.notify_waiters(),
                Event::Closed(refusal) => {
                    self.phase.send_replace(Phase::Closed(refusal));
                    self.incoming.notify_waiters();
                    self.incoming.notify_one();
                    for wakers in state.wakers.values() {
                        wakers.readable.notify_one();
                        wakers.writable.notify_one();
                    }
                }
            }
        }
        dead
    }

    fn halves(self: &Arc<Self>, state: &mut State, id: StreamId) -> (Sender, Receiver) {
        let wakers = Arc::new(Wakers::default());
        state.wakers.insert(id, wakers.clone());
        stream::halves(Stream { link: self.clone(), id, wakers })
    }
}
