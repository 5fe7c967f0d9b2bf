//! What a shard puts on the wire and on disk, between a controller and a leader played here by hand.
//! The rules are tested in `protocol`; these tests hold what only the shell can lose on the way: an
//! epoch that is not passed on, an answer that is not waited for, a mark that is not written.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationResponse,
};

use super::controller_link::ControllerLink;
use super::events::EventSink;
use super::message::{Mailbox, Message, ShardId};
use super::shard::Shard;
use crate::config::node::BrokerConfig;
use crate::engine::{App, ConnectionId, Event, FileId, Io, OperationId, Waker, Write};
use crate::node::clean_shutdown;
use crate::protocol::metadata::{
    DirectoryId, Endpoint, IncarnationId, Partition, Record, RegisterBroker,
};
use crate::protocol::partition::IsrProposal;
use crate::storage::Preparer;
use crate::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Offset, PartitionEpoch, PartitionId,
    TopicId, TopicPartition,
};
use crate::wire::{self, FetchRequest, Listener, Request, Response};

const CONTROLLER: &str = "127.0.0.1:9093";
const LEADER: &str = "127.0.0.1:9092";
const LEADER_ID: BrokerId = BrokerId(1);
const OWN_ID: BrokerId = BrokerId(2);
const OWN_EPOCH: BrokerEpoch = BrokerEpoch(7);
const PARTITION: TopicPartition =
    TopicPartition { topic: TopicId([9; 16]), partition: PartitionId(0) };

/// Sockets that only note what they were asked for, and a clock that stands still. Logs get the
/// files they ask for and nothing is written to them.
struct Sockets {
    opened: Vec<SocketAddr>,
    sent: Vec<(ConnectionId, Bytes)>,
    files: Vec<OwnedFd>,
}

impl Sockets {
    fn opened_to(&self, address: &str) -> Vec<ConnectionId> {
        let found = self.opened.iter().enumerate().filter(|(_, at)| at.to_string() == address);
        found.map(|(index, _)| ConnectionId(index as u64)).collect()
    }

    /// The only connection to `address`.
    fn only(&self, address: &str) -> ConnectionId {
        let opened = self.opened_to(address);
        assert_eq!(opened.len(), 1, "connections to {address}");
        opened[0]
    }

    /// The requests sent to `connection` since this was asked last.
    fn take_requests(&mut self, connection: ConnectionId, to: Listener) -> Vec<Request> {
        let (taken, rest) = self.sent.drain(..).partition(|(at, _)| *at == connection);
        self.sent = rest;
        let taken: Vec<(ConnectionId, Bytes)> = taken;
        let parse = |(_, frame)| wire::parse_request(to, frame).expect("a request").1;
        taken.into_iter().map(parse).collect()
    }
}

impl Io for Sockets {
    fn now(&self) -> MonotonicTime {
        MonotonicTime(1_000_000_000)
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        Ok(address)
    }

    fn connect(&mut self, address: SocketAddr) -> ConnectionId {
        self.opened.push(address);
        ConnectionId(self.opened.len() as u64 - 1)
    }

    fn send(&mut self, connection: ConnectionId, head: Bytes, payload: &[Bytes]) {
        let frame = [&[head], payload].concat().concat();
        self.sent.push((connection, frame.into()));
    }

    fn unsent_bytes(&self, _: ConnectionId) -> usize {
        0
    }

    fn pause_reading(&mut self, _: ConnectionId, _: bool) {}

    fn close(&mut self, connection: ConnectionId) {
        panic!("{connection:?} was closed: an answer was not understood");
    }

    fn register_file(&mut self, file: OwnedFd, _: bool) -> FileId {
        self.files.push(file);
        FileId(self.files.len() as u64 - 1)
    }

    fn close_file(&mut self, _: FileId) {}

    fn submit_write(&mut self, _: Write) -> Option<io::Result<()>> {
        unreachable!("no record is appended")
    }

    fn submit_read(&mut self, _: OperationId, _: FileId, _: u64, _: usize) {
        unreachable!("no record is appended")
    }

    fn waker(&self) -> Waker {
        Waker::new().expect("an eventfd")
    }
}

/// Shard 0 of broker 2, its sockets, and the other shards' mailboxes (kept open).
struct Broker {
    shard: Shard,
    io: Sockets,
    others: Vec<crossbeam::channel::Receiver<Message>>,
    metadata_end: i64,
}

