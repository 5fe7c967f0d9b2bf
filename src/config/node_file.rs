//! A node's own TOML file, both ways: read by `ackmark broker` and `ackmark controller`, written by
//! the harness for its children.
//!
//! `data_dir` is relative to the file's folder, so a folder whose name is not UTF-8 still works.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::defaults;
use super::election::RawElection;
use super::node::{BrokerConfig, ControllerConfig, LogConfig};
use super::read::{ConfigError, Field, Source, text_of, whole};
use super::units::{self, Scalar};
use super::workload::{ENGINES, durability_modes};
use crate::types::{
    AlterPartitionPolicy, BrokerId, CommitRoute, DurabilityMode, FetchPipeline, Flush,
    ServeFollowers,
};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawBroker {
    node_id: Field,
    cluster_id: Field,
    listen: Field,
    advertised: Field,
    data_dir: Field,
    controllers: Field,
    metrics_listen: Field,
    events_file: Field,
    engine: Field,
    shards: Field,
    pin: Field,
    heartbeat_interval: Field,
    request_bytes_max: Field,
    half_frame_idle_max: Field,
    in_flight_requests_max: Field,
    undurable_bytes_max: Field,
    fault_control: Field,
    alter_partition_single_flight: Field,
    alter_partition_batched: Field,
    #[serde(default)]
    log: RawLog,
    #[serde(default)]
    replica: RawReplica,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLog {
    durability: Field,
    flush_messages: Field,
    flush_interval: Field,
    commit_route: Field,
    commit_pipeline_depth: Field,
    segment_bytes: Field,
    memory_bytes: Field,
    message_bytes_max: Field,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields)]
struct RawReplica {
    lag_time_max: Field,
    fetch_wait_max: Field,
    fetch_backoff: Field,
    fetch_bytes_max: Field,
    fetch_pipeline: Field,
    serve_followers: Field,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawController {
    node_id: Field,
    cluster_id: Field,
    listen: Field,
    data_dir: Field,
    session_timeout: Field,
    metadata_append_linger: Field,
    commit_delay: Field,
    request_bytes_max: Field,
    voters: Field,
    election_timeout: Field,
    snapshot_interval_entries: Field,
    metrics_listen: Field,
    #[serde(default)]
    election: RawElection,
}

const COMMIT_ROUTES: [(&str, CommitRoute); 5] = [
    ("async", CommitRoute::Async),
    ("async-dsync", CommitRoute::AsyncDsync),
    ("linked-fsync", CommitRoute::LinkedFsync),
    ("blocking-helper", CommitRoute::BlockingHelper),
    ("inline", CommitRoute::Inline),
];

impl BrokerConfig {
    /// Reads a broker's file.
    ///
    /// # Errors
    /// [`ConfigError`]: unreadable, not TOML, an unknown key, a value that is not allowed.
    pub fn from_file(file: &Path) -> Result<BrokerConfig, ConfigError> {
        BrokerConfig::from_text(file, &text_of(file)?)
    }

