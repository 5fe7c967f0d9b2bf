//! Whole cells against a cluster in virtual time.

mod fake;
mod retries;
mod tcp;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use self::fake::Fake;
use super::cell::{Cell, Progress};
use super::error::DriverError;
use super::ledger::{Ledger, Verification};
use super::load::LoadMode;
use super::outcome::{CellOutcome, Failure};
use super::payload::Payload;
use super::read_back::ReadBack;
use super::schedule::{Arrivals, Rate};
use super::spec::{CellSpec, Retry};
use crate::types::{Acks, ClockId, ErrorCode};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn open_loop(records_per_s: f64) -> LoadMode {
    LoadMode::OpenLoop {
        rate: Rate::per_second(records_per_s).unwrap(),
        arrivals: Arrivals::Uniform,
    }
}

/// One second of 1000 records per second, each a batch of its own.
fn spec() -> CellSpec {
    CellSpec {
        topic: "cell".to_owned(),
        partitions: 3,
        replication_factor: 1,
        topic_configs: vec![("min.insync.replicas".to_owned(), "1".to_owned())],
        acks: Acks::All,
        load: open_loop(1_000.0),
        record_bytes: 100,
        batch_bytes: 100,
        linger: Duration::ZERO,
        in_flight_max: 5,
        connections: 1,
        compressible: 0.0,
        seed: 42,
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(1),
        drain_timeout: Duration::from_secs(5),
        consume: true,
        keep_acknowledgements: true,
        keep_history: false,
        retry: Retry::Never,
        request_timeout: Duration::from_secs(2),
        setup_timeout: Duration::from_secs(10),
        injected_slowdown: 0.0,
    }
}

fn run(fake: &mut Fake, spec: &CellSpec) -> Result<CellOutcome, DriverError> {
    let stop = AtomicBool::new(false);
    let mut progress = |_: Progress| {};
    let cell = Cell::new(fake.address(0), spec, &stop, &mut progress)?;
    fake.run(cell).into_result()
}

fn read_back(fake: &mut Fake, spec: &CellSpec, outcome: &CellOutcome) -> Verification {
    let stop = AtomicBool::new(false);
    let payload = Payload::new(spec.seed, spec.record_bytes, spec.compressible);
    let ledger = Ledger::new(payload, spec.seed, spec.partitions, &outcome.acknowledged);
    fake.run(ReadBack::new(fake.address(0), spec, ledger, &stop)).into_result().unwrap()
}

/// How many samples are above a value.
fn above(outcome: &CellOutcome, limit_ns: u64) -> u64 {
    let response = &outcome.acknowledged_latency.response;
    let count = response.count();
    let below = (0..=count).rev().find(|rank| {
        let quantile = *rank as f64 / count as f64;
        response.value_at_quantile(quantile).is_none_or(|value| value <= limit_ns)
    });
    count - below.unwrap_or(0)
}

#[test]
fn a_healthy_cell_measures_all_three_end_points() {
    let mut fake = Fake::new(3);
    let outcome = run(&mut fake, &spec()).unwrap();
    assert_eq!(outcome.counts.records_due, 1_000);
    assert_eq!(outcome.counts.records_acknowledged, 1_000);
    assert_eq!(outcome.counts.records_consumed, 1_000);
    assert_eq!(outcome.counts.value_bytes_acknowledged, 100_000);
    assert_eq!(outcome.achieved_records_per_s, 1_000.0);
    assert_eq!(outcome.asked_records_per_s, Some(1_000.0));
    assert_eq!(outcome.acknowledged_latency.response.count(), 1_000);
    assert_eq!(outcome.committed_latency.response.count(), 1_000);
    assert_eq!(outcome.consumed_latency.response.count(), 1_000);
    assert_eq!(outcome.acknowledged.len(), 1_500, "warm-up included");
    assert!(outcome.failures.is_empty());
    let committed = outcome.committed_latency.response.value_at_quantile(0.5).unwrap();
    let acknowledged = outcome.acknowledged_latency.response.value_at_quantile(0.5).unwrap();
    assert!(committed < acknowledged, "{committed} then {acknowledged}");
    assert_eq!(outcome.stages.sum.count(), 1_000);
    assert_eq!(outcome.stages.anomaly_count + outcome.stages.untraced_count, 0);
    assert_eq!(outcome.stages.sum.max_ns(), outcome.acknowledged_latency.response.max_ns());
    assert_eq!(outcome.stages.sum.mean_ns(), outcome.acknowledged_latency.response.mean_ns());
    assert!(read_back(&mut fake, &spec(), &outcome).is_sound());
}

