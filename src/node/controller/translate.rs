//! Kafka's messages to the controller machine's values and back. Sentinels of the wire (-1, empty,
//! absent by version) end here; no rule is decided.

use kafka_protocol::messages::alter_partition_response::{PartitionData, TopicData};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, ProducerId, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::admin;
use crate::config::node::ControllerConfig;
use crate::protocol::controller::{
    AlterPartition, AlteredPartition, CreateTopics, CreatedTopic, DeletedTopic, Heartbeat,
    HeartbeatReply, NewTopic, ProposalOutcome, Quirks, Refusal, Registration, Request, Response,
    Settings, TopicSelector,
};
use crate::protocol::metadata::{DirectoryId, Endpoint, FeatureRange, IncarnationId};
use crate::protocol::partition::IsrProposal;
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId,
    TopicPartition,
};
use crate::wire;

/// First versions of CreateTopics answers with counts, and with topic ids.
const CREATE_TOPICS_COUNTS_FROM: i16 = 5;
const CREATE_TOPICS_IDS_FROM: i16 = 7;
/// First versions of DeleteTopics with messages, and with topic ids.
const DELETE_TOPICS_MESSAGES_FROM: i16 = 5;
const DELETE_TOPICS_IDS_FROM: i16 = 6;
/// First version of AlterPartition with broker epochs.
const ISR_EPOCHS_FROM: i16 = 3;

/// What the configuration means for the controller machine.
pub(super) fn settings(config: &ControllerConfig) -> Settings {
    let election = config.election;
    Settings {
        elr_level: election.elr_level,
        unclean_recovery_manager: election.unclean_recovery_manager,
        compat: election.compat,
        quirks: Quirks::of(election.compat),
        ..Settings::new(config.cluster_id.clone(), config.session_timeout)
    }
}

/// A request as the controller takes it.
#[derive(Debug)]
pub(super) enum Asked {
    /// For the controller machine.
    Controller(Request),
    /// Not even that; this is the answer.
    Refused(wire::Response),
}

/// What the controller is asked; `None` if this is nothing for the controller machine.
pub(super) fn request(version: i16, request: wire::Request) -> Option<Asked> {
    Some(Asked::Controller(match request {
        wire::Request::BrokerRegistration(request) => {
            Request::RegisterBroker(registration(request))
        }
        wire::Request::BrokerHeartbeat(request) => Request::Heartbeat(heartbeat(&request)),
        wire::Request::AlterPartition(request) => {
            Request::AlterPartition(alter_partition(version, request))
        }
        wire::Request::CreateTopics(request) => Request::CreateTopics(create_topics(request)),
        wire::Request::DeleteTopics(request) => Request::DeleteTopics(delete_topics(request)),
        wire::Request::ElectLeaders(request) => match admin::elect_leaders(request) {
            Ok(request) => Request::ElectLeaders(request),
            Err(refused) => return Some(Asked::Refused(wire::Response::ElectLeaders(refused))),
        },
        wire::Request::IncrementalAlterConfigs(request) => match admin::alter_configs(request) {
            Ok(request) => Request::AlterConfigs(request),
            Err(refused) => {
                return Some(Asked::Refused(wire::Response::IncrementalAlterConfigs(refused)));
            }
        },
        wire::Request::AllocateProducerIds(request) => Request::AllocateProducerIds {
            broker: BrokerId(request.broker_id.0),
            epoch: BrokerEpoch(request.broker_epoch),
        },
        _ => return None,
    }))
}

fn registration(request: BrokerRegistrationRequest) -> Registration {
    let damaged = wire::damaged(&request);
    let endpoint =
        |listener: kafka_protocol::messages::broker_registration_request::Listener| Endpoint {
            name: listener.name.to_string(),
            host: listener.host.to_string(),
            port: listener.port,
            security_protocol: listener.security_protocol,
        };
    let feature =
        |feature: kafka_protocol::messages::broker_registration_request::Feature| FeatureRange {
            name: feature.name.to_string(),
            min: feature.min_supported_version,
            max: feature.max_supported_version,
        };
    Registration {
        broker: BrokerId(request.broker_id.0),
        cluster_id: request.cluster_id.to_string(),
        incarnation: IncarnationId(request.incarnation_id.into_bytes()),
        endpoints: request.listeners.into_iter().map(endpoint).collect(),
        features: request.features.into_iter().map(feature).collect(),
        rack: request.rack.map(|rack| rack.to_string()),
        log_dirs: request.log_dirs.iter().copied().map(directory).collect(),
        // A list that cannot be read may name any replica.
        previous_epoch: known_epoch(request.previous_broker_epoch).filter(|_| damaged.is_some()),
        damaged: damaged.unwrap_or_default(),
    }
}

