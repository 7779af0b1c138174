//! What a command is given by the composition root, and its way to a local socket.

use std::future::Future;

use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use serde::Serialize;

use super::settings::{Common, Consumer};
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

    /// Gives this device another key, and says its serial.
    ///
    /// # Errors
    /// When the key file cannot be read or written.
    fn rotate_key(&self) -> Result<u64, Failure>;
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
    /// Takes the machine out of addresses, `MACHINE/…`, when a machine is called so; `local` is this one.
    ///
    /// # Errors
    /// [`Code::Invalid`] when a command names two machines.
    pub(super) fn address(&mut self, consumer: &mut Consumer) -> Result<(), Failure> {
        let mut named: Option<Option<MachineName>> = None;
        if let Consumer::Tree(address) = consumer {
            // Alone it is a machine, or a workspace of the one that is meant anyway.
            if let Some(text) = address.take() {
                let (first, rest) = match text.split_once('/') {
                    Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
                    None => (text.clone(), None),
                };
                match self.machine(&first)? {
                    Some(machine) => {
                        named = Some(machine);
                        *address = rest;
                    }
                    None => *address = Some(text),
                }
            }
        }
        for address in consumer.addresses() {
            if let Some((first, rest)) = address.split_once('/')
                && let Some(machine) = self.machine(first)?
            {
                if named.as_ref().is_some_and(|named| *named != machine) {
                    let message = "one command goes to one machine; these addresses name several";
                    return Err(Failure::new(Code::Invalid, message));
                }
                *address = rest.to_owned();
                named = Some(machine);
            }
        }
        let Some(machine) = named else { return Ok(()) };
        if self.common.machine.is_some() && self.common.machine != machine {
            let message = "--machine and the address name different machines";
            return Err(Failure::new(Code::Invalid, message));
        }
        self.common.machine = machine;
        Ok(())
    }

    /// The machine that a word of an address means, itself nothing for this one; nothing when no machine is called so.
    fn machine(&self, word: &str) -> Result<Option<Option<MachineName>>, Failure> {
        if word == "local" {
            return Ok(Some(None));
        }
        let Ok(name) = word.parse::<MachineName>() else {
            return Ok(None);
        };
        let known = self.host.known_daemons()?;
        let known = known.iter().any(|daemon| daemon.name == word);
        Ok(known.then_some(Some(name)))
    }

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
        match known.iter().position(|daemon| daemon.name == machine.as_str()) {
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
            Err(failure) if failure.code == Code::Unreachable && endpoint.whose == Whose::OwnDaemon => {
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