#[test]
fn a_stall_shows_in_the_response_time_and_hides_in_the_service_time() {
    let mut fake = Fake::new(1);
    fake.answer_ns = 10_000;
    fake.stall = Some((5 * S, 5 * S + 500 * MS));
    let spec = CellSpec {
        partitions: 1,
        load: open_loop(10_000.0),
        warmup: Duration::from_secs(1),
        duration: Duration::from_secs(10),
        consume: false,
        keep_acknowledgements: false,
        ..spec()
    };
    let outcome = run(&mut fake, &spec).unwrap();
    let latency = &outcome.acknowledged_latency;
    assert_eq!(latency.response.count(), 100_000, "one sample a record, nothing filled in");
    assert_eq!(latency.service.count(), 100_000);
    assert!(latency.response.value_at_quantile(0.99) > Some(300 * MS));
    assert!(latency.service.value_at_quantile(0.99) < Some(MS));
    let slow = above(&outcome, 100 * MS);
    assert!((3_800..=4_200).contains(&slow), "{slow} records above 100 ms");
    let sum_of_p99s = latency.service.value_at_quantile(0.99).unwrap()
        + outcome.schedule_lag.value_at_quantile(0.99).unwrap();
    assert_ne!(latency.response.value_at_quantile(0.99), Some(sum_of_p99s));
    assert_eq!(outcome.achieved_records_per_s, 10_000.0, "it caught up");
}

/// 10,000 records a second for five seconds of which one is lost: a fifth of the records wait, the
/// first for a second, the last for no time. By the schedule the mean is 100 ms, and p90, p95 and
/// p99 are 500, 750 and 950 ms.
#[track_caller]
fn shows_a_lost_second(fake: &mut Fake, spec: &CellSpec) {
    let outcome = run(fake, spec).unwrap();
    let batches = outcome.counts.batches_acknowledged;
    assert!(batches < 45_000, "what was held back left in large batches: {batches}");
    // A paused leader's clock tells of commits that nobody heard of before it went on.
    let committed = (fake.stall.is_none()).then_some(&outcome.committed_latency.response);
    for latency in [&outcome.acknowledged_latency.response].into_iter().chain(committed) {
        assert_eq!(latency.count(), 50_000);
        assert_eq!(latency.event_count(), batches);
        let near = |value_ns: f64, ms: u64| (value_ns / (ms * MS) as f64 - 1.0).abs() < 0.03;
        let mean_ns = latency.mean_ns().unwrap();
        assert!(near(mean_ns, 100), "mean {mean_ns} ns");
        for (quantile, ms) in [(0.9, 500), (0.95, 750), (0.99, 950)] {
            let value_ns = latency.value_at_quantile(quantile).unwrap();
            assert!(near(value_ns as f64, ms), "{quantile}: {value_ns} ns");
        }
    }
    assert_eq!(outcome.stages.sum.count(), 50_000);
    assert_eq!(outcome.stages.sum.max_ns(), outcome.acknowledged_latency.response.max_ns());
}

fn ten_thousand_a_second() -> CellSpec {
    CellSpec {
        partitions: 1,
        load: open_loop(10_000.0),
        batch_bytes: 1 << 16,
        duration: Duration::from_secs(5),
        consume: false,
        keep_acknowledgements: false,
        ..spec()
    }
}

