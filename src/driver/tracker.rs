//! What one partition's consumer still waits for, and when each batch was committed.
//!
//! Owns the match between what was sent, what a fetch answer brought, and the leader's trace of
//! its high watermark. Does not parse bytes and does not know connections.
//!
//! Hot path: no allocation once the queues have grown to the largest backlog.

use std::collections::VecDeque;

use crate::measure::clock;
use crate::measure::dues::Dues;
use crate::types::{ClockId, HighWatermarkStep, MonotonicTime, Offset};

/// Batches a consumer may be behind before the oldest are forgotten (and counted as never
/// consumed): 40 MiB per partition, beside the intended times of records of larger batches.
const SENT_MAX: usize = 1 << 20;

/// A batch that was sent and not yet received back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    first_sequence: u64,
    /// When its records should have been sent.
    pub dues: Dues,
    /// When its first attempt was.
    pub at: MonotonicTime,
}

/// One partition as its consumer sees it.
///
/// Invariant: `steps` has growing high watermarks, all above the end of the last batch received.
#[derive(Debug)]
pub struct Tracker {
    next_offset: Offset,
    acknowledged_end: Offset,
    sent: VecDeque<Sent>,
    steps: VecDeque<HighWatermarkStep>,
    clock: ClockId,
}

/// What is known about a batch when it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What was sent. `None` if it was not waited for: received before, of
    /// another cell, or forgotten.
    pub sent: Option<Sent>,
    /// When the high watermark passed it; `None` if the leader did not tell on this host's clock.
    pub committed: Option<MonotonicTime>,
}

impl Tracker {
    /// A consumer at the start of an empty partition.
    pub fn new() -> Tracker {
        Tracker {
            next_offset: Offset::ZERO,
            acknowledged_end: Offset::ZERO,
            sent: VecDeque::with_capacity(1024),
            steps: VecDeque::with_capacity(1024),
            clock: clock::clock_id(),
        }
    }

