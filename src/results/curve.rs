//! A stored distribution as a curve: latency by percentile, as deep as the sample allows.

use crate::measure::histogram::{HistogramError, LatencyHistogram, PERCENTILES};

use super::schema::Latency;

/// Points per tenfold step towards 100 %: a curve of three steps has some forty.
const POINTS_PER_STEP: u32 = 12;

/// Samples that must lie beyond a point (spec/measurement.md M15).
const SAMPLES_BEYOND_MIN: f64 = 10.0;

/// One point of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// From 0 to below 1.
    pub quantile: f64,
    /// The least latency that this share of the samples does not exceed, to three digits.
    pub value_ns: u64,
}

/// The curve of `latency`, ascending: all named percentiles that the sample supports, points between
/// them evenly spaced by `log(1 / (1 - quantile))`, and the deepest point that has ten samples beyond
/// it. Empty where the sample is too small for a median. Samples above the histogram's range count
/// as slower than all others.
///
/// # Errors
/// [`HistogramError`] if the stored histogram is damaged.
pub fn points(latency: &Latency) -> Result<Vec<Point>, HistogramError> {
    let Some(text) = &latency.histogram_v2_deflate_base64 else { return Ok(Vec::new()) };
    let count = latency.count as f64;
    let deepest = 1.0 - SAMPLES_BEYOND_MIN / (latency.events() as f64).max(1.0);
    let named = PERCENTILES.iter().map(|percentile| percentile.quantile);
    if deepest < PERCENTILES[0].quantile {
        return Ok(Vec::new());
    }
    let steps = (-(1.0 - deepest).log10() * f64::from(POINTS_PER_STEP)).floor() as u32;
    let even =
        (0..=steps).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_STEP)));
    let mut quantiles: Vec<f64> = even.chain(named).chain([deepest]).collect();
    quantiles.retain(|quantile| *quantile <= deepest);
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup_by(|a, b| (*a - *b).abs() < 1e-9);

    let histogram = LatencyHistogram::from_base64(text)?;
    let stored_share = histogram.count() as f64 / count;
    quantiles.retain(|quantile| *quantile <= stored_share);
    let within: Vec<f64> = quantiles.iter().map(|quantile| quantile / stored_share).collect();
    let values = histogram.values_at_quantiles(&within);
    Ok(quantiles
        .into_iter()
        .zip(values)
        .map(|(quantile, value_ns)| Point { quantile, value_ns })
        .collect())
}

#[cfg(test)]
mod tests {
    use crate::results::measured;

    use super::*;

    fn latency(count: u64) -> Latency {
        let mut histogram = LatencyHistogram::new();
        for sample in 1..=count {
            histogram.record_ns(sample * 1_000);
        }
        measured::latency(&histogram)
    }

    #[test]
    fn the_curve_passes_through_the_named_percentiles_and_ends_with_them() {
        let latency = latency(1_000);
        let points = points(&latency).expect("a good histogram");
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            let point = points.iter().find(|point| (point.quantile - quantile).abs() < 1e-9);
            assert_eq!(point.map(|point| point.value_ns), Some(latency.percentiles_ns[name]));
        }
        let last = points.last().expect("points");
        assert!((last.quantile - 0.99).abs() < 1e-9, "ten of a thousand lie beyond p99: {last:?}");
        assert!(points.is_sorted_by(|a, b| a.quantile < b.quantile && a.value_ns <= b.value_ns));
    }

    #[test]
    fn too_few_samples_have_no_curve() {
        assert_eq!(points(&latency(0)).expect("nothing to read"), []);
        assert_eq!(points(&latency(19)).expect("a good histogram"), []);
        assert!(!points(&latency(20)).expect("a good histogram").is_empty());
    }

    #[test]
    fn samples_above_the_range_are_the_slowest() {
        let mut histogram = LatencyHistogram::new();
        histogram.record_n_ns(1_000, 900);
        histogram.record_n_ns(LatencyHistogram::TRACKED_MAX_NS + 1, 100);
        let points = points(&measured::latency(&histogram)).expect("a good histogram");
        let last = points.last().expect("points");
        assert!(last.quantile <= 0.9 + 1e-9, "{last:?}");
        assert!(last.quantile > 0.89, "{last:?}");
    }
}
