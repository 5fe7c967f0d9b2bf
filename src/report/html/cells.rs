//! All cells in one table, and each by itself.

use crate::report::{faults, numbers};
use crate::results::schema::{Cell, Counts, Latency, Repeat, RunResult, Status};

use super::breakdown::{self, Waterfall};
use super::figure::{Figure, NONE, micros};
use super::isr::{self, IsrView};
use super::timeline::{self, TimelineView};

/// A row a cell.
pub struct Overview {
    /// Names of the figures' columns.
    pub columns: Vec<&'static str>,
    /// In matrix order.
    pub rows: Vec<OverviewRow>,
}

/// One cell in the overview.
pub struct OverviewRow {
    /// `r0-c3`.
    pub id: String,
    /// Cell name.
    pub name: String,
    /// Where its figures stand.
    pub at: String,
    /// Not measured to its end.
    pub partial: bool,
    /// Whether its syncs are not shown to survive power loss.
    pub doubted: bool,
    /// In the order of the columns.
    pub figures: Vec<Figure>,
}

/// One cell by itself.
pub struct CellView {
    /// `r0-c3`.
    pub id: String,
    /// Cell name.
    pub name: String,
    /// Where its figures stand.
    pub at: String,
    /// p50 and p99 for the fold's title.
    pub gist: String,
    /// Unfolded from the start: something happened to it.
    pub open: bool,
    /// Why it is partial, and its warnings.
    pub notes: Vec<String>,
    /// What an acknowledgement promises, and how the cell was loaded.
    pub facts: Vec<(String, String)>,
    /// Percentile columns that some row has.
    pub percentiles: Vec<String>,
    /// A row a distribution.
    pub distributions: Vec<DistributionRow>,
    /// Around p50 and p99.
    pub waterfalls: Vec<Waterfall>,
    /// ISR changes and stalls.
    pub isr: Option<IsrView>,
    /// Over time.
    pub timeline: Option<TimelineView>,
    /// A row a repeat.
    pub repeats: Vec<RepeatRow>,
    /// What became of the records: label and number.
    pub counts: Vec<(&'static str, Figure)>,
    /// Error names and failed batches.
    pub errors: Vec<(String, Figure)>,
}

/// One distribution of a cell.
pub struct DistributionRow {
    /// In words.
    pub name: &'static str,
    /// Where its figures stand.
    pub at: String,
    /// Samples, mean, percentiles, longest.
    pub figures: Vec<Figure>,
}

/// One repeat of a cell.
pub struct RepeatRow {
    /// From 0.
    pub number: usize,
    /// Where its figures stand.
    pub at: String,
    /// p50, p99, longest, rate, stolen CPU time.
    pub figures: Vec<Figure>,
}

const OVERVIEW_COLUMNS: [&str; 11] = [
    "p50",
    "p99",
    "p99.9",
    "max",
    "commit p50",
    "commit p99",
    "consume p50",
    "records/s asked",
    "got",
    "× page-cache",
    "× floor",
];

/// Percentiles that stay in result.json: between p90 and p99 they tell little more.
const LEFT_OUT: [&str; 1] = ["p95"];

/// The overview of a run.
pub fn overview(run: &str, result: &RunResult) -> Overview {
    let row = |cell: &Cell| OverviewRow {
        id: id(run, cell),
        name: cell.name.clone(),
        at: format!("/cells/{}", cell.index),
        partial: cell.status == Status::Partial,
        doubted: cell.power_loss_doubt.is_some(),
        figures: overview_figures(cell),
    };
    Overview { columns: OVERVIEW_COLUMNS.to_vec(), rows: result.cells.iter().map(row).collect() }
}

/// Place on the page, name and number of events of each cell that has any.
pub fn eventful(run: &str, result: &RunResult) -> Vec<(String, String, usize)> {
    let events = |cell: &Cell| cell.repeats.iter().map(|repeat| repeat.events.len()).sum();
    let entry = |cell: &Cell| (id(run, cell), cell.name.clone(), events(cell));
    result.cells.iter().map(entry).filter(|(_, _, count)| *count > 0).collect()
}

fn id(run: &str, cell: &Cell) -> String {
    format!("{run}-c{}", cell.index)
}

fn overview_figures(cell: &Cell) -> Vec<Figure> {
    let (latency, rate) = (&cell.latency, &cell.rate);
    let acknowledged =
        |name| Figure::percentile(&latency.acknowledged, name, "latency/acknowledged");
    let committed = |name| Figure::percentile(&latency.committed, name, "latency/committed");
    let ran = !cell.repeats.is_empty();
    let count = |value: Option<f64>, of: &str| match value {
        Some(value) => Figure::stored(numbers::count(value), of, value),
        None => Figure::shown(NONE),
    };
    vec![
        acknowledged("p50"),
        acknowledged("p99"),
        acknowledged("p99.9"),
        Figure::latency(latency.acknowledged.max_ns, "latency/acknowledged/max_ns"),
        committed("p50"),
        committed("p99"),
        Figure::percentile(&latency.consumed, "p50", "latency/consumed"),
        count(rate.asked_per_s, "rate/asked_per_s"),
        count(ran.then_some(rate.achieved_per_s), "rate/achieved_per_s"),
        Figure::ratio(cell.acknowledged_p50_to_page_cache, "acknowledged_p50_to_page_cache"),
        Figure::ratio(cell.floor.as_ref().and_then(|floor| floor.ratio), "floor/ratio"),
    ]
}

/// One cell, one of `cells`, by itself.
pub fn view(run: &str, cell: &Cell, cells: usize) -> CellView {
    let reason = cell.status_reason.iter().map(|reason| format!("partial: {reason}"));
    let timeline = timeline::view(cell, cells);
    let rows = distribution_list(cell);
    let has = |name: &&String| {
        let shown = !LEFT_OUT.contains(&name.as_str());
        shown && rows.iter().any(|(_, _, row)| row.percentiles_ns.contains_key(*name))
    };
    let mut percentiles: Vec<String> =
        cell.latency.acknowledged.percentiles_ns.keys().filter(has).cloned().collect();
    percentiles.sort_by(|a, b| depth(a).total_cmp(&depth(b)));
    CellView {
        id: id(run, cell),
        name: cell.name.clone(),
        at: format!("/cells/{}", cell.index),
        gist: gist(cell),
        open: timeline.as_ref().is_some_and(|timeline| !timeline.events.is_empty()),
        notes: reason.chain(cell.warnings.iter().cloned()).collect(),
        facts: facts(cell),
        distributions: rows
            .iter()
            .map(|(name, key, latency)| distribution(cell, name, key, latency, &percentiles))
            .collect(),
        percentiles,
        waterfalls: breakdown::waterfalls(cell),
        isr: isr::view(cell),
        timeline,
        repeats: cell
            .repeats
            .iter()
            .enumerate()
            .map(|(i, repeat)| repeat_row(cell, i, repeat))
            .collect(),
        counts: counts(&cell.counts),
        errors: cell
            .errors
            .iter()
            .map(|(name, count)| {
                let of = format!("errors/{name}/batches");
                (name.clone(), Figure::stored(count.batches.to_string(), &of, count.batches))
            })
            .collect(),
    }
}

/// `p99.9` → 99.9.
fn depth(name: &str) -> f64 {
    name.trim_start_matches('p').parse().unwrap_or(f64::MAX)
}

fn gist(cell: &Cell) -> String {
    let percentile = |name: &str| {
        let value = cell.latency.acknowledged.percentiles_ns.get(name);
        value.map(|value_ns| format!("{name} {}", micros(*value_ns)))
    };
    let shown: Vec<String> = ["p50", "p99"].into_iter().filter_map(percentile).collect();
    if shown.is_empty() { "no percentiles".to_owned() } else { shown.join(", ") }
}

fn facts(cell: &Cell) -> Vec<(String, String)> {
    let factors = &cell.factors;
    let mut facts = vec![
        ("an acknowledgement".to_owned(), cell.guarantee.clone()),
        (
            "load".to_owned(),
            format!(
                "{} loop, {} B records, {} partition{}",
                factors.load_mode,
                factors.record_bytes,
                factors.partitions,
                if factors.partitions == 1 { "" } else { "s" }
            ),
        ),
        (
            "engine, commit route".to_owned(),
            format!("{}, {}", factors.engine, factors.commit_route),
        ),
    ];
    if let Some(floor) = &cell.floor {
        let ratio = floor.ratio.map_or(String::new(), |ratio| {
            format!("; measured {ratio:.2} times that, from the actual send")
        });
        let bound = format!("{} = {}{ratio}", floor.formula, micros(floor.floor_ns));
        facts.push(("floor of this machine".to_owned(), bound));
    }
    for (label, text) in [
        ("lost leaders (p50 or median; max)", faults::failover(cell)),
        ("read back from every replica, records", faults::kept(cell)),
    ] {
        facts.extend(text.map(|text| (label.to_owned(), text)));
    }
    facts
}

type Distribution<'a> = (&'static str, &'static str, &'a Latency);

