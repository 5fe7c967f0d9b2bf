//! The recovery manager through the controller: every rule by itself, then random histories.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::task::PROACTIVE_WINDOW;
use super::{RETRY_BEHIND, RETRY_SILENT};
use crate::protocol::controller::tests::world::{
    SESSION_TIMEOUT, TOPIC, World, brokers, directory, partition_id, settings,
};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, Endpoint, IncarnationId, METADATA_VERSION_FEATURE,
    Partition, PartitionRegistration, Record, RegisterBroker, supported_features, topic_config,
};
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId,
    TopicPartition, UncleanRecovery,
};

/// Leader epoch of every partition here.
const EPOCH: i32 = 7;

/// A controller with leaderless partitions, and the questions it asked.
struct Scene {
    world: World,
    asked: Vec<Asked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    query: QueryId,
    broker: BrokerId,
    partitions: Vec<TopicPartition>,
}

/// What `given` describes: brokers 1 to 3 have the replicas of partition 0.
struct Given<'a> {
    strategy: &'a [(ConfigResource, &'a str, &'a str)],
    fenced: &'a [i32],
    elr: &'a [i32],
    last_known_elr: &'a [i32],
    level: i16,
}

fn topic() -> ConfigResource {
    ConfigResource::Topic("topic".to_owned())
}

fn strategy(name: &str) -> [(ConfigResource, &str, &str); 1] {
    [(topic(), topic_config::UNCLEAN_RECOVERY, name)]
}

fn broker_record(id: i32, fenced: bool) -> Record {
    let broker = BrokerId(id);
    Record::RegisterBroker(RegisterBroker {
        broker,
        incarnation: IncarnationId([0; 16]),
        epoch: BrokerEpoch(100 + i64::from(id)),
        endpoints: vec![endpoint(broker)],
        features: supported_features(),
        rack: None,
        fenced,
        in_controlled_shutdown: false,
        log_dirs: vec![directory(broker)],
    })
}

fn endpoint(broker: BrokerId) -> Endpoint {
    Endpoint {
        name: "PLAINTEXT".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 9000 + u16::try_from(broker.0).unwrap(),
        security_protocol: 0,
    }
}

fn partition_record(partition: i32, elr: &[i32], last_known_elr: &[i32]) -> Record {
    Record::Partition(Partition {
        id: partition_id(partition),
        replicas: brokers(&[1, 2, 3]),
        isr: vec![],
        elr: brokers(elr),
        last_known_elr: brokers(last_known_elr),
        removing: vec![],
        adding: vec![],
        leader: None,
        recovering: false,
        leader_epoch: LeaderEpoch(EPOCH),
        partition_epoch: PartitionEpoch(20),
        directories: vec![DirectoryId::UNASSIGNED; 3],
    })
}

