//! Fetch (1): reads batches; a follower's fetch also acknowledges.

mod request;
mod response;

pub use request::{
    FetchPartition, FetchRequest, FetchTopic, FetchingReplica, TopicRef, encode_fetch_request,
};
pub use response::{
    FetchPartitionResponse, FetchResponse, FetchTopicResponse, encode_fetch_response,
};

use super::prelude::*;

pub(super) type Request = FetchRequest;
pub(super) type Response = FetchResponse;

/// The metadata log is fetched with topic ids and replica state: one version is enough.
pub(super) const SPEC: Spec = Spec::new(1, versions(4, 17), 12, Served::ControllerFrom(17));

#[cfg(test)]
pub(super) mod samples {
    pub(in crate::wire) use crate::wire::tests::hot_samples::{
        fetch_request as request, fetch_response as response,
    };
}
