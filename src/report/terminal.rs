//! The table on the terminal: one row a cell, readable in ten seconds at 120 columns. Below it where
//! the time went, what each mode promises, and what limits the figures.

mod isr;
mod notes;
mod sweeps;

use std::collections::BTreeSet;

use comfy_table::{Cell as TableCell, CellAlignment, ContentArrangement, Row, Table};

use crate::results::schema::{Cell, Factors, Latency, RunResult, Status};

use super::numbers;

/// Widest line, in columns.
pub(super) const WIDTH: usize = 120;

/// Shown where a value does not exist.
const NONE: &str = "-";

/// The whole report, lines ended with `\n`.
pub fn render(result: &RunResult) -> String {
    let mut text = notes::heading(result);
    text.push('\n');
    text.push_str(&table(result));
    for section in [
        notes::sample_legend(result),
        sweeps::section(result),
        notes::throughput(result),
        notes::failovers(result),
        notes::kept(result),
        isr::section(result),
        notes::stages(result),
        notes::floors(result),
        notes::guarantees(result),
        notes::processes(result),
        notes::warnings(result),
    ] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    }
    text
}

fn table(result: &RunResult) -> String {
    let varying = varying_factors(&result.cells);
    let rows = result.cells.iter().map(|cell| row(cell, &varying)).collect();
    laid_out(header(&varying), rows, 2 + varying.len())
}

/// Columns without rules; all but the first `text_columns` hold numbers.
fn laid_out(header: Row, rows: Vec<Row>, text_columns: usize) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    lines.concat()
}

/// A factor with a column of its own, when it differs between cells.
#[derive(Clone, Copy)]
struct Factor {
    name: &'static str,
    show: fn(&Factors) -> String,
}

const FACTORS: [Factor; 12] = [
    Factor { name: "engine", show: |factors| factors.engine.clone() },
    Factor { name: "hwm.gate", show: |factors| factors.hwm_gate.clone() },
    Factor { name: "isr.wait", show: |factors| factors.isr_wait.clone() },
    Factor { name: "isr.expand", show: |factors| factors.isr_expand.clone() },
    Factor { name: "fetch", show: |factors| factors.fetch_pipeline.clone() },
    Factor { name: "serve", show: |factors| factors.serve_followers.clone() },
    Factor { name: "depth", show: |factors| factors.commit_pipeline_depth.to_string() },
    Factor { name: "commit\ndelay", show: |factors| factors.commit_delay.clone() },
    Factor { name: "parts", show: |factors| factors.partitions.to_string() },
    Factor { name: "record B", show: |factors| factors.record_bytes.to_string() },
    Factor { name: "mode", show: |factors| factors.load_mode.clone() },
    Factor { name: "load", show: share },
];

/// Of what its mode sustains.
fn share(factors: &Factors) -> String {
    factors.rate_percent.map_or(NONE.to_owned(), |percent| format!("{percent} %"))
}

fn varying_factors(cells: &[Cell]) -> Vec<Factor> {
    let varies = |factor: &Factor| {
        cells.iter().map(|cell| (factor.show)(&cell.factors)).collect::<BTreeSet<_>>().len() > 1
    };
    FACTORS.into_iter().filter(varies).collect()
}

fn header(varying: &[Factor]) -> Row {
    let measured = [
        "ack\np50",
        "ack\np99",
        "ack\np99.9",
        "ack\nmax",
        "commit\np50",
        "commit\np99",
        "records/s\ngot/asked",
        "x page-\ncache",
        "x\nfloor",
    ];
    let names = varying.iter().map(|factor| factor.name);
    Row::from(["acks", "durability"].into_iter().chain(names).chain(measured).collect::<Vec<_>>())
}

fn row(cell: &Cell, varying: &[Factor]) -> Row {
    let (acknowledged, committed) = (&cell.latency.acknowledged, &cell.latency.committed);
    let ratio = |ratio: Option<f64>| ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}"));
    let partial = if cell.status == Status::Partial { " *" } else { "" };
    let doubted = if cell.power_loss_doubt.is_some() { " !" } else { "" };
    let durability = format!("{}{doubted}{partial}", cell.factors.durability);
    let mut cells = vec![cell.factors.acks.clone(), durability];
    cells.extend(varying.iter().map(|factor| (factor.show)(&cell.factors)));
    cells.extend([
        percentile(acknowledged, "p50"),
        percentile(acknowledged, "p99"),
        percentile(acknowledged, "p99.9"),
        acknowledged.max_ns.map_or(NONE.to_owned(), numbers::latency),
        percentile(committed, "p50"),
        percentile(committed, "p99"),
        rate(cell),
        ratio(cell.acknowledged_p50_to_page_cache),
        ratio(cell.floor.as_ref().and_then(|floor| floor.ratio)),
    ]);
    Row::from(cells.into_iter().map(TableCell::new).collect::<Vec<_>>())
}

/// The value, or `n/a (10k)` where it would need ten thousand samples.
fn percentile(latency: &Latency, name: &str) -> String {
    match (latency.percentiles_ns.get(name), latency.samples_needed(name)) {
        (Some(value_ns), _) => numbers::latency(*value_ns),
        (None, Some(_)) if latency.count == 0 => NONE.to_owned(),
        (None, Some(needed)) => format!("n/a ({})", notes::short_count(needed)),
        (None, None) => NONE.to_owned(),
    }
}

fn rate(cell: &Cell) -> String {
    if cell.repeats.is_empty() {
        return NONE.to_owned();
    }
    let achieved = numbers::count(cell.rate.achieved_per_s);
    match cell.rate.asked_per_s {
        Some(asked) => format!("{achieved}/{}", numbers::count(asked)),
        None => achieved,
    }
}

#[cfg(test)]
mod tests;
