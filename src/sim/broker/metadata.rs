//! What committed metadata records mean for a broker's machines: which inputs they get, in which
//! order. Partitions come before settings, as spec/kip966.md 1.2 (7) has it.

use std::collections::BTreeSet;

use super::{BrokerOutbox, BrokerSettings, Process};
use crate::protocol::broker::may_take_roles;
use crate::protocol::metadata::{ClusterMetadata, Record};
use crate::protocol::partition::{Input, Settings};
use crate::types::{MonotonicTime, Offset, TopicId, TopicPartition};

/// What a batch of records touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    partitions: BTreeSet<TopicPartition>,
    brokers: bool,
    settings: bool,
}

impl Touched {
    /// Applies a record and notes what it touches.
    ///
    /// # Panics
    /// If the record does not fit: the log is the controller's own, in order.
    pub fn apply(&mut self, metadata: &mut ClusterMetadata, offset: Offset, record: &Record) {
        let applied = metadata.apply(offset, record);
        assert!(applied.is_ok(), "the committed metadata log does not apply: {applied:?}");
        match record {
            Record::RegisterBroker(_)
            | Record::UnregisterBroker { .. }
            | Record::BrokerRegistrationChange(_) => self.brokers = true,
            Record::Partition(partition) => _ = self.partitions.insert(partition.id),
            Record::PartitionChange(change) => _ = self.partitions.insert(change.id),
            Record::Config { .. } => self.settings = true,
            Record::ClearElr { .. } => {
                self.partitions.extend(metadata.partitions().map(|(id, _)| id));
            }
            Record::Topic { .. }
            | Record::RemoveTopic { .. }
            | Record::FeatureLevel { .. }
            | Record::ProducerIds { .. } => {}
        }
    }

    /// Partitions with a new state.
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition> {
        self.partitions.iter().copied()
    }

    /// The inputs of the machine of `id`, in order.
    pub fn inputs(
        &self,
        metadata: &ClusterMetadata,
        id: TopicPartition,
        settings: &BrokerSettings,
    ) -> Vec<Input> {
        let mut inputs = Vec::new();
        if self.brokers {
            inputs.push(Input::Peers(metadata.peers()));
        }
        if self.partitions.contains(&id)
            && let Some(partition) = metadata.partition(id)
        {
            inputs.push(Input::Metadata(partition.to_partition_metadata()));
        }
        if self.settings {
            inputs.push(Input::Settings(partition_settings(metadata, id.topic, settings)));
        }
        inputs
    }
}

/// A machine's settings: the topic's from metadata, the rest from the broker.
pub fn partition_settings(
    metadata: &ClusterMetadata,
    topic: TopicId,
    settings: &BrokerSettings,
) -> Settings {
    let config = metadata.topic_config(metadata.topic(topic).map_or("", |topic| &topic.name));
    Settings {
        min_isr: config.min_isr,
        hwm_gate: config.hwm_gate,
        isr_wait: config.isr_wait,
        isr_expand: config.isr_expand,
        produce_under_min_isr: config.produce_under_min_isr,
        lag_time_max: settings.lag_time_max,
        fetch_backoff: settings.fetch_backoff,
    }
}

impl Process {
    /// Takes in committed records up to `end`; roles follow from the state after the last of them.
    pub(super) fn metadata_committed(
        &mut self,
        now: MonotonicTime,
        end: Offset,
        committed: &[Record],
        out: &mut BrokerOutbox,
    ) {
        if self.epoch.is_none() {
            return;
        }
        let from = self.metadata.end_offset();
        if from >= end {
            return;
        }
        for offset in (from.0..end.0).map(Offset) {
            let Some(record) = usize::try_from(offset.0).ok().and_then(|at| committed.get(at))
            else {
                break;
            };
            self.touched.apply(&mut self.metadata, offset, record);
        }
        self.has_roles |= may_take_roles(&self.metadata, self.id, self.epoch)
            || !self.settings.waits_for_registration;
        if self.has_roles {
            self.take_roles(now, out);
            self.link_applied(now, self.metadata.end_offset(), out);
        }
    }

    fn take_roles(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        let touched = std::mem::take(&mut self.touched);
        for id in touched.partitions() {
            self.open_if_hosted(now, id, out);
        }
        let hosted: Vec<TopicPartition> = self.hosted.keys().copied().collect();
        for id in hosted {
            for input in touched.inputs(&self.metadata, id, &self.settings) {
                self.step(now, id, input, out);
            }
        }
    }
}
