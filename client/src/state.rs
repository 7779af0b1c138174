//! What this install remembers: its keys, its client id, and the daemons it knows.
//!
//! ```text
//!  $XDG_STATE_HOME/keepline/client/
//!    device.key           this device's credentials
//!    client-id            this install's id
//!    machines/NAME.json   a daemon: its pinned identity, where it was reached
//! ```
//!
//! Directories are 0700 and files 0600. A file is written to a temporary name, flushed, and renamed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use keepline_carrier::entropy;
use keepline_carrier::route::Route;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::identity::{Certificate, Credentials, IdentityKey, Role};
use serde::{Deserialize, Serialize};

use crate::bounds::STATE_FILE_MAX;
use crate::cli::KnownDaemon;
use crate::paths::MachineName;

/// This install's state directory.
#[derive(Clone, Debug)]
pub struct State {
    directory: PathBuf,
}

/// A daemon that this install knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its pinned identity key, as hex.
    identity: String,
    /// The highest serial of its certificates.
    pub serial: u64,
    /// The X25519 key of that certificate, as hex, with which a handshake is a round trip shorter.
    #[serde(default)]
    noise_key: Option<String>,
    /// Where it was reached, without their query; the last one first.
    pub routes: Vec<String>,
    /// Unix time in milliseconds at which it was last reached.
    pub last_seen_ms: u64,
}

impl Machine {
    /// A daemon that was just reached.
    #[must_use]
    pub fn new(certificate: &Certificate, route: &Route, now_ms: u64) -> Self {
        let mut machine = Machine {
            identity: certificate.identity().to_hex(),
            serial: 0,
            noise_key: None,
            routes: Vec::new(),
            last_seen_ms: 0,
        };
        machine.seen(certificate, route, now_ms);
        machine
    }

    /// The pinned identity.
    #[must_use]
    pub fn identity(&self) -> Option<IdentityKey> {
        IdentityKey::from_hex(&self.identity)
    }

    /// Its Noise key, when it is known.
    #[must_use]
    pub fn noise_key(&self) -> Option<[u8; 32]> {
        let key = HEXLOWER.decode(self.noise_key.as_ref()?.as_bytes()).ok()?;
        key.try_into().ok()
    }

    /// Notes that the daemon was reached, and showed this certificate.
    pub fn seen(&mut self, certificate: &Certificate, route: &Route, now_ms: u64) {
        let route = route.to_string();
        self.routes.retain(|known| *known != route);
        self.routes.insert(0, route);
        self.routes.truncate(8);
        self.serial = self.serial.max(certificate.serial());
        self.noise_key = Some(HEXLOWER.encode(&certificate.noise_key()));
        self.last_seen_ms = now_ms;
    }
}

