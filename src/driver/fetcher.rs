//! The fetches: one long poll out to every broker that leads a partition.
//!
//! Owns the connections and the requests. Leaves positions and the meaning of answers to the
//! caller. They are connections of their own: a parked fetch would hold up produce answers.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::protocol::StrBytes;

use crate::driver::link::Link;
use crate::driver::messages;
use crate::driver::metadata::View;
use crate::driver::spec::CellSpec;
use crate::engine::{ConnectionId, Io};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset, PartitionId};
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
struct Fetcher {
    broker: BrokerId,
    link: Link,
    partitions: Vec<usize>,
    asked: Option<Asked>,
    ask_at: MonotonicTime,
}

/// All fetcher connections of a cell.
#[derive(Debug)]
pub struct Fetchers {
    topic: StrBytes,
    answer_timeout: Duration,
    fetchers: Vec<Fetcher>,
    is_stale: bool,
    error_count: u64,
    /// Partitions whose log ends before the offset that was asked for.
    cut_short: Vec<PartitionId>,
}

impl Fetchers {
    /// Fetchers for `spec`, without connections yet.
    pub fn new(spec: &CellSpec) -> Fetchers {
        Fetchers {
            topic: StrBytes::from_string(spec.topic.clone()),
            answer_timeout: MAX_WAIT + spec.request_timeout,
            fetchers: Vec::new(),
            is_stale: false,
            error_count: 0,
            cut_short: Vec::new(),
        }
    }

    /// Deals the partitions out to connections to their leaders, opening what is missing.
    pub fn apply(&mut self, io: &mut dyn Io, view: &View) {
        self.fetchers.iter_mut().for_each(|fetcher| fetcher.partitions.clear());
        for (partition, leader) in view.leaders.iter().enumerate() {
            let Some(leader) = *leader else { continue };
            let Some(address) = view.address_of(leader) else { continue };
            match self.fetchers.iter_mut().find(|fetcher| fetcher.broker == leader) {
                Some(fetcher) => {
                    fetcher.link.moved_to(address);
                    fetcher.partitions.push(partition);
                }
                None => self.fetchers.push(Fetcher {
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
        self.fetchers.iter_mut().for_each(|fetcher| fetcher.link.reopen_if_due(io, now));
    }

    /// Whether every connection is up.
    pub fn are_up(&self) -> bool {
        self.fetchers.iter().all(|fetcher| fetcher.link.up().is_some())
    }

    /// Whether a failure says that leaders have moved; asked once, then forgotten.
    pub fn take_is_stale(&mut self) -> bool {
        std::mem::take(&mut self.is_stale)
    }

    /// Answers with an error so far.
    pub fn error_count(&self) -> u64 {
        self.error_count
    }

    /// The engine says that a connection is up.
    pub fn on_connected(&mut self, connection: ConnectionId) {
        if let Some(index) = self.position(connection) {
            self.fetchers[index].link.on_connected();
        }
    }

    /// The engine says that a connection is gone.
    pub fn on_closed(&mut self, connection: ConnectionId, now: MonotonicTime) {
        if let Some(index) = self.position(connection) {
            self.fetchers[index].link.on_closed(now);
            self.fetchers[index].asked = None;
            self.is_stale = true;
        }
    }

    /// Sends a fetch on every connection that has none out, from `next_offset` of each partition
    /// on, and gives up those never answered.
    pub fn pump(
        &mut self,
        io: &mut dyn Io,
        next_offset: impl Fn(usize) -> Offset,
        now: MonotonicTime,
    ) {
        for fetcher in &mut self.fetchers {
            if fetcher.asked.is_some_and(|asked| asked.at.plus(self.answer_timeout) <= now) {
                fetcher.link.give_up(io, now);
                fetcher.asked = None;
                self.is_stale = true;
            }
            fetcher.link.reopen_if_due(io, now);
            let Some(connection) = fetcher.link.up() else { continue };
            if fetcher.asked.is_some() || fetcher.ask_at > now || fetcher.partitions.is_empty() {
                continue;
            }
            let correlation_id = fetcher.link.correlation_id();
            let partitions = fetcher
                .partitions
                .iter()
                .map(|partition| (PartitionId(*partition as i32), next_offset(*partition)));
            let max_wait_ms = MAX_WAIT.as_millis() as i32;
            let frame = messages::fetch(correlation_id, &self.topic, max_wait_ms, partitions);
            io.send(connection, frame, &[]);
            fetcher.asked = Some(Asked { correlation_id, at: now });
        }
    }

    /// When [`Fetchers::pump`] has something to do.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        let deadline = |fetcher: &Fetcher| match (fetcher.asked, fetcher.link.up()) {
            (Some(asked), _) => Some(asked.at.plus(self.answer_timeout)),
            (None, Some(_)) if fetcher.partitions.is_empty() => None,
            (None, Some(_)) => Some(fetcher.ask_at),
            (None, None) => fetcher.link.reopen_at(),
        };
        self.fetchers.iter().filter_map(deadline).min()
    }

    /// The answer in a frame read at `received`: the partitions without an error. Empty if the
    /// connection is none of these or the frame is no answer.
    pub fn on_frame(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        frame: BytesMut,
        received: MonotonicTime,
    ) -> Vec<FetchPartitionResponse> {
        let Some(index) = self.position(connection) else { return Vec::new() };
        let fetcher = &mut self.fetchers[index];
        let asked = fetcher.asked.take();
        let answer = messages::read_fetch(frame).ok();
        let answer =
            answer.filter(|(id, _)| asked.is_some_and(|asked| asked.correlation_id == *id));
        let Some((_, response)) = answer else {
            self.error_count += 1;
            fetcher.link.give_up(io, received);
            return Vec::new();
        };
        let mut partitions = Vec::new();
        for topic in response.topics {
            partitions.extend(topic.partitions);
        }
        let errors = partitions.iter().map(|partition| partition.error);
        for error in errors.chain([response.error]).filter(|error| *error != ErrorCode::None) {
            self.error_count += 1;
            self.is_stale |= messages::says_leader_moved(error);
            self.fetchers[index].ask_at = received.plus(RETRY_PAUSE);
        }
        let cut = partitions.iter().filter(|one| one.error == ErrorCode::OffsetOutOfRange);
        self.cut_short.extend(cut.map(|one| one.partition));
        partitions.retain(|partition| partition.error == ErrorCode::None);
        partitions
    }

    /// Partitions that no longer hold the offset asked for; each told once.
    pub fn take_cut_short(&mut self) -> Vec<PartitionId> {
        std::mem::take(&mut self.cut_short)
    }

    /// The broker at the other end of `connection`, if it is one of these.
    pub fn broker_of(&self, connection: ConnectionId) -> Option<BrokerId> {
        self.position(connection).map(|index| self.fetchers[index].broker)
    }

    fn position(&self, connection: ConnectionId) -> Option<usize> {
        self.fetchers.iter().position(|fetcher| fetcher.link.owns(connection))
    }
}