#[test]
fn a_second_of_a_paused_leader_shows_as_the_schedule_has_it() {
    for in_flight_max in [1, 4, 256] {
        let mut fake = Fake::new(1);
        fake.answer_ns = 10_000;
        fake.stall = Some((3 * S, 4 * S));
        shows_a_lost_second(&mut fake, &CellSpec { in_flight_max, ..ten_thousand_a_second() });
    }
}

#[test]
fn a_second_of_a_stopped_driver_shows_as_the_schedule_has_it() {
    let mut fake = Fake::new(1);
    fake.answer_ns = 10_000;
    fake.freeze = Some((3 * S, 4 * S));
    shows_a_lost_second(&mut fake, &ten_thousand_a_second());
}

#[test]
fn what_a_consumer_sees_late_is_late_for_every_record() {
    let mut fake = Fake::new(1);
    fake.answer_ns = 10_000;
    fake.freeze = Some((3 * S, 4 * S));
    let outcome = run(&mut fake, &CellSpec { consume: true, ..ten_thousand_a_second() }).unwrap();
    let consumed = &outcome.consumed_latency.response;
    assert_eq!(consumed.count(), 50_000);
    let p95_ns = consumed.value_at_quantile(0.95).unwrap();
    assert!((720 * MS..780 * MS).contains(&p95_ns), "{p95_ns} ns");
}

#[test]
fn warm_up_may_be_longer_than_the_measured_part_and_is_before_it() {
    let mut fake = Fake::new(1);
    let spec =
        CellSpec { warmup: Duration::from_secs(3), duration: Duration::from_secs(1), ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.acknowledged_latency.response.count(), 1_000);
    assert_eq!(outcome.acknowledged.len(), 4_000);
    assert!(outcome.wall < Duration::from_millis(1_100), "{:?}", outcome.wall);
    assert_eq!(outcome.intervals.iter().map(|interval| interval.batches).sum::<u64>(), 1_000);
}

#[test]
fn warm_up_batches_that_end_in_the_measured_part_are_no_samples() {
    let mut fake = Fake::new(1);
    // The load begins a little after one second; the warm-up lasts one.
    fake.stall = Some((S, 4 * S));
    let spec = CellSpec {
        warmup: Duration::from_secs(1),
        duration: Duration::from_secs(1),
        request_timeout: Duration::from_secs(9),
        in_flight_max: 10_000,
        ..spec()
    };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.acknowledged_latency.response.count(), 1_000);
    let longest = outcome.acknowledged_latency.response.max_ns().unwrap();
    assert!(longest <= 2 * S, "only what was due in the measured part: {longest} ns");
}

#[test]
fn without_answers_there_are_no_samples_only_counts() {
    let mut fake = Fake::new(1);
    fake.answers = false;
    let spec = CellSpec {
        consume: false,
        drain_timeout: Duration::from_millis(100),
        request_timeout: Duration::from_secs(60),
        ..spec()
    };
    let outcome = run(&mut fake, &spec).unwrap();
    assert!(outcome.acknowledged_latency.response.is_empty());
    assert_eq!(outcome.acknowledged_latency.response.max_ns(), None);
    assert_eq!(outcome.achieved_records_per_s, 0.0);
    // The window took the first batches of the warm-up; nothing of the measured part was sent.
    assert_eq!(outcome.counts.records_sent, 0);
    assert_eq!(outcome.counts.records_unsent, 1_000);
    assert_eq!(outcome.counts.records_due, 1_000);
}

