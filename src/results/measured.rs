//! From the live histograms of one cell's repeats to a [`schema::Cell`].
//!
//! Histograms are merged, percentiles never averaged (spec/measurement.md M18); what the samples
//! cannot support is absent with its reason (M15, M20).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::config::cells::Cell as Planned;
use crate::config::workload::Workload;
use crate::measure::around::Spans;
use crate::measure::failover::Interval as FailoverInterval;
use crate::measure::histogram::{LatencyHistogram, PERCENTILES};
use crate::measure::isr::IsrEvent;
use crate::measure::stage::composition::Composition;
use crate::measure::stage::{Stage, StageHistograms};
use crate::types::Acks;

use super::described::{cell_name, factors};
use super::isr::isr;
use super::schema;

/// Largest difference at p50 between the stages' sums and the latency that still counts as agreement.
pub const RECONCILIATION_TOLERANCE: f64 = 0.05;

/// Below this share of the asked rate a cell is called overloaded.
const ACHIEVED_SHARE_MIN: f64 = 0.98;

/// The bands of [`schema::StageBand`]: a percentile and the quantiles whose records stand for it.
const STAGE_BANDS: [(&str, f64, f64); 2] = [("p50", 0.45, 0.55), ("p99", 0.985, 0.995)];

/// What one repeat of one cell measured.
pub struct Measured {
    /// Which repeat, from 0.
    pub repeat: usize,
    /// `None` if it ran to its end, else why not.
    pub cut_short: Option<String>,
    /// When the measured part began, on the one clock.
    pub measured_from_ns: Option<u64>,
    /// Length of the measured part as it turned out, seconds.
    pub measured_s: f64,
    /// Records acknowledged per second within it.
    pub achieved_per_s: f64,
    /// What became of the measured records.
    pub counts: schema::Counts,
    /// Failed attempts by name.
    pub errors: BTreeMap<String, schema::ErrorCount>,
    /// Intended → acknowledged.
    pub acknowledged: LatencyHistogram,
    /// Intended → committed.
    pub committed: LatencyHistogram,
    /// Intended → consumed.
    pub consumed: LatencyHistogram,
    /// Sent → acknowledged.
    pub acknowledged_service: LatencyHistogram,
    /// Intended → sent.
    pub schedule_lag: LatencyHistogram,
    /// Intended → failed.
    pub failed: LatencyHistogram,
    /// What the acknowledgement latency was made of.
    pub stages: StageHistograms,
    /// When the driver had its last answer or gave up waiting, on the one clock.
    pub ended_ns: Option<u64>,
    /// When each batch's records were due and got there, where faults were planned.
    pub spans: Spans,
    /// What the brokers told of the topic's ISRs until then, in the order of their ends.
    pub isr_events: Vec<IsrEvent>,
    /// By the second.
    pub intervals: Vec<schema::Interval>,
    /// What happened to the cluster meanwhile.
    pub events: Vec<schema::Event>,
    /// What followed each loss of the leader.
    pub failovers: Vec<schema::Failover>,
    /// What the checker found.
    pub check: Option<schema::Check>,
    /// The cluster's processes.
    pub nodes: Vec<schema::Node>,
    /// The device's counters over the repeat.
    pub device: Value,
    /// Why its syncs are not shown to reach the medium, if they are not.
    pub power_loss_doubt: Option<String>,
    /// Interference seen meanwhile.
    pub contamination: Value,
}

/// Merges the repeats of one planned cell. `floor` is the bound for its acknowledgement, without a
/// ratio. A cell with no repeat at all is partial and has no samples.
pub fn cell(
    workload: &Workload,
    planned: &Planned,
    repeats: &[Measured],
    floor: Option<schema::Floor>,
) -> schema::Cell {
    let acknowledged = merged(repeats, |repeat| &repeat.acknowledged);
    let stages = stages(repeats, planned.acks);
    let reconciliation = reconciliation(&acknowledged, &stages, repeats);
    let status_reason = status_reason(workload, repeats);
    let service = merged(repeats, |repeat| &repeat.acknowledged_service);
    let service_p50 = service.percentile_ns(&PERCENTILES[0]);
    let ratio = |bound_ns: u64| service_p50.map(|p50| rounded(p50 as f64 / bound_ns.max(1) as f64));
    let mut cell = schema::Cell {
        index: planned.index,
        name: cell_name(workload, planned),
        factors: factors(workload, planned),
        guarantee: planned.durability.guarantee().to_owned(),
        power_loss_doubt: repeats
            .iter()
            .filter(|_| planned.durability.is_synced())
            .find_map(|repeat| repeat.power_loss_doubt.clone()),
        status: status(status_reason.is_some()),
        status_reason,
        counts: total_counts(repeats),
        errors: total_errors(repeats),
        rate: rate(workload, planned, repeats),
        samples: schema::Samples::Records,
        latency: schema::CellLatency {
            acknowledged: latency(&acknowledged),
            committed: latency(&merged(repeats, |repeat| &repeat.committed)),
            consumed: latency(&merged(repeats, |repeat| &repeat.consumed)),
            acknowledged_service: latency(&service),
            schedule_lag: latency(&merged(repeats, |repeat| &repeat.schedule_lag)),
            failed: latency(&merged(repeats, |repeat| &repeat.failed)),
        },
        stages,
        stage_bands: stage_bands(repeats),
        reconciliation,
        acknowledged_p50_to_page_cache: None,
        floor: floor.map(|floor| schema::Floor { ratio: ratio(floor.floor_ns), ..floor }),
        isr: isr(repeats),
        failover: failover(repeats),
        repeats: repeats.iter().map(repeat).collect(),
        warnings: Vec::new(),
    };
    cell.warnings = warnings(&cell);
    cell
}

