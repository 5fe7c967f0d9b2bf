//! Clients' requests: frames to parts by partition, parts' results back to one answer, in turn.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::InitProducerIdResponse;

use super::answers::{Answer, Answers, Turn};
use super::log_info::PendingLogInfo;
use super::message::{FetchPart, Fetched, Message, Part, ProducePart, ShardId, next_ticket};
use super::offsets::PendingOffsets;
use super::shard::Shard;
use crate::engine::{ConnectionId, Io};
use crate::protocol::partition::{Fetch, Fetcher};
use crate::types::{Acks, BrokerStamps, ErrorCode, MonotonicTime, Offset, TopicId, TopicPartition};
use crate::wire::{
    self, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic, FetchTopicResponse,
    HighWatermarkTrace, Listener, ProducePartitionResponse, ProduceRequest, ProduceResponse,
    ProduceTopicResponse, Request, RequestHead, Response,
};

/// Answers queued towards a client that does not read, before its requests wait too.
const UNSENT_BYTES_MAX: usize = 8 << 20;

/// One client connection.
#[derive(Default)]
struct Client {
    answers: Answers,
}

/// A request whose answer is not complete.
struct Pending {
    connection: ConnectionId,
    turn: Turn,
    head: RequestHead,
    work: Work,
}

enum Work {
    Produce(PendingProduce),
    Fetch(PendingFetch),
    Offsets(PendingOffsets),
    LogInfo(PendingLogInfo),
    Forwarded,
}

/// Where a part's result goes in the response.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) topic: usize,
    pub(super) partition: usize,
}

struct PendingProduce {
    acks: Acks,
    response: ProduceResponse,
    places: Vec<Place>,
    waiting: usize,
}

struct PendingFetch {
    response: FetchResponse,
    parts: Vec<PendingFetchPart>,
    waiting: usize,
    /// The parts without an answer were asked to answer with what they have.
    is_finishing: bool,
}

struct PendingFetchPart {
    place: Place,
    owner: ShardId,
    is_answered: bool,
}

/// A shard's clients and what they wait for.
#[derive(Default)]
pub(super) struct Requests {
    clients: HashMap<ConnectionId, Client>,
    pending: HashMap<u64, Pending>,
    tickets: u64,
    paused: HashSet<ConnectionId>,
    producer_ids: i64,
    /// A produce answer left since the last look.
    pub(super) has_answered_producer: bool,
}

impl Requests {
    pub(super) fn accepted(&mut self, connection: ConnectionId) {
        self.clients.insert(connection, Client::default());
    }

