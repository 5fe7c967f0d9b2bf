//! The hand-written codecs against the schema crate's, byte for byte, at every version.

use bytes::Bytes;
use kafka_protocol::messages as schema;
use kafka_protocol::protocol::{Decodable, Encodable};
use uuid::Uuid;

use super::hot_samples::{self, batch};
use super::round_trip::head;
use super::samples::text;
use crate::types::{ErrorCode, LeaderEpoch, Offset, PartitionId};
use crate::wire::*;

fn produce_versions() -> impl Iterator<Item = i16> {
    3..=12
}

fn fetch_versions() -> impl Iterator<Item = i16> {
    4..=17
}

/// The body of an encoded frame.
fn body(frame: &Bytes, api: ApiKey, version: i16, request: bool) -> Bytes {
    let flexible = usize::from(api.is_flexible(version));
    let header_bytes = if request { 10 + "client".len() + flexible } else { 4 + flexible };
    frame.slice(header_bytes..)
}

fn encoded<T: Encodable>(message: &T, version: i16) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out, version).unwrap();
    out
}

fn decoded<T: Decodable>(mut body: Bytes, version: i16) -> T {
    let message = T::decode(&mut body, version).unwrap();
    assert!(body.is_empty(), "the crate leaves {} bytes", body.len());
    message
}

fn with_tag<T>(present: bool, message: T, add: impl FnOnce(T) -> T) -> T {
    if present { add(message) } else { message }
}

fn big_endian(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn schema_produce_request(request: &ProduceRequest) -> schema::ProduceRequest {
    use schema::produce_request::{PartitionProduceData, TopicProduceData};
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            PartitionProduceData::default()
                .with_index(partition.partition.0)
                .with_records(Some(partition.records.clone()))
        });
        TopicProduceData::default()
            .with_name(topic.name.clone().into())
            .with_partition_data(partitions.collect())
    });
    let message = schema::ProduceRequest::default()
        .with_transactional_id(request.transactional_id.clone().map(Into::into))
        .with_acks(request.acks)
        .with_timeout_ms(request.timeout_ms)
        .with_topic_data(topics.collect());
    with_tag(request.wants_stamps, message, |message| {
        message.with_unknown_tagged_field(10_000, Bytes::new())
    })
}

#[test]
fn produce_requests_equal_the_schema_crates() {
    for version in produce_versions() {
        let request = hot_samples::produce_request(version);
        let pieces = encode_produce_request(7, "client", version, &request);
        let frame = Bytes::from(pieces.concat());
        let body = body(&frame, ApiKey::Produce, version, true);
        let expected = schema_produce_request(&request);
        assert_eq!(body, encoded(&expected, version), "version {version}");
        assert_eq!(decoded::<schema::ProduceRequest>(body, version), expected);
    }
}

fn schema_produce_response(response: &ProduceResponse) -> schema::ProduceResponse {
    use schema::produce_response::{
        LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
    };
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let message = PartitionProduceResponse::default()
                .with_index(partition.partition.0)
                .with_error_code(partition.error.code())
                .with_base_offset(partition.base_offset.map_or(-1, |offset| offset.0))
                .with_log_append_time_ms(-1)
                .with_log_start_offset(partition.log_start_offset.map_or(-1, |offset| offset.0))
                .with_error_message(partition.error_message.clone());
            let message = match partition.current_leader {
                None => message,
                Some(CurrentLeader { id, epoch }) => message.with_current_leader(
                    LeaderIdAndEpoch::default()
                        .with_leader_id(id.map_or(-1, |id| id.0).into())
                        .with_leader_epoch(epoch.0),
                ),
            };
            with_tag(partition.stamps.is_some(), message, |message| {
                let instants: Vec<u64> =
                    std::iter::once(7).chain((1..=11).map(|n| n << 40)).collect();
                message.with_unknown_tagged_field(10_001, big_endian(&instants))
            })
        });
        TopicProduceResponse::default()
            .with_name(topic.name.clone().into())
            .with_partition_responses(partitions.collect())
    });
    schema::ProduceResponse::default().with_responses(topics.collect())
}

