//! What answers at a route, without enrolling there: a handshake that ends before this client says who it is.

use keepline_carrier::dial::{Way, dial};
use keepline_carrier::entropy;
use keepline_carrier::route::Route;
use keepline_protocol::bounds::HANDSHAKE_TIME;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::{Initiator, LinkRequest, Reply, VERSIONS};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, IdentityKey, Role};
use tokio::time::timeout;

/// A daemon that answered.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Who it is.
    pub identity: IdentityKey,
    /// The version that it chose of those that this client speaks.
    pub version: u8,
}

/// Asks whoever answers at the route who they are. They learn nothing of this client.
///
/// # Errors
/// `Unreachable` when nobody answers, or something else than a keepline daemon; `Failed` when it refuses.
pub async fn probe(route: &Route, way: &Way) -> Result<Probed, Failure> {
    let unreachable = |why: String| Failure::new(Code::Unreachable, why);
    let mut carrier = dial(route, way).await.map_err(|error| unreachable(error.to_string()))?;
    // Keys that are nobody's.
    let credentials = Credentials::generate(Role::Device, &entropy());
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: &credentials,
        pinned: None,
        serial: 0,
        noise_key: None,
        claim: None,
        name: String::new(),
        client: "probe".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes(entropy()), epoch: 1, cursors: None },
    };
    let shake = async {
        let ended = || unreachable(format!("whoever answers at {route} ended the handshake"));
        let (client, first) = initiator.start(entropy());
        carrier.writer.write(first).await.map_err(|_| ended())?;
        let reply = carrier.reader.read().await.ok().flatten().ok_or_else(ended)?;
        client.handle(&reply).map_err(|error| Failure::new(Code::Failed, format!("{route}: {error}")))
    };
    let reply = timeout(HANDSHAKE_TIME, shake).await;
    match reply.map_err(|_| unreachable(format!("whoever answers at {route} does not shake hands")))?? {
        Reply::Prove { next, .. } => Ok(Probed { identity: next.daemon().identity(), version: next.version() }),
        Reply::Decided(_) => Err(Failure::new(Code::Internal, "a handshake without a known key was decided at once")),
    }
}
