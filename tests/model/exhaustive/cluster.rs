//! The state of the exhaustive model: the machines of `protocol` themselves, on disks and with
//! messages between them. What may happen next is `steps`' business.
//!
//! Time stands still but for the lag clock, so that sessions do not expire by themselves: fencing
//! is a step of its own, through the same heartbeat that a broker sends to be fenced.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use ackmark::protocol::broker::IsrProposals;
use ackmark::protocol::controller::{
    self, AlterPartition, Controller, QueryId, ReplicaLogsAnswer, Request, Response,
};
use ackmark::protocol::metadata::{ClusterMetadata, Record, topic_config};
use ackmark::protocol::partition::{FetchAnswer, FollowerFetch};
use ackmark::sim::broker::BrokerSettings;
use ackmark::sim::broker::controller_link::{CLUSTER, registration};
use ackmark::sim::disk::{Batch, Disk};
use ackmark::sim::history::History;
use ackmark::sim::invariants::Violation;
use ackmark::sim::replica::{Durability, Replica};
use ackmark::types::{
    BrokerEpoch, BrokerId, ErrorCode, HwmGate, MonotonicTime, Offset, PartitionId, TopicId,
    TopicPartition,
};

use super::steps::Step;

pub const BROKERS: usize = 3;
pub const PARTITION: TopicPartition =
    TopicPartition { topic: TopicId([7; 16]), partition: PartitionId(0) };
pub const TOPIC_NAME: &str = "t";
/// `replica.lag.time.max.ms` on the model's clock.
pub const LAG: Duration = Duration::from_millis(10);

/// How often each thing may happen along one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub produces: u8,
    /// Unclean ends, each with every suffix of the log lost.
    pub crashes: u8,
    /// Clean stops.
    pub stops: u8,
    /// Fencings of a broker, whether it runs or not.
    pub fences: u8,
    /// Brokers that hear of committed metadata as late as they like; the others hear at once.
    pub slow: u8,
    /// Answers that do not arrive at once.
    pub late_answers: u8,
    /// Calls given up, so that what was sent arrives late.
    pub losses: u8,
    /// AlterPartition requests that the controller reads again from a connection given up. With
    /// TCP and a controller that stops reading replaced connections there are none.
    pub late_requests: u8,
    /// Times that the lag limit passes.
    pub lags: u8,
    /// Changes of min ISR.
    pub min_isrs: u8,
    /// Changes of the feature level, to any; the gate follows from it. At level 0 nothing survives an
    /// unclean end.
    pub levels: u8,
    /// Reassignments, to two replicas or back to all.
    pub reassignments: u8,
    /// Brokers that hear late may also get several batches of metadata in one answer.
    pub several: bool,
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub disk: Option<Disk>,
    /// Epoch in the mark of a clean shutdown.
    pub mark: Option<BrokerEpoch>,
    pub starts: u32,
    pub process: Option<Process>,
}

/// A running broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub epoch: BrokerEpoch,
    pub metadata: Arc<ClusterMetadata>,
    pub replica: Replica,
    pub proposals: IsrProposals,
    pub next_fetch: Option<FollowerFetch>,
    pub in_flight: Vec<FollowerFetch>,
}

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    Fetch {
        from: usize,
        epoch: BrokerEpoch,
        fetch: FollowerFetch,
    },
    Fetched {
        to: usize,
        epoch: BrokerEpoch,
        fetch: FollowerFetch,
        answer: FetchAnswer,
        batches: Vec<Batch>,
    },
    Alter {
        from: usize,
        request: AlterPartition,
    },
    Altered {
        to: usize,
        epoch: BrokerEpoch,
        answer: Answer,
    },
    AskLog {
        to: usize,
        query: QueryId,
    },
    LogIs {
        from: usize,
        query: QueryId,
        answer: Option<ReplicaLogsAnswer>,
    },
}

pub type Answer =
    Result<Vec<(TopicPartition, Result<controller::AlteredPartition, ErrorCode>)>, ErrorCode>;

/// A message and its digest: messages have no order of their own, and their number is no matter.
#[derive(Clone, Debug)]
pub struct Sealed {
    digest: u64,
    pub packet: Arc<Packet>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub controller: Arc<Controller>,
    /// The metadata log, all of it committed.
    pub log: Arc<Vec<Record>>,
    /// Where each batch of the log ends, and the digest of its records.
    pub log_batches: Arc<Vec<(usize, u64)>>,
    pub nodes: [Arc<Node>; BROKERS],
    /// In order of digests.
    pub network: Vec<Sealed>,
    pub history: Arc<History>,
    pub now: MonotonicTime,
    /// Which brokers hear of metadata late.
    pub slow: [bool; BROKERS],
    pub left: Bounds,
    pub violation: Option<Violation>,
    digests: Digests,
}

