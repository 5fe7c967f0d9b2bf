//! Responses: to frames on a server, from frames on a client.

use bytes::Bytes;
use kafka_protocol::messages::{
    AllocateProducerIdsResponse, AlterPartitionResponse, ApiVersionsResponse,
    BrokerHeartbeatResponse, BrokerRegistrationResponse, CreateTopicsResponse,
    DeleteTopicsResponse, DescribeClusterResponse, DescribeConfigsResponse, DescribeQuorumResponse,
    DescribeTopicPartitionsResponse, IncrementalAlterConfigsResponse, InitProducerIdResponse,
    ListOffsetsResponse, MetadataResponse, OffsetForLeaderEpochResponse,
};

use crate::types::ErrorCode;

use super::api::ApiKey;
use super::body::{Body, Encoder};
use super::elect_leaders::{self, ElectLeadersResponse};
use super::error::{Direction, WireError};
use super::fetch_response::{self, FetchResponse, encode_fetch_response};
use super::head::{self, RequestHead};
use super::produce::{self, ProduceResponse, encode_produce_response};
use super::reader::Reader;
use super::replica_log_info::{self, ReplicaLogInfoResponse};
use super::writer::Writer;

/// A response of any API this product speaks.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the API of its name")]
pub enum Response {
    Produce(ProduceResponse),
    Fetch(FetchResponse),
    ListOffsets(ListOffsetsResponse),
    Metadata(MetadataResponse),
    ApiVersions(ApiVersionsResponse),
    CreateTopics(CreateTopicsResponse),
    DeleteTopics(DeleteTopicsResponse),
    InitProducerId(InitProducerIdResponse),
    OffsetForLeaderEpoch(OffsetForLeaderEpochResponse),
    DescribeConfigs(DescribeConfigsResponse),
    ElectLeaders(ElectLeadersResponse),
    IncrementalAlterConfigs(IncrementalAlterConfigsResponse),
    DescribeQuorum(DescribeQuorumResponse),
    AlterPartition(AlterPartitionResponse),
    DescribeCluster(DescribeClusterResponse),
    BrokerRegistration(BrokerRegistrationResponse),
    BrokerHeartbeat(BrokerHeartbeatResponse),
    AllocateProducerIds(AllocateProducerIdsResponse),
    DescribeTopicPartitions(DescribeTopicPartitionsResponse),
    GetReplicaLogInfo(ReplicaLogInfoResponse),
}

impl Response {
    /// Whose response it is.
    pub fn api(&self) -> ApiKey {
        match self {
            Response::Produce(_) => ApiKey::Produce,
            Response::Fetch(_) => ApiKey::Fetch,
            Response::ListOffsets(_) => ApiKey::ListOffsets,
            Response::Metadata(_) => ApiKey::Metadata,
            Response::ApiVersions(_) => ApiKey::ApiVersions,
            Response::CreateTopics(_) => ApiKey::CreateTopics,
            Response::DeleteTopics(_) => ApiKey::DeleteTopics,
            Response::InitProducerId(_) => ApiKey::InitProducerId,
            Response::OffsetForLeaderEpoch(_) => ApiKey::OffsetForLeaderEpoch,
            Response::DescribeConfigs(_) => ApiKey::DescribeConfigs,
            Response::ElectLeaders(_) => ApiKey::ElectLeaders,
            Response::IncrementalAlterConfigs(_) => ApiKey::IncrementalAlterConfigs,
            Response::DescribeQuorum(_) => ApiKey::DescribeQuorum,
            Response::AlterPartition(_) => ApiKey::AlterPartition,
            Response::DescribeCluster(_) => ApiKey::DescribeCluster,
            Response::BrokerRegistration(_) => ApiKey::BrokerRegistration,
            Response::BrokerHeartbeat(_) => ApiKey::BrokerHeartbeat,
            Response::AllocateProducerIds(_) => ApiKey::AllocateProducerIds,
            Response::DescribeTopicPartitions(_) => ApiKey::DescribeTopicPartitions,
            Response::GetReplicaLogInfo(_) => ApiKey::GetReplicaLogInfo,
        }
    }
}

