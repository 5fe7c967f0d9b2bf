//! The producer: which batch leaves over which connection, and when; in `answers`, what comes back.
//!
//! Owns the in-flight windows, the requests out and the batches to send again. One request carries
//! one batch. Leaves to others when a batch closes (`load`), what is in it (`batcher`) and what its
//! times mean (`outcome`).
//!
//! Hot path: no allocation per record; per batch its buffer and the request's head.

mod answers;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::driver::batcher::Batcher;
use crate::driver::link::Link;
use crate::driver::load::{LoadMode, PartitionLoad};
use crate::driver::messages;
use crate::driver::metadata::View;
use crate::driver::recorder::{BatchFacts, Recorder};
use crate::driver::schedule::Share;
use crate::driver::spec::{CellSpec, Retry};
use crate::driver::tracker::Tracker;
use crate::engine::{ConnectionId, Io};
use crate::types::{Acks, BrokerId, MonotonicTime, PartitionId};

/// Under `acks=0` nothing says that the socket has room again, so it is looked at this often.
const UNSENT_PAUSE: Duration = Duration::from_millis(1);

/// Batches one [`Producers::pump`] sends: a few milliseconds of work at 64 KiB a batch.
const PUMP_BATCHES_MAX: usize = 32;

/// What the producer has to hand for one round of work.
pub struct Round<'a> {
    /// The engine.
    pub io: &'a mut dyn Io,
    /// Where results go.
    pub recorder: &'a mut Recorder,
    /// What consumers wait for, by partition; empty without consumers.
    pub trackers: &'a mut [Tracker],
}

#[derive(Debug)]
struct Partition {
    load: PartitionLoad,
    /// In the order they were first sent in; nothing new leaves before them.
    resend: VecDeque<(BatchFacts, Bytes)>,
    resend_at: MonotonicTime,
    /// Its leader has moved: nothing leaves until the cluster was asked where to.
    awaits_view: bool,
}

#[derive(Debug)]
struct InFlight {
    correlation_id: i32,
    facts: BatchFacts,
    /// Kept only where failed batches are sent again.
    batch: Option<Bytes>,
}

/// One connection and what is out on it.
#[derive(Debug)]
struct Producer {
    broker: BrokerId,
    slot: usize,
    link: Link,
    in_flight: VecDeque<InFlight>,
    partitions: Vec<usize>,
    turn: usize,
    /// Under `acks=0`: the socket had no room when last looked at.
    is_socket_full: bool,
}

#[derive(Debug)]
struct Rules {
    topic: StrBytes,
    acks: Acks,
    retry: Retry,
    connections: usize,
    request_timeout: Duration,
    timeout_ms: i32,
    /// Unanswered batches per connection.
    window: usize,
    /// Unanswered batches over all connections.
    window_total: usize,
    /// Under `acks=0`, instead: bytes the socket has not taken.
    unsent_bytes_max: usize,
    /// As in the [`CellSpec`].
    injected_slowdown: f64,
}

/// All producer connections of a cell.
#[derive(Debug)]
pub struct Producers {
    rules: Rules,
    began: MonotonicTime,
    partitions: Vec<Partition>,
    producers: Vec<Producer>,
    in_flight: usize,
    is_stale: bool,
    turn: usize,
    pumped_at: MonotonicTime,
}

impl Producers {
    /// Producers for `spec`, without connections yet.
    pub fn new(spec: &CellSpec) -> Producers {
        let load_length = spec.warmup + spec.duration;
        let end_ns = u64::try_from(load_length.as_nanos()).unwrap_or(u64::MAX);
        let batching = spec.batching();
        let load = |partition| {
            let share = Share { partition, of: spec.partitions };
            PartitionLoad::new(spec.load, batching, share, spec.seed, end_ns)
        };
        let partition = |partition| Partition {
            load: load(partition),
            resend: VecDeque::new(),
            resend_at: MonotonicTime::ZERO,
            awaits_view: false,
        };
        let window_total = match spec.load {
            LoadMode::ClosedLoop { in_flight } => Some(in_flight),
            LoadMode::OpenLoop { .. } | LoadMode::MaxThroughput => None,
        };
        Producers {
            rules: Rules {
                topic: StrBytes::from_string(spec.topic.clone()),
                acks: spec.acks,
                retry: spec.retry,
                connections: spec.connections,
                request_timeout: spec.request_timeout,
                timeout_ms: i32::try_from(spec.request_timeout.as_millis()).unwrap_or(i32::MAX),
                window: window_total.unwrap_or(spec.in_flight_max),
                window_total: window_total.unwrap_or(usize::MAX),
                unsent_bytes_max: spec.in_flight_max.saturating_mul(spec.batch_bytes),
                injected_slowdown: spec.injected_slowdown,
            },
            began: MonotonicTime::ZERO,
            partitions: (0..spec.partitions).map(partition).collect(),
            producers: Vec::new(),
            in_flight: 0,
            is_stale: false,
            turn: 0,
            pumped_at: MonotonicTime::ZERO,
        }
    }

