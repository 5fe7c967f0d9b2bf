//! What is kept of a run: one figure a percentile, with the interval its repeats allow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compare::blocks::{BlockError, Blocks, Endpoint, complete_repeats, per_repeat};
use crate::compare::comparable;
use crate::compare::interval;
use crate::measure::histogram::supported_percentiles;
use crate::results::schema::{Cell, RunResult, Samples, Status};

/// Written into every line; a reader skips others and says so.
pub const HISTORY_VERSION: u32 = 1;

/// Of the draws behind the intervals; the same result always gives the same line.
const SEED: u64 = 1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`HISTORY_VERSION`].
    pub history_version: u32,
    /// The result's UUID; no run is in a history twice.
    pub run_id: String,
    /// UTC, RFC 3339, to the second.
    pub started_at: String,
    /// What was measured, as its version control names it.
    pub commit: String,
    /// The version of ackmark.
    pub version: String,
    /// The result's environment fingerprint.
    pub fingerprint: String,
    /// Sixteen hex digits over what makes figures of two machines differ: the fingerprint without
    /// ackmark's version. Runs of different machines are different series.
    pub machine: String,
    /// The machine in words.
    pub machine_name: String,
    /// The workload's name.
    pub workload: String,
    /// The cells that ran to their end.
    pub cells: Vec<EntryCell>,
}

/// One cell of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryCell {
    /// Unique within the workload.
    pub name: String,
    /// Sixteen hex digits over cluster, load and factors: cells of different settings are different
    /// series, whatever their names.
    pub settings: String,
    /// In the order of the result.
    pub figures: Vec<Figure>,
}

/// One figure of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `acknowledged p99`, `rate`.
    pub name: String,
    /// `ns` or `records/s`.
    pub unit: String,
    /// Whether more is better.
    pub bigger_is_better: bool,
    /// Of all repeats pooled.
    pub value: f64,
    /// Ends of the 95 % interval by the noise between repeats; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// Why a result has no place in a history.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It was slowed down on purpose.
    #[error("it was slowed down on purpose, so it has no place in a history")]
    SlowedDown,
    /// Not one cell ran to its end.
    #[error("no cell of it ran to its end, so there is nothing to keep")]
    Empty,
    /// A histogram is damaged.
    #[error(transparent)]
    Block(#[from] BlockError),
}

impl Entry {
    /// What a history keeps of `result`, measured at `commit`.
    ///
    /// # Errors
    /// [`EntryError`]
    pub fn new(result: &RunResult, commit: &str) -> Result<Entry, EntryError> {
        if result.workload.load.contains_key(comparable::SLOWDOWN_KEY) {
            return Err(EntryError::SlowedDown);
        }
        let complete = result.cells.iter().filter(|cell| cell.status == Status::Complete);
        let cells = complete.map(|cell| entry_cell(result, cell));
        let cells: Vec<EntryCell> = cells.collect::<Result<_, _>>()?;
        if cells.is_empty() {
            return Err(EntryError::Empty);
        }
        let machine = comparable::machine(&result.environment);
        Ok(Entry {
            history_version: HISTORY_VERSION,
            run_id: result.run_id.clone(),
            started_at: result.started_at.clone(),
            commit: commit.to_owned(),
            version: result.tool.version.clone(),
            fingerprint: text(&result.environment["fingerprint"]),
            machine: digest(&machine),
            machine_name: machine_name(&result.environment),
            workload: result.workload.name.clone(),
            cells,
        })
    }
}

fn entry_cell(result: &RunResult, cell: &Cell) -> Result<EntryCell, BlockError> {
    let mut figures = Vec::new();
    for endpoint in Endpoint::ALL {
        let blocks = Blocks::new(&per_repeat(cell, endpoint)?);
        for percentile in supported_percentiles(blocks.event_count()) {
            let of = |picks: &[usize]| {
                blocks.quantile(percentile.quantile, picks).map(|value_ns| value_ns as f64)
            };
            let name = format!("{} {}", endpoint.name(), percentile.name);
            figures.extend(figure(name, "ns", false, blocks.len(), &of));
        }
    }
    let rates: Vec<f64> = complete_repeats(cell).map(|repeat| repeat.achieved_per_s).collect();
    let mean = |picks: &[usize]| {
        let sum: f64 = picks.iter().map(|block| rates[*block]).sum();
        (!picks.is_empty()).then(|| sum / picks.len() as f64)
    };
    figures.extend(figure("rate".to_owned(), "records/s", true, rates.len(), &mean));
    Ok(EntryCell { name: cell.name.clone(), settings: settings(result, cell), figures })
}

fn figure(
    name: String,
    unit: &str,
    bigger_is_better: bool,
    blocks: usize,
    of: interval::Figure<'_>,
) -> Option<Figure> {
    let value = of(&(0..blocks).collect::<Vec<_>>())?;
    let estimate = interval::single(blocks, of, SEED);
    let ends = |(low, high): (f64, f64)| (rounded(low.exp()), rounded(high.exp()));
    let interval = estimate.map(|estimate| ends(estimate.interval()));
    let interval = interval.filter(|(_, high)| high.is_finite());
    let (unit, value) = (unit.to_owned(), rounded(value));
    Some(Figure { name, unit, bigger_is_better, value, interval })
}

/// Three decimals: beyond them a figure here is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn settings(result: &RunResult, cell: &Cell) -> String {
    let mut settings = comparable::settings(result);
    let factors = serde_json::to_value(&cell.factors).unwrap_or(Value::Null);
    settings.insert("factors".to_owned(), factors.to_string());
    // Entries from before the samples were records have no such key, and are another series.
    if cell.samples == Samples::Records {
        settings.insert("samples".to_owned(), "records".to_owned());
    }
    digest(&settings)
}

/// FNV-1a, 64 bits, over sorted keys and values.
fn digest(parts: &BTreeMap<String, String>) -> String {
    let bytes = parts
        .iter()
        .flat_map(|(key, value)| key.bytes().chain([b'=']).chain(value.bytes()).chain([b'\n']));
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

/// `AMD EPYC, 2 CPUs, Linux 6.18, ext4 on vda`
fn machine_name(environment: &Value) -> String {
    format!(
        "{}, {} CPUs, Linux {}, {} on {}",
        text(&environment["cpu"]["model"]),
        text(&environment["cpu"]["online_count"]),
        text(&environment["kernel"]["release"]),
        text(&environment["filesystem"]["kind"]),
        text(&environment["device"]["name"])
    )
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
