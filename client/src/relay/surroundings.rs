//! Notices what gives reason to doubt a link: this process or its machine was stopped for a while, or the way to the
//! daemon is another one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use keepline_carrier::route::Route;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::bounds::{STOPPED, SURROUNDINGS_LOOK};

/// Nudges whenever there is reason to. It never ends.
pub(super) async fn watch(routes: &[Route], nudge: &Notify) {
    let networks = routes.iter().map(|route| watch_network(route, nudge));
    tokio::join!(watch_sleep(nudge), futures_util::future::join_all(networks));
}

async fn watch_sleep(nudge: &Notify) {
    let mut before = since_boot();
    loop {
        sleep(SURROUNDINGS_LOOK).await;
        let now = since_boot();
        if was_stopped(before, now) {
            tracing::info!("this process or its machine was stopped for a while");
            nudge.notify_one();
        }
        before = now;
    }
}

/// The clock that goes on while the machine sleeps.
fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Whether so much more time than asked for passed between two looks that there was nobody to look.
fn was_stopped(before: Duration, now: Duration) -> bool {
    now.saturating_sub(before) > SURROUNDINGS_LOOK + STOPPED
}

async fn watch_network(route: &Route, nudge: &Notify) {
    let Route::WebSocket { host, port, .. } = route else {
        return;
    };
    let mut daemon = None;
    let mut before = None;
    loop {
        if daemon.is_none() {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            daemon = found.ok().and_then(|mut found| found.next());
            before = daemon.and_then(local_address);
        }
        sleep(SURROUNDINGS_LOOK).await;
        let now = daemon.and_then(local_address);
        // Without any way there is nothing to try.
        if now.is_some() && now != before {
            tracing::info!("the way to the daemon is another one");
            nudge.notify_one();
        }
        before = now;
    }
}

/// The address of this machine's from which packets to `daemon` would go now; nothing when there is no way. A UDP socket
/// is connected without sending anything.
fn local_address(daemon: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match daemon {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(daemon).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_comes_much_later_than_asked_is_a_stop() {
        let before = Duration::from_secs(1_000);
        assert!(!was_stopped(before, before + SURROUNDINGS_LOOK));
        assert!(!was_stopped(before, before + SURROUNDINGS_LOOK + STOPPED));
        assert!(was_stopped(before, before + Duration::from_secs(4)));
        assert!(!was_stopped(before, Duration::ZERO), "a clock went back");
        assert!(since_boot() > Duration::ZERO);
    }

    #[test]
    fn the_way_to_loopback_starts_there() {
        let daemon = SocketAddr::from((Ipv4Addr::LOCALHOST, 7601));
        assert_eq!(local_address(daemon), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
