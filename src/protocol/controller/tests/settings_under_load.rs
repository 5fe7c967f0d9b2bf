//! Settings that change while a leader commits: the controller's machine and the leader's, on two
//! replicas, of which the follower lacks the leader's last record. Whatever the leader committed must
//! not be lost to a follower that is elected as if it held everything.

use std::time::Duration;

use super::world::{TOPIC, World, brokers, directory, partition_id, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ClusterMetadata, ConfigResource, ELR_FEATURE, METADATA_VERSION_FEATURE,
    Partition as Registered, Record, Touched, topic_config,
};
use crate::protocol::partition::{
    self, Fetch, Fetcher, IsrProposal, LeaderEpochs, LogState, Partition,
};
use crate::types::{Acks, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset, PartitionEpoch};

const LEADER: BrokerId = BrokerId(1);
const FOLLOWER: BrokerId = BrokerId(2);
const LAG: Duration = Duration::from_millis(10);
/// Where the log of `World` goes on.
const LOG_START: i64 = 1000;

/// Two live brokers, broker 1 leading, and the machine of its replica. Its log is durable at once.
struct Cluster {
    world: World,
    now: MonotonicTime,
    metadata: ClusterMetadata,
    /// Records of `World::written` that the leader has read.
    read: usize,
    machine: Partition,
    /// The newest ISR change the leader wants.
    proposal: Option<IsrProposal>,
    answers: Vec<Result<Offset, ErrorCode>>,
}

impl Cluster {
    fn start(compat: Compat, level: i16, min_isr: &str, isr: &[i32], elr: &[i32]) -> Cluster {
        let shipped = compat == Compat::Kafka42;
        let set = |key: &str, value: &str| Record::Config {
            resource: ConfigResource::Cluster,
            name: key.to_owned(),
            value: Some(value.to_owned()),
        };
        let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
        let level = if shipped { level.min(1) } else { level };
        let records = [
            feature(METADATA_VERSION_FEATURE, 27),
            set(topic_config::COMPAT, compat.name()),
            feature(ELR_FEATURE, level),
            set(topic_config::MIN_ISR, min_isr),
            registered(LEADER, false, false),
            registered(FOLLOWER, false, false),
            Record::Topic { name: "t".to_owned(), id: TOPIC },
            Record::Partition(Registered {
                id: partition_id(0),
                replicas: brokers(&[1, 2]),
                isr: brokers(isr),
                elr: brokers(elr),
                last_known_elr: vec![],
                removing: vec![],
                adding: vec![],
                leader: Some(LEADER),
                recovering: false,
                leader_epoch: LeaderEpoch(0),
                partition_epoch: PartitionEpoch(0),
                directories: brokers(&[1, 2]).into_iter().map(directory).collect(),
            }),
        ];
        let world = World::of(settings(compat), &records);
        let metadata = world.metadata().clone();
        let log = LogState {
            log_start_offset: Offset(0),
            log_end_offset: Offset(0),
            durable_offset: Offset(0),
            high_watermark: Offset(0),
            epochs: LeaderEpochs::from_entries([]),
        };
        let of_leader = metadata.partition_settings(TOPIC, LAG, LAG);
        let machine = Partition::new(LEADER, world.epoch(LEADER), of_leader, log);
        let read = world.written.len();
        let now = MonotonicTime(1);
        let mut cluster =
            Cluster { world, now, metadata, read, machine, proposal: None, answers: vec![] };
        let known = cluster.world.partition(0).to_partition_metadata();
        cluster.step(partition::Input::Peers(cluster.metadata.peers()));
        cluster.step(partition::Input::Metadata(known));
        if isr.contains(&2) {
            cluster.follower_fetches(0);
        }
        cluster
    }

    fn step(&mut self, input: partition::Input) {
        let mut out = Vec::new();
        self.machine.step(self.now, input, &mut out);
        for output in out {
            match output {
                partition::Output::AnswerProduce { result, .. } => self.answers.push(result),
                partition::Output::ProposeIsr(proposal) => self.proposal = Some(proposal),
                _ => {}
            }
        }
    }

    /// A batch of one record, durable on the leader, that the follower does not fetch.
    fn write(&mut self, acks: Acks) {
        let deadline = self.now.plus(Duration::from_secs(60));
        let request = partition::RequestId(7);
        self.step(partition::Input::Produce { request, acks, record_count: 1, deadline });
        self.step(partition::Input::Durable(self.machine.log_end_offset()));
    }

    fn follower_fetches(&mut self, offset: i64) {
        let (id, epoch) = (FOLLOWER, Some(self.world.epoch(FOLLOWER)));
        let fetch = Fetch {
            fetcher: Fetcher::Follower { id, epoch, log_start_offset: Offset(0) },
            offset: Offset(offset),
            current_leader_epoch: self.machine.leader_epoch(),
            last_fetched_epoch: None,
            durable_offset: None,
            wants_records: true,
        };
        let (request, deadline) = (partition::RequestId(8), self.now);
        self.step(partition::Input::Fetch { request, fetch, deadline });
    }

