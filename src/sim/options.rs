//! Which rules, rates and sizes a run has. Every option is drawn from the seed ("swarm"): runs in
//! which a fault never happens find what a constant mixture of all faults hides.

use std::time::Duration;

use super::broker::BrokerSettings;
use super::invariants::Promises;
use super::random::Random;
use super::replica::Durability;
use crate::protocol::controller::{Compat, Quirks};
use crate::types::{HwmGate, IsrExpand, IsrWait, UncleanRecovery};

/// Which part of all settings a run is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Settings under which KIP-966 promises that records survive.
    Kip966,
    /// All settings; what holds in every mode is checked.
    Anything,
    /// `hwm.gate = legacy` with ELR on, and the KIP's promises claimed nevertheless.
    LegacyGate,
    /// ELR off as before the KIP, and its promises claimed nevertheless.
    ElrOff,
    /// `isr.wait = none`, and the KIP's promises claimed nevertheless.
    NoIsrWait,
    /// As `Kip966`, but a starting broker takes roles from metadata older than its registration.
    EarlyRoles,
    /// Settings change under `compat = kafka-4.2`, and the KIP's promises claimed nevertheless.
    ShippedSettings,
}

impl Profile {
    /// All profiles by name.
    pub const ALL: [(&'static str, Profile); 7] = [
        ("kip966", Profile::Kip966),
        ("anything", Profile::Anything),
        ("legacy-gate", Profile::LegacyGate),
        ("elr-off", Profile::ElrOff),
        ("no-isr-wait", Profile::NoIsrWait),
        ("early-roles", Profile::EarlyRoles),
        ("shipped-settings", Profile::ShippedSettings),
    ];

    /// As written on a command line.
    pub fn name(self) -> &'static str {
        Profile::ALL.iter().find(|(_, profile)| *profile == self).map_or("", |(name, _)| name)
    }
}

/// The cluster and its rules.
#[derive(Clone, Debug)]
pub struct Options {
    /// Brokers, each a replica of every partition.
    pub broker_count: usize,
    /// Partitions of the one topic.
    pub partition_count: usize,
    /// `min.insync.replicas` at first.
    pub min_isr: usize,
    /// Rules of the topic; `None` is what follows from compat and level.
    pub hwm_gate: Option<HwmGate>,
    /// Rules of the topic.
    pub isr_wait: IsrWait,
    /// Rules of the topic.
    pub isr_expand: IsrExpand,
    /// `unclean.leader.election.enable`.
    pub unclean_election: bool,
    /// `unclean.recovery.strategy`, unless it follows from `unclean_election`.
    pub unclean_recovery: Option<UncleanRecovery>,
    /// `eligible.leader.replicas.version`.
    pub elr_level: i16,
    /// `unclean.recovery.manager.enabled`; matters at level 2 only.
    pub recovery_manager: bool,
    /// Whose departures from the KIP.
    pub compat: Compat,
    /// The same for all brokers.
    pub broker: BrokerSettings,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// Time until an unanswered call counts as lost.
    pub call_timeout: Duration,
    /// Network rates.
    pub network: NetworkOptions,
    /// Fault rates.
    pub faults: FaultOptions,
    /// Client rates.
    pub clients: ClientOptions,
    /// What the settings promise.
    pub promises: Promises,
    /// Faults and load end after this long.
    pub duration: Duration,
}

/// Network rates, in messages of a thousand.
#[derive(Clone, Copy, Debug)]
pub struct NetworkOptions {
    /// Usual delay.
    pub delay_max: Duration,
    /// Delay of a slow message.
    pub slow_delay_max: Duration,
    /// Slow messages.
    pub slow_per_mille: usize,
    /// Lost messages.
    pub loss_per_mille: usize,
    /// Messages that arrive a second time, late.
    pub copy_per_mille: usize,
}

