//! What stands above and below the table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::report::html::doubts::interference;
use crate::report::{faults, numbers, origin, stages};
use crate::results::schema::{Cell, RunResult, Stage, Status};

use super::WIDTH;

/// Stages below this share of the p50 are summed as `rest`.
const STAGE_SHARE_MIN: f64 = 0.04;

/// Medians of stages need not add up to the median of the whole; from here on the line says so.
const MEDIANS_OFF_PERCENT: f64 = 5.0;

/// What was run, where.
pub(super) fn heading(result: &RunResult) -> String {
    let workload = &result.workload;
    let setting = |table: &BTreeMap<String, Value>, key: &str| {
        table.get(key).map_or("unknown".to_owned(), shown)
    };
    let load = match result.cells.first().map(|cell| cell.factors.load_mode.as_str()) {
        Some("closed") => "closed loop".to_owned(),
        Some("max") => "as fast as possible".to_owned(),
        _ => format!("open loop, {} arrivals", setting(&workload.load, "arrival")),
    };
    let engines: BTreeSet<&str> =
        result.cells.iter().map(|cell| cell.factors.engine.as_str()).collect();
    let engines: Vec<&str> = engines.into_iter().collect();
    let status = match result.status {
        Status::Complete => String::new(),
        Status::Partial => format!(
            "PARTIAL: {}\n",
            result.status_reason.as_deref().unwrap_or("not all cells were measured")
        ),
    };
    format!(
        "{}: {} cells x {} repeats of {}, RF {}, min ISR {}, {load}, engine {}\n{}\n{status}",
        workload.name,
        result.cells.len(),
        setting(&workload.load, "repeats"),
        setting(&workload.load, "duration"),
        setting(&workload.cluster, "replication_factor"),
        setting(&workload.cluster, "min_isr"),
        engines.join(" and "),
        origin::host(result),
    )
}

/// What `n/a (10k)` means, if it occurs.
pub(super) fn sample_legend(result: &RunResult) -> String {
    let mut needed: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    let mut fewest = u64::MAX;
    for cell in result.cells.iter().filter(|cell| cell.latency.acknowledged.count > 0) {
        for (name, latency) in [
            ("p50", &cell.latency.acknowledged),
            ("p99", &cell.latency.acknowledged),
            ("p99.9", &cell.latency.acknowledged),
            ("p50", &cell.latency.committed),
            ("p99", &cell.latency.committed),
        ] {
            if let Some(samples) = latency.samples_needed(name) {
                needed.entry(samples).or_default().insert(name);
                fewest = fewest.min(latency.events());
            }
        }
    }
    let explain = |(samples, names): (&u64, &BTreeSet<&str>)| {
        let names: Vec<&str> = names.iter().copied().collect();
        format!("{} needs {samples} independent events", names.join(" and "))
    };
    let parts: Vec<String> = needed.iter().map(explain).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("n/a: {}; the fewest here are {fewest}\n", parts.join(", "))
}

/// `20`, `1k`, `10k`.
pub(super) fn short_count(count: u64) -> String {
    if count >= 1_000 { format!("{}k", count / 1_000) } else { count.to_string() }
}

/// Bytes per second of cells that were not paced.
pub(super) fn throughput(result: &RunResult) -> String {
    let ran = result.cells.iter().filter(|cell| !cell.repeats.is_empty());
    let unpaced = ran.filter(|cell| cell.rate.asked_per_s.is_none());
    let line = |cell: &Cell| {
        format!(
            "  {}: {} records/s, {}/s of values, {}/s over all replicas\n",
            cell.name,
            numbers::count(cell.rate.achieved_per_s),
            numbers::megabytes(cell.rate.achieved_value_bytes_per_s),
            numbers::megabytes(cell.rate.replicated_value_bytes_per_s),
        )
    };
    titled("throughput", unpaced.map(line).collect())
}

/// One line a cell: what the losses of its leader cost.
pub(super) fn failovers(result: &RunResult) -> String {
    let line = |cell: &Cell| Some(hanging(&cell.name, &faults::failover(cell)?));
    let title = "from the loss of a leader (p50, or the median sample where p50 needs more; max)";
    titled(title, result.cells.iter().filter_map(line).collect())
}

/// One line a cell: what the checker counted.
pub(super) fn kept(result: &RunResult) -> String {
    let line = |cell: &Cell| Some(hanging(&cell.name, &faults::kept(cell)?));
    // Each repeat has a seed of its own.
    let seed = result.workload.load.get("seed").and_then(Value::as_u64).unwrap_or_default();
    let last = result.cells.iter().map(|cell| cell.repeats.len() as u64).max().unwrap_or_default();
    let seeds = match last {
        0 | 1 => format!("seed {seed}"),
        repeats => format!("seeds {seed} to {}", seed.wrapping_add(repeats - 1)),
    };
    let title = format!("read back from every replica (records, with the warm-up's; {seeds})");
    titled(&title, result.cells.iter().filter_map(line).collect())
}

/// One line a cell: the p50s of the stages on its path.
pub(super) fn stages(result: &RunResult) -> String {
    let lines: Vec<String> = result.cells.iter().filter_map(stage_line).collect();
    let title =
        "where the ack p50 went (p50 of each stage, in the unit of the sum; below 4 % is `rest`)";
    titled(title, lines)
}

