//! The state that the metadata records add up to. [`ClusterMetadata::apply`] is its only mutator,
//! so that the controller's view and every broker's view cannot differ but by how much they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ELR_FEATURE;
use super::record::{
    BrokerRegistrationChange, ConfigResource, Partition, PartitionChange, Record, RegisterBroker,
};
use super::registration::{BrokerRegistration, PartitionRegistration};
use super::topic_config::{self, TopicConfig};
use crate::protocol::partition::Peer;
use crate::types::{BrokerEpoch, BrokerId, Offset, PartitionId, TopicId, TopicPartition};

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: BTreeMap<PartitionId, PartitionRegistration>,
}

impl TopicMetadata {
    /// `min(min_isr, replica count of partition 0)`, the controller's effective min ISR
    /// (spec/kip966.md 2.6).
    pub fn effective_min_isr(&self, min_isr: usize) -> usize {
        let first = self.partitions.get(&PartitionId(0));
        min_isr.min(first.map_or(min_isr, |first| first.replicas.len()))
    }
}

/// Partitions of one topic on their way into it.
#[derive(Default)]
struct PartitionRun {
    topic: Option<TopicId>,
    partitions: Vec<(PartitionId, PartitionRegistration)>,
}

/// Why a record does not fit the state it is applied to. The log is damaged, or it is not the log
/// the earlier records came from; the state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata record at offset {offset}: {reason}")]
pub struct ApplyError {
    /// Offset of the record.
    pub offset: Offset,
    /// What is wrong.
    pub reason: Misfit,
}

/// The ways in which a record cannot follow the records before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Applied before, or out of order.
    #[error("records up to offset {last} are applied already")]
    Applied {
        /// Last offset applied.
        last: Offset,
    },
    /// The record needs a topic that is not there.
    #[error("topic {0} does not exist")]
    Topic(TopicId),
    /// The record needs a partition that is not there.
    #[error("partition {} of topic {} does not exist", .0.partition, .0.topic)]
    Partition(TopicPartition),
    /// The record needs a broker registration, with this epoch, that is not there.
    #[error("broker {0} is not registered with epoch {1}")]
    Broker(BrokerId, BrokerEpoch),
}

/// The whole cluster as of one metadata offset. Iteration order is the order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterMetadata {
    pub(super) last_offset: Option<Offset>,
    pub(super) brokers: BTreeMap<BrokerId, BrokerRegistration>,
    /// Shared between copies until one of them changes the topic: the controller's metadata, a
    /// voter's and a snapshot in the making are copies of each other.
    pub(super) topics: BTreeMap<TopicId, Arc<TopicMetadata>>,
    topic_ids: BTreeMap<String, TopicId>,
    pub(super) configs: BTreeMap<ConfigResource, BTreeMap<String, String>>,
    pub(super) features: BTreeMap<String, i16>,
    pub(super) next_producer_id: i64,
}

impl ClusterMetadata {
    /// Offset of the last applied record; `None` before the first.
    pub fn last_offset(&self) -> Option<Offset> {
        self.last_offset
    }

    /// Offset after the last applied record.
    pub fn end_offset(&self) -> Offset {
        self.last_offset.map_or(Offset::ZERO, |last| last.plus(1))
    }

    /// All registered brokers, fenced ones included.
    pub fn brokers(&self) -> impl Iterator<Item = &BrokerRegistration> {
        self.brokers.values()
    }

    /// One broker.
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerRegistration> {
        self.brokers.get(&id)
    }