/// Fault rates, as weights of each kind.
#[derive(Clone, Copy, Debug)]
pub struct FaultOptions {
    /// Longest pause between two faults.
    pub pause_max: Duration,
    /// A process ends and its broker loses what was not flushed.
    pub power_failure: usize,
    /// A process ends.
    pub kill: usize,
    /// A process is asked to stop.
    pub clean_stop: usize,
    /// Some links are cut for a while.
    pub cut: usize,
    /// The controller starts anew.
    pub controller_restart: usize,
    /// The operator asks for preferred leaders.
    pub preferred_election: usize,
    /// The operator asks for leaders by log.
    pub longest_log_election: usize,
    /// The operator changes min ISR.
    pub min_isr_change: usize,
    /// The operator changes the feature level.
    pub level_change: usize,
    /// To this at the lowest.
    pub level_min: i16,
    /// The operator gives partitions other replicas, and another number of them.
    pub reassignment: usize,
    /// Longest time until a process starts again, or a cut heals.
    pub outage_max: Duration,
    /// No more brokers at once than this are without what they had before an unclean shutdown.
    pub unclean_limit: usize,
}

impl FaultOptions {
    /// Whether an operator changes what the rules go by.
    pub fn changes_settings(&self) -> bool {
        self.min_isr_change + self.level_change + self.reassignment > 0
    }
}

/// Client rates.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// Longest pause between two produces.
    pub produce_pause_max: Duration,
    /// Produces with `acks=all`, of a thousand; the others have `acks=1`.
    pub acks_all_per_mille: usize,
    /// Produces and fetches that go to any broker, of a thousand.
    pub misdirected_per_mille: usize,
    /// Longest pause between two fetches of a consumer.
    pub consume_pause_max: Duration,
}

const MS: fn(u64) -> Duration = Duration::from_millis;

impl Options {
    /// Draws the options of a run.
    pub fn draw(random: &mut Random, profile: Profile) -> Options {
        let broker_count = random.pick(&[3, 3, 3, 3, 4, 5]);
        let anything = profile == Profile::Anything;
        let drawn_min_isr = random.pick(&[2, 2, 2, 2, 3, 1]);
        let min_isr = if anything { drawn_min_isr } else { drawn_min_isr.max(2) };
        let is_lucky = random.chance(500);
        let mut options = Options {
            broker_count,
            partition_count: random.pick(&[1, 1, 2]),
            min_isr,
            hwm_gate: Some(HwmGate::Kip966),
            isr_wait: IsrWait::Controller,
            isr_expand: random.pick(&[IsrExpand::Kafka, IsrExpand::CaughtUp]),
            unclean_election: false,
            unclean_recovery: random.pick(&[
                None,
                Some(UncleanRecovery::Balanced),
                Some(UncleanRecovery::Manual),
            ]),
            elr_level: random.pick(&[1, 2, 2]),
            recovery_manager: random.chance(850),
            compat: random.pick(&[Compat::Kip, Compat::Kip, Compat::Kafka42]),
            broker: broker_settings(random),
            session_timeout: MS(500),
            call_timeout: random.between(MS(120), MS(250)),
            network: network_options(random),
            faults: fault_options(random, if is_lucky { min_isr - 1 } else { broker_count }),
            clients: client_options(random),
            promises: Promises { kip966: true, lossless: false, elr_outlives_min_isr: false },
            duration: random.between(MS(3_000), MS(8_000)),
        };
        options.bend(random, profile);
        options.promises.elr_outlives_min_isr = options.compat == Compat::Kafka42;
        options.promises.lossless = options.broker.durability == Durability::Synced
            && options.remembers_logs()
            && options.promises.kip966
            && !options.faults.changes_settings();
        options
    }

