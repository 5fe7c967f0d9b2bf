//! Lives of brokers in the exhaustive model: fencing, ends, and the metadata they apply. After every
//! step the properties look.

use std::sync::Arc;

use ackmark::protocol::controller::{Heartbeat, Request};
use ackmark::protocol::metadata::Touched;
use ackmark::protocol::partition::Input;
use ackmark::sim::broker::metadata;
use ackmark::sim::disk::Disk;
use ackmark::sim::invariants::{self, Cause, Present, Promises, ReplicaView, View};
use ackmark::sim::replica::Cargo;
use ackmark::types::Offset;

use super::cluster::{BROKERS, Cluster, PARTITION, Packet, broker_of, broker_settings, id, index};

impl Cluster {
    pub(super) fn heartbeat(&mut self, broker: usize, want_fence: bool, want_shut_down: bool) {
        let Some(registered) = self.metadata().broker(id(broker)) else { return };
        let applied = self.process(broker).map_or(Offset::ZERO, |p| p.metadata.end_offset());
        let heartbeat = Heartbeat {
            broker: id(broker),
            epoch: registered.epoch,
            metadata_end: applied,
            offline_log_dirs: Vec::new(),
            want_fence,
            want_shut_down,
            resources: None,
        };
        self.ask(Request::Heartbeat(heartbeat));
    }

    pub(super) fn unfence(&mut self, broker: usize) {
        self.heartbeat(broker, false, false);
    }

    /// The process is gone: uncleanly with so many batches left, or cleanly.
    pub(super) fn end(&mut self, broker: usize, kept: Option<usize>) {
        let registered = self.metadata().broker(id(broker)).map(|it| it.epoch);
        let node = Arc::make_mut(&mut self.nodes[broker]);
        let Some(process) = node.process.take() else { return };
        let mut disk = process.replica.into_disk();
        match kept {
            Some(kept) => {
                disk.lose_unflushed(kept);
                Arc::make_mut(&mut self.history).crashed(id(broker), registered);
            }
            None => {
                disk.flush(disk.end());
                node.mark = Some(process.epoch);
            }
        }
        node.disk = Some(disk);
        // Answers find nobody; calls to a process that is gone are not read.
        self.network.retain(|sealed| match &*sealed.packet {
            Packet::Fetched { to, .. } | Packet::Altered { to, .. } => *to != broker,
            Packet::Fetch { fetch, .. } => broker_of(fetch.leader) != broker,
            Packet::Alter { .. } | Packet::AskLog { .. } | Packet::LogIs { .. } => true,
        });
    }

    /// Applies the metadata log as it is, at once: what a starting process does.
    pub(super) fn apply_all(&mut self, broker: usize) {
        self.apply(broker, self.log.len());
    }

    /// Applies the metadata log batch by batch.
    pub(super) fn catch_up(&mut self, broker: usize) {
        let log_end = self.log.len();
        while self.process(broker).is_some_and(|it| index(it.metadata.end_offset()) < log_end) {
            self.apply_next(broker);
        }
    }

    pub(super) fn apply_next(&mut self, broker: usize) {
        let from = self.process(broker).map_or(0, |it| index(it.metadata.end_offset()));
        let next = self.log_batches.iter().find(|(end, _)| *end > from);
        self.apply(broker, next.map_or(self.log.len(), |&(end, _)| end));
    }

    pub(super) fn apply(&mut self, broker: usize, end: usize) {
        let log = Arc::clone(&self.log);
        let Some(process) = self.process_mut(broker) else { return };
        let from = index(process.metadata.end_offset());
        let mut touched = Touched::default();
        let metadata = Arc::make_mut(&mut process.metadata);
        for (offset, record) in (0..).zip(log.iter()).take(end).skip(from) {
            metadata::apply(&mut touched, metadata, Offset(offset), record);
        }
        let settings =
            || metadata::partition_settings(metadata, PARTITION.topic, &broker_settings());
        let inputs: Vec<Input> = touched.inputs(metadata, PARTITION, settings).collect();
        for input in inputs {
            self.step(broker, input, Cargo::Nothing);
        }
    }

    pub(super) fn observe(&mut self) {
        self.check(Cause::Other, None);
    }

    pub(super) fn check(&mut self, cause: Cause, only: Option<&str>) {
        let nothing = Disk::default();
        let replicas: Vec<ReplicaView<'_>> = (0..BROKERS)
            .map(|broker| {
                let node = &self.nodes[broker];
                let process = node.process.as_ref();
                ReplicaView {
                    broker: id(broker),
                    disk: process
                        .map(|process| process.replica.disk())
                        .or(node.disk.as_ref())
                        .unwrap_or(&nothing),
                    machine: process.map(|process| process.replica.machine()),
                }
            })
            .collect();
        let promises = Promises { kip966: true, lossless: false, elr_outlives_min_isr: false };
        let metadata = self.controller.metadata();
        let now = Present { id: PARTITION, metadata, replicas: &replicas, promises, cause };
        let mut history = (*self.history).clone();
        if invariants::is_loss_excused(&View { now, past: &history }) {
            history.excuse();
        }
        let violation = invariants::check_all(&View { now, past: &history }, only);
        history.observe(&now);
        if history != *self.history {
            self.history = Arc::new(history);
        }
        self.violation = self.violation.take().or(violation);
    }
}
