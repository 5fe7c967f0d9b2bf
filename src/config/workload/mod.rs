//! A workload as meant: the cluster to start, the load to drive, the matrix of cells to measure.
//!
//! Reading and checking is in `raw`, the same for editors in `schema`; what a workload runs, in which order, is in
//! [`super::cells`].

mod fault;
mod raw;
mod schema;

pub use fault::{Fault, FaultKind, Link, Role, Target};
pub(super) use raw::{ENGINES, durability_modes};
pub use schema::json_schema;

use std::path::Path;
use std::time::Duration;

use crate::types::{
    Acks, AlterPartitionPolicy, CommitRoute, DurabilityMode, EngineKind, FetchPipeline, Flush,
    HwmGate, IsrExpand, IsrWait, ServeFollowers, UncleanRecovery,
};

use super::node::ElectionConfig;
use super::{ConfigError, defaults, read};

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Names the result folder: letters, digits, `-`, `_` and `.`, not starting with `.`.
    pub name: String,
    /// The cluster each cell runs on.
    pub cluster: Cluster,
    /// How load is made.
    pub load: Load,
    /// What is varied.
    pub matrix: Matrix,
    /// What goes wrong meanwhile, in every cell.
    pub faults: Vec<Fault>,
}

/// The cluster each cell runs on; a fresh one for each engine, durability mode and
/// [`super::cells::ClusterVariant`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Controller processes, the voters of the metadata log: 1 or 3.
    pub controllers: usize,
    /// Broker processes; at least the replication factor.
    pub brokers: usize,
    /// Replicas of each partition.
    pub replication_factor: usize,
    /// `min.insync.replicas`; at most the replication factor.
    pub min_isr: usize,
    /// `unclean.recovery.strategy`, and with `Proactive` `unclean.leader.election.enable`.
    pub unclean_recovery: UncleanRecovery,
    /// Event loops per broker.
    pub shards: usize,
    /// Whether broker threads are pinned to CPUs.
    pub pin: bool,
    /// Segment size.
    pub segment_bytes: u64,
    /// Recent batches kept in memory per partition.
    pub memory_bytes: usize,
    /// `max.message.bytes`.
    pub message_bytes_max: usize,
    /// Appended, not yet durable bytes per shard before producers are no longer read from.
    pub undurable_bytes_max: usize,
    /// How a commit group reaches the disk.
    pub commit_route: CommitRouteChoice,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_time_max: Duration,
    /// `replica.fetch.wait.max.ms`.
    pub replica_fetch_wait_max: Duration,
    /// `replica.fetch.backoff.ms`.
    pub replica_fetch_backoff: Duration,
    /// `replica.fetch.max.bytes`.
    pub replica_fetch_bytes_max: usize,
    /// `broker.heartbeat.interval.ms`; shorter than the session timeout.
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// How long the controller lets metadata records wait for company.
    pub metadata_append_linger: Duration,
    /// How brokers send ISR proposals.
    pub alter_partition: AlterPartitionPolicy,
    /// How leaders are elected and recovered; the `[election]` table.
    pub election: ElectionConfig,
}

/// `commit.route` as chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitRouteChoice {
    /// Each durability mode's own default ([`defaults::commit_route`]).
    ByMode,
    /// The same for every mode.
    Fixed(CommitRoute),
}

impl CommitRouteChoice {
    /// The route under `durability`.
    pub fn under(self, durability: DurabilityMode) -> CommitRoute {
        match self {
            CommitRouteChoice::ByMode => defaults::commit_route(durability),
            CommitRouteChoice::Fixed(route) => route,
        }
    }

    /// As written in a workload.
    pub fn name(self) -> &'static str {
        match self {
            CommitRouteChoice::ByMode => "by-mode",
            CommitRouteChoice::Fixed(route) => route.name(),
        }
    }
}

