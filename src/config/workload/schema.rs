//! The JSON Schema of a workload file, so that editors complete and check it while it is written.
//!
//! Holds no rule of its own: choices and defaults are the reader's tables, and the tests below hold
//! its keys and bounds to what [`super::raw`] accepts. What two keys must be to each other is beyond
//! a schema; the reader says that.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::{defaults, units};
use crate::types::{
    AlterPartitionPolicy, Compat, DurabilityMode, EngineKind, FetchPipeline, HwmGate, IsrExpand,
    IsrWait, ServeFollowers, UncleanRecovery,
};

use super::Retry;
use super::fault::WORDS;
use super::raw::{COMMIT_ROUTES, ENGINES, RECORD_BYTES_MIN, durability_modes};

/// A key of a table, what it means, and what its value may be.
type Key = (&'static str, &'static str, Value);

/// The schema, as draft 7: the latest that all TOML editors know.
pub fn json_schema() -> Value {
    let name = json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$",
        "description": "Names the result folder.",
    });
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "ackmark workload",
        "description": "A cluster, a load, and a matrix of what is varied.",
        "required": ["name"],
    });
    let top = [
        ("name", "Names the result folder.", name),
        ("cluster", "The cluster each cell runs on.", table(cluster())),
        ("load", "How load is made.", table(load())),
        ("matrix", "What is varied: a cell for each combination.", table(matrix())),
        ("flush", "The thresholds of durability page-cache-flush.", table(flush())),
        ("election", "The rules by which the controller elects leaders.", table(election())),
        ("fault", "What is to go wrong during each cell's measured part.", faults()),
    ];
    if let (Value::Object(schema), Value::Object(table)) = (&mut schema, table(top)) {
        schema.extend(table);
    }
    schema
}

fn cluster() -> [Key; 26] {
    let memory = |default| size(1 << 20..=1 << 36, default);
    [
        (
            "controllers",
            "Controller processes that replicate the metadata log.",
            json!({ "enum": [1, 3], "default": defaults::CONTROLLERS }),
        ),
        ("brokers", "Broker processes.", count(1..=64, defaults::BROKERS)),
        (
            "replication_factor",
            "Replicas of each partition; at most brokers.",
            count(1..=64, defaults::REPLICATION_FACTOR),
        ),
        (
            "min_isr",
            "min.insync.replicas; at most replication_factor.",
            count(1..=64, defaults::MIN_ISR),
        ),
        (
            "unclean_recovery",
            "unclean.recovery.strategy; Proactive sets unclean.leader.election.enable too, which is \
             all that counts below elr_level 2.",
            choice(&UncleanRecovery::ALL, UncleanRecovery::Balanced),
        ),
        (
            "engine",
            "The brokers' event loop; to compare both, use matrix.engine.",
            choice(&ENGINES, defaults::ENGINE.name()),
        ),
        ("shards", "Event loops per broker.", count(1..=defaults::SHARDS_MAX, defaults::SHARDS)),
        ("pin", "Whether broker threads are pinned to CPUs.", flag(defaults::PIN)),
        (
            "segment_bytes",
            "Size of a log segment; at least message_bytes_max.",
            size(1 << 20..=1 << 30, defaults::SEGMENT_BYTES),
        ),
        (
            "memory_bytes",
            "Recent batches kept in memory per partition.",
            memory(defaults::MEMORY_BYTES),
        ),
        (
            "message_bytes_max",
            "max.message.bytes: the largest record batch.",
            size(1 << 10..=64 << 20, defaults::MESSAGE_BYTES_MAX),
        ),
        (
            "undurable_bytes_max",
            "Appended, not yet durable bytes per shard before producers are no longer read from.",
            memory(defaults::UNDURABLE_BYTES_MAX),
        ),
        ("commit_route", "How a commit group reaches the disk.", choice(&COMMIT_ROUTES, "by-mode")),
        (
            "commit_pipeline_depth",
            "Commit groups in flight per partition.",
            count(1..=64, defaults::COMMIT_PIPELINE_DEPTH),
        ),
        (
            "replica_lag_time_max",
            "replica.lag.time.max.ms.",
            above_zero(defaults::REPLICA_LAG_TIME_MAX),
        ),
        (
            "replica_fetch_wait_max",
            "replica.fetch.wait.max.ms.",
            above_zero(defaults::REPLICA_FETCH_WAIT_MAX),
        ),
        (
            "replica_fetch_backoff",
            "replica.fetch.backoff.ms.",
            above_zero(defaults::REPLICA_FETCH_BACKOFF),
        ),
        (
            "replica_fetch_bytes_max",
            "replica.fetch.max.bytes, per partition.",
            size(1 << 10..=1 << 30, defaults::REPLICA_FETCH_BYTES_MAX),
        ),
        (
            "heartbeat_interval",
            "broker.heartbeat.interval.ms; shorter than session_timeout.",
            above_zero(defaults::HEARTBEAT_INTERVAL),
        ),
        ("session_timeout", "broker.session.timeout.ms.", above_zero(defaults::SESSION_TIMEOUT)),
        (
            "metadata_append_linger",
            "How long the controller lets metadata records wait for company.",
            duration(defaults::METADATA_APPEND_LINGER),
        ),
        (
            "alter_partition_single_flight",
            "Whether a broker waits for the answer to one AlterPartition before the next.",
            flag(AlterPartitionPolicy::default().single_flight),
        ),
        (
            "alter_partition_batched",
            "Whether ISR changes of several partitions share an AlterPartition.",
            flag(AlterPartitionPolicy::default().batched),
        ),
        (
            "commit_delay",
            "Injected before each commit of the controller; to compare several, use \
             matrix.commit_delay.",
            duration(defaults::COMMIT_DELAY),
        ),
        (
            "fetch_pipeline",
            "When a follower fetches again: once what the last fetch brought is durable, or at once.",
            choice(&FetchPipeline::ALL, defaults::FETCH_PIPELINE.name()),
        ),
        (
            "serve_followers",
            "Whether the leader serves an append to followers before or after its own sync.",
            choice(&ServeFollowers::ALL, defaults::SERVE_FOLLOWERS.name()),
        ),
    ]
}

