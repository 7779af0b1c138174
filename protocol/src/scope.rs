//! Scopes: what a device may do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that a device may do. Each method of the [registry](crate::registry) names the one that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Read and follow the session, and watch terminals.
    View,
    /// Type, and change the session. Where a shell waits for it, that is as good as [`Scope::Exec`].
    Type,
    /// Read and write files.
    Files,
    /// Start programs.
    Exec,
    /// Forward sockets.
    Forward,
    /// Say who gets in, read the audit, rotate the key, stop the daemon.
    Admin,
}

impl Scope {
    /// Every scope of this version.
    pub const ALL: [Scope; 6] = [Scope::View, Scope::Type, Scope::Files, Scope::Exec, Scope::Forward, Scope::Admin];

    /// The name in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scope::View => "view",
            Scope::Type => "type",
            Scope::Files => "files",
            Scope::Exec => "exec",
            Scope::Forward => "forward",
            Scope::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes: empty, or with [`Scope::View`], without which a link would serve nothing. Its form in JSON is an array
/// of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Scopes(u8);

/// A name that no scope has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no scope: there are view, type, files, exec, forward and admin")]
pub struct UnknownScope(String);

impl Scopes {
    /// No scope.
    pub const NONE: Scopes = Scopes(0);
    /// Every scope: what the owner at the machine itself has.
    pub const ALL: Scopes = Scopes(Scope::Admin.bit() * 2 - 1);
    /// What an invitation gives that does not say otherwise: all but [`Scope::Admin`].
    pub const INVITED: Scopes = Scopes(Scope::Admin.bit() - 1);

    /// The set of these names, and of `view` when there is any.
    ///
    /// # Errors
    /// When a name is none of a scope.
    pub fn of<S: AsRef<str>>(names: &[S]) -> Result<Self, UnknownScope> {
        let mut scopes = Scopes::NONE;
        for name in names.iter().map(AsRef::as_ref) {
            let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            let scope = scope.ok_or_else(|| UnknownScope(name.chars().take(80).collect()))?;
            scopes.0 |= scope.bit() | Scope::View.bit();
        }
        Ok(scopes)
    }

    /// Whether the scope is in the set.
    #[must_use]
    pub const fn holds(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// What is in either set.
    #[must_use]
    pub const fn union(self, other: Scopes) -> Self {
        Scopes(self.0 | other.0)
    }

    /// The names, in the order of [`Scope::ALL`].
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let held = Scope::ALL.into_iter().filter(|scope| self.holds(*scope));
        held.map(|scope| scope.name().to_owned()).collect()
    }
}

impl TryFrom<Vec<String>> for Scopes {
    type Error = UnknownScope;
    fn try_from(names: Vec<String>) -> Result<Self, UnknownScope> {
        Scopes::of(&names)
    }
}

impl From<Scopes> for Vec<String> {
    fn from(scopes: Scopes) -> Self {
        scopes.names()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_named_and_viewing_comes_with_every_scope() {
        let scopes = Scopes::of(&["exec", "type"]).unwrap();
        assert_eq!(scopes.to_string(), "view,type,exec");
        assert!(scopes.holds(Scope::View) && !scopes.holds(Scope::Admin));
        assert_eq!(Scopes::INVITED.to_string(), "view,type,files,exec,forward", "admin only when asked for");
        assert_eq!(Scopes::ALL.names().len(), Scope::ALL.len());
        assert_eq!(Scopes::of::<&str>(&[]), Ok(Scopes::NONE));
        assert!(Scopes::of(&["view", "root"]).is_err());
        let json = serde_json::to_string(&scopes).unwrap();
        assert_eq!(json, r#"["view","type","exec"]"#);
        assert_eq!(serde_json::from_str::<Scopes>(&json).unwrap(), scopes);
    }
}
