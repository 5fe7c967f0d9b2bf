//! Every rule by itself.

use std::time::Duration;

use super::scene::{
    BALANCED, EPOCH, Given, Scene, broker_record, log, partition_record, strategy, topic,
};
use crate::protocol::controller::recovery::task::PROACTIVE_WINDOW;
use crate::protocol::controller::recovery::{RETRY_BEHIND, RETRY_SILENT};
use crate::protocol::controller::tests::world::{TOPIC, World, brokers, partition_id, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, ELR_FEATURE, METADATA_VERSION_FEATURE, Record, topic_config,
};
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, UncleanRecovery};

#[test]
fn balanced_asks_every_replica_and_elects_once_every_last_known_member_answered() {
    let mut scene = Scene::of(&BALANCED);
    assert_eq!(scene.asked(), [1, 2, 3]);
    assert_eq!(scene.world.controller.recovery_count(), 1);
    scene.answer(1, Some(5), 100);
    scene.answer(3, Some(5), 90);
    assert_eq!(scene.leader(), None);
    scene.pass(PROACTIVE_WINDOW * 10);
    assert_eq!(scene.leader(), None);
    scene.answer(2, Some(5), 120);
    assert_eq!(scene.leader(), Some(2));
    let partition = scene.partition();
    assert!(partition.recovering, "an unclean election is reported as one");
    assert_eq!(partition.isr, brokers(&[2]));
    assert_eq!((partition.elr.len(), partition.last_known_elr.len()), (0, 0));
    assert_eq!((partition.leader_epoch, partition.partition_epoch.0), (LeaderEpoch(EPOCH + 1), 21));
    assert_eq!(scene.world.controller.recovery_count(), 0);
}

#[test]
fn the_highest_leader_epoch_beats_the_longest_log_and_the_first_replica_wins_a_tie() {
    for (first, second, winner) in [
        ((Some(6), 10), (Some(5), 1000), 1),
        ((None, 0), (Some(0), 1), 2),
        ((Some(5), 10), (Some(5), 11), 2),
        ((Some(5), 10), (Some(5), 10), 1),
        ((None, 0), (None, 0), 1),
    ] {
        let mut scene = Scene::of(&BALANCED);
        scene.answer(2, second.0, second.1);
        scene.answer(1, first.0, first.1);
        assert_eq!(scene.leader(), Some(winner), "{first:?} {second:?}");
    }
}

#[test]
fn a_replica_outside_the_last_known_set_may_win_but_is_not_waited_for() {
    let mut scene = Scene::of(&BALANCED);
    scene.answer(3, Some(6), 10);
    scene.answer(1, Some(5), 100);
    scene.answer(2, Some(5), 100);
    assert_eq!(scene.leader(), Some(3));
}

#[test]
fn balanced_without_a_last_known_set_waits_for_all_replicas() {
    let mut scene = Scene::of(&Given { last_known_elr: &[], ..BALANCED });
    scene.answer(1, Some(5), 100);
    scene.answer(2, Some(5), 100);
    assert_eq!(scene.leader(), None);
    scene.answer(3, Some(5), 1);
    assert_eq!(scene.leader(), Some(1));
}

#[test]
fn balanced_waits_for_the_best_log_to_be_unfenced_and_never_elects_a_fenced_broker() {
    let mut scene = Scene::of(&Given { fenced: &[2], ..BALANCED });
    assert_eq!(scene.asked(), [1, 2, 3], "fenced replicas are asked too");
    scene.answer(1, Some(5), 100);
    scene.answer(2, Some(5), 120);
    scene.answer(3, Some(5), 90);
    assert_eq!(scene.leader(), None);
    scene.heartbeat(2);
    assert_eq!(scene.leader(), Some(2));
}

#[test]
fn balanced_leaves_a_partition_alone_that_has_an_elr() {
    let mut scene = Scene::of(&Given { fenced: &[1, 2], elr: &[1], ..BALANCED });
    assert_eq!((scene.asked(), scene.world.controller.recovery_count()), (vec![], 0));
    scene.heartbeat(1);
    assert_eq!(scene.leader(), Some(1));
    assert!(!scene.partition().recovering);
}