    /// The follower is behind for longer than the lag limit; the leader asks to have it out.
    fn lag_passes(&mut self) -> Result<(), ErrorCode> {
        self.now = self.now.plus(2 * LAG);
        self.step(partition::Input::Tick);
        let proposal = self.proposal.take().expect("the leader proposes a shrink");
        let request = AlterPartition {
            broker: LEADER,
            epoch: self.world.epoch(LEADER),
            proposals: vec![(partition_id(0), proposal.clone())],
        };
        let Response::AlterPartition(Ok(outcomes)) =
            self.world.ask(Request::AlterPartition(request))
        else {
            panic!("AlterPartition is refused as a whole")
        };
        match outcomes[0].1.clone() {
            Ok(altered) => {
                let committed = altered.committed;
                self.step(partition::Input::IsrCommitted { proposal, committed });
                Ok(())
            }
            Err(error) => {
                self.step(partition::Input::IsrRefused { proposal, error });
                Err(error)
            }
        }
    }

    fn set_min_isr(&mut self, min_isr: &str) {
        let changes = vec![(topic_config::MIN_ISR.to_owned(), Some(min_isr.to_owned()))];
        let resource = ConfigResource::Topic("t".to_owned());
        let resources = vec![ResourceChanges { resource, changes }];
        let request = AlterConfigs { resources, validate_only: false };
        self.world.ask(Request::AlterConfigs(request));
    }

    fn set_level(&mut self, level: i16) {
        let compat = self.metadata.config(&ConfigResource::Cluster, topic_config::COMPAT);
        let shipped = compat == Some(Compat::Kafka42.name());
        let level = if shipped { level.min(1) } else { level };
        let update = FeatureUpdate { name: ELR_FEATURE.to_owned(), level };
        let answer = self.world.ask(Request::UpdateFeature(update));
        assert_eq!(answer, Response::UpdateFeature(Ok(())));
    }

    /// The leader gets all that it has not read in one answer.
    fn leader_reads(&mut self) {
        let mut touched = Touched::default();
        for (index, record) in self.world.written.iter().enumerate().skip(self.read) {
            let offset = Offset(LOG_START + i64::try_from(index).unwrap());
            touched.apply(&mut self.metadata, offset, record).unwrap();
        }
        self.read = self.world.written.len();
        let settings = self.metadata.partition_settings(TOPIC, LAG, LAG);
        let inputs: Vec<_> = touched.inputs(&self.metadata, partition_id(0), || settings).collect();
        inputs.into_iter().for_each(|input| self.step(input));
    }

    fn fence(&mut self, broker: BrokerId) {
        self.world.heartbeat(broker, true, false);
    }

    fn unfence(&mut self, broker: BrokerId) {
        self.world.heartbeat(broker, false, false);
    }

    /// The leader is gone. Whether something it committed is gone with it: the follower, which holds
    /// no record, leads.
    fn loses(mut self) -> bool {
        self.unfence(FOLLOWER);
        self.fence(LEADER);
        let committed = self.machine.high_watermark() > Offset(0);
        committed && self.world.partition(0).leader == Some(FOLLOWER)
    }
}

/// a: the leader has not read of the new min ISR, and gets a shrink committed.
fn raised_before_a_shrink(compat: Compat) -> Cluster {
    let mut cluster = Cluster::start(compat, 2, "1", &[1, 2], &[]);
    cluster.write(Acks::All);
    cluster.set_min_isr("2");
    if cluster.lag_passes().is_err() {
        cluster.leader_reads();
        assert_eq!(cluster.lag_passes(), Ok(()), "the leader tries again with what it has read");
    }
    cluster
}

/// b: the new min ISR and the loss of the follower come in one answer.
fn raised_with_a_shrink(compat: Compat) -> Cluster {
    let mut cluster = Cluster::start(compat, 2, "1", &[1, 2], &[]);
    cluster.write(Acks::All);
    cluster.set_min_isr("2");
    cluster.fence(FOLLOWER);
    cluster.leader_reads();
    cluster
}

/// c: level 0 neither keeps the ELR nor obeys it; min ISR is lowered there.
fn downgraded(compat: Compat) -> Cluster {
    let mut cluster = Cluster::start(compat, 2, "2", &[1], &[2]);
    cluster.set_level(0);
    cluster.set_min_isr("1");
    cluster.leader_reads();
    cluster.write(Acks::All);
    cluster
}

/// d: as c, and back to level 2.
fn downgraded_and_back(compat: Compat) -> Cluster {
    let mut cluster = downgraded(compat);
    cluster.set_level(2);
    cluster.leader_reads();
    cluster
}

