//! What a broker says about the cluster, as plain values that have a JSON form.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::describe_topic_partitions_response::{
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest,
    TopicName,
};
use serde::Serialize;

use super::settings::Whose;
use super::{AdminError, accepted};
use crate::node::client::Client;
use crate::types::TopicId;
use crate::wire::{ApiKey, Request, Response};

const DESCRIBE_TOPICS_VERSION: i16 = 0;
const DESCRIBE_CONFIGS_VERSION: i16 = 4;
/// The first that tells fenced brokers.
const DESCRIBE_CLUSTER_VERSION: i16 = 2;
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: String,
    /// Values set for the topic itself.
    pub(super) configs: BTreeMap<String, String>,
    pub(super) partitions: Vec<Partition>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Partition {
    pub(super) partition: i32,
    /// Nobody: the partition is paused.
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: i32,
    pub(super) replicas: Vec<i32>,
    pub(super) isr: Vec<i32>,
    /// Eligible leader replicas.
    pub(super) elr: Vec<i32>,
    pub(super) last_known_elr: Vec<i32>,
    pub(super) offline_replicas: Vec<i32>,
}

/// One broker, fenced or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Broker {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) rack: Option<String>,
    pub(super) fenced: bool,
}

impl Client {
    /// The topics of these names, or all, page by page.
    pub(super) fn topics(&mut self, names: &[String]) -> Result<Vec<Topic>, AdminError> {
        let mut topics: Vec<Topic> = Vec::new();
        let mut cursor: Option<Cursor> = None;
        loop {
            let named =
                |name: &String| TopicRequest::default().with_name(TopicName(name.clone().into()));
            let request = DescribeTopicPartitionsRequest::default()
                .with_topics(names.iter().map(named).collect())
                .with_cursor(cursor);
            let request = Request::DescribeTopicPartitions(request);
            let Response::DescribeTopicPartitions(page) =
                self.ask(DESCRIBE_TOPICS_VERSION, &request)?
            else {
                return Err(self.unexpected(ApiKey::DescribeTopicPartitions).into());
            };
            for described in page.topics {
                let topic = topic(described)?;
                match topics.last_mut().filter(|last| last.name == topic.name) {
                    Some(last) => last.partitions.extend(topic.partitions),
                    None => topics.push(topic),
                }
            }
            cursor = page.next_cursor.map(|next| {
                Cursor::default()
                    .with_topic_name(next.topic_name)
                    .with_partition_index(next.partition_index)
            });
            if cursor.is_none() {
                return Ok(topics);
            }
        }
    }

    /// As [`Client::topics`], each with the values set for it.
    pub(super) fn topics_with_configs(
        &mut self,
        names: &[String],
    ) -> Result<Vec<Topic>, AdminError> {
        let mut topics = self.topics(names)?;
        for topic in &mut topics {
            topic.configs = self.configs(Whose::Topic(&topic.name))?;
        }
        Ok(topics)
    }

    /// Values set for a topic, or for the cluster.
    pub(super) fn configs(
        &mut self,
        whose: Whose<'_>,
    ) -> Result<BTreeMap<String, String>, AdminError> {
        let (resource_type, name) = match whose {
            Whose::Topic(name) => (TOPIC, name),
            Whose::Cluster => (BROKER, ""),
        };
        let resource = DescribeConfigsResource::default()
            .with_resource_type(resource_type)
            .with_resource_name(name.to_owned().into())
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let request = Request::DescribeConfigs(request);
        let Response::DescribeConfigs(answer) = self.ask(DESCRIBE_CONFIGS_VERSION, &request)?
        else {
            return Err(self.unexpected(ApiKey::DescribeConfigs).into());
        };
        let mut values = BTreeMap::new();
        for result in answer.results {
            let message = result.error_message.as_deref();
            accepted(&format!("describe the settings of {name:?}"), result.error_code, message)?;
            let known = result.configs.into_iter();
            values.extend(
                known.filter_map(|config| {
                    Some((config.name.to_string(), config.value?.to_string()))
                }),
            );
        }
        Ok(values)
    }

    /// All registered brokers.
    pub(super) fn brokers(&mut self) -> Result<Vec<Broker>, AdminError> {
        let request = DescribeClusterRequest::default().with_include_fenced_brokers(true);
        let request = Request::DescribeCluster(request);
        let Response::DescribeCluster(answer) = self.ask(DESCRIBE_CLUSTER_VERSION, &request)?
        else {
            return Err(self.unexpected(ApiKey::DescribeCluster).into());
        };
        accepted("describe the cluster", answer.error_code, answer.error_message.as_deref())?;
        let broker =
            |broker: kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker| {
                Broker {
                    id: broker.broker_id.0,
                    host: broker.host.to_string(),
                    port: broker.port,
                    rack: broker.rack.map(|rack| rack.to_string()).filter(|rack| !rack.is_empty()),
                    fenced: broker.is_fenced,
                }
            };
        Ok(answer.brokers.into_iter().map(broker).collect())
    }
}

fn topic(described: DescribeTopicPartitionsResponseTopic) -> Result<Topic, AdminError> {
    let name = described.name.map(|name| name.to_string()).unwrap_or_default();
    accepted(&format!("topic {name}"), described.error_code, None)?;
    Ok(Topic {
        name,
        id: TopicId(described.topic_id.into_bytes()).to_string(),
        configs: BTreeMap::new(),
        partitions: described.partitions.into_iter().map(partition).collect(),
    })
}

fn partition(described: DescribeTopicPartitionsResponsePartition) -> Partition {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<i32>>();
    Partition {
        partition: described.partition_index,
        leader: Some(described.leader_id.0).filter(|&leader| leader >= 0),
        leader_epoch: described.leader_epoch,
        replicas: ids(&described.replica_nodes),
        isr: ids(&described.isr_nodes),
        elr: ids(&described.eligible_leader_replicas.unwrap_or_default()),
        last_known_elr: ids(&described.last_known_elr.unwrap_or_default()),
        offline_replicas: ids(&described.offline_replicas),
    }
}
