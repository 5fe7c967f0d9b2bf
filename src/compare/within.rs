//! Null results within one run: how far apart the cells under the KIP's high watermark gate and their
//! legacy twins can at most be while every ISR is whole.
//!
//! "Not significant" says nothing about a small sample; a bound does. The repeats are interleaved, so
//! each is a pair of blocks, and the ratio's interval (see [`interval`]) is the bound.

use crate::measure::histogram::{PERCENTILES, Percentile};
use crate::results::schema::{Cell, Factors, RunResult};

use super::blocks::{Blocks, Endpoint, per_repeat};
use super::interval::{self, Estimate};

const ENDPOINTS: [(Endpoint, &str); 2] =
    [(Endpoint::Acknowledged, "ack"), (Endpoint::Committed, "commit")];
/// Percentiles that are bounded.
const BOUNDED: [&str; 2] = ["p50", "p99"];

/// One figure of a pair of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The cell under the gate.
    pub cell: String,
    /// `ack p50`.
    pub figure: String,
    /// Gate over legacy.
    pub ratio: f64,
    /// Ends of what covers the true ratio with 95 %.
    pub interval: (f64, f64),
    /// Pairs of repeats.
    pub blocks: usize,
}

impl Bound {
    /// The largest difference that the interval leaves, a share.
    pub fn within(&self) -> f64 {
        (self.interval.1 - 1.0).max(1.0 - self.interval.0).max(0.0)
    }
}

/// Every cell under `kip966` that has a twin under `legacy`, where nothing was made to go wrong.
/// Figures that the samples do not support, and cells of a single repeat, are left out.
pub fn gate(result: &RunResult, seed: u64) -> Vec<Bound> {
    let is_steady = |cell: &&Cell| cell.repeats.iter().all(|repeat| repeat.events.is_empty());
    let gated = result.cells.iter().filter(|cell| cell.factors.hwm_gate == "kip966");
    let mut bounds = Vec::new();
    for cell in gated.filter(is_steady) {
        let legacy = Factors { hwm_gate: "legacy".to_owned(), ..cell.factors.clone() };
        let twin = result.cells.iter().find(|other| other.factors == legacy);
        let Some(twin) = twin.filter(is_steady) else { continue };
        for (endpoint, name) in ENDPOINTS {
            let sides = (per_repeat(twin, endpoint).ok(), per_repeat(cell, endpoint).ok());
            let (Some(base), Some(new)) = sides else { continue };
            let (base, new) = (Blocks::new(&base), Blocks::new(&new));
            for percentile in PERCENTILES.iter().filter(|one| BOUNDED.contains(&one.name)) {
                let Some(estimate) = estimate(&base, &new, percentile, seed) else { continue };
                let (low, high) = estimate.interval();
                bounds.push(Bound {
                    cell: cell.name.clone(),
                    figure: format!("{name} {}", percentile.name),
                    ratio: estimate.log.exp(),
                    interval: (low.exp(), high.exp()),
                    blocks: new.len(),
                });
            }
        }
    }
    bounds
}

fn estimate(base: &Blocks, new: &Blocks, percentile: &Percentile, seed: u64) -> Option<Estimate> {
    let enough = base.event_count().min(new.event_count()) >= percentile.samples_min;
    if !enough || base.len() != new.len() {
        return None;
    }
    let of = |blocks: &Blocks, picks: &[usize]| {
        blocks.quantile(percentile.quantile, picks).map(|value_ns| value_ns as f64)
    };
    let (base_of, new_of) = (|picks: &[usize]| of(base, picks), |picks: &[usize]| of(new, picks));
    interval::paired_ratio(base.len(), &base_of, &new_of, seed)
}

/// For people; empty without a pair of cells.
pub fn text(result: &RunResult, seed: u64) -> String {
    let bounds = gate(result, seed);
    let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let line = |bound: &Bound| {
        format!(
            "  {:<40} {:<10}  within {:>4.1} %  ({}, between {} and {}, {} pairs)\n",
            bound.cell,
            bound.figure,
            100.0 * bound.within(),
            percent(bound.ratio),
            percent(bound.interval.0),
            percent(bound.interval.1),
            bound.blocks,
        )
    };
    let lines: String = bounds.iter().map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("what the gate costs while every ISR is whole: kip966 over legacy, 95 % sure\n{lines}")
}