/// e: the leader has not read of the upgrade, commits by the gate of level 0, and gets a shrink
/// committed.
fn upgraded_before_a_shrink(compat: Compat) -> Cluster {
    let mut cluster = Cluster::start(compat, 0, "2", &[1, 2], &[]);
    cluster.write(Acks::Leader);
    cluster.set_level(2);
    if cluster.lag_passes().is_err() {
        cluster.leader_reads();
        assert_eq!(cluster.lag_passes(), Ok(()), "the leader tries again with what it has read");
    }
    cluster
}

#[test]
fn no_change_of_settings_loses_what_a_leader_committed() {
    type History = fn(Compat) -> Cluster;
    const DONE: Result<Offset, ErrorCode> = Ok(Offset(0));
    const TOO_FEW: Result<Offset, ErrorCode> = Err(ErrorCode::NotEnoughReplicasAfterAppend);
    // What the producer is told under kip, and whether shipped Kafka loses it. That has the gate at
    // every level, and with it nothing to lose in the last history.
    let cases: [(&str, History, Result<Offset, ErrorCode>, bool); 5] = [
        ("a: min ISR raised, then a shrink", raised_before_a_shrink, TOO_FEW, true),
        ("b: min ISR raised and a shrink, in one answer", raised_with_a_shrink, TOO_FEW, true),
        ("c: level 0, then min ISR lowered", downgraded, DONE, true),
        ("d: level 0 and back", downgraded_and_back, DONE, true),
        ("e: level 0 to 2, then a shrink", upgraded_before_a_shrink, DONE, false),
    ];
    for (name, history, told, shipped_loses) in cases {
        let kip = history(Compat::Kip);
        assert_eq!(kip.answers, [told], "{name}: under kip");
        assert!(!kip.loses(), "{name}: lost under kip");
        let shipped = history(Compat::Kafka42);
        assert_eq!(shipped.answers, [DONE], "{name}: under kafka-4.2");
        assert_eq!(shipped.loses(), shipped_loses, "{name}: lost under kafka-4.2");
    }
}

/// What the histories turn on: the old partition epoch is refused in a way that has the leader read on.
#[test]
fn a_leader_that_has_not_read_a_change_gets_no_isr_change_committed() {
    let mut cluster = Cluster::start(Compat::Kip, 2, "1", &[1, 2], &[]);
    cluster.write(Acks::All);
    cluster.set_min_isr("2");
    assert_eq!(cluster.lag_passes(), Err(ErrorCode::InvalidUpdateVersion));
    assert!(cluster.machine.is_isr_pending(), "until metadata tells what became of it");
    cluster.leader_reads();
    assert!(!cluster.machine.is_isr_pending());
    assert_eq!(cluster.answers, [], "two replicas in the ISR reach the new min ISR");
    assert_eq!(cluster.lag_passes(), Ok(()));
    assert_eq!(cluster.answers, [Err(ErrorCode::NotEnoughReplicasAfterAppend)]);
}

/// Whose leaders' rule a change leaves as it is, those partitions stay as they are.
#[test]
fn only_what_a_leader_commits_by_re_issues_partitions() {
    let set = |cluster: &mut Cluster, key: &str, value: &str| {
        let changes = vec![(key.to_owned(), Some(value.to_owned()))];
        let resources = vec![ResourceChanges { resource: ConfigResource::Cluster, changes }];
        let request = AlterConfigs { resources, validate_only: false };
        cluster.world.ask(Request::AlterConfigs(request));
        cluster.world.partition(0).partition_epoch.0
    };
    let mut cluster = Cluster::start(Compat::Kip, 2, "1", &[1, 2], &[]);
    let cases = [
        (topic_config::MIN_ISR, "1", 0),
        (topic_config::MIN_ISR, "2", 1),
        (topic_config::ISR_EXPAND, "kafka", 1),
        (topic_config::UNCLEAN_ELECTION, "true", 1),
        (topic_config::HWM_GATE, "legacy", 2),
        (topic_config::ISR_WAIT, "none", 3),
        (topic_config::MIN_ISR, "2", 3),
    ];
    for (key, value, epoch) in cases {
        assert_eq!(set(&mut cluster, key, value), epoch, "{key} = {value}");
    }
    let mut shipped = Cluster::start(Compat::Kafka42, 1, "1", &[1, 2], &[]);
    assert_eq!(set(&mut shipped, topic_config::MIN_ISR, "2"), 0, "under kafka-4.2");
}

/// At level 0 the ISR alone says who may lead, and nobody else could.
#[test]
fn a_downgrade_makes_the_elr_of_an_empty_isr_the_isr() {
    let mut cluster = Cluster::start(Compat::Kip, 2, "2", &[1], &[2]);
    cluster.fence(FOLLOWER);
    cluster.fence(LEADER);
    let before = cluster.world.partition(0);
    assert_eq!((&before.isr[..], before.elr.len()), (&[][..], 2));
    cluster.set_level(0);
    let after = cluster.world.partition(0);
    assert_eq!((after.isr.len(), &after.elr[..], after.leader), (2, &[][..], None));
    cluster.unfence(FOLLOWER);
    assert_eq!(cluster.world.partition(0).leader, Some(FOLLOWER));
}