#[test]
fn produce_responses_equal_the_schema_crates() {
    for version in produce_versions() {
        let response = hot_samples::produce_response(version);
        let frame = encode_produce_response(&head(ApiKey::Produce, version), &response);
        let body = body(&frame, ApiKey::Produce, version, false);
        let expected = schema_produce_response(&response);
        assert_eq!(body, encoded(&expected, version), "version {version}");
        assert_eq!(decoded::<schema::ProduceResponse>(body, version), expected);
    }
}

fn schema_fetch_request(request: &FetchRequest, version: i16) -> schema::FetchRequest {
    use schema::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
    let epoch = |epoch: Option<LeaderEpoch>| epoch.map_or(-1, |epoch| epoch.0);
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let message = FetchPartition::default()
                .with_partition(partition.partition.0)
                .with_current_leader_epoch(epoch(partition.current_leader_epoch))
                .with_fetch_offset(partition.fetch_offset.0)
                .with_last_fetched_epoch(epoch(partition.last_fetched_epoch))
                .with_log_start_offset(partition.log_start_offset.map_or(-1, |offset| offset.0))
                .with_partition_max_bytes(partition.partition_max_bytes);
            let message = with_tag(partition.stamps.is_some(), message, |message| {
                message.with_unknown_tagged_field(10_002, big_endian(&[7, 1, 2, 3]))
            });
            with_tag(partition.durable_offset.is_some(), message, |message| {
                message.with_unknown_tagged_field(10_005, big_endian(&[75]))
            })
        });
        FetchTopic::default()
            .with_topic(topic.topic.name.clone().into())
            .with_topic_id(Uuid::from_bytes(topic.topic.id.0))
            .with_partitions(partitions.collect())
    });
    let message = schema::FetchRequest::default()
        .with_cluster_id(request.cluster_id.clone())
        .with_max_wait_ms(request.max_wait_ms)
        .with_min_bytes(request.min_bytes)
        .with_max_bytes(request.max_bytes)
        .with_session_id(request.session_id)
        .with_session_epoch(request.session_epoch)
        .with_topics(topics.collect());
    let message = match request.replica {
        None => message,
        Some(replica) if version < 15 => message.with_replica_id(replica.id.0.into()),
        Some(replica) => message.with_replica_state(
            ReplicaState::default()
                .with_replica_id(replica.id.0.into())
                .with_replica_epoch(replica.epoch.map_or(-1, |epoch| epoch.0)),
        ),
    };
    with_tag(request.trace_high_watermark, message, |message| {
        message.with_unknown_tagged_field(10_003, Bytes::new())
    })
}

#[test]
fn fetch_requests_equal_the_schema_crates() {
    for version in fetch_versions() {
        let follower = hot_samples::fetch_request(version);
        let consumer = FetchRequest { replica: None, cluster_id: None, ..follower.clone() };
        for request in [follower, consumer] {
            let frame = encode_fetch_request(7, "client", version, &request);
            let body = body(&frame, ApiKey::Fetch, version, true);
            let expected = schema_fetch_request(&request, version);
            assert_eq!(body, encoded(&expected, version), "version {version}");
            assert_eq!(decoded::<schema::FetchRequest>(body, version), expected);
        }
    }
}

fn schema_fetch_response(response: &FetchResponse) -> schema::FetchResponse {
    use schema::fetch_response::{
        EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
    };
    let offset = |offset: Option<Offset>| offset.map_or(-1, |offset| offset.0);
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let mut message = PartitionData::default()
                .with_partition_index(partition.partition.0)
                .with_error_code(partition.error.code())
                .with_high_watermark(offset(partition.high_watermark))
                .with_last_stable_offset(offset(partition.high_watermark))
                .with_log_start_offset(offset(partition.log_start_offset))
                .with_records(Some(partition.records.concat().into()));
            if let Some((epoch, end)) = partition.diverging {
                let diverging = EpochEndOffset::default().with_epoch(epoch.0);
                message = message.with_diverging_epoch(diverging.with_end_offset(end.0));
            }
            if let Some(CurrentLeader { id, epoch }) = partition.current_leader {
                message = message.with_current_leader(
                    LeaderIdAndEpoch::default()
                        .with_leader_id(id.map_or(-1, |id| id.0).into())
                        .with_leader_epoch(epoch.0),
                );
            }
            with_tag(partition.trace.is_some(), message, |message| {
                message.with_unknown_tagged_field(10_004, big_endian(&[7, 78, 1, 80, 2]))
            })
        });
        FetchableTopicResponse::default()
            .with_topic(topic.topic.name.clone().into())
            .with_topic_id(Uuid::from_bytes(topic.topic.id.0))
            .with_partitions(partitions.collect())
    });
    schema::FetchResponse::default().with_responses(topics.collect())
}

