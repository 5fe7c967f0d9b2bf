//! ElectLeaders: Kafka's versions 0 to 2, and KIP-966's version 3 with the leaders wanted, which
//! the schema crate does not have. Source: spec/kip966.md 2.12.

use kafka_protocol::protocol::StrBytes;

use super::error::Problem;
use super::reader::Reader;
use super::writer::Writer;
use crate::types::{BrokerId, ErrorCode, PartitionId};

/// First version that names the type of election; before it, all are of type 0.
const TYPE_FROM: i16 = 1;
/// First version that names the leaders wanted.
const DESIRED_LEADERS_FROM: i16 = 3;

/// An ElectLeaders request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeadersRequest {
    /// 0 preferred, 1 unclean, 2 longest log (balanced), 3 longest log (proactive), 4 designated;
    /// as sent, known or not.
    pub election_type: i8,
    /// For which partitions; `None` is all.
    pub topics: Option<Vec<ElectLeadersTopic>>,
    /// How long the asking side is ready to wait, in milliseconds.
    pub timeout_ms: i32,
}

/// The partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeadersTopic {
    /// The topic's name.
    pub name: StrBytes,
    /// Which partitions.
    pub partitions: Vec<PartitionId>,
    /// The leader wanted for each of `partitions`, in their order (version 3).
    pub desired_leaders: Option<Vec<BrokerId>>,
}

/// An ElectLeaders response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeadersResponse {
    /// For the request as a whole; versions before 1 do not carry it.
    pub error: ErrorCode,
    /// The outcomes by topic.
    pub topics: Vec<ElectLeadersTopicResponse>,
}

/// The outcomes of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeadersTopicResponse {
    /// The topic's name.
    pub name: StrBytes,
    /// The outcomes.
    pub partitions: Vec<ElectLeadersOutcome>,
}

/// What became of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeadersOutcome {
    /// Which.
    pub partition: PartitionId,
    /// Why not, or none.
    pub error: ErrorCode,
    /// In words.
    pub message: Option<StrBytes>,
}

/// Whether every field that is set exists in `version`.
pub(super) fn request_fits(version: i16, request: &ElectLeadersRequest) -> bool {
    let topics = request.topics.as_deref().unwrap_or_default();
    let typed = request.election_type != 0;
    let desired = topics.iter().any(|topic| topic.desired_leaders.is_some());
    (version >= TYPE_FROM || !typed) && (version >= DESIRED_LEADERS_FROM || !desired)
}

pub(super) fn write_request(writer: &mut Writer, version: i16, request: &ElectLeadersRequest) {
    if version >= TYPE_FROM {
        writer.i8(request.election_type);
    }
    writer.nullable_count(request.topics.as_ref().map(Vec::len));
    for topic in request.topics.iter().flatten() {
        writer.string(&topic.name);
        writer.count(topic.partitions.len());
        topic.partitions.iter().for_each(|partition| writer.i32(partition.0));
        if version >= DESIRED_LEADERS_FROM {
            writer.nullable_count(topic.desired_leaders.as_ref().map(Vec::len));
            topic.desired_leaders.iter().flatten().for_each(|leader| writer.i32(leader.0));
        }
        writer.tag_count(0);
    }
    writer.i32(request.timeout_ms);
    writer.tag_count(0);
}

pub(super) fn read_request(
    reader: &mut Reader<'_>,
    version: i16,
) -> Result<ElectLeadersRequest, Problem> {
    let election_type = if version >= TYPE_FROM { reader.i8()? } else { 0 };
    let topics = reader.nullable_array_of(3, |reader| {
        let name = reader.string()?;
        let partitions = reader.array_of(4, |reader| reader.i32().map(PartitionId))?;
        let desired_leaders = if version >= DESIRED_LEADERS_FROM {
            reader.nullable_array_of(4, |reader| reader.i32().map(BrokerId))?
        } else {
            None
        };
        reader.skip_tags()?;
        Ok(ElectLeadersTopic { name, partitions, desired_leaders })
    })?;
    let timeout_ms = reader.i32()?;
    reader.skip_tags()?;
    Ok(ElectLeadersRequest { election_type, topics, timeout_ms })
}

/// Whether every field that is set exists in `version`.
pub(super) fn response_fits(version: i16, response: &ElectLeadersResponse) -> bool {
    version >= TYPE_FROM || response.error == ErrorCode::None
}

pub(super) fn write_response(writer: &mut Writer, version: i16, response: &ElectLeadersResponse) {
    writer.i32(0); // throttle time
    if version >= TYPE_FROM {
        writer.i16(response.error.code());
    }
    writer.count(response.topics.len());
    for topic in &response.topics {
        writer.string(&topic.name);
        writer.count(topic.partitions.len());
        for outcome in &topic.partitions {
            writer.i32(outcome.partition.0);
            writer.i16(outcome.error.code());
            writer.nullable_string(outcome.message.as_deref());
            writer.tag_count(0);
        }
        writer.tag_count(0);
    }
    writer.tag_count(0);
}

pub(super) fn read_response(
    reader: &mut Reader<'_>,
    version: i16,
) -> Result<ElectLeadersResponse, Problem> {
    reader.i32()?; // throttle time
    let error = if version >= TYPE_FROM { reader.i16()? } else { 0 };
    let topics = reader.array_of(3, |reader| {
        let name = reader.string()?;
        let partitions = reader.array_of(7, |reader| {
            let partition = PartitionId(reader.i32()?);
            let error = ErrorCode::from_code(reader.i16()?);
            let message = reader.nullable_string()?;
            reader.skip_tags()?;
            Ok(ElectLeadersOutcome { partition, error, message })
        })?;
        reader.skip_tags()?;
        Ok(ElectLeadersTopicResponse { name, partitions })
    })?;
    reader.skip_tags()?;
    Ok(ElectLeadersResponse { error: ErrorCode::from_code(error), topics })
}