#[test]
fn proactive_does_not_wait_for_a_fenced_elr_but_collects_answers_for_its_window() {
    let proactive = strategy("Proactive");
    let given = Given { strategy: &proactive, fenced: &[1], elr: &[1], ..BALANCED };
    let mut scene = Scene::of(&given);
    scene.answer(2, Some(5), 100);
    scene.pass(PROACTIVE_WINDOW - Duration::from_nanos(1));
    assert_eq!(scene.leader(), None);
    assert!(scene.world.controller.deadline() <= scene.world.now.plus(Duration::from_nanos(1)));
    scene.pass(Duration::from_nanos(1));
    assert_eq!(scene.leader(), Some(2));
    assert!(scene.partition().recovering);
    assert_eq!(scene.partition().elr, []);
}

#[test]
fn proactive_takes_the_first_answer_after_its_window() {
    let proactive = strategy("Proactive");
    let mut scene = Scene::of(&Given { strategy: &proactive, ..BALANCED });
    scene.pass(PROACTIVE_WINDOW);
    assert_eq!(scene.leader(), None);
    scene.answer(3, None, 0);
    assert_eq!(scene.leader(), Some(3));
}

#[test]
fn proactive_has_nothing_to_wait_for_once_every_log_is_known() {
    let proactive = strategy("Proactive");
    let mut scene = Scene::of(&Given { strategy: &proactive, ..BALANCED });
    (1..).zip([5, 7, 6]).for_each(|(broker, end)| scene.answer(broker, Some(5), end));
    assert_eq!(scene.leader(), Some(2));

    let mut scene = Scene::of(&Given { strategy: &proactive, fenced: &[2], ..BALANCED });
    (1..).zip([5, 7, 6]).for_each(|(broker, end)| scene.answer(broker, Some(5), end));
    assert_eq!(scene.leader(), None, "the best log may still be unfenced within the window");
    scene.pass(PROACTIVE_WINDOW);
    assert_eq!(scene.leader(), Some(3));
}

#[test]
fn manual_waits_for_an_operator() {
    let manual = strategy("Manual");
    let mut scene = Scene::of(&Given { strategy: &manual, ..BALANCED });
    scene.pass(PROACTIVE_WINDOW * 2);
    scene.heartbeat(1);
    assert_eq!((scene.asked(), scene.leader()), (vec![], None));
    assert_eq!(scene.elect(ElectionKind::LongestLogBalanced), Ok(()));
    assert_eq!(scene.asked(), [1, 2, 3]);
    scene.answer(1, Some(5), 100);
    scene.answer(2, Some(5), 120);
    assert_eq!(scene.leader(), Some(2));
    let needless = (ErrorCode::ElectionNotNeeded, "the partition has a leader: 2".to_owned());
    assert_eq!(scene.elect(ElectionKind::LongestLogBalanced), Err(needless));
}

#[test]
fn an_operator_may_want_it_faster_than_the_strategy() {
    let mut scene = Scene::of(&BALANCED);
    scene.answer(1, Some(5), 100);
    scene.pass(PROACTIVE_WINDOW);
    assert_eq!(scene.leader(), None);
    assert_eq!(scene.elect(ElectionKind::LongestLogProactive), Ok(()));
    assert_eq!(scene.leader(), Some(1), "the answers there are do serve");
}

#[test]
fn a_designated_leader_is_elected_if_it_is_an_active_replica() {
    let manual = strategy("Manual");
    let given = Given { strategy: &manual, fenced: &[1], ..BALANCED };
    let mut scene = Scene::of(&given);
    let designate =
        |scene: &mut Scene, leader| scene.elect(ElectionKind::Designated(vec![BrokerId(leader)]));
    let fenced = (ErrorCode::EligibleLeadersNotAvailable, "broker 1 is not active".to_owned());
    assert_eq!(designate(&mut scene, 1), Err(fenced));
    let foreign = "broker 9 has no replica of the partition".to_owned();
    assert_eq!(designate(&mut scene, 9), Err((ErrorCode::InvalidRequest, foreign)));
    assert_eq!(designate(&mut scene, 3), Ok(()));
    assert_eq!(scene.leader(), Some(3));
    assert!(scene.partition().recovering);
    assert_eq!(designate(&mut scene, 2).unwrap_err().0, ErrorCode::ElectionNotNeeded);
}

