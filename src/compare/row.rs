//! The rows of one cell: each figure of both sides, with how far their ratio can be trusted.

use serde::Serialize;

use crate::measure::histogram::Percentile;

use super::blocks::{Blocks, Endpoint};
use super::interval::{self, BLOCKS_MIN, Estimate};
use super::report::{Endpoints, Options};
use super::verdict::Verdict;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// A percentile of a latency, in nanoseconds.
    Latency(Endpoint, &'static Percentile),
    /// Records per second; not for the open loop, where it is asked for.
    Rate,
}

impl Metric {
    /// `acknowledged p99`, `rate`.
    pub fn name(self) -> String {
        match self {
            Metric::Latency(endpoint, percentile) => {
                format!("{} {}", endpoint.name(), percentile.name)
            }
            Metric::Rate => "rate".to_owned(),
        }
    }
}

/// One figure of a cell on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is about.
    #[serde(skip)]
    pub metric: Metric,
    /// The same in words.
    pub name: String,
    /// `ns` or `records/s`.
    pub unit: &'static str,
    /// Whether more is better.
    pub bigger_is_better: bool,
    /// Repeats, or rounds, on each side.
    pub blocks: (usize, usize),
    /// Absent if the sample is too small.
    pub base: Option<f64>,
    /// Absent if the sample is too small.
    pub new: Option<f64>,
    /// `new / base`.
    pub ratio: Option<f64>,
    /// Lower end of what `ratio` may really be.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// Of such a change if nothing that matters had changed, corrected for the number of rows.
    pub probability: Option<f64>,
    /// What can be said.
    pub verdict: Verdict,
    /// Why not more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The logarithm of how much worse `new` is.
    #[serde(skip)]
    pub estimate: Option<Estimate>,
}

/// One cell of one side, block by block.
pub(super) struct CellBlocks {
    pub(super) latencies: [Blocks; 3],
    pub(super) rates: Vec<f64>,
}

/// A cell of both sides.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) has_rate: bool,
    pub(super) base: CellBlocks,
    pub(super) new: CellBlocks,
}

/// All figures of a cell, without verdicts yet.
pub(super) fn rows(pair: &Pair, paired: bool, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, endpoint) in Endpoint::ALL.into_iter().enumerate() {
        let is_main_only = options.endpoints == Endpoints::Main;
        let (base, new) = (&pair.base.latencies[at], &pair.new.latencies[at]);
        let is_empty = base.event_count().min(new.event_count()) == 0;
        if is_empty || is_main_only && endpoint == Endpoint::Committed {
            continue;
        }
        for percentile in &options.percentiles {
            rows.push(latency_row(pair, (endpoint, percentile), (base, new), paired, options));
        }
        if is_main_only {
            break;
        }
    }
    if pair.has_rate {
        rows.push(rate_row(pair, paired, options));
    }
    rows
}

fn latency_row(
    pair: &Pair,
    (endpoint, percentile): (Endpoint, &'static Percentile),
    (base, new): (&Blocks, &Blocks),
    paired: bool,
    options: &Options,
) -> Row {
    let of = |blocks: &Blocks, picks: &[usize]| {
        blocks.quantile(percentile.quantile, picks).map(|value_ns| value_ns as f64)
    };
    let events = base.event_count().min(new.event_count());
    let mut row = Row::new(Metric::Latency(endpoint, percentile), (base.len(), new.len()));
    if events < percentile.samples_min {
        row.reason = Some(format!("needs {} independent events", percentile.samples_min));
        return row;
    }
    let figures: [interval::Figure<'_>; 2] = [&|picks| of(base, picks), &|picks| of(new, picks)];
    row.fill(figures, paired, options.seed ^ stream(&pair.name, &row.name));
    if events < percentile.samples_min_to_gate() {
        let needed = percentile.samples_min_to_gate();
        row.reason =
            Some(format!("{events} independent events a side: {needed} are needed to judge by"));
        row.estimate = None;
    }
    row
}

fn rate_row(pair: &Pair, paired: bool, options: &Options) -> Row {
    let mean = |rates: &[f64], picks: &[usize]| {
        let sum: f64 = picks.iter().map(|block| rates[*block]).sum();
        (!picks.is_empty()).then(|| sum / picks.len() as f64)
    };
    let (base, new) = (&pair.base.rates, &pair.new.rates);
    let mut row = Row::new(Metric::Rate, (base.len(), new.len()));
    let figures: [interval::Figure<'_>; 2] =
        [&|picks| mean(base, picks), &|picks| mean(new, picks)];
    row.fill(figures, paired, options.seed ^ stream(&pair.name, &row.name));
    row
}

impl Row {
    fn new(metric: Metric, blocks: (usize, usize)) -> Row {
        let is_rate = metric == Metric::Rate;
        Row {
            metric,
            name: metric.name(),
            unit: if is_rate { "records/s" } else { "ns" },
            bigger_is_better: is_rate,
            blocks,
            base: None,
            new: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            probability: None,
            verdict: Verdict::TooNoisy,
            reason: None,
            estimate: None,
        }
    }

    fn fill(&mut self, [base, new]: [interval::Figure<'_>; 2], paired: bool, seed: u64) {
        let all = |count| (0..count).collect::<Vec<_>>();
        let (base_blocks, new_blocks) = self.blocks;
        self.base = base(&all(base_blocks));
        self.new = new(&all(new_blocks));
        self.ratio = self.base.zip(self.new).map(|(base, new)| new / base);
        let ratio = match paired {
            true => interval::paired_ratio(base_blocks, base, new, seed),
            false => interval::ratio((base_blocks, base), (new_blocks, new), seed),
        };
        let Some(ratio) = ratio else {
            if base_blocks.min(new_blocks) < BLOCKS_MIN {
                let what = if paired { "round" } else { "repeat" };
                self.reason =
                    Some(format!("one {what} tells nothing of the noise between {what}s"));
            }
            return;
        };
        let (low, high) = ratio.interval();
        (self.ratio_low, self.ratio_high) = (Some(low.exp()), Some(high.exp()));
        let worse = if self.bigger_is_better { -ratio.log } else { ratio.log };
        self.estimate = Some(Estimate { log: worse, ..ratio });
    }
}

/// FNV-1a: each figure draws from a stream of its own, so that one more cell moves no other.
fn stream(cell: &str, figure: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    cell.bytes().chain([0]).chain(figure.bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}
