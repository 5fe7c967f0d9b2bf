//! Where a series of figures changed its level.
//!
//! Each figure gets a score: how many robust standard deviations its logarithm lies from the median,
//! at most two, because latencies have outliers and one slow run is no new level. The point that
//! parts the series best is the one at which the scores so far are furthest from what chance would
//! give. How likely chance alone would part it as well is found by shuffling the series. A convincing
//! point parts the series in two, and each part is searched again; in the end each point is tested
//! once more between its neighbours. So runs are compared with all before and after, not with the run
//! before (spec/measurement.md M23).
//!
//! Assumes that runs of one level come in any order. A level that drifts slowly is shown as steps.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Fewest runs at one level: fewer are outliers.
pub const SEGMENT_MIN: usize = 4;

/// Fewest runs to look for a change in.
pub const RUNS_MIN: usize = 10;

/// A point as good as this one comes up by chance in at most one of a hundred steady series.
pub const SIGNIFICANCE: f64 = 0.01;

/// Shuffles per test; enough to tell 0.01 from 0.015.
const SHUFFLES: usize = 1_999;

/// Largest score. On made-up histories (noise 8 %, one run in twenty an outlier) five runs 30 % above
/// thirty others are found in nine of ten cases; ranks, which know no size, find six; with three
/// instead of two, outliers hide one in five of longer steps.
const SCORE_MAX: f64 = 2.0;

/// A normal distribution's standard deviation over its median absolute deviation.
const NORMAL_PER_MEDIAN_DEVIATION: f64 = 1.4826;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The first run at the new level.
    pub at: usize,
    /// Median of the runs since the change before.
    pub before: f64,
    /// Median of the runs until the next change.
    pub after: f64,
    /// Of a point as good as this in a steady series.
    pub probability: f64,
}

impl Change {
    /// `after / before`.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

/// The changes of level in `values`, in order; those smaller than the share `same_within` are left
/// out. None in fewer than [`RUNS_MIN`] values.
pub fn find(values: &[f64], same_within: f64, seed: u64) -> Vec<Change> {
    if values.len() < RUNS_MIN {
        return Vec::new();
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut points = Vec::new();
    part(values, 0, &mut random, &mut points);
    points.sort_unstable();
    let kept = confirm(values, points, &mut random);
    let ends: Vec<usize> = kept.iter().map(|(at, _)| *at).chain([values.len()]).collect();
    let mut start = 0;
    let mut changes = Vec::new();
    for (index, (at, probability)) in kept.into_iter().enumerate() {
        let before = median(&values[start..at]);
        let after = median(&values[at..ends[index + 1]]);
        start = at;
        changes.push(Change { at, before, after, probability });
    }
    changes.retain(|change| change.ratio().ln().abs() >= same_within.ln_1p());
    changes
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { sorted[middle - 1].midpoint(sorted[middle]) }
}

fn part(values: &[f64], offset: usize, random: &mut ChaCha8Rng, points: &mut Vec<usize>) {
    let Some((at, probability)) = best_point(values, random) else { return };
    if probability >= SIGNIFICANCE {
        return;
    }
    points.push(offset + at);
    part(&values[..at], offset, random, points);
    part(&values[at..], offset + at, random, points);
}

/// Each point once more, between its neighbours: what looked like a change of the whole may have
/// been the sum of its parts.
fn confirm(values: &[f64], mut points: Vec<usize>, random: &mut ChaCha8Rng) -> Vec<(usize, f64)> {
    loop {
        let ends: Vec<usize> = [0].into_iter().chain(points.iter().copied()).collect();
        let mut kept = Vec::new();
        for (index, at) in points.iter().enumerate() {
            let until = points.get(index + 1).copied().unwrap_or(values.len());
            let from = ends[index];
            let found = best_point(&values[from..until], random);
            let found = found.filter(|(_, probability)| *probability < SIGNIFICANCE);
            kept.extend(found.map(|(_, probability)| (*at, probability)));
        }
        if kept.len() == points.len() {
            return kept;
        }
        points = kept.into_iter().map(|(at, _)| at).collect();
    }
}

/// The best point to part `values` at and how likely one as good comes up by chance; `None` if they
/// are too few.
fn best_point(values: &[f64], random: &mut ChaCha8Rng) -> Option<(usize, f64)> {
    if values.len() < 2 * SEGMENT_MIN {
        return None;
    }
    let mut scores = scores(values);
    let (at, best) = furthest(&scores);
    let mut as_good = 0;
    for _ in 0..SHUFFLES {
        scores.shuffle(random);
        // Rounding must not make a shuffle that parts equally well look worse.
        as_good += usize::from(furthest(&scores).1 >= best * (1.0 - 1e-9));
    }
    Some((at, (as_good + 1) as f64 / (SHUFFLES + 1) as f64))
}

/// How far each value lies from the median, in robust standard deviations and less their mean.
fn scores(values: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect();
    let middle = median(&logs);
    let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let deviation = NORMAL_PER_MEDIAN_DEVIATION * median(&distances);
    let score = |log: &f64| {
        let distance = log - middle;
        // Where more than half are equal, any other is far away.
        if distance == 0.0 { 0.0 } else { (distance / deviation).clamp(-SCORE_MAX, SCORE_MAX) }
    };
    let scores: Vec<f64> = logs.iter().map(score).collect();
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    scores.iter().map(|score| score - mean).collect()
}

/// Where the sum of the scores so far is furthest from zero, in its own standard deviations, up to a
/// factor that is the same for all orders of the scores.
fn furthest(scores: &[f64]) -> (usize, f64) {
    let count = scores.len();
    let mut sum = 0.0;
    let mut best = (SEGMENT_MIN, 0.0);
    for (index, score) in scores.iter().enumerate() {
        sum += score;
        let at = index + 1;
        if at < SEGMENT_MIN || count - at < SEGMENT_MIN {
            continue;
        }
        let distance = f64::abs(sum) / ((at * (count - at)) as f64).sqrt();
        if distance > best.1 {
            best = (at, distance);
        }
    }
    best
}
