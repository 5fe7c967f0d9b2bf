//! Every message of every version, out and back; the headers; who serves what.

use bytes::Bytes;
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::samples::{self, listener, text, versions};
use crate::wire::*;

pub(super) fn head(api: ApiKey, version: i16) -> RequestHead {
    RequestHead { api, version, correlation_id: 7, client_id: Some(text("client")) }
}

pub(super) fn request_frame(api: ApiKey, version: i16) -> Bytes {
    encode_request(7, "client", version, &samples::request(api, version)).unwrap()
}

pub(super) fn response_frame(api: ApiKey, version: i16) -> Bytes {
    encode_response(&head(api, version), &samples::response(api, version)).unwrap()
}

#[test]
fn every_request_of_every_version_comes_back_equal() {
    for (api, version) in versions() {
        let frame = request_frame(api, version);
        let (found, request) = parse_request(listener(api), frame).unwrap();
        assert_eq!(found, head(api, version));
        assert_eq!(request, samples::request(api, version), "{api} version {version}");
        assert_eq!(request.api(), api);
    }
}

#[test]
fn every_response_of_every_version_comes_back_equal() {
    for (api, version) in versions() {
        let frame = response_frame(api, version);
        assert_eq!(correlation_id(&frame), Some(7));
        let (correlation_id, response) = parse_response(api, version, frame).unwrap();
        assert_eq!(correlation_id, 7);
        assert_eq!(response, samples::response(api, version), "{api} version {version}");
    }
}

/// Flexible request headers are version 2, flexible response headers 1; ApiVersions answers with 0.
#[test]
fn headers_are_the_schema_crates() {
    for (api, version) in versions() {
        let Ok(key) = kafka_protocol::messages::ApiKey::try_from(api.code()) else { continue };
        let header = RequestHeader::default()
            .with_request_api_key(api.code())
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(Some(text("client")));
        let mut expected = Vec::new();
        header.encode(&mut expected, key.request_header_version(version)).unwrap();
        let frame = request_frame(api, version);
        assert_eq!(frame[..expected.len()], expected, "{api} request version {version}");

        let mut frame = response_frame(api, version);
        let header = ResponseHeader::decode(&mut frame, key.response_header_version(version));
        assert_eq!(header.unwrap().correlation_id, 7, "{api} response version {version}");
        let flexible = key.response_header_version(version) == 1;
        assert_eq!(flexible, api.is_flexible(version) && api != ApiKey::ApiVersions);
    }
}

/// The crate decodes the same API at exactly these versions, so no range was mistyped. What it
/// lacks is KIP-966's: an API, and a version of another.
#[test]
fn codec_ranges_lie_within_the_schema_crates() {
    for &api in ApiKey::ALL {
        let Ok(key) = kafka_protocol::messages::ApiKey::try_from(api.code()) else {
            assert_eq!(api, ApiKey::GetReplicaLogInfo);
            continue;
        };
        let range = key.valid_versions();
        let ours = api.codec_range();
        assert_eq!(range.min, ours.min, "{api}");
        let kips_own = i16::from(api == ApiKey::ElectLeaders);
        assert!(range.max >= ours.max - kips_own, "{api}");
        assert_eq!(ApiKey::from_code(api.code()), Some(api));
        assert_eq!(api.name(), format!("{key:?}"));
    }
}

/// Up to version 2 the crate has the same message: this room's codec writes its bytes.
#[test]
fn elect_leaders_is_the_schema_crates_up_to_version_2() {
    use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
    use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
    for version in 0..=2 {
        let frame = request_frame(ApiKey::ElectLeaders, version);
        let topic = TopicPartitions::default()
            .with_topic(kafka_protocol::messages::TopicName(text("bench")))
            .with_partitions(vec![0, 3]);
        let request = ElectLeadersRequest::default()
            .with_election_type(i8::from(version >= 1))
            .with_topic_partitions(Some(vec![topic]))
            .with_timeout_ms(60_000);
        let mut expected = Vec::new();
        request.encode(&mut expected, version).unwrap();
        assert!(frame.ends_with(&expected), "request version {version}");

        let mut body = response_frame(ApiKey::ElectLeaders, version);
        let _ = body.split_to(4 + usize::from(version >= 2));
        let response = ElectLeadersResponse::decode(&mut body, version).unwrap();
        assert!(body.is_empty(), "response version {version}");
        let partition = &response.replica_election_results[0].partition_result[1];
        assert_eq!((partition.partition_id, partition.error_code), (3, 83));
        assert_eq!(partition.error_message, Some(text("broker 2 is not active")));
    }
}

