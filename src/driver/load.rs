//! Which records a partition has to send, and when a batch of them closes.
//!
//! Owns the load mode and the batching rule (`batch.bytes`, `linger`). Does not know connections,
//! windows or whether a batch could be sent: a batch that closes while the window is full stays
//! closed, takes in what falls due meanwhile up to its size, and its latency runs on.
//!
//! A schedule is known in advance, so a batch's closing time is computed once, when the batch
//! before it left: one timer per batch, whatever the rate. Records are not made before they are
//! sent: a backlog is a position in the schedule, not memory.

use std::time::Duration;

use crate::driver::schedule::{Arrivals, Rate, Schedule, Share};

/// How load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMode {
    /// Records are due by a schedule that waits for nobody; latency runs from the intended time.
    OpenLoop {
        /// Over the whole cell.
        rate: Rate,
        /// How the records are spread over time.
        arrivals: Arrivals,
    },
    /// So many batches of one record each are in flight over the whole cell; the next one is due
    /// when an answer arrives. A slow answer delays the load, so tails are understated
    /// (coordinated omission): reports label it.
    ClosedLoop {
        /// Batches in flight; at least 1. Takes the place of the in-flight limit.
        in_flight: usize,
    },
    /// Full batches as fast as every connection's in-flight limit allows.
    MaxThroughput,
}

impl LoadMode {
    /// The name in workloads and results.
    pub fn name(self) -> &'static str {
        match self {
            LoadMode::OpenLoop { .. } => "open-loop",
            LoadMode::ClosedLoop { .. } => "closed-loop",
            LoadMode::MaxThroughput => "max-throughput",
        }
    }
}

/// When a batch closes: at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// At this many records; at least 1.
    pub records_max: u64,
    /// This long after its oldest record was due.
    pub linger: Duration,
}

/// One record to be put into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The record's number within the cell: `partition + n * partitions`.
    pub sequence: u64,
    /// When it should have been sent, in nanoseconds after the load began.
    pub intended_ns: u64,
}

/// One partition's records. All times are nanoseconds after the load began.
#[derive(Clone, Debug)]
pub struct PartitionLoad {
    share: Share,
    batching: Batching,
    end_ns: u64,
    taken: u64,
    source: Source,
}

#[expect(
    clippy::large_enum_variant,
    reason = "one per partition, and boxing would allocate at every look ahead"
)]
#[derive(Clone, Debug)]
enum Source {
    /// `closes_ns` is the closing time of the batch that begins at `next`; `None` at the end.
    Scheduled { next: Schedule, closes_ns: Option<u64> },
    /// Due whenever there is room for it.
    Immediate,
}

impl PartitionLoad {
    /// The load of `share`, ending `end_ns` after its begin.
    pub fn new(
        mode: LoadMode,
        batching: Batching,
        share: Share,
        seed: u64,
        end_ns: u64,
    ) -> PartitionLoad {
        assert!(batching.records_max > 0, "a batch holds at least one record");
        let source = match mode {
            LoadMode::OpenLoop { rate, arrivals } => Source::Scheduled {
                next: Schedule::new(rate, arrivals, share, seed),
                closes_ns: None,
            },
            LoadMode::ClosedLoop { .. } | LoadMode::MaxThroughput => Source::Immediate,
        };
        let mut load = PartitionLoad { share, batching, end_ns, taken: 0, source };
        load.plan();
        load
    }

    /// When the next batch closes and wants to be sent; `None` once all batches were.
    #[inline]
    pub fn closes_ns(&self, now_ns: u64) -> Option<u64> {
        match &self.source {
            Source::Scheduled { closes_ns, .. } => *closes_ns,
            Source::Immediate => (now_ns < self.end_ns).then_some(now_ns),
        }
    }

    /// Calls `put` with each record of the batch that has closed, oldest first, and moves on to
    /// the next batch. Nothing if none has closed by `now_ns`.
    pub fn take_batch(&mut self, now_ns: u64, mut put: impl FnMut(Due)) {
        if self.closes_ns(now_ns).is_none_or(|closes_ns| closes_ns > now_ns) {
            return;
        }
        for _ in 0..self.batching.records_max {
            let intended_ns = match &mut self.source {
                Source::Immediate => now_ns,
                Source::Scheduled { next, .. } => {
                    let intended_ns = next.next_ns();
                    if intended_ns > now_ns || intended_ns >= self.end_ns {
                        break;
                    }
                    next.advance();
                    intended_ns
                }
            };
            let sequence = u64::from(self.share.partition) + self.taken * u64::from(self.share.of);
            self.taken += 1;
            put(Due { sequence, intended_ns });
        }
        self.plan();
    }

