//! One event loop of a broker: owns its partitions and connections alone, and dispatches.
//!
//! Follow a produce request from here: `on_event` (frame) → `requests` (decode, split into parts) →
//! `replicas` (validate, `protocol::partition`, append) → `start_writes` at the batch's end →
//! `written` (durable) → `requests` (encode, answer in turn).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam::channel::Receiver;

use super::BrokerError;
use super::controller_link::ControllerLink;
use super::counters::Counters;
use super::events::EventSink;
use super::fetchers::Fetchers;
use super::gauges::Publisher;
use super::message::{Mailbox, Message, ShardId};
use super::replicas::Replicas;
use super::requests::Requests;
use super::room;
use super::slow_disk::{Completion, SlowDisk};
use crate::config::node::BrokerConfig;
use crate::engine::{App, ConnectionId, Event, Io};
use crate::measure::clock;
use crate::protocol::broker::VouchedLog;
use crate::protocol::controller::connections_max;
use crate::protocol::metadata::{ClusterMetadata, Touched};
use crate::protocol::partition::Input;
use crate::storage::Preparer;
use crate::types::{BrokerEpoch, ClockId, MonotonicTime, PartitionId, TopicPartition};

/// One shard of a broker.
pub(super) struct Shard {
    pub(super) id: ShardId,
    pub(super) config: Arc<BrokerConfig>,
    pub(super) clock: ClockId,
    /// How this broker calls itself towards leaders and the controller.
    pub(super) client_id: String,
    pub(super) shards: Vec<Mailbox>,
    inbox: Receiver<Message>,
    pub(super) preparer: Preparer,
    pub(super) metadata: ClusterMetadata,
    /// What the metadata log touched before `has_roles`.
    pub(super) touched: Touched,
    /// This process's own registration has been applied: replicas are hosted.
    pub(super) has_roles: bool,
    /// This broker's epoch; `None` until it is registered.
    pub(super) epoch: Option<BrokerEpoch>,
    pub(super) requests: Requests,
    pub(super) replicas: Replicas,
    /// Replicas that should be hosted but could not be opened: a limit is reached.
    pub(super) unopened: BTreeSet<TopicPartition>,
    pub(super) fetchers: Fetchers,
    /// Shard 0's alone.
    pub(super) controller: Option<ControllerLink>,
    pub(super) counters: Counters,
    /// If anybody is to see the figures.
    pub(super) publisher: Option<Publisher>,
    /// If the disk can be made slow.
    pub(super) slow_disk: Option<SlowDisk>,
    /// What happens to ISRs, for results.
    pub(super) events: EventSink,
    /// What is vouched for of the logs that were closed: this shard's; shard 0 has the others' too.
    pub(super) closed_logs: Vec<VouchedLog>,
    state: State,
    failure: Option<BrokerError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Asked to close; the disk still owes something.
    Draining,
    /// Shard 0 waits for this many other shards to close their logs.
    Closing {
        shards_left: usize,
    },
    Finished,
}

impl Shard {
    /// Talks to the controller for all shards.
    pub(super) const CONTROLLER_SHARD: ShardId = ShardId(0);

    pub(super) fn new(
        id: ShardId,
        config: Arc<BrokerConfig>,
        shards: Vec<Mailbox>,
        inbox: Receiver<Message>,
        preparer: Preparer,
        controller: Option<ControllerLink>,
        (publisher, events): (Option<Publisher>, EventSink),
    ) -> Shard {
        Shard {
            id,
            clock: clock::clock_id(),
            client_id: format!("ackmark-broker-{}", config.node_id),
            config,
            shards,
            inbox,
            preparer,
            metadata: ClusterMetadata::default(),
            touched: Touched::default(),
            has_roles: false,
            epoch: None,
            requests: Requests::default(),
            replicas: Replicas::default(),
            unopened: BTreeSet::new(),
            fetchers: Fetchers::default(),
            controller,
            counters: Counters::default(),
            publisher,
            slow_disk: None,
            events,
            closed_logs: Vec::new(),
            state: State::Running,
            failure: None,
        }
    }

    /// How the shard ended.
    pub(super) fn into_result(self) -> Result<(), BrokerError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// The shard that owns a partition.
    pub(super) fn owner(&self, partition: PartitionId) -> ShardId {
        ShardId((partition.0.unsigned_abs() as usize % self.shards.len()) as u8)
    }