/// Withdraws the promise of each synced cell with a doubt, its own or that of the whole `run`; gives
/// what has to be said before anything else.
pub fn power_loss_doubts(cells: &mut [schema::Cell], run: Option<&str>) -> Option<String> {
    let mut withdrawn = Vec::new();
    for cell in cells.iter_mut().filter(|cell| is_synced(&cell.factors.durability)) {
        let doubt = cell.power_loss_doubt.take().or_else(|| run.map(str::to_owned));
        if let Some(doubt) = &doubt {
            cell.guarantee = format!("NOT SHOWN to survive power loss: {doubt}");
            withdrawn.push((cell.name.clone(), doubt.clone()));
        }
        cell.power_loss_doubt = doubt;
    }
    let (name, doubt) = withdrawn.first()?;
    let others = match withdrawn.len() {
        1 => String::new(),
        count => format!(" and {} more cells", count - 1),
    };
    Some(format!("syncs are NOT SHOWN to survive power loss in {name}{others}: {doubt}"))
}

fn is_synced(durability: &str) -> bool {
    ["fsync", "direct-fsync", "direct-dsync"].contains(&durability)
}

/// Fills in each cell's ratio to its twin under `page-cache`.
pub fn compare_to_page_cache(cells: &mut [schema::Cell]) {
    let p50 = |cell: &schema::Cell| cell.latency.acknowledged.percentiles_ns.get("p50").copied();
    let twin = |factors: &schema::Factors| schema::Factors {
        durability: "page-cache".to_owned(),
        commit_route: String::new(),
        ..factors.clone()
    };
    let base: Vec<(schema::Factors, Option<u64>)> = cells
        .iter()
        .filter(|cell| cell.factors.durability == "page-cache")
        .map(|cell| (twin(&cell.factors), p50(cell)))
        .collect();
    for cell in cells {
        let base = base.iter().find(|(factors, _)| *factors == twin(&cell.factors));
        let sides = base.and_then(|(_, p50)| *p50).zip(p50(cell));
        cell.acknowledged_p50_to_page_cache =
            sides.map(|(base, own)| rounded(own as f64 / base.max(1) as f64));
    }
}

/// One distribution with what its count supports.
pub fn latency(histogram: &LatencyHistogram) -> schema::Latency {
    let count = histogram.count();
    let mut supported = BTreeMap::new();
    let mut absent = BTreeMap::new();
    for percentile in &PERCENTILES {
        let name = percentile.name.to_owned();
        match histogram.percentile_ns(percentile) {
            Some(value_ns) => drop(supported.insert(name, value_ns)),
            None => drop(
                absent.insert(name, format!("needs {} independent events", percentile.samples_min)),
            ),
        }
    }
    schema::Latency {
        count,
        event_count: Some(histogram.event_count()).filter(|events| *events != count),
        overflow_count: histogram.overflow_count(),
        clock_anomaly_count: histogram.clock_anomaly_count(),
        absent_reason: histogram.is_empty().then(|| "no samples".to_owned()),
        min_ns: histogram.min_ns(),
        mean_ns: histogram.mean_ns().map(f64::round),
        max_ns: histogram.max_ns(),
        percentiles_ns: supported,
        percentiles_absent: absent,
        histogram_v2_deflate_base64: (!histogram.is_empty()).then(|| histogram.to_base64()),
    }
}

fn merged(repeats: &[Measured], of: impl Fn(&Measured) -> &LatencyHistogram) -> LatencyHistogram {
    let mut all = LatencyHistogram::new();
    for repeat in repeats {
        all.merge(of(repeat));
    }
    all
}

