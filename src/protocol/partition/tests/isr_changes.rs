//! ISR proposals, the controller's replies, and the switches `hwm.gate`, `isr.wait`, `isr.expand`.

use super::*;
use crate::protocol::partition::high_watermark::{HighWatermark, Hold};

/// Under min ISR, a record nobody else holds: the gate alone decides.
#[test]
fn hwm_gate_legacy_commits_under_min_isr_and_kip966_does_not() {
    for (hwm_gate, expected) in [(HwmGate::Kip966, 10), (HwmGate::Legacy, 15)] {
        let settings = Settings { hwm_gate, ..settings(2) };
        let mut machine = Machine::leader(settings, &[1, 2, 3], &[1]);
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        assert_eq!(machine.high_watermark(), expected, "{hwm_gate:?}");
        let held = machine.partition.high_watermark_decision();
        let under = Hold::UnderMinIsr { isr_count: 1, min_isr: 2 };
        assert_eq!(held == Some(HighWatermark::Hold(under)), hwm_gate == HwmGate::Kip966);
    }
}

/// An expansion that crosses min ISR: what KIP-966 makes the high watermark wait for.
#[test]
fn isr_wait_decides_whether_a_pending_expansion_opens_the_gate() {
    for (isr_wait, before_commit) in [(IsrWait::Controller, 10), (IsrWait::None, 15)] {
        let settings = Settings { isr_wait, ..settings(2) };
        let mut machine = Machine::leader(settings, &[1, 2, 3], &[1]);
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        machine.fetch(2, 15);
        assert_eq!(machine.high_watermark(), before_commit, "{isr_wait:?}");
        let (request, out) = machine.produce(Acks::All, 1);
        let refused = produce_answer(&out, request) == Some(Err(ErrorCode::NotEnoughReplicas));
        assert_eq!(refused, isr_wait == IsrWait::Controller);
        assert_eq!(machine.partition.committed_isr(), ids(&[1]));
        machine.commit_proposal(2);
        assert_eq!(machine.high_watermark(), 15);
        assert_eq!(machine.partition.committed_isr(), ids(&[1, 2]));
    }
}

#[test]
fn isr_wait_decides_whether_a_pending_shrink_releases_the_high_watermark() {
    for (isr_wait, before_commit) in [(IsrWait::Controller, 10), (IsrWait::None, 15)] {
        let settings = Settings { isr_wait, ..settings(2) };
        let mut machine = Machine::leader_in_sync(settings, &[1, 2, 3], &[1, 2, 3]);
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        machine.now_ms += LAG_MS;
        machine.fetch(2, 15);
        machine.tick_at(START_MS + LAG_MS + 1);
        let proposed = machine.last_proposal().expect("3 lags").isr.clone();
        assert_eq!(proposed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids(&[1, 2]));
        assert_eq!(machine.high_watermark(), before_commit, "{isr_wait:?}");
        machine.commit_proposal(2);
        assert_eq!(machine.high_watermark(), 15);
    }
}

#[test]
fn isr_expand_caught_up_keeps_a_laggard_out_only_under_min_isr() {
    for (isr_expand, min_isr, joins) in [
        (IsrExpand::Kafka, 2, true),
        (IsrExpand::CaughtUp, 2, false),
        (IsrExpand::CaughtUp, 1, true),
    ] {
        let settings = Settings { isr_expand, ..settings(min_isr) };
        let mut machine = Machine::leader(settings, &[1, 2], &[1]);
        machine.produce(Acks::Leader, 1_000);
        machine.fetch(2, 10);
        assert_eq!(machine.partition.is_isr_pending(), joins, "{isr_expand:?} {min_isr}");
        machine.durable(1_010);
        machine.fetch(2, 1_010);
        assert!(machine.partition.is_isr_pending(), "a caught-up follower always joins");
    }
}

#[test]
fn a_follower_joins_only_from_high_watermark_and_epoch_start() {
    // High watermark 7, epoch start 10.
    let mut machine = Machine::new(settings(2), log(&[(4, 0)], 0, 10, 7));
    machine.step(Input::Metadata(metadata(1, &[1, 2, 3], &[1, 3])));
    for (offset, joins) in [(6, false), (9, false), (10, true)] {
        machine.fetch(2, offset);
        assert_eq!(machine.partition.is_isr_pending(), joins, "at {offset}");
    }
}

