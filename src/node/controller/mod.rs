//! The controller process: hosts the controller machine on one thread.
//!
//! Connections put requests into one queue; the loop feeds them to the machine, appends what it
//! decided to the metadata log, syncs, and only then lets the answers go. Whatever arrived while a
//! sync was running is decided together and shares the next one.
//!
//! Off the hot path: no produced record passes here. No rule is decided here either.

mod admin;
mod connection;
mod fetch;
mod metadata_log;
mod replica_logs;
mod translate;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::Instant;

use self::connection::{Ask, Service};
use self::fetch::MetadataReader;
pub use self::metadata_log::{MetadataLog, MetadataLogError, Recovery};
use self::replica_logs::Question;
use crate::config::node::ControllerConfig;
use crate::measure::clock;
use crate::protocol::controller::{Controller, Input, Output, RequestId, Response};
use crate::protocol::metadata::{ClusterMetadata, Record};
use crate::types::Offset;

/// Requests queued for the machine; each connection has at most one.
const QUEUE_LENGTH: usize = 1024;
/// Wait after a failed accept: file descriptors may have run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

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
    /// The metadata log cannot be opened, written or read.
    #[error(transparent)]
    Log(#[from] MetadataLogError),
}

/// Runs a controller until SIGTERM or SIGINT. Once it accepts connections it writes one line of JSON,
/// `{"listening":"address:port"}`, to standard output.
///
/// # Errors
/// [`ControllerError`]; the process should end with its message.
pub fn run(config: ControllerConfig) -> Result<(), ControllerError> {
    on_event_loop(async {
        let stop = stop_signal().map_err(|source| ControllerError::Runtime { source })?;
        serve(config, announce, stop).await
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

fn announce(address: SocketAddr, recovery: Recovery) -> io::Result<()> {
    if recovery.truncated_bytes > 0 {
        let Recovery { truncated_bytes, end_offset } = recovery;
        writeln!(
            io::stderr(),
            "metadata log: cut off {truncated_bytes} bytes of an interrupted write, \
             {end_offset} records kept"
        )?;
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::json!({ "listening": address.to_string() }))?;
    out.flush()
}

async fn serve(
    config: ControllerConfig,
    announce: impl FnOnce(SocketAddr, Recovery) -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let mut metadata = ClusterMetadata::default();
    let (log, recovery) =
        MetadataLog::open(&config.data_dir, |offset, record| metadata.apply(offset, record))?;
    let log = Rc::new(RefCell::new(log));
    let listen = |source| ControllerError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;

    let (queue, asked) = mpsc::channel(QUEUE_LENGTH);
    let mut shell = Shell::start(&config, metadata, log.clone(), queue.clone())?;
    let reader = MetadataReader {
        log,
        committed: shell.committed.subscribe(),
        cluster_id: config.cluster_id.as_str().into(),
        node_id: config.node_id,
    };
    let service = Service { queue, reader, request_bytes_max: config.request_bytes_max };
    tokio::task::spawn_local(accept(listener, Rc::new(service)));
    announce(address, recovery).map_err(|source| ControllerError::Announce { source })?;
    shell.run(asked, stop).await
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

/// The machine, its log, and who waits for what.
struct Shell {
    controller: Controller,
    log: Rc<RefCell<MetadataLog>>,
    committed: watch::Sender<Offset>,
    linger: Duration,
    /// Decided, not yet appended.
    pending: Vec<Record>,
    /// When `pending` must be appended.
    flush_at: Option<Instant>,
    next_request: u64,
    waiting: BTreeMap<RequestId, oneshot::Sender<Response>>,
    /// Where brokers' answers to the controller's own questions go: the queue of all requests.
    queue: mpsc::Sender<Ask>,
}

impl Shell {
    fn start(
        config: &ControllerConfig,
        metadata: ClusterMetadata,
        log: Rc<RefCell<MetadataLog>>,
        queue: mpsc::Sender<Ask>,
    ) -> Result<Shell, ControllerError> {
        let settings = translate::settings(config);
        let mut outputs = Vec::new();
        let end = log.borrow().end_offset();
        let controller = Controller::start(settings, metadata, end, clock::now(), &mut outputs);
        let mut shell = Shell {
            controller,
            log,
            committed: watch::Sender::new(end),
            linger: config.metadata_append_linger,
            pending: Vec::new(),
            flush_at: None,
            next_request: 0,
            waiting: BTreeMap::new(),
            queue,
        };
        shell.carry_out(outputs);
        shell.flush()?;
        Ok(shell)
    }

    async fn run(
        &mut self,
        mut asked: mpsc::Receiver<Ask>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ControllerError> {
        tokio::pin!(stop);
        loop {
            let wake_at = self.wake_at();
            tokio::select! {
                biased;
                () = &mut stop => break,
                ask = asked.recv() => match ask {
                    Some(ask) => self.ask(ask),
                    None => break,
                },
                () = tokio::time::sleep_until(wake_at) => {}
            }
            self.drain(&mut asked);
            if clock::now() >= self.controller.deadline() {
                // Heartbeats that arrived while a sync held this thread count before any session
                // is found to have expired.
                tokio::task::yield_now().await;
                self.drain(&mut asked);
                self.step(Input::Tick);
            }
            if self.flush_at.is_some_and(|flush_at| Instant::now() >= flush_at) {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn wake_at(&self) -> Instant {
        let until_deadline = self.controller.deadline().since(clock::now());
        let deadline = Instant::now() + until_deadline;
        self.flush_at.map_or(deadline, |flush_at| flush_at.min(deadline))
    }

    fn drain(&mut self, asked: &mut mpsc::Receiver<Ask>) {
        while let Ok(ask) = asked.try_recv() {
            self.ask(ask);
        }
    }

    fn ask(&mut self, ask: Ask) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.waiting.insert(request, ask.answer);
        self.step(Input::Request { request, body: ask.body });
    }

    fn step(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.controller.step(clock::now(), input, &mut outputs);
        self.carry_out(outputs);
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Append { base_offset, mut records } => {
                    let end = self.log.borrow().end_offset();
                    assert!(base_offset == end.plus(self.pending.len() as i64), "{base_offset}");
                    self.pending.append(&mut records);
                    self.flush_at.get_or_insert_with(|| Instant::now() + self.linger);
                }
                Output::Respond { request, response } => {
                    if let Some(answer) = self.waiting.remove(&request) {
                        // The connection may be gone; then nobody waits for this.
                        let _ = answer.send(response);
                    }
                }
                Output::AskReplicaLogs { query, broker, endpoint, partitions } => {
                    let question = Question { query, broker, endpoint, partitions };
                    let ask = replica_logs::ask(question, self.queue.clone());
                    tokio::task::spawn_local(ask);
                }
            }
        }
    }

    /// Appends and syncs what is pending, then lets the answers go that waited for it.
    fn flush(&mut self) -> Result<(), ControllerError> {
        self.flush_at = None;
        if self.pending.is_empty() {
            return Ok(());
        }
        self.log.borrow_mut().append(&self.pending)?;
        self.pending.clear();
        let end = self.log.borrow().end_offset();
        self.committed.send_replace(end);
        self.step(Input::Committed { end });
        Ok(())
    }
}
