//! One partition under recovery: which logs have been seen, and which replica they speak for.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::protocol::controller::ReplicaLog;
use crate::protocol::metadata::{ClusterMetadata, PartitionRegistration};
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, UncleanRecovery};

/// How long a proactive recovery collects answers before it takes what it has.
pub(super) const PROACTIVE_WINDOW: Duration = Duration::from_secs(5);

/// What a recovery waits for; the greater is the more eager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::protocol::controller) enum Mode {
    /// The log of every replica that may hold acknowledged records.
    Balanced,
    /// Answers within [`PROACTIVE_WINDOW`], or the first one after it.
    Proactive,
}

/// One partition under recovery. Invariant: every log in `seen` was reported under `leader_epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Task {
    /// What the strategy in force waits for; `None` if it would not recover the partition.
    pub(super) by_strategy: Option<Mode>,
    /// What an operator asked for.
    pub(super) by_request: Option<Mode>,
    /// Leader epoch of the leaderless partition; logs reported under another one do not count.
    pub(super) leader_epoch: LeaderEpoch,
    /// End of the window of a proactive recovery.
    pub(super) window_end: MonotonicTime,
    seen: BTreeMap<BrokerId, Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    broker_epoch: BrokerEpoch,
    log: ReplicaLog,
}

/// What the strategy does about a partition: nothing, or a recovery.
pub(super) fn by_strategy(
    partition: &PartitionRegistration,
    strategy: UncleanRecovery,
) -> Option<Mode> {
    let clean_candidates_left = !partition.isr.is_empty() || !partition.elr.is_empty();
    match strategy {
        _ if partition.leader.is_some() => None,
        UncleanRecovery::Manual => None,
        UncleanRecovery::Balanced if clean_candidates_left => None,
        UncleanRecovery::Balanced => Some(Mode::Balanced),
        UncleanRecovery::Proactive => Some(Mode::Proactive),
    }
}

impl Task {
    pub(super) fn new(now: MonotonicTime, leader_epoch: LeaderEpoch) -> Task {
        Task {
            by_strategy: None,
            by_request: None,
            leader_epoch,
            window_end: now.plus(PROACTIVE_WINDOW),
            seen: BTreeMap::new(),
        }
    }

    /// What it waits for; `None` if nobody wants the recovery any more.
    pub(super) fn mode(&self) -> Option<Mode> {
        self.by_strategy.max(self.by_request)
    }

    /// Forgets all logs: the partition changed under them.
    pub(super) fn start_over(&mut self, leader_epoch: LeaderEpoch) {
        self.leader_epoch = leader_epoch;
        self.seen.clear();
    }

    /// A broker's log, reported in this life of it.
    pub(super) fn see(&mut self, broker: BrokerId, broker_epoch: BrokerEpoch, log: ReplicaLog) {
        self.seen.insert(broker, Seen { broker_epoch, log });
    }

    /// Whether the broker's log is known as of its present life.
    pub(super) fn knows(&self, broker: BrokerId, metadata: &ClusterMetadata) -> bool {
        let epoch = metadata.broker(broker).map(|registration| registration.epoch);
        self.seen.get(&broker).is_some_and(|seen| Some(seen.broker_epoch) == epoch)
    }

    /// The new leader, once what the mode waits for is there.
    pub(super) fn winner(
        &self,
        partition: &PartitionRegistration,
        metadata: &ClusterMetadata,
        now: MonotonicTime,
    ) -> Option<BrokerId> {
        match self.mode()? {
            Mode::Balanced => self.balanced_winner(partition, metadata),
            Mode::Proactive => self.proactive_winner(partition, metadata, now),
        }
    }

    /// The best log must lead: if its broker is still fenced, it is waited for.
    fn balanced_winner(
        &self,
        partition: &PartitionRegistration,
        metadata: &ClusterMetadata,
    ) -> Option<BrokerId> {
        let mut needed: Vec<BrokerId> =
            partition.elr.iter().chain(&partition.last_known_elr).copied().collect();
        if needed.is_empty() {
            needed.clone_from(&partition.replicas);
        }
        if !needed.iter().all(|&broker| self.knows(broker, metadata)) {
            return None;
        }
        let counts = |broker| needed.contains(&broker) || metadata.is_active(broker);
        self.best(partition, metadata, counts).filter(|&best| metadata.is_active(best))
    }

    fn proactive_winner(
        &self,
        partition: &PartitionRegistration,
        metadata: &ClusterMetadata,
        now: MonotonicTime,
    ) -> Option<BrokerId> {
        let best_active = self.best(partition, metadata, |broker| metadata.is_active(broker));
        if now >= self.window_end {
            return best_active;
        }
        // With every log known the window has nothing to wait for but a better one's unfencing.
        let all_known = partition.replicas.iter().all(|&broker| self.knows(broker, metadata));
        best_active.filter(|_| all_known && best_active == self.best(partition, metadata, |_| true))
    }

    /// Highest leader epoch, then longest log, then first in assignment order.
    fn best(
        &self,
        partition: &PartitionRegistration,
        metadata: &ClusterMetadata,
        counts: impl Fn(BrokerId) -> bool,
    ) -> Option<BrokerId> {
        let candidates = partition.replicas.iter().copied().enumerate();
        let known =
            candidates.filter(|&(_, broker)| counts(broker) && self.knows(broker, metadata));
        let rank = |&(position, broker): &(usize, BrokerId)| {
            let log = self.seen.get(&broker).map(|seen| seen.log);
            let written = log.map(|log| (log.last_written_leader_epoch, log.log_end_offset));
            (written, Reverse(position))
        };
        known.max_by_key(rank).map(|(_, broker)| broker)
    }
}
