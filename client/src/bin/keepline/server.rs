//! `server start`: the daemon's own process.

use std::ffi::OsString;
use std::time::Duration;

use keepline_carrier::packet::Carrier;
use keepline_client::cli::settings::ServerStart;
use keepline_client::cli::{self, Context, Host};
use keepline_client::edge::{Edge, LocalListener};
use keepline_client::local::LocalClient;
use keepline_client::paths::{Endpoint, Paths, Whose};
use keepline_client::uplink::Uplink;
use keepline_daemon::{Config, Daemon};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::handshake::MAGIC;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

use crate::background;

/// How long a daemon in the background may take to serve.
const START_TIME: Duration = Duration::from_secs(10);
/// Between two looks at whether it does.
const START_POLL: Duration = Duration::from_millis(10);
/// How long a local connection may take to say what it speaks.
const FIRST_BYTE_TIME: Duration = Duration::from_secs(10);

/// Does `server start`.
pub(crate) async fn start<H: Host>(settings: ServerStart, context: &Context<H>) -> u8 {
    let done = if settings.detach {
        detach(&context.paths, std::env::args_os().skip(1).filter(|argument| argument != "--detach")).await
    } else {
        return match serve(settings, context).await {
            Ok(()) => 0,
            Err(failure) => cli::fail(&failure),
        };
    };
    match done {
        Ok(pid) => {
            if context.common.json {
                println!("{}", json!({ "pid": pid }));
            } else {
                eprintln!("keepline serves in the background, process {pid}");
            }
            0
        }
        Err(failure) => cli::fail(&failure),
    }
}

/// Starts this machine's daemon unless it serves already.
pub(crate) async fn ensure(paths: &Paths) -> Result<(), Failure> {
    if LocalClient::connect(&own_daemon(paths)?).await.is_ok() {
        return Ok(());
    }
    match detach(paths, ["server", "start"].map(OsString::from)).await {
        // Somebody else's start was faster.
        Err(failure) if failure.code == Code::Busy && LocalClient::connect(&own_daemon(paths)?).await.is_ok() => Ok(()),
        started => started.map(drop),
    }
}

fn own_daemon(paths: &Paths) -> Result<Endpoint, Failure> {
    Ok(Endpoint { path: paths.daemon_socket()?, whose: Whose::OwnDaemon })
}

/// Starts a daemon in the background, waits until it serves, and gives its process id.
async fn detach(paths: &Paths, arguments: impl IntoIterator<Item = OsString>) -> Result<u32, Failure> {
    let state_dir = paths.state_dir()?;
    std::fs::create_dir_all(state_dir)
        .map_err(|error| Failure::new(Code::Failed, format!("cannot make {}: {error}", state_dir.display())))?;
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut daemon = background::start(&arguments, &state_dir.join("daemon.log"))?;
    let endpoint = own_daemon(paths)?;
    let deadline = Instant::now() + START_TIME;
    loop {
        if let Some(failure) = daemon.ended() {
            return Err(failure);
        }
        if let Ok(mut client) = LocalClient::connect(&endpoint).await {
            let status = client.call("server.status", json!({}), START_TIME).await;
            if let (Ok(status), Some(pid)) = (status, daemon.pid())
                && status["pid"] == pid
            {
                return Ok(pid);
            }
        }
        if Instant::now() > deadline {
            let message = format!("the daemon does not serve after {} s", START_TIME.as_secs());
            return Err(Failure::new(Code::Timeout, message));
        }
        sleep(START_POLL).await;
    }
}

async fn serve<H: Host>(settings: ServerStart, context: &Context<H>) -> Result<(), Failure> {
    let paths = &context.paths;
    paths.prepare_runtime_dir()?;
    let socket = paths.daemon_socket()?;
    let state_dir = match settings.state_dir {
        Some(directory) => directory,
        None => paths.state_dir()?.join("daemon"),
    };
    // The socket first: who is refused here has touched nothing.
    let listener = LocalListener::bind(&socket)?;
    keepline_daemon::descriptors::raise();
    let daemon = Daemon::open(Config {
        state_dir,
        socket: socket.clone(),
        lease: settings.resume_lease,
        history: settings.history,
        trust_network: settings.remote_ws_trusted_carrier,
    })?;
    let mut bound = Vec::new();
    for address in settings.remote_ws {
        bound.push(daemon.listen(address, settings.remote_ws_insecure_bind).await?);
    }
    let shown = context.paths.shown_file("@local")?;
    let edge = Edge::start(Uplink::local(daemon.local_links()), Some(shown));
    // Before anybody is told that there is something to end.
    let told_to_end = told_to_end();
    announce(context.common.json, &socket.display().to_string(), &bound);
    let accepting = async {
        loop {
            let stream = listener.accept().await;
            tokio::spawn(serve_local(stream, edge.clone(), daemon.clone()));
        }
    };
    tokio::select! {
        () = accepting => {}
        () = daemon.stopped() => {
            // The answer to who asked is on its way.
            sleep(Duration::from_millis(50)).await;
        }
        () = told_to_end => {}
    }
    daemon.stop().await;
    Ok(())
}

fn announce(json: bool, socket: &str, bound: &[std::net::SocketAddr]) {
    let listeners: Vec<String> = bound.iter().map(ToString::to_string).collect();
    if json {
        // A start script that has gone away reads nothing, and that is no reason to end.
        let line = json!({ "pid": std::process::id(), "socket": socket, "listeners": listeners });
        let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
    } else {
        eprintln!("keepline serves {socket}");
        for listener in listeners {
            eprintln!("keepline listens on ws://{listener}/v1/link");
        }
    }
}

/// A connection to the daemon's socket says by its first bytes what it speaks.
async fn serve_local(mut stream: UnixStream, edge: Edge, daemon: Daemon) {
    let mut first = [0; 1];
    let Ok(Ok(1)) = timeout(FIRST_BYTE_TIME, stream.read(&mut first)).await else {
        return;
    };
    if first[0] != MAGIC[0] {
        return edge.serve(stream, &first).await;
    }
    let mut rest = [0; 3];
    let read = timeout(FIRST_BYTE_TIME, stream.read_exact(&mut rest)).await;
    if matches!(read, Ok(Ok(_))) && rest == MAGIC[1..] {
        let peer =
            stream.peer_cred().ok().and_then(|peer| peer.pid()).map_or("local".to_owned(), |pid| format!("pid {pid}"));
        daemon.serve_carrier(Carrier::unix(stream), peer).await;
    }
}

/// What waits to be told to end. From here on a signal asks for an orderly end.
fn told_to_end() -> impl Future<Output = ()> {
    let mut signals = Vec::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        match signal(kind) {
            Ok(signal) => signals.push(signal),
            Err(error) => tracing::error!(%error, "cannot wait for a signal"),
        }
    }
    async move {
        let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        let _ = futures_util::future::select_all(waits).await;
    }
}