fn stages(repeats: &[Measured], acks: Acks) -> Vec<schema::Stage> {
    let all = |stage: Stage| merged(repeats, |repeat| repeat.stages.get(stage));
    let followers = !all(Stage::FetchWait).is_empty();
    let beside_the_path = |stage| stage == Stage::LeaderSync && acks == Acks::All && followers;
    Stage::ALL
        .into_iter()
        .map(|stage| (stage, all(stage)))
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(stage, histogram)| schema::Stage {
            name: stage.name().to_owned(),
            meaning: stage.meaning().to_owned(),
            on_path: !beside_the_path(stage),
            latency: latency(&histogram),
        })
        .collect()
}

/// Around p50 and p99, where the sample supports the percentile.
fn stage_bands(repeats: &[Measured]) -> Vec<schema::StageBand> {
    let mut all = Composition::new();
    for repeat in repeats {
        all.merge(&repeat.stages.composition);
    }
    let events = merged(repeats, |repeat| &repeat.stages.sum).event_count();
    let band = |(name, from, to): &(&str, f64, f64)| {
        let percentile = PERCENTILES.iter().find(|percentile| percentile.name == *name)?;
        let enough = events >= percentile.samples_min;
        let band = enough.then(|| all.band(*from, *to)).flatten()?;
        let mean_ns =
            |(stage, mean_ns): &(Stage, f64)| (stage.name().to_owned(), mean_ns.round() as u64);
        Some(schema::StageBand {
            percentile: (*name).to_owned(),
            from_ns: band.from_ns,
            to_ns: band.to_ns,
            count: band.count,
            mean_ns: band.mean_ns.iter().map(mean_ns).collect(),
        })
    };
    STAGE_BANDS.iter().filter_map(band).collect()
}

fn reconciliation(
    acknowledged: &LatencyHistogram,
    stages: &[schema::Stage],
    repeats: &[Measured],
) -> schema::Reconciliation {
    let on_path = stages.iter().filter(|stage| stage.on_path);
    let p50s: Option<Vec<u64>> =
        on_path.map(|stage| stage.latency.percentiles_ns.get("p50").copied()).collect();
    let p50_sum = p50s.filter(|p50s| !p50s.is_empty()).map(|p50s| p50s.iter().sum::<u64>());
    let sums = merged(repeats, |repeat| &repeat.stages.sum);
    let sum_p50 = sums.percentile_ns(&PERCENTILES[0]);
    let p50 = acknowledged.percentile_ns(&PERCENTILES[0]);
    let agrees =
        |(sum, p50): (u64, u64)| sum.abs_diff(p50) as f64 <= RECONCILIATION_TOLERANCE * p50 as f64;
    schema::Reconciliation {
        stage_sum_p50_ns: sum_p50,
        acknowledged_p50_ns: p50,
        tolerance: RECONCILIATION_TOLERANCE,
        agrees: sum_p50.zip(p50).map(agrees),
        stage_p50_sum_ns: p50_sum,
        anomaly_count: repeats.iter().map(|repeat| repeat.stages.anomaly_count).sum(),
        untraced_count: repeats.iter().map(|repeat| repeat.stages.untraced_count).sum(),
    }
}

fn rate(workload: &Workload, planned: &Planned, repeats: &[Measured]) -> schema::Rate {
    let measured_s: f64 = repeats.iter().map(|repeat| repeat.measured_s).sum();
    let records: f64 = repeats.iter().map(|repeat| repeat.achieved_per_s * repeat.measured_s).sum();
    let achieved_per_s = if measured_s > 0.0 { records / measured_s } else { 0.0 };
    let bytes_per_s = achieved_per_s * planned.record_bytes as f64;
    schema::Rate {
        asked_per_s: planned.pacing.rate_per_s().map(|rate| rate as f64),
        achieved_per_s: rounded(achieved_per_s),
        achieved_value_bytes_per_s: rounded(bytes_per_s),
        replicated_value_bytes_per_s: rounded(
            bytes_per_s * workload.cluster.replication_factor as f64,
        ),
    }
}

/// Every interval that was seen at least once.
fn failover(repeats: &[Measured]) -> Vec<schema::FailoverInterval> {
    let losses = || repeats.iter().flat_map(|repeat| &repeat.failovers);
    let interval = |interval: FailoverInterval| {
        let mut histogram = LatencyHistogram::new();
        for took_ns in losses().filter_map(|loss| loss.took_ns.get(interval.name())) {
            histogram.record(Duration::from_nanos(*took_ns));
        }
        (!histogram.is_empty()).then(|| schema::FailoverInterval {
            name: interval.name().to_owned(),
            meaning: interval.meaning().to_owned(),
            latency: latency(&histogram),
        })
    };
    FailoverInterval::ALL.into_iter().filter_map(interval).collect()
}

