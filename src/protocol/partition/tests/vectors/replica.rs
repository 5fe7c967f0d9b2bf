//! Vectors with scope divergence and follower.

use super::expectations::progress;
use super::*;
use crate::protocol::partition::follower::Waits;
use crate::protocol::partition::leader_epochs::truncation;

pub(super) fn run_divergence(vector: &Value) -> Result<(), String> {
    let (given, event) = (&vector["given"], &vector["event"]);
    refuse_unknown(given, &["epochCache", "leo", "leaderEpoch", "logStart"]);
    refuse_unknown(event, &["type", "lastFetchedEpoch", "fetchOffset"]);
    assert_eq!(kind(event), "fetch_check");
    let epochs = epoch_cache(&given["epochCache"]);
    let log_start = int(&given["logStart"]).unwrap_or(0);
    let log = log(&epochs, log_start, int(&given["leo"]).unwrap(), log_start);
    let mut machine = Machine::new(settings_of(vector, 1), log);
    let newest = epochs.last().map_or(0, |&(epoch, _)| epoch);
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(int32(&given["leaderEpoch"]).unwrap_or(newest)),
        ..metadata(LOCAL.0, &[1, 2], &[1, 2])
    }));
    let fetcher = Fetcher::Follower {
        id: BrokerId(2),
        epoch: Some(broker_epoch(2)),
        log_start_offset: Offset::ZERO,
    };
    let offset = int(&event["fetchOffset"]).unwrap();
    let last = given_epoch(&event["lastFetchedEpoch"]);
    let (request, out) = machine.fetch_as(fetcher, offset, None, last);
    let answer = fetch_answer(&out, request);
    let acknowledged = progress(&machine, "2").unwrap().log_end_offset.is_some();
    differences(&vector["expect"], |key| match key {
        "divergingEpoch" => json!(answer.and_then(|a| a.diverging).map(|(epoch, _)| epoch.0)),
        "divergingEndOffset" => json!(answer.and_then(|a| a.diverging).map(|(_, end)| end.0)),
        "error" => json!(answer.map(|a| a.error.name())),
        "ok" => json!(
            acknowledged
                && answer.is_none_or(|a| a.error == ErrorCode::None && a.diverging.is_none())
        ),
        other => unknown_expectation(other),
    })
}

pub(super) fn run_follower(vector: &Value) -> Result<(), String> {
    let mut machine = given_follower(vector);
    let leader_epoch = machine.partition.leader_epoch().unwrap();
    let mut complete = None;
    for step in steps(vector) {
        machine.out.clear();
        if let Some(ms) = int(&step["atMs"]) {
            machine.now_ms = ms.unsigned_abs();
        }
        follower_step(&mut machine, leader_epoch, step, &mut complete);
    }
    let log = machine.partition.local.log.clone();
    let waits = match &machine.partition.role {
        Role::Follower(follower) => follower.waits,
        role => panic!("not a follower: {role:?}"),
    };
    let backs_off = next_fetch(&machine.out).is_some_and(|next| next.not_before > machine.now());
    let entries = log.epochs.entries().iter().map(|&(epoch, start)| (epoch.0, start.0));
    let entries = entries.collect::<Vec<_>>();
    differences(&vector["expect"], |key| match key {
        "leo" => json!(log.log_end_offset.0),
        "hwm" => json!(log.high_watermark.0),
        "logStart" => json!(log.log_start_offset.0),
        "epochCache" => json!(entries),
        "truncationComplete" => json!(complete),
        "failed" => json!(waits == Waits::NewEpoch),
        "backoff" => json!(backs_off),
        other => unknown_expectation(other),
    })
}