#[test]
fn an_unanswered_request_times_out_and_is_counted_as_such() {
    let mut fake = Fake::new(1);
    fake.answers = false;
    let spec = CellSpec {
        consume: false,
        warmup: Duration::ZERO,
        request_timeout: Duration::from_millis(100),
        drain_timeout: Duration::from_secs(1),
        ..spec()
    };
    let outcome = run(&mut fake, &spec).unwrap();
    let counts = &outcome.counts;
    let timed_out = outcome.failures.iter().find(|count| count.failure == Failure::TimedOut);
    assert!(timed_out.is_some_and(|count| count.batches >= 5), "{:?}", outcome.failures);
    let ended = counts.records_failed + counts.records_unanswered;
    assert_eq!(counts.records_sent, ended);
    assert_eq!(counts.records_due, counts.records_sent + counts.records_unsent);
    assert!(outcome.failed_latency.max_ns() >= Some(100 * MS));
}

#[test]
fn refused_batches_are_failures_unless_they_are_sent_again() {
    let refusals = [ErrorCode::NotEnoughReplicas; 700];
    let mut fake = Fake::new(1);
    fake.refuse = refusals.into();
    let outcome = run(&mut fake, &spec()).unwrap();
    assert_eq!(outcome.warmup_failures, 500);
    assert_eq!(outcome.counts.records_failed, 200);
    assert_eq!(outcome.counts.records_acknowledged, 800);
    let [count] = outcome.failures.as_slice() else { panic!("{:?}", outcome.failures) };
    assert_eq!(count.failure, Failure::Broker(ErrorCode::NotEnoughReplicas));

    let mut fake = Fake::new(1);
    fake.refuse = refusals.into();
    // No warm-up: its batches would be sent again first, until nothing is refused any more.
    let spec = CellSpec { retry: Retry::UntilAcknowledged, warmup: Duration::ZERO, ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.counts.records_failed, 0);
    assert_eq!(outcome.counts.records_acknowledged, 1_000);
    assert!(outcome.counts.batches_resent > 0);
    assert!(outcome.acknowledged_latency.response.max_ns() > Some(20 * MS), "it waited");
    assert!(read_back(&mut fake, &spec, &outcome).is_sound());
}

#[test]
fn a_batch_that_can_never_be_accepted_is_not_sent_again() {
    let mut fake = Fake::new(1);
    fake.refuse = [ErrorCode::MessageTooLarge; 600].into();
    let spec = CellSpec { retry: Retry::UntilAcknowledged, ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.counts.records_failed, 100);
    assert_eq!(outcome.counts.batches_resent, 0);
}

/// Three brokers, a leader of which is away for 0.7 s, and a cell that outlasts it.
fn outage(retry: Retry) -> (Fake, CellSpec) {
    let mut fake = Fake::new(3);
    fake.kill_at(1, 2 * S);
    fake.restart_at(1, 2 * S + 700 * MS);
    let spec = CellSpec {
        duration: Duration::from_secs(3),
        retry,
        drain_timeout: Duration::from_secs(10),
        ..spec()
    };
    (fake, spec)
}

#[test]
fn a_killed_leader_costs_time_and_no_acknowledged_record() {
    let (mut fake, spec) = outage(Retry::UntilAcknowledged);
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.counts.records_acknowledged, 3_000);
    assert_eq!(outcome.counts.records_unsent + outcome.counts.records_unanswered, 0);
    let longest = outcome.acknowledged_latency.response.max_ns().unwrap();
    assert!((190 * MS..600 * MS).contains(&longest), "the election took 200 ms: {longest} ns");
    let verification = read_back(&mut fake, &spec, &outcome);
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!(verification.acknowledged, 3_500);
}

#[test]
fn a_killed_bootstrap_broker_does_not_end_the_run() {
    let mut fake = Fake::new(3);
    fake.kill_at(0, 2 * S);
    let spec =
        CellSpec { duration: Duration::from_secs(3), retry: Retry::UntilAcknowledged, ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.counts.records_acknowledged, 3_000);
}

