//! Fetch responses, by hand: records are never copied.
//!
//! Hot path: encoding makes one buffer for everything but the records, and one list of pieces.

use bytes::Bytes;

use crate::types::{ErrorCode, LeaderEpoch, Offset, PartitionId};

use super::request::{TopicRef, assert_version, read_topic_ref, write_topic_ref};
use crate::wire::ApiKey;
use crate::wire::apis::prelude::*;
use crate::wire::fields::{
    CURRENT_LEADER_BYTES, CurrentLeader, offset_or_none, read_current_leader, some_offset,
    write_current_leader,
};
use crate::wire::head::{self, RequestHead};
use crate::wire::stamps::{
    HIGH_WATERMARK_TRACE, HighWatermarkTrace, read_trace, trace_bytes, write_trace,
};

const DIVERGING_EPOCH_TAG: u32 = 0;
/// Epoch, end offset, empty section of tagged fields.
const DIVERGING_EPOCH_BYTES: usize = 13;
const CURRENT_LEADER_TAG: u32 = 1;

/// The answer to a fetch. Snapshot ids and node endpoints are neither written nor kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse {
    /// What is wrong with the request as a whole (from version 7).
    pub error: ErrorCode,
    /// The fetch session; 0 declines one (from version 7).
    pub session_id: i32,
    /// By topic.
    pub topics: Vec<FetchTopicResponse>,
}

/// One topic of a [`FetchResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopicResponse {
    /// Which.
    pub topic: TopicRef,
    /// By partition.
    pub partitions: Vec<FetchPartitionResponse>,
}

/// One partition of a [`FetchResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartitionResponse {
    /// Which.
    pub partition: PartitionId,
    /// Why there is nothing.
    pub error: ErrorCode,
    /// Exclusive end of what consumers may read, if known. Also stands for the last stable offset,
    /// which equals it without transactions.
    pub high_watermark: Option<Offset>,
    /// First offset kept, if known (from version 5).
    pub log_start_offset: Option<Offset>,
    /// Set when the follower's log diverges: the largest epoch the leader has at or below the
    /// follower's, and where it ends (flexible versions).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Who leads instead, if this broker does not (flexible versions).
    pub current_leader: Option<CurrentLeader>,
    /// Record batches in order, in as many chunks as the log read gave; never null on the wire.
    /// One chunk, or none, after decoding, sharing the frame's memory.
    pub records: Vec<Bytes>,
    /// How the high watermark moved (flexible versions, this product only).
    pub trace: Option<HighWatermarkTrace>,
}

/// Encodes a response; the pieces together are the frame, the first one is its head. Fields that
/// the request's version lacks are left out.
///
/// # Panics
/// If the head's version is not one of Fetch's, or a string does not fit its type.
pub fn encode_fetch_response(head: &RequestHead, response: &FetchResponse) -> Vec<Bytes> {
    assert_version(head.version);
    let partitions = || response.topics.iter().flat_map(|topic| &topic.partitions);
    let names_bytes: usize = response.topics.iter().map(|topic| topic.topic.name.len() + 32).sum();
    let partitions_bytes: usize =
        partitions().map(|partition| 96 + partition.trace.as_ref().map_or(0, trace_bytes)).sum();
    let chunk_count: usize = partitions().map(|partition| partition.records.len()).sum();
    let flexible = ApiKey::Fetch.is_flexible(head.version);
    let mut writer = Writer::new(flexible, 32 + names_bytes + partitions_bytes, chunk_count);
    head::write_response(&mut writer, head);
    write_response(&mut writer, head.version, response);
    writer.into_pieces()
}

fn write_response(writer: &mut Writer, version: i16, response: &FetchResponse) {
    writer.i32(0); // throttle time: clients really sleep for it
    if version >= 7 {
        writer.i16(response.error.code());
        writer.i32(response.session_id);
    }
    writer.count(response.topics.len());
    for topic in &response.topics {
        write_topic_ref(writer, version, &topic.topic);
        writer.count(topic.partitions.len());
        for partition in &topic.partitions {
            write_partition(writer, version, partition);
        }
        writer.tag_count(0);
    }
    writer.tag_count(0);
}

