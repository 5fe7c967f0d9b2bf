mod coverage;
mod reports;

use crate::compare::blocks::{Block, Counts};
use crate::compare::interval::Estimate;
use crate::compare::verdict::{Correction, Verdict, verdict};

/// Plain values as a block.
fn block(values: &[u64]) -> Block {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mut counts: Counts = Vec::new();
    for value in sorted {
        match counts.last_mut().filter(|(last, _)| *last == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    counts.into()
}

#[test]
fn corrections_are_the_textbook_ones() {
    let plain = [0.01, 0.04, 0.03, 0.005];
    let close = |got: Vec<f64>, expected: [f64; 4]| {
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
        }
    };
    close(Correction::Holm.adjust(&plain), [0.03, 0.06, 0.06, 0.02]);
    close(Correction::FalseDiscovery.adjust(&plain), [0.02, 0.04, 0.04, 0.02]);
    assert!(Correction::Holm.adjust(&[]).is_empty());
    assert_eq!(Correction::Holm.adjust(&[0.7, 0.9]), [1.0, 1.0]);
}

#[test]
fn a_verdict_needs_the_whole_interval_beyond_what_matters() {
    let of = |percent: f64, error: f64| {
        let log = (1.0 + percent / 100.0).ln();
        let estimate = Estimate { log, standard_error: error, freedom: 9.0 };
        let probability = super::verdict::probability(&estimate, 0.03);
        verdict(&estimate, probability, 0.03)
    };
    assert_eq!(of(15.0, 0.01), Verdict::Worse);
    assert_eq!(of(-15.0, 0.01), Verdict::Better);
    assert_eq!(of(0.5, 0.005), Verdict::Same);
    assert_eq!(of(15.0, 0.08), Verdict::TooNoisy);
    assert_eq!(of(2.5, 0.0005), Verdict::Same, "sure, but too small to matter");
    assert_eq!(of(0.0, 0.05), Verdict::TooNoisy, "no change seen is not no change");
}
