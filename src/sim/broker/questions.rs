//! What a broker's process answers from what it has, without a machine's input: where logs end, and
//! the latest offset.

use super::{BrokerOutbox, Note, Process};
use crate::protocol::controller::ReplicaLogsAnswer;
use crate::types::{ErrorCode, LeaderEpoch, Offset, TopicPartition};

impl Process {
    /// Fenced or not, leading or not: as the broker's shell does.
    pub(super) fn replica_logs(&self, asked: &[TopicPartition]) -> ReplicaLogsAnswer {
        let log = |&id: &TopicPartition| match self.hosted.get(&id) {
            Some(hosted) => (id, Ok(hosted.replica().log())),
            None => (id, Err(ErrorCode::NotLeaderOrFollower)),
        };
        ReplicaLogsAnswer { broker_epoch: self.epoch, logs: asked.iter().map(log).collect() }
    }

    pub(super) fn log_ends(
        &self,
        partition: TopicPartition,
    ) -> Result<(Offset, Offset), ErrorCode> {
        let hosted = self.hosted.get(&partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let machine = hosted.replica().machine();
        if !machine.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok((machine.log_start_offset(), machine.log_end_offset()))
    }

    pub(super) fn latest(
        &self,
        partition: TopicPartition,
        out: &mut BrokerOutbox,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        let hosted = self.hosted.get(&partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let machine = hosted.replica().machine();
        let offset = machine.latest_offset_for_clients()?;
        let epoch = machine.leader_epoch().ok_or(ErrorCode::NotLeaderOrFollower)?;
        out.notes.push((partition, Note::ToldLatest { epoch, offset }));
        Ok((epoch, offset))
    }
}
