//! OffsetForLeaderEpoch (23): where a leader epoch ends.

use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::prelude::*;

pub(super) type Request = OffsetForLeaderEpochRequest;
pub(super) type Response = OffsetForLeaderEpochResponse;

pub(super) const SPEC: Spec = Spec::new(23, versions(2, 4), 4, Served::Broker);

schema_message!(OffsetForLeaderEpochRequest, {
    replica_id 3: I32,
    topics 0: [{
        name 0: String,
        partitions 0: [{ index 0: I32, current_leader_epoch 0: I32, leader_epoch 0: I32 }],
    }],
});

schema_message!(OffsetForLeaderEpochResponse, {
    throttle_time_ms 0: I32,
    topics 0: [{
        name 0: String,
        partitions 0: [{
            error_code 0: I16,
            index 0: I32,
            leader_epoch 0: I32,
            end_offset 0: I64,
        }],
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{
        BrokerId, offset_for_leader_epoch_request, offset_for_leader_epoch_response,
    };

    use super::*;
    use crate::wire::tests::samples::name;

    pub(in crate::wire) fn request(version: i16) -> Request {
        let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
            .with_partition(1)
            .with_current_leader_epoch(4)
            .with_leader_epoch(3);
        let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
            .with_topic(name("bench"))
            .with_partitions(vec![partition]);
        OffsetForLeaderEpochRequest::default()
            .with_replica_id(BrokerId(if version >= 3 { 2 } else { -2 }))
            .with_topics(vec![topic])
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        let end = offset_for_leader_epoch_response::EpochEndOffset::default()
            .with_partition(1)
            .with_leader_epoch(3)
            .with_end_offset(60);
        let topic = offset_for_leader_epoch_response::OffsetForLeaderTopicResult::default()
            .with_topic(name("bench"))
            .with_partitions(vec![end]);
        OffsetForLeaderEpochResponse::default().with_topics(vec![topic])
    }
}
