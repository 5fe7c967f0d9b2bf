//! Log directories that fail (spec/kip966.md 2.2, offline log dir).

use super::world::{TOPIC, World, brokers, directory, partition_id, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition, Record,
    topic_config,
};
use crate::types::{BrokerId, LeaderEpoch, PartitionEpoch};

const SECOND: DirectoryId = DirectoryId([77; 16]);

/// Brokers 1 and 2, the first with two directories and partition 0 in the one, 1 in the other.
fn world() -> World {
    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, 2)];
    for broker in brokers(&[1, 2]) {
        let mut record = registered(broker, false, false);
        if let Record::RegisterBroker(register) = &mut record
            && broker == BrokerId(1)
        {
            register.log_dirs.push(SECOND);
        }
        records.push(record);
    }
    records.push(Record::Config {
        resource: ConfigResource::Cluster,
        name: topic_config::MIN_ISR.to_owned(),
        value: Some("2".to_owned()),
    });
    records.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
    for (index, first) in (0..).zip([directory(BrokerId(1)), SECOND]) {
        records.push(Record::Partition(Partition {
            id: partition_id(index),
            replicas: brokers(&[1, 2]),
            isr: brokers(&[1, 2]),
            elr: vec![],
            last_known_elr: vec![],
            removing: vec![],
            adding: vec![],
            leader: Some(BrokerId(1)),
            recovering: false,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            directories: vec![first, directory(BrokerId(2))],
        }));
    }
    World::of(settings(Compat::Kip), &records)
}

fn report(world: &mut World, offline: &[DirectoryId]) -> HeartbeatReply {
    let broker = BrokerId(1);
    let heartbeat = Heartbeat {
        broker,
        epoch: world.epoch(broker),
        metadata_end: crate::types::Offset(i64::MAX),
        want_fence: false,
        want_shut_down: false,
        offline_log_dirs: offline.to_vec(),
        resources: None,
    };
    match world.ask(Request::Heartbeat(heartbeat)) {
        Response::Heartbeat(reply) => reply.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_directory_takes_its_replicas_out_of_the_isr_and_no_others() {
    let mut world = world();
    assert!(!report(&mut world, &[SECOND]).is_fenced);
    let (kept, lost) = (world.partition(0).clone(), world.partition(1).clone());
    assert_eq!((kept.leader, kept.isr), (Some(BrokerId(1)), brokers(&[1, 2])));
    assert_eq!((lost.leader, lost.isr), (Some(BrokerId(2)), brokers(&[2])));
    assert_eq!(lost.elr, brokers(&[1]));
    let known = world.metadata().broker(BrokerId(1)).unwrap();
    assert_eq!(known.log_dirs, [directory(BrokerId(1))]);
    world.written.clear();
    report(&mut world, &[SECOND]);
    assert_eq!(world.written, [], "it is told once");
}

#[test]
fn a_replica_in_a_failed_directory_is_not_elected() {
    let mut world = world();
    report(&mut world, &[SECOND]);
    world.heartbeat(BrokerId(2), true, false);
    assert_eq!(world.partition(0).leader, Some(BrokerId(1)));
    assert_eq!(world.partition(1).leader, None, "the ELR's first member has no log");
    world.heartbeat(BrokerId(2), false, false);
    assert_eq!(world.partition(1).leader, Some(BrokerId(2)));
}

#[test]
fn a_broker_without_a_directory_is_fenced_until_it_has_one() {
    let mut world = world();
    let all = [directory(BrokerId(1)), SECOND];
    for _ in 0..2 {
        assert!(report(&mut world, &all).is_fenced);
    }
    assert!(world.partition(0).isr == brokers(&[2]) && world.partition(1).isr == brokers(&[2]));
    assert!(!report(&mut world, &[]).is_fenced);
}