#[test]
fn fetch_responses_equal_the_schema_crates() {
    for version in fetch_versions() {
        let response = hot_samples::fetch_response(version);
        let pieces = encode_fetch_response(&head(ApiKey::Fetch, version), &response);
        let body = body(&Bytes::from(pieces.concat()), ApiKey::Fetch, version, false);
        let expected = schema_fetch_response(&response);
        assert_eq!(body, encoded(&expected, version), "version {version}");
        assert_eq!(decoded::<schema::FetchResponse>(body, version), expected);
    }
}

/// What this room reads over must not throw it off: everything the schema has, filled in.
#[test]
fn fields_without_use_here_are_read_over() {
    use schema::fetch_request::ForgottenTopic;
    use schema::fetch_response::{AbortedTransaction, NodeEndpoint, SnapshotId};
    use schema::produce_response::BatchIndexAndErrorMessage;

    let forgotten = ForgottenTopic::default().with_partitions(vec![1, 2, 3]);
    let plain = hot_samples::fetch_request(17);
    let request = schema_fetch_request(&plain, 17)
        .with_isolation_level(1)
        .with_forgotten_topics_data(vec![forgotten])
        .with_rack_id(text("rack"))
        .with_unknown_tagged_field(77, Bytes::from_static(b"?"));
    let mut frame = encode_fetch_request(7, "client", 17, &plain)[..17].to_vec();
    frame.extend(encoded(&request, 17));
    let (_, parsed) = parse_request(Listener::Broker, frame.into()).unwrap();
    assert_eq!(parsed, Request::Fetch(plain));

    let plain = hot_samples::fetch_response(17);
    let mut response = schema_fetch_response(&plain)
        .with_node_endpoints(vec![NodeEndpoint::default().with_host(text("host"))]);
    let partition = &mut response.responses[0].partitions[1];
    partition.aborted_transactions = Some(vec![AbortedTransaction::default(); 3]);
    partition.snapshot_id = SnapshotId::default().with_end_offset(5).with_epoch(1);
    let frame = [&[0, 0, 0, 7, 0], &encoded(&response, 17)[..]].concat();
    let parsed = parse_response(ApiKey::Fetch, 17, frame.into()).unwrap();
    assert_eq!(parsed, (7, Response::Fetch(plain)));

    let plain = hot_samples::produce_response(12);
    let mut response = schema_produce_response(&plain);
    let message = BatchIndexAndErrorMessage::default().with_batch_index(1);
    response.responses[0].partition_responses[0].record_errors = vec![message; 2];
    let frame = [&[0, 0, 0, 7, 0], &encoded(&response, 12)[..]].concat();
    let parsed = parse_response(ApiKey::Produce, 12, frame.into()).unwrap();
    assert_eq!(parsed, (7, Response::Produce(plain)));
}

#[test]
fn null_records_in_a_request_or_response_are_empty() {
    let mut request = hot_samples::produce_request(12);
    request.topics.truncate(1);
    let mut schema = schema_produce_request(&request);
    for partition in &mut schema.topic_data[0].partition_data {
        partition.records = None;
    }
    let head_frame = encode_produce_request(7, "client", 12, &request).concat();
    let frame = [&head_frame[..17], &encoded(&schema, 12)].concat();
    let (_, Request::Produce(parsed)) = parse_request(Listener::Broker, frame.into()).unwrap()
    else {
        panic!("another API");
    };
    assert!(parsed.topics[0].partitions.iter().all(|partition| partition.records.is_empty()));

    let mut schema = schema_fetch_response(&hot_samples::fetch_response(17));
    schema.responses[0].partitions[1].records = None;
    let frame = [&[0, 0, 0, 7, 0], &encoded(&schema, 17)[..]].concat();
    let (_, Response::Fetch(parsed)) = parse_response(ApiKey::Fetch, 17, frame.into()).unwrap()
    else {
        panic!("another API");
    };
    assert!(parsed.topics[0].partitions[1].records.is_empty());
}

