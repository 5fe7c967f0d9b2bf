//! The high-watermark decision against a naive model, over every small state.

use std::collections::BTreeSet;

use super::*;
use crate::protocol::partition::high_watermark::{
    FollowerEnd, HighWatermark, Hold, Question, decide,
};
use crate::protocol::partition::isr::IsrState;

/// One state of leader 1 with followers 2 and 3.
#[derive(Clone, Debug)]
struct State {
    gate: HwmGate,
    wait: IsrWait,
    min_isr: usize,
    high_watermark: i64,
    durable: i64,
    ends: [Option<i64>; 2],
    joining: [bool; 2],
    committed: BTreeSet<i32>,
    proposed: Option<BTreeSet<i32>>,
}

/// The rule as one would say it aloud: spec/kip966.md 1.4 with plain sets.
fn naive(state: &State) -> Option<i64> {
    let proposed = state.proposed.as_ref().unwrap_or(&state.committed);
    let (counted, mut waited) = match state.wait {
        IsrWait::Controller => (&state.committed, &state.committed | proposed),
        IsrWait::None => (proposed, proposed.clone()),
    };
    let gate_sees = match state.gate {
        HwmGate::Legacy => usize::MAX,
        HwmGate::MaximalIsr => waited.len(),
        HwmGate::Kip966 | HwmGate::Soft => counted.len(),
    };
    if gate_sees < state.min_isr {
        return None;
    }
    waited.extend(
        [2, 3].into_iter().zip(state.joining).filter(|(_, joins)| *joins).map(|(id, _)| id),
    );
    let mut candidate = state.durable;
    for id in waited {
        candidate = match id {
            1 => candidate,
            2 => candidate.min(state.ends[0]?),
            _ => candidate.min(state.ends[1]?),
        };
    }
    (candidate > state.high_watermark).then_some(candidate)
}

fn isr_state(state: &State) -> IsrState {
    let set = |set: &BTreeSet<i32>| set.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let isr = set(&state.committed);
    let Some(proposed) = &state.proposed else {
        return IsrState::Committed { isr };
    };
    let proposal = IsrProposal {
        leader_epoch: LEADER_EPOCH,
        partition_epoch: PartitionEpoch(1),
        isr: set(proposed).into_iter().map(|id| (id, None)).collect(),
        recovering: false,
    };
    match proposed.difference(&state.committed).next() {
        Some(&joining) => IsrState::PendingExpand { isr, joining: BrokerId(joining), proposal },
        None => IsrState::PendingShrink { isr, proposal },
    }
}

fn decided(state: &State) -> HighWatermark {
    let isr = isr_state(state);
    let question = Question {
        gate: state.gate,
        isr_count: match state.gate {
            HwmGate::MaximalIsr => isr.maximal_count(state.wait),
            _ => isr.counted(state.wait),
        },
        min_isr: state.min_isr,
        high_watermark: Offset(state.high_watermark),
        durable_offset: Offset(state.durable),
    };
    let followers = [0, 1].map(|index| {
        let id = BrokerId(2 + i32::try_from(index).unwrap());
        FollowerEnd {
            id,
            log_end_offset: state.ends[index].map(Offset),
            in_maximal_isr: isr.in_maximal(id, state.wait),
            about_to_join: state.joining[index],
        }
    });
    decide(&question, followers.into_iter())
}

