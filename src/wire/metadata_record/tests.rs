//! Bytes of metadata records, by hand and there and back.

use proptest::prelude::*;

use crate::protocol::metadata::{
    BrokerRegistrationChange, Endpoint, FeatureRange, IncarnationId, Partition, PartitionChange,
    RegisterBroker,
};
use crate::types::{LeaderEpoch, PartitionEpoch, PartitionId, TopicPartition};

use super::*;

fn topic_id(last: u8) -> TopicId {
    let mut id = [0; 16];
    id[15] = last;
    TopicId(id)
}

fn id() -> TopicPartition {
    TopicPartition { topic: topic_id(7), partition: PartitionId(0) }
}

fn brokers_of(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().map(|&id| BrokerId(id)).collect()
}

fn bytes_of(hex: &str) -> Bytes {
    let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn check_vector(hex: &str, record: &Record) {
    let bytes = bytes_of(hex);
    assert_eq!(decode_metadata_record(&bytes), Ok(record.clone()));
    assert_eq!(encode_metadata_record(record), bytes);
}

/// The vector of spec/kafka-wire.md 2.2.
#[test]
fn a_partition_change_has_the_specs_bytes() {
    check_vector(
        "01 05 02 | 00000000 | 00000000000000000000000000000007 | 02 | 00 05 02 00000001 \
         | 06 09 03 00000002 00000003",
        &Record::PartitionChange(PartitionChange {
            isr: Some(brokers_of(&[1])),
            elr: Some(brokers_of(&[2, 3])),
            ..PartitionChange::none(id())
        }),
    );
}

/// By hand from the field tables of spec/kip966.md 2.12.
#[test]
fn records_have_the_bytes_of_their_schemas() {
    check_vector(
        "01 01 00 | 00000002 | 0000000000000009 | 00",
        &Record::UnregisterBroker { broker: BrokerId(2), epoch: BrokerEpoch(9) },
    );
    check_vector(
        "01 02 00 | 06 62656e6368 | 00000000000000000000000000000007 | 00",
        &Record::Topic { name: "bench".into(), id: topic_id(7) },
    );
    check_vector(
        "01 04 00 | 02 | 06 62656e6368 | 09 666c7573682e6d73 | 00 | 00",
        &Record::Config {
            resource: ConfigResource::Topic("bench".into()),
            name: "flush.ms".into(),
            value: None,
        },
    );
    check_vector(
        "01 09 00 | 00000000000000000000000000000007 | 00",
        &Record::RemoveTopic { id: topic_id(7) },
    );
    check_vector(
        "01 0f 00 | 00000001 | 0000000000000008 | 00000000000003e8 | 00",
        &Record::ProducerIds {
            broker: BrokerId(1),
            epoch: BrokerEpoch(8),
            next_producer_id: 1_000,
        },
    );
    check_vector(
        "01 11 02 | 00000001 | 0000000000000008 | 02 | 00 01 ff | 01 01 01",
        &Record::BrokerRegistrationChange(BrokerRegistrationChange {
            broker: BrokerId(1),
            epoch: BrokerEpoch(8),
            fenced: Some(false),
            in_controlled_shutdown: true,
            log_dirs: None,
        }),
    );
    check_vector("01 1c 00 | 01 | 00", &Record::ClearElr { topic: None });
    check_vector(
        "01 03 02 | 00000000 | 00000000000000000000000000000007 | 03 00000001 00000002 \
         | 02 00000001 | 01 | 01 | ffffffff | 00000004 | 00000005 | 01 \
         | 02 | 00 01 01 | 01 05 02 00000002",
        &Record::Partition(Partition {
            id: id(),
            replicas: brokers_of(&[1, 2]),
            isr: brokers_of(&[1]),
            elr: brokers_of(&[2]),
            last_known_elr: vec![],
            removing: vec![],
            adding: vec![],
            leader: None,
            recovering: true,
            leader_epoch: LeaderEpoch(4),
            partition_epoch: PartitionEpoch(5),
            directories: vec![],
        }),
    );
}

/// Older versions lack fields; they read as empty.
#[test]
fn older_versions_are_read() {
    let oldest = bytes_of(
        "01 00 00 | 00000001 | 00000000000000000000000000000009 | 0000000000000008 | 01 | 01 \
         | 00 | 01 | 00",
    );
    let Ok(Record::RegisterBroker(record)) = decode_metadata_record(&oldest) else {
        panic!("not a registration");
    };
    assert!(record.fenced && !record.in_controlled_shutdown && record.log_dirs.is_empty());

    let oldest = bytes_of(
        "01 03 00 | 00000000 | 00000000000000000000000000000007 | 01 | 01 | 01 | 01 | 00000001 \
         | 00000004 | 00000005 | 00",
    );
    let Ok(Record::Partition(record)) = decode_metadata_record(&oldest) else {
        panic!("not a partition");
    };
    assert_eq!((record.leader, record.directories), (Some(BrokerId(1)), vec![]));
}

#[test]
fn values_outside_the_schema_are_refused_in_words() {
    let cases = [
        ("", "metadata record, byte 0: the bytes end inside a variable-length integer"),
        ("00 05 02", "metadata record frame version 0: only 1 is known"),
        ("01 63 00", "metadata record of unknown api key 99"),
        ("01 14 00 00", "metadata record of unknown api key 20"),
        ("01 02 01", "metadata record 2 version 1: 0 to 0 are known"),
        ("01 1c 00 01 00 00", "metadata record, byte 5: 1 bytes are left after the end"),
        ("01 1c 00 05 61", "metadata record, byte 4: 4 bytes are wanted and 1 are left"),
        ("01 1c 00 00 00", "metadata record, byte 4: null where a value is required"),
        ("01 04 00 08 01 01 00 00", "metadata record, byte 5: resource type is 8"),
    ];
    for (hex, message) in cases {
        let error = decode_metadata_record(&bytes_of(hex)).unwrap_err();
        assert_eq!(error.to_string(), message, "{hex}");
    }
}

fn broker_ids() -> impl Strategy<Value = Vec<BrokerId>> {
    proptest::collection::vec((0..i32::MAX).prop_map(BrokerId), 0..5)
}

fn directory_ids() -> impl Strategy<Value = Vec<DirectoryId>> {
    proptest::collection::vec(any::<[u8; 16]>().prop_map(DirectoryId), 1..4)
}

fn a_leader() -> impl Strategy<Value = Option<BrokerId>> {
    proptest::option::of((0..i32::MAX).prop_map(BrokerId))
}

fn partition_id() -> impl Strategy<Value = TopicPartition> {
    (any::<[u8; 16]>(), any::<i32>()).prop_map(|(topic, partition)| TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(partition),
    })
}

