//! The consumer: one long poll to every broker that leads a partition, from the topic's start.
//!
//! Owns the fetches out. Leaves the match with what was sent to `tracker` and the times' meaning to
//! `outcome`. It has connections of its own: a parked fetch would hold up produce answers.
//!
//! Hot path: no allocation per record; only each batch's first record is looked at.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::protocol::StrBytes;

use crate::driver::link::Link;
use crate::driver::messages;
use crate::driver::metadata::View;
use crate::driver::outcome::Recorder;
use crate::driver::payload;
use crate::driver::producer::Round;
use crate::driver::spec::CellSpec;
use crate::driver::tracker::Tracker;
use crate::engine::ConnectionId;
use crate::engine::Io;
use crate::record::{self, BatchHeader};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, PartitionId};
use crate::wire::FetchPartitionResponse;

/// How long the leader may park a fetch: Kafka's own default for consumers.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Pause after a fetch that was answered with an error.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
struct Asked {
    correlation_id: i32,
    at: MonotonicTime,
}

#[derive(Debug)]
struct Consumer {
    broker: BrokerId,
    link: Link,
    partitions: Vec<usize>,
    asked: Option<Asked>,
    ask_at: MonotonicTime,
}

/// All consumer connections of a cell.
#[derive(Debug)]
pub struct Consumers {
    topic: StrBytes,
    seed: u64,
    answer_timeout: Duration,
    consumers: Vec<Consumer>,
    is_stale: bool,
}

impl Consumers {
    /// Consumers for `spec`, without connections yet.
    pub fn new(spec: &CellSpec) -> Consumers {
        Consumers {
            topic: StrBytes::from_string(spec.topic.clone()),
            seed: spec.seed,
            answer_timeout: MAX_WAIT + spec.request_timeout,
            consumers: Vec::new(),
            is_stale: false,
        }
    }

    /// Deals the partitions out to connections to their leaders, opening what is missing.
    pub fn apply(&mut self, io: &mut dyn Io, view: &View) {
        self.consumers.iter_mut().for_each(|consumer| consumer.partitions.clear());
        for (partition, leader) in view.leaders.iter().enumerate() {
            let Some(leader) = *leader else { continue };
            let Some(address) = view.address_of(leader) else { continue };
            match self.consumers.iter_mut().find(|consumer| consumer.broker == leader) {
                Some(consumer) => {
                    consumer.link.redirect(address);
                    consumer.partitions.push(partition);
                }
                None => self.consumers.push(Consumer {
                    broker: leader,
                    link: Link::open(io, address),
                    partitions: vec![partition],
                    asked: None,
                    ask_at: MonotonicTime::ZERO,
                }),
            }
        }
    }

    /// Opens lost connections again whose pause is over.
    pub fn reopen(&mut self, io: &mut dyn Io, now: MonotonicTime) {
        self.consumers.iter_mut().for_each(|consumer| consumer.link.reopen_if_due(io, now));
    }

    /// Whether every connection is up.
    pub fn are_up(&self) -> bool {
        self.consumers.iter().all(|consumer| consumer.link.up().is_some())
    }

    /// Whether a failure says that leaders have moved; asked once, then forgotten.
    pub fn take_is_stale(&mut self) -> bool {
        std::mem::take(&mut self.is_stale)
    }

    /// The engine says that a connection is up.
    pub fn on_connected(&mut self, connection: ConnectionId) {
        if let Some(index) = self.position(connection) {
            self.consumers[index].link.on_connected();
        }
    }

    /// The engine says that a connection is gone.
    pub fn on_closed(&mut self, connection: ConnectionId, now: MonotonicTime) {
        if let Some(index) = self.position(connection) {
            self.consumers[index].link.on_closed(now);
            self.consumers[index].asked = None;
            self.is_stale = true;
        }
    }

