use proptest::prelude::*;

use crate::protocol::metadata::{
    BrokerRegistrationChange, ClusterMetadata, ConfigResource, IncarnationId, Partition,
    PartitionChange, Record, RegisterBroker,
};
use crate::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, TopicId, TopicPartition,
};

fn partition(topic: u8, index: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([topic; 16]), partition: PartitionId(index) }
}

fn register(broker: i32, epoch: i64) -> Record {
    Record::RegisterBroker(RegisterBroker {
        broker: BrokerId(broker),
        incarnation: IncarnationId([broker as u8; 16]),
        epoch: BrokerEpoch(epoch),
        endpoints: Vec::new(),
        features: Vec::new(),
        rack: None,
        fenced: true,
        in_controlled_shutdown: false,
        log_dirs: Vec::new(),
    })
}

fn add(id: TopicPartition) -> Record {
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    Record::Partition(Partition {
        id,
        replicas: ids(&[1, 2, 3]),
        isr: ids(&[1]),
        elr: ids(&[2]),
        last_known_elr: ids(&[3]),
        removing: Vec::new(),
        adding: Vec::new(),
        leader: Some(BrokerId(1)),
        recovering: true,
        leader_epoch: LeaderEpoch(4),
        partition_epoch: PartitionEpoch(9),
        directories: Vec::new(),
    })
}

/// One record, whether or not it will fit.
fn record() -> impl Strategy<Value = Record> {
    let small = || 0..4i32;
    let value = proptest::option::of("[a-c]");
    prop_oneof![
        (small(), 0..3i64).prop_map(|(broker, epoch)| register(broker, epoch)),
        (small(), 0..3i64, any::<bool>()).prop_map(|(broker, epoch, fenced)| {
            Record::BrokerRegistrationChange(BrokerRegistrationChange {
                broker: BrokerId(broker),
                epoch: BrokerEpoch(epoch),
                fenced: Some(fenced),
                in_controlled_shutdown: fenced,
                log_dirs: None,
            })
        }),
        (small(), 0..3i64).prop_map(|(broker, epoch)| Record::UnregisterBroker {
            broker: BrokerId(broker),
            epoch: BrokerEpoch(epoch),
        }),
        (1..4u8).prop_map(|t| Record::Topic { name: format!("t{t}"), id: TopicId([t; 16]) }),
        (1..4u8).prop_map(|t| Record::RemoveTopic { id: TopicId([t; 16]) }),
        (1..4u8, small()).prop_map(|(topic, index)| add(partition(topic, index))),
        (1..4u8, small()).prop_map(|(topic, index)| {
            let isr = Some(vec![BrokerId(3)]);
            Record::PartitionChange(PartitionChange {
                isr,
                ..PartitionChange::none(partition(topic, index))
            })
        }),
        (1..4u8, "[kl]", value.clone()).prop_map(|(t, name, value)| {
            Record::Config { resource: ConfigResource::Topic(format!("t{t}")), name, value }
        }),
        ("[kl]", value).prop_map(|(name, value)| Record::Config {
            resource: ConfigResource::Cluster,
            name,
            value
        }),
        ("[fg]", 0..3i16).prop_map(|(name, level)| Record::FeatureLevel { name, level }),
        (0..9i64).prop_map(|next_producer_id| Record::ProducerIds {
            broker: BrokerId(1),
            epoch: BrokerEpoch(1),
            next_producer_id,
        }),
        Just(Record::ClearElr { topic: None }),
    ]
}

proptest! {
    /// Whatever the history, replaying the short one gives the same state at the same offset, and the
    /// next record fits as it would have.
    #[test]
    fn the_short_history_adds_up_to_the_long_one(history in proptest::collection::vec(record(), 0..60)) {
        let mut metadata = ClusterMetadata::default();
        let mut fitting = Vec::new();
        for record in &history {
            let offset = metadata.end_offset();
            // Those that do not fit leave no trace, offset included.
            if metadata.apply(offset, record).is_ok() {
                fitting.push((offset, record.clone()));
            }
        }
        let mut replayed = ClusterMetadata::default();
        for (offset, record) in metadata.to_records() {
            replayed.apply(offset, &record).expect("a record of the short history fits");
        }
        prop_assert_eq!(&replayed, &metadata);
        for records in [metadata.to_records(), fitting] {
            let mut at_once = ClusterMetadata::default();
            at_once.take_all(records).expect("they fit one by one");
            prop_assert_eq!(&at_once, &metadata);
        }
    }
}
