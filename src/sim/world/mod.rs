//! The world of one run: nodes, network and clients on virtual time. Hands events to nodes and what
//! they leave behind to the network; after every event the invariants look.
//!
//! `Ok` means nothing was found; the error names the broken property.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod brokers;
mod controller;
mod looking;
mod outages;
mod recovery;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::broker::Broker;
use super::clients::Clients;
use super::controller::{ControllerOutbox, ControllerProcess};
use super::faults::Faults;
use super::history::{Histories, History};
use super::invariants::Violation;
use super::message::Address;
use super::network::Network;
use super::options::Options;
use super::queue::{Event, Life, Queue};
use super::random::Streams;
use super::stats::Stats;
use super::trace::Trace;
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, TopicPartition};

/// A run that takes more events than this goes round in circles.
const EVENTS_MAX: u64 = 400_000;
/// How often brokers are reminded of committed metadata.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(40);
/// Longest time a flush takes.
const FLUSH_DELAY_MAX: Duration = Duration::from_millis(6);
/// In page-cache mode the operating system writes back within this.
const WRITE_BACK_DELAY_MAX: Duration = Duration::from_millis(300);

/// See the module.
#[derive(Debug)]
pub struct World<'t> {
    options: Options,
    random: Streams,
    now: MonotonicTime,
    queue: Queue,
    network: Network,
    faults: Faults,
    controller: ControllerProcess,
    brokers: Vec<Broker>,
    clients: Clients,
    histories: Histories,
    /// Wake-ups that are scheduled, so that each is scheduled once.
    broker_wakes: BTreeMap<BrokerId, MonotonicTime>,
    controller_wake: Option<MonotonicTime>,
    flushing: BTreeSet<(Life, TopicPartition)>,
    /// Brokers that ended uncleanly, with the epoch the controller knew: until they are in all ISRs
    /// again.
    unclean: BTreeMap<BrokerId, Option<BrokerEpoch>>,
    /// Leader epochs that began with an unclean election.
    unclean_epochs: BTreeSet<(TopicPartition, LeaderEpoch)>,
    cuts: Vec<Vec<(Address, Address)>>,
    admin_calls: u64,
    has_faults: bool,
    has_load: bool,
    stats: Stats,
    /// The one property that is looked at.
    only: Option<&'t str>,
    trace: &'t mut Trace,
}

type Outcome = Result<(), Violation>;

