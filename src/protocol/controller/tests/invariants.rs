//! The ELR invariants of spec/kip966.md 2.5 over random histories.
//!
//! A history keeps one thing that the controller cannot see: what each replica's log holds. The high
//! watermark moves as a leader would move it, so that "an ELR member holds everything below the high
//! watermark" is checked against data, not against the rule that is meant to ensure it.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::world::{SESSION_TIMEOUT, TOPIC, World, brokers, partition_id, registered, settings};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition, Record,
    topic_config,
};
use crate::protocol::partition::IsrProposal;
use crate::types::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, TopicPartition};

const SEEDS: u64 = 400;
const STEPS: usize = 120;

/// What the replicas' logs hold, as numbers of records.
struct Logs {
    held: BTreeMap<BrokerId, u64>,
    high_watermark: u64,
    /// An election reported that acknowledged records may be gone.
    lost: bool,
}

struct History {
    world: World,
    logs: Logs,
    min_isr: usize,
    random: ChaCha8Rng,
    /// Some ISR or ELR member was dropped for an unclean shutdown, or min ISR changed.
    weakened: bool,
}

#[test]
fn elr_invariants_hold_in_random_histories() {
    for level in [1, 2] {
        for compat in [Compat::Kip, Compat::Kafka42] {
            for seed in 0..SEEDS {
                let what = format!("REPRODUCE: seed {seed} level {level} {compat:?}");
                let run = std::panic::catch_unwind(|| run_history(seed, level, compat));
                if let Err(panic) = run {
                    eprintln!("{what}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

fn run_history(seed: u64, level: i16, compat: Compat) {
    let mut history = start(seed, level, compat);
    for _ in 0..STEPS {
        history.step();
        history.check(level);
    }
}

fn start(seed: u64, level: i16, compat: Compat) -> History {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = random.random_range(1..=4);
    let replicas = brokers(&(1..=count).collect::<Vec<i32>>());
    let min_isr = random.random_range(1..=replicas.len());
    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, level)];
    records.extend(replicas.iter().map(|&broker| registered(broker, false, false)));
    records.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
    records.push(Record::Config {
        resource: ConfigResource::Topic("topic".to_owned()),
        name: topic_config::MIN_ISR.to_owned(),
        value: Some(min_isr.to_string()),
    });
    records.push(Record::Partition(Partition {
        id: partition_id(0),
        isr: replicas.clone(),
        elr: vec![],
        last_known_elr: vec![],
        removing: vec![],
        adding: vec![],
        leader: Some(replicas[0]),
        recovering: false,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        directories: vec![DirectoryId::UNASSIGNED; replicas.len()],
        replicas: replicas.clone(),
    }));
    History {
        world: World::of(settings(compat), &records),
        logs: Logs {
            held: replicas.iter().map(|&broker| (broker, 0)).collect(),
            high_watermark: 0,
            lost: false,
        },
        min_isr,
        random,
        weakened: false,
    }
}

impl History {
    fn step(&mut self) {
        let broker = self.any_broker();
        match self.random.random_range(0..12) {
            0..=3 => self.replicate(),
            4 | 5 => self.alter_partition(),
            6 => {
                self.world.heartbeat(broker, true, false);
            }
            7 | 8 => {
                self.world.heartbeat(broker, false, false);
            }
            9 => {
                self.world.heartbeat(broker, false, true);
            }
            10 => self.restart(broker),
            _ => self.elect(),
        }
        self.follow_leader();
    }

    fn any_broker(&mut self) -> BrokerId {
        let count = self.logs.held.len();
        let index = self.random.random_range(0..count);
        *self.logs.held.keys().nth(index).unwrap()
    }

    /// The leader appends, some followers fetch, the high watermark moves under the gate.
    fn replicate(&mut self) {
        let partition = self.world.partition(0).clone();
        let Some(leader) = partition.leader else { return };
        *self.logs.held.get_mut(&leader).unwrap() += self.random.random_range(0..3);
        let end = self.logs.held[&leader];
        for (&follower, held) in &mut self.logs.held {
            let alive = self.world.metadata().is_active(follower);
            if follower != leader && alive && self.random.random_bool(0.6) {
                *held = end.max(*held);
            }
        }
        if partition.isr.len() >= self.min_isr {
            let lowest = partition.isr.iter().map(|id| self.logs.held[id]).min().unwrap();
            self.logs.high_watermark = self.logs.high_watermark.max(lowest);
        }
    }

    /// The leader proposes: members it had, minus some, plus live replicas that reach the high
    /// watermark and the end of its own log at the election (its whole log, here).
    fn alter_partition(&mut self) {
        let partition = self.world.partition(0).clone();
        let Some(leader) = partition.leader else { return };
        let end = self.logs.held[&leader];
        let mut isr = Vec::new();
        for &replica in &partition.replicas {
            let joins = self.logs.held[&replica] == end && self.world.metadata().is_active(replica);
            let stays = partition.isr.contains(&replica) && self.random.random_bool(0.7);
            if replica == leader || stays || (joins && self.random.random_bool(0.5)) {
                isr.push((replica, Some(self.world.epoch(replica))));
            }
        }
        let proposal = IsrProposal {
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            isr,
            recovering: false,
        };
        let id: TopicPartition = partition_id(0);
        let epoch = self.world.epoch(leader);
        self.world.ask(Request::AlterPartition(AlterPartition {
            broker: leader,
            epoch,
            proposals: vec![(id, proposal)],
        }));
    }

    /// A process dies and comes back, cleanly or having lost a suffix of its log.
    fn restart(&mut self, broker: BrokerId) {
        let clean = self.random.random_bool(0.6);
        let previous = clean.then(|| self.world.epoch(broker).0);
        if !clean {
            let held = self.logs.held.get_mut(&broker).unwrap();
            *held = self.random.random_range(0..=*held);
            self.weakened = true;
        }
        self.world.pass(SESSION_TIMEOUT);
        self.world.register(broker, previous, true);
    }

    fn elect(&mut self) {
        let name = PartitionName { topic: "topic".to_owned(), partition: PartitionId(0) };
        self.world.ask(Request::ElectLeaders(ElectLeaders {
            kind: ElectionKind::Preferred,
            partitions: Some(vec![name]),
        }));
    }

    /// Followers cut what the leader does not have.
    fn follow_leader(&mut self) {
        let partition = self.world.partition(0);
        self.logs.lost |= partition.recovering;
        let Some(leader) = partition.leader else { return };
        let end = self.logs.held[&leader];
        if self.logs.lost {
            self.logs.high_watermark = self.logs.high_watermark.min(end);
        }
        for (follower, held) in &mut self.logs.held {
            if self.world.metadata().is_active(*follower) {
                *held = end.min(*held);
            }
        }
    }

    fn check(&self, level: i16) {
        let partition = self.world.partition(0);
        let (isr, elr) = (&partition.isr, &partition.elr);
        assert!(isr.iter().all(|id| !elr.contains(id)), "ISR and ELR overlap: {partition:?}");
        assert!(elr.is_empty() || isr.len() < self.min_isr, "ELR at min ISR: {partition:?}");
        assert!(elr.iter().all(|id| partition.replicas.contains(id)), "{partition:?}");
        assert!(partition.leader.is_none_or(|leader| isr.contains(&leader)), "{partition:?}");
        if !self.weakened {
            assert!(isr.len() + elr.len() >= self.min_isr, "too few hold all: {partition:?}");
        }
        if level == 2 && isr.is_empty() && elr.is_empty() {
            assert!(partition.last_known_elr.len() >= self.min_isr, "{partition:?}");
        }
        self.check_data();
    }

    /// As long as no election reported loss, every member of ISR and ELR holds everything below the
    /// high watermark, whatever crashed.
    fn check_data(&self) {
        if self.logs.lost {
            return;
        }
        let partition = self.world.partition(0);
        for member in partition.isr.iter().chain(&partition.elr) {
            let held = self.logs.held[member];
            let needed = self.logs.high_watermark;
            assert!(held >= needed, "{member} holds {held} of {needed}: {partition:?}");
        }
    }
}
