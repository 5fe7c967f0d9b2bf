//! What may happen next in the exhaustive model, and what it does to the state.

use std::sync::Arc;

use ackmark::protocol::controller::{
    AlterConfigs, FeatureUpdate, Reassignment, Request, ResourceChanges,
};
use ackmark::protocol::metadata::{ConfigResource, ELR_FEATURE, topic_config};
use ackmark::protocol::partition::Input;
use ackmark::sim::invariants::Cause;
use ackmark::sim::replica::Cargo;
use ackmark::types::MonotonicTime;

use super::cluster::{BROKERS, Cluster, LAG, PARTITION, Packet, TOPIC_NAME, id, index};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A producer writes one `acks=all` record to a broker that leads.
    Produce(usize),
    /// The message at this place of the network arrives, and its answer, if any, at once.
    Deliver(usize),
    /// The request at this place of the network arrives, and is answered; the answer takes its time.
    DeliverAlone(usize),
    /// The AlterPartition request at this place arrives; once more it will arrive late, from a
    /// connection that its sender has given up.
    DeliverTwice(usize),
    /// The next batch of metadata records is applied.
    Apply(usize),
    /// All batches of metadata records are applied, as of one answer.
    ApplyAll(usize),
    /// The controller fences a broker.
    Fence(usize),
    /// A broker's heartbeat gets it unfenced.
    Unfence(usize),
    /// A process ends and so many batches of its log are left.
    Crash(usize, usize),
    /// A process stops in an orderly way.
    Stop(usize),
    /// A process starts.
    Start(usize),
    /// A follower gives its fetch up; the fetch itself arrives late or never.
    LoseFetch(usize),
    /// A leader gives its AlterPartition call up and asks again on a new connection.
    LoseAlter(usize),
    /// The lag limit passes.
    Lag,
    /// A leader's lag timer looks.
    Tick(usize),
    /// An operator changes min ISR.
    SetMinIsr(usize),
    /// An operator changes the feature level.
    SetLevel(i16),
    /// An operator wants so many replicas.
    Reassign(usize),
}

impl Cluster {
    /// Everything that may happen now.
    pub fn steps(&self, steps: &mut Vec<Step>) {
        if self.violation.is_some() {
            return;
        }
        steps.extend((0..self.network.len()).map(Step::Deliver));
        if self.left.late_requests > 0 {
            let is_alter = |&at: &usize| matches!(&*self.network[at].packet, Packet::Alter { .. });
            steps.extend((0..self.network.len()).filter(is_alter).map(Step::DeliverTwice));
        }
        if self.left.late_answers > 0 {
            let is_request = |&at: &usize| {
                matches!(&*self.network[at].packet, Packet::Fetch { .. } | Packet::Alter { .. })
            };
            steps.extend((0..self.network.len()).filter(is_request).map(Step::DeliverAlone));
        }
        for broker in 0..BROKERS {
            self.steps_of(broker, steps);
        }
        if self.left.lags > 0 {
            steps.push(Step::Lag);
        }
        self.steps_of_operators(steps);
    }

    fn steps_of_operators(&self, steps: &mut Vec<Step>) {
        let metadata = self.metadata();
        let known = metadata.topic_config(TOPIC_NAME).min_isr;
        if self.left.min_isrs > 0 {
            steps.extend((1..=BROKERS).filter(|&value| value != known).map(Step::SetMinIsr));
        }
        let known = metadata.feature(ELR_FEATURE);
        if self.left.levels > 0 {
            steps.extend((0..=2).filter(|&level| level != known).map(Step::SetLevel));
        }
        if self.left.reassignments > 0 {
            steps.extend((2..=BROKERS).map(Step::Reassign));
        }
    }

