//! A cluster and an engine in virtual time: the cell under test runs as in production, but its
//! clock moves only when nothing is left to do, and brokers are a few lines each.

use std::cell::Cell as Counter;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId as WireBrokerId, CreateTopicsResponse, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::engine::{App, CloseReason, ConnectionId, Event, FileId, Io, OperationId, Waker, Write};
use crate::measure::clock;
use crate::record;
use crate::types::{
    BrokerStamps, ClockId, ErrorCode, HighWatermarkStep, LeaderEpoch, MonotonicTime, Offset,
    PartitionId,
};
use crate::wire::{
    self, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
    HighWatermarkTrace, Listener, ProducePartitionResponse, ProduceRequest, ProduceResponse,
    ProduceTopicResponse, Request, RequestHead, Response,
};

/// What handing a frame to the socket costs, so that time passes even if nothing is waited for.
const SEND_NS: u64 = 1_000;
/// What a turn of the event loop costs.
const TURN_NS: u64 = 500;
const CONNECT_NS: u64 = 50_000;
/// From a broker's death to the election of other leaders.
const ELECTION_NS: u64 = 200_000_000;
const TURNS_MAX: u64 = 5_000_000;

enum Item {
    Deliver(Event),
    ParkedLongEnough(ConnectionId),
    Kill(usize),
    Restart(usize),
    Elect,
}

#[derive(Default)]
pub struct Log {
    pub batches: Vec<Bytes>,
    pub end: i64,
    steps: Vec<HighWatermarkStep>,
    leader: usize,
}

struct Parked {
    head: RequestHead,
    request: FetchRequest,
}

/// Brokers, their one topic, and the engine the app under test sees.
pub struct Fake {
    now_ns: Counter<u64>,
    order: u64,
    items: BTreeMap<(u64, u64), Item>,
    connections: BTreeMap<ConnectionId, usize>,
    opened: u64,
    parked: BTreeMap<ConnectionId, Parked>,
    is_alive: Vec<bool>,
    /// Where broker 0 listens; the others on the ports after it.
    pub port: u16,
    pub logs: Vec<Log>,
    topic: StrBytes,
    /// From a request to its answer.
    pub answer_ns: u64,
    /// Answers due in this span are late: they leave at its end.
    pub stall: Option<(u64, u64)>,
    /// Nobody runs in this span, the driver neither: it was stopped by a signal.
    pub freeze: Option<(u64, u64)>,
    /// The next produce requests get these codes instead of an append.
    pub refuse: VecDeque<ErrorCode>,
    /// Added to the brokers' instants: a clock that is not the driver's.
    pub skew_ns: i64,
    /// The brokers' clock.
    pub clock: ClockId,
    /// Whether produce answers ever come.
    pub answers: bool,
    pub produce_requests: u64,
}

impl Fake {
    pub fn new(brokers: usize) -> Fake {
        Fake {
            now_ns: Counter::new(1_000_000_000),
            order: 0,
            items: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            parked: BTreeMap::new(),
            is_alive: vec![true; brokers],
            port: 9_000,
            logs: Vec::new(),
            topic: StrBytes::new(),
            answer_ns: 100_000,
            stall: None,
            freeze: None,
            refuse: VecDeque::new(),
            skew_ns: 0,
            clock: clock::clock_id(),
            answers: true,
            produce_requests: 0,
        }
    }