#[test]
fn a_proposal_names_own_epoch_and_the_epochs_of_the_last_fetches() {
    let mut machine = Machine::leader(settings(1), &[1, 2, 3], &[1, 3]);
    machine.fetch(2, 10);
    let proposal = machine.last_proposal().expect("2 joins").clone();
    let (two, three) = ((BrokerId(2), Some(broker_epoch(2))), (BrokerId(3), None));
    assert_eq!(proposal.isr, [(LOCAL, Some(broker_epoch(1))), three, two]);
    assert_eq!(proposal.leader_epoch, LEADER_EPOCH);
    assert_eq!(proposal.partition_epoch, PartitionEpoch(1));
}

#[test]
fn what_the_leader_makes_of_each_error() {
    #[derive(Debug, PartialEq)]
    enum Reaction {
        Reverts,
        StaysPending,
        Resends,
    }
    use Reaction::*;
    let rows = [
        (ErrorCode::OperationNotAttempted, Reverts),
        (ErrorCode::IneligibleReplica, Reverts),
        (ErrorCode::UnknownTopicOrPartition, StaysPending),
        (ErrorCode::UnknownTopicId, StaysPending),
        (ErrorCode::FencedLeaderEpoch, StaysPending),
        (ErrorCode::InvalidUpdateVersion, StaysPending),
        (ErrorCode::InvalidRequest, StaysPending),
        (ErrorCode::NewLeaderElected, StaysPending),
        (ErrorCode::UnknownServerError, Resends),
        (ErrorCode::NetworkException, Resends),
        (ErrorCode::Other(999), Resends),
    ];
    for (error, expected) in rows {
        let mut machine = Machine::leader(settings(1), &[1, 2], &[1]);
        machine.fetch(2, 10);
        let sent = machine.last_proposal().expect("2 joins").clone();
        let out = machine.refuse_proposal(error);
        let resent = out.contains(&Output::ProposeIsr(sent));
        let reaction = match (machine.partition.is_isr_pending(), resent) {
            (false, false) => Reverts,
            (true, false) => StaysPending,
            (_, true) => Resends,
        };
        assert_eq!(reaction, expected, "{error}");
        assert_eq!(machine.partition.isr_counters().failed_updates, 1, "{error}");
        let waited_for = if expected == Reverts { ids(&[1]) } else { ids(&[1, 2]) };
        assert_eq!(machine.partition.maximal_isr(), waited_for, "{error}");
        // News of the partition always ends a pending change.
        machine.step(Input::Metadata(PartitionMetadata {
            partition_epoch: PartitionEpoch(2),
            ..metadata(1, &[1, 2], &[1])
        }));
        assert!(!machine.partition.is_isr_pending(), "{error}");
    }
}

/// The record of a change and the reply to its proposal come over two connections.
#[test]
fn a_change_counts_once_whether_metadata_or_the_reply_tells_of_it_first() {
    for metadata_first in [true, false] {
        let mut machine = Machine::leader(settings(1), &[1, 2], &[1]);
        machine.fetch(2, 10);
        let proposal = machine.last_proposal().expect("2 joins").clone();
        let committed = IsrCommitted {
            leader: Some(LOCAL),
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(2),
            isr: ids(&[1, 2]),
        };
        let reply = Input::IsrCommitted { proposal, committed };
        let news = Input::Metadata(PartitionMetadata {
            partition_epoch: PartitionEpoch(2),
            ..metadata(1, &[1, 2], &[1, 2])
        });
        let inputs = if metadata_first { [news, reply] } else { [reply, news] };
        inputs.into_iter().for_each(|input| drop(machine.step(input)));
        let counters = machine.partition.isr_counters();
        assert_eq!((counters.expands, counters.shrinks, counters.failed_updates), (1, 0, 0));
    }
}

#[test]
fn a_reply_under_other_epochs_leaves_the_proposal_pending() {
    for (leader_epoch, partition_epoch) in [(4, 2), (6, 2), (5, 0)] {
        let mut machine = Machine::leader(settings(1), &[1, 2], &[1]);
        machine.fetch(2, 10);
        let proposal = machine.last_proposal().expect("2 joins").clone();
        let committed = IsrCommitted {
            leader: Some(LOCAL),
            leader_epoch: LeaderEpoch(leader_epoch),
            partition_epoch: PartitionEpoch(partition_epoch),
            isr: ids(&[1, 2]),
        };
        machine.step(Input::IsrCommitted { proposal, committed });
        assert!(machine.partition.is_isr_pending());
        assert_eq!(machine.partition.committed_isr(), ids(&[1]));
        assert_eq!(machine.partition.isr_counters().failed_updates, 1);
    }
}

