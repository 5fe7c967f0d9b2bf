//! Who leads a topic and who is there, asked once over a connection of its own: for whoever steers
//! a cluster while a cell runs. Blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{ListOffsetsRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::driver::CLIENT_ID;
use crate::types::{BrokerId, ErrorCode, Offset, PartitionId};
use crate::wire::{self, Request, Response};

const METADATA_VERSION: i16 = 12;
const LIST_OFFSETS_VERSION: i16 = 7;
const LATEST_TIMESTAMP: i64 = -1;
/// More than any answer about one topic.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A cluster as one broker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Brokers that are not fenced, by id.
    pub brokers: Vec<BrokerId>,
    /// The topic's partitions, by index.
    pub partitions: Vec<PartitionDescription>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Who leads it.
    pub leader: Option<BrokerId>,
    /// In assignment order.
    pub replicas: Vec<BrokerId>,
    /// In sync, as committed.
    pub isr: Vec<BrokerId>,
}

/// Asks the broker at `address`; without a topic only for the brokers. Every wait ends after
/// `timeout`.
///
/// # Errors
/// The connection's, or `InvalidData` for an answer that is none.
pub fn describe(
    address: SocketAddr,
    topic: Option<&str>,
    timeout: Duration,
) -> io::Result<Description> {
    let topics = topic.map(|name| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        MetadataRequestTopic::default().with_name(Some(name))
    });
    let request = MetadataRequest::default().with_topics(Some(topics.into_iter().collect()));
    let answer = ask(address, METADATA_VERSION, &Request::Metadata(request), timeout)?;
    let Response::Metadata(metadata) = answer else {
        return Err(invalid("the answer is no metadata"));
    };
    let ids = |nodes: &[kafka_protocol::messages::BrokerId]| -> Vec<BrokerId> {
        nodes.iter().map(|id| BrokerId(id.0)).collect()
    };
    let mut partitions: Vec<_> = metadata.topics.iter().flat_map(|t| &t.partitions).collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    let partition = |partition: &&MetadataResponsePartition| PartitionDescription {
        leader: (partition.leader_id.0 >= 0).then_some(BrokerId(partition.leader_id.0)),
        replicas: ids(&partition.replica_nodes),
        isr: ids(&partition.isr_nodes),
    };
    let mut brokers: Vec<_> = metadata.brokers.iter().map(|one| BrokerId(one.node_id.0)).collect();
    brokers.sort_unstable();
    Ok(Description { brokers, partitions: partitions.iter().map(partition).collect() })
}

/// The high watermark of a partition, as its leader at `address` tells it. Every wait ends after
/// `timeout`.
///
/// # Errors
/// The connection's, or `InvalidData` for an answer that is none or holds an error.
pub fn latest_offset(
    address: SocketAddr,
    topic: &str,
    partition: PartitionId,
    timeout: Duration,
) -> io::Result<Offset> {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition.0)
        .with_timestamp(LATEST_TIMESTAMP);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(kafka_protocol::messages::BrokerId(-1))
        .with_topics(vec![topic]);
    let answer = ask(address, LIST_OFFSETS_VERSION, &Request::ListOffsets(request), timeout)?;
    let Response::ListOffsets(answer) = answer else {
        return Err(invalid("the answer names no offsets"));
    };
    let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
    let partition = partition.ok_or_else(|| invalid("the answer names no partition"))?;
    match ErrorCode::from_code(partition.error_code) {
        ErrorCode::None => Ok(Offset(partition.offset)),
        error => Err(invalid(error.name())),
    }
}

fn ask(
    address: SocketAddr,
    version: i16,
    request: &Request,
    timeout: Duration,
) -> io::Result<Response> {
    let frame = wire::encode_request(1, CLIENT_ID, version, request)
        .map_err(|error| invalid(&error.to_string()))?;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    stream.write_all(&(frame.len() as u32).to_be_bytes())?;
    stream.write_all(&frame)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(invalid("the answer is too long"));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    let answer = wire::parse_response(request.api(), version, answer.into());
    answer.map(|(_, response)| response).map_err(|error| invalid(&error.to_string()))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
