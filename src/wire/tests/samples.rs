//! One request and one response of each API at each version, with as much in it as the version
//! carries. Those of Produce and Fetch are in `hot_samples`.

use kafka_protocol::messages::*;
use uuid::Uuid;

use super::hot_samples::{fetch_request, fetch_response, produce_request, produce_response, text};
use crate::types::{BrokerEpoch, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId};
use crate::wire::{
    ApiKey, ElectLeadersOutcome, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic,
    ElectLeadersTopicResponse, Listener, ReplicaLogInfo, ReplicaLogInfoRequest,
    ReplicaLogInfoResponse, Request, Response,
};

fn name(name: &'static str) -> TopicName {
    TopicName(text(name))
}

fn id() -> Uuid {
    Uuid::from_bytes([9; 16])
}

fn nodes() -> Vec<BrokerId> {
    vec![BrokerId(1), BrokerId(2), BrokerId(3)]
}

/// Each API at each version this room knows.
pub(super) fn versions() -> impl Iterator<Item = (ApiKey, i16)> {
    ApiKey::ALL.iter().flat_map(|&api| {
        let range = api.codec_range();
        (range.min..=range.max).map(move |version| (api, version))
    })
}

/// A listener that serves the API.
pub(super) fn listener(api: ApiKey) -> Listener {
    match api.served_range(Listener::Broker) {
        Some(_) => Listener::Broker,
        None => Listener::Controller,
    }
}

pub(super) fn request(api: ApiKey, version: i16) -> Request {
    match api {
        ApiKey::Produce => Request::Produce(produce_request(version)),
        ApiKey::Fetch => Request::Fetch(fetch_request(version)),
        ApiKey::ListOffsets => Request::ListOffsets(list_offsets_request(version)),
        ApiKey::Metadata => Request::Metadata(metadata_request(version)),
        ApiKey::ApiVersions => Request::ApiVersions(if version >= 3 {
            ApiVersionsRequest::default()
                .with_client_software_name(text("ackmark"))
                .with_client_software_version(text("0.1.0"))
        } else {
            ApiVersionsRequest::default()
        }),
        ApiKey::CreateTopics => Request::CreateTopics(create_topics_request()),
        ApiKey::DeleteTopics => Request::DeleteTopics(if version >= 6 {
            let state = delete_topics_request::DeleteTopicState::default();
            let by_name = state.clone().with_name(Some(name("bench")));
            let by_id = state.with_topic_id(id());
            DeleteTopicsRequest::default().with_topics(vec![by_name, by_id]).with_timeout_ms(1)
        } else {
            let names = vec![name("bench"), name("other")];
            DeleteTopicsRequest::default().with_topic_names(names).with_timeout_ms(1)
        }),
        ApiKey::InitProducerId => Request::InitProducerId(if version >= 3 {
            InitProducerIdRequest::default().with_producer_id(ProducerId(5)).with_producer_epoch(1)
        } else {
            InitProducerIdRequest::default().with_transactional_id(Some(text("t").into()))
        }),
        ApiKey::OffsetForLeaderEpoch => Request::OffsetForLeaderEpoch(epoch_end_request(version)),
        ApiKey::DescribeConfigs => Request::DescribeConfigs(describe_configs_request()),
        ApiKey::ElectLeaders => Request::ElectLeaders(elect_leaders_request(version)),
        ApiKey::IncrementalAlterConfigs => {
            Request::IncrementalAlterConfigs(alter_configs_request())
        }
        ApiKey::DescribeQuorum => {
            let partition = describe_quorum_request::PartitionData::default();
            let topic = describe_quorum_request::TopicData::default()
                .with_topic_name(name("__cluster_metadata"))
                .with_partitions(vec![partition.with_partition_index(0)]);
            Request::DescribeQuorum(DescribeQuorumRequest::default().with_topics(vec![topic]))
        }
        ApiKey::AlterPartition => Request::AlterPartition(alter_partition_request(version)),
        ApiKey::DescribeCluster => Request::DescribeCluster(
            DescribeClusterRequest::default().with_include_fenced_brokers(version >= 2),
        ),
        ApiKey::BrokerRegistration => Request::BrokerRegistration(registration_request(version)),
        ApiKey::BrokerHeartbeat => Request::BrokerHeartbeat(
            BrokerHeartbeatRequest::default()
                .with_broker_id(BrokerId(1))
                .with_broker_epoch(8)
                .with_current_metadata_offset(99)
                .with_offline_log_dirs(if version >= 1 { vec![id(), id()] } else { vec![] }),
        ),
        ApiKey::AllocateProducerIds => Request::AllocateProducerIds(
            AllocateProducerIdsRequest::default().with_broker_id(BrokerId(1)).with_broker_epoch(8),
        ),
        ApiKey::DescribeTopicPartitions => {
            let cursor = describe_topic_partitions_request::Cursor::default()
                .with_topic_name(name("bench"))
                .with_partition_index(4);
            let topic = describe_topic_partitions_request::TopicRequest::default();
            Request::DescribeTopicPartitions(
                DescribeTopicPartitionsRequest::default()
                    .with_topics(vec![topic.with_name(name("bench"))])
                    .with_cursor(Some(cursor)),
            )
        }
        ApiKey::GetReplicaLogInfo => {
            let partitions = vec![PartitionId(0), PartitionId(7)];
            Request::GetReplicaLogInfo(ReplicaLogInfoRequest {
                topics: Some(vec![(TopicId([9; 16]), partitions)]),
            })
        }
    }
}

