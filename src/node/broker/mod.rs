//! A broker: shards that share nothing, one thread each, and their start and stop.
//!
//! In reading order: `shard` (the loop), `requests` (frames to parts, answers in turn), `replicas`
//! (parts to machines and logs), `fetchers` (following), `controller_link`, `metadata` (what the
//! metadata log means for this broker), `topic_pages`, `log_info` (for the controller's recoveries), `message` (between shards), `trace`, `isr_watch` and
//! `events` (for results), `room` (what it can hold), `answers`, `counters`, `disk_control` and `slow_disk` (faults on demand).

mod answers;
mod controller_link;
mod counters;
mod disk_control;
mod events;
mod fetchers;
mod gauges;
mod isr_watch;
mod leader_offsets;
mod log_info;
mod message;
mod metadata;
mod offsets;
mod replicas;
mod requests;
mod room;
mod shard;
mod slow_disk;
#[cfg(test)]
mod tests;
mod topic_pages;
mod trace;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::controller_link::ControllerLink;
use self::events::{EventSink, EventWriter};
use self::gauges::{Gauges, Publisher};
use self::message::{Mailbox, Message, ShardId};
use self::room::OpenReplicas;
use self::shard::Shard;
use self::slow_disk::SlowDisk;
use crate::config::node::BrokerConfig;
use crate::engine::{self, EngineError, Limits};
use crate::measure::threads;
use crate::node::data_directory::{self, DataDirectoryError, Owner};
use crate::protocol::metadata::ApplyError;
use crate::storage::{self, DiskFaults, Preparer, StorageError};
use crate::types::{BrokerEpoch, EngineKind, ErrorCode, Offset};