#[test]
fn leaders_wanted_need_version_3_and_types_version_1() {
    let request = samples::request(ApiKey::ElectLeaders, 3);
    for version in 0..=2 {
        let error = encode_request(7, "client", version, &request).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "ElectLeaders request cannot be encoded as version {version}: a field is set that \
                 the version does not have"
            )
        );
    }
}

#[test]
fn a_null_client_id_is_none() {
    let frame = Bytes::from_static(&[0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff]);
    let (head, _) = parse_request(Listener::Broker, frame).unwrap();
    assert_eq!(head.client_id, None);
}

#[test]
fn each_listener_lists_what_it_serves_and_produce_from_zero() {
    let list = |listener| {
        let request = Request::ApiVersions(ApiVersionsRequest::default());
        let response = api_versions_response(listener, &head(ApiKey::ApiVersions, 0), &request);
        assert_eq!(response.error_code, 0);
        let keys = response.api_keys.iter();
        let lines = keys.map(|key| {
            let api = ApiKey::from_code(key.api_key).unwrap();
            format!("{api} {}-{}\n", key.min_version, key.max_version)
        });
        lines.collect::<String>()
    };
    expect_test::expect![[r#"
        Produce 0-12
        Fetch 4-17
        ListOffsets 1-10
        Metadata 0-13
        ApiVersions 0-4
        CreateTopics 2-7
        DeleteTopics 1-6
        InitProducerId 0-5
        OffsetForLeaderEpoch 2-4
        DescribeConfigs 1-4
        ElectLeaders 0-3
        IncrementalAlterConfigs 0-1
        DescribeQuorum 0-2
        DescribeCluster 0-2
        DescribeTopicPartitions 0-0
        GetReplicaLogInfo 0-0
    "#]]
    .assert_eq(&list(Listener::Broker));
    expect_test::expect![[r#"
        Fetch 17-17
        ApiVersions 0-4
        CreateTopics 2-7
        DeleteTopics 1-6
        ElectLeaders 0-3
        IncrementalAlterConfigs 0-1
        DescribeQuorum 0-2
        AlterPartition 2-3
        BrokerRegistration 0-4
        BrokerHeartbeat 0-1
        AllocateProducerIds 0-0
    "#]]
    .assert_eq(&list(Listener::Controller));
}

#[test]
fn a_client_with_a_name_outside_kafkas_pattern_gets_invalid_request() {
    let cases = [
        ("ackmark", "0.1.0", 0),
        ("a", "1", 0),
        ("confluent-kafka-python", "2.12.1-rdkafka-2.12.1", 0),
        ("", "1", 42),
        ("a b", "1", 42),
        ("-a", "1", 42),
        ("a.", "1", 42),
        ("a", "", 42),
        ("\u{e9}", "1", 42),
    ];
    for (name, software_version, expected) in cases {
        let request = Request::ApiVersions(
            ApiVersionsRequest::default()
                .with_client_software_name(text(name))
                .with_client_software_version(text(software_version)),
        );
        let head = head(ApiKey::ApiVersions, 3);
        let response = api_versions_response(Listener::Broker, &head, &request);
        assert_eq!(response.error_code, expected, "{name:?} {software_version:?}");
    }
}

#[test]
fn a_field_the_version_lacks_is_an_error_with_its_reason() {
    let response = samples::response(ApiKey::ListOffsets, 10);
    let error = encode_response(&head(ApiKey::ListOffsets, 2), &response).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ListOffsets response cannot be encoded as version 2: A field is set that is not \
         available on the selected protocol version"
    );
}