fn elect_leaders_request(version: i16) -> ElectLeadersRequest {
    let desired_leaders =
        (version >= 3).then(|| vec![crate::types::BrokerId(1), crate::types::BrokerId(2)]);
    let topic = ElectLeadersTopic {
        name: text("bench"),
        partitions: vec![PartitionId(0), PartitionId(3)],
        desired_leaders,
    };
    ElectLeadersRequest {
        election_type: [0, 1, 1, 4][usize::try_from(version).unwrap()],
        topics: Some(vec![topic]),
        timeout_ms: 60_000,
    }
}

fn alter_configs_request() -> IncrementalAlterConfigsRequest {
    use incremental_alter_configs_request as schema;
    let config = schema::AlterableConfig::default()
        .with_name(text("min.insync.replicas"))
        .with_value(Some(text("2")));
    let removal = schema::AlterableConfig::default()
        .with_name(text("unclean.recovery.strategy"))
        .with_config_operation(1)
        .with_value(None);
    let resource = schema::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("bench"))
        .with_configs(vec![config, removal]);
    IncrementalAlterConfigsRequest::default()
        .with_resources(vec![resource])
        .with_validate_only(true)
}

fn epoch_end_request(version: i16) -> OffsetForLeaderEpochRequest {
    use offset_for_leader_epoch_request as schema;
    let partition = schema::OffsetForLeaderPartition::default()
        .with_partition(1)
        .with_current_leader_epoch(4)
        .with_leader_epoch(3);
    let topic = schema::OffsetForLeaderTopic::default()
        .with_topic(name("bench"))
        .with_partitions(vec![partition]);
    OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(if version >= 3 { 2 } else { -2 }))
        .with_topics(vec![topic])
}

fn describe_configs_request() -> DescribeConfigsRequest {
    let resource = describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("bench"));
    let keys = Some(vec![text("flush.ms"), text("flush.messages")]);
    let some_keys = resource.clone().with_configuration_keys(keys);
    let all_keys = resource.with_configuration_keys(None);
    DescribeConfigsRequest::default().with_resources(vec![some_keys, all_keys])
}