    /// As [`BrokerConfig::from_file`] for text in memory.
    ///
    /// # Errors
    /// As [`BrokerConfig::from_file`], but for reading.
    pub fn from_text(file: &Path, text: &str) -> Result<BrokerConfig, ConfigError> {
        let source = Source::new(file, text);
        let raw: RawBroker = source.raw()?;
        let advertised =
            source.or("advertised", &raw.advertised, None, |value| reachable(value).map(Some))?;
        let listen = if advertised.is_some() { address } else { advertisable };
        Ok(BrokerConfig {
            node_id: node_id(&source, &raw.node_id)?,
            cluster_id: source.needed("cluster_id", &raw.cluster_id, units::text)?,
            listen: source.needed("listen", &raw.listen, listen)?,
            advertised,
            data_dir: data_dir(&source, file, &raw.data_dir)?,
            controllers: source.needed("controllers", &raw.controllers, addresses)?,
            metrics_listen: optional_address(&source, "metrics_listen", &raw.metrics_listen)?,
            events_file: events_file(&source, file, &raw.events_file)?,
            engine: source.or("engine", &raw.engine, defaults::ENGINE, units::choice(&ENGINES))?,
            shards: source.count(
                "shards",
                &raw.shards,
                defaults::SHARDS,
                1..=defaults::SHARDS_MAX,
            )?,
            pin: source.or("pin", &raw.pin, defaults::PIN, units::flag)?,
            log: log(&source, &raw.log)?,
            heartbeat_interval: source.duration(
                "heartbeat_interval",
                &raw.heartbeat_interval,
                defaults::HEARTBEAT_INTERVAL,
            )?,
            replica_lag_time_max: source.duration(
                "replica.lag_time_max",
                &raw.replica.lag_time_max,
                defaults::REPLICA_LAG_TIME_MAX,
            )?,
            replica_fetch_wait_max: source.duration(
                "replica.fetch_wait_max",
                &raw.replica.fetch_wait_max,
                defaults::REPLICA_FETCH_WAIT_MAX,
            )?,
            replica_fetch_backoff: source.duration(
                "replica.fetch_backoff",
                &raw.replica.fetch_backoff,
                defaults::REPLICA_FETCH_BACKOFF,
            )?,
            replica_fetch_bytes_max: whole(source.bytes(
                "replica.fetch_bytes_max",
                &raw.replica.fetch_bytes_max,
                defaults::REPLICA_FETCH_BYTES_MAX,
                1 << 10..=1 << 30,
            )?),
            replica_fetch_pipeline: source.or(
                "replica.fetch_pipeline",
                &raw.replica.fetch_pipeline,
                defaults::FETCH_PIPELINE,
                units::choice(&FetchPipeline::ALL),
            )?,
            replica_serve_followers: source.or(
                "replica.serve_followers",
                &raw.replica.serve_followers,
                defaults::SERVE_FOLLOWERS,
                units::choice(&ServeFollowers::ALL),
            )?,
            request_bytes_max: request_bytes_max(&source, &raw.request_bytes_max)?,
            half_frame_idle_max: source.duration(
                "half_frame_idle_max",
                &raw.half_frame_idle_max,
                defaults::HALF_FRAME_IDLE_MAX,
            )?,
            in_flight_requests_max: source.count(
                "in_flight_requests_max",
                &raw.in_flight_requests_max,
                defaults::IN_FLIGHT_REQUESTS_MAX,
                1..=1 << 20,
            )?,
            undurable_bytes_max: whole(source.bytes(
                "undurable_bytes_max",
                &raw.undurable_bytes_max,
                defaults::UNDURABLE_BYTES_MAX,
                1 << 20..=1 << 36,
            )?),
            fault_control: source.or("fault_control", &raw.fault_control, false, units::flag)?,
            alter_partition: alter_partition(
                &source,
                "",
                [&raw.alter_partition_single_flight, &raw.alter_partition_batched],
            )?,
        })
    }

    /// The file that reads back as this configuration, with every value spelled out.
    ///
    /// # Errors
    /// [`ConfigError::Unwritable`] when the data directory's path is not UTF-8; give a relative one.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        let raw = RawBroker {
            node_id: integer(self.node_id.0),
            cluster_id: text(&self.cluster_id),
            listen: text(self.listen),
            advertised: self.advertised.and_then(text),
            data_dir: path(&self.data_dir)?,
            controllers: text(join(&self.controllers)),
            metrics_listen: self.metrics_listen.and_then(text),
            events_file: self.events_file.as_deref().map(path).transpose()?.flatten(),
            engine: text(self.engine.name()),
            shards: integer(self.shards as i64),
            pin: flag(self.pin),
            heartbeat_interval: text(units::show_duration(self.heartbeat_interval)),
            request_bytes_max: text(units::show_size(self.request_bytes_max as u64)),
            half_frame_idle_max: text(units::show_duration(self.half_frame_idle_max)),
            in_flight_requests_max: integer(self.in_flight_requests_max as i64),
            undurable_bytes_max: text(units::show_size(self.undurable_bytes_max as u64)),
            fault_control: self.fault_control.then(|| written(Scalar::Boolean(true))).flatten(),
            alter_partition_single_flight: flag(self.alter_partition.single_flight),
            alter_partition_batched: flag(self.alter_partition.batched),
            log: raw_log(&self.log),
            replica: RawReplica {
                lag_time_max: text(units::show_duration(self.replica_lag_time_max)),
                fetch_wait_max: text(units::show_duration(self.replica_fetch_wait_max)),
                fetch_backoff: text(units::show_duration(self.replica_fetch_backoff)),
                fetch_bytes_max: text(units::show_size(self.replica_fetch_bytes_max as u64)),
                fetch_pipeline: text(self.replica_fetch_pipeline.name()),
                serve_followers: text(self.replica_serve_followers.name()),
            },
        };
        to_toml(&raw)
    }
}

