//! What was asked for, in the schema's words: the workload with every default, a cell's factors and
//! its name.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::cells::Cell as Planned;
use crate::config::units::{show_duration, show_size};
use crate::config::workload::{Fault, Pacing, Workload};
use crate::types::Acks;

use super::schema;

/// The workload as it goes into the result: by the file's own keys, every default spelled out.
pub fn workload(workload: &Workload) -> schema::Workload {
    let object = |value: Value| match value {
        Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    let (cluster, load, matrix) = (&workload.cluster, &workload.load, &workload.matrix);
    let mode = matrix.pacings.first().map_or("open", |pacing| pacing.mode_name());
    let arrival = matrix.pacings.iter().find_map(Pacing::arrival).map(|arrival| arrival.name());
    let rates: Vec<u64> = matrix.pacings.iter().filter_map(Pacing::rate_per_s).collect();
    let shares: Vec<u32> = matrix.pacings.iter().filter_map(percent).collect();
    let slowdown = load.injected_slowdown;
    let injected = (slowdown > 0.0).then(|| ("injected_slowdown".to_owned(), json!(slowdown)));
    schema::Workload {
        name: workload.name.clone(),
        cluster: object(json!({
            "controllers": cluster.controllers,
            "brokers": cluster.brokers,
            "replication_factor": cluster.replication_factor,
            "min_isr": cluster.min_isr,
            "unclean_recovery": cluster.unclean_recovery.name(),
            "shards": cluster.shards,
            "pin": cluster.pin,
            "segment_bytes": cluster.segment_bytes,
            "memory_bytes": cluster.memory_bytes,
            "message_bytes_max": cluster.message_bytes_max,
            "undurable_bytes_max": cluster.undurable_bytes_max,
            "commit_route": cluster.commit_route.name(),
            "replica_lag_time_max": show_duration(cluster.replica_lag_time_max),
            "replica_fetch_wait_max": show_duration(cluster.replica_fetch_wait_max),
            "replica_fetch_backoff": show_duration(cluster.replica_fetch_backoff),
            "replica_fetch_bytes_max": show_size(cluster.replica_fetch_bytes_max as u64),
            "heartbeat_interval": show_duration(cluster.heartbeat_interval),
            "session_timeout": show_duration(cluster.session_timeout),
            "metadata_append_linger": show_duration(cluster.metadata_append_linger),
            "alter_partition_single_flight": cluster.alter_partition.single_flight,
            "alter_partition_batched": cluster.alter_partition.batched,
        })),
        election: object(json!({
            "compat": cluster.election.compat.name(),
            "elr_level": cluster.election.elr_level,
            "unclean_recovery_manager": cluster.election.unclean_recovery_manager,
        })),
        load: object(json!({
            "mode": mode,
            "arrival": arrival,
            "warmup": show_duration(load.warmup),
            "duration": show_duration(load.duration),
            "saturation_probe": show_duration(load.saturation_probe),
            "repeats": load.repeats,
            "seed": load.seed,
            "connections": load.connections,
            "in_flight_max": load.in_flight_max,
            "batch_bytes": load.batch_bytes,
            "linger": show_duration(load.linger),
            "compressibility": load.compressibility,
            "retry": load.retry.name(),
            "request_timeout": show_duration(load.request_timeout),
        }))
        .into_iter()
        .chain(injected)
        .collect(),
        matrix: object(json!({
            "engine": names(&matrix.engines, |engine| engine.name()),
            "durability": names(&matrix.durabilities, |mode| mode.name()),
            "fetch_pipeline": names(&matrix.fetch_pipelines, |pipeline| pipeline.name()),
            "serve_followers": names(&matrix.serve_followers, |serve| serve.name()),
            "commit_pipeline_depth": matrix.commit_pipeline_depths,
            "commit_delay": matrix.commit_delays.iter().copied().map(show_duration)
                .collect::<Vec<_>>(),
            "hwm_gate": names(&matrix.hwm_gates, |gate| gate.name()),
            "isr_wait": names(&matrix.isr_waits, |wait| wait.name()),
            "isr_expand": names(&matrix.isr_expands, |expand| expand.name()),
            "partitions": matrix.partitions,
            "record_bytes": matrix.record_bytes,
            "rate_per_s": rates,
            "rate_percent": shares,
            "acks": matrix.acks.iter().map(Acks::to_string).collect::<Vec<_>>(),
        })),
        flush: object(json!({
            "messages": matrix.flush.messages,
            "interval": show_duration(matrix.flush.interval),
        })),
        fault: workload.faults.iter().map(|one| object(fault(one))).collect(),
    }
}

fn fault(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind.name(),
        "target": fault.target.to_string(),
        "at": show_duration(fault.at),
        "every": fault.every.map(show_duration),
        "for": fault.lasts.map(show_duration),
        "by": fault.kind.by().map(show_duration),
        "to": fault.kind.to(),
    })
}

