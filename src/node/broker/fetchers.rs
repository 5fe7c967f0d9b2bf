//! Follower fetch: one connection per leader, one fetch in flight on it, covering every partition
//! this shard follows there (as Kafka does with one fetcher thread).
//!
//! The next fetch leaves as soon as every one of those partitions has taken in what the last one
//! brought: in the syncing modes that is when its sync ends, so fetch offsets are durable ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

use super::replicas::FetchedBatch;
use super::shard::Shard;
use crate::engine::{ConnectionId, Io};
use crate::protocol::partition::{BatchSpan, FollowerFetch, Input};
use crate::record;
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset, TopicId};
use crate::wire::{
    self, ApiKey, FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic,
    FetchingReplica, Request, Response, TopicRef,
};

/// Pause before a broken connection to a leader is tried again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(20);
/// Version with topic ids and replica state.
const FETCH_VERSION: i16 = 17;
const LIST_OFFSETS_VERSION: i16 = 7;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

#[derive(Debug)]
enum Link {
    Down {
        retry_at: MonotonicTime,
    },
    Connecting(ConnectionId),
    Idle(ConnectionId),
    /// A fetch is in flight for these replicas.
    Fetching(ConnectionId, Vec<(usize, FollowerFetch)>),
    /// Both ends of the leader's log are being asked for, for this replica; log start first.
    AskingOffsets(ConnectionId, (usize, FollowerFetch), Option<Offset>),
}

/// One leader's connection.
struct Fetcher {
    link: Link,
    followed: Vec<usize>,
}

/// All fetchers of a shard, by leader.
#[derive(Default)]
pub(super) struct Fetchers {
    by_leader: BTreeMap<BrokerId, Fetcher>,
    deadline: Option<MonotonicTime>,
}

impl Fetcher {
    fn connection(&self) -> Option<ConnectionId> {
        match &self.link {
            Link::Down { .. } => None,
            Link::Connecting(connection)
            | Link::Idle(connection)
            | Link::Fetching(connection, _)
            | Link::AskingOffsets(connection, _, _) => Some(*connection),
        }
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

    fn wake_at(&mut self, at: MonotonicTime) {
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
    }
}

impl Shard {
    /// Sends every fetch that may leave now.
    pub(super) fn send_fetches(&mut self, io: &mut dyn Io) {
        self.fetchers.deadline = None;
        let leaders: Vec<BrokerId> = self.fetchers.by_leader.keys().copied().collect();
        for leader in leaders {
            self.send_fetch(io, leader);
        }
    }

    fn send_fetch(&mut self, io: &mut dyn Io, leader: BrokerId) {
        let Some(fetcher) = self.fetchers.by_leader.get(&leader) else { return };
        match fetcher.link {
            Link::Down { .. } if fetcher.followed.is_empty() => {}
            Link::Down { retry_at } if retry_at > io.now() => self.fetchers.wake_at(retry_at),
            Link::Down { .. } => self.connect_to(io, leader),
            Link::Idle(connection) => {
                if let Some(asking) = self.replica_asking_offsets(leader) {
                    self.ask_offsets(io, leader, connection, asking);
                } else if let Some(fetches) = self.ready_fetches(io.now(), leader) {
                    self.send_one_fetch(io, leader, connection, fetches);
                }
            }
            Link::Connecting(_) | Link::Fetching(..) | Link::AskingOffsets(..) => {}
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

    /// The fetches of a leader's next request; `None` while a partition still syncs what it got.
    fn ready_fetches(
        &mut self,
        now: MonotonicTime,
        leader: BrokerId,
    ) -> Option<Vec<(usize, FollowerFetch)>> {
        let fetcher = self.fetchers.by_leader.get(&leader)?;
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
                None if replica.is_syncing() => return None,
                None => {}
            }
        }
        if let Some(until) = backing_off_until {
            self.fetchers.wake_at(until);
        }
        (!ready.is_empty()).then_some(ready)
    }

    fn send_one_fetch(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        fetches: Vec<(usize, FollowerFetch)>,
    ) {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (slot, fetch) in &fetches {
            let Some(replica) = self.replicas.get_mut(*slot) else { continue };
            replica.next_fetch = None;
            let partition = FetchPartition {
                partition: replica.id.partition,
                current_leader_epoch: Some(fetch.leader_epoch),
                fetch_offset: fetch.offset,
                last_fetched_epoch: fetch.last_fetched_epoch,
                log_start_offset: Some(fetch.log_start_offset),
                partition_max_bytes: self.config.replica_fetch_bytes_max as i32,
                stamps: replica.follower_stamps.take(),
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
            max_wait_ms: self.config.replica_fetch_wait_max.as_millis() as i32,
            min_bytes: 1,
            // As Kafka: ten partitions' worth, at least 10 MiB.
            max_bytes: i32::try_from(self.config.replica_fetch_bytes_max * 10).unwrap_or(i32::MAX),
            session_id: 0,
            session_epoch: -1,
            topics,
            trace_high_watermark: false,
        };
        let client = self.client_id.clone();
        let frame = wire::encode_fetch_request(0, &client, FETCH_VERSION, &request);
        io.send(connection, frame, &[]);
        if let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) {
            fetcher.link = Link::Fetching(connection, fetches);
        }
    }

    // --- answers ---------------------------------------------------------------------------------

    pub(super) fn fetcher_connected(&mut self, connection: ConnectionId) -> bool {
        let Some(leader) = self.fetchers.leader_of(connection) else { return false };
        if let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) {
            fetcher.link = Link::Idle(connection);
        }
        true
    }

