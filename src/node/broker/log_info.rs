//! GetReplicaLogInfo: where this broker's replicas' logs end, for the controller's unclean recovery.
//! Answered whether the broker is fenced or not, by leaders and followers alike; each shard answers
//! for the replicas it owns.

use super::message::{Message, Part};
use super::replicas::Replica;
use super::requests::{From, Place};
use super::shard::Shard;
use crate::engine::Io;
use crate::types::{ErrorCode, Offset, PartitionId, TopicPartition};
use crate::wire::{ReplicaLogInfo, ReplicaLogInfoRequest, ReplicaLogInfoResponse, Response};

/// Most replicas of one answer, as in the KIP; whoever asks for more has to ask again.
const REPLICAS_MAX: usize = 1000;

/// An answer being put together.
pub(super) struct PendingLogInfo {
    response: ReplicaLogInfoResponse,
    places: Vec<Place>,
    waiting: usize,
}

impl PendingLogInfo {
    pub(super) fn into_response(self) -> Response {
        Response::GetReplicaLogInfo(self.response)
    }
}

impl Shard {
    pub(super) fn replica_log_info(
        &mut self,
        io: &mut dyn Io,
        from: From,
        request: ReplicaLogInfoRequest,
    ) {
        let mut asked: Vec<TopicPartition> = match request.topics {
            None => self.own_replicas(),
            Some(topics) => topics
                .into_iter()
                .flat_map(|(topic, partitions)| {
                    partitions.into_iter().map(move |partition| TopicPartition { topic, partition })
                })
                .collect(),
        };
        let has_more_data = asked.len() > REPLICAS_MAX;
        asked.truncate(REPLICAS_MAX);
        let mut response =
            ReplicaLogInfoResponse { broker_epoch: self.epoch, has_more_data, topics: Vec::new() };
        let mut places = Vec::with_capacity(asked.len());
        for id in &asked {
            if response.topics.last().is_none_or(|(topic, _)| *topic != id.topic) {
                response.topics.push((id.topic, Vec::new()));
            }
            let topic = response.topics.len() - 1;
            let (_, replicas) = &mut response.topics[topic];
            places.push(Place { topic, partition: replicas.len() });
            replicas.push(nothing_known(id.partition, ErrorCode::UnknownServerError));
        }
        let waiting = asked.len();
        let ticket = self.wait_for_log_info(from, PendingLogInfo { response, places, waiting });
        if asked.is_empty() {
            return self.complete(io, ticket);
        }
        for (index, id) in (0..).zip(asked) {
            let part = Part { origin: self.id, index, ticket };
            let owner = self.owner(id.partition);
            self.deliver(io, owner, Message::InspectLog(part, id));
        }
    }

    fn own_replicas(&self) -> Vec<TopicPartition> {
        let own = self.config.node_id;
        let partitions = self.metadata.partitions();
        partitions.filter(|(_, known)| known.replicas.contains(&own)).map(|(id, _)| id).collect()
    }

    /// The owner's part.
    pub(super) fn inspect_log(&mut self, io: &mut dyn Io, part: Part, id: TopicPartition) {
        let replica = self.replicas.slot(id).and_then(|slot| self.replicas.get(slot));
        let info = match replica {
            Some(replica) => log_info(replica),
            None => nothing_known(id.partition, self.why_absent(id)),
        };
        self.deliver(io, part.origin, Message::LogInspected(part, info));
    }

    fn why_absent(&self, id: TopicPartition) -> ErrorCode {
        match (self.metadata.topic(id.topic), self.metadata.partition(id)) {
            (None, _) => ErrorCode::UnknownTopicId,
            (Some(_), None) => ErrorCode::UnknownTopicOrPartition,
            (Some(_), Some(_)) => ErrorCode::NotLeaderOrFollower,
        }
    }

    pub(super) fn log_inspected(&mut self, io: &mut dyn Io, part: Part, info: ReplicaLogInfo) {
        let Some(pending) = self.pending_log_info(part.ticket) else { return };
        let place = pending.places[part.place()];
        pending.response.topics[place.topic].1[place.partition] = info;
        pending.waiting -= 1;
        if pending.waiting == 0 {
            self.complete(io, part.ticket);
        }
    }
}

fn nothing_known(partition: PartitionId, error: ErrorCode) -> ReplicaLogInfo {
    ReplicaLogInfo {
        partition,
        last_written_leader_epoch: None,
        current_leader_epoch: None,
        log_end_offset: Offset(-1),
        error,
    }
}

fn log_info(replica: &Replica) -> ReplicaLogInfo {
    let end = replica.machine.log_end_offset();
    ReplicaLogInfo {
        partition: replica.id.partition,
        last_written_leader_epoch: replica.machine.leader_epochs().of_last_record(end),
        current_leader_epoch: replica.machine.leader_epoch(),
        log_end_offset: end,
        error: ErrorCode::None,
    }
}
