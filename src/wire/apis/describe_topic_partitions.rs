//! DescribeTopicPartitions (75): topics page by page, with eligible leader replicas.

use kafka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};

use super::prelude::*;

pub(super) type Request = DescribeTopicPartitionsRequest;
pub(super) type Response = DescribeTopicPartitionsResponse;

pub(super) const SPEC: Spec = Spec::new(75, versions(0, 0), 0, Served::Broker);

schema_message!(DescribeTopicPartitionsRequest, {
    topics 0: [{ name 0: String }],
    response_partition_limit 0: I32,
    cursor 0: (nullable { topic_name 0: String, partition_index 0: I32 }),
});

schema_message!(DescribeTopicPartitionsResponse, {
    throttle_time_ms 0: I32,
    topics 0: [{
        error_code 0: I16,
        name 0: String,
        topic_id 0: UUID,
        is_internal 0: BOOL,
        partitions 0: [{
            error_code 0: I16,
            index 0: I32,
            leader_id 0: I32,
            leader_epoch 0: I32,
            replica_nodes 0: [I32],
            isr_nodes 0: [I32],
            eligible_leader_replicas 0: [I32],
            last_known_elr 0: [I32],
            offline_replicas 0: [I32],
        }],
        topic_authorized_operations 0: I32,
    }],
    next_cursor 0: (nullable { topic_name 0: String, partition_index 0: I32 }),
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{
        BrokerId, describe_topic_partitions_request, describe_topic_partitions_response,
    };

    use super::*;
    use crate::wire::tests::samples::{id, name, nodes};

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let cursor = describe_topic_partitions_request::Cursor::default()
            .with_topic_name(name("bench"))
            .with_partition_index(4);
        let topic = describe_topic_partitions_request::TopicRequest::default();
        DescribeTopicPartitionsRequest::default()
            .with_topics(vec![topic.with_name(name("bench"))])
            .with_cursor(Some(cursor))
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        let partition =
            describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition::default()
                .with_partition_index(3)
                .with_replica_nodes(nodes())
                .with_isr_nodes(vec![BrokerId(1)])
                .with_eligible_leader_replicas(Some(vec![BrokerId(2)]))
                .with_last_known_elr(None);
        let topic =
            describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(name("bench")))
                .with_topic_id(id())
                .with_partitions(vec![partition]);
        let cursor =
            describe_topic_partitions_response::Cursor::default().with_topic_name(name("next"));
        DescribeTopicPartitionsResponse::default()
            .with_topics(vec![topic])
            .with_next_cursor(Some(cursor))
    }
}