impl State {
    /// The state under the user's state directory, made when it is not there.
    ///
    /// # Errors
    /// When a directory cannot be made or is not this user's alone.
    pub fn open(state_dir: &Path) -> Result<Self, Failure> {
        let directory = state_dir.join("client");
        let state = State { directory };
        for directory in [&state.directory, &state.machines()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|error| failed("make", directory, &error))?;
            let metadata = fs::symlink_metadata(directory).map_err(|error| failed("look at", directory, &error))?;
            let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
            if !ours || metadata.mode() & 0o077 != 0 {
                let message = format!("{} must be a directory of yours alone (mode 700)", directory.display());
                return Err(Failure::new(Code::Refused, message));
            }
        }
        Ok(state)
    }

    fn machines(&self) -> PathBuf {
        self.directory.join("machines")
    }

    fn machine_file(&self, name: &MachineName) -> PathBuf {
        self.machines().join(format!("{name}.json"))
    }

    fn key_file(&self) -> PathBuf {
        self.directory.join("device.key")
    }

    /// This device's credentials, made at the first use.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is damaged.
    pub fn credentials(&self) -> Result<Credentials, Failure> {
        if let Some(known) = self.known_credentials()? {
            return Ok(known);
        }
        let fresh = Credentials::generate(Role::Device, &entropy());
        write(&self.key_file(), &fresh.to_file())?;
        Ok(fresh)
    }

    /// This device's credentials, when there are some.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn known_credentials(&self) -> Result<Option<Credentials>, Failure> {
        let path = self.key_file();
        let parse = |text: String| {
            Credentials::from_file(Role::Device, &text)
                .map_err(|error| Failure::new(Code::Failed, format!("{}: {error}", path.display())))
        };
        read(&path)?.map(parse).transpose()
    }

    /// Gives this device another Noise key under the same identity, and says its serial. Daemons refuse the older one once
    /// they have met this one.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is damaged.
    pub fn rotate_key(&self) -> Result<u64, Failure> {
        let rotated = self.credentials()?.rotated(&entropy());
        write(&self.key_file(), &rotated.to_file())?;
        Ok(rotated.certificate().serial())
    }

    /// This install's client id, made at the first use.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn client_id(&self) -> Result<String, Failure> {
        let path = self.directory.join("client-id");
        // A file that was emptied or damaged is no id.
        let usable = |id: &String| (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
        if let Some(id) = read(&path)?.map(|text| text.trim().to_owned()).filter(usable) {
            return Ok(id);
        }
        let fresh = data_encoding::HEXLOWER.encode(&entropy::<16>());
        write(&path, &format!("{fresh}\n"))?;
        Ok(fresh)
    }

    /// The daemons that are known, by name. A file that cannot be understood is left out, with a warning.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn known(&self) -> Result<Vec<(MachineName, Machine)>, Failure> {
        let directory = self.machines();
        let mut known = Vec::new();
        for entry in fs::read_dir(&directory).map_err(|error| failed("read", &directory, &error))? {
            let path = entry.map_err(|error| failed("read", &directory, &error))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"));
            let Some(Ok(name)) = name.map(str::parse::<MachineName>) else {
                continue;
            };
            match self.machine(&name) {
                Ok(Some(machine)) => known.push((name, machine)),
                Ok(None) => {}
                Err(failure) => tracing::warn!(%failure, "a known daemon is left out"),
            }
        }
        known.sort_by(|left, right| left.0.as_str().cmp(right.0.as_str()));
        Ok(known)
    }

    /// What is known of a daemon.
    ///
    /// # Errors
    /// When its file cannot be read or understood.
    pub fn machine(&self, name: &MachineName) -> Result<Option<Machine>, Failure> {
        let path = self.machine_file(name);
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let machine: Machine = serde_json::from_str(&text)
            .map_err(|error| Failure::new(Code::Failed, format!("{} cannot be read: {error}", path.display())))?;
        Ok(Some(machine))
    }

    /// Remembers a daemon.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remember(&self, name: &MachineName, machine: &Machine) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(machine).expect("a struct of strings has a JSON form");
        write(&self.machine_file(name), &(text + "\n"))
    }

    /// Forgets a daemon and its key.
    ///
    /// # Errors
    /// [`Code::NotFound`] when it is not known.
    pub fn forget(&self, name: &MachineName) -> Result<(), Failure> {
        let path = self.machine_file(name);
        fs::remove_file(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::new(Code::NotFound, format!("no machine is called '{name}'")),
            _ => failed("remove", &path, &error),
        })
    }

    /// A name for a daemon that is not known yet: its host name so reduced, with a number when another daemon has it.
    ///
    /// # Errors
    /// When the known daemons cannot be read.
    pub fn free_name(&self, host: &str) -> Result<MachineName, Failure> {
        let base = MachineName::reduced(host);
        let taken = |name: &MachineName| self.machine_file(name).exists();
        let mut name = base.clone();
        let mut number = 2;
        while taken(&name) {
            name = base.numbered(number);
            number += 1;
        }
        Ok(name)
    }
}

impl From<(MachineName, Machine)> for KnownDaemon {
    fn from((name, machine): (MachineName, Machine)) -> Self {
        KnownDaemon {
            name: name.as_str().to_owned(),
            fingerprint: machine.identity().map(|key| key.fingerprint()).unwrap_or_default(),
            routes: machine.routes,
            last_seen_ms: machine.last_seen_ms,
        }
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::Failed, format!("cannot {what} {}: {error}", path.display()))
}

/// A small private file's text; nothing when it is not there.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, &error)),
    };
    let metadata = file.metadata().map_err(|error| failed("look at", path, &error))?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(Failure::new(Code::Refused, format!("{} belongs to another user", path.display())));
    }
    let mut text = String::new();
    file.take(STATE_FILE_MAX).read_to_string(&mut text).map_err(|error| failed("read", path, &error))?;
    Ok(Some(text))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| match path.parent() {
            Some(directory) => fs::File::open(directory)?.sync_all(),
            None => Ok(()),
        });
    written.map_err(|error| failed("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(&dir.path().join("keepline")).unwrap();
        let identity = state.credentials().unwrap().identity();
        let id = state.client_id().unwrap();
        let again = State::open(&dir.path().join("keepline")).unwrap();
        assert_eq!((again.credentials().unwrap().identity(), again.client_id().unwrap()), (identity, id));

        let route: Route = "ws://h:1/v1/link?token=secret".parse().unwrap();
        let daemon = Credentials::generate(Role::Daemon, &[1; 64]);
        let name = state.free_name("Host One").unwrap();
        assert_eq!(name.as_str(), "host-one");
        state.remember(&name, &Machine::new(daemon.certificate(), &route, 5)).unwrap();
        assert_eq!(state.free_name("Host One").unwrap().as_str(), "host-one-2");
        let known = state.known().unwrap();
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].1.routes, ["ws://h:1/v1/link"]);
        assert_eq!(known[0].1.identity(), Some(daemon.identity()));
        assert_eq!(known[0].1.noise_key(), Some(daemon.certificate().noise_key()));
        state.forget(&name).unwrap();
        assert_eq!(state.forget(&name).unwrap_err().code, Code::NotFound);
    }
}