/// How load is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Load before measuring starts; not longer than `duration`.
    pub warmup: Duration,
    /// Measured time per cell and repeat; above zero.
    pub duration: Duration,
    /// Measured time of each probe of the saturation search; above zero.
    pub saturation_probe: Duration,
    /// Times the matrix is run, interleaved; at least 1.
    pub repeats: usize,
    /// Seed of payloads and arrivals.
    pub seed: u64,
    /// Producer connections per leader.
    pub connections: usize,
    /// Unanswered produce requests per connection.
    pub in_flight_max: usize,
    /// Largest record batch.
    pub batch_bytes: usize,
    /// How long a record waits for company in its batch.
    pub linger: Duration,
    /// Share of each payload that compresses away, 0 to 1.
    pub compressibility: f64,
    /// What becomes of a batch whose produce request failed.
    pub retry: Retry,
    /// A request unanswered for this long has failed, and its connection is closed.
    pub request_timeout: Duration,
    /// Delay of each acknowledgement, as a share of its latency: to show that a gate notices. Never
    /// from a file; 0 but for `--inject-slowdown`, and said loudly in the result.
    pub injected_slowdown: f64,
}

/// `load.retry`: what becomes of a batch whose produce request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It has failed.
    Never,
    /// Sent again if the answer says that nothing was appended; else it has failed, and whether it
    /// is in the log is unknown. Makes no duplicates.
    IfRefused,
    /// Sent again until it is acknowledged: the producer is not idempotent, so a lost answer may
    /// make a duplicate.
    UntilAcknowledged,
}

impl Retry {
    /// Every choice by its name in a workload.
    pub const ALL: [(&'static str, Retry); 3] = [
        ("never", Retry::Never),
        ("if-refused", Retry::IfRefused),
        ("until-acknowledged", Retry::UntilAcknowledged),
    ];

    /// As written in a workload.
    pub fn name(self) -> &'static str {
        Retry::ALL.iter().find(|(_, retry)| *retry == self).map_or("", |(name, _)| *name)
    }
}

/// When records are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// By schedule, whatever the answers do. Latency starts at the scheduled time.
    Open {
        /// Records per second over all partitions.
        rate_per_s: u64,
        /// Gaps between records.
        arrival: Arrival,
    },
    /// As `Open`, at a share of the highest rate the cell's mode sustains, which the run finds first.
    Share {
        /// Percent of the saturation.
        percent: u32,
        /// The saturation, records per second; `None` in a workload, set once it is found.
        saturation_per_s: Option<u64>,
        /// Gaps between records.
        arrival: Arrival,
    },
    /// The next record of a connection leaves when the one before was answered.
    Closed,
    /// Every connection's window is kept full.
    Max,
}

impl Pacing {
    /// Records per second asked for; `None` unless the loop is open and the rate is known.
    pub fn rate_per_s(&self) -> Option<u64> {
        match *self {
            Pacing::Open { rate_per_s, .. } => Some(rate_per_s),
            Pacing::Share { percent, saturation_per_s, .. } => {
                let saturation_per_s = saturation_per_s?;
                Some((saturation_per_s.saturating_mul(percent.into()) / 100).max(1))
            }
            Pacing::Closed | Pacing::Max => None,
        }
    }

    /// How gaps are chosen, if the loop is open.
    pub fn arrival(&self) -> Option<Arrival> {
        match *self {
            Pacing::Open { arrival, .. } | Pacing::Share { arrival, .. } => Some(arrival),
            Pacing::Closed | Pacing::Max => None,
        }
    }

    /// `open`, `closed` or `max`.
    pub fn mode_name(self) -> &'static str {
        match self {
            Pacing::Open { .. } | Pacing::Share { .. } => "open",
            Pacing::Closed => "closed",
            Pacing::Max => "max",
        }
    }
}

/// Gaps between scheduled records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Equal gaps.
    Uniform,
    /// Exponential gaps, seeded.
    Poisson,
}

impl Arrival {
    /// As written in a workload.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Uniform => "uniform",
            Arrival::Poisson => "poisson",
        }
    }
}

