//! Links through a gateway that speaks TLS in front of a daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use keepline_tests::process::Process;
use keepline_tests::{Machine, wait_until};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A gateway on loopback with a certificate of its own for `localhost`. Dropping it ends its connections.
struct Gateway {
    _runtime: Runtime,
    address: SocketAddr,
    pem: String,
    pin: String,
}

impl Gateway {
    fn start(daemon: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = made.cert.der().clone();
        let pin: String = Sha256::digest(&der).iter().map(|byte| format!("{byte:02X}:")).collect();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, daemon) = (listener.local_addr().unwrap(), daemon.to_owned());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, daemon) = (acceptor.clone(), daemon.clone());
                tokio::spawn(async move {
                    let mut outer = acceptor.accept(stream).await?;
                    let mut inner = TcpStream::connect(daemon).await?;
                    tokio::io::copy_bidirectional(&mut outer, &mut inner).await
                });
            }
        });
        Gateway { _runtime: runtime, address, pem: made.cert.pem(), pin: pin.trim_end_matches(':').to_owned() }
    }

    fn route(&self) -> String {
        format!("wss://localhost:{}", self.address.port())
    }
}

fn file(machine: &Machine, name: &str, text: &str) -> PathBuf {
    let path = machine.home().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_link_through_tls_needs_a_certificate_that_is_trusted() {
    let (owner, laptop) = (Machine::new(), Machine::new());
    let daemon = owner.listening_daemon();
    let (gateway, other) = (Gateway::start(&daemon.address()), Gateway::start(&daemon.address()));
    let route = gateway.route();
    let authority = file(&laptop, "gateway.pem", &gateway.pem);
    let authority = authority.to_str().unwrap();

    // Nobody vouches for it: one clear sentence, and whoever is named instead is believed.
    let probe = |more: &[&str]| laptop.run(&[&["remote", "probe", &route], more].concat());
    let refused = probe(&[]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (1, 1), "{refused:?}");
    assert!(refused.stderr.contains("cannot trust what answers at wss://localhost"), "{refused:?}");
    assert_eq!(probe(&["--tls-pin", &other.pin]).code, 1);
    assert_eq!(probe(&["--tls-ca", authority]).code, 0);
    assert_eq!(probe(&["--tls-pin", &gateway.pin]).code, 0);
    let empty = file(&laptop, "empty.pem", "");
    for wrong in [["--tls-pin", "abc"], ["--tls-ca", "/nowhere"], ["--tls-ca", empty.to_str().unwrap()]] {
        assert_eq!(probe(&wrong).code, 2, "{wrong:?}");
    }

    let invitation = owner.invitation(&["--no-approval"]);
    let relay =
        laptop.relay(&[&route, "--invite-file", &invitation.to_string_lossy(), "--name", "box", "--tls-ca", authority]);
    relay.wait_state("up");
    let terminal = laptop.terminal(&["--machine", "box", "--", "sh", "-c", "stty -echo; read x; seq 20000; read x"]);
    let mut consumer = laptop.pipe_io(&terminal, &["--machine", "box"]);
    assert!(consumer.type_text("go\n"));
    consumer.output().wait_for("20000\r\n");
    assert_eq!(consumer.detach().code, 0);

    // A gateway with another certificate at the same route is told, and the relay goes on trying.
    drop(relay);
    let mut command =
        laptop.command(&["remote", "connect", &route, "--name", "box", "--headless", "--tls-pin", &other.pin]);
    let relay = Process::spawn(&mut command);
    relay.stderr.wait_for("cannot trust what answers at");
    let status = wait_until("the reason", || {
        let known = laptop.json(&["remote", "known-daemons"]);
        if known[0]["reason"] == "untrusted" { Ok(known) } else { Err(known) }
    });
    assert_eq!(status[0]["name"], "box");
}
