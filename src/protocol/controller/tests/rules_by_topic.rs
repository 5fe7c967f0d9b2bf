//! Which rules hold for which topic: `compat` of topics and of the cluster, feature levels, and what a
//! change of either does to partitions that were made under the other.

use super::world::{World, brokers, directory, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition,
    PartitionRegistration, Record, topic_config,
};
use crate::types::{
    BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId, TopicPartition,
};

const KIP: TopicId = TopicId([1; 16]);
const SHIPPED: TopicId = TopicId([2; 16]);

fn name(topic: TopicId) -> String {
    format!("t{}", topic.0[0])
}

fn set(resource: ConfigResource, key: &str, value: &str) -> Record {
    Record::Config { resource, name: key.to_owned(), value: Some(value.to_owned()) }
}

fn feature(name: &str, level: i16) -> Record {
    Record::FeatureLevel { name: name.to_owned(), level }
}

/// Replicas 1, 2, 3; led by the first of `isr`.
fn partition(topic: TopicId, isr: &[i32], elr: &[i32], last_known_elr: &[i32]) -> Record {
    Record::Partition(Partition {
        id: id(topic),
        replicas: brokers(&[1, 2, 3]),
        isr: brokers(isr),
        elr: brokers(elr),
        last_known_elr: brokers(last_known_elr),
        removing: vec![],
        adding: vec![],
        leader: isr.first().copied().map(BrokerId),
        recovering: false,
        leader_epoch: LeaderEpoch(7),
        partition_epoch: PartitionEpoch(20),
        directories: brokers(&[1, 2, 3]).into_iter().map(directory).collect(),
    })
}

fn id(topic: TopicId) -> TopicPartition {
    TopicPartition { topic, partition: PartitionId(0) }
}

/// Live brokers 1 to 4, and two topics with the same partition, one of them under kafka-4.2.
fn two_topics(level: i16, isr: &[i32], elr: &[i32], last_known_elr: &[i32]) -> World {
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, level)];
    records.extend((1..=4).map(|id| registered(BrokerId(id), false, false)));
    records.push(set(ConfigResource::Cluster, topic_config::MIN_ISR, "2"));
    for topic in [KIP, SHIPPED] {
        records.push(Record::Topic { name: name(topic), id: topic });
        records.push(partition(topic, isr, elr, last_known_elr));
    }
    let shipped = ConfigResource::Topic(name(SHIPPED));
    records.push(set(shipped, topic_config::COMPAT, "kafka-4.2"));
    let settings = Settings { unclean_recovery_manager: true, ..settings(Compat::Kip) };
    World::of(settings, &records)
}

fn known(world: &World, topic: TopicId) -> &PartitionRegistration {
    world.metadata().partition(id(topic)).unwrap()
}

fn elrs(world: &World) -> [Vec<i32>; 2] {
    [KIP, SHIPPED].map(|topic| known(world, topic).elr.iter().map(|id| id.0).collect())
}

fn alter(world: &mut World, resource: ConfigResource, key: &str, value: Option<&str>) {
    let changes = vec![(key.to_owned(), value.map(str::to_owned))];
    let resources = vec![ResourceChanges { resource, changes }];
    let Response::AlterConfigs(outcomes) =
        world.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false }))
    else {
        panic!()
    };
    assert_eq!(outcomes[0].1, Ok(()));
}

fn set_compat(world: &mut World, resource: ConfigResource, value: Option<&str>) {
    alter(world, resource, topic_config::COMPAT, value);
}

