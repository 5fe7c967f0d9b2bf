//! AlterPartition: whether a leader's ISR proposal may be committed, and what comes of it.
//! The order of the checks is part of the protocol: it decides which error a stale leader sees.
//!
//! Source: spec/kip966.md 2.3; the numbers are its rows.

use super::partition_change::Targets;
use super::{AlterPartition, AlteredPartition, Controller, ProposalOutcome};
use crate::protocol::metadata::PartitionRegistration;
use crate::protocol::partition::{IsrCommitted, IsrProposal};
use crate::types::{BrokerId, ErrorCode, TopicPartition};

impl Controller {
    pub(super) fn alter_partition(
        &mut self,
        request: AlterPartition,
    ) -> Result<Vec<ProposalOutcome>, ErrorCode> {
        self.current_registration(request.broker, request.epoch)?;
        let decide = |(id, proposal): &(TopicPartition, IsrProposal)| {
            (*id, self.alter_one(request.broker, *id, proposal))
        };
        Ok(request.proposals.iter().map(decide).collect())
    }

    fn alter_one(
        &mut self,
        sender: BrokerId,
        id: TopicPartition,
        proposal: &IsrProposal,
    ) -> Result<AlteredPartition, ErrorCode> {
        let partition = self.find(id)?;
        check(sender, partition, proposal)?;
        self.check_members(&proposal.isr)?; // 11
        let mut targets = Targets::of(partition, self.election_mode(id));
        targets.isr = proposal.isr.iter().map(|&(member, _)| member).collect();
        targets.recovering = proposal.recovering;
        self.change_partition(id, targets, None);
        let partition = self.find(id)?;
        if partition.leader != Some(sender) {
            return Err(ErrorCode::NewLeaderElected);
        }
        Ok(altered(partition))
    }

    fn find(&self, id: TopicPartition) -> Result<&PartitionRegistration, ErrorCode> {
        if self.metadata.topic(id.topic).is_none() {
            return Err(ErrorCode::UnknownTopicId);
        }
        self.metadata.partition(id).ok_or(ErrorCode::UnknownTopicOrPartition) // 1
    }

    fn check_members(
        &self,
        isr: &[(BrokerId, Option<crate::types::BrokerEpoch>)],
    ) -> Result<(), ErrorCode> {
        let eligible = isr.iter().all(|&(member, epoch)| {
            let registration = self.metadata.broker(member).filter(|known| known.is_active());
            registration.is_some_and(|known| epoch.is_none_or(|epoch| epoch == known.epoch))
        });
        if eligible { Ok(()) } else { Err(ErrorCode::IneligibleReplica) }
    }
}

fn check(
    sender: BrokerId,
    partition: &PartitionRegistration,
    proposal: &IsrProposal,
) -> Result<(), ErrorCode> {
    let members: Vec<BrokerId> = proposal.isr.iter().map(|&(member, _)| member).collect();
    let repeated = (1..members.len()).any(|index| members[..index].contains(&members[index]));
    let assigned = members.iter().all(|member| partition.replicas.contains(member));
    let rows = [
        // 2 and 3: a leader that knows more than this node shows this node to be stale.
        (proposal.leader_epoch > partition.leader_epoch, ErrorCode::NotController),
        (proposal.partition_epoch > partition.partition_epoch, ErrorCode::NotController),
        (proposal.leader_epoch < partition.leader_epoch, ErrorCode::FencedLeaderEpoch), // 4
        (partition.leader != Some(sender), ErrorCode::InvalidRequest),                  // 5
        (proposal.partition_epoch < partition.partition_epoch, ErrorCode::InvalidUpdateVersion), // 6
        (repeated || !assigned, ErrorCode::InvalidRequest), // 7
        (!members.contains(&sender), ErrorCode::InvalidRequest), // 8
        (proposal.recovering && members.len() > 1, ErrorCode::InvalidRequest), // 9
        (proposal.recovering && !partition.recovering, ErrorCode::InvalidRequest), // 10
    ];
    match rows.iter().find(|(refused, _)| *refused) {
        Some(&(_, error)) => Err(error),
        None => Ok(()),
    }
}

fn altered(partition: &PartitionRegistration) -> AlteredPartition {
    AlteredPartition {
        committed: IsrCommitted {
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            isr: partition.isr.clone(),
        },
        recovering: partition.recovering,
    }
}
