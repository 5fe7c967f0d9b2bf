//! Shard 0's link to the controller: registration and heartbeats, the metadata log as it grows, ISR
//! proposals of all shards, and requests passed on for clients.
//!
//! What to send and when is decided by `protocol::broker`; this file carries it. Of several
//! controllers it stays with one until that one is gone, is silent for too long (its network may be;
//! TCP alone would not tell for minutes) or says that it is not the active one, then takes the next in
//! turn, for both connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::alter_partition_request::{
    BrokerState as IsrMember, PartitionData, TopicData,
};
use kafka_protocol::messages::broker_registration_request::{Feature, Listener as Endpoint};
use kafka_protocol::messages::{
    AlterPartitionRequest, AlterPartitionResponse, BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
};
use uuid::Uuid;

use super::BrokerError;
use super::message::{Message, Part};
use super::room;
use super::shard::Shard;
use crate::config::node::BrokerConfig;
use crate::engine::{ConnectionId, Io};
use crate::node::clean_shutdown::{LastStop, LastStopError};
use crate::node::{announce, clean_shutdown, tell};
use crate::protocol::broker::{
    IsrProposals, IsrProposalsInput, IsrProposalsOutput, Lifecycle, LifecycleInput,
    LifecycleOutput, LifecycleState, PartitionAnswer,
};
use crate::protocol::controller::{AlterPartition, Heartbeat, HeartbeatReply, Registration};
use crate::protocol::metadata::{self, DirectoryId, FeatureRange, IncarnationId, Record};
use crate::protocol::partition::{IsrCommitted, IsrProposal};
use crate::record;
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset, PartitionEpoch,
    PartitionId, TopicId, TopicPartition,
};
use crate::wire::{
    self, ApiKey, FetchPartition, FetchRequest, FetchTopic, FetchingReplica, Request, Response,
    TopicRef,
};

/// Pause before a broken connection is tried again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(50);
/// A controller that says nothing for so long, though asked, is given up: Kafka's
/// `controller.quorum.request.timeout.ms`. The metadata log's long poll is answered more often.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// A stop that the controller does not answer ends anyway after this long.
const SHUTDOWN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Kafka's wait for new metadata records.
const METADATA_FETCH_WAIT_MS: i32 = 500;
const METADATA_FETCH_BYTES_MAX: i32 = 8 << 20;
const FETCH_VERSION: i16 = 17;
const REGISTRATION_VERSION: i16 = 4;
const HEARTBEAT_VERSION: i16 = 1;
const ALTER_PARTITION_VERSION: i16 = 3;
/// Kafka's name of the listener that clients and followers use.
const LISTENER: &str = "PLAINTEXT";

/// One connection to the controller.
#[derive(Debug)]
enum Channel {
    Down { retry_at: MonotonicTime },
    Connecting(ConnectionId),
    Up(ConnectionId),
}

impl Channel {
    fn id(&self) -> Option<ConnectionId> {
        match self {
            Channel::Down { .. } => None,
            Channel::Connecting(id) | Channel::Up(id) => Some(*id),
        }
    }

    fn up(&self) -> Option<ConnectionId> {
        match self {
            Channel::Up(id) => Some(*id),
            Channel::Down { .. } | Channel::Connecting(_) => None,
        }
    }

    fn retry_at(&self) -> Option<MonotonicTime> {
        match self {
            Channel::Down { retry_at } => Some(*retry_at),
            Channel::Connecting(_) | Channel::Up(_) => None,
        }
    }
}

/// A request the controller has not answered.
enum Asked {
    Registration,
    Heartbeat,
    /// And when it left.
    AlterPartition(MonotonicTime),
    Forward(Part, ApiKey, i16),
}

