//! Stage instants of the batches on their way: what a produce answer reports about its batch, and
//! the steps of the high watermark that a consumer may ask for.
//!
//! Kept only for requests that ask for stamps; holds no rule, decides nothing.

use std::collections::VecDeque;

use crate::protocol::partition::RequestId;
use crate::types::{
    BrokerId, BrokerStamps, ClockId, FollowerStamps, HighWatermarkStep, MonotonicTime, Offset,
};

/// High-watermark steps remembered per partition; a consumer that asks later misses older ones.
const STEPS_MAX: usize = 4096;

struct Batch {
    request: RequestId,
    end_offset: Offset,
    stamps: BrokerStamps,
}

/// Fetch answers with records remembered per follower: more are in flight only towards a follower
/// that does not acknowledge.
const SERVED_MAX: usize = 256;

struct Follower {
    id: BrokerId,
    /// Exclusive end and time of the answers not acknowledged yet, in order of both.
    served: VecDeque<(Offset, MonotonicTime)>,
    /// What it has acknowledged.
    acknowledged: Offset,
}

/// A follower's own instants of what it has appended, until it tells them to its leader.
#[derive(Default)]
pub(super) struct FollowerTrace {
    /// By log end after the append.
    appended: VecDeque<(Offset, FollowerStamps)>,
    /// Of the newest durable batches, not told yet.
    durable: Option<FollowerStamps>,
}

impl FollowerTrace {
    /// Batches up to `end` are in the log's memory.
    pub(super) fn appended(&mut self, end: Offset, stamps: FollowerStamps) {
        if self.appended.len() == SERVED_MAX {
            self.appended.pop_front();
        }
        self.appended.push_back((end, stamps));
    }

    /// The log is durable up to `offset`.
    pub(super) fn durable(&mut self, offset: Offset, at: MonotonicTime) {
        while self.appended.front().is_some_and(|&(end, _)| end <= offset) {
            let told = self.appended.pop_front();
            self.durable = told.map(|(_, stamps)| FollowerStamps { durable: at, ..stamps });
        }
    }

    /// What the acknowledgement that leaves now may say.
    pub(super) fn take(&mut self) -> Option<FollowerStamps> {
        self.durable.take()
    }

    /// The log was cut, or another role begins.
    pub(super) fn clear(&mut self) {
        *self = FollowerTrace::default();
    }
}

/// The instants of one partition.
pub(super) struct Trace {
    clock: ClockId,
    batches: VecDeque<Batch>,
    followers: Vec<Follower>,
    steps: VecDeque<HighWatermarkStep>,
}

impl Trace {
    pub(super) fn new(clock: ClockId) -> Trace {
        Trace { clock, batches: VecDeque::new(), followers: Vec::new(), steps: VecDeque::new() }
    }

    /// A traced batch is in the log's memory.
    pub(super) fn appended(
        &mut self,
        request: RequestId,
        end_offset: Offset,
        received: MonotonicTime,
        append_started: MonotonicTime,
        appended: MonotonicTime,
    ) {
        let stamps = BrokerStamps {
            clock: self.clock,
            received,
            append_started,
            appended,
            durable: MonotonicTime::ZERO,
            follower_served: MonotonicTime::ZERO,
            follower_received: MonotonicTime::ZERO,
            follower_appended: MonotonicTime::ZERO,
            follower_durable: MonotonicTime::ZERO,
            follower_acknowledged: MonotonicTime::ZERO,
            committed: MonotonicTime::ZERO,
            answered: MonotonicTime::ZERO,
        };
        self.batches.push_back(Batch { request, end_offset, stamps });
    }

    /// The leader's log is durable up to `offset`.
    pub(super) fn durable(&mut self, offset: Offset, at: MonotonicTime) {
        for batch in self.up_to(offset) {
            if batch.stamps.durable == MonotonicTime::ZERO {
                batch.stamps.durable = at;
            }
        }
    }

    /// Records up to `until` were handed to the socket of follower `id`.
    pub(super) fn served(&mut self, id: BrokerId, until: Offset, at: MonotonicTime) {
        let known = self.followers.iter().position(|follower| follower.id == id);
        let index = known.unwrap_or_else(|| {
            self.followers.push(Follower {
                id,
                served: VecDeque::new(),
                acknowledged: Offset::ZERO,
            });
            self.followers.len() - 1
        });
        let served = &mut self.followers[index].served;
        // What is served again after a cut counts from now.
        while served.back().is_some_and(|&(end, _)| end >= until) {
            served.pop_back();
        }
        if served.len() == SERVED_MAX {
            served.pop_front();
        }
        served.push_back((until, at));
    }

