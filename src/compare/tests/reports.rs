//! Whole results against each other.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::compare::blocks::{Block, Blocks, Endpoint};
use crate::compare::comparable::{Kind, SLOWDOWN_KEY, obstacles};
use crate::compare::gate::{self, Decision, Limits};
use crate::compare::report::{Endpoints, Options, Report, compare, compare_rounds};
use crate::compare::row::Row;
use crate::compare::text;
use crate::compare::verdict::{Correction, Verdict};
use crate::compare::within;
use crate::measure::histogram::{LatencyHistogram, PERCENTILES};
use crate::results::folder;
use crate::results::measured::latency;
use crate::results::schema::{Cell, ErrorCount, RunResult, Samples, Status};

const LIMITS: Limits = Limits { max_regression: 0.1, max_tail_regression: 0.25 };

/// A stored result, its cells' repeats replaced: each with 2000 samples spread around a level.
fn result(levels: &[f64]) -> RunResult {
    let mut result = folder::load(Path::new("fixtures/results/v1/paced.json")).unwrap();
    result.cells.truncate(2);
    result.cells.iter_mut().for_each(|cell| set_levels(cell, levels, 2_000));
    result
}

fn set_levels(cell: &mut Cell, levels: &[f64], samples: u64) {
    cell.samples = Samples::Records;
    let template = cell.repeats[0].clone();
    cell.repeats.clear();
    for (index, level) in levels.iter().enumerate() {
        let mut histogram = LatencyHistogram::new();
        for sample in 0..samples {
            histogram
                .record_ns((level * (90_000.0 + 20_000.0 * sample as f64 / samples as f64)) as u64);
        }
        let mut repeat = template.clone();
        repeat.repeat = index;
        repeat.acknowledged = latency(&histogram);
        repeat.committed = latency(&histogram);
        repeat.consumed = latency(&histogram);
        cell.repeats.push(repeat);
    }
}

fn options() -> Options {
    Options::everything(0.03, 1)
}

fn gate_options() -> Options {
    Options {
        correction: Correction::Holm,
        endpoints: Endpoints::Main,
        percentiles: vec![&PERCENTILES[0], &PERCENTILES[3]],
        ..options()
    }
}

