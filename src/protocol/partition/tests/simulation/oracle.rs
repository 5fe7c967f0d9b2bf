//! What must hold: nothing acknowledged is lost, nothing committed changes, and without faults the
//! replicas heal.

use super::broker::{Broker, batch_length};
use super::world::{BROKERS, World};
use super::*;

impl World {
    /// Faults stop: every record must be everywhere, committed, with a full ISR.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        for _ in 0..400 {
            (0..BROKERS.len()).for_each(|broker| self.revive(broker));
            for broker in 0..BROKERS.len() {
                while !self.brokers[broker].changes.is_empty() {
                    self.read_change(broker);
                }
                self.tick(broker);
                self.finish_sync(broker);
                self.send_fetch(broker);
            }
            for message in std::mem::take(&mut self.messages) {
                self.deliver(message);
            }
            self.now_ms += 10;
            self.check()?;
            if self.is_healed() {
                return Ok(());
            }
        }
        let states = self.brokers.iter().map(|broker| &broker.partition);
        Err(format!("did not heal: {:#?}", states.collect::<Vec<_>>()))
    }

    /// The oracle: what the last steps found, and that every ISR member durably holds every
    /// acknowledged record and everything any leader has committed.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let in_isr = |broker: &&Broker| self.controller.isr.contains(&broker.id);
        for broker in self.brokers.iter().filter(in_isr) {
            let end = usize::try_from(broker.partition.durable_offset().0).unwrap();
            let durable = if broker.alive { &broker.log[..end] } else { &broker.log[..] };
            let holds = |&(base, value): &(Offset, u64)| {
                let base = usize::try_from(base.0).unwrap();
                let held = durable.get(base..base + batch_length(value));
                held.is_some_and(|records| records.iter().all(|record| record.value == value))
            };
            if let Some(lost) = self.acknowledged.iter().find(|batch| !holds(batch)) {
                return Err(format!("acknowledged record {lost:?} missing on {}", broker.id));
            }
            if durable.get(..self.committed.len()) != Some(&self.committed[..]) {
                let (id, end) = (broker.id, self.committed.len());
                return Err(format!("committed up to {end}, not durable there on {id}"));
            }
        }
        Ok(())
    }

    /// What is committed stays as it is, and only a leader commits more.
    pub(super) fn check_committed(&mut self, broker: usize) {
        let Broker { id, partition, log, .. } = &self.brokers[broker];
        let end = usize::try_from(partition.high_watermark().0).unwrap();
        let known = self.committed.len().min(end);
        if log[..known] != self.committed[..known] {
            self.broken = Some(format!("the committed prefix changed on broker {id}"));
        } else if partition.is_leader() {
            self.committed.extend_from_slice(&log[known..end]);
        } else if end > known {
            self.broken = Some(format!("broker {id} commits what no leader has"));
        }
    }

    fn is_healed(&self) -> bool {
        let end = self.brokers[0].partition.log_end_offset();
        self.controller.isr.len() == BROKERS.len()
            && self.brokers.iter().all(|broker| broker.log == self.brokers[0].log)
            && self.brokers.iter().all(|broker| broker.partition.high_watermark() == end)
            && self.brokers.iter().any(|broker| broker.partition.is_leader())
    }
}
