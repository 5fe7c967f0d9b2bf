//! Every default, once. Where Kafka has the setting, Kafka's value, so that figures compare; where
//! it does not, the reason is given.

use std::time::Duration;

use super::node::ElectionConfig;
use crate::types::{
    CommitRoute, Compat, DurabilityMode, EngineKind, FetchPipeline, Flush, IsrExpand,
    ServeFollowers,
};

/// Controllers of an embedded cluster: one has all of the controller path but the replication of its
/// log, and leaves the CPUs to the brokers.
pub const CONTROLLERS: usize = 1;
/// Brokers of an embedded cluster.
pub const BROKERS: u64 = 3;
/// Replicas of each partition.
pub const REPLICATION_FACTOR: u64 = 3;
/// `min.insync.replicas`: Kafka's own default is 1, its documentation's advice for RF 3 is 2.
pub const MIN_ISR: u64 = 2;
/// The event loop.
pub const ENGINE: EngineKind = EngineKind::Uring;
/// Event loops per broker: several brokers share a host here, so one each.
pub const SHARDS: u64 = 1;
/// Shards at most: a shard's number is one byte of every part of a request.
pub const SHARDS_MAX: u64 = 256;
/// Unpinned: with more parties than cores, pinning raises latency (spec/io.md section 3).
pub const PIN: bool = false;
/// Segment size. Kafka's 1 GiB would have to be zero-filled before a short cell could use it.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Recent batches kept in memory per partition: seconds of a modest rate, bounded under overload.
pub const MEMORY_BYTES: u64 = 32 << 20;
/// `max.message.bytes`.
pub const MESSAGE_BYTES_MAX: u64 = 1_048_588;
/// `socket.request.max.bytes`.
pub const REQUEST_BYTES_MAX: u64 = 104_857_600;
/// Commit groups in flight per partition: one, so that whatever arrives meanwhile is the next group.
pub const COMMIT_PIPELINE_DEPTH: u64 = 1;
/// `broker.heartbeat.interval.ms`.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// `broker.session.timeout.ms`.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(9);
/// `replica.lag.time.max.ms`.
pub const REPLICA_LAG_TIME_MAX: Duration = Duration::from_secs(30);
/// `replica.fetch.wait.max.ms`.
pub const REPLICA_FETCH_WAIT_MAX: Duration = Duration::from_millis(500);
/// `replica.fetch.backoff.ms`.
pub const REPLICA_FETCH_BACKOFF: Duration = Duration::from_secs(1);
/// `replica.fetch.max.bytes`.
pub const REPLICA_FETCH_BYTES_MAX: u64 = 1_048_576;
/// `replica.fetch.pipeline`: as Kafka, which fetches again once the last answer is appended.
pub const FETCH_PIPELINE: FetchPipeline = FetchPipeline::Classic;
/// `replica.serve.followers`: as Kafka, which never waits for a sync of its own.
pub const SERVE_FOLLOWERS: ServeFollowers = ServeFollowers::BeforeSync;
/// `metadata.append.linger`: zero (Kafka waits 25 ms), so that the rest of an ISR change shows.
pub const METADATA_APPEND_LINGER: Duration = Duration::ZERO;
/// `commit.delay`: nothing is injected.
pub const COMMIT_DELAY: Duration = Duration::ZERO;
/// `controller.quorum.election.timeout.ms`.
pub const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Entries of the metadata log between snapshots. They are kept in memory: at a few hundred bytes
/// each, some megabytes. Kafka counts bytes, 20 MiB.
pub const SNAPSHOT_INTERVAL_ENTRIES: u64 = 10_000;
/// KIP-966 whole, which is what this product measures: its text where Kafka 4.2 departs from it,
/// `eligible.leader.replicas.version` 2 (Kafka 4.2 has 1), and the unclean recovery manager.
pub const ELECTION: ElectionConfig =
    ElectionConfig { compat: Compat::Kip, elr_level: 2, unclean_recovery_manager: true };
/// Highest `eligible.leader.replicas.version` under `compat = "kafka-4.2"`, and its default there.
pub const ELR_LEVEL_KAFKA_42: i16 = 1;
/// A frame that stops half-way closes its connection after this (`connections.max.idle.ms`
/// scaled down: nothing idles inside a frame for ten minutes).
pub const HALF_FRAME_IDLE_MAX: Duration = Duration::from_secs(30);
/// Unanswered requests per connection before reading pauses.
pub const IN_FLIGHT_REQUESTS_MAX: u64 = 1_024;
/// Appended, not yet durable bytes per shard before producers are no longer read from.
pub const UNDURABLE_BYTES_MAX: u64 = 64 << 20;
/// `node.id` of the first controller in an embedded cluster; brokers count from 1.
pub const CONTROLLER_NODE_ID: i32 = 100;

