//! Which failed batches are sent again, and in which order.

use super::*;
use crate::record;

#[test]
fn what_surely_was_not_appended_is_sent_again_and_nothing_else() {
    let mut fake = Fake::new(1);
    let mut refusals = vec![ErrorCode::NotEnoughReplicas; 100];
    refusals.push(ErrorCode::NotLeaderOrFollower);
    fake.refuse = refusals.into();
    let spec = CellSpec { retry: Retry::IfRefused, partitions: 1, ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    let verification = read_back(&mut fake, &spec, &outcome);
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!(verification.duplicate_after_resend, 0);
    assert_eq!(verification.acknowledged, 1_499, "all but the one whose outcome is unknown");
}

#[test]
fn nothing_new_overtakes_what_is_sent_again() {
    let mut fake = Fake::new(1);
    fake.refuse = [ErrorCode::NotEnoughReplicas; 40].into();
    let spec = CellSpec { retry: Retry::IfRefused, partitions: 1, in_flight_max: 1, ..spec() };
    let outcome = run(&mut fake, &spec).unwrap();
    assert_eq!(outcome.counts.records_acknowledged, 1_000);
    let sequences = fake.logs[0].batches.iter().map(|batch| {
        let first = record::records(batch).unwrap().next().unwrap().unwrap();
        super::super::payload::parse_header(first.value.unwrap()).unwrap().sequence
    });
    assert!(sequences.is_sorted(), "the log is in the schedule's order");
}

#[test]
fn a_partition_without_a_leader_waits_for_one_instead_of_failing_records() {
    let (mut fake, spec) = outage(Retry::IfRefused);
    let outcome = run(&mut fake, &spec).unwrap();
    let counts = outcome.counts;
    assert_eq!(counts.records_unsent + counts.records_unanswered, 0, "{counts:?}");
    assert!(counts.records_failed <= 5 + 10, "the window, and one per look around: {counts:?}");
    assert_eq!(counts.records_acknowledged + counts.records_failed, 3_000);
    let verification = read_back(&mut fake, &spec, &outcome);
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!(verification.duplicate_after_resend, 0);
}