    pub(super) fn fetcher_closed(&mut self, io: &mut dyn Io, connection: ConnectionId) -> bool {
        let Some(leader) = self.fetchers.leader_of(connection) else { return false };
        let retry_at = io.now().plus(RECONNECT_BACKOFF);
        let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) else { return false };
        let link = std::mem::replace(&mut fetcher.link, Link::Down { retry_at });
        let unanswered = match link {
            Link::Fetching(_, fetches) => fetches,
            Link::AskingOffsets(_, asking, _) => vec![asking],
            Link::Down { .. } | Link::Connecting(_) | Link::Idle(_) => Vec::new(),
        };
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
        match std::mem::replace(&mut fetcher.link, Link::Idle(connection)) {
            Link::Fetching(_, fetches) => {
                let response = wire::parse_response(ApiKey::Fetch, FETCH_VERSION, frame);
                let Ok((_, Response::Fetch(response))) = response else {
                    fetcher.link = Link::Fetching(connection, fetches);
                    return self.give_up_on(io, connection);
                };
                let answers = response.topics.into_iter().flat_map(|topic| {
                    let id = topic.topic.id;
                    topic.partitions.into_iter().map(move |partition| (id, partition))
                });
                let mut answers: Vec<(TopicId, FetchPartitionResponse)> = answers.collect();
                for (slot, fetch) in fetches {
                    let Some(id) = self.replicas.get(slot).map(|replica| replica.id) else {
                        continue;
                    };
                    let found = answers.iter().position(|(topic, answer)| {
                        (*topic, answer.partition) == (id.topic, id.partition)
                    });
                    let answer = found.map(|index| answers.swap_remove(index).1);
                    self.take_in(io, slot, fetch, answer, received);
                }
            }
            Link::AskingOffsets(_, asking, start) => {
                let response =
                    wire::parse_response(ApiKey::ListOffsets, LIST_OFFSETS_VERSION, frame);
                let Ok((_, Response::ListOffsets(response))) = response else {
                    fetcher.link = Link::AskingOffsets(connection, asking, start);
                    return self.give_up_on(io, connection);
                };
                let answer = response.topics.first().and_then(|topic| topic.partitions.first());
                let offset = answer.map(|a| (ErrorCode::from_code(a.error_code), Offset(a.offset)));
                self.offset_found(io, leader, connection, asking, start, offset);
            }
            Link::Down { .. } | Link::Connecting(_) | Link::Idle(_) => {
                self.give_up_on(io, connection);
            }
        }
    }

    /// The leader's bytes make no sense: start over on a new connection.
    fn give_up_on(&mut self, io: &mut dyn Io, connection: ConnectionId) {
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

    // --- the leader's offsets, after OFFSET_OUT_OF_RANGE -------------------------------------------

    fn replica_asking_offsets(&self, leader: BrokerId) -> Option<usize> {
        let followed = &self.fetchers.by_leader.get(&leader)?.followed;
        let asks =
            |slot: &&usize| self.replicas.get(**slot).is_some_and(|r| r.wants_leader_offsets);
        followed.iter().find(asks).copied()
    }

    fn ask_offsets(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        slot: usize,
    ) {
        let Some(replica) = self.replicas.get_mut(slot) else { return };
        replica.wants_leader_offsets = false;
        let Some(leader_epoch) = replica.machine.leader_epoch() else { return };
        let fetch = FollowerFetch {
            leader,
            leader_epoch,
            offset: replica.machine.log_end_offset(),
            last_fetched_epoch: None,
            log_start_offset: replica.machine.log_start_offset(),
            not_before: MonotonicTime::ZERO,
        };
        self.ask_offset(io, leader, connection, (slot, fetch), EARLIEST, None);
    }

    fn ask_offset(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        asking: (usize, FollowerFetch),
        timestamp: i64,
        start: Option<Offset>,
    ) {
        let (slot, fetch) = asking;
        let Some(id) = self.replicas.get(slot).map(|replica| replica.id) else { return };
        let Some(name) = self.metadata.topic(id.topic).map(|topic| topic.name.clone()) else {
            return;
        };
        let partition = ListOffsetsPartition::default()
            .with_partition_index(id.partition.0)
            .with_current_leader_epoch(fetch.leader_epoch.0)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(kafka_protocol::messages::TopicName(name.into()))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(self.config.node_id.0.into())
            .with_topics(vec![topic]);
        let request = Request::ListOffsets(request);
        let frame = wire::encode_request(0, &self.client_id, LIST_OFFSETS_VERSION, &request);
        let Some(fetcher) = self.fetchers.by_leader.get_mut(&leader) else { return };
        fetcher.link = Link::AskingOffsets(connection, asking, start);
        match frame {
            Ok(frame) => io.send(connection, frame, &[]),
            Err(_) => self.give_up_on(io, connection),
        }
    }

    fn offset_found(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        asking: (usize, FollowerFetch),
        start: Option<Offset>,
        found: Option<(ErrorCode, Offset)>,
    ) {
        let (slot, fetch) = asking;
        match (found, start) {
            (Some((ErrorCode::None, offset)), None) => {
                self.ask_offset(io, leader, connection, asking, LATEST, Some(offset));
            }
            (Some((ErrorCode::None, log_end_offset)), Some(log_start_offset)) => {
                self.step(io, slot, Input::LeaderOffsets { log_start_offset, log_end_offset });
            }
            (failed, _) => {
                let error = failed.map_or(ErrorCode::UnknownServerError, |(error, _)| error);
                let request_leader_epoch = fetch.leader_epoch;
                self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
            }
        }
    }
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