fn stage_line(cell: &Cell) -> Option<String> {
    let sum_ns = cell.reconciliation.stage_p50_sum_ns?;
    let p50_ns = cell.reconciliation.acknowledged_p50_ns?;
    let p50 = |stage: &Stage| stage.latency.percentiles_ns.get("p50").copied().unwrap_or(0);
    let large = |stage: &&Stage| p50(stage) as f64 >= STAGE_SHARE_MIN * sum_ns as f64;
    let on_path: Vec<&Stage> = cell.stages.iter().filter(|stage| stage.on_path).collect();
    let mut parts: Vec<String> = on_path
        .iter()
        .copied()
        .filter(large)
        .map(|stage| {
            format!("{} {}", stages::label(&stage.name), numbers::part_of(p50_ns, p50(stage)))
        })
        .collect();
    let rest_ns: u64 = on_path.iter().copied().filter(|stage| !large(stage)).map(p50).sum();
    if rest_ns > 0 {
        parts.push(format!("rest {}", numbers::part_of(p50_ns, rest_ns)));
    }
    let share_percent = 100.0 * sum_ns as f64 / p50_ns.max(1) as f64;
    let verdict = match cell.reconciliation.agrees {
        Some(false) => " (DOES NOT ACCOUNT FOR IT)".to_owned(),
        _ if (share_percent - 100.0).abs() > MEDIANS_OFF_PERCENT => {
            format!(" (medians add to {share_percent:.0} %)")
        }
        _ => String::new(),
    };
    let text = format!("{}: {}{verdict}", numbers::latency(p50_ns), parts.join(", "));
    Some(hanging(&cell.name, &text))
}

/// The bound each `x floor` is a ratio to.
pub(super) fn floors(result: &RunResult) -> String {
    let mut lines = Vec::new();
    for cell in &result.cells {
        let Some(floor) = &cell.floor else { continue };
        let bound = format!("{} = {}", floor.formula, numbers::latency(floor.floor_ns));
        lines.push(hanging(&cell.name, &bound));
    }
    let title = "x floor: ack p50 from the actual send, over the least this machine allows. Parts \
                 measured in this run, paced like it: R loopback round trip, W page-cache write, \
                 R(n) to n at once, D(n) durable write by n at once";
    titled(&filled(title, 0), lines)
}

/// What an acknowledgement promises, per mode.
pub(super) fn guarantees(result: &RunResult) -> String {
    let mut seen = BTreeSet::new();
    // What one cell of a mode could not keep is the mode's.
    let doubted = result.cells.iter().filter(|cell| cell.power_loss_doubt.is_some());
    let lines = doubted
        .chain(&result.cells)
        .filter(|cell| seen.insert(cell.factors.durability.as_str()))
        .map(|cell| format!("  {:<18}{}\n", cell.factors.durability, cell.guarantee))
        .collect();
    titled("what an acknowledgement promises, on each replica that counts for it", lines)
}

/// Peak memory per process, the largest over all repeats.
pub(super) fn processes(result: &RunResult) -> String {
    let mut peaks: BTreeMap<&str, u64> = BTreeMap::new();
    for node in result.cells.iter().flat_map(|cell| &cell.repeats).flat_map(|repeat| &repeat.nodes)
    {
        if let Some(bytes) = node.process.get("peak_memory_bytes").and_then(Value::as_u64) {
            let peak = peaks.entry(&node.name).or_default();
            *peak = bytes.max(*peak);
        }
    }
    if peaks.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = peaks
        .iter()
        .map(|(name, bytes)| format!("{name} {}", numbers::mebibytes(*bytes as f64)))
        .collect();
    hanging_plain("peak memory: ", &shown.join(", "))
}

/// Of the run, then of its cells; a warning shared by several cells is printed once.
pub(super) fn warnings(result: &RunResult) -> String {
    let mut lines: Vec<String> =
        result.warnings.iter().map(|warning| hanging_plain("  ! ", warning)).collect();
    lines.extend(interference(result).iter().map(|doubt| hanging_plain("  ! ", doubt)));
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cell in &result.cells {
        for warning in &cell.warnings {
            by_text.entry(warning).or_default().push(&cell.name);
        }
    }
    for (warning, cells) in by_text {
        let whose = match cells.len() {
            n if n == result.cells.len() => "all cells".to_owned(),
            n if n > 3 => format!("{n} cells"),
            _ => cells.join(", "),
        };
        lines.push(hanging_plain("  ! ", &format!("{whose}: {warning}")));
    }
    for cell in result.cells.iter().filter(|cell| cell.status == Status::Partial) {
        let reason = cell.status_reason.as_deref().unwrap_or("not all of it was measured");
        lines.push(hanging_plain("  * ", &format!("{} is partial: {reason}", cell.name)));
    }
    titled("before you believe a figure", lines)
}

fn titled(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{}\n{}", title.trim_end(), lines.concat())
}

/// A row below a title: the cell's name in a column, the text wrapped beside it.
fn hanging(name: &str, text: &str) -> String {
    hanging_plain(&format!("  {name:<25} "), text)
}

fn hanging_plain(prefix: &str, text: &str) -> String {
    format!("{prefix}{}", filled(text, prefix.chars().count()))
}

/// `text` broken at blanks so that no line passes [`WIDTH`], later lines indented.
pub(super) fn filled(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = indent;
    for (index, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines.push('\n');
    lines
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
