//! A planned cell as the driver is told it, and the driver's outcome as results keep it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checker::verdict::{Promise, Verdict};
use crate::config::cells::Cell;
use crate::config::workload::{Arrival, Pacing, Retry as RetryChoice, Workload};
use crate::driver::load::LoadMode;
use crate::driver::outcome::{CellOutcome, Counts, FailureCount, Interval};
use crate::driver::schedule::{Arrivals, Rate, RateError};
use crate::driver::spec::{CellSpec, Retry};
use crate::measure::failover::{Failover, Interval as FailoverInterval};
use crate::results::measured::Measured;
use crate::results::schema;
use crate::types::{Acks, MonotonicTime, UncleanRecovery};

/// How long after the measured part answers are waited for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Creation of a topic until its ISRs are full; in the direct modes its segments are zero-filled.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30);

/// What the driver does for repeat `repeat` of `cell`.
///
/// # Errors
/// [`RateError`] for a rate that no checked workload holds.
pub fn spec(workload: &Workload, cell: &Cell, repeat: usize) -> Result<CellSpec, RateError> {
    let load = &workload.load;
    Ok(CellSpec {
        topic: topic(cell, repeat),
        partitions: cell.partitions,
        replication_factor: workload.cluster.replication_factor as i16,
        topic_configs: topic_configs(workload, cell),
        acks: cell.acks,
        load: load_mode(workload, cell.pacing)?,
        record_bytes: cell.record_bytes,
        batch_bytes: load.batch_bytes,
        linger: load.linger,
        in_flight_max: load.in_flight_max,
        connections: load.connections,
        compressible: load.compressibility,
        // Repeats must not send the same bytes twice: a deduplicating device would notice.
        seed: load.seed.wrapping_add(repeat as u64),
        warmup: load.warmup,
        duration: load.duration,
        drain_timeout: drain_timeout(workload),
        consume: true,
        keep_acknowledgements: false,
        keep_history: !workload.faults.is_empty(),
        retry: match load.retry {
            RetryChoice::Never => Retry::Never,
            RetryChoice::IfRefused => Retry::IfRefused,
            RetryChoice::UntilAcknowledged => Retry::UntilAcknowledged,
        },
        request_timeout: load.request_timeout,
        setup_timeout: SETUP_TIMEOUT,
        injected_slowdown: load.injected_slowdown,
    })
}

/// After faults, answers may have to wait for a session to run out and an election.
fn drain_timeout(workload: &Workload) -> Duration {
    match workload.faults.is_empty() {
        true => DRAIN_TIMEOUT,
        false => DRAIN_TIMEOUT + 2 * workload.cluster.session_timeout,
    }
}

/// What the driver does for the `number`th probe of the saturation search before `cell`.
///
/// # Errors
/// As [`spec`].
pub(super) fn probe_spec(
    workload: &Workload,
    cell: &Cell,
    pacing: Pacing,
    number: usize,
) -> Result<CellSpec, RateError> {
    let duration = workload.load.saturation_probe;
    let spec = spec(workload, &Cell { pacing, ..*cell }, 0)?;
    Ok(CellSpec {
        topic: format!("saturation-{}-{number}", cell.index),
        warmup: spec.warmup.min(duration),
        duration,
        ..spec
    })
}

/// The topic of repeat `repeat` of `cell`.
pub(super) fn topic(cell: &Cell, repeat: usize) -> String {
    format!("cell-{}-{repeat}", cell.index)
}

fn load_mode(workload: &Workload, pacing: Pacing) -> Result<LoadMode, RateError> {
    Ok(match pacing {
        Pacing::Open { arrival, .. } | Pacing::Share { arrival, .. } => LoadMode::OpenLoop {
            // A share of a saturation that is not known yet is no rate.
            rate: Rate::per_second(pacing.rate_per_s().unwrap_or(0) as f64)?,
            arrivals: match arrival {
                Arrival::Uniform => Arrivals::Uniform,
                Arrival::Poisson => Arrivals::Poisson,
            },
        },
        Pacing::Closed => LoadMode::ClosedLoop { in_flight: workload.load.connections },
        Pacing::Max => LoadMode::MaxThroughput,
    })
}

