//! Produce answers: admission, what each `acks` waits for, time-outs, step-down, output order.

use super::*;

fn other_leader() -> PartitionMetadata {
    PartitionMetadata {
        leader_epoch: LeaderEpoch(6),
        partition_epoch: PartitionEpoch(2),
        ..metadata(2, &[1, 2, 3], &[1, 2, 3])
    }
}

#[test]
fn who_is_answered_when() {
    // acks, min ISR, ISR; answered by the append, by the leader's durability, by the followers.
    let rows = [
        (Acks::None, 2, &[1, 2, 3][..], [true, false, false]),
        (Acks::Leader, 2, &[1, 2, 3], [false, true, false]),
        (Acks::All, 2, &[1, 2, 3], [false, false, true]),
        (Acks::All, 1, &[1], [false, true, false]),
        (Acks::Leader, 2, &[1], [false, true, false]),
        (Acks::None, 2, &[1], [true, false, false]),
    ];
    for (acks, min_isr, isr, expected) in rows {
        let mut machine = Machine::leader_in_sync(settings(min_isr), &[1, 2, 3], isr);
        let (request, appended) = machine.produce(acks, 5);
        let durable = machine.durable(15);
        let mut followed = Vec::new();
        for &id in isr.iter().filter(|&&id| id != 1) {
            followed.extend(machine.fetch(id, 15).1);
        }
        let answered = [appended, durable, followed]
            .map(|out| produce_answer(&out, request) == Some(Ok(Offset(10))));
        assert_eq!(answered, expected, "{acks} min ISR {min_isr} ISR {isr:?}");
        let answers = machine.out.iter().filter(|out| matches!(out, Output::AnswerProduce { .. }));
        assert_eq!(answers.count(), 1, "{acks} min ISR {min_isr} ISR {isr:?}");
    }
}

#[test]
fn acks_all_under_min_isr_is_refused_before_the_append() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2, 3], &[1]);
    let (request, out) = machine.produce(Acks::All, 5);
    let result = Err(ErrorCode::NotEnoughReplicas);
    assert_eq!(out, [Output::AnswerProduce { request, result }]);
    assert_eq!(machine.partition.log_end_offset(), Offset(10));
}

#[test]
fn a_pending_expansion_does_not_admit_acks_all() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2, 3], &[1]);
    machine.fetch(2, 10);
    assert_eq!(machine.partition.maximal_isr(), ids(&[1, 2]));
    let (request, out) = machine.produce(Acks::All, 5);
    assert_eq!(produce_answer(&out, request), Some(Err(ErrorCode::NotEnoughReplicas)));
    machine.commit_proposal(2);
    let (request, out) = machine.produce(Acks::All, 5);
    assert_eq!(produce_answer(&out, request), None);
}

#[test]
fn min_isr_is_capped_by_the_replica_count() {
    let mut machine = Machine::leader_in_sync(settings(5), &[1, 2], &[1, 2]);
    let (request, _) = machine.produce(Acks::All, 1);
    machine.durable(11);
    let (_, out) = machine.fetch(2, 11);
    assert_eq!(produce_answer(&out, request), Some(Ok(Offset(10))));
}

#[test]
fn acks_all_waits_for_the_leaders_own_durability() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    let (request, _) = machine.produce(Acks::All, 5);
    machine.fetch(2, 15);
    assert_eq!(machine.high_watermark(), 10);
    machine.durable(12);
    assert_eq!(machine.high_watermark(), 12);
    let out = machine.durable(15);
    assert_eq!(
        out,
        [
            Output::HighWatermark(Offset(15)),
            Output::AnswerProduce { request, result: Ok(Offset(10)) }
        ]
    );
}

/// After the append the ISR shrinks under min ISR. With the gate the high watermark cannot pass the
/// record: by the KIP the waiter is told at once, as shipped it times out. Without the gate the high
/// watermark passes it, and the waiter is told then.
#[test]
fn an_isr_that_shrinks_after_the_append_is_told_by_error_20_or_by_the_timeout() {
    use {HwmGate::*, ProduceUnderMinIsr::*};
    let told = ErrorCode::NotEnoughReplicasAfterAppend;
    let shrinks: [fn(&mut Machine); 2] = [shrink_by_metadata, shrink_by_proposal];
    for shrink in shrinks {
        for (hwm_gate, produce_under_min_isr, at_once, finally) in [
            (Kip966, Fail, Some(Err(told)), Some(Err(told))),
            (Kip966, Wait, None, Some(Err(ErrorCode::RequestTimedOut))),
            (Legacy, Fail, Some(Err(told)), Some(Err(told))),
            (Legacy, Wait, Some(Err(told)), Some(Err(told))),
        ] {
            let lag_time_max = Duration::from_secs(1);
            let settings =
                Settings { hwm_gate, produce_under_min_isr, lag_time_max, ..settings(2) };
            let mut machine = Machine::leader_in_sync(settings, &[1, 2], &[1, 2]);
            let (local, _) = machine.produce(Acks::Leader, 1);
            let (request, _) = machine.produce(Acks::All, 5);
            machine.durable(16);
            shrink(&mut machine);
            let case = (hwm_gate, produce_under_min_isr);
            assert_eq!(produce_answer(&machine.out, request), at_once, "{case:?}");
            machine.tick_at(machine.now_ms + PRODUCE_TIMEOUT_MS);
            assert_eq!(produce_answer(&machine.out, request), finally, "{case:?}");
            assert_eq!(produce_answer(&machine.out, local), Some(Ok(Offset(10))), "{case:?}");
        }
    }
}

