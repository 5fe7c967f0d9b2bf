//! Where the time went: the stages of one cell as a waterfall, and of a slice's cells as bars.
//!
//! Drawn from the means over the records around a percentile, which add up. Results of releases
//! that did not keep them have the stages' own percentiles: at p50 they nearly add up, at p99 they do
//! not, so those stand side by side and the page says so.

use crate::report::stages::{self, Kind};
use crate::results::schema::{Cell, Stage, StageBand};

use super::chart::percent;
use super::figure::{Figure, micros};
use super::groups::{Entry, Slice};
use super::ladder::p;

/// The percentiles that are taken apart.
const TAKEN_APART: [&str; 2] = ["p50", "p99"];

/// The stages of one cell around one percentile.
pub struct Waterfall {
    /// What it is of: `the records around p50 (205 µs to 218 µs, 1 092 of them)`.
    pub title: String,
    /// Where its figures stand.
    pub at: String,
    /// In path order.
    pub steps: Vec<Step>,
}

/// One stage.
pub struct Step {
    /// Short name.
    pub label: String,
    /// CSS class of its kind.
    pub class: String,
    /// CSS offset of the bar.
    pub start: String,
    /// CSS length of the bar.
    pub width: String,
    /// The time.
    pub figure: Figure,
    /// Of the whole; empty for what runs beside the path.
    pub share: String,
}

/// Bars of all cells of a slice, on one scale per percentile.
pub struct StackView {
    /// Of p50, and of p99 where it can be taken apart.
    pub tables: Vec<StackTable>,
    /// The kinds of work, for the legend: CSS class and name.
    pub kinds: Vec<(String, &'static str)>,
}

/// The bars of one percentile.
pub struct StackTable {
    /// What the bars are means or medians of.
    pub caption: String,
    /// Series name and its bar, if the sample is large enough.
    pub rows: Vec<(String, Option<Stack>)>,
}

/// One bar.
pub struct Stack {
    /// The whole, in words.
    pub total: String,
    /// All parts in words, for who does not see them.
    pub description: String,
    /// CSS class and CSS width of each part.
    pub parts: Vec<(String, String)>,
}

/// The time per stage of one cell around one percentile, in path order.
fn parts(cell: &Cell, percentile: &str) -> Option<Vec<(String, u64)>> {
    if let Some((_, band)) = band(cell, percentile) {
        let in_order = cell
            .stages
            .iter()
            .filter_map(|stage| Some((stage.name.clone(), *band.mean_ns.get(&stage.name)?)));
        return Some(in_order.collect());
    }
    if percentile != "p50" {
        return None;
    }
    let own =
        |stage: &Stage| Some((stage.name.clone(), *stage.latency.percentiles_ns.get(percentile)?));
    let on_path = cell.stages.iter().filter(|stage| stage.on_path);
    let parts: Vec<(String, u64)> = on_path.filter_map(own).collect();
    (!parts.is_empty()).then_some(parts)
}

fn band<'a>(cell: &'a Cell, percentile: &str) -> Option<(usize, &'a StageBand)> {
    cell.stage_bands.iter().enumerate().find(|(_, band)| band.percentile == percentile)
}

/// The largest stages around the median, largest first, each with its share of all.
pub fn largest(cell: &Cell, count: usize) -> Vec<(String, u64, f64)> {
    let mut parts = parts(cell, "p50").unwrap_or_default();
    let whole: u64 = parts.iter().map(|(_, part)| part).sum();
    parts.sort_by_key(|(_, part)| std::cmp::Reverse(*part));
    let share = |part: u64| part as f64 / whole.max(1) as f64;
    let named = |(name, part): (String, u64)| (stages::label(&name).to_owned(), part, share(part));
    parts.into_iter().take(count).map(named).collect()
}

/// The bars of a slice; `None` if no cell was traced.
pub fn stacks(slice: &Slice<'_>) -> Option<StackView> {
    let table = |percentile: &'static str| stack_table(slice, percentile);
    let tables: Vec<StackTable> = TAKEN_APART.into_iter().filter_map(table).collect();
    let kinds = Kind::ALL.map(|kind| (class(kind), kind.name())).to_vec();
    (!tables.is_empty()).then_some(StackView { tables, kinds })
}

fn stack_table(slice: &Slice<'_>, percentile: &'static str) -> Option<StackTable> {
    let all: Vec<Option<Vec<(String, u64)>>> =
        slice.entries.iter().map(|entry| parts(entry.cell, percentile)).collect();
    let total = |parts: &Vec<(String, u64)>| parts.iter().map(|(_, part)| part).sum::<u64>();
    let longest = all.iter().flatten().map(total).max()?;
    let row = |(entry, parts): (&Entry<'_>, &Option<Vec<(String, u64)>>)| {
        let bar = parts.as_ref().map(|parts| stack(parts, longest));
        (slice.series(entry).name.clone(), bar)
    };
    let caption = match slice.entries.iter().any(|entry| band(entry.cell, percentile).is_some()) {
        true => format!("mean of the records around {percentile}"),
        false => format!("{percentile} of each stage; their sum need not be that of the whole"),
    };
    Some(StackTable { caption, rows: slice.entries.iter().zip(&all).map(row).collect() })
}

