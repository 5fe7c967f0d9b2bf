//! The comparison for a person, ending with the verdict.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::{BenchCell, BenchFloor, IOPS_RATIO_MIN, P99_RATIO_MAX, Side};

const HEAD: [&str; 15] = [
    "mode",
    "length",
    "route",
    "uring IOPS",
    "p50",
    "p99",
    "fio IOPS",
    "p50",
    "p99",
    "IOPS x fio",
    "p99 x fio",
    "glommio IOPS",
    "p50",
    "p99",
    "IOPS x fio",
];

/// Columns that hold words.
const WORDS: [usize; 2] = [0, 2];

/// The table, what it was measured with, and `floor: PASS` or `floor: SHORT (...)` as last line.
pub fn render(bench: &BenchFloor) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEAD);
    table.add_rows(bench.cells.iter().map(row));
    for (index, column) in table.column_iter_mut().enumerate() {
        if !WORDS.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{table}\n\n{}\n{}\n", notes(bench), verdict(bench));
    out
}

fn row(cell: &BenchCell) -> Vec<String> {
    let mut row = vec![
        cell.mode.name().to_owned(),
        format!("{} KiB", cell.write_bytes >> 10),
        cell.route.name().to_owned(),
    ];
    row.extend(figures(&cell.uring));
    row.extend(figures(&cell.fio));
    let ratio = |ratio: Option<f64>| shown(ratio.map(|ratio| format!("{ratio:.2}")));
    row.extend([Some(cell.iops_ratio), cell.p99_ratio].map(ratio));
    if let Some(glommio) = &cell.glommio {
        row.extend(figures(glommio));
        row.push(ratio(Some(glommio.iops / cell.fio.iops)));
    }
    row
}

fn figures(side: &Side) -> [String; 3] {
    let microseconds = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let p99 = shown(side.p99_ns.map(microseconds));
    [format!("{:.0}", side.iops), microseconds(side.p50_ns), p99]
}

/// A figure the sample is too small for is `n/a`.
fn shown(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "n/a".to_owned())
}

fn notes(bench: &BenchFloor) -> String {
    let steal = match bench.contamination.steal_percent {
        Some(percent) => format!("{percent:.1} %"),
        None => "unknown".to_owned(),
    };
    format!(
        "One write at a time; microseconds; medians of {} interleaved rounds; ratios are medians \
         over the pairs.\nBar (uring, the better route of a mode): IOPS at least {IOPS_RATIO_MIN} of fio's, p99 at most \
         {P99_RATIO_MAX} times fio's. {}; its write and sync times are added as independent.\nCPU \
         time stolen by the hypervisor: {steal}",
        bench.pairs, bench.fio_version,
    )
}

fn verdict(bench: &BenchFloor) -> String {
    let shortfalls = bench.shortfalls();
    match shortfalls.is_empty() {
        true => "floor: PASS".to_owned(),
        false => format!("floor: SHORT ({})", shortfalls.join("; ")),
    }
}
