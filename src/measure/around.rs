//! Latencies of what met a stall, and of what did not. Pure.

use super::dues::Dues;
use super::histogram::LatencyHistogram;
use super::isr::{IsrEvent, IsrEventKind, StallReason};
use crate::types::MonotonicTime;

/// When a batch's records were due and when they got where they were going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The intended send times.
    pub dues: Dues,
    /// They got there.
    pub until: MonotonicTime,
}

/// The spans of measured batches, without records that were due before or after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// To the acknowledgement.
    pub acknowledged: Vec<Span>,
    /// To the move of the high watermark past it.
    pub committed: Vec<Span>,
}

/// One latency, split.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// Of records on their way while the high watermark of a partition stood still.
    pub met: LatencyHistogram,
    /// Of all others.
    pub outside: LatencyHistogram,
}

impl Split {
    /// Splits `spans` by whether they overlap one of `stalls`, in nanoseconds, sorted and apart as
    /// [`stalls`] gives them.
    pub fn of(spans: &[Span], stalls: &[(u64, u64)]) -> Split {
        let mut split = Split::default();
        for span in spans {
            let meets = |from: MonotonicTime| {
                let next = stalls.partition_point(|(_, until_ns)| *until_ns < from.0);
                stalls.get(next).is_some_and(|(since_ns, _)| *since_ns <= span.until.0)
            };
            let dues = span.dues.iter();
            split.met.record_batch(dues.clone().filter(|(from, _)| meets(*from)), span.until);
            split.outside.record_batch(dues.filter(|(from, _)| !meets(*from)), span.until);
        }
        split
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Split) {
        self.met.merge(&other.met);
        self.outside.merge(&other.outside);
    }
}

/// When the high watermark of any partition stood still because of its ISR: sorted, those that
/// overlap as one. A new leader's first commit is not the ISR's doing.
pub fn stalls<'a>(events: impl IntoIterator<Item = &'a IsrEvent>) -> Vec<(u64, u64)> {
    let stall = |event: &IsrEvent| match event.kind {
        IsrEventKind::Stall { reason, since_ns, until_ns, .. } => {
            (reason != StallReason::NewLeader).then_some((since_ns, until_ns))
        }
        _ => None,
    };
    let mut found: Vec<(u64, u64)> = events.into_iter().filter_map(stall).collect();
    found.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(found.len());
    for (since_ns, until_ns) in found {
        match apart.last_mut() {
            Some((_, end_ns)) if since_ns <= *end_ns => *end_ns = until_ns.max(*end_ns),
            _ => apart.push((since_ns, until_ns)),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall(reason: StallReason, since_ns: u64, until_ns: u64) -> IsrEvent {
        IsrEvent {
            topic: "t".to_owned(),
            partition: 0,
            broker: 1,
            leader_epoch: 1,
            lost_before: 0,
            kind: IsrEventKind::Stall { reason, since_ns, until_ns, records: 1, held_record_ns: 1 },
        }
    }

    #[test]
    fn stalls_that_overlap_are_one_and_a_new_leaders_is_none() {
        let events = [
            stall(StallReason::UnderMinIsr, 500, 600),
            stall(StallReason::LaggingMember, 100, 200),
            stall(StallReason::UnderMinIsr, 150, 160),
            stall(StallReason::UnderMinIsr, 200, 300),
            stall(StallReason::NewLeader, 0, 1_000),
        ];
        assert_eq!(stalls(&events), [(100, 300), (500, 600)]);
    }

    #[test]
    fn a_batch_that_touches_a_stall_met_it() {
        let stalls = [(100, 200), (500, 600)];
        let cases = [
            ((10, 99), false),
            ((10, 100), true),
            ((120, 130), true),
            ((200, 300), true),
            ((201, 499), false),
            ((201, 900), true),
            ((601, 700), false),
        ];
        for ((from, until), meets) in cases {
            let dues = Dues::together(MonotonicTime(from), 3);
            let span = Span { dues, until: MonotonicTime(until) };
            let split = Split::of(&[span], &stalls);
            let counts = (split.met.count(), split.outside.count());
            assert_eq!(counts, (3 * u64::from(meets), 3 * u64::from(!meets)), "{from} to {until}");
        }
        assert_eq!(Split::of(&[], &stalls).met.count(), 0);
    }

    #[test]
    fn a_records_own_due_time_decides_whether_it_met_the_stall() {
        let dues = Dues::of(&[90, 150, 201, 202].map(MonotonicTime)).unwrap();
        let split = Split::of(&[Span { dues, until: MonotonicTime(300) }], &[(100, 200)]);
        assert_eq!((split.met.count(), split.outside.count()), (2, 2));
    }
}
