//! A history for people, on the terminal.

use crate::report::numbers;

use super::changes::RUNS_MIN;
use super::series::{Series, Step};

/// Characters of a commit that are shown.
const COMMIT_WIDTH: usize = 12;

/// The series with their changes, lines ended with `\n`.
pub fn render(workload: &str, series: &[Series]) -> String {
    let runs = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let mut text = format!("{workload}: {} series, up to {runs} runs\n", series.len());
    for series in series.iter().filter(|series| !series.steps.is_empty()) {
        text.push_str(&format!("{}: {} ({})\n", series.cell, series.figure, series.machine_name));
        for step in &series.steps {
            text.push_str(&format!("  {}\n", described(series, step)));
        }
    }
    let steady = series.iter().filter(|series| series.is_long_enough() && series.steps.is_empty());
    let short = series.iter().filter(|series| !series.is_long_enough()).count();
    text.push_str(&format!("{} series without a change of level\n", steady.count()));
    if short > 0 {
        text.push_str(&format!(
            "{short} series too short: a change is looked for from {RUNS_MIN} runs on\n"
        ));
    }
    text
}

/// `worse by 15 %: 66.4 us -> 76.1 us, between 1f3a… and 9c2b…`
pub fn described(series: &Series, step: &Step) -> String {
    format!(
        "{} by {:.0} %: {} -> {}, between {} and {}",
        if step.is_worse { "worse" } else { "better" },
        100.0 * (step.ratio - 1.0).abs(),
        value(series, step.before),
        value(series, step.after),
        commit(&step.last_before),
        commit(&step.first_after)
    )
}

/// A figure of `series` with its unit.
pub fn value(series: &Series, value: f64) -> String {
    match series.bigger_is_better {
        true => format!("{} records/s", numbers::count(value)),
        false => numbers::latency(value as u64),
    }
}

/// A commit, short.
pub fn commit(commit: &str) -> &str {
    commit.char_indices().nth(COMMIT_WIDTH).map_or(commit, |(end, _)| &commit[..end])
}
