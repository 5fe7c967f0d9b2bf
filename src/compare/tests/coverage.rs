//! Intervals and verdicts on made-up runs whose truth is known: samples that follow each other
//! closely, and levels that differ from run to run. Seeded: they pass or fail the same way always.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::block;
use crate::compare::blocks::Blocks;
use crate::compare::interval::{self, Estimate};
use crate::compare::verdict::{Verdict, probability, verdict};

const TRIALS: usize = 300;
const SAMPLES: usize = 300;
/// Of the logarithm of a run's level: what runs on this machine show.
const RUN_NOISE: f64 = 0.08;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(random)
}

/// One run around `level`: a first-order autoregression of 0.95, so that neighbours are alike and
/// 300 samples are worth about eight.
fn run(level_log: f64, random: &mut ChaCha8Rng) -> Vec<u64> {
    let mut state = normal(random);
    let sample = |_| {
        state = 0.95 * state + (1.0_f64 - 0.95 * 0.95).sqrt() * normal(random);
        (100_000.0 * (level_log + 0.4 * state).exp()) as u64
    };
    (0..SAMPLES).map(sample).collect()
}

fn side(levels: &[f64], random: &mut ChaCha8Rng) -> Blocks {
    let runs: Vec<_> = levels.iter().map(|level| block(&run(*level, random))).collect();
    Blocks::new(&runs)
}

fn levels(count: usize, shift: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..count).map(|_| shift + RUN_NOISE * normal(random)).collect()
}

fn p50(blocks: &Blocks, picks: &[usize]) -> Option<f64> {
    blocks.quantile(0.5, picks).map(|value| value as f64)
}

fn unpaired(base: &Blocks, new: &Blocks, seed: u64) -> Estimate {
    let figures: [interval::Figure<'_>; 2] = [&|picks| p50(base, picks), &|picks| p50(new, picks)];
    interval::ratio((base.len(), figures[0]), (new.len(), figures[1]), seed).unwrap()
}

fn paired(base: &Blocks, new: &Blocks, seed: u64) -> Estimate {
    let figures: [interval::Figure<'_>; 2] = [&|picks| p50(base, picks), &|picks| p50(new, picks)];
    interval::paired_ratio(base.len(), figures[0], figures[1], seed).unwrap()
}

fn covers(estimate: &Estimate, truth: f64) -> bool {
    let (low, high) = estimate.interval();
    low <= truth && truth <= high
}

/// Share of [`TRIALS`] for which `holds`.
fn share(seed: u64, holds: impl FnMut(&mut ChaCha8Rng, u64) -> bool) -> f64 {
    share_of(TRIALS, seed, holds)
}

fn share_of(trials: usize, seed: u64, mut holds: impl FnMut(&mut ChaCha8Rng, u64) -> bool) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let held = (0..trials).filter(|trial| holds(&mut random, *trial as u64)).count();
    held as f64 / trials as f64
}

#[test]
fn intervals_cover_a_known_effect_as_often_as_they_say() {
    let truth = 1.2_f64.ln();
    for runs in [3, 5] {
        let covered = share(runs as u64, |random, seed| {
            let base = side(&levels(runs, 0.0, random), random);
            let new = side(&levels(runs, truth, random), random);
            covers(&unpaired(&base, &new, seed), truth)
        });
        assert!((0.92..=0.99).contains(&covered), "{runs} runs a side: {covered}");
    }
}

#[test]
fn paired_intervals_cover_it_too_and_are_narrower_where_a_mood_is_shared() {
    let truth = 1.1_f64.ln();
    let mut widths = (0.0, 0.0);
    let covered = share(11, |random, seed| {
        let moods = levels(8, 0.0, random);
        let shifted: Vec<f64> = moods.iter().map(|mood| mood + truth).collect();
        let (base, new) = (side(&moods, random), side(&shifted, random));
        let together = paired(&base, &new, seed);
        widths.0 += together.standard_error;
        widths.1 += unpaired(&base, &new, seed).standard_error;
        covers(&together, truth)
    });
    assert!((0.92..=0.98).contains(&covered), "{covered}");
    let (together, apart) = widths;
    assert!(together < apart, "pairing takes the shared mood out: {together} against {apart}");
}

/// spec/measurement.md M17 and M22: no more than one in twenty of equal sides is called different.
#[test]
fn equal_sides_are_rarely_called_different() {
    for pairwise in [false, true] {
        let called = share(5, |random, seed| {
            let base = side(&levels(6, 0.0, random), random);
            let new = side(&levels(6, 0.0, random), random);
            let estimate = match pairwise {
                true => paired(&base, &new, seed),
                false => unpaired(&base, &new, seed),
            };
            let verdict = verdict(&estimate, probability(&estimate, 0.0), 0.0);
            matches!(verdict, Verdict::Better | Verdict::Worse)
        });
        assert!(called <= 0.065, "pairwise {pairwise}: {called}");
    }
}

/// What it guards against: the interval that takes all samples for independent ones.
#[test]
fn taking_samples_for_independent_would_call_equal_sides_different() {
    let called = share_of(50, 5, |random, seed| {
        let pooled = |random: &mut ChaCha8Rng| {
            let runs: Vec<u64> =
                levels(6, 0.0, random).iter().flat_map(|level| run(*level, random)).collect();
            let mut dealt = vec![Vec::new(); 6];
            runs.into_iter().for_each(|value| dealt[random.random_range(0..6)].push(value));
            Blocks::new(&dealt.iter().map(|values| block(values)).collect::<Vec<_>>())
        };
        let (base, new) = (pooled(random), pooled(random));
        let estimate = unpaired(&base, &new, seed);
        probability(&estimate, 0.0) < 0.05
    });
    assert!(called > 0.3, "samples dealt out at random hide the noise between runs: {called}");
}

#[test]
fn the_same_seed_draws_the_same_interval() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let base = side(&levels(4, 0.0, &mut random), &mut random);
    let new = side(&levels(4, 0.1, &mut random), &mut random);
    assert_eq!(unpaired(&base, &new, 7), unpaired(&base, &new, 7));
    assert_ne!(unpaired(&base, &new, 7), unpaired(&base, &new, 8));
}

#[test]
fn too_few_blocks_give_no_interval() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let one = side(&[0.0], &mut random);
    let figure: interval::Figure<'_> = &|picks| p50(&one, picks);
    assert_eq!(interval::single(1, figure, 1), None);
    assert_eq!(interval::ratio((1, figure), (1, figure), 1), None);
}