#[test]
fn damage_done_behind_the_drivers_back_is_found() {
    let mut fake = Fake::new(3);
    let outcome = run(&mut fake, &spec()).unwrap();
    let log = &mut fake.logs[0];
    let mut changed = log.batches[7].to_vec();
    let last = changed.len() - 5;
    changed[last] ^= 1;
    log.batches[7] = changed.into();
    log.batches.remove(9);
    let verification = read_back(&mut fake, &spec(), &outcome);
    assert_eq!((verification.corrupt, verification.missing), (1, 2));
    assert!(!verification.is_sound());

    let log = &mut fake.logs[1];
    log.batches.truncate(100);
    log.end = 100;
    let verification = read_back(&mut fake, &spec(), &outcome);
    assert_eq!(verification.missing, 2 + 400, "a log that lost its tail");
}

#[test]
fn a_broker_clock_that_is_not_ours_is_not_subtracted_from() {
    let mut fake = Fake::new(1);
    fake.clock = ClockId(fake.clock.0 ^ 1);
    let outcome = run(&mut fake, &spec()).unwrap();
    assert!(outcome.committed_latency.response.is_empty());
    assert_eq!(outcome.stages.untraced_count, 1_000);
    assert_eq!(outcome.acknowledged_latency.response.count(), 1_000);
}

#[test]
fn a_clock_that_steps_back_is_counted_and_gives_no_sample() {
    let mut fake = Fake::new(1);
    fake.skew_ns = -(S as i64);
    let outcome = run(&mut fake, &spec()).unwrap();
    assert_eq!(outcome.stages.anomaly_count, 1_000);
    assert!(outcome.stages.sum.is_empty());
    assert!(outcome.committed_latency.response.is_empty());
    assert_eq!(outcome.committed_latency.response.clock_anomaly_count(), 1_000);
}

#[test]
fn without_a_consumer_the_produce_answer_tells_the_commit() {
    let outcome = run(&mut Fake::new(1), &CellSpec { consume: false, ..spec() }).unwrap();
    assert_eq!(outcome.committed_latency.response.count(), 1_000);
    assert!(outcome.consumed_latency.response.is_empty());
}

#[test]
fn acks_0_measures_what_the_consumer_sees() {
    let outcome = run(&mut Fake::new(3), &CellSpec { acks: Acks::None, ..spec() }).unwrap();
    assert!(outcome.acknowledged_latency.response.is_empty());
    assert_eq!(outcome.counts.records_sent, 1_000);
    assert_eq!(outcome.consumed_latency.response.count(), 1_000);
    assert_eq!(outcome.achieved_records_per_s, 1_000.0, "sent");
}

#[test]
fn the_closed_loop_keeps_so_many_in_flight() {
    let load = LoadMode::ClosedLoop { in_flight: 2 };
    let spec = CellSpec { load, batch_bytes: 1 << 16, consume: false, ..spec() };
    let outcome = run(&mut Fake::new(3), &spec).unwrap();
    let counts = &outcome.counts;
    assert_eq!(counts.records_sent, counts.batches_sent, "one record each");
    // Two in flight at 0.1 ms each.
    assert!((15_000..=20_500).contains(&counts.records_sent), "{}", counts.records_sent);
    assert_eq!(outcome.asked_records_per_s, None);
}

#[test]
fn max_throughput_sends_full_batches() {
    let spec = CellSpec {
        load: LoadMode::MaxThroughput,
        record_bytes: 1_024,
        batch_bytes: 1 << 16,
        warmup: Duration::from_millis(10),
        duration: Duration::from_millis(50),
        ..spec()
    };
    let outcome = run(&mut Fake::new(1), &spec).unwrap();
    let counts = &outcome.counts;
    assert_eq!(counts.records_sent, 63 * counts.batches_sent);
    assert!(counts.batch_bytes_sent <= counts.batches_sent << 16);
    assert_eq!(counts.records_acknowledged, counts.records_sent);
    assert_eq!(counts.records_consumed, counts.records_sent);
}