/// See the module.
pub(super) struct ControllerLink {
    addresses: Vec<SocketAddr>,
    /// Which of them is believed to be active; counts on past the end.
    turn: usize,
    /// The last registration or heartbeat, for the next controller if this one passes it on.
    lifecycle_frame: Bytes,
    /// This one did.
    passed_on: Option<Asked>,
    registration: Registration,
    /// Where metrics are served; told together with the broker's own address.
    metrics: Option<SocketAddr>,
    heartbeat_interval: Duration,
    /// Set once the broker listens.
    lifecycle: Option<Lifecycle>,
    proposals: IsrProposals,
    /// When the AlterPartition request left that was answered last.
    answered_sent_at: MonotonicTime,
    /// Registration, heartbeats, AlterPartition, forwarded requests; answered in order.
    requests: Channel,
    asked: VecDeque<Asked>,
    /// The metadata log: its long poll must not hold up the requests.
    feed: Channel,
    metadata_end: Offset,
    /// Over either connection; or when one was begun, or asked while it owed nothing.
    last_heard: MonotonicTime,
    shutdown_deadline: Option<MonotonicTime>,
    lifecycle_outputs: Vec<LifecycleOutput>,
    proposal_outputs: Vec<IsrProposalsOutput>,
}

impl ControllerLink {
    /// Reads (and takes away) the mark of the last clean shutdown.
    pub(super) fn new(
        config: &BrokerConfig,
        data_directory: DirectoryId,
        metrics: Option<SocketAddr>,
    ) -> Result<ControllerLink, BrokerError> {
        let failed = |source| BrokerError::DataDirectory { path: config.data_dir.clone(), source };
        let LastStop { previous_epoch, damaged, damages, unusable_marker } =
            clean_shutdown::take_marker(&config.data_dir).map_err(|error| match error {
                LastStopError::Io(source) => failed(source),
                LastStopError::Storage(error) => error.into(),
            })?;
        if let Some(why) = unusable_marker {
            tell(format_args!("the last stop counts as unclean: {why}"));
        }
        for damage in damages {
            tell(format_args!("not as the last clean stop left it: {damage}"));
        }
        let registration = Registration {
            broker: config.node_id,
            cluster_id: config.cluster_id.clone(),
            incarnation: IncarnationId(Uuid::new_v4().into_bytes()),
            endpoints: Vec::new(),
            features: features(),
            rack: None,
            log_dirs: vec![data_directory],
            previous_epoch,
            damaged,
        };
        Ok(ControllerLink {
            addresses: config.controllers.clone(),
            turn: 0,
            lifecycle_frame: Bytes::new(),
            passed_on: None,
            registration,
            metrics,
            heartbeat_interval: config.heartbeat_interval,
            lifecycle: None,
            proposals: IsrProposals::new(config.node_id).under(config.alter_partition),
            answered_sent_at: MonotonicTime::ZERO,
            requests: Channel::Down { retry_at: MonotonicTime::ZERO },
            asked: VecDeque::new(),
            feed: Channel::Down { retry_at: MonotonicTime::ZERO },
            metadata_end: Offset::ZERO,
            last_heard: MonotonicTime::ZERO,
            shutdown_deadline: None,
            lifecycle_outputs: Vec::new(),
            proposal_outputs: Vec::new(),
        })
    }

