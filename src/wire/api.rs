//! Which APIs and versions there are, and which of them each listener serves.

use std::fmt;

use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use crate::types::ErrorCode;

use super::{Request, RequestHead};

/// An inclusive range of versions of one API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    /// First version.
    pub min: i16,
    /// Last version.
    pub max: i16,
}

impl VersionRange {
    /// Whether `version` lies in it.
    pub fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// The two kinds of port a cluster listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Clients and followers.
    Broker,
    /// Brokers, and the tools that create topics.
    Controller,
}

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $code:literal,
        codec $min:literal to $max:literal, flexible from $flexible:literal;)*) => {
        /// An API of the Kafka protocol that this product speaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ApiKey {
            $($(#[$doc])* $name,)*
        }

        impl ApiKey {
            /// All of them, by code.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            /// The key on the wire.
            pub fn code(self) -> i16 {
                match self {
                    $(ApiKey::$name => $code,)*
                }
            }

            /// From the key on the wire.
            pub fn from_code(code: i16) -> Option<ApiKey> {
                match code {
                    $($code => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name for it.
            pub fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }

            /// The versions this room can encode and decode.
            pub fn codec_range(self) -> VersionRange {
                match self {
                    $(ApiKey::$name => VersionRange { min: $min, max: $max },)*
                }
            }

            /// First version with compact lengths and tagged fields.
            pub fn flexible_from(self) -> i16 {
                match self {
                    $(ApiKey::$name => $flexible,)*
                }
            }
        }
    };
}

// Ranges: spec/kafka-wire.md 1.2.
apis! {
    /// Appends batches.
    Produce = 0, codec 3 to 12, flexible from 9;
    /// Reads batches; a follower's fetch also acknowledges.
    Fetch = 1, codec 4 to 17, flexible from 12;
    /// Log start and latest offset.
    ListOffsets = 2, codec 1 to 10, flexible from 6;
    /// Brokers, topics, leaders.
    Metadata = 3, codec 0 to 13, flexible from 9;
    /// What a listener serves.
    ApiVersions = 18, codec 0 to 4, flexible from 3;
    /// Creates topics.
    CreateTopics = 19, codec 2 to 7, flexible from 5;
    /// Deletes topics.
    DeleteTopics = 20, codec 1 to 6, flexible from 4;
    /// An id for an idempotent producer.
    InitProducerId = 22, codec 0 to 5, flexible from 2;
    /// Where a leader epoch ends.
    OffsetForLeaderEpoch = 23, codec 2 to 4, flexible from 4;
    /// Topic and broker settings.
    DescribeConfigs = 32, codec 1 to 4, flexible from 4;
    /// Asks for elections; version 3, with elections by log and by name, is KIP-966's.
    ElectLeaders = 43, codec 0 to 3, flexible from 2;
    /// Changes single settings of topics and of the cluster.
    IncrementalAlterConfigs = 44, codec 0 to 1, flexible from 1;
    /// The metadata log's voters and how far each is.
    DescribeQuorum = 55, codec 0 to 2, flexible from 0;
    /// Proposes ISR changes to the controller.
    AlterPartition = 56, codec 2 to 3, flexible from 0;
    /// The brokers and the cluster id.
    DescribeCluster = 60, codec 0 to 2, flexible from 0;
    /// A broker introduces itself to the controller.
    BrokerRegistration = 62, codec 0 to 4, flexible from 0;
    /// A broker tells the controller that it lives.
    BrokerHeartbeat = 63, codec 0 to 1, flexible from 0;
    /// A block of producer ids for one broker.
    AllocateProducerIds = 67, codec 0 to 0, flexible from 0;
    /// Topics page by page, with eligible leader replicas.
    DescribeTopicPartitions = 75, codec 0 to 0, flexible from 0;
    /// Where a broker's replicas' logs end (KIP-966).
    GetReplicaLogInfo = 93, codec 0 to 0, flexible from 0;
}

impl ApiKey {
    /// The versions `listener` serves; `None` if it does not serve the API at all.
    pub fn served_range(self, listener: Listener) -> Option<VersionRange> {
        match (listener, self) {
            // The metadata log is fetched with topic ids and replica state: one version is enough.
            (Listener::Controller, ApiKey::Fetch) => Some(VersionRange { min: 17, max: 17 }),
            (
                Listener::Controller,
                ApiKey::ApiVersions
                | ApiKey::CreateTopics
                | ApiKey::DeleteTopics
                | ApiKey::ElectLeaders
                | ApiKey::IncrementalAlterConfigs
                | ApiKey::DescribeQuorum
                | ApiKey::AlterPartition
                | ApiKey::BrokerRegistration
                | ApiKey::BrokerHeartbeat
                | ApiKey::AllocateProducerIds,
            ) => Some(self.codec_range()),
            (Listener::Controller, _) => None,
            (
                Listener::Broker,
                ApiKey::AlterPartition
                | ApiKey::BrokerRegistration
                | ApiKey::BrokerHeartbeat
                | ApiKey::AllocateProducerIds,
            ) => None,
            (Listener::Broker, _) => Some(self.codec_range()),
        }
    }

    /// The versions `listener` lists in ApiVersions. Produce is listed from 0 although 0 to 2 are
    /// refused: otherwise older librdkafka silently drops compression (kafka-wire.md MUST 2).
    pub fn advertised_range(self, listener: Listener) -> Option<VersionRange> {
        let served = self.served_range(listener)?;
        let min = if self == ApiKey::Produce { 0 } else { served.min };
        Some(VersionRange { min, max: served.max })
    }

    /// Whether `version` has compact lengths and tagged fields.
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// Whether the response header has tagged fields. ApiVersions' never has, because the client
    /// cannot know the version of an answer that refuses its own.
    pub(super) fn has_flexible_response_header(self, version: i16) -> bool {
        self != ApiKey::ApiVersions && self.is_flexible(version)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer to an ApiVersions request, supported version or not: what `listener` serves, with
/// UNSUPPORTED_VERSION if the version was not, or INVALID_REQUEST and nothing if the client's name
/// or version breaks Kafka's pattern.
pub fn api_versions_response(
    listener: Listener,
    head: &RequestHead,
    request: &Request,
) -> ApiVersionsResponse {
    let error = match request {
        Request::UnsupportedApiVersions => ErrorCode::UnsupportedVersion,
        Request::ApiVersions(request) if head.version >= 3 => {
            let names = [&request.client_software_name, &request.client_software_version];
            if names.into_iter().all(|name| is_software_name(name)) {
                ErrorCode::None
            } else {
                ErrorCode::InvalidRequest
            }
        }
        _ => ErrorCode::None,
    };
    let response = ApiVersionsResponse::default().with_error_code(error.code());
    if error == ErrorCode::InvalidRequest {
        return response;
    }
    response.with_api_keys(
        ApiKey::ALL
            .iter()
            .filter_map(|api| Some((api, api.advertised_range(listener)?)))
            .map(|(api, range)| {
                ApiVersion::default()
                    .with_api_key(api.code())
                    .with_min_version(range.min)
                    .with_max_version(range.max)
            })
            .collect(),
    )
}

/// Letters, digits, and between them also `-` and `.`; not empty.
fn is_software_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let ends = [name.chars().next(), name.chars().next_back()];
    ends.into_iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
        && name.chars().all(inner)
}
