//! Routes: where a daemon can be reached.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio_tungstenite::tungstenite::http::Uri;

/// The only path that a daemon serves.
pub const LINK_PATH: &str = "/v1/link";

/// Where a daemon can be reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Route {
    /// A WebSocket. The link encrypts for itself, with or without TLS.
    WebSocket {
        /// Whether TLS is between: a gateway asks for it.
        tls: bool,
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
        /// Sent as it is and shown to nobody: it may hold a gateway's token.
        query: Option<String>,
    },
    /// A Unix socket on this machine.
    Unix(PathBuf),
    /// `keepline remote stdio` on the far side of the person's own `ssh`.
    Ssh(Destination),
}

/// What ssh is told to reach. Nothing in it can be taken for an option, or for more than one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The account; absent for what ssh's configuration says.
    pub user: Option<String>,
    /// A name, an alias of ssh's configuration, or an address, without brackets.
    pub host: String,
    /// The port; absent for what ssh's configuration says.
    pub port: Option<u16>,
}

/// Text that is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoute {
    /// No route looks like this.
    #[error("'{0}' is not a route: use ssh://[USER@]HOST[:PORT], ws://HOST:PORT, wss://HOST[:PORT] or unix:/PATH")]
    Form(String),
    /// A daemon serves only one path.
    #[error("the path of a WebSocket route is {LINK_PATH}, not '{0}'")]
    Path(String),
}

impl FromStr for Route {
    type Err = InvalidRoute;

    fn from_str(text: &str) -> Result<Self, InvalidRoute> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = Path::new(path);
            return if path.is_absolute() { Ok(Route::Unix(path.to_owned())) } else { Err(form(text)) };
        }
        if let Some(destination) = text.strip_prefix("ssh://") {
            return destination.parse().map(Route::Ssh);
        }
        let uri: Uri = text.parse().map_err(|_| form(text))?;
        let tls = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(form(text)),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let Some((host, port)) = host_and_port(authority, if tls { 443 } else { 80 }) else {
            return Err(form(text));
        };
        if !matches!(uri.path(), "" | "/" | LINK_PATH) {
            return Err(InvalidRoute::Path(uri.path().to_owned()));
        }
        Ok(Route::WebSocket { tls, host: host.to_owned(), port, query: uri.query().map(str::to_owned) })
    }
}

impl FromStr for Destination {
    type Err = InvalidRoute;

    /// Reads `[USER@]HOST[:PORT]`.
    fn from_str(text: &str) -> Result<Self, InvalidRoute> {
        let wrong = || form(&format!("ssh://{text}"));
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, text),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let (host, rest) = match place.strip_prefix('[') {
            Some(literal) => literal.split_once(']').ok_or_else(wrong)?,
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
            None if rest.is_empty() => None,
            None => return Err(wrong()),
        };
        // ssh reads what begins so as an option, and `%` as a pattern of its own.
        let plain = |word: &str, more: &str| {
            !word.is_empty()
                && !word.starts_with('-')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c))
        };
        if !plain(host, ":") || user.is_some_and(|user| !plain(user, "+")) {
            return Err(wrong());
        }
        Ok(Destination { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') { write!(f, "[{}]", self.host) } else { f.write_str(&self.host) }?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The host, without brackets, and the port of `HOST[:PORT]`. What an URI may have besides is no part of a route.
fn host_and_port(authority: &str, usual: u16) -> Option<(&str, u16)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(literal) => literal.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if rest.is_empty() => usual,
        None => return None,
    };
    (!host.is_empty() && !host.contains(['[', ']', '@'])).then_some((host, port))
}

/// The text is shown without its query.
fn form(text: &str) -> InvalidRoute {
    InvalidRoute::Form(text.split('?').next().unwrap_or_default().chars().take(200).collect())
}

impl Route {
    /// The URL to ask for, query included. Not to be shown.
    pub(crate) fn url(&self) -> String {
        let query = match self {
            Route::WebSocket { query: Some(query), .. } => format!("?{query}"),
            _ => String::new(),
        };
        format!("{self}{query}")
    }

    /// Whether whoever answers there is known without keepline: this machine's own user, or who ssh says.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Route::Unix(_) | Route::Ssh(_))
    }
}

/// Without the query: this form is stored and shown.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::WebSocket { tls, host, port, .. } => {
                let scheme = if *tls { "wss" } else { "ws" };
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}{LINK_PATH}")
                } else {
                    write!(f, "{scheme}://{host}:{port}{LINK_PATH}")
                }
            }
            Route::Unix(path) => write!(f, "unix:{}", path.display()),
            Route::Ssh(destination) => write!(f, "ssh://{destination}"),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_shown_without_its_query() {
        let route: Route = "ws://host.example:8080/v1/link?token=secret".parse().unwrap();
        assert_eq!(route.to_string(), "ws://host.example:8080/v1/link");
        assert_eq!(route.url(), "ws://host.example:8080/v1/link?token=secret");
        assert!(!format!("{:?}", "wsx://h?token=secret".parse::<Route>()).contains("secret"));
    }

    #[test]
    fn short_forms_and_ipv6_literals_work() {
        let shown = |text: &str| text.parse::<Route>().unwrap().to_string();
        assert_eq!(shown("ws://[::1]:9000"), "ws://[::1]:9000/v1/link");
        assert_eq!(shown("ws://127.0.0.1:9000/"), "ws://127.0.0.1:9000/v1/link");
        assert_eq!(shown("wss://hub.example"), "wss://hub.example:443/v1/link");
        assert_eq!(shown("unix:/run/k/daemon.sock"), "unix:/run/k/daemon.sock");
    }

    #[test]
    fn an_ssh_destination_is_one_plain_word() {
        let shown = |text: &str| text.parse::<Route>().map(|route| route.to_string());
        for text in ["ssh://box", "ssh://me@box.example:2222", "ssh://[2001:db8::1]:22", "ssh://dom+me@box"] {
            assert_eq!(shown(text).as_deref(), Ok(text));
        }
        for text in [
            "ssh://",
            "ssh://-oProxyCommand=touch",
            "ssh://-oProxyCommand=x@box",
            "ssh://a@-box",
            "ssh://@box",
            "ssh://box:",
            "ssh://box:0",
            "ssh://box:22x",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$(x)",
            "ssh://%h",
            "ssh://box/path",
            "ssh://[::1]22",
        ] {
            assert!(shown(text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused_with_what_to_write() {
        for text in [
            "",
            "host",
            "http://h:1",
            "ws://",
            "unix:relative",
            "ws://user@h:1",
            "ws://h:1/other",
            "ws://h:99999",
            "ws://h:",
            "ws://1[::]",
            "ws://[::1]1",
        ] {
            assert!(text.parse::<Route>().is_err(), "{text}");
        }
    }
}
