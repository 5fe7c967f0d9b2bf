//! What an estimate says, and how often a set of verdicts may be wrong.
//!
//! A change is called better or worse only if even the nearer end of what is plausible lies beyond
//! the smallest change that matters; and where many figures are judged at once, the chance of a
//! false call is corrected for their number (spec/measurement.md M22).

use serde::Serialize;

use super::interval::{CONFIDENCE, Estimate};

/// What is known about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Surely better by more than the smallest change that matters.
    Better,
    /// Surely worse by more than that.
    Worse,
    /// Surely no more than that apart.
    Same,
    /// None of these can be said.
    TooNoisy,
}

impl Verdict {
    /// In a table.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Same => "same",
            Verdict::TooNoisy => "noisy",
        }
    }
}

/// How the chance of a false call is held down when several figures are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Holm: with 95 % no false call at all. For a gate, which one false call closes.
    Holm,
    /// Benjamini and Hochberg: at most 5 % of the calls are false. For a table that is looked over.
    FalseDiscovery,
}

impl Correction {
    /// The probabilities, each raised to what it is worth among all; order is kept.
    pub fn adjust(self, probabilities: &[f64]) -> Vec<f64> {
        let count = probabilities.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
        let mut adjusted = vec![1.0; count];
        match self {
            Correction::Holm => {
                let mut least: f64 = 0.0;
                for (rank, index) in order.into_iter().enumerate() {
                    least = least.max(probabilities[index] * (count - rank) as f64);
                    adjusted[index] = least.min(1.0);
                }
            }
            Correction::FalseDiscovery => {
                let mut most: f64 = 1.0;
                for (rank, index) in order.into_iter().enumerate().rev() {
                    most = most.min(probabilities[index] * count as f64 / (rank + 1) as f64);
                    adjusted[index] = most;
                }
            }
        }
        adjusted
    }
}

/// The probability of such an estimate if the true change were no larger than `same_within`, in
/// either direction.
pub fn probability(estimate: &Estimate, same_within: f64) -> f64 {
    let reach = same_within.ln_1p();
    let mirrored = Estimate { log: -estimate.log, ..*estimate };
    let nearer = estimate.probability_above(reach).min(mirrored.probability_above(reach));
    (2.0 * nearer).min(1.0)
}

/// The verdict on a figure where less is better. `adjusted` is the corrected [`probability`].
pub fn verdict(estimate: &Estimate, adjusted: f64, same_within: f64) -> Verdict {
    let reach = same_within.ln_1p();
    let (low, high) = estimate.interval();
    if adjusted < 1.0 - CONFIDENCE {
        if estimate.log > 0.0 { Verdict::Worse } else { Verdict::Better }
    } else if -reach <= low && high <= reach {
        Verdict::Same
    } else {
        Verdict::TooNoisy
    }
}
