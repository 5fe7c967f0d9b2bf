//! The controller process: one voter of the metadata log, on one thread.
//!
//! In reading order: `connection` (frames in, answers out), `shell` (the controller machine while
//! this voter leads), `raft` (the log among the voters), `metadata_log` (the log on disk), `fetch` (the
//! log for brokers), `describe_quorum`, `refusal` and `translate` (what goes over the wire).
//!
//! Connections put requests into one queue; the shell feeds them to the machine and proposes what it
//! decided; once that is committed the answers go. Whatever arrived while a sync was running is
//! decided together and shares the next one.
//!
//! Off the hot path: no produced record passes here. No rule is decided here either.

mod admin;
mod connection;
mod describe_quorum;
mod fetch;
mod metadata_log;
mod metrics;
mod raft;
mod refusal;
mod replica_logs;
mod shell;
mod translate;
mod workbench;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use self::connection::Service;
use self::fetch::MetadataReader;
pub use self::metadata_log::{MetadataLogError, Recovery};
use self::raft::Quorum;
pub use self::raft::{QuorumError, QuorumView, VoterView, describe_quorum};
use self::shell::Shell;
pub use self::workbench::{Workbench, WorkbenchError, seed};
use super::data_directory::{self, DataDirectoryError, Owner};
use super::{announce, exporter};
use crate::config::node::ControllerConfig;

/// Requests queued for the machine; each connection has at most one.
const QUEUE_LENGTH: usize = 1024;
/// Wait after a failed accept: file descriptors may have run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How long Raft may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Why a controller ends, other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// No event loop, or no signals.
    #[error("controller event loop: {source}")]
    Runtime {
        /// The system's reason.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The line that says where it listens cannot be written.
    #[error("standard output: {source}")]
    Announce {
        /// The system's reason.
        source: io::Error,
    },
    /// The data directory is not this controller's.
    #[error(transparent)]
    NotOwned(#[from] DataDirectoryError),
    /// The metadata log cannot be used, or not replicated.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
}

/// Runs a controller until SIGTERM or SIGINT, or the end of standard input if `stops_with_input`.
/// Once it accepts connections it writes one line of JSON,
/// `{"listening":"address:port"}`, to standard output.
///
/// # Errors
/// [`ControllerError`]; the process should end with its message.
pub fn run(config: ControllerConfig, stops_with_input: bool) -> Result<(), ControllerError> {
    on_event_loop(async {
        let stop = stop_signal().map_err(|source| ControllerError::Runtime { source })?;
        if stops_with_input {
            super::watch_input(true, drop).map_err(|source| ControllerError::Runtime { source })?;
        }
        serve(config, say, stop).await
    })
}

fn on_event_loop(
    controller: impl Future<Output = Result<(), ControllerError>>,
) -> Result<(), ControllerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| ControllerError::Runtime { source })?;
    LocalSet::new().block_on(&runtime, controller)
}

fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Where a controller listens.
#[derive(Clone, Copy, Debug)]
struct Listening {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
}

fn say(listening: Listening, recovery: Recovery) -> io::Result<()> {
    if recovery.truncated_bytes > 0 {
        let Recovery { truncated_bytes, end_offset } = recovery;
        writeln!(
            io::stderr(),
            "metadata log: cut off {truncated_bytes} bytes of an interrupted write, \
             {end_offset} records kept"
        )?;
    }
    announce(listening.address, listening.metrics)
}

async fn serve(
    config: ControllerConfig,
    say: impl FnOnce(Listening, Recovery) -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let listen = |source| ControllerError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;

    let owner = Owner { role: "controller", node: config.node_id, cluster_id: &config.cluster_id };
    let _data_directory = data_directory::claim(&config.data_dir, owner)?;
    let (quorum, recovery) = Quorum::start(&config).await?;
    let active = Rc::new(watch::Sender::new(None));
    let (queue, asked) = mpsc::channel(QUEUE_LENGTH);
    let reader = MetadataReader {
        quorum: quorum.clone(),
        active: active.subscribe(),
        cluster_id: config.cluster_id.as_str().into(),
        node_id: config.node_id,
        observers: Rc::default(),
    };
    let request_bytes_max = config.request_bytes_max;
    let to_itself = queue.clone();
    let service = Service { queue, reader, quorum: quorum.clone(), request_bytes_max };
    tokio::task::spawn_local(accept(listener, Rc::new(service)));
    let metrics = match config.metrics_listen {
        Some(address) => {
            let (quorum, active, queue) = (quorum.clone(), active.clone(), to_itself.clone());
            let render = move || {
                let queue_length = queue.max_capacity() - queue.capacity();
                quorum.metrics(active.borrow().is_some(), queue_length)
            };
            Some(export(address, render).await?)
        }
        None => None,
    };
    let mut shell = Shell::new(&config, quorum.clone(), active, to_itself);
    if quorum.is_alone() {
        // Whoever reads the line need not find out who is active.
        shell.wait_until_active().await?;
    }
    let listening = Listening { address, metrics };
    say(listening, recovery).map_err(|source| ControllerError::Announce { source })?;
    let ended = shell.run(asked, stop).await;
    // A failed Raft may not answer any more.
    let _ = tokio::time::timeout(STOP_PATIENCE, quorum.stop()).await;
    Ok(ended?)
}

/// Serves metrics from now on. Gives where.
async fn export(
    address: SocketAddr,
    render: impl Fn() -> Result<String, fmt::Error> + 'static,
) -> Result<SocketAddr, ControllerError> {
    let listen = |source| ControllerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    tokio::task::spawn_local(exporter::serve(listener, render));
    Ok(bound)
}

async fn accept(listener: TcpListener, service: Rc<Service>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = service.clone();
                tokio::task::spawn_local(async move {
                    // The peer sees why by what it sent; nobody here can act on it.
                    let _ = connection::serve(stream, service).await;
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
        }
    }
}

/// Timestamps are for people, in the log and in descriptions; no rule reads them.
fn wall_clock_ms() -> i64 {
    let now = std::time::SystemTime::now();
    let since_epoch = now.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
