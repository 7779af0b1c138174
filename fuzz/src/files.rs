//! Text that a person brings, and the one HTTP request.

use keepline_carrier::bounds::REQUEST_HEAD_MAX;
use keepline_carrier::route::Route;
use keepline_carrier::upgrade::{Request, parse};
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::invitation::Invitation;

use crate::{Reach, Reached};

/// The text of an invitation or key file, or of a route: what can be read is written so that it is read as the same.
pub fn invitation(input: &[u8]) -> Reach {
    let mut reach = Reach::new();
    let text = &*String::from_utf8_lossy(input);
    if let Ok(invitation) = Invitation::from_file(text) {
        assert_eq!(Invitation::from_file(&invitation.to_file()).as_ref(), Ok(&invitation));
        let routes = invitation.routes.iter();
        reach.extend(routes.filter_map(|route| self::route(route)));
        reach.insert(Reached::Read("invitation"));
    }
    if let Ok(credentials) = Credentials::from_file(Role::Device, text) {
        let again = Credentials::from_file(Role::Device, &credentials.to_file()).unwrap();
        assert_eq!(again.certificate(), credentials.certificate());
        reach.insert(Reached::Read("credentials"));
    }
    reach.extend(route(text));
    reach
}

fn route(text: &str) -> Option<Reached> {
    let route: Route = text.parse().ok()?;
    let shown: Route = route.to_string().parse().unwrap();
    assert_eq!(shown.to_string(), route.to_string());
    Some(Reached::Read("route"))
}

/// An HTTP request: it is incomplete only within its limit, an upgrade ends where it says, and nothing that was decided is
/// undone by what follows.
pub fn upgrade(input: &[u8]) -> Reach {
    let found = parse(input);
    match &found {
        Request::Incomplete => assert!(input.len() < REQUEST_HEAD_MAX),
        Request::Upgrade { length, accept } => {
            assert!(*length <= input.len().min(REQUEST_HEAD_MAX) && accept.len() == 28);
            let shorter = parse(&input[..*length - 1]);
            assert_eq!(shorter, Request::Incomplete);
        }
        _ => {}
    }
    if matches!(found, Request::Upgrade { .. }) {
        let more = [input, b"\x82\x80more"].concat();
        assert_eq!(parse(&more), found);
    }
    let reached = match found {
        Request::Incomplete => "part of a request",
        Request::Upgrade { .. } => "upgrade",
        Request::Refused { status, .. } => status,
        Request::Foreign => "no HTTP",
    };
    Reach::from([Reached::Read(reached)])
}