#[test]
fn elections_by_log_or_name_need_the_manager() {
    for level in [0, 1] {
        let mut scene = Scene::of(&Given { level, last_known_elr: &[1, 2], ..BALANCED });
        for kind in [
            ElectionKind::LongestLogBalanced,
            ElectionKind::LongestLogProactive,
            ElectionKind::Designated(vec![BrokerId(3)]),
        ] {
            let (error, message) = scene.elect(kind).unwrap_err();
            assert_eq!(error, ErrorCode::InvalidRequest);
            assert!(message.contains(ELR_FEATURE), "{message}");
        }
        assert_eq!((scene.asked(), scene.leader()), (vec![], None));
    }
}

#[test]
fn the_older_key_maps_to_strategies_and_the_topics_word_comes_first() {
    use topic_config::{UNCLEAN_ELECTION as OLD, UNCLEAN_RECOVERY as NEW};
    let cluster = || ConfigResource::Cluster;
    type Set<'a> = &'a [(ConfigResource, &'a str, &'a str)];
    let cases: [(Set<'_>, UncleanRecovery); 7] = [
        (&[], UncleanRecovery::Balanced),
        (&[(topic(), OLD, "true")], UncleanRecovery::Proactive),
        (&[(topic(), OLD, "false"), (cluster(), OLD, "true")], UncleanRecovery::Balanced),
        (&[(cluster(), NEW, "manual")], UncleanRecovery::Manual),
        (&[(topic(), OLD, "true"), (topic(), NEW, "Manual")], UncleanRecovery::Manual),
        (&[(cluster(), NEW, "Manual"), (topic(), OLD, "true")], UncleanRecovery::Proactive),
        (&[(cluster(), NEW, "Manual"), (topic(), NEW, "Balanced")], UncleanRecovery::Balanced),
    ];
    for (strategy, expected) in cases {
        let scene = Scene::of(&Given { strategy, fenced: &[1, 2, 3], elr: &[1], ..BALANCED });
        let config = scene.world.metadata().topic_config("topic");
        assert_eq!(config.unclean_recovery, expected, "{strategy:?}");
    }
}

#[test]
fn a_changed_strategy_starts_hurries_and_ends_recoveries() {
    let manual = strategy("Manual");
    let mut scene = Scene::of(&Given { strategy: &manual, fenced: &[1, 2], elr: &[1], ..BALANCED });
    scene.set(topic_config::UNCLEAN_RECOVERY, Some("Proactive"));
    assert_eq!(scene.asked(), [1, 2, 3]);
    scene.set(topic_config::UNCLEAN_RECOVERY, Some("Balanced"));
    assert_eq!(scene.world.controller.recovery_count(), 0);
    scene.answer(3, Some(5), 100);
    scene.pass(PROACTIVE_WINDOW);
    assert_eq!(scene.leader(), None, "an answer nobody waits for any more elects nobody");
    scene.set(topic_config::UNCLEAN_RECOVERY, None);
    scene.set(topic_config::UNCLEAN_ELECTION, Some("true"));
    assert_eq!(scene.world.controller.recovery_count(), 1);
    scene.pass(PROACTIVE_WINDOW);
    scene.answer(3, Some(5), 100);
    assert_eq!(scene.leader(), Some(3));
}

#[test]
fn an_answer_from_an_earlier_life_is_refused_and_asked_for_again() {
    let mut scene = Scene::of(&BALANCED);
    scene.answer(2, Some(5), 1);
    scene.answer_as(1, BrokerEpoch(99), Ok(log(Some(5), 100, EPOCH)));
    assert_eq!((scene.leader(), scene.asked()), (None, vec![3]));
    scene.pass(RETRY_SILENT);
    scene.answer(1, Some(5), 100);
    assert_eq!(scene.leader(), Some(1));
}

#[test]
fn a_broker_that_registers_anew_must_answer_again() {
    let mut scene = Scene::of(&BALANCED);
    scene.answer(1, Some(5), 100);
    let response = scene.world.register(BrokerId(1), None, true);
    assert!(matches!(response, Response::RegisterBroker(Ok(_))));
    scene.take_questions();
    scene.answer(2, Some(5), 10);
    assert_eq!(scene.leader(), None);
    scene.answer(1, None, 0);
    assert_eq!(scene.leader(), Some(2), "what its earlier life held is gone");
}

#[test]
fn an_answer_under_another_leader_epoch_is_refused_and_asked_for_again_soon() {
    let mut scene = Scene::of(&BALANCED);
    let epoch = scene.world.epoch(BrokerId(1));
    scene.answer(2, Some(5), 1);
    for stale in [Ok(log(Some(5), 100, EPOCH - 1)), Err(ErrorCode::UnknownTopicId)] {
        scene.answer_as(1, epoch, stale);
        assert_eq!((scene.leader(), scene.asked()), (None, vec![3]));
        assert!(scene.world.controller.deadline() <= scene.world.now.plus(RETRY_BEHIND));
        scene.pass(RETRY_BEHIND);
        assert_eq!(scene.asked(), [3, 1]);
    }
    scene.answer(1, Some(5), 100);
    assert_eq!(scene.leader(), Some(1));
}

#[test]
fn a_silent_broker_is_asked_again_after_a_while_or_when_it_is_heard_of() {
    let mut scene = Scene::of(&BALANCED);
    scene.stay_silent(1);
    scene.tick();
    assert_eq!(scene.asked(), [2, 3]);
    scene.heartbeat(1);
    assert_eq!(scene.asked(), [2, 3, 1]);
    scene.stay_silent(1);
    scene.pass(RETRY_SILENT);
    assert_eq!(scene.asked(), [2, 3, 1]);
}

#[test]
fn partitions_of_one_broker_are_asked_for_together() {
    let mut scene = Scene::of(&BALANCED);
    let mut records = vec![partition_record(0, &[], &[1])];
    records.extend((1..40).map(|partition| partition_record(partition, &[], &[1])));
    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut log = vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, 2)];
    log.extend((1..=3).map(|id| broker_record(id, false)));
    log.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
    log.extend(records);
    let settings = Settings { unclean_recovery_manager: true, ..settings(Compat::Kip) };
    scene.world = World::of(settings, &log);
    scene.asked.clear();
    scene.take_questions();
    assert_eq!(scene.asked(), [1, 2, 3]);
    assert!(scene.asked.iter().all(|asked| asked.partitions.len() == 40));
    scene.answer(1, Some(5), 100);
    assert_eq!(scene.world.controller.recovery_count(), 0);
    assert!(scene.world.metadata().partitions().all(|(_, p)| p.leader == Some(BrokerId(1))));
}