fn total_counts(repeats: &[Measured]) -> schema::Counts {
    repeats.iter().map(|repeat| repeat.counts).fold(schema::Counts::default(), |sum, one| {
        schema::Counts {
            due_records: sum.due_records + one.due_records,
            sent_records: sum.sent_records + one.sent_records,
            sent_batches: sum.sent_batches + one.sent_batches,
            sent_batch_bytes: sum.sent_batch_bytes + one.sent_batch_bytes,
            acknowledged_records: sum.acknowledged_records + one.acknowledged_records,
            acknowledged_batches: sum.acknowledged_batches + one.acknowledged_batches,
            acknowledged_value_bytes: sum.acknowledged_value_bytes + one.acknowledged_value_bytes,
            failed_records: sum.failed_records + one.failed_records,
            unanswered_records: sum.unanswered_records + one.unanswered_records,
            unsent_records: sum.unsent_records + one.unsent_records,
            resent_batches: sum.resent_batches + one.resent_batches,
            consumed_records: sum.consumed_records + one.consumed_records,
        }
    })
}

fn total_errors(repeats: &[Measured]) -> BTreeMap<String, schema::ErrorCount> {
    let mut errors: BTreeMap<String, schema::ErrorCount> = BTreeMap::new();
    for (name, count) in repeats.iter().flat_map(|repeat| &repeat.errors) {
        let sum = errors.entry(name.clone()).or_default();
        sum.batches += count.batches;
        sum.records += count.records;
    }
    errors
}

fn status_reason(workload: &Workload, repeats: &[Measured]) -> Option<String> {
    let planned = workload.load.repeats;
    match repeats.iter().find_map(|repeat| repeat.cut_short.clone()) {
        Some(reason) => Some(reason),
        None if repeats.is_empty() => Some("not run".to_owned()),
        None if repeats.len() < planned => {
            Some(format!("{} of {planned} repeats were run", repeats.len()))
        }
        None => None,
    }
}

fn status(cut_short: bool) -> schema::Status {
    if cut_short { schema::Status::Partial } else { schema::Status::Complete }
}

fn repeat(measured: &Measured) -> schema::Repeat {
    schema::Repeat {
        repeat: measured.repeat,
        status: status(measured.cut_short.is_some()),
        status_reason: measured.cut_short.clone(),
        measured_from_ns: measured.measured_from_ns,
        measured_s: measured.measured_s,
        achieved_per_s: rounded(measured.achieved_per_s),
        counts: measured.counts,
        errors: measured.errors.clone(),
        acknowledged: latency(&measured.acknowledged),
        committed: latency(&measured.committed),
        consumed: latency(&measured.consumed),
        intervals: measured.intervals.clone(),
        events: measured.events.clone(),
        failovers: measured.failovers.clone(),
        check: measured.check.clone(),
        nodes: measured.nodes.clone(),
        device: measured.device.clone(),
        contamination: measured.contamination.clone(),
    }
}

fn warnings(cell: &schema::Cell) -> Vec<String> {
    let mut warnings = Vec::new();
    let (rate, counts) = (&cell.rate, &cell.counts);
    if let Some(asked) = rate.asked_per_s
        && cell.status == schema::Status::Complete
        && rate.achieved_per_s < ACHIEVED_SHARE_MIN * asked
    {
        // Without the rates, which stand beside it: several cells share the sentence.
        let text =
            "overloaded, less was achieved than offered: latencies grow with the run's length";
        warnings.push(text.to_owned());
    }
    if counts.unanswered_records + counts.unsent_records > 0 {
        warnings.push(format!(
            "{} records unanswered and {} never sent at the end: their latencies are missing",
            counts.unanswered_records, counts.unsent_records
        ));
    }
    for (name, count) in &cell.errors {
        warnings.push(format!("{} batches failed with {name}", count.batches));
    }
    if let Some(lost) = cell.isr.as_ref().map(|isr| isr.lost_events).filter(|&lost| lost > 0) {
        warnings.push(format!("{lost} events of ISRs were lost: their figures are too low"));
    }
    if cell.reconciliation.agrees == Some(false) {
        warnings.push(format!(
            "the stages do not account for the latency within {:.0} % at p50",
            100.0 * RECONCILIATION_TOLERANCE
        ));
    }
    if cell.factors.load_mode == "closed" {
        warnings.push(
            "closed loop: a slow answer delays the load, so the tail is understated".to_owned(),
        );
    }
    warnings
}

/// Three decimals: beyond them a figure here is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
