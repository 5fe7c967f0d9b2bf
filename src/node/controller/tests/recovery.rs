//! Unclean recovery with a real controller and brokers that only know where their logs end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;

use super::operator::{Proposal, TOPIC, string};
use super::process::{Client, Process, config, listener, registration};
use crate::protocol::metadata::{PartitionRegistration, topic_config};
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, TopicPartition,
};
use crate::wire::{
    Listener, ReplicaLogInfo, ReplicaLogInfoResponse, Request, Response, encode_response,
    parse_request,
};

/// What a broker answers.
#[derive(Clone, Copy)]
struct Log {
    broker_epoch: i64,
    written: i32,
    end: i64,
    leader_epoch: i32,
}

/// A broker that answers GetReplicaLogInfo and nothing else.
struct Broker {
    id: i32,
    port: u16,
    log: Arc<Mutex<Log>>,
}

impl Broker {
    fn start(id: i32) -> Broker {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let log = Log { broker_epoch: -1, written: -1, end: 0, leader_epoch: -1 };
        let log = Arc::new(Mutex::new(log));
        let shared = log.clone();
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                // A controller that stops may leave a connection half used.
                let _ = serve(stream.unwrap(), &shared);
            }
        });
        Broker { id, port, log }
    }

    fn set(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log.lock().unwrap());
    }

    /// A new process; whether it knows what it held before is its word.
    fn register(&self, client: &mut Client, incarnation: u8, previous_epoch: i64) -> i64 {
        let request = registration(self.id, incarnation)
            .with_listeners(listener(self.port))
            .with_previous_broker_epoch(previous_epoch);
        let epoch = client.register_as(request).unwrap();
        self.set(|log| log.broker_epoch = epoch);
        epoch
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Log>) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame)?;
        let (head, request) = parse_request(Listener::Broker, Bytes::from(frame)).unwrap();
        let Request::GetReplicaLogInfo(request) = request else { panic!("{request:?}") };
        let log = *log.lock().unwrap();
        let info = |partition: PartitionId| ReplicaLogInfo {
            partition,
            last_written_leader_epoch: Some(LeaderEpoch(log.written)).filter(|e| e.0 >= 0),
            current_leader_epoch: Some(LeaderEpoch(log.leader_epoch)),
            log_end_offset: Offset(log.end),
            error: ErrorCode::None,
        };
        let topics = request.topics.unwrap().into_iter();
        let response = Response::GetReplicaLogInfo(ReplicaLogInfoResponse {
            broker_epoch: Some(BrokerEpoch(log.broker_epoch)),
            has_more_data: false,
            topics: topics.map(|(id, asked)| (id, asked.into_iter().map(info).collect())).collect(),
        });
        let frame = encode_response(&head, &response).unwrap();
        stream.write_all(&(frame.len() as i32).to_be_bytes())?;
        stream.write_all(&frame)?;
    }
}

/// Three brokers, a topic of theirs, and then every process gone without a trace of a clean end:
/// ISR and ELR are empty, all three are last known members, all are fenced.
fn lose_everybody(client: &mut Client, brokers: &[Broker], strategy: &str) -> (TopicId, Vec<i64>) {
    let mut epochs = Vec::new();
    for broker in brokers {
        let epoch = broker.register(client, 1, -1);
        client.beat(broker.id, epoch, false, false);
        epochs.push(epoch);
    }
    let configs = [(topic_config::MIN_ISR, "2"), (topic_config::UNCLEAN_RECOVERY, strategy)];
    let topic = client.create(&[1, 2, 3], &configs);
    let proposal = Proposal {
        broker: 1,
        broker_epoch: epochs[0],
        leader_epoch: 0,
        partition_epoch: 0,
        isr: vec![(1, epochs[0])],
        recovering: false,
    };
    assert_eq!(client.propose(topic, &proposal), ErrorCode::None);
    for (broker, epoch) in brokers.iter().zip(&mut epochs) {
        client.beat(broker.id, *epoch, true, false);
        *epoch = broker.register(client, 2, -1);
    }
    let partition = client.partition(topic);
    assert_eq!((partition.leader, partition.isr.len(), partition.elr.len()), (None, 0, 0));
    assert_eq!(partition.last_known_elr.len(), 3);
    (topic, epochs)
}

fn unfence_all(client: &mut Client, brokers: &[Broker], epochs: &[i64]) {
    for (broker, &epoch) in brokers.iter().zip(epochs) {
        assert_eq!(client.beat(broker.id, epoch, false, false), ErrorCode::None);
    }
}

/// Follows the metadata log until there is a leader; the socket's read timeout ends a hopeless wait.
fn await_leader(client: &mut Client, topic: TopicId) -> PartitionRegistration {
    let id = TopicPartition { topic, partition: PartitionId(0) };
    let mut metadata = client.metadata();
    loop {
        let partition = metadata.partition(id).unwrap();
        if partition.leader.is_some() {
            return partition.clone();
        }
        client.follow(&mut metadata, 15_000);
    }
}

fn cluster() -> (tempfile::TempDir, Process, Vec<Broker>) {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    (dir, process, (1..=3).map(Broker::start).collect())
}