#[test]
fn a_deleted_topic_ends_its_recovery() {
    let mut scene = Scene::of(&BALANCED);
    scene.ask(Request::DeleteTopics(vec![TopicSelector::Name("topic".to_owned())]));
    assert_eq!(scene.world.controller.recovery_count(), 0);
    scene.answer(1, Some(5), 100);
    scene.answer(2, Some(5), 100);
}

#[test]
fn turning_the_feature_down_ends_recoveries_and_turning_it_up_starts_them() {
    let mut scene = Scene::of(&BALANCED);
    let mut set_level = |level| {
        let update = FeatureUpdate { name: ELR_FEATURE.to_owned(), level };
        scene.ask(Request::UpdateFeature(update));
        scene.world.controller.recovery_count()
    };
    assert_eq!((set_level(1), set_level(2)), (0, 1));
}

#[test]
fn the_next_controller_starts_over_and_takes_no_answer_to_the_one_before() {
    let mut scene = Scene::of(&BALANCED);
    let old = scene.take_question(1);
    let metadata = scene.world.metadata().clone();
    let settings = Settings { unclean_recovery_manager: true, ..settings(Compat::Kip) };
    let now = scene.world.now.plus(Duration::from_secs(1));
    let mut out = Vec::new();
    let end = metadata.end_offset().plus(1000);
    scene.world.now = now;
    scene.world.controller = Controller::start(settings, metadata, end, now, &mut out);
    scene.world.others.append(&mut out);
    scene.asked.clear();
    scene.take_questions();
    assert_eq!(scene.asked(), [1, 2, 3]);
    let logs = vec![(partition_id(0), Ok(log(Some(9), 999, EPOCH)))];
    let answer = Some(ReplicaLogsAnswer { broker_epoch: Some(BrokerEpoch(101)), logs });
    scene.ask(Request::ReplicaLogs(ReplicaLogs { query: old.query, broker: old.broker, answer }));
    scene.answer(2, Some(5), 10);
    assert_eq!(scene.leader(), None);
    scene.answer(1, Some(5), 11);
    assert_eq!(scene.leader(), Some(1));
}