impl ControllerConfig {
    /// Reads a controller's file.
    ///
    /// # Errors
    /// [`ConfigError`]: unreadable, not TOML, an unknown key, a value that is not allowed.
    pub fn from_file(file: &Path) -> Result<ControllerConfig, ConfigError> {
        ControllerConfig::from_text(file, &text_of(file)?)
    }

    /// As [`ControllerConfig::from_file`] for text in memory.
    ///
    /// # Errors
    /// As [`ControllerConfig::from_file`], but for reading.
    pub fn from_text(file: &Path, text: &str) -> Result<ControllerConfig, ConfigError> {
        let source = Source::new(file, text);
        let raw: RawController = source.raw()?;
        let node_id = node_id(&source, &raw.node_id)?;
        Ok(ControllerConfig {
            node_id,
            cluster_id: source.needed("cluster_id", &raw.cluster_id, units::text)?,
            listen: source.needed("listen", &raw.listen, address)?,
            data_dir: data_dir(&source, file, &raw.data_dir)?,
            session_timeout: source.duration(
                "session_timeout",
                &raw.session_timeout,
                defaults::SESSION_TIMEOUT,
            )?,
            metadata_append_linger: source.or(
                "metadata_append_linger",
                &raw.metadata_append_linger,
                defaults::METADATA_APPEND_LINGER,
                units::duration,
            )?,
            commit_delay: source.or(
                "commit_delay",
                &raw.commit_delay,
                defaults::COMMIT_DELAY,
                units::duration,
            )?,
            request_bytes_max: request_bytes_max(&source, &raw.request_bytes_max)?,
            voters: source.or("voters", &raw.voters, Vec::new(), voters(node_id))?,
            election_timeout: source.duration(
                "election_timeout",
                &raw.election_timeout,
                defaults::ELECTION_TIMEOUT,
            )?,
            snapshot_interval_entries: source.or(
                "snapshot_interval_entries",
                &raw.snapshot_interval_entries,
                defaults::SNAPSHOT_INTERVAL_ENTRIES,
                units::count(2..=1 << 32),
            )?,
            metrics_listen: optional_address(&source, "metrics_listen", &raw.metrics_listen)?,
            election: raw.election.checked(&source)?,
        })
    }

    /// The file that reads back as this configuration, with every value spelled out.
    ///
    /// # Errors
    /// [`ConfigError::Unwritable`] when the data directory's path is not UTF-8; give a relative one.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        let voters: Vec<String> =
            self.voters.iter().map(|(id, address)| format!("{id}@{address}")).collect();
        let raw = RawController {
            node_id: integer(self.node_id.0),
            cluster_id: text(&self.cluster_id),
            listen: text(self.listen),
            data_dir: path(&self.data_dir)?,
            session_timeout: text(units::show_duration(self.session_timeout)),
            metadata_append_linger: text(units::show_duration(self.metadata_append_linger)),
            commit_delay: text(units::show_duration(self.commit_delay)),
            request_bytes_max: text(units::show_size(self.request_bytes_max as u64)),
            voters: (!voters.is_empty()).then(|| text(voters.join(","))).flatten(),
            election_timeout: text(units::show_duration(self.election_timeout)),
            snapshot_interval_entries: integer(
                i64::try_from(self.snapshot_interval_entries).unwrap_or(i64::MAX),
            ),
            metrics_listen: self.metrics_listen.and_then(text),
            election: RawElection::of(&self.election),
        };
        to_toml(&raw)
    }
}

/// `alter_partition_single_flight` and `alter_partition_batched`, in the table that `prefix` names.
pub(super) fn alter_partition(
    source: &Source<'_>,
    prefix: &str,
    [single_flight, batched]: [&Field; 2],
) -> Result<AlterPartitionPolicy, ConfigError> {
    let default = AlterPartitionPolicy::default();
    let flag = |name: &str, field, default| {
        source.or(&format!("{prefix}alter_partition_{name}"), field, default, units::flag)
    };
    Ok(AlterPartitionPolicy {
        single_flight: flag("single_flight", single_flight, default.single_flight)?,
        batched: flag("batched", batched, default.batched)?,
    })
}