fn heartbeat(request: &BrokerHeartbeatRequest) -> Heartbeat {
    Heartbeat {
        broker: BrokerId(request.broker_id.0),
        epoch: BrokerEpoch(request.broker_epoch),
        metadata_end: Offset(request.current_metadata_offset.saturating_add(1)),
        want_fence: request.want_fence,
        want_shut_down: request.want_shut_down,
        offline_log_dirs: request.offline_log_dirs.iter().copied().map(directory).collect(),
        resources: wire::resources(request),
    }
}

fn alter_partition(version: i16, request: AlterPartitionRequest) -> AlterPartition {
    let mut proposals = Vec::new();
    for topic in request.topics {
        let id = TopicId(topic.topic_id.into_bytes());
        for partition in topic.partitions {
            let isr = if version >= ISR_EPOCHS_FROM {
                let members = partition.new_isr_with_epochs.iter();
                members.map(|m| (BrokerId(m.broker_id.0), known_epoch(m.broker_epoch))).collect()
            } else {
                partition.new_isr.iter().map(|member| (BrokerId(member.0), None)).collect()
            };
            let proposal = IsrProposal {
                leader_epoch: LeaderEpoch(partition.leader_epoch),
                partition_epoch: PartitionEpoch(partition.partition_epoch),
                isr,
                recovering: partition.leader_recovery_state != 0,
            };
            let partition = PartitionId(partition.partition_index);
            proposals.push((TopicPartition { topic: id, partition }, proposal));
        }
    }
    AlterPartition {
        broker: BrokerId(request.broker_id.0),
        epoch: BrokerEpoch(request.broker_epoch),
        proposals,
    }
}

fn create_topics(request: CreateTopicsRequest) -> CreateTopics {
    CreateTopics {
        topics: request.topics.into_iter().map(new_topic).collect(),
        validate_only: request.validate_only,
    }
}

fn new_topic(topic: CreatableTopic) -> NewTopic {
    let assignments = topic.assignments.into_iter().map(|assignment| {
        let replicas = assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect();
        (PartitionId(assignment.partition_index), replicas)
    });
    let configs = topic.configs.into_iter();
    NewTopic {
        name: topic.name.to_string(),
        id: TopicId(Uuid::new_v4().into_bytes()),
        partition_count: Some(topic.num_partitions).filter(|&count| count != -1),
        replication_factor: Some(topic.replication_factor).filter(|&factor| factor != -1),
        assignments: assignments.collect(),
        configs: configs
            .map(|config| (config.name.to_string(), config.value.map(|value| value.to_string())))
            .collect(),
    }
}

fn delete_topics(request: DeleteTopicsRequest) -> Vec<TopicSelector> {
    let by_name = request.topic_names.into_iter().map(|name| TopicSelector::Name(name.to_string()));
    let by_either = request.topics.into_iter().map(|topic| match topic.name {
        Some(name) => TopicSelector::Name(name.to_string()),
        None => TopicSelector::Id(TopicId(topic.topic_id.into_bytes())),
    });
    by_name.chain(by_either).collect()
}

fn directory(id: Uuid) -> DirectoryId {
    DirectoryId(id.into_bytes())
}

/// -1 is the wire's "not given"; no registration has another negative epoch.
fn known_epoch(epoch: i64) -> Option<BrokerEpoch> {
    (epoch != -1).then_some(BrokerEpoch(epoch))
}

/// The answer to a request of `version`; `None` if the wire has no message for it yet.
pub(super) fn response(version: i16, response: Response) -> Option<wire::Response> {
    Some(match response {
        Response::RegisterBroker(result) => wire::Response::BrokerRegistration(registered(result)),
        Response::Heartbeat(result) => wire::Response::BrokerHeartbeat(heartbeat_reply(result)),
        Response::AlterPartition(result) => wire::Response::AlterPartition(altered(result)),
        Response::CreateTopics(results) => wire::Response::CreateTopics(
            CreateTopicsResponse::default()
                .with_topics(results.into_iter().map(|result| created(version, result)).collect()),
        ),
        Response::DeleteTopics(results) => wire::Response::DeleteTopics(
            DeleteTopicsResponse::default()
                .with_responses(results.into_iter().map(|r| deleted(version, r)).collect()),
        ),
        Response::AllocateProducerIds(result) => {
            wire::Response::AllocateProducerIds(producer_ids(result))
        }
        Response::ElectLeaders(outcomes) => {
            wire::Response::ElectLeaders(admin::leaders_elected(outcomes))
        }
        Response::AlterConfigs(outcomes) => {
            wire::Response::IncrementalAlterConfigs(admin::configs_altered(outcomes))
        }
        Response::UnregisterBroker(_)
        | Response::ReplicaLogs
        | Response::Reassign(_)
        | Response::AssignDirectory(_)
        | Response::UpdateFeature(_) => return None,
    })
}