#[test]
fn balanced_recovery_elects_the_best_log_and_survives_a_controller_restart() {
    let (dir, process, brokers) = cluster();
    let mut client = process.connect();
    let (topic, epochs) = lose_everybody(&mut client, &brokers, "Balanced");
    let leader_epoch = client.partition(topic).leader_epoch.0;
    for (broker, (written, end)) in brokers.iter().zip([(0, 50), (1, 20), (1, 30)]) {
        broker.set(|log| (log.written, log.end, log.leader_epoch) = (written, end, leader_epoch));
    }
    // Two answer of an older state: the recovery has to wait for them, across a restart.
    brokers[0].set(|log| log.broker_epoch -= 1);
    brokers[2].set(|log| log.leader_epoch -= 1);
    unfence_all(&mut client, &brokers, &epochs);
    process.stop();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    assert_eq!(client.partition(topic).leader, None);
    brokers[0].set(|log| log.broker_epoch += 1);
    brokers[2].set(|log| log.leader_epoch += 1);
    unfence_all(&mut client, &brokers, &epochs);
    let partition = await_leader(&mut client, topic);
    assert_eq!(partition.leader, Some(BrokerId(3)));
    assert_eq!(partition.isr, [BrokerId(3)]);
    assert!(partition.recovering);
    assert_eq!(partition.leader_epoch.0, leader_epoch + 1);
    process.stop();
}

#[test]
fn an_operator_recovers_a_partition_in_manual_mode() {
    let (_dir, process, brokers) = cluster();
    let mut client = process.connect();
    let (topic, epochs) = lose_everybody(&mut client, &brokers, "Manual");
    let leader_epoch = client.partition(topic).leader_epoch.0;
    for (broker, end) in brokers.iter().zip([10, 30, 20]) {
        broker.set(|log| (log.written, log.end, log.leader_epoch) = (0, end, leader_epoch));
    }
    let refused = client.elect(4, Some(2));
    assert_eq!(refused.0, ErrorCode::EligibleLeadersNotAvailable, "{refused:?}");
    unfence_all(&mut client, &brokers, &epochs);
    assert_eq!(client.partition(topic).leader, None);
    assert_eq!(client.elect(2, None), (ErrorCode::None, None));
    assert_eq!(await_leader(&mut client, topic).leader, Some(BrokerId(2)));
    let (error, message) = client.elect(4, Some(1));
    assert_eq!(error, ErrorCode::ElectionNotNeeded);
    assert_eq!(message.as_deref(), Some("the partition has a leader: 2"));
    process.stop();
}

#[test]
fn an_operator_designates_a_leader() {
    let (_dir, process, brokers) = cluster();
    let mut client = process.connect();
    let (topic, epochs) = lose_everybody(&mut client, &brokers, "Manual");
    unfence_all(&mut client, &brokers, &epochs);
    assert_eq!(client.elect(4, Some(3)), (ErrorCode::None, None));
    assert_eq!(client.partition(topic).leader, Some(BrokerId(3)));
    process.stop();
}

#[test]
fn elections_that_make_no_sense_are_refused_as_a_whole() {
    let (_dir, process, _brokers) = cluster();
    let mut client = process.connect();
    assert_eq!(client.elect(5, None), (ErrorCode::InvalidRequest, None));
    assert_eq!(client.elect(4, None), (ErrorCode::InvalidRequest, None));
    let (error, _) = client.elect(0, None);
    assert_eq!(error, ErrorCode::UnknownTopicOrPartition);
    process.stop();
}

#[test]
fn settings_are_set_and_removed_for_topics_and_the_cluster_and_refused_in_words() {
    let (_dir, process, brokers) = cluster();
    let mut client = process.connect();
    let (topic, _) = lose_everybody(&mut client, &brokers, "Manual");
    let config = |client: &mut Client| client.metadata().topic_config(TOPIC);
    assert_eq!(client.set(None, topic_config::ISR_EXPAND, "caught-up"), ErrorCode::None);
    assert_eq!(client.set(Some(TOPIC), topic_config::HWM_GATE, "legacy"), ErrorCode::None);
    assert_eq!(config(&mut client).isr_expand, crate::types::IsrExpand::CaughtUp);
    assert_eq!(config(&mut client).hwm_gate, crate::types::HwmGate::Legacy);
    let delete = AlterableConfig::default()
        .with_name(string(topic_config::UNCLEAN_RECOVERY))
        .with_config_operation(1)
        .with_value(None);
    assert_eq!(client.alter(Some(TOPIC), delete), (ErrorCode::None, None));
    let strategy = config(&mut client).unclean_recovery;
    assert_eq!(strategy, crate::types::UncleanRecovery::Balanced);
    let end = client.end();
    let append = AlterableConfig::default()
        .with_name(string(topic_config::MIN_ISR))
        .with_config_operation(2)
        .with_value(Some(string("2")));
    let (error, message) = client.alter(Some(TOPIC), append);
    assert_eq!(error, ErrorCode::InvalidRequest);
    let words = "min.insync.replicas: operation 2: must be 0 (set) or 1 (delete)";
    assert_eq!(message.as_deref(), Some(words));
    let bad = AlterableConfig::default().with_name(string("x")).with_value(Some(string("1")));
    assert_eq!(client.alter(Some(TOPIC), bad).0, ErrorCode::InvalidConfig);
    assert_eq!(client.end(), end, "refused changes write nothing");
    assert_eq!(client.partition(topic).leader, None);
    process.stop();
}
