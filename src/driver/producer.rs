//! The producer: which batch leaves over which connection, when, and what its answer means.
//!
//! Owns the in-flight windows, the requests out and the batches to send again. One request carries
//! one batch. Leaves to others when a batch closes (`load`), what is in it (`batcher`) and what its
//! times mean (`outcome`).
//!
//! Hot path: no allocation per record; per batch its buffer and the request's head.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::driver::batcher::Batcher;
use crate::driver::link::Link;
use crate::driver::load::{LoadMode, PartitionLoad};
use crate::driver::messages::{self, ProduceAnswer};
use crate::driver::metadata::View;
use crate::driver::outcome::Failure;
use crate::driver::recorder::{BatchFacts, Recorder};
use crate::driver::schedule::Share;
use crate::driver::spec::{CellSpec, Retry};
use crate::driver::tracker::Tracker;
use crate::engine::{ConnectionId, Io};
use crate::types::{Acks, BrokerId, ErrorCode, MonotonicTime, PartitionId};

/// Pause before a failed batch is sent again: an election or a restart takes longer, and a refusal
/// would only be repeated.
const RESEND_PAUSE: Duration = Duration::from_millis(20);

/// Under `acks=0` nothing says that the socket has room again, so it is looked at this often.
const UNSENT_PAUSE: Duration = Duration::from_millis(1);

/// Batches one [`Producers::pump`] sends: a few milliseconds of work at 64 KiB a batch.
const PUMP_BATCHES_MAX: usize = 32;