/// What is varied. Every list holds at least one value and none twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Event loops.
    pub engines: Vec<EngineKind>,
    /// Durability modes.
    pub durabilities: Vec<DurabilityMode>,
    /// `hwm.gate`.
    pub hwm_gates: Vec<HwmGate>,
    /// `isr.wait`.
    pub isr_waits: Vec<IsrWait>,
    /// `isr.expand`.
    pub isr_expands: Vec<IsrExpand>,
    /// `replica.fetch.pipeline`.
    pub fetch_pipelines: Vec<FetchPipeline>,
    /// `replica.serve.followers`.
    pub serve_followers: Vec<ServeFollowers>,
    /// Commit groups in flight per partition.
    pub commit_pipeline_depths: Vec<usize>,
    /// Delay injected before each commit of the controller.
    pub commit_delays: Vec<Duration>,
    /// Partitions of the cell's topic.
    pub partitions: Vec<u32>,
    /// Value size of a record.
    pub record_bytes: Vec<usize>,
    /// Rates, or the one closed or max pacing.
    pub pacings: Vec<Pacing>,
    /// `acks`.
    pub acks: Vec<Acks>,
    /// The thresholds of `page-cache-flush`.
    pub flush: Flush,
}

impl Workload {
    /// Reads a workload file.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read, is not TOML, has an unknown key, or a value that is
    /// not allowed by itself or beside the others.
    pub fn from_file(file: &Path) -> Result<Workload, ConfigError> {
        Workload::from_text(file, &read::text_of(file)?)
    }

    /// As [`Workload::from_file`] for text that is in memory; `file` only names it in errors.
    ///
    /// # Errors
    /// As [`Workload::from_file`], but for reading.
    pub fn from_text(file: &Path, text: &str) -> Result<Workload, ConfigError> {
        raw::read(file, text)
    }

    /// The same cells, about a second each, once: `--quick`. With faults, which do not shrink with
    /// it, the cells last until each repeated one has come [`defaults::QUICK_FAULTS`] times; with a
    /// single one as long as ever. Of the shares of a saturation four are left, half a second each,
    /// since each mode is searched first.
    pub fn quick(mut self) -> Workload {
        let shares = self.matrix.pacings.iter().any(|one| matches!(one, Pacing::Share { .. }));
        let (warmup, duration) = match shares {
            true => defaults::QUICK_SHARE,
            false => (defaults::QUICK_WARMUP, defaults::QUICK_DURATION),
        };
        if shares {
            thin(&mut self.matrix.pacings, defaults::QUICK_SHARES);
        }
        self.load.saturation_probe = self.load.saturation_probe.min(duration);
        self.load.repeats = 1;
        self.load.warmup = self.load.warmup.min(warmup);
        let length = |fault: &Fault| Some(fault.at + fault.every? * defaults::QUICK_FAULTS);
        let lengths: Option<Vec<Duration>> = self.faults.iter().map(length).collect();
        let longest = match lengths {
            None => self.load.duration,
            Some(lengths) => lengths.into_iter().max().unwrap_or(duration),
        };
        self.load.duration = self.load.duration.min(longest);
        self
    }

    /// The same cells, slowed down on purpose: `--inject-slowdown`.
    pub fn slowed_down(mut self, share: f64) -> Workload {
        self.load.injected_slowdown = share;
        self
    }

    /// The same cells on one engine: `--engine`.
    pub fn on_engine(mut self, engine: EngineKind) -> Workload {
        self.matrix.engines = vec![engine];
        self
    }
}

/// Leaves `count` of the items, evenly spaced, the first and the last among them.
fn thin<T: Copy>(items: &mut Vec<T>, count: usize) {
    let last = items.len().saturating_sub(1);
    if last >= count {
        *items = (0..count).map(|index| items[index * last / (count - 1)]).collect();
    }
}

#[cfg(test)]
mod tests;