fn rows(report: &Report) -> impl Iterator<Item = &Row> {
    report.cells.iter().flat_map(|cell| &cell.rows)
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Row {
    rows(report).find(|row| row.name == name).unwrap()
}

const STEADY: [f64; 5] = [1.0, 1.005, 0.995, 1.002, 0.998];

fn scaled(levels: &[f64], by: f64) -> Vec<f64> {
    levels.iter().map(|level| level * by).collect()
}

#[test]
fn identical_results_are_the_same() {
    let result = result(&STEADY);
    let report = compare(&result, &result, &options()).unwrap();
    let supported: Vec<_> = rows(&report).filter(|row| row.estimate.is_some()).collect();
    assert!(supported.len() >= 2 * 3 * 2, "two cells, three end points, p50 and more");
    for row in supported {
        assert_eq!((row.ratio, row.verdict), (Some(1.0), Verdict::Same), "{}", row.name);
    }
}

#[test]
fn a_known_change_is_called_by_its_direction() {
    let base = result(&STEADY);
    for (factor, verdict) in [(1.15, Verdict::Worse), (0.85, Verdict::Better)] {
        let report = compare(&base, &result(&scaled(&STEADY, factor)), &options()).unwrap();
        let p50 = row(&report, "acknowledged p50");
        assert_eq!(p50.verdict, verdict);
        assert!((p50.ratio.unwrap() - factor).abs() < 0.01, "{p50:?}");
        let (low, high) = (p50.ratio_low.unwrap(), p50.ratio_high.unwrap());
        assert!(low < factor && factor < high, "{p50:?}");
    }
}

#[test]
fn runs_that_differ_among_themselves_are_too_noisy() {
    let noisy = [1.0, 1.4, 0.8, 1.2, 0.7];
    let report = compare(&result(&noisy), &result(&scaled(&noisy, 1.1)), &options()).unwrap();
    assert_eq!(row(&report, "acknowledged p50").verdict, Verdict::TooNoisy);
}

#[test]
fn rounds_take_out_what_both_sides_bear() {
    let noisy = [1.0, 1.4, 0.8, 1.2, 0.7];
    let round = |level: &f64| (result(&[*level]), result(&[level * 1.15]));
    let rounds: Vec<_> = noisy.iter().map(round).collect();
    let report = compare_rounds(&rounds, &options()).unwrap();
    let p50 = row(&report, "acknowledged p50");
    assert_eq!((p50.verdict, p50.blocks), (Verdict::Worse, (5, 5)));
    assert_eq!(report.new.run_ids.len(), 5);
}

#[test]
fn one_repeat_says_nothing_of_noise_and_says_so() {
    let report = compare(&result(&[1.0]), &result(&[2.0]), &options()).unwrap();
    let p50 = row(&report, "acknowledged p50");
    assert_eq!((p50.verdict, p50.ratio_low), (Verdict::TooNoisy, None));
    assert_eq!(
        p50.reason.as_deref(),
        Some("one repeat tells nothing of the noise between repeats")
    );
}

#[test]
fn percentiles_beyond_the_sample_have_no_value_or_no_verdict() {
    let report = compare(&result(&STEADY), &result(&scaled(&STEADY, 2.0)), &options()).unwrap();
    let p999 = row(&report, "acknowledged p99.9");
    assert_eq!((p999.base, p999.verdict), (Some(p999.base.unwrap()), Verdict::TooNoisy));
    assert!(p999.reason.as_deref().unwrap().contains("100000 are needed to judge by"), "{p999:?}");
    let deeper = row(&report, "acknowledged p99.99");
    assert_eq!(
        (deeper.base, deeper.reason.as_deref()),
        (None, Some("needs 100000 independent events"))
    );
}

#[test]
fn a_rate_is_compared_where_it_is_not_asked_for_and_more_is_better() {
    let mut base = result(&STEADY);
    for cell in &mut base.cells {
        cell.factors.load_mode = "closed".to_owned();
    }
    let mut new = base.clone();
    for (at, repeat) in new.cells[0].repeats.iter_mut().enumerate() {
        repeat.achieved_per_s = 0.8 * base.cells[0].repeats[at].achieved_per_s;
    }
    let report = compare(&base, &new, &options()).unwrap();
    let rate = row(&report, "rate");
    assert_eq!((rate.verdict, rate.bigger_is_better), (Verdict::Worse, true));
    let open = compare(&result(&STEADY), &result(&STEADY), &options()).unwrap();
    assert!(rows(&open).all(|row| row.name != "rate"));
}

#[test]
fn cells_of_one_side_are_named_not_compared() {
    let base = result(&STEADY);
    let mut new = base.clone();
    new.cells[1].factors.record_bytes += 1;
    let report = compare(&base, &new, &options()).unwrap();
    assert_eq!(report.cells.len(), 1);
    assert_eq!(report.only_in_base, [base.cells[1].name.clone()]);
    assert_eq!(report.only_in_new, [base.cells[1].name.clone()]);
}

#[test]
fn repeats_that_were_cut_short_are_no_blocks() {
    let mut new = result(&STEADY);
    new.cells[0].repeats[0].status = Status::Partial;
    let report = compare(&result(&STEADY), &new, &options()).unwrap();
    assert_eq!(report.cells[0].rows[0].blocks, (5, 4));
}

fn kinds(base: &RunResult, new: &RunResult) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = obstacles(base, new).iter().map(|found| found.kind).collect();
    kinds.dedup();
    kinds
}

