//! A controller with leaderless partitions, and brokers that answer as a test wants.

use std::time::Duration;

use crate::protocol::controller::tests::world::{
    TOPIC, World, brokers, directory, partition_id, settings,
};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, Endpoint, IncarnationId, METADATA_VERSION_FEATURE,
    Partition, PartitionRegistration, Record, RegisterBroker, supported_features, topic_config,
};
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId,
    TopicPartition,
};

/// Leader epoch of every partition here.
pub(super) const EPOCH: i32 = 7;

/// A controller with leaderless partitions, and the questions it asked.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) asked: Vec<Asked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) query: QueryId,
    pub(super) broker: BrokerId,
    pub(super) partitions: Vec<TopicPartition>,
}

/// What `given` describes: brokers 1 to 3 have the replicas of partition 0.
pub(super) struct Given<'a> {
    pub(super) strategy: &'a [(ConfigResource, &'a str, &'a str)],
    pub(super) fenced: &'a [i32],
    pub(super) elr: &'a [i32],
    pub(super) last_known_elr: &'a [i32],
    pub(super) level: i16,
}

pub(super) fn topic() -> ConfigResource {
    ConfigResource::Topic("topic".to_owned())
}

pub(super) fn strategy(name: &str) -> [(ConfigResource, &str, &str); 1] {
    [(topic(), topic_config::UNCLEAN_RECOVERY, name)]
}

pub(super) fn broker_record(id: i32, fenced: bool) -> Record {
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

pub(super) fn endpoint(broker: BrokerId) -> Endpoint {
    Endpoint {
        name: "PLAINTEXT".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 9000 + u16::try_from(broker.0).unwrap(),
        security_protocol: 0,
    }
}

pub(super) fn partition_record(partition: i32, elr: &[i32], last_known_elr: &[i32]) -> Record {
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
    pub(super) fn of(given: &Given<'_>) -> Scene {
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

    pub(super) fn take_questions(&mut self) {
        for output in std::mem::take(&mut self.world.others) {
            if let Output::AskReplicaLogs { query, broker, endpoint: at, partitions } = output {
                assert_eq!(at, endpoint(broker));
                self.asked.push(Asked { query, broker, partitions });
            }
        }
    }

    pub(super) fn ask(&mut self, body: Request) -> Response {
        let response = self.world.ask(body);
        self.take_questions();
        response
    }

    pub(super) fn tick(&mut self) {
        self.world.tick();
        self.take_questions();
    }

    pub(super) fn pass(&mut self, duration: Duration) {
        self.world.pass(duration);
        self.tick();
    }

    pub(super) fn heartbeat(&mut self, broker: i32) {
        self.world.heartbeat(BrokerId(broker), false, false);
        self.take_questions();
    }

    /// Who is being asked now, in order.
    pub(super) fn asked(&self) -> Vec<i32> {
        self.asked.iter().map(|asked| asked.broker.0).collect()
    }

    pub(super) fn take_question(&mut self, broker: i32) -> Asked {
        let index = self.asked.iter().position(|asked| asked.broker == BrokerId(broker));
        self.asked
            .remove(index.unwrap_or_else(|| panic!("{broker} is not asked: {:?}", self.asked)))
    }

    /// A broker answers in its present life that each log asked for ends so.
    pub(super) fn answer(&mut self, broker: i32, epoch: Option<i32>, end: i64) {
        let broker_epoch = self.world.epoch(BrokerId(broker));
        self.answer_as(broker, broker_epoch, Ok(log(epoch, end, EPOCH)));
    }

    pub(super) fn answer_as(
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

    pub(super) fn stay_silent(&mut self, broker: i32) {
        let Asked { query, broker, .. } = self.take_question(broker);
        self.ask(Request::ReplicaLogs(ReplicaLogs { query, broker, answer: None }));
    }

    pub(super) fn leader(&self) -> Option<i32> {
        self.partition().leader.map(|leader| leader.0)
    }

    pub(super) fn partition(&self) -> &PartitionRegistration {
        self.world.partition(0)
    }

    pub(super) fn set(&mut self, key: &str, value: Option<&str>) {
        let changes = vec![(key.to_owned(), value.map(str::to_owned))];
        let resources = vec![ResourceChanges { resource: topic(), changes }];
        self.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false }));
    }

    pub(super) fn elect(&mut self, kind: ElectionKind) -> Result<(), (ErrorCode, String)> {
        let name = PartitionName { topic: "topic".to_owned(), partition: PartitionId(0) };
        let request = ElectLeaders { kind, partitions: Some(vec![name]) };
        let Response::ElectLeaders(mut outcomes) = self.ask(Request::ElectLeaders(request)) else {
            panic!()
        };
        outcomes.remove(0).1.map_err(|refusal| (refusal.error, refusal.message))
    }
}

pub(super) fn log(epoch: Option<i32>, end: i64, current: i32) -> ReplicaLog {
    ReplicaLog {
        last_written_leader_epoch: epoch.map(LeaderEpoch),
        log_end_offset: Offset(end),
        current_leader_epoch: Some(LeaderEpoch(current)),
    }
}

pub(super) const BALANCED: Given<'static> =
    Given { strategy: &[], fenced: &[], elr: &[], last_known_elr: &[1, 2], level: 2 };