/// Departures 5, 9 and 10, and the directory assignment: one cluster, both outcomes at once.
#[test]
fn each_topic_follows_its_own_compat() {
    let mut world = two_topics(2, &[1], &[2], &[]);
    alter(&mut world, ConfigResource::Cluster, topic_config::MIN_ISR, Some("3"));
    assert_eq!(elrs(&world), [vec![2], vec![]], "raised min ISR");

    let mut world = two_topics(2, &[1], &[2], &[]);
    world.ask(Request::UnregisterBroker(BrokerId(2)));
    assert_eq!(elrs(&world), [vec![], vec![2]], "unregistered");

    let mut world = two_topics(2, &[1], &[2], &[]);
    for topic in [KIP, SHIPPED] {
        let (broker, directory) = (BrokerId(1), DirectoryId([9; 16]));
        let epoch = world.epoch(broker);
        let assignment = DirectoryAssignment { broker, epoch, id: id(topic), directory };
        world.ask(Request::AssignDirectory(assignment));
    }
    assert_eq!(elrs(&world), [vec![2], vec![]], "directory assigned");

    let mut world = two_topics(2, &[1, 2, 3], &[], &[]);
    alter(&mut world, ConfigResource::Cluster, topic_config::MIN_ISR, Some("3"));
    for topic in [KIP, SHIPPED] {
        let target = brokers(&[1, 2]);
        world.ask(Request::Reassign(Reassignment { id: id(topic), target }));
    }
    assert_eq!(elrs(&world), [vec![], vec![3]], "reassigned to fewer than min ISR");
}

#[test]
fn an_unregistered_isr_member_enters_the_elr_under_kafka_only() {
    let mut world = two_topics(2, &[1, 2], &[], &[]);
    world.ask(Request::UnregisterBroker(BrokerId(2)));
    assert_eq!(elrs(&world), [vec![], vec![2]]);
    assert!([KIP, SHIPPED].iter().all(|&topic| known(&world, topic).isr == brokers(&[1])));
}

/// Departures 3 and 4: what is remembered of a lost ELR, and who elects from it.
#[test]
fn kafka_topics_stay_at_level_1_where_the_cluster_is_at_level_2() {
    let mut world = two_topics(2, &[1], &[], &[]);
    assert!(matches!(world.register(BrokerId(1), None, true), Response::RegisterBroker(Ok(_))));
    assert_eq!(known(&world, KIP).last_known_elr, brokers(&[1]));
    assert_eq!(known(&world, SHIPPED).last_known_elr, brokers(&[1]));
    assert_eq!(world.controller.recovery_count(), 1, "logs are inspected of the KIP's topic only");
    world.heartbeat(BrokerId(1), false, false);
    assert_eq!(known(&world, SHIPPED).leader, Some(BrokerId(1)), "the last leader came back");
    assert_eq!(known(&world, KIP).leader, None);
    let name = PartitionName { topic: name(SHIPPED), partition: PartitionId(0) };
    let kind = ElectionKind::Designated(vec![BrokerId(2)]);
    let request = ElectLeaders { kind, partitions: Some(vec![name]) };
    let Response::ElectLeaders(outcomes) = world.ask(Request::ElectLeaders(request)) else {
        panic!()
    };
    let refusal = outcomes[0].1.as_ref().unwrap_err();
    assert_eq!(refusal.error, ErrorCode::InvalidRequest);
    assert!(refusal.message.contains("ackmark.compat = kafka-4.2"), "{}", refusal.message);
}

/// Departure 4: allowed by the older key, a shipped election looks at no log.
#[test]
fn an_allowed_unclean_election_takes_any_replica_under_kafka_and_inspects_logs_under_the_kip() {
    let mut world = two_topics(2, &[1], &[], &[]);
    alter(&mut world, ConfigResource::Cluster, topic_config::UNCLEAN_ELECTION, Some("true"));
    world.heartbeat(BrokerId(1), true, false);
    assert_eq!(known(&world, SHIPPED).leader, Some(BrokerId(2)));
    assert_eq!(known(&world, KIP).leader, None);
    assert_eq!(world.controller.recovery_count(), 1);
}

