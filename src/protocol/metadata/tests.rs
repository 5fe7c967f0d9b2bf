use super::*;
use crate::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId,
    TopicPartition,
};

const TOPIC: TopicId = TopicId([7; 16]);

fn id() -> TopicPartition {
    TopicPartition { topic: TOPIC, partition: PartitionId(0) }
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn partition() -> Record {
    Record::Partition(Partition {
        id: id(),
        replicas: brokers(&[1, 2, 3]),
        isr: brokers(&[1]),
        elr: brokers(&[2]),
        last_known_elr: brokers(&[3]),
        removing: vec![],
        adding: vec![],
        leader: Some(BrokerId(1)),
        recovering: false,
        leader_epoch: LeaderEpoch(4),
        partition_epoch: PartitionEpoch(9),
        directories: vec![],
    })
}

fn register(broker: i32, epoch: i64) -> Record {
    Record::RegisterBroker(RegisterBroker {
        broker: BrokerId(broker),
        incarnation: IncarnationId([1; 16]),
        epoch: BrokerEpoch(epoch),
        endpoints: vec![],
        features: vec![],
        rack: None,
        fenced: true,
        in_controlled_shutdown: false,
        log_dirs: vec![],
    })
}

fn cluster(records: &[Record]) -> ClusterMetadata {
    let mut metadata = ClusterMetadata::default();
    let topic = Record::Topic { name: "bench".to_owned(), id: TOPIC };
    for (offset, record) in [topic, partition()].iter().chain(records).enumerate() {
        metadata.apply(Offset(offset as i64), record).unwrap();
    }
    metadata
}

fn epochs(metadata: &ClusterMetadata) -> (i32, i32) {
    let partition = metadata.partition(id()).unwrap();
    (partition.leader_epoch.0, partition.partition_epoch.0)
}

#[test]
fn a_change_without_a_leader_leaves_the_leader_epoch() {
    let mut change = PartitionChange::none(id());
    change.isr = Some(brokers(&[1, 2]));
    assert_eq!(epochs(&cluster(&[Record::PartitionChange(change)])), (4, 10));
}

#[test]
fn naming_the_same_leader_again_raises_the_leader_epoch() {
    let mut change = PartitionChange::none(id());
    change.leader = Some(Some(BrokerId(1)));
    assert_eq!(epochs(&cluster(&[Record::PartitionChange(change)])), (5, 10));
}

#[test]
fn clearing_the_elr_counts_only_where_there_was_one() {
    let clear = || Record::ClearElr { topic: Some("bench".to_owned()) };
    let metadata = cluster(&[clear(), clear()]);
    assert_eq!(epochs(&metadata), (4, 10));
    assert!(metadata.partition(id()).unwrap().last_known_elr.is_empty());
    assert_eq!(epochs(&cluster(&[Record::ClearElr { topic: Some("other".to_owned()) }])), (4, 9));
    assert_eq!(epochs(&cluster(&[Record::ClearElr { topic: None }])), (4, 10));
}

#[test]
fn a_removed_topic_takes_its_configuration_along() {
    let set = Record::Config {
        resource: ConfigResource::Topic("bench".to_owned()),
        name: topic_config::MIN_ISR.to_owned(),
        value: Some("3".to_owned()),
    };
    assert_eq!(cluster(std::slice::from_ref(&set)).topic_config("bench").min_isr, 3);
    let metadata = cluster(&[set, Record::RemoveTopic { id: TOPIC }]);
    assert_eq!(metadata.topic_config("bench").min_isr, 1);
    assert_eq!(metadata.topic_id("bench"), None);
}

#[test]
fn a_topic_value_wins_over_the_clusters_and_min_isr_is_capped() {
    let set = |resource, value: &str| Record::Config {
        resource,
        name: topic_config::MIN_ISR.to_owned(),
        value: Some(value.to_owned()),
    };
    let topic = ConfigResource::Topic("bench".to_owned());
    let metadata = cluster(&[set(ConfigResource::Cluster, "2"), set(topic, "5")]);
    assert_eq!(metadata.topic_config("bench").min_isr, 5);
    assert_eq!(metadata.topic_config("other").min_isr, 2);
    assert_eq!(metadata.effective_min_isr(TOPIC), Some(3));
}

#[test]
fn what_is_not_set_follows_from_the_topics_compat_then_from_the_clusters() {
    let set = |resource, value: &str| Record::Config {
        resource,
        name: topic_config::COMPAT.to_owned(),
        value: Some(value.to_owned()),
    };
    let topic = || ConfigResource::Topic("bench".to_owned());
    let on = || Record::FeatureLevel { name: ELR_FEATURE.to_owned(), level: 1 };
    let expand = |records: &[Record]| {
        let metadata = cluster(records);
        ["bench", "other"].map(|topic| metadata.topic_config(topic).isr_expand)
    };
    use crate::types::IsrExpand::{CaughtUp, Kafka};
    let shipped = || set(ConfigResource::Cluster, "kafka-4.2");
    assert_eq!(expand(&[on()]), [CaughtUp, CaughtUp]);
    assert_eq!(expand(&[on(), shipped()]), [Kafka, Kafka]);
    assert_eq!(expand(&[on(), shipped(), set(topic(), "kip")]), [CaughtUp, Kafka]);
    assert_eq!(expand(&[on(), set(topic(), "kafka-4.2")]), [Kafka, CaughtUp]);
    assert_eq!(expand(&[set(topic(), "kip")]), [Kafka, Kafka], "before the KIP");
}

#[test]
fn a_new_registration_replaces_the_old_one_and_an_old_epoch_changes_nothing() {
    let mut metadata = cluster(&[register(1, 2), register(1, 3)]);
    let unfence = |epoch| {
        Record::BrokerRegistrationChange(BrokerRegistrationChange {
            broker: BrokerId(1),
            epoch: BrokerEpoch(epoch),
            fenced: Some(false),
            in_controlled_shutdown: false,
            log_dirs: None,
        })
    };
    let error = metadata.apply(Offset(4), &unfence(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata record at offset 4: broker 1 is not registered with epoch 2"
    );
    metadata.apply(Offset(4), &unfence(3)).unwrap();
    assert!(metadata.is_active(BrokerId(1)));
    assert_eq!(metadata.broker(BrokerId(1)).unwrap().registration_offset, Offset(3));
}

#[test]
fn a_record_applied_before_is_refused_and_a_gap_is_not() {
    let mut metadata = cluster(&[]);
    assert!(metadata.apply(Offset(1), &register(1, 1)).is_err());
    metadata.apply(Offset(20), &register(1, 20)).unwrap();
    assert_eq!(metadata.end_offset(), Offset(21));
}