    /// Deals the partitions out to connections to their leaders, opening what is missing.
    pub fn apply(&mut self, io: &mut dyn Io, view: &View) {
        self.producers.iter_mut().for_each(|producer| producer.partitions.clear());
        let mut dealt: Vec<(BrokerId, usize)> = Vec::new();
        for (partition, leader) in view.leaders.iter().enumerate() {
            let Some(leader) = *leader else { continue };
            let Some(address) = view.address_of(leader) else { continue };
            self.partitions[partition].awaits_view = false;
            let rank = dealt.iter().filter(|(broker, _)| *broker == leader).count();
            dealt.push((leader, partition));
            let slot = rank % self.rules.connections;
            let known = self
                .producers
                .iter_mut()
                .find(|producer| producer.broker == leader && producer.slot == slot);
            match known {
                Some(producer) => {
                    producer.link.moved_to(address);
                    producer.partitions.push(partition);
                }
                None => self.producers.push(Producer {
                    broker: leader,
                    slot,
                    link: Link::open(io, address),
                    in_flight: VecDeque::with_capacity(self.rules.window.min(1024)),
                    partitions: vec![partition],
                    turn: 0,
                    is_socket_full: false,
                }),
            }
        }
    }

    /// The load begins at `at`; not to be pumped before.
    pub fn begin(&mut self, at: MonotonicTime) {
        self.began = at;
    }

    /// Whether it was pumped since the load began.
    pub fn has_begun(&self) -> bool {
        self.began <= self.pumped_at
    }

    /// Opens lost connections again whose pause is over.
    pub fn reopen(&mut self, io: &mut dyn Io, now: MonotonicTime) {
        self.producers.iter_mut().for_each(|producer| producer.link.reopen_if_due(io, now));
    }

    /// Whether every connection is up.
    pub fn are_up(&self) -> bool {
        self.producers.iter().all(|producer| producer.link.up().is_some())
    }

    /// Produce requests without an answer, over all connections.
    pub fn in_flight_batches(&self) -> usize {
        self.in_flight
    }

    /// Whether a failure says that leaders have moved, asked once, then forgotten; or a leader cannot be
    /// reached, for as long as that is so.
    pub fn take_is_stale(&mut self) -> bool {
        let is_away = |one: &Producer| !one.partitions.is_empty() && one.link.reopen_at().is_some();
        std::mem::take(&mut self.is_stale) || self.producers.iter().any(is_away)
    }

    /// Whether every record due was sent, and every batch sent was answered or given up.
    pub fn is_done(&self, now: MonotonicTime) -> bool {
        let now_ns = self.elapsed_ns(now);
        self.in_flight == 0
            && self.partitions.iter().all(|partition| {
                partition.resend.is_empty() && partition.load.closes_ns(now_ns).is_none()
            })
    }

    /// The engine says that a connection is up. Whether it was one of these.
    pub fn on_connected(&mut self, connection: ConnectionId) -> bool {
        let own = self.producers.iter_mut().find(|producer| producer.link.owns(connection));
        own.map(|producer| producer.link.on_connected()).is_some()
    }

