//! ISR changes and stalls of one cell.

use crate::report::isr;
use crate::results::schema::{Cell, Latency};

use super::figure::{Figure, NONE};

/// See the module.
pub struct IsrView {
    /// Committed changes in words.
    pub changes: String,
    /// A row a distribution: intervals, then latencies in and outside of stalls.
    pub rows: Vec<IsrRow>,
    /// A row a reason for stalls: its name, how many, records held up, and those weighted by time.
    pub stalls: Vec<(String, String, Vec<Figure>)>,
}

/// One distribution.
pub struct IsrRow {
    /// In words.
    pub name: String,
    /// Where its figures stand.
    pub at: String,
    /// Samples, p50, p99, longest.
    pub figures: Vec<Figure>,
}

/// `None` if no ISR changed and nothing stalled.
pub fn view(cell: &Cell) -> Option<IsrView> {
    let told = cell.isr.as_ref()?;
    if told.partitions.is_empty() && isr::stalls(told).next().is_none() {
        return None;
    }
    let at = format!("/cells/{}/isr", cell.index);
    let intervals = told.intervals.iter().enumerate().map(|(index, interval)| {
        let symbol = interval.symbol.as_ref().map_or(String::new(), |symbol| format!("{symbol}: "));
        let name = format!("{symbol}{}", interval.meaning);
        row(name, format!("{at}/intervals/{index}/latency"), &interval.latency)
    });
    let around = told.around_stalls.iter().enumerate().flat_map(|(index, around)| {
        [("met a stall", "met", &around.met), ("met none", "outside", &around.outside)].map(
            |(words, key, latency)| {
                let name = format!("{} latency of records that {words}", around.latency);
                row(name, format!("{at}/around_stalls/{index}/{key}"), latency)
            },
        )
    });
    let (expands, shrinks, flaps) = isr::changes(told);
    let stalls = told.stalls.iter().enumerate().map(|(index, stalls)| {
        let held = format!("{:.2}", stalls.held_record_s);
        let figures = vec![
            Figure::stored(stalls.count.to_string(), "count", stalls.count),
            Figure::stored(stalls.records.to_string(), "records", stalls.records),
            Figure::stored(held, "held_record_s", stalls.held_record_s),
        ];
        (stalls.reason.replace('_', " "), format!("{at}/stalls/{index}"), figures)
    });
    Some(IsrView {
        changes: format!("{expands} expansions, {shrinks} shrinks, {flaps} flaps"),
        rows: intervals.chain(around).collect(),
        stalls: stalls.collect(),
    })
}

fn row(name: String, at: String, latency: &Latency) -> IsrRow {
    let max = match latency.max_ns {
        Some(max_ns) => Figure::latency(Some(max_ns), "max_ns"),
        None => Figure::shown(NONE),
    };
    let figures = vec![
        Figure::stored(latency.count.to_string(), "count", latency.count),
        Figure::percentile(latency, "p50", ""),
        Figure::percentile(latency, "p99", ""),
        max,
    ];
    IsrRow { name, at, figures }
}
