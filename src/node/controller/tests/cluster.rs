use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, CreateTopicsRequest, DeleteTopicsRequest,
    TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::process::{Client, Process, apply, config, fetch_request};
use crate::protocol::metadata::ClusterMetadata;
use crate::record::batches;
use crate::types::{
    BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId, TopicPartition,
};
use crate::wire::{Request, Response};

pub(super) fn create_topic(
    name: &str,
    replication_factor: i16,
    configs: &[(&str, &str)],
) -> Request {
    let string = |text: &str| StrBytes::from_string(text.to_owned());
    let config = |(key, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(string(key)).with_value(Some(string(value)))
    };
    let topic = CreatableTopic::default()
        .with_name(TopicName(string(name)))
        .with_num_partitions(1)
        .with_replication_factor(replication_factor)
        .with_configs(configs.iter().map(config).collect());
    Request::CreateTopics(CreateTopicsRequest::default().with_topics(vec![topic]))
}

/// Error code and message of the only topic.
pub(super) fn created(response: Response) -> (ErrorCode, Option<String>) {
    let Response::CreateTopics(answer) = response else { panic!("{response:?}") };
    let message = answer.topics[0].error_message.as_ref().map(ToString::to_string);
    (ErrorCode::from_code(answer.topics[0].error_code), message)
}

/// Leader 1 proposes these members, each with its epoch.
pub(super) fn alter_partition(
    topic: TopicId,
    partition_epoch: i32,
    epochs: &[(i32, i64)],
) -> Request {
    let member = |&(broker, epoch): &(i32, i64)| {
        BrokerState::default().with_broker_id(broker.into()).with_broker_epoch(epoch)
    };
    let partition = PartitionData::default()
        .with_partition_epoch(partition_epoch)
        .with_new_isr_with_epochs(epochs.iter().map(member).collect());
    let topic = TopicData::default()
        .with_topic_id(Uuid::from_bytes(topic.0))
        .with_partitions(vec![partition]);
    Request::AlterPartition(
        AlterPartitionRequest::default()
            .with_broker_id(1.into())
            .with_broker_epoch(epochs[0].1)
            .with_topics(vec![topic]),
    )
}

/// Registers brokers 1 to 3 and has them unfenced. Gives their epochs.
pub(super) fn three_brokers(client: &mut Client) -> Vec<(i32, i64)> {
    let mut brokers = Vec::new();
    for broker in 1..=3 {
        let epoch = client.register(broker, 10 + u8::try_from(broker).unwrap()).unwrap();
        assert_eq!(client.heartbeat(broker, epoch, epoch - 1), (false, true));
        let applied = client.metadata().last_offset().unwrap().0;
        assert_eq!(client.heartbeat(broker, epoch, applied), (true, false));
        brokers.push((broker, epoch));
    }
    brokers
}

fn log_file(dir: &tempfile::TempDir) -> Bytes {
    let path = dir.path().join("__cluster_metadata-0/00000000000000000000.log");
    Bytes::from(std::fs::read(path).unwrap())
}

#[test]
fn brokers_register_a_topic_is_created_its_isr_changes_and_a_restart_keeps_it_all() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    let brokers = three_brokers(&mut client);
    let configs = [("min.insync.replicas", "2"), ("ackmark.isr.wait", "none")];
    let answer = created(client.ask(7, create_topic("bench", 3, &configs)));
    assert_eq!(answer, (ErrorCode::None, None));

    let before = client.metadata();
    let topic = before.topic_id("bench").unwrap();
    assert_eq!(before.topic_config("bench").min_isr, 2);
    let request = alter_partition(topic, 0, &brokers[..2]);
    let Response::AlterPartition(answer) = client.ask(3, request) else { panic!() };
    let partition = &answer.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.partition_epoch), (0, 1));
    let isr: Vec<i32> = partition.isr.iter().map(|member| member.0).collect();
    assert_eq!(isr, [1, 2]);

    // Persisted before the reply: what is in the file now already has it.
    let mut persisted = ClusterMetadata::default();
    apply(&mut persisted, &log_file(&dir));
    let id = TopicPartition { topic, partition: PartitionId(0) };
    let stored = persisted.partition(id).unwrap();
    assert_eq!(stored.isr, [BrokerId(1), BrokerId(2)]);
    assert_eq!(stored.partition_epoch, PartitionEpoch(1));

    // The same proposal again is stale, and changes nothing.
    let Response::AlterPartition(answer) = client.ask(3, alter_partition(topic, 0, &brokers[..2]))
    else {
        panic!()
    };
    let error = ErrorCode::from_code(answer.topics[0].partitions[0].error_code);
    assert_eq!(error, ErrorCode::InvalidUpdateVersion);

    process.stop();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    assert_eq!(client.metadata(), persisted);
    let (broker, epoch) = brokers[0];
    assert_eq!(client.register(broker, 11), Ok(epoch));
    assert_eq!(client.register(broker, 12), Err(ErrorCode::DuplicateBrokerRegistration));
    process.stop();
}

