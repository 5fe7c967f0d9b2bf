use std::path::Path;
use std::time::Duration;

use crate::measure::dues::Dues;
use crate::measure::stage::{Trace, gaps};
use crate::types::{BrokerStamps, ClockId, MonotonicTime};

use super::*;

const US: u64 = 1_000;

fn planned() -> (Workload, Vec<Planned>) {
    let text = r#"
        name = "t"
        [load]
        repeats = 2
        [matrix]
        acks = [1]
        durability = ["page-cache", "fsync"]
    "#;
    let workload = Workload::from_text(Path::new("t.toml"), text).expect("a good workload");
    let cells = workload.cells();
    (workload, cells)
}

#[test]
fn a_doubt_withdraws_the_promise_of_synced_cells_and_of_no_others() {
    let (workload, planned) = planned();
    let doubtful = Measured {
        power_loss_doubt: Some("sda was sent 0 flushes".to_owned()),
        ..repeat(0, 10, 1_000)
    };
    let mut cells: Vec<_> = planned
        .iter()
        .map(|one| cell(&workload, one, std::slice::from_ref(&doubtful), None))
        .collect();
    let kept = cells.clone();
    let told = power_loss_doubts(&mut cells, None).expect("a doubt");
    assert!(told.contains("NOT SHOWN") && told.contains("sda was sent 0 flushes"), "{told}");
    for (cell, kept) in cells.iter().zip(&kept) {
        let synced = cell.factors.durability == "fsync";
        assert_eq!(cell.guarantee.contains("NOT SHOWN"), synced, "{}", cell.guarantee);
        assert_eq!(cell.power_loss_doubt.is_some(), synced);
        assert!(synced || cell.guarantee == kept.guarantee);
    }
    let sound = Measured { power_loss_doubt: None, ..doubtful };
    let one = std::slice::from_ref(&sound);
    let mut cells: Vec<_> = planned.iter().map(|it| cell(&workload, it, one, None)).collect();
    assert_eq!(power_loss_doubts(&mut cells, None), None);
    assert!(cells.iter().any(|cell| cell.guarantee.contains("survives power loss")));
    assert!(power_loss_doubts(&mut cells, Some("no device")).is_some(), "the run's own doubt");
}

/// Batches of 100 us: 20 to the leader, 30 there, 50 back.
fn repeat(repeat: usize, batches: u64, latency_ns: u64) -> Measured {
    let mut measured = Measured {
        measured_from_ns: None,
        ended_ns: None,
        spans: Spans::default(),
        isr_events: Vec::new(),
        repeat,
        cut_short: None,
        measured_s: 1.0,
        achieved_per_s: batches as f64,
        counts: schema::Counts {
            due_records: batches,
            sent_records: batches,
            acknowledged_records: batches,
            acknowledged_batches: batches,
            ..schema::Counts::default()
        },
        errors: BTreeMap::new(),
        acknowledged: LatencyHistogram::new(),
        committed: LatencyHistogram::new(),
        consumed: LatencyHistogram::new(),
        acknowledged_service: LatencyHistogram::new(),
        schedule_lag: LatencyHistogram::new(),
        failed: LatencyHistogram::new(),
        stages: StageHistograms::new(),
        intervals: Vec::new(),
        events: Vec::new(),
        failovers: Vec::new(),
        check: None,
        nodes: Vec::new(),
        device: Value::Null,
        power_loss_doubt: None,
        contamination: Value::Null,
    };
    for _ in 0..batches {
        measured.acknowledged.record_ns(latency_ns);
        measured.acknowledged_service.record_ns(latency_ns);
        let trace = trace(latency_ns);
        let dues = Dues::together(trace.intended, 1);
        measured.stages.record(gaps(&trace, Acks::Leader), &dues, trace.sent);
    }
    measured
}

fn trace(latency_ns: u64) -> Trace {
    let at = |ns: u64| MonotonicTime(1_000_000 + ns);
    let broker = BrokerStamps {
        clock: ClockId(1),
        received: at(latency_ns / 5),
        append_started: at(latency_ns / 5),
        appended: at(latency_ns / 5),
        durable: at(latency_ns / 2),
        follower_served: MonotonicTime::ZERO,
        follower_received: MonotonicTime::ZERO,
        follower_appended: MonotonicTime::ZERO,
        follower_durable: MonotonicTime::ZERO,
        follower_acknowledged: MonotonicTime::ZERO,
        committed: MonotonicTime::ZERO,
        answered: at(latency_ns / 2),
    };
    Trace { clock: ClockId(1), intended: at(0), sent: at(0), broker, acked: at(latency_ns) }
}