    /// The offset to fetch from.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// The batch that begins with `first_sequence` was sent for the first time.
    pub fn sent(&mut self, first_sequence: u64, dues: Dues, at: MonotonicTime) {
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { first_sequence, dues, at });
    }

    /// Records below `end` are acknowledged: the consumer must get them.
    pub fn acknowledged(&mut self, end: Offset) {
        self.acknowledged_end = self.acknowledged_end.max(end);
    }

    /// Whether everything acknowledged was received.
    pub fn has_all_acknowledged(&self) -> bool {
        self.next_offset >= self.acknowledged_end
    }

    /// Whether everything sent was received: what `acks=0` can wait for.
    pub fn has_all_sent(&self) -> bool {
        self.sent.is_empty()
    }

    /// Takes in what a fetch answer told of the high watermark, before its batches. Steps on
    /// another host's clock are useless, steps known already are skipped.
    pub fn trace(&mut self, clock: ClockId, steps: &[HighWatermarkStep]) {
        if clock != self.clock {
            return;
        }
        for step in steps {
            let last = self.steps.back().map_or(self.next_offset, |last| last.high_watermark);
            if step.high_watermark > last {
                self.steps.push_back(*step);
            }
        }
    }

    /// The batch that begins with `first_sequence` and ends before `end` was received. Batches
    /// below the fetched offset, which a fetch may bring along, are `None`.
    pub fn received(&mut self, first_sequence: u64, end: Offset) -> Option<Received> {
        if end <= self.next_offset {
            return None;
        }
        self.next_offset = end;
        while self.steps.front().is_some_and(|step| step.high_watermark < end) {
            self.steps.pop_front();
        }
        let committed = self.steps.front().map(|step| step.at);
        while self.steps.front().is_some_and(|step| step.high_watermark <= end) {
            self.steps.pop_front();
        }
        Some(Received { sent: self.take_sent(first_sequence), committed })
    }

    /// The log was cut below what was fetched: it is read again from its start, and nothing is waited
    /// for that was acknowledged before (Kafka's `auto.offset.reset = earliest`).
    pub fn restart(&mut self) {
        self.next_offset = Offset::ZERO;
        self.acknowledged_end = Offset::ZERO;
        self.steps.clear();
    }

    /// Moves past bytes that are no batch of this cell.
    pub fn skip_to(&mut self, end: Offset) {
        self.next_offset = self.next_offset.max(end);
    }

    /// Resent batches come out of order, so the match need not be the first; those before it may
    /// still come.
    fn take_sent(&mut self, first_sequence: u64) -> Option<Sent> {
        let index = self.sent.iter().position(|sent| sent.first_sequence == first_sequence)?;
        self.sent.remove(index)
    }
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(high_watermark: i64, at: u64) -> HighWatermarkStep {
        HighWatermarkStep { high_watermark: Offset(high_watermark), at: MonotonicTime(at) }
    }

    fn committed(tracker: &mut Tracker, sequence: u64, end: i64) -> Option<u64> {
        tracker.received(sequence, Offset(end)).unwrap().committed.map(|at| at.0)
    }

    #[test]
    fn a_batch_is_committed_by_the_first_step_that_passes_it() {
        let mut tracker = Tracker::new();
        tracker.trace(clock::clock_id(), &[step(3, 10), step(6, 20), step(9, 30)]);
        assert_eq!(committed(&mut tracker, 0, 2), Some(10));
        assert_eq!(committed(&mut tracker, 1, 3), Some(10));
        assert_eq!(committed(&mut tracker, 2, 4), Some(20));
        assert_eq!(committed(&mut tracker, 3, 9), Some(30));
        assert_eq!(committed(&mut tracker, 4, 10), None, "not told");
    }

    #[test]
    fn steps_told_twice_count_once_and_other_clocks_not_at_all() {
        let mut tracker = Tracker::new();
        tracker.trace(clock::clock_id(), &[step(3, 10), step(6, 20)]);
        tracker.trace(clock::clock_id(), &[step(3, 11), step(6, 21), step(9, 30)]);
        tracker.trace(ClockId(clock::clock_id().0 ^ 1), &[step(12, 40)]);
        assert_eq!(committed(&mut tracker, 0, 6), Some(20));
        assert_eq!(committed(&mut tracker, 1, 9), Some(30));
        assert_eq!(committed(&mut tracker, 2, 12), None);
    }

    #[test]
    fn a_batch_counts_once_and_only_if_it_was_sent() {
        let mut tracker = Tracker::new();
        for (sequence, at) in [(0, 1), (3, 2), (6, 3)] {
            let dues = Dues::together(MonotonicTime(at - 1), 3);
            tracker.sent(sequence, dues, MonotonicTime(at));
        }
        let sent = |received: Option<Received>| received.map(|got| got.sent.map(|sent| sent.at));
        assert_eq!(sent(tracker.received(3, Offset(3))), Some(Some(MonotonicTime(2))));
        assert_eq!(sent(tracker.received(3, Offset(3))), None, "below the fetched offset");
        assert_eq!(sent(tracker.received(3, Offset(6))), Some(None), "a duplicate");
        assert_eq!(sent(tracker.received(0, Offset(9))), Some(Some(MonotonicTime(1))));
        assert!(!tracker.has_all_sent());
        assert_eq!(sent(tracker.received(6, Offset(12))), Some(Some(MonotonicTime(3))));
        assert!(tracker.has_all_sent());
    }

    #[test]
    fn the_consumer_is_done_at_the_acknowledged_end() {
        let mut tracker = Tracker::new();
        assert!(tracker.has_all_acknowledged());
        tracker.acknowledged(Offset(4));
        assert!(!tracker.has_all_acknowledged());
        tracker.received(0, Offset(4));
        assert!(tracker.has_all_acknowledged());
        tracker.skip_to(Offset(2));
        assert_eq!(tracker.next_offset(), Offset(4));
        tracker.restart();
        assert_eq!(tracker.next_offset(), Offset(0));
        assert!(tracker.has_all_acknowledged(), "what is lost is not waited for");
    }
}
