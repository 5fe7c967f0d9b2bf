//! The interval that begins with a fault.

use crate::measure::isr::IsrOutcome;

use super::*;

const FROM_NS: u64 = 1_000_000;

fn fault(kind: &str, at_us: u64, until_us: Option<u64>) -> schema::Event {
    schema::Event { at_us, kind: kind.to_owned(), what: kind.to_owned(), until_us }
}

fn told(partition: i32, kind: IsrEventKind) -> IsrEvent {
    let topic = "t".to_owned();
    IsrEvent { topic, partition, broker: 1, leader_epoch: 1, lost_before: 0, kind }
}

/// Under min ISR from `at_us` of the measured part on.
fn under(at_us: u64) -> IsrEvent {
    told(0, IsrEventKind::UnderMinIsr { since_ns: FROM_NS + 1_000 * at_us, until_ns: None })
}

/// A change that was proposed at the first instant and committed at the second.
fn change(partition: i32, change: IsrChange, (submitted_us, settled_us): (u64, u64)) -> IsrEvent {
    let instant = |at_us: u64| FROM_NS + 1_000 * at_us;
    let kind = IsrEventKind::Change {
        change,
        members: vec![2],
        isr_before: 2,
        isr_after: 1,
        min_isr: 2,
        detected_ns: None,
        submitted_ns: instant(submitted_us),
        sent_ns: None,
        settled_ns: Some(instant(settled_us)),
        outcome: IsrOutcome::Committed,
        high_watermark_moved_ns: None,
    };
    told(partition, kind)
}

/// In words, the faults, the brokers' events, and how long after its fault each fencing was heard of.
type Case = (&'static str, Vec<schema::Event>, Vec<IsrEvent>, &'static [u64]);

#[test]
fn fencing_is_what_a_lasting_fault_made_of_the_isr_and_no_leader_proposed() {
    let heartbeats = || fault("cut-heartbeats", 100, Some(900));
    let (shrink, expand) = (IsrChange::Shrink, IsrChange::Expand);
    let cases: [Case; 10] = [
        ("fenced", vec![heartbeats()], vec![under(400)], &[300_000]),
        ("each time", vec![heartbeats()], vec![under(400), under(500)], &[300_000, 400_000]),
        ("before the fault", vec![heartbeats()], vec![under(99)], &[]),
        ("after it", vec![heartbeats()], vec![under(901)], &[]),
        ("a fault without an end", vec![fault("kill", 0, None)], vec![under(901)], &[901_000]),
        ("no such fault", vec![fault("delay", 0, None)], vec![under(901)], &[]),
        (
            "the latest of two",
            vec![heartbeats(), fault("kill", 300, None)],
            vec![under(400)],
            &[100_000],
        ),
        ("proposed", vec![heartbeats()], vec![under(400), change(0, shrink, (350, 400))], &[]),
        (
            "another partition's proposal",
            vec![heartbeats()],
            vec![under(400), change(1, shrink, (350, 400))],
            &[300_000],
        ),
        (
            "an expansion",
            vec![heartbeats()],
            vec![under(400), change(0, expand, (350, 400))],
            &[300_000],
        ),
    ];
    for (what, faults, events, expected) in cases {
        assert_eq!(fenced(FROM_NS, &faults, &events), expected, "{what}");
    }
}