fn p50(latency: &schema::Latency) -> u64 {
    latency.percentiles_ns["p50"]
}

#[test]
fn repeats_are_pooled_not_averaged() {
    let (workload, cells) = planned();
    let repeats = [repeat(0, 900, 100 * US), repeat(1, 100, 10_000 * US)];
    let cell = cell(&workload, &cells[0], &repeats, None);
    let latency = &cell.latency.acknowledged;
    assert_eq!(latency.count, 1_000);
    assert_eq!((latency.min_ns, latency.max_ns), (Some(100 * US), Some(10_000 * US)));
    assert!(p50(latency).abs_diff(100 * US) <= 100, "the mean of the p50s would be 5 ms");
    assert!(latency.percentiles_ns["p99"] > 9_900 * US);
    assert_eq!(cell.status, schema::Status::Complete);
    assert_eq!(cell.repeats.len(), 2);
}

#[test]
fn percentiles_go_only_as_deep_as_the_sample() {
    let mut histogram = LatencyHistogram::new();
    histogram.record_n_ns(5, 999);
    let latency = latency(&histogram);
    assert!(latency.percentiles_ns.contains_key("p95"));
    assert_eq!(latency.percentiles_absent["p99"], "needs 1000 independent events");
    assert!(!latency.percentiles_ns.contains_key("p99"));
}

#[test]
fn without_samples_every_statistic_is_absent() {
    let (workload, cells) = planned();
    let cell = cell(&workload, &cells[0], &[], None);
    assert_eq!(cell.status, schema::Status::Partial);
    assert_eq!(cell.status_reason.as_deref(), Some("not run"));
    let json = serde_json::to_value(&cell.latency.acknowledged).expect("plain data");
    assert_eq!(json["absent_reason"], "no samples");
    for key in ["min_ns", "max_ns", "mean_ns", "histogram_v2_deflate_base64"] {
        assert!(json.get(key).is_none(), "{key} of nothing");
    }
    assert_eq!(cell.reconciliation.agrees, None);
}

#[test]
fn stages_that_add_up_agree_and_others_are_said_not_to() {
    let (workload, cells) = planned();
    let good = [repeat(0, 100, 100 * US)];
    let good = cell(&workload, &cells[0], &good, None);
    assert_eq!(good.reconciliation.agrees, Some(true), "{:?}", good.reconciliation);

    let mut bad = repeat(0, 100, 100 * US);
    bad.acknowledged.clear();
    bad.acknowledged.record_n_ns(200 * US, 100);
    let bad = cell(&workload, &cells[0], &[bad], None);
    assert_eq!(bad.reconciliation.agrees, Some(false));
    assert!(bad.warnings.iter().any(|warning| warning.contains("do not account")));
}

#[test]
fn ratios_state_their_sides() {
    let (workload, planned) = planned();
    let floor = schema::Floor {
        formula: "R + W".to_owned(),
        parts_ns: BTreeMap::new(),
        floor_ns: 50 * US,
        ratio: None,
    };
    let mut cells = vec![
        cell(&workload, &planned[0], &[repeat(0, 100, 100 * US)], Some(floor)),
        cell(&workload, &planned[1], &[repeat(0, 100, 300 * US)], None),
    ];
    compare_to_page_cache(&mut cells);
    let ratio = cells[0].floor.as_ref().and_then(|floor| floor.ratio).expect("a p50 and a floor");
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    assert_eq!(cells[0].acknowledged_p50_to_page_cache, Some(1.0));
    let ratio = cells[1].acknowledged_p50_to_page_cache.expect("a twin");
    assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
}

#[test]
fn overload_and_loss_are_called_by_name() {
    let (workload, cells) = planned();
    let mut slow = repeat(0, 100, 100 * US);
    slow.counts.unsent_records = 7;
    let error = schema::ErrorCount { batches: 3, records: 3 };
    slow.errors.insert("NOT_ENOUGH_REPLICAS".to_owned(), error);
    let cell = cell(&workload, &cells[0], &[slow, repeat(1, 100, 100 * US)], None);
    let warnings = cell.warnings.join("\n");
    assert!(warnings.contains("overloaded, less was achieved than offered"), "{warnings}");
    assert!(warnings.contains("7 never sent"), "{warnings}");
    assert!(warnings.contains("3 batches failed with NOT_ENOUGH_REPLICAS"), "{warnings}");
}

