//! Follower fetch: one connection per leader, one fetch in flight on it, covering every partition
//! this shard follows there (as Kafka does with one fetcher thread).
//!
//! Classically the next fetch leaves as soon as every one of those partitions has taken in what the
//! last one brought: in the syncing modes that is when its sync ends, so fetch offsets are durable
//! ends. Pipelined it leaves at once, and whatever becomes durable meanwhile is acknowledged by
//! requests of their own, which ask for nothing; the leader acts on them on arrival, and answers come
//! in the order of the requests. Questions for the leader's offsets are in `leader_offsets`.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::leader_offsets::offset_answer;
use super::replicas::FetchedBatch;
use super::shard::Shard;
use crate::engine::{ConnectionId, Io};
use crate::protocol::partition::{BatchSpan, FollowerFetch, Input};
use crate::record;
use crate::types::{BrokerId, ErrorCode, FetchPipeline, MonotonicTime, Offset, TopicId};
use crate::wire::{
    self, ApiKey, FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic,
    FetchingReplica, Response, TopicRef,
};

/// Pause before a broken connection to a leader is tried again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(20);
/// Version with topic ids and replica state.
const FETCH_VERSION: i16 = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down { retry_at: MonotonicTime },
    Connecting(ConnectionId),
    Up(ConnectionId),
}

/// What a leader has not answered.
#[derive(Debug)]
pub(super) enum Asked {
    /// A fetch for these replicas.
    Fetch(Vec<(usize, FollowerFetch)>),
    /// An acknowledgement: its answer says nothing.
    Acknowledgement,
    /// One end of the leader's log for this replica; log start first.
    Offset((usize, FollowerFetch), Option<Offset>),
}

/// One leader's connection.
struct Fetcher {
    link: Link,
    /// In the order of the requests, which is that of the answers.
    asked: VecDeque<Asked>,
    followed: Vec<usize>,
}

/// All fetchers of a shard, by leader.
#[derive(Default)]
pub(super) struct Fetchers {
    by_leader: BTreeMap<BrokerId, Fetcher>,
    deadline: Option<MonotonicTime>,
    /// Some replica has something to acknowledge beside its fetch in flight.
    pub(super) has_acknowledgements: bool,
}

impl Fetcher {
    fn connection(&self) -> Option<ConnectionId> {
        match self.link {
            Link::Down { .. } => None,
            Link::Connecting(connection) | Link::Up(connection) => Some(connection),
        }
    }

    /// Whether a fetch or a question waits for its answer.
    fn is_busy(&self) -> bool {
        self.asked.iter().any(|asked| !matches!(asked, Asked::Acknowledgement))
    }
}

impl Fetchers {
    /// The replica in `slot` follows `leader` from now on.
    pub(super) fn follow(&mut self, leader: BrokerId, slot: usize) {
        for (id, fetcher) in &mut self.by_leader {
            if *id != leader {
                fetcher.followed.retain(|followed| *followed != slot);
            }
        }
        let fetcher = self.by_leader.entry(leader).or_insert_with(|| Fetcher {
            link: Link::Down { retry_at: MonotonicTime::ZERO },
            asked: VecDeque::new(),
            followed: Vec::new(),
        });
        if !fetcher.followed.contains(&slot) {
            fetcher.followed.push(slot);
        }
    }

    /// The replica in `slot` follows nobody.
    pub(super) fn unfollow(&mut self, slot: usize) {
        for fetcher in self.by_leader.values_mut() {
            fetcher.followed.retain(|followed| *followed != slot);
        }
    }

    pub(super) fn owns(&self, connection: ConnectionId) -> bool {
        self.leader_of(connection).is_some()
    }

    fn leader_of(&self, connection: ConnectionId) -> Option<BrokerId> {
        let mut fetchers = self.by_leader.iter();
        fetchers.find(|(_, f)| f.connection() == Some(connection)).map(|(leader, _)| *leader)
    }

