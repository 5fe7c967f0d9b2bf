//! Latency samples in nanoseconds: counted, merged, written out, and read back.
//!
//! Leaves to others what a sample is. The counts are an HdrHistogram's; the extremes and the sum
//! are kept beside it, exact, so that no bucket bound is ever reported as a measured value
//! (spec/measurement.md M15, M18 to M20).
//!
//! Hot path: [`LatencyHistogram::record_ns`] does not allocate. The whole range is laid out at
//! creation (about 270 KiB, touched only where samples fall) instead of grown by the one slow
//! sample that most needs an undisturbed measurement.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer, Serializer, V2DeflateSerializeError, V2DeflateSerializer,
};

use crate::types::MonotonicTime;

/// Decimal digits a bucket resolves: values within 0.1 % of each other may share one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Ticks per halving of the distance to 100 % in an `.hgrm`, as HdrHistogram's own tools use.
const HGRM_TICKS_PER_HALF_DISTANCE: u32 = 5;

/// A percentile reports may name, and how many samples it takes to say anything about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// As printed: `p99.9`.
    pub name: &'static str,
    /// The same as a fraction: 0.999.
    pub quantile: f64,
    /// Fewest independent events to print it: ten lie beyond it (spec/measurement.md M15).
    pub samples_min: u64,
}

impl Percentile {
    const fn new(name: &'static str, quantile: f64, samples_min: u64) -> Percentile {
        Percentile { name, quantile, samples_min }
    }

    /// Fewest independent events to judge by it: a hundred lie beyond it (spec/measurement.md M15).
    pub const fn samples_min_to_gate(&self) -> u64 {
        self.samples_min * 10
    }
}

/// The percentiles reports name, shallow to deep.
pub const PERCENTILES: [Percentile; 7] = [
    Percentile::new("p50", 0.5, 20),
    Percentile::new("p90", 0.9, 100),
    Percentile::new("p95", 0.95, 200),
    Percentile::new("p99", 0.99, 1_000),
    Percentile::new("p99.9", 0.999, 10_000),
    Percentile::new("p99.99", 0.9999, 100_000),
    Percentile::new("p99.999", 0.99999, 1_000_000),
];

/// Those of [`PERCENTILES`] that `count` samples support; none below 20 samples.
pub fn supported_percentiles(count: u64) -> impl Iterator<Item = &'static Percentile> {
    PERCENTILES.iter().filter(move |percentile| count >= percentile.samples_min)
}

