use std::time::Duration;

use super::world::{SESSION_TIMEOUT, World, brokers, directory, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ClusterMetadata, ConfigResource, DirectoryId, Record, supported_features, topic_config,
};
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset, PartitionId, TopicId};

fn three_brokers() -> World {
    let records: Vec<Record> = (1..=3).map(|id| registered(BrokerId(id), false, false)).collect();
    World::of(settings(Compat::Kip), &records)
}

fn counts(name: &str, partitions: i32, replication_factor: i16) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        id: TopicId([9; 16]),
        partition_count: Some(partitions),
        replication_factor: Some(replication_factor),
        assignments: vec![],
        configs: vec![],
    }
}

fn assigned(name: &str, partitions: &[&[i32]]) -> NewTopic {
    let partition = |(index, replicas): (i32, &&[i32])| (PartitionId(index), brokers(replicas));
    NewTopic {
        partition_count: None,
        replication_factor: None,
        assignments: (0..).zip(partitions).map(partition).collect(),
        ..counts(name, 1, 1)
    }
}

fn create(world: &mut World, topic: NewTopic) -> Result<CreatedTopic, Refusal> {
    let request = CreateTopics { topics: vec![topic], validate_only: false };
    match world.ask(Request::CreateTopics(request)) {
        Response::CreateTopics(mut answers) => answers.remove(0).1,
        other => panic!("{other:?}"),
    }
}

fn refused(result: Result<CreatedTopic, Refusal>) -> (ErrorCode, String) {
    let refusal = result.unwrap_err();
    (refusal.error, refusal.message)
}