fn list_offsets_request(version: i16) -> ListOffsetsRequest {
    let partition = list_offsets_request::ListOffsetsPartition::default()
        .with_partition_index(3)
        .with_current_leader_epoch(if version >= 4 { 4 } else { -1 })
        .with_timestamp(-1);
    let topic = list_offsets_request::ListOffsetsTopic::default()
        .with_name(name("bench"))
        .with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

fn metadata_request(version: i16) -> MetadataRequest {
    let topic = metadata_request::MetadataRequestTopic::default();
    let topic = if version >= 10 { topic.with_topic_id(id()) } else { topic };
    let topic = topic.with_name(Some(name("bench")));
    MetadataRequest::default().with_topics(Some(vec![topic]))
}

fn create_topics_request() -> CreateTopicsRequest {
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

fn alter_partition_request(version: i16) -> AlterPartitionRequest {
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

fn registration_request(version: i16) -> BrokerRegistrationRequest {
    let listener = broker_registration_request::Listener::default()
        .with_name(text("PLAINTEXT"))
        .with_host(text("127.0.0.1"))
        .with_port(65_535);
    let feature = broker_registration_request::Feature::default()
        .with_name(text("metadata.version"))
        .with_min_supported_version(7)
        .with_max_supported_version(27);
    BrokerRegistrationRequest::default()
        .with_broker_id(BrokerId(1))
        .with_cluster_id(text("cluster"))
        .with_incarnation_id(id())
        .with_listeners(vec![listener])
        .with_features(vec![feature])
        .with_rack(Some(text("rack")))
        .with_log_dirs(if version >= 2 { vec![id()] } else { vec![] })
        .with_previous_broker_epoch(if version >= 3 { 7 } else { -1 })
}

pub(super) fn response(api: ApiKey, version: i16) -> Response {
    match api {
        ApiKey::Produce => Response::Produce(produce_response(version)),
        ApiKey::Fetch => Response::Fetch(fetch_response(version)),
        ApiKey::ListOffsets => Response::ListOffsets(list_offsets_response(version)),
        ApiKey::Metadata => Response::Metadata(metadata_response(version)),
        ApiKey::ApiVersions => Response::ApiVersions(api_versions_sample(version)),
        ApiKey::CreateTopics => Response::CreateTopics(create_topics_response(version)),
        ApiKey::DeleteTopics => {
            let result = delete_topics_response::DeletableTopicResult::default()
                .with_name(Some(name("bench")))
                .with_error_code(3);
            let result = if version >= 6 { result.with_topic_id(id()) } else { result };
            let message = (version >= 5).then(|| text("no such topic"));
            Response::DeleteTopics(
                DeleteTopicsResponse::default()
                    .with_responses(vec![result.with_error_message(message)]),
            )
        }
        ApiKey::InitProducerId => Response::InitProducerId(
            InitProducerIdResponse::default().with_producer_id(ProducerId(5)),
        ),
        ApiKey::OffsetForLeaderEpoch => {
            let end = offset_for_leader_epoch_response::EpochEndOffset::default()
                .with_partition(1)
                .with_leader_epoch(3)
                .with_end_offset(60);
            let topic = offset_for_leader_epoch_response::OffsetForLeaderTopicResult::default()
                .with_topic(name("bench"))
                .with_partitions(vec![end]);
            Response::OffsetForLeaderEpoch(
                OffsetForLeaderEpochResponse::default().with_topics(vec![topic]),
            )
        }
        ApiKey::DescribeConfigs => Response::DescribeConfigs(describe_configs_response(version)),
        ApiKey::ElectLeaders => Response::ElectLeaders(elect_leaders_response(version)),
        ApiKey::IncrementalAlterConfigs => {
            let resource =
                incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                    .with_error_code(40)
                    .with_error_message(Some(text("min.insync.replicas = 0: must be 1")))
                    .with_resource_type(2)
                    .with_resource_name(text("bench"));
            Response::IncrementalAlterConfigs(
                IncrementalAlterConfigsResponse::default().with_responses(vec![resource]),
            )
        }
        ApiKey::DescribeQuorum => Response::DescribeQuorum(describe_quorum_response(version)),
        ApiKey::AlterPartition => Response::AlterPartition(alter_partition_response()),
        ApiKey::DescribeCluster => {
            let broker = describe_cluster_response::DescribeClusterBroker::default()
                .with_broker_id(BrokerId(1))
                .with_host(text("127.0.0.1"))
                .with_port(9092)
                .with_is_fenced(version >= 2);
            Response::DescribeCluster(
                DescribeClusterResponse::default()
                    .with_cluster_id(text("cluster"))
                    .with_controller_id(BrokerId(100))
                    .with_brokers(vec![broker]),
            )
        }
        ApiKey::BrokerRegistration => {
            Response::BrokerRegistration(BrokerRegistrationResponse::default().with_broker_epoch(8))
        }
        ApiKey::BrokerHeartbeat => Response::BrokerHeartbeat(
            BrokerHeartbeatResponse::default().with_is_caught_up(true).with_is_fenced(false),
        ),
        ApiKey::AllocateProducerIds => Response::AllocateProducerIds(
            AllocateProducerIdsResponse::default().with_producer_id_len(1_000),
        ),
        ApiKey::DescribeTopicPartitions => {
            Response::DescribeTopicPartitions(describe_topic_partitions_response())
        }
        ApiKey::GetReplicaLogInfo => Response::GetReplicaLogInfo(replica_log_info_response()),
    }
}

fn elect_leaders_response(version: i16) -> ElectLeadersResponse {
    let outcome = |partition, error, message| ElectLeadersOutcome {
        partition: PartitionId(partition),
        error,
        message,
    };
    let refused = Some(text("broker 2 is not active"));
    let partitions = vec![
        outcome(0, ErrorCode::None, None),
        outcome(3, ErrorCode::EligibleLeadersNotAvailable, refused),
    ];
    let error = if version >= 1 { ErrorCode::InvalidRequest } else { ErrorCode::None };
    let topics = vec![ElectLeadersTopicResponse { name: text("bench"), partitions }];
    ElectLeadersResponse { error, topics }
}

fn replica_log_info_response() -> ReplicaLogInfoResponse {
    let written = ReplicaLogInfo {
        partition: PartitionId(0),
        last_written_leader_epoch: Some(LeaderEpoch(4)),
        current_leader_epoch: Some(LeaderEpoch(5)),
        log_end_offset: Offset(77),
        error: ErrorCode::None,
    };
    let unknown = ReplicaLogInfo {
        partition: PartitionId(7),
        last_written_leader_epoch: None,
        current_leader_epoch: None,
        log_end_offset: Offset(-1),
        error: ErrorCode::UnknownTopicId,
    };
    ReplicaLogInfoResponse {
        broker_epoch: Some(BrokerEpoch(8)),
        has_more_data: true,
        topics: vec![(TopicId([9; 16]), vec![written, unknown])],
    }
}

fn list_offsets_response(version: i16) -> ListOffsetsResponse {
    let partition = list_offsets_response::ListOffsetsPartitionResponse::default()
        .with_partition_index(3)
        .with_offset(77)
        .with_leader_epoch(if version >= 4 { 4 } else { -1 });
    let topic = list_offsets_response::ListOffsetsTopicResponse::default()
        .with_name(name("bench"))
        .with_partitions(vec![partition]);
    ListOffsetsResponse::default().with_topics(vec![topic])
}

fn metadata_response(version: i16) -> MetadataResponse {
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
    let response = MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]);
    let response = if version >= 1 { response.with_controller_id(BrokerId(1)) } else { response };
    if version >= 2 { response.with_cluster_id(Some(text("cluster"))) } else { response }
}

fn api_versions_sample(version: i16) -> ApiVersionsResponse {
    let key = api_versions_response::ApiVersion::default().with_api_key(18).with_max_version(4);
    let response = ApiVersionsResponse::default().with_api_keys(vec![key]);
    if version < 3 {
        return response;
    }
    let supported = api_versions_response::SupportedFeatureKey::default()
        .with_name(text("metadata.version"))
        .with_max_version(27);
    let finalized = api_versions_response::FinalizedFeatureKey::default()
        .with_name(text("metadata.version"))
        .with_max_version_level(27);
    response
        .with_supported_features(vec![supported])
        .with_finalized_features_epoch(5)
        .with_finalized_features(vec![finalized])
        .with_zk_migration_ready(true)
}

fn create_topics_response(version: i16) -> CreateTopicsResponse {
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

fn describe_configs_response(version: i16) -> DescribeConfigsResponse {
    let synonym = describe_configs_response::DescribeConfigsSynonym::default()
        .with_name(text("log.flush.interval.ms"))
        .with_value(Some(text("1000")));
    let config = describe_configs_response::DescribeConfigsResourceResult::default()
        .with_name(text("flush.ms"))
        .with_value(Some(text("1000")))
        .with_config_source(1)
        .with_synonyms(vec![synonym]);
    let config = if version >= 3 { config.with_config_type(5) } else { config };
    let result = describe_configs_response::DescribeConfigsResult::default()
        .with_resource_type(2)
        .with_resource_name(text("bench"))
        .with_configs(vec![config]);
    DescribeConfigsResponse::default().with_results(vec![result])
}

fn alter_partition_response() -> AlterPartitionResponse {
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

fn describe_quorum_response(version: i16) -> DescribeQuorumResponse {
    use describe_quorum_response as schema;
    let replica = |node: i32| {
        let mut replica =
            schema::ReplicaState::default().with_replica_id(BrokerId(node)).with_log_end_offset(77);
        if version >= 1 {
            replica.last_fetch_timestamp = 1_000;
            replica.last_caught_up_timestamp = 900;
        }
        if version >= 2 {
            replica.replica_directory_id = id();
        }
        replica
    };
    let mut partition = schema::PartitionData::default()
        .with_leader_id(BrokerId(100))
        .with_leader_epoch(3)
        .with_high_watermark(76)
        .with_current_voters(vec![replica(100), replica(101)])
        .with_observers(vec![replica(1)]);
    let mut response = DescribeQuorumResponse::default();
    if version >= 2 {
        partition.error_message = Some(text("m"));
        let listener = schema::Listener::default()
            .with_name(text("CONTROLLER"))
            .with_host(text("127.0.0.1"))
            .with_port(9_093);
        let node = schema::Node::default().with_node_id(BrokerId(100));
        response.nodes = vec![node.with_listeners(vec![listener])];
    }
    let topic = schema::TopicData::default().with_topic_name(name("__cluster_metadata"));
    response.with_topics(vec![topic.with_partitions(vec![partition])])
}

fn describe_topic_partitions_response() -> DescribeTopicPartitionsResponse {
    use describe_topic_partitions_response as schema;
    let partition = schema::DescribeTopicPartitionsResponsePartition::default()
        .with_partition_index(3)
        .with_replica_nodes(nodes())
        .with_isr_nodes(vec![BrokerId(1)])
        .with_eligible_leader_replicas(Some(vec![BrokerId(2)]))
        .with_last_known_elr(None);
    let topic = schema::DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(name("bench")))
        .with_topic_id(id())
        .with_partitions(vec![partition]);
    let cursor = schema::Cursor::default().with_topic_name(name("next"));
    DescribeTopicPartitionsResponse::default()
        .with_topics(vec![topic])
        .with_next_cursor(Some(cursor))
}
