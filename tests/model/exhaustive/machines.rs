//! The machines of the exhaustive model and what they leave to do: effects, proposals, fetches.

use std::sync::Arc;

use ackmark::protocol::broker::{IsrProposalsInput, IsrProposalsOutput};
use ackmark::protocol::partition::{Input, RequestId};
use ackmark::record::BatchBuilder;
use ackmark::sim::history::WriteId;
use ackmark::sim::invariants::Violation;
use ackmark::sim::replica::{Cargo, Effect};
use ackmark::types::{Acks, MonotonicTime};

use super::cluster::{Cluster, PARTITION, Packet, Process, id};

impl Cluster {
    pub(super) fn process_mut(&mut self, broker: usize) -> Option<&mut Process> {
        Arc::make_mut(&mut self.nodes[broker]).process.as_mut()
    }

    pub(super) fn step(&mut self, broker: usize, input: Input, cargo: Cargo<'_>) {
        let now = self.now;
        let Some(process) = self.process_mut(broker) else { return };
        let mut effects = Vec::new();
        process.replica.step(now, input, cargo, &mut effects);
        if process.replica.machine().leader().is_none_or(|leader| leader == id(broker)) {
            process.next_fetch = None;
        }
        for effect in effects {
            self.carry_out(broker, effect);
        }
        self.send_fetch(broker);
    }

    pub(super) fn carry_out(&mut self, broker: usize, effect: Effect) {
        match effect {
            Effect::Produced { request, result } => {
                let write = WriteId { broker: id(broker), request: request.0 };
                Arc::make_mut(&mut self.history).answered(write, result.is_ok());
            }
            // A fetch is answered within its delivery, and a leader never has to ask for offsets.
            Effect::Fetched { .. } => {}
            Effect::Propose(proposal) => {
                self.step_proposals(broker, IsrProposalsInput::Propose(PARTITION, proposal));
            }
            Effect::Fetch(fetch) => {
                if let Some(process) = self.process_mut(broker) {
                    process.next_fetch = Some(fetch);
                }
            }
            Effect::AskLeaderOffsets => self.ask_leader_offsets(broker),
            Effect::Broken(what) => {
                self.violation = Some(Violation { invariant: "log_follows_machine", what });
            }
        }
    }

    pub(super) fn step_proposals(&mut self, broker: usize, input: IsrProposalsInput) {
        let now = self.now;
        let Some(process) = self.process_mut(broker) else { return };
        let mut outputs = Vec::new();
        process.proposals.step(now, input, &mut outputs);
        for output in outputs {
            match output {
                IsrProposalsOutput::Send(request) => {
                    self.send(Packet::Alter { from: broker, request });
                }
                IsrProposalsOutput::Committed { proposal, committed, .. } => {
                    let input = Input::IsrCommitted { proposal, committed };
                    self.step(broker, input, Cargo::Nothing);
                }
                IsrProposalsOutput::Refused { proposal, error, .. } => {
                    self.step(broker, Input::IsrRefused { proposal, error }, Cargo::Nothing);
                }
                IsrProposalsOutput::ForgetController => self.reconnect(broker),
            }
        }
    }

    pub(super) fn send_fetch(&mut self, broker: usize) {
        let Some(process) = self.process_mut(broker) else { return };
        let Some(fetch) = process.next_fetch else { return };
        if process.in_flight.iter().any(|call| call.leader == fetch.leader) {
            return;
        }
        process.next_fetch = None;
        process.in_flight.push(fetch);
        let epoch = process.epoch;
        self.send(Packet::Fetch { from: broker, epoch, fetch });
    }

    pub(super) fn produce(&mut self, broker: usize) {
        let request = RequestId(u64::from(self.left.produces));
        let mut builder = BatchBuilder::with_capacity(80);
        builder.start(0);
        builder.push(0, None, &[self.left.produces]);
        let batch = builder.finish();
        let deadline = MonotonicTime(u64::MAX);
        let before = self.process(broker).map(|process| process.replica.disk().end());
        let input = Input::Produce { request, acks: Acks::All, record_count: 1, deadline };
        // The append is noted first: the answer may come in the same step.
        let history = Arc::clone(&self.history);
        self.step(broker, input.clone(), Cargo::Produced(&batch));
        let appended = self.process(broker).map(|process| process.replica.disk());
        if let Some(disk) = appended.filter(|disk| Some(disk.end()) > before) {
            let (end, write) = (disk.end(), WriteId { broker: id(broker), request: request.0 });
            let digest = disk.digest_at(end).unwrap_or_default();
            let is_answered = *history != *self.history;
            let history = Arc::make_mut(&mut self.history);
            history.appended(write, end, digest);
            if is_answered {
                history.answered(write, true);
            }
        }
    }
}
