//! DescribeQuorum (55): the metadata log's voters and how far each is.

use kafka_protocol::messages::{DescribeQuorumRequest, DescribeQuorumResponse};

use super::prelude::*;

pub(super) type Request = DescribeQuorumRequest;
pub(super) type Response = DescribeQuorumResponse;

pub(super) const SPEC: Spec = Spec::new(55, versions(0, 2), 0, Served::Both);

const QUORUM_REPLICA: Shape = shape!({
    replica_id 0: I32,
    replica_directory_id 2: UUID,
    log_end_offset 0: I64,
    last_fetch_timestamp 1: I64,
    last_caught_up_timestamp 1: I64,
});

schema_message!(DescribeQuorumRequest, {
    topics 0: [{ topic_name 0: String, partitions 0: [{ index 0: I32 }] }],
});

schema_message!(DescribeQuorumResponse, {
    error_code 0: I16,
    error_message 2: String,
    topics 0: [{
        topic_name 0: String,
        partitions 0: [{
            index 0: I32,
            error_code 0: I16,
            error_message 2: String,
            leader_id 0: I32,
            leader_epoch 0: I32,
            high_watermark 0: I64,
            current_voters 0: [QUORUM_REPLICA],
            observers 0: [QUORUM_REPLICA],
        }],
    }],
    nodes 2: [{
        node_id 2: I32,
        listeners 2: [{ name 2: String, host 2: String, port 2: I16 }],
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, describe_quorum_request, describe_quorum_response};

    use super::*;
    use crate::wire::tests::samples::{id, name, text};

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let partition = describe_quorum_request::PartitionData::default();
        let topic = describe_quorum_request::TopicData::default()
            .with_topic_name(name("__cluster_metadata"))
            .with_partitions(vec![partition.with_partition_index(0)]);
        DescribeQuorumRequest::default().with_topics(vec![topic])
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let replica = |node: i32| {
            let mut replica = describe_quorum_response::ReplicaState::default()
                .with_replica_id(BrokerId(node))
                .with_log_end_offset(77);
            if version >= 1 {
                replica.last_fetch_timestamp = 1_000;
                replica.last_caught_up_timestamp = 900;
            }
            if version >= 2 {
                replica.replica_directory_id = id();
            }
            replica
        };
        let mut partition = describe_quorum_response::PartitionData::default()
            .with_leader_id(BrokerId(100))
            .with_leader_epoch(3)
            .with_high_watermark(76)
            .with_current_voters(vec![replica(100), replica(101)])
            .with_observers(vec![replica(1)]);
        let mut response = DescribeQuorumResponse::default();
        if version >= 2 {
            partition.error_message = Some(text("m"));
            let listener = describe_quorum_response::Listener::default()
                .with_name(text("CONTROLLER"))
                .with_host(text("127.0.0.1"))
                .with_port(9_093);
            let node = describe_quorum_response::Node::default().with_node_id(BrokerId(100));
            response.nodes = vec![node.with_listeners(vec![listener])];
        }
        let topic = describe_quorum_response::TopicData::default()
            .with_topic_name(name("__cluster_metadata"));
        response.with_topics(vec![topic.with_partitions(vec![partition])])
    }
}
