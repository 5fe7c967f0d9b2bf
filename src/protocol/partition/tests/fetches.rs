//! Fetch answers: who sees what, who is parked, what wakes a parked fetch, who is refused.

use super::*;

fn follower(id: i32, epoch: Option<BrokerEpoch>) -> Fetcher {
    Fetcher::Follower { id: BrokerId(id), epoch, log_start_offset: Offset::ZERO }
}

#[test]
fn a_follower_reads_to_the_log_end_and_a_consumer_to_the_high_watermark() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    machine.produce(Acks::Leader, 5);
    let (request, out) = machine.fetch(2, 10);
    let answer = fetch_answer(&out, request).expect("there is something to read");
    assert_eq!((answer.offset, answer.until), (Offset(10), Offset(15)));
    let (request, out) = machine.consume(4);
    let answer = fetch_answer(&out, request).expect("there is something to read");
    assert_eq!((answer.offset, answer.until), (Offset(4), Offset(10)));
}

#[test]
fn an_append_wakes_followers_and_the_high_watermark_wakes_consumers() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    machine.step(Input::ForgetFetch(RequestId(1)));
    let (consumer, out) = machine.consume(10);
    assert_eq!(out, []);
    let (parked, _) = machine.fetch(2, 10);
    let (_, out) = machine.produce(Acks::Leader, 5);
    assert_eq!(fetch_answer(&out, parked).map(|answer| answer.until), Some(Offset(15)));
    assert_eq!(fetch_answer(&out, consumer), None);
    machine.durable(15);
    let (parked, out) = machine.fetch(2, 15);
    let answer = fetch_answer(&out, consumer).expect("the high watermark moved");
    assert_eq!((answer.offset, answer.until), (Offset(10), Offset(15)));
    assert_eq!(answer.high_watermark, Offset(15));
    assert_eq!(fetch_answer(&out, parked), None);
}

/// KAFKA-9952: it would raise the fetch rate by half.
#[test]
fn the_high_watermark_alone_never_wakes_a_follower() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2, 3]);
    machine.produce(Acks::Leader, 5);
    machine.durable(15);
    let (parked, _) = machine.fetch(2, 15);
    let (_, out) = machine.fetch(3, 15);
    assert_eq!(machine.high_watermark(), 15);
    assert_eq!(fetch_answer(&out, parked), None);
    let deadline = machine.partition.deadline().expect("a fetch is parked");
    assert_eq!(deadline, at_ms(START_MS + 500));
    let out = machine.tick_at(START_MS + 500);
    let answer = fetch_answer(&out, parked).expect("its deadline has come");
    assert_eq!((answer.offset, answer.until), (Offset(15), Offset(15)));
    assert_eq!(answer.high_watermark, Offset(15));
}

#[test]
fn a_consumer_between_high_watermark_and_log_end_is_parked_not_refused() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    machine.produce(Acks::Leader, 5);
    let (above, out) = machine.consume(13);
    assert_eq!(out, []);
    machine.durable(15);
    machine.fetch(2, 12);
    assert_eq!(machine.high_watermark(), 12);
    assert_eq!(fetch_answer(&machine.out, above), None);
    let (_, out) = machine.fetch(2, 15);
    assert_eq!(fetch_answer(&out, above).map(|answer| answer.until), Some(Offset(15)));
    let (beyond, out) = machine.consume(16);
    let error = fetch_answer(&out, beyond).map(|answer| answer.error);
    assert_eq!(error, Some(ErrorCode::OffsetOutOfRange));
}

#[test]
fn a_deadline_at_or_before_now_never_parks() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    let fetch = Fetch {
        fetcher: Fetcher::Consumer,
        offset: Offset(10),
        current_leader_epoch: None,
        last_fetched_epoch: None,
        durable_offset: None,
        wants_records: true,
    };
    let (request, deadline) = (machine.request(), machine.now());
    let out = machine.step(Input::Fetch { request, fetch, deadline });
    let answer = fetch_answer(&out, request).expect("it must not wait");
    assert_eq!((answer.error, answer.until), (ErrorCode::None, Offset(10)));
}

#[test]
fn a_forgotten_fetch_is_never_answered() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    let (parked, _) = machine.fetch(2, 10);
    assert_eq!(machine.step(Input::ForgetFetch(parked)), []);
    let out = machine.step(Input::ForgetFetch(parked));
    assert_eq!(out, [Output::Ignored("forgotten fetch was not parked")]);
    let (_, out) = machine.produce(Acks::Leader, 5);
    assert_eq!(fetch_answer(&out, parked), None);
}

/// A fetch that itself moves the high watermark still carries the one from before if it is answered
/// at once, and the one of the later moment if it was parked (spec/kip966.md 1.7).
#[test]
fn the_high_watermark_in_an_answer_is_from_before_the_fetch_counts() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    let (waits, _) = machine.produce(Acks::All, 5);
    machine.produce(Acks::Leader, 5);
    machine.durable(20);
    let (request, out) = machine.fetch(2, 15);
    assert_eq!(machine.high_watermark(), 15);
    assert_eq!(fetch_answer(&out, request).map(|a| a.high_watermark), Some(Offset(10)));
    assert_eq!(produce_answer(&out, waits), Some(Ok(Offset(10))));
    let (waits, _) = machine.produce(Acks::All, 5);
    machine.durable(25);
    let (request, out) = machine.fetch(2, 25);
    assert_eq!(
        out,
        [
            Output::HighWatermark(Offset(25)),
            Output::AnswerProduce { request: waits, result: Ok(Offset(20)) }
        ]
    );
    let (_, out) = machine.produce(Acks::Leader, 5);
    assert_eq!(fetch_answer(&out, request).map(|a| a.high_watermark), Some(Offset(25)));
}