    /// When a back-off ends.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.deadline
    }

    /// The replicas that follow `leader`.
    pub(super) fn followed(&self, leader: BrokerId) -> &[usize] {
        self.by_leader.get(&leader).map_or(&[], |fetcher| &fetcher.followed)
    }

    /// A request to `leader` has left.
    pub(super) fn asked(&mut self, leader: BrokerId, asked: Asked) {
        if let Some(fetcher) = self.by_leader.get_mut(&leader) {
            fetcher.asked.push_back(asked);
        }
    }

    fn wake_at(&mut self, at: MonotonicTime) {
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
    }
}

impl Shard {
    /// Sends every fetch that may leave now, and the acknowledgements that no fetch took along.
    pub(super) fn send_fetches(&mut self, io: &mut dyn Io) {
        self.fetchers.deadline = None;
        let acknowledges = std::mem::take(&mut self.fetchers.has_acknowledgements);
        let leaders: Vec<BrokerId> = self.fetchers.by_leader.keys().copied().collect();
        for leader in leaders {
            self.send_fetch(io, leader);
            if acknowledges {
                self.send_acknowledgements(io, leader);
            }
        }
    }

    fn send_fetch(&mut self, io: &mut dyn Io, leader: BrokerId) {
        let Some(fetcher) = self.fetchers.by_leader.get(&leader) else { return };
        match fetcher.link {
            Link::Down { .. } if fetcher.followed.is_empty() => {}
            Link::Down { retry_at } if retry_at > io.now() => self.fetchers.wake_at(retry_at),
            Link::Down { .. } => self.connect_to(io, leader),
            Link::Up(connection) if !fetcher.is_busy() => {
                if let Some(asking) = self.replica_asking_offsets(leader) {
                    self.ask_offsets(io, leader, connection, asking);
                } else if let Some(fetches) = self.ready_fetches(io.now(), leader) {
                    let wait = self.config.replica_fetch_wait_max.as_millis() as i32;
                    let bytes_max = self.config.replica_fetch_bytes_max as i32;
                    self.send_request(io, connection, &fetches, (wait, bytes_max));
                    self.fetchers.asked(leader, Asked::Fetch(fetches));
                }
            }
            Link::Connecting(_) | Link::Up(_) => {}
        }
    }

    /// What became durable while a fetch was in flight. What cannot leave now need not: the next
    /// fetch says it.
    fn send_acknowledgements(&mut self, io: &mut dyn Io, leader: BrokerId) {
        let Some(fetcher) = self.fetchers.by_leader.get(&leader) else { return };
        let mut acknowledged = Vec::new();
        for &slot in &fetcher.followed {
            let replica = self.replicas.get_mut(slot);
            let news = replica.and_then(|replica| replica.next_acknowledgement.take());
            acknowledged.extend(news.map(|fetch| (slot, fetch)));
        }
        if let (Link::Up(connection), false) = (fetcher.link, acknowledged.is_empty()) {
            self.send_request(io, connection, &acknowledged, (0, 0));
            self.fetchers.asked(leader, Asked::Acknowledgement);
        }
    }

