//! Brokers in the world: hands them messages and timers, sends what they leave, schedules what they
//! wait for.

use std::time::Duration;

use super::{FLUSH_DELAY_MAX, Outcome, WRITE_BACK_DELAY_MAX, World, broken};
use crate::protocol::metadata::Record;
use crate::sim::broker::{Broker, BrokerOutbox, End, Note};
use crate::sim::invariants::Cause;
use crate::sim::message::{Address, Envelope, Message};
use crate::sim::queue::{Event, Life};
use crate::sim::replica::Durability;
use crate::sim::trace;
use crate::types::{BrokerId, MonotonicTime, TopicPartition};

impl World<'_> {
    pub(super) fn deliver(&mut self, Envelope { from, to, message }: Envelope) -> Outcome {
        self.trace.event(self.now, || format!("{to} <- {from}: {}", trace::message(&message)));
        match (to, message) {
            (Address::Controller, Message::Ask { call, connection, request }) => {
                self.ask_controller(from, (call, connection, request))
            }
            (Address::Controller, Message::LogsAre { query, answer }) => {
                let Address::Broker(broker) = from else { return Ok(()) };
                self.logs_are(broker, (query, answer))
            }
            (Address::Controller, _) => Ok(()),
            (Address::Broker(id), message) => {
                self.with_broker(id, |broker, now, committed, out| {
                    broker.receive(now, (from, message), committed, out);
                })
            }
            (Address::Client(_), message) => {
                if let Some(read) = self.clients.receive(message)
                    && let Some(history) = self.histories.get_mut(&read.partition)
                    && !history.is_excused()
                {
                    history.consumed(0, read.end, read.digest);
                }
                self.check(Cause::Other)
            }
        }
    }

    pub(super) fn with_life(
        &mut self,
        life: Life,
        act: impl FnOnce(&mut Broker, MonotonicTime, &mut BrokerOutbox),
    ) -> Outcome {
        let Some(broker) = self.brokers.iter().find(|broker| broker.id() == life.broker) else {
            return Ok(());
        };
        if broker.starts() != life.start || !broker.is_up() {
            return Ok(());
        }
        self.trace.event(self.now, || format!("broker {}: timer", life.broker));
        self.with_broker(life.broker, |broker, now, _, out| act(broker, now, out))
    }

    pub(super) fn with_broker(
        &mut self,
        id: BrokerId,
        act: impl FnOnce(&mut Broker, MonotonicTime, &[Record], &mut BrokerOutbox),
    ) -> Outcome {
        let Some(broker) = self.brokers.iter_mut().find(|broker| broker.id() == id) else {
            return Ok(());
        };
        let mut out = BrokerOutbox::default();
        act(broker, self.now, self.controller.committed(), &mut out);
        self.after_broker(id, out)
    }

    /// Sends what the broker left, schedules what it waits for, and looks at the invariants.
    pub(super) fn after_broker(&mut self, id: BrokerId, out: BrokerOutbox) -> Outcome {
        let Some(index) = self.brokers.iter().position(|broker| broker.id() == id) else {
            return Ok(());
        };
        let life = Life { broker: id, start: self.brokers[index].starts() };
        for (partition, note) in out.notes {
            self.note(partition, note);
        }
        out.envelopes.into_iter().for_each(|envelope| self.send(envelope));
        for call in out.calls {
            let at = self.now.plus(self.options.call_timeout);
            self.queue.push(at, Event::GiveUp(life, call));
        }
        self.trace_broker(index);
        self.schedule_broker(index, life);
        self.check(Cause::Other)?;
        self.end_if_wanted(index)
    }

    pub(super) fn note(&mut self, partition: TopicPartition, note: Note) {
        let Some(history) = self.histories.get_mut(&partition) else { return };
        match note {
            Note::Appended { id, end, digest } if !history.is_excused() => {
                history.appended(id, end, digest);
            }
            Note::Answered { id, is_acknowledged } => history.answered(id, is_acknowledged),
            Note::ToldLatest { epoch, offset } => history.told_latest(epoch, offset),
            Note::Appended { .. } => {}
        }
    }

    pub(super) fn send(&mut self, envelope: Envelope) {
        for delay in self.network.send(&mut self.random.network, &envelope) {
            self.queue.push(self.now.plus(delay), Event::Deliver(envelope.clone()));
        }
    }

    pub(super) fn schedule_broker(&mut self, index: usize, life: Life) {
        let broker = &self.brokers[index];
        if let Some(deadline) = broker.deadline() {
            let at = deadline.max(self.now);
            let wake = self.broker_wakes.get(&life.broker).copied();
            if wake.is_none_or(|wake| wake <= self.now || at < wake) {
                self.broker_wakes.insert(life.broker, at);
                self.queue.push(at, Event::WakeBroker(life));
            }
        }
        for &id in self.histories.keys() {
            let Some(flush) = broker.wants_flush(id) else { continue };
            if self.flushing.insert((life, id)) {
                let delay_max = match self.options.broker.durability {
                    Durability::Synced => FLUSH_DELAY_MAX,
                    Durability::PageCache => WRITE_BACK_DELAY_MAX,
                };
                let delay = self.random.disk.between(Duration::from_micros(100), delay_max);
                self.queue.push(self.now.plus(delay), Event::Flushed(life, id, flush));
            }
        }
    }

    pub(super) fn end_if_wanted(&mut self, index: usize) -> Outcome {
        let id = self.brokers[index].id();
        match self.brokers[index].end().cloned() {
            None => Ok(()),
            Some(End::Broken(what)) => {
                Err(broken("log_follows_machine", format!("broker {id}: {what}")))
            }
            Some(End::Clean) => {
                self.trace.detail(|| format!("broker {id} stops cleanly"));
                if !self.brokers[index].close() {
                    self.note_unclean_end(id);
                }
                self.start_later(id);
                Ok(())
            }
            Some(End::EpochChanged) => self.end_uncleanly(index, false),
        }
    }
}