#[test]
fn the_lag_timer_looks_every_half_lag_and_never_counts_an_idle_follower_out() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2, 3]);
    machine.tick_at(START_MS + 500);
    assert_eq!(machine.partition.deadline(), Some(at_ms(START_MS + LAG_MS / 2)));
    machine.tick_at(START_MS + LAG_MS / 2);
    assert_eq!(machine.partition.deadline(), Some(at_ms(START_MS + LAG_MS)));
    // Both hold everything: silent for hours, and still in sync (spec/kip966.md 1.5).
    machine.tick_at(START_MS + 1_000 * LAG_MS);
    assert!(!machine.partition.is_isr_pending());
    machine.produce(Acks::Leader, 1);
    let now = machine.now_ms;
    machine.tick_at(now + LAG_MS);
    let proposed = machine.last_proposal().expect("both lag").isr.len();
    assert_eq!(proposed, 1, "there is no floor");
}

#[test]
fn a_replica_outside_the_isr_does_not_hold_the_high_watermark_after_an_election() {
    let mut machine = Machine::new(settings(1), log(&[(4, 0)], 0, 10, 7));
    machine.step(Input::Metadata(metadata(1, &[1, 2, 3], &[1])));
    assert_eq!(machine.high_watermark(), 10);
    machine.fetch(2, 3);
    machine.produce(Acks::Leader, 1);
    machine.durable(11);
    assert_eq!(machine.high_watermark(), 11);
}

#[test]
fn a_new_epoch_of_the_same_leader_restarts_the_lag_clocks_of_the_isr_only() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2]);
    machine.fetch(3, 10);
    machine.refuse_proposal(ErrorCode::IneligibleReplica);
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(6),
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2, 3], &[1, 2])
    }));
    machine.produce(Acks::Leader, 1);
    machine.durable(11);
    machine.fetch(2, 11);
    // 3 was caught up a moment ago, but the new epoch forgot that.
    assert_eq!(machine.high_watermark(), 11);
}

/// Found by the simulation (seed 152 at the time). A reply commits partition epoch 2, a follower far
/// behind is proposed on top of it, and only then the metadata record of epoch 2 is read. The
/// controller may commit the proposal, so the high watermark must go on waiting for that follower.
#[test]
fn late_metadata_of_the_same_partition_epoch_keeps_the_proposal_pending() {
    let mut machine = Machine::leader(settings(2), &[1, 2, 3], &[1]);
    machine.produce(Acks::Leader, 5);
    machine.durable(15);
    machine.fetch(2, 15);
    machine.commit_proposal(2);
    assert_eq!(machine.high_watermark(), 15);
    machine.produce(Acks::Leader, 5);
    machine.durable(20);
    machine.fetch(3, 15);
    assert_eq!(machine.partition.maximal_isr(), ids(&[1, 2, 3]));
    machine.step(Input::Metadata(PartitionMetadata {
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2, 3], &[1, 2])
    }));
    assert_eq!(machine.partition.maximal_isr(), ids(&[1, 2, 3]));
    machine.fetch(2, 20);
    assert_eq!(machine.high_watermark(), 15);
    machine.commit_proposal(3);
    assert_eq!(machine.partition.committed_isr(), ids(&[1, 2, 3]));
}

/// What a replica outside the ISR fetched in the last epoch does not make it caught up in this one.
#[test]
fn a_new_epoch_of_the_same_leader_restarts_the_previous_fetch_rule() {
    let mut machine = Machine::leader_in_sync(settings(1), &[1, 2, 3], &[1, 2]);
    machine.fetch(3, 5);
    machine.produce(Acks::Leader, 10);
    machine.durable(20);
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(6),
        partition_epoch: PartitionEpoch(2),
        ..metadata(1, &[1, 2, 3], &[1, 2])
    }));
    machine.fetch(3, 10);
    machine.fetch(2, 20);
    assert_eq!(machine.high_watermark(), 20);
}

/// spec/kip966.md 5.3, gate modes: high watermark with an ISR of one under min ISR 2, with the
/// expansion that would open the gate pending, and with it committed.
#[test]
fn when_each_gate_lets_the_high_watermark_pass() {
    let rows = [
        (HwmGate::Legacy, [15, 15, 15]),
        (HwmGate::Kip966, [10, 10, 15]),
        (HwmGate::MaximalIsr, [10, 15, 15]),
        (HwmGate::Soft, [10, 10, 15]),
    ];
    for (hwm_gate, expected) in rows {
        let settings = Settings { hwm_gate, ..settings(2) };
        let mut machine = Machine::leader(settings, &[1, 2, 3], &[1]);
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        let alone = machine.high_watermark();
        machine.fetch(2, 15);
        assert!(machine.last_proposal().is_some(), "{hwm_gate:?}");
        let pending = machine.high_watermark();
        // Whatever the gate, admission asks for the committed ISR.
        let (request, out) = machine.produce(Acks::All, 1);
        let refused = Some(Err(ErrorCode::NotEnoughReplicas));
        assert_eq!(produce_answer(&out, request), refused, "{hwm_gate:?}");
        machine.commit_proposal(2);
        assert_eq!([alone, pending, machine.high_watermark()], expected, "{hwm_gate:?}");
    }
}