#[test]
fn a_cut_short_repeat_makes_its_cell_partial() {
    let (workload, cells) = planned();
    let mut cut = repeat(0, 10, 100 * US);
    cut.cut_short = Some("interrupted".to_owned());
    let partial = cell(&workload, &cells[0], &[cut], None);
    assert_eq!(partial.status, schema::Status::Partial);
    let one_of_two = cell(&workload, &cells[0], &[repeat(0, 10, 100 * US)], None);
    assert_eq!(one_of_two.status_reason.as_deref(), Some("1 of 2 repeats were run"));
    assert_eq!(workload.load.duration, Duration::from_secs(5), "the default");
}

#[test]
fn a_cell_s_events_are_pooled_over_its_repeats_and_kept_up_to_a_bound() {
    use crate::measure::isr::IsrEventKind;
    use crate::results::isr::EVENTS_MAX;

    let (workload, cells) = planned();
    let told = |since_ns: u64| IsrEvent {
        topic: "cell-0-0".to_owned(),
        partition: 0,
        broker: 1,
        leader_epoch: 0,
        lost_before: u64::from(since_ns == 0),
        kind: IsrEventKind::UnderMinIsr { since_ns, until_ns: Some(since_ns + 50) },
    };
    let mut repeats = vec![repeat(0, 30, 100 * US), repeat(1, 30, 100 * US)];
    assert_eq!(cell(&workload, &cells[0], &repeats, None).isr, None);
    repeats[0].isr_events = (0..EVENTS_MAX as u64 - 1).map(told).collect();
    repeats[1].isr_events = (0..4).map(told).collect();
    let cell = cell(&workload, &cells[0], &repeats, None);
    let isr = cell.isr.as_ref().expect("something was told");
    assert_eq!((isr.events.len(), isr.left_out_events, isr.lost_events), (EVENTS_MAX, 3, 2));
    assert_eq!(isr.events.last().map(|event| event.repeat), Some(1));
    assert_eq!(isr.intervals.len(), 1);
    let interval = &isr.intervals[0];
    assert_eq!((&*interval.name, interval.symbol.as_deref()), ("under_min_isr", Some("U")));
    assert_eq!(interval.latency.count, EVENTS_MAX as u64 + 3);
    assert!(cell.warnings.iter().any(|warning| warning.starts_with("2 events of ISRs were lost")));
    let json = serde_json::to_string(isr).expect("plain values");
    assert_eq!(serde_json::from_str::<super::super::isr::Isr>(&json).expect("as written"), *isr);
}

#[test]
fn latencies_are_split_by_whether_they_met_a_stall() {
    use crate::measure::around::Span;
    use crate::measure::isr::{IsrEventKind, StallReason};
    let (workload, cells) = planned();
    let mut repeats = [repeat(0, 20, 100 * US), repeat(1, 20, 100 * US)];
    let span = |from_us: u64, until_us: u64| Span {
        dues: Dues::together(MonotonicTime(from_us * US), 1),
        until: MonotonicTime(until_us * US),
    };
    for repeat in &mut repeats {
        repeat.isr_events = vec![crate::measure::isr::IsrEvent {
            topic: "t".to_owned(),
            partition: 0,
            broker: 1,
            leader_epoch: 0,
            lost_before: 0,
            kind: IsrEventKind::Stall {
                reason: StallReason::UnderMinIsr,
                since_ns: 100 * US,
                until_ns: 200 * US,
                records: 1,
                held_record_ns: 1,
            },
        }];
        repeat.spans.acknowledged = vec![span(0, 10), span(150, 160), span(300, 301)];
    }
    let cell = cell(&workload, &cells[0], &repeats, None);
    let around = &cell.isr.as_ref().expect("a stall was told").around_stalls;
    assert_eq!(around.len(), 1, "nothing is known of commits");
    assert_eq!(around[0].latency, "acknowledged");
    assert_eq!((around[0].met.count, around[0].outside.count), (2, 4));
    assert_eq!(around[0].met.max_ns, Some(10 * US));
}
