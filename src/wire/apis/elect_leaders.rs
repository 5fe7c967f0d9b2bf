//! ElectLeaders (43): Kafka's versions 0 to 2, and KIP-966's version 3 with the leaders wanted, which
//! the schema crate does not have. Source: spec/kip966.md 2.12.

use kafka_protocol::protocol::StrBytes;

use super::prelude::*;
use crate::types::{BrokerId, ErrorCode, PartitionId};

pub(super) type Request = ElectLeadersRequest;
pub(super) type Response = ElectLeadersResponse;

pub(super) const SPEC: Spec = Spec::new(43, versions(0, 3), 2, Served::Both);

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
fn request_fits(version: i16, request: &ElectLeadersRequest) -> bool {
    let topics = request.topics.as_deref().unwrap_or_default();
    let typed = request.election_type != 0;
    let desired = topics.iter().any(|topic| topic.desired_leaders.is_some());
    (version >= TYPE_FROM || !typed) && (version >= DESIRED_LEADERS_FROM || !desired)
}

fn write_request(writer: &mut Writer, version: i16, request: &ElectLeadersRequest) {
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

fn read_request(reader: &mut Reader<'_>, version: i16) -> Result<ElectLeadersRequest, Problem> {
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
fn response_fits(version: i16, response: &ElectLeadersResponse) -> bool {
    version >= TYPE_FROM || response.error == ErrorCode::None
}

fn write_response(writer: &mut Writer, version: i16, response: &ElectLeadersResponse) {
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

fn read_response(reader: &mut Reader<'_>, version: i16) -> Result<ElectLeadersResponse, Problem> {
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

impl Message for ElectLeadersRequest {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        let version = body.version;
        body.read(|reader| read_request(reader, version))
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        let version = out.version;
        out.write(request_fits(version, self), |writer| write_request(writer, version, self))
    }
}

impl Message for ElectLeadersResponse {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        let version = body.version;
        body.read(|reader| read_response(reader, version))
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        let version = out.version;
        out.write(response_fits(version, self), |writer| write_response(writer, version, self))
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(version: i16) -> Request {
        let desired_leaders = (version >= 3).then(|| vec![BrokerId(1), BrokerId(2)]);
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

    pub(in crate::wire) fn response(version: i16) -> Response {
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
}