/// A follower of broker 2. Where the vector answers a request of an older leader epoch, it has sent
/// one in that epoch before the current one began.
fn given_follower(vector: &Value) -> Machine {
    let given = &vector["given"];
    refuse_unknown(given, &["epochCache", "leo", "hwm", "logStart", "leaderEpoch"]);
    let log_start = int(&given["logStart"]).unwrap_or(0);
    let high_watermark = int(&given["hwm"]).unwrap_or(log_start);
    let log = log(
        &epoch_cache(&given["epochCache"]),
        log_start,
        int(&given["leo"]).unwrap(),
        high_watermark,
    );
    let mut machine = Machine::new(settings_of(vector, 1), log);
    let current = int32(&given["leaderEpoch"]).unwrap();
    let requests = steps(vector).into_iter().filter_map(|step| int32(&step["requestEpoch"]));
    for epoch in requests.filter(|&epoch| epoch < current).chain([current]) {
        machine.step(Input::Metadata(PartitionMetadata {
            leader_epoch: LeaderEpoch(epoch),
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
    let request = ["type", "atMs", "requestEpoch", "requestOffset"];
    let knows = |own: &[&str]| refuse_unknown(step, &[&request[..], own].concat());
    let claimed = given_epoch(&step["requestEpoch"]).unwrap_or(leader_epoch);
    let answered = Answered {
        offset: int(&step["requestOffset"]).map_or(machine.partition.log_end_offset(), Offset),
        claimed,
        // As `out_of_range` calls what the leader says of its log.
        log_start: Offset(int(&step["leaderStart"]).unwrap_or(0)),
        high_watermark: int(&step["leaderHwm"]).map(Offset),
    };
    match kind(step) {
        "diverging" => {
            knows(&["epoch", "endOffset", "leaderHwm", "leaderStart"]);
            let epoch = given_epoch(&step["epoch"]).expect("a diverging epoch");
            let diverging = (epoch, Offset(int(&step["endOffset"]).unwrap()));
            let end = machine.partition.log_end_offset();
            *complete = Some(truncation(&machine.partition.local.log, diverging).complete);
            // High watermark and log start of this response must not be adopted, whatever they are.
            let high_watermark = answered.high_watermark.or(Some(end));
            let log_start = if step["leaderStart"].is_null() { end } else { answered.log_start };
            let answered = Answered { high_watermark, log_start, ..answered };
            machine.step(answered.fetched(machine, vec![], Some(diverging)));
        }
        "append" => {
            knows(&["records", "batchEpoch", "leaderHwm", "leaderStart"]);
            let records = int(&step["records"]).unwrap();
            let leader_epoch = given_epoch(&step["batchEpoch"]).unwrap_or(claimed);
            let (base_offset, end_offset) = (answered.offset, answered.offset.plus(records));
            let batch = BatchSpan { base_offset, end_offset, leader_epoch };
            let batches = if records == 0 { vec![] } else { vec![batch] };
            machine.step(answered.fetched(machine, batches, None));
            machine.durable(machine.partition.log_end_offset().0);
        }
        "out_of_range" => {
            knows(&["leaderStart", "leaderLeo"]);
            let error = ErrorCode::OffsetOutOfRange;
            let out = machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
            if out.contains(&Output::AskLeaderOffsets) {
                machine.step(Input::LeaderOffsets {
                    log_start_offset: answered.log_start,
                    log_end_offset: Offset(int(&step["leaderLeo"]).unwrap()),
                });
            }
        }
        "fenced_epoch" => {
            knows(&[]);
            let error = ErrorCode::FencedLeaderEpoch;
            machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
        }
        other => panic!("unknown step {other}"),
    }
}

/// A fetch and what its answer says of the leader's log.
struct Answered {
    offset: Offset,
    claimed: LeaderEpoch,
    log_start: Offset,
    /// `None`: what the follower knows already.
    high_watermark: Option<Offset>,
}

impl Answered {
    fn fetched(
        &self,
        machine: &Machine,
        batches: Vec<BatchSpan>,
        diverging: Option<(LeaderEpoch, Offset)>,
    ) -> Input {
        let known = machine.partition.high_watermark();
        Input::FetchedFromLeader {
            request_offset: self.offset,
            request_leader_epoch: self.claimed,
            batches,
            high_watermark: self.high_watermark.unwrap_or(known),
            log_start_offset: self.log_start,
            diverging,
        }
    }
}
