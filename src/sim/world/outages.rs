//! Carries faults out: processes that end and start again, links that are cut and mended, and what
//! an operator does meanwhile.

use super::setup::TOPIC_NAME;
use super::{Outcome, World};
use crate::protocol::controller::{
    AlterConfigs, ElectLeaders, ElectionKind, FeatureUpdate, Reassignment, Request, ResourceChanges,
};
use crate::protocol::metadata::{ConfigResource, ELR_FEATURE, topic_config};
use crate::sim::broker::{Broker, BrokerOutbox};
use crate::sim::faults::Fault;
use crate::sim::invariants::Cause;
use crate::sim::message::Address;
use crate::sim::queue::Event;
use crate::types::{BrokerId, TopicPartition};

impl World<'_> {
    pub(super) fn start_broker(&mut self, id: BrokerId) -> Outcome {
        let Some(index) = self.brokers.iter().position(|broker| broker.id() == id) else {
            return Ok(());
        };
        if self.brokers[index].is_up() {
            return Ok(());
        }
        self.trace.event(self.now, || format!("broker {id} starts"));
        let mut out = BrokerOutbox::default();
        self.brokers[index].start(self.now, &mut out);
        self.broker_wakes.remove(&id);
        self.after_broker(id, out)
    }

    pub(super) fn start_later(&mut self, id: BrokerId) {
        let outage = self.faults.outage(&mut self.random.faults);
        self.queue.push(self.now.plus(outage), Event::StartBroker(id));
    }

    /// The process ends without the mark; with a power failure some of what was not flushed goes.
    pub(super) fn end_uncleanly(&mut self, index: usize, power_fails: bool) -> Outcome {
        let id = self.brokers[index].id();
        self.brokers[index].kill();
        let mut lost_count = 0;
        if power_fails {
            let random = &mut self.random.disk;
            self.brokers[index].lose_unflushed(|unflushed| {
                let kept = if random.chance(300) { 0 } else { random.below(unflushed + 1) };
                lost_count += unflushed - kept;
                kept
            });
        }
        self.trace.event(self.now, || {
            format!("broker {id} ends uncleanly and loses {lost_count} batches")
        });
        self.stats.batches_lost += lost_count as u64;
        self.note_unclean_end(id);
        self.start_later(id);
        self.check(Cause::Other)
    }

    /// The broker's next registration will be an unclean one.
    pub(super) fn note_unclean_end(&mut self, id: BrokerId) {
        let registered = self.controller.metadata().broker(id).map(|broker| broker.epoch);
        self.stats.unclean_ends += 1;
        self.unclean.insert(id, registered);
        self.histories.values_mut().for_each(|history| history.crashed(id, registered));
    }

    pub(super) fn fail_something(&mut self) -> Outcome {
        if !self.has_faults {
            return Ok(());
        }
        let pause = self.faults.pause(&mut self.random.faults);
        self.queue.push(self.now.plus(pause), Event::Fault);
        let Some(fault) = self.faults.next(&mut self.random.faults) else { return Ok(()) };
        let index = self.random.faults.below(self.brokers.len());
        let other = self.random.faults.below(self.brokers.len());
        match fault {
            Fault::PowerFailure | Fault::Kill => {
                let power_fails = fault == Fault::PowerFailure;
                if self.brokers[index].is_up() && self.may_end_uncleanly(index) {
                    return self.end_uncleanly(index, power_fails);
                }
            }
            Fault::CleanStop => return self.stop_cleanly(index),
            Fault::CutFromController => self.cut(vec![
                (Address::Controller, self.address(index)),
                (self.address(index), Address::Controller),
            ]),
            Fault::CutFromBrokers => {
                let one = self.address(index);
                let others = self.brokers.iter().map(|broker| Address::Broker(broker.id()));
                self.cut(others.flat_map(|other| [(one, other), (other, one)]).collect());
            }
            Fault::CutOneWay => self.cut(vec![(self.address(index), self.address(other))]),
            Fault::ControllerRestart => return self.restart_controller(),
            Fault::PreferredElection => {
                let elect = ElectLeaders { kind: ElectionKind::Preferred, partitions: None };
                return self.administer(Request::ElectLeaders(elect));
            }
            Fault::LongestLogElection => {
                let elect =
                    ElectLeaders { kind: ElectionKind::LongestLogBalanced, partitions: None };
                return self.administer(Request::ElectLeaders(elect));
            }
            Fault::MinIsrChange => {
                let min_isr = 1 + self.random.faults.below(self.brokers.len());
                return self.change_min_isr(min_isr);
            }
            Fault::LevelChange => {
                let low = self.options.faults.level_min;
                let level = self.random.faults.pick(&[low, 1, 2]);
                return self.change_level(level);
            }
            Fault::Reassignment => return self.reassign(index),
        }
        Ok(())
    }

    fn stop_cleanly(&mut self, index: usize) -> Outcome {
        let id = self.brokers[index].id();
        self.trace.event(self.now, || format!("broker {id} is asked to stop"));
        let mut out = BrokerOutbox::default();
        self.brokers[index].shut_down(self.now, &mut out);
        self.after_broker(id, out)
    }

    fn change_min_isr(&mut self, min_isr: usize) -> Outcome {
        let changes = vec![(topic_config::MIN_ISR.to_owned(), Some(min_isr.to_string()))];
        let resource = ConfigResource::Topic(TOPIC_NAME.to_owned());
        let resources = vec![ResourceChanges { resource, changes }];
        let request = AlterConfigs { resources, validate_only: false };
        self.administer(Request::AlterConfigs(request))
    }

    fn change_level(&mut self, level: i16) -> Outcome {
        self.trace.event(self.now, || format!("the operator asks for feature level {level}"));
        let update = FeatureUpdate { name: ELR_FEATURE.to_owned(), level };
        self.administer(Request::UpdateFeature(update))
    }

    /// Two brokers or more from the one at `first` on become the replicas of every partition.
    fn reassign(&mut self, first: usize) -> Outcome {
        let count = self.brokers.len();
        let replica_count = 2 + self.random.faults.below(count - 1);
        let chosen = (0..replica_count).map(|index| self.brokers[(first + index) % count].id());
        let target: Vec<BrokerId> = chosen.collect();
        self.trace.event(self.now, || format!("the operator reassigns to {target:?}"));
        let ids: Vec<TopicPartition> = self.histories.keys().copied().collect();
        for id in ids {
            let target = target.clone();
            self.administer(Request::Reassign(Reassignment { id, target }))?;
        }
        Ok(())
    }

    /// How many brokers have not recovered from an unclean end decides whether one more may end so.
    fn may_end_uncleanly(&mut self, index: usize) -> bool {
        let metadata = self.controller.metadata();
        self.unclean.retain(|&id, known| {
            let registered = metadata.broker(id).map(|broker| broker.epoch);
            let mut partitions = metadata.partitions();
            registered <= *known
                || partitions.any(|(_, partition)| {
                    partition.replicas.contains(&id) && !partition.isr.contains(&id)
                })
        });
        let id = self.brokers[index].id();
        self.unclean.contains_key(&id) || self.faults.allows_unclean(self.unclean.len())
    }

    fn cut(&mut self, links: Vec<(Address, Address)>) {
        self.trace.event(self.now, || format!("cut {links:?}"));
        links.iter().for_each(|&(from, to)| self.network.cut(from, to));
        self.cuts.push(links);
        let outage = self.faults.outage(&mut self.random.faults);
        self.queue.push(self.now.plus(outage), Event::Mend(self.cuts.len() - 1));
    }

    pub(super) fn mend(&mut self, cut: usize) -> Outcome {
        self.trace.event(self.now, || format!("mend {:?}", self.cuts[cut]));
        for &(from, to) in &self.cuts[cut] {
            self.network.mend(from, to);
        }
        Ok(())
    }

    fn address(&self, index: usize) -> Address {
        self.brokers.get(index).map_or(Address::Controller, |b: &Broker| Address::Broker(b.id()))
    }
}