/// `flush.messages` of `page-cache-flush`: at 2000 records/s a sync each 50 ms, so that p50 shows
/// the page cache and p99 the sync.
pub const FLUSH_MESSAGES: u64 = 100;
/// `flush.ms` of `page-cache-flush`.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Load before measuring starts.
pub const WARMUP: Duration = Duration::from_millis(500);
/// Measured time per cell and repeat.
pub const DURATION: Duration = Duration::from_secs(5);
/// Measured time of each probe of the saturation search: an overload of 3 % leaves the cluster
/// 60 ms behind, which is told from a slow sync.
pub const SATURATION_PROBE: Duration = Duration::from_secs(2);
/// Times the matrix is run, interleaved.
pub const REPEATS: u64 = 2;
/// Seed of payloads and arrivals.
pub const SEED: u64 = 1;
/// Producer connections per leader.
pub const CONNECTIONS: u64 = 1;
/// Unanswered produce requests per connection. Kafka's 5 would turn an open loop into a closed one.
pub const IN_FLIGHT_MAX: u64 = 256;
/// `batch.size`.
pub const BATCH_BYTES: u64 = 16_384;
/// `linger.ms`: zero, to keep the client's own wait out of the latency.
pub const LINGER: Duration = Duration::ZERO;
/// Share of each payload that compresses away: none, so that no layer can shrink the writes (M35).
pub const COMPRESSIBILITY: f64 = 0.0;
/// `request.timeout.ms` of a producer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Records per second where the workload names no rate.
pub const RATE_PER_S: u64 = 1_000;
/// Value size of a record.
pub const RECORD_BYTES: u64 = 1_024;
/// Partitions of a cell's topic.
pub const PARTITIONS: u64 = 1;

/// How often a repeated fault comes at most under `--quick`.
pub const QUICK_FAULTS: u32 = 3;
/// Measured time per cell under `--quick`.
pub const QUICK_DURATION: Duration = Duration::from_millis(700);
/// Warm-up per cell under `--quick`.
pub const QUICK_WARMUP: Duration = Duration::from_millis(200);
/// Warm-up and measured time under `--quick` where rates are shares of a saturation.
pub const QUICK_SHARE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_millis(300));
/// Shares left by `--quick`: enough for a knee.
pub const QUICK_SHARES: usize = 4;

/// The `page-cache-flush` thresholds.
pub const FLUSH: Flush = Flush { messages: FLUSH_MESSAGES, interval: FLUSH_INTERVAL };

/// The commit routes a mode allows, the default first.
///
/// Buffered modes never go asynchronously by default: buffered io_uring writes on ext4 always go to
/// a worker thread, and a blocking sync on the helper measured faster (spec/io.md finding 3,
/// section 3).
pub fn commit_routes(durability: DurabilityMode) -> &'static [CommitRoute] {
    use CommitRoute::{Async, AsyncDsync, BlockingHelper, Inline, LinkedFsync};
    match durability {
        DurabilityMode::PageCache => &[Inline],
        DurabilityMode::PageCacheFlush(_) | DurabilityMode::Fsync => {
            &[BlockingHelper, LinkedFsync, Inline]
        }
        DurabilityMode::Direct => &[Async, BlockingHelper, Inline],
        DurabilityMode::DirectFsync => &[LinkedFsync, BlockingHelper, Inline],
        DurabilityMode::DirectDsync => &[AsyncDsync, BlockingHelper, Inline],
    }
}

/// `isr.expand` of a workload that names none: what the controller gives a topic that sets none.
pub fn isr_expand(election: &ElectionConfig) -> IsrExpand {
    match election.compat {
        Compat::Kip if election.elr_level > 0 => IsrExpand::CaughtUp,
        Compat::Kip | Compat::Kafka42 => IsrExpand::Kafka,
    }
}

/// How a commit group reaches the disk unless `commit.route` says otherwise.
pub fn commit_route(durability: DurabilityMode) -> CommitRoute {
    commit_routes(durability)[0]
}
