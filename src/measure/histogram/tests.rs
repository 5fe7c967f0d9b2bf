use proptest::prelude::*;

use super::*;

fn of(values: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    values.iter().for_each(|value| histogram.record_ns(*value));
    histogram
}

#[test]
fn no_samples_is_absent_not_zero() {
    let empty = LatencyHistogram::new();
    assert!(empty.is_empty());
    assert_eq!(empty.min_ns(), None);
    assert_eq!(empty.max_ns(), None);
    assert_eq!(empty.mean_ns(), None);
    assert_eq!(empty.value_at_quantile(0.5), None);
    assert_eq!(supported_percentiles(0).count(), 0);
}

#[test]
fn one_sample_is_its_own_minimum_and_maximum() {
    let one = of(&[1_234_567]);
    assert_eq!(one.min_ns(), Some(1_234_567));
    assert_eq!(one.max_ns(), Some(1_234_567));
    assert_eq!(one.mean_ns(), Some(1_234_567.0));
    assert_eq!(one.value_at_quantile(0.5), Some(1_234_567));
}

#[test]
fn a_percentile_needs_ten_samples_beyond_it() {
    let deepest = |count| supported_percentiles(count).last().map(|percentile| percentile.name);
    assert_eq!(deepest(19), None);
    assert_eq!(deepest(20), Some("p50"));
    assert_eq!(deepest(99), Some("p50"));
    assert_eq!(deepest(999), Some("p95"));
    assert_eq!(deepest(1_000), Some("p99"));
    assert_eq!(deepest(9_999), Some("p99"));
    assert_eq!(deepest(1_000_000), Some("p99.999"));
    for percentile in PERCENTILES {
        let beyond = percentile.samples_min as f64 * (1.0 - percentile.quantile);
        assert!((beyond - 10.0).abs() < 1e-6, "{}: {beyond}", percentile.name);
    }
    let few = of(&[5; 99]);
    assert_eq!(few.percentile_ns(&PERCENTILES[3]), None, "p99 of 99 samples");
}

#[test]
fn an_overflow_keeps_the_true_maximum_and_does_not_panic() {
    let mut histogram = of(&[1_000; 98]);
    histogram.record(Duration::from_secs(90));
    assert_eq!(histogram.overflow_count(), 0);
    assert_eq!(histogram.max_ns(), Some(90_000_000_000));
    histogram.record_ns(u64::MAX);
    assert_eq!(histogram.overflow_count(), 1);
    assert_eq!(histogram.max_ns(), Some(u64::MAX));
    assert_eq!(histogram.count(), 100);
    assert_eq!(histogram.value_at_quantile(0.5), Some(1_000));
    assert_eq!(histogram.value_at_quantile(1.0), Some(u64::MAX));
    histogram.record_n_ns(u64::MAX, u64::from(u32::MAX));
    assert!(histogram.mean_ns().unwrap() > 1e18);
    assert_eq!(histogram.value_at_quantile(0.5), Some(u64::MAX), "most samples are beyond");
}

#[test]
fn a_clock_that_went_back_is_counted_and_left_out() {
    let mut histogram = LatencyHistogram::new();
    assert!(histogram.record_between(MonotonicTime(5), MonotonicTime(9)));
    assert!(!histogram.record_between(MonotonicTime(2_000_000_000), MonotonicTime(1_000_000_000)));
    assert_eq!(histogram.count(), 1);
    assert_eq!(histogram.max_ns(), Some(4));
    assert_eq!(histogram.clock_anomaly_count(), 1);
}

#[test]
fn more_samples_than_32_bits_hold() {
    let mut histogram = LatencyHistogram::new();
    histogram.record_n_ns((1 << 32) * 1_000, (1 << 31) + 1);
    assert_eq!(histogram.count(), (1 << 31) + 1);
    assert_eq!(histogram.mean_ns(), Some(((1u64 << 32) * 1_000) as f64));
}

