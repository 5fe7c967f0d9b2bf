//! GetReplicaLogInfo (93): where a broker's replicas' logs end, for the controller's
//! unclean recovery. In no released Kafka; the schema is spec/kip966.md 2.12.

use super::prelude::*;
use crate::types::{BrokerEpoch, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId};

pub(super) type Request = ReplicaLogInfoRequest;
pub(super) type Response = ReplicaLogInfoResponse;

pub(super) const SPEC: Spec = Spec::new(93, versions(0, 0), 0, Served::Broker);

/// A GetReplicaLogInfo request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLogInfoRequest {
    /// About which replicas; `None` is all that the broker has.
    pub topics: Option<Vec<(TopicId, Vec<PartitionId>)>>,
}

/// A GetReplicaLogInfo response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLogInfoResponse {
    /// The life of the broker that answers; `None` if it is not registered.
    pub broker_epoch: Option<BrokerEpoch>,
    /// Replicas were left out because there are too many for one response.
    pub has_more_data: bool,
    /// The replicas by topic.
    pub topics: Vec<(TopicId, Vec<ReplicaLogInfo>)>,
}

/// Where one replica's log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaLogInfo {
    /// Which partition.
    pub partition: PartitionId,
    /// Leader epoch of the last record; `None` in a log without records.
    pub last_written_leader_epoch: Option<LeaderEpoch>,
    /// The partition's leader epoch as the broker knows it.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Log end offset.
    pub log_end_offset: Offset,
    /// Why the rest is meaningless, or none.
    pub error: ErrorCode,
}

fn write_request(writer: &mut Writer, request: &ReplicaLogInfoRequest) {
    writer.nullable_count(request.topics.as_ref().map(Vec::len));
    for (topic, partitions) in request.topics.iter().flatten() {
        writer.uuid(&topic.0);
        writer.count(partitions.len());
        partitions.iter().for_each(|partition| writer.i32(partition.0));
        writer.tag_count(0);
    }
    writer.tag_count(0);
}

fn read_request(reader: &mut Reader<'_>) -> Result<ReplicaLogInfoRequest, Problem> {
    let topics = reader.nullable_array_of(18, |reader| {
        let topic = reader.topic_id()?;
        let partitions = reader.array_of(4, |reader| reader.i32().map(PartitionId))?;
        reader.skip_tags()?;
        Ok((topic, partitions))
    })?;
    reader.skip_tags()?;
    Ok(ReplicaLogInfoRequest { topics })
}

fn write_response(writer: &mut Writer, response: &ReplicaLogInfoResponse) {
    writer.i32(0); // throttle time
    writer.i64(response.broker_epoch.map_or(-1, |epoch| epoch.0));
    writer.bool(response.has_more_data);
    writer.count(response.topics.len());
    for (topic, replicas) in &response.topics {
        writer.uuid(&topic.0);
        writer.count(replicas.len());
        for replica in replicas {
            writer.i32(replica.partition.0);
            writer.i32(replica.last_written_leader_epoch.map_or(-1, |epoch| epoch.0));
            writer.i32(replica.current_leader_epoch.map_or(-1, |epoch| epoch.0));
            writer.i64(replica.log_end_offset.0);
            writer.i16(replica.error.code());
            writer.tag_count(0);
        }
        writer.tag_count(0);
    }
    writer.tag_count(0);
}

fn read_response(reader: &mut Reader<'_>) -> Result<ReplicaLogInfoResponse, Problem> {
    reader.i32()?; // throttle time
    let broker_epoch = Some(reader.i64()?).filter(|&epoch| epoch >= 0).map(BrokerEpoch);
    let has_more_data = reader.bool()?;
    let topics = reader.array_of(18, |reader| {
        let topic = reader.topic_id()?;
        let replicas = reader.array_of(23, read_replica)?;
        reader.skip_tags()?;
        Ok((topic, replicas))
    })?;
    reader.skip_tags()?;
    Ok(ReplicaLogInfoResponse { broker_epoch, has_more_data, topics })
}

fn read_replica(reader: &mut Reader<'_>) -> Result<ReplicaLogInfo, Problem> {
    let epoch = |epoch: i32| Some(epoch).filter(|&epoch| epoch >= 0).map(LeaderEpoch);
    let replica = ReplicaLogInfo {
        partition: PartitionId(reader.i32()?),
        last_written_leader_epoch: epoch(reader.i32()?),
        current_leader_epoch: epoch(reader.i32()?),
        log_end_offset: Offset(reader.i64()?),
        error: ErrorCode::from_code(reader.i16()?),
    };
    reader.skip_tags()?;
    Ok(replica)
}

impl Message for ReplicaLogInfoRequest {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        body.read(read_request)
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.write(true, |writer| write_request(writer, self))
    }
}

impl Message for ReplicaLogInfoResponse {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        body.read(read_response)
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.write(true, |writer| write_response(writer, self))
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let partitions = vec![PartitionId(0), PartitionId(7)];
        ReplicaLogInfoRequest { topics: Some(vec![(TopicId([9; 16]), partitions)]) }
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        let written = ReplicaLogInfo {
            partition: PartitionId(0),
            last_written_leader_epoch: Some(LeaderEpoch(4)),
            current_leader_epoch: Some(LeaderEpoch(5)),
            log_end_offset: Offset(77),
            error: ErrorCode::None,
        };
        let unknown = ReplicaLogInfo {
            partition: PartitionId(7),
            last_written_leader_epoch: None,
            current_leader_epoch: None,
            log_end_offset: Offset(-1),
            error: ErrorCode::UnknownTopicId,
        };
        ReplicaLogInfoResponse {
            broker_epoch: Some(BrokerEpoch(8)),
            has_more_data: true,
            topics: vec![(TopicId([9; 16]), vec![written, unknown])],
        }
    }
}
