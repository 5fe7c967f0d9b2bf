//! What a replica is and holds whatever its role.

use std::hash::{Hash, Hasher};

use super::log_state::LogState;
use super::message::{PartitionMetadata, Peer, Settings};
use crate::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Offset, PartitionEpoch, ServeFollowers,
};

/// What a replica is and holds whatever its role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Local {
    /// This broker.
    pub(super) id: BrokerId,
    /// This life of it.
    pub(super) epoch: BrokerEpoch,
    /// Current settings.
    pub(super) settings: Settings,
    /// All brokers, as metadata last described them.
    pub(super) peers: Vec<Peer>,
    /// The log's ends.
    pub(super) log: LogState,
    /// Fates of own ISR proposals.
    pub(super) counters: IsrCounters,
}

impl Local {
    /// As a leader: exclusive end of what followers get.
    pub(super) fn served_end(&self) -> Offset {
        match self.settings.serve_followers {
            ServeFollowers::BeforeSync => self.log.log_end_offset,
            ServeFollowers::AfterSync => self.log.durable_offset,
        }
    }
}

/// The epochs of the metadata a role is held under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    /// Fences data-plane requests.
    pub(super) leader_epoch: LeaderEpoch,
    /// Orders metadata and AlterPartition replies.
    pub(super) partition_epoch: PartitionEpoch,
}

impl Term {
    /// Of this metadata.
    pub(super) fn of(metadata: &PartitionMetadata) -> Term {
        let &PartitionMetadata { leader_epoch, partition_epoch, .. } = metadata;
        Term { leader_epoch, partition_epoch }
    }
}

/// An ISR change that is proposed and not decided, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingIsr {
    /// Whether a follower joins; else members leave.
    pub is_expand: bool,
    /// Who joins or leaves.
    pub members: Vec<BrokerId>,
    /// Members of the committed ISR.
    pub isr_before: usize,
    /// Members of the proposed one.
    pub isr_after: usize,
    /// Effective min ISR.
    pub min_isr: usize,
    /// Partition epoch the proposal is based on.
    pub partition_epoch: PartitionEpoch,
    /// The fetch since which the joining follower meets the join rule; of a shrink, when the one
    /// that is behind the longest was last caught up.
    pub detected_at: Option<MonotonicTime>,
}

impl PendingIsr {
    /// Two proposals of one leader epoch that agree in this are the same.
    pub fn id(&self) -> (PartitionEpoch, bool, &[BrokerId]) {
        (self.partition_epoch, self.is_expand, &self.members)
    }
}

/// Fates of the ISR changes this replica proposed as leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsrCounters {
    /// Expansions committed.
    pub expands: u64,
    /// Shrinks committed.
    pub shrinks: u64,
    /// Replies that were an error or came under other epochs.
    pub failed_updates: u64,
}

impl Hash for IsrCounters {
    /// Counts steer nothing: a search over states must not take two for different because of them.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