#[test]
fn a_cleared_histogram_is_an_empty_one() {
    let mut histogram = of(&[1, 2, u64::MAX]);
    histogram.record_between(MonotonicTime(1), MonotonicTime(0));
    histogram.clear();
    assert!(histogram.is_empty());
    assert_eq!((histogram.overflow_count(), histogram.clock_anomaly_count()), (0, 0));
    assert_eq!(histogram.max_ns(), None);
}

#[test]
fn what_is_not_a_histogram_is_refused() {
    assert!(matches!(LatencyHistogram::from_base64("!!"), Err(HistogramError::Base64(_))));
    assert!(matches!(LatencyHistogram::from_base64("AAAA"), Err(HistogramError::Format(_))));
    let beyond = Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, 3).map(|mut wide| {
        wide.record(u64::MAX / 4).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&wide, &mut bytes).unwrap();
        BASE64.encode(bytes)
    });
    let refused = LatencyHistogram::from_base64(&beyond.unwrap());
    assert!(matches!(refused, Err(HistogramError::AboveRange(_))));
}

#[test]
fn hgrm_has_hdrhistograms_shape() {
    let histogram = of(&(1..=1_000).map(|value| value * 1_000).collect::<Vec<_>>());
    let mut text = Vec::new();
    histogram.write_hgrm(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
    assert_eq!(lines[1], "");
    let rows: Vec<&&str> = lines[2..].iter().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.iter().rev().skip(1).all(|row| row.split_whitespace().count() == 4));
    let last: Vec<&str> = rows.last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["1000.000", "1.000000000000", "1000"], "the last row has no fourth column");
    // The deviation is over bucket midpoints, hence not 288.675.
    let footer = &lines[lines.len() - 3..];
    assert_eq!(footer[0], "#[Mean    =      500.500, StdDeviation   =      288.676]");
    assert_eq!(footer[1], "#[Max     =     1000.000, Total count    =         1000]");
    assert_eq!(footer[2], "#[Buckets =           32, SubBuckets     =         2048]");
}

#[test]
fn hgrm_without_samples_says_so() {
    let mut text = Vec::new();
    LatencyHistogram::new().write_hgrm(&mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("#[No samples]\n"));
}

fn samples() -> impl Strategy<Value = Vec<u64>> {
    let value = prop_oneof![0..10_000u64, 0..10_000_000_000u64, any::<u64>()];
    proptest::collection::vec(value, 1..300)
}

proptest! {
    #[test]
    fn quantiles_lie_in_order_between_the_extremes(values in samples()) {
        let histogram = of(&values);
        let mut last = histogram.min_ns().unwrap();
        prop_assert_eq!(last, *values.iter().min().unwrap());
        for quantile in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let value = histogram.value_at_quantile(quantile).unwrap();
            prop_assert!(last <= value, "{} > {} at {}", last, value, quantile);
            last = value;
        }
        prop_assert_eq!(last, *values.iter().max().unwrap());
        prop_assert_eq!(histogram.max_ns(), Some(last));
    }

    #[test]
    fn a_quantile_is_the_sample_of_that_rank_to_three_digits(
        mut values in samples(), quantile in 0.0..1.0f64,
    ) {
        let histogram = of(&values);
        values.sort_unstable();
        let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1];
        let got = histogram.value_at_quantile(quantile).unwrap();
        let tracked = exact <= LatencyHistogram::TRACKED_MAX_NS;
        let tolerance = if tracked { exact / 1_000 + 1 } else { u64::MAX };
        prop_assert!(got.abs_diff(exact) <= tolerance, "{got} for {exact}");
    }

    #[test]
    fn merged_is_pooled(a in samples(), b in samples()) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let pooled = of(&[a, b].concat());
        for quantile in [0.0, 0.5, 0.99, 1.0] {
            prop_assert_eq!(
                merged.value_at_quantile(quantile), pooled.value_at_quantile(quantile));
        }
        prop_assert_eq!(merged.mean_ns(), pooled.mean_ns());
        prop_assert_eq!(merged.overflow_count(), pooled.overflow_count());
    }

    #[test]
    fn base64_keeps_every_bucket(
        values in proptest::collection::vec(0..=LatencyHistogram::TRACKED_MAX_NS, 0..200),
    ) {
        let histogram = of(&values);
        let text = histogram.to_base64();
        let back = LatencyHistogram::from_base64(&text).unwrap();
        prop_assert_eq!(back.count(), histogram.count());
        prop_assert_eq!(back.to_base64(), text);
    }
}