fn load() -> [Key; 14] {
    [
        (
            "mode",
            "open: by a schedule that waits for nobody; closed: the next record when the one \
             before was answered; max: every window kept full.",
            names(&["open", "closed", "max"], "open"),
        ),
        (
            "arrival",
            "Gaps between the records of an open loop.",
            names(&["uniform", "poisson"], "uniform"),
        ),
        ("warmup", "Load before measuring starts; at most duration.", duration(defaults::WARMUP)),
        (
            "duration",
            "Measured time per cell and repeat; at most 24h.",
            above_zero(defaults::DURATION),
        ),
        (
            "saturation_probe",
            "Measured time of each probe of the search for the saturation.",
            above_zero(defaults::SATURATION_PROBE),
        ),
        ("repeats", "Times the matrix is run, interleaved.", count(1..=1000, defaults::REPEATS)),
        ("seed", "Seed of payloads and arrivals.", count(0..=i64::MAX as u64, defaults::SEED)),
        ("connections", "Producer connections per leader.", count(1..=1024, defaults::CONNECTIONS)),
        (
            "in_flight_max",
            "Unanswered produce requests per connection.",
            count(1..=65_536, defaults::IN_FLIGHT_MAX),
        ),
        (
            "batch_bytes",
            "Largest record batch; at most cluster.message_bytes_max.",
            size(128..=64 << 20, defaults::BATCH_BYTES),
        ),
        ("linger", "How long a record waits for company in its batch.", duration(defaults::LINGER)),
        (
            "compressibility",
            "Share of each payload that compresses away.",
            json!({
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": defaults::COMPRESSIBILITY,
            }),
        ),
        (
            "retry",
            "What is sent again of what failed; if-refused is the default where there are faults.",
            choice(&Retry::ALL, Retry::Never.name()),
        ),
        (
            "request_timeout",
            "How long a produce request waits for its answer.",
            above_zero(defaults::REQUEST_TIMEOUT),
        ),
    ]
}

fn matrix() -> [Key; 13] {
    let engines = choice(&ENGINES, EngineKind::Uring.name());
    let modes = durability_modes(defaults::FLUSH);
    let record_bytes_max = 64 << 20;
    [
        ("engine", "The brokers' event loops.", list(engines)),
        (
            "durability",
            "What an acknowledgement promises.",
            list(choice(&modes, DurabilityMode::PageCache.name())),
        ),
        (
            "hwm_gate",
            "Whether the high watermark waits for min ISR as KIP-966 asks, and for which ISR.",
            list(choice(&HwmGate::ALL, HwmGate::Kip966.name())),
        ),
        (
            "isr_wait",
            "Whether an ISR change waits for the controller's answer.",
            list(choice(&IsrWait::ALL, IsrWait::Controller.name())),
        ),
        (
            "isr_expand",
            "Which followers may rejoin the ISR; by default as election.compat and \
             election.elr_level have it.",
            list(choice(&IsrExpand::ALL, defaults::isr_expand(&defaults::ELECTION).name())),
        ),
        (
            "fetch_pipeline",
            "As cluster.fetch_pipeline, varied.",
            list(choice(&FetchPipeline::ALL, defaults::FETCH_PIPELINE.name())),
        ),
        (
            "serve_followers",
            "As cluster.serve_followers, varied.",
            list(choice(&ServeFollowers::ALL, defaults::SERVE_FOLLOWERS.name())),
        ),
        (
            "commit_pipeline_depth",
            "As cluster.commit_pipeline_depth, varied.",
            list(count(1..=64, defaults::COMMIT_PIPELINE_DEPTH)),
        ),
        (
            "commit_delay",
            "As cluster.commit_delay, varied.",
            list(duration(defaults::COMMIT_DELAY)),
        ),
        (
            "partitions",
            "Partitions of the cell's topic.",
            list(count(1..=10_000, defaults::PARTITIONS)),
        ),
        (
            "record_bytes",
            "Value size of a record; must fit into cluster.message_bytes_max.",
            list(size(RECORD_BYTES_MIN..=record_bytes_max, defaults::RECORD_BYTES)),
        ),
        (
            "rate",
            "Records per second over all partitions, such as \"500/s\" or \"2k/s\", or a share of \
             the highest rate that is sustained, such as \"80%\"; open loop only.",
            list(json!({
                "type": "string",
                "pattern": "^0*([1-9][0-9]*[kMG]?/s|([1-9][0-9]?|1[0-9][0-9]|200)%)$",
                "default": format!("{}/s", defaults::RATE_PER_S),
            })),
        ),
        (
            "acks",
            "What the producer waits for.",
            list(json!({ "enum": [0, 1, "0", "1", "all"], "default": "all" })),
        ),
    ]
}