/// Encodes a response frame (without its length) to the request with this head. Fetch has a way
/// that does not copy the records: [`encode_fetch_response`].
///
/// Errors: [`WireError::Unencodable`] if a field is set that the version lacks.
///
/// # Panics
/// If the response is not one to this request's API.
pub fn encode_response(head: &RequestHead, response: &Response) -> Result<Bytes, WireError> {
    let (api, version) = (response.api(), head.version);
    assert!(api == head.api, "{api} response to a {} request", head.api);
    let mut writer = Writer::new(false, 256, 0);
    head::write_response(&mut writer, head);
    let mut out = Encoder { writer, api, direction: Direction::Response, version };
    match response {
        Response::Produce(response) => return Ok(encode_produce_response(head, response)),
        Response::Fetch(response) => {
            return Ok(Bytes::from(encode_fetch_response(head, response).concat()));
        }
        Response::ListOffsets(response) => out.encode(response)?,
        Response::Metadata(response) => out.encode(response)?,
        Response::ApiVersions(response) => out.encode(response)?,
        Response::CreateTopics(response) => out.encode(response)?,
        Response::DeleteTopics(response) => out.encode(response)?,
        Response::InitProducerId(response) => out.encode(response)?,
        Response::OffsetForLeaderEpoch(response) => out.encode(response)?,
        Response::DescribeConfigs(response) => out.encode(response)?,
        Response::ElectLeaders(response) => {
            let fits = elect_leaders::response_fits(version, response);
            out.write(fits, |writer| elect_leaders::write_response(writer, version, response))?;
        }
        Response::IncrementalAlterConfigs(response) => out.encode(response)?,
        Response::DescribeQuorum(response) => out.encode(response)?,
        Response::AlterPartition(response) => out.encode(response)?,
        Response::DescribeCluster(response) => out.encode(response)?,
        Response::BrokerRegistration(response) => out.encode(response)?,
        Response::BrokerHeartbeat(response) => out.encode(response)?,
        Response::AllocateProducerIds(response) => out.encode(response)?,
        Response::DescribeTopicPartitions(response) => out.encode(response)?,
        Response::GetReplicaLogInfo(response) => {
            out.write(true, |writer| replica_log_info::write_response(writer, response))?;
        }
    }
    Ok(out.writer.into_bytes())
}

/// Decodes the response frame (without its length) to a request of `api` at `version`; gives the
/// correlation id with it. Records share the frame's memory.
///
/// Errors: the frame is no such response; close the connection.
///
/// # Panics
/// If `version` is not one of the API's.
pub fn parse_response(
    api: ApiKey,
    version: i16,
    frame: Bytes,
) -> Result<(i32, Response), WireError> {
    assert!(api.codec_range().contains(version), "{api} version {version}");
    let mut reader = Reader::new(&frame);
    let correlation_id = head::read_response(&mut reader, api, version)?;
    let mut body = Body { reader, api, direction: Direction::Response, version };
    let response = match api {
        ApiKey::Produce => {
            Response::Produce(body.read(|reader| produce::read_response(reader, version))?)
        }
        ApiKey::Fetch => {
            Response::Fetch(body.read(|reader| fetch_response::read_response(reader, version))?)
        }
        ApiKey::ApiVersions => {
            if body.starts_with(&ErrorCode::UnsupportedVersion.code().to_be_bytes()) {
                body.fall_back_to_version_0();
            }
            Response::ApiVersions(body.decode()?)
        }
        ApiKey::ListOffsets => Response::ListOffsets(body.decode()?),
        ApiKey::Metadata => Response::Metadata(body.decode()?),
        ApiKey::CreateTopics => Response::CreateTopics(body.decode()?),
        ApiKey::DeleteTopics => Response::DeleteTopics(body.decode()?),
        ApiKey::InitProducerId => Response::InitProducerId(body.decode()?),
        ApiKey::OffsetForLeaderEpoch => Response::OffsetForLeaderEpoch(body.decode()?),
        ApiKey::DescribeConfigs => Response::DescribeConfigs(body.decode()?),
        ApiKey::ElectLeaders => Response::ElectLeaders(
            body.read(|reader| elect_leaders::read_response(reader, version))?,
        ),
        ApiKey::IncrementalAlterConfigs => Response::IncrementalAlterConfigs(body.decode()?),
        ApiKey::DescribeQuorum => Response::DescribeQuorum(body.decode()?),
        ApiKey::AlterPartition => Response::AlterPartition(body.decode()?),
        ApiKey::DescribeCluster => Response::DescribeCluster(body.decode()?),
        ApiKey::BrokerRegistration => Response::BrokerRegistration(body.decode()?),
        ApiKey::BrokerHeartbeat => Response::BrokerHeartbeat(body.decode()?),
        ApiKey::AllocateProducerIds => Response::AllocateProducerIds(body.decode()?),
        ApiKey::DescribeTopicPartitions => Response::DescribeTopicPartitions(body.decode()?),
        ApiKey::GetReplicaLogInfo => {
            Response::GetReplicaLogInfo(body.read(replica_log_info::read_response)?)
        }
    };
    Ok((correlation_id, response))
}
