//! The root of the daemon.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keepline_carrier::entropy;
use keepline_carrier::link::{CarrierEnd, Link};
use keepline_carrier::packet::{Carrier, Kind};
use keepline_protocol::cipher::Cipher;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::VERSIONS;
use keepline_protocol::id::{DeviceId, LinkId};
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::refusal::Refusal;
use keepline_protocol::scope::Scopes;
use keepline_screen::Limits;
use tokio::sync::watch;

use crate::bounds::{AUDIT_PAUSE, KEY_FILE_MAX, REPLAY_DAEMON_MAX, REPLAY_LOOK};
use crate::clients::Clients;
use crate::links::Links;
use crate::services::{self, Caller};
use crate::session::audit::Event;
use crate::session::store::KEY_FILE;
use crate::session::{Session, Standing, files};
use crate::terminals::Terminals;

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where its state is.
    pub state_dir: PathBuf,
    /// The local socket, which terminals' programs find in their environment.
    pub socket: PathBuf,
    /// How long a link is kept without a carrier.
    pub lease: Duration,
    /// How much history each terminal keeps.
    pub history: Limits,
    /// Whether every key that connects over the network gets in, because the network is the owner's.
    pub trust_network: bool,
}

/// A daemon; clones are the same daemon.
#[derive(Clone)]
pub struct Daemon {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    credentials: Mutex<Arc<Credentials>>,
    /// Held while the key is rotated.
    rotating: tokio::sync::Mutex<()>,
    pub(crate) name: String,
    pub(crate) session: Session,
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) clients: Clients,
    pub(crate) links: Links,
    pub(crate) listeners: Mutex<Vec<SocketAddr>>,
    stopping: watch::Sender<bool>,
}

impl Daemon {
    /// Opens the state and starts what follows it. Call it on a multi-threaded runtime.
    ///
    /// # Errors
    /// When another daemon has the state directory, or the state cannot be read or written.
    pub fn open(config: Config) -> Result<Self, Failure> {
        let session = Session::open(&config.state_dir)?;
        let credentials = credentials(session.state_dir())?;
        let terminals = Terminals::start(session.clone(), config.socket.clone(), config.history)?;
        let links = Links::new(config.lease, Arc::clone(session.gathered()));
        let inner = Inner {
            credentials: Mutex::new(Arc::new(credentials)),
            rotating: tokio::sync::Mutex::default(),
            name: hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            clients: Clients::start(session.clone()),
            session,
            terminals,
            links,
            listeners: Mutex::new(Vec::new()),
            stopping: watch::channel(false).0,
            config,
        };
        let daemon = Daemon { inner: Arc::new(inner) };
        tokio::spawn(daemon.clone().follow_decisions());
        tokio::spawn(daemon.clone().tidy());
        Ok(daemon)
    }

    /// The client's end of a link inside this process, for the owner: it may do everything. The one after it is there
    /// when it has ended, which only a fault of ours or a process that is starved of time can cause.
    #[must_use]
    pub fn local_links(&self) -> watch::Receiver<Link> {
        let (link, mut ended) = self.local_link();
        let (links, present) = watch::channel(link);
        let daemon = self.clone();
        tokio::spawn(async move {
            loop {
                let end = ended.await;
                tracing::warn!(%end, "the link inside the daemon is replaced");
                let (link, next) = daemon.local_link();
                ended = next;
                if links.send(link).is_err() {
                    return;
                }
            }
        });
        present
    }

    /// One such link, and its end.
    fn local_link(&self) -> (Link, impl Future<Output = CarrierEnd> + use<>) {
        let (near, far) = (Link::new(Role::Device), Link::new(Role::Daemon));
        tokio::spawn(services::serve_link(
            self.clone(),
            far.clone(),
            Caller::owner(self.inner.clients.came(LinkId::from_bytes(entropy()), "local", None, &self.inner.name)),
        ));
        let (left, right) = Carrier::memory();
        let run = |link: &Link, carrier| {
            let number =
                link.establish(Cipher::null(), *VERSIONS.end(), [0; 4]).expect("a new link takes its first carrier");
            let link = link.clone();
            async move { link.run(number, carrier).await }
        };
        let (near_runs, far_runs) = (run(&near, left), run(&far, right));
        let ends = [near.clone(), far];
        let ended = async move {
            let end = tokio::select! {
                end = near_runs => end,
                end = far_runs => end,
            };
            ends.iter().for_each(|link| link.close(Refusal::LinkExpired));
            end
        };
        (near, ended)
    }

    /// Waits until somebody asked for the daemon's end.
    pub async fn stopped(&self) {
        let _ = self.inner.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Asks for the daemon's end.
    pub(crate) fn ask_to_stop(&self) {
        self.inner.stopping.send_replace(true);
    }

    /// Ends the daemon: terminals are hung up on and their rows say why, links are told, the state is closed.
    pub async fn stop(&self) {
        self.ask_to_stop();
        self.inner.terminals.stop().await;
        self.inner.links.close_all(Refusal::Stopping);
        self.inner.session.close().await;
    }

    /// What is shown of the daemon's identity.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.credentials().identity().fingerprint()
    }