    /// Departs from what KIP-966 asks for, as the profile says.
    fn bend(&mut self, random: &mut Random, profile: Profile) {
        match profile {
            Profile::Kip966 if self.compat == Compat::Kip && random.chance(500) => {
                self.change_settings(random);
            }
            Profile::Kip966 => {}
            Profile::ShippedSettings => {
                self.compat = Compat::Kafka42;
                self.change_settings(random);
            }
            Profile::EarlyRoles => self.broker.waits_for_registration = false,
            Profile::LegacyGate => {
                self.hwm_gate = Some(HwmGate::Legacy);
                self.faults.clean_stop = 1;
                self.faults.cut = 2;
                self.faults.pause_max = MS(200);
                self.network.slow_per_mille = 60;
            }
            Profile::ElrOff => self.elr_level = 0,
            Profile::NoIsrWait => self.isr_wait = IsrWait::None,
            Profile::Anything => {
                self.hwm_gate = Some(random.pick(&[HwmGate::Kip966, HwmGate::Legacy]));
                self.isr_wait = random.pick(&[IsrWait::Controller, IsrWait::None]);
                self.unclean_election = random.chance(300);
                self.unclean_recovery = random.pick(&[
                    None,
                    Some(UncleanRecovery::Proactive),
                    Some(UncleanRecovery::Balanced),
                    Some(UncleanRecovery::Manual),
                ]);
                self.elr_level = random.pick(&[0, 1, 2, 2]);
                self.faults.min_isr_change = random.pick(&[0, 1, 2]);
                self.promises.kip966 = false;
            }
        }
    }

    /// Settings change under load. The promises stay, but those of level 0, which survives no unclean
    /// end: where it is among the levels there is none.
    fn change_settings(&mut self, random: &mut Random) {
        let mut weight = || random.pick(&[0, 1, 2]);
        self.faults.min_isr_change = weight();
        self.faults.level_change = weight();
        self.faults.reassignment = weight();
        self.faults.pause_max = self.faults.pause_max.min(MS(400));
        if random.chance(500) {
            self.hwm_gate = None;
            self.faults.level_min = 0;
            (self.faults.power_failure, self.faults.kill) = (0, 0);
        }
    }

    /// What the topic's partitions do when nobody eligible is left.
    pub fn strategy(&self) -> UncleanRecovery {
        let mapped = UncleanRecovery::of_unclean_election(self.unclean_election);
        self.unclean_recovery.unwrap_or(mapped)
    }

    /// Whether the unclean recovery manager is at work.
    pub fn inspects_logs(&self) -> bool {
        self.elr_level == 2 && self.recovery_manager
    }

    /// Whether a leader that is elected uncleanly is one that holds whatever anybody eligible held:
    /// the last leader (level 1), or the best of their logs.
    fn remembers_logs(&self) -> bool {
        self.elr_level == 1 || self.inspects_logs()
    }

    /// The departures in force.
    pub fn quirks(&self) -> Quirks {
        Quirks::of(self.compat)
    }
}

fn broker_settings(random: &mut Random) -> BrokerSettings {
    BrokerSettings {
        durability: random.pick(&[
            Durability::PageCache,
            Durability::PageCache,
            Durability::Synced,
        ]),
        heartbeat_interval: MS(100),
        lag_time_max: random.between(MS(100), MS(600)),
        fetch_backoff: MS(20),
        fetch_wait_max: random.between(MS(20), MS(80)),
        shutdown_wait_max: MS(1_000),
        waits_for_registration: true,
    }
}

fn network_options(random: &mut Random) -> NetworkOptions {
    NetworkOptions {
        delay_max: random.between(MS(1), MS(8)),
        slow_delay_max: random.between(MS(50), MS(800)),
        slow_per_mille: random.pick(&[0, 5, 20, 60]),
        loss_per_mille: random.pick(&[0, 0, 5, 30]),
        copy_per_mille: random.pick(&[0, 10, 50]),
    }
}

fn fault_options(random: &mut Random, unclean_limit: usize) -> FaultOptions {
    let mut weight = || random.pick(&[0, 1, 1, 3]);
    FaultOptions {
        power_failure: weight(),
        kill: weight(),
        clean_stop: weight(),
        cut: weight(),
        controller_restart: weight(),
        preferred_election: weight(),
        longest_log_election: weight(),
        min_isr_change: 0,
        level_change: 0,
        level_min: 1,
        reassignment: 0,
        pause_max: random.between(MS(100), MS(900)),
        outage_max: random.between(MS(100), MS(2_000)),
        unclean_limit,
    }
}

fn client_options(random: &mut Random) -> ClientOptions {
    ClientOptions {
        produce_pause_max: random.between(MS(5), MS(60)),
        acks_all_per_mille: random.pick(&[1000, 800, 500]),
        misdirected_per_mille: random.pick(&[0, 50]),
        consume_pause_max: random.between(MS(5), MS(60)),
    }
}