#[test]
fn linger_gathers_records_into_batches() {
    let spec = CellSpec {
        partitions: 1,
        linger: Duration::from_millis(10),
        batch_bytes: 1 << 16,
        ..spec()
    };
    let outcome = run(&mut Fake::new(1), &spec).unwrap();
    assert_eq!(outcome.counts.records_acknowledged, 1_000);
    assert!((90..=101).contains(&outcome.counts.batches_acknowledged));
    assert!(outcome.schedule_lag.max_ns() >= Some(10 * MS), "the linger is part of the latency");
    let p50_ns = outcome.schedule_lag.value_at_quantile(0.5).unwrap();
    assert!((4 * MS..7 * MS).contains(&p50_ns), "half of it for the middle record: {p50_ns} ns");
}

#[test]
fn poisson_arrivals_reach_every_partition() {
    let rate = Rate::per_second(1_000.0).unwrap();
    let load = LoadMode::OpenLoop { rate, arrivals: Arrivals::Poisson };
    let mut fake = Fake::new(3);
    let outcome = run(&mut fake, &CellSpec { load, ..spec() }).unwrap();
    let acknowledged = outcome.counts.records_acknowledged;
    assert_eq!(acknowledged, outcome.counts.records_due);
    assert!((850..1_150).contains(&acknowledged), "{acknowledged}");
    assert!(fake.logs.iter().all(|log| log.end > 300));
}

#[test]
fn more_load_than_the_cluster_takes_is_said() {
    let mut fake = Fake::new(1);
    fake.answer_ns = 10 * MS;
    let spec = CellSpec {
        partitions: 1,
        load: open_loop(10_000.0),
        drain_timeout: Duration::from_millis(500),
        consume: false,
        ..spec()
    };
    let outcome = run(&mut fake, &spec).unwrap();
    assert!(outcome.achieved_records_per_s < 600.0, "{}", outcome.achieved_records_per_s);
    assert_eq!(outcome.counts.records_due, 10_000);
    assert!(outcome.counts.records_unsent > 9_000);
}

#[test]
fn an_interrupted_cell_gives_what_it_has() {
    let stop = AtomicBool::new(false);
    let mut progress = |progress: Progress| {
        if progress.records_acknowledged > 300 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let spec = spec();
    let mut fake = Fake::new(1);
    let cell = Cell::new(fake.address(0), &spec, &stop, &mut progress).unwrap();
    let outcome = fake.run(cell).into_result().unwrap();
    assert!(outcome.interrupted);
    let samples = outcome.acknowledged_latency.response.count();
    assert!((300..500).contains(&samples), "{samples}");
    assert!((900.0..1_100.0).contains(&outcome.achieved_records_per_s));
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let mut fake = Fake::new(1);
    fake.kill_at(0, 0);
    let error = run(&mut fake, &spec()).unwrap_err();
    assert_eq!(error.to_string(), "bootstrap 127.0.0.1:9000: no answer to ApiVersions within 10s");
}

#[test]
fn a_cell_that_makes_no_sense_is_refused_with_field_value_and_what_is_allowed() {
    let refused = |spec: CellSpec| run(&mut Fake::new(1), &spec).unwrap_err().to_string();
    assert_eq!(
        refused(CellSpec { record_bytes: 31, ..spec() }),
        "record_bytes = 31: must be 32 to 1073741824"
    );
    assert_eq!(refused(CellSpec { partitions: 0, ..spec() }), "partitions = 0: must be 1 or more");
    assert_eq!(
        refused(CellSpec { compressible: f64::NAN, ..spec() }),
        "compressible = NaN: must be 0 to 1"
    );
    assert_eq!(
        refused(CellSpec { duration: Duration::ZERO, ..spec() }),
        "duration = 0: must be longer than 0"
    );
    let load = LoadMode::ClosedLoop { in_flight: 0 };
    assert_eq!(refused(CellSpec { load, ..spec() }), "load.in_flight = 0: must be 1 or more");
}
