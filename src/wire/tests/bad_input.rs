//! What must be refused, and how: spec/kafka-wire.md section 6 and "Bad input".

use bytes::Bytes;

use super::round_trip::{head, request_frame};
use crate::wire::*;

fn broker(frame: impl Into<Bytes>) -> Result<(RequestHead, Request), WireError> {
    parse_request(Listener::Broker, frame.into())
}

fn refusal(frame: impl Into<Bytes>) -> String {
    broker(frame).unwrap_err().to_string()
}

/// A request frame with this body; client id "c".
fn frame(api: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(api.code().to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend([0, 0, 0, 7, 0, 1, b'c']);
    frame.extend(api.is_flexible(version).then_some(0));
    frame.extend(body);
    frame
}

/// Report 1: counts from the wire used as capacities.
#[test]
fn a_claimed_count_allocates_nothing() {
    let huge_fetch = [
        &[0; 21][..], // max wait, min bytes, max bytes, isolation level, session id and epoch
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ]
    .concat();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (
            "Metadata v0, count 0x033c0c00 in one byte",
            frame(ApiKey::Metadata, 0, &[0x03, 0x3c, 0x0c, 0x00, 0xb6]),
            "Metadata request version 0, byte 15: 54266880 elements are claimed in 1 bytes",
        ),
        (
            "Metadata v12, over-long count",
            frame(ApiKey::Metadata, 12, &[0xff, 0xff, 0xff, 0xff, 0xff]),
            "Metadata request version 12, byte 12: a variable-length integer is longer than its \
             type allows",
        ),
        (
            "Metadata v12, largest count",
            frame(ApiKey::Metadata, 12, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            "Metadata request version 12, byte 17: 4294967294 elements are claimed in 0 bytes",
        ),
        (
            "Fetch v17, largest count of topics",
            frame(ApiKey::Fetch, 17, &huge_fetch),
            "Fetch request version 17, byte 38: 4294967294 elements are claimed in 0 bytes",
        ),
        (
            "Metadata v12, tagged fields without bytes",
            frame(ApiKey::Metadata, 12, &[1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            "Metadata request version 12, byte 20: the bytes end inside a variable-length integer",
        ),
    ];
    for (name, frame, message) in cases {
        assert_eq!(refusal(frame.clone()), *message, "{name}");
    }
}

#[test]
fn a_frame_of_many_tiny_elements_is_refused() {
    // Each topic of Metadata v12 takes 18 bytes here and some hundred bytes of memory decoded.
    let count = 300_000u32;
    let mut body = Vec::new();
    crate::record::varint::write_u64(&mut body, u64::from(count) + 1);
    body.resize(body.len() + 18 * count as usize + 3, 0);
    assert_eq!(
        refusal(frame(ApiKey::Metadata, 12, &body)),
        "Metadata request version 12, byte 15: the message has more than 262144 elements"
    );
}

/// Report 2: an unknown ApiVersions version is answered, whatever follows, and the connection kept.
#[test]
fn api_versions_of_an_unknown_version_is_answered_in_version_0() {
    for version in [5i16, 99, -1, i16::MAX, i16::MIN] {
        let mut bytes = vec![0, 18];
        bytes.extend(version.to_be_bytes());
        bytes.extend([0, 0, 0, 42]);
        bytes.extend([0xff, 0x80, 0x17, 0x03, b'?']);
        let (head, request) = broker(bytes).unwrap();
        assert_eq!(request, Request::UnsupportedApiVersions);

        let response = api_versions_response(Listener::Broker, &head, &request);
        let frame = encode_response(&head, &Response::ApiVersions(response)).unwrap();
        assert_eq!(frame[..6], [0, 0, 0, 42, 0, 35], "correlation id, error");
        let (_, entries) = frame[6..].split_at(4);
        assert_eq!(frame[6..10], 16i32.to_be_bytes());
        assert_eq!(entries.len(), 16 * 6);
        assert!(entries.chunks(6).any(|entry| entry == [0, 18, 0, 0, 0, 4]));

        // And the client that asked understands it.
        let (_, response) = parse_response(ApiKey::ApiVersions, 4, frame).unwrap();
        let Response::ApiVersions(response) = response else { panic!("another API") };
        assert_eq!(response.error_code, 35);
        assert_eq!(response.api_keys.len(), 16);
    }
}

#[test]
fn unknown_apis_and_versions_close_the_connection() {
    let with_key = |key: i16, version: i16| {
        [&key.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7, 0xff, 0xff]].concat()
    };
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("key 999", with_key(999, 0), "api key 999 is not served here"),
        ("key -1", with_key(-1, 0), "api key -1 is not served here"),
        ("LeaderAndIsr, removed", with_key(4, 0), "api key 4 is not served here"),
        ("AlterPartition at a broker", with_key(56, 3), "api key 56 is not served here"),
        (
            "Produce v2, advertised but not served",
            with_key(0, 2),
            "Produce version 2: 3 to 12 are supported",
        ),
        ("Produce v13", with_key(0, 13), "Produce version 13: 3 to 12 are supported"),
        ("Fetch v3", with_key(1, 3), "Fetch version 3: 4 to 17 are supported"),
        ("Fetch v18", with_key(1, 18), "Fetch version 18: 4 to 17 are supported"),
        ("Metadata v-1", with_key(3, -1), "Metadata version -1: 0 to 13 are supported"),
    ];
    for (name, frame, message) in cases {
        assert_eq!(refusal(frame.clone()), *message, "{name}");
    }
    let at_controller = |frame| parse_request(Listener::Controller, frame).unwrap_err().to_string();
    let produce = request_frame(ApiKey::Produce, 12);
    assert_eq!(at_controller(produce), "api key 0 is not served here");
    let fetch = request_frame(ApiKey::Fetch, 16);
    assert_eq!(at_controller(fetch), "Fetch version 16: 17 to 17 are supported");
}

/// Frames of 0 to 3 bytes panic in the schema crate.
#[test]
fn short_and_foreign_frames_are_refused() {
    for length in 0..8 {
        assert!(refusal(vec![0; length]).starts_with("request header, byte "), "{length} bytes");
    }
    assert_eq!(
        refusal(vec![0, 3, 0, 0, 0, 0, 0, 7, 0, 9, b'c']),
        "request header, byte 10: 9 bytes are wanted and 1 are left"
    );
    assert_eq!(
        refusal(vec![0, 3, 0, 0, 0, 0, 0, 7, 0xff, 0xfe]),
        "request header, byte 10: a length is -2"
    );
    assert_eq!(
        refusal(vec![0, 3, 0, 0, 0, 0, 0, 7, 0, 1, 0xff]),
        "request header, byte 11: a string is not UTF-8"
    );
    // What follows "GET " and a TLS hello once their first four bytes were taken for a length.
    assert!(broker(&b"/ HTTP/1.1\r\n"[..]).is_err());
    assert!(broker(&[0x00, 0xfc, 0x03, 0x03, 1, 2, 3, 4, 5, 6, 7, 8][..]).is_err());
}

#[test]
fn trailing_bytes_are_refused() {
    for (api, version) in super::samples::versions() {
        let mut frame = request_frame(api, version).to_vec();
        frame.push(0);
        let listener = super::samples::listener(api);
        let message = parse_request(listener, frame.into()).unwrap_err().to_string();
        assert!(message.ends_with("1 bytes are left after the end"), "{api} v{version}: {message}");
    }
}

#[test]
fn a_tagged_field_beyond_the_end_or_of_the_wrong_size_is_refused() {
    // The empty Metadata v12 request, then its section of tagged fields.
    let metadata = |tags: &[u8]| frame(ApiKey::Metadata, 12, &[&[1, 0, 0], tags].concat());
    assert!(broker(metadata(&[1, 77, 2, 1, 2])).is_ok());
    assert_eq!(
        refusal(metadata(&[1, 77, 9, 1, 2])),
        "Metadata request version 12, byte 18: 9 bytes are wanted and 2 are left"
    );
    // The header's own section too.
    let mut in_header = frame(ApiKey::Metadata, 12, &[1, 0, 0, 0]);
    in_header.splice(11..12, [1, 5, 0xff, 0xff, 0x03]);
    assert_eq!(
        refusal(in_header),
        "request header, byte 16: 65535 bytes are wanted and 4 are left"
    );
    // A known tag whose value is shorter than its size: the schema crate would read on from there.
    let heartbeat = [&[0; 22][..], &[1, 0, 3, 1, 0, 0]].concat();
    let heartbeat = frame(ApiKey::BrokerHeartbeat, 1, &heartbeat);
    assert_eq!(
        parse_request(Listener::Controller, heartbeat.into()).unwrap_err().to_string(),
        "BrokerHeartbeat request version 1, byte 37: 2 bytes are left after the end"
    );
}

/// Report 16: only ApiVersions answers with a header that is not flexible.
#[test]
fn an_api_versions_response_has_no_tagged_fields_in_its_header() {
    let response = super::samples::response(ApiKey::ApiVersions, 3);
    let frame = encode_response(&head(ApiKey::ApiVersions, 3), &response).unwrap();
    assert_eq!(frame[..7], [0, 0, 0, 7, 0, 0, 2], "correlation id, error, one key");
    let response = super::samples::response(ApiKey::Metadata, 9);
    let frame = encode_response(&head(ApiKey::Metadata, 9), &response).unwrap();
    assert_eq!(frame[..5], [0, 0, 0, 7, 0], "correlation id, no tagged fields");
}

/// Whether acks is 7 or a topic id is zero is for the broker to answer, not a malformed frame.
#[test]
fn odd_values_are_passed_on() {
    let mut request = super::hot_samples::produce_request(12);
    request.acks = 7;
    let frame = encode_produce_request(7, "client", 12, &request).concat();
    assert_eq!(broker(frame).unwrap().1, Request::Produce(request));

    let mut request = super::hot_samples::fetch_request(13);
    request.topics[0].topic.id = crate::types::TopicId::ZERO;
    let frame = encode_fetch_request(7, "client", 13, &request);
    assert_eq!(broker(frame).unwrap().1, Request::Fetch(request));
}
