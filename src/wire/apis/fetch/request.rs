//! Fetch requests and their codec, by hand.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::types::{
    BrokerEpoch, BrokerId, FollowerStamps, LeaderEpoch, Offset, PartitionId, TopicId,
};

use crate::wire::ApiKey;
use crate::wire::apis::prelude::*;
use crate::wire::fields::{offset_or_none, some_offset};
use crate::wire::head;
use crate::wire::stamps::{
    DURABLE_OFFSET, DURABLE_OFFSET_BYTES, FOLLOWER_STAMPS, FOLLOWER_STAMPS_BYTES,
    TRACE_HIGH_WATERMARK, read_follower_stamps, write_follower_stamps,
};

/// First version that names topics by id.
const TOPIC_IDS_FROM: i16 = 13;
/// First version whose replica is a tagged field with its epoch.
const REPLICA_STATE_FROM: i16 = 15;

const CLUSTER_ID_TAG: u32 = 0;
const REPLICA_STATE_TAG: u32 = 1;
/// Replica id, replica epoch, empty section of tagged fields.
const REPLICA_STATE_BYTES: usize = 13;

/// Reads batches. Isolation level, rack and forgotten topics are read over: without transactions,
/// rack-aware reads and fetch sessions they change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// The cluster the fetcher believes in (flexible versions).
    pub cluster_id: Option<StrBytes>,
    /// Set by followers; a consumer is `None`.
    pub replica: Option<FetchingReplica>,
    /// How long the answer may wait for `min_bytes`, milliseconds.
    pub max_wait_ms: i32,
    /// How many bytes of records the answer waits for.
    pub min_bytes: i32,
    /// How many bytes of records the answer should not exceed.
    pub max_bytes: i32,
    /// The fetch session; 0 is none (from version 7).
    pub session_id: i32,
    /// Position in the session; -1 is "no session", 0 asks for a new one (from version 7).
    pub session_epoch: i32,
    /// What to read, by topic.
    pub topics: Vec<FetchTopic>,
    /// The consumer wants the high watermark's steps in the response (flexible versions, this
    /// product only).
    pub trace_high_watermark: bool,
}

/// A follower, as it names itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchingReplica {
    /// Its id.
    pub id: BrokerId,
    /// Its epoch, if it said (from version 15).
    pub epoch: Option<BrokerEpoch>,
}

/// A topic, by name before version 13 and by id from then on. The other is not on the wire: empty,
/// or [`TopicId::ZERO`], after decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRef {
    /// Its name.
    pub name: StrBytes,
    /// Its id.
    pub id: TopicId,
}

/// One topic of a [`FetchRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Which.
    pub topic: TopicRef,
    /// What to read, by partition.
    pub partitions: Vec<FetchPartition>,
}

/// One partition of a [`FetchRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Which.
    pub partition: PartitionId,
    /// The leader epoch the fetcher believes in, if it said (from version 9).
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// First offset wanted. Not checked: may be negative.
    pub fetch_offset: Offset,
    /// Epoch of the last record the fetcher holds, if it said (from version 12).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A follower's log start offset (from version 5).
    pub log_start_offset: Option<Offset>,
    /// How many bytes of this partition the answer should not exceed.
    pub partition_max_bytes: i32,
    /// When the follower received, appended and made durable what it acknowledges (flexible
    /// versions, this product only).
    pub stamps: Option<FollowerStamps>,
    /// Exclusive end of what is durable at a follower that fetches past it (flexible versions, this
    /// product only).
    pub durable_offset: Option<Offset>,
}

/// Encodes a request. Fields that `version` lacks are left out.
///
/// # Panics
/// If `version` is not one of Fetch's, or a string does not fit its type.
pub fn encode_fetch_request(
    correlation_id: i32,
    client_id: &str,
    version: i16,
    request: &FetchRequest,
) -> Bytes {
    assert_version(version);
    let partition_count: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let names_bytes: usize = request.topics.iter().map(|topic| topic.topic.name.len() + 32).sum();
    let capacity_bytes =
        96 + client_id.len() + names_bytes + (64 + FOLLOWER_STAMPS_BYTES) * partition_count;
    let mut writer = Writer::new(ApiKey::Fetch.is_flexible(version), capacity_bytes, 0);
    head::write_request(&mut writer, ApiKey::Fetch, version, correlation_id, client_id);
    write_request(&mut writer, version, request);
    writer.into_bytes()
}

