//! DescribeTopicPartitions: topics with ELR and last known ELR, a page at a time. What is on a page is
//! [`crate::protocol::metadata::Page`]'s business.

use kafka_protocol::messages::describe_topic_partitions_request::Cursor as AskedCursor;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};
use uuid::Uuid;

use super::metadata::{OPERATIONS_UNKNOWN, leader_id, wire_ids};
use super::shard::Shard;
use crate::protocol::metadata::{PageRequest, PageTopic, PartitionRegistration};
use crate::types::ErrorCode;

impl Shard {
    /// Topics by name with ELR and last known ELR, a page at a time (KIP-966 DescribeTopicPartitions).
    pub(super) fn describe_topic_partitions(
        &self,
        request: &DescribeTopicPartitionsRequest,
    ) -> DescribeTopicPartitionsResponse {
        let topics: Vec<String> =
            request.topics.iter().map(|topic| topic.name.to_string()).collect();
        let cursor = request.cursor.as_ref();
        let asked = PageRequest {
            topics: &topics,
            cursor: cursor.map(|cursor| (cursor.topic_name.as_str(), cursor.partition_index)),
            partitions_max: request.response_partition_limit,
        };
        let page = match self.metadata.page(&asked) {
            Ok(page) => page,
            Err(error) => return refused_page(topics, cursor, error),
        };
        let described = page.topics.into_iter().map(|(name, found)| {
            let Some(PageTopic { topic, partitions }) = found else {
                return refused_topic(name, ErrorCode::UnknownTopicOrPartition);
            };
            let partitions = partitions
                .into_iter()
                .map(|(index, partition)| self.describe_partition(index.0, partition));
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(TopicName(name.into())))
                .with_topic_id(Uuid::from_bytes(topic.id.0))
                .with_topic_authorized_operations(OPERATIONS_UNKNOWN)
                .with_partitions(partitions.collect())
        });
        DescribeTopicPartitionsResponse::default()
            .with_topics(described.collect())
            .with_next_cursor(page.next.map(|(topic, partition)| {
                Cursor::default()
                    .with_topic_name(TopicName(topic.into()))
                    .with_partition_index(partition.0)
            }))
    }

    fn describe_partition(
        &self,
        index: i32,
        partition: &PartitionRegistration,
    ) -> DescribeTopicPartitionsResponsePartition {
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(leader_id(partition))
            .with_leader_epoch(partition.leader_epoch.0)
            .with_replica_nodes(wire_ids(&partition.replicas))
            .with_isr_nodes(wire_ids(&partition.isr))
            .with_eligible_leader_replicas(Some(wire_ids(&partition.elr)))
            .with_last_known_elr(Some(wire_ids(&partition.last_known_elr)))
            .with_offline_replicas(wire_ids(&self.offline(partition)))
    }
}

/// The response has no place for an error but beside topics: each one asked for, or the cursor's.
fn refused_page(
    topics: Vec<String>,
    cursor: Option<&AskedCursor>,
    error: ErrorCode,
) -> DescribeTopicPartitionsResponse {
    let topics = if topics.is_empty() {
        cursor.into_iter().map(|cursor| cursor.topic_name.to_string()).collect()
    } else {
        topics
    };
    let refused = topics.into_iter().map(|name| refused_topic(name, error));
    DescribeTopicPartitionsResponse::default().with_topics(refused.collect())
}

fn refused_topic(name: String, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(error.code())
        .with_name(Some(TopicName(name.into())))
        .with_topic_authorized_operations(OPERATIONS_UNKNOWN)
}
