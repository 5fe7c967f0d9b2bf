//! A group of cells in plain words.

use crate::results::schema::Status;

use super::breakdown;
use super::figure::micros;
use super::groups::{Entry, Group, Slice};
use super::ladder::{is_synced, p};
use super::load::LoadView;
use crate::report::numbers;

/// Stages named in the sentence on where the time went.
const STAGES_NAMED: usize = 2;

/// Below this share of the median a stage is not worth its name.
const STAGE_SHARE_MIN: f64 = 0.1;

/// Two to four sentences: what it costs, where that goes, how far it scales, what went wrong.
pub fn sentences(group: &Group<'_>, load: Option<&LoadView>) -> Vec<String> {
    let slices = group.slices();
    let measured = slices
        .iter()
        .find(|slice| slice.entries.iter().any(|entry| p(entry.cell, "p50").is_some()));
    let Some(slice) = measured else {
        return vec!["Nothing here has samples enough for a median.".to_owned()];
    };
    let mut sentences = vec![cost(slice)];
    sentences.extend(spent(slice));
    sentences.extend(load.and_then(scaling));
    sentences.extend(troubles(group));
    sentences
}

/// Cheapest by median among those that qualify.
fn cheapest<'s>(
    slice: &'s Slice<'_>,
    qualifies: impl Fn(&Entry<'_>) -> bool,
) -> Option<&'s Entry<'s>> {
    let entries = slice.entries.iter().filter(|entry| qualifies(entry));
    entries.filter(|entry| p(entry.cell, "p50").is_some()).min_by_key(|entry| p(entry.cell, "p50"))
}

fn durability<'e>(entry: &Entry<'e>) -> &'e str {
    &entry.cell.factors.durability
}

fn cost(slice: &Slice<'_>) -> String {
    let lead = format!("At {}, ", slice.label().replace(" offered", ""));
    let synced = cheapest(slice, |entry| is_synced(durability(entry)));
    let cached = cheapest(slice, |entry| durability(entry) == "page-cache");
    match (synced, cached) {
        (Some(synced), Some(cached)) if several_modes(slice) => format!(
            "{lead}an acknowledgement that waited for the device to flush took {} ({}); one from \
             the page cache took {}. {}",
            middle_and_tail(synced),
            slice.series(synced).name,
            middle_and_tail(cached),
            match slice.is_of_one_rate() {
                true => price(synced, cached),
                false => "Each ran at its own rate.".to_owned(),
            },
        ),
        _ => extremes(slice, &lead),
    }
}

fn several_modes(slice: &Slice<'_>) -> bool {
    slice.entries.iter().any(|entry| durability(entry) != durability(&slice.entries[0]))
}

fn price(synced: &Entry<'_>, cached: &Entry<'_>) -> String {
    let sides = p(synced.cell, "p50").zip(p(cached.cell, "p50"));
    sides.map_or(String::new(), |(synced, cached)| {
        format!(
            "Durability costs {} at the median: {:.1} times.",
            micros(synced.saturating_sub(cached)),
            synced as f64 / cached.max(1) as f64
        )
    })
}

/// Fastest and slowest line, or the only one.
fn extremes(slice: &Slice<'_>, lead: &str) -> String {
    let with_median = slice.entries.iter().filter(|entry| p(entry.cell, "p50").is_some());
    let fastest = with_median.clone().min_by_key(|entry| p(entry.cell, "p50"));
    let slowest = with_median.clone().max_by_key(|entry| p(entry.cell, "p50"));
    match fastest.zip(slowest) {
        Some((fastest, slowest)) if with_median.count() > 1 => format!(
            "{lead}an acknowledgement took {} with {}, the fastest, and {} with {}, the slowest.",
            middle_and_tail(fastest),
            slice.series(fastest).name,
            middle_and_tail(slowest),
            slice.series(slowest).name,
        ),
        Some((only, _)) => format!("{lead}an acknowledgement took {}.", middle_and_tail(only)),
        None => String::new(),
    }
}

/// `281 µs in the middle and 2.25 ms at p99`.
fn middle_and_tail(entry: &Entry<'_>) -> String {
    let p50 = p(entry.cell, "p50").map_or(String::new(), micros);
    match p(entry.cell, "p99") {
        Some(p99) => format!("{p50} at the median and {} at p99", micros(p99)),
        None => format!("{p50} at the median"),
    }
}

/// Where the median of the cheapest flushed cell went, or of the fastest if there is none.
fn spent(slice: &Slice<'_>) -> Option<String> {
    let synced = cheapest(slice, |entry| is_synced(durability(entry)));
    let entry = synced.or_else(|| cheapest(slice, |_| true))?;
    let stages = breakdown::largest(entry.cell, STAGES_NAMED);
    let named: Vec<String> = stages
        .iter()
        .filter(|(_, _, share)| *share >= STAGE_SHARE_MIN)
        .map(|(name, part, share)| format!("{name} ({}, {:.0} %)", micros(*part), 100.0 * share))
        .collect();
    let name = &slice.series(entry).name;
    let how_much = match stages.iter().map(|(_, _, share)| share).sum::<f64>() {
        share if share > 0.5 => "Most",
        _ => "The largest parts",
    };
    (!named.is_empty())
        .then(|| format!("{how_much} of the {name} median went to {}.", named.join(" and ")))
}

/// Where the lines bend; lines that bend at the same rate share a clause.
fn scaling(load: &LoadView) -> Option<String> {
    let mut clauses: Vec<(u64, Vec<&str>)> = Vec::new();
    for row in &load.rows {
        let Some(knee_per_s) = row.knee_per_s else { continue };
        match clauses.iter_mut().find(|(known, _)| *known == knee_per_s) {
            Some((_, names)) => names.push(&row.name),
            None => clauses.push((knee_per_s, vec![&row.name])),
        }
    }
    let clause = |(knee_per_s, names): &(u64, Vec<&str>)| {
        format!("{} for {}", numbers::count(*knee_per_s as f64), listed(names))
    };
    let clauses: Vec<String> = clauses.iter().map(clause).collect();
    let lead = "Beyond the knee latency grows faster than throughput; records per second there:";
    (!clauses.is_empty()).then(|| format!("{lead} {}.", clauses.join("; ")))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Overload and missing cells.
fn troubles(group: &Group<'_>) -> Option<String> {
    let all = group.entries.len();
    let partial = group.entries.iter().filter(|entry| entry.cell.status == Status::Partial).count();
    let failed = group.entries.iter().filter(|entry| entry.cell.counts.failed_records > 0).count();
    let mut clauses = Vec::new();
    if partial > 0 {
        clauses.push(format!("{partial} of {all} cells were not measured to their end"));
    }
    if failed > 0 {
        clauses.push(format!("records failed in {failed} of {all} cells"));
    }
    (!clauses.is_empty()).then(|| format!("Beware: {}.", clauses.join(", and ")))
}