fn write_request(writer: &mut Writer, version: i16, request: &FetchRequest) {
    if version < REPLICA_STATE_FROM {
        writer.i32(request.replica.map_or(-1, |replica| replica.id.0));
    }
    writer.i32(request.max_wait_ms);
    writer.i32(request.min_bytes);
    writer.i32(request.max_bytes);
    writer.i8(0); // isolation level: read uncommitted
    if version >= 7 {
        writer.i32(request.session_id);
        writer.i32(request.session_epoch);
    }
    writer.count(request.topics.len());
    for topic in &request.topics {
        write_topic_ref(writer, version, &topic.topic);
        writer.count(topic.partitions.len());
        for partition in &topic.partitions {
            write_partition(writer, version, partition);
        }
        writer.tag_count(0);
    }
    if version >= 7 {
        writer.count(0); // forgotten topics
    }
    if version >= 11 {
        writer.string(""); // rack
    }
    write_request_tags(writer, version, request);
}

fn write_partition(writer: &mut Writer, version: i16, partition: &FetchPartition) {
    writer.i32(partition.partition.0);
    if version >= 9 {
        writer.i32(epoch_or_none(partition.current_leader_epoch));
    }
    writer.i64(partition.fetch_offset.0);
    if version >= 12 {
        writer.i32(epoch_or_none(partition.last_fetched_epoch));
    }
    if version >= 5 {
        writer.i64(offset_or_none(partition.log_start_offset));
    }
    writer.i32(partition.partition_max_bytes);
    if !writer.is_flexible() {
        return;
    }
    let tags = [partition.stamps.is_some(), partition.durable_offset.is_some()];
    writer.tag_count(tags.into_iter().filter(|&present| present).count());
    if let Some(stamps) = &partition.stamps {
        write_follower_stamps(writer, stamps);
    }
    if let Some(durable) = partition.durable_offset {
        writer.tag(DURABLE_OFFSET, DURABLE_OFFSET_BYTES);
        writer.i64(durable.0);
    }
}

fn write_request_tags(writer: &mut Writer, version: i16, request: &FetchRequest) {
    if !writer.is_flexible() {
        return;
    }
    let cluster_id = request.cluster_id.as_ref();
    let replica = request.replica.filter(|_| version >= REPLICA_STATE_FROM);
    let tags = [cluster_id.is_some(), replica.is_some(), request.trace_high_watermark];
    writer.tag_count(tags.into_iter().filter(|&present| present).count());
    if let Some(cluster_id) = cluster_id {
        writer.tag(CLUSTER_ID_TAG, compact_string_bytes(cluster_id));
        writer.string(cluster_id);
    }
    if let Some(replica) = replica {
        writer.tag(REPLICA_STATE_TAG, REPLICA_STATE_BYTES);
        writer.i32(replica.id.0);
        writer.i64(replica.epoch.map_or(-1, |epoch| epoch.0));
        writer.tag_count(0);
    }
    if request.trace_high_watermark {
        writer.tag(TRACE_HIGH_WATERMARK, 0);
    }
}