impl Broker {
    /// Started; its registration has left.
    fn start(data_dir: &Path, shards: usize) -> Broker {
        let text = format!(
            "node_id = 2\ncluster_id = \"c\"\nlisten = \"127.0.0.1:9094\"\nshards = {shards}\n\
             data_dir = \"{}\"\ncontrollers = \"{CONTROLLER}\"\n[log]\ndurability = \"page-cache\"\nsegment_bytes = \"2MiB\"\n",
            data_dir.display()
        );
        let file = data_dir.join("broker.toml");
        let config = Arc::new(BrokerConfig::from_text(&file, &text).expect("a good file"));
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..shards).map(|_| Mailbox::new()).unzip();
        let mut inboxes = inboxes.into_iter();
        let link =
            ControllerLink::new(&config, DirectoryId([1; 16]), None).expect("a usable directory");
        let inbox = inboxes.next().expect("a shard");
        let preparer = Preparer::start().expect("a thread");
        let told = (None, EventSink::nowhere());
        let shard = Shard::new(ShardId(0), config, mailboxes, inbox, preparer, Some(link), told);
        let io = Sockets { opened: Vec::new(), sent: Vec::new(), files: Vec::new() };
        let mut broker = Broker { shard, io, others: inboxes.collect(), metadata_end: 0 };
        broker.shard.start(&mut broker.io);
        broker.on(Event::Connected { connection: ConnectionId(0) });
        broker
    }

    /// As `start`; the controller has given it its epoch.
    fn registered(data_dir: &Path, shards: usize) -> Broker {
        let mut broker = Broker::start(data_dir, shards);
        let answer = BrokerRegistrationResponse::default().with_broker_epoch(OWN_EPOCH.0);
        broker.controller_answers(&Response::BrokerRegistration(answer));
        broker
    }

    /// One event, and what follows at the end of its batch.
    fn on(&mut self, event: Event) {
        self.shard.on_event(&mut self.io, event);
        self.shard.on_batch_end(&mut self.io);
    }

    /// Takes the oldest unread request to the controller and answers it.
    fn controller_answers(&mut self, response: &Response) -> Request {
        let index = self.io.sent.iter().position(|(to, _)| *to == ConnectionId(0));
        let (connection, frame) = self.io.sent.remove(index.expect("the controller was asked"));
        let parsed = wire::parse_request(Listener::Controller, frame).expect("a request");
        let answer = wire::encode_response(&parsed.0, response).expect("encodes");
        let frame = BytesMut::from(&answer[..]);
        self.on(Event::Frame { connection, frame, received: self.io.now() });
        parsed.1
    }

    fn heartbeat_answered(&mut self, answer: BrokerHeartbeatResponse) -> BrokerHeartbeatRequest {
        match self.controller_answers(&Response::BrokerHeartbeat(answer)) {
            Request::BrokerHeartbeat(heartbeat) => heartbeat,
            other => panic!("not a heartbeat: {other:?}"),
        }
    }

    fn apply(&mut self, records: Vec<Record>) {
        let first = self.metadata_end;
        self.metadata_end += records.len() as i64;
        let records = records.into_iter().zip(first..).map(|(record, at)| (Offset(at), record));
        let message = Message::Metadata(Arc::new(records.collect()));
        self.shard.on_message(&mut self.io, message);
        self.shard.on_batch_end(&mut self.io);
    }

    /// What it asks of its leader next.
    fn fetch_from_leader(&mut self) -> FetchRequest {
        let connection = self.io.only(LEADER);
        self.on(Event::Connected { connection });
        let asked = self.io.take_requests(connection, Listener::Broker);
        match <[Request; 1]>::try_from(asked) {
            Ok([Request::Fetch(fetch)]) => fetch,
            other => panic!("not one fetch: {other:?}"),
        }
    }
}

fn registration(broker: BrokerId, epoch: BrokerEpoch, address: &str) -> Record {
    let address: SocketAddr = address.parse().expect("an address");
    Record::RegisterBroker(RegisterBroker {
        broker,
        incarnation: IncarnationId([broker.0 as u8; 16]),
        epoch,
        endpoints: vec![Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: address.ip().to_string(),
            port: address.port(),
            security_protocol: 0,
        }],
        features: Vec::new(),
        rack: None,
        fenced: false,
        in_controlled_shutdown: false,
        log_dirs: Vec::new(),
    })
}

/// Broker 1, and a partition that it leads and broker 2 follows.
fn followed_partition() -> Vec<Record> {
    let partition = Partition {
        id: PARTITION,
        replicas: vec![LEADER_ID, OWN_ID],
        isr: vec![LEADER_ID, OWN_ID],
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        removing: Vec::new(),
        adding: Vec::new(),
        leader: Some(LEADER_ID),
        recovering: false,
        leader_epoch: LeaderEpoch(4),
        partition_epoch: PartitionEpoch(6),
        directories: Vec::new(),
    };
    vec![
        registration(LEADER_ID, BrokerEpoch(5), LEADER),
        Record::Topic { name: "t".to_owned(), id: PARTITION.topic },
        Record::Partition(partition),
    ]
}