    pub(super) fn client_count(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn is_client(&self, connection: ConnectionId) -> bool {
        self.clients.contains_key(&connection)
    }

    /// Forgets a client; what is in flight for it runs to its end and is dropped.
    pub(super) fn closed(&mut self, connection: ConnectionId) -> bool {
        self.paused.remove(&connection);
        self.clients.remove(&connection).is_some()
    }

    fn take_turn(&mut self, connection: ConnectionId) -> Option<Turn> {
        self.clients.get_mut(&connection).map(|client| client.answers.take_turn())
    }

    fn insert(&mut self, pending: Pending) -> u64 {
        self.tickets = next_ticket(self.tickets);
        self.pending.insert(self.tickets, pending);
        self.tickets
    }
}

impl Shard {
    /// One request frame of a client.
    pub(super) fn request(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        frame: Bytes,
        received: MonotonicTime,
    ) {
        let (head, request) = match wire::parse_request(Listener::Broker, frame) {
            Ok(parsed) => parsed,
            Err(_) => {
                self.counters.malformed();
                self.requests.closed(connection);
                return io.close(connection);
            }
        };
        let Some(turn) = self.requests.take_turn(connection) else { return };
        let from = From { connection, turn, head };
        match request {
            Request::Produce(produce) => self.produce(io, from, produce, received),
            Request::Fetch(fetch) => self.fetch(io, from, fetch, received),
            Request::ListOffsets(list) => self.list_offsets(io, from, &list),
            Request::OffsetForLeaderEpoch(ask) => self.offset_for_leader_epoch(io, from, &ask),
            Request::GetReplicaLogInfo(ask) => self.replica_log_info(io, from, ask),
            Request::CreateTopics(_)
            | Request::DeleteTopics(_)
            | Request::ElectLeaders(_)
            | Request::DescribeQuorum(_)
            | Request::IncrementalAlterConfigs(_) => {
                let version = from.head.version;
                let ticket = self.wait_for(from, Work::Forwarded);
                let part = Part { origin: self.id, index: 0, ticket };
                let message = Message::Forward(part, version, request);
                self.deliver(io, Self::CONTROLLER_SHARD, message);
            }
            Request::Metadata(ask) => {
                let response = self.describe_metadata(&from.head, &ask);
                self.answer(io, from, &Response::Metadata(response));
            }
            Request::DescribeCluster(ask) => {
                let response = self.describe_cluster(ask.include_fenced_brokers);
                self.answer(io, from, &Response::DescribeCluster(response));
            }
            Request::DescribeConfigs(ask) => {
                let response = self.describe_configs(&ask);
                self.answer(io, from, &Response::DescribeConfigs(response));
            }
            Request::DescribeTopicPartitions(ask) => {
                let response = self.describe_topic_partitions(&ask);
                self.answer(io, from, &Response::DescribeTopicPartitions(response));
            }
            Request::InitProducerId(_) => {
                let response = self.init_producer_id();
                self.answer(io, from, &Response::InitProducerId(response));
            }
            Request::ApiVersions(_) | Request::UnsupportedApiVersions => {
                let response = wire::api_versions_response(Listener::Broker, &from.head, &request);
                self.answer(io, from, &Response::ApiVersions(response));
            }
            // `parse_request` lets none of these through on a broker's port.
            Request::AlterPartition(_)
            | Request::BrokerRegistration(_)
            | Request::BrokerHeartbeat(_)
            | Request::AllocateProducerIds(_) => {
                self.counters.malformed();
                self.requests.closed(connection);
                return io.close(connection);
            }
        }
        self.pause_if_behind(io, connection);
    }

    /// Ids unique to this life of this broker; producers' sequences are not checked.
    fn init_producer_id(&mut self) -> InitProducerIdResponse {
        self.requests.producer_ids += 1;
        let epoch = self.epoch.map_or(0, |epoch| epoch.0);
        let id = (epoch << 32) + (i64::from(self.id.0) << 24) + self.requests.producer_ids;
        InitProducerIdResponse::default().with_producer_id(id.into()).with_producer_epoch(0)
    }

    // --- produce ---------------------------------------------------------------------------------

    fn produce(
        &mut self,
        io: &mut dyn Io,
        from: From,
        request: ProduceRequest,
        received: MonotonicTime,
    ) {
        let acks = Acks::from_wire(request.acks);
        let deadline =
            received.plus(Duration::from_millis(request.timeout_ms.unsigned_abs().into()));
        let zstd_allowed = from.head.version >= 7;
        let (mut places, mut parts) = (Vec::new(), Vec::new());
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let id = self.metadata.topic_id(&topic.name);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for produced in topic.partitions {
                let partition = produced.partition;
                let refusal = match (acks, id) {
                    (None, _) => Some(ErrorCode::InvalidRequiredAcks),
                    (_, None) => Some(ErrorCode::UnknownTopicOrPartition),
                    _ if !zstd_allowed && is_zstd(&produced.records) => {
                        Some(ErrorCode::UnsupportedCompressionType)
                    }
                    _ => None,
                };
                if let (None, Some(acks), Some(id)) = (refusal, acks, id) {
                    places.push(Place { topic: topics.len(), partition: partitions.len() });
                    parts.push(ProducePart {
                        partition: TopicPartition { topic: id, partition },
                        acks,
                        records: produced.records,
                        deadline,
                        received,
                        wants_stamps: request.wants_stamps,
                    });
                }
                partitions.push(ProducePartitionResponse {
                    partition,
                    error: refusal.unwrap_or(ErrorCode::None),
                    base_offset: None,
                    log_start_offset: None,
                    error_message: None,
                    current_leader: None,
                    stamps: None,
                });
            }
            topics.push(ProduceTopicResponse { name: topic.name, partitions });
        }
        let pending = PendingProduce {
            acks: acks.unwrap_or(Acks::Leader),
            response: ProduceResponse { topics },
            waiting: parts.len(),
            places,
        };
        let ticket = self.wait_for(from, Work::Produce(pending));
        if parts.is_empty() {
            return self.complete(io, ticket);
        }
        for (index, part) in parts.into_iter().enumerate() {
            let owner = self.owner(part.partition.partition);
            let id = Part { origin: self.id, index: index as u32, ticket };
            self.deliver(io, owner, Message::Produce(id, part));
        }
    }

