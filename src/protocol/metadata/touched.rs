//! Which of a broker's replicas hear of committed records, and of what. The same for the broker, the
//! simulation and the model, so that none of them can forget a kind of record alone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster::{ApplyError, ClusterMetadata};
use super::record::Record;
use super::registration::PartitionRegistration;
use crate::protocol::partition::{Input, PartitionMetadata, Settings};
use crate::types::{Compat, FetchPipeline, Offset, ServeFollowers, TopicId, TopicPartition};

/// What applied records touch and the machines of replicas have not been told yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Partitions with a new state.
    pub partitions: BTreeSet<TopicPartition>,
    /// Partitions that are no more, each with its last state.
    pub removed: Vec<(TopicPartition, PartitionMetadata)>,
    /// Whether any broker is another.
    pub brokers: bool,
    /// Whether any topic's settings may be others.
    pub settings: bool,
}

impl Touched {
    /// Applies a record and notes what it touches.
    ///
    /// # Errors
    /// As [`ClusterMetadata::apply`].
    pub fn apply(
        &mut self,
        metadata: &mut ClusterMetadata,
        offset: Offset,
        record: &Record,
    ) -> Result<(), ApplyError> {
        self.note(metadata, record);
        metadata.apply(offset, record)
    }

    /// Whether a replica's machine may have to hear of something, whichever it is.
    pub fn all_replicas(&self) -> bool {
        self.brokers || self.settings
    }

    /// What the machine of `id` is to be told, in order.
    ///
    /// A partition's state and the settings it is led by are told in one input, as of the end of
    /// `metadata`: with either of them ahead of the other a leader could commit what the controller
    /// no longer asks it for. Shipped Kafka tells of partitions first, then of settings
    /// (spec/kip966.md 1.2 item 7).
    pub fn inputs(
        &self,
        metadata: &ClusterMetadata,
        id: TopicPartition,
        settings: impl FnOnce() -> Settings,
    ) -> impl Iterator<Item = Input> {
        let peers = self.brokers.then(|| Input::Peers(metadata.peers()));
        let partition = metadata.partition(id).filter(|_| self.partitions.contains(&id));
        let partition = partition.map(PartitionRegistration::to_partition_metadata);
        let settings = self.settings.then(settings);
        let rest = match (partition, settings) {
            (Some(partition), Some(settings)) if tells_together(metadata, id.topic) => {
                [Some(Input::MetadataAndSettings(partition, settings)), None]
            }
            (partition, settings) => {
                [partition.map(Input::Metadata), settings.map(Input::Settings)]
            }
        };
        peers.into_iter().chain(rest.into_iter().flatten())
    }

    /// `record` is about to be applied to `metadata`.
    fn note(&mut self, metadata: &ClusterMetadata, record: &Record) {
        match record {
            Record::RegisterBroker(_)
            | Record::UnregisterBroker { .. }
            | Record::BrokerRegistrationChange(_) => self.brokers = true,
            Record::Partition(partition) => _ = self.partitions.insert(partition.id),
            Record::PartitionChange(change) => _ = self.partitions.insert(change.id),
            // What is not set follows from the feature level.
            Record::Config { .. } | Record::FeatureLevel { .. } => self.settings = true,
            Record::ClearElr { .. } => {
                self.partitions.extend(metadata.partitions().map(|(id, _)| id));
            }
            Record::RemoveTopic { id } => {
                let partitions = metadata.partitions();
                let removed = partitions.filter(|(partition, _)| partition.topic == *id);
                self.removed.extend(removed.map(|(id, last)| (id, last.to_partition_metadata())));
            }
            Record::Topic { .. } | Record::ProducerIds { .. } => {}
        }
    }
}

fn tells_together(metadata: &ClusterMetadata, topic: TopicId) -> bool {
    let topic = metadata.topic(topic);
    topic.is_none_or(|topic| metadata.topic_config(&topic.name).compat != Some(Compat::Kafka42))
}

impl ClusterMetadata {
    /// The settings of a topic's machines: the topic's own from here, the two durations from the
    /// broker. How it replicates is as Kafka does until the broker says otherwise.
    pub fn partition_settings(
        &self,
        topic: TopicId,
        lag_time_max: Duration,
        fetch_backoff: Duration,
    ) -> Settings {
        let config = self.topic_config(self.topic(topic).map_or("", |topic| &topic.name));
        Settings {
            min_isr: config.min_isr,
            hwm_gate: config.hwm_gate,
            isr_wait: config.isr_wait,
            isr_expand: config.isr_expand,
            produce_under_min_isr: config.produce_under_min_isr,
            fetch_pipeline: FetchPipeline::Classic,
            serve_followers: ServeFollowers::BeforeSync,
            lag_time_max,
            fetch_backoff,
        }
    }
}
