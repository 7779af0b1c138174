//! What a command is given by the composition root, and its way to a local socket.

use std::future::Future;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use serde::Serialize;

use super::settings::Common;
use crate::local::LocalClient;
use crate::paths::{Endpoint, Environment, MachineName, Paths, Whose};

/// What only the composition root can do, because it names the daemon and the relay.
pub trait Host: Send + Sync {
    /// Starts this machine's daemon unless it serves already, and waits until it serves.
    fn ensure_daemon(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The daemons that this client knows.
    ///
    /// # Errors
    /// When their file cannot be read.
    fn known_daemons(&self) -> Result<Vec<KnownDaemon>, Failure>;

    /// Forgets a daemon and its key.
    ///
    /// # Errors
    /// [`Code::NotFound`] when it is not known; when the file cannot be written.
    fn forget_daemon(&self, name: &MachineName) -> Result<(), Failure>;
}

/// A daemon that this client knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnownDaemon {
    /// What the machine is called here.
    pub name: String,
    /// SHA-256 of its identity key, as `SHA256:` and base64.
    pub fingerprint: String,
    /// Where it was reached, without their query.
    pub routes: Vec<String>,
    /// Unix time in milliseconds at which it was last seen; 0 for never.
    pub last_seen_ms: u64,
}

/// What a command is given.
#[derive(Debug)]
pub struct Context<H> {
    /// What only the composition root can do.
    pub host: H,
    /// Where sockets and state are.
    pub paths: Paths,
    /// The environment that the places came from.
    pub environment: Environment,
    /// What all commands share.
    pub common: Common,
}

impl<H: Host> Context<H> {
    /// The socket that the command goes to.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let endpoint = self.paths.endpoint(self.common.machine.as_ref())?;
        if let Whose::Machine(machine) = &endpoint.whose
            && !endpoint.path.exists()
        {
            self.known(machine)?;
        }
        Ok(endpoint)
    }

    /// What is known of a machine.
    pub(super) fn known(&self, machine: &MachineName) -> Result<KnownDaemon, Failure> {
        let mut known = self.host.known_daemons()?;
        match known
            .iter()
            .position(|daemon| daemon.name == machine.as_str())
        {
            Some(at) => Ok(known.swap_remove(at)),
            None => Err(Failure {
                code: Code::NotFound,
                message: format!(
                    "no machine is called '{machine}': see keepline remote known-daemons, or enrol with keepline \
                     remote connect ROUTE --name {machine}"
                ),
                candidates: known.into_iter().map(|daemon| daemon.name).collect(),
            }),
        }
    }

    /// A connection to the socket that the command goes to.
    pub(super) async fn client(&self) -> Result<LocalClient, Failure> {
        LocalClient::connect(&self.endpoint()?).await
    }

    /// The same, after starting this machine's own daemon when that is what is missing.
    pub(super) async fn client_of_started(&self) -> Result<LocalClient, Failure> {
        let endpoint = self.endpoint()?;
        match LocalClient::connect(&endpoint).await {
            Err(failure)
                if failure.code == Code::Unreachable && endpoint.whose == Whose::OwnDaemon =>
            {
                self.host.ensure_daemon().await?;
                LocalClient::connect(&endpoint).await
            }
            outcome => outcome,
        }
    }

    /// The terminal that this process runs in.
    pub(super) fn own_terminal(&self) -> Option<TerminalId> {
        self.environment.terminal.as_ref()?.to_str()?.parse().ok()
    }
}
