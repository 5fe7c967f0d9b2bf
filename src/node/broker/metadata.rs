//! What the metadata log means for this broker: replicas to host, roles to take, questions about the
//! cluster to answer.

use std::path::Path;

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId as WireBrokerId, DescribeClusterResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, MetadataRequest, MetadataResponse, TopicName,
};
use uuid::Uuid;

use super::BrokerError;
use super::isr_watch::IsrWatch;
use super::room;
use super::shard::Shard;
use super::trace::Trace;
use crate::engine::Io;
use crate::node::tell;
use crate::protocol::broker::may_take_roles;
use crate::protocol::metadata::{
    ConfigResource, PartitionRegistration, Record, TopicMetadata, Touched,
};
use crate::protocol::partition::{
    Input, LeaderEpochs, LogState, Partition, PartitionMetadata, Settings,
};
use crate::storage::{PartitionLog, StorageError};
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, Offset, TopicId, TopicPartition};
use crate::wire::RequestHead;

/// DescribeConfigs' number of a topic resource.
const TOPIC_RESOURCE: i8 = 2;
/// Its number of a broker resource; with an empty name the default of all brokers.
const BROKER_RESOURCE: i8 = 4;
/// "Not computed", in Kafka's authorized-operations fields.
pub(super) const OPERATIONS_UNKNOWN: i32 = i32::MIN;

impl Shard {
    /// This broker's epoch, from registration on.
    pub(super) fn registered(&mut self, epoch: BrokerEpoch) {
        match self.epoch {
            Some(from) if from != epoch => self.fail(BrokerError::EpochChanged { from, to: epoch }),
            _ => self.epoch = Some(epoch),
        }
    }

    /// Applies the committed records of one answer of the metadata log. Roles follow from the state
    /// after the last of them, and from this broker's registration on.
    pub(super) fn apply_metadata(&mut self, io: &mut dyn Io, records: &[(Offset, Record)]) {
        let mut touched = std::mem::take(&mut self.touched);
        for (offset, record) in records {
            if let Err(error) = touched.apply(&mut self.metadata, *offset, record) {
                return self.fail(error.into());
            }
        }
        self.has_roles |= may_take_roles(&self.metadata, self.config.node_id, self.epoch);
        if !self.has_roles {
            self.touched = touched;
            return;
        }
        for (partition, last) in std::mem::take(&mut touched.removed) {
            self.drop_replica(io, partition, last);
        }
        let hosted = touched.partitions.iter().filter_map(|&id| self.hosted(io, id));
        let hosted: Vec<usize> = hosted.collect();
        let all = touched.all_replicas().then(|| self.replicas.slots());
        match all {
            Some(slots) => slots.for_each(|slot| self.tell(io, slot, &touched)),
            None => hosted.into_iter().for_each(|slot| self.tell(io, slot, &touched)),
        }
    }

    /// Where the replica of a partition lives, if this shard has or is to have one.
    fn hosted(&mut self, io: &mut dyn Io, id: TopicPartition) -> Option<usize> {
        if self.owner(id.partition) != self.id {
            return None;
        }
        let is_replica = self.metadata.partition(id)?.replicas.contains(&self.config.node_id);
        let known = self.replicas.slot(id);
        if known.is_none() && is_replica { self.open_replica(io, id) } else { known }
    }

    /// Tells a replica's machine of what was touched.
    fn tell(&mut self, io: &mut dyn Io, slot: usize, touched: &Touched) {
        let Some(id) = self.replicas.get(slot).map(|replica| replica.id) else { return };
        let inputs = touched.inputs(&self.metadata, id, || self.settings(id.topic));
        let inputs: Vec<Input> = inputs.collect();
        for input in inputs {
            if let Input::Metadata(metadata) | Input::MetadataAndSettings(metadata, _) = &input {
                self.before_role(slot, metadata.leader);
            }
            self.step(io, slot, input);
        }
    }

    /// What an earlier role left behind must not outlive it.
    fn before_role(&mut self, slot: usize, leader: Option<BrokerId>) {
        if leader.is_none_or(|leader| leader == self.config.node_id) {
            self.fetchers.unfollow(slot);
        }
        if let Some(replica) = self.replicas.get_mut(slot) {
            let leads = leader == Some(self.config.node_id);
            if leads != replica.machine.is_leader() {
                replica.trace.clear();
                replica.follower_trace.clear();
                replica.next_fetch = None;
                replica.next_acknowledgement = None;
            }
        }
    }