fn register(world: &mut World, change: impl FnOnce(&mut Registration)) -> Result<i64, ErrorCode> {
    let mut registration = world.registration(BrokerId(4), None, true);
    change(&mut registration);
    match world.ask(Request::RegisterBroker(registration)) {
        Response::RegisterBroker(result) => result.map(|epoch| epoch.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_waits_for_the_commit_of_everything_decided_before_it() {
    let settings = settings(Compat::Kip);
    let (mut out, now) = (Vec::new(), MonotonicTime(1));
    let mut controller =
        Controller::start(settings, ClusterMetadata::default(), Offset(0), now, &mut out);
    let Some(Output::Append { base_offset: Offset(0), records }) = out.pop() else { panic!() };
    let first = records.len() as i64;
    let ask = |controller: &mut Controller, request, body| {
        let mut out = Vec::new();
        let request = RequestId(request);
        controller.step(now, Input::Request { request, body }, &mut out);
        out
    };
    let unregister = || Request::UnregisterBroker(BrokerId(9));
    // Nothing is written for it, yet it may rest on what is not committed.
    assert_eq!(ask(&mut controller, 1, unregister()), []);
    let delete = Request::DeleteTopics(vec![TopicSelector::Name("x".to_owned())]);
    assert_eq!(ask(&mut controller, 2, delete), []);
    let mut out = Vec::new();
    controller.step(now, Input::Committed { end: Offset(first - 1) }, &mut out);
    assert_eq!(out, []);
    controller.step(now, Input::Committed { end: Offset(first) }, &mut out);
    let answered: Vec<u64> = out
        .iter()
        .map(|output| match output {
            Output::Respond { request, .. } => request.0,
            Output::Append { .. } | Output::AskReplicaLogs { .. } => panic!(),
        })
        .collect();
    assert_eq!(answered, [1, 2]);
    assert_eq!(ask(&mut controller, 3, unregister()).len(), 1);
}

#[test]
fn registration_is_checked_in_order() {
    let mut world = three_brokers();
    let world = &mut world;
    assert_eq!(
        register(world, |r| r.cluster_id = "other".to_owned()),
        Err(ErrorCode::InconsistentClusterId)
    );
    let duplicate = register(world, |r| {
        r.broker = BrokerId(1);
        r.log_dirs.clear();
    });
    assert_eq!(duplicate, Err(ErrorCode::DuplicateBrokerRegistration));
    let invalid = Err(ErrorCode::InvalidRegistration);
    let four = directory(BrokerId(4));
    assert_eq!(register(world, |r| r.log_dirs.clear()), invalid);
    assert_eq!(register(world, |r| r.log_dirs = vec![four, four]), invalid);
    assert_eq!(register(world, |r| r.log_dirs = vec![DirectoryId::UNASSIGNED]), invalid);
    assert_eq!(register(world, |r| r.log_dirs = vec![directory(BrokerId(2))]), invalid);
    assert_eq!(register(world, |r| r.features.clear()), invalid);
    let unsupported = Err(ErrorCode::UnsupportedVersion);
    assert_eq!(register(world, |r| r.features.truncate(1)), unsupported);
    assert_eq!(register(world, |r| r.features[1].max = 0), unsupported);
    let epoch = register(world, |_| ()).unwrap();
    let known = world.metadata().broker(BrokerId(4)).unwrap();
    assert_eq!((known.epoch, known.fenced), (BrokerEpoch(epoch), true));
    assert_eq!(known.features, supported_features());
}

#[test]
fn an_expired_session_frees_the_id_and_an_orderly_stop_does_so_at_once() {
    let mut world = three_brokers();
    world.pass(SESSION_TIMEOUT);
    assert_eq!(
        register(&mut world, |r| r.broker = BrokerId(1)),
        Err(ErrorCode::DuplicateBrokerRegistration)
    );
    world.pass(Duration::from_nanos(1));
    let own = |r: &mut Registration| {
        r.broker = BrokerId(1);
        r.log_dirs = vec![directory(BrokerId(1))];
    };
    assert!(register(&mut world, own).is_ok());
    world.heartbeat(BrokerId(1), false, true);
    assert!(register(&mut world, own).is_ok());
}

#[test]
fn expired_brokers_are_fenced_one_per_check_and_the_check_repeats_at_once() {
    let mut world = three_brokers();
    let fenced = |world: &World| world.metadata().brokers().filter(|b| b.fenced).count();
    world.pass(SESSION_TIMEOUT);
    world.tick();
    assert_eq!(fenced(&world), 0);
    world.heartbeat(BrokerId(2), false, false);
    world.pass(SESSION_TIMEOUT / 8);
    for expected in [1, 2] {
        world.tick();
        assert_eq!(fenced(&world), expected);
        assert!(world.controller.deadline() <= world.now);
    }
    world.tick();
    assert_eq!(fenced(&world), 2);
    assert!(world.metadata().is_active(BrokerId(2)));
    let answer = world.heartbeat(BrokerId(1), false, false);
    let unfenced =
        Ok(HeartbeatReply { is_caught_up: true, is_fenced: false, should_shut_down: false });
    assert_eq!(answer, Response::Heartbeat(unfenced));
}

#[test]
fn a_stopping_leader_waits_until_active_brokers_know() {
    let mut world = three_brokers();
    create(&mut world, assigned("t", &[&[1, 2]])).unwrap();
    let ask = |world: &mut World, broker, end, want_shut_down| {
        let (broker, metadata_end) = (BrokerId(broker), Offset(end));
        let epoch = world.epoch(broker);
        let heartbeat = Heartbeat {
            broker,
            epoch,
            metadata_end,
            want_fence: false,
            want_shut_down,
            offline_log_dirs: vec![],
            resources: None,
        };
        match world.ask(Request::Heartbeat(heartbeat)) {
            Response::Heartbeat(reply) => reply.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(!ask(&mut world, 1, 5000, true).should_shut_down);
    let handover_end = world.metadata().end_offset().0;
    ask(&mut world, 2, handover_end, false);
    assert!(!ask(&mut world, 1, 5000, true).should_shut_down);
    ask(&mut world, 3, handover_end, false);
    assert!(ask(&mut world, 1, 5000, true).should_shut_down);
}

#[test]
fn a_topic_is_placed_round_robin_over_active_brokers() {
    let mut world = three_brokers();
    world.heartbeat(BrokerId(2), true, false);
    let created = create(&mut world, counts("t", 3, 2)).unwrap();
    assert_eq!((created.partition_count, created.replication_factor), (3, 2));
    let topic = world.metadata().topic(created.id).unwrap();
    let replicas: Vec<_> = topic.partitions.values().map(|p| p.replicas.clone()).collect();
    assert_eq!(replicas, [brokers(&[1, 3]), brokers(&[3, 1]), brokers(&[1, 3])]);
    let first = &topic.partitions[&PartitionId(0)];
    assert_eq!(first.leader, Some(BrokerId(1)));
    assert_eq!(first.directories, [directory(BrokerId(1)), directory(BrokerId(3))]);
}

#[test]
fn an_assigned_topic_leaves_fenced_replicas_out_of_the_isr() {
    let mut world = three_brokers();
    world.heartbeat(BrokerId(2), true, false);
    let created = create(&mut world, assigned("t", &[&[2, 3, 1]])).unwrap();
    let topic = world.metadata().topic(created.id).unwrap();
    let first = &topic.partitions[&PartitionId(0)];
    assert_eq!((first.leader, &first.isr), (Some(BrokerId(3)), &brokers(&[3, 1])));
}

#[test]
fn a_refused_topic_says_why_and_writes_nothing() {
    let mut world = three_brokers();
    create(&mut world, counts("there", 1, 1)).unwrap();
    world.heartbeat(BrokerId(3), true, false);
    world.written.clear();
    let mut second_only = assigned("t", &[&[1]]);
    second_only.assignments[0].0 = PartitionId(1);
    let mut both = assigned("t", &[&[1]]);
    both.partition_count = Some(1);
    let cases = [
        (counts("a b", 1, 1), ErrorCode::InvalidTopic),
        (counts("__cluster_metadata", 1, 1), ErrorCode::InvalidTopic),
        (counts("__consumer_offsets", 1, 1), ErrorCode::InvalidTopic),
        (counts("__transaction_state", 1, 1), ErrorCode::InvalidTopic),
        (counts("there", 1, 1), ErrorCode::TopicAlreadyExists),
        (counts("t", 0, 1), ErrorCode::InvalidPartitions),
        (counts("t", 10_001, 1), ErrorCode::InvalidPartitions),
        (counts("t", 1, 0), ErrorCode::InvalidReplicationFactor),
        (counts("t", 1, 3), ErrorCode::InvalidReplicationFactor),
        (assigned("t", &[&[1, 1]]), ErrorCode::InvalidReplicaAssignment),
        (assigned("t", &[&[]]), ErrorCode::InvalidReplicaAssignment),
        (assigned("t", &[&[1], &[1, 2]]), ErrorCode::InvalidReplicaAssignment),
        (assigned("t", &[&[8]]), ErrorCode::InvalidReplicaAssignment),
        (assigned("t", &[&[3]]), ErrorCode::InvalidReplicaAssignment),
        (second_only, ErrorCode::InvalidReplicaAssignment),
        (both, ErrorCode::InvalidRequest),
    ];
    for (topic, error) in cases {
        let what = format!("{topic:?}");
        assert_eq!(refused(create(&mut world, topic)).0, error, "{what}");
    }
    let mut topic = counts("t", 1, 1);
    topic.configs = vec![(topic_config::ISR_WAIT.to_owned(), Some("maybe".to_owned()))];
    let message = "ackmark.isr.wait = maybe: must be controller or none".to_owned();
    assert_eq!(refused(create(&mut world, topic)), (ErrorCode::InvalidConfig, message));
    assert_eq!(world.written, []);
}

#[test]
fn a_deleted_topic_is_gone_by_name_or_id() {
    let mut world = three_brokers();
    let id = create(&mut world, counts("t", 2, 1)).unwrap().id;
    let selectors = vec![
        TopicSelector::Name("t".to_owned()),
        TopicSelector::Id(id),
        TopicSelector::Name("u".to_owned()),
    ];
    let Response::DeleteTopics(answers) = world.ask(Request::DeleteTopics(selectors)) else {
        panic!()
    };
    let errors: Vec<_> = answers.iter().map(|(_, result)| result.as_ref().err()).collect();
    assert_eq!(
        errors,
        [None, Some(&ErrorCode::UnknownTopicId), Some(&ErrorCode::UnknownTopicOrPartition)]
    );
    assert_eq!(world.metadata().partitions().count(), 0);
}

#[test]
fn with_elr_on_min_isr_belongs_to_topics_and_cluster_only() {
    let mut world = three_brokers();
    let mut alter = |resource, value: Option<&str>| {
        let changes = vec![(topic_config::MIN_ISR.to_owned(), value.map(str::to_owned))];
        let resources = vec![ResourceChanges { resource, changes }];
        match world.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false })) {
            Response::AlterConfigs(answers) => answers[0].1.as_ref().err().map(|r| r.error),
            other => panic!("{other:?}"),
        }
    };
    let invalid = Some(ErrorCode::InvalidConfig);
    assert_eq!(alter(ConfigResource::Broker(BrokerId(1)), Some("2")), invalid);
    assert_eq!(alter(ConfigResource::Cluster, None), invalid);
    assert_eq!(alter(ConfigResource::Cluster, Some("2")), None);
    let absent = ConfigResource::Topic("absent".to_owned());
    assert_eq!(alter(absent, Some("2")), Some(ErrorCode::UnknownTopicOrPartition));
}

#[test]
fn producer_ids_are_handed_out_once() {
    let mut world = three_brokers();
    let epoch = world.epoch(BrokerId(1));
    let mut ask = |epoch| {
        let broker = BrokerId(1);
        match world.ask(Request::AllocateProducerIds { broker, epoch }) {
            Response::AllocateProducerIds(result) => result,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(epoch), Ok((0, 1000)));
    assert_eq!(ask(epoch), Ok((1000, 1000)));
    assert_eq!(ask(BrokerEpoch(1)), Err(ErrorCode::StaleBrokerEpoch));
}