    /// Whether `connection` is one of these.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.producers.iter().any(|producer| producer.link.owns(connection))
    }

    /// Sends batches that have closed where there is room, and gives up what was never answered.
    /// After so many batches it returns, so that answers are not left lying: the deadline has then
    /// passed already.
    pub fn pump(&mut self, round: &mut Round<'_>, batcher: &mut Batcher) {
        self.pumped_at = round.io.now();
        self.give_up_unanswered(round, self.pumped_at);
        self.reopen(round.io, self.pumped_at);
        let count = self.producers.len();
        // One batch per connection in turn, so that none waits for another's whole window.
        let (mut sent, mut idle) = (0, 0);
        while idle < count && sent < PUMP_BATCHES_MAX {
            self.turn = (self.turn + 1) % count;
            if self.send_next(round, batcher, self.turn) {
                (sent, idle) = (sent + 1, 0);
            } else {
                idle += 1;
            }
        }
    }

    /// When [`Producers::pump`] has something to do again.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.producers.iter().filter_map(|producer| self.deadline_of(producer)).min()
    }

    /// Sends one batch over connection `index`, if it has room and one of its partitions has a
    /// batch. Whether it did.
    fn send_next(&mut self, round: &mut Round<'_>, batcher: &mut Batcher, index: usize) -> bool {
        let producer = &self.producers[index];
        let Some(connection) = producer.link.up() else { return false };
        if !self.has_window(producer) {
            return false;
        }
        if self.rules.acks == Acks::None {
            let is_full = round.io.unsent_bytes(connection) >= self.rules.unsent_bytes_max;
            self.producers[index].is_socket_full = is_full;
            if is_full {
                return false;
            }
        }
        let Some((facts, batch)) = self.next_batch(batcher, index) else { return false };
        self.send(round, index, connection, facts, batch);
        true
    }

    /// The next batch for connection `index`: its partitions take turns, failed batches first.
    fn next_batch(&mut self, batcher: &mut Batcher, index: usize) -> Option<(BatchFacts, Bytes)> {
        let now = self.pumped_at;
        let producer = &mut self.producers[index];
        let count = producer.partitions.len();
        for turn in producer.turn..producer.turn + count {
            let partition_index = producer.partitions[turn % count];
            let partition = &mut self.partitions[partition_index];
            let next = if partition.awaits_view {
                None
            } else if !partition.resend.is_empty() {
                (partition.resend_at <= now).then(|| partition.resend.pop_front()).flatten()
            } else {
                batcher.next(PartitionId(partition_index as i32), &mut partition.load, now)
            };
            if next.is_some() {
                producer.turn = (turn + 1) % count;
                return next;
            }
        }
        None
    }

    fn send(
        &mut self,
        round: &mut Round<'_>,
        index: usize,
        connection: ConnectionId,
        mut facts: BatchFacts,
        batch: Bytes,
    ) {
        let producer = &mut self.producers[index];
        let correlation_id = producer.link.correlation_id();
        let Rules { topic, acks, timeout_ms, .. } = &self.rules;
        let frame =
            messages::produce(correlation_id, topic, facts.partition, *acks, *timeout_ms, &batch);
        let Some((head, payload)) = frame.split_first() else { return };
        facts.attempts += 1;
        facts.sent = round.io.now();
        if facts.attempts == 1 {
            facts.first_sent = facts.sent;
            if let Some(tracker) = round.trackers.get_mut(index_of(facts.partition)) {
                tracker.sent(facts.first_sequence, facts.dues.clone(), facts.sent);
            }
        }
        round.io.send(connection, head.clone(), payload);
        round.recorder.sent(&facts, batch.len());
        if *acks != Acks::None {
            let batch = (self.rules.retry != Retry::Never).then_some(batch);
            producer.in_flight.push_back(InFlight { correlation_id, facts, batch });
            self.in_flight += 1;
        }
    }

    fn deadline_of(&self, producer: &Producer) -> Option<MonotonicTime> {
        if let Some(reopen_at) = producer.link.reopen_at() {
            return Some(reopen_at);
        }
        let oldest = producer.in_flight.front();
        let timeout = oldest.map(|out| out.facts.sent.plus(self.rules.request_timeout));
        if producer.link.up().is_none() || !self.has_window(producer) {
            return timeout;
        }
        let closes = producer.partitions.iter().filter_map(|index| self.closes(*index)).min();
        if producer.is_socket_full {
            return closes.map(|closes| closes.max(self.pumped_at.plus(UNSENT_PAUSE)));
        }
        closes.into_iter().chain(timeout).min()
    }

    /// When partition `index` has something to send.
    fn closes(&self, index: usize) -> Option<MonotonicTime> {
        let partition = &self.partitions[index];
        if partition.awaits_view {
            return None;
        }
        if !partition.resend.is_empty() {
            return Some(partition.resend_at);
        }
        let closes_ns = partition.load.closes_ns(self.elapsed_ns(self.pumped_at));
        closes_ns.map(|closes_ns| MonotonicTime(self.began.0 + closes_ns))
    }

    fn has_window(&self, producer: &Producer) -> bool {
        producer.in_flight.len() < self.rules.window && self.in_flight < self.rules.window_total
    }

    fn elapsed_ns(&self, now: MonotonicTime) -> u64 {
        now.0.saturating_sub(self.began.0)
    }
}

fn index_of(partition: PartitionId) -> usize {
    partition.0.unsigned_abs() as usize
}
