//! Changes of leaders and assignments that somebody asked for: elections, reassignments, and where
//! a replica lives.
//!
//! Source: spec/kip966.md 2.8, 2.5.

use super::election::Election;
use super::partition_change::Targets;
use super::{
    Controller, DirectoryAssignment, ElectLeaders, ElectionKind, PartitionName, Reassignment,
    Refusal,
};
use crate::protocol::metadata::DirectoryId;
use crate::types::{BrokerId, ErrorCode, TopicPartition};

impl Controller {
    pub(super) fn elect_leaders(
        &mut self,
        request: ElectLeaders,
    ) -> Vec<(PartitionName, ErrorCode)> {
        let (names, all) = match request.partitions {
            Some(names) => (names, false),
            None => (self.partition_names(), true),
        };
        let elect = |name: PartitionName| {
            let error = self.elect_leader(&name, request.kind).err().unwrap_or(ErrorCode::None);
            (name, error)
        };
        let outcomes = names.into_iter().map(elect);
        outcomes.filter(|(_, error)| !all || *error != ErrorCode::ElectionNotNeeded).collect()
    }

    fn elect_leader(&mut self, name: &PartitionName, kind: ElectionKind) -> Result<(), ErrorCode> {
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let topic = self.metadata.topic_id(&name.topic).ok_or(unknown)?;
        let id = TopicPartition { topic, partition: name.partition };
        let partition = self.metadata.partition(id).ok_or(unknown)?;
        let (needless, election, failure) = match kind {
            ElectionKind::Preferred => (
                partition.leader.is_some()
                    && partition.leader == partition.replicas.first().copied(),
                Election::Preferred,
                ErrorCode::PreferredLeaderNotAvailable,
            ),
            ElectionKind::Unclean => (
                partition.leader.is_some(),
                Election::Unclean,
                ErrorCode::EligibleLeadersNotAvailable,
            ),
        };
        if needless {
            return Err(ErrorCode::ElectionNotNeeded);
        }
        let targets = Targets::of(partition, election);
        self.change_partition(id, targets, None).map(|_| ()).ok_or(failure)
    }

    fn partition_names(&self) -> Vec<PartitionName> {
        let topics = self.metadata.topics();
        let names = topics.flat_map(|topic| {
            topic
                .partitions
                .keys()
                .map(|&partition| PartitionName { topic: topic.name.clone(), partition })
        });
        names.collect()
    }

    /// Leaderless partitions whose topic allows an unclean election get one.
    pub(super) fn elect_unclean_where_allowed(&mut self) {
        for id in self.partitions_where(|partition| partition.leader.is_none()) {
            if self.election_mode(id) == Election::Unclean
                && let Some(partition) = self.metadata.partition(id)
            {
                let targets = Targets::of(partition, Election::Unclean);
                self.change_partition(id, targets, None);
            }
        }
    }

    pub(super) fn reassign(&mut self, request: Reassignment) -> Result<(), Refusal> {
        let Reassignment { id, target } = request;
        let unknown =
            || Refusal::new(ErrorCode::UnknownTopicOrPartition, "the partition does not exist");
        let partition = self.metadata.partition(id).ok_or_else(unknown)?;
        self.check_replicas(&target).map_err(|message| {
            Refusal::new(ErrorCode::InvalidReplicaAssignment, format!("target replicas: {message}"))
        })?;
        let targets = reassigned(Targets::of(partition, Election::Online), &target);
        self.change_partition(id, targets, None);
        Ok(())
    }

    pub(super) fn assign_directory(
        &mut self,
        request: DirectoryAssignment,
    ) -> Result<(), ErrorCode> {
        let DirectoryAssignment { broker, epoch, id, directory } = request;
        self.current_registration(broker, epoch)?;
        let partition = self.metadata.partition(id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let index = partition.replicas.iter().position(|&replica| replica == broker);
        let index = index.ok_or(ErrorCode::NotLeaderOrFollower)?;
        let mut targets = Targets::of(partition, Election::Online);
        targets.directories.resize(targets.replicas.len(), DirectoryId::UNASSIGNED);
        targets.directories[index] = directory;
        let elr_on = self.elr_on() && !self.settings.quirks.directory_assignment_wipes_elr;
        self.change_partition_with(id, targets, None, elr_on);
        Ok(())
    }
}

/// Target replicas first, then those to be removed; what `adding` still holds was never a replica.
fn reassigned(mut targets: Targets, target: &[BrokerId]) -> Targets {
    let old = targets.clone();
    let kept = |id: &BrokerId| old.replicas.contains(id) && !old.adding.contains(id);
    targets.adding = target.iter().copied().filter(|id| !kept(id)).collect();
    targets.removing = old.replicas.iter().copied().filter(|id| !target.contains(id)).collect();
    targets.replicas = target.iter().chain(&targets.removing).copied().collect();
    if !old.directories.is_empty() {
        let directory = |id: &BrokerId| {
            let index = old.replicas.iter().position(|replica| replica == id);
            let known = index.and_then(|index| old.directories.get(index));
            known.copied().unwrap_or(DirectoryId::UNASSIGNED)
        };
        targets.directories = targets.replicas.iter().map(directory).collect();
    }
    targets
}