    fn address(&self) -> SocketAddr {
        self.addresses[self.turn % self.addresses.len()]
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let lifecycle = self.lifecycle.as_ref();
        let is_up = self.requests.up().is_some();
        let wants_feed = lifecycle.is_some_and(|lifecycle| lifecycle.epoch().is_some());
        [
            self.requests.retry_at().filter(|_| lifecycle.is_some()),
            self.feed.retry_at().filter(|_| wants_feed),
            lifecycle.and_then(Lifecycle::deadline).filter(|_| is_up),
            self.proposals.deadline().filter(|_| is_up),
            self.silence_deadline(),
            self.shutdown_deadline,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When the controller has been silent for too long, if it owes an answer or a connection.
    fn silence_deadline(&self) -> Option<MonotonicTime> {
        // The metadata log is always asked for more.
        let owes_feed = self.feed.id().is_some();
        let owes_answer = match self.requests {
            Channel::Connecting(_) => true,
            Channel::Up(_) => !self.asked.is_empty(),
            Channel::Down { .. } => false,
        };
        (owes_feed || owes_answer).then(|| self.last_heard.plus(SILENCE_MAX))
    }
}

/// What this product supports, in Kafka's feature terms.
fn features() -> Vec<FeatureRange> {
    let range = |name: &str, min, max| FeatureRange { name: name.to_owned(), min, max };
    vec![range(metadata::METADATA_VERSION_FEATURE, 7, 27), range(metadata::ELR_FEATURE, 0, 2)]
}

impl Shard {
    /// The broker listens: from now on it may be registered.
    pub(super) fn start_controller_link(&mut self, io: &mut dyn Io, bound: SocketAddr) {
        let metrics = self.controller.as_ref().and_then(|link| link.metrics);
        if let Err(source) = announce(bound, metrics) {
            self.fail(BrokerError::System { operation: "announce the address", source });
        }
        let now = io.now();
        let bound = self.config.advertised.unwrap_or(bound);
        if let Some(link) = &mut self.controller {
            link.registration.endpoints = vec![metadata::Endpoint {
                name: LISTENER.to_owned(),
                host: bound.ip().to_string(),
                port: bound.port(),
                security_protocol: 0,
            }];
            let lifecycle = Lifecycle::new(link.registration.clone(), link.heartbeat_interval, now);
            link.lifecycle = Some(lifecycle);
        }
        self.tick_controller(io);
    }

    /// Everything whose time has come.
    pub(super) fn tick_controller(&mut self, io: &mut dyn Io) {
        let now = io.now();
        let Some(link) = &mut self.controller else { return };
        if link.shutdown_deadline.is_some_and(|at| at <= now) {
            return self.close();
        }
        let Some(lifecycle) = &link.lifecycle else { return };
        let is_registered = lifecycle.epoch().is_some();
        if link.silence_deadline().is_some_and(|at| at <= now) {
            // Once: that they are closed is told later.
            link.last_heard = now;
            let open = [link.requests.id(), link.feed.id()];
            open.into_iter().flatten().for_each(|connection| io.close(connection));
            return;
        }
        if link.requests.retry_at().is_some_and(|at| at <= now) {
            link.requests = Channel::Connecting(io.connect(link.address()));
            link.last_heard = now;
        }
        if is_registered && link.feed.retry_at().is_some_and(|at| at <= now) {
            link.feed = Channel::Connecting(io.connect(link.address()));
            link.last_heard = now;
        }
        if link.requests.up().is_some() {
            self.step_lifecycle(io, LifecycleInput::Tick);
            self.step_proposals(io, IsrProposalsInput::Tick);
        }
    }

    pub(super) fn controller_connected(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        let Some(link) = &mut self.controller else { return };
        if link.requests.id() == Some(connection) {
            link.requests = Channel::Up(connection);
            match link.passed_on.take() {
                Some(asked) => {
                    link.asked.push_back(asked);
                    io.send(connection, link.lifecycle_frame.clone(), &[]);
                }
                // A request decided while the link was down has not left.
                None => self.step_lifecycle(io, LifecycleInput::Disconnected),
            }
            self.step_proposals(io, IsrProposalsInput::Connected);
        } else if link.feed.id() == Some(connection) {
            link.feed = Channel::Up(connection);
            self.fetch_metadata(io);
        }
    }

    pub(super) fn controller_closed(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        let Some(link) = &mut self.controller else { return };
        let is_feed = link.feed.id() == Some(connection);
        let is_requests = link.requests.id() == Some(connection);
        let is_moving = link.addresses.len() > 1;
        if is_feed || (is_requests && is_moving) {
            Self::disconnect(io, &mut link.feed, connection);
        }
        if is_requests || (is_feed && is_moving) {
            Self::disconnect(io, &mut link.requests, connection);
            link.turn += 1;
            for asked in std::mem::take(&mut link.asked) {
                if let Asked::Forward(part, ..) = asked {
                    self.deliver(io, part.origin, Message::Forwarded(part, None));
                }
            }
            if self.controller.as_ref().is_some_and(|link| link.passed_on.is_none()) {
                self.step_lifecycle(io, LifecycleInput::Disconnected);
            }
            self.step_proposals(io, IsrProposalsInput::Disconnected);
        }
    }

    /// `closed` needs no closing.
    fn disconnect(io: &mut dyn Io, channel: &mut Channel, closed: ConnectionId) {
        if let Some(connection) = channel.id().filter(|&id| id != closed) {
            io.close(connection);
        }
        *channel = Channel::Down { retry_at: io.now().plus(RECONNECT_BACKOFF) };
    }

    /// A frame from the controller.
    pub(super) fn controller_answered(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        frame: Bytes,
    ) {
        let Some(link) = &mut self.controller else { return };
        link.last_heard = io.now();
        let understood = if link.feed.id() == Some(connection) {
            self.metadata_fetched(io, frame)
        } else if link.requests.id() == Some(connection)
            && let Some(asked) = link.asked.pop_front()
        {
            self.request_answered(io, asked, frame)
        } else {
            false
        };
        if !understood {
            self.counters.malformed();
            io.close(connection);
        }
    }

    fn request_answered(&mut self, io: &mut dyn Io, asked: Asked, frame: Bytes) -> bool {
        let (api, version) = match asked {
            Asked::Registration => (ApiKey::BrokerRegistration, REGISTRATION_VERSION),
            Asked::Heartbeat => (ApiKey::BrokerHeartbeat, HEARTBEAT_VERSION),
            Asked::AlterPartition(_) => (ApiKey::AlterPartition, ALTER_PARTITION_VERSION),
            Asked::Forward(_, api, version) => (api, version),
        };
        let Ok((_, response)) = wire::parse_response(api, version, frame) else { return false };
        if is_not_controller(&response)
            && let Some(link) = &mut self.controller
            && let Some(connection) = link.requests.up()
        {
            link.passed_on = Some(asked);
            io.close(connection);
            return true;
        }
        match (asked, response) {
            (Asked::Registration, Response::BrokerRegistration(response)) => {
                let answer = checked(response.error_code, BrokerEpoch(response.broker_epoch));
                self.step_lifecycle(io, LifecycleInput::Registered(answer));
            }
            (Asked::Heartbeat, Response::BrokerHeartbeat(response)) => {
                let reply = HeartbeatReply {
                    is_caught_up: response.is_caught_up,
                    is_fenced: response.is_fenced,
                    should_shut_down: response.should_shut_down,
                };
                let answer = checked(response.error_code, reply);
                self.step_lifecycle(io, LifecycleInput::Heartbeat(answer));
            }
            (Asked::AlterPartition(sent), Response::AlterPartition(response)) => {
                if let Some(link) = &mut self.controller {
                    link.answered_sent_at = sent;
                }
                let answers = partition_answers(&response);
                self.step_proposals(io, IsrProposalsInput::Answered(answers));
            }
            (Asked::Forward(part, ..), response) => {
                self.deliver(io, part.origin, Message::Forwarded(part, Some(response)));
            }
            _ => return false,
        }
        true
    }

    fn ask_controller(&mut self, io: &mut dyn Io, asked: Asked, version: i16, request: &Request) {
        let Some(link) = &mut self.controller else { return };
        let Some(connection) = link.requests.up() else { return };
        match wire::encode_request(0, &self.client_id, version, request) {
            Ok(frame) => {
                if matches!(asked, Asked::Registration | Asked::Heartbeat) {
                    link.lifecycle_frame = frame.clone();
                }
                if link.asked.is_empty() {
                    link.last_heard = io.now();
                }
                link.asked.push_back(asked);
                io.send(connection, frame, &[]);
            }
            Err(_) => io.close(connection),
        }
    }

    // --- life ------------------------------------------------------------------------------------

    fn step_lifecycle(&mut self, io: &mut dyn Io, input: LifecycleInput) {
        let Some(link) = &mut self.controller else { return };
        let Some(lifecycle) = &mut link.lifecycle else { return };
        let mut outputs = std::mem::take(&mut link.lifecycle_outputs);
        lifecycle.step(io.now(), input, &mut outputs);
        for output in outputs.drain(..) {
            self.carry_out_lifecycle(io, output);
        }
        if let Some(link) = &mut self.controller {
            link.lifecycle_outputs = outputs;
        }
    }

    fn carry_out_lifecycle(&mut self, io: &mut dyn Io, output: LifecycleOutput) {
        match output {
            LifecycleOutput::Register(registration) => {
                let request = Request::BrokerRegistration(to_registration(&registration));
                self.ask_controller(io, Asked::Registration, REGISTRATION_VERSION, &request);
            }
            LifecycleOutput::Heartbeat(heartbeat) => {
                let mut request = to_heartbeat(&heartbeat);
                if let Some(resources) = room::resources(&self.config, &self.replicas.open) {
                    request = wire::with_resources(request, &resources);
                }
                let request = Request::BrokerHeartbeat(request);
                self.ask_controller(io, Asked::Heartbeat, HEARTBEAT_VERSION, &request);
            }
            LifecycleOutput::Epoch(epoch) => {
                self.broadcast(io, || Message::Registered(epoch));
                self.step_proposals(io, IsrProposalsInput::Epoch(epoch));
                let now = io.now();
                if let Some(link) = &mut self.controller
                    && link.feed.retry_at().is_some_and(|at| at <= now)
                {
                    link.feed = Channel::Connecting(io.connect(link.address()));
                }
            }
            LifecycleOutput::State(LifecycleState::ShuttingDown) => self.close(),
            LifecycleOutput::State(_) => {}
            LifecycleOutput::Refused(error) => self.fail(BrokerError::Refused(error)),
        }
    }

    /// Asked to stop: hand leaderships over first. Asked again: stop now.
    pub(super) fn begin_shutdown(&mut self, io: &mut dyn Io) {
        let Some(link) = &mut self.controller else { return };
        if link.shutdown_deadline.is_some() || link.requests.up().is_none() {
            return self.close();
        }
        link.shutdown_deadline = Some(io.now().plus(SHUTDOWN_WAIT_MAX));
        self.step_lifecycle(io, LifecycleInput::ShutDown);
    }

    pub(super) fn mark_clean_shutdown(&mut self) {
        // What was not even opened, nobody vouches for.
        let Some(epoch) = self.epoch.filter(|_| self.replicas.open.are_complete()) else { return };
        if let Err(source) =
            clean_shutdown::write_marker(&self.config.data_dir, epoch, &self.closed_logs)
        {
            let path = self.config.data_dir.clone();
            self.fail(BrokerError::DataDirectory { path, source });
        }
    }

    // --- ISR proposals ---------------------------------------------------------------------------

    pub(super) fn propose_isr(
        &mut self,
        io: &mut dyn Io,
        partition: TopicPartition,
        proposal: IsrProposal,
    ) {
        self.step_proposals(io, IsrProposalsInput::Propose(partition, proposal));
    }

    fn step_proposals(&mut self, io: &mut dyn Io, input: IsrProposalsInput) {
        let Some(link) = &mut self.controller else { return };
        let mut outputs = std::mem::take(&mut link.proposal_outputs);
        let sent = link.answered_sent_at;
        link.proposals.step(io.now(), input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                IsrProposalsOutput::Send(request) => {
                    let asked = Asked::AlterPartition(io.now());
                    let request = Request::AlterPartition(to_alter_partition(&request));
                    self.ask_controller(io, asked, ALTER_PARTITION_VERSION, &request);
                }
                IsrProposalsOutput::Committed { id, proposal, committed } => {
                    let decided = Message::Decided(id, proposal, Ok(committed), sent);
                    self.deliver(io, self.owner(id.partition), decided);
                }
                IsrProposalsOutput::Refused { id, proposal, error } => {
                    let decided = Message::Decided(id, proposal, Err(error), sent);
                    self.deliver(io, self.owner(id.partition), decided);
                }
                IsrProposalsOutput::ForgetController => {
                    let connection = self.controller.as_ref().and_then(|link| link.requests.up());
                    if let Some(connection) = connection {
                        io.close(connection);
                    }
                }
            }
        }
        if let Some(link) = &mut self.controller {
            link.proposal_outputs = outputs;
        }
    }

    /// Passes a client's request on as it came.
    pub(super) fn forward(&mut self, io: &mut dyn Io, part: Part, version: i16, request: &Request) {
        let is_up = self.controller.as_ref().is_some_and(|link| link.requests.up().is_some());
        if !is_up {
            return self.deliver(io, part.origin, Message::Forwarded(part, None));
        }
        let asked = Asked::Forward(part, request.api(), version);
        self.ask_controller(io, asked, version, request);
    }

    // --- the metadata log ------------------------------------------------------------------------

    fn fetch_metadata(&mut self, io: &mut dyn Io) {
        let Some(link) = &self.controller else { return };
        let Some(connection) = link.feed.up() else { return };
        let partition = FetchPartition {
            partition: PartitionId(0),
            current_leader_epoch: None,
            fetch_offset: link.metadata_end,
            last_fetched_epoch: None,
            log_start_offset: None,
            partition_max_bytes: METADATA_FETCH_BYTES_MAX,
            stamps: None,
            durable_offset: None,
        };
        let topic = TopicRef { name: Default::default(), id: TopicId::METADATA };
        let request = FetchRequest {
            cluster_id: None,
            replica: Some(FetchingReplica { id: self.config.node_id, epoch: None }),
            max_wait_ms: METADATA_FETCH_WAIT_MS,
            min_bytes: 1,
            max_bytes: METADATA_FETCH_BYTES_MAX,
            session_id: 0,
            session_epoch: -1,
            topics: vec![FetchTopic { topic, partitions: vec![partition] }],
            trace_high_watermark: false,
        };
        let frame = wire::encode_fetch_request(0, &self.client_id, FETCH_VERSION, &request);
        io.send(connection, frame, &[]);
    }

    fn metadata_fetched(&mut self, io: &mut dyn Io, frame: Bytes) -> bool {
        let Ok((_, Response::Fetch(response))) =
            wire::parse_response(ApiKey::Fetch, FETCH_VERSION, frame)
        else {
            return false;
        };
        let partition = response.topics.first().and_then(|topic| topic.partitions.first());
        let Some(partition) = partition else { return false };
        match partition.error {
            ErrorCode::None => {}
            ErrorCode::NotLeaderOrFollower => {
                let connection = self.controller.as_ref().and_then(|link| link.feed.up());
                connection.into_iter().for_each(|connection| io.close(connection));
                return true;
            }
            ErrorCode::OffsetOutOfRange => {
                self.fail(BrokerError::MetadataPurged);
                return true;
            }
            _ => return false,
        }
        let committed_end = partition.high_watermark.unwrap_or(Offset::ZERO);
        let Some(link) = &mut self.controller else { return true };
        let Some(records) = decode_records(&partition.records, link.metadata_end, committed_end)
        else {
            return false;
        };
        if let Some((last, _)) = records.last() {
            link.metadata_end = last.plus(1);
            let end = link.metadata_end;
            let records = Arc::new(records);
            self.broadcast(io, || Message::Metadata(records.clone()));
            self.step_lifecycle(io, LifecycleInput::MetadataApplied(end));
            self.step_lifecycle(io, LifecycleInput::Ready);
        }
        self.fetch_metadata(io);
        true
    }
}

/// The records in `[from, until)`; `None` if the bytes make no sense.
fn decode_records(chunks: &[Bytes], from: Offset, until: Offset) -> Option<Vec<(Offset, Record)>> {
    let mut decoded = Vec::new();
    for chunk in chunks {
        for batch in record::batches(chunk) {
            let (header, range) = batch.ok()?;
            if header.is_control() {
                continue;
            }
            let bytes = chunk.get(range)?;
            record::check_crc(bytes, &header).ok()?;
            for entry in record::records(bytes).ok()? {
                let entry = entry.ok()?;
                let offset = header.base_offset.plus(i64::from(entry.offset_delta));
                if offset >= from && offset < until {
                    let value = chunk.slice_ref(entry.value?);
                    decoded.push((offset, wire::decode_metadata_record(&value).ok()?));
                }
            }
        }
    }
    Some(decoded)
}

/// Whether a registration or heartbeat went to a controller that is not active. Other answers say so
/// to those who asked.
fn is_not_controller(response: &Response) -> bool {
    let code = match response {
        Response::BrokerRegistration(response) => response.error_code,
        Response::BrokerHeartbeat(response) => response.error_code,
        _ => return false,
    };
    ErrorCode::from_code(code) == ErrorCode::NotController
}

fn checked<T>(code: i16, value: T) -> Result<T, ErrorCode> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(value),
        error => Err(error),
    }
}

