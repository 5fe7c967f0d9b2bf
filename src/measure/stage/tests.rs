use proptest::prelude::*;

use super::*;

const CLOCK: ClockId = ClockId(7);

/// Instants on the path, in order, for `acks=all` with a follower on the same host.
fn trace(times: [u64; 14]) -> Trace {
    let at = |index: usize| MonotonicTime(times[index]);
    Trace {
        clock: CLOCK,
        intended: at(0),
        sent: at(1),
        broker: BrokerStamps {
            clock: CLOCK,
            received: at(2),
            append_started: at(3),
            appended: at(4),
            follower_served: at(5),
            follower_received: at(6),
            follower_appended: at(7),
            follower_durable: at(8),
            follower_acknowledged: at(9),
            durable: at(10),
            committed: at(11),
            answered: at(12),
        },
        acked: at(13),
    }
}

fn ascending() -> Trace {
    trace([10, 20, 40, 70, 110, 160, 220, 290, 370, 460, 560, 670, 790, 920])
}

fn without_followers(mut trace: Trace) -> Trace {
    trace.broker.follower_served = MonotonicTime::ZERO;
    trace.broker.follower_received = MonotonicTime::ZERO;
    trace.broker.follower_appended = MonotonicTime::ZERO;
    trace.broker.follower_durable = MonotonicTime::ZERO;
    trace.broker.follower_acknowledged = MonotonicTime::ZERO;
    trace
}

fn names(gaps: &Gaps) -> Vec<(&'static str, u64)> {
    gaps.path().iter().map(|(stage, gap_ns)| (stage.name(), *gap_ns)).collect()
}

#[test]
fn acks_all_goes_by_way_of_the_follower() {
    let gaps = gaps(&ascending(), Acks::All).unwrap();
    let expected = [
        ("schedule_lag", 10),
        ("send", 20),
        ("validate", 30),
        ("append", 40),
        ("follower_fetch_wait", 50),
        ("follower_fetch_transfer", 60),
        ("follower_append", 70),
        ("follower_sync", 80),
        ("acknowledge_transfer", 90),
        ("high_watermark_wait", 210),
        ("response", 120),
        ("return", 130),
    ];
    assert_eq!(names(&gaps), expected);
    assert_eq!(gaps.leader_sync_ns, Some(450), "beside the path");
    assert_eq!(gaps.total_ns(), 910);
}

#[test]
fn acks_1_waits_for_the_leader_alone() {
    let gaps = gaps(&without_followers(ascending()), Acks::Leader).unwrap();
    let expected = [
        ("schedule_lag", 10),
        ("send", 20),
        ("validate", 30),
        ("append", 40),
        ("leader_sync", 450),
        ("response", 230),
        ("return", 130),
    ];
    assert_eq!(names(&gaps), expected);
    assert_eq!(gaps.leader_sync_ns, None);
}

#[test]
fn one_replica_commits_by_its_own_sync() {
    let gaps = gaps(&without_followers(ascending()), Acks::All).unwrap();
    assert!(gaps.path().contains(&(Stage::LeaderSync, 450)));
    assert!(gaps.path().contains(&(Stage::HighWatermarkWait, 110)));
    assert_eq!(gaps.total_ns(), 910);
}

#[test]
fn a_follower_on_another_clock_is_one_stage() {
    let mut trace = ascending();
    trace.broker.follower_received = MonotonicTime::ZERO;
    let gaps = gaps(&trace, Acks::All).unwrap();
    assert!(gaps.path().contains(&(Stage::FollowerRound, 300)));
    assert_eq!(gaps.total_ns(), 910);
}

#[test]
fn no_path_says_why() {
    assert_eq!(gaps(&ascending(), Acks::None), Err(NoGaps::NoAnswer));
    let mut elsewhere = ascending();
    elsewhere.broker.clock = ClockId(8);
    assert_eq!(gaps(&elsewhere, Acks::All), Err(NoGaps::OtherClock));
    let mut missing = ascending();
    missing.broker.committed = MonotonicTime::ZERO;
    assert_eq!(gaps(&missing, Acks::All), Err(NoGaps::Missing(Stage::HighWatermarkWait)));
    let mut back = ascending();
    back.acked = MonotonicTime(5);
    assert_eq!(gaps(&back, Acks::All), Err(NoGaps::OutOfOrder(Stage::Return)));
}

#[test]
fn batches_without_gaps_are_counted_not_sampled() {
    let mut histograms = StageHistograms::new();
    let trace = ascending();
    let dues = Dues::of(&[trace.intended, MonotonicTime(trace.sent.0 - 1)]).unwrap();
    histograms.record(gaps(&trace, Acks::All), &dues, trace.sent);
    let mut back = ascending();
    back.sent = MonotonicTime(1);
    histograms.record(gaps(&back, Acks::All), &dues, back.sent);
    histograms.record(Err(NoGaps::OtherClock), &dues, trace.sent);
    assert_eq!(histograms.anomaly_count, 1);
    assert_eq!(histograms.untraced_count, 1);
    assert_eq!((histograms.sum.count(), histograms.sum.event_count()), (2, 1));
    let shared = histograms.sum.min_ns().unwrap() - 1;
    let own = trace.sent.since(trace.intended).as_nanos() as u64;
    assert_eq!(histograms.sum.max_ns(), Some(own + shared));
    assert_eq!(histograms.get(Stage::LeaderSync).max_ns(), Some(450));
    assert!(histograms.get(Stage::FollowerRound).is_empty());
    assert_eq!(histograms.iter().count(), 13);
}

fn sorted_times() -> impl Strategy<Value = [u64; 14]> {
    proptest::array::uniform14(1..u64::MAX / 2).prop_map(|mut times| {
        times.sort_unstable();
        times
    })
}

proptest! {
    #[test]
    fn gaps_sum_to_the_latency(times in sorted_times(), followers: bool, all: bool) {
        let trace = if followers { trace(times) } else { without_followers(trace(times)) };
        let acks = if all { Acks::All } else { Acks::Leader };
        let gaps = gaps(&trace, acks).unwrap();
        prop_assert_eq!(gaps.total_ns(), times[13] - times[0]);
    }

    #[test]
    fn shuffled_instants_telescope_or_are_anomalies(
        times in proptest::array::uniform14(1..1_000u64), all: bool,
    ) {
        let acks = if all { Acks::All } else { Acks::Leader };
        match gaps(&trace(times), acks) {
            Ok(gaps) => prop_assert_eq!(gaps.total_ns(), times[13] - times[0]),
            Err(NoGaps::OutOfOrder(_)) => {}
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