impl<'t> World<'t> {
    /// A cluster that starts now; with `only`, no other property is looked at.
    pub fn new(
        options: Options,
        random: Streams,
        only: Option<&'t str>,
        trace: &'t mut Trace,
    ) -> World<'t> {
        trace.event(MonotonicTime::ZERO, || format!("{options:?}"));
        let now = MonotonicTime::ZERO;
        let mut out = ControllerOutbox::default();
        let controller =
            ControllerProcess::start(setup::controller_settings(&options), now, &mut out);
        let ids = (1..=options.broker_count).filter_map(|id| i32::try_from(id).ok()).map(BrokerId);
        let brokers = ids.map(|id| Broker::new(id, options.broker)).collect();
        let partitions: Vec<TopicPartition> = setup::partitions(&options).collect();
        let mut world = World {
            now,
            queue: Queue::default(),
            network: Network::new(options.network),
            faults: Faults::new(options.faults),
            controller,
            brokers,
            clients: Clients::new(options.clients, partitions.iter().copied()),
            histories: partitions.iter().map(|&id| (id, History::default())).collect(),
            broker_wakes: BTreeMap::new(),
            controller_wake: None,
            flushing: BTreeSet::new(),
            unclean: BTreeMap::new(),
            unclean_epochs: BTreeSet::new(),
            cuts: Vec::new(),
            admin_calls: 0,
            has_faults: false,
            has_load: false,
            stats: Stats::default(),
            only,
            trace,
            options,
            random,
        };
        world.schedule(&out);
        let ids: Vec<BrokerId> = world.brokers.iter().map(Broker::id).collect();
        ids.into_iter().for_each(|id| world.queue.push(now, Event::StartBroker(id)));
        world.queue.push(now, Event::Announce);
        world
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        let elections = self.histories.values().map(|history| history.reigns().count() as u64);
        let excused = self.histories.values().filter(|history| history.is_excused()).count() as u64;
        Stats {
            events: self.trace.events(),
            acknowledged: self.clients.acknowledged,
            elections: elections.sum(),
            excused,
            unclean_elections: self.unclean_epochs.len() as u64,
            ..self.stats
        }
    }

    /// The whole run: start, faults under load, then calm in which everything must heal.
    ///
    /// # Errors
    /// The broken property.
    pub fn run(&mut self) -> Outcome {
        self.run_until("brokers_start", Duration::from_secs(10), |world| {
            world.brokers.iter().all(|b| world.controller.metadata().is_active(b.id()))
        })?;
        self.create_topic()?;
        self.run_until("replicas_open", Duration::from_secs(10), |world| {
            let mut ids = world.histories.keys();
            ids.all(|&id| world.brokers.iter().all(|broker| broker.replica(id).is_some()))
        })?;
        self.begin_faults_and_load();
        let end = self.now.plus(self.options.duration);
        while self.now < end {
            self.next_event()?;
        }
        self.recover()
    }

    fn begin_faults_and_load(&mut self) {
        (self.has_faults, self.has_load) = (true, true);
        self.queue.push(self.now, Event::Fault);
        self.queue.push(self.now, Event::Produce);
        let ids: Vec<TopicPartition> = self.histories.keys().copied().collect();
        ids.into_iter().for_each(|id| self.queue.push(self.now, Event::Consume(id)));
    }

    fn run_until(
        &mut self,
        what: &'static str,
        limit: Duration,
        is_done: impl Fn(&Self) -> bool,
    ) -> Outcome {
        let end = self.now.plus(limit);
        while !is_done(self) {
            if self.now >= end {
                return Err(self.not_healed(what));
            }
            self.next_event()?;
        }
        Ok(())
    }

    fn next_event(&mut self) -> Outcome {
        let Some((at, event)) = self.queue.pop() else {
            return Err(broken("queue_never_empty", "no event is left".to_owned()));
        };
        self.now = at;
        if self.trace.events() > EVENTS_MAX {
            let what = format!("{EVENTS_MAX} events by {} ms", at.0 / 1_000_000);
            return Err(broken("run_ends", what));
        }
        self.handle(event)
    }

    fn handle(&mut self, event: Event) -> Outcome {
        match event {
            Event::Deliver(envelope) => self.deliver(envelope),
            Event::WakeBroker(life) => self.with_life(life, |broker, now, out| {
                broker.tick(now, out);
            }),
            Event::GiveUp(life, call) => self.with_life(life, |broker, now, out| {
                broker.call_lost(now, call, out);
            }),
            Event::Flushed(life, id, flush) => {
                self.flushing.remove(&(life, id));
                self.with_life(life, |broker, now, out| broker.flushed(now, (id, flush), out))
            }
            Event::StartBroker(id) => self.start_broker(id),
            Event::WakeController => self.wake_controller(),
            Event::GiveUpQuestion(life, query, broker) => {
                self.give_up_question(life, (query, broker))
            }
            Event::Commit(life, end) => self.commit(life, end),
            Event::Announce => self.announce_again(),
            Event::Produce => self.produce(),
            Event::Consume(id) => self.consume(id),
            Event::Fault => self.fail_something(),
            Event::Mend(cut) => self.mend(cut),
        }
    }

    fn produce(&mut self) -> Outcome {
        if self.has_load {
            let random = &mut self.random.clients;
            let pause = self.clients.produce_pause(random);
            let produce = self.clients.produce(random, &self.brokers);
            produce.into_iter().for_each(|envelope| self.send(envelope));
            self.queue.push(self.now.plus(pause), Event::Produce);
        }
        Ok(())
    }

    fn consume(&mut self, id: TopicPartition) -> Outcome {
        let random = &mut self.random.clients;
        let pause = self.clients.consume_pause(random);
        let consume = self.clients.consume(random, id, &self.brokers);
        consume.into_iter().for_each(|envelope| self.send(envelope));
        self.queue.push(self.now.plus(pause), Event::Consume(id));
        Ok(())
    }
}

fn broken(invariant: &'static str, what: String) -> Violation {
    Violation { invariant, what }
}