/// A reader of HdrHistogram's V2 format that shares no code with the writer, from the published
/// layout (spec/measurement.md 2.3): compressed cookie and length; then cookie, payload length,
/// normalizing offset, digits, lowest and highest value, ratio; then counts as ZigZag LEB128 with at
/// most nine bytes, a negative one standing for that many empty buckets.
mod published_format {
    use std::io::Read;

    use super::*;

    /// For three digits: the first power of two that resolves 2 * 10^3.
    const SUB_BUCKETS: u64 = 2_048;

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64_at(bytes: &[u8], at: usize) -> u64 {
        u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn zigzag(bytes: &mut std::slice::Iter<'_, u8>) -> Option<i64> {
        let mut value = 0_u64;
        for index in 0..9 {
            let byte = u64::from(*bytes.next()?);
            // The ninth byte has no continuation bit: all eight count.
            let (bits, more) =
                if index < 8 { (byte & 0x7f, byte & 0x80 != 0) } else { (byte, false) };
            value |= bits << (7 * index);
            if !more {
                break;
            }
        }
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The smallest value of the bucket at `index`.
    fn lowest(index: u64) -> u64 {
        let half = SUB_BUCKETS / 2;
        match index / half {
            0 => index,
            group => (index % half + half) << (group - 1),
        }
    }

    fn read(text: &str) -> Vec<(u64, u64)> {
        let bytes = BASE64.decode(text).expect("base64");
        assert_eq!(u32_at(&bytes, 0), 0x1c84_9304 | 0x10, "compressed V2");
        assert_eq!(u32_at(&bytes, 4) as usize, bytes.len() - 8, "compressed length");
        let mut inner = Vec::new();
        flate2::read::ZlibDecoder::new(&bytes[8..]).read_to_end(&mut inner).expect("zlib");
        assert_eq!(u32_at(&inner, 0), 0x1c84_9303 | 0x10, "V2");
        assert_eq!(u32_at(&inner, 4) as usize, inner.len() - 40, "payload length");
        assert_eq!(u32_at(&inner, 8), 0, "normalizing offset");
        assert_eq!(u32_at(&inner, 12), 3, "significant digits");
        assert_eq!(u64_at(&inner, 16), 1, "lowest discernible value");
        assert!(u64_at(&inner, 24) >= LatencyHistogram::TRACKED_MAX_NS, "highest trackable value");
        assert_eq!(f64::from_bits(u64_at(&inner, 32)), 1.0, "integer to double ratio");
        let mut payload = inner[40..].iter();
        let (mut index, mut found) = (0, Vec::new());
        while let Some(count) = zigzag(&mut payload) {
            match u64::try_from(count) {
                Ok(count) => {
                    if count > 0 {
                        found.push((lowest(index), count));
                    }
                    index += 1;
                }
                Err(_) => index += count.unsigned_abs(),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_is_stored_is_what_was_counted(
            samples in prop::collection::vec((1_u64..LatencyHistogram::TRACKED_MAX_NS, 1_u64..1 << 40), 1..40)
        ) {
            let mut histogram = LatencyHistogram::new();
            samples.iter().for_each(|(value, count)| histogram.record_n_ns(*value, *count));
            let read = read(&histogram.to_base64());
            let total: u64 = samples.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(read.iter().map(|(_, count)| count).sum::<u64>(), total);
            // A bucket spans at most a thousandth, so its smallest value is near each sample.
            for (value, _) in &samples {
                let near = |lowest: u64| lowest <= *value && value - lowest <= value / 1_000;
                prop_assert!(read.iter().any(|(lowest, _)| near(*lowest)), "{} in {:?}", value, read);
            }
            let own: Vec<u64> = histogram.buckets().iter().map(|(_, count)| *count).collect();
            prop_assert_eq!(read.iter().map(|(_, count)| *count).collect::<Vec<_>>(), own);
        }
    }
}