/// Sleeping up to the very moment would add the wake-up of a sleeping CPU, 35 to 50 us where it is
/// virtual (spec/io.md finding 7), to every sample of a slow load. The driver wakes this early
/// instead and polls the engine until the moment has come.
const WAKE_EARLY_MAX: Duration = Duration::from_micros(100);
/// Most of the time that may be polled away: a twentieth of one CPU.
const WAKE_EARLY_SHARE: f64 = 0.05;

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
    resend: VecDeque<(BatchFacts, Bytes)>,
    resend_at: MonotonicTime,
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
    wake_early: Duration,
    /// Unanswered batches per connection.
    window: usize,
    /// Unanswered batches over all connections.
    window_total: usize,
    /// Under `acks=0`, instead: bytes the socket has not taken.
    unsent_bytes_max: usize,
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
                wake_early: wake_early(spec.load),
                window: window_total.unwrap_or(spec.in_flight_max),
                window_total: window_total.unwrap_or(usize::MAX),
                unsent_bytes_max: spec.in_flight_max.saturating_mul(spec.batch_bytes),
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
            let rank = dealt.iter().filter(|(broker, _)| *broker == leader).count();
            dealt.push((leader, partition));
            let slot = rank % self.rules.connections;
            let known = self
                .producers
                .iter_mut()
                .find(|producer| producer.broker == leader && producer.slot == slot);
            match known {
                Some(producer) => {
                    producer.link.redirect(address);
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

    /// Whether a failure says that leaders have moved; asked once, then forgotten.
    pub fn take_is_stale(&mut self) -> bool {
        std::mem::take(&mut self.is_stale)
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

    /// The engine says that a connection is gone: what was out on it has failed. Whether it was one
    /// of these.
    pub fn on_closed(&mut self, round: &mut Round<'_>, connection: ConnectionId) -> bool {
        let own = self.producers.iter().position(|producer| producer.link.owns(connection));
        let Some(index) = own else { return false };
        let now = round.io.now();
        self.producers[index].link.on_closed(now);
        self.fail_all(round, index, Failure::Disconnected, now);
        true
    }

    /// Whether `connection` is one of these.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.producers.iter().any(|producer| producer.link.owns(connection))
    }

    /// Takes in an answer read at `received`.
    pub fn on_frame(
        &mut self,
        round: &mut Round<'_>,
        connection: ConnectionId,
        frame: BytesMut,
        received: MonotonicTime,
    ) {
        let own = self.producers.iter().position(|producer| producer.link.owns(connection));
        let Some(index) = own else { return };
        let answer = messages::read_produce(frame);
        let producer = &mut self.producers[index];
        // Answers come in the order of the requests, so this is the first one.
        let asked = answer.as_ref().ok().and_then(|answer| {
            producer.in_flight.iter().position(|out| out.correlation_id == answer.correlation_id)
        });
        let (Ok(answer), Some(asked)) = (answer, asked) else {
            producer.link.give_up(round.io, received);
            self.fail_all(round, index, Failure::Malformed, received);
            return;
        };
        let Some(out) = producer.in_flight.remove(asked) else { return };
        self.in_flight -= 1;
        self.on_answer(round, out, &answer, received);
    }

    fn on_answer(
        &mut self,
        round: &mut Round<'_>,
        out: InFlight,
        answer: &ProduceAnswer,
        received: MonotonicTime,
    ) {
        if answer.error != ErrorCode::None {
            self.fail(round, out, Failure::Broker(answer.error), received);
            return;
        }
        let facts = &out.facts;
        // An answer without an offset is none: nobody could find the batch again.
        let Some(base_offset) = answer.base_offset else {
            self.fail(round, out, Failure::Malformed, received);
            return;
        };
        round.recorder.acknowledged(facts, base_offset, answer.stamps, received);
        if let Some(tracker) = round.trackers.get_mut(index_of(facts.partition)) {
            tracker.acknowledged(base_offset.plus(i64::from(facts.records)));
        }
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

    /// Gives up everything that is not answered and not sent; what was due from `measured_from_ns`
    /// after the begin of the load and never sent is counted.
    pub fn abandon(&mut self, recorder: &mut Recorder, measured_from_ns: u64) {
        for producer in &mut self.producers {
            producer.in_flight.drain(..).for_each(|out| recorder.unanswered(&out.facts));
        }
        self.in_flight = 0;
        for partition in &mut self.partitions {
            partition.resend.drain(..).for_each(|(facts, _)| recorder.unanswered(&facts));
            recorder.unsent(partition.load.drain_untaken(measured_from_ns));
        }
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
            let has_resend = !partition.resend.is_empty() && partition.resend_at <= now;
            let next = if has_resend {
                partition.resend.pop_front()
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
                tracker.sent(facts.first_sequence, facts.sent);
            }
        }
        round.io.send(connection, head.clone(), payload);
        round.recorder.sent(&facts, batch.len());
        if *acks != Acks::None {
            let batch = (self.rules.retry == Retry::UntilAcknowledged).then_some(batch);
            producer.in_flight.push_back(InFlight { correlation_id, facts, batch });
            self.in_flight += 1;
        }
    }

    /// Closes connections whose oldest request is out for too long. What is behind it on the same
    /// connection goes down with it.
    fn give_up_unanswered(&mut self, round: &mut Round<'_>, now: MonotonicTime) {
        for index in 0..self.producers.len() {
            let mut is_given_up = false;
            while let Some(out) = self.pop_overdue(index, now) {
                is_given_up = true;
                self.fail(round, out, Failure::TimedOut, now);
            }
            if is_given_up {
                self.producers[index].link.give_up(round.io, now);
                self.fail_all(round, index, Failure::Disconnected, now);
            }
        }
    }

    fn pop_overdue(&mut self, index: usize, now: MonotonicTime) -> Option<InFlight> {
        let in_flight = &mut self.producers[index].in_flight;
        let sent = in_flight.front()?.facts.sent;
        if sent.plus(self.rules.request_timeout) > now {
            return None;
        }
        self.in_flight -= 1;
        in_flight.pop_front()
    }

    /// Fails everything out on connection `index`.
    fn fail_all(
        &mut self,
        round: &mut Round<'_>,
        index: usize,
        failure: Failure,
        at: MonotonicTime,
    ) {
        self.is_stale = true;
        while let Some(out) = self.producers[index].in_flight.pop_front() {
            self.in_flight -= 1;
            self.fail(round, out, failure, at);
        }
    }

    fn fail(&mut self, round: &mut Round<'_>, out: InFlight, failure: Failure, at: MonotonicTime) {
        let is_final = match failure {
            Failure::Broker(code) => {
                self.is_stale |= messages::says_leader_moved(code);
                is_final(code)
            }
            Failure::Disconnected | Failure::TimedOut | Failure::Malformed => false,
        };
        let resend = out.batch.filter(|_| !is_final);
        round.recorder.failed(&out.facts, failure, at, resend.is_none());
        if let Some(batch) = resend {
            let partition = &mut self.partitions[index_of(out.facts.partition)];
            partition.resend.push_back((out.facts, batch));
            partition.resend_at = at.plus(RESEND_PAUSE);
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
        let wake = closes.map(|closes| {
            MonotonicTime(closes.0.saturating_sub(self.rules.wake_early.as_nanos() as u64))
        });
        wake.into_iter().chain(timeout).min()
    }

    /// When partition `index` has something to send.
    fn closes(&self, index: usize) -> Option<MonotonicTime> {
        let partition = &self.partitions[index];
        let resend = (!partition.resend.is_empty()).then_some(partition.resend_at);
        let closes_ns = partition.load.closes_ns(self.elapsed_ns(self.pumped_at));
        let closes = closes_ns.map(|closes_ns| MonotonicTime(self.began.0 + closes_ns));
        resend.into_iter().chain(closes).min()
    }

    fn has_window(&self, producer: &Producer) -> bool {
        producer.in_flight.len() < self.rules.window && self.in_flight < self.rules.window_total
    }

    fn elapsed_ns(&self, now: MonotonicTime) -> u64 {
        now.0.saturating_sub(self.began.0)
    }
}

/// How long before a batch is due to stop sleeping: at most the share of the time between records
/// that may be spent on being on time.
fn wake_early(load: LoadMode) -> Duration {
    match load {
        LoadMode::OpenLoop { rate, .. } => {
            WAKE_EARLY_MAX.min(Duration::from_secs_f64(WAKE_EARLY_SHARE / rate.records_per_s()))
        }
        LoadMode::ClosedLoop { .. } | LoadMode::MaxThroughput => Duration::ZERO,
    }
}

/// Whether sending the batch again would get the same answer.
fn is_final(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MessageTooLarge
            | ErrorCode::CorruptMessage
            | ErrorCode::InvalidRecord
            | ErrorCode::InvalidRequest
            | ErrorCode::InvalidRequiredAcks
            | ErrorCode::UnsupportedVersion
    )
}

fn index_of(partition: PartitionId) -> usize {
    partition.0.unsigned_abs() as usize
}
