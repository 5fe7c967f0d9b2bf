//! Every API has one file (a folder where it is long, or has a field of this product): its key and
//! versions, which listener serves it, its messages' shapes and codecs. The table at the end lists
//! them, and makes [`ApiKey`], [`Request`], [`Response`] and all that goes by API.

mod allocate_producer_ids;
mod alter_partition;
mod api_versions;
mod broker_heartbeat;
mod broker_registration;
mod create_topics;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod get_replica_log_info;
mod incremental_alter_configs;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod produce;

pub use api_versions::api_versions_response;
pub use broker_heartbeat::{resources, with_resources};
pub use broker_registration::{damaged, set_damaged};
pub use elect_leaders::{
    ElectLeadersOutcome, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic,
    ElectLeadersTopicResponse,
};
pub use fetch::{
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic,
    FetchTopicResponse, FetchingReplica, TopicRef, encode_fetch_request, encode_fetch_response,
};
pub use get_replica_log_info::{ReplicaLogInfo, ReplicaLogInfoRequest, ReplicaLogInfoResponse};
pub use produce::{
    ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic,
    ProduceTopicResponse, encode_produce_request, encode_produce_response,
};

use super::api::Spec;
use super::body::{Body, Encoder, Message};
use super::error::WireError;

/// What every API's file needs.
mod prelude {
    pub(super) use crate::wire::api::{Served, Spec, versions};
    pub(super) use crate::wire::body::{Body, Encoder, Message};
    pub(super) use crate::wire::bounds::Shape::{Array, NullableStruct, String, Struct};
    pub(super) use crate::wire::bounds::{Field, NEWEST, Shape, Tag};
    pub(super) use crate::wire::error::{Problem, WireError};
    pub(super) use crate::wire::reader::Reader;
    pub(super) use crate::wire::shapes::{BOOL, I8, I16, I32, I64, UUID};
    pub(super) use crate::wire::writer::Writer;
}

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident in $file:ident;)*) => {
        /// An API of the Kafka protocol that this product speaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ApiKey {
            $($(#[$doc])* $name,)*
        }

        impl ApiKey {
            /// All of them, by code.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// Kafka's name for it.
            pub fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }

            pub(super) fn spec(self) -> Spec {
                match self {
                    $(ApiKey::$name => $file::SPEC,)*
                }
            }
        }

        /// A request of any API this product speaks.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the API of its name")]
        pub enum Request {
            $($name($file::Request),)*
            /// An ApiVersions request of a version this product does not know. Answered with
            /// UNSUPPORTED_VERSION in a version 0 body; the connection is kept.
            UnsupportedApiVersions,
        }

        impl Request {
            /// Whose request it is.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Request::$name(_) => ApiKey::$name,)*
                    Request::UnsupportedApiVersions => ApiKey::ApiVersions,
                }
            }

            /// Reads the body of a request of the body's API.
            pub(super) fn read(body: &mut Body<'_>) -> Result<Request, WireError> {
                match body.api {
                    $(ApiKey::$name => Message::read(body).map(Request::$name),)*
                }
            }

            /// # Panics
            /// For [`Request::UnsupportedApiVersions`].
            pub(super) fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
                match self {
                    $(Request::$name(request) => request.write(out),)*
                    Request::UnsupportedApiVersions => {
                        panic!("nobody sends an unsupported version")
                    }
                }
            }
        }

        /// A response of any API this product speaks.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the API of its name")]
        pub enum Response {
            $($name($file::Response),)*
        }

        impl Response {
            /// Whose response it is.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(Response::$name(_) => ApiKey::$name,)*
                }
            }

            /// Reads the body of a response of the body's API.
            pub(super) fn read(body: &mut Body<'_>) -> Result<Response, WireError> {
                match body.api {
                    $(ApiKey::$name => Message::read(body).map(Response::$name),)*
                }
            }

            pub(super) fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
                match self {
                    $(Response::$name(response) => response.write(out),)*
                }
            }
        }

        /// A request of `api` with as much in it as the version carries.
        #[cfg(test)]
        pub(super) fn sample_request(api: ApiKey, version: i16) -> Request {
            match api {
                $(ApiKey::$name => Request::$name($file::samples::request(version)),)*
            }
        }

        /// A response of `api` with as much in it as the version carries.
        #[cfg(test)]
        pub(super) fn sample_response(api: ApiKey, version: i16) -> Response {
            match api {
                $(ApiKey::$name => Response::$name($file::samples::response(version)),)*
            }
        }
    };
}

// By code.
apis! {
    /// Appends batches.
    Produce in produce;
    /// Reads batches; a follower's fetch also acknowledges.
    Fetch in fetch;
    /// Log start and latest offset.
    ListOffsets in list_offsets;
    /// Brokers, topics, leaders.
    Metadata in metadata;
    /// What a listener serves.
    ApiVersions in api_versions;
    /// Creates topics.
    CreateTopics in create_topics;
    /// Deletes topics.
    DeleteTopics in delete_topics;
    /// An id for an idempotent producer.
    InitProducerId in init_producer_id;
    /// Where a leader epoch ends.
    OffsetForLeaderEpoch in offset_for_leader_epoch;
    /// Topic and broker settings.
    DescribeConfigs in describe_configs;
    /// Asks for elections; version 3, with elections by log and by name, is KIP-966's.
    ElectLeaders in elect_leaders;
    /// Changes single settings of topics and of the cluster.
    IncrementalAlterConfigs in incremental_alter_configs;
    /// The metadata log's voters and how far each is.
    DescribeQuorum in describe_quorum;
    /// Proposes ISR changes to the controller.
    AlterPartition in alter_partition;
    /// The brokers and the cluster id.
    DescribeCluster in describe_cluster;
    /// A broker introduces itself to the controller.
    BrokerRegistration in broker_registration;
    /// A broker tells the controller that it lives.
    BrokerHeartbeat in broker_heartbeat;
    /// A block of producer ids for one broker.
    AllocateProducerIds in allocate_producer_ids;
    /// Topics page by page, with eligible leader replicas.
    DescribeTopicPartitions in describe_topic_partitions;
    /// Where a broker's replicas' logs end (KIP-966).
    GetReplicaLogInfo in get_replica_log_info;
}