fn to_registration(registration: &Registration) -> BrokerRegistrationRequest {
    let listeners = registration.endpoints.iter().map(|endpoint| {
        Endpoint::default()
            .with_name(endpoint.name.clone().into())
            .with_host(endpoint.host.clone().into())
            .with_port(endpoint.port)
            .with_security_protocol(endpoint.security_protocol)
    });
    let features = registration.features.iter().map(|feature| {
        Feature::default()
            .with_name(feature.name.clone().into())
            .with_min_supported_version(feature.min)
            .with_max_supported_version(feature.max)
    });
    let mut request = BrokerRegistrationRequest::default()
        .with_broker_id(registration.broker.0.into())
        .with_cluster_id(registration.cluster_id.clone().into())
        .with_incarnation_id(Uuid::from_bytes(registration.incarnation.0))
        .with_listeners(listeners.collect())
        .with_features(features.collect())
        .with_log_dirs(registration.log_dirs.iter().map(|id| Uuid::from_bytes(id.0)).collect())
        .with_previous_broker_epoch(registration.previous_epoch.map_or(-1, |epoch| epoch.0));
    wire::set_damaged(&mut request, &registration.damaged);
    request
}

fn to_heartbeat(heartbeat: &Heartbeat) -> BrokerHeartbeatRequest {
    BrokerHeartbeatRequest::default()
        .with_broker_id(heartbeat.broker.0.into())
        .with_broker_epoch(heartbeat.epoch.0)
        // The wire names the last offset applied, the lifecycle the end.
        .with_current_metadata_offset(heartbeat.metadata_end.0 - 1)
        .with_want_fence(heartbeat.want_fence)
        .with_want_shut_down(heartbeat.want_shut_down)
}

