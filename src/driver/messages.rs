//! The driver's produce and fetch requests, and what it wants of the answers.
//!
//! Leaves the bytes to `wire`.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::types::{Acks, BrokerStamps, ErrorCode, Offset, PartitionId, TopicId};
use crate::wire::{
    self, ApiKey, FetchPartition, FetchRequest, FetchResponse, FetchTopic, ProducePartition,
    ProduceRequest, ProduceTopic, Response, TopicRef,
};

use super::{CLIENT_ID, FETCH_VERSION, PRODUCE_VERSION};

/// Bytes of one partition a fetch asks for: Kafka's own default, and sixteen batches of 64 KiB.
const FETCH_PARTITION_BYTES_MAX: i32 = 1 << 20;

/// Bytes a fetch asks for over all partitions: well below any frame limit.
const FETCH_BYTES_MAX: i32 = 32 << 20;

/// What a produce answer says of the one batch that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceAnswer {
    /// Of the request.
    pub correlation_id: i32,
    /// What became of the batch.
    pub error: ErrorCode,
    /// Where it is, if it was appended.
    pub base_offset: Option<Offset>,
    /// The batch's way through the broker, if it told.
    pub stamps: Option<BrokerStamps>,
}

/// An answer that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The frame of a produce request with one batch: its head, then the batch.
pub fn produce(
    correlation_id: i32,
    topic: &StrBytes,
    partition: PartitionId,
    acks: Acks,
    timeout_ms: i32,
    batch: &Bytes,
) -> Vec<Bytes> {
    let partition = ProducePartition { partition, records: batch.clone() };
    let request = ProduceRequest {
        transactional_id: None,
        acks: acks.to_wire(),
        timeout_ms,
        topics: vec![ProduceTopic { name: topic.clone(), partitions: vec![partition] }],
        wants_stamps: acks != Acks::None,
    };
    wire::encode_produce_request(correlation_id, CLIENT_ID, PRODUCE_VERSION, &request)
}

/// Reads the answer to a [`produce`] request.
pub fn read_produce(frame: BytesMut) -> Result<ProduceAnswer, Malformed> {
    let (correlation_id, response) =
        wire::parse_response(ApiKey::Produce, PRODUCE_VERSION, frame.freeze())
            .map_err(|_| Malformed)?;
    let Response::Produce(response) = response else { return Err(Malformed) };
    let partition = response.topics.first().and_then(|topic| topic.partitions.first());
    let partition = partition.ok_or(Malformed)?;
    Ok(ProduceAnswer {
        correlation_id,
        error: partition.error,
        base_offset: partition.base_offset,
        stamps: partition.stamps,
    })
}

/// The frame of a consumer's fetch request without a session, with the high watermark's trace.
pub fn fetch(
    correlation_id: i32,
    topic: &StrBytes,
    max_wait_ms: i32,
    partitions: impl Iterator<Item = (PartitionId, Offset)>,
) -> Bytes {
    let partitions = partitions.map(|(partition, fetch_offset)| FetchPartition {
        partition,
        current_leader_epoch: None,
        fetch_offset,
        last_fetched_epoch: None,
        log_start_offset: None,
        partition_max_bytes: FETCH_PARTITION_BYTES_MAX,
        stamps: None,
        durable_offset: None,
    });
    let topic = TopicRef { name: topic.clone(), id: TopicId::ZERO };
    let request = FetchRequest {
        cluster_id: None,
        replica: None,
        max_wait_ms,
        min_bytes: 1,
        max_bytes: FETCH_BYTES_MAX,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic { topic, partitions: partitions.collect() }],
        trace_high_watermark: true,
    };
    wire::encode_fetch_request(correlation_id, CLIENT_ID, FETCH_VERSION, &request)
}

/// Reads the answer to a [`fetch`] request, with its correlation id.
pub fn read_fetch(frame: BytesMut) -> Result<(i32, FetchResponse), Malformed> {
    match wire::parse_response(ApiKey::Fetch, FETCH_VERSION, frame.freeze()) {
        Ok((correlation_id, Response::Fetch(response))) => Ok((correlation_id, response)),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

/// Whether an error says that the partition's leader is not, or no longer, this broker.
pub fn says_leader_moved(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::KafkaStorageError
    )
}