    /// The keys as they are now. A handshake takes them once, so that a rotation falls between two of them.
    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        let credentials = self.inner.credentials.lock();
        Arc::clone(&credentials.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes another Noise key under the same identity, and gives its serial. Links that are open go on.
    pub(crate) async fn rotate_key(&self, by: Option<DeviceId>) -> Result<u64, Failure> {
        let _turn = self.inner.rotating.lock().await;
        let rotated = self.credentials().rotated(&entropy());
        let path = self.inner.session.state_dir().join(KEY_FILE);
        let text = rotated.to_file();
        // Durable before anybody meets it: peers refuse the older one from then on.
        tokio::task::spawn_blocking(move || files::write_atomic(&path, text.as_bytes()))
            .await
            .map_err(|_| Failure::new(Code::Internal, "writing the key file panicked"))??;
        let serial = rotated.certificate().serial();
        *self.inner.credentials.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rotated);
        let gathered = self.inner.session.gathered();
        gathered.note(Event::KeyRotated, by, &serial.to_string(), None);
        Ok(serial)
    }

    /// What a device may do on a carrier of this kind: what it was given, and what the carrier's listener gives to every
    /// key that was not revoked.
    pub(crate) fn rights(&self, device: DeviceId, kind: Kind) -> Result<Scopes, Refusal> {
        let session = &self.inner.session;
        let listeners = self.listeners_scopes(kind);
        match session.standing(device) {
            Some(Standing::Revoked) => Err(Refusal::Revoked),
            Some(Standing::Denied) if listeners == Scopes::NONE => Err(Refusal::Denied),
            _ => Ok(session.scopes(device).union(listeners)),
        }
    }

    /// What a listener gives to every key, because who reaches it is trusted: `admin` only on this machine itself.
    pub(crate) fn listeners_scopes(&self, kind: Kind) -> Scopes {
        match kind {
            Kind::Unix | Kind::Ssh | Kind::Memory => Scopes::ALL,
            Kind::WebSocket if self.inner.config.trust_network => Scopes::INVITED,
            Kind::WebSocket => Scopes::NONE,
        }
    }

    /// Ends the links of devices that may not have one any more, or may do something else than when it was opened.
    async fn follow_decisions(self) {
        let mut decisions = self.inner.session.decisions();
        while decisions.changed().await.is_ok() {
            let rights = |device, kind| self.rights(device, kind);
            self.inner.links.close_changed(rights);
        }
    }

    /// From time to time: keeps what all links hold for replay within its bound, and writes what was gathered for the
    /// audit.
    async fn tidy(self) {
        let mut look = tokio::time::interval(REPLAY_LOOK);
        let mut write = tokio::time::interval(AUDIT_PAUSE);
        let session = &self.inner.session;
        loop {
            tokio::select! {
                () = self.stopped() => return,
                _ = look.tick() => self.inner.links.shed(REPLAY_DAEMON_MAX),
                _ = write.tick(), if !session.gathered().is_empty() => {
                    if let Err(failure) = session.write_audit().await {
                        tracing::error!(%failure, "the audit could not be written");
                    }
                }
            }
        }
    }

    pub(crate) fn listening_on(&self, address: SocketAddr) {
        self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    }

    /// The addresses that the daemon listens on.
    #[must_use]
    pub fn listeners(&self) -> Vec<SocketAddr> {
        self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The present moment as Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The daemon's keys, made at its first start.
fn credentials(state_dir: &Path) -> Result<Credentials, Failure> {
    let path = state_dir.join(KEY_FILE);
    match files::read_private(&path, KEY_FILE_MAX)? {
        Some(bytes) => String::from_utf8(bytes)
            .ok()
            .and_then(|text| Credentials::from_file(Role::Daemon, &text).ok())
            .ok_or_else(|| {
                let message = format!(
                    "{} is not a keepline key file or is damaged: restore it from a backup, or move it away to start with a \
                     new identity, which every enrolled device will refuse",
                    path.display()
                );
                Failure::new(Code::Failed, message)
            }),
        None => {
            let fresh = Credentials::generate(Role::Daemon, &entropy());
            files::write_atomic(&path, fresh.to_file().as_bytes())?;
            Ok(fresh)
        }
    }
}

#[cfg(test)]
mod tests {
    use keepline_protocol::api::Empty;
    use keepline_protocol::lane::Lane;
    use keepline_protocol::message::encode_request;
    use keepline_protocol::registry::method::ServerStatus;

    use super::*;

    async fn pid(link: &Link) -> u32 {
        let (sender, mut receiver) = link.open(Lane::Control);
        let request = encode_request::<ServerStatus>(&Empty {});
        sender.send(request).await.unwrap();
        let answer = receiver.message().await.unwrap().unwrap();
        answer.answer::<ServerStatus>().unwrap().unwrap().pid
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_link_inside_the_daemon_is_replaced_whichever_end_it_ends_at() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::open(Config {
            state_dir: dir.path().join("daemon"),
            socket: dir.path().join("daemon.sock"),
            lease: Duration::from_secs(1),
            history: Limits::default(),
            trust_network: false,
        })
        .unwrap();
        let mut links = daemon.local_links();
        for end in [Link::fence as fn(&Link), |link: &Link| link.close(Refusal::Protocol)] {
            let link = links.borrow_and_update().clone();
            assert_eq!(pid(&link).await, std::process::id());
            let (_sender, mut receiver) = link.open(Lane::Control);
            end(&link);
            assert!(receiver.message().await.is_err(), "its streams have ended");
            links.changed().await.unwrap();
        }
        let link = links.borrow().clone();
        assert_eq!(pid(&link).await, std::process::id());
        daemon.stop().await;
    }
}
