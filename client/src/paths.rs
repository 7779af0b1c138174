//! Where sockets and state are, and what a machine may be called.
//!
//! The environment is read once, into [`Paths`]; everything else is a function of that.

use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use keepline_protocol::failure::{Code, Failure};

use crate::bounds::{MACHINE_NAME_MAX, SOCKET_PATH_MAX};

/// A machine's name: 1 to 32 of `a-z 0-9 . _ -`, starting with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineName(String);

/// Text that is no machine's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no machine's name: it is 1 to 32 of a-z 0-9 . _ - and starts with a letter or digit; 'local' is this machine"
)]
pub struct InvalidMachineName(String);

impl MachineName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name that `text`, usually a host name, is reduced to: in lower case, other characters as `-`, cut to
    /// 32. Text without a letter or digit becomes `machine`.
    #[must_use]
    pub fn reduced(text: &str) -> Self {
        let name: String = text
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '.' | '_' | '-') => c,
                _ => '-',
            })
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(MACHINE_NAME_MAX)
            .collect();
        if name.is_empty() || name == LOCAL { MachineName("machine".to_owned()) } else { MachineName(name) }
    }

    /// This name with `-N` behind it, cut so that it stays a name: how a second daemon of one host name is told apart.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        let suffix = format!("-{number}");
        // The name is ASCII, so that bytes are characters.
        let keep = self.0.len().min(MACHINE_NAME_MAX - suffix.len());
        MachineName(format!("{}{suffix}", &self.0[..keep]))
    }
}

/// What addresses call this machine, so that no other one is called so.
pub const LOCAL: &str = "local";