/// The maximal ISR of a pending shrink is the committed one: only additions open that gate early.
#[test]
fn a_pending_shrink_opens_no_gate() {
    let settings = Settings { hwm_gate: HwmGate::MaximalIsr, ..settings(2) };
    let mut machine = Machine::leader_in_sync(settings, &[1, 2, 3], &[1, 2, 3]);
    machine.produce(Acks::Leader, 5);
    machine.durable(15);
    machine.fetch(2, 15);
    machine.now_ms += LAG_MS;
    machine.fetch(2, 15);
    machine.tick_at(START_MS + 2 * LAG_MS);
    assert_eq!(machine.last_proposal().map(|proposal| proposal.isr.len()), Some(2));
    assert_eq!(machine.high_watermark(), 10);
    machine.commit_proposal(2);
    assert_eq!(machine.high_watermark(), 15);
}

/// Follower 2 fell behind before follower 3; the gate decides who is proposed to stay.
#[test]
fn a_soft_gate_keeps_lagging_members_that_min_isr_needs() {
    let rows: [(HwmGate, usize, Option<&[i32]>); 6] = [
        (HwmGate::Kip966, 2, Some(&[1])),
        (HwmGate::MaximalIsr, 2, Some(&[1])),
        (HwmGate::Legacy, 3, Some(&[1])),
        (HwmGate::Soft, 1, Some(&[1])),
        (HwmGate::Soft, 2, Some(&[1, 3])),
        (HwmGate::Soft, 3, None),
    ];
    for (hwm_gate, min_isr, proposed) in rows {
        let settings = Settings { hwm_gate, ..settings(min_isr) };
        let mut machine = Machine::leader_in_sync(settings, &[1, 2, 3], &[1, 2, 3]);
        machine.now_ms += 10;
        machine.fetch(3, 10);
        machine.produce(Acks::Leader, 5);
        machine.durable(15);
        machine.tick_at(START_MS + 3 * LAG_MS);
        let isr = machine
            .last_proposal()
            .map(|proposal| proposal.isr.iter().map(|&(id, _)| id.0).collect::<Vec<_>>());
        assert_eq!(isr.as_deref(), proposed, "{hwm_gate:?}, min ISR {min_isr}");
    }
}

/// What an observer is told of a pending change: who, and since when it was to be seen.
#[test]
fn a_pending_change_tells_since_when_it_was_due() {
    let mut machine = Machine::leader(settings(2), &[1, 2, 3], &[1]);
    let fetch_at = |machine: &mut Machine, ms: u64, id: i32| {
        machine.now_ms = START_MS + ms;
        machine.fetch(id, 10);
    };
    assert_eq!(machine.partition.pending_isr(), None);
    fetch_at(&mut machine, 10, 3);
    // Follower 2 is to join too, and waits for the decision on follower 3.
    fetch_at(&mut machine, 20, 2);
    fetch_at(&mut machine, 30, 2);
    let told = machine.partition.pending_isr().expect("follower 3 joins");
    assert_eq!((told.is_expand, &told.members[..]), (true, &ids(&[3])[..]));
    assert_eq!(told.detected_at, Some(at_ms(START_MS + 10)));
    machine.commit_proposal(2);
    fetch_at(&mut machine, 40, 2);
    let told = machine.partition.pending_isr().expect("follower 2 joins");
    assert_eq!((told.isr_before, told.isr_after, told.min_isr), (2, 3, 2));
    assert_eq!(told.members, ids(&[2]));
    assert_eq!(told.detected_at, Some(at_ms(START_MS + 20)), "not the fetch that found it free");
    machine.commit_proposal(3);

    fetch_at(&mut machine, 50, 3);
    machine.produce(Acks::Leader, 1);
    machine.tick_at(START_MS + 3 * LAG_MS);
    let told = machine.partition.pending_isr().expect("both are behind");
    assert_eq!((told.is_expand, told.members), (false, ids(&[3, 2])));
    assert_eq!(told.detected_at, Some(at_ms(START_MS + 40)), "who is behind the longest");
}