#[test]
fn what_differs_stands_against_a_comparison_by_its_kind() {
    let base = result(&STEADY);
    assert!(kinds(&base, &base).is_empty());
    let changed = |change: fn(&mut RunResult)| {
        let mut new = base.clone();
        change(&mut new);
        kinds(&base, &new)
    };
    assert_eq!(
        changed(|new| new.environment["device"]["name"] = json!("nvme9")),
        [Kind::Environment]
    );
    assert_eq!(changed(|new| new.environment["device"] = json!("unknown")), []);
    assert_eq!(changed(|new| new.environment["version"] = json!("99.0.0")), []);
    assert_eq!(changed(|new| new.cells[0].samples = Samples::Batches), [Kind::Schema]);
    let mut old = base.clone();
    old.cells[0].samples = Samples::Batches;
    assert_eq!(kinds(&old, &base), [Kind::Schema]);
    assert!(kinds(&old, &old).is_empty(), "figures of one kind");
    let set = |new: &mut RunResult, key: &str, value: Value| {
        drop(new.workload.load.insert(key.to_owned(), value));
    };
    let mut linger = base.clone();
    set(&mut linger, "linger", json!("5ms"));
    assert_eq!(kinds(&base, &linger), [Kind::Workload]);
    let mut repeats = base.clone();
    set(&mut repeats, "repeats", json!(9));
    set(&mut repeats, "from_the_future", json!(1));
    assert!(kinds(&base, &repeats).is_empty(), "more repeats measure the same");
    assert_eq!(
        changed(|new| new.cells.iter_mut().for_each(|cell| cell.factors.partitions += 1)),
        [Kind::Workload]
    );
    assert_eq!(changed(|new| new.tool.build = "debug".to_owned()), [Kind::DebugBuild]);
    let mut slowed = base.clone();
    set(&mut slowed, SLOWDOWN_KEY, json!(0.15));
    assert_eq!(kinds(&base, &slowed), [Kind::Slowdown]);
    let message = obstacles(&base, &linger)[0].to_string();
    assert_eq!(message, "workload: load.linger is 0s in BASE and 5ms in NEW");
}

fn decided(base: &[f64], new: &[f64]) -> Decision {
    let report = compare(&result(base), &result(new), &gate_options()).unwrap();
    gate::judge(report, LIMITS).decision
}

/// 2000 samples a repeat: five support a verdict on p99.
#[test]
fn a_gate_passes_fails_or_says_it_cannot_tell() {
    assert_eq!(decided(&STEADY, &STEADY), Decision::Pass);
    assert_eq!(decided(&STEADY, &scaled(&STEADY, 0.7)), Decision::Pass, "better is no regression");
    assert_eq!(decided(&STEADY, &scaled(&STEADY, 1.06)), Decision::Pass, "worse, within the limit");
    assert_eq!(decided(&STEADY, &scaled(&STEADY, 1.15)), Decision::Regression);
    let noisy = [1.0, 1.4, 0.8, 1.2, 0.7];
    assert_eq!(decided(&noisy, &noisy), Decision::Inconclusive);
    assert_eq!(decided(&[1.0], &[3.0]), Decision::NotJudged);
}

#[test]
fn a_gate_on_ten_samples_judges_nothing() {
    let few = || {
        let mut result = result(&STEADY);
        result.cells.iter_mut().for_each(|cell| set_levels(cell, &STEADY, 2));
        result
    };
    let report = compare(&few(), &few(), &gate_options()).unwrap();
    let judgement = gate::judge(report, LIMITS);
    assert_eq!(judgement.decision, Decision::NotJudged);
    assert!(text::judgement(&judgement).contains("gate: NOTHING could be judged"));
}

#[test]
fn tails_have_a_limit_of_their_own() {
    let report = compare(&result(&STEADY), &result(&scaled(&STEADY, 1.15)), &gate_options());
    let judgement = gate::judge(report.unwrap(), LIMITS);
    let of = |figure: &str| {
        judgement.figures.iter().find(|judged| judged.figure == figure).unwrap().decision
    };
    assert_eq!(of("acknowledged p50"), Decision::Regression);
    assert_eq!(of("acknowledged p99"), Decision::Pass);
}

#[test]
fn results_with_failures_are_not_sound() {
    let sound = result(&STEADY);
    assert_eq!(gate::unsound(&sound), None);
    let mut failed = sound.clone();
    failed.cells[1].errors = BTreeMap::from([("TIMED_OUT".to_owned(), ErrorCount::default())]);
    assert!(gate::unsound(&failed).unwrap().contains("failed with TIMED_OUT"));
    let mut partial = sound.clone();
    partial.status = Status::Partial;
    assert!(gate::unsound(&partial).unwrap().contains("partial"));
    let mut empty = sound;
    empty.cells[0].latency.acknowledged.count = 0;
    assert!(gate::unsound(&empty).unwrap().contains("no samples"));
}

