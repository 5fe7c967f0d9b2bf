//! From a workload's faults to steps in time. Pure: no clock, no process, no unseeded chance.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use std::collections::VecDeque;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::workload::Fault;

/// One thing to do to a cluster. Times are since the measured part began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// Which of the workload's faults.
    pub fault: usize,
    /// Which of its injections, from 0.
    pub occurrence: u64,
    /// What to do with it.
    pub act: Act,
}

/// What a [`Step`] does with its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It begins.
    Inject,
    /// It is over.
    Recover,
}

/// All steps of `faults` in a measured part of `length`, in order of time. Every injection has its
/// recovery, at `length` at the latest, so that the load's last answers can arrive and every
/// replica can be read back.
pub fn steps(faults: &[Fault], length: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    for (fault, planned) in faults.iter().enumerate() {
        let mut at = planned.at;
        for occurrence in 0.. {
            if at >= length {
                break;
            }
            let over = planned.lasts.map_or(length, |lasts| (at + lasts).min(length));
            steps.push(Step { at, fault, occurrence, act: Act::Inject });
            steps.push(Step { at: over, fault, occurrence, act: Act::Recover });
            match planned.every {
                Some(every) => at += every,
                None => break,
            }
        }
    }
    in_order(&mut steps);
    steps
}

/// When an injection of `fault` is planned.
pub fn planned_at(fault: &Fault, occurrence: u64) -> Duration {
    let periods = u32::try_from(occurrence).unwrap_or(u32::MAX);
    fault.every.map_or(fault.at, |every| fault.at + every * periods)
}

/// `injection`, of `fault`, comes at `now` and not when it was planned: of `steps`, its recovery moves
/// with it, so that the fault lasts as long as planned; in a measured part of `length`.
pub fn delay_recovery(
    steps: &mut VecDeque<Step>,
    fault: &Fault,
    injection: &Step,
    now: Duration,
    length: Duration,
) {
    let Some(lasts) = fault.lasts else { return };
    let is_its = |step: &&mut Step| {
        (step.act, step.fault, step.occurrence)
            == (Act::Recover, injection.fault, injection.occurrence)
    };
    if let Some(recovery) = steps.iter_mut().find(is_its) {
        recovery.at = (now + lasts).min(length);
        in_order(steps.make_contiguous());
    }
}

/// What is over makes room for what begins at the same time.
fn in_order(steps: &mut [Step]) {
    steps.sort_by_key(|step| (step.at, step.act == Act::Inject));
}

/// `injection` cannot be made yet: it comes again at `at`, which is before the load ends.
pub fn again(steps: &mut VecDeque<Step>, injection: Step, at: Duration) {
    steps.push_back(Step { at, ..injection });
    in_order(steps.make_contiguous());
}

/// One of `candidates`, by the seed and the injection alone; `None` if there is none.
pub fn pick<T: Copy>(candidates: &[T], seed: u64, step: &Step) -> Option<T> {
    if candidates.is_empty() {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(step.fault as u64);
    random.set_word_pos(u128::from(step.occurrence) * 16);
    Some(candidates[random.random_range(0..candidates.len())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::workload::{FaultKind, Role, Target};

    const S: Duration = Duration::from_secs(1);

    fn fault(at: u32, every: Option<u32>, lasts: Option<u32>) -> Fault {
        Fault {
            kind: FaultKind::Kill,
            target: Target::Node(Role::Leader),
            at: at * S,
            every: every.map(|every| every * S),
            lasts: lasts.map(|lasts| lasts * S),
        }
    }

    fn planned(faults: &[Fault]) -> Vec<(u64, usize, Act)> {
        steps(faults, 10 * S).iter().map(|s| (s.at.as_secs(), s.fault, s.act)).collect()
    }

    #[test]
    fn a_fault_without_a_length_ends_with_the_load() {
        assert_eq!(planned(&[fault(3, None, None)]), [(3, 0, Act::Inject), (10, 0, Act::Recover)]);
    }

    #[test]
    fn a_repeated_fault_comes_again_until_the_load_is_over() {
        use Act::{Inject, Recover};
        let expected =
            [(1, 0, Inject), (3, 0, Recover), (5, 0, Inject), (7, 0, Recover), (9, 0, Inject)];
        let planned = planned(&[fault(1, Some(4), Some(2))]);
        assert_eq!(planned[..5], expected);
        assert_eq!(planned[5..], [(10, 0, Recover)], "cut off at the end");
    }

    #[test]
    fn what_is_over_goes_before_what_begins() {
        use Act::{Inject, Recover};
        let planned = planned(&[fault(4, None, Some(1)), fault(2, None, Some(2))]);
        assert_eq!(planned, [(2, 1, Inject), (4, 1, Recover), (4, 0, Inject), (5, 0, Recover)]);
    }

    #[test]
    fn a_late_fault_lasts_as_long_as_planned_but_not_longer_than_the_load() {
        use Act::{Inject, Recover};
        let faults = [fault(1, Some(5), Some(2)), fault(4, None, None)];
        let mut left: VecDeque<Step> = steps(&faults, 10 * S).into();
        let first = left.pop_front().expect("the first injection");
        delay_recovery(&mut left, &faults[0], &first, 4 * S, 10 * S);
        let times: Vec<_> = left.iter().map(|s| (s.at.as_secs(), s.fault, s.act)).collect();
        let expected =
            [(4, 1, Inject), (6, 0, Recover), (6, 0, Inject), (8, 0, Recover), (10, 1, Recover)];
        assert_eq!(times, expected, "its own recovery moved, from 3, and no other");
        delay_recovery(&mut left, &faults[0], &first, 9 * S, 10 * S);
        assert_eq!(left.iter().map(|s| s.at.as_secs()).collect::<Vec<_>>(), [4, 6, 8, 10, 10]);
        again(&mut left, first, 7 * S);
        assert_eq!((left[2].at, left[2].act), (7 * S, Inject));
        assert_eq!((planned_at(&faults[0], 1), planned_at(&faults[1], 0)), (6 * S, 4 * S));
    }

    #[test]
    fn picks_follow_from_the_seed_and_reach_everybody() {
        let step = |occurrence| Step { at: S, fault: 1, occurrence, act: Act::Inject };
        let picks = |seed| -> Vec<u32> {
            (0..40).filter_map(|occurrence| pick(&[1, 2, 3], seed, &step(occurrence))).collect()
        };
        assert_eq!(picks(7), picks(7));
        assert_ne!(picks(7), picks(8));
        assert!([1, 2, 3].iter().all(|broker| picks(7).contains(broker)));
        assert_eq!(pick::<u32>(&[], 7, &step(0)), None);
    }
}
