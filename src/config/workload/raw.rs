//! A workload as typed, and the checks that give it its meaning.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::config::election::RawElection;
use crate::config::node_file::alter_partition;
use crate::config::read::{ConfigError, Field, List, Source, whole};
use crate::config::units::Scalar;
use crate::config::{defaults, units};
use crate::types::{
    Acks, CommitRoute, DurabilityMode, EngineKind, FetchPipeline, Flush, HwmGate, IsrExpand,
    IsrWait, ServeFollowers, UncleanRecovery,
};

use super::fault::{self, RawFault};
use super::{Arrival, Cluster, CommitRouteChoice, Load, Matrix, Pacing, Retry, Workload};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Field,
    #[serde(default)]
    cluster: RawCluster,
    #[serde(default)]
    election: RawElection,
    #[serde(default)]
    load: RawLoad,
    #[serde(default)]
    matrix: RawMatrix,
    #[serde(default)]
    flush: RawFlush,
    #[serde(default)]
    fault: Vec<Spanned<RawFault>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawCluster {
    controllers: Field,
    brokers: Field,
    replication_factor: Field,
    min_isr: Field,
    unclean_recovery: Field,
    engine: Field,
    shards: Field,
    pin: Field,
    segment_bytes: Field,
    memory_bytes: Field,
    message_bytes_max: Field,
    undurable_bytes_max: Field,
    commit_route: Field,
    commit_pipeline_depth: Field,
    replica_lag_time_max: Field,
    replica_fetch_wait_max: Field,
    replica_fetch_backoff: Field,
    replica_fetch_bytes_max: Field,
    heartbeat_interval: Field,
    session_timeout: Field,
    metadata_append_linger: Field,
    alter_partition_single_flight: Field,
    alter_partition_batched: Field,
    commit_delay: Field,
    fetch_pipeline: Field,
    serve_followers: Field,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLoad {
    mode: Field,
    arrival: Field,
    warmup: Field,
    duration: Field,
    saturation_probe: Field,
    repeats: Field,
    seed: Field,
    connections: Field,
    in_flight_max: Field,
    batch_bytes: Field,
    linger: Field,
    compressibility: Field,
    retry: Field,
    request_timeout: Field,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawMatrix {
    engine: List,
    durability: List,
    hwm_gate: List,
    isr_wait: List,
    isr_expand: List,
    fetch_pipeline: List,
    serve_followers: List,
    commit_pipeline_depth: List,
    commit_delay: List,
    partitions: List,
    record_bytes: List,
    rate: List,
    acks: List,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawFlush {
    messages: Field,
    interval: Field,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Open,
    Closed,
    Max,
}

/// Longest measured time: a day, so that sums of times stay far from overflow.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

pub(super) fn read(file: &Path, text: &str) -> Result<Workload, ConfigError> {
    let source = Source::new(file, text);
    let raw: RawWorkload = source.raw()?;
    let name = source.needed("name", &raw.name, folder_name)?;
    let cluster = cluster(&source, &raw)?;
    let load = load(&source, &raw.load, !raw.fault.is_empty())?;
    if load.batch_bytes > cluster.message_bytes_max {
        let problem =
            format!("must be at most cluster.message_bytes_max, {}", cluster.message_bytes_max);
        let batch_bytes = ("load.batch_bytes", &raw.load.batch_bytes);
        let shown = units::show_size(load.batch_bytes as u64);
        return Err(source.clash(batch_bytes, shown, problem, message_limit(&raw.cluster)));
    }
    let matrix = matrix(&source, &raw, &cluster)?;
    if matrix.pacings.contains(&Pacing::Closed) && matrix.acks.contains(&Acks::None) {
        let problem =
            "must not list 0 when load.mode = \"closed\": a closed loop waits for answers";
        let listed = raw.matrix.acks.iter().flat_map(toml::Spanned::get_ref);
        let is_zero =
            |value: &&toml::Spanned<Scalar>| units::choice(&[("0", ())])(value.get_ref()).is_ok();
        let span = listed.clone().find(is_zero).map_or(0..0, toml::Spanned::span);
        return Err(source.refused("matrix.acks", span, 0, problem));
    }
    let is_share = |pacing: &Pacing| matches!(pacing, Pacing::Share { .. });
    if matrix.pacings.iter().any(is_share) && matrix.acks.contains(&Acks::None) {
        let problem = "must not list 0 when matrix.rate lists shares of the saturation: without \
                       answers nothing tells what was sustained";
        let span = raw.matrix.acks.as_ref().map_or(0..0, toml::Spanned::span);
        return Err(source.refused("matrix.acks", span, "[…]", problem));
    }
    check_routes(&source, &raw.cluster, &cluster, &matrix)?;
    let faults = fault::faults(&source, &raw.fault, &cluster, &load)?;
    Ok(Workload { name, cluster, load, matrix, faults })
}

/// One route for all modes must be one that each of them allows.
fn check_routes(
    source: &Source<'_>,
    raw: &RawCluster,
    cluster: &Cluster,
    matrix: &Matrix,
) -> Result<(), ConfigError> {
    let CommitRouteChoice::Fixed(route) = cluster.commit_route else { return Ok(()) };
    let Some(written) = &raw.commit_route else { return Ok(()) };
    for mode in &matrix.durabilities {
        let allowed = defaults::commit_routes(*mode);
        if !allowed.contains(&route) {
            let names: Vec<&str> = allowed.iter().map(|route| route.name()).collect();
            let problem = format!("durability {mode} takes {} or by-mode", names.join(", "));
            let (key, value) = ("cluster.commit_route", written.get_ref());
            return Err(source.refused(key, written.span(), value, problem));
        }
    }
    Ok(())
}

fn folder_name(value: &Scalar) -> Result<String, String> {
    let name = units::text(value)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 100 && name.chars().all(allowed) && !name.starts_with('.')
    {
        return Ok(name);
    }
    Err("must be 1 to 100 letters, digits, - _ or ., not starting with .: it names a folder"
        .to_owned())
}

fn cluster(source: &Source<'_>, workload: &RawWorkload) -> Result<Cluster, ConfigError> {
    let raw = &workload.cluster;
    let (brokers, replication_factor, min_isr) = replication(source, raw)?;
    let (heartbeat_interval, session_timeout) = liveness(source, raw)?;
    let (segment_bytes, message_bytes_max) = segment(source, raw)?;
    let memory = |key, field, default| source.bytes(key, field, default, 1 << 20..=1 << 36);
    Ok(Cluster {
        controllers: source.or(
            "cluster.controllers",
            &raw.controllers,
            defaults::CONTROLLERS,
            controllers,
        )?,
        brokers,
        replication_factor,
        min_isr,
        unclean_recovery: source.or(
            "cluster.unclean_recovery",
            &raw.unclean_recovery,
            UncleanRecovery::Balanced,
            units::choice(&UncleanRecovery::ALL),
        )?,
        shards: source.count(
            "cluster.shards",
            &raw.shards,
            defaults::SHARDS,
            1..=defaults::SHARDS_MAX,
        )?,
        pin: source.or("cluster.pin", &raw.pin, defaults::PIN, units::flag)?,
        segment_bytes,
        message_bytes_max,
        memory_bytes: whole(memory(
            "cluster.memory_bytes",
            &raw.memory_bytes,
            defaults::MEMORY_BYTES,
        )?),
        undurable_bytes_max: whole(memory(
            "cluster.undurable_bytes_max",
            &raw.undurable_bytes_max,
            defaults::UNDURABLE_BYTES_MAX,
        )?),
        commit_route: source.or(
            "cluster.commit_route",
            &raw.commit_route,
            CommitRouteChoice::ByMode,
            units::choice(&COMMIT_ROUTES),
        )?,
        replica_lag_time_max: source.duration(
            "cluster.replica_lag_time_max",
            &raw.replica_lag_time_max,
            defaults::REPLICA_LAG_TIME_MAX,
        )?,
        replica_fetch_wait_max: source.duration(
            "cluster.replica_fetch_wait_max",
            &raw.replica_fetch_wait_max,
            defaults::REPLICA_FETCH_WAIT_MAX,
        )?,
        replica_fetch_backoff: source.duration(
            "cluster.replica_fetch_backoff",
            &raw.replica_fetch_backoff,
            defaults::REPLICA_FETCH_BACKOFF,
        )?,
        replica_fetch_bytes_max: whole(source.bytes(
            "cluster.replica_fetch_bytes_max",
            &raw.replica_fetch_bytes_max,
            defaults::REPLICA_FETCH_BYTES_MAX,
            1 << 10..=1 << 30,
        )?),
        heartbeat_interval,
        session_timeout,
        metadata_append_linger: source.or(
            "cluster.metadata_append_linger",
            &raw.metadata_append_linger,
            defaults::METADATA_APPEND_LINGER,
            units::duration,
        )?,
        alter_partition: alter_partition(
            source,
            "cluster.",
            [&raw.alter_partition_single_flight, &raw.alter_partition_batched],
        )?,
        election: workload.election.checked(source)?,
    })
}

/// A majority of two is both: a second voter would only add a way to stop.
fn controllers(value: &units::Scalar) -> Result<usize, String> {
    match units::count(1..=3)(value) {
        Ok(count) if count != 2 => Ok(whole(count)),
        Ok(_) | Err(_) => Err("must be 1 or 3".to_owned()),
    }
}

/// min ISR <= replication factor <= brokers.
fn replication(
    source: &Source<'_>,
    raw: &RawCluster,
) -> Result<(usize, usize, usize), ConfigError> {
    let brokers = source.count("cluster.brokers", &raw.brokers, defaults::BROKERS, 1..=64)?;
    let key = "cluster.replication_factor";
    let factor =
        source.count(key, &raw.replication_factor, defaults::REPLICATION_FACTOR, 1..=64)?;
    if factor > brokers {
        let problem = format!("must be at most cluster.brokers, which is {brokers}");
        let own = (key, &raw.replication_factor);
        return Err(source.clash(own, factor, problem, ("cluster.brokers", &raw.brokers)));
    }
    let key = "cluster.min_isr";
    let min_isr = source.count(key, &raw.min_isr, defaults::MIN_ISR, 1..=64)?;
    if min_isr > factor {
        let problem = format!("must be at most cluster.replication_factor, which is {factor}");
        let other = ("cluster.replication_factor", &raw.replication_factor);
        return Err(source.clash((key, &raw.min_isr), min_isr, problem, other));
    }
    Ok((brokers, factor, min_isr))
}

/// heartbeat interval < session timeout.
fn liveness(source: &Source<'_>, raw: &RawCluster) -> Result<(Duration, Duration), ConfigError> {
    let session = source.duration(
        "cluster.session_timeout",
        &raw.session_timeout,
        defaults::SESSION_TIMEOUT,
    )?;
    let key = "cluster.heartbeat_interval";
    let heartbeat = source.duration(key, &raw.heartbeat_interval, defaults::HEARTBEAT_INTERVAL)?;
    if heartbeat >= session {
        let problem = format!(
            "must be shorter than cluster.session_timeout, which is {}",
            units::show_duration(session)
        );
        let shown = units::show_duration(heartbeat);
        let other = ("cluster.session_timeout", &raw.session_timeout);
        return Err(source.clash((key, &raw.heartbeat_interval), shown, problem, other));
    }
    Ok((heartbeat, session))
}

fn message_limit(raw: &RawCluster) -> (&'static str, &Field) {
    ("cluster.message_bytes_max", &raw.message_bytes_max)
}

/// A segment holds at least one batch.
fn segment(source: &Source<'_>, raw: &RawCluster) -> Result<(u64, usize), ConfigError> {
    let message_bytes_max = source.bytes(
        "cluster.message_bytes_max",
        &raw.message_bytes_max,
        defaults::MESSAGE_BYTES_MAX,
        1 << 10..=64 << 20,
    )?;
    let key = "cluster.segment_bytes";
    let segment_bytes =
        source.bytes(key, &raw.segment_bytes, defaults::SEGMENT_BYTES, 1 << 20..=1 << 30)?;
    if segment_bytes < message_bytes_max {
        let problem =
            format!("must hold one batch of cluster.message_bytes_max, {message_bytes_max} bytes");
        let shown = units::show_size(segment_bytes);
        let own = (key, &raw.segment_bytes);
        return Err(source.clash(own, shown, problem, message_limit(raw)));
    }
    Ok((segment_bytes, whole(message_bytes_max)))
}

/// `has_faults`: failures are expected then, so what surely was not appended is sent again.
fn load(source: &Source<'_>, raw: &RawLoad, has_faults: bool) -> Result<Load, ConfigError> {
    let duration = source.or("load.duration", &raw.duration, defaults::DURATION, |value| {
        let duration = units::duration_above_zero(value)?;
        if duration <= DURATION_MAX { Ok(duration) } else { Err("must be at most 24h".to_owned()) }
    })?;
    let key = "load.warmup";
    let warmup = source.or(key, &raw.warmup, defaults::WARMUP.min(duration), units::duration)?;
    if warmup > duration {
        let problem = format!(
            "the warm-up is longer than the run; must be at most load.duration, which is {}",
            units::show_duration(duration)
        );
        let shown = units::show_duration(warmup);
        let other = ("load.duration", &raw.duration);
        return Err(source.clash((key, &raw.warmup), shown, problem, other));
    }
    Ok(Load {
        warmup,
        duration,
        saturation_probe: source.duration(
            "load.saturation_probe",
            &raw.saturation_probe,
            defaults::SATURATION_PROBE,
        )?,
        repeats: source.count("load.repeats", &raw.repeats, defaults::REPEATS, 1..=1000)?,
        seed: source.or(
            "load.seed",
            &raw.seed,
            defaults::SEED,
            units::count(0..=i64::MAX as u64),
        )?,
        connections: source.count(
            "load.connections",
            &raw.connections,
            defaults::CONNECTIONS,
            1..=1024,
        )?,
        in_flight_max: source.count(
            "load.in_flight_max",
            &raw.in_flight_max,
            defaults::IN_FLIGHT_MAX,
            1..=65_536,
        )?,
        batch_bytes: whole(source.bytes(
            "load.batch_bytes",
            &raw.batch_bytes,
            defaults::BATCH_BYTES,
            128..=64 << 20,
        )?),
        linger: source.or("load.linger", &raw.linger, defaults::LINGER, units::duration)?,
        compressibility: source.or(
            "load.compressibility",
            &raw.compressibility,
            defaults::COMPRESSIBILITY,
            units::ratio,
        )?,
        retry: source.or(
            "load.retry",
            &raw.retry,
            if has_faults { Retry::IfRefused } else { Retry::Never },
            units::choice(&Retry::ALL),
        )?,
        request_timeout: source.duration(
            "load.request_timeout",
            &raw.request_timeout,
            defaults::REQUEST_TIMEOUT,
        )?,
        injected_slowdown: 0.0,
    })
}

fn matrix(
    source: &Source<'_>,
    raw: &RawWorkload,
    cluster: &Cluster,
) -> Result<Matrix, ConfigError> {
    let flush = flush(source, &raw.flush)?;
    let default_record = Scalar::Integer(defaults::RECORD_BYTES as i64);
    if let (None, Err(allowed)) =
        (&raw.matrix.record_bytes, record_size(cluster.message_bytes_max)(&default_record))
    {
        let (own, other) = (("matrix.record_bytes", &None), message_limit(&raw.cluster));
        let shown = units::show_size(defaults::RECORD_BYTES);
        return Err(source.clash(own, shown, allowed, other));
    }
    let record_bytes = source.list_or(
        "matrix.record_bytes",
        &raw.matrix.record_bytes,
        vec![defaults::RECORD_BYTES],
        record_size(cluster.message_bytes_max),
    )?;
    let partitions = source.list_or(
        "matrix.partitions",
        &raw.matrix.partitions,
        vec![defaults::PARTITIONS],
        units::count(1..=10_000),
    )?;
    Ok(Matrix {
        engines: axis(
            source,
            ("engine", &raw.cluster.engine, &raw.matrix.engine),
            defaults::ENGINE,
            units::choice(&ENGINES),
        )?,
        durabilities: source.list_or(
            "matrix.durability",
            &raw.matrix.durability,
            vec![DurabilityMode::PageCache],
            units::choice(&durability_modes(flush)),
        )?,
        hwm_gates: source.list_or(
            "matrix.hwm_gate",
            &raw.matrix.hwm_gate,
            vec![HwmGate::Kip966],
            units::choice(&HwmGate::ALL),
        )?,
        isr_waits: source.list_or(
            "matrix.isr_wait",
            &raw.matrix.isr_wait,
            vec![IsrWait::Controller],
            units::choice(&IsrWait::ALL),
        )?,
        isr_expands: source.list_or(
            "matrix.isr_expand",
            &raw.matrix.isr_expand,
            vec![defaults::isr_expand(&cluster.election)],
            units::choice(&IsrExpand::ALL),
        )?,
        fetch_pipelines: axis(
            source,
            ("fetch_pipeline", &raw.cluster.fetch_pipeline, &raw.matrix.fetch_pipeline),
            defaults::FETCH_PIPELINE,
            units::choice(&FetchPipeline::ALL),
        )?,
        serve_followers: axis(
            source,
            ("serve_followers", &raw.cluster.serve_followers, &raw.matrix.serve_followers),
            defaults::SERVE_FOLLOWERS,
            units::choice(&ServeFollowers::ALL),
        )?,
        commit_pipeline_depths: commit_pipeline_depths(source, raw)?,
        commit_delays: axis(
            source,
            ("commit_delay", &raw.cluster.commit_delay, &raw.matrix.commit_delay),
            defaults::COMMIT_DELAY,
            units::duration,
        )?,
        partitions: partitions.into_iter().map(|count| count as u32).collect(),
        record_bytes: record_bytes.into_iter().map(whole).collect(),
        pacings: pacings(source, raw)?,
        acks: source.list_or(
            "matrix.acks",
            &raw.matrix.acks,
            vec![Acks::All],
            units::choice(&[("0", Acks::None), ("1", Acks::Leader), ("all", Acks::All)]),
        )?,
        flush,
    })
}

/// A value begins with 32 bytes by which a reader can tell that it is whole and where it belongs.
pub(super) const RECORD_BYTES_MIN: u64 = 32;

/// A record must fit into one batch: room for the batch header and the record's own framing is
/// kept free.
fn record_size(message_bytes_max: usize) -> impl Fn(&Scalar) -> Result<u64, String> {
    const BATCH_OVERHEAD_BYTES: usize = 128;
    units::size_in(RECORD_BYTES_MIN..=message_bytes_max.saturating_sub(BATCH_OVERHEAD_BYTES) as u64)
}

fn flush(source: &Source<'_>, raw: &RawFlush) -> Result<Flush, ConfigError> {
    Ok(Flush {
        messages: source.or(
            "flush.messages",
            &raw.messages,
            defaults::FLUSH_MESSAGES,
            units::count(1..=i64::MAX as u64),
        )?,
        interval: source.or(
            "flush.interval",
            &raw.interval,
            defaults::FLUSH_INTERVAL,
            units::duration_above_zero,
        )?,
    })
}

/// What a cluster is started with: one value under `cluster`, or several under `matrix`.
fn axis<T: Copy + PartialEq>(
    source: &Source<'_>,
    (key, one, several): (&str, &Field, &List),
    default: T,
    meaning: impl Fn(&units::Scalar) -> Result<T, String>,
) -> Result<Vec<T>, ConfigError> {
    let value = source.or(&format!("cluster.{key}"), one, default, &meaning)?;
    let matrix_key = format!("matrix.{key}");
    if let (Some(_), Some(list)) = (one, several) {
        let problem = format!("cluster.{key} is set too; keep one of the two");
        return Err(source.refused(&matrix_key, list.span(), "[…]", problem));
    }
    source.list_or(&matrix_key, several, vec![value], meaning)
}

fn commit_pipeline_depths(
    source: &Source<'_>,
    raw: &RawWorkload,
) -> Result<Vec<usize>, ConfigError> {
    let keys = &raw.cluster.commit_pipeline_depth;
    let keys = ("commit_pipeline_depth", keys, &raw.matrix.commit_pipeline_depth);
    let depths = axis(source, keys, defaults::COMMIT_PIPELINE_DEPTH, units::count(1..=64))?;
    Ok(depths.into_iter().map(whole).collect())
}

fn pacings(source: &Source<'_>, raw: &RawWorkload) -> Result<Vec<Pacing>, ConfigError> {
    let modes = [("open", Mode::Open), ("closed", Mode::Closed), ("max", Mode::Max)];
    let mode = source.or("load.mode", &raw.load.mode, Mode::Open, units::choice(&modes))?;
    let fixed = match mode {
        Mode::Open => {
            let arrivals = [("uniform", Arrival::Uniform), ("poisson", Arrival::Poisson)];
            let arrival = source.or(
                "load.arrival",
                &raw.load.arrival,
                Arrival::Uniform,
                units::choice(&arrivals),
            )?;
            let open = |rate_per_s| Pacing::Open { rate_per_s, arrival };
            let share = |percent| Pacing::Share { percent, saturation_per_s: None, arrival };
            let default = vec![open(defaults::RATE_PER_S)];
            return source.list_or("matrix.rate", &raw.matrix.rate, default, |value| {
                match units::share(value) {
                    Some(percent) => percent.map(share),
                    None => units::rate(value).map(open),
                }
            });
        }
        Mode::Closed => Pacing::Closed,
        Mode::Max => Pacing::Max,
    };
    let problem = format!("has no effect when load.mode = \"{}\"", fixed.mode_name());
    if let Some(list) = &raw.matrix.rate {
        return Err(source.refused("matrix.rate", list.span(), "[…]", problem));
    }
    if let Some(arrival) = &raw.load.arrival {
        return Err(source.refused("load.arrival", arrival.span(), arrival.get_ref(), problem));
    }
    Ok(vec![fixed])
}

pub(in crate::config) const ENGINES: [(&str, EngineKind); 2] =
    [("uring", EngineKind::Uring), ("glommio", EngineKind::Glommio)];

pub(super) const COMMIT_ROUTES: [(&str, CommitRouteChoice); 6] = [
    ("by-mode", CommitRouteChoice::ByMode),
    ("async", CommitRouteChoice::Fixed(CommitRoute::Async)),
    ("async-dsync", CommitRouteChoice::Fixed(CommitRoute::AsyncDsync)),
    ("linked-fsync", CommitRouteChoice::Fixed(CommitRoute::LinkedFsync)),
    ("blocking-helper", CommitRouteChoice::Fixed(CommitRoute::BlockingHelper)),
    ("inline", CommitRouteChoice::Fixed(CommitRoute::Inline)),
];

pub(in crate::config) fn durability_modes(flush: Flush) -> [(&'static str, DurabilityMode); 6] {
    [
        DurabilityMode::PageCache,
        DurabilityMode::PageCacheFlush(flush),
        DurabilityMode::Fsync,
        DurabilityMode::Direct,
        DurabilityMode::DirectFsync,
        DurabilityMode::DirectDsync,
    ]
    .map(|mode| (mode.name(), mode))
}