    /// Sends a fetch on every connection that has none out, and gives up those never answered.
    pub fn pump(&mut self, io: &mut dyn Io, trackers: &[Tracker], now: MonotonicTime) {
        for consumer in &mut self.consumers {
            if consumer.asked.is_some_and(|asked| asked.at.plus(self.answer_timeout) <= now) {
                consumer.link.give_up(io, now);
                consumer.asked = None;
                self.is_stale = true;
            }
            consumer.link.reopen_if_due(io, now);
            let Some(connection) = consumer.link.up() else { continue };
            if consumer.asked.is_some() || consumer.ask_at > now || consumer.partitions.is_empty() {
                continue;
            }
            let correlation_id = consumer.link.correlation_id();
            let partitions = consumer.partitions.iter().map(|partition| {
                (PartitionId(*partition as i32), trackers[*partition].next_offset())
            });
            let max_wait_ms = MAX_WAIT.as_millis() as i32;
            let frame = messages::fetch(correlation_id, &self.topic, max_wait_ms, partitions);
            io.send(connection, frame, &[]);
            consumer.asked = Some(Asked { correlation_id, at: now });
        }
    }

    /// When [`Consumers::pump`] has something to do.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        let deadline = |consumer: &Consumer| match (consumer.asked, consumer.link.up()) {
            (Some(asked), _) => Some(asked.at.plus(self.answer_timeout)),
            (None, Some(_)) if consumer.partitions.is_empty() => None,
            (None, Some(_)) => Some(consumer.ask_at),
            (None, None) => consumer.link.reopen_at(),
        };
        self.consumers.iter().filter_map(deadline).min()
    }

    /// Takes in a fetch answer read at `received`. Whether the connection was one of these.
    pub fn on_frame(
        &mut self,
        round: &mut Round<'_>,
        connection: ConnectionId,
        frame: BytesMut,
        received: MonotonicTime,
    ) -> bool {
        let Some(index) = self.position(connection) else { return false };
        let consumer = &mut self.consumers[index];
        let asked = consumer.asked.take();
        let answer = messages::read_fetch(frame).ok();
        let answer =
            answer.filter(|(id, _)| asked.is_some_and(|asked| asked.correlation_id == *id));
        let Some((_, response)) = answer else {
            round.recorder.fetch_failed();
            consumer.link.give_up(round.io, received);
            return true;
        };
        if response.error != ErrorCode::None {
            self.refused(round, index, response.error, received);
        }
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            if partition.error != ErrorCode::None {
                self.refused(round, index, partition.error, received);
            } else if let Some(tracker) = round.trackers.get_mut(partition.partition.0 as usize) {
                take_in(round.recorder, tracker, partition, self.seed, received);
            }
        }
        true
    }

    fn refused(
        &mut self,
        round: &mut Round<'_>,
        index: usize,
        error: ErrorCode,
        received: MonotonicTime,
    ) {
        round.recorder.fetch_failed();
        self.is_stale |= messages::says_leader_moved(error);
        self.consumers[index].ask_at = received.plus(RETRY_PAUSE);
    }

    fn position(&self, connection: ConnectionId) -> Option<usize> {
        self.consumers.iter().position(|consumer| consumer.link.owns(connection))
    }
}

/// Takes in one partition's part of an answer: first the high watermark's steps, then the batches.
fn take_in(
    recorder: &mut Recorder,
    tracker: &mut Tracker,
    partition: &FetchPartitionResponse,
    seed: u64,
    received: MonotonicTime,
) {
    if let Some(trace) = &partition.trace {
        tracker.trace(trace.clock, &trace.steps);
    }
    for chunk in &partition.records {
        for batch in record::batches(chunk) {
            let Ok((header, range)) = batch else {
                recorder.fetch_failed();
                return;
            };
            take_in_batch(recorder, tracker, &header, &chunk[range], seed, received);
        }
    }
}

fn take_in_batch(
    recorder: &mut Recorder,
    tracker: &mut Tracker,
    header: &BatchHeader,
    batch: &[u8],
    seed: u64,
    received_at: MonotonicTime,
) {
    let first = record::records(batch).ok().and_then(|mut records| records.next()?.ok());
    let oldest = first.and_then(|first| payload::parse_header(first.value?).ok());
    let Some(oldest) = oldest.filter(|oldest| oldest.seed == seed) else {
        tracker.skip_to(header.end_offset());
        return;
    };
    let received = tracker.received(oldest.sequence, header.end_offset());
    let Some(sent) = received.and_then(|received| received.sent) else { return };
    let records = header.record_count.unsigned_abs();
    recorder.consumed(oldest.intended, sent, records, received_at);
    if let Some(committed) = received.and_then(|received| received.committed) {
        recorder.committed(oldest.intended, sent, committed);
    }
}