/// Without it the leader and the controller take an earlier life's fetch for this one's
/// (KAFKA-15221): `-1` skips every check.
#[test]
fn a_followers_fetch_names_its_broker_epoch_and_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::registered(dir.path(), 1);
    broker.apply(vec![registration(OWN_ID, OWN_EPOCH, "127.0.0.1:9094")]);
    broker.apply(followed_partition());
    if broker.shard.is_finished() {
        panic!("it ended: {:?}", broker.shard.into_result());
    }
    let fetch = broker.fetch_from_leader();
    let replica = fetch.replica.expect("a follower's");
    assert_eq!((replica.id, replica.epoch), (OWN_ID, Some(OWN_EPOCH)));
    assert_eq!(fetch.topics.len(), 1);
    assert_eq!(fetch.topics[0].topic.id, PARTITION.topic);
    let partition = &fetch.topics[0].partitions[0];
    assert_eq!(partition.partition, PARTITION.partition);
    assert_eq!(partition.current_leader_epoch, Some(LeaderEpoch(4)));
    assert_eq!(partition.fetch_offset, Offset::ZERO);
    assert_eq!(partition.log_start_offset, Some(Offset::ZERO));
}

#[test]
fn alter_partition_names_the_epochs_of_every_member_and_of_the_sender() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::registered(dir.path(), 1);
    broker.io.sent.clear();
    let proposal = IsrProposal {
        leader_epoch: LeaderEpoch(4),
        partition_epoch: PartitionEpoch(6),
        isr: vec![
            (OWN_ID, Some(OWN_EPOCH)),
            (LEADER_ID, Some(BrokerEpoch(5))),
            (BrokerId(3), None),
        ],
        recovering: true,
    };
    broker.shard.on_message(&mut broker.io, Message::Propose(PARTITION, proposal));
    let asked = broker.io.take_requests(ConnectionId(0), Listener::Controller);
    let [Request::AlterPartition(request)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((request.broker_id.0, request.broker_epoch), (OWN_ID.0, OWN_EPOCH.0));
    let [topic] = &request.topics[..] else { panic!("{:?}", request.topics) };
    assert_eq!(topic.topic_id.into_bytes(), PARTITION.topic.0);
    let [partition] = &topic.partitions[..] else { panic!("{:?}", topic.partitions) };
    let members = partition.new_isr_with_epochs.iter();
    let members: Vec<_> = members.map(|member| (member.broker_id.0, member.broker_epoch)).collect();
    assert_eq!(members, [(2, 7), (1, 5), (3, -1)]);
    assert_eq!((partition.leader_epoch, partition.partition_epoch), (4, 6));
    assert_eq!(partition.leader_recovery_state, 1);
}

/// The log still says what an earlier life of this broker was: its roles are not this life's. The
/// same whether the registration's answer or the metadata comes first.
#[test]
fn no_role_is_taken_from_metadata_older_than_the_own_registration() {
    let earlier = registration(OWN_ID, BrokerEpoch(3), "127.0.0.1:9094");
    let own = registration(OWN_ID, OWN_EPOCH, "127.0.0.1:9094");
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::registered(dir.path(), 1);
    for records in [followed_partition(), vec![earlier]] {
        broker.apply(records);
        assert_eq!(broker.shard.replicas.slot(PARTITION), None);
        assert_eq!(broker.io.opened_to(LEADER), []);
    }
    broker.apply(vec![own]);
    if broker.shard.is_finished() {
        panic!("it ended: {:?}", broker.shard.into_result());
    }
    assert!(broker.shard.replicas.slot(PARTITION).is_some(), "what was passed over is caught up");
    broker.fetch_from_leader();
}

/// The mark says which life ended; it is the last thing written, when every shard's logs are
/// closed. The next start gives it to the controller, once.
#[test]
fn a_clean_stop_leaves_the_mark_of_its_epoch_once_every_shard_has_closed() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join(".kafka_cleanshutdown");
    let mut broker = Broker::registered(dir.path(), 2);
    let idle = BrokerHeartbeatResponse::default;
    broker.heartbeat_answered(idle());
    broker.shard.on_message(&mut broker.io, Message::Stop);
    // A heartbeat may be due that was decided before the stop; the one that asks comes after it.
    broker.on(Event::Deadline);
    let last = broker.heartbeat_answered(idle().with_should_shut_down(true));
    assert_eq!((last.broker_epoch, last.want_shut_down), (OWN_EPOCH.0, true));
    assert!(!mark.exists() && !broker.shard.is_finished(), "another shard's logs are open");
    let told = broker.others[0].try_iter().any(|message| matches!(message, Message::Stop));
    assert!(told, "the other shard is told to stop");
    broker.shard.on_message(&mut broker.io, Message::Stopped(Vec::new()));
    assert!(broker.shard.is_finished() && mark.exists());
    broker.shard.into_result().expect("an orderly end");

    for previous in [OWN_EPOCH.0, -1] {
        let mut next = Broker::start(dir.path(), 1);
        let asked = next.io.take_requests(ConnectionId(0), Listener::Controller);
        let [Request::BrokerRegistration(request)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(request.previous_broker_epoch, previous);
    }
    let left = clean_shutdown::take_marker(dir.path()).unwrap();
    assert_eq!(left.previous_epoch, None, "once");
}