/// Digests of the large parts, taken anew only when a step has changed the part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Digests {
    controller: u64,
    nodes: [u64; BROKERS],
    history: u64,
}

impl PartialEq for Sealed {
    fn eq(&self, other: &Sealed) -> bool {
        self.digest == other.digest
    }
}

impl Hash for Cluster {
    /// Of the metadata log only what some broker has not applied yet can matter.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digests.hash(state);
        let ends = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let from = ends.map(|process| index(process.metadata.end_offset())).min();
        let left = self.log_batches.iter().rev().take_while(|(end, _)| Some(*end) > from);
        left.for_each(|batch| batch.hash(state));
        self.network.iter().for_each(|sealed| sealed.digest.hash(state));
        self.now.hash(state);
        self.slow.hash(state);
        self.left.hash(state);
        self.violation.hash(state);
    }
}

fn digest(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

impl Cluster {
    /// Three running brokers in the ISR of an empty partition, broker 1 leading, min ISR 2.
    pub fn start(bounds: Bounds, gate: Option<HwmGate>) -> Cluster {
        let now = MonotonicTime::ZERO;
        let settings = controller::Settings::new(CLUSTER.to_owned(), Duration::from_secs(9));
        let mut outputs = Vec::new();
        let empty = ClusterMetadata::default();
        let controller = Controller::start(settings, empty, Offset::ZERO, now, &mut outputs);
        let node = Node { disk: Some(Disk::default()), mark: None, starts: 0, process: None };
        let mut cluster = Cluster {
            controller: Arc::new(controller),
            log: Arc::default(),
            log_batches: Arc::default(),
            nodes: std::array::from_fn(|_| Arc::new(node.clone())),
            network: Vec::new(),
            history: Arc::default(),
            now,
            slow: [false; BROKERS],
            left: bounds,
            violation: None,
            digests: Digests::default(),
        };
        cluster.append(outputs);
        (0..BROKERS).for_each(|broker| cluster.start_broker(broker));
        (0..BROKERS).for_each(|broker| cluster.apply_all(broker));
        (0..BROKERS).for_each(|broker| cluster.unfence(broker));
        cluster.create_topic(gate);
        (0..BROKERS).for_each(|broker| cluster.apply_all(broker));
        cluster.observe();
        assert_eq!(cluster.violation, None);
        cluster.digest(None);
        cluster
    }

    /// As `start`; then broker 3 was fenced, left the ISR, and is unfenced but behind.
    pub fn start_with_one_behind(bounds: Bounds, gate: Option<HwmGate>) -> Cluster {
        let bounds = Bounds { fences: bounds.fences + 1, ..bounds };
        let mut cluster = Cluster::start(bounds, gate);
        for step in [Step::Fence(2), Step::Unfence(2)] {
            cluster = cluster.after(step, None);
        }
        cluster
    }

    /// This state for every choice of so many slow brokers.
    pub fn with_slow_brokers(self) -> Vec<Cluster> {
        let choices =
            (0u8..1 << BROKERS).filter(|set| set.count_ones() == u32::from(self.left.slow));
        let choices = choices.map(|set| Cluster {
            slow: std::array::from_fn(|broker| set & 1 << broker != 0),
            ..self.clone()
        });
        choices.collect()
    }

    fn create_topic(&mut self, gate: Option<HwmGate>) {
        let gate = gate.map(|gate| (topic_config::HWM_GATE, gate.name()));
        let configs = [(topic_config::MIN_ISR, "2")].into_iter().chain(gate);
        let configs = configs.map(|(key, value)| (key.to_owned(), Some(value.to_owned())));
        let topic = controller::NewTopic {
            name: TOPIC_NAME.to_owned(),
            id: PARTITION.topic,
            partition_count: None,
            replication_factor: None,
            assignments: vec![(PARTITION.partition, (0..BROKERS).map(id).collect())],
            configs: configs.collect(),
        };
        let request = controller::CreateTopics { topics: vec![topic], validate_only: false };
        self.ask(Request::CreateTopics(request));
    }

    /// Asks the controller; what it decides is committed at once.
    pub fn ask(&mut self, request: Request) -> Option<Response> {
        let request_id = controller::RequestId(0);
        let input = controller::Input::Request { request: request_id, body: request };
        let response = self.step_controller(input);
        let end = Offset(i64::try_from(self.log.len()).unwrap_or(i64::MAX));
        self.step_controller(controller::Input::Committed { end }).or(response)
    }

    fn step_controller(&mut self, input: controller::Input) -> Option<Response> {
        let mut outputs = Vec::new();
        Arc::make_mut(&mut self.controller).step(self.now, input, &mut outputs);
        self.append(outputs)
    }

    fn append(&mut self, outputs: Vec<controller::Output>) -> Option<Response> {
        let mut answered = None;
        for output in outputs {
            match output {
                controller::Output::Append { base_offset, records } => {
                    assert_eq!(index(base_offset), self.log.len());
                    let digest = digest(&records);
                    Arc::make_mut(&mut self.log).extend(records);
                    Arc::make_mut(&mut self.log_batches).push((self.log.len(), digest));
                }
                controller::Output::AskReplicaLogs { query, broker, .. } => {
                    self.send(Packet::AskLog { to: broker_of(broker), query });
                }
                controller::Output::Respond { response, .. } => answered = Some(response),
            }
        }
        answered
    }

    /// A process starts: registers, and applies the metadata log up to its registration.
    pub fn start_broker(&mut self, broker: usize) {
        let node = Arc::make_mut(&mut self.nodes[broker]);
        node.starts += 1;
        let request = registration(id(broker), node.starts, node.mark.take());
        let response = self.ask(Request::RegisterBroker(request));
        let Some(Response::RegisterBroker(Ok(epoch))) = response else {
            panic!("registration refused: {response:?}");
        };
        let node = Arc::make_mut(&mut self.nodes[broker]);
        let mut proposals = IsrProposals::new(id(broker));
        for input in [
            ackmark::protocol::broker::IsrProposalsInput::Connected,
            ackmark::protocol::broker::IsrProposalsInput::Epoch(epoch),
        ] {
            proposals.step(self.now, input, &mut Vec::new());
        }
        let disk = node.disk.take().unwrap_or_default();
        let metadata = ClusterMetadata::default();
        let settings = ackmark::sim::broker::metadata::partition_settings(
            self.controller.metadata(),
            PARTITION.topic,
            &broker_settings(),
        );
        let replica = Replica::open((id(broker), epoch), settings, disk, Durability::PageCache);
        node.process = Some(Process {
            epoch,
            metadata: Arc::new(metadata),
            replica,
            proposals,
            next_fetch: None,
            in_flight: Vec::new(),
        });
        self.apply_all(broker);
    }

    /// Takes the digests of what differs from the state `before`.
    pub fn digest(&mut self, before: Option<&Cluster>) {
        if before.is_none_or(|before| !Arc::ptr_eq(&before.controller, &self.controller)) {
            self.digests.controller = digest(&self.controller);
        }
        if before.is_none_or(|before| !Arc::ptr_eq(&before.history, &self.history)) {
            self.digests.history = digest(&self.history);
        }
        for broker in 0..BROKERS {
            let node = &self.nodes[broker];
            if before.is_none_or(|before| !Arc::ptr_eq(&before.nodes[broker], node)) {
                self.digests.nodes[broker] = digest(node);
            }
        }
    }

    /// Puts a message on its way; the same message twice is one.
    pub fn send(&mut self, packet: Packet) {
        let digest = digest(&packet);
        if let Err(at) = self.network.binary_search_by_key(&digest, |sealed| sealed.digest) {
            self.network.insert(at, Sealed { digest, packet: Arc::new(packet) });
        }
    }

    pub fn metadata(&self) -> &ClusterMetadata {
        self.controller.metadata()
    }

    pub fn process(&self, broker: usize) -> Option<&Process> {
        self.nodes[broker].process.as_ref()
    }
}

pub fn broker_settings() -> BrokerSettings {
    BrokerSettings {
        durability: Durability::PageCache,
        heartbeat_interval: Duration::from_secs(2),
        lag_time_max: LAG,
        fetch_backoff: Duration::ZERO,
        fetch_wait_max: Duration::ZERO,
        shutdown_wait_max: Duration::ZERO,
        waits_for_registration: true,
    }
}

pub fn id(broker: usize) -> BrokerId {
    BrokerId(i32::try_from(broker + 1).unwrap_or(i32::MAX))
}

pub fn broker_of(id: BrokerId) -> usize {
    usize::try_from(id.0 - 1).unwrap_or(usize::MAX)
}

pub fn index(offset: Offset) -> usize {
    usize::try_from(offset.0).unwrap_or(0)
}