#[test]
fn the_topics_compat_comes_before_the_clusters_and_that_before_the_controllers() {
    let raise = |world: &mut World| {
        alter(world, ConfigResource::Cluster, topic_config::MIN_ISR, Some("3"));
        elrs(world)
    };
    let topic = |topic| ConfigResource::Topic(name(topic));
    let mut world = two_topics(1, &[1], &[2], &[]);
    set_compat(&mut world, ConfigResource::Cluster, Some("kafka-4.2"));
    set_compat(&mut world, topic(SHIPPED), Some("kip"));
    assert_eq!(raise(&mut world), [vec![], vec![2]]);

    let mut world = two_topics(1, &[1], &[2], &[]);
    set_compat(&mut world, topic(SHIPPED), None);
    assert_eq!(raise(&mut world), [vec![2], vec![2]]);

    let mut world = two_topics(1, &[1], &[2], &[]);
    set_compat(&mut world, ConfigResource::Cluster, Some("kafka-4.2"));
    set_compat(&mut world, topic(SHIPPED), None);
    assert_eq!(raise(&mut world), [const { Vec::<i32>::new() }; 2]);
    assert!(world.written.contains(&Record::ClearElr { topic: None }), "one record for all");
}

#[test]
fn a_topic_that_comes_under_the_kip_is_put_right_at_once() {
    let mut world = two_topics(2, &[1, 2, 3], &[], &[]);
    alter(&mut world, ConfigResource::Cluster, topic_config::MIN_ISR, Some("3"));
    let target = brokers(&[1, 2]);
    world.ask(Request::Reassign(Reassignment { id: id(SHIPPED), target }));
    assert_eq!(known(&world, SHIPPED).elr, brokers(&[3]), "a foreign broker");
    set_compat(&mut world, ConfigResource::Topic(name(SHIPPED)), Some("kip"));
    assert_eq!(known(&world, SHIPPED).elr, []);
}

#[test]
fn a_new_log_starts_with_the_compat_the_controller_was_given() {
    let start = |compat| {
        let mut settings = settings(compat);
        settings.compat = compat;
        settings.elr_level = 1;
        let (mut out, now) = (Vec::new(), crate::types::MonotonicTime(1));
        let metadata = crate::protocol::metadata::ClusterMetadata::default();
        Controller::start(settings, metadata, Offset(0), now, &mut out)
    };
    let config = |controller: &Controller| controller.metadata().topic_config("t").compat;
    assert_eq!(config(&start(Compat::Kip)), None);
    assert_eq!(config(&start(Compat::Kafka42)), Some(Compat::Kafka42));
    let mut world = World::of(settings(Compat::Kip), &[]);
    world.controller = start(Compat::Kafka42);
    let update = FeatureUpdate { name: ELR_FEATURE.to_owned(), level: 2 };
    let mut out = Vec::new();
    let input = Input::Request { request: RequestId(1), body: Request::UpdateFeature(update) };
    let end = world.controller.metadata().end_offset();
    world.controller.step(world.now, input, &mut out);
    world.controller.step(world.now, Input::Committed { end }, &mut out);
    let Some(Output::Respond { response: Response::UpdateFeature(Err(refusal)), .. }) = out.pop()
    else {
        panic!("{out:?}")
    };
    let words = "feature eligible.leader.replicas.version = 2: must be 0 to 1 under \
                 ackmark.compat = kafka-4.2";
    assert_eq!((refusal.error, refusal.message.as_str()), (ErrorCode::InvalidRequest, words));
}

/// spec/kip966.md 2.7 with 2.5 step 2: at min ISR there is neither an ELR nor a memory of one.
#[test]
fn lowering_min_isr_forgets_lost_members_too() {
    for (isr, min_isr, forgotten) in [(&[1][..], "1", true), (&[1], "2", false), (&[], "1", false)]
    {
        let mut world = two_topics(2, isr, &[], &[2, 3]);
        let epoch = known(&world, KIP).partition_epoch;
        let resource = ConfigResource::Topic(name(KIP));
        alter(&mut world, resource, topic_config::MIN_ISR, Some(min_isr));
        let after = known(&world, KIP);
        assert_eq!(after.last_known_elr.is_empty(), forgotten, "{isr:?} {min_isr}");
        // Re-issued, and once only.
        let is_other = min_isr != "2";
        assert_eq!(after.partition_epoch.0 - epoch.0, i32::from(is_other), "{isr:?} {min_isr}");
    }
}