fn to_alter_partition(request: &AlterPartition) -> AlterPartitionRequest {
    let mut topics: Vec<TopicData> = Vec::new();
    for (id, proposal) in &request.proposals {
        let members = proposal.isr.iter().map(|(member, epoch)| {
            IsrMember::default()
                .with_broker_id(member.0.into())
                .with_broker_epoch(epoch.map_or(-1, |epoch| epoch.0))
        });
        let partition = PartitionData::default()
            .with_partition_index(id.partition.0)
            .with_leader_epoch(proposal.leader_epoch.0)
            .with_new_isr_with_epochs(members.collect())
            .with_leader_recovery_state(i8::from(proposal.recovering))
            .with_partition_epoch(proposal.partition_epoch.0);
        let topic_id = Uuid::from_bytes(id.topic.0);
        match topics.iter_mut().find(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(
                TopicData::default().with_topic_id(topic_id).with_partitions(vec![partition]),
            ),
        }
    }
    AlterPartitionRequest::default()
        .with_broker_id(request.broker.0.into())
        .with_broker_epoch(request.epoch.0)
        .with_topics(topics)
}

fn partition_answers(response: &AlterPartitionResponse) -> Result<Vec<PartitionAnswer>, ErrorCode> {
    checked(response.error_code, ())?;
    let answers = response.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|answer| {
            let id = TopicPartition {
                topic: TopicId(topic.topic_id.into_bytes()),
                partition: PartitionId(answer.partition_index),
            };
            let committed = IsrCommitted {
                leader: (answer.leader_id.0 >= 0).then_some(BrokerId(answer.leader_id.0)),
                leader_epoch: LeaderEpoch(answer.leader_epoch),
                partition_epoch: PartitionEpoch(answer.partition_epoch),
                isr: answer.isr.iter().map(|member| BrokerId(member.0)).collect(),
            };
            (id, checked(answer.error_code, committed))
        })
    });
    Ok(answers.collect())
}
