//! Looks at the world after every event: the invariants, and lines for the trace.

use super::{Outcome, World};
use crate::sim::disk::Disk;
use crate::sim::invariants::{self, Cause, Present, ReplicaView, View};
use crate::sim::trace;
use crate::types::BrokerId;

impl World<'_> {
    /// Compares the present of every partition with its past, then adds it to the past.
    pub(super) fn check(&mut self, cause: Cause) -> Outcome {
        let metadata = self.controller.metadata();
        let nothing = Disk::default();
        for (&id, history) in &mut self.histories {
            let replicas: Vec<ReplicaView<'_>> = self
                .brokers
                .iter()
                .map(|broker| ReplicaView {
                    broker: broker.id(),
                    disk: broker.disk(id).unwrap_or(&nothing),
                    machine: broker.replica(id).map(|replica| replica.machine()),
                })
                .collect();
            let promises = self.options.promises;
            let now = Present { id, metadata, replicas: &replicas, promises, cause };
            if invariants::is_loss_excused(&View { now, past: history }) {
                history.excuse();
                self.clients.forget(id);
            }
            let view = View { now, past: history };
            if let Some(violation) = invariants::check_all(&view, self.only) {
                return Err(violation);
            }
            history.observe(&now);
            if let Some(partition) =
                now.partition().filter(|it| it.recovering && it.leader.is_some())
            {
                self.unclean_epochs.insert((id, partition.leader_epoch));
            }
        }
        Ok(())
    }

    pub(super) fn trace_broker(&mut self, index: usize) {
        let broker = &self.brokers[index];
        for &id in self.histories.keys() {
            if let Some(replica) = broker.replica(id) {
                self.trace.detail(|| {
                    let machine = trace::machine(replica.machine());
                    format!("broker {} partition {}: {machine}", broker.id(), id.partition)
                });
            }
        }
    }

    pub(super) fn trace_metadata(&mut self) {
        let metadata = self.controller.metadata();
        for (id, partition) in metadata.partitions() {
            self.trace.detail(|| {
                let active: Vec<BrokerId> =
                    metadata.brokers().filter(|b| b.is_active()).map(|b| b.id).collect();
                format!(
                    "partition {}: leader {:?} epoch {} partition epoch {} ISR {:?} ELR {:?} last \
                     known {:?}; active {active:?}",
                    id.partition,
                    partition.leader,
                    partition.leader_epoch,
                    partition.partition_epoch,
                    partition.isr,
                    partition.elr,
                    partition.last_known_elr
                )
            });
        }
    }
}
