//! What a reader must know before believing a figure: what the run said of itself, and what its
//! cells show.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::schema::{Cell, Repeat, RunResult, Status};

/// A share of stolen CPU time above which it is said, in percent (spec/measurement.md M40).
const STEAL_PERCENT_NOTED: f64 = 1.0;

/// A warning names its cells up to this many.
const NAMED_MAX: usize = 3;

/// All of them, the run's own first.
pub fn of(result: &RunResult) -> Vec<String> {
    let mut doubts = result.warnings.clone();
    doubts.extend(of_cells(result));
    doubts.extend(interference(result));
    doubts.extend(clock(result));
    doubts.extend(overflow(result));
    doubts.extend(samples(result));
    doubts.extend(repeats(result));
    doubts
}

/// What others took from the processes while they were measured.
pub fn interference(result: &RunResult) -> Vec<String> {
    steal(result).into_iter().chain(throttled(result)).collect()
}

/// The cells' own warnings; one shared by several is said once.
fn of_cells(result: &RunResult) -> Vec<String> {
    let mut by_text: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
    for cell in &result.cells {
        for warning in &cell.warnings {
            by_text.entry(warning).or_default().push(cell);
        }
    }
    let partial = result.cells.iter().filter(|cell| cell.status == Status::Partial);
    let mut partial_by_reason: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
    for cell in partial {
        let reason = cell.status_reason.as_deref().unwrap_or("not all of it was measured");
        partial_by_reason.entry(reason).or_default().push(cell);
    }
    let warnings = by_text
        .into_iter()
        .map(|(text, cells)| format!("{}: {text}", whose(&cells, result.cells.len())));
    let partial = partial_by_reason
        .into_iter()
        .map(|(reason, cells)| format!("{}: partial, {reason}", whose(&cells, result.cells.len())));
    warnings.chain(partial).collect()
}

fn whose(cells: &[&Cell], all: usize) -> String {
    match cells.len() {
        count if count == all && all > 1 => "all cells".to_owned(),
        count if count > NAMED_MAX => format!("{count} of {all} cells"),
        _ => cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// The repeat with the most of a contamination figure, if that is above `above`.
fn worst(result: &RunResult, key: &str, above: f64) -> Option<(String, f64, usize)> {
    let value = |repeat: &Repeat| repeat.contamination.get(key).and_then(|value| value.as_f64());
    let all = result.cells.iter().flat_map(|cell| {
        cell.repeats.iter().filter_map(move |repeat| Some((cell, repeat.repeat, value(repeat)?)))
    });
    let over: Vec<_> = all.filter(|(_, _, value)| *value > above).collect();
    let (cell, repeat, value) = over.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some((format!("{}, repeat {repeat}", cell.name), *value, over.len()))
}

fn steal(result: &RunResult) -> Option<String> {
    let (place, percent, count) = worst(result, "steal_percent", STEAL_PERCENT_NOTED)?;
    Some(format!(
        "CPU time was stolen by the hypervisor, more than {STEAL_PERCENT_NOTED:.0} % in {}; worst \
         {percent:.1} % ({place})",
        repeats_of(count)
    ))
}

fn throttled(result: &RunResult) -> Option<String> {
    let (place, throttled_us, count) = worst(result, "cgroup_throttled_us", 0.0)?;
    Some(format!(
        "the control group's CPU quota held the processes back in {}; worst {:.0} ms ({place})",
        repeats_of(count),
        throttled_us / 1e3
    ))
}

fn repeats_of(count: usize) -> String {
    format!("{count} repeat{}", if count == 1 { "" } else { "s" })
}

/// Samples left out because the clock ran backwards.
fn clock(result: &RunResult) -> Option<String> {
    let of_cell = |cell: &Cell| {
        let latency = &cell.latency;
        latency.acknowledged.clock_anomaly_count
            + latency.committed.clock_anomaly_count
            + latency.consumed.clock_anomaly_count
            + cell.reconciliation.anomaly_count
    };
    let cells: Vec<&Cell> = result.cells.iter().filter(|cell| of_cell(cell) > 0).collect();
    let total: u64 = cells.iter().map(|cell| of_cell(cell)).sum();
    (total > 0).then(|| {
        format!(
            "{}: the clock jumped back or instants were out of order {total} times; those samples \
             are left out",
            whose(&cells, result.cells.len())
        )
    })
}

fn overflow(result: &RunResult) -> Option<String> {
    let over = |cell: &&Cell| cell.latency.acknowledged.overflow_count > 0;
    let cells: Vec<&Cell> = result.cells.iter().filter(over).collect();
    (!cells.is_empty()).then(|| {
        format!(
            "{}: latencies above an hour are beyond the histogram's range; they count in the \
             percentiles, the mean and the maximum",
            whose(&cells, result.cells.len())
        )
    })
}

/// Percentiles of the overview that some sample is too small for.
fn samples(result: &RunResult) -> Option<String> {
    let mut missing: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    let mut cells: Vec<&Cell> = Vec::new();
    let measured = result.cells.iter().filter(|cell| cell.latency.acknowledged.count > 0);
    for cell in measured {
        for name in ["p50", "p99", "p99.9"] {
            let Some(needed) = cell.latency.acknowledged.samples_needed(name) else {
                continue;
            };
            missing.entry(needed).or_default().insert(name);
            if !cells.iter().any(|known| std::ptr::eq(*known, cell)) {
                cells.push(cell);
            }
        }
    }
    let fewest = cells.iter().map(|cell| cell.latency.acknowledged.events()).min()?;
    let need = |(needed, names): (&u64, &BTreeSet<&str>)| {
        let names: Vec<&str> = names.iter().copied().collect();
        format!("{} needs {needed} independent events", names.join(" and "))
    };
    let needs: Vec<String> = missing.iter().map(need).collect();
    Some(format!(
        "{}: too few independent events for a percentile shown as n/a: {}; the fewest are {fewest}",
        whose(&cells, result.cells.len()),
        needs.join(", ")
    ))
}

/// One repeat says nothing about noise.
fn repeats(result: &RunResult) -> Option<String> {
    let most = result.cells.iter().map(|cell| cell.repeats.len()).max()?;
    (most == 1).then(|| {
        "one repeat per cell: nothing here tells a difference from run-to-run noise".to_owned()
    })
}