fn names<T>(values: &[T], name: impl Fn(&T) -> &'static str) -> Vec<&'static str> {
    values.iter().map(name).collect()
}

/// The share of the saturation asked for, if it was one.
fn percent(pacing: &Pacing) -> Option<u32> {
    match pacing {
        Pacing::Share { percent, .. } => Some(*percent),
        Pacing::Open { .. } | Pacing::Closed | Pacing::Max => None,
    }
}

/// acks and durability always; of the other factors those that vary.
pub fn cell_name(workload: &Workload, cell: &Planned) -> String {
    let name = mode_name(workload, cell);
    let rate = match (percent(&cell.pacing), cell.pacing.rate_per_s()) {
        (Some(percent), _) => format!("{percent}%"),
        (None, Some(rate)) => format!("{rate}/s"),
        (None, None) => return name,
    };
    if workload.matrix.pacings.len() > 1 { format!("{name} {rate}") } else { name }
}

/// A cell's name without its rate.
pub(super) fn mode_name(workload: &Workload, cell: &Planned) -> String {
    let matrix = &workload.matrix;
    let mut name = format!("acks={} {}", cell.acks, cell.durability);
    let mut vary = |varies: bool, text: String| {
        if varies {
            name.push(' ');
            name.push_str(&text);
        }
    };
    vary(matrix.engines.len() > 1, cell.engine.name().to_owned());
    let cluster = &cell.cluster;
    let pipeline = cluster.fetch_pipeline.name();
    vary(matrix.fetch_pipelines.len() > 1, format!("fetch.pipeline={pipeline}"));
    let serve = cluster.serve_followers.name();
    vary(matrix.serve_followers.len() > 1, format!("serve.followers={serve}"));
    let depth = cluster.commit_pipeline_depth;
    vary(matrix.commit_pipeline_depths.len() > 1, format!("commit.pipeline.depth={depth}"));
    let delay = show_duration(cluster.commit_delay);
    vary(matrix.commit_delays.len() > 1, format!("commit.delay={delay}"));
    vary(matrix.hwm_gates.len() > 1, format!("hwm.gate={}", cell.hwm_gate.name()));
    vary(matrix.isr_waits.len() > 1, format!("isr.wait={}", cell.isr_wait.name()));
    vary(matrix.isr_expands.len() > 1, format!("isr.expand={}", cell.isr_expand.name()));
    vary(matrix.partitions.len() > 1, format!("partitions={}", cell.partitions));
    vary(matrix.record_bytes.len() > 1, show_size(cell.record_bytes as u64));
    name
}

/// All factors of a cell, by name.
pub(super) fn factors(workload: &Workload, cell: &Planned) -> schema::Factors {
    schema::Factors {
        acks: cell.acks.to_string(),
        durability: cell.durability.name().to_owned(),
        engine: cell.engine.name().to_owned(),
        load_mode: cell.pacing.mode_name().to_owned(),
        rate_per_s: cell.pacing.rate_per_s(),
        rate_percent: percent(&cell.pacing),
        record_bytes: cell.record_bytes,
        partitions: cell.partitions,
        hwm_gate: cell.hwm_gate.name().to_owned(),
        isr_wait: cell.isr_wait.name().to_owned(),
        isr_expand: cell.isr_expand.name().to_owned(),
        fetch_pipeline: cell.cluster.fetch_pipeline.name().to_owned(),
        serve_followers: cell.cluster.serve_followers.name().to_owned(),
        commit_pipeline_depth: cell.cluster.commit_pipeline_depth,
        commit_delay: show_duration(cell.cluster.commit_delay),
        commit_route: workload.cluster.commit_route.under(cell.durability).name().to_owned(),
    }
}
