//! Produce (0): appends batches. By hand: records are never copied.
//!
//! Hot path: encoding makes one buffer for everything but the records, and one list of pieces.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::prelude::*;
use crate::types::{BrokerStamps, ErrorCode, Offset, PartitionId};
use crate::wire::ApiKey;
use crate::wire::fields::{
    CURRENT_LEADER_BYTES, CurrentLeader, offset_or_none, read_current_leader, some_offset,
    write_current_leader,
};
use crate::wire::head::{self, RequestHead};
use crate::wire::stamps::{
    BROKER_STAMPS, BROKER_STAMPS_BYTES, WANTS_STAMPS, read_broker_stamps, write_broker_stamps,
};

pub(super) type Request = ProduceRequest;
pub(super) type Response = ProduceResponse;

/// Listed from 0 although 0 to 2 are refused: otherwise older librdkafka silently drops compression
/// (spec/kafka-wire.md MUST 2).
pub(super) const SPEC: Spec = Spec::new(0, versions(3, 12), 9, Served::Broker).advertised_from(0);

/// Appends batches. Versions 3 to 12 carry the same fields, but for `wants_stamps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequest {
    /// Set by transactional producers, which this product does not serve.
    pub transactional_id: Option<StrBytes>,
    /// As on the wire: anything that [`crate::types::Acks::from_wire`] does not know is answered
    /// with INVALID_REQUIRED_ACKS.
    pub acks: i16,
    /// How long an `acks=all` may take, milliseconds.
    pub timeout_ms: i32,
    /// What to append, by topic.
    pub topics: Vec<ProduceTopic>,
    /// The client wants [`BrokerStamps`] in the response (flexible versions, this product only).
    pub wants_stamps: bool,
}

/// One topic of a [`ProduceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopic {
    /// Its name.
    pub name: StrBytes,
    /// What to append, by partition.
    pub partitions: Vec<ProducePartition>,
}

/// One partition of a [`ProduceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartition {
    /// Which.
    pub partition: PartitionId,
    /// One record batch, not yet looked at; empty if the client sent null. Shares the frame's
    /// memory after decoding.
    pub records: Bytes,
}

/// The answer to a [`ProduceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceResponse {
    /// By topic, as asked.
    pub topics: Vec<ProduceTopicResponse>,
}

/// One topic of a [`ProduceResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceTopicResponse {
    /// Its name.
    pub name: StrBytes,
    /// By partition.
    pub partitions: Vec<ProducePartitionResponse>,
}

/// One partition of a [`ProduceResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartitionResponse {
    /// Which.
    pub partition: PartitionId,
    /// What became of the batch.
    pub error: ErrorCode,
    /// Offset of its first record, if it was appended.
    pub base_offset: Option<Offset>,
    /// First offset of the log, if known (from version 5).
    pub log_start_offset: Option<Offset>,
    /// For people (from version 8).
    pub error_message: Option<StrBytes>,
    /// Who leads instead, if this broker does not (from version 10).
    pub current_leader: Option<CurrentLeader>,
    /// When what happened to the batch (flexible versions, this product only).
    pub stamps: Option<BrokerStamps>,
}

/// Encodes a request; the pieces together are the frame, the first one is its head.
///
/// # Panics
/// If `version` is not one of Produce's, or a string does not fit its type.
pub fn encode_produce_request(
    correlation_id: i32,
    client_id: &str,
    version: i16,
    request: &ProduceRequest,
) -> Vec<Bytes> {
    assert_version(version);
    let partition_count: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let names_bytes: usize = request.topics.iter().map(|topic| topic.name.len() + 16).sum();
    let capacity_bytes = 64 + client_id.len() + names_bytes + 16 * partition_count;
    let mut writer =
        Writer::new(ApiKey::Produce.is_flexible(version), capacity_bytes, partition_count);
    head::write_request(&mut writer, ApiKey::Produce, version, correlation_id, client_id);
    write_request(&mut writer, request);
    writer.into_pieces()
}

fn write_request(writer: &mut Writer, request: &ProduceRequest) {
    writer.nullable_string(request.transactional_id.as_deref());
    writer.i16(request.acks);
    writer.i32(request.timeout_ms);
    writer.count(request.topics.len());
    for topic in &request.topics {
        writer.string(&topic.name);
        writer.count(topic.partitions.len());
        for partition in &topic.partitions {
            writer.i32(partition.partition.0);
            writer.payload(std::iter::once(&partition.records));
            writer.tag_count(0);
        }
        writer.tag_count(0);
    }
    write_request_tags(writer, request.wants_stamps);
}

fn write_request_tags(writer: &mut Writer, wants_stamps: bool) {
    if wants_stamps && writer.is_flexible() {
        writer.tag_count(1);
        writer.tag(WANTS_STAMPS, 0);
    } else {
        writer.tag_count(0);
    }
}

fn read_request(reader: &mut Reader<'_>) -> Result<ProduceRequest, Problem> {
    let transactional_id = reader.nullable_string()?;
    let acks = reader.i16()?;
    let timeout_ms = reader.i32()?;
    let topics = reader.array_of(2, |reader| {
        let name = reader.string()?;
        let partitions = reader.array_of(5, read_request_partition)?;
        reader.skip_tags()?;
        Ok(ProduceTopic { name, partitions })
    })?;
    let mut wants_stamps = false;
    reader.tags(|tag, _| {
        wants_stamps |= tag == WANTS_STAMPS;
        Ok(tag == WANTS_STAMPS)
    })?;
    Ok(ProduceRequest { transactional_id, acks, timeout_ms, topics, wants_stamps })
}