/// Calls `visit` with every state over offsets 0 to 3 and every ISR with every pending change.
fn every_state(mut visit: impl FnMut(State)) {
    let sets: Vec<BTreeSet<i32>> =
        [&[1][..], &[1, 2], &[1, 3], &[1, 2, 3]].map(|ids| ids.iter().copied().collect()).into();
    let ends = || [None].into_iter().chain((0..4).map(Some));
    for committed in &sets {
        let differs = |set: &&BTreeSet<i32>| {
            let expands_by_one = set.is_superset(committed) && set.len() == committed.len() + 1;
            let shrinks = set.is_subset(committed) && set.len() < committed.len();
            expands_by_one || shrinks
        };
        let pending: Vec<_> =
            [None].into_iter().chain(sets.iter().filter(differs).cloned().map(Some)).collect();
        for proposed in &pending {
            for (gate, wait, min_isr) in modes() {
                for (high_watermark, durable) in pairs(0..4) {
                    for (two, three) in ends().flat_map(|a| ends().map(move |b| (a, b))) {
                        for (joins2, joins3) in pairs(0..2) {
                            visit(State {
                                gate,
                                wait,
                                min_isr,
                                high_watermark,
                                durable,
                                ends: [two, three],
                                joining: [joins2 == 1, joins3 == 1],
                                committed: committed.clone(),
                                proposed: proposed.clone(),
                            });
                        }
                    }
                }
            }
        }
    }
}

fn pairs(range: std::ops::Range<i64>) -> impl Iterator<Item = (i64, i64)> {
    range.clone().flat_map(move |a| range.clone().map(move |b| (a, b)))
}

fn modes() -> impl Iterator<Item = (HwmGate, IsrWait, usize)> {
    let gates = [HwmGate::Kip966, HwmGate::Legacy, HwmGate::MaximalIsr, HwmGate::Soft];
    let waits = [IsrWait::Controller, IsrWait::None];
    gates.into_iter().flat_map(move |gate| {
        waits.into_iter().flat_map(move |wait| (1..4).map(move |min_isr| (gate, wait, min_isr)))
    })
}

#[test]
fn the_decision_equals_the_naive_model_in_every_small_state() {
    let (mut states, mut advances, mut gated) = (0u32, 0u32, 0u32);
    every_state(|state| {
        let decision = decided(&state);
        let moved_to = match decision {
            HighWatermark::Advance(to) => Some(to.0),
            HighWatermark::Hold(_) => None,
        };
        assert_eq!(moved_to, naive(&state), "{decision:?} in {state:?}");
        states += 1;
        advances += u32::from(moved_to.is_some());
        gated += u32::from(matches!(decision, HighWatermark::Hold(Hold::UnderMinIsr { .. })));
    });
    // 13 ISR states x 24 modes x 16 offsets x 25 ends x 4 joining.
    assert_eq!(states, 13 * 24 * 16 * 25 * 4);
    assert!(advances > 0 && gated > 0, "{advances} advances, {gated} gated");
}

/// The maximal ISR can only be stricter, never looser, than what the controller may have committed.
#[test]
fn under_isr_wait_controller_a_pending_change_never_moves_the_high_watermark_further() {
    every_state(|state| {
        if state.wait != IsrWait::Controller || state.gate == HwmGate::MaximalIsr {
            return;
        }
        let without = State { proposed: None, ..state.clone() };
        let (with, without) = (naive(&state), naive(&without));
        assert!(with <= without, "{with:?} > {without:?} in {state:?}");
    });
}

#[test]
fn a_hold_names_its_reason() {
    let state = State {
        gate: HwmGate::Kip966,
        wait: IsrWait::Controller,
        min_isr: 2,
        high_watermark: 0,
        durable: 3,
        ends: [Some(2), None],
        joining: [false; 2],
        committed: [1].into(),
        proposed: None,
    };
    let hold = |state: &State| match decided(state) {
        HighWatermark::Hold(hold) => hold,
        HighWatermark::Advance(to) => panic!("advanced to {to}"),
    };
    assert_eq!(hold(&state), Hold::UnderMinIsr { isr_count: 1, min_isr: 2 });
    let all = State { committed: [1, 2, 3].into(), ..state.clone() };
    assert_eq!(hold(&all), Hold::UnknownEnd(BrokerId(3)));
    let two = State { committed: [1, 2].into(), high_watermark: 2, ..state.clone() };
    assert_eq!(hold(&two), Hold::WaitingFor(Some(BrokerId(2))));
    let own = State { durable: 2, ..two };
    assert_eq!(hold(&own), Hold::WaitingFor(None));
}