/// Report 4: an idle partition and an error answer with zero-length records, never null.
#[test]
fn fetch_records_are_empty_never_null() {
    for version in fetch_versions() {
        for error in [ErrorCode::None, ErrorCode::NotLeaderOrFollower] {
            let response = FetchResponse {
                error: ErrorCode::None,
                session_id: 0,
                topics: vec![FetchTopicResponse {
                    topic: hot_samples::topic_ref(version),
                    partitions: vec![FetchPartitionResponse {
                        partition: PartitionId(0),
                        error,
                        high_watermark: None,
                        log_start_offset: None,
                        diverging: None,
                        current_leader: None,
                        records: vec![Bytes::new()],
                        trace: None,
                    }],
                }],
            };
            let frame = encode_fetch_response(&head(ApiKey::Fetch, version), &response).concat();
            let tail: &[u8] = if version >= 12 { &[1, 0, 0, 0] } else { &[0, 0, 0, 0] };
            assert!(frame.ends_with(tail), "version {version}: {frame:?}");
        }
    }
}

fn shares_memory(part: &Bytes, whole: &Bytes) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

#[test]
fn records_are_passed_through_not_copied() {
    let records = batch();
    let mut request = hot_samples::produce_request(12);
    request.topics[0].partitions[0].records = records.clone();
    let pieces = encode_produce_request(7, "client", 12, &request);
    assert!(pieces.iter().any(|piece| piece.as_ptr() == records.as_ptr()));
    let frame = Bytes::from(pieces.concat());
    let (_, parsed) = parse_request(Listener::Broker, frame.clone()).unwrap();
    let Request::Produce(parsed) = parsed else { panic!("another API") };
    assert!(shares_memory(&parsed.topics[0].partitions[0].records, &frame));

    let mut response = hot_samples::fetch_response(17);
    let chunks = vec![records.slice(..30), Bytes::new(), records.slice(30..)];
    response.topics[0].partitions[1].records = chunks;
    let pieces = encode_fetch_response(&head(ApiKey::Fetch, 17), &response);
    let shared = pieces.iter().filter(|piece| shares_memory(piece, &records));
    assert_eq!(shared.count(), 2);
    assert_eq!(pieces.len(), 4, "head, two chunks, rest");
    let frame = Bytes::from(pieces.concat());
    let (_, parsed) = parse_response(ApiKey::Fetch, 17, frame.clone()).unwrap();
    let Response::Fetch(parsed) = parsed else { panic!("another API") };
    let found = &parsed.topics[0].partitions[1].records;
    assert_eq!(found[..], [records]);
    assert!(shares_memory(&found[0], &frame));
}

/// Report 14: payload sizes around 16 bits come back equal in both encodings.
#[test]
fn payloads_around_sixteen_bits_keep_their_length() {
    for version in [8, 12] {
        for size in [32_767, 32_768, 65_536, 1 << 21] {
            let mut request = hot_samples::produce_request(version);
            request.topics[0].partitions[0].records = Bytes::from(vec![7; size]);
            let frame = encode_produce_request(7, "client", version, &request).concat();
            let (_, parsed) = parse_request(Listener::Broker, frame.into()).unwrap();
            assert_eq!(parsed, Request::Produce(request), "version {version}, {size} bytes");
        }
    }
}

#[test]
fn stamps_are_left_out_of_versions_without_tagged_fields() {
    let (newest, oldest) = (hot_samples::produce_response(12), head(ApiKey::Produce, 3));
    let frame = encode_produce_response(&oldest, &newest);
    let (_, parsed) = parse_response(ApiKey::Produce, 3, frame).unwrap();
    assert_eq!(parsed, Response::Produce(hot_samples::produce_response(3)));

    let frame = encode_fetch_request(
        7,
        "client",
        11,
        &FetchRequest {
            topics: vec![FetchTopic {
                topic: hot_samples::topic_ref(11),
                ..hot_samples::fetch_request(17).topics.remove(0)
            }],
            ..hot_samples::fetch_request(17)
        },
    );
    let (_, parsed) = parse_request(Listener::Broker, frame).unwrap();
    let Request::Fetch(parsed) = parsed else { panic!("another API") };
    assert!(!parsed.trace_high_watermark);
    assert!(parsed.topics[0].partitions.iter().all(|partition| partition.stamps.is_none()));
}