/// Why a stored histogram cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Not base64 in the standard alphabet.
    #[error("histogram is not base64")]
    Base64(#[from] base64::DecodeError),
    /// Not HdrHistogram's V2 format.
    #[error("histogram is not in HdrHistogram's V2 format")]
    Format(#[from] hdrhistogram::serialization::DeserializeError),
    /// Holds values this product never records.
    #[error("histogram holds {0} ns, above the tracked {max} ns", max = LatencyHistogram::TRACKED_MAX_NS)]
    AboveRange(u64),
}

/// Latencies in nanoseconds, to three significant digits from 1 ns to an hour.
///
/// Invariants: `min_ns <= value_at_quantile(a) <= value_at_quantile(b) <= max_ns` for `a <= b`;
/// `count` includes `overflow_count` and never a clock anomaly.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Histogram<u64>,
    event_count: u64,
    overflow_count: u64,
    clock_anomaly_count: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl LatencyHistogram {
    /// Largest value with a bucket of its own: one hour. Larger ones are counted in
    /// [`LatencyHistogram::overflow_count`] and still move the maximum and the mean.
    pub const TRACKED_MAX_NS: u64 = 3_600 * 1_000_000_000;

    /// An empty histogram with its whole range laid out.
    pub fn new() -> LatencyHistogram {
        let counts = Histogram::new_with_bounds(1, Self::TRACKED_MAX_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that HdrHistogram accepts");
        LatencyHistogram {
            counts,
            event_count: 0,
            overflow_count: 0,
            clock_anomaly_count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
        }
    }

    /// Counts one sample.
    #[inline]
    pub fn record_ns(&mut self, value_ns: u64) {
        self.record_n_ns(value_ns, 1);
    }

    /// Counts `n` samples of one value, each an event of its own; nothing if `n` is 0.
    pub fn record_n_ns(&mut self, value_ns: u64, n: u64) {
        self.event_count += n;
        self.add(value_ns, n);
    }

    /// Counts samples that are one event together, as those of a batch's records are: values and
    /// how many samples have each. Nothing if there are none.
    pub fn record_event_ns(&mut self, samples: impl Iterator<Item = (u64, u64)>) {
        let mut is_any = false;
        for (value_ns, n) in samples {
            is_any |= n > 0;
            self.add(value_ns, n);
        }
        self.event_count += u64::from(is_any);
    }

    /// Counts the time from when each record of a batch was due to `to`, as one event. Where the
    /// clock went back between them there is no sample; the anomalies are counted instead
    /// (spec/measurement.md M7).
    pub fn record_batch(
        &mut self,
        dues: impl Iterator<Item = (MonotonicTime, u64)>,
        to: MonotonicTime,
    ) {
        let mut anomalies = 0;
        self.record_event_ns(dues.filter_map(|(from, n)| {
            let value_ns = to.0.checked_sub(from.0);
            if value_ns.is_none() {
                anomalies += n;
            }
            Some((value_ns?, n))
        }));
        self.clock_anomaly_count += anomalies;
    }

    fn add(&mut self, value_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        if value_ns > Self::TRACKED_MAX_NS || self.counts.record_n(value_ns, n).is_err() {
            self.overflow_count += n;
        }
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += u128::from(value_ns) * u128::from(n);
    }

    /// Counts one sample.
    pub fn record(&mut self, value: Duration) {
        self.record_ns(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts the time from `from` to `to`. If the clock went back between them there is no
    /// sample; the anomaly is counted instead, and `false` returned (spec/measurement.md M7).
    #[inline]
    pub fn record_between(&mut self, from: MonotonicTime, to: MonotonicTime) -> bool {
        match to.0.checked_sub(from.0) {
            Some(value_ns) => {
                self.record_ns(value_ns);
                true
            }
            None => {
                self.clock_anomaly_count += 1;
                false
            }
        }
    }

    /// Samples counted, those above the tracked range included.
    pub fn count(&self) -> u64 {
        self.counts.len() + self.overflow_count
    }

    /// Whether no sample was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Samples above [`LatencyHistogram::TRACKED_MAX_NS`].
    pub fn overflow_count(&self) -> u64 {
        self.overflow_count
    }

    /// Samples that would have been negative and were left out.
    pub fn clock_anomaly_count(&self) -> u64 {
        self.clock_anomaly_count
    }

    /// The smallest sample as recorded, not as bucketed; `None` without samples.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The largest sample as recorded, not as bucketed; `None` without samples.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The mean of the samples as recorded; `None` without samples.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The smallest value that at least the fraction `quantile` (0 to 1) of the samples do not
    /// exceed, to three digits; `None` without samples. Says nothing about whether the sample
    /// supports it: see [`LatencyHistogram::percentile_ns`].
    pub fn value_at_quantile(&self, quantile: f64) -> Option<u64> {
        self.values_at_quantiles(&[quantile]).first().copied()
    }

    /// [`LatencyHistogram::value_at_quantile`] of each of `quantiles`, which ascend, in one pass;
    /// empty without samples.
    pub fn values_at_quantiles(&self, quantiles: &[f64]) -> Vec<u64> {
        let mut values = Vec::with_capacity(quantiles.len());
        if self.is_empty() {
            return values;
        }
        let mut ranks = quantiles.iter().map(|quantile| self.rank(*quantile)).peekable();
        let mut seen = 0;
        for bucket in self.counts.iter_recorded() {
            seen += bucket.count_at_value();
            while ranks.next_if(|rank| seen >= *rank).is_some() {
                values.push(bucket.value_iterated_to().clamp(self.min_ns, self.max_ns));
            }
        }
        values.extend(ranks.map(|_| self.max_ns));
        values
    }

    /// How many samples, in ascending order, reach up to the quantile.
    fn rank(&self, quantile: f64) -> u64 {
        // The factor keeps 0.9999 * 100_000 from being rounded up past its rank.
        (quantile.clamp(0.0, 1.0) * self.count() as f64 * (1.0 - 1e-12)).ceil() as u64
    }

    /// Every bucket with samples, lowest first: the largest value it stands for, and how many. Samples
    /// above the tracked range come last, at [`LatencyHistogram::TRACKED_MAX_NS`].
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let tracked = self.counts.iter_recorded();
        let tracked = tracked.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
        let above =
            (self.overflow_count > 0).then_some((Self::TRACKED_MAX_NS, self.overflow_count));
        tracked.chain(above).collect()
    }

    /// The percentile's value, or `None` where the sample is too small for it.
    pub fn percentile_ns(&self, percentile: &Percentile) -> Option<u64> {
        if self.event_count < percentile.samples_min {
            return None;
        }
        self.value_at_quantile(percentile.quantile)
    }

    /// Independent events that the samples come from: the records of one batch are one. How deep
    /// a percentile may be named goes by them.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// The same samples, known to come from so many events: a stored histogram does not tell.
    pub fn with_event_count(mut self, event_count: u64) -> LatencyHistogram {
        self.event_count = event_count;
        self
    }

    /// Adds the samples of `other`: the result is the histogram of both samples pooled.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.event_count += other.event_count;
        self.overflow_count += other.overflow_count;
        self.clock_anomaly_count += other.clock_anomaly_count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Forgets all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.event_count = 0;
        self.overflow_count = 0;
        self.clock_anomaly_count = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
        self.sum_ns = 0;
    }

    /// The bucket counts in HdrHistogram's compressed V2 format, as padded base64 in the standard
    /// alphabet. Overflow, anomalies and the exact extremes are not in it: store them beside it.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        let outcome: Result<usize, V2DeflateSerializeError> =
            V2DeflateSerializer::new().serialize(&self.counts, &mut bytes);
        outcome.expect("writing to memory does not fail");
        BASE64.encode(bytes)
    }

    /// Reads what [`LatencyHistogram::to_base64`] wrote. The extremes and the mean are then those
    /// of the buckets, within 0.1 %.
    ///
    /// Errors: [`HistogramError`] for anything else than V2 within the tracked range.
    pub fn from_base64(text: &str) -> Result<LatencyHistogram, HistogramError> {
        let bytes = BASE64.decode(text)?;
        let stored: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
        let mut histogram = LatencyHistogram::new();
        for bucket in stored.iter_recorded() {
            let value_ns = stored.lowest_equivalent(bucket.value_iterated_to());
            if value_ns > Self::TRACKED_MAX_NS {
                return Err(HistogramError::AboveRange(value_ns));
            }
            histogram.record_n_ns(value_ns, bucket.count_at_value());
        }
        Ok(histogram)
    }

    /// Writes the percentile distribution as HdrHistogram's `.hgrm` text (spec/measurement.md
    /// 2.3), values in microseconds. Without samples it has no rows and says so.
    ///
    /// Errors: those of `out`.
    pub fn write_hgrm(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "{:>12} {:>14} {:>10} {:>14}\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        if self.is_empty() {
            return writeln!(out, "#[No samples]");
        }
        self.write_hgrm_rows(out)?;
        let mean_us = self.mean_ns().unwrap_or_default() / 1e3;
        let deviation_us = self.counts.stdev() / 1e3;
        writeln!(out, "#[Mean    = {mean_us:12.3}, StdDeviation   = {deviation_us:12.3}]")?;
        let max_us = self.max_ns as f64 / 1e3;
        writeln!(out, "#[Max     = {max_us:12.3}, Total count    = {:12}]", self.count())?;
        let sub_buckets = self.counts.distinct_values() / (usize::from(self.counts.buckets()) + 1);
        writeln!(
            out,
            "#[Buckets = {:12}, SubBuckets     = {:12}]",
            self.counts.buckets(),
            2 * sub_buckets
        )?;
        if self.overflow_count > 0 {
            writeln!(out, "#[Overflow = {} samples above one hour]", self.overflow_count)?;
        }
        Ok(())
    }

    fn write_hgrm_rows(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut total = 0;
        for row in self.counts.iter_quantiles(HGRM_TICKS_PER_HALF_DISTANCE) {
            total += row.count_since_last_iteration();
            let value_us = row.value_iterated_to().min(self.max_ns) as f64 / 1e3;
            let quantile = row.quantile_iterated_to();
            write!(out, "{value_us:12.3} {quantile:2.12} {total:10}")?;
            if quantile < 1.0 {
                write!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram::new()
    }
}

#[cfg(test)]
mod tests;
