//! The follower: one fetch in flight, durable acknowledgement, truncation, errors, restarts.

use super::*;

fn follower(log: LogState) -> (Machine, Vec<Output>) {
    let mut machine = Machine::new(settings(1), log);
    let out = machine.step(Input::Metadata(metadata(2, &[1, 2, 3], &[1, 2, 3])));
    (machine, out)
}

fn batch(base: i64, end: i64, epoch: i32) -> BatchSpan {
    BatchSpan {
        base_offset: Offset(base),
        end_offset: Offset(end),
        leader_epoch: LeaderEpoch(epoch),
    }
}

fn response(at: i64, batches: &[BatchSpan], high_watermark: i64) -> Input {
    Input::FetchedFromLeader {
        request_offset: Offset(at),
        request_leader_epoch: LEADER_EPOCH,
        batches: batches.to_vec(),
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset::ZERO,
        diverging: None,
    }
}

fn diverging(at: i64, epoch: i32, end: i64) -> Input {
    Input::FetchedFromLeader {
        request_offset: Offset(at),
        request_leader_epoch: LEADER_EPOCH,
        batches: vec![],
        high_watermark: Offset::ZERO,
        log_start_offset: Offset::ZERO,
        diverging: Some((LeaderEpoch(epoch), Offset(end))),
    }
}

fn failed(error: ErrorCode) -> Input {
    Input::FetchFailed { request_leader_epoch: LEADER_EPOCH, error }
}

fn new_epoch(leader: i32, epoch: i32) -> Input {
    Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: PartitionEpoch(epoch),
        ..metadata(leader, &[1, 2, 3], &[1, 2, 3])
    })
}

#[test]
fn the_next_fetch_waits_for_durability_and_acknowledges_it() {
    let (mut machine, out) = follower(log(&[(4, 0)], 0, 10, 10));
    let first = next_fetch(&out).expect("it fetches at once");
    assert_eq!(first.offset, Offset(10));
    assert_eq!(first.last_fetched_epoch, Some(LeaderEpoch(4)));
    assert_eq!((first.leader, first.leader_epoch), (BrokerId(2), LEADER_EPOCH));
    let out = machine.step(response(10, &[batch(10, 12, 4), batch(12, 15, 5)], 11));
    let watermark = Output::HighWatermark(Offset(11));
    assert_eq!(out, [Output::AppendFetched { count: 2 }, watermark]);
    let epochs = machine.partition.leader_epochs().entries();
    assert_eq!(epochs, [(LeaderEpoch(4), Offset(0)), (LeaderEpoch(5), Offset(12))]);
    assert_eq!(machine.durable(12), []);
    let next = next_fetch(&machine.durable(15)).expect("all of it is durable");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(15), Some(LEADER_EPOCH)));
    assert_eq!(next.not_before, machine.now());
}

#[test]
fn an_empty_response_is_followed_by_the_next_fetch_at_once() {
    let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 8));
    let out = machine.step(response(10, &[], 10));
    assert_eq!(out[0], Output::HighWatermark(Offset(10)));
    assert_eq!(next_fetch(&out).map(|next| next.offset), Some(Offset(10)));
}

#[test]
fn an_ex_leader_with_an_unsynced_tail_fetches_once_it_is_durable() {
    let mut machine = Machine::leader(settings(1), &[1, 2, 3], &[1, 2, 3]);
    machine.produce(Acks::Leader, 5);
    assert_eq!(next_fetch(&machine.step(new_epoch(2, 6))), None);
    let next = next_fetch(&machine.durable(15)).expect("durable now");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(15), Some(LEADER_EPOCH)));
}

#[test]
fn only_the_leading_batches_that_may_be_are_appended() {
    // batches, how many of them; the log ends at 10 with epoch 4, the fetch claimed epoch 5.
    let rows: [(&[BatchSpan], usize); 6] = [
        (&[batch(10, 12, 5), batch(12, 13, 6)], 1),
        (&[batch(10, 12, 6)], 0),
        (&[batch(10, 12, 5), batch(13, 14, 5)], 1),
        (&[batch(9, 12, 5)], 0),
        (&[batch(10, 12, 5), batch(12, 13, 4)], 1),
        (&[batch(10, 12, 3)], 0),
    ];
    for (batches, count) in rows {
        let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 10));
        let out = machine.step(response(10, batches, 10));
        let appended = out.iter().find_map(|output| match output {
            Output::AppendFetched { count } => Some(*count),
            _ => None,
        });
        assert_eq!(appended.unwrap_or(0), count, "{batches:?}");
        if count == 0 {
            // The same batches would come again at once.
            let pause = next_fetch(&out).expect("it asks again").not_before;
            assert_eq!(pause, at_ms(START_MS + BACKOFF_MS));
        }
    }
}

#[test]
fn a_response_for_another_position_or_epoch_changes_nothing() {
    let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 8));
    let ignored = [Output::Ignored("fetch response for another position or leader epoch")];
    assert_eq!(machine.step(response(9, &[batch(10, 12, 5)], 10)), ignored);
    machine.step(new_epoch(3, 6));
    assert_eq!(machine.step(response(10, &[batch(10, 12, 5)], 10)), ignored);
    assert_eq!(machine.step(diverging(10, 1, 0)), ignored);
    assert_eq!(machine.partition.log_end_offset(), Offset(10));
    assert_eq!(machine.high_watermark(), 8);
}