fn flush() -> [Key; 2] {
    [
        (
            "messages",
            "A sync after so many messages.",
            count(1..=i64::MAX as u64, defaults::FLUSH_MESSAGES),
        ),
        ("interval", "A sync after this long.", above_zero(defaults::FLUSH_INTERVAL)),
    ]
}

fn election() -> [Key; 3] {
    let default = defaults::ELECTION;
    [
        ("compat", "KIP-966 or Kafka 4.2.", choice(&Compat::ALL, default.compat.name())),
        (
            "elr_level",
            "eligible.leader.replicas.version; at most 1 under kafka-4.2.",
            count(
                0..=default.elr_level.unsigned_abs().into(),
                default.elr_level.unsigned_abs().into(),
            ),
        ),
        (
            "unclean_recovery_manager",
            "Whether a leader is sought in the logs of all replicas where no electable one is left.",
            flag(default.unclean_recovery_manager),
        ),
    ]
}

/// None of a fault's keys has a default.
fn faults() -> Value {
    let length = |shortest: fn(Duration) -> Value| {
        let mut schema = shortest(Duration::ZERO);
        if let Value::Object(schema) = &mut schema {
            schema.remove("default");
        }
        schema
    };
    let kinds = WORDS.map(|(name, _)| name);
    let mut fault = table([
        ("kind", "What goes wrong.", json!({ "type": "string", "enum": kinds })),
        (
            "target",
            "A node: broker-1, leader, follower, any-broker, controller-100, active-controller, \
             standby-controller. For cut and delay a link: \"A -> B\" or \"A <-> B\", where one may \
             be all; for cut-heartbeats one from a broker to a controller.",
            json!({ "type": "string" }),
        ),
        ("at", "The first time, from the begin of the measured part.", length(duration)),
        ("every", "From one time to the next; longer than for.", length(above_zero)),
        ("for", "How long it lasts; without it until the load is over.", length(above_zero)),
        ("by", "How much slower, for delay and slow-sync.", length(above_zero)),
        (
            "to",
            "The topic's min.insync.replicas meanwhile, for min-isr; at most the replication factor.",
            json!({ "type": "integer", "minimum": 1, "maximum": 64 }),
        ),
    ]);
    if let Value::Object(fault) = &mut fault {
        fault.insert("required".to_owned(), json!(["kind", "target", "at"]));
    }
    json!({ "type": "array", "items": fault })
}

fn flag(default: bool) -> Value {
    json!({ "type": "boolean", "default": default })
}

fn table<const N: usize>(keys: [Key; N]) -> Value {
    let describe = |(key, meaning, mut value): Key| {
        if let Value::Object(value) = &mut value {
            value.insert("description".to_owned(), meaning.into());
        }
        (key.to_owned(), value)
    };
    let properties: Map<String, Value> = keys.into_iter().map(describe).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn list(item: Value) -> Value {
    json!({ "type": "array", "minItems": 1, "uniqueItems": true, "items": item })
}

fn count(range: RangeInclusive<u64>, default: u64) -> Value {
    json!({
        "type": "integer",
        "minimum": range.start(),
        "maximum": range.end(),
        "default": default,
    })
}

/// A plain number of bytes, or text with a unit. Only of the first can a schema check the range.
fn size(range: RangeInclusive<u64>, default: u64) -> Value {
    json!({
        "anyOf": [
            { "type": "integer", "minimum": range.start(), "maximum": range.end() },
            { "type": "string", "pattern": "^[0-9]+(k|M|G|Ki|Mi|Gi)?B?$" },
        ],
        "default": units::show_size(default),
    })
}

fn duration(default: Duration) -> Value {
    let units = ["h", "m", "s", "ms", "us", "ns"].map(|unit| format!("([0-9]+{unit})?")).concat();
    json!({
        "type": "string",
        "minLength": 2,
        "pattern": format!("^{units}$"),
        "default": units::show_duration(default),
    })
}

/// A duration with a digit that is not zero.
fn above_zero(default: Duration) -> Value {
    let mut schema = duration(default);
    if let Value::Object(schema) = &mut schema {
        schema.insert("allOf".to_owned(), json!([{ "pattern": "[1-9]" }]));
    }
    schema
}

fn choice<T>(table: &[(&str, T)], default: impl Display) -> Value {
    let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    self::names(&names, default)
}

fn names(names: &[&str], default: impl Display) -> Value {
    json!({ "type": "string", "enum": names, "default": default.to_string() })
}

#[cfg(test)]
mod tests;
