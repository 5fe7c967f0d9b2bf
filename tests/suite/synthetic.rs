//! Results made up from real histograms, for what a short run does not have: two hundred cells,
//! faults, several rates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ackmark::config::cells::Cell as Planned;
use ackmark::config::workload::{Pacing, Workload};
use ackmark::measure::dues::Dues;
use ackmark::measure::histogram::LatencyHistogram;
use ackmark::measure::stage::{StageHistograms, Trace, gaps};
use ackmark::results::measured::{self, Measured};
use ackmark::results::schema::{Cell, Counts, Event, Interval, RunResult};
use ackmark::results::{described, folder, sweeps};
use ackmark::types::{Acks, BrokerStamps, ClockId, MonotonicTime};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde_json::json;

/// Batches per repeat: enough for p99.9.
const BATCHES: u64 = 12_000;

/// 2 acks x 5 durability modes x 10 rates x 2 record sizes, two repeats of half a minute each.
pub fn cells_200() -> RunResult {
    result(
        r#"
        name = "two-hundred"
        [load]
        repeats = 2
        duration = "30s"
        [matrix]
        acks = [1, "all"]
        durability = ["page-cache", "fsync", "direct", "direct-fsync", "direct-dsync"]
        rate = ["1k/s", "2k/s", "3k/s", "4k/s", "6k/s", "8k/s", "12k/s", "16k/s", "24k/s", "32k/s"]
        record_bytes = ["1KiB", "4KiB"]
        "#,
        30,
    )
}

/// Few cells at four rates, one of which lost a broker for a while.
pub fn with_events() -> RunResult {
    let mut result = result(
        r#"
        name = "faults"
        [load]
        repeats = 2
        duration = "20s"
        [matrix]
        acks = ["all"]
        durability = ["page-cache", "page-cache-flush", "fsync", "direct", "direct-fsync", "direct-dsync"]
        rate = ["1k/s", "4k/s", "16k/s", "32k/s"]
        "#,
        20,
    );
    let repeat = &mut result.cells[0].repeats[0];
    for interval in &mut repeat.intervals[8..11] {
        interval.p99_ns = interval.p99_ns.map(|value| value * 40);
        interval.max_ns = interval.max_ns.map(|value| value * 60);
    }
    let event = |at_us, kind: &str, what: &str, until_us| Event {
        at_us,
        kind: kind.to_owned(),
        what: what.to_owned(),
        until_us,
    };
    repeat.events = vec![
        event(8_000_000, "stall", "broker-3 stopped (SIGSTOP)", Some(10_500_000)),
        event(9_200_000, "isr_shrink", "broker-3 left the ISR of bench-0", None),
        event(13_800_000, "isr_expand", "broker-3 joined the ISR of bench-0", None),
    ];
    repeat.contamination = json!({"steal_percent": 3.2, "steal_level": "noted"});
    result
}

/// Measures one cell per acks, durability mode and strain; those of other rates and record sizes are
/// the same measurement under another load.
fn result(workload: &str, seconds: u64) -> RunResult {
    let workload = Workload::from_text(Path::new("synthetic.toml"), workload).unwrap();
    let mut result = folder::load(Path::new("fixtures/results/v1/paced.json")).unwrap();
    let mut known: BTreeMap<_, Cell> = BTreeMap::new();
    let cell = |planned: &Planned| {
        let Pacing::Open { rate_per_s, .. } = planned.pacing else { unreachable!("all are paced") };
        let strain = (rate_per_s / 8_000).max(1);
        let key = (planned.acks.to_string(), planned.durability.name(), strain);
        let first = known.entry(key).or_insert_with(|| {
            let repeats = [0, 1].map(|number| repeat(number, planned, strain, seconds));
            measured::cell(&workload, planned, &repeats, None)
        });
        let mut cell = first.clone();
        cell.index = planned.index;
        cell.name = described::cell_name(&workload, planned);
        cell.factors.rate_per_s = Some(rate_per_s);
        cell.factors.record_bytes = planned.record_bytes;
        cell.warnings.clear();
        cell.rate.asked_per_s = Some(rate_per_s as f64);
        cell.rate.achieved_per_s = rate_per_s.min(20_000) as f64;
        cell
    };
    result.cells = workload.cells().iter().map(cell).collect();
    measured::compare_to_page_cache(&mut result.cells);
    result.sweeps = sweeps::sweeps(&workload, &workload.cells(), &result.cells, |_| None);
    result.workload = described::workload(&workload);
    // Through the file, as a reader gets it.
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join(folder::RESULT_FILE);
    fs::write(&file, serde_json::to_vec(&result).unwrap()).unwrap();
    folder::load(&file).unwrap()
}