#[test]
fn truncation_takes_several_rounds_if_the_leader_names_an_unknown_epoch() {
    let (mut machine, _) = follower(log(&[(1, 0), (2, 6), (4, 8)], 0, 10, 7));
    let out = machine.step(diverging(10, 3, 9));
    assert_eq!(out[0], Output::Truncate { to: Offset(8) });
    let next = next_fetch(&out).expect("it asks again");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(8), Some(LeaderEpoch(2))));
    let out = machine.step(diverging(8, 1, 5));
    let shorter = Output::HighWatermark(Offset(5));
    assert_eq!(out[..2], [Output::Truncate { to: Offset(5) }, shorter]);
    let next = next_fetch(&out).expect("it asks again");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(5), Some(LeaderEpoch(1))));
}

#[test]
fn truncation_below_the_log_start_restarts_the_log() {
    let (mut machine, _) = follower(log(&[(4, 20)], 20, 30, 25));
    let out = machine.step(diverging(30, 3, 12));
    assert_eq!(out[0], Output::Restart { at: Offset(12) });
    let next = next_fetch(&out).expect("it starts over");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(12), None));
}

#[test]
fn what_the_follower_makes_of_each_error() {
    let backoff = at_ms(START_MS + BACKOFF_MS);
    for error in [
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::InconsistentTopicId,
        ErrorCode::CorruptMessage,
        ErrorCode::NetworkException,
    ] {
        let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 10));
        let out = machine.step(failed(error));
        assert_eq!(next_fetch(&out).map(|next| next.not_before), Some(backoff), "{error}");
    }
    let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 10));
    assert_eq!(machine.step(failed(ErrorCode::FencedLeaderEpoch)), []);
    assert!(matches!(machine.step(failed(ErrorCode::NetworkException))[..], [Output::Ignored(_)]));
    let out = machine.step(new_epoch(2, 6));
    assert_eq!(next_fetch(&out).map(|next| next.leader_epoch), Some(LeaderEpoch(6)));
}

#[test]
fn out_of_range_asks_the_leader_and_keeps_what_is_in_range() {
    let (mut machine, _) = follower(log(&[(4, 5)], 5, 10, 10));
    assert_eq!(machine.step(failed(ErrorCode::OffsetOutOfRange)), [Output::AskLeaderOffsets]);
    let offsets = Input::LeaderOffsets { log_start_offset: Offset(3), log_end_offset: Offset(12) };
    let out = machine.step(offsets.clone());
    let next = next_fetch(&out).expect("it tries again");
    assert_eq!((out.len(), next.offset), (1, Offset(10)));
    assert_eq!(next.not_before, at_ms(START_MS + BACKOFF_MS));
    assert_eq!(machine.step(offsets), [Output::Ignored("leader offsets nobody asked for")]);
    machine.step(failed(ErrorCode::OffsetOutOfRange));
    let out = machine.step(failed(ErrorCode::NetworkException));
    assert!(next_fetch(&out).is_some(), "the question failed, so it fetches again");
}

#[test]
fn a_fetch_restarts_in_a_new_epoch_only() {
    let (mut machine, _) = follower(log(&[(4, 0)], 0, 10, 10));
    let same_epoch =
        PartitionMetadata { partition_epoch: PartitionEpoch(2), ..metadata(2, &[1, 2, 3], &[2]) };
    assert_eq!(machine.step(Input::Metadata(same_epoch)), []);
    let out = machine.step(new_epoch(3, 6));
    let next = next_fetch(&out).expect("a new epoch");
    assert_eq!((next.leader, next.leader_epoch), (BrokerId(3), LeaderEpoch(6)));
    // The old leader's late error is not the new leader's business.
    assert!(matches!(machine.step(failed(ErrorCode::FencedLeaderEpoch))[..], [Output::Ignored(_)]));
    let stale = Input::Metadata(metadata(2, &[1, 2, 3], &[2]));
    assert_eq!(machine.step(stale), [Output::Ignored("metadata older than known")]);
}

#[test]
fn log_start_follows_the_leader_up_to_the_high_watermark() {
    let (mut machine, _) = follower(log(&[(1, 0), (4, 6)], 0, 10, 8));
    let with_start = |start: i64, high_watermark: i64| Input::FetchedFromLeader {
        request_offset: Offset(10),
        request_leader_epoch: LEADER_EPOCH,
        batches: vec![],
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset(start),
        diverging: None,
    };
    machine.step(with_start(7, 5));
    assert_eq!(machine.partition.log_start_offset(), Offset(5));
    machine.step(with_start(7, 9));
    assert_eq!(machine.partition.log_start_offset(), Offset(7));
    let epochs = machine.partition.leader_epochs().entries();
    assert_eq!(epochs, [(LeaderEpoch(4), Offset(7))]);
}

#[test]
fn a_log_without_epochs_starts_from_its_high_watermark() {
    let (_, out) = follower(log(&[], 0, 10, 6));
    assert_eq!(out[0], Output::Truncate { to: Offset(6) });
    assert_eq!(next_fetch(&out).map(|next| next.offset), Some(Offset(6)));
}

#[test]
fn an_epoch_in_which_nothing_was_written_is_not_claimed() {
    let mut machine = Machine::leader(settings(1), &[1, 2, 3], &[1, 2, 3]);
    let out = machine.step(new_epoch(2, 6));
    let next = next_fetch(&out).expect("it follows");
    assert_eq!((next.offset, next.last_fetched_epoch), (Offset(10), Some(LeaderEpoch(4))));
}
