//! Load sweeps in a table: what each mode sustains, and its latency at the lowest rate and at the
//! knee.

use comfy_table::{Cell as TableCell, Row};

use crate::report::numbers;
use crate::results::schema::{Cell, RunResult};
use crate::results::sweeps::Sweep;

use super::{NONE, laid_out, notes, percentile, rate};

const HEADER: [&str; 9] = [
    "load sweep",
    "windows\nfull /s",
    "sustained\n/s",
    "lowest\nrate /s",
    "\np50",
    "\np99",
    "knee\ngot/asked",
    "\np50",
    "\np99",
];

/// The table and what it means; empty where no rates were swept.
pub(super) fn section(result: &RunResult) -> String {
    if result.sweeps.is_empty() {
        return String::new();
    }
    let rows = result.sweeps.iter().map(|sweep| row(sweep, &result.cells)).collect();
    let table = laid_out(Row::from(HEADER), rows, 1);
    let mut reasons: Vec<&str> =
        result.sweeps.iter().filter_map(|sweep| sweep.knee_absent_reason.as_deref()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let without = match reasons.as_slice() {
        [] => String::new(),
        reasons => format!("; {NONE}: {}", reasons.join(", or ")),
    };
    let legend = "knee: the rate with the most records per second for the mean latency, beyond which \
                  latency grows faster than throughput";
    format!("{table}{}", notes::filled(&format!("{legend}{without}"), 0))
}

fn row(sweep: &Sweep, cells: &[Cell]) -> Row {
    let count = |rate: Option<f64>| rate.map_or(NONE.to_owned(), numbers::count);
    let saturation = sweep.saturation.as_ref();
    let full =
        saturation.and_then(|found| found.probes.iter().find(|one| one.asked_per_s.is_none()));
    let sustained = saturation.and_then(|found| found.rate_per_s);
    let at = |cell: Option<usize>| cell.and_then(|index| cells.get(index));
    let (lowest, knee) = (at(sweep.cells.first().copied()), at(sweep.knee.map(|knee| knee.cell)));
    let acknowledged = |cell: Option<&Cell>, name: &str| {
        cell.map_or(NONE.to_owned(), |cell| percentile(&cell.latency.acknowledged, name))
    };
    Row::from([
        TableCell::new(&sweep.name),
        TableCell::new(count(full.map(|probe| probe.achieved_per_s))),
        TableCell::new(count(sustained.map(|rate| rate as f64))),
        TableCell::new(count(lowest.and_then(|cell| cell.rate.asked_per_s))),
        TableCell::new(acknowledged(lowest, "p50")),
        TableCell::new(acknowledged(lowest, "p99")),
        TableCell::new(knee.map_or(NONE.to_owned(), rate)),
        TableCell::new(acknowledged(knee, "p50")),
        TableCell::new(acknowledged(knee, "p99")),
    ])
}
