//! Bytes no client should send, against a real broker: each hurts its own connection at most.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ackmark::record::BatchBuilder;
use ackmark::types::{Acks, DurabilityMode, ErrorCode, PartitionId};
use ackmark::wire::{self, ApiKey, ProducePartition, ProduceRequest, ProduceTopic, Response};

use crate::cluster::{Cluster, Shape, small_cell};

const PRODUCE_VERSION: i16 = 9;

fn connect(cluster: &Cluster) -> TcpStream {
    let stream = TcpStream::connect(cluster.address(1)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn send_frame(stream: &mut TcpStream, frame: &[u8]) {
    stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(frame).unwrap();
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.read(&mut byte), Ok(0) | Err(_))
}

fn api_versions(version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(18_i16.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(77_i32.to_be_bytes());
    frame.extend((-1_i16).to_be_bytes());
    frame.extend(body);
    frame
}

fn assert_serves(stream: &mut TcpStream) {
    send_frame(stream, &api_versions(0, &[]));
    let answer = read_frame(stream);
    assert_eq!(answer[..6], [0, 0, 0, 77, 0, 0], "correlation id and no error");
}

#[test]
fn garbage_closes_its_own_connection_only() {
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let mut bystander = connect(&cluster);
    assert_serves(&mut bystander);
    let before_bytes = cluster.resident_bytes(1);
    let raw: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",                // read as a frame of 1.2 GB
        &[0xff, 0xff, 0xff, 0xff],                // length -1
        &[0x7f, 0xff, 0xff, 0xff],                // length 2^31 - 1
        &[0, 0, 0, 3, 1, 2, 3],                   // too short for a header
        &[0, 0, 0, 8, 3, 0xe7, 0, 0, 0, 0, 0, 1], // API key 999
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], // a TLS hello: read as 0x16030102 bytes
    ];
    for bytes in raw {
        let mut stream = connect(&cluster);
        stream.write_all(bytes).unwrap();
        assert!(is_closed(&mut stream), "{bytes:02x?}");
    }
    let mut unsupported = connect(&cluster);
    send_frame(&mut unsupported, &[0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0, 0]);
    assert!(is_closed(&mut unsupported), "Metadata version 99");
    let mut huge_count = connect(&cluster);
    let metadata = [0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0xff];
    send_frame(&mut huge_count, &metadata);
    assert!(is_closed(&mut huge_count), "an array of billions");
    assert_serves(&mut bystander);
    assert!(cluster.is_running(1));
    let grown_bytes = cluster.resident_bytes(1).saturating_sub(before_bytes);
    assert!(grown_bytes < 64 << 20, "grew by {grown_bytes} bytes");
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_and_the_connection_kept() {
    let cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let mut stream = connect(&cluster);
    send_frame(&mut stream, &api_versions(99, b"junk that must not be parsed"));
    let answer = read_frame(&mut stream);
    assert_eq!(answer[..6], [0, 0, 0, 77, 0, 35], "UNSUPPORTED_VERSION in a version 0 body");
    assert_serves(&mut stream);
}

#[test]
fn a_frame_may_arrive_byte_by_byte() {
    let cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let mut stream = connect(&cluster);
    stream.set_nodelay(true).unwrap();
    let frame = api_versions(0, &[]);
    for byte in (frame.len() as u32).to_be_bytes().iter().chain(&frame) {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_frame(&mut stream)[..4], [0, 0, 0, 77]);
}

#[test]
fn a_bad_batch_is_refused_by_its_code_and_nothing_is_appended() {
    let cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let spec = small_cell("bad", Acks::All);
    let outcome = cluster.run(&spec);
    let mut leader = leader_connection(&cluster, &spec.topic);
    let good = batch();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut old_magic = good.clone();
    old_magic[16] = 1;
    let mut too_many = good.clone();
    too_many[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    let twice = [good.clone(), good.clone()].concat();
    let cases: [(&str, Vec<u8>, i16, ErrorCode); 7] = [
        ("wrong CRC", flipped, -1, ErrorCode::CorruptMessage),
        ("truncated", good[..good.len() - 3].to_vec(), -1, ErrorCode::CorruptMessage),
        ("old magic", old_magic, -1, ErrorCode::InvalidRecord),
        ("a count of billions", too_many, -1, ErrorCode::CorruptMessage),
        ("two batches", twice, -1, ErrorCode::InvalidRecord),
        ("nothing", Vec::new(), -1, ErrorCode::InvalidRecord),
        ("acks 7", good.clone(), 7, ErrorCode::InvalidRequiredAcks),
    ];
    for (what, records, acks, error) in cases {
        assert_eq!(produce(&mut leader, &spec.topic, 0, acks, records), error, "{what}");
    }
    let unknown = produce(&mut leader, "nowhere", 0, -1, good.clone());
    assert_eq!(unknown, ErrorCode::UnknownTopicOrPartition);
    cluster.assert_nothing_lost(1, &spec, &outcome);
    assert_eq!(produce(&mut leader, &spec.topic, 0, -1, good), ErrorCode::None);
}

fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::with_capacity(1024);
    builder.start(0);
    builder.push(0, None, &[7; 100]);
    builder.finish().to_vec()
}

/// A connection to whichever broker takes a batch for the topic.
fn leader_connection(cluster: &Cluster, topic: &str) -> TcpStream {
    (1..=3)
        .map(|id| TcpStream::connect(cluster.address(id)).unwrap())
        .find_map(|mut stream| {
            let error = produce(&mut stream, topic, 0, 7, batch());
            let leads =
                produce(&mut stream, topic, 0, 1, Vec::new()) != ErrorCode::NotLeaderOrFollower;
            (error == ErrorCode::InvalidRequiredAcks && leads && takes(&mut stream, topic))
                .then_some(stream)
        })
        .unwrap()
}

/// A corrupt batch tells a leader (which looks at it) from a follower (which refuses to).
fn takes(stream: &mut TcpStream, topic: &str) -> bool {
    let request = wire::encode_request(1, "test", 4, &metadata_request(topic)).unwrap();
    send_frame(stream, &request);
    let answer = wire::parse_response(ApiKey::Metadata, 4, read_frame(stream).into()).unwrap();
    let Response::Metadata(metadata) = answer.1 else { panic!("not metadata") };
    let leader = metadata.topics[0].partitions[0].leader_id;
    let own = stream.peer_addr().unwrap().port();
    metadata.brokers.iter().any(|b| b.node_id == leader && b.port == i32::from(own))
}

fn metadata_request(topic: &str) -> wire::Request {
    use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
    use kafka_protocol::messages::{MetadataRequest, TopicName};
    let topic = MetadataRequestTopic::default().with_name(Some(TopicName(topic.to_owned().into())));
    wire::Request::Metadata(MetadataRequest::default().with_topics(Some(vec![topic])))
}

fn produce(
    stream: &mut TcpStream,
    topic: &str,
    partition: i32,
    acks: i16,
    records: Vec<u8>,
) -> ErrorCode {
    let partitions =
        vec![ProducePartition { partition: PartitionId(partition), records: records.into() }];
    let request = ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 5000,
        topics: vec![ProduceTopic { name: topic.to_owned().into(), partitions }],
        wants_stamps: false,
    };
    let pieces = wire::encode_produce_request(5, "test", PRODUCE_VERSION, &request);
    send_frame(stream, &pieces.concat());
    let answer = read_frame(stream).into();
    let parsed = wire::parse_response(ApiKey::Produce, PRODUCE_VERSION, answer).unwrap();
    let Response::Produce(response) = parsed.1 else { panic!("not a produce response") };
    response.topics[0].partitions[0].error
}
