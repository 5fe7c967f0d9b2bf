use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::entry;
use crate::history::changes::{RUNS_MIN, find, median};
use crate::history::{page, series, text};

const NOISE: f64 = 0.08;

/// Runs at the levels given, each with its noise, one in twenty an outlier.
fn runs(levels: &[(usize, f64)], random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut values = Vec::new();
    for (count, level) in levels {
        for _ in 0..*count {
            let noise: f64 = StandardNormal.sample(random);
            let outlier = if random.random_bool(0.05) { 3.0 } else { 1.0 };
            values.push(level * (NOISE * noise).exp() * outlier);
        }
    }
    values
}

fn points(values: &[f64]) -> Vec<usize> {
    find(values, 0.03, 1).iter().map(|change| change.at).collect()
}

#[test]
fn steady_series_rarely_show_a_change() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let false_alarms =
        (0..100).filter(|_| !points(&runs(&[(40, 100.0)], &mut random)).is_empty()).count();
    assert!(false_alarms <= 3, "{false_alarms} of 100");
}

#[test]
fn a_step_is_found_where_it_is() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let trials = 100;
    let found = (0..trials)
        .filter(|_| {
            let values = runs(&[(25, 100.0), (10, 125.0)], &mut random);
            let changes = find(&values, 0.03, 1);
            changes.len() == 1
                && changes[0].at.abs_diff(25) <= 3
                && (1.1..1.45).contains(&changes[0].ratio())
        })
        .count();
    assert!(found >= 80, "{found} of {trials}");
}

#[test]
fn a_step_and_its_repair_are_two_changes() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let values = runs(&[(20, 100.0), (15, 140.0), (20, 100.0)], &mut random);
    let points = points(&values);
    assert_eq!(points.len(), 2, "{points:?}");
    assert!(points[0].abs_diff(20) <= 2 && points[1].abs_diff(35) <= 2, "{points:?}");
}

#[test]
fn four_runs_at_a_new_level_are_enough_and_two_are_not() {
    let mut values: Vec<f64> = (0..30).map(|run| 100.0 + f64::from(run % 7)).collect();
    values.extend([130.0, 131.0]);
    assert!(points(&values).is_empty());
    values.extend([129.0, 130.0]);
    assert_eq!(points(&values), [30]);
}

#[test]
fn outliers_and_equal_values_are_no_change() {
    let mut values = vec![100.0; 30];
    assert!(points(&values).is_empty());
    values[12] = 900.0;
    values[29] = 900.0;
    assert!(points(&values).is_empty());
}

#[test]
fn a_change_too_small_to_matter_and_a_series_too_short_are_left_out() {
    let step = |size: f64| [vec![100.0; 15], vec![100.0 * size; 15]].concat();
    assert!(points(&step(1.02)).is_empty());
    assert_eq!(points(&step(1.05)), [15]);
    let short = [vec![1.0; 5], vec![9.0; RUNS_MIN - 6]].concat();
    assert!(points(&short).is_empty());
}

#[test]
fn the_same_seed_finds_the_same() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let values = runs(&[(20, 100.0), (8, 112.0)], &mut random);
    assert_eq!(find(&values, 0.03, 9), find(&values, 0.03, 9));
}

#[test]
fn medians_are_in_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
}

#[test]
fn a_history_is_told_as_series_with_what_changed() {
    let level = |run: usize| if run < 14 { 100.0 } else { 150.0 } + (run % 3) as f64;
    let entries: Vec<_> = (0..20).map(|run| entry(run, level(run))).collect();
    let series = series::of(&entries, 0.03, 1);
    let names: Vec<&str> = series.iter().map(|series| series.figure.as_str()).collect();
    assert_eq!(names, ["acknowledged p50", "acknowledged p99", "rate"]);
    let step = &series[0].steps[0];
    assert_eq!((step.at, step.is_worse), (14, true));
    assert_eq!(step.first_after, entries[14].commit);
    assert!(series[2].steps.is_empty());
    let text = text::render("nightly", &series);
    assert!(text.contains("worse by 50 %: 101 us -> 151 us"), "{text}");

    let page = page::render("night<ly>", &series);
    assert!(page.contains("<title>night&lt;ly&gt; over time</title>"), "{page}");
    assert!(page.contains("acks=all &quot;fsync&quot;"), "names are escaped");
    assert!(page.contains("worse by 50 %"));
    assert!(page.contains("prefers-color-scheme: dark"));
    assert_eq!(page.matches("<circle").count(), 3 * 20);
    for outside in ["http:", "https:", "<script", "src=", "url("] {
        assert!(!page.contains(outside), "the page fetches nothing, but has {outside}");
    }
}

#[test]
fn another_machine_or_setting_is_another_series() {
    let mut other = entry(1, 100.0);
    other.machine = "000000000000000f".to_owned();
    let mut changed = entry(2, 100.0);
    changed.cells[0].settings = "000000000000000e".to_owned();
    let series = series::of(&[entry(0, 100.0), other, changed], 0.03, 1);
    assert_eq!(series.len(), 3 * 3);
    assert!(series.iter().all(|series| series.points.len() == 1 && !series.is_long_enough()));
}
