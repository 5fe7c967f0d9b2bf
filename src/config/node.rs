//! Configuration of one controller or broker process, as meant: every value present and checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::types::{
    AlterPartitionPolicy, BrokerId, CommitRoute, Compat, DurabilityMode, EngineKind, FetchPipeline,
    ServeFollowers,
};

/// How a broker's logs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// What an acknowledgement promises.
    pub durability: DurabilityMode,
    /// How a commit group reaches the disk.
    pub commit_route: CommitRoute,
    /// Commit groups in flight per partition; at least 1.
    pub commit_pipeline_depth: usize,
    /// Segment size; a segment is rolled before it would grow past this.
    pub segment_bytes: u64,
    /// Recent batches kept in memory per partition for followers and consumers.
    pub memory_bytes: usize,
    /// Largest batch accepted (Kafka `max.message.bytes`).
    pub message_bytes_max: usize,
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    /// `node.id`.
    pub node_id: BrokerId,
    /// Must be the controller's.
    pub cluster_id: String,
    /// Where to listen; port 0 picks one. Every address of the machine only with `advertised`.
    pub listen: SocketAddr,
    /// `advertised.listeners`: where clients and followers are told to connect; `listen` if `None`.
    pub advertised: Option<SocketAddr>,
    /// Holds the partitions' directories.
    pub data_dir: PathBuf,
    /// The controllers' addresses, at least one; whichever is active is found by asking.
    pub controllers: Vec<SocketAddr>,
    /// Where to serve metrics over HTTP, if anywhere; port 0 picks one.
    pub metrics_listen: Option<SocketAddr>,
    /// Where to append what happens to ISRs, if anywhere: one JSON object a line. Best outside
    /// `data_dir`.
    pub events_file: Option<PathBuf>,
    /// Which event loop.
    pub engine: EngineKind,
    /// Event loops, one thread each; at least 1.
    pub shards: usize,
    /// Pin shard *i* to the *i*-th CPU of the process's set; refused when shards exceed CPUs.
    pub pin: bool,
    /// How logs are kept.
    pub log: LogConfig,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_time_max: Duration,
    /// `replica.fetch.wait.max.ms`.
    pub replica_fetch_wait_max: Duration,
    /// `replica.fetch.backoff.ms`.
    pub replica_fetch_backoff: Duration,
    /// `replica.fetch.max.bytes` per partition.
    pub replica_fetch_bytes_max: usize,
    /// `replica.fetch.pipeline`: when the next fetch leaves.
    pub replica_fetch_pipeline: FetchPipeline,
    /// `replica.serve.followers`: from when on this broker serves an append to its followers.
    pub replica_serve_followers: ServeFollowers,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: usize,
    /// `connections.max.idle.ms`, applied to half-received frames.
    pub half_frame_idle_max: Duration,
    /// Unanswered requests per connection before reading pauses.
    pub in_flight_requests_max: usize,
    /// Bytes of appends not yet durable per shard before producers are no longer read from.
    pub undurable_bytes_max: usize,
    /// Whether lines on standard input make its disk fail (the harness's tool; see
    /// `node::broker`).
    pub fault_control: bool,
    /// How ISR proposals are sent.
    pub alter_partition: AlterPartitionPolicy,
}

/// The controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// `node.id`.
    pub node_id: BrokerId,
    /// Shared by all nodes of the cluster.
    pub cluster_id: String,
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// Holds the metadata log.
    pub data_dir: PathBuf,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `metadata.append.linger`: records wait this long for company before the append.
    pub metadata_append_linger: Duration,
    /// `commit.delay`: each batch of records is held this long before it is proposed to the quorum,
    /// as if every commit took so much longer. For experiments.
    pub commit_delay: Duration,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: usize,
    /// `controller.quorum.voters`: all of them, this one included. Empty if it is the only one.
    pub voters: Vec<(BrokerId, SocketAddr)>,
    /// `controller.quorum.election.timeout.ms`: a voter that heard from no leader for once to twice
    /// this long, after twice this long in which the last leader must not be replaced, stands itself.
    pub election_timeout: Duration,
    /// A snapshot replaces the entries of the metadata log each time it grew by so many.
    pub snapshot_interval_entries: u64,
    /// Where to serve metrics over HTTP, if anywhere; port 0 picks one.
    pub metrics_listen: Option<SocketAddr>,
    /// How leaders are elected and recovered.
    pub election: ElectionConfig,
}

/// Which rules of elections and recovery a controller follows
/// ([`super::defaults::ELECTION`]: all of KIP-966).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// `compat`: the KIP's text, or what Kafka 4.2 does, where the two differ.
    pub compat: Compat,
    /// Level at which a new metadata log starts `eligible.leader.replicas.version`: 0 as before the
    /// KIP, 1 the ELR and the last leader (all that `kafka-4.2` has), 2 every last known ELR
    /// member and recovery from their logs. An existing log keeps its level.
    pub elr_level: i16,
    /// `unclean.recovery.manager.enabled`; read at level 2 only. Off: an unclean election takes the
    /// first live replica without looking at its log.
    pub unclean_recovery_manager: bool,
}