    /// Opens (and recovers) the log of a replica and gives it a machine without a role yet.
    fn open_replica(&mut self, io: &mut dyn Io, id: TopicPartition) -> Option<usize> {
        let epoch = self.epoch?;
        let name = &self.metadata.topic(id.topic)?.name;
        let directory = self.config.data_dir.join(format!("{name}-{}", id.partition));
        let opened = PartitionLog::open(&directory, id.topic, &self.config.log, &self.preparer, io);
        let (log, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.could_not_open(id, &directory, error);
                return None;
            }
        };
        self.unopened.remove(&id);
        self.counters.recovered(&directory, &recovery);
        let state = LogState {
            log_start_offset: log.log_start_offset(),
            log_end_offset: log.log_end_offset(),
            durable_offset: log.durable_offset(),
            high_watermark: log.log_start_offset(),
            epochs: LeaderEpochs::from_entries(log.leader_epochs().iter().copied()),
        };
        let settings = self.settings(id.topic);
        let machine = Partition::new(self.config.node_id, epoch, settings, state);
        let watch = IsrWatch::new(name, id.partition, self.config.node_id);
        let slot = self.replicas.insert(id, machine, log, (Trace::new(self.clock), watch));
        self.step(io, slot, Input::Peers(self.metadata.peers()));
        Some(slot)
    }

    /// Where a limit is reached, one partition is not served, and the others are; any other error
    /// means that what is stored cannot be trusted.
    fn could_not_open(&mut self, id: TopicPartition, directory: &Path, error: StorageError) {
        let remedy = match &error {
            StorageError::Io { source, .. } => room::remedy(source),
            _ => None,
        };
        self.replicas.open.miss();
        match remedy {
            Some(remedy) if self.unopened.insert(id) => {
                let place = directory.display();
                tell(format_args!("{place}: not served: {error}: {remedy}"));
            }
            // Said already.
            Some(_) => {}
            None => self.fail(error.into()),
        }
    }

    fn drop_replica(&mut self, io: &mut dyn Io, id: TopicPartition, mut last: PartitionMetadata) {
        let Some(slot) = self.replicas.slot(id) else { return };
        // Whoever still waits is answered by a last change of role.
        last.leader = None;
        last.leader_epoch.0 += 1;
        last.partition_epoch.0 += 1;
        self.step(io, slot, Input::Metadata(last));
        self.fetchers.unfollow(slot);
        self.delete_replica(io, id);
    }

    fn settings(&self, topic: TopicId) -> Settings {
        let config = &self.config;
        Settings {
            fetch_pipeline: config.replica_fetch_pipeline,
            serve_followers: config.replica_serve_followers,
            ..self.metadata.partition_settings(
                topic,
                config.replica_lag_time_max,
                config.replica_fetch_backoff,
            )
        }
    }

    // --- answers about the cluster ---------------------------------------------------------------

    /// Live brokers and this one: an empty list makes clients give up for good.
    fn live_brokers(&self) -> Vec<(BrokerId, String, u16)> {
        let own = self.config.node_id;
        self.metadata
            .brokers()
            .filter(|broker| !broker.fenced || broker.id == own)
            .filter_map(|broker| {
                let endpoint = broker.endpoints.first()?;
                Some((broker.id, endpoint.host.clone(), endpoint.port))
            })
            .collect()
    }

    pub(super) fn describe_metadata(
        &self,
        head: &RequestHead,
        request: &MetadataRequest,
    ) -> MetadataResponse {
        let brokers = self.live_brokers().into_iter().map(|(id, host, port)| {
            MetadataResponseBroker::default()
                .with_node_id(id.0.into())
                .with_host(host.into())
                .with_port(port.into())
        });
        let topics = match &request.topics {
            None => self.metadata.topics().map(|topic| self.describe_topic(topic)).collect(),
            Some(asked) if asked.is_empty() && head.version == 0 => {
                self.metadata.topics().map(|topic| self.describe_topic(topic)).collect()
            }
            Some(asked) => asked
                .iter()
                .map(|asked| {
                    let id = match &asked.name {
                        Some(name) => self.metadata.topic_id(name),
                        None => Some(TopicId(asked.topic_id.into_bytes())),
                    };
                    match id.and_then(|id| self.metadata.topic(id)) {
                        Some(topic) => self.describe_topic(topic),
                        None => MetadataResponseTopic::default()
                            .with_error_code(match asked.name {
                                Some(_) => ErrorCode::UnknownTopicOrPartition.code(),
                                None => ErrorCode::UnknownTopicId.code(),
                            })
                            .with_name(asked.name.clone())
                            .with_topic_id(asked.topic_id),
                    }
                })
                .collect(),
        };
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id(Some(self.config.cluster_id.clone().into()))
            .with_controller_id(self.config.node_id.0.into())
            .with_topics(topics)
    }

    fn describe_topic(&self, topic: &TopicMetadata) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().map(|(index, partition)| {
            let error = match partition.leader {
                Some(_) => ErrorCode::None,
                None => ErrorCode::LeaderNotAvailable,
            };
            MetadataResponsePartition::default()
                .with_error_code(error.code())
                .with_partition_index(index.0)
                .with_leader_id(leader_id(partition))
                .with_leader_epoch(partition.leader_epoch.0)
                .with_replica_nodes(wire_ids(&partition.replicas))
                .with_isr_nodes(wire_ids(&partition.isr))
                .with_offline_replicas(wire_ids(&self.offline(partition)))
        });
        MetadataResponseTopic::default()
            .with_name(Some(TopicName(topic.name.clone().into())))
            .with_topic_id(Uuid::from_bytes(topic.id.0))
            .with_partitions(partitions.collect())
    }

    pub(super) fn offline(&self, partition: &PartitionRegistration) -> Vec<BrokerId> {
        let online = |replica: BrokerId| {
            let broker = self.metadata.broker(replica).filter(|broker| !broker.fenced);
            broker.is_some_and(|broker| broker.has_online(partition.directory_of(replica)))
        };
        partition.replicas.iter().copied().filter(|&replica| !online(replica)).collect()
    }

    pub(super) fn describe_cluster(&self, fenced_too: bool) -> DescribeClusterResponse {
        let live = self.live_brokers();
        let is_live = |id: BrokerId| live.iter().any(|(live, ..)| *live == id);
        let listed = self.metadata.brokers().filter(|broker| fenced_too || is_live(broker.id));
        let brokers = listed.filter_map(|broker| {
            let endpoint = broker.endpoints.first()?;
            let described = DescribeClusterBroker::default()
                .with_broker_id(broker.id.0.into())
                .with_host(endpoint.host.clone().into())
                .with_port(endpoint.port.into())
                .with_rack(broker.rack.clone().map(Into::into));
            Some(described.with_is_fenced(fenced_too && broker.fenced))
        });
        DescribeClusterResponse::default()
            .with_cluster_id(self.config.cluster_id.clone().into())
            .with_controller_id(self.config.node_id.0.into())
            .with_brokers(brokers.collect())
            .with_cluster_authorized_operations(OPERATIONS_UNKNOWN)
    }

    pub(super) fn describe_configs(
        &self,
        request: &DescribeConfigsRequest,
    ) -> DescribeConfigsResponse {
        let results = request.resources.iter().map(|resource| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone());
            let named = match (resource.resource_type, resource.resource_name.as_str()) {
                (TOPIC_RESOURCE, name) => ConfigResource::Topic(name.to_owned()),
                (BROKER_RESOURCE, "") => ConfigResource::Cluster,
                _ => return result,
            };
            if let ConfigResource::Topic(name) = &named
                && self.metadata.topic_id(name).is_none()
            {
                return result.with_error_code(ErrorCode::UnknownTopicOrPartition.code());
            }
            let configs = self.metadata.configs(&named).map(|(name, value)| {
                DescribeConfigsResourceResult::default()
                    .with_name(name.to_owned().into())
                    .with_value(Some(value.to_owned().into()))
            });
            result.with_configs(configs.collect())
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }
}

pub(super) fn leader_id(partition: &PartitionRegistration) -> WireBrokerId {
    partition.leader.map_or(-1, |leader| leader.0).into()
}

pub(super) fn wire_ids(ids: &[BrokerId]) -> Vec<WireBrokerId> {
    ids.iter().map(|id| id.0.into()).collect()
}