fn topic_configs(workload: &Workload, cell: &Cell) -> Vec<(String, String)> {
    // The older key is all that is read below the level that brings the strategies.
    let strategy = workload.cluster.unclean_recovery;
    let elects_uncleanly = strategy == UncleanRecovery::Proactive;
    [
        ("min.insync.replicas", workload.cluster.min_isr.to_string()),
        ("unclean.leader.election.enable", elects_uncleanly.to_string()),
        ("unclean.recovery.strategy", strategy.name().to_owned()),
        ("ackmark.hwm.gate", cell.hwm_gate.name().to_owned()),
        ("ackmark.isr.wait", cell.isr_wait.name().to_owned()),
        ("ackmark.isr.expand", cell.isr_expand.name().to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec()
}

/// Fewest flushes that acknowledge the batches of `counts` under a synced mode: one flush vouches for
/// no more batches than are in flight while it begins, however groups and the kernel merge syncs.
pub(super) fn flushes_needed(workload: &Workload, cell: &Cell, counts: &Counts) -> u64 {
    if cell.acks == Acks::None {
        return 0;
    }
    let load = &workload.load;
    let in_flight = workload.cluster.brokers * load.connections * load.in_flight_max;
    counts.batches_acknowledged.div_ceil(in_flight.max(1) as u64)
}

/// What surrounds a cell's outcome.
pub struct Surroundings {
    /// The processes at its end.
    pub nodes: Vec<schema::Node>,
    /// The device's counters over it.
    pub device: serde_json::Value,
    /// Why its syncs are not shown to reach the medium, if they are not.
    pub power_loss_doubt: Option<String>,
    /// Interference during it.
    pub contamination: serde_json::Value,
    /// Faults during it.
    pub events: Vec<schema::Event>,
    /// What followed each loss of the leader.
    pub failovers: Vec<Failover>,
    /// What the checker found.
    pub check: Option<schema::Check>,
}

/// The outcome of repeat `repeat`, for results.
pub fn measured(
    repeat: usize,
    duration: Duration,
    outcome: CellOutcome,
    surroundings: Surroundings,
) -> Measured {
    let zero = outcome.measured_from;
    Measured {
        repeat,
        cut_short: outcome.interrupted.then(|| "interrupted".to_owned()),
        measured_from_ns: Some(outcome.measured_from.0),
        ended_ns: Some(outcome.measured_from.plus(outcome.wall).0),
        spans: outcome.spans,
        isr_events: Vec::new(),
        measured_s: outcome.wall.min(duration).as_secs_f64(),
        achieved_per_s: outcome.achieved_records_per_s,
        counts: counts(&outcome.counts),
        errors: errors(&outcome.failures),
        acknowledged: outcome.acknowledged_latency.response,
        committed: outcome.committed_latency.response,
        consumed: outcome.consumed_latency.response,
        acknowledged_service: outcome.acknowledged_latency.service,
        schedule_lag: outcome.schedule_lag,
        failed: outcome.failed_latency,
        stages: outcome.stages,
        intervals: outcome.intervals.iter().map(interval).collect(),
        events: surroundings.events,
        failovers: surroundings.failovers.iter().map(|one| failover(one, zero)).collect(),
        check: surroundings.check,
        nodes: surroundings.nodes,
        device: surroundings.device,
        power_loss_doubt: surroundings.power_loss_doubt,
        contamination: surroundings.contamination,
    }
}

fn failover(failover: &Failover, zero: MonotonicTime) -> schema::Failover {
    let took = |interval: FailoverInterval| {
        let took_ns = u64::try_from(interval.of(failover)?.as_nanos()).ok()?;
        Some((interval.name().to_owned(), took_ns))
    };
    schema::Failover {
        at_us: failover.injected.0.saturating_sub(zero.0) / 1_000,
        lost_broker: failover.lost.0,
        next_broker: failover.successor.map(|(broker, _)| broker.0),
        successor: failover.successor.map(|(_, from)| from.name().to_owned()),
        took_ns: FailoverInterval::ALL.into_iter().filter_map(took).collect(),
    }
}

/// A verdict, for results.
pub fn check(promise: Promise, verdict: Verdict) -> schema::Check {
    let named = [
        ("acknowledged", promise.acknowledged),
        ("visible", promise.visible),
        ("order", promise.order),
    ];
    let promised = named.iter().filter(|(_, holds)| *holds).map(|(name, _)| (*name).to_owned());
    schema::Check {
        promised: promised.collect(),
        violations: verdict.violations,
        acknowledged: verdict.acknowledged,
        lost: verdict.lost,
        moved: verdict.moved,
        duplicated: verdict.duplicated,
        duplicated_by_retries: verdict.duplicated_by_retries,
        reordered: verdict.reordered,
        reordered_by_retries: verdict.reordered_by_retries,
        visible_lost: verdict.visible_lost,
        high_watermark_steps_back: verdict.high_watermark_steps_back,
        high_watermark_lower_at_next_leader: verdict.high_watermark_lower_at_next_leader,
        phantom: verdict.phantom,
        damaged: verdict.damaged,
        divergent_partitions: verdict.divergent_partitions,
        unknown_kept: verdict.unknown_kept,
        unknown_lost: verdict.unknown_lost,
    }
}

fn counts(counts: &Counts) -> schema::Counts {
    schema::Counts {
        due_records: counts.records_due,
        sent_records: counts.records_sent,
        sent_batches: counts.batches_sent,
        sent_batch_bytes: counts.batch_bytes_sent,
        acknowledged_records: counts.records_acknowledged,
        acknowledged_batches: counts.batches_acknowledged,
        acknowledged_value_bytes: counts.value_bytes_acknowledged,
        failed_records: counts.records_failed,
        unanswered_records: counts.records_unanswered,
        unsent_records: counts.records_unsent,
        resent_batches: counts.batches_resent,
        consumed_records: counts.records_consumed,
    }
}

fn errors(failures: &[FailureCount]) -> BTreeMap<String, schema::ErrorCount> {
    let count = |failure: &FailureCount| schema::ErrorCount {
        batches: failure.batches,
        records: failure.records,
    };
    failures.iter().map(|failure| (failure.failure.to_string(), count(failure))).collect()
}

fn interval(interval: &Interval) -> schema::Interval {
    schema::Interval {
        second: interval.second,
        records: interval.records,
        p50_ns: interval.p50_ns,
        p99_ns: interval.p99_ns,
        max_ns: interval.max_ns,
    }
}
