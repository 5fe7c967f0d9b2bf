use super::*;

fn event(kind: IsrEventKind) -> IsrEvent {
    IsrEvent {
        topic: "t".to_owned(),
        partition: 3,
        broker: 1,
        leader_epoch: 5,
        lost_before: 0,
        kind,
    }
}

fn change(change: IsrChange, outcome: IsrOutcome, (before, after): (usize, usize)) -> IsrEvent {
    event(IsrEventKind::Change {
        change,
        members: vec![2],
        isr_before: before,
        isr_after: after,
        min_isr: 2,
        detected_ns: Some(100),
        submitted_ns: 110,
        sent_ns: Some(130),
        settled_ns: Some(170),
        outcome,
        high_watermark_moved_ns: Some(180),
    })
}

fn named(event: &IsrEvent) -> Vec<(&'static str, u64)> {
    event.intervals().into_iter().map(|(interval, ns)| (interval.name(), ns)).collect()
}

#[test]
fn an_expansion_is_detected_queued_and_committed() {
    let committed = IsrOutcome::Committed;
    let steps = [("alter_queue", 20), ("alter_commit", 40), ("expand_detect", 10)];
    let waits = [("expand_wait", 70), ("expand_stall", 80)];
    let reaches_min = change(IsrChange::Expand, committed, (1, 2));
    assert_eq!(named(&reaches_min), [&steps[..], &waits[..]].concat());
    for already in [(2, 3), (0, 1)] {
        let expanded = change(IsrChange::Expand, committed, already);
        assert_eq!(named(&expanded), [&steps[..], &waits[..1]].concat(), "{already:?}");
    }
    for outcome in [IsrOutcome::Dropped, IsrOutcome::Open] {
        assert_eq!(named(&change(IsrChange::Expand, outcome, (1, 2))), []);
    }
}

#[test]
fn a_shrink_is_detected_from_when_its_member_was_last_caught_up() {
    let shrunk = change(IsrChange::Shrink, IsrOutcome::Committed, (3, 2));
    let steps = [("alter_queue", 20), ("alter_commit", 40), ("shrink_detect", 10)];
    assert_eq!(named(&shrunk), steps);
}

#[test]
fn what_did_not_happen_or_went_backwards_is_no_interval() {
    let led = event(IsrEventKind::Led {
        known_ns: 100,
        first_append_ns: Some(90),
        first_commit_ns: Some(130),
    });
    assert_eq!(named(&led), [("leader_first_commit", 30)]);
    let open = event(IsrEventKind::UnderMinIsr { since_ns: 5, until_ns: None });
    assert_eq!(named(&open), []);
}

#[test]
fn a_flap_is_a_member_that_left_after_it_had_joined() {
    let committed = IsrOutcome::Committed;
    let (join, leave) = (
        change(IsrChange::Expand, committed, (1, 2)),
        change(IsrChange::Shrink, committed, (2, 1)),
    );
    let dropped = change(IsrChange::Expand, IsrOutcome::Dropped, (1, 2));
    // A member leaves that was there from the start, then joins and leaves, twice.
    let events = [&leave, &join, &leave, &dropped, &join, &leave, &leave];
    let totals = IsrTotals::of(events);
    let expected = PartitionChanges { expands: 2, shrinks: 4, dropped: 1, flaps: 2 };
    assert_eq!(totals.partitions[&3], expected);
    assert_eq!(totals.intervals[&IsrInterval::ExpandWait].count(), 2);
}

#[test]
fn stalls_are_weighed_by_their_records() {
    let stall = |records, held_record_ns| {
        event(IsrEventKind::Stall {
            reason: StallReason::UnderMinIsr,
            since_ns: 10,
            until_ns: 30,
            records,
            held_record_ns,
        })
    };
    let lost = IsrEvent { lost_before: 4, ..stall(2, 40) };
    let totals = IsrTotals::of([&stall(5, 60), &lost]);
    let expected = StallTotal { count: 2, records: 7, held_record_ns: 100 };
    assert_eq!(totals.stalls[&StallReason::UnderMinIsr], expected);
    assert_eq!(totals.intervals[&IsrInterval::GateStall].count(), 2);
    assert_eq!(totals.lost, 4);
}

#[test]
fn an_event_is_one_line_and_reads_back() {
    let event = change(IsrChange::Expand, IsrOutcome::Committed, (1, 2));
    let line = serde_json::to_string(&event).expect("plain values");
    assert!(line.starts_with(r#"{"topic":"t","partition":3,"broker":1,"leader_epoch":5,"event":"#));
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<IsrEvent>(&line).expect("what was written"), event);
}
