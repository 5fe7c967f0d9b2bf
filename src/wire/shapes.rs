//! The shapes of the messages that the schema crate decodes, for [`super::bounds`]. Produce,
//! Fetch, ElectLeaders and GetReplicaLogInfo are not here: their decoders are this room's own and
//! check as they go.
//!
//! A field reads `name first-version: shape`, or `name first-version to last-version: shape`.

use super::ApiKey;
use super::bounds::Shape::{Array, Fixed, NullableStruct, String, Struct};
use super::bounds::{Field, NEWEST, Shape, Tag};
use super::error::Direction;

const BOOL: Shape = Fixed(1);
const I8: Shape = Fixed(1);
const I16: Shape = Fixed(2);
const I32: Shape = Fixed(4);
const I64: Shape = Fixed(8);
const UUID: Shape = Fixed(16);

/// The shape of a message; `None` for those with codecs of this room.
pub(super) fn shape_of(api: ApiKey, direction: Direction) -> Option<&'static Shape> {
    let (request, response) = match api {
        ApiKey::Produce | ApiKey::Fetch | ApiKey::ElectLeaders | ApiKey::GetReplicaLogInfo => {
            return None;
        }
        ApiKey::ListOffsets => (&LIST_OFFSETS_REQUEST, &LIST_OFFSETS_RESPONSE),
        ApiKey::Metadata => (&METADATA_REQUEST, &METADATA_RESPONSE),
        ApiKey::ApiVersions => (&API_VERSIONS_REQUEST, &API_VERSIONS_RESPONSE),
        ApiKey::CreateTopics => (&CREATE_TOPICS_REQUEST, &CREATE_TOPICS_RESPONSE),
        ApiKey::DeleteTopics => (&DELETE_TOPICS_REQUEST, &DELETE_TOPICS_RESPONSE),
        ApiKey::InitProducerId => (&INIT_PRODUCER_ID_REQUEST, &INIT_PRODUCER_ID_RESPONSE),
        ApiKey::OffsetForLeaderEpoch => (&EPOCH_END_REQUEST, &EPOCH_END_RESPONSE),
        ApiKey::DescribeConfigs => (&DESCRIBE_CONFIGS_REQUEST, &DESCRIBE_CONFIGS_RESPONSE),
        ApiKey::IncrementalAlterConfigs => (&ALTER_CONFIGS_REQUEST, &ALTER_CONFIGS_RESPONSE),
        ApiKey::DescribeQuorum => (&DESCRIBE_QUORUM_REQUEST, &DESCRIBE_QUORUM_RESPONSE),
        ApiKey::AlterPartition => (&ALTER_PARTITION_REQUEST, &ALTER_PARTITION_RESPONSE),
        ApiKey::DescribeCluster => (&DESCRIBE_CLUSTER_REQUEST, &DESCRIBE_CLUSTER_RESPONSE),
        ApiKey::BrokerRegistration => (&REGISTRATION_REQUEST, &REGISTRATION_RESPONSE),
        ApiKey::BrokerHeartbeat => (&HEARTBEAT_REQUEST, &HEARTBEAT_RESPONSE),
        ApiKey::AllocateProducerIds => (&ALLOCATE_IDS_REQUEST, &ALLOCATE_IDS_RESPONSE),
        ApiKey::DescribeTopicPartitions => (&DESCRIBE_TOPIC_REQUEST, &DESCRIBE_TOPIC_RESPONSE),
    };
    Some(match direction {
        Direction::Request => request,
        Direction::Response => response,
    })
}

macro_rules! shape {
    ({
        $($name:ident $first:literal $(to $last:literal)?: $shape:tt),* $(,)?
        $(; tags $($tag_name:ident = $tag:literal from $tag_first:literal: $tag_shape:tt),*)?
    }) => {
        Struct(
            &[$(Field($first, last_version!($($last)?), shape!($shape))),*],
            &[$($(Tag($tag, $tag_first, shape!($tag_shape))),*)?],
        )
    };
    ([$element:tt]) => {
        Array(&shape!($element))
    };
    ((nullable { $($name:ident $first:literal: $shape:tt),* })) => {
        NullableStruct(&[$(Field($first, NEWEST, shape!($shape))),*])
    };
    ($named:ident) => {
        $named
    };
}

macro_rules! last_version {
    () => {
        NEWEST
    };
    ($last:literal) => {
        $last
    };
}

static LIST_OFFSETS_REQUEST: Shape = shape!({
    replica_id 0: I32,
    isolation_level 2: I8,
    topics 0: [{
        name 0: String,
        partitions 0: [{ index 0: I32, current_leader_epoch 4: I32, timestamp 0: I64 }],
    }],
    timeout_ms 10: I32,
});

