//! What is started in a terminal: the program, its directory, its environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use keepline_protocol::api::Size;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::TerminalId;
use keepline_screen::Limits;

/// Variables that speak of the terminal the daemon was started in, or that would make programs hide their colours.
const FOREIGN: [&str; 15] = [
    "KEEPLINE_BACKGROUND",
    "NO_COLOR",
    "COLUMNS",
    "LINES",
    "TERMCAP",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "WINDOWID",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
];

/// What to start in a new terminal.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The terminal; its program finds this in `KEEPLINE_TERMINAL_ID`.
    pub id: TerminalId,
    /// Program and arguments; empty for the person's login shell.
    pub argv: Vec<String>,
    /// Where it starts; absent for the home directory, and relative to that.
    pub cwd: Option<String>,
    /// More variables of its environment.
    pub env: Vec<(String, String)>,
    /// The daemon's socket; its program finds this in `KEEPLINE_SOCKET`.
    pub socket: PathBuf,
    /// The first size.
    pub size: Size,
    /// How much history its screen keeps.
    pub history: Limits,
}

/// A person's entry in `/etc/passwd`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    home: Option<PathBuf>,
    shell: Option<PathBuf>,
}

impl Account {
    fn find(passwd: &str, uid: u32) -> Self {
        let uid = uid.to_string();
        let path = |field: Option<&str>| field.filter(|text| !text.is_empty()).map(PathBuf::from);
        passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.get(2) == Some(&uid.as_str()))
            .map(|fields| Account { home: path(fields.get(5).copied()), shell: path(fields.get(6).copied()) })
            .unwrap_or_default()
    }

    fn own() -> Self {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Account::find(&passwd, rustix::process::getuid().as_raw())
    }
}

/// The program to start, with everything but the PTY.
pub(super) struct Program {
    pub(super) command: pty_process::Command,
    name: String,
}

impl Program {
    /// The program that `spawn` asks for, in this process's environment.
    pub(super) fn new(spawn: &Spawn) -> Result<Self, Failure> {
        let account = Account::own();
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from)
            .or_else(|| account.home.clone())
            .unwrap_or_else(|| PathBuf::from("/"));
        let cwd = spawn.cwd.as_ref().map_or_else(|| home.clone(), |cwd| home.join(cwd));
        if !cwd.is_dir() {
            let message = format!("there is no directory '{}' to start in", cwd.display());
            return Err(Failure::new(Code::Invalid, message));
        }
        let (command, name) = match spawn.argv.split_first() {
            Some((program, arguments)) => (pty_process::Command::new(program).args(arguments), program.clone()),
            None => {
                let shell = login_shell(&account);
                let base = shell.file_name().unwrap_or(shell.as_os_str());
                let mut arg0 = OsString::from("-");
                arg0.push(base);
                let name = shell.display().to_string();
                (pty_process::Command::new(&shell).arg0(arg0).env("SHELL", &shell), name)
            }
        };
        let mut command = command.current_dir(&cwd);
        for name in FOREIGN {
            command = command.env_remove(name);
        }
        for (name, value) in locale(|name| std::env::var(name).ok()) {
            command = command.env(name, value);
        }
        let command = command
            .env("HOME", &home)
            .env("PWD", &cwd)
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .env("KEEPLINE_TERMINAL_ID", spawn.id.to_string())
            .env("KEEPLINE_SOCKET", &spawn.socket);
        Ok(Program { command, name })
    }

    /// Why it did not start.
    pub(super) fn failure(name: &str, error: &pty_process::Error) -> Failure {
        let kind = match error {
            pty_process::Error::Io(error) => error.kind(),
            pty_process::Error::Rustix(errno) => io::Error::from(*errno).kind(),
            _ => io::ErrorKind::Other,
        };
        match kind {
            io::ErrorKind::NotFound => Failure::new(Code::NoSuchProgram, format!("there is no program '{name}'")),
            io::ErrorKind::InvalidInput => {
                Failure::new(Code::Invalid, format!("'{}' cannot be run: it holds a NUL byte", name.replace('\0', "?")))
            }
            _ => Failure::new(Code::CannotStart, format!("cannot start '{name}': {error}")),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// `$SHELL`, else the account's shell, else `/bin/sh`; whichever can be run.
fn login_shell(account: &Account) -> PathBuf {
    let runnable =
        |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    std::env::var_os("SHELL")
        .map(PathBuf::from)
        .into_iter()
        .chain(account.shell.clone())
        .find(|path| runnable(path))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// The variables to set so that programs write UTF-8: none when they do already.
fn locale(lookup: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, &'static str)> {
    let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let utf8 = |value: &String| {
        let value = value.to_ascii_lowercase();
        value.ends_with("utf-8") || value.ends_with("utf8")
    };
    match (set("LC_ALL"), set("LC_CTYPE").or_else(|| set("LANG"))) {
        (Some(all), _) if utf8(&all) => vec![],
        (Some(_), _) => vec![("LC_ALL", "C.UTF-8")],
        (None, Some(kind)) if utf8(&kind) => vec![],
        (None, Some(_)) => vec![("LC_CTYPE", "C.UTF-8")],
        (None, None) => vec![("LANG", "C.UTF-8")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_number() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:\nbroken\n";
        assert_eq!(Account::find(passwd, 0), Account { home: Some("/root".into()), shell: Some("/bin/bash".into()) });
        assert_eq!(Account::find(passwd, 1000), Account { home: Some("/home/ann".into()), shell: None });
        assert_eq!(Account::find(passwd, 7), Account::default());
    }

    #[test]
    fn a_locale_is_set_only_where_none_speaks_utf8() {
        let with = |set: &'static [(&str, &str)]| {
            locale(move |name| set.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(with(&[]), [("LANG", "C.UTF-8")]);
        assert_eq!(with(&[("LANG", "de_DE.UTF-8")]), []);
        assert_eq!(with(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]), [("LC_ALL", "C.UTF-8")]);
        assert_eq!(with(&[("LANG", "POSIX"), ("LC_CTYPE", "en_US.utf8")]), []);
        assert_eq!(with(&[("LANG", "C")]), [("LC_CTYPE", "C.UTF-8")]);
    }
}