#[test]
fn a_waiting_fetch_is_woken_by_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let (mut broker, mut admin) = (process.connect(), process.connect());
    let mut metadata = broker.metadata();
    let fetch = Request::Fetch(fetch_request(metadata.end_offset(), 15_000, None));
    broker.send(17, &fetch);
    admin.register(1, 1).unwrap();
    let Response::Fetch(answer) = broker.receive(17, &fetch) else { panic!() };
    let partition = &answer.topics[0].partitions[0];
    partition.records.iter().for_each(|bytes| apply(&mut metadata, bytes));
    assert!(metadata.broker(BrokerId(1)).is_some());
    assert_eq!(partition.high_watermark, Some(metadata.end_offset()));
    process.stop();
}

#[test]
fn a_fetch_that_nothing_answers_ends_empty() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    let end = client.metadata().end_offset();
    let answer = client.fetch(end, 1, None);
    assert_eq!((answer.error, answer.high_watermark), (ErrorCode::None, Some(end)));
    assert!(answer.records.concat().is_empty());
    process.stop();
}

#[test]
fn a_fetch_of_the_wrong_thing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    let end = client.metadata().end_offset();
    let errors = [
        (client.fetch(end.plus(1), 0, None), ErrorCode::OffsetOutOfRange),
        (client.fetch(Offset(-1), 0, None), ErrorCode::OffsetOutOfRange),
        (client.fetch(end, 0, Some(LeaderEpoch(0))), ErrorCode::FencedLeaderEpoch),
        (client.fetch(end, 0, Some(LeaderEpoch(1))), ErrorCode::None),
        (client.fetch(end, 0, Some(LeaderEpoch(2))), ErrorCode::UnknownLeaderEpoch),
    ];
    for (answer, error) in errors {
        assert_eq!(answer.error, error);
        let stale = matches!(error, ErrorCode::FencedLeaderEpoch | ErrorCode::UnknownLeaderEpoch);
        assert_eq!(
            answer.current_leader.map(|leader| leader.epoch),
            stale.then_some(LeaderEpoch(1))
        );
    }
    let mut request = fetch_request(end, 0, None);
    request.topics[0].topic.id = TopicId([5; 16]);
    let Response::Fetch(answer) = client.ask(17, Request::Fetch(request)) else { panic!() };
    assert_eq!(answer.topics[0].partitions[0].error, ErrorCode::UnknownTopicId);
    let mut request = fetch_request(end, 0, None);
    request.cluster_id = Some(StrBytes::from_static_str("other"));
    let Response::Fetch(answer) = client.ask(17, Request::Fetch(request)) else { panic!() };
    assert_eq!(answer.error, ErrorCode::InconsistentClusterId);
    process.stop();
}