impl FromStr for MachineName {
    type Err = InvalidMachineName;
    fn from_str(text: &str) -> Result<Self, InvalidMachineName> {
        let fits = (1..=MACHINE_NAME_MAX).contains(&text.len())
            && text != LOCAL
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
        if fits { Ok(MachineName(text.to_owned())) } else { Err(InvalidMachineName(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What of the environment decides where things are. Empty variables count as unset.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub state: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
    /// `KEEPLINE_SOCKET`.
    pub socket: Option<OsString>,
    /// `KEEPLINE_TERMINAL_ID`.
    pub terminal: Option<OsString>,
    /// The user's number.
    pub uid: u32,
}

impl Environment {
    /// This process's environment.
    #[must_use]
    pub fn of_this_process() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Environment {
            runtime: variable("XDG_RUNTIME_DIR"),
            state: variable("XDG_STATE_HOME"),
            home: variable("HOME"),
            socket: variable("KEEPLINE_SOCKET"),
            terminal: variable("KEEPLINE_TERMINAL_ID"),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// Where sockets and state are.
#[derive(Clone, Debug)]
pub struct Paths {
    runtime: PathBuf,
    state: Option<PathBuf>,
    socket: Option<PathBuf>,
    uid: u32,
}

impl Paths {
    /// The places that an environment means. Nothing is looked at or made. A relative `XDG_…` path is ignored, as the
    /// XDG base directory specification says.
    #[must_use]
    pub fn new(environment: &Environment) -> Self {
        let absolute = |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        Paths {
            runtime: absolute(&environment.runtime).map_or_else(
                || PathBuf::from(format!("/tmp/keepline-{}", environment.uid)),
                |dir| dir.join("keepline"),
            ),
            state: absolute(&environment.state)
                .map(|dir| dir.join("keepline"))
                .or_else(|| absolute(&environment.home).map(|home| home.join(".local/state/keepline"))),
            socket: environment.socket.as_ref().map(PathBuf::from),
            uid: environment.uid,
        }
    }

    /// The places of this process's environment.
    #[must_use]
    pub fn of_this_process() -> Self {
        Paths::new(&Environment::of_this_process())
    }

    /// The directory of the sockets; it need not exist.
    #[must_use]
    pub fn runtime_dir(&self) -> &Path {
        &self.runtime
    }

    /// The directory of the state; it need not exist.
    ///
    /// # Errors
    /// When neither `XDG_STATE_HOME` nor `HOME` says where it is.
    pub fn state_dir(&self) -> Result<&Path, Failure> {
        self.state.as_deref().ok_or_else(|| {
            Failure::new(Code::Failed, "there is no place for state: set HOME or XDG_STATE_HOME, or say --state-dir")
        })
    }

    /// The file that holds which of a machine's notifications was shown last; its directory is made when it is missing.
    ///
    /// # Errors
    /// As [`state_dir`](Self::state_dir); when the directory cannot be made.
    pub fn shown_file(&self, machine: &str) -> Result<PathBuf, Failure> {
        let directory = self.state_dir()?.join("client/shown");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
            let message = format!("cannot make {}: {error}", directory.display());
            Failure::new(Code::Failed, message)
        })?;
        Ok(directory.join(machine))
    }

    /// The socket of this machine's own daemon.
    ///
    /// # Errors
    /// When its path is too long for a socket.
    pub fn daemon_socket(&self) -> Result<PathBuf, Failure> {
        fitting(self.runtime.join("daemon.sock"))
    }

    /// The socket of the relay for `machine`.
    ///
    /// # Errors
    /// When its path is too long for a socket.
    pub fn machine_socket(&self, machine: &MachineName) -> Result<PathBuf, Failure> {
        fitting(self.runtime.join(format!("machine-{machine}.sock")))
    }

    /// Makes the directory of the sockets, or checks the one that is there.
    ///
    /// # Errors
    /// When it cannot be made, is a symbolic link, belongs to somebody else or is open to others.
    pub fn prepare_runtime_dir(&self) -> Result<&Path, Failure> {
        match DirBuilder::new().mode(0o700).create(&self.runtime) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::new(Code::Failed, format!("cannot make {}: {error}", self.runtime.display())));
            }
        }
        self.check_runtime_dir()?;
        Ok(&self.runtime)
    }

    /// Checks the directory of the sockets, when it exists: what is in another's directory is another's.
    ///
    /// # Errors
    /// When it is a symbolic link, belongs to somebody else or is open to others.
    pub fn check_runtime_dir(&self) -> Result<(), Failure> {
        match std::fs::symlink_metadata(&self.runtime) {
            Ok(metadata) => private(&self.runtime, &metadata, self.uid),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => {
                Err(Failure::new(Code::Failed, format!("cannot look at {}: {error}", self.runtime.display())))
            }
        }
    }

    /// The socket that a command goes to: the machine's relay when one is named, else `$KEEPLINE_SOCKET`, else this
    /// machine's own daemon. Whether anybody listens there is not looked at.
    ///
    /// # Errors
    /// When the directory of the sockets is not ours alone, or the path is too long.
    pub fn endpoint(&self, machine: Option<&MachineName>) -> Result<Endpoint, Failure> {
        if let Some(machine) = machine {
            self.check_runtime_dir()?;
            return Ok(Endpoint { path: self.machine_socket(machine)?, whose: Whose::Machine(machine.clone()) });
        }
        if let Some(socket) = &self.socket {
            return Ok(Endpoint { path: fitting(socket.clone())?, whose: Whose::Given });
        }
        self.check_runtime_dir()?;
        Ok(Endpoint { path: self.daemon_socket()?, whose: Whose::OwnDaemon })
    }
}

/// A local socket and who should be behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The socket.
    pub path: PathBuf,
    /// Who should be behind it.
    pub whose: Whose,
}

/// Who should be behind a local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This machine's own daemon.
    OwnDaemon,
    /// The relay for a machine.
    Machine(MachineName),
    /// Whoever `$KEEPLINE_SOCKET` says.
    Given,
}

impl Endpoint {
    /// The failure of finding nobody there: nothing was sent.
    #[must_use]
    pub fn unreachable(&self) -> Failure {
        Failure::new(
            Code::Unreachable,
            match &self.whose {
                Whose::OwnDaemon => {
                    "no keepline daemon runs here: start one with `keepline server start --detach`".to_owned()
                }
                Whose::Machine(machine) => format!("cannot reach '{machine}' — disconnected"),
                Whose::Given => format!(
                    "nobody serves $KEEPLINE_SOCKET, {}: unset it to use this machine's own daemon",
                    self.path.display()
                ),
            },
        )
    }
}

fn fitting(path: PathBuf) -> Result<PathBuf, Failure> {
    let length = path.as_os_str().as_bytes().len();
    if length <= SOCKET_PATH_MAX {
        return Ok(path);
    }
    Err(Failure::new(
        Code::Failed,
        format!(
            "the socket path {} has {length} bytes and at most {SOCKET_PATH_MAX} are possible: set XDG_RUNTIME_DIR to a \
             shorter directory",
            path.display()
        ),
    ))
}

