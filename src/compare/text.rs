//! A report and a judgement for people, in 120 columns.

use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::report::numbers;

use super::blocks::Endpoint;
use super::gate::{Decision, Judgement};
use super::report::{CellReport, Report, Side};
use super::row::{Metric, Row};
use super::verdict::Verdict;

/// The percentiles with a column of their own; `--json` has all.
const COLUMNS: [&str; 3] = ["p50", "p99", "p99.9"];

/// The whole comparison, lines ended with `\n`.
pub fn report(report: &Report) -> String {
    let mut text = heading(report);
    text.push('\n');
    text.push_str(&table(report));
    text.push('\n');
    text.push_str(&legend(report));
    text
}

fn heading(report: &Report) -> String {
    let side = |label: &str, side: &Side| {
        let runs = match side.run_ids.len() {
            1 => String::new(),
            count => format!(", {count} runs"),
        };
        let (name, started, version) = (&side.workload, &side.started_at, &side.version);
        format!("{label} {name}, {started}{runs}, ackmark {version}\n")
    };
    let mut text = side("base", &report.base) + &side("new ", &report.new);
    for obstacle in &report.allowed {
        text.push_str(&format!("  ! allowed, {obstacle}\n"));
    }
    text
}

fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["new / base".to_owned(), "latency".to_owned()];
    header.extend(COLUMNS.map(|name| format!("{name}  (95 %)")));
    table.set_header(header);
    for cell in &report.cells {
        for endpoint in Endpoint::ALL {
            if let Some(row) = latency_row(cell, endpoint) {
                table.add_row(row);
            }
        }
        let rate = cell.rows.iter().find(|row| row.metric == Metric::Rate);
        if let Some(rate) = rate {
            table.add_row([cell.name.clone(), "records/s".to_owned(), shown(rate)]);
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= 2 {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    lines.concat()
}

fn latency_row(cell: &CellReport, of: Endpoint) -> Option<Vec<String>> {
    let label = match of {
        Endpoint::Acknowledged => "ack",
        Endpoint::Committed => "commit",
        Endpoint::Consumed => "consume",
    };
    let find = |name: &str| {
        let is_it = |row: &&Row| {
            matches!(row.metric, Metric::Latency(endpoint, percentile)
                if endpoint == of && percentile.name == name)
        };
        cell.rows.iter().find(is_it)
    };
    find(COLUMNS[0])?;
    let figures = COLUMNS.map(|name| find(name).map_or(String::new(), shown));
    Some([cell.name.clone(), label.to_owned()].into_iter().chain(figures).collect())
}

/// `1.07 (0.98-1.15) noisy`
fn shown(row: &Row) -> String {
    let Some(ratio) = row.ratio else { return "n/a".to_owned() };
    match row.ratio_low.zip(row.ratio_high).filter(|_| row.estimate.is_some()) {
        Some((low, high)) => {
            format!("{ratio:.2} ({}-{}) {}", bound(low), bound(high), row.verdict.name())
        }
        None => format!("{ratio:.2} (?)"),
    }
}

/// An interval of two repeats can be absurdly wide: then only its order of magnitude is told.
fn bound(value: f64) -> String {
    match value {
        0.0..0.01 => "0".to_owned(),
        0.01..100.0 => format!("{value:.2}"),
        _ => ">100".to_owned(),
    }
}

fn legend(report: &Report) -> String {
    let percent = 100.0 * report.same_within;
    let blocks = if report.paired { "rounds, pairwise" } else { "repeats" };
    let mut text = format!(
        "In brackets what the ratio may really be, by the noise between {blocks}. better, WORSE: surely \
         by more than\n{percent:.0} %; same: surely within {percent:.0} %; noisy: too noisy to say; \
         (?): not enough samples or {} to judge by.\n",
        if report.paired { "rounds" } else { "repeats" }
    );
    for (side, cells) in [("base", &report.only_in_base), ("new", &report.only_in_new)] {
        if !cells.is_empty() {
            text.push_str(&format!("only in {side}: {}\n", cells.join("; ")));
        }
    }
    let calls = |verdict| changes(report, verdict);
    for (label, lines) in [("worse", calls(Verdict::Worse)), ("better", calls(Verdict::Better))] {
        for line in lines {
            text.push_str(&format!("{label}: {line}\n"));
        }
    }
    text
}

fn changes(report: &Report, verdict: Verdict) -> Vec<String> {
    let rows = report.cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
    rows.filter(|(_, row)| row.verdict == verdict)
        .map(|(cell, row)| format!("{}: {} {}", cell.name, row.name, change(row)))
        .collect()
}

/// `66.4 us -> 76.1 us, +15 % (+11 to +19 %)`
fn change(row: &Row) -> String {
    let value = |value: Option<f64>| match value {
        None => "n/a".to_owned(),
        Some(value) if row.bigger_is_better => format!("{} records/s", numbers::count(value)),
        Some(value) => numbers::latency(value as u64),
    };
    let percent = |ratio: f64| format!("{:+.0}", 100.0 * (ratio - 1.0));
    let mut text = format!("{} -> {}", value(row.base), value(row.new));
    if let Some(ratio) = row.ratio {
        text.push_str(&format!(", {} %", percent(ratio)));
    }
    if let Some((low, high)) = row.ratio_low.zip(row.ratio_high).filter(|_| row.estimate.is_some())
    {
        text.push_str(&format!(" ({} to {} %)", percent(low), percent(high)));
    }
    text
}

/// The judgement: one line a figure, the outcome last.
pub fn judgement(judgement: &Judgement) -> String {
    let mut text = heading(&judgement.report);
    let rows = judgement.report.cells.iter().flat_map(|cell| &cell.rows);
    for (judged, row) in judgement.figures.iter().zip(rows) {
        let outcome = match judged.decision {
            Decision::Pass => "pass",
            Decision::Regression => "REGRESSION",
            Decision::Inconclusive => "inconclusive",
            Decision::NotJudged => "not judged",
        };
        text.push_str(&format!(
            "{outcome:<12} {}: {} {}, allowed {:+.0} %\n",
            judged.cell,
            judged.figure,
            change(row),
            100.0 * judged.limit
        ));
        if let Some(reason) = &judged.reason {
            text.push_str(&format!("             {reason}\n"));
        }
    }
    text.push_str(match judgement.decision {
        Decision::Pass => "gate: PASS\n",
        Decision::Regression => "gate: REGRESSION\n",
        Decision::Inconclusive => "gate: INCONCLUSIVE, no regression found\n",
        Decision::NotJudged => "gate: NOTHING could be judged\n",
    });
    text
}