fn log(source: &Source<'_>, raw: &RawLog) -> Result<LogConfig, ConfigError> {
    let flush = Flush {
        messages: source.or(
            "log.flush_messages",
            &raw.flush_messages,
            defaults::FLUSH_MESSAGES,
            units::count(1..=i64::MAX as u64),
        )?,
        interval: source.duration(
            "log.flush_interval",
            &raw.flush_interval,
            defaults::FLUSH_INTERVAL,
        )?,
    };
    let modes = durability_modes(flush);
    let durability = source.needed("log.durability", &raw.durability, units::choice(&modes))?;
    Ok(LogConfig {
        durability,
        commit_route: source.or(
            "log.commit_route",
            &raw.commit_route,
            defaults::commit_route(durability),
            units::choice(&COMMIT_ROUTES),
        )?,
        commit_pipeline_depth: source.count(
            "log.commit_pipeline_depth",
            &raw.commit_pipeline_depth,
            defaults::COMMIT_PIPELINE_DEPTH,
            1..=64,
        )?,
        segment_bytes: source.bytes(
            "log.segment_bytes",
            &raw.segment_bytes,
            defaults::SEGMENT_BYTES,
            1 << 20..=1 << 30,
        )?,
        memory_bytes: whole(source.bytes(
            "log.memory_bytes",
            &raw.memory_bytes,
            defaults::MEMORY_BYTES,
            1 << 20..=1 << 36,
        )?),
        message_bytes_max: whole(source.bytes(
            "log.message_bytes_max",
            &raw.message_bytes_max,
            defaults::MESSAGE_BYTES_MAX,
            1 << 10..=64 << 20,
        )?),
    })
}

fn raw_log(log: &LogConfig) -> RawLog {
    let (flush_messages, flush_interval) = match log.durability {
        DurabilityMode::PageCacheFlush(flush) => (
            integer(i64::try_from(flush.messages).unwrap_or(i64::MAX)),
            text(units::show_duration(flush.interval)),
        ),
        _ => (None, None),
    };
    RawLog {
        durability: text(log.durability.name()),
        flush_messages,
        flush_interval,
        commit_route: text(log.commit_route.name()),
        commit_pipeline_depth: integer(log.commit_pipeline_depth as i64),
        segment_bytes: text(units::show_size(log.segment_bytes)),
        memory_bytes: text(units::show_size(log.memory_bytes as u64)),
        message_bytes_max: text(units::show_size(log.message_bytes_max as u64)),
    }
}

fn node_id(source: &Source<'_>, field: &Field) -> Result<BrokerId, ConfigError> {
    let id = source.needed("node_id", field, units::count(0..=i32::MAX as u64))?;
    Ok(BrokerId(i32::try_from(id).unwrap_or(i32::MAX)))
}

fn request_bytes_max(source: &Source<'_>, field: &Field) -> Result<usize, ConfigError> {
    let range = 1 << 10..=i32::MAX as u64;
    source.bytes("request_bytes_max", field, defaults::REQUEST_BYTES_MAX, range).map(whole)
}

fn data_dir(
    source: &Source<'_>,
    file: &Path,
    field: &Field,
) -> Result<std::path::PathBuf, ConfigError> {
    let written = source.needed("data_dir", field, units::text)?;
    Ok(file.parent().unwrap_or(Path::new("")).join(written))
}

/// Relative to the file's folder, as `data_dir` is.
fn events_file(
    source: &Source<'_>,
    file: &Path,
    field: &Field,
) -> Result<Option<PathBuf>, ConfigError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    source.or("events_file", field, None, |value| Ok(Some(folder.join(units::text(value)?))))
}

fn address(value: &Scalar) -> Result<SocketAddr, String> {
    let problem = "must be an IP address and a port, such as \"127.0.0.1:9092\"";
    units::text(value)?.parse().map_err(|_| problem.to_owned())
}

