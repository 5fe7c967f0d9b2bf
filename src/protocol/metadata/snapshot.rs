//! The state as the shortest metadata log that adds up to it.
//!
//! The records carry offsets below the end of the log they replace, rising and with gaps, so that
//! whoever replays them (a controller that restarts, a broker that starts late) stands exactly where
//! a reader of the whole log would stand, and goes on with the next record.

use std::collections::{BTreeMap, BTreeSet};

use super::METADATA_VERSION_FEATURE;
use super::cluster::ClusterMetadata;
use super::record::{Partition, Record, RegisterBroker};
use super::registration::{BrokerRegistration, PartitionRegistration};
use crate::types::{BrokerEpoch, BrokerId, Offset, TopicPartition};

impl ClusterMetadata {
    /// Records that, applied in order to an empty state, give this one, [`ClusterMetadata::last_offset`]
    /// and registration offsets included.
    ///
    /// Registrations keep their offsets, everything else takes the lowest ones that are free. They
    /// always suffice: each thing listed here took a record of its own to come about. Where the last
    /// offset is left over, a feature level that is in force already stands there.
    pub fn to_records(&self) -> Vec<(Offset, Record)> {
        let Some(last) = self.last_offset else { return Vec::new() };
        let mut records: BTreeMap<Offset, Record> = self
            .brokers
            .values()
            .map(|broker| (broker.registration_offset, registration_record(broker)))
            .collect();
        let taken: BTreeSet<Offset> = records.keys().copied().collect();
        let mut free = (0..).map(Offset).filter(|offset| !taken.contains(offset));
        let rest = self.unregistered_records();
        records.extend(free.by_ref().zip(rest));
        records.entry(last).or_insert_with(|| Record::FeatureLevel {
            name: METADATA_VERSION_FEATURE.to_owned(),
            level: self.feature(METADATA_VERSION_FEATURE),
        });
        assert!(records.keys().next_back() == Some(&last), "more things than records made them");
        records.into_iter().collect()
    }

    /// Everything but registrations, in an order in which it applies.
    fn unregistered_records(&self) -> impl Iterator<Item = Record> {
        let features = self
            .features
            .iter()
            .map(|(name, &level)| Record::FeatureLevel { name: name.clone(), level });
        let producer_ids = (self.next_producer_id > 0).then_some(Record::ProducerIds {
            // Whoever got the last block is not part of the state.
            broker: BrokerId(-1),
            epoch: BrokerEpoch(-1),
            next_producer_id: self.next_producer_id,
        });
        let topics = self.topics.values().flat_map(|topic| {
            let partitions = topic.partitions.iter().map(|(&partition, registration)| {
                partition_record(TopicPartition { topic: topic.id, partition }, registration)
            });
            let topic = Record::Topic { name: topic.name.clone(), id: topic.id };
            std::iter::once(topic).chain(partitions)
        });
        let configs = self.configs.iter().flat_map(|(resource, values)| {
            values.iter().map(|(name, value)| Record::Config {
                resource: resource.clone(),
                name: name.clone(),
                value: Some(value.clone()),
            })
        });
        features.chain(producer_ids).chain(topics).chain(configs)
    }
}

fn registration_record(broker: &BrokerRegistration) -> Record {
    Record::RegisterBroker(RegisterBroker {
        broker: broker.id,
        incarnation: broker.incarnation,
        epoch: broker.epoch,
        endpoints: broker.endpoints.clone(),
        features: broker.features.clone(),
        rack: broker.rack.clone(),
        fenced: broker.fenced,
        in_controlled_shutdown: broker.in_controlled_shutdown,
        log_dirs: broker.log_dirs.clone(),
    })
}

fn partition_record(id: TopicPartition, partition: &PartitionRegistration) -> Record {
    Record::Partition(Partition {
        id,
        replicas: partition.replicas.clone(),
        isr: partition.isr.clone(),
        elr: partition.elr.clone(),
        last_known_elr: partition.last_known_elr.clone(),
        removing: partition.removing.clone(),
        adding: partition.adding.clone(),
        leader: partition.leader,
        recovering: partition.recovering,
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        directories: partition.directories.clone(),
    })
}

#[cfg(test)]
mod tests;