fn write_partition(writer: &mut Writer, version: i16, partition: &FetchPartitionResponse) {
    let high_watermark = offset_or_none(partition.high_watermark);
    writer.i32(partition.partition.0);
    writer.i16(partition.error.code());
    writer.i64(high_watermark);
    writer.i64(high_watermark); // last stable offset
    if version >= 5 {
        writer.i64(offset_or_none(partition.log_start_offset));
    }
    writer.count(0); // aborted transactions
    if version >= 11 {
        writer.i32(-1); // preferred read replica
    }
    writer.payload(partition.records.iter());
    if writer.is_flexible() {
        write_partition_tags(writer, partition);
    }
}

fn write_partition_tags(writer: &mut Writer, partition: &FetchPartitionResponse) {
    let FetchPartitionResponse { diverging, current_leader, trace, .. } = partition;
    let tags = [diverging.is_some(), current_leader.is_some(), trace.is_some()];
    writer.tag_count(tags.into_iter().filter(|&present| present).count());
    if let Some((epoch, end_offset)) = diverging {
        writer.tag(DIVERGING_EPOCH_TAG, DIVERGING_EPOCH_BYTES);
        writer.i32(epoch.0);
        writer.i64(end_offset.0);
        writer.tag_count(0);
    }
    if let Some(leader) = current_leader {
        writer.tag(CURRENT_LEADER_TAG, CURRENT_LEADER_BYTES);
        write_current_leader(writer, *leader);
    }
    if let Some(trace) = trace {
        write_trace(writer, trace);
    }
}

fn read_response(reader: &mut Reader<'_>, version: i16) -> Result<FetchResponse, Problem> {
    reader.i32()?; // throttle time
    let (error, session_id) = if version >= 7 {
        (ErrorCode::from_code(reader.i16()?), reader.i32()?)
    } else {
        (ErrorCode::None, 0)
    };
    let topics = reader.array_of(3, |reader| {
        let topic = read_topic_ref(reader, version)?;
        let partitions = reader.array_of(24, |reader| read_partition(reader, version))?;
        reader.skip_tags()?;
        Ok(FetchTopicResponse { topic, partitions })
    })?;
    reader.skip_tags()?;
    Ok(FetchResponse { error, session_id, topics })
}

fn read_partition(
    reader: &mut Reader<'_>,
    version: i16,
) -> Result<FetchPartitionResponse, Problem> {
    let partition = PartitionId(reader.i32()?);
    let error = ErrorCode::from_code(reader.i16()?);
    let high_watermark = some_offset(reader.i64()?);
    reader.i64()?; // last stable offset
    let log_start_offset = if version >= 5 { some_offset(reader.i64()?) } else { None };
    skip_aborted_transactions(reader)?;
    if version >= 11 {
        reader.i32()?; // preferred read replica
    }
    let records = reader.nullable_bytes()?.filter(|records| !records.is_empty());
    let (mut diverging, mut current_leader, mut trace) = (None, None, None);
    reader.tags(|tag, reader| {
        match tag {
            DIVERGING_EPOCH_TAG => diverging = read_diverging(reader)?,
            CURRENT_LEADER_TAG => current_leader = read_current_leader(reader)?,
            HIGH_WATERMARK_TRACE => trace = Some(read_trace(reader)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(FetchPartitionResponse {
        partition,
        error,
        high_watermark,
        log_start_offset,
        diverging,
        current_leader,
        records: records.into_iter().collect(),
        trace,
    })
}

fn skip_aborted_transactions(reader: &mut Reader<'_>) -> Result<(), Problem> {
    for _ in 0..reader.nullable_count(16)?.unwrap_or(0) {
        reader.skip(16)?; // producer id, first offset
        reader.skip_tags()?;
    }
    Ok(())
}

/// An epoch of -1 says that nothing diverges.
fn read_diverging(reader: &mut Reader<'_>) -> Result<Option<(LeaderEpoch, Offset)>, Problem> {
    let epoch = reader.i32()?;
    let end_offset = reader.i64()?;
    reader.skip_tags()?;
    Ok((epoch >= 0).then_some((LeaderEpoch(epoch), Offset(end_offset))))
}

impl Message for FetchResponse {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        let version = body.version;
        body.read(|reader| read_response(reader, version))
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        let version = out.version;
        out.write(true, |writer| write_response(writer, version, self))
    }
}