fn private(path: &Path, metadata: &Metadata, uid: u32) -> Result<(), Failure> {
    let fault = if metadata.is_symlink() {
        "is a symbolic link".to_owned()
    } else if !metadata.is_dir() {
        "is no directory".to_owned()
    } else if metadata.uid() != uid {
        format!("belongs to user {} instead of {uid}", metadata.uid())
    } else if metadata.mode() & 0o077 != 0 {
        format!("is open to others (mode {:03o}, which must be 700)", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(Failure::new(
        Code::Refused,
        format!("{} {fault}; it is not used: remove it or set XDG_RUNTIME_DIR", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn paths(runtime: &Path) -> Paths {
        Paths::new(&Environment {
            runtime: Some(runtime.into()),
            uid: rustix::process::geteuid().as_raw(),
            ..Environment::default()
        })
    }

    #[test]
    fn a_machine_name_is_checked_and_a_host_name_is_reduced_to_one() {
        for good in ["a", "0", "web-1.example_x", &"a".repeat(32)] {
            assert_eq!(good.parse::<MachineName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".a", "A", "a b", "ä", &"a".repeat(33), "a/b"] {
            assert!(bad.parse::<MachineName>().is_err(), "{bad}");
        }
        for (host, name) in
            [("Build-Box.local", "build-box.local"), ("--Größe", "gr--e"), ("日本", "machine"), ("", "machine")]
        {
            assert_eq!(MachineName::reduced(host).as_str(), name);
        }
        let long = MachineName::reduced(&"x".repeat(90));
        assert_eq!(long.as_str().len(), 32);
        assert_eq!(long.numbered(12).as_str(), format!("{}-12", "x".repeat(29)));
        assert_eq!(MachineName::reduced("a").numbered(2).as_str(), "a-2");
    }

    #[test]
    fn places_follow_the_environment() {
        let mut environment = Environment { uid: 7, home: Some("/home/me".into()), ..Environment::default() };
        let places = Paths::new(&environment);
        assert_eq!(places.runtime_dir(), Path::new("/tmp/keepline-7"));
        assert_eq!(places.state_dir().unwrap(), Path::new("/home/me/.local/state/keepline"));
        environment.runtime = Some("/run/user/7".into());
        environment.state = Some("/var/me".into());
        let places = Paths::new(&environment);
        assert_eq!(places.daemon_socket().unwrap(), Path::new("/run/user/7/keepline/daemon.sock"));
        assert_eq!(places.state_dir().unwrap(), Path::new("/var/me/keepline"));
        environment.runtime = Some("relative".into());
        assert_eq!(Paths::new(&environment).runtime_dir(), Path::new("/tmp/keepline-7"));
        environment.runtime = Some(format!("/{}", "long/".repeat(30)).into());
        let failure = Paths::new(&environment).daemon_socket().unwrap_err();
        assert!(failure.message.contains("107"), "{failure}");
    }

    #[test]
    fn a_command_goes_to_the_machine_then_the_given_socket_then_the_own_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let mut places = paths(dir.path());
        let machine = MachineName::reduced("box");
        assert_eq!(places.endpoint(None).unwrap().whose, Whose::OwnDaemon);
        places.socket = Some("/given.sock".into());
        assert_eq!(places.endpoint(None).unwrap().path, Path::new("/given.sock"));
        let relay = places.endpoint(Some(&machine)).unwrap();
        assert_eq!(relay.path, dir.path().join("keepline").join("machine-box.sock"));
        assert_eq!(relay.unreachable().message, "cannot reach 'box' — disconnected");
    }

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let places = paths(dir.path());
        places.prepare_runtime_dir().unwrap();
        places.prepare_runtime_dir().unwrap();
        let runtime = places.runtime_dir();
        let mode = std::fs::metadata(runtime).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);

        std::fs::set_permissions(runtime, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(places.endpoint(None).unwrap_err().code, Code::Refused);
        std::fs::set_permissions(runtime, PermissionsExt::from_mode(0o700)).unwrap();

        let mut foreign = places.clone();
        foreign.uid += 1;
        assert_eq!(foreign.prepare_runtime_dir().unwrap_err().code, Code::Refused);

        std::fs::remove_dir(runtime).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, runtime).unwrap();
        assert!(places.prepare_runtime_dir().unwrap_err().message.contains("symbolic link"));
    }
}
