use super::*;

#[test]
fn a_percentile_without_samples_enough_says_how_many_it_needs() {
    let mut latency = Latency {
        count: 500,
        event_count: None,
        overflow_count: 0,
        clock_anomaly_count: 0,
        absent_reason: None,
        min_ns: None,
        mean_ns: None,
        max_ns: None,
        percentiles_ns: [("p50".to_owned(), 74_000)].into(),
        percentiles_absent: [("p99".to_owned(), "needs 1000 independent events".to_owned())].into(),
        histogram_v2_deflate_base64: None,
    };
    assert_eq!(percentile(&latency, "p50"), "74.0 us");
    assert_eq!(percentile(&latency, "p99"), "n/a (1k)");
    latency.count = 0;
    assert_eq!(percentile(&latency, "p99"), NONE);
}
