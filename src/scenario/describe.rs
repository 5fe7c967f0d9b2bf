//! Who leads a topic and who is there, asked once over a connection of its own: for whoever steers
//! a cluster while a cell runs. Blocks.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{
    DescribeClusterRequest, ListOffsetsRequest, MetadataRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::node::client::Client;
use crate::types::{BrokerId, ErrorCode, Offset, PartitionId};
use crate::wire::{Request, Response};

const METADATA_VERSION: i16 = 12;
const DESCRIBE_CLUSTER_VERSION: i16 = 2;
const LIST_OFFSETS_VERSION: i16 = 7;
const LATEST_TIMESTAMP: i64 = -1;
/// More than any answer about one topic.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A cluster as one broker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    /// Brokers that are not fenced, by id.
    pub(super) brokers: Vec<BrokerId>,
    /// The topic's partitions, by index.
    pub(super) partitions: Vec<PartitionDescription>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartitionDescription {
    /// Who leads it.
    pub(super) leader: Option<BrokerId>,
    /// In assignment order.
    pub(super) replicas: Vec<BrokerId>,
    /// In sync, as committed.
    pub(super) isr: Vec<BrokerId>,
}

/// As the broker at `address` sees it; without a topic only the brokers. `None` if it does not
/// answer; every wait ends after `timeout`.
pub(super) fn describe(
    address: SocketAddr,
    topic: Option<&str>,
    timeout: Duration,
) -> Option<Description> {
    let topics = topic.map(|name| {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        MetadataRequestTopic::default().with_name(Some(name))
    });
    let request = MetadataRequest::default().with_topics(Some(topics.into_iter().collect()));
    let answer = ask(address, METADATA_VERSION, &Request::Metadata(request), timeout)?;
    let Response::Metadata(metadata) = answer else { return None };
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
    Some(Description { brokers, partitions: partitions.iter().map(partition).collect() })
}

/// Brokers that are not fenced, as the broker at `address` has applied it, itself included; `None` if
/// it does not answer. Every wait ends after `timeout`.
pub(super) fn unfenced(address: SocketAddr, timeout: Duration) -> Option<Vec<BrokerId>> {
    let request = DescribeClusterRequest::default().with_include_fenced_brokers(true);
    let request = Request::DescribeCluster(request);
    let answer = ask(address, DESCRIBE_CLUSTER_VERSION, &request, timeout)?;
    let Response::DescribeCluster(cluster) = answer else { return None };
    let unfenced = cluster.brokers.iter().filter(|broker| !broker.is_fenced);
    Some(unfenced.map(|broker| BrokerId(broker.broker_id.0)).collect())
}

/// The high watermark of a partition, as its leader at `address` tells it; `None` if it does not.
/// Every wait ends after `timeout`.
pub(super) fn latest_offset(
    address: SocketAddr,
    topic: &str,
    partition: PartitionId,
    timeout: Duration,
) -> Option<Offset> {
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
    let Response::ListOffsets(answer) = answer else { return None };
    let partition = answer.topics.first()?.partitions.first()?;
    let is_told = ErrorCode::from_code(partition.error_code) == ErrorCode::None;
    is_told.then_some(Offset(partition.offset))
}

fn ask(
    address: SocketAddr,
    version: i16,
    request: &Request,
    timeout: Duration,
) -> Option<Response> {
    let client = Client::connect(&address.to_string(), timeout).ok()?;
    client.reading_at_most(ANSWER_BYTES_MAX).ask(version, request).ok()
}
