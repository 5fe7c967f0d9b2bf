//! ISR changes and stalls, a row a cell.

use comfy_table::Row;

use crate::report::{isr, numbers};
use crate::results::isr::Isr;
use crate::results::schema::{Cell, Latency, RunResult};

use super::{NONE, percentile, plain_table, varying_factors};

const COLUMNS: [&str; 13] = [
    "expand/\nshrink",
    "flaps",
    "xC\np50",
    "X\np50",
    "stall\np50",
    "stall\nmax",
    "x least",
    "gate\nheld p50",
    "record-s\nheld",
    "ack p50\nmet",
    "ack p50\noutside",
    "commit\np50 met",
    "commit p50\noutside",
];

const LEGEND: &str = "\
xC: AlterPartition there and back. X: fetch that met the join rule to the expansion committed; stall: to the high
watermark's move, of expansions that reached min ISR. x least: stall p50 over xC p50 plus a fetch's round trip p50.
gate held: records waiting under min ISR. record-s held: sum over records of the time each was invisible in stalls.
met, outside: batches that met a stall, and the others
";

/// Nothing if no ISR changed and nothing stalled.
pub(super) fn section(result: &RunResult) -> String {
    let varying = varying_factors(&result.cells);
    let rows: Vec<Row> = isr::cells(result)
        .map(|(cell, told)| {
            let factors = varying.iter().map(|factor| (factor.show)(&cell.factors));
            let names = [cell.factors.acks.clone()].into_iter().chain(factors);
            Row::from(names.chain(figures(result, cell, told)).collect::<Vec<_>>())
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let names = varying.iter().map(|factor| factor.name);
    let header = ["acks"].into_iter().chain(names).chain(COLUMNS).collect::<Vec<_>>();
    let table = plain_table(Row::from(header), rows, 1 + varying.len());
    format!("ISR changes and stalls of the high watermark\n{table}{LEGEND}")
}

fn figures(result: &RunResult, cell: &Cell, told: &Isr) -> Vec<String> {
    let latency = |name: &str| isr::interval(told, name).map(|interval| &interval.latency);
    let p50 = |latency: Option<&Latency>| {
        latency.map_or(NONE.to_owned(), |latency| percentile(latency, "p50"))
    };
    let max = latency("expand_stall").and_then(|latency| latency.max_ns);
    let (expands, shrinks, flaps) = isr::changes(told);
    let held_record_s: f64 = isr::stalls(told).map(|stalls| stalls.held_record_s).sum();
    let around = |name: &str| isr::around(told, name);
    let ratio = isr::stall_ratio(result, cell);
    vec![
        format!("{expands}/{shrinks}"),
        flaps.to_string(),
        p50(latency("alter_commit")),
        p50(latency("expand_wait")),
        p50(latency("expand_stall")),
        max.map_or(NONE.to_owned(), numbers::latency),
        ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}")),
        p50(latency("gate_stall")),
        format!("{held_record_s:.1}"),
        p50(around("acknowledged").map(|around| &around.met)),
        p50(around("acknowledged").map(|around| &around.outside)),
        p50(around("committed").map(|around| &around.met)),
        p50(around("committed").map(|around| &around.outside)),
    ]
}
