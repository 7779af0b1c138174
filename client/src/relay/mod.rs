//! The relay: keeps one link to one machine and serves its local socket.
//!
//! ```text
//!   ┌─▶ connecting ──accepted──▶ up ──carrier lost──┐
//!   │       │                                       │
//!   │       └──failed, refused in clear──▶ down ◀───┘
//!   └── after a wait, or when nudged ──────┘
//!           │
//!           └──refused for good──▶ end
//! ```
//!
//! A nudge says that something may have changed: the machine woke, its network is another one, or its person wants the
//! link now. It cuts a wait short, starts an attempt anew, and makes a link that is up probe.
//!
//! A link is resumed on the next carrier. When the daemon has forgotten it (its lease is over, or the daemon was started
//! anew), the next attempt opens a new one, and those who use the link resynchronise above it.

mod attempt;
mod backoff;
mod probe;
mod race;
mod reason;
mod report;
mod surroundings;

use std::sync::Arc;
use std::time::Duration;

use keepline_carrier::dial::{Way, dial};
use keepline_carrier::entropy;
use keepline_carrier::link::{CarrierEnd, Link};
use keepline_carrier::route::Route;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::{Claim, HandshakeError, LinkRequest};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, IdentityKey, Role};
use keepline_protocol::invitation::Invitation;
use keepline_protocol::record::LinkState;
use keepline_protocol::refusal::Refusal;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::bounds::{CLAIMS_DROPPED_MAX, LAST_WORDS, PENDING_RETRY, SUPERSEDED_AGAIN};
use crate::edge::{Edge, LocalListener};
use crate::paths::{MachineName, Paths};
use crate::state::{Machine, State};
use crate::uplink::{Reason, Status, Uplink, now_ms};
use attempt::{Accepted, Attempt, Failed};
use backoff::Backoff;
pub use probe::{Probed, probe};
pub use report::Report;

/// What a relay is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the daemon is.
    pub route: Route,
    /// The invitation to enrol with.
    pub invitation: Option<Invitation>,
    /// What to call the machine.
    pub name: Option<MachineName>,
    /// Whether whoever answers at the route is trusted.
    pub trusted: bool,
    /// How WebSocket routes are reached.
    pub way: Way,
}

/// Keeps a link, and its local socket, until the daemon refuses for good. `report` is told each change of state.
///
/// # Errors
/// Why it ended: a refusal ([`Code::Refused`]), another relay for the machine ([`Code::Busy`]), or state that cannot be
/// read or written. It never ends well.
pub async fn run(settings: Settings, paths: &Paths, report: impl FnMut(&Report)) -> Result<(), Failure> {
    let state = State::open(paths.state_dir()?)?;
    let relay = Relay::new(settings, &state, paths, report)?;
    relay.run().await
}

struct Relay<'a, R> {
    /// The route that is used, or was last.
    route: Route,
    /// Every route to the machine, the preferred one first.
    routes: Vec<Route>,
    way: Way,
    claim: Option<Claim>,
    state: &'a State,
    paths: &'a Paths,
    credentials: Credentials,
    client: String,
    device_name: String,
    wanted_name: Option<MachineName>,
    /// The machine, once it is known, and what is known of it.
    machine: Option<(MachineName, Machine)>,
    pinned: Option<IdentityKey>,
    link: Link,
    link_id: LinkId,
    epoch: u32,
    resumable: bool,
    backoff: Backoff,
    claims_dropped: u32,
    /// When another link took this one's place.
    superseded: Option<Instant>,
    /// The daemon (or somebody on the way) said that its Noise key is another one now: the next attempt asks for it.
    key_is_stale: bool,
    status: watch::Sender<Status>,
    nudge: Arc<Notify>,
    serving: bool,
    report: R,
}

