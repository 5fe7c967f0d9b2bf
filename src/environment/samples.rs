//! Durations of one repeated act, and percentiles only as deep as their number allows.

use std::time::Duration;

use serde_json::{Value, json};

use super::text;

/// Samples that must lie beyond a percentile before it is told.
const SAMPLES_BEYOND_MIN: f64 = 10.0;

/// Durations in nanoseconds, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    sorted_ns: Vec<u64>,
}

impl Samples {
    /// The number of samples.
    pub fn count(&self) -> usize {
        self.sorted_ns.len()
    }

    /// The middle sample; `None` if there is none.
    pub fn median_ns(&self) -> Option<u64> {
        self.at(0.5)
    }

    /// The smallest sample at or above the share `quantile` (0 to 1) of all, if at least ten lie
    /// beyond it (so the 99th percentile takes 1 000 samples).
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let beyond = self.count() as f64 * (1.0 - quantile);
        // 1 - 0.99 is a hair under 0.01 in binary.
        if beyond + 1e-6 < SAMPLES_BEYOND_MIN { None } else { self.at(quantile) }
    }

    /// The 99th percentile, under the rule of [`Samples::quantile_ns`].
    pub fn p99_ns(&self) -> Option<u64> {
        self.quantile_ns(0.99)
    }

    /// All samples of both.
    pub fn merged(mut self, other: Samples) -> Samples {
        self.sorted_ns.extend(other.sorted_ns);
        self.sorted_ns.sort_unstable();
        self
    }

    /// Count and percentiles as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "count": self.count(),
            "p50_ns": text::json(self.median_ns()),
            "p99_ns": text::json(self.p99_ns()),
        })
    }

    fn at(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile * self.count() as f64).ceil() as usize;
        self.sorted_ns.get(rank.saturating_sub(1)).copied()
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Samples {
        let to_ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut sorted_ns: Vec<u64> = durations.into_iter().map(to_ns).collect();
        sorted_ns.sort_unstable();
        Samples { sorted_ns }
    }
}