#[test]
fn a_silent_broker_is_fenced() {
    let dir = tempfile::tempdir().unwrap();
    let session_timeout = Duration::from_millis(50);
    let process = Process::start(crate::config::node::ControllerConfig {
        session_timeout,
        ..config(dir.path())
    });
    let mut client = process.connect();
    let epoch = client.register(1, 1).unwrap();
    let applied = client.metadata().last_offset().unwrap().0;
    assert_eq!(client.heartbeat(1, epoch, applied), (true, false));
    let mut metadata = client.metadata();
    // Each fetch waits for the next record; the read timeout of the socket ends a hopeless wait.
    while metadata.broker(BrokerId(1)).is_none_or(|broker| !broker.fenced) {
        client.follow(&mut metadata, 15_000);
    }
    process.stop();
}

/// The injected delay is a lower bound of every commit; batches do not queue behind each other's.
#[test]
fn an_injected_delay_holds_every_commit() {
    let dir = tempfile::tempdir().unwrap();
    let commit_delay = Duration::from_millis(60);
    let process = Process::start(crate::config::node::ControllerConfig {
        commit_delay,
        ..config(dir.path())
    });
    let mut client = process.connect();
    for incarnation in 1..=2 {
        let asked = std::time::Instant::now();
        client.register(incarnation, 1).unwrap();
        assert!(asked.elapsed() >= commit_delay, "{:?}", asked.elapsed());
    }
    process.stop();
}

#[test]
fn requests_within_the_linger_share_an_append() {
    let dir = tempfile::tempdir().unwrap();
    let metadata_append_linger = Duration::from_millis(500);
    let process = Process::start(crate::config::node::ControllerConfig {
        metadata_append_linger,
        ..config(dir.path())
    });
    let mut clients = [process.connect(), process.connect()];
    let request = Request::AllocateProducerIds(AllocateProducerIdsRequest::default());
    for (client, broker) in clients.iter_mut().zip(1..) {
        client.register(broker, 1).unwrap();
    }
    let batch_count = batches(&log_file(&dir)).count();
    let requests: Vec<Request> = ["a", "b"].map(|name| create_topic(name, 1, &[])).into();
    // Unfenced first, or there is nobody to hold the topics.
    let epoch = clients[0].metadata().broker(BrokerId(1)).unwrap().epoch.0;
    assert_eq!(clients[0].heartbeat(1, epoch, 1000), (true, false));
    for (client, request) in clients.iter_mut().zip(&requests) {
        client.send(7, request);
    }
    for (client, request) in clients.iter_mut().zip(&requests) {
        assert_eq!(created(client.receive(7, request)).0, ErrorCode::None);
    }
    // One for the heartbeat, one for both topics.
    assert_eq!(batches(&log_file(&dir)).count(), batch_count + 2);
    let Response::AllocateProducerIds(answer) = clients[0].ask(0, request) else { panic!() };
    assert_eq!(ErrorCode::from_code(answer.error_code), ErrorCode::StaleBrokerEpoch);
    process.stop();
}

#[test]
fn topics_are_refused_created_and_deleted_in_every_version() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    three_brokers(&mut client);
    for version in 2..=7 {
        let refused = client.ask(version, create_topic("t", 1, &[("ackmark.hwm.gate", "off")]));
        let message =
            "ackmark.hwm.gate = off: must be kip966, legacy, maximal-isr or soft".to_owned();
        assert_eq!(created(refused), (ErrorCode::InvalidConfig, Some(message)));
        let answer = created(client.ask(version, create_topic("t", 1, &[])));
        assert_eq!(answer, (ErrorCode::None, None));
        let name = || TopicName(StrBytes::from_static_str("t"));
        let (version, request) = match version {
            7 => {
                let topic = DeleteTopicState::default().with_name(Some(name()));
                (6, DeleteTopicsRequest::default().with_topics(vec![topic]))
            }
            version => {
                (version.min(5), DeleteTopicsRequest::default().with_topic_names(vec![name()]))
            }
        };
        for error in [ErrorCode::None, ErrorCode::UnknownTopicOrPartition] {
            let response = client.ask(version, Request::DeleteTopics(request.clone()));
            let Response::DeleteTopics(answer) = response else { panic!() };
            assert_eq!(ErrorCode::from_code(answer.responses[0].error_code), error);
        }
    }
    assert_eq!(client.metadata().topics().count(), 0);
    process.stop();
}
