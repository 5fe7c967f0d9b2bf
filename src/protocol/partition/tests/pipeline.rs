//! The pipelined follower, and when followers are served: what is fetched, what is acknowledged, and
//! that only what is durable counts.

use super::*;

fn pipelined() -> Settings {
    Settings { fetch_pipeline: FetchPipeline::Pipelined, ..settings(1) }
}

fn follower() -> (Machine, FollowerFetch) {
    let mut machine = Machine::new(pipelined(), log(&[(4, 0)], 0, 10, 10));
    let out = machine.step(Input::Metadata(metadata(2, &[1, 2, 3], &[1, 2, 3])));
    let first = next_fetch(&out).expect("it fetches at once");
    (machine, first)
}

fn batches(at: i64, base: i64, end: i64) -> Input {
    let span = BatchSpan {
        base_offset: Offset(base),
        end_offset: Offset(end),
        leader_epoch: LEADER_EPOCH,
    };
    Input::FetchedFromLeader {
        request_offset: Offset(at),
        request_leader_epoch: LEADER_EPOCH,
        batches: vec![span],
        high_watermark: Offset(10),
        log_start_offset: Offset::ZERO,
        diverging: None,
    }
}

fn acknowledgement(out: &[Output]) -> Option<(Offset, Option<Offset>)> {
    out.iter().find_map(|output| match output {
        Output::Acknowledge(fetch) => Some((fetch.offset, fetch.durable_offset)),
        _ => None,
    })
}

/// A pipelined follower's fetch.
fn fetch(id: i32, offset: i64, durable: i64, wants_records: bool) -> Fetch {
    Fetch {
        fetcher: Fetcher::Follower {
            id: BrokerId(id),
            epoch: Some(broker_epoch(id)),
            log_start_offset: Offset::ZERO,
        },
        offset: Offset(offset),
        current_leader_epoch: None,
        last_fetched_epoch: None,
        durable_offset: Some(Offset(durable)),
        wants_records,
    }
}

#[test]
fn the_next_fetch_leaves_while_the_last_batch_syncs() {
    let (mut machine, first) = follower();
    assert_eq!((first.offset, first.durable_offset), (Offset(10), Some(Offset(10))));
    let next = next_fetch(&machine.step(batches(10, 10, 15))).expect("without waiting");
    assert_eq!((next.offset, next.durable_offset), (Offset(15), Some(Offset(10))));
    assert_eq!(next.last_fetched_epoch, Some(LEADER_EPOCH));
    // More arrives before the first sync ends.
    let next = next_fetch(&machine.step(batches(15, 15, 20))).expect("without waiting");
    assert_eq!((next.offset, next.durable_offset), (Offset(20), Some(Offset(10))));
    let out = machine.durable(15);
    assert_eq!(acknowledgement(&out), Some((Offset(20), Some(Offset(15)))));
    assert_eq!(next_fetch(&out), None, "one fetch is in flight already");
    assert_eq!(acknowledgement(&machine.durable(20)), Some((Offset(20), Some(Offset(20)))));
}

#[test]
fn a_classic_follower_never_acknowledges_beside_its_fetch() {
    let mut machine = Machine::new(settings(1), log(&[(4, 0)], 0, 10, 10));
    let out = machine.step(Input::Metadata(metadata(2, &[1, 2, 3], &[1, 2, 3])));
    assert_eq!(next_fetch(&out).expect("it fetches").durable_offset, None);
    assert_eq!(next_fetch(&machine.step(batches(10, 10, 15))), None);
    let out = machine.durable(15);
    assert_eq!(acknowledgement(&out), None);
    assert_eq!(next_fetch(&out).map(|next| next.offset), Some(Offset(15)));
}

#[test]
fn a_fenced_follower_has_nothing_to_acknowledge() {
    let (mut machine, _) = follower();
    machine.step(batches(10, 10, 15));
    let error = ErrorCode::FencedLeaderEpoch;
    machine.step(Input::FetchFailed { request_leader_epoch: LEADER_EPOCH, error });
    assert_eq!(machine.durable(15), []);
}

#[test]
fn the_leader_counts_the_durable_end_not_the_fetch_offset() {
    // (fetch offset, durable end, where the high watermark goes) with the leader at 15.
    let rows = [(15, 10, 10), (15, 12, 12), (15, 15, 15), (12, 15, 12)];
    for (offset, durable, high_watermark) in rows {
        let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
        let (request, _) = machine.produce(Acks::All, 5);
        machine.durable(15);
        let (_, out) = machine.send(fetch(2, offset, durable, true));
        assert_eq!(machine.high_watermark(), high_watermark, "{offset}, {durable}");
        let answered = produce_answer(&out, request).is_some();
        assert_eq!(answered, high_watermark == 15, "{offset}, {durable}");
    }
}

