//! What operators and leaders ask of a running controller.

use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterPartitionRequest, BrokerHeartbeatRequest, CreateTopicsRequest,
    IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::process::Client;
use crate::protocol::metadata::PartitionRegistration;
use crate::types::{BrokerId, ErrorCode, Offset, PartitionId, TopicId, TopicPartition};
use crate::wire::{ElectLeadersRequest, ElectLeadersTopic, Request, Response};

/// The topic of these tests; it has one partition.
pub(super) const TOPIC: &str = "topic";
/// "Everything", for a heartbeat.
const ALL_APPLIED: i64 = i64::MAX - 1;

pub(super) fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// An AlterPartition of [`TOPIC`].
pub(super) struct Proposal {
    pub(super) broker: i32,
    pub(super) broker_epoch: i64,
    pub(super) leader_epoch: i32,
    pub(super) partition_epoch: i32,
    /// Members with their epochs.
    pub(super) isr: Vec<(i32, i64)>,
    pub(super) recovering: bool,
}

impl Client {
    pub(super) fn create(&mut self, replicas: &[i32], configs: &[(&str, &str)]) -> TopicId {
        let assignment = CreatableReplicaAssignment::default()
            .with_broker_ids(replicas.iter().map(|&id| id.into()).collect());
        let config = |(key, value): &(&str, &str)| {
            CreatableTopicConfig::default().with_name(string(key)).with_value(Some(string(value)))
        };
        let topic = CreatableTopic::default()
            .with_name(TopicName(string(TOPIC)))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments(vec![assignment])
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        let Response::CreateTopics(answer) = self.ask(7, Request::CreateTopics(request)) else {
            panic!()
        };
        assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
        TopicId(answer.topics[0].topic_id.into_bytes())
    }

    pub(super) fn propose(&mut self, topic: TopicId, proposal: &Proposal) -> ErrorCode {
        let member = |&(broker, epoch): &(i32, i64)| {
            BrokerState::default().with_broker_id(broker.into()).with_broker_epoch(epoch)
        };
        let partition = PartitionData::default()
            .with_leader_epoch(proposal.leader_epoch)
            .with_partition_epoch(proposal.partition_epoch)
            .with_leader_recovery_state(i8::from(proposal.recovering))
            .with_new_isr_with_epochs(proposal.isr.iter().map(member).collect());
        let topic = TopicData::default()
            .with_topic_id(Uuid::from_bytes(topic.0))
            .with_partitions(vec![partition]);
        let request = AlterPartitionRequest::default()
            .with_broker_id(proposal.broker.into())
            .with_broker_epoch(proposal.broker_epoch)
            .with_topics(vec![topic]);
        let Response::AlterPartition(answer) = self.ask(3, Request::AlterPartition(request)) else {
            panic!()
        };
        let of_partition = answer.topics.first().map(|topic| topic.partitions[0].error_code);
        ErrorCode::from_code(of_partition.unwrap_or(answer.error_code))
    }

    /// A heartbeat of a broker that has applied everything.
    pub(super) fn beat(
        &mut self,
        broker: i32,
        epoch: i64,
        want_fence: bool,
        want_shut_down: bool,
    ) -> ErrorCode {
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(broker.into())
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(ALL_APPLIED)
            .with_want_fence(want_fence)
            .with_want_shut_down(want_shut_down);
        match self.ask(1, Request::BrokerHeartbeat(request)) {
            Response::BrokerHeartbeat(answer) => ErrorCode::from_code(answer.error_code),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn elect(
        &mut self,
        election_type: i8,
        desired: Option<i32>,
    ) -> (ErrorCode, Option<String>) {
        let topic = ElectLeadersTopic {
            name: string(TOPIC),
            partitions: vec![PartitionId(0)],
            desired_leaders: desired.map(|leader| vec![BrokerId(leader)]),
        };
        let request =
            ElectLeadersRequest { election_type, topics: Some(vec![topic]), timeout_ms: 1000 };
        let Response::ElectLeaders(answer) = self.ask(3, Request::ElectLeaders(request)) else {
            panic!()
        };
        match answer.topics.first().map(|topic| &topic.partitions[0]) {
            None => (answer.error, None),
            Some(outcome) => (outcome.error, outcome.message.as_ref().map(ToString::to_string)),
        }
    }

    /// Sets a topic's value, or the cluster's.
    pub(super) fn set(&mut self, topic: Option<&str>, key: &str, value: &str) -> ErrorCode {
        let config =
            AlterableConfig::default().with_name(string(key)).with_value(Some(string(value)));
        self.alter(topic, config).0
    }

    pub(super) fn alter(
        &mut self,
        topic: Option<&str>,
        config: AlterableConfig,
    ) -> (ErrorCode, Option<String>) {
        let resource = AlterConfigsResource::default()
            .with_resource_type(if topic.is_some() { 2 } else { 4 })
            .with_resource_name(string(topic.unwrap_or_default()))
            .with_configs(vec![config]);
        let request =
            IncrementalAlterConfigsRequest::default().with_resources(vec![resource.clone()]);
        let Response::IncrementalAlterConfigs(answer) =
            self.ask(1, Request::IncrementalAlterConfigs(request))
        else {
            panic!()
        };
        let answer = &answer.responses[0];
        assert_eq!(answer.resource_name, resource.resource_name);
        let message = answer.error_message.as_ref().map(ToString::to_string);
        (ErrorCode::from_code(answer.error_code), message)
    }

    /// The only partition, as committed.
    pub(super) fn partition(&mut self, topic: TopicId) -> PartitionRegistration {
        let id = TopicPartition { topic, partition: PartitionId(0) };
        self.metadata().partition(id).unwrap().clone()
    }

    pub(super) fn end(&mut self) -> Offset {
        self.metadata().end_offset()
    }
}
