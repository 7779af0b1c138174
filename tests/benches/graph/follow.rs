//! Followers: real links over loopback from this process to a daemon in its own, each with a document of its own.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keepline_carrier::dial::{Way, dial};
use keepline_carrier::link::Link;
use keepline_carrier::packet::Carrier;
use keepline_client::edge::Edge;
use keepline_client::uplink::Uplink;
use keepline_protocol::api::layout::WorkspaceRename;
use keepline_protocol::handshake::{Initiator, LinkRequest, Outcome, Reply, VERSIONS};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::lane::Lane;
use keepline_protocol::message::encode_request;
use keepline_protocol::registry::method;
use keepline_tests::{Daemon, Machine};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{ROWS, ms, pipelined, verdict, workspaces};

const FOLLOWERS: usize = 100;
const PACE: Duration = Duration::from_millis(5);
/// Until the daemon's tail of deltas, and what allocators keep, are as full as they get.
const WARM_UP: Duration = Duration::from_secs(25);
const MEASURED: Duration = Duration::from_secs(20);

fn random<const N: usize>() -> [u8; N] {
    std::array::from_fn(|_| fastrand::u8(..))
}

fn trusting(machine: &Machine) -> Daemon {
    machine.daemon(&["--remote-ws", "127.0.0.1:0", "--remote-ws-trusted-carrier"])
}

/// A link of a device of its own.
async fn link(route: &str) -> Link {
    let device = Credentials::generate(Role::Device, &random());
    let mut carrier = dial(&route.parse().unwrap(), &Way::default()).await.unwrap();
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: &device,
        pinned: None,
        serial: 0,
        noise_key: None,
        claim: None,
        name: "bench".to_owned(),
        client: "bench".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes(random()), epoch: 1, cursors: None },
    };
    let (next, first) = initiator.start(random());
    carrier.writer.write(first).await.unwrap();
    let Ok(Reply::Prove { message, next }) = next.handle(&packet(&mut carrier).await) else {
        panic!("no answer to XX");
    };
    carrier.writer.write(message).await.unwrap();
    let Ok(Outcome::Accepted { cipher, version, verdict, .. }) = next.handle(&packet(&mut carrier).await) else {
        panic!("not accepted");
    };
    let link = Link::new(Role::Device);
    let number = link.establish(cipher, version, verdict.cursors).unwrap();
    let driven = link.clone();
    tokio::spawn(async move { driven.run(number, carrier).await });
    link
}

async fn packet(carrier: &mut Carrier) -> bytes::Bytes {
    carrier.reader.read().await.unwrap().expect("the daemon is there")
}

/// A follower whose document is there.
async fn follower(route: &str) -> Edge {
    let (sender, links) = watch::channel(link(route).await);
    // The link outlives whoever might change it.
    std::mem::forget(sender);
    let edge = Edge::start(Uplink::local(links), None);
    edge.cursor().wait_for(Option::is_some).await.unwrap();
    edge
}