    /// Where broker `broker` listens.
    pub fn address(&self, broker: usize) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port + broker as u16)
    }

    pub fn kill_at(&mut self, broker: usize, at_ns: u64) {
        self.at(at_ns, Item::Kill(broker));
    }

    pub fn restart_at(&mut self, broker: usize, at_ns: u64) {
        self.at(at_ns, Item::Restart(broker));
    }

    /// Hosts `app` until it is finished.
    pub fn run<A: App>(&mut self, mut app: A) -> A {
        app.start(self);
        for _ in 0..TURNS_MAX {
            app.on_batch_end(self);
            if app.is_finished() {
                return app;
            }
            let deadline_ns = app.deadline().map(|deadline| deadline.0);
            let item_ns = self.items.first_key_value().map(|((at_ns, _), _)| *at_ns);
            let next_ns = [deadline_ns, item_ns].into_iter().flatten().min();
            let next_ns = next_ns.expect("the app waits for nothing");
            self.now_ns.set(next_ns.max(self.now_ns.get() + TURN_NS));
            if let Some((from_ns, until_ns)) = self.freeze
                && (from_ns..until_ns).contains(&self.now_ns.get())
            {
                self.now_ns.set(until_ns);
            }
            if deadline_ns.is_some_and(|deadline_ns| deadline_ns <= self.now_ns.get()) {
                app.on_event(self, Event::Deadline);
            }
            while let Some(event) = self.next_event() {
                app.on_event(self, event);
            }
        }
        panic!("the app is not finished after {TURNS_MAX} turns");
    }

    fn next_event(&mut self) -> Option<Event> {
        while self.items.first_key_value()?.0.0 <= self.now_ns.get() {
            match self.items.pop_first()?.1 {
                Item::Deliver(event) => return Some(event),
                Item::ParkedLongEnough(connection) => self.answer_parked(connection),
                Item::Kill(broker) => self.kill(broker),
                Item::Restart(broker) => self.is_alive[broker] = true,
                Item::Elect => self.elect(),
            }
        }
        None
    }

    /// Serves one request that came over a real socket at `now`, and takes the answers that it, or
    /// a fetch it woke, has: they are due at once.
    pub fn serve(
        &mut self,
        connection: ConnectionId,
        frame: Bytes,
        now: MonotonicTime,
    ) -> Vec<(ConnectionId, BytesMut)> {
        self.now_ns.set(now.0);
        self.on_request(connection, 0, frame);
        let items = std::mem::take(&mut self.items);
        let answers = items.into_values().filter_map(|item| match item {
            Item::Deliver(Event::Frame { connection, frame, .. }) => Some((connection, frame)),
            _ => None,
        });
        answers.collect()
    }

    fn at(&mut self, at_ns: u64, item: Item) {
        self.order += 1;
        self.items.insert((at_ns, self.order), item);
    }

    fn after(&mut self, delay_ns: u64, item: Item) {
        self.at(self.now_ns.get() + delay_ns, item);
    }

    fn kill(&mut self, broker: usize) {
        self.is_alive[broker] = false;
        let gone = self.connections.iter().filter(|(_, of)| **of == broker);
        let gone: Vec<ConnectionId> = gone.map(|(connection, _)| *connection).collect();
        for connection in gone {
            self.connections.remove(&connection);
            self.parked.remove(&connection);
            self.items.retain(|_, item| match item {
                Item::Deliver(Event::Frame { connection: of, .. }) => *of != connection,
                _ => true,
            });
            let reason = CloseReason::Orderly;
            self.after(0, Item::Deliver(Event::Closed { connection, reason }));
        }
        self.after(ELECTION_NS, Item::Elect);
    }

    fn elect(&mut self) {
        let alive = self.is_alive.iter().position(|alive| *alive).unwrap_or(0);
        for log in &mut self.logs {
            if !self.is_alive[log.leader] {
                log.leader = alive;
            }
        }
    }

    fn answer(&mut self, connection: ConnectionId, pieces: &[Bytes]) {
        let frame = BytesMut::from(pieces.concat().as_slice());
        let mut at_ns = self.now_ns.get() + self.answer_ns;
        if let Some((from_ns, until_ns)) = self.stall
            && (from_ns..until_ns).contains(&at_ns)
        {
            at_ns = until_ns;
        }
        let received = MonotonicTime(at_ns);
        self.at(at_ns, Item::Deliver(Event::Frame { connection, frame, received }));
    }

    fn answer_parked(&mut self, connection: ConnectionId) {
        if let Some(Parked { head, request }) = self.parked.remove(&connection) {
            let response = self.fetched(&request);
            self.answer(connection, &wire::encode_fetch_response(&head, &response));
        }
    }

    fn on_request(&mut self, connection: ConnectionId, broker: usize, frame: Bytes) {
        let (head, request) = wire::parse_request(Listener::Broker, frame).unwrap();
        let response = match request {
            Request::Produce(request) => {
                return self.on_produce(connection, broker, &head, &request);
            }
            Request::Fetch(request) => return self.on_fetch(connection, head, request),
            Request::ApiVersions(_) => {
                let response = wire::api_versions_response(Listener::Broker, &head, &request);
                Response::ApiVersions(response)
            }
            Request::CreateTopics(request) => {
                let topic = &request.topics[0];
                self.topic = topic.name.0.clone();
                let brokers = self.is_alive.len();
                let log =
                    |partition: i32| Log { leader: partition as usize % brokers, ..Log::default() };
                self.logs = (0..topic.num_partitions).map(log).collect();
                let result = CreatableTopicResult::default().with_name(topic.name.clone());
                Response::CreateTopics(CreateTopicsResponse::default().with_topics(vec![result]))
            }
            Request::Metadata(_) => Response::Metadata(self.metadata()),
            other => panic!("{other:?}"),
        };
        let answer = wire::encode_response(&head, &response).unwrap();
        self.answer(connection, &[answer]);
    }

    fn metadata(&self) -> MetadataResponse {
        let brokers = (0..self.is_alive.len()).filter(|broker| self.is_alive[*broker]);
        let brokers = brokers.map(|broker| {
            let address = self.address(broker);
            MetadataResponseBroker::default()
                .with_node_id(WireBrokerId(broker as i32))
                .with_host(StrBytes::from_string(address.ip().to_string()))
                .with_port(i32::from(address.port()))
        });
        let partitions = (0_i32..).zip(&self.logs).map(|(index, log)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(WireBrokerId(log.leader as i32))
                .with_replica_nodes(vec![WireBrokerId(log.leader as i32)])
                .with_isr_nodes(vec![WireBrokerId(log.leader as i32)])
        });
        let topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(self.topic.clone())))
            .with_partitions(partitions.collect());
        MetadataResponse::default().with_brokers(brokers.collect()).with_topics(vec![topic])
    }

    fn on_produce(
        &mut self,
        connection: ConnectionId,
        broker: usize,
        head: &RequestHead,
        request: &ProduceRequest,
    ) {
        self.produce_requests += 1;
        let topic = &request.topics[0];
        let sent = &topic.partitions[0];
        let log = &self.logs[sent.partition.0 as usize];
        let error = if log.leader != broker {
            ErrorCode::NotLeaderOrFollower
        } else {
            self.refuse.pop_front().unwrap_or(ErrorCode::None)
        };
        let base_offset = Offset(log.end);
        if error == ErrorCode::None {
            self.append(sent.partition, &sent.records);
        }
        if request.acks == 0 || !self.answers {
            return;
        }
        let partition = ProducePartitionResponse {
            partition: sent.partition,
            error,
            base_offset: (error == ErrorCode::None).then_some(base_offset),
            log_start_offset: Some(Offset::ZERO),
            error_message: None,
            current_leader: None,
            stamps: Some(self.stamps()),
        };
        let topic = ProduceTopicResponse { name: topic.name.clone(), partitions: vec![partition] };
        let response = ProduceResponse { topics: vec![topic] };
        self.answer(connection, &[wire::encode_produce_response(head, &response)]);
    }

    fn append(&mut self, partition: PartitionId, batch: &Bytes) {
        let header = record::validate_produced(batch, usize::MAX).unwrap();
        let at = self.broker_time(self.answer_ns / 2);
        let log = &mut self.logs[partition.0 as usize];
        let mut stamped = batch.to_vec();
        record::stamp(&mut stamped, Offset(log.end), LeaderEpoch(0));
        log.batches.push(Bytes::from(stamped));
        log.end += i64::from(header.record_count);
        log.steps.push(HighWatermarkStep { high_watermark: Offset(log.end), at });
        let parked: Vec<ConnectionId> = self.parked.keys().copied().collect();
        parked.into_iter().for_each(|connection| self.answer_parked(connection));
    }

    fn broker_time(&self, after_ns: u64) -> MonotonicTime {
        MonotonicTime((self.now_ns.get() + after_ns).saturating_add_signed(self.skew_ns))
    }

    fn stamps(&self) -> BrokerStamps {
        let step = |index: u64| self.broker_time(index * self.answer_ns / 16);
        BrokerStamps {
            clock: self.clock,
            received: step(1),
            append_started: step(2),
            appended: step(3),
            follower_served: step(4),
            follower_received: step(5),
            follower_appended: step(6),
            follower_durable: step(7),
            follower_acknowledged: step(8),
            durable: step(8),
            committed: step(8),
            answered: step(9),
        }
    }

    fn on_fetch(&mut self, connection: ConnectionId, head: RequestHead, request: FetchRequest) {
        let wait_ns = u64::from(request.max_wait_ms.unsigned_abs()) * 1_000_000;
        self.parked.insert(connection, Parked { head, request });
        let request = &self.parked[&connection].request;
        let has_data = request.topics[0]
            .partitions
            .iter()
            .any(|asked| asked.fetch_offset.0 < self.logs[asked.partition.0 as usize].end);
        if has_data {
            self.answer_parked(connection);
        } else {
            self.after(wait_ns, Item::ParkedLongEnough(connection));
        }
    }

    fn fetched(&self, request: &FetchRequest) -> FetchResponse {
        let topic = &request.topics[0];
        let partitions = topic.partitions.iter().map(|asked| {
            let log = &self.logs[asked.partition.0 as usize];
            let wanted = |batch: &&Bytes| {
                record::parse_batch(batch)
                    .is_ok_and(|batch| batch.end_offset() > asked.fetch_offset)
            };
            let later = |step: &&HighWatermarkStep| step.high_watermark > asked.fetch_offset;
            let steps = log.steps.iter().rev().take_while(later).copied().collect::<Vec<_>>();
            let steps = steps.into_iter().rev().collect();
            FetchPartitionResponse {
                partition: asked.partition,
                error: ErrorCode::None,
                high_watermark: Some(Offset(log.end)),
                log_start_offset: Some(Offset::ZERO),
                diverging: None,
                current_leader: None,
                records: log
                    .batches
                    .iter()
                    .rev()
                    .take_while(wanted)
                    .cloned()
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect(),
                trace: Some(HighWatermarkTrace { clock: self.clock, steps }),
            }
        });
        let topic =
            FetchTopicResponse { topic: topic.topic.clone(), partitions: partitions.collect() };
        FetchResponse { error: ErrorCode::None, session_id: 0, topics: vec![topic] }
    }
}

