//! Metadata (3): brokers, topics, leaders.

use kafka_protocol::messages::{MetadataRequest, MetadataResponse};

use super::prelude::*;

pub(super) type Request = MetadataRequest;
pub(super) type Response = MetadataResponse;

pub(super) const SPEC: Spec = Spec::new(3, versions(0, 13), 9, Served::Broker);

schema_message!(MetadataRequest, {
    topics 0: [{ topic_id 10: UUID, name 0: String }],
    allow_auto_topic_creation 4: BOOL,
    include_cluster_authorized_operations 8 to 10: BOOL,
    include_topic_authorized_operations 8: BOOL,
});

schema_message!(MetadataResponse, {
    throttle_time_ms 3: I32,
    brokers 0: [{ node_id 0: I32, host 0: String, port 0: I32, rack 1: String }],
    cluster_id 2: String,
    controller_id 1: I32,
    topics 0: [{
        error_code 0: I16,
        name 0: String,
        topic_id 10: UUID,
        is_internal 1: BOOL,
        partitions 0: [{
            error_code 0: I16,
            index 0: I32,
            leader_id 0: I32,
            leader_epoch 7: I32,
            replica_nodes 0: [I32],
            isr_nodes 0: [I32],
            offline_replicas 5: [I32],
        }],
        topic_authorized_operations 8: I32,
    }],
    cluster_authorized_operations 8 to 10: I32,
    error_code 13: I16,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, metadata_request, metadata_response};

    use super::*;
    use crate::wire::tests::samples::{id, name, nodes, text};

    pub(in crate::wire) fn request(version: i16) -> Request {
        let topic = metadata_request::MetadataRequestTopic::default();
        let topic = if version >= 10 { topic.with_topic_id(id()) } else { topic };
        let topic = topic.with_name(Some(name("bench")));
        MetadataRequest::default().with_topics(Some(vec![topic]))
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let broker = metadata_response::MetadataResponseBroker::default()
            .with_node_id(BrokerId(1))
            .with_host(text("127.0.0.1"))
            .with_port(9092);
        let partition = metadata_response::MetadataResponsePartition::default()
            .with_partition_index(3)
            .with_leader_id(BrokerId(1))
            .with_leader_epoch(if version >= 7 { 4 } else { -1 })
            .with_replica_nodes(nodes())
            .with_isr_nodes(nodes());
        let topic = metadata_response::MetadataResponseTopic::default()
            .with_name(Some(name("bench")))
            .with_partitions(vec![partition]);
        let topic = if version >= 10 { topic.with_topic_id(id()) } else { topic };
        let response =
            MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]);
        let response =
            if version >= 1 { response.with_controller_id(BrokerId(1)) } else { response };
        if version >= 2 { response.with_cluster_id(Some(text("cluster"))) } else { response }
    }
}