fn shrink_by_metadata(machine: &mut Machine) {
    machine.step(Input::Peers(peers(&[2])));
    machine.step(Input::Metadata(PartitionMetadata {
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2], &[1])
    }));
}

fn shrink_by_proposal(machine: &mut Machine) {
    machine.step(Input::Peers(peers(&[2])));
    machine.now_ms += 2_000;
    machine.step(Input::Tick);
    let proposal = machine.last_proposal().expect("the lag timer proposes").clone();
    let committed = IsrCommitted {
        leader: Some(LOCAL),
        leader_epoch: LEADER_EPOCH,
        partition_epoch: PartitionEpoch(2),
        isr: ids(&[1]),
    };
    machine.step(Input::IsrCommitted { proposal, committed });
}

#[test]
fn acks_all_times_out_at_its_own_deadline_and_acks_1_never() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    let (local, _) = machine.produce(Acks::Leader, 1);
    let (first, _) = machine.produce(Acks::All, 1);
    machine.now_ms += 1_000;
    let (second, _) = machine.produce(Acks::All, 1);
    assert_eq!(machine.partition.deadline(), Some(at_ms(START_MS + 10_000)));
    assert_eq!(machine.tick_at(START_MS + 9_999), []);
    let timed_out =
        |request| Output::AnswerProduce { request, result: Err(ErrorCode::RequestTimedOut) };
    assert_eq!(machine.tick_at(START_MS + 10_000), [timed_out(first)]);
    assert_eq!(machine.partition.deadline(), Some(at_ms(START_MS + 11_000)));
    assert_eq!(machine.tick_at(START_MS + 11_000), [timed_out(second)]);
    let out = machine.durable(13);
    assert_eq!(out, [Output::AnswerProduce { request: local, result: Ok(Offset(10)) }]);
}

#[test]
fn step_down_answers_everybody_who_waits() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2, 3], &[1, 2, 3]);
    let (local, _) = machine.produce(Acks::Leader, 1);
    let (all, _) = machine.produce(Acks::All, 1);
    let (follower, _) = machine.fetch(3, 12);
    let (consumer, _) = machine.consume(10);
    let out = machine.step(Input::Metadata(other_leader()));
    let error = ErrorCode::NotLeaderOrFollower;
    assert_eq!(produce_answer(&out, local), Some(Err(error)));
    assert_eq!(produce_answer(&out, all), Some(Err(error)));
    assert_eq!(fetch_answer(&out, follower).map(|answer| answer.error), Some(error));
    assert_eq!(fetch_answer(&out, consumer).map(|answer| answer.error), Some(error));
    assert_eq!(machine.partition.deadline(), None);
    let (late, out) = machine.produce(Acks::Leader, 1);
    assert_eq!(out, [Output::AnswerProduce { request: late, result: Err(error) }]);
}

#[test]
fn a_new_epoch_of_the_same_leader_keeps_producers_waiting() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    let (request, _) = machine.produce(Acks::All, 1);
    machine.durable(11);
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(6),
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2], &[1, 2])
    }));
    let (_, out) = machine.fetch(2, 11);
    assert_eq!(produce_answer(&out, request), Some(Ok(Offset(10))));
}

#[test]
fn the_append_comes_first_then_parked_follower_fetches_then_the_rest() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2]);
    let outputs = machine.produce(Acks::None, 5).1;
    let kinds: Vec<_> = outputs
        .iter()
        .map(|output| match output {
            Output::Append { base_offset, .. } => format!("append at {base_offset}"),
            Output::AnswerFetch { answer, .. } => {
                format!("serve {} to {}", answer.offset, answer.until)
            }
            Output::AnswerProduce { .. } => "answer".to_owned(),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["append at 10", "serve 10 to 15", "answer"]);
}

/// Before metadata, and as a follower, there is nobody to take a record.
#[test]
fn only_a_leader_takes_records() {
    let mut machine = Machine::new(settings(1), LogState::empty());
    let (request, out) = machine.produce(Acks::Leader, 1);
    let result = Err(ErrorCode::NotLeaderOrFollower);
    assert_eq!(out, [Output::AnswerProduce { request, result }]);
    machine.step(Input::Metadata(metadata(2, &[1, 2], &[1, 2])));
    let (request, out) = machine.produce(Acks::Leader, 1);
    assert_eq!(out, [Output::AnswerProduce { request, result }]);
}