/// Renames, one after each pace; by revision, when it was sent and when it was answered.
async fn mutate(link: &Link, ids: &[Value], time: Duration) -> HashMap<u64, (Instant, Instant)> {
    let (began, mut done, mut count) = (Instant::now(), Vec::new(), 0_usize);
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while began.elapsed() < time {
        pace.tick().await;
        let rename = WorkspaceRename {
            key: None,
            expect: None,
            workspace: ids[count % ids.len()].as_str().unwrap().to_owned(),
            name: format!("name {count}"),
        };
        count += 1;
        let link = link.clone();
        done.push(tokio::spawn(async move {
            let sent = Instant::now();
            let (sender, mut receiver) = link.open(Lane::Control);
            let request = encode_request::<method::WorkspaceRename>(&rename);
            sender.send(request).await.unwrap();
            sender.finish();
            let message = receiver.message().await.unwrap().unwrap();
            let receipt = message.answer::<method::WorkspaceRename>().unwrap().unwrap();
            (receipt.revision, (sent, Instant::now()))
        }));
    }
    let mut times = HashMap::new();
    for one in done {
        times.extend([one.await.unwrap()]);
    }
    times
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(super) fn fanout() {
    let machine = Machine::new();
    let daemon = trusting(&machine);
    let ids = workspaces(&machine.daemon_socket(), ROWS);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let route = daemon.route();
        let mut edges = Vec::new();
        for _ in 0..FOLLOWERS {
            edges.push(follower(&route).await);
        }
        let seen: Vec<_> = edges
            .iter()
            .map(|edge| {
                let mut cursor = edge.cursor();
                tokio::spawn(async move {
                    // Each revision with the moment at which it or a later one was there.
                    let mut seen: Vec<(u64, Instant)> = Vec::new();
                    while let Ok(Ok(())) = timeout(Duration::from_secs(4), cursor.changed()).await {
                        let revision = cursor.borrow_and_update().unwrap().revision;
                        seen.push((revision, Instant::now()));
                    }
                    seen
                })
            })
            .collect();
        let writer = link(&route).await;
        mutate(&writer, &ids, WARM_UP).await;
        let resident = || [std::process::id(), daemon.pid()].map(resident_kib);
        let before = resident();
        let times = mutate(&writer, &ids, MEASURED).await;
        let after = resident();

        let mut last: HashMap<u64, Instant> = HashMap::new();
        for one in seen {
            let seen = one.await.unwrap();
            for revision in times.keys() {
                let at = seen.partition_point(|(there, _)| there < revision);
                let reached = seen.get(at).expect("every follower gets there").1;
                let latest = last.entry(*revision).or_insert(reached);
                *latest = reached.max(*latest);
            }
        }
        let p99 = |from: fn(&(Instant, Instant)) -> Instant| {
            let mut each: Vec<Duration> =
                times.iter().map(|(revision, time)| last[revision].saturating_duration_since(from(time))).collect();
            each.sort();
            (each[each.len() / 2], each[each.len() * 99 / 100], each[each.len() - 1])
        };
        let (median, most, greatest) = p99(|time| time.0);
        verdict(
            &format!("{FOLLOWERS} followers, 200 mutations a second, from the request to the last one: p99 20 ms"),
            &format!("median {}, p99 {}, greatest {} of {}", ms(median), ms(most), ms(greatest), times.len()),
            most <= Duration::from_millis(20),
        );
        let (median, most, _) = p99(|time| time.1);
        println!("of it after the writer had its answer: median {}, p99 {}", ms(median), ms(most));
        for (who, before, after) in
            [("the followers' process", before[0], after[0]), ("the daemon", before[1], after[1])]
        {
            verdict(
                &format!("memory of {who} flat within 5 % over {} s", MEASURED.as_secs()),
                &format!("{before} KiB, then {after} KiB"),
                after as f64 <= before as f64 * 1.05,
            );
        }
    });
}

/// Passes one connection on and counts its bytes, both ways together.
fn counting(address: &str) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let route = format!("ws://{}", listener.local_addr().unwrap());
    let (address, count) = (address.to_owned(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(address).unwrap();
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
        }
        let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        for (mut from, mut to) in [(near, far), back] {
            let count = Arc::clone(&counted);
            std::thread::spawn(move || {
                let mut buffer = [0; 16 << 10];
                while let Ok(read @ 1..) = from.read(&mut buffer) {
                    count.fetch_add(read as u64, Ordering::Relaxed);
                    if to.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (route, count)
}

pub(super) fn wire() {
    let machine = Machine::new();
    let daemon = trusting(&machine);
    let socket = machine.daemon_socket();
    let ids = workspaces(&socket, ROWS);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let (route, count) = counting(&daemon.address());
        let edge = follower(&route).await;
        let document = count.load(Ordering::Relaxed);
        sleep(Duration::from_secs(2)).await;
        let (renames, pause) = (100_u64, Duration::from_millis(100));
        let idle_from = count.load(Ordering::Relaxed);
        sleep(pause * 100).await;
        let idle = count.load(Ordering::Relaxed) - idle_from;
        let from = count.load(Ordering::Relaxed);
        let mut cursor = edge.cursor();
        for at in 0..renames {
            let params = json!({"workspace": ids[7], "name": format!("name {at}")});
            let socket = socket.clone();
            let renamed = move || pipelined(&socket, "workspace.rename", &[params]);
            tokio::task::spawn_blocking(renamed).await.unwrap();
            cursor.changed().await.unwrap();
            sleep(pause).await;
        }
        let each = (count.load(Ordering::Relaxed) - from).saturating_sub(idle) / renames;
        verdict(
            &format!("one rename among {ROWS} rows: 1,024 bytes on a follower's connection, acknowledgement and all"),
            &format!("{each} bytes (the whole document: {document})"),
            each <= 1_024,
        );
    });
}
