//! Vectors with scope divergence and follower.

use super::leader::progress;
use super::*;
use crate::protocol::partition::follower::Waits;
use crate::protocol::partition::leader_epochs::truncation;

pub(super) fn run_divergence(vector: &Value) -> Vec<String> {
    let given = &vector["given"];
    refuse_unknown(given, &["epochCache", "leo", "leaderEpoch", "logStart"]);
    let epochs = epoch_cache(&given["epochCache"]);
    let log_start = int(&given["logStart"]).unwrap_or(0);
    let mut machine =
        Machine::new(settings(1), log(&epochs, log_start, int(&given["leo"]).unwrap(), log_start));
    let newest = epochs.last().unwrap().0;
    let leader_epoch = int(&given["leaderEpoch"]).map_or(newest, |epoch| epoch.try_into().unwrap());
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(leader_epoch),
        ..metadata(1, &[1, 2], &[1, 2])
    }));
    let fetcher = Fetcher::Follower {
        id: BrokerId(2),
        epoch: Some(broker_epoch(2)),
        log_start_offset: Offset::ZERO,
    };
    let event = &vector["event"];
    let epoch = LeaderEpoch(int(&event["lastFetchedEpoch"]).unwrap().try_into().unwrap());
    let offset = int(&event["fetchOffset"]).unwrap();
    let (request, out) = machine.fetch_as(fetcher, offset, None, Some(epoch));
    let answer = fetch_answer(&out, request);
    let acknowledged = progress(&mut machine, "2").log_end_offset.is_some();
    differences(&vector["expect"], |key| match key {
        "divergingEpoch" => json!(answer.and_then(|a| a.diverging).map(|(epoch, _)| epoch.0)),
        "divergingEndOffset" => json!(answer.and_then(|a| a.diverging).map(|(_, end)| end.0)),
        "error" => json!(answer.map(|a| a.error.name())),
        "ok" => json!(
            acknowledged
                && answer.is_none_or(|a| a.error == ErrorCode::None && a.diverging.is_none())
        ),
        other => panic!("the test does not know the expectation {other}"),
    })
}

pub(super) fn run_follower(vector: &Value) -> Vec<String> {
    let (given, mut machine) = (&vector["given"], given_follower(vector));
    let leader_epoch = LeaderEpoch(int(&given["leaderEpoch"]).unwrap().try_into().unwrap());
    let mut complete = None;
    for step in steps(vector) {
        machine.out.clear();
        follower_step(&mut machine, leader_epoch, step, &mut complete);
    }
    let log = machine.partition.local.log.clone();
    let waits = match &machine.partition.role {
        Role::Follower(follower) => follower.waits,
        role => panic!("not a follower: {role:?}"),
    };
    let backs_off = next_fetch(&machine.out).is_some_and(|next| next.not_before > machine.now());
    differences(&vector["expect"], |key| match key {
        "leo" => json!(log.log_end_offset.0),
        "hwm" => json!(log.high_watermark.0),
        "logStart" => json!(log.log_start_offset.0),
        "epochCache" => {
            json!(
                log.epochs.entries().iter().map(|e| [i64::from(e.0.0), e.1.0]).collect::<Vec<_>>()
            )
        }
        "truncationComplete" => json!(complete),
        "failed" => json!(waits == Waits::NewEpoch),
        "backoff" => json!(backs_off),
        other => panic!("the test does not know the expectation {other}"),
    })
}

/// A follower of broker 2. Where the vector answers a request of an older leader epoch, it has sent
/// one in that epoch before the current one began.
fn given_follower(vector: &Value) -> Machine {
    let given = &vector["given"];
    refuse_unknown(given, &["epochCache", "leo", "hwm", "leaderEpoch"]);
    let (end, high_watermark) = (int(&given["leo"]).unwrap(), int(&given["hwm"]).unwrap());
    let epochs = epoch_cache(&given["epochCache"]);
    let mut machine = Machine::new(settings(1), log(&epochs, 0, end, high_watermark));
    let current = int(&given["leaderEpoch"]).unwrap();
    let requests = steps(vector).into_iter().filter_map(|step| int(&step["requestEpoch"]));
    for epoch in requests.chain([current]) {
        machine.step(Input::Metadata(PartitionMetadata {
            leader_epoch: LeaderEpoch(epoch.try_into().unwrap()),
            ..metadata(2, &[1, 2], &[1, 2])
        }));
    }
    machine
}

fn follower_step(
    machine: &mut Machine,
    leader_epoch: LeaderEpoch,
    step: &Value,
    complete: &mut Option<bool>,
) {
    let end = machine.partition.log_end_offset();
    let claimed = int(&step["requestEpoch"])
        .map_or(leader_epoch, |epoch| LeaderEpoch(epoch.try_into().unwrap()));
    match step["type"].as_str().unwrap() {
        "diverging" => {
            let epoch = LeaderEpoch(int(&step["epoch"]).unwrap().try_into().unwrap());
            let diverging = (epoch, Offset(int(&step["endOffset"]).unwrap()));
            *complete = Some(truncation(&machine.partition.local.log, diverging).complete);
            // The watermark and log start here must not be adopted.
            machine.step(fetched(end, claimed, vec![], (end, end), Some(diverging)));
        }
        "append" => {
            let records = int(&step["records"]).unwrap();
            let batches = if records == 0 {
                vec![]
            } else {
                let epoch = LeaderEpoch(int(&step["batchEpoch"]).unwrap().try_into().unwrap());
                let end_offset = end.plus(records);
                vec![BatchSpan { base_offset: end, end_offset, leader_epoch: epoch }]
            };
            let leader = (Offset::ZERO, Offset(int(&step["leaderHwm"]).unwrap()));
            machine.step(fetched(end, claimed, batches, leader, None));
            machine.durable(machine.partition.log_end_offset().0);
        }
        "out_of_range" => {
            let error = ErrorCode::OffsetOutOfRange;
            let out = machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
            assert_eq!(out, [Output::AskLeaderOffsets]);
            machine.step(Input::LeaderOffsets {
                log_start_offset: Offset(int(&step["leaderStart"]).unwrap()),
                log_end_offset: Offset(int(&step["leaderLeo"]).unwrap()),
            });
        }
        "fenced_epoch" => {
            let error = ErrorCode::FencedLeaderEpoch;
            machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
        }
        other => panic!("unknown step {other}"),
    }
}

fn fetched(
    request_offset: Offset,
    request_leader_epoch: LeaderEpoch,
    batches: Vec<BatchSpan>,
    (log_start_offset, high_watermark): (Offset, Offset),
    diverging: Option<(LeaderEpoch, Offset)>,
) -> Input {
    Input::FetchedFromLeader {
        request_offset,
        request_leader_epoch,
        batches,
        high_watermark,
        log_start_offset,
        diverging,
    }
}