    fn steps_of(&self, broker: usize, steps: &mut Vec<Step>) {
        let registered = self.metadata().broker(id(broker));
        let fenced = registered.is_none_or(|registered| registered.fenced);
        if !fenced && self.left.fences > 0 {
            steps.push(Step::Fence(broker));
        }
        let Some(process) = self.process(broker) else {
            // Until its session is over the controller refuses the next process.
            if fenced {
                steps.push(Step::Start(broker));
            }
            return;
        };
        let machine = process.replica.machine();
        let applied = process.metadata.end_offset();
        if self.slow[broker] && index(applied) < self.log.len() {
            steps.push(Step::Apply(broker));
            let next = self.log_batches.iter().find(|(end, _)| *end > index(applied));
            if self.left.several && next.is_some_and(|&(end, _)| end < self.log.len()) {
                steps.push(Step::ApplyAll(broker));
            }
        }
        let is_ready = registered
            .is_some_and(|it| it.epoch == process.epoch && applied > it.registration_offset);
        if fenced && is_ready {
            steps.push(Step::Unfence(broker));
        }
        if machine.is_leader() && self.left.produces > 0 {
            steps.push(Step::Produce(broker));
        }
        if machine.deadline().is_some_and(|deadline| deadline <= self.now) {
            steps.push(Step::Tick(broker));
        }
        if self.left.crashes > 0 {
            let batches = process.replica.disk().unflushed_count();
            steps.extend((0..=batches).map(|kept| Step::Crash(broker, kept)));
        }
        if self.left.stops > 0 {
            steps.push(Step::Stop(broker));
        }
        if self.left.losses > 0 && !process.in_flight.is_empty() {
            steps.push(Step::LoseFetch(broker));
        }
        if self.left.losses > 0 && process.proposals.unanswered() > 0 {
            steps.push(Step::LoseAlter(broker));
        }
    }

    /// The state after `step`.
    pub fn after(&self, step: Step, only: Option<&str>) -> Cluster {
        let mut next = self.clone();
        let cause = next.take(step);
        (0..BROKERS).filter(|&broker| !self.slow[broker]).for_each(|broker| next.catch_up(broker));
        next.check(cause, only);
        next.digest(Some(self));
        next
    }

    fn take(&mut self, step: Step) -> Cause {
        match step {
            Step::Produce(broker) => {
                self.left.produces -= 1;
                self.produce(broker);
            }
            Step::Deliver(at) => {
                let packet = self.network.remove(at).packet;
                if let Some(answer) = self.deliver(Arc::unwrap_or_clone(packet)) {
                    self.deliver(answer);
                }
            }
            Step::DeliverTwice(at) => {
                self.left.late_requests -= 1;
                let packet = Arc::clone(&self.network[at].packet);
                if let Some(answer) = self.deliver(Arc::unwrap_or_clone(packet)) {
                    self.deliver(answer);
                }
            }
            Step::DeliverAlone(at) => {
                self.left.late_answers -= 1;
                let packet = self.network.remove(at).packet;
                if let Some(answer) = self.deliver(Arc::unwrap_or_clone(packet)) {
                    self.send(answer);
                }
            }
            Step::Apply(broker) => self.apply_next(broker),
            Step::ApplyAll(broker) => self.apply_all(broker),
            Step::Fence(broker) => {
                self.left.fences -= 1;
                self.heartbeat(broker, true, false);
            }
            Step::Unfence(broker) => self.unfence(broker),
            Step::Crash(broker, kept) => {
                self.left.crashes -= 1;
                self.end(broker, Some(kept));
            }
            Step::Stop(broker) => {
                self.left.stops -= 1;
                self.heartbeat(broker, true, true);
                self.end(broker, None);
            }
            Step::Start(broker) => {
                // Its last session is over by now, also if it registered and was never unfenced.
                self.heartbeat(broker, true, true);
                let is_clean = self.nodes[broker].mark.is_some();
                self.start_broker(broker);
                return if is_clean { Cause::Other } else { Cause::UncleanRegistration };
            }
            Step::LoseFetch(broker) => {
                self.left.losses -= 1;
                self.lose_fetch(broker);
            }
            Step::LoseAlter(broker) => {
                self.left.losses -= 1;
                self.lose_alter(broker);
            }
            Step::Lag => {
                self.left.lags -= 1;
                self.now = MonotonicTime(self.now.0).plus(2 * LAG);
            }
            Step::Tick(broker) => self.step(broker, Input::Tick, Cargo::Nothing),
            Step::SetMinIsr(value) => {
                self.left.min_isrs -= 1;
                let changes = vec![(topic_config::MIN_ISR.to_owned(), Some(value.to_string()))];
                let resource = ConfigResource::Topic(TOPIC_NAME.to_owned());
                let resources = vec![ResourceChanges { resource, changes }];
                let request = AlterConfigs { resources, validate_only: false };
                self.ask(Request::AlterConfigs(request));
            }
            Step::SetLevel(level) => {
                self.left.levels -= 1;
                let update = FeatureUpdate { name: ELR_FEATURE.to_owned(), level };
                self.ask(Request::UpdateFeature(update));
            }
            Step::Reassign(count) => {
                self.left.reassignments -= 1;
                let target = (0..count).map(id).collect();
                self.ask(Request::Reassign(Reassignment { id: PARTITION, target }));
            }
        }
        Cause::Other
    }
}