    /// Whether a broker is registered, unfenced and not in controlled shutdown.
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(BrokerRegistration::is_active)
    }

    /// All brokers as a replica's machine wants them.
    pub fn peers(&self) -> Vec<Peer> {
        let peer = |broker: &BrokerRegistration| Peer {
            id: broker.id,
            epoch: Some(broker.epoch),
            fenced: broker.fenced,
            in_controlled_shutdown: broker.in_controlled_shutdown,
        };
        self.brokers().map(peer).collect()
    }

    /// All topics.
    pub fn topics(&self) -> impl Iterator<Item = &TopicMetadata> {
        self.topics.values().map(Arc::as_ref)
    }

    /// One topic.
    pub fn topic(&self, id: TopicId) -> Option<&TopicMetadata> {
        self.topics.get(&id).map(Arc::as_ref)
    }

    /// The id of the topic with this name.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.topic_ids.get(name).copied()
    }

    /// One partition.
    pub fn partition(&self, id: TopicPartition) -> Option<&PartitionRegistration> {
        self.topic(id.topic)?.partitions.get(&id.partition)
    }

    /// All partitions of all topics.
    pub fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &PartitionRegistration)> {
        self.topics().flat_map(|topic| {
            topic.partitions.iter().map(|(&partition, registration)| {
                (TopicPartition { topic: topic.id, partition }, registration)
            })
        })
    }

    /// Whether some partition has this leader.
    pub fn leads_any(&self, id: BrokerId) -> bool {
        self.partitions().any(|(_, partition)| partition.leader == Some(id))
    }

    /// A value as it was set, without defaults.
    pub fn config(&self, resource: &ConfigResource, key: &str) -> Option<&str> {
        self.configs.get(resource)?.get(key).map(String::as_str)
    }

    /// All values set for a resource.
    pub fn configs(&self, resource: &ConfigResource) -> impl Iterator<Item = (&str, &str)> {
        let values = self.configs.get(resource);
        values.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A topic's settings: its own value, else the cluster's, else the default. A value that this
    /// version does not understand (written by a newer one) counts as unset.
    pub fn topic_config(&self, name: &str) -> TopicConfig {
        let (cluster, topic) = (ConfigResource::Cluster, ConfigResource::Topic(name.to_owned()));
        let compat =
            [&topic, &cluster].into_iter().find_map(|of| self.config(of, topic_config::COMPAT));
        let unset =
            TopicConfig::unset(compat.and_then(topic_config::compat), self.feature(ELR_FEATURE));
        let cluster_first = self.configs(&cluster).chain(self.configs(&topic));
        cluster_first.fold(unset, |config, (key, value)| config.with(key, value).unwrap_or(config))
    }

    /// A topic's effective min ISR; `None` for an unknown topic.
    pub fn effective_min_isr(&self, id: TopicId) -> Option<usize> {
        let topic = self.topic(id)?;
        Some(topic.effective_min_isr(self.topic_config(&topic.name).min_isr))
    }

    /// Finalized level of a feature; 0 if it is off.
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// All finalized features.
    pub fn features(&self) -> impl Iterator<Item = (&str, i16)> {
        self.features.iter().map(|(name, &level)| (name.as_str(), level))
    }

    /// First producer id that nobody was given.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Applies the record at `offset`. Offsets rise; gaps are allowed (control records).
    ///
    /// # Errors
    /// [`ApplyError`] if the record does not fit; the state is then unchanged.
    pub fn apply(&mut self, offset: Offset, record: &Record) -> Result<(), ApplyError> {
        self.apply_with(offset, |metadata| metadata.try_apply(offset, record))
    }

    /// As [`ClusterMetadata::apply`], for a record that nobody else needs: what a snapshot is made of,
    /// partitions, is moved rather than copied.
    ///
    /// # Errors
    /// As [`ClusterMetadata::apply`].
    pub fn take(&mut self, offset: Offset, record: Record) -> Result<(), ApplyError> {
        self.apply_with(offset, |metadata| match record {
            Record::Partition(partition) => metadata.add_partition(partition),
            record => metadata.try_apply(offset, &record),
        })
    }

    /// As [`ClusterMetadata::take`] for many records in a row. A topic's partitions are stored at once,
    /// which takes half the memory where they come in order, as they do in a snapshot.
    ///
    /// # Errors
    /// As [`ClusterMetadata::apply`], but the state is then of no use.
    pub fn take_all(
        &mut self,
        records: impl IntoIterator<Item = (Offset, Record)>,
    ) -> Result<(), ApplyError> {
        let mut run = PartitionRun::default();
        for (offset, record) in records {
            match record {
                Record::Partition(partition) => {
                    if run.topic != Some(partition.id.topic) {
                        self.store_run(&mut run)?;
                        run.topic = Some(partition.id.topic);
                    }
                    self.apply_with(offset, |_| Ok(()))?;
                    run.partitions.push((partition.id.partition, partition.into()));
                }
                record => {
                    self.store_run(&mut run)?;
                    self.take(offset, record)?;
                }
            }
        }
        self.store_run(&mut run)
    }

    fn store_run(&mut self, run: &mut PartitionRun) -> Result<(), ApplyError> {
        let Some(id) = run.topic.take() else { return Ok(()) };
        let offset = self.last_offset.unwrap_or(Offset::ZERO);
        let topic = self.topics.get_mut(&id);
        let topic = topic.ok_or(ApplyError { offset, reason: Misfit::Topic(id) })?;
        let partitions = &mut Arc::make_mut(topic).partitions;
        let stored = std::mem::take(&mut run.partitions).into_iter();
        match partitions.is_empty() {
            true => *partitions = stored.collect(),
            false => partitions.extend(stored),
        }
        Ok(())
    }

    fn apply_with(
        &mut self,
        offset: Offset,
        change: impl FnOnce(&mut ClusterMetadata) -> Result<(), Misfit>,
    ) -> Result<(), ApplyError> {
        let changed = match self.last_offset.filter(|&last| offset <= last) {
            Some(last) => Err(Misfit::Applied { last }),
            None => change(self),
        };
        changed.map_err(|reason| ApplyError { offset, reason })?;
        self.last_offset = Some(offset);
        Ok(())
    }

    fn try_apply(&mut self, offset: Offset, record: &Record) -> Result<(), Misfit> {
        match record {
            Record::RegisterBroker(register) => self.register(offset, register),
            Record::BrokerRegistrationChange(change) => self.change_registration(change)?,
            Record::UnregisterBroker { broker, epoch } => {
                self.registered(*broker, *epoch)?;
                self.brokers.remove(broker);
            }
            Record::Topic { name, id } => self.add_topic(name, *id),
            Record::RemoveTopic { id } => self.remove_topic(*id)?,
            Record::Partition(partition) => self.add_partition(partition.clone())?,
            Record::PartitionChange(change) => self.change_partition(change)?,
            Record::Config { resource, name, value } => {
                self.set_config(resource, name, value.as_deref());
            }
            Record::FeatureLevel { name, level: 0 } => {
                self.features.remove(name);
            }
            Record::FeatureLevel { name, level } => {
                self.features.insert(name.clone(), *level);
            }
            Record::ProducerIds { next_producer_id, .. } => {
                self.next_producer_id = *next_producer_id;
            }
            Record::ClearElr { topic } => self.clear_elr(topic.as_deref()),
        }
        Ok(())
    }

    fn register(&mut self, offset: Offset, register: &RegisterBroker) {
        let registration = BrokerRegistration {
            id: register.broker,
            incarnation: register.incarnation,
            epoch: register.epoch,
            registration_offset: offset,
            endpoints: register.endpoints.clone(),
            features: register.features.clone(),
            rack: register.rack.clone(),
            fenced: register.fenced,
            in_controlled_shutdown: register.in_controlled_shutdown,
            log_dirs: register.log_dirs.clone(),
        };
        self.brokers.insert(register.broker, registration);
    }

    fn registered(
        &mut self,
        id: BrokerId,
        epoch: BrokerEpoch,
    ) -> Result<&mut BrokerRegistration, Misfit> {
        let registration = self.brokers.get_mut(&id).filter(|known| known.epoch == epoch);
        registration.ok_or(Misfit::Broker(id, epoch))
    }

    fn change_registration(&mut self, change: &BrokerRegistrationChange) -> Result<(), Misfit> {
        let registration = self.registered(change.broker, change.epoch)?;
        registration.fenced = change.fenced.unwrap_or(registration.fenced);
        registration.in_controlled_shutdown |= change.in_controlled_shutdown;
        if let Some(log_dirs) = &change.log_dirs {
            registration.log_dirs.clone_from(log_dirs);
        }
        Ok(())
    }

    fn add_topic(&mut self, name: &str, id: TopicId) {
        let topic = TopicMetadata { name: name.to_owned(), id, partitions: BTreeMap::new() };
        self.topics.insert(id, Arc::new(topic));
        self.topic_ids.insert(name.to_owned(), id);
    }

    fn remove_topic(&mut self, id: TopicId) -> Result<(), Misfit> {
        let topic = self.topics.remove(&id).ok_or(Misfit::Topic(id))?;
        self.topic_ids.remove(&topic.name);
        self.configs.remove(&ConfigResource::Topic(topic.name.clone()));
        Ok(())
    }

    fn add_partition(&mut self, partition: Partition) -> Result<(), Misfit> {
        let topic = self.topics.get_mut(&partition.id.topic);
        let topic = topic.ok_or(Misfit::Topic(partition.id.topic))?;
        Arc::make_mut(topic).partitions.insert(partition.id.partition, partition.into());
        Ok(())
    }

    fn change_partition(&mut self, change: &PartitionChange) -> Result<(), Misfit> {
        let topic = self.topics.get_mut(&change.id.topic);
        let topic = topic.filter(|topic| topic.partitions.contains_key(&change.id.partition));
        let partitions = topic.map(|topic| &mut Arc::make_mut(topic).partitions);
        let partition = partitions.and_then(|all| all.get_mut(&change.id.partition));
        partition.ok_or(Misfit::Partition(change.id))?.apply(change);
        Ok(())
    }

    fn set_config(&mut self, resource: &ConfigResource, key: &str, value: Option<&str>) {
        match value {
            Some(value) => {
                let values = self.configs.entry(resource.clone()).or_default();
                values.insert(key.to_owned(), value.to_owned());
            }
            None => {
                let Some(values) = self.configs.get_mut(resource) else { return };
                values.remove(key);
                if values.is_empty() {
                    self.configs.remove(resource);
                }
            }
        }
    }

    fn clear_elr(&mut self, name: Option<&str>) {
        let named = self.topics.values_mut().filter(|topic| name.is_none_or(|n| n == topic.name));
        for topic in named {
            for partition in Arc::make_mut(topic).partitions.values_mut() {
                partition.clear_elr();
            }
        }
    }
}