impl Io for Fake {
    fn now(&self) -> MonotonicTime {
        MonotonicTime(self.now_ns.get())
    }

    fn connect(&mut self, address: SocketAddr) -> ConnectionId {
        self.opened += 1;
        let connection = ConnectionId(self.opened);
        let broker = usize::from(address.port() - self.port);
        let event = if self.is_alive[broker] {
            self.connections.insert(connection, broker);
            Event::Connected { connection }
        } else {
            Event::Closed { connection, reason: CloseReason::Orderly }
        };
        self.after(CONNECT_NS, Item::Deliver(event));
        connection
    }

    fn send(&mut self, connection: ConnectionId, head: Bytes, payload: &[Bytes]) {
        self.now_ns.set(self.now_ns.get() + SEND_NS);
        if let Some(broker) = self.connections.get(&connection).copied() {
            let frame = [std::slice::from_ref(&head), payload].concat().concat();
            self.on_request(connection, broker, Bytes::from(frame));
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.parked.remove(&connection);
    }

    fn unsent_bytes(&self, _connection: ConnectionId) -> usize {
        0
    }

    fn pause_reading(&mut self, _connection: ConnectionId, _paused: bool) {}

    fn listen(&mut self, _address: SocketAddr) -> std::io::Result<SocketAddr> {
        unreachable!("the driver does not listen")
    }

    fn register_file(&mut self, _file: OwnedFd, _direct: bool) -> FileId {
        unreachable!("the driver has no files")
    }

    fn close_file(&mut self, _file: FileId) {
        unreachable!("the driver has no files")
    }

    fn submit_write(&mut self, _write: Write) -> Option<std::io::Result<()>> {
        unreachable!("the driver has no files")
    }

    fn submit_read(&mut self, _: OperationId, _: FileId, _: u64, _: usize) {
        unreachable!("the driver has no files")
    }

    fn waker(&self) -> Waker {
        unreachable!("the driver is woken by nobody")
    }
}