impl Scene {
    fn of(given: &Given<'_>) -> Scene {
        let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
        let mut records =
            vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, given.level)];
        records.extend((1..=3).map(|id| broker_record(id, given.fenced.contains(&id))));
        records.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
        let config = |resource: &ConfigResource, key: &str, value: &str| Record::Config {
            resource: resource.clone(),
            name: key.to_owned(),
            value: Some(value.to_owned()),
        };
        records.push(config(&topic(), topic_config::MIN_ISR, "2"));
        records.extend(given.strategy.iter().map(|(of, key, value)| config(of, key, value)));
        records.push(partition_record(0, given.elr, given.last_known_elr));
        let settings = Settings { unclean_recovery_manager: true, ..settings(Compat::Kip) };
        let mut scene = Scene { world: World::of(settings, &records), asked: vec![] };
        scene.take_questions();
        scene
    }

    fn take_questions(&mut self) {
        for output in std::mem::take(&mut self.world.others) {
            if let Output::AskReplicaLogs { query, broker, endpoint: at, partitions } = output {
                assert_eq!(at, endpoint(broker));
                self.asked.push(Asked { query, broker, partitions });
            }
        }
    }

    fn ask(&mut self, body: Request) -> Response {
        let response = self.world.ask(body);
        self.take_questions();
        response
    }

    fn tick(&mut self) {
        self.world.tick();
        self.take_questions();
    }

    fn pass(&mut self, duration: Duration) {
        self.world.pass(duration);
        self.tick();
    }

    fn heartbeat(&mut self, broker: i32) {
        self.world.heartbeat(BrokerId(broker), false, false);
        self.take_questions();
    }

    /// Who is being asked now, in order.
    fn asked(&self) -> Vec<i32> {
        self.asked.iter().map(|asked| asked.broker.0).collect()
    }

    fn take_question(&mut self, broker: i32) -> Asked {
        let index = self.asked.iter().position(|asked| asked.broker == BrokerId(broker));
        self.asked
            .remove(index.unwrap_or_else(|| panic!("{broker} is not asked: {:?}", self.asked)))
    }

    /// A broker answers in its present life that each log asked for ends so.
    fn answer(&mut self, broker: i32, epoch: Option<i32>, end: i64) {
        let broker_epoch = self.world.epoch(BrokerId(broker));
        self.answer_as(broker, broker_epoch, Ok(log(epoch, end, EPOCH)));
    }

    fn answer_as(
        &mut self,
        broker: i32,
        broker_epoch: BrokerEpoch,
        log: Result<ReplicaLog, ErrorCode>,
    ) {
        let asked = self.take_question(broker);
        let logs = asked.partitions.iter().map(|&id| (id, log)).collect();
        let answer = Some(ReplicaLogsAnswer { broker_epoch: Some(broker_epoch), logs });
        let (query, broker) = (asked.query, asked.broker);
        self.ask(Request::ReplicaLogs(ReplicaLogs { query, broker, answer }));
    }

    fn stay_silent(&mut self, broker: i32) {
        let Asked { query, broker, .. } = self.take_question(broker);
        self.ask(Request::ReplicaLogs(ReplicaLogs { query, broker, answer: None }));
    }

    fn leader(&self) -> Option<i32> {
        self.partition().leader.map(|leader| leader.0)
    }

    fn partition(&self) -> &PartitionRegistration {
        self.world.partition(0)
    }

    fn set(&mut self, key: &str, value: Option<&str>) {
        let changes = vec![(key.to_owned(), value.map(str::to_owned))];
        let resources = vec![ResourceChanges { resource: topic(), changes }];
        self.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false }));
    }

    fn elect(&mut self, kind: ElectionKind) -> Result<(), (ErrorCode, String)> {
        let name = PartitionName { topic: "topic".to_owned(), partition: PartitionId(0) };
        let request = ElectLeaders { kind, partitions: Some(vec![name]) };
        let Response::ElectLeaders(mut outcomes) = self.ask(Request::ElectLeaders(request)) else {
            panic!()
        };
        outcomes.remove(0).1.map_err(|refusal| (refusal.error, refusal.message))
    }
}

fn log(epoch: Option<i32>, end: i64, current: i32) -> ReplicaLog {
    ReplicaLog {
        last_written_leader_epoch: epoch.map(LeaderEpoch),
        log_end_offset: Offset(end),
        current_leader_epoch: Some(LeaderEpoch(current)),
    }
}

