//! The controller in the world: hands it requests, commits and timers, sends what it leaves, tells
//! brokers what is committed, and ends and starts its process.

use std::time::Duration;

use super::{ANNOUNCE_INTERVAL, Outcome, World};
use crate::protocol::controller::{QueryId, ReplicaLogsAnswer, Request};
use crate::sim::broker::Broker;
use crate::sim::controller::{COMMIT_DELAY_MAX, ControllerOutbox};
use crate::sim::invariants::Cause;
use crate::sim::message::{Address, CallId, Envelope, Message};
use crate::sim::queue::Event;
use crate::types::{BrokerId, Offset};

impl World<'_> {
    pub(super) fn ask_controller(&mut self, from: Address, ask: (CallId, u64, Request)) -> Outcome {
        let cause = self.cause_of(&ask.2);
        let mut out = ControllerOutbox::default();
        self.controller.ask(self.now, from, ask, &mut out);
        self.after_controller(out, cause)
    }

    fn cause_of(&self, request: &Request) -> Cause {
        match request {
            Request::RegisterBroker(registration) => {
                let known = self.controller.metadata().broker(registration.broker);
                let epoch = known.map(|known| known.epoch);
                let is_clean = epoch.is_some() && registration.previous_epoch == epoch;
                if is_clean { Cause::Other } else { Cause::UncleanRegistration }
            }
            _ => Cause::Other,
        }
    }

    pub(super) fn after_controller(&mut self, out: ControllerOutbox, cause: Cause) -> Outcome {
        self.schedule(&out);
        out.envelopes.into_iter().for_each(|envelope| self.send(envelope));
        self.schedule_controller();
        self.trace_metadata();
        self.check(cause)
    }

    pub(super) fn logs_are(
        &mut self,
        broker: BrokerId,
        answer: (QueryId, ReplicaLogsAnswer),
    ) -> Outcome {
        self.stats.logs_inspected += 1;
        let mut out = ControllerOutbox::default();
        self.controller.logs_are(self.now, broker, answer, &mut out);
        self.after_controller(out, Cause::Other)
    }

    pub(super) fn give_up_question(&mut self, life: u64, question: (QueryId, BrokerId)) -> Outcome {
        if life != self.controller.life() {
            return Ok(());
        }
        let mut out = ControllerOutbox::default();
        self.controller.give_up_question(self.now, question, &mut out);
        self.after_controller(out, Cause::Other)
    }

    /// What the controller waits for: commits, and answers that may never come.
    pub(super) fn schedule(&mut self, out: &ControllerOutbox) {
        let life = self.controller.life();
        for &(query, broker) in &out.questions {
            let at = self.now.plus(self.options.call_timeout);
            self.queue.push(at, Event::GiveUpQuestion(life, query, broker));
        }
        if let Some(end) = out.commit {
            let delay = self.random.disk.between(Duration::from_micros(50), COMMIT_DELAY_MAX);
            let event = Event::Commit(life, end);
            self.queue.push(self.now.plus(delay), event);
        }
    }

    pub(super) fn schedule_controller(&mut self) {
        let at = self.controller.deadline().max(self.now);
        if self.controller_wake.is_none_or(|wake| wake <= self.now || at < wake) {
            self.controller_wake = Some(at);
            self.queue.push(at, Event::WakeController);
        }
    }

    pub(super) fn wake_controller(&mut self) -> Outcome {
        if self.controller.deadline() > self.now {
            self.schedule_controller();
            return Ok(());
        }
        self.trace.event(self.now, || "controller: timer".to_owned());
        let mut out = ControllerOutbox::default();
        self.controller.tick(self.now, &mut out);
        self.after_controller(out, Cause::Other)
    }

    pub(super) fn commit(&mut self, life: u64, end: Offset) -> Outcome {
        if life != self.controller.life() {
            return Ok(());
        }
        self.trace.event(self.now, || format!("controller: metadata committed to {end}"));
        let mut out = ControllerOutbox::default();
        self.controller.commit(self.now, end, &mut out);
        self.announce();
        self.after_controller(out, Cause::Other)
    }

    pub(super) fn announce(&mut self) {
        let end = Offset(i64::try_from(self.controller.committed().len()).unwrap_or(i64::MAX));
        let behind = self
            .brokers
            .iter()
            .filter(|broker| broker.metadata().is_some_and(|metadata| metadata.end_offset() < end));
        let behind: Vec<BrokerId> = behind.map(Broker::id).collect();
        for id in behind {
            let message = Message::Metadata { end };
            self.send(Envelope { from: Address::Controller, to: Address::Broker(id), message });
        }
    }

    pub(super) fn announce_again(&mut self) -> Outcome {
        self.announce();
        self.queue.push(self.now.plus(ANNOUNCE_INTERVAL), Event::Announce);
        Ok(())
    }

    pub(super) fn restart_controller(&mut self) -> Outcome {
        self.trace.event(self.now, || "controller starts anew".to_owned());
        self.stats.controller_restarts += 1;
        let mut out = ControllerOutbox::default();
        self.controller.restart(self.now, &mut out);
        self.controller_wake = None;
        // What was decided and not committed is undone: the invariants compare with that.
        self.histories.values_mut().for_each(|history| history.forget_decisions());
        self.after_controller(out, Cause::Other)
    }
}
