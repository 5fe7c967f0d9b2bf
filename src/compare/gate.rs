//! May this be merged? A report against limits.
//!
//! A figure fails if it is surely worse (its verdict) and, by the best estimate, by more than is
//! allowed. It passes if a regression beyond what is allowed can be ruled out. Anything else is
//! inconclusive: the noise is larger than the question.

use serde::Serialize;

use crate::results::schema::{RunResult, Status};

use super::report::Report;
use super::row::{Metric, Row};
use super::verdict::Verdict;

/// From this percentile on the limit for tails holds.
const TAIL_FROM: f64 = 0.95;

/// What is allowed, as shares: 0.1 for 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Of a median, of p90, and of a rate.
    pub max_regression: f64,
    /// Of p95 and beyond.
    pub max_tail_regression: f64,
}

impl Limits {
    fn of(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Latency(_, percentile) if percentile.quantile >= TAIL_FROM => {
                self.max_tail_regression
            }
            Metric::Latency(..) | Metric::Rate => self.max_regression,
        }
    }
}

/// Of one figure, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// No regression beyond the limit.
    Pass,
    /// A regression beyond the limit.
    Regression,
    /// Too noisy to rule one out.
    Inconclusive,
    /// The sample is too small to say anything.
    NotJudged,
}

/// One figure and its limit.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The cell's name.
    pub cell: String,
    /// The figure's name.
    pub figure: String,
    /// What is allowed, a share.
    pub limit: f64,
    /// What follows.
    pub decision: Decision,
    /// Why it is not a plain pass or fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The whole judgement.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Of all figures.
    pub decision: Decision,
    /// What was allowed.
    pub limits: Limits,
    /// Each figure.
    pub figures: Vec<Judged>,
    /// What they were judged by.
    pub report: Report,
}

/// Holds `report` against `limits`.
pub fn judge(report: Report, limits: Limits) -> Judgement {
    let rows = report.cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
    let figures: Vec<Judged> =
        rows.map(|(cell, row)| judge_row(&cell.name, row, &limits, report.paired)).collect();
    let some = |decision| figures.iter().any(|figure| figure.decision == decision);
    let decision = if some(Decision::Regression) {
        Decision::Regression
    } else if !some(Decision::Pass) && !some(Decision::Inconclusive) {
        Decision::NotJudged
    } else if some(Decision::Inconclusive) || some(Decision::NotJudged) {
        Decision::Inconclusive
    } else {
        Decision::Pass
    };
    Judgement { decision, limits, figures, report }
}

fn judge_row(cell: &str, row: &Row, limits: &Limits, paired: bool) -> Judged {
    let limit = limits.of(row.metric);
    let (decision, reason) = decide(row, limit, paired);
    Judged { cell: cell.to_owned(), figure: row.name.clone(), limit, decision, reason }
}

fn decide(row: &Row, limit: f64, paired: bool) -> (Decision, Option<String>) {
    let Some(estimate) = row.estimate else {
        let reason = row.reason.clone().unwrap_or_else(|| "no samples".to_owned());
        return (Decision::NotJudged, Some(reason));
    };
    let allowed = limit.ln_1p();
    let (_, high) = estimate.interval();
    if row.verdict == Verdict::Worse && estimate.log > allowed {
        return (Decision::Regression, None);
    }
    if high <= allowed {
        return (Decision::Pass, None);
    }
    let needed = estimate.blocks_needed(row.blocks.0.min(row.blocks.1), allowed);
    let reason = format!(
        "a regression of up to {:.0} % cannot be ruled out; with this noise about {needed} {} would \
         do",
        100.0 * high.exp_m1(),
        if paired { "rounds" } else { "repeats a side" }
    );
    (Decision::Inconclusive, Some(reason))
}

/// Why nothing may be concluded from `result`; `None` if it is sound: complete, every cell with
/// samples, no record failed.
pub fn unsound(result: &RunResult) -> Option<String> {
    let reason = |text: &Option<String>| text.as_deref().unwrap_or("no reason given").to_owned();
    if result.status == Status::Partial {
        return Some(format!("it is partial ({})", reason(&result.status_reason)));
    }
    result.cells.iter().find_map(|cell| {
        if cell.status == Status::Partial {
            return Some(format!("{} is partial ({})", cell.name, reason(&cell.status_reason)));
        }
        if let Some((name, count)) = cell.errors.first_key_value() {
            return Some(format!("{}: {} batches failed with {name}", cell.name, count.batches));
        }
        let is_empty = cell.factors.acks != "0" && cell.latency.acknowledged.count == 0;
        is_empty.then(|| format!("{} has no samples", cell.name))
    })
}
