//! AlterPartition (56): proposes ISR changes to the controller.

use kafka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};

use super::prelude::*;

pub(super) type Request = AlterPartitionRequest;
pub(super) type Response = AlterPartitionResponse;

pub(super) const SPEC: Spec = Spec::new(56, versions(2, 3), 0, Served::Controller);

schema_message!(AlterPartitionRequest, {
    broker_id 0: I32,
    broker_epoch 0: I64,
    topics 0: [{
        topic_id 0: UUID,
        partitions 0: [{
            index 0: I32,
            leader_epoch 0: I32,
            new_isr 0 to 2: [I32],
            new_isr_with_epochs 3: [{ broker_id 0: I32, broker_epoch 0: I64 }],
            leader_recovery_state 0: I8,
            partition_epoch 0: I32,
        }],
    }],
});

schema_message!(AlterPartitionResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    topics 0: [{
        topic_id 0: UUID,
        partitions 0: [{
            index 0: I32,
            error_code 0: I16,
            leader_id 0: I32,
            leader_epoch 0: I32,
            isr 0: [I32],
            leader_recovery_state 0: I8,
            partition_epoch 0: I32,
        }],
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, alter_partition_request, alter_partition_response};

    use super::*;
    use crate::wire::tests::samples::{id, nodes};

    pub(in crate::wire) fn request(version: i16) -> Request {
        let partition = alter_partition_request::PartitionData::default()
            .with_partition_index(3)
            .with_leader_epoch(4)
            .with_partition_epoch(6);
        let partition = if version >= 3 {
            let member = alter_partition_request::BrokerState::default();
            partition.with_new_isr_with_epochs(vec![
                member.clone().with_broker_id(BrokerId(1)).with_broker_epoch(8),
                member.with_broker_id(BrokerId(2)),
            ])
        } else {
            partition.with_new_isr(nodes())
        };
        let topic = alter_partition_request::TopicData::default()
            .with_topic_id(id())
            .with_partitions(vec![partition]);
        AlterPartitionRequest::default()
            .with_broker_id(BrokerId(1))
            .with_broker_epoch(8)
            .with_topics(vec![topic])
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        let partition = alter_partition_response::PartitionData::default()
            .with_partition_index(3)
            .with_leader_id(BrokerId(1))
            .with_isr(nodes())
            .with_partition_epoch(7);
        let topic = alter_partition_response::TopicData::default()
            .with_topic_id(id())
            .with_partitions(vec![partition]);
        AlterPartitionResponse::default().with_topics(vec![topic])
    }
}
