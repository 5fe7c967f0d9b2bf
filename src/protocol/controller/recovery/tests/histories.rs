//! Random histories: brokers fenced, unfenced and restarted, answers late, stale and lost. Whoever is
//! elected must be the one that the logs seen speak for.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scene::{EPOCH, Given, Scene, log, strategy};
use crate::protocol::controller::recovery::RETRY_SILENT;
use crate::protocol::controller::tests::world::{SESSION_TIMEOUT, brokers};
use crate::types::{BrokerEpoch, BrokerId, UncleanRecovery};

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
