//! ListOffsets and OffsetForLeaderEpoch: questions about partitions' offsets, answered by their
//! owners.

use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};

use super::message::{Message, OffsetFound, OffsetQuery, Part};
use super::requests::{From, Place};
use super::shard::Shard;
use crate::engine::Io;
use crate::types::{ErrorCode, LeaderEpoch, PartitionId, TopicPartition};
use crate::wire::Response;

/// ListOffsets' timestamps with a meaning of their own.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// First version of ListOffsets whose answer names the leader epoch.
const LEADER_EPOCH_FROM: i16 = 4;

/// An answer being put together.
pub(super) struct PendingOffsets {
    answer: OffsetsAnswer,
    places: Vec<Place>,
    waiting: usize,
}

enum OffsetsAnswer {
    /// With leader epochs, if the version has room for them.
    List {
        response: ListOffsetsResponse,
        has_epochs: bool,
    },
    EpochEnds(OffsetForLeaderEpochResponse),
}

impl PendingOffsets {
    pub(super) fn into_response(self) -> Response {
        match self.answer {
            OffsetsAnswer::List { response, .. } => Response::ListOffsets(response),
            OffsetsAnswer::EpochEnds(response) => Response::OffsetForLeaderEpoch(response),
        }
    }

    fn fill(&mut self, index: u32, result: Result<OffsetFound, ErrorCode>) {
        let place = self.places[index as usize];
        let error = result.err().unwrap_or(ErrorCode::None).code();
        match &mut self.answer {
            OffsetsAnswer::List { response, has_epochs } => {
                let answer = &mut response.topics[place.topic].partitions[place.partition];
                answer.error_code = error;
                if let Ok(found) = result {
                    answer.offset = found.offset.0;
                    let epoch = found.leader_epoch.filter(|_| *has_epochs);
                    answer.leader_epoch = epoch.map_or(-1, |epoch| epoch.0);
                }
            }
            OffsetsAnswer::EpochEnds(response) => {
                let answer = &mut response.topics[place.topic].partitions[place.partition];
                answer.error_code = error;
                if let Ok(found) = result {
                    answer.end_offset = found.offset.0;
                    answer.leader_epoch = found.leader_epoch.map_or(-1, |epoch| epoch.0);
                }
            }
        }
        self.waiting -= 1;
    }
}

impl Shard {
    pub(super) fn list_offsets(
        &mut self,
        io: &mut dyn Io,
        from: From,
        request: &ListOffsetsRequest,
    ) {
        let is_replica = request.replica_id.0 >= 0;
        let (mut places, mut queries, mut topics) = (Vec::new(), Vec::new(), Vec::new());
        for topic in &request.topics {
            let id = self.metadata.topic_id(&topic.name);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let mut answer = ListOffsetsPartitionResponse::default()
                    .with_partition_index(asked.partition_index);
                let query = match asked.timestamp {
                    LATEST if is_replica => Some(OffsetQuery::LogEnd),
                    LATEST => Some(OffsetQuery::Latest),
                    EARLIEST => Some(OffsetQuery::Earliest),
                    // Look-up by time needs a time index, which no measured path uses.
                    _ => None,
                };
                match (id, query) {
                    (None, _) => answer.error_code = ErrorCode::UnknownTopicOrPartition.code(),
                    (_, None) => answer.error_code = ErrorCode::InvalidRequest.code(),
                    (Some(topic), Some(query)) => {
                        places.push(Place { topic: topics.len(), partition: partitions.len() });
                        let partition = PartitionId(asked.partition_index);
                        queries.push((TopicPartition { topic, partition }, query));
                    }
                }
                partitions.push(answer);
            }
            topics.push(
                ListOffsetsTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        let response = ListOffsetsResponse::default().with_topics(topics);
        let answer =
            OffsetsAnswer::List { response, has_epochs: from.head.version >= LEADER_EPOCH_FROM };
        self.ask_owners(io, from, answer, places, queries);
    }

    pub(super) fn offset_for_leader_epoch(
        &mut self,
        io: &mut dyn Io,
        from: From,
        request: &OffsetForLeaderEpochRequest,
    ) {
        let (mut places, mut queries, mut topics) = (Vec::new(), Vec::new(), Vec::new());
        for topic in &request.topics {
            let id = self.metadata.topic_id(&topic.topic);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let mut answer = EpochEndOffset::default().with_partition(asked.partition);
                match id {
                    None => answer.error_code = ErrorCode::UnknownTopicOrPartition.code(),
                    Some(topic) => {
                        places.push(Place { topic: topics.len(), partition: partitions.len() });
                        let partition = PartitionId(asked.partition);
                        let query = OffsetQuery::EpochEnd(LeaderEpoch(asked.leader_epoch));
                        queries.push((TopicPartition { topic, partition }, query));
                    }
                }
                partitions.push(answer);
            }
            topics.push(
                OffsetForLeaderTopicResult::default()
                    .with_topic(topic.topic.clone())
                    .with_partitions(partitions),
            );
        }
        let response = OffsetForLeaderEpochResponse::default().with_topics(topics);
        self.ask_owners(io, from, OffsetsAnswer::EpochEnds(response), places, queries);
    }

    fn ask_owners(
        &mut self,
        io: &mut dyn Io,
        from: From,
        answer: OffsetsAnswer,
        places: Vec<Place>,
        queries: Vec<(TopicPartition, OffsetQuery)>,
    ) {
        let waiting = queries.len();
        let ticket = self.wait_for_offsets(from, PendingOffsets { answer, places, waiting });
        if waiting == 0 {
            return self.complete(io, ticket);
        }
        for (index, (partition, query)) in (0..).zip(queries) {
            let part = Part { origin: self.id, index, ticket };
            let owner = self.owner(partition.partition);
            self.deliver(io, owner, Message::Query(part, partition, query));
        }
    }

    pub(super) fn queried(
        &mut self,
        io: &mut dyn Io,
        part: Part,
        result: Result<OffsetFound, ErrorCode>,
    ) {
        let Some(pending) = self.pending_offsets(part.ticket) else { return };
        pending.fill(part.index, result);
        if pending.waiting == 0 {
            self.complete(io, part.ticket);
        }
    }
}