const BALANCED: Given<'static> =
    Given { strategy: &[], fenced: &[], elr: &[], last_known_elr: &[1, 2], level: 2 };

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
    let cases: [(&[(ConfigResource, &str, &str)], UncleanRecovery); 7] = [
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

// --- random histories ----------------------------------------------------------------------------

const SEEDS: u64 = 600;
const STEPS: usize = 60;

/// Brokers with logs that only a new life may shorten; answers late, stale, lost.
struct History {
    scene: Scene,
    strategy: UncleanRecovery,
    random: ChaCha8Rng,
    logs: BTreeMap<BrokerId, (Option<i32>, i64)>,
    /// Lives in which each broker has told its log since the partition lost its leader.
    told: BTreeMap<BrokerId, BrokerEpoch>,
    last_known: Vec<BrokerId>,
}

#[test]
fn random_histories_elect_only_whom_the_logs_seen_speak_for_and_end_once_all_answer() {
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| run_history(seed));
        if let Err(panic) = run {
            eprintln!("REPRODUCE: seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn run_history(seed: u64) {
    let mut history = start(seed);
    for _ in 0..STEPS {
        history.step();
        if history.check() {
            return;
        }
    }
    history.heal();
}

fn start(seed: u64) -> History {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (_, chosen) = *UncleanRecovery::ALL.choose(&mut random).unwrap();
    let strategy = strategy(chosen.name());
    let all = [1, 2, 3];
    let mut fenced: Vec<i32> = all.into_iter().filter(|_| random.random_bool(0.5)).collect();
    fenced.sort_unstable();
    let last_known: Vec<i32> = all.into_iter().filter(|_| random.random_bool(0.6)).collect();
    let given = Given {
        strategy: &strategy,
        fenced: &fenced,
        elr: &[],
        last_known_elr: &last_known,
        level: 2,
    };
    let mut log = || {
        let end = random.random_range(0..20);
        ((end > 0).then(|| random.random_range(0..3)), end)
    };
    let logs = brokers(&all).into_iter().map(|broker| (broker, log())).collect();
    History {
        scene: Scene::of(&given),
        strategy: chosen,
        random,
        logs,
        told: BTreeMap::new(),
        last_known: brokers(&last_known),
    }
}

impl History {
    fn step(&mut self) {
        let broker = BrokerId(self.random.random_range(1..=3));
        match self.random.random_range(0..10) {
            0..=3 => self.answer_any(),
            4 => self.scene.heartbeat(broker.0),
            5 => {
                self.scene.world.heartbeat(broker, true, false);
                self.scene.take_questions();
            }
            6 => self.restart(broker),
            7 => {
                let pause = self.random.random_range(0..2000);
                self.scene.pass(Duration::from_millis(pause));
            }
            _ => self.scene.tick(),
        }
    }

    fn answer_any(&mut self) {
        let Some(asked) = self.scene.asked.choose(&mut self.random).cloned() else { return };
        let broker = asked.broker;
        let (epoch, end) = self.logs[&broker];
        let life = self.scene.world.epoch(broker);
        match self.random.random_range(0..6) {
            0 => self.scene.stay_silent(broker.0),
            1 => {
                let claim = Ok(log(Some(9), 999, EPOCH));
                self.scene.answer_as(broker.0, BrokerEpoch(life.0 - 1), claim);
            }
            2 => self.scene.answer_as(broker.0, life, Ok(log(Some(9), 999, EPOCH - 1))),
            _ => {
                self.told.insert(broker, life);
                self.scene.answer(broker.0, epoch, end);
            }
        }
    }

    /// A new life, which may have lost a part of its log.
    fn restart(&mut self, broker: BrokerId) {
        let log = self.logs.get_mut(&broker).unwrap();
        log.1 = self.random.random_range(0..=log.1);
        log.0 = log.0.filter(|_| log.1 > 0);
        self.scene.world.pass(SESSION_TIMEOUT);
        self.scene.world.register(broker, None, true);
        self.scene.take_questions();
    }

    fn knows(&self, broker: BrokerId) -> bool {
        self.told.get(&broker) == Some(&self.scene.world.epoch(broker))
    }

    /// Whether there is a leader; it must be one that was allowed.
    fn check(&self) -> bool {
        let Some(leader) = self.scene.partition().leader else { return false };
        assert_ne!(self.strategy, UncleanRecovery::Manual);
        assert!(self.scene.world.metadata().is_active(leader), "{leader} is fenced");
        assert!(self.knows(leader), "{leader} did not tell its log in this life");
        let active = |broker| self.scene.world.metadata().is_active(broker);
        let counts = |broker| match self.strategy {
            UncleanRecovery::Balanced => self.last_known.contains(&broker) || active(broker),
            UncleanRecovery::Proactive | UncleanRecovery::Manual => active(broker),
        };
        for (&other, log) in &self.logs {
            if self.knows(other) && counts(other) {
                assert!(*log <= self.logs[&leader], "{other} had {log:?}: {:?}", self.logs);
            }
        }
        if self.strategy == UncleanRecovery::Balanced {
            let all: Vec<BrokerId> = self.logs.keys().copied().collect();
            let needed = if self.last_known.is_empty() { &all } else { &self.last_known };
            assert!(needed.iter().all(|&broker| self.knows(broker)), "{:?}", self.told);
        }
        true
    }

    /// Faults end: every broker is unfenced and answers. Then there must be a leader soon.
    fn heal(&mut self) {
        for _ in 0..4 {
            for broker in 1..=3 {
                self.scene.heartbeat(broker);
                if self.check() {
                    return;
                }
            }
            for asked in self.scene.asked.clone() {
                let (epoch, end) = self.logs[&asked.broker];
                self.told.insert(asked.broker, self.scene.world.epoch(asked.broker));
                self.scene.answer(asked.broker.0, epoch, end);
                if self.check() {
                    return;
                }
            }
            self.scene.pass(RETRY_SILENT);
        }
        assert_eq!(self.strategy, UncleanRecovery::Manual, "{:?}", self.scene.partition());
        assert_eq!(self.scene.world.controller.recovery_count(), 0);
    }
}
