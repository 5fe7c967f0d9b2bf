//! Changes of leaders and assignments that somebody asked for: elections, reassignments, and where
//! a replica lives.
//!
//! Source: spec/kip966.md 2.8, 2.5.

use super::election::Election;
use super::partition_change::Targets;
use super::recovery::Mode;
use super::topic_rules::RECOVERY_LEVEL;
use super::{
    Controller, DirectoryAssignment, ElectLeaders, ElectionKind, PartitionName, Reassignment,
    Refusal,
};
use crate::protocol::metadata::{DirectoryId, ELR_FEATURE, PartitionRegistration, topic_config};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, TopicId, TopicPartition};

impl Controller {
    pub(super) fn elect_leaders(
        &mut self,
        now: MonotonicTime,
        request: ElectLeaders,
    ) -> Vec<(PartitionName, Result<(), Refusal>)> {
        let ElectLeaders { kind, partitions } = request;
        let all = partitions.is_none();
        let names = partitions.unwrap_or_else(|| self.partition_names());
        let elect = |(index, name): (usize, PartitionName)| {
            let outcome = wish(&kind, index).and_then(|wish| self.grant(now, &name, wish));
            (name, outcome)
        };
        let outcomes = names.into_iter().enumerate().map(elect);
        let needed = |(_, outcome): &(PartitionName, Result<(), Refusal>)| {
            let needless = ErrorCode::ElectionNotNeeded;
            !all || outcome.as_ref().err().is_none_or(|refusal| refusal.error != needless)
        };
        outcomes.filter(needed).collect()
    }

    /// Elections by log or by name are the recovery manager's.
    fn check_manager(&self, topic: TopicId, wish: &Wish) -> Result<(), Refusal> {
        let by_manager = match wish {
            Wish::Recover(_) | Wish::Elect(Election::Chosen(_)) => true,
            Wish::Elect(Election::Preferred | Election::Unclean | Election::Online) => false,
        };
        let rules = self.topic_rules(topic);
        if !by_manager || rules.is_some_and(|rules| rules.recovery_manager) {
            return Ok(());
        }
        let level = self.metadata.feature(ELR_FEATURE);
        let reason = if level < RECOVERY_LEVEL {
            format!("{ELR_FEATURE} is {level}, must be {RECOVERY_LEVEL}")
        } else if rules.is_some_and(|rules| rules.elr_level < RECOVERY_LEVEL) {
            format!("{} = kafka-4.2 is without it", topic_config::COMPAT)
        } else {
            "it is turned off".to_owned()
        };
        let message =
            format!("election by log or by name needs the unclean recovery manager: {reason}");
        Err(Refusal::new(ErrorCode::InvalidRequest, message))
    }

    fn grant(
        &mut self,
        now: MonotonicTime,
        name: &PartitionName,
        wish: Wish,
    ) -> Result<(), Refusal> {
        let unknown =
            || Refusal::new(ErrorCode::UnknownTopicOrPartition, "the partition does not exist");
        let topic = self.metadata.topic_id(&name.topic).ok_or_else(unknown)?;
        let id = TopicPartition { topic, partition: name.partition };
        let partition = self.metadata.partition(id).ok_or_else(unknown)?;
        self.check_manager(topic, &wish)?;
        check_need(partition, &wish)?;
        let election = match wish {
            Wish::Recover(mode) => {
                self.recover_on_request(now, id, mode);
                return Ok(());
            }
            Wish::Elect(election) => election,
        };
        let targets = Targets::of(partition, election);
        let failure = failure(partition, election);
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
        let rules = self.topic_rules(id.topic).ok_or(ErrorCode::UnknownTopicId)?;
        let elr_on = rules.elr_level > 0 && !rules.quirks.directory_assignment_wipes_elr;
        self.change_partition_with(id, targets, None, elr_on);
        Ok(())
    }
}

/// What somebody wants for one partition.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Elect(Election),
    Recover(Mode),
}

/// What is wished for the partition at `index` of the request.
fn wish(kind: &ElectionKind, index: usize) -> Result<Wish, Refusal> {
    Ok(match kind {
        ElectionKind::Preferred => Wish::Elect(Election::Preferred),
        ElectionKind::Unclean => Wish::Elect(Election::Unclean),
        ElectionKind::LongestLogBalanced => Wish::Recover(Mode::Balanced),
        ElectionKind::LongestLogProactive => Wish::Recover(Mode::Proactive),
        ElectionKind::Designated(leaders) => {
            let leader = leaders.get(index).copied().ok_or_else(|| {
                Refusal::new(ErrorCode::InvalidRequest, "no leader is named for the partition")
            })?;
            Wish::Elect(Election::Chosen(leader))
        }
    })
}

/// Preferred elections move a leadership; all others fill a vacancy.
fn check_need(partition: &PartitionRegistration, wish: &Wish) -> Result<(), Refusal> {
    let message = match (wish, partition.leader) {
        (_, None) => return Ok(()),
        (Wish::Elect(Election::Preferred), leader)
            if leader != partition.replicas.first().copied() =>
        {
            return Ok(());
        }
        (Wish::Elect(Election::Preferred), Some(leader)) => {
            format!("the preferred replica {leader} leads already")
        }
        (_, Some(leader)) => format!("the partition has a leader: {leader}"),
    };
    Err(Refusal::new(ErrorCode::ElectionNotNeeded, message))
}

fn failure(partition: &PartitionRegistration, election: Election) -> Refusal {
    match election {
        Election::Preferred => Refusal::new(
            ErrorCode::PreferredLeaderNotAvailable,
            "the preferred replica is not in the ISR of an active broker",
        ),
        Election::Chosen(leader) if !partition.replicas.contains(&leader) => Refusal::new(
            ErrorCode::InvalidRequest,
            format!("broker {leader} has no replica of the partition"),
        ),
        Election::Chosen(leader) => Refusal::new(
            ErrorCode::EligibleLeadersNotAvailable,
            format!("broker {leader} is not active"),
        ),
        Election::Unclean | Election::Online => Refusal::new(
            ErrorCode::EligibleLeadersNotAvailable,
            "no replica is on an active broker",
        ),
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