/// Those that have samples.
fn distribution_list(cell: &Cell) -> Vec<Distribution<'_>> {
    let latency = &cell.latency;
    let all = [
        ("acknowledged", "acknowledged", &latency.acknowledged),
        ("committed", "committed", &latency.committed),
        ("consumed", "consumed", &latency.consumed),
        ("acknowledged, from actual send", "acknowledged_service", &latency.acknowledged_service),
        ("schedule lag", "schedule_lag", &latency.schedule_lag),
        ("failed", "failed", &latency.failed),
    ];
    all.into_iter().filter(|(_, _, latency)| latency.count > 0).collect()
}

fn distribution(
    cell: &Cell,
    name: &'static str,
    key: &str,
    latency: &Latency,
    percentiles: &[String],
) -> DistributionRow {
    let mut figures = vec![
        Figure::stored(latency.count.to_string(), "count", latency.count),
        match latency.mean_ns {
            Some(mean_ns) => Figure::stored(micros(mean_ns as u64), "mean_ns", mean_ns),
            None => Figure::shown(NONE),
        },
    ];
    figures.extend(percentiles.iter().map(|name| Figure::percentile(latency, name, "")));
    figures.push(Figure::latency(latency.max_ns, "max_ns"));
    DistributionRow { name, at: format!("/cells/{}/latency/{key}", cell.index), figures }
}

