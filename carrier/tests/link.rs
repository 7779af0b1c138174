//! Two links joined by real carriers.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use keepline_carrier::link::{CarrierEnd, Link, Phase};
use keepline_carrier::packet::Carrier;
use keepline_protocol::cipher::Cipher;
use keepline_protocol::identity::Role;
use keepline_protocol::lane::Lane;
use keepline_protocol::message::encode_raw;
use keepline_protocol::refusal::Refusal;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

fn join(client: &Link, daemon: &Link, (left, right): (Carrier, Carrier)) -> [JoinHandle<CarrierEnd>; 2] {
    let run = |link: &Link, peer: &Link, carrier| {
        let number = link.establish(Cipher::null(), 1, peer.cursors()).unwrap();
        let link = link.clone();
        tokio::spawn(async move { link.run(number, carrier).await })
    };
    [run(client, daemon, left), run(daemon, client, right)]
}

fn unix() -> (Carrier, Carrier) {
    let (left, right) = UnixStream::pair().unwrap();
    (Carrier::unix(left), Carrier::unix(right))
}

/// Echoes every message of every stream.
fn echo(link: Link) {
    tokio::spawn(async move {
        while let Some((sender, mut receiver)) = link.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(message)) = receiver.message().await {
                    if sender.send(encode_raw(message.number, &message.body)).await.is_err() {
                        return;
                    }
                }
                sender.finish();
            });
        }
    });
}

#[tokio::test]
async fn a_conversation_survives_its_carriers() {
    let (client, daemon) = (Link::new(Role::Device), Link::new(Role::Daemon));
    echo(daemon.clone());
    let (sender, mut receiver) = client.open(Lane::Control);
    let large = Bytes::from(vec![7; 1 << 20]);
    for round in 0..6 {
        // Alternately in memory and over a real socket; the older carrier is cut or fenced by the newer.
        let carriers = if round % 2 == 0 { Carrier::memory() } else { unix() };
        let tasks = join(&client, &daemon, carriers);
        let sent = tokio::join!(sender.send(encode_raw(round, &large)), receiver.message());
        sent.0.unwrap();
        let message = sent.1.unwrap().unwrap();
        assert_eq!((message.number, message.body.len()), (round, large.len()));
        if round < 3 {
            tasks[1].abort();
            assert!(matches!(*client.phase().borrow(), Phase::Detached | Phase::Up(_)));
        }
    }
    sender.finish();
    assert_eq!(receiver.message().await, Ok(None));
}

#[tokio::test]
async fn a_closed_link_tells_its_peer_and_ends_its_streams() {
    let (client, daemon) = (Link::new(Role::Device), Link::new(Role::Daemon));
    let [client_end, daemon_end] = join(&client, &daemon, unix());
    let (sender, mut receiver) = client.open(Lane::Control);
    sender.send(encode_raw(1, b"x")).await.unwrap();
    let accepted = daemon.accept().await.unwrap();
    daemon.close(Refusal::Revoked);
    assert!(matches!(client_end.await.unwrap(), CarrierEnd::Closed(Refusal::Revoked)));
    assert!(matches!(daemon_end.await.unwrap(), CarrierEnd::Closed(Refusal::Revoked)));
    assert!(receiver.message().await.is_err());
    assert!(sender.ready().await.is_err());
    assert!(daemon.accept().await.is_none());
    drop(accepted);
}

#[tokio::test]
async fn garbage_costs_a_carrier_and_not_the_link() {
    use tokio::io::AsyncWriteExt;
    let daemon = Link::new(Role::Daemon);
    let (mut left, right) = UnixStream::pair().unwrap();
    let number = daemon.establish(Cipher::null(), 1, [0; 4]).unwrap();
    left.write_all(&[0, 3, 9, 9, 9]).await.unwrap();
    let end = daemon.run(number, Carrier::unix(right)).await;
    assert!(matches!(end, CarrierEnd::Violation(_)), "{end}");
    assert_eq!(*daemon.phase().borrow(), Phase::Detached);
    assert!(daemon.establish(Cipher::null(), 1, [0; 4]).is_ok());
}