fn registered(result: Result<BrokerEpoch, ErrorCode>) -> BrokerRegistrationResponse {
    BrokerRegistrationResponse::default()
        .with_error_code(error_code(&result))
        .with_broker_epoch(result.map_or(-1, |epoch| epoch.0))
}

fn heartbeat_reply(result: Result<HeartbeatReply, ErrorCode>) -> BrokerHeartbeatResponse {
    let response = BrokerHeartbeatResponse::default().with_error_code(error_code(&result));
    match result {
        Ok(reply) => response
            .with_is_caught_up(reply.is_caught_up)
            .with_is_fenced(reply.is_fenced)
            .with_should_shut_down(reply.should_shut_down),
        Err(_) => response,
    }
}

fn altered(result: Result<Vec<ProposalOutcome>, ErrorCode>) -> AlterPartitionResponse {
    let response = AlterPartitionResponse::default().with_error_code(error_code(&result));
    let mut topics: Vec<TopicData> = Vec::new();
    for (id, outcome) in result.unwrap_or_default() {
        let topic = Uuid::from_bytes(id.topic.0);
        let partition = altered_partition(id.partition, outcome);
        match topics.last_mut() {
            Some(last) if last.topic_id == topic => last.partitions.push(partition),
            Some(_) | None => topics
                .push(TopicData::default().with_topic_id(topic).with_partitions(vec![partition])),
        }
    }
    response.with_topics(topics)
}

fn altered_partition(
    id: PartitionId,
    outcome: Result<AlteredPartition, ErrorCode>,
) -> PartitionData {
    let response =
        PartitionData::default().with_partition_index(id.0).with_error_code(error_code(&outcome));
    let Ok(AlteredPartition { committed, recovering }) = outcome else { return response };
    response
        .with_leader_id(committed.leader.map_or(-1, |leader| leader.0).into())
        .with_leader_epoch(committed.leader_epoch.0)
        .with_isr(committed.isr.iter().map(|member| member.0.into()).collect())
        .with_leader_recovery_state(i8::from(recovering))
        .with_partition_epoch(committed.partition_epoch.0)
}

fn created(
    version: i16,
    (name, result): (String, Result<CreatedTopic, Refusal>),
) -> CreatableTopicResult {
    let response =
        CreatableTopicResult::default().with_name(topic_name(name)).with_error_message(None);
    match result {
        Err(refusal) => response
            .with_error_code(refusal.error.code())
            .with_error_message(Some(StrBytes::from_string(refusal.message))),
        Ok(_) if version < CREATE_TOPICS_COUNTS_FROM => response,
        Ok(topic) => {
            let id = if version < CREATE_TOPICS_IDS_FROM { TopicId::ZERO } else { topic.id };
            response
                .with_topic_id(Uuid::from_bytes(id.0))
                .with_num_partitions(i32::try_from(topic.partition_count).unwrap_or(i32::MAX))
                .with_replication_factor(
                    i16::try_from(topic.replication_factor).unwrap_or(i16::MAX),
                )
        }
    }
}

fn deleted(
    version: i16,
    (selector, result): (TopicSelector, Result<DeletedTopic, ErrorCode>),
) -> DeletableTopicResult {
    let response = DeletableTopicResult::default().with_error_code(error_code(&result));
    let response = match &result {
        Err(error) if version >= DELETE_TOPICS_MESSAGES_FROM => {
            response.with_error_message(Some(StrBytes::from_string(error.to_string())))
        }
        Err(_) | Ok(_) => response,
    };
    let (name, id) = match (result, selector) {
        (Ok(topic), _) => (Some(topic.name), topic.id),
        (Err(_), TopicSelector::Name(name)) => (Some(name), TopicId::ZERO),
        (Err(_), TopicSelector::Id(id)) => (None, id),
    };
    let id = if version < DELETE_TOPICS_IDS_FROM { TopicId::ZERO } else { id };
    response.with_name(name.map(topic_name)).with_topic_id(Uuid::from_bytes(id.0))
}

fn producer_ids(result: Result<(i64, i32), ErrorCode>) -> AllocateProducerIdsResponse {
    let response = AllocateProducerIdsResponse::default().with_error_code(error_code(&result));
    match result {
        Ok((start, length)) => {
            response.with_producer_id_start(ProducerId(start)).with_producer_id_len(length)
        }
        Err(_) => response,
    }
}

fn topic_name(name: String) -> TopicName {
    TopicName(StrBytes::from_string(name))
}

fn error_code<T>(result: &Result<T, ErrorCode>) -> i16 {
    result.as_ref().err().map_or(0, |error| error.code())
}
