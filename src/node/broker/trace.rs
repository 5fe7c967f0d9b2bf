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

struct Follower {
    id: BrokerId,
    served: MonotonicTime,
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

    /// Records were handed to the socket of follower `id`.
    pub(super) fn served(&mut self, id: BrokerId, at: MonotonicTime) {
        match self.followers.iter_mut().find(|follower| follower.id == id) {
            Some(follower) => follower.served = at,
            None => self.followers.push(Follower { id, served: at }),
        }
    }

    /// Follower `id` acknowledged everything below `offset`. The last follower to acknowledge a
    /// batch before it is committed is the one its stamps describe.
    pub(super) fn acknowledged(
        &mut self,
        id: BrokerId,
        offset: Offset,
        theirs: FollowerStamps,
        received: MonotonicTime,
    ) {
        if theirs.clock != self.clock {
            return;
        }
        let served = self
            .followers
            .iter()
            .find(|follower| follower.id == id)
            .map_or(MonotonicTime::ZERO, |follower| follower.served);
        for batch in self.up_to(offset) {
            let stamps = &mut batch.stamps;
            if stamps.committed == MonotonicTime::ZERO && served >= stamps.appended {
                stamps.follower_served = served;
                stamps.follower_received = theirs.received;
                stamps.follower_appended = theirs.appended;
                stamps.follower_durable = theirs.durable;
                stamps.follower_acknowledged = received;
            }
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
