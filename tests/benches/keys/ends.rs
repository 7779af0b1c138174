//! Both ends of a link in this process, joined through the shaper by real sockets and real Noise: what the product does
//! not offer yet, a bulk transfer, is a service of the end that stands for the daemon.

use std::time::{Duration, Instant};

use keepline_carrier::dial::{Way, dial};
use keepline_carrier::link::{Link, Receiver, Sender};
use keepline_carrier::packet::Carrier;
use keepline_carrier::upgrade;
use keepline_protocol::handshake::{
    Initiator, InvitationKey, LinkRequest, Outcome, Reply, Responder, VERSIONS, Verdict,
};
use keepline_protocol::id::LinkId;
use keepline_protocol::identity::{Credentials, Role};
use keepline_protocol::lane::Lane;
use keepline_protocol::message::encode_raw;
use keepline_protocol::refusal::Refusal;
use keepline_tests::shaper::{Path, Shaper};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What a stream is for, by the number of its messages.
const ECHO: u16 = 1;
const FLOOD: u16 = 2;
const BULK: u16 = 3;

/// Bytes of a message of a flood, and of a bulk transfer.
const OUTPUT: usize = 4 << 10;
const PIECE: usize = 64 << 10;

/// What was seen of echoes.
pub struct Flooded {
    pub echoes: Vec<Duration>,
    pub queue: Duration,
    pub buffer: usize,
    pub rate: Option<u64>,
}

/// What was seen of a transfer.
pub struct Moved {
    pub time: Duration,
    pub queue: Duration,
    pub rate: Option<u64>,
}

fn random<const N: usize>() -> [u8; N] {
    std::array::from_fn(|_| fastrand::u8(..))
}

/// Times echoes beside a flood in the same lane and a bulk transfer.
pub fn flooded(path: Path, count: usize, pause: Duration) -> Flooded {
    let runtime = Runtime::new().expect("the system has threads");
    runtime.block_on(async {
        let (client, daemon, shaper) = join(path).await;
        let flood = ask(&client, Lane::Interactive, FLOOD, 0).await;
        let bulk = ask(&client, Lane::Bulk, BULK, usize::MAX).await;
        let drained = [drain(flood), drain(bulk)];
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (sender, mut receiver) = client.open(Lane::Interactive);
        let mut echoes = Vec::new();
        for _ in 0..count {
            let typed = Instant::now();
            let key = encode_raw(ECHO, b"x");
            sender.send(key).await.expect("the link is up");
            receiver.message().await.expect("an echo");
            echoes.push(typed.elapsed());
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
        drained.iter().for_each(tokio::task::JoinHandle::abort);
        Flooded { echoes, queue: shaper.greatest_queue()[1], buffer: shaper.buffer(), rate: daemon.rate() }
    })
}

/// Times one transfer on a fresh link.
pub fn bulk(path: Path, bytes: usize) -> Moved {
    let runtime = Runtime::new().expect("the system has threads");
    runtime.block_on(async {
        let (client, daemon, shaper) = join(path).await;
        let began = Instant::now();
        let (_sender, mut receiver) = ask(&client, Lane::Bulk, BULK, bytes).await;
        let mut seen = 0;
        while let Some(message) = receiver.message().await.expect("the link is up") {
            seen += message.body.len();
        }
        assert_eq!(seen, bytes);
        Moved { time: began.elapsed(), queue: shaper.greatest_queue()[1], rate: daemon.rate() }
    })
}

async fn ask(link: &Link, lane: Lane, number: u16, bytes: usize) -> (Sender, Receiver) {
    let (sender, receiver) = link.open(lane);
    let request = encode_raw(number, &bytes.to_be_bytes());
    sender.send(request).await.expect("the link is up");
    (sender, receiver)
}

fn drain((sender, mut receiver): (Sender, Receiver)) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok(Some(_)) = receiver.message().await {}
        drop(sender);
    })
}

/// Serves every stream as its first message asks.
async fn serve(link: Link) {
    while let Some((sender, receiver)) = link.accept().await {
        tokio::spawn(serve_stream(sender, receiver));
    }
}

