//! The end of a run: faults and load stop, everybody is started, and the cluster must heal by
//! itself. Where the rules leave recovery to the operator, the operator steps in after a while.
//!
//! Source of the property: spec/kip966.md 5.2 (U, E3, R1 end), 1.5 (followers rejoin), 2.9.

use std::time::Duration;

use super::{Outcome, World, broken};
use crate::protocol::controller::{ElectLeaders, ElectionKind, Request};
use crate::protocol::metadata::ELR_FEATURE;
use crate::protocol::partition::Partition;
use crate::sim::broker::Broker;
use crate::sim::invariants::Violation;
use crate::sim::queue::Event;
use crate::types::{Acks, BrokerId, TopicPartition, UncleanRecovery};

/// Time the cluster has to heal by itself: sessions expire, brokers register, followers catch up.
const HEAL_WITHIN: Duration = Duration::from_secs(6);
/// Time it has after the operator elected leaders.
const HEAL_AFTER_ELECTION: Duration = Duration::from_secs(6);
/// Time the last write has to be acknowledged and read.
const WRITE_WITHIN: Duration = Duration::from_secs(2);
/// How often it is tried.
const WRITE_ATTEMPTS: usize = 3;

impl World<'_> {
    pub(super) fn recover(&mut self) -> Outcome {
        (self.has_faults, self.has_load) = (false, false);
        self.network.calm();
        self.clients.calm();
        self.trace.event(self.now, || "faults and load stop".to_owned());
        let ids: Vec<BrokerId> = self.brokers.iter().map(Broker::id).collect();
        ids.into_iter().for_each(|id| self.queue.push(self.now, Event::StartBroker(id)));
        match self.run_until("heals", HEAL_WITHIN, Self::is_healed) {
            Err(violation) if violation.invariant == "heals" => {
                self.elect_uncleanly_where_leaderless()?;
                self.run_until("heals", HEAL_AFTER_ELECTION, Self::is_healed)?;
            }
            healed => healed?,
        }
        self.write_everywhere()
    }

    /// What `Manual` and a full set of last known replicas leave to a person; records may be lost.
    fn elect_uncleanly_where_leaderless(&mut self) -> Outcome {
        let leaderless = |world: &Self, id: TopicPartition| {
            let partition = world.controller.metadata().partition(id);
            partition.is_some_and(|partition| partition.leader.is_none())
        };
        let ids: Vec<TopicPartition> = self.histories.keys().copied().collect();
        let waiting: Vec<TopicPartition> =
            ids.into_iter().filter(|&id| leaderless(self, id)).collect();
        if waiting.is_empty() {
            return Err(self.not_healed("heals"));
        }
        if self.promises_recovery() {
            return Err(self.not_healed("recovers_by_itself"));
        }
        for id in waiting {
            self.histories.entry(id).or_default().excuse();
            self.clients.forget(id);
        }
        let kind = self.operators_choice();
        self.trace.event(self.now, || format!("the operator elects leaders: {kind:?}"));
        let elect = ElectLeaders { kind, partitions: None };
        self.administer(Request::ElectLeaders(elect))
    }

    fn operators_choice(&mut self) -> ElectionKind {
        let level = self.controller.metadata().feature(ELR_FEATURE);
        if level < 2 || !self.options.recovery_manager {
            return ElectionKind::Unclean;
        }
        match self.random.faults.below(4) {
            0 => ElectionKind::Unclean,
            1 => ElectionKind::LongestLogBalanced,
            2 => ElectionKind::LongestLogProactive,
            _ => {
                let first = self.brokers.first().map(Broker::id);
                ElectionKind::Designated(
                    first.into_iter().cycle().take(self.histories.len()).collect(),
                )
            }
        }
    }

    /// At feature level 0 somebody stays in the ISR, at level 1 the last leader comes back, at level
    /// 2 the logs decide: by themselves, whatever happened.
    fn promises_recovery(&self) -> bool {
        match self.options.elr_level {
            // What one level remembers of who led or was lost means nothing to another.
            _ if self.options.faults.level_change > 0 => false,
            0 => true,
            1 => self.options.faults.min_isr_change == 0,
            _ => self.options.inspects_logs() && self.options.strategy() != UncleanRecovery::Manual,
        }
    }

    /// One more `acks=all` write per partition is committed and read; as a producer does, it is
    /// tried again where a late ISR change got in its way.
    fn write_everywhere(&mut self) -> Outcome {
        let mut outcome = self.try_to_write();
        for _ in 1..WRITE_ATTEMPTS {
            match outcome {
                Err(violation) if violation.invariant == "writes_after_healing" => {
                    outcome = self.try_to_write();
                }
                Ok(()) | Err(_) => return outcome,
            }
        }
        outcome
    }

    fn try_to_write(&mut self) -> Outcome {
        let goal = self.clients.acknowledged + self.histories.len() as u64;
        let ids: Vec<TopicPartition> = self.histories.keys().copied().collect();
        for id in ids {
            let leader = self.controller.metadata().partition(id).and_then(|it| it.leader);
            if let Some(leader) = leader {
                let write = self.clients.write((id, Acks::All, 1), leader);
                self.send(write);
            }
        }
        self.run_until("writes_after_healing", WRITE_WITHIN, |world| {
            world.clients.acknowledged >= goal && world.is_healed() && world.is_read()
        })
    }

    /// Every partition is led, complete, and equal everywhere.
    fn is_healed(&self) -> bool {
        self.histories.keys().all(|&id| self.is_partition_healed(id))
    }

    fn is_partition_healed(&self, id: TopicPartition) -> bool {
        let Some(partition) = self.controller.metadata().partition(id) else { return false };
        let complete = partition.isr.len() == partition.replicas.len() && partition.elr.is_empty();
        let replicas: Vec<&Broker> =
            self.brokers.iter().filter(|it| partition.replicas.contains(&it.id())).collect();
        let machines: Vec<&Partition> =
            replicas.iter().filter_map(|it| Some(it.replica(id)?.machine())).collect();
        let Some(leader) = machines.iter().find(|machine| machine.is_leader()) else {
            return false;
        };
        let (end, epoch) = (leader.log_end_offset(), leader.leader_epoch());
        let equal = machines.iter().all(|machine| {
            machine.leader_epoch() == epoch
                && machine.log_end_offset() == end
                && machine.high_watermark() == end
        });
        let mut digests =
            replicas.iter().map(|broker| broker.disk(id).and_then(|disk| disk.digest_at(end)));
        let first = digests.next();
        complete
            && leader.committed_isr().len() == partition.replicas.len()
            && machines.len() == partition.replicas.len()
            && equal
            && digests.all(|digest| Some(digest) == first)
    }

    fn is_read(&self) -> bool {
        self.histories.keys().all(|&id| {
            let leader = self.machines(id).find(|machine| machine.is_leader());
            leader.map(Partition::log_end_offset) == Some(self.clients.position(id))
        })
    }

    fn machines(&self, id: TopicPartition) -> impl Iterator<Item = &Partition> {
        let replicas = self.brokers.iter().filter_map(move |broker| broker.replica(id));
        replicas.map(|replica| replica.machine())
    }

    pub(super) fn not_healed(&self, invariant: &'static str) -> Violation {
        let partitions = self.controller.metadata().partitions().map(|(id, partition)| {
            let machines: Vec<String> = self
                .brokers
                .iter()
                .map(|broker| {
                    let replica = broker.replica(id);
                    let line = replica.map(|replica| crate::sim::trace::machine(replica.machine()));
                    format!("broker {}: {}", broker.id(), line.unwrap_or_default())
                })
                .collect();
            format!(
                "partition {}: leader {:?}, ISR {:?}, ELR {:?}, last known {:?}; {}",
                id.partition,
                partition.leader,
                partition.isr,
                partition.elr,
                partition.last_known_elr,
                machines.join("; ")
            )
        });
        let partitions: Vec<String> = partitions.collect();
        broken(invariant, format!("not in time: {}", partitions.join(" | ")))
    }
}