#[test]
fn a_damaged_histogram_is_named() {
    let base = result(&STEADY);
    let mut new = base.clone();
    new.cells[0].repeats[3].acknowledged.histogram_v2_deflate_base64 = Some("AAAA".to_owned());
    let error = compare(&base, &new, &options()).unwrap_err().to_string();
    assert!(error.ends_with("repeat 3: acknowledged.histogram_v2_deflate_base64"), "{error}");
}

#[test]
fn the_text_is_readable_at_120_columns() {
    let report = compare(&result(&STEADY), &result(&scaled(&STEADY, 1.15)), &options()).unwrap();
    let text = text::report(&report);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(
        text.contains("worse: acks=1 page-cache: acknowledged p50 100 us -> 115 us, +15 %"),
        "{text}"
    );
}

#[test]
fn pooled_percentiles_are_those_of_all_samples() {
    let grid =
        Blocks::new(&[vec![(10, 90)].into(), vec![(20, 9), (30, 1)].into(), Block::default()]);
    assert_eq!((grid.len(), grid.event_count()), (3, 100));
    let all = [0, 1, 2];
    assert_eq!(grid.quantile(0.9, &all), Some(10));
    assert_eq!(grid.quantile(0.91, &all), Some(20));
    assert_eq!(grid.quantile(1.0, &all), Some(30));
    assert_eq!(grid.quantile(0.0, &all), Some(10));
    assert_eq!(grid.quantile(0.5, &[1, 1, 0]), Some(10), "20 of 110 lie above");
    assert_eq!(grid.quantile(0.5, &[2]), None);
    assert_eq!(Endpoint::ALL.map(Endpoint::name), ["acknowledged", "committed", "consumed"]);
}

/// One cell under the gate and its twin, repeat by repeat at these levels.
fn twins(gated: &[f64], legacy: &[f64]) -> RunResult {
    let mut result = result(gated);
    result.cells.truncate(1);
    let mut twin = result.cells[0].clone();
    result.cells[0].factors.hwm_gate = "kip966".to_owned();
    twin.factors.hwm_gate = "legacy".to_owned();
    set_levels(&mut twin, legacy, 2_000);
    result.cells.push(twin);
    result
}

#[test]
fn a_null_result_is_a_bound_that_holds_the_true_difference() {
    for (factor, at_least, at_most) in [(1.0, 0.0, 0.02), (1.1, 0.1, 0.13), (0.9, 0.1, 0.13)] {
        let bounds = within::gate(&twins(&scaled(&STEADY, factor), &STEADY), 1);
        let figures: Vec<&str> = bounds.iter().map(|bound| bound.figure.as_str()).collect();
        assert_eq!(figures, ["ack p50", "ack p99", "commit p50", "commit p99"]);
        for bound in bounds {
            let within = bound.within();
            assert!((at_least..=at_most).contains(&within), "{factor}: {bound:?}");
            assert!(bound.interval.0 <= bound.ratio && bound.ratio <= bound.interval.1);
            assert_eq!(bound.blocks, STEADY.len());
        }
    }
    let noisy = [1.0, 2.0, 0.5, 1.5, 0.8];
    assert!(within::gate(&twins(&noisy, &STEADY), 1)[0].within() > 0.3, "noise widens the bound");
}

#[test]
fn no_bound_is_given_under_faults_without_a_twin_or_from_one_repeat() {
    let mut faulty = twins(&STEADY, &STEADY);
    let fault = crate::results::schema::Event {
        at_us: 1,
        kind: "cut".to_owned(),
        what: "cut".to_owned(),
        until_us: None,
    };
    faulty.cells[1].repeats[0].events.push(fault);
    assert_eq!(within::gate(&faulty, 1), []);
    assert_eq!(within::gate(&result(&STEADY), 1), []);
    assert_eq!(within::gate(&twins(&[1.0], &[1.0]), 1), []);
    assert_eq!(within::text(&faulty, 1), "");
    let text = within::text(&twins(&STEADY, &STEADY), 1);
    assert!(text.contains("ack p50") && text.contains("within"), "{text}");
}
