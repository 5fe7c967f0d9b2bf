//! ISR changes and stalls, a row a cell.

use comfy_table::Row;

use crate::report::{isr, numbers};
use crate::results::isr::Isr;
use crate::results::schema::{Cell, Latency, RunResult};

use super::{NONE, laid_out, percentile, varying_factors};

const CHANGES: [&str; 9] = [
    "expand/\nshrink",
    "flaps",
    "xC\np50",
    "X\np50",
    "stall\np50",
    "stall\nmax",
    "x\nleast",
    "held\np50",
    "record-s\nheld",
];

const AROUND: [&str; 6] = [
    "ack met\np50",
    "ack met\np99",
    "ack outside\np50",
    "commit met\np50",
    "commit met\np99",
    "commit outside\np50",
];

const LEGEND: &str = "\
xC: AlterPartition there and back. X: a follower's fetch that met the join rule to the expansion committed; stall: to
the high watermark's next move, of expansions that reached min ISR. x least: stall p50 over xC p50 plus a fetch's round
trip p50. held: stalls of the high watermark behind the gate; record-s: those and others, weighted by records held up
";

/// Nothing if no ISR changed and nothing stalled.
pub(super) fn section(result: &RunResult) -> String {
    let changes = table(result, &CHANGES, |cell, told| changes(result, cell, told));
    if changes.is_empty() {
        return String::new();
    }
    let mut text = format!("ISR changes and stalls of the high watermark\n{changes}{LEGEND}");
    if isr::cells(result).any(|(_, told)| !told.around_stalls.is_empty()) {
        let around = table(result, &AROUND, |_, told| around(told));
        text.push_str(
            "\nrecords on their way during such a stall (met), and the others (outside)\n",
        );
        text.push_str(&around);
    }
    text
}

fn table(
    result: &RunResult,
    columns: &[&'static str],
    figures: impl Fn(&Cell, &Isr) -> Vec<String>,
) -> String {
    let varying = varying_factors(&result.cells);
    let rows: Vec<Row> = isr::cells(result)
        .map(|(cell, told)| {
            let factors = varying.iter().map(|factor| (factor.show)(&cell.factors));
            let names = [cell.factors.acks.clone()].into_iter().chain(factors);
            Row::from(names.chain(figures(cell, told)).collect::<Vec<_>>())
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let names = ["acks"].into_iter().chain(varying.iter().map(|factor| factor.name));
    let header = names.chain(columns.iter().copied()).collect::<Vec<_>>();
    laid_out(Row::from(header), rows, 1 + varying.len())
}

fn changes(result: &RunResult, cell: &Cell, told: &Isr) -> Vec<String> {
    let latency = |name: &str| isr::interval(told, name).map(|interval| &interval.latency);
    let max = latency("expand_stall").and_then(|latency| latency.max_ns);
    let (expands, shrinks, flaps) = isr::changes(told);
    let held_record_s: f64 =
        isr::stalls(told).map(|stalls| stalls.held_record_s).fold(0.0, |sum, one| sum + one);
    let ratio = isr::stall_ratio(result, cell);
    vec![
        format!("{expands}/{shrinks}"),
        flaps.to_string(),
        shown(latency("alter_commit"), "p50"),
        shown(latency("expand_wait"), "p50"),
        shown(latency("expand_stall"), "p50"),
        max.map_or(NONE.to_owned(), numbers::latency),
        ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}")),
        shown(latency("gate_stall"), "p50"),
        format!("{held_record_s:.1}"),
    ]
}

fn around(told: &Isr) -> Vec<String> {
    let side = |name: &str, met: bool, of: &str| {
        let around = isr::around(told, name);
        shown(around.map(|around| if met { &around.met } else { &around.outside }), of)
    };
    vec![
        side("acknowledged", true, "p50"),
        side("acknowledged", true, "p99"),
        side("acknowledged", false, "p50"),
        side("committed", true, "p50"),
        side("committed", true, "p99"),
        side("committed", false, "p50"),
    ]
}

fn shown(latency: Option<&Latency>, name: &str) -> String {
    latency.map_or(NONE.to_owned(), |latency| percentile(latency, name))
}
