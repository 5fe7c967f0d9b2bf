//! A broker and a partition as registered, and how a change record changes a partition.

use super::record::{
    DirectoryId, Endpoint, FeatureRange, IncarnationId, Partition, PartitionChange,
};
use crate::protocol::partition::PartitionMetadata;
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch};

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokerRegistration {
    /// Its id.
    pub id: BrokerId,
    /// Its process start.
    pub incarnation: IncarnationId,
    /// Its epoch.
    pub epoch: BrokerEpoch,
    /// Offset of the record that registered it last; it may be unfenced once it applied that one.
    pub registration_offset: Offset,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// What it supports.
    pub features: Vec<FeatureRange>,
    /// Its rack.
    pub rack: Option<String>,
    /// Not allowed to lead or to join an ISR.
    pub fenced: bool,
    /// Asked to leave; as good as fenced for elections and ISRs.
    pub in_controlled_shutdown: bool,
    /// Its log directories.
    pub log_dirs: Vec<DirectoryId>,
}

/// A partition.
/// Invariants: `leader` is in `isr`; `isr` and `elr` are disjoint; no list holds an id twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionRegistration {
    /// Assignment order, adding ones included; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// Committed ISR; a set.
    pub isr: Vec<BrokerId>,
    /// Eligible leader replicas; a set.
    pub elr: Vec<BrokerId>,
    /// Members that an unclean shutdown took out of the ELR, or the last known leader; a set.
    pub last_known_elr: Vec<BrokerId>,
    /// Being removed by a reassignment.
    pub removing: Vec<BrokerId>,
    /// Being added by a reassignment.
    pub adding: Vec<BrokerId>,
    /// The leader.
    pub leader: Option<BrokerId>,
    /// Uncleanly elected, recovery not yet reported.
    pub recovering: bool,
    /// Leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// Log directory of each replica in assignment order; may be empty.
    pub directories: Vec<DirectoryId>,
}

impl BrokerRegistration {
    /// Unfenced and not in controlled shutdown: may lead, may join an ISR.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// Whether a replica in `directory` can be used: not chosen yet, or one that the broker has.
    pub fn has_online(&self, directory: DirectoryId) -> bool {
        directory == DirectoryId::UNASSIGNED
            || self.log_dirs.is_empty()
            || self.log_dirs.contains(&directory)
    }

    /// The endpoint with this listener name, else the first one.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        let named = self.endpoints.iter().find(|endpoint| endpoint.name == listener);
        named.or_else(|| self.endpoints.first())
    }
}

impl PartitionRegistration {
    /// Where a replica lives, as far as that was said.
    pub fn directory_of(&self, replica: BrokerId) -> DirectoryId {
        let index = self.replicas.iter().position(|&id| id == replica);
        let directory = index.and_then(|index| self.directories.get(index));
        directory.copied().unwrap_or(DirectoryId::UNASSIGNED)
    }

    /// What a replica's own machine needs to know; a replica does not learn the ELR.
    pub fn to_partition_metadata(&self) -> PartitionMetadata {
        PartitionMetadata {
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            leader: self.leader,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            recovering: self.recovering,
        }
    }

    /// Epochs rise as spec/kip966.md 2.4 says.
    pub(super) fn apply(&mut self, change: &PartitionChange) {
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        set(&mut self.replicas, &change.replicas);
        set(&mut self.isr, &change.isr);
        set(&mut self.elr, &change.elr);
        set(&mut self.last_known_elr, &change.last_known_elr);
        set(&mut self.removing, &change.removing);
        set(&mut self.adding, &change.adding);
        set(&mut self.recovering, &change.recovering);
        set(&mut self.directories, &change.directories);
        if let Some(leader) = change.leader {
            self.leader = leader;
            self.leader_epoch = LeaderEpoch(self.leader_epoch.0 + 1);
        }
        self.partition_epoch = PartitionEpoch(self.partition_epoch.0 + 1);
    }

    pub(super) fn clear_elr(&mut self) {
        if self.elr.is_empty() && self.last_known_elr.is_empty() {
            return;
        }
        self.elr.clear();
        self.last_known_elr.clear();
        self.partition_epoch = PartitionEpoch(self.partition_epoch.0 + 1);
    }
}

impl From<Partition> for PartitionRegistration {
    fn from(partition: Partition) -> PartitionRegistration {
        PartitionRegistration {
            replicas: partition.replicas,
            isr: partition.isr,
            elr: partition.elr,
            last_known_elr: partition.last_known_elr,
            removing: partition.removing,
            adding: partition.adding,
            leader: partition.leader,
            recovering: partition.recovering,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            directories: partition.directories,
        }
    }
}