fn registration() -> impl Strategy<Value = RegisterBroker> {
    let endpoint = (".{0,9}", ".{0,200}", any::<u16>(), any::<i16>()).prop_map(
        |(name, host, port, security_protocol)| Endpoint { name, host, port, security_protocol },
    );
    let feature = (".{0,9}", any::<i16>(), any::<i16>())
        .prop_map(|(name, min, max)| FeatureRange { name, min, max });
    let head = (any::<i32>(), any::<[u8; 16]>(), any::<i64>());
    let lists = (
        proptest::collection::vec(endpoint, 0..3),
        proptest::collection::vec(feature, 0..3),
        directory_ids(),
    );
    (head, lists, proptest::option::of(".{0,9}"), any::<bool>(), any::<bool>()).prop_map(
        |((broker, incarnation, epoch), (endpoints, features, log_dirs), rack, fenced, leaving)| {
            RegisterBroker {
                broker: BrokerId(broker),
                incarnation: IncarnationId(incarnation),
                epoch: BrokerEpoch(epoch),
                endpoints,
                features,
                rack,
                fenced,
                in_controlled_shutdown: leaving,
                log_dirs,
            }
        },
    )
}

fn partition() -> impl Strategy<Value = Partition> {
    let lists = (broker_ids(), broker_ids(), broker_ids(), broker_ids(), broker_ids());
    let epochs = (any::<i32>(), any::<i32>());
    (partition_id(), lists, broker_ids(), a_leader(), any::<bool>(), epochs, directory_ids())
        .prop_map(|(id, lists, adding, leader, recovering, epochs, directories)| {
            let (replicas, isr, elr, last_known_elr, removing) = lists;
            Partition {
                id,
                replicas,
                isr,
                elr,
                last_known_elr,
                removing,
                adding,
                leader,
                recovering,
                leader_epoch: LeaderEpoch(epochs.0),
                partition_epoch: PartitionEpoch(epochs.1),
                directories,
            }
        })
}

fn partition_change() -> impl Strategy<Value = PartitionChange> {
    let list = || proptest::option::of(broker_ids());
    let lists = (list(), list(), list(), list(), list(), list());
    let leader = proptest::option::of(a_leader());
    let recovering = proptest::option::of(any::<bool>());
    (partition_id(), lists, leader, recovering, proptest::option::of(directory_ids())).prop_map(
        |(id, (isr, replicas, removing, adding, elr, last_known_elr), leader, recovering, dirs)| {
            PartitionChange {
                id,
                isr,
                leader,
                replicas,
                removing,
                adding,
                recovering,
                elr,
                last_known_elr,
                directories: dirs,
            }
        },
    )
}

fn registration_change() -> impl Strategy<Value = BrokerRegistrationChange> {
    let fenced = proptest::option::of(any::<bool>());
    let log_dirs = proptest::option::of(directory_ids());
    (any::<i32>(), any::<i64>(), fenced, any::<bool>(), log_dirs).prop_map(
        |(broker, epoch, fenced, in_controlled_shutdown, log_dirs)| BrokerRegistrationChange {
            broker: BrokerId(broker),
            epoch: BrokerEpoch(epoch),
            fenced,
            in_controlled_shutdown,
            log_dirs,
        },
    )
}

fn config() -> impl Strategy<Value = Record> {
    let resource = prop_oneof![
        ".{0,9}".prop_map(ConfigResource::Topic),
        any::<i32>().prop_map(|id| ConfigResource::Broker(BrokerId(id))),
        Just(ConfigResource::Cluster),
    ];
    (resource, ".{0,9}", proptest::option::of(".{0,9}"))
        .prop_map(|(resource, name, value)| Record::Config { resource, name, value })
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        registration().prop_map(Record::RegisterBroker),
        registration_change().prop_map(Record::BrokerRegistrationChange),
        partition().prop_map(Record::Partition),
        partition_change().prop_map(Record::PartitionChange),
        config(),
        (".{0,9}", any::<i16>()).prop_map(|(name, level)| Record::FeatureLevel { name, level }),
        proptest::option::of(".{1,9}").prop_map(|topic| Record::ClearElr { topic }),
    ]
}

proptest! {
    #[test]
    fn records_come_back_equal_and_cuts_are_errors(record in record()) {
        let bytes = encode_metadata_record(&record);
        prop_assert_eq!(decode_metadata_record(&bytes), Ok(record));
        for length in 0..bytes.len() {
            prop_assert!(decode_metadata_record(&bytes.slice(..length)).is_err());
        }
    }

    #[test]
    fn changed_records_never_panic(
        record in record(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = encode_metadata_record(&record).to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode_metadata_record(&bytes.into());
    }
}