fn read_request_partition(reader: &mut Reader<'_>) -> Result<ProducePartition, Problem> {
    let partition = PartitionId(reader.i32()?);
    let records = reader.nullable_bytes()?.unwrap_or_default();
    reader.skip_tags()?;
    Ok(ProducePartition { partition, records })
}

/// Encodes a response. Fields that the request's version lacks are left out.
///
/// # Panics
/// If the head's version is not one of Produce's, or a string does not fit its type.
pub fn encode_produce_response(head: &RequestHead, response: &ProduceResponse) -> Bytes {
    assert_version(head.version);
    let partition_count: usize = response.topics.iter().map(|topic| topic.partitions.len()).sum();
    let names_bytes: usize = response.topics.iter().map(|topic| topic.name.len() + 16).sum();
    let capacity_bytes = 32 + names_bytes + (48 + BROKER_STAMPS_BYTES) * partition_count;
    let flexible = ApiKey::Produce.is_flexible(head.version);
    let mut writer = Writer::new(flexible, capacity_bytes, 0);
    head::write_response(&mut writer, head);
    write_response(&mut writer, head.version, response);
    writer.into_bytes()
}

fn write_response(writer: &mut Writer, version: i16, response: &ProduceResponse) {
    writer.count(response.topics.len());
    for topic in &response.topics {
        writer.string(&topic.name);
        writer.count(topic.partitions.len());
        for partition in &topic.partitions {
            write_response_partition(writer, version, partition);
        }
        writer.tag_count(0);
    }
    writer.i32(0); // throttle time: clients really sleep for it
    writer.tag_count(0);
}

fn write_response_partition(
    writer: &mut Writer,
    version: i16,
    partition: &ProducePartitionResponse,
) {
    writer.i32(partition.partition.0);
    writer.i16(partition.error.code());
    writer.i64(offset_or_none(partition.base_offset));
    writer.i64(-1); // log append time: batches keep their producer's
    if version >= 5 {
        writer.i64(offset_or_none(partition.log_start_offset));
    }
    if version >= 8 {
        writer.count(0); // record errors
        writer.nullable_string(partition.error_message.as_deref());
    }
    let current_leader = partition.current_leader.filter(|_| version >= 10);
    let stamps = partition.stamps.as_ref().filter(|_| writer.is_flexible());
    writer.tag_count(usize::from(current_leader.is_some()) + usize::from(stamps.is_some()));
    if let Some(leader) = current_leader {
        writer.tag(0, CURRENT_LEADER_BYTES);
        write_current_leader(writer, leader);
    }
    if let Some(stamps) = stamps {
        write_broker_stamps(writer, stamps);
    }
}

fn read_response(reader: &mut Reader<'_>, version: i16) -> Result<ProduceResponse, Problem> {
    let topics = reader.array_of(2, |reader| {
        let name = reader.string()?;
        let partitions = reader.array_of(22, |reader| read_response_partition(reader, version))?;
        reader.skip_tags()?;
        Ok(ProduceTopicResponse { name, partitions })
    })?;
    reader.i32()?; // throttle time
    reader.skip_tags()?;
    Ok(ProduceResponse { topics })
}

fn read_response_partition(
    reader: &mut Reader<'_>,
    version: i16,
) -> Result<ProducePartitionResponse, Problem> {
    let partition = PartitionId(reader.i32()?);
    let error = ErrorCode::from_code(reader.i16()?);
    let base_offset = some_offset(reader.i64()?);
    reader.i64()?; // log append time
    let log_start_offset = if version >= 5 { some_offset(reader.i64()?) } else { None };
    let error_message = if version >= 8 {
        skip_record_errors(reader)?;
        reader.nullable_string()?
    } else {
        None
    };
    let (mut current_leader, mut stamps) = (None, None);
    reader.tags(|tag, reader| {
        match tag {
            0 if version >= 10 => current_leader = read_current_leader(reader)?,
            BROKER_STAMPS => stamps = Some(read_broker_stamps(reader)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(ProducePartitionResponse {
        partition,
        error,
        base_offset,
        log_start_offset,
        error_message,
        current_leader,
        stamps,
    })
}

fn skip_record_errors(reader: &mut Reader<'_>) -> Result<(), Problem> {
    for _ in 0..reader.nullable_count(5)?.unwrap_or(0) {
        reader.i32()?; // index of the batch
        reader.skip_string()?;
        reader.skip_tags()?;
    }
    Ok(())
}

fn assert_version(version: i16) {
    assert!(ApiKey::Produce.codec_range().contains(version), "Produce version {version}");
}

impl Message for ProduceRequest {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        body.read(read_request)
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.write(true, |writer| write_request(writer, self))
    }
}

impl Message for ProduceResponse {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        let version = body.version;
        body.read(|reader| read_response(reader, version))
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        let version = out.version;
        out.write(true, |writer| write_response(writer, version, self))
    }
}

#[cfg(test)]
pub(super) mod samples {
    pub(in crate::wire) use crate::wire::tests::hot_samples::{
        produce_request as request, produce_response as response,
    };
}