    /// Records that were due from `from_ns` on and never taken. Counts them off: call it last.
    pub fn drain_untaken(&mut self, from_ns: u64) -> u64 {
        let Source::Scheduled { next, closes_ns } = &mut self.source else { return 0 };
        let mut untaken = 0;
        while next.next_ns() < self.end_ns {
            untaken += u64::from(next.next_ns() >= from_ns);
            next.advance();
        }
        *closes_ns = None;
        untaken
    }

    /// Looks up when the batch that begins with the next record closes.
    fn plan(&mut self) {
        let Source::Scheduled { next, closes_ns } = &mut self.source else { return };
        let oldest_ns = next.next_ns();
        if oldest_ns >= self.end_ns {
            *closes_ns = None;
            return;
        }
        let linger_ns = u64::try_from(self.batching.linger.as_nanos()).unwrap_or(u64::MAX);
        let lingered_ns = oldest_ns.saturating_add(linger_ns);
        if linger_ns == 0 || self.batching.records_max == 1 {
            *closes_ns = Some(oldest_ns);
            return;
        }
        let mut ahead = next.clone();
        for _ in 1..self.batching.records_max {
            ahead.advance();
            if ahead.next_ns() >= lingered_ns || ahead.next_ns() >= self.end_ns {
                *closes_ns = Some(lingered_ns);
                return;
            }
        }
        *closes_ns = Some(ahead.next_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Share = Share { partition: 0, of: 1 };
    const MS: u64 = 1_000_000;

    /// 1000 records per second: one each millisecond.
    fn open_loop() -> LoadMode {
        LoadMode::OpenLoop { rate: Rate::per_second(1_000.0).unwrap(), arrivals: Arrivals::Uniform }
    }

    fn load(records_max: u64, linger_ms: u64) -> PartitionLoad {
        let batching = Batching { records_max, linger: Duration::from_millis(linger_ms) };
        PartitionLoad::new(open_loop(), batching, WHOLE, 0, 100 * MS)
    }

    fn take(load: &mut PartitionLoad, now_ns: u64) -> Vec<u64> {
        let mut taken = Vec::new();
        load.take_batch(now_ns, |due| taken.push(due.intended_ns / MS));
        taken
    }

    #[test]
    fn without_linger_a_batch_closes_at_its_first_record() {
        let mut load = load(10, 0);
        assert_eq!(load.closes_ns(0), Some(0));
        assert_eq!(take(&mut load, 0), [0]);
        assert_eq!(load.closes_ns(0), Some(MS));
        assert_eq!(take(&mut load, MS / 2), Vec::<u64>::new(), "not due");
    }

    #[test]
    fn a_batch_closes_when_full_or_after_its_linger() {
        let mut by_size = load(3, 50);
        assert_eq!(by_size.closes_ns(0), Some(2 * MS), "the third record fills it");
        assert_eq!(take(&mut by_size, 2 * MS), [0, 1, 2]);
        let mut by_linger = load(10, 5);
        assert_eq!(by_linger.closes_ns(0), Some(5 * MS));
        assert_eq!(take(&mut by_linger, 5 * MS), [0, 1, 2, 3, 4, 5]);
        assert_eq!(by_linger.closes_ns(0), Some(11 * MS));
    }

    #[test]
    fn a_late_batch_takes_in_what_fell_due_meanwhile_up_to_its_size() {
        let mut load = load(4, 0);
        assert_eq!(take(&mut load, 10 * MS), [0, 1, 2, 3]);
        assert_eq!(take(&mut load, 10 * MS), [4, 5, 6, 7]);
        assert_eq!(take(&mut load, 10 * MS), [8, 9, 10]);
        assert_eq!(load.closes_ns(0), Some(11 * MS));
    }

    #[test]
    fn nothing_is_due_from_the_end_on_and_what_was_not_taken_is_counted() {
        let mut load = load(60, 0);
        assert_eq!(take(&mut load, 1_000 * MS).len(), 60);
        assert_eq!(load.clone().drain_untaken(70 * MS), 30);
        assert_eq!(load.clone().drain_untaken(0), 40);
        assert_eq!(take(&mut load, 1_000 * MS).len(), 40);
        assert_eq!(load.closes_ns(2_000 * MS), None);
        assert_eq!(load.drain_untaken(0), 0);
    }

    #[test]
    fn sequences_are_dealt_like_the_schedule() {
        let batching = Batching { records_max: 3, linger: Duration::ZERO };
        let share = Share { partition: 1, of: 4 };
        let mut load = PartitionLoad::new(LoadMode::MaxThroughput, batching, share, 0, 100 * MS);
        let mut taken = Vec::new();
        load.take_batch(7 * MS, |due| taken.push((due.sequence, due.intended_ns)));
        assert_eq!(taken, [(1, 7 * MS), (5, 7 * MS), (9, 7 * MS)]);
        assert_eq!(load.closes_ns(99 * MS), Some(99 * MS));
        assert_eq!(load.closes_ns(100 * MS), None);
    }
}
