//! Requests: from frames on a server, to frames on a client.

use bytes::Bytes;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, ApiVersionsRequest, BrokerHeartbeatRequest,
    BrokerRegistrationRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest,
    DescribeConfigsRequest, DescribeQuorumRequest, DescribeTopicPartitionsRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest,
};

use super::api::{ApiKey, Listener};
use super::body::{Body, Encoder};
use super::elect_leaders::{self, ElectLeadersRequest};
use super::error::{Direction, WireError};
use super::fetch::{self, FetchRequest, encode_fetch_request};
use super::head::{self, Preamble, RequestHead};
use super::produce::{self, ProduceRequest, encode_produce_request};
use super::reader::Reader;
use super::replica_log_info::{self, ReplicaLogInfoRequest};
use super::writer::Writer;

/// A request of any API this product speaks.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the API of its name")]
pub enum Request {
    Produce(ProduceRequest),
    Fetch(FetchRequest),
    ListOffsets(ListOffsetsRequest),
    Metadata(MetadataRequest),
    ApiVersions(ApiVersionsRequest),
    /// An ApiVersions request of a version this product does not know. Answered with
    /// UNSUPPORTED_VERSION in a version 0 body; the connection is kept.
    UnsupportedApiVersions,
    CreateTopics(CreateTopicsRequest),
    DeleteTopics(DeleteTopicsRequest),
    InitProducerId(InitProducerIdRequest),
    OffsetForLeaderEpoch(OffsetForLeaderEpochRequest),
    DescribeConfigs(DescribeConfigsRequest),
    ElectLeaders(ElectLeadersRequest),
    IncrementalAlterConfigs(IncrementalAlterConfigsRequest),
    DescribeQuorum(DescribeQuorumRequest),
    AlterPartition(AlterPartitionRequest),
    DescribeCluster(DescribeClusterRequest),
    BrokerRegistration(BrokerRegistrationRequest),
    BrokerHeartbeat(BrokerHeartbeatRequest),
    AllocateProducerIds(AllocateProducerIdsRequest),
    DescribeTopicPartitions(DescribeTopicPartitionsRequest),
    GetReplicaLogInfo(ReplicaLogInfoRequest),
}

impl Request {
    /// Whose request it is.
    pub fn api(&self) -> ApiKey {
        match self {
            Request::Produce(_) => ApiKey::Produce,
            Request::Fetch(_) => ApiKey::Fetch,
            Request::ListOffsets(_) => ApiKey::ListOffsets,
            Request::Metadata(_) => ApiKey::Metadata,
            Request::ApiVersions(_) | Request::UnsupportedApiVersions => ApiKey::ApiVersions,
            Request::CreateTopics(_) => ApiKey::CreateTopics,
            Request::DeleteTopics(_) => ApiKey::DeleteTopics,
            Request::InitProducerId(_) => ApiKey::InitProducerId,
            Request::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Request::DescribeConfigs(_) => ApiKey::DescribeConfigs,
            Request::ElectLeaders(_) => ApiKey::ElectLeaders,
            Request::IncrementalAlterConfigs(_) => ApiKey::IncrementalAlterConfigs,
            Request::DescribeQuorum(_) => ApiKey::DescribeQuorum,
            Request::AlterPartition(_) => ApiKey::AlterPartition,
            Request::DescribeCluster(_) => ApiKey::DescribeCluster,
            Request::BrokerRegistration(_) => ApiKey::BrokerRegistration,
            Request::BrokerHeartbeat(_) => ApiKey::BrokerHeartbeat,
            Request::AllocateProducerIds(_) => ApiKey::AllocateProducerIds,
            Request::DescribeTopicPartitions(_) => ApiKey::DescribeTopicPartitions,
            Request::GetReplicaLogInfo(_) => ApiKey::GetReplicaLogInfo,
        }
    }
}