fn read_request(reader: &mut Reader<'_>, version: i16) -> Result<FetchRequest, Problem> {
    let mut replica = None;
    if version < REPLICA_STATE_FROM {
        replica = some_replica(reader.i32()?, -1);
    }
    let max_wait_ms = reader.i32()?;
    let min_bytes = reader.i32()?;
    let max_bytes = reader.i32()?;
    reader.i8()?; // isolation level
    let (session_id, session_epoch) =
        if version >= 7 { (reader.i32()?, reader.i32()?) } else { (0, -1) };
    let topics = reader.array_of(3, |reader| {
        let topic = read_topic_ref(reader, version)?;
        let partitions = reader.array_of(16, |reader| read_partition(reader, version))?;
        reader.skip_tags()?;
        Ok(FetchTopic { topic, partitions })
    })?;
    if version >= 7 {
        skip_forgotten_topics(reader, version)?;
    }
    if version >= 11 {
        reader.skip_string()?; // rack
    }
    let (mut cluster_id, mut trace_high_watermark) = (None, false);
    reader.tags(|tag, reader| {
        match tag {
            CLUSTER_ID_TAG => cluster_id = reader.nullable_string()?,
            REPLICA_STATE_TAG if version >= REPLICA_STATE_FROM => {
                replica = some_replica(reader.i32()?, reader.i64()?);
                reader.skip_tags()?;
            }
            TRACE_HIGH_WATERMARK => trace_high_watermark = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(FetchRequest {
        cluster_id,
        replica,
        max_wait_ms,
        min_bytes,
        max_bytes,
        session_id,
        session_epoch,
        topics,
        trace_high_watermark,
    })
}

fn read_partition(reader: &mut Reader<'_>, version: i16) -> Result<FetchPartition, Problem> {
    let partition = PartitionId(reader.i32()?);
    let current_leader_epoch = if version >= 9 { some_epoch(reader.i32()?) } else { None };
    let fetch_offset = Offset(reader.i64()?);
    let last_fetched_epoch = if version >= 12 { some_epoch(reader.i32()?) } else { None };
    let log_start_offset = if version >= 5 { some_offset(reader.i64()?) } else { None };
    let partition_max_bytes = reader.i32()?;
    let (mut stamps, mut durable_offset) = (None, None);
    reader.tags(|tag, reader| {
        match tag {
            FOLLOWER_STAMPS => stamps = Some(read_follower_stamps(reader)?),
            DURABLE_OFFSET => durable_offset = some_offset(reader.i64()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(FetchPartition {
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
        stamps,
        durable_offset,
    })
}

fn skip_forgotten_topics(reader: &mut Reader<'_>, version: i16) -> Result<(), Problem> {
    for _ in 0..reader.nullable_count(5)?.unwrap_or(0) {
        read_topic_ref(reader, version)?;
        let partition_count = reader.nullable_count(4)?.unwrap_or(0);
        reader.skip(4 * partition_count)?;
        reader.skip_tags()?;
    }
    Ok(())
}

pub(super) fn write_topic_ref(writer: &mut Writer, version: i16, topic: &TopicRef) {
    if version >= TOPIC_IDS_FROM {
        writer.uuid(&topic.id.0);
    } else {
        writer.string(&topic.name);
    }
}

pub(super) fn read_topic_ref(reader: &mut Reader<'_>, version: i16) -> Result<TopicRef, Problem> {
    if version >= TOPIC_IDS_FROM {
        Ok(TopicRef { name: StrBytes::new(), id: reader.topic_id()? })
    } else {
        Ok(TopicRef { name: reader.string()?, id: TopicId::ZERO })
    }
}

/// Any negative id is a consumer (-1) or a debugging one (-2).
fn some_replica(id: i32, epoch: i64) -> Option<FetchingReplica> {
    let epoch = (epoch >= 0).then_some(BrokerEpoch(epoch));
    (id >= 0).then_some(FetchingReplica { id: BrokerId(id), epoch })
}

fn some_epoch(epoch: i32) -> Option<LeaderEpoch> {
    (epoch >= 0).then_some(LeaderEpoch(epoch))
}

fn epoch_or_none(epoch: Option<LeaderEpoch>) -> i32 {
    epoch.map_or(-1, |epoch| epoch.0)
}

fn compact_string_bytes(string: &str) -> usize {
    crate::record::varint::size_of_u64(string.len() as u64 + 1) + string.len()
}

pub(super) fn assert_version(version: i16) {
    assert!(ApiKey::Fetch.codec_range().contains(version), "Fetch version {version}");
}

impl Message for FetchRequest {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        let version = body.version;
        body.read(|reader| read_request(reader, version))
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        let version = out.version;
        out.write(true, |writer| write_request(writer, version, self))
    }
}
