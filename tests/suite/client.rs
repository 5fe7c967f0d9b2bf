//! A client for tests: one question per connection, records one by one, the program's own commands.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ackmark::node::client::{Client, ClientError};
use ackmark::protocol::metadata::Record;
use ackmark::record::{self, BatchBuilder};
use ackmark::types::{Acks, ErrorCode, Offset, PartitionId, TopicId};
use ackmark::wire::{
    self, FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic, ProducePartition,
    ProduceRequest, ProduceTopic, Request, Response, TopicRef,
};
use bytes::Bytes;
use serde_json::Value;

const PRODUCE_VERSION: i16 = 9;
/// The last version that names topics.
const FETCH_VERSION: i16 = 12;
const METADATA_FETCH_VERSION: i16 = 17;
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the program.
pub fn ackmark(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackmark")).args(arguments).output().unwrap()
}

/// Runs an operator's command against a broker; it must succeed. Gives its standard output.
pub fn command(bootstrap: SocketAddr, arguments: &[&str]) -> String {
    let bootstrap = bootstrap.to_string();
    let (name, rest) = arguments.split_first().unwrap();
    let output = ackmark(&[&[*name, "--bootstrap", &bootstrap], rest].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// As [`command`], with the answer for programs.
pub fn command_json(bootstrap: SocketAddr, arguments: &[&str]) -> Value {
    serde_json::from_str(&command(bootstrap, &[arguments, &["--json"]].concat())).unwrap()
}

/// As [`command_json`]; `None` if the broker is not there, or does not know enough yet.
pub fn try_command_json(bootstrap: SocketAddr, arguments: &[&str]) -> Option<Value> {
    let bootstrap = bootstrap.to_string();
    let (name, rest) = arguments.split_first().unwrap();
    let output = ackmark(&[&[*name, "--json", "--bootstrap", &bootstrap], rest].concat());
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Looks until `found` finds something.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `None` if the broker is not there or closes the connection.
pub fn ask(address: SocketAddr, version: i16, request: &Request) -> Option<Response> {
    let mut client = Client::connect(&address.to_string(), PATIENCE).ok()?;
    match client.ask(version, request) {
        Ok(response) => Some(response),
        Err(ClientError::Broken { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// One record to partition 0; gives its offset.
pub fn produce(
    leader: SocketAddr,
    topic: &str,
    acks: Acks,
    value: &str,
) -> Result<Offset, ErrorCode> {
    let mut batch = BatchBuilder::with_capacity(1024);
    batch.start(0);
    batch.push(0, None, value.as_bytes());
    let partition = ProducePartition { partition: PartitionId(0), records: batch.finish() };
    let request = Request::Produce(ProduceRequest {
        transactional_id: None,
        acks: acks.to_wire(),
        timeout_ms: 30_000,
        topics: vec![ProduceTopic { name: topic.to_owned().into(), partitions: vec![partition] }],
        wants_stamps: false,
    });
    match ask(leader, PRODUCE_VERSION, &request) {
        Some(Response::Produce(answer)) => match answer.topics[0].partitions[0].error {
            ErrorCode::None => Ok(answer.topics[0].partitions[0].base_offset.unwrap()),
            error => Err(error),
        },
        Some(other) => panic!("{other:?}"),
        None => Err(ErrorCode::NotLeaderOrFollower),
    }
}

/// Partition 0 from its start, as a consumer sees it; nothing is waited for.
fn fetch(address: SocketAddr, version: i16, topic: TopicRef) -> Option<FetchPartitionResponse> {
    let partition = FetchPartition {
        partition: PartitionId(0),
        current_leader_epoch: None,
        fetch_offset: Offset::ZERO,
        last_fetched_epoch: None,
        log_start_offset: None,
        partition_max_bytes: 1 << 20,
        stamps: None,
        durable_offset: None,
    };
    let request = Request::Fetch(FetchRequest {
        cluster_id: None,
        replica: None,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 1 << 20,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic { topic, partitions: vec![partition] }],
        trace_high_watermark: false,
    });
    match ask(address, version, &request)? {
        Response::Fetch(mut answer) => Some(answer.topics.remove(0).partitions.remove(0)),
        other => panic!("{other:?}"),
    }
}

fn topic_named(name: &str) -> TopicRef {
    TopicRef { name: name.to_owned().into(), id: TopicId::ZERO }
}

/// The leader's high watermark.
pub fn high_watermark(leader: SocketAddr, topic: &str) -> Offset {
    let answer = fetch(leader, FETCH_VERSION, topic_named(topic)).unwrap();
    assert_eq!(answer.error, ErrorCode::None);
    answer.high_watermark.unwrap()
}

/// The values that a consumer gets; `None` if not now.
pub fn committed_values(leader: SocketAddr, topic: &str) -> Option<Vec<String>> {
    let answer = fetch(leader, FETCH_VERSION, topic_named(topic))?;
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let is_read = answer.error == ErrorCode::None;
    is_read.then(|| values(&answer.records).iter().map(|value| text(value)).collect())
}

/// The records of the metadata log, as a controller serves it.
pub fn metadata_records(controller: SocketAddr) -> Vec<Record> {
    let topic = TopicRef { name: Default::default(), id: TopicId::METADATA };
    let answer = fetch(controller, METADATA_FETCH_VERSION, topic).unwrap();
    let records = values(&answer.records);
    records.iter().map(|value| wire::decode_metadata_record(value).unwrap()).collect()
}

fn values(chunks: &[Bytes]) -> Vec<Bytes> {
    let mut values = Vec::new();
    for chunk in chunks {
        for batch in record::batches(chunk) {
            let (header, range) = batch.unwrap();
            if header.is_control() {
                continue;
            }
            let records = record::records(&chunk[range]).unwrap();
            values.extend(records.map(|one| chunk.slice_ref(one.unwrap().value.unwrap())));
        }
    }
    values
}