fn stack(parts: &[(String, u64)], longest: u64) -> Stack {
    let by_kind = Kind::ALL.map(|kind| {
        let own = parts.iter().filter(|(name, _)| stages::kind(name) == kind);
        (kind, own.map(|(_, part)| part).sum::<u64>())
    });
    let words = |(kind, part): &(Kind, u64)| format!("{} {}", kind.name(), micros(*part));
    let shown: Vec<(Kind, u64)> = by_kind.into_iter().filter(|(_, part)| *part > 0).collect();
    let width = |part: u64| percent(part as f64 / longest.max(1) as f64);
    let description: Vec<String> = shown.iter().map(words).collect();
    Stack {
        total: micros(parts.iter().map(|(_, part)| part).sum()),
        description: description.join(", "),
        parts: shown.iter().map(|part| (class(part.0), width(part.1))).collect(),
    }
}

/// What each stage that occurs is, by its label, in path order.
pub fn meanings(cells: &[Cell]) -> Vec<(String, String)> {
    let mut meanings: Vec<(String, String)> = Vec::new();
    for stage in cells.iter().flat_map(|cell| &cell.stages) {
        let label = stages::label(&stage.name);
        if !meanings.iter().any(|(known, _)| known == label) {
            meanings.push((label.to_owned(), stage.meaning.clone()));
        }
    }
    meanings
}

fn class(kind: Kind) -> String {
    format!("k{}", kind as usize)
}

/// The waterfalls of one cell, shallow to deep; none if it was not traced.
pub fn waterfalls(cell: &Cell) -> Vec<Waterfall> {
    TAKEN_APART.into_iter().filter_map(|percentile| waterfall(cell, percentile)).collect()
}

fn waterfall(cell: &Cell, percentile: &str) -> Option<Waterfall> {
    let Some((index, band)) = band(cell, percentile) else {
        return waterfall_of_own_percentiles(cell, percentile);
    };
    let title = format!(
        "Around {percentile}: mean of the {} records that took {} to {}",
        band.count,
        micros(band.from_ns),
        micros(band.to_ns)
    );
    let at = format!("/cells/{}/stage_bands/{index}/mean_ns", cell.index);
    let steps = steps(&parts(cell, percentile)?, true, &str::to_owned);
    Some(Waterfall { title, at, steps })
}

fn waterfall_of_own_percentiles(cell: &Cell, percentile: &str) -> Option<Waterfall> {
    let own =
        |stage: &Stage| Some((stage.name.clone(), *stage.latency.percentiles_ns.get(percentile)?));
    let on_path = cell.stages.iter().filter(|stage| stage.on_path);
    let parts: Vec<(String, u64)> = on_path.filter_map(own).collect();
    let of = |name: &str| {
        let index = cell.stages.iter().position(|stage| stage.name == name).unwrap_or(0);
        format!("{index}/latency/percentiles_ns/{percentile}")
    };
    let adds_up = percentile == "p50";
    let whole = p(cell, percentile).filter(|_| !parts.is_empty())?;
    let title = format!(
        "Each stage's own {percentile}, where the whole took {}{}",
        micros(whole),
        if adds_up { "" } else { "; these do not add up" }
    );
    let at = format!("/cells/{}/stages", cell.index);
    Some(Waterfall { title, at, steps: steps(&parts, adds_up, &of) })
}

fn steps(parts: &[(String, u64)], adds_up: bool, of: &dyn Fn(&str) -> String) -> Vec<Step> {
    let sum: u64 = parts.iter().map(|(_, part)| part).sum();
    let longest = parts.iter().map(|(_, part)| *part).max().unwrap_or(1);
    let whole = if adds_up { sum } else { longest }.max(1) as f64;
    let mut before = 0;
    let mut steps = Vec::with_capacity(parts.len());
    for (name, part) in parts {
        steps.push(Step {
            label: stages::label(name).to_owned(),
            class: class(stages::kind(name)),
            start: percent(before as f64 / whole),
            width: percent(*part as f64 / whole),
            figure: Figure::latency(Some(*part), &of(name)),
            share: if adds_up { share(*part, sum) } else { String::new() },
        });
        before += if adds_up { *part } else { 0 };
    }
    steps
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.0}\u{a0}%", 100.0 * part as f64 / whole.max(1) as f64)
}