    fn connect_to(&mut self, io: &mut dyn Io, leader: BrokerId) {
        let link = match self.broker_address(leader) {
            Some(address) => Link::Connecting(io.connect(address)),
            None => Link::Down { retry_at: io.now().plus(RECONNECT_BACKOFF) },
        };
        if let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) {
            fetcher.link = link;
        }
    }

    pub(super) fn broker_address(&self, id: BrokerId) -> Option<SocketAddr> {
        let endpoint = self.metadata.broker(id)?.endpoints.first()?;
        Some(SocketAddr::new(endpoint.host.parse().ok()?, endpoint.port))
    }

    /// The fetches of a leader's next request; `None` while a partition still syncs what it got, or,
    /// pipelined, too much of it.
    fn ready_fetches(
        &mut self,
        now: MonotonicTime,
        leader: BrokerId,
    ) -> Option<Vec<(usize, FollowerFetch)>> {
        let fetcher = self.fetchers.by_leader.get(&leader)?;
        let is_classic = self.config.replica_fetch_pipeline == FetchPipeline::Classic;
        // A disk slower than the leader's must not fill the memory; a write that ends comes back here.
        if !is_classic && self.replicas.undurable_bytes() > self.config.undurable_bytes_max {
            return None;
        }
        let mut backing_off_until: Option<MonotonicTime> = None;
        let mut ready = Vec::with_capacity(fetcher.followed.len());
        for &slot in &fetcher.followed {
            let Some(replica) = self.replicas.get(slot) else { continue };
            match replica.next_fetch {
                Some(fetch) if fetch.not_before > now => {
                    let until = backing_off_until.unwrap_or(fetch.not_before).min(fetch.not_before);
                    backing_off_until = Some(until);
                }
                Some(fetch) => ready.push((slot, fetch)),
                None if is_classic && replica.is_syncing() => return None,
                None => {}
            }
        }
        if let Some(until) = backing_off_until {
            self.fetchers.wake_at(until);
        }
        (!ready.is_empty()).then_some(ready)
    }

    /// One request for all of `fetches`, to be answered within `max_wait_ms` with up to
    /// `partition_bytes_max` of each.
    fn send_request(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        fetches: &[(usize, FollowerFetch)],
        (max_wait_ms, partition_max_bytes): (i32, i32),
    ) {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (slot, fetch) in fetches {
            let Some(replica) = self.replicas.get_mut(*slot) else { continue };
            if partition_max_bytes > 0 {
                replica.next_fetch = None;
            }
            let partition = FetchPartition {
                partition: replica.id.partition,
                current_leader_epoch: Some(fetch.leader_epoch),
                fetch_offset: fetch.offset,
                last_fetched_epoch: fetch.last_fetched_epoch,
                log_start_offset: Some(fetch.log_start_offset),
                partition_max_bytes,
                stamps: replica.follower_trace.take(),
                durable_offset: fetch.durable_offset,
            };
            let id = replica.id.topic;
            match topics.iter_mut().find(|topic| topic.topic.id == id) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(FetchTopic { topic: by_id(id), partitions: vec![partition] }),
            }
        }
        let request = FetchRequest {
            cluster_id: None,
            replica: Some(FetchingReplica { id: self.config.node_id, epoch: self.epoch }),
            max_wait_ms,
            min_bytes: i32::from(max_wait_ms > 0),
            // As Kafka: ten partitions' worth, at least 10 MiB.
            max_bytes: i32::try_from(self.config.replica_fetch_bytes_max * 10).unwrap_or(i32::MAX),
            session_id: 0,
            session_epoch: -1,
            topics,
            trace_high_watermark: false,
        };
        let frame = wire::encode_fetch_request(0, &self.client_id, FETCH_VERSION, &request);
        io.send(connection, frame, &[]);
    }

    // --- answers ---------------------------------------------------------------------------------

    pub(super) fn fetcher_connected(&mut self, connection: ConnectionId) -> bool {
        let Some(leader) = self.fetchers.leader_of(connection) else { return false };
        if let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) {
            fetcher.link = Link::Up(connection);
        }
        true
    }

    pub(super) fn fetcher_closed(&mut self, io: &mut dyn Io, connection: ConnectionId) -> bool {
        let Some(leader) = self.fetchers.leader_of(connection) else { return false };
        let retry_at = io.now().plus(RECONNECT_BACKOFF);
        let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) else { return false };
        fetcher.link = Link::Down { retry_at };
        let unanswered =
            std::mem::take(&mut fetcher.asked).into_iter().flat_map(|asked| match asked {
                Asked::Fetch(fetches) => fetches,
                Asked::Offset(asking, _) => vec![asking],
                Asked::Acknowledgement => Vec::new(),
            });
        for (slot, fetch) in unanswered {
            let error = ErrorCode::NetworkException;
            let request_leader_epoch = fetch.leader_epoch;
            self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
        }
        true
    }

    /// A frame from a leader.
    pub(super) fn leader_answered(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        frame: Bytes,
        received: MonotonicTime,
    ) {
        let Some(leader) = self.fetchers.leader_of(connection) else { return };
        let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) else { return };
        let Some(asked) = fetcher.asked.pop_front() else { return self.give_up_on(io, connection) };
        let misunderstood = match asked {
            Asked::Acknowledgement => None,
            Asked::Fetch(fetches) => match fetch_answers(frame) {
                Some(answers) => {
                    self.fetches_answered(io, fetches, answers, received);
                    None
                }
                None => Some(Asked::Fetch(fetches)),
            },
            Asked::Offset(asking, start) => match offset_answer(frame) {
                Some(found) => {
                    self.offset_found(io, leader, connection, asking, start, found);
                    None
                }
                None => Some(Asked::Offset(asking, start)),
            },
        };
        if let Some(asked) = misunderstood {
            // The end of the connection tells whom it concerns.
            if let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) {
                fetcher.asked.push_front(asked);
            }
            self.give_up_on(io, connection);
        }
    }

    fn fetches_answered(
        &mut self,
        io: &mut dyn Io,
        fetches: Vec<(usize, FollowerFetch)>,
        mut answers: Vec<(TopicId, FetchPartitionResponse)>,
        received: MonotonicTime,
    ) {
        for (slot, fetch) in fetches {
            let Some(id) = self.replicas.get(slot).map(|replica| replica.id) else { continue };
            let found = answers
                .iter()
                .position(|(topic, answer)| (*topic, answer.partition) == (id.topic, id.partition));
            let answer = found.map(|index| answers.swap_remove(index).1);
            self.take_in(io, slot, fetch, answer, received);
        }
    }

    /// The leader's bytes make no sense: start over on a new connection.
    pub(super) fn give_up_on(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        self.counters.malformed();
        io.close(connection);
    }

    /// One partition of a leader's answer.
    fn take_in(
        &mut self,
        io: &mut dyn Io,
        slot: usize,
        fetch: FollowerFetch,
        answer: Option<FetchPartitionResponse>,
        received: MonotonicTime,
    ) {
        let request_leader_epoch = fetch.leader_epoch;
        let Some(answer) = answer else {
            let error = ErrorCode::UnknownServerError;
            return self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
        };
        if answer.error != ErrorCode::None {
            let error = answer.error;
            return self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
        }
        let Ok(batches) = split(answer.records) else {
            let error = ErrorCode::CorruptMessage;
            return self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
        };
        let input = Input::FetchedFromLeader {
            request_offset: fetch.offset,
            request_leader_epoch,
            batches: batches.iter().map(|batch| batch.span).collect(),
            high_watermark: answer.high_watermark.unwrap_or(Offset::ZERO),
            log_start_offset: answer.log_start_offset.unwrap_or(Offset::ZERO),
            diverging: answer.diverging,
        };
        self.fetched_from_leader(io, slot, input, &batches, received);
    }
}