impl<'a, R: FnMut(&Report)> Relay<'a, R> {
    fn new(settings: Settings, state: &'a State, paths: &'a Paths, report: R) -> Result<Self, Failure> {
        let Settings { route, invitation, name, trusted, way } = settings;
        let machine = find(state, &route, invitation.as_ref(), name.as_ref())?;
        let pinned = match (&invitation, &machine) {
            (Some(invitation), _) => Some(invitation.daemon),
            (None, Some((_, machine))) => machine.identity(),
            (None, None) if trusted || route.is_trusted() => None,
            (None, None) => {
                let message = format!(
                    "{route} is not a daemon that this device knows: ask its owner for an invitation (`keepline remote \
                     invite`) and pass it with --invite-file; a daemon that you know at another address is named with --name"
                );
                return Err(Failure::new(Code::Refused, message));
            }
        };
        let known = machine.iter().flat_map(|(_, machine)| &machine.routes).filter_map(|known| known.parse().ok());
        let mut routes = vec![route.clone()];
        routes.extend(known.filter(|known: &Route| known.to_string() != route.to_string()));
        let link = Link::new(Role::Device);
        let status = Status {
            state: LinkState::Connecting,
            reason: None,
            retry_at: None,
            since_ms: now_ms(),
            link: None,
            link_id: None,
            epoch: 0,
            tries: 0,
            lost_ms: None,
            route: Some(route.to_string()),
        };
        Ok(Relay {
            claim: invitation.map(|invitation| Claim { id: invitation.id, secret: invitation.secret }),
            credentials: state.credentials()?,
            client: state.client_id()?,
            device_name: hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            wanted_name: name,
            machine,
            pinned,
            link,
            link_id: LinkId::from_bytes(entropy()),
            epoch: 0,
            resumable: false,
            backoff: Backoff::default(),
            claims_dropped: 0,
            superseded: None,
            key_is_stale: false,
            status: watch::channel(status).0,
            nudge: Arc::default(),
            serving: false,
            route,
            routes,
            way,
            state,
            paths,
            report,
        })
    }

    async fn run(mut self) -> Result<(), Failure> {
        let (routes, nudge) = (self.routes.clone(), Arc::clone(&self.nudge));
        let surroundings = async {
            surroundings::watch(&routes, &nudge).await;
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = self.keep() => ended,
            ended = surroundings => ended,
        };
        if self.serving {
            sleep(LAST_WORDS).await;
        }
        ended
    }