fn repeat_row(cell: &Cell, index: usize, repeat: &Repeat) -> RepeatRow {
    let percentile = |name| Figure::percentile(&repeat.acknowledged, name, "acknowledged");
    let steal = repeat.contamination.get("steal_percent").and_then(|value| value.as_f64());
    RepeatRow {
        number: repeat.repeat,
        at: format!("/cells/{}/repeats/{index}", cell.index),
        figures: vec![
            percentile("p50"),
            percentile("p99"),
            Figure::latency(repeat.acknowledged.max_ns, "acknowledged/max_ns"),
            Figure::stored(
                numbers::count(repeat.achieved_per_s),
                "achieved_per_s",
                repeat.achieved_per_s,
            ),
            match steal {
                Some(percent) => Figure::stored(
                    format!("{percent:.1}\u{a0}%"),
                    "contamination/steal_percent",
                    percent,
                ),
                None => Figure::shown("unknown"),
            },
        ],
    }
}

fn counts(counts: &Counts) -> Vec<(&'static str, Figure)> {
    let figure =
        |key: &str, value: u64| Figure::stored(value.to_string(), &format!("counts/{key}"), value);
    // What went well is always said; what did not happen is left out.
    let always = 3;
    let all = [
        ("due", counts.due_records, "due_records"),
        ("sent", counts.sent_records, "sent_records"),
        ("acknowledged", counts.acknowledged_records, "acknowledged_records"),
        ("consumed", counts.consumed_records, "consumed_records"),
        ("failed", counts.failed_records, "failed_records"),
        ("unanswered", counts.unanswered_records, "unanswered_records"),
        ("never sent", counts.unsent_records, "unsent_records"),
        ("batches sent again", counts.resent_batches, "resent_batches"),
    ];
    all.into_iter()
        .enumerate()
        .filter(|(index, (_, value, _))| *index < always || *value > 0)
        .map(|(_, (label, value, key))| (label, figure(key, value)))
        .collect()
}
