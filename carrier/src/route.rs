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
    /// A WebSocket without TLS; the link encrypts for itself.
    WebSocket {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
        /// Sent as it is and shown to nobody: it may hold a gateway's token.
        query: Option<String>,
    },
    /// A Unix socket on this machine.
    Unix(PathBuf),
}

/// Text that is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoute {
    /// No route looks like this.
    #[error("'{0}' is not a route: use ws://HOST:PORT or unix:/PATH")]
    Form(String),
    /// The scheme is one that this version does not speak.
    #[error("this version of keepline cannot use {0} routes: use ws:// or unix:")]
    Scheme(String),
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
        if text.starts_with("wss:") || text.starts_with("ssh:") {
            return Err(InvalidRoute::Scheme(text.split(':').next().unwrap_or_default().to_owned()));
        }
        let uri: Uri = text.parse().map_err(|_| form(text))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let Some((host, port)) = host_and_port(authority) else {
            return Err(form(text));
        };
        if uri.scheme_str() != Some("ws") {
            return Err(form(text));
        }
        if !matches!(uri.path(), "" | "/" | LINK_PATH) {
            return Err(InvalidRoute::Path(uri.path().to_owned()));
        }
        Ok(Route::WebSocket { host: host.to_owned(), port, query: uri.query().map(str::to_owned) })
    }
}

/// The host, without brackets, and the port of `HOST[:PORT]`. What an URI may have besides is no part of a route.
fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(literal) => literal.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if rest.is_empty() => 80,
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

    /// Whether whoever answers there is this machine's own user.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Route::Unix(_))
    }
}

/// Without the query: this form is stored and shown.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::WebSocket { host, port, .. } if host.contains(':') => {
                write!(f, "ws://[{host}]:{port}{LINK_PATH}")
            }
            Route::WebSocket { host, port, .. } => write!(f, "ws://{host}:{port}{LINK_PATH}"),
            Route::Unix(path) => write!(f, "unix:{}", path.display()),
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
        assert_eq!(shown("unix:/run/k/daemon.sock"), "unix:/run/k/daemon.sock");
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
        assert_eq!("wss://h".parse::<Route>(), Err(InvalidRoute::Scheme("wss".to_owned())));
    }
}
