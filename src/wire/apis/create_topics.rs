//! CreateTopics (19): creates topics.

use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::prelude::*;

pub(super) type Request = CreateTopicsRequest;
pub(super) type Response = CreateTopicsResponse;

pub(super) const SPEC: Spec = Spec::new(19, versions(2, 7), 5, Served::Both);

schema_message!(CreateTopicsRequest, {
    topics 0: [{
        name 0: String,
        num_partitions 0: I32,
        replication_factor 0: I16,
        assignments 0: [{ partition_index 0: I32, broker_ids 0: [I32] }],
        configs 0: [{ name 0: String, value 0: String }],
    }],
    timeout_ms 0: I32,
    validate_only 0: BOOL,
});

schema_message!(CreateTopicsResponse, {
    throttle_time_ms 0: I32,
    topics 0: [{
        name 0: String,
        topic_id 7: UUID,
        error_code 0: I16,
        error_message 0: String,
        num_partitions 5: I32,
        replication_factor 5: I16,
        configs 5: [{
            name 0: String,
            value 0: String,
            read_only 0: BOOL,
            config_source 0: I8,
            is_sensitive 0: BOOL,
        }];
        tags topic_config_error_code = 0 from 5: I16
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{create_topics_request, create_topics_response};

    use super::*;
    use crate::wire::tests::samples::{id, name, nodes, text};

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let assignment = create_topics_request::CreatableReplicaAssignment::default()
            .with_partition_index(0)
            .with_broker_ids(nodes());
        let config = create_topics_request::CreatableTopicConfig::default()
            .with_name(text("min.insync.replicas"))
            .with_value(Some(text("2")));
        let topic = create_topics_request::CreatableTopic::default()
            .with_name(name("bench"))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(vec![assignment])
            .with_configs(vec![config]);
        CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(1_000)
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let topic = create_topics_response::CreatableTopicResult::default()
            .with_name(name("bench"))
            .with_error_code(36)
            .with_error_message(Some(text("topic bench exists already")));
        let topic = if version >= 5 {
            let config = create_topics_response::CreatableTopicConfigs::default()
                .with_name(text("flush.ms"))
                .with_value(Some(text("1000")));
            topic.with_topic_config_error_code(29).with_configs(Some(vec![config]))
        } else {
            topic
        };
        let topic = if version >= 7 { topic.with_topic_id(id()) } else { topic };
        CreateTopicsResponse::default().with_topics(vec![topic])
    }
}