async fn serve_stream(sender: Sender, mut receiver: Receiver) -> Option<()> {
    while let Some(message) = receiver.message().await.ok()? {
        let (length, mut left) = match message.number {
            FLOOD => (OUTPUT, usize::MAX),
            BULK => {
                let asked = message.body.first_chunk().expect("it says how many");
                (PIECE, usize::from_be_bytes(*asked))
            }
            number => {
                sender.send(encode_raw(number, &message.body)).await.ok()?;
                continue;
            }
        };
        let piece = vec![7; length];
        while left > 0 {
            let part = &piece[..left.min(length)];
            // As a terminal does it: what cannot be sent yet is not made yet.
            sender.ready().await.ok()?;
            sender.send(encode_raw(message.number, part)).await.ok()?;
            left -= part.len();
        }
        sender.finish();
    }
    Some(())
}

/// Two ends that have shaken hands through a shaper.
async fn join(path: Path) -> (Link, Link, Shaper) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let shaper = Shaper::start(&address, path);
    let host = Credentials::generate(Role::Daemon, &random());
    let device = Credentials::generate(Role::Device, &random());
    let (client, daemon) = (Link::new(Role::Device), Link::new(Role::Daemon));
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("the client connects");
        let carrier = upgrade::accept(stream).await.expect("a WebSocket");
        accept(&host, &daemon, carrier).await;
    };
    let route = shaper.route().parse().expect("it is a route");
    let dialling = async {
        let carrier = dial(&route, &Way::default()).await.expect("the shaper listens");
        connect(&device, &host, &client, carrier).await;
    };
    tokio::join!(accepting, dialling);
    tokio::spawn(serve(daemon.clone()));
    (client, daemon, shaper)
}

async fn connect(device: &Credentials, host: &Credentials, link: &Link, mut carrier: Carrier) {
    let initiator = Initiator {
        versions: VERSIONS,
        credentials: device,
        pinned: Some(host.identity()),
        serial: 0,
        noise_key: None,
        claim: None,
        name: "bench".to_owned(),
        client: "bench".to_owned(),
        features: 0,
        link: LinkRequest { id: LinkId::from_bytes(random()), epoch: 1, cursors: None },
    };
    let (next, first) = initiator.start(random());
    carrier.writer.write(first).await.expect("a carrier");
    let reply = packet(&mut carrier).await;
    let Ok(Reply::Prove { message, next }) = next.handle(&reply) else {
        panic!("no answer to XX");
    };
    carrier.writer.write(message).await.expect("a carrier");
    let reply = packet(&mut carrier).await;
    let Ok(Outcome::Accepted { cipher, version, verdict, .. }) = next.handle(&reply) else {
        panic!("not accepted");
    };
    run(link, link.establish(cipher, version, verdict.cursors), carrier);
}

async fn accept(host: &Credentials, link: &Link, mut carrier: Carrier) {
    let first = packet(&mut carrier).await;
    let Ok(Responder::Anonymous(responder)) = Responder::start(&VERSIONS, host, &first, random()) else {
        panic!("no first message of XX");
    };
    let (next, reply) = responder.reply(host, InvitationKey::NotClaimed).expect("an answer");
    carrier.writer.write(reply).await.expect("a carrier");
    let hello = packet(&mut carrier).await;
    let next = next.expect("no refusal");
    let mut authenticated = next.handle(&hello).expect("a device");
    let verdict = Verdict { refusal: 0, ..Verdict::refused(Refusal::Busy, "bench") };
    let verdict = authenticated.verdict(&verdict);
    carrier.writer.write(verdict).await.expect("a carrier");
    let (cipher, version) = (authenticated.cipher, authenticated.version);
    run(link, link.establish(cipher, version, [0; 4]), carrier);
}

async fn packet(carrier: &mut Carrier) -> bytes::Bytes {
    let packet = carrier.reader.read().await.expect("a carrier");
    packet.expect("the other end is there")
}

fn run<E: std::fmt::Debug>(link: &Link, number: Result<u64, E>, carrier: Carrier) {
    let link = link.clone();
    let number = number.expect("a fresh link takes any carrier");
    tokio::spawn(async move { link.run(number, carrier).await });
}