    pub(super) fn produced(
        &mut self,
        io: &mut dyn Io,
        part: Part,
        result: Result<Offset, ErrorCode>,
        stamps: Option<BrokerStamps>,
    ) {
        let Some(Pending { work: Work::Produce(produce), .. }) =
            self.requests.pending.get_mut(&part.ticket)
        else {
            return;
        };
        let place = produce.places[part.place()];
        let answer = &mut produce.response.topics[place.topic].partitions[place.partition];
        match result {
            Ok(base_offset) => answer.base_offset = Some(base_offset),
            Err(error) => answer.error = error,
        }
        answer.stamps = stamps;
        produce.waiting -= 1;
        if produce.waiting == 0 {
            self.complete(io, part.ticket);
        }
    }

    // --- fetch -----------------------------------------------------------------------------------

    fn fetch(
        &mut self,
        io: &mut dyn Io,
        from: From,
        request: FetchRequest,
        received: MonotonicTime,
    ) {
        let wait = Duration::from_millis(request.max_wait_ms.max(0).unsigned_abs().into());
        let deadline = match request.min_bytes {
            ..=0 => MonotonicTime::ZERO,
            _ => received.plus(wait),
        };
        let count: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let share = (request.max_bytes.max(0).unsigned_abs() as usize / count.max(1)).max(1);
        let (mut places, mut parts) = (Vec::new(), Vec::new());
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let (id, unknown) = self.resolve(from.head.version, topic);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let mut answer = no_records(asked.partition);
                match id {
                    None => answer.error = unknown,
                    Some(id) => {
                        let partition = TopicPartition { topic: id, partition: asked.partition };
                        let fetcher = match request.replica {
                            None => Fetcher::Consumer,
                            Some(replica) => Fetcher::Follower {
                                id: replica.id,
                                epoch: replica.epoch,
                                log_start_offset: asked.log_start_offset.unwrap_or(Offset(-1)),
                            },
                        };
                        let owner = self.owner(asked.partition);
                        let place = Place { topic: topics.len(), partition: partitions.len() };
                        places.push(PendingFetchPart { place, owner, is_answered: false });
                        let asked_bytes = asked.partition_max_bytes.max(0).unsigned_abs() as usize;
                        let durable_offset =
                            asked.durable_offset.filter(|_| request.replica.is_some());
                        parts.push(FetchPart {
                            partition,
                            fetch: Fetch {
                                fetcher,
                                offset: asked.fetch_offset,
                                current_leader_epoch: asked.current_leader_epoch,
                                last_fetched_epoch: asked.last_fetched_epoch,
                                durable_offset,
                                wants_records: durable_offset.is_none() || asked_bytes > 0,
                            },
                            deadline,
                            bytes_max: asked_bytes.min(share),
                            received,
                            follower_stamps: asked.stamps,
                            wants_steps: request.trace_high_watermark,
                        });
                    }
                }
                partitions.push(answer);
            }
            topics.push(FetchTopicResponse { topic: topic.topic.clone(), partitions });
        }
        let refused = parts.len() < count;
        let response = FetchResponse { error: ErrorCode::None, session_id: 0, topics };
        let waiting = parts.len();
        let pending = PendingFetch { response, parts: places, waiting, is_finishing: refused };
        let ticket = self.wait_for(from, Work::Fetch(pending));
        if parts.is_empty() {
            return self.complete(io, ticket);
        }
        for (index, mut part) in parts.into_iter().enumerate() {
            // A part before it may have had news at once: then this one must not wait for its own.
            if self.is_finishing(ticket) {
                part.deadline = MonotonicTime::ZERO;
            }
            let owner = self.owner(part.partition.partition);
            let id = Part { origin: self.id, index: index as u32, ticket };
            self.deliver(io, owner, Message::Fetch(id, part));
        }
    }

    /// Whether a fetch is answered as soon as all of its parts are, with what there is.
    fn is_finishing(&self, ticket: u64) -> bool {
        let pending = self.requests.pending.get(&ticket);
        matches!(pending, Some(Pending { work: Work::Fetch(fetch), .. }) if fetch.is_finishing)
    }

    /// The topic's id, or the error for a topic this broker does not know.
    fn resolve(&self, version: i16, topic: &FetchTopic) -> (Option<TopicId>, ErrorCode) {
        const TOPIC_IDS_FROM: i16 = 13;
        if version < TOPIC_IDS_FROM {
            (self.metadata.topic_id(&topic.topic.name), ErrorCode::UnknownTopicOrPartition)
        } else {
            let known = self.metadata.topic(topic.topic.id).map(|topic| topic.id);
            (known, ErrorCode::UnknownTopicId)
        }
    }

    pub(super) fn fetched(&mut self, io: &mut dyn Io, part: Part, fetched: Fetched) {
        let clock = self.clock;
        let Some(Pending { work: Work::Fetch(fetch), .. }) =
            self.requests.pending.get_mut(&part.ticket)
        else {
            return;
        };
        let Fetched { answer, records, steps } = fetched;
        let has_news =
            !records.is_empty() || answer.error != ErrorCode::None || answer.diverging.is_some();
        let pending = &mut fetch.parts[part.place()];
        pending.is_answered = true;
        let place = pending.place;
        let response = &mut fetch.response.topics[place.topic].partitions[place.partition];
        response.error = answer.error;
        response.high_watermark = known(answer.high_watermark);
        response.log_start_offset = known(answer.log_start_offset);
        response.diverging = answer.diverging;
        response.records = records;
        response.trace = (!steps.is_empty()).then_some(HighWatermarkTrace { clock, steps });
        fetch.waiting -= 1;
        if fetch.waiting == 0 {
            return self.complete(io, part.ticket);
        }
        if has_news && !fetch.is_finishing {
            fetch.is_finishing = true;
            let open: Vec<(Part, ShardId)> = (0..)
                .zip(&fetch.parts)
                .filter(|(_, other)| !other.is_answered)
                .map(|(index, other)| (Part { index, ..part }, other.owner))
                .collect();
            for (part, owner) in open {
                self.deliver(io, owner, Message::FinishFetch(part));
            }
        }
    }

    // --- offsets, forwarded ----------------------------------------------------------------------

    pub(super) fn wait_for_offsets(&mut self, from: From, pending: PendingOffsets) -> u64 {
        self.wait_for(from, Work::Offsets(pending))
    }

    pub(super) fn pending_offsets(&mut self, ticket: u64) -> Option<&mut PendingOffsets> {
        match self.requests.pending.get_mut(&ticket) {
            Some(Pending { work: Work::Offsets(offsets), .. }) => Some(offsets),
            _ => None,
        }
    }

    pub(super) fn wait_for_log_info(&mut self, from: From, pending: PendingLogInfo) -> u64 {
        self.wait_for(from, Work::LogInfo(pending))
    }

    pub(super) fn pending_log_info(&mut self, ticket: u64) -> Option<&mut PendingLogInfo> {
        match self.requests.pending.get_mut(&ticket) {
            Some(Pending { work: Work::LogInfo(log_info), .. }) => Some(log_info),
            _ => None,
        }
    }

    /// The controller's response to a forwarded request; without one the client has to ask again.
    pub(super) fn forwarded(&mut self, io: &mut dyn Io, part: Part, response: Option<Response>) {
        let Some(Pending { connection, turn, head, .. }) =
            self.requests.pending.remove(&part.ticket)
        else {
            return;
        };
        match response {
            Some(response) => self.answer(io, From { connection, turn, head }, &response),
            None => {
                self.requests.closed(connection);
                io.close(connection);
            }
        }
    }

    // --- answering -------------------------------------------------------------------------------

    fn wait_for(&mut self, from: From, work: Work) -> u64 {
        let From { connection, turn, head } = from;
        self.requests.insert(Pending { connection, turn, head, work })
    }

    /// Every part is in: the answer leaves when its turn has come.
    pub(super) fn complete(&mut self, io: &mut dyn Io, ticket: u64) {
        let Some(Pending { connection, turn, head, work }) = self.requests.pending.remove(&ticket)
        else {
            return;
        };
        let answer = match work {
            Work::Produce(PendingProduce { acks: Acks::None, response, .. }) => {
                return self.complete_without_acks(io, connection, turn, &response);
            }
            Work::Produce(PendingProduce { mut response, .. }) => {
                let answered = io.now();
                let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
                for stamps in partitions.filter_map(|partition| partition.stamps.as_mut()) {
                    stamps.answered = answered;
                }
                self.requests.has_answered_producer = true;
                Answer::Frame(vec![wire::encode_produce_response(&head, &response)])
            }
            Work::Fetch(fetch) => {
                Answer::Frame(wire::encode_fetch_response(&head, &fetch.response))
            }
            Work::Offsets(offsets) => {
                return self.answer(io, From { connection, turn, head }, &offsets.into_response());
            }
            Work::LogInfo(log_info) => {
                return self.answer(io, From { connection, turn, head }, &log_info.into_response());
            }
            Work::Forwarded => return,
        };
        self.send_answer(io, connection, turn, answer);
    }

    /// `acks=0` has no answer; an error can only be told by closing the connection.
    fn complete_without_acks(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        turn: Turn,
        response: &ProduceResponse,
    ) {
        let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        if partitions.any(|partition| partition.error != ErrorCode::None) {
            self.requests.closed(connection);
            io.close(connection);
        } else {
            self.send_answer(io, connection, turn, Answer::Silence);
        }
    }

    pub(super) fn answer(&mut self, io: &mut dyn Io, from: From, response: &Response) {
        match wire::encode_response(&from.head, response) {
            Ok(frame) => {
                self.send_answer(io, from.connection, from.turn, Answer::Frame(vec![frame]));
            }
            Err(_) => {
                self.counters.malformed();
                self.requests.closed(from.connection);
                io.close(from.connection);
            }
        }
    }

    fn send_answer(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        turn: Turn,
        answer: Answer,
    ) {
        let Some(client) = self.requests.clients.get_mut(&connection) else { return };
        client.answers.ready(turn, answer);
        while let Some(answer) = client.answers.next() {
            if let Answer::Frame(mut pieces) = answer {
                let head = if pieces.is_empty() { Bytes::new() } else { pieces.remove(0) };
                io.send(connection, head, &pieces);
            }
        }
    }

    // --- backpressure ----------------------------------------------------------------------------

    /// A client with too much unanswered, or unread, is not read from until it has caught up.
    fn pause_if_behind(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        if self.is_behind(io, connection) && self.requests.paused.insert(connection) {
            io.pause_reading(connection, true);
        }
    }

    fn is_behind(&self, io: &dyn Io, connection: ConnectionId) -> bool {
        let Some(client) = self.requests.clients.get(&connection) else { return false };
        client.answers.owed() >= self.config.in_flight_requests_max
            || io.unsent_bytes(connection) > UNSENT_BYTES_MAX
            || self.replicas.undurable_bytes() > self.config.undurable_bytes_max
    }

    pub(super) fn resume_paused(&mut self, io: &mut dyn Io) {
        if self.requests.paused.is_empty() {
            return;
        }
        let caught_up: Vec<ConnectionId> = self
            .requests
            .paused
            .iter()
            .copied()
            .filter(|&connection| !self.is_behind(io, connection))
            .collect();
        for connection in caught_up {
            self.requests.paused.remove(&connection);
            io.pause_reading(connection, false);
        }
    }
}

/// Whose request, and where its answer goes.
pub(super) struct From {
    pub(super) connection: ConnectionId,
    pub(super) turn: Turn,
    pub(super) head: RequestHead,
}

fn known(offset: Offset) -> Option<Offset> {
    (offset >= Offset::ZERO).then_some(offset)
}

fn no_records(partition: crate::types::PartitionId) -> FetchPartitionResponse {
    FetchPartitionResponse {
        partition,
        error: ErrorCode::None,
        high_watermark: None,
        log_start_offset: None,
        diverging: None,
        current_leader: None,
        records: Vec::new(),
        trace: None,
    }
}

/// The compression type lies in the low bits of the attributes, at a fixed place in the header.
fn is_zstd(records: &[u8]) -> bool {
    const ATTRIBUTES_AT: usize = 22;
    const ZSTD: u8 = 4;
    records.get(ATTRIBUTES_AT).is_some_and(|attributes| attributes & 7 == ZSTD)
}
