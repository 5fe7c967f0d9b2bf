//! What the cluster says of a cell's partitions while the cell runs: asked twice a second, on a
//! thread and over connections of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crossbeam::channel::{self, RecvTimeoutError, Sender};
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterRequest, DescribeTopicPartitionsRequest, ListOffsetsRequest, TopicName,
};

use crate::measure::threads;
use crate::node::client::Client;
use crate::node::exporter::stand_back;
use crate::wire::{Request, Response};

use super::progress::Update;

/// Between two questions.
const INTERVAL: Duration = Duration::from_millis(500);
/// A broker that takes longer is asked again later: it may have been killed.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// More partitions nobody reads.
const PARTITIONS_MAX: i32 = 64;

const DESCRIBE_TOPICS_VERSION: i16 = 0;
const DESCRIBE_CLUSTER_VERSION: i16 = 1;
const LIST_OFFSETS_VERSION: i16 = 7;
/// ListOffsets' word for the high watermark, to a consumer.
const LATEST: i64 = -1;
const CONSUMER: BrokerId = BrokerId(-1);

/// One partition as the cluster tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its index.
    pub index: i32,
    /// Nobody: the partition is offline.
    pub leader: Option<i32>,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// In-sync replicas.
    pub isr: Vec<i32>,
    /// Eligible leader replicas.
    pub elr: Vec<i32>,
    /// As its leader tells it; absent where it could not be asked.
    pub high_watermark: Option<i64>,
}

/// A thread that asks. Dropping it ends the asking.
#[derive(Debug)]
pub(super) struct Watch {
    _asking: Sender<()>,
}

impl Watch {
    /// Asks about `topic` and tells `updates`. `None` if the host has no thread to spare.
    pub(super) fn start(
        bootstrap: SocketAddr,
        topic: &str,
        updates: Sender<Update>,
    ) -> Option<Watch> {
        let (asking, ended) = channel::bounded::<()>(0);
        let mut brokers = Brokers {
            topic: TopicName(topic.to_owned().into()),
            addresses: BTreeMap::from([(CONSUMER.0, bootstrap.to_string())]),
            connections: BTreeMap::new(),
        };
        let ask = move || {
            stand_back();
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // What cannot be told now is asked again.
                let Some(partitions) = brokers.partitions() else { continue };
                if updates.send(Update::Partitions(partitions)).is_err() {
                    return;
                }
            }
        };
        let thread = threads::start("partitions", ask);
        thread.ok().map(|_| Watch { _asking: asking })
    }
}

/// The brokers by id; the bootstrap address has an id that no broker has.
struct Brokers {
    topic: TopicName,
    addresses: BTreeMap<i32, String>,
    connections: BTreeMap<i32, Client>,
}

impl Brokers {
    fn partitions(&mut self) -> Option<Vec<Partition>> {
        let mut partitions = self.described()?;
        let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for partition in &partitions {
            if let Some(leader) = partition.leader {
                by_leader.entry(leader).or_default().push(partition.index);
            }
        }
        for (leader, indexes) in by_leader {
            // A leader that is gone has no high watermark to tell.
            for (index, offset) in self.high_watermarks(leader, &indexes).unwrap_or_default() {
                let of = partitions.iter_mut().find(|partition| partition.index == index);
                if let Some(partition) = of {
                    partition.high_watermark = Some(offset);
                }
            }
        }
        Some(partitions)
    }

    /// As any broker tells them that answers.
    fn described(&mut self) -> Option<Vec<Partition>> {
        let topic = TopicRequest::default().with_name(self.topic.clone());
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(vec![topic])
            .with_response_partition_limit(PARTITIONS_MAX);
        let request = Request::DescribeTopicPartitions(request);
        let ids: Vec<i32> = self.addresses.keys().copied().collect();
        let mut answers = ids
            .into_iter()
            .filter_map(|id| Some((id, self.ask(id, DESCRIBE_TOPICS_VERSION, &request)?)));
        let (id, answer) = answers.next()?;
        self.learn_addresses(id)?;
        let Response::DescribeTopicPartitions(answer) = answer else { return None };
        let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<i32>>();
        let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
        let described = partitions
            .map(|described| Partition {
                index: described.partition_index,
                leader: Some(described.leader_id.0).filter(|&leader| leader >= 0),
                leader_epoch: described.leader_epoch,
                isr: ids(&described.isr_nodes),
                elr: ids(&described.eligible_leader_replicas.unwrap_or_default()),
                high_watermark: None,
            })
            .collect();
        Some(described)
    }

    fn learn_addresses(&mut self, from: i32) -> Option<()> {
        if self.addresses.len() > 1 {
            return Some(());
        }
        let request = Request::DescribeCluster(DescribeClusterRequest::default());
        if let Response::DescribeCluster(answer) =
            self.ask(from, DESCRIBE_CLUSTER_VERSION, &request)?
        {
            let address = |host: &str, port: i32| format!("{host}:{port}");
            self.addresses.extend(
                answer
                    .brokers
                    .iter()
                    .map(|broker| (broker.broker_id.0, address(&broker.host, broker.port))),
            );
        }
        Some(())
    }

    fn high_watermarks(&mut self, leader: i32, indexes: &[i32]) -> Option<Vec<(i32, i64)>> {
        let asked = |&index: &i32| {
            ListOffsetsPartition::default().with_partition_index(index).with_timestamp(LATEST)
        };
        let topic = ListOffsetsTopic::default()
            .with_name(self.topic.clone())
            .with_partitions(indexes.iter().map(asked).collect());
        let request =
            ListOffsetsRequest::default().with_replica_id(CONSUMER).with_topics(vec![topic]);
        let answer = self.ask(leader, LIST_OFFSETS_VERSION, &Request::ListOffsets(request))?;
        let Response::ListOffsets(answer) = answer else { return None };
        let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
        let told = partitions.filter(|partition| partition.error_code == 0);
        Some(told.map(|partition| (partition.partition_index, partition.offset)).collect())
    }

    /// One question to one broker. A connection that failed is opened again next time.
    fn ask(&mut self, id: i32, version: i16, request: &Request) -> Option<Response> {
        let mut client = match self.connections.remove(&id) {
            Some(client) => client,
            None => Client::connect(self.addresses.get(&id)?, ANSWER_TIME_MAX).ok()?,
        };
        let answer = client.ask(version, request).ok()?;
        self.connections.insert(id, client);
        Some(answer)
    }
}