/// Decodes a request frame (without its length) as `listener` does. Records share the frame's
/// memory.
///
/// Errors: the frame is no request that `listener` serves; close the connection.
pub fn parse_request(
    listener: Listener,
    frame: Bytes,
) -> Result<(RequestHead, Request), WireError> {
    let mut reader = Reader::new(&frame);
    let head = match head::read_preamble(&mut reader, listener)? {
        Preamble::UnsupportedApiVersions(head) => {
            return Ok((head, Request::UnsupportedApiVersions));
        }
        Preamble::Served(head) => head::read_client_id(&mut reader, head)?,
    };
    let (api, version) = (head.api, head.version);
    let mut body = Body { reader, api, direction: Direction::Request, version };
    let request = match api {
        ApiKey::Produce => Request::Produce(body.read(produce::read_request)?),
        ApiKey::Fetch => Request::Fetch(body.read(|reader| fetch::read_request(reader, version))?),
        ApiKey::ListOffsets => Request::ListOffsets(body.decode()?),
        ApiKey::Metadata => Request::Metadata(body.decode()?),
        ApiKey::ApiVersions => Request::ApiVersions(body.decode()?),
        ApiKey::CreateTopics => Request::CreateTopics(body.decode()?),
        ApiKey::DeleteTopics => Request::DeleteTopics(body.decode()?),
        ApiKey::InitProducerId => Request::InitProducerId(body.decode()?),
        ApiKey::OffsetForLeaderEpoch => Request::OffsetForLeaderEpoch(body.decode()?),
        ApiKey::DescribeConfigs => Request::DescribeConfigs(body.decode()?),
        ApiKey::ElectLeaders => {
            Request::ElectLeaders(body.read(|reader| elect_leaders::read_request(reader, version))?)
        }
        ApiKey::IncrementalAlterConfigs => Request::IncrementalAlterConfigs(body.decode()?),
        ApiKey::DescribeQuorum => Request::DescribeQuorum(body.decode()?),
        ApiKey::AlterPartition => Request::AlterPartition(body.decode()?),
        ApiKey::DescribeCluster => Request::DescribeCluster(body.decode()?),
        ApiKey::BrokerRegistration => Request::BrokerRegistration(body.decode()?),
        ApiKey::BrokerHeartbeat => Request::BrokerHeartbeat(body.decode()?),
        ApiKey::AllocateProducerIds => Request::AllocateProducerIds(body.decode()?),
        ApiKey::DescribeTopicPartitions => Request::DescribeTopicPartitions(body.decode()?),
        ApiKey::GetReplicaLogInfo => {
            Request::GetReplicaLogInfo(body.read(replica_log_info::read_request)?)
        }
    };
    Ok((head, request))
}

/// Encodes a request frame (without its length). Produce has a way that does not copy the records:
/// [`encode_produce_request`].
///
/// Errors: [`WireError::Unencodable`] if a field is set that `version` lacks.
///
/// # Panics
/// If `version` is not one of the API's, or for [`Request::UnsupportedApiVersions`].
pub fn encode_request(
    correlation_id: i32,
    client_id: &str,
    version: i16,
    request: &Request,
) -> Result<Bytes, WireError> {
    let api = request.api();
    assert!(api.codec_range().contains(version), "{api} version {version}");
    let mut writer = Writer::new(false, 128, 0);
    head::write_request(&mut writer, api, version, correlation_id, client_id);
    let mut out = Encoder { writer, api, direction: Direction::Request, version };
    match request {
        Request::Produce(request) => {
            let pieces = encode_produce_request(correlation_id, client_id, version, request);
            return Ok(Bytes::from(pieces.concat()));
        }
        Request::Fetch(request) => {
            return Ok(encode_fetch_request(correlation_id, client_id, version, request));
        }
        Request::UnsupportedApiVersions => panic!("nobody sends an unsupported version"),
        Request::ListOffsets(request) => out.encode(request)?,
        Request::Metadata(request) => out.encode(request)?,
        Request::ApiVersions(request) => out.encode(request)?,
        Request::CreateTopics(request) => out.encode(request)?,
        Request::DeleteTopics(request) => out.encode(request)?,
        Request::InitProducerId(request) => out.encode(request)?,
        Request::OffsetForLeaderEpoch(request) => out.encode(request)?,
        Request::DescribeConfigs(request) => out.encode(request)?,
        Request::ElectLeaders(request) => {
            let fits = elect_leaders::request_fits(version, request);
            out.write(fits, |writer| elect_leaders::write_request(writer, version, request))?;
        }
        Request::IncrementalAlterConfigs(request) => out.encode(request)?,
        Request::DescribeQuorum(request) => out.encode(request)?,
        Request::AlterPartition(request) => out.encode(request)?,
        Request::DescribeCluster(request) => out.encode(request)?,
        Request::BrokerRegistration(request) => out.encode(request)?,
        Request::BrokerHeartbeat(request) => out.encode(request)?,
        Request::AllocateProducerIds(request) => out.encode(request)?,
        Request::DescribeTopicPartitions(request) => out.encode(request)?,
        Request::GetReplicaLogInfo(request) => {
            out.write(true, |writer| replica_log_info::write_request(writer, request))?;
        }
    }
    Ok(out.writer.into_bytes())
}
