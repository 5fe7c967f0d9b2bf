//! Bytes to Kafka messages and back, with every length and count checked first.
//!
//! In reading order: `apis` has a file for every API, with its versions, who serves it and its
//! messages; `frame` puts a header before them and takes it off; a `Reader` checks each primitive
//! against the bytes left and a `Writer` lets payload through uncopied. Produce and Fetch
//! have codecs of their own, and so have the messages of KIP-966 that the schema crate lacks;
//! everything else goes through the schema crate, behind a walk over the
//! message's shape (`bounds`, `shapes`), because the crate's decoders trust what they read.
//!
//! No input panics, and nothing is allocated from a number found in the input. Framing is the
//! engine's: frames here come without their length. What a message means is `protocol`'s.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

#[macro_use]
mod shapes;

mod api;
mod apis;
mod body;
mod bounds;
mod error;
mod fields;
mod frame;
mod head;
mod metadata_record;
mod reader;
mod stamps;
mod writer;

pub use api::{Listener, VersionRange};
pub use apis::{
    ApiKey, ElectLeadersOutcome, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic,
    ElectLeadersTopicResponse, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse,
    FetchTopic, FetchTopicResponse, FetchingReplica, ProducePartition, ProducePartitionResponse,
    ProduceRequest, ProduceResponse, ProduceTopic, ProduceTopicResponse, ReplicaLogInfo,
    ReplicaLogInfoRequest, ReplicaLogInfoResponse, Request, Response, TopicRef,
    api_versions_response, damaged, encode_fetch_request, encode_fetch_response,
    encode_produce_request, encode_produce_response, resources, set_damaged, with_resources,
};
pub use error::{Direction, Problem, WireError};
pub use fields::CurrentLeader;
pub use frame::{encode_request, encode_response, parse_request, parse_response};
pub use head::{RequestHead, correlation_id};
pub use metadata_record::{MetadataRecordError, decode_metadata_record, encode_metadata_record};
pub use reader::ELEMENTS_MAX;
pub use stamps::HighWatermarkTrace;

#[cfg(test)]
mod tests;