/// An address that others can be told to connect to.
fn reachable(value: &Scalar) -> Result<SocketAddr, String> {
    let address = address(value)?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err("must be an address and a port that others connect to, such as \
                    \"192.0.2.1:9092\""
            .to_owned());
    }
    Ok(address)
}

/// An address to listen on that is told to clients too.
fn advertisable(value: &Scalar) -> Result<SocketAddr, String> {
    let address = address(value)?;
    if address.ip().is_unspecified() {
        return Err("clients and followers cannot be told to connect to every address of a \
                    machine: also set advertised to the one they reach it at, such as \
                    advertised = \"192.0.2.1:9092\""
            .to_owned());
    }
    Ok(address)
}

/// One address or several with commas between.
fn addresses(value: &Scalar) -> Result<Vec<SocketAddr>, String> {
    let problem =
        "must be addresses with commas between, such as \"127.0.0.1:9093,127.0.0.1:9094\"";
    let text = units::text(value)?;
    text.split(',').map(|one| one.trim().parse().map_err(|_| problem.to_owned())).collect()
}

fn join(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    addresses.join(",")
}

/// `id@address` with commas between, as Kafka has it: one or three of them, `own` among them.
fn voters(own: BrokerId) -> impl Fn(&Scalar) -> Result<Vec<(BrokerId, SocketAddr)>, String> {
    let problem = "must be one or three voters, this node among them, such as \
                   \"100@127.0.0.1:9093,101@127.0.0.1:9094,102@127.0.0.1:9095\"";
    move |value| {
        let voter = |text: &str| {
            let (id, address) = text.trim().split_once('@')?;
            let id = id.parse().ok().filter(|&id: &i32| id >= 0)?;
            Some((BrokerId(id), address.parse().ok()?))
        };
        let text = units::text(value)?;
        let voters: Option<Vec<(BrokerId, SocketAddr)>> = text.split(',').map(voter).collect();
        let mut ids: Vec<BrokerId> = voters.iter().flatten().map(|&(id, _)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        let is_quorum = matches!(ids.len(), 1 | 3) && ids.contains(&own);
        voters.filter(|voters| is_quorum && voters.len() == ids.len()).ok_or(problem.to_owned())
    }
}

fn optional_address(
    source: &Source<'_>,
    key: &str,
    field: &Field,
) -> Result<Option<SocketAddr>, ConfigError> {
    source.or(key, field, None, |value| address(value).map(Some))
}

fn to_toml(raw: &impl Serialize) -> Result<String, ConfigError> {
    toml::to_string(raw).map_err(|error| ConfigError::Unwritable {
        key: "node file".to_owned(),
        value: error.to_string(),
        problem: "cannot be written as TOML".to_owned(),
    })
}

fn path(path: &Path) -> Result<Field, ConfigError> {
    let utf8 = path.to_str().ok_or_else(|| ConfigError::Unwritable {
        key: "data_dir".to_owned(),
        value: path.display().to_string(),
        problem: "is not UTF-8; name it relative to the file's folder".to_owned(),
    })?;
    Ok(text(utf8))
}

fn written(value: Scalar) -> Field {
    Some(Spanned::new(0..0, value))
}

pub(super) fn flag(value: bool) -> Field {
    written(Scalar::Boolean(value))
}

pub(super) fn text(value: impl Display) -> Field {
    written(Scalar::Text(value.to_string()))
}

pub(super) fn integer(value: impl Into<i64>) -> Field {
    written(Scalar::Integer(value.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn broker() -> BrokerConfig {
        let text = r#"
            node_id = 1
            cluster_id = "c"
            listen = "127.0.0.1:0"
            advertised = "127.0.0.2:9092"
            data_dir = "broker-1"
            controllers = "127.0.0.1:9093"
            alter_partition_batched = false
            events_file = "events.jsonl"
            [log]
            durability = "page-cache-flush"
            flush_messages = 7
            flush_interval = "1m30s"
        "#;
        BrokerConfig::from_text(Path::new("/run/broker.toml"), text).expect("a good file")
    }

    #[test]
    fn a_broker_file_reads_back_as_it_was_written() {
        let broker = broker();
        assert_eq!(broker.data_dir, Path::new("/run/broker-1"));
        assert_eq!(broker.events_file.as_deref(), Some(Path::new("/run/events.jsonl")));
        let flush = Flush { messages: 7, interval: Duration::from_secs(90) };
        assert_eq!(broker.log.durability, DurabilityMode::PageCacheFlush(flush));
        assert_eq!(broker.engine, crate::types::EngineKind::Uring);
        let policy = AlterPartitionPolicy { single_flight: true, batched: false };
        assert_eq!(broker.alter_partition, policy);

        let text = broker.to_toml().expect("an UTF-8 path");
        let again = BrokerConfig::from_text(Path::new("/run/broker.toml"), &text);
        assert_eq!(again.expect("what was written"), broker);
    }

    #[test]
    fn a_controller_file_reads_back_as_it_was_written() {
        let text =
            "node_id = 100\ncluster_id = \"c\"\nlisten = \"[::1]:9093\"\ndata_dir = \"/d\"\n";
        let file = Path::new("/run/controller.toml");
        let controller = ControllerConfig::from_text(file, text).expect("a good file");
        assert_eq!(controller.session_timeout, Duration::from_secs(9));
        let text = controller.to_toml().expect("an UTF-8 path");
        let again = ControllerConfig::from_text(file, &text);
        assert_eq!(again.expect("what was written"), controller);
        assert_eq!(controller.election, defaults::ELECTION);
    }

    #[test]
    fn errors_name_place_key_value_and_what_is_allowed() {
        let text = "node_id = 1\ncluster_id = \"c\"\nlisten = \"localhost\"\n";
        let error = BrokerConfig::from_text(Path::new("b.toml"), text).expect_err("a bad address");
        assert_eq!(
            error.to_string(),
            "b.toml:3:10: listen = \"localhost\": must be an IP address and a port, such as \
             \"127.0.0.1:9092\""
        );
    }

    #[test]
    fn an_address_that_nobody_can_connect_to_is_not_advertised() {
        let read = |listen: &str, more: &str| {
            let text = format!(
                "node_id = 1\ncluster_id = \"c\"\nlisten = \"{listen}\"\n{more}data_dir = \"d\"\n\
                 controllers = \"127.0.0.1:1\"\n[log]\ndurability = \"page-cache\"\n"
            );
            BrokerConfig::from_text(Path::new("/run/b.toml"), &text)
        };
        for everywhere in ["0.0.0.0:9092", "[::]:9092"] {
            let said = read(everywhere, "").expect_err("no address to tell").to_string();
            let place = format!("/run/b.toml:3:10: listen = \"{everywhere}\": ");
            assert!(said.starts_with(&place) && said.contains("set advertised"), "{said}");
            read(everywhere, "advertised = \"127.0.0.2:9092\"\n").expect("one that can be told");
        }
        for nowhere in ["0.0.0.0:9092", "[::]:9092", "127.0.0.1:0"] {
            let advertised = format!("advertised = \"{nowhere}\"\n");
            let said = read("127.0.0.1:9092", &advertised).expect_err(nowhere).to_string();
            assert!(said.contains("advertised") && said.contains("others connect to"), "{said}");
        }
    }

    #[test]
    fn a_quorum_is_written_as_kafka_writes_it() {
        let read = |voters: &str| {
            let text = format!(
                "node_id = 100\ncluster_id = \"c\"\nlisten = \"127.0.0.1:1\"\n\
                 data_dir = \"d\"\nvoters = \"{voters}\"\n"
            );
            ControllerConfig::from_text(Path::new("/run/controller.toml"), &text)
        };
        let three = "100@127.0.0.1:1, 101@127.0.0.1:2,102@[::1]:3";
        let controller = read(three).expect("three voters");
        let ids: Vec<i32> = controller.voters.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [100, 101, 102]);
        let again = controller.to_toml().expect("an UTF-8 path");
        let again = ControllerConfig::from_text(Path::new("/run/controller.toml"), &again);
        assert_eq!(again.expect("what was written"), controller);

        for bad in [
            "",
            "100",
            "100@x",
            "101@127.0.0.1:1",
            "100@127.0.0.1:1,101@127.0.0.1:2",
            "100@127.0.0.1:1,100@127.0.0.1:2,101@127.0.0.1:3",
            "-1@127.0.0.1:1",
        ] {
            let error = read(bad).expect_err(bad).to_string();
            assert!(error.contains("voters") && error.contains("one or three"), "{error}");
        }
    }
}