    /// Hands a message to a shard; this one's own are handled at once.
    pub(super) fn deliver(&mut self, io: &mut dyn Io, to: ShardId, message: Message) {
        if to == self.id {
            self.on_message(io, message);
        } else if let Some(mailbox) = self.shards.get(usize::from(to.0)) {
            mailbox.send(message);
        }
    }

    /// Hands a message to every shard, this one last.
    pub(super) fn broadcast(&mut self, io: &mut dyn Io, message: impl Fn() -> Message) {
        for (index, mailbox) in self.shards.iter().enumerate() {
            if index != usize::from(self.id.0) {
                mailbox.send(message());
            }
        }
        self.on_message(io, message());
    }

    /// Ends the broker; the first cause is the one reported.
    pub(super) fn fail(&mut self, error: BrokerError) {
        self.failure.get_or_insert(error);
    }

    pub(super) fn on_message(&mut self, io: &mut dyn Io, message: Message) {
        match message {
            Message::Listen(address) => self.listen(io, address),
            Message::Metadata(records) => self.apply_metadata(io, &records),
            Message::Registered(epoch) => self.registered(epoch),
            Message::Produce(part, produce) => self.produce_part(io, part, &produce),
            Message::Produced(part, result, stamps) => self.produced(io, part, result, stamps),
            Message::Fetch(part, fetch) => self.fetch_part(io, part, fetch),
            Message::Fetched(part, fetched) => self.fetched(io, part, fetched),
            Message::FinishFetch(part) => self.finish_fetch(io, part),
            Message::Query(part, partition, query) => self.query_part(io, part, partition, query),
            Message::Queried(part, result) => self.queried(io, part, result),
            Message::InspectLog(part, partition) => self.inspect_log(io, part, partition),
            Message::LogInspected(part, info) => self.log_inspected(io, part, info),
            Message::Propose(partition, proposal) => self.propose_isr(io, partition, proposal),
            Message::Decided(partition, proposal, decision, sent) => {
                if let Some(slot) = self.replicas.slot(partition) {
                    if let Some(replica) = self.replicas.get_mut(slot) {
                        replica.isr_watch.decided(sent);
                    }
                    let input = match decision {
                        Ok(committed) => Input::IsrCommitted { proposal, committed },
                        Err(error) => Input::IsrRefused { proposal, error },
                    };
                    self.step(io, slot, input);
                }
            }
            Message::Forward(part, version, request) => self.forward(io, part, version, &request),
            Message::Forwarded(part, response) => self.forwarded(io, part, response),
            Message::Stop => self.stop(io),
            Message::Stopped(logs) => {
                self.closed_logs.extend(logs);
                if let State::Closing { shards_left } = self.state {
                    self.state = State::Closing { shards_left: shards_left - 1 };
                    self.finish_if_closed();
                }
            }
        }
    }

    fn listen(&mut self, io: &mut dyn Io, address: SocketAddr) {
        match io.listen(address) {
            Ok(bound) if self.id == Self::CONTROLLER_SHARD => {
                self.broadcast_others(|| Message::Listen(bound));
                self.start_controller_link(io, bound);
            }
            Ok(_) => {}
            Err(source) => self.fail(BrokerError::Listen { address, source }),
        }
    }

    fn broadcast_others(&self, message: impl Fn() -> Message) {
        for (index, mailbox) in self.shards.iter().enumerate() {
            if index != usize::from(self.id.0) {
                mailbox.send(message());
            }
        }
    }

    /// The signal to stop: shard 0 first hands its leaderships over (controlled shutdown) and then
    /// calls `close`; the others close at its word.
    fn stop(&mut self, io: &mut dyn Io) {
        if self.id == Self::CONTROLLER_SHARD {
            self.begin_shutdown(io);
        } else if self.state == State::Running {
            self.state = State::Draining;
        }
    }

    /// Shard 0: the controller lets this broker go. Logs are closed before the clean mark is written.
    pub(super) fn close(&mut self) {
        if self.state == State::Running {
            self.broadcast_others(|| Message::Stop);
            self.state = State::Draining;
        }
    }