/// Typical length of a sync in microseconds.
fn sync_us(durability: &str) -> f64 {
    match durability {
        "page-cache" => 2.0,
        "page-cache-flush" => 6.0,
        "direct" => 60.0,
        "fsync" => 170.0,
        _ => 150.0,
    }
}

fn repeat(number: usize, planned: &Planned, strain: u64, seconds: u64) -> Measured {
    let seed = (planned.index * 2 + number) as u64;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut gap_ns = move |typical_us: f64, spread: f64| {
        let normal: f64 = StandardNormal.sample(&mut random);
        (typical_us * 1e3 * strain as f64 * (spread * normal).exp()) as u64
    };
    let mut stages = StageHistograms::new();
    let mut acknowledged = LatencyHistogram::new();
    let mut schedule_lag = LatencyHistogram::new();
    let mut intervals = Vec::new();
    let mut second = LatencyHistogram::new();
    for batch in 0..BATCHES {
        let all = planned.acks == Acks::All;
        let mut now = 1_000_000;
        let mut step = |typical_us: f64, spread: f64| {
            now += gap_ns(typical_us, spread);
            MonotonicTime(now)
        };
        let intended = MonotonicTime(1_000_000);
        let sent = step(28.0, 0.5);
        let received = step(11.0, 0.6);
        let append_started = step(1.5, 0.3);
        let appended = step(2.5, 0.4);
        let sync_us = sync_us(planned.durability.name());
        let mut broker = BrokerStamps {
            clock: ClockId(1),
            received,
            append_started,
            appended,
            durable: appended,
            follower_served: MonotonicTime::ZERO,
            follower_received: MonotonicTime::ZERO,
            follower_appended: MonotonicTime::ZERO,
            follower_durable: MonotonicTime::ZERO,
            follower_acknowledged: MonotonicTime::ZERO,
            committed: MonotonicTime::ZERO,
            answered: MonotonicTime::ZERO,
        };
        if all {
            broker.follower_served = step(12.0, 0.7);
            broker.follower_received = step(30.0, 0.5);
            broker.follower_appended = step(3.0, 0.4);
            broker.follower_durable = step(sync_us, 0.6);
            broker.durable = broker.follower_durable;
            broker.follower_acknowledged = step(14.0, 0.6);
            broker.committed = step(4.0, 0.8);
        } else {
            broker.durable = step(sync_us, 0.6);
            broker.committed = broker.durable;
        }
        broker.answered = step(3.0, 0.4);
        let acked = step(18.0, 0.7);
        let trace = Trace { clock: ClockId(1), intended, sent, broker, acked };
        stages.record(gaps(&trace, planned.acks), &Dues::together(intended, 1), sent);
        let latency_ns = acked.0 - intended.0;
        acknowledged.record_ns(latency_ns);
        schedule_lag.record_ns(sent.0 - intended.0);
        second.record_ns(latency_ns);
        if (batch + 1) % (BATCHES / seconds) == 0 {
            intervals.push(Interval {
                second: intervals.len() as u64,
                records: second.count(),
                p50_ns: second.value_at_quantile(0.5),
                p99_ns: second.value_at_quantile(0.99),
                max_ns: second.max_ns(),
            });
            second.clear();
        }
    }
    Measured {
        repeat: number,
        cut_short: None,
        measured_from_ns: None,
        ended_ns: None,
        isr_events: Vec::new(),
        spans: ackmark::measure::around::Spans::default(),
        measured_s: seconds as f64,
        achieved_per_s: BATCHES as f64 / seconds as f64,
        counts: Counts {
            due_records: BATCHES,
            sent_records: BATCHES,
            sent_batches: BATCHES,
            acknowledged_records: BATCHES,
            acknowledged_batches: BATCHES,
            consumed_records: BATCHES,
            ..Counts::default()
        },
        errors: BTreeMap::new(),
        committed: acknowledged.clone(),
        consumed: acknowledged.clone(),
        acknowledged_service: acknowledged.clone(),
        acknowledged,
        schedule_lag,
        failed: LatencyHistogram::new(),
        stages,
        intervals,
        events: Vec::new(),
        failovers: Vec::new(),
        check: None,
        nodes: Vec::new(),
        device: json!({}),
        power_loss_doubt: None,
        contamination: json!({"steal_percent": 0.1, "steal_level": "clean"}),
    }
}