static LIST_OFFSETS_RESPONSE: Shape = shape!({
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

static METADATA_REQUEST: Shape = shape!({
    topics 0: [{ topic_id 10: UUID, name 0: String }],
    allow_auto_topic_creation 4: BOOL,
    include_cluster_authorized_operations 8 to 10: BOOL,
    include_topic_authorized_operations 8: BOOL,
});

static METADATA_RESPONSE: Shape = shape!({
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

static API_VERSIONS_REQUEST: Shape = shape!({
    client_software_name 3: String,
    client_software_version 3: String,
});

static API_VERSIONS_RESPONSE: Shape = shape!({
    error_code 0: I16,
    api_keys 0: [{ api_key 0: I16, min_version 0: I16, max_version 0: I16 }],
    throttle_time_ms 1: I32;
    tags
    supported_features = 0 from 3: [{ name 0: String, min 0: I16, max 0: I16 }],
    finalized_features_epoch = 1 from 3: I64,
    finalized_features = 2 from 3: [{ name 0: String, max 0: I16, min 0: I16 }],
    zk_migration_ready = 3 from 3: BOOL
});

static CREATE_TOPICS_REQUEST: Shape = shape!({
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

static CREATE_TOPICS_RESPONSE: Shape = shape!({
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

static DELETE_TOPICS_REQUEST: Shape = shape!({
    topics 6: [{ name 0: String, topic_id 0: UUID }],
    topic_names 0 to 5: [String],
    timeout_ms 0: I32,
});

static DELETE_TOPICS_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    responses 0: [{
        name 0: String,
        topic_id 6: UUID,
        error_code 0: I16,
        error_message 5: String,
    }],
});

static INIT_PRODUCER_ID_REQUEST: Shape = shape!({
    transactional_id 0: String,
    transaction_timeout_ms 0: I32,
    producer_id 3: I64,
    producer_epoch 3: I16,
});

static INIT_PRODUCER_ID_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    error_code 0: I16,
    producer_id 0: I64,
    producer_epoch 0: I16,
});

static EPOCH_END_REQUEST: Shape = shape!({
    replica_id 3: I32,
    topics 0: [{
        name 0: String,
        partitions 0: [{ index 0: I32, current_leader_epoch 0: I32, leader_epoch 0: I32 }],
    }],
});

static EPOCH_END_RESPONSE: Shape = shape!({
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

static DESCRIBE_CONFIGS_REQUEST: Shape = shape!({
    resources 0: [{
        resource_type 0: I8,
        resource_name 0: String,
        configuration_keys 0: [String],
    }],
    include_synonyms 0: BOOL,
    include_documentation 3: BOOL,
});

static DESCRIBE_CONFIGS_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    results 0: [{
        error_code 0: I16,
        error_message 0: String,
        resource_type 0: I8,
        resource_name 0: String,
        configs 0: [{
            name 0: String,
            value 0: String,
            read_only 0: BOOL,
            config_source 0: I8,
            is_sensitive 0: BOOL,
            synonyms 0: [{ name 0: String, value 0: String, source 0: I8 }],
            config_type 3: I8,
            documentation 3: String,
        }],
    }],
});

static ALTER_CONFIGS_REQUEST: Shape = shape!({
    resources 0: [{
        resource_type 0: I8,
        resource_name 0: String,
        configs 0: [{ name 0: String, config_operation 0: I8, value 0: String }],
    }],
    validate_only 0: BOOL,
});

static ALTER_CONFIGS_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    responses 0: [{
        error_code 0: I16,
        error_message 0: String,
        resource_type 0: I8,
        resource_name 0: String,
    }],
});

static ALTER_PARTITION_REQUEST: Shape = shape!({
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

static ALTER_PARTITION_RESPONSE: Shape = shape!({
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

static DESCRIBE_CLUSTER_REQUEST: Shape = shape!({
    include_cluster_authorized_operations 0: BOOL,
    endpoint_type 1: I8,
    include_fenced_brokers 2: BOOL,
});

static DESCRIBE_CLUSTER_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    error_code 0: I16,
    error_message 0: String,
    endpoint_type 1: I8,
    cluster_id 0: String,
    controller_id 0: I32,
    brokers 0: [{
        broker_id 0: I32,
        host 0: String,
        port 0: I32,
        rack 0: String,
        is_fenced 2: BOOL,
    }],
    cluster_authorized_operations 0: I32,
});

static REGISTRATION_REQUEST: Shape = shape!({
    broker_id 0: I32,
    cluster_id 0: String,
    incarnation_id 0: UUID,
    listeners 0: [{ name 0: String, host 0: String, port 0: I16, security_protocol 0: I16 }],
    features 0: [{ name 0: String, min 0: I16, max 0: I16 }],
    rack 0: String,
    is_migrating_zk_broker 1: BOOL,
    log_dirs 2: [UUID],
    previous_broker_epoch 3: I64,
});

static REGISTRATION_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    error_code 0: I16,
    broker_epoch 0: I64,
});

static HEARTBEAT_REQUEST: Shape = shape!({
    broker_id 0: I32,
    broker_epoch 0: I64,
    current_metadata_offset 0: I64,
    want_fence 0: BOOL,
    want_shut_down 0: BOOL;
    tags offline_log_dirs = 0 from 1: [UUID]
});

static HEARTBEAT_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    error_code 0: I16,
    is_caught_up 0: BOOL,
    is_fenced 0: BOOL,
    should_shut_down 0: BOOL,
});

static DESCRIBE_QUORUM_REQUEST: Shape = shape!({
    topics 0: [{ topic_name 0: String, partitions 0: [{ index 0: I32 }] }],
});

const QUORUM_REPLICA: Shape = shape!({
    replica_id 0: I32,
    replica_directory_id 2: UUID,
    log_end_offset 0: I64,
    last_fetch_timestamp 1: I64,
    last_caught_up_timestamp 1: I64,
});

static DESCRIBE_QUORUM_RESPONSE: Shape = shape!({
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

static ALLOCATE_IDS_REQUEST: Shape = shape!({ broker_id 0: I32, broker_epoch 0: I64 });

static ALLOCATE_IDS_RESPONSE: Shape = shape!({
    throttle_time_ms 0: I32,
    error_code 0: I16,
    producer_id_start 0: I64,
    producer_id_len 0: I32,
});

static DESCRIBE_TOPIC_REQUEST: Shape = shape!({
    topics 0: [{ name 0: String }],
    response_partition_limit 0: I32,
    cursor 0: (nullable { topic_name 0: String, partition_index 0: I32 }),
});

static DESCRIBE_TOPIC_RESPONSE: Shape = shape!({
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