    fn close_when_quiet(&mut self, io: &mut dyn Io) {
        if self.state != State::Draining || !self.replicas.is_quiet() {
            return;
        }
        self.close_logs(io);
        if self.failure.is_some() {
            // Shard 0 waits for this shard's word in vain, or ends itself: nothing is marked clean.
            return;
        }
        if self.id == Self::CONTROLLER_SHARD {
            self.state = State::Closing { shards_left: self.shards.len() - 1 };
            self.finish_if_closed();
        } else {
            self.state = State::Finished;
            if let Some(mailbox) = self.shards.first() {
                mailbox.send(Message::Stopped(std::mem::take(&mut self.closed_logs)));
            }
        }
    }

    fn finish_if_closed(&mut self) {
        if self.state == (State::Closing { shards_left: 0 }) {
            self.mark_clean_shutdown();
            self.state = State::Finished;
        }
    }

    /// A client, unless it would take a file that replicas may need: one shard's share of the
    /// connections is open already.
    fn accept(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        let most = connections_max(room::open_files_max()) / self.shards.len() as u64;
        if self.requests.client_count() as u64 >= most.max(1) {
            self.counters.refused(most.max(1));
            return io.close(connection);
        }
        self.requests.accepted(connection);
    }

    fn take_messages(&mut self, io: &mut dyn Io) {
        while let Ok(message) = self.inbox.try_recv() {
            self.on_message(io, message);
        }
    }

    fn write_done(&mut self, io: &mut dyn Io, completion: Completion) {
        let Completion { operation, result, completed } = completion;
        self.written(io, operation, result, completed);
    }

    fn writes_done_late(&mut self, io: &mut dyn Io) {
        let now = io.now();
        while let Some(completion) = self.slow_disk.as_mut().and_then(|slow| slow.due(now)) {
            self.write_done(io, completion);
        }
    }

    fn on_closed(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        if self.requests.closed(connection) || self.fetcher_closed(io, connection) {
            return;
        }
        self.controller_closed(io, connection);
    }
}

impl App for Shard {
    fn start(&mut self, io: &mut dyn Io) {
        if let Some(mailbox) = self.shards.get(usize::from(self.id.0)) {
            mailbox.open(io.waker());
        }
        if self.id == Self::CONTROLLER_SHARD {
            let address = self.config.listen;
            self.listen(io, address);
        }
        self.take_messages(io);
    }

    fn on_event(&mut self, io: &mut dyn Io, event: Event) {
        match event {
            Event::Deadline => {
                self.writes_done_late(io);
                self.tick_replicas(io);
                self.tick_controller(io);
            }
            Event::Woken => self.take_messages(io),
            Event::Accepted { connection } => self.accept(io, connection),
            Event::Connected { connection } => {
                if !self.fetcher_connected(connection) {
                    self.controller_connected(io, connection);
                }
            }
            Event::Frame { connection, frame, received } => {
                let frame = frame.freeze();
                if self.requests.is_client(connection) {
                    self.request(io, connection, frame, received);
                } else if self.fetchers.owns(connection) {
                    self.leader_answered(io, connection, frame, received);
                } else {
                    self.controller_answered(io, connection, frame);
                }
            }
            Event::Closed { connection, reason } => {
                self.counters.closed(&reason);
                self.on_closed(io, connection);
            }
            Event::Written { operation, result, completed } => {
                let completion = Completion { operation, result, completed };
                let on_time = match &mut self.slow_disk {
                    None => Some(completion),
                    Some(slow) => slow.hold(completion),
                };
                on_time.into_iter().for_each(|completion| self.write_done(io, completion));
            }
            Event::Read { operation, result } => self.read_done(io, operation, result),
        }
    }

    fn on_batch_end(&mut self, io: &mut dyn Io) {
        self.start_writes(io);
        self.serve_later(io);
        self.send_fetches(io);
        self.resume_paused(io);
        self.close_when_quiet(io);
        self.publish_gauges(io.now());
    }

    fn deadline(&self) -> Option<MonotonicTime> {
        let controller = self.controller.as_ref().and_then(ControllerLink::deadline);
        let publisher = self.publisher.as_ref().map(Publisher::due);
        let slow_disk = self.slow_disk.as_ref().and_then(SlowDisk::deadline);
        [self.replicas.deadline(), self.fetchers.deadline(), controller, publisher, slow_disk]
            .into_iter()
            .flatten()
            .min()
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished || self.failure.is_some()
    }
}
