//! Bytes to Kafka messages and back, with every length and count checked first.
//!
//! In reading order: [`ApiKey`] says what there is and who serves it; a `Reader` checks each
//! primitive against the bytes left and a `Writer` lets payload through uncopied; Produce and Fetch
//! have codecs of their own, and so have the messages of KIP-966 that the schema crate lacks;
//! everything else goes through the schema crate, behind a walk over the
//! message's shape (`bounds`, `shapes`), because the crate's decoders trust what they read.
//!
//! No input panics, and nothing is allocated from a number found in the input. Framing is the
//! engine's: frames here come without their length. What a message means is `protocol`'s.

mod api;
mod body;
mod bounds;
mod damaged;
mod elect_leaders;
mod error;
mod fetch;
mod fetch_response;
mod head;
mod metadata_record;
mod produce;
mod reader;
mod replica_log_info;
mod request;
mod resources;
mod response;
mod shapes;
mod stamps;
mod writer;

pub use api::{ApiKey, Listener, VersionRange, api_versions_response};
pub use damaged::{damaged, set_damaged};
pub use elect_leaders::{
    ElectLeadersOutcome, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic,
    ElectLeadersTopicResponse,
};
pub use error::{Direction, Problem, WireError};
pub use fetch::{
    FetchPartition, FetchRequest, FetchTopic, FetchingReplica, TopicRef, encode_fetch_request,
};
pub use fetch_response::{
    FetchPartitionResponse, FetchResponse, FetchTopicResponse, encode_fetch_response,
};
pub use head::{RequestHead, correlation_id};
pub use metadata_record::{MetadataRecordError, decode_metadata_record, encode_metadata_record};
pub use produce::{
    CurrentLeader, ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse,
    ProduceTopic, ProduceTopicResponse, encode_produce_request, encode_produce_response,
};
pub use replica_log_info::{ReplicaLogInfo, ReplicaLogInfoRequest, ReplicaLogInfoResponse};
pub use request::{Request, encode_request, parse_request};
pub use resources::{resources, with_resources};
pub use response::{Response, encode_response, parse_response};
pub use stamps::HighWatermarkTrace;

#[cfg(test)]
mod tests;