    async fn keep(&mut self) -> Result<(), Failure> {
        if self.machine.is_some() {
            self.serve()?;
        }
        let nudge = Arc::clone(&self.nudge);
        loop {
            self.tell(LinkState::Connecting, None, None);
            let attempted = tokio::select! {
                attempted = self.attempt() => attempted,
                // What is under way was begun where things were otherwise.
                () = nudge.notified() => continue,
            };
            let wait = match attempted {
                Ok(accepted) => {
                    self.backoff.succeeded();
                    let end = self.carry(accepted).await?;
                    self.after_carrier(end)?
                }
                Err(failed) => self.after_failure(failed)?,
            };
            if let Some((reason, wait)) = wait {
                let at = Instant::now() + wait;
                self.tell(LinkState::Down, Some(reason), Some(at));
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = nudge.notified() => {}
                }
            }
        }
    }

    /// Takes this device's key anew when it was rotated; true when it was.
    fn take_rotated_key(&mut self) -> bool {
        let known = self.state.known_credentials().ok().flatten();
        let (old, mut rotated) = (self.credentials.certificate(), false);
        if let Some(known) = known
            && known.identity() == old.identity()
            && known.certificate().serial() > old.serial()
        {
            self.credentials = known;
            rotated = true;
        }
        rotated
    }

    async fn attempt(&mut self) -> Result<Accepted, Failed> {
        self.take_rotated_key();
        self.epoch += 1;
        let link =
            LinkRequest { id: self.link_id, epoch: self.epoch, cursors: self.resumable.then(|| self.link.cursors()) };
        let (index, carrier) = race::first(self.routes.len(), |index| dial(&self.routes[index], &self.way)).await?;
        self.route = self.routes[index].clone();
        self.status.send_modify(|status| status.route = Some(self.route.to_string()));
        let attempt = Attempt {
            carrier,
            credentials: &self.credentials,
            client: &self.client,
            name: &self.device_name,
            pinned: self.pinned,
            serial: self.machine.as_ref().map_or(0, |(_, machine)| machine.serial),
            noise_key: self
                .machine
                .as_ref()
                .filter(|_| !self.key_is_stale)
                .and_then(|(_, machine)| machine.noise_key()),
            claim: self.claim.clone(),
            link,
        };
        let (status, report) = (&self.status, &mut self.report);
        let (machine, route) = (&self.machine, &self.route);
        let waits = Reason::pending(&self.credentials);
        let on_pending = || {
            status.send_modify(|status| status.reason = Some(waits));
            report(&Report::new(&status.borrow(), machine.as_ref().map(|(name, _)| name), route));
        };
        let attempted = attempt.run(on_pending).await;
        if matches!(attempted, Err(Failed::Handshake(_))) {
            // Another daemon may answer there now: the other routes come first from here on.
            let route = self.routes.remove(index);
            self.routes.push(route);
        }
        attempted
    }

    /// Takes an accepted carrier, remembers whose it is, and serves it to its end.
    async fn carry(&mut self, accepted: Accepted) -> Result<CarrierEnd, Failure> {
        let Accepted { carrier, cipher, version, verdict, daemon } = accepted;
        let identity = daemon.identity();
        let now = now_ms();
        let (name, machine) = match self.machine.take() {
            Some((name, mut machine)) => {
                machine.seen(&daemon, &self.route, now);
                (name, machine)
            }
            None => {
                let name = match self.wanted_name.take() {
                    Some(name) => name,
                    None => self.state.free_name(&verdict.name)?,
                };
                (name, Machine::new(&daemon, &self.route, now))
            }
        };
        self.state.remember(&name, &machine)?;
        self.machine = Some((name, machine));
        self.pinned = Some(identity);
        self.claim = None;
        self.key_is_stale = false;
        self.serve()?;
        let Ok(number) = self.link.establish(cipher, version, verdict.cursors) else {
            // The daemon's cursors are of another link than ours: only a new one can go on.
            self.new_link();
            return Ok(CarrierEnd::Closed(Refusal::LinkExpired));
        };
        self.resumable = true;
        self.tell(LinkState::Up, None, None);
        let (link, nudge) = (self.link.clone(), Arc::clone(&self.nudge));
        let mut end = std::pin::pin!(link.run(number, carrier));
        let mut measured = std::pin::pin!(link.measured());
        let mut reported = false;
        loop {
            tokio::select! {
                end = &mut end => return Ok(end),
                () = &mut measured, if !reported => {
                    reported = true;
                    self.report();
                }
                // The daemon learns of a rotated key by a handshake; the link itself goes on.
                () = nudge.notified() => match self.take_rotated_key() {
                    true => link.fence(),
                    false => link.probe_now(),
                },
            }
        }
    }

    /// What follows the end of a carrier: nothing to try at once, or a wait with its reason.
    fn after_carrier(&mut self, end: CarrierEnd) -> Result<Option<(Reason, Duration)>, Failure> {
        match end {
            CarrierEnd::Closed(refusal) => {
                self.new_link();
                self.after_refusal(refusal)
            }
            end => Ok(Some((Reason::from(&end), self.backoff.failed(random())))),
        }
    }

    fn after_refusal(&mut self, refusal: Refusal) -> Result<Option<(Reason, Duration)>, Failure> {
        let reason = Reason::from(refusal);
        // It may have been a late attempt of our own that was given up. A second relay will do it again.
        let now = Instant::now();
        if refusal == Refusal::Superseded && self.superseded.replace(now).is_none_or(|at| now - at > SUPERSEDED_AGAIN) {
            return Ok(Some((reason, self.backoff.failed(random()))));
        }
        if !refusal.retry() {
            return Err(self.refused(reason));
        }
        Ok(match refusal {
            // An attempt whose verdict was lost has opened this link already, and there is nothing on it yet.
            Refusal::StaleEpoch if !self.resumable => {
                self.new_link();
                None
            }
            Refusal::LinkExpired => {
                self.new_link();
                None
            }
            Refusal::Pending => Some((Reason::pending(&self.credentials), PENDING_RETRY)),
            _ => Some((reason, self.backoff.failed(random()))),
        })
    }

    /// The end of it all, which those who watch are told first.
    fn refused(&mut self, reason: Reason) -> Failure {
        let failure = Failure::new(Code::Refused, &reason.sentence);
        self.tell(LinkState::Down, Some(reason), None);
        failure
    }

    fn after_failure(&mut self, failed: Failed) -> Result<Option<(Reason, Duration)>, Failure> {
        let dropped = matches!(failed, Failed::Lost { after_proof: true }) && self.claim.is_some();
        self.claims_dropped = if dropped { self.claims_dropped + 1 } else { 0 };
        if self.claims_dropped >= CLAIMS_DROPPED_MAX {
            return Err(self.refused(Refusal::InvitationWrong.into()));
        }
        let reason = Reason::from(&failed);
        match failed {
            Failed::Refused(refusal) => {
                self.backoff.succeeded();
                self.after_refusal(refusal)
            }
            Failed::Handshake(HandshakeError::Refused { refusal, authenticated: true }) => self.after_refusal(refusal),
            // Forged or not, the longer handshake shows the key that the pinned identity vouches for.
            Failed::Handshake(HandshakeError::Refused { refusal: Refusal::StaleKey, authenticated: false })
                if !self.key_is_stale =>
            {
                self.key_is_stale = true;
                Ok(None)
            }
            Failed::Handshake(HandshakeError::Refused { authenticated: false, .. }) => {
                Ok(Some((reason, self.backoff.refused_in_clear())))
            }
            Failed::Handshake(HandshakeError::OtherDaemon { .. } | HandshakeError::StaleSerial) => {
                Err(self.refused(reason))
            }
            _ => Ok(Some((reason, self.backoff.failed(random())))),
        }
    }

    /// Gives the link up; those who use its streams go on over the next one.
    fn new_link(&mut self) {
        self.link.close(Refusal::LinkExpired);
        self.link = Link::new(Role::Device);
        self.link_id = LinkId::from_bytes(entropy());
        self.epoch = 0;
        self.resumable = false;
    }

    /// Serves the machine's local socket, once the machine is known.
    fn serve(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.serving, true) {
            return Ok(());
        }
        let name = self.machine.as_ref().map(|(name, _)| name).expect("the machine is known by now");
        self.paths.prepare_runtime_dir()?;
        let listener = LocalListener::bind(&self.paths.machine_socket(name)?)?;
        let nudge = Arc::clone(&self.nudge);
        let uplink = Uplink::new(name.to_string(), self.status.subscribe(), nudge);
        let shown = self.paths.shown_file(name.as_str())?;
        let edge = Edge::start(uplink, Some(shown));
        tokio::spawn(async move {
            loop {
                let stream = listener.accept().await;
                let edge = edge.clone();
                tokio::spawn(async move { edge.serve(stream, b"").await });
            }
        });
        Ok(())
    }
}

/// The known machine that is meant: by the invitation's daemon, by name, or by route.
fn find(
    state: &State,
    route: &Route,
    invitation: Option<&Invitation>,
    name: Option<&MachineName>,
) -> Result<Option<(MachineName, Machine)>, Failure> {
    let route = route.to_string();
    let known = state.known()?;
    let found = match (invitation, name) {
        (Some(invitation), _) => {
            known.iter().find(|(_, machine)| machine.identity() == Some(invitation.daemon)).cloned()
        }
        (None, Some(name)) => known.iter().find(|(known, _)| known == name).cloned(),
        (None, None) => known.iter().find(|(_, machine)| machine.routes.contains(&route)).cloned(),
    };
    match (found, name) {
        (None, Some(name)) if known.iter().any(|(known, _)| known == name) => Err(Failure::new(
            Code::Busy,
            format!(
                "another daemon is called '{name}' here: choose another --name, or forget it with `keepline remote known-daemons forget {name}`"
            ),
        )),
        (found, _) => Ok(found),
    }
}

fn random() -> u64 {
    u64::from_ne_bytes(entropy())
}
