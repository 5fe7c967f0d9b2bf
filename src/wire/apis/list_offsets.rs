//! ListOffsets (2): log start and latest offset.

use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::prelude::*;

pub(super) type Request = ListOffsetsRequest;
pub(super) type Response = ListOffsetsResponse;

pub(super) const SPEC: Spec = Spec::new(2, versions(1, 10), 6, Served::Broker);

schema_message!(ListOffsetsRequest, {
    replica_id 0: I32,
    isolation_level 2: I8,
    topics 0: [{
        name 0: String,
        partitions 0: [{ index 0: I32, current_leader_epoch 4: I32, timestamp 0: I64 }],
    }],
    timeout_ms 10: I32,
});

schema_message!(ListOffsetsResponse, {
    throttle_time_ms 2: I32,
    topics 0: [{
        name 0: String,
        partitions 0: [{
            index 0: I32,
            error_code 0: I16,
            timestamp 0: I64,
            offset 0: I64,
            leader_epoch 4: I32,
        }],
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, list_offsets_request, list_offsets_response};

    use super::*;
    use crate::wire::tests::samples::name;

    pub(in crate::wire) fn request(version: i16) -> Request {
        let partition = list_offsets_request::ListOffsetsPartition::default()
            .with_partition_index(3)
            .with_current_leader_epoch(if version >= 4 { 4 } else { -1 })
            .with_timestamp(-1);
        let topic = list_offsets_request::ListOffsetsTopic::default()
            .with_name(name("bench"))
            .with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let partition = list_offsets_response::ListOffsetsPartitionResponse::default()
            .with_partition_index(3)
            .with_offset(77)
            .with_leader_epoch(if version >= 4 { 4 } else { -1 });
        let topic = list_offsets_response::ListOffsetsTopicResponse::default()
            .with_name(name("bench"))
            .with_partitions(vec![partition]);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }
}