    /// Follower `id` acknowledged everything below `offset`. The last follower to acknowledge a
    /// batch, each for the first time, before it is committed is the one its stamps describe.
    pub(super) fn acknowledged(
        &mut self,
        id: BrokerId,
        offset: Offset,
        theirs: FollowerStamps,
        received: MonotonicTime,
    ) {
        let Some(follower) = self.followers.iter_mut().find(|follower| follower.id == id) else {
            return;
        };
        if theirs.clock == self.clock {
            let before = follower.acknowledged;
            let acknowledged = self.batches.iter_mut().take_while(|b| b.end_offset <= offset);
            let newly = acknowledged.skip_while(|batch| batch.end_offset <= before);
            for Batch { end_offset, stamps, .. } in newly {
                let answer = follower.served.partition_point(|&(until, _)| until < *end_offset);
                if let Some(&(_, served)) = follower.served.get(answer)
                    && stamps.committed == MonotonicTime::ZERO
                    && served >= stamps.appended
                {
                    stamps.follower_served = served;
                    stamps.follower_received = theirs.received;
                    stamps.follower_appended = theirs.appended;
                    stamps.follower_durable = theirs.durable;
                    stamps.follower_acknowledged = received;
                }
            }
        }
        follower.acknowledged = offset;
        while follower.served.front().is_some_and(|&(until, _)| until <= offset) {
            follower.served.pop_front();
        }
    }

    /// The high watermark moved.
    pub(super) fn committed(&mut self, high_watermark: Offset, at: MonotonicTime) {
        if self.steps.len() == STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(HighWatermarkStep { high_watermark, at });
        for batch in self.up_to(high_watermark) {
            if batch.stamps.committed == MonotonicTime::ZERO {
                batch.stamps.committed = at;
            }
        }
    }

    /// The stamps of an answered request, which is then forgotten.
    pub(super) fn take(&mut self, request: RequestId) -> Option<BrokerStamps> {
        let index = self.batches.iter().position(|batch| batch.request == request)?;
        self.batches.remove(index).map(|batch| batch.stamps)
    }

    /// The remembered steps that passed offsets in `(after, until]`.
    pub(super) fn steps(&self, after: Offset, until: Offset) -> Vec<HighWatermarkStep> {
        let first = self.steps.partition_point(|step| step.high_watermark <= after);
        self.steps.range(first..).take_while(|step| step.high_watermark <= until).copied().collect()
    }

    /// Leadership ended: nothing in flight will be answered with stamps.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.followers.clear();
        self.steps.clear();
    }

    fn up_to(&mut self, offset: Offset) -> impl Iterator<Item = &mut Batch> {
        self.batches.iter_mut().take_while(move |batch| batch.end_offset <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: ClockId = ClockId(7);
    const FOLLOWER: BrokerId = BrokerId(2);

    fn theirs(received: u64) -> FollowerStamps {
        let [received, appended, durable] = [received, received + 1, 0].map(MonotonicTime);
        FollowerStamps { clock: CLOCK, received, appended, durable }
    }

    /// The instants at the leader: served, acknowledged.
    fn leaders(trace: &mut Trace, request: u64) -> (u64, u64) {
        let stamps = trace.take(RequestId(request)).expect("it was appended");
        (stamps.follower_served.0, stamps.follower_acknowledged.0)
    }

    /// With the next answer on its way before the last one is acknowledged.
    #[test]
    fn a_batch_is_traced_to_the_answer_that_carried_it() {
        let mut trace = Trace::new(CLOCK);
        for (request, end, at) in [(1, 5, 10), (2, 9, 20), (3, 12, 30)] {
            let at = MonotonicTime(at);
            trace.appended(RequestId(request), Offset(end), at, at, at);
        }
        trace.served(FOLLOWER, Offset(5), MonotonicTime(11));
        trace.served(FOLLOWER, Offset(12), MonotonicTime(31));
        trace.acknowledged(FOLLOWER, Offset(5), theirs(12), MonotonicTime(40));
        trace.acknowledged(FOLLOWER, Offset(9), theirs(32), MonotonicTime(50));
        assert_eq!(leaders(&mut trace, 1), (11, 40));
        assert_eq!(leaders(&mut trace, 2), (31, 50));
        assert_eq!(leaders(&mut trace, 3), (0, 0));
    }

    #[test]
    fn a_follower_tells_of_what_is_durable_once() {
        let mut trace = FollowerTrace::default();
        trace.appended(Offset(5), theirs(1));
        trace.appended(Offset(9), theirs(2));
        trace.durable(Offset(4), MonotonicTime(30));
        assert_eq!(trace.take(), None, "not the whole append");
        trace.durable(Offset(8), MonotonicTime(40));
        let told = |received, durable| FollowerStamps { durable, ..theirs(received) };
        assert_eq!(trace.take(), Some(told(1, MonotonicTime(40))));
        assert_eq!(trace.take(), None);
        trace.durable(Offset(9), MonotonicTime(50));
        assert_eq!(trace.take(), Some(told(2, MonotonicTime(50))));
    }
}