/// What a fetch got, by partition; `None` if the bytes make no sense.
fn fetch_answers(frame: Bytes) -> Option<Vec<(TopicId, FetchPartitionResponse)>> {
    let response = wire::parse_response(ApiKey::Fetch, FETCH_VERSION, frame);
    let Ok((_, Response::Fetch(response))) = response else { return None };
    let answers = response.topics.into_iter().flat_map(|topic| {
        let id = topic.topic.id;
        topic.partitions.into_iter().map(move |partition| (id, partition))
    });
    Some(answers.collect())
}

/// Whole batches with a right CRC, each a view of the frame.
fn split(records: Vec<Bytes>) -> Result<Vec<FetchedBatch>, record::BatchError> {
    let mut batches = Vec::new();
    for chunk in records {
        for batch in record::batches(&chunk) {
            let (header, range) = batch?;
            let bytes = chunk.slice(range);
            record::check_crc(&bytes, &header)?;
            let span = BatchSpan {
                base_offset: header.base_offset,
                end_offset: header.end_offset(),
                leader_epoch: header.leader_epoch,
            };
            batches.push(FetchedBatch { span, bytes });
        }
    }
    Ok(batches)
}

fn by_id(id: TopicId) -> TopicRef {
    TopicRef { name: Default::default(), id }
}