/// Why a broker ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The data directory cannot be used.
    #[error("{}: {source}", path.display())]
    DataDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The data directory is not this broker's.
    #[error(transparent)]
    NotOwned(#[from] DataDirectoryError),
    /// The port cannot be had.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More shards are to be pinned than there are CPUs.
    #[error("shards = {shards} with pin = true: this process may run on {cpus} CPUs only")]
    TooFewCpus {
        /// As configured.
        shards: usize,
        /// As allowed.
        cpus: usize,
    },
    /// The controller refused this broker for good.
    #[error("the controller refuses this broker: {0}")]
    Refused(ErrorCode),
    /// The controller forgot this broker and registered it anew: its replicas would be trusted
    /// under an epoch they did not live in.
    #[error("broker epoch changed from {from} to {to} while running; restart the broker")]
    EpochChanged {
        /// The epoch of this process's life so far.
        from: BrokerEpoch,
        /// The one the controller gave now.
        to: BrokerEpoch,
    },
    /// The leader's log ends inside a batch of this replica's.
    #[error("truncation to offset {to} cut a batch: the log ends at {end}")]
    TruncatedInsideBatch {
        /// Where the machine wanted the log to end.
        to: Offset,
        /// Where it ends.
        end: Offset,
    },
    /// The metadata log cannot be applied.
    #[error("metadata log: {0}")]
    Metadata(#[from] ApplyError),
    /// The controllers dropped metadata records that this broker had not read yet.
    #[error("the metadata log goes on behind records this broker has not read; restart the broker")]
    MetadataPurged,
    /// A log failed; the broker stops rather than acknowledge what it did not store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The event loop failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A thread or signal handler could not be set up.
    #[error("{operation}: {source}")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// Runs a broker until SIGTERM or SIGINT asks it to stop, or the end of standard input if
/// `stops_with_input`. Prints one JSON line with its address once it listens.
pub fn run(config: BrokerConfig, stops_with_input: bool) -> Result<(), BrokerError> {
    storage::validate(&config.log)?;
    let owner = Owner { role: "broker", node: config.node_id, cluster_id: &config.cluster_id };
    let data_directory = data_directory::claim(&config.data_dir, owner)?;
    let cpus = cpus(&config)?;
    let config = Arc::new(config);
    let disk_faults = config.fault_control.then(Arc::<DiskFaults>::default);
    let preparer = match &disk_faults {
        Some(faults) => Preparer::start()?.with_faults(faults.clone()),
        None => Preparer::start()?,
    };
    let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..config.shards).map(|_| Mailbox::new()).unzip();
    watch_signals(mailboxes[0].clone())?;
    if stops_with_input || disk_faults.is_some() {
        let switches = disk_faults.clone();
        let obey = move |line| {
            if let Some(switches) = &switches {
                disk_control::take_order(line, switches);
            }
        };
        super::watch_input(stops_with_input, obey)
            .map_err(|source| BrokerError::System { operation: "watch standard input", source })?;
    }
    let gauges: Vec<Arc<Gauges>> = (0..config.shards).map(|_| Arc::default()).collect();
    let metrics = config.metrics_listen.map(|address| gauges::serve(address, gauges.clone()));
    let metrics = metrics.transpose()?;
    let events = config.events_file.as_deref().map(EventWriter::start).transpose()?;
    let open_replicas = OpenReplicas::default();
    let (ended, ends) = mpsc::channel();
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let id = ShardId(index as u8);
        let link = match id {
            Shard::CONTROLLER_SHARD => {
                Some(ControllerLink::new(&config, data_directory.id, metrics)?)
            }
            _ => None,
        };
        let (config, mailboxes, preparer, ended) =
            (config.clone(), mailboxes.clone(), preparer.clone(), ended.clone());
        let (disk_faults, open_replicas) = (disk_faults.clone(), open_replicas.clone());
        let cpu = cpus.get(index).copied();
        let publisher = config.metrics_listen.map(|_| Publisher::new(gauges[index].clone()));
        let sink = events.as_ref().map_or_else(EventSink::nowhere, EventWriter::sink);
        let run = move || {
            let mut shard =
                Shard::new(id, config.clone(), mailboxes, inbox, preparer, link, (publisher, sink));
            shard.slow_disk = disk_faults.map(SlowDisk::new);
            shard.replicas.open = open_replicas;
            // The other end is gone only when another shard has already failed the process.
            let _ = ended.send(run_shard(shard, &config, cpu));
        };
        threads::start(&format!("shard {index}"), run)
            .map_err(|source| BrokerError::System { operation: "start a shard", source })?;
    }
    drop(ended);
    // The first failure ends the process: half a broker must not go on acknowledging.
    ends.into_iter().collect::<Result<(), BrokerError>>()?;
    events.into_iter().for_each(EventWriter::finish);
    Ok(())
}

fn run_shard(shard: Shard, config: &BrokerConfig, cpu: Option<usize>) -> Result<(), BrokerError> {
    let limits = Limits {
        frame_bytes_max: config.request_bytes_max,
        half_frame_idle_max: config.half_frame_idle_max,
    };
    let shard = match config.engine {
        EngineKind::Uring => engine::uring::run(shard, limits, cpu)?,
        EngineKind::Glommio => engine::glommio::run(shard, limits, cpu)?,
    };
    shard.into_result()
}

fn watch_signals(controller_shard: Mailbox) -> Result<(), BrokerError> {
    let system = |source| BrokerError::System { operation: "watch for signals", source };
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(system)?;
    let watch = move || signals.forever().for_each(|_| controller_shard.send(Message::Stop));
    threads::start("signals", watch).map(drop).map_err(system)
}

/// The CPU of each shard, if shards are pinned.
fn cpus(config: &BrokerConfig) -> Result<Vec<usize>, BrokerError> {
    if !config.pin {
        return Ok(Vec::new());
    }
    let system = |source| BrokerError::System { operation: "sched_getaffinity", source };
    let allowed = engine::allowed_cpus().map_err(system)?;
    if allowed.len() < config.shards {
        return Err(BrokerError::TooFewCpus { shards: config.shards, cpus: allowed.len() });
    }
    Ok(allowed)
}
