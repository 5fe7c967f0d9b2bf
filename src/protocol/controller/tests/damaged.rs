//! A broker comes back with replicas that are not as its clean stop left them.

use super::world::{TOPIC, World, brokers, directory, partition_id, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition, PartitionRegistration,
    Record, topic_config,
};
use crate::types::{BrokerId, LeaderEpoch, PartitionEpoch};

const BACK: BrokerId = BrokerId(1);
/// What [`registered`] gives broker 1.
const LAST_EPOCH: i64 = 101;

struct Given<'a> {
    replicas: &'a [i32],
    isr: &'a [i32],
    elr: &'a [i32],
    last_known_elr: &'a [i32],
    leader: Option<i32>,
}

/// Nobody leads; broker 1 may.
const LAST: Given<'_> =
    Given { replicas: &[1, 2, 3], isr: &[], elr: &[1], last_known_elr: &[], leader: None };

/// A topic of these partitions, brokers 2 and 3 live, broker 1 stopped.
fn world(level: i16, min_isr: &str, partitions: &[Given<'_>]) -> World {
    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, level)];
    records.push(registered(BACK, true, false));
    records.extend([2, 3].map(|id| registered(BrokerId(id), false, false)));
    records.push(Record::Config {
        resource: ConfigResource::Cluster,
        name: topic_config::MIN_ISR.to_owned(),
        value: Some(min_isr.to_owned()),
    });
    records.push(Record::Topic { name: "t".to_owned(), id: TOPIC });
    for (index, given) in (0..).zip(partitions) {
        records.push(Record::Partition(Partition {
            id: partition_id(index),
            replicas: brokers(given.replicas),
            isr: brokers(given.isr),
            elr: brokers(given.elr),
            last_known_elr: brokers(given.last_known_elr),
            removing: vec![],
            adding: vec![],
            leader: given.leader.map(BrokerId),
            recovering: false,
            leader_epoch: LeaderEpoch(7),
            partition_epoch: PartitionEpoch(20),
            directories: brokers(given.replicas).into_iter().map(directory).collect(),
        }));
    }
    World::of(settings(Compat::Kip), &records)
}

/// Broker 1 registers after a clean stop, and is unfenced.
fn come_back(world: &mut World, damaged: &[i32]) {
    let mut registration = world.registration(BACK, Some(LAST_EPOCH), true);
    registration.damaged = damaged.iter().copied().map(partition_id).collect();
    let answer = world.ask(Request::RegisterBroker(registration));
    assert!(matches!(answer, Response::RegisterBroker(Ok(_))), "{answer:?}");
    world.heartbeat(BACK, false, false);
    assert!(world.metadata().broker(BACK).unwrap().is_active());
}

fn members(partition: &PartitionRegistration) -> [Vec<i32>; 2] {
    [&partition.isr, &partition.elr].map(|ids| ids.iter().map(|id| id.0).collect())
}

#[test]
fn only_the_damaged_partitions_are_left_as_after_an_unclean_stop() {
    let in_isr = || Given { isr: &[1, 2], elr: &[], leader: Some(2), ..LAST };
    let in_elr = || Given { isr: &[2], elr: &[1], leader: Some(2), ..LAST };
    let mut world = world(2, "2", &[in_isr(), in_isr(), in_elr(), in_elr()]);
    come_back(&mut world, &[1, 3, 9]);
    let found = [0, 1, 2, 3].map(|index| members(world.partition(index)));
    let (kept, lost) = ([vec![2], vec![1]], [vec![2], vec![]]);
    assert_eq!(found, [kept.clone(), lost.clone(), kept, lost]);
}

/// At level 0 the last one stays in the ISR, at level 1 it is the last known leader, at both the ELR
/// may name it: none of these makes a damaged replica lead, as others would cut theirs to it.
#[test]
fn the_last_replica_that_may_lead_does_so_unless_it_is_damaged() {
    let last_leader = Given { elr: &[], last_known_elr: &[1], ..LAST };
    let in_both = Given { last_known_elr: &[1], ..LAST };
    let last_in_isr = || Given { isr: &[1], elr: &[], ..LAST };
    for (level, given) in [
        (0, last_in_isr()),
        (0, Given { leader: Some(1), ..last_in_isr() }),
        (1, LAST),
        (1, last_leader),
        (1, in_both),
        (1, last_in_isr()),
        (1, Given { leader: Some(1), ..last_in_isr() }),
        (2, LAST),
        (2, last_in_isr()),
    ] {
        let Given { replicas, isr, elr, last_known_elr, leader } = given;
        let again = || Given { replicas, isr, elr, last_known_elr, leader };
        let mut world = world(level, "1", &[again(), again()]);
        come_back(&mut world, &[1]);
        let [whole, damaged] = [0, 1].map(|index| world.partition(index));
        let case = format!("{level} {isr:?} {elr:?} {last_known_elr:?} {leader:?}: {damaged:?}");
        assert_eq!(whole.leader, Some(BACK), "{case}");
        assert_eq!(damaged.leader, None, "{case}");
        assert!(damaged.isr.is_empty() && damaged.elr.is_empty(), "{case}");
        assert!(damaged.last_known_elr.is_empty(), "{case}");
    }
}

#[test]
fn the_only_replica_leads_though_damaged() {
    for (level, isr, elr) in [(0, &[1][..], &[][..]), (1, &[], &[1])] {
        let only = Given { replicas: &[1], isr, elr, last_known_elr: elr, leader: None };
        let mut world = world(level, "1", &[only]);
        come_back(&mut world, &[0]);
        assert_eq!(world.partition(0).leader, Some(BACK), "level {level}");
    }
}