#[test]
fn who_is_refused_and_why() {
    use ErrorCode::{FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch};
    let (older, newer) = (Some(LeaderEpoch(4)), Some(LeaderEpoch(6)));
    let known = Some(broker_epoch(2));
    // fetcher, offset, claimed leader epoch, last fetched epoch -> error
    let rows = [
        (follower(2, known), 10, older, None, FencedLeaderEpoch),
        (follower(2, known), 10, newer, None, UnknownLeaderEpoch),
        (Fetcher::Consumer, 0, older, None, FencedLeaderEpoch),
        (Fetcher::Consumer, 0, newer, None, UnknownLeaderEpoch),
        (follower(7, None), 10, Some(LEADER_EPOCH), None, UnknownLeaderEpoch),
        (follower(7, None), 10, None, None, NotLeaderOrFollower),
        (follower(2, known), 11, None, None, OffsetOutOfRange),
        (Fetcher::Consumer, -1, None, None, OffsetOutOfRange),
        (follower(2, known), 10, None, Some(LeaderEpoch(9)), OffsetOutOfRange),
        (follower(2, Some(BrokerEpoch(101))), 10, None, None, NotLeaderOrFollower),
        // The fence of leader epochs comes first, the range before the broker epoch.
        (follower(7, None), 99, older, None, FencedLeaderEpoch),
        (follower(2, Some(BrokerEpoch(101))), 11, None, None, OffsetOutOfRange),
    ];
    for (fetcher, offset, claimed, last, expected) in rows {
        let mut machine = Machine::leader(settings(1), &[1, 2], &[1, 2]);
        let (request, out) = machine.fetch_as(fetcher, offset, claimed, last);
        let answer = fetch_answer(&out, request).expect("an error is answered at once");
        assert_eq!(answer.error, expected, "{fetcher:?} at {offset}, {claimed:?}, {last:?}");
        assert_eq!(answer.offset, answer.until);
        // A refused fetch acknowledges nothing.
        machine.produce(Acks::Leader, 1);
        machine.durable(11);
        assert_eq!(machine.high_watermark(), 10);
    }
}

#[test]
fn a_diverging_fetch_acknowledges_nothing() {
    let mut machine = Machine::leader(settings(1), &[1, 2], &[1, 2]);
    machine.produce(Acks::Leader, 5);
    machine.durable(15);
    let (request, out) = machine.fetch_as(follower(2, None), 15, None, Some(LeaderEpoch(4)));
    let answer = fetch_answer(&out, request).expect("divergence is answered at once");
    assert_eq!(answer.diverging, Some((LeaderEpoch(4), Offset(10))));
    assert_eq!((answer.error, answer.until), (ErrorCode::None, answer.offset));
    assert_eq!(machine.high_watermark(), 10);
}

#[test]
fn a_new_leader_epoch_fences_parked_fetches_that_claim_the_old_one() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    let (fenced, _) =
        machine.fetch_as(follower(2, Some(broker_epoch(2))), 10, Some(LEADER_EPOCH), None);
    let (kept, _) = machine.consume(10);
    let out = machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(6),
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2], &[1, 2])
    }));
    let error = fetch_answer(&out, fenced).map(|answer| answer.error);
    assert_eq!(error, Some(ErrorCode::FencedLeaderEpoch));
    assert_eq!(fetch_answer(&out, kept), None);
}

#[test]
fn a_removed_replica_is_told_so() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2, 3]);
    let (parked, _) = machine.fetch(3, 10);
    let out = machine.step(Input::Metadata(PartitionMetadata {
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2], &[1, 2])
    }));
    let error = fetch_answer(&out, parked).map(|answer| answer.error);
    assert_eq!(error, Some(ErrorCode::NotLeaderOrFollower));
}

#[test]
fn a_follower_serves_nobody() {
    use ErrorCode::{FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch};
    let mut machine = Machine::new(settings(1), log(&[(4, 0)], 0, 10, 10));
    machine.step(Input::Metadata(metadata(2, &[1, 2], &[1, 2])));
    let rows = [
        (None, NotLeaderOrFollower),
        (Some(LeaderEpoch(4)), FencedLeaderEpoch),
        (Some(LEADER_EPOCH), NotLeaderOrFollower),
        (Some(LeaderEpoch(6)), UnknownLeaderEpoch),
    ];
    for (claimed, expected) in rows {
        let (request, out) = machine.fetch_as(Fetcher::Consumer, 0, claimed, None);
        assert_eq!(fetch_answer(&out, request).map(|answer| answer.error), Some(expected));
    }
}

#[test]
fn the_latest_offset_waits_for_the_high_watermark_to_reach_the_epoch() {
    let mut machine = Machine::new(settings(2), log(&[(4, 0)], 0, 10, 7));
    let latest = |machine: &Machine| machine.partition.latest_offset_for_clients();
    assert_eq!(latest(&machine), Err(ErrorCode::NotLeaderOrFollower));
    machine.step(Input::Metadata(metadata(1, &[1, 2], &[1, 2])));
    assert_eq!(latest(&machine), Err(ErrorCode::OffsetNotAvailable));
    machine.fetch(2, 9);
    assert_eq!(latest(&machine), Err(ErrorCode::OffsetNotAvailable));
    machine.fetch(2, 10);
    assert_eq!(latest(&machine), Ok(Offset(10)));
}