#[test]
fn an_acknowledgement_counts_at_once_is_answered_at_once_and_leaves_the_parked_fetch() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    let (produced, _) = machine.produce(Acks::All, 5);
    machine.durable(15);
    let (parked, out) = machine.send(fetch(2, 15, 10, true));
    assert_eq!(fetch_answer(&out, parked), None);
    let (acknowledged, out) = machine.send(fetch(2, 15, 15, false));
    assert_eq!(produce_answer(&out, produced), Some(Ok(Offset(10))));
    let answer = fetch_answer(&out, acknowledged).expect("it must not wait");
    assert_eq!(
        (answer.error, answer.offset, answer.until),
        (ErrorCode::None, Offset(15), Offset(15))
    );
    let (_, out) = machine.produce(Acks::Leader, 1);
    assert_eq!(fetch_answer(&out, parked).map(|answer| answer.until), Some(Offset(16)));
}

#[test]
fn an_acknowledgement_never_brings_records() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
    machine.produce(Acks::Leader, 5);
    let (request, out) = machine.send(fetch(2, 10, 10, false));
    let answer = fetch_answer(&out, request).expect("at once");
    assert_eq!((answer.offset, answer.until), (Offset(10), Offset(10)));
}

#[test]
fn a_diverging_acknowledgement_counts_nothing() {
    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    machine.produce(Acks::All, 5);
    machine.durable(15);
    let last_fetched_epoch = Some(LeaderEpoch(3));
    machine.send(Fetch { last_fetched_epoch, ..fetch(2, 15, 15, false) });
    assert_eq!(machine.high_watermark(), 10);
}

/// Under load a pipelined follower's durable end never meets the leader's end, and what it lacks at
/// one fetch is not all durable by the next.
#[test]
fn a_pipelined_follower_that_keeps_up_stays_in_the_isr() {
    let run = |served: i64| {
        let mut machine = Machine::leader_in_sync(settings(1), &[1, 2], &[1, 2]);
        let (mut end, step_ms) = (10, LAG_MS / 4);
        for round in 1..=40 {
            machine.produce(Acks::Leader, 10);
            end += 10;
            machine.durable(end);
            let durable = (end - served).max(10);
            machine.send(fetch(2, end, durable, true));
            let now = START_MS + round * step_ms;
            machine.tick_at(now);
        }
        machine.last_proposal().is_some()
    };
    assert!(!run(20), "two fetches behind at each of them");
    assert!(run(400), "ever further behind");
}

#[test]
fn after_its_own_sync_a_leader_serves_what_is_durable() {
    let after = Settings { serve_followers: ServeFollowers::AfterSync, ..settings(2) };
    let mut machine = Machine::leader_in_sync(after, &[1, 2], &[1, 2]);
    let (parked, _) = machine.fetch(2, 10);
    let (_, out) = machine.produce(Acks::All, 5);
    assert_eq!(fetch_answer(&out, parked), None, "not durable yet");
    let (other, out) = machine.fetch(2, 10);
    assert_eq!(fetch_answer(&out, other), None, "nor for one that comes now");
    let out = machine.durable(12);
    assert_eq!(fetch_answer(&out, parked).map(|answer| answer.until), Some(Offset(12)));
    machine.durable(15);
    let (_, out) = machine.fetch(2, 12);
    assert_eq!(out.len(), 2, "the high watermark moves to 12, and 12 to 15 is served: {out:?}");
    assert_eq!(machine.high_watermark(), 12);

    let mut machine = Machine::leader_in_sync(settings(2), &[1, 2], &[1, 2]);
    let (parked, _) = machine.fetch(2, 10);
    let (_, out) = machine.produce(Acks::All, 5);
    assert_eq!(fetch_answer(&out, parked).map(|answer| answer.until), Some(Offset(15)));
}

/// A follower can only be as far as it was served: that is what it must have reached to be in sync,
/// although the log itself is always two syncs ahead.
#[test]
fn a_follower_served_after_the_sync_is_caught_up_at_the_durable_end() {
    let after = Settings { serve_followers: ServeFollowers::AfterSync, ..settings(1) };
    let mut machine = Machine::leader_in_sync(after, &[1, 2], &[1, 2]);
    machine.produce(Acks::Leader, 20);
    for round in 1..=40_i64 {
        let durable = 10 * round;
        machine.fetch(2, durable);
        machine.durable(durable + 10);
        machine.produce(Acks::Leader, 10);
        machine.tick_at(START_MS + round.unsigned_abs() * LAG_MS / 4);
    }
    assert_eq!(machine.last_proposal(), None);
}
