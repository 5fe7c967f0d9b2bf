use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsRequest;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::process::{Process, config, fetch_request};
use crate::types::{ErrorCode, Offset};
use crate::wire::{ApiKey, Request, Response, encode_request, parse_response};

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes(), body].concat()
}

/// Header of a request: key, version, correlation id, client id "c".
fn head(key: i16, version: i16) -> Vec<u8> {
    [&key.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7, 0, 1, b'c']].concat()
}

#[test]
fn a_bad_frame_ends_its_own_connection_only() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut other = process.connect();
    let fetch = Request::Fetch(fetch_request(Offset(0), 0, None));
    let whole = encode_request(0, "c", 17, &fetch).unwrap();
    let bad = [
        i32::MIN.to_be_bytes().to_vec(),
        (-1i32).to_be_bytes().to_vec(),
        ((1i32 << 20) + 1).to_be_bytes().to_vec(),
        framed(&[]),
        framed(&[0, 1]),
        framed(&head(9999, 0)),
        framed(&head(ApiKey::Produce.code(), 9)),
        framed(&head(ApiKey::Metadata.code(), 9)),
        framed(&head(ApiKey::Fetch.code(), 16)),
        framed(&head(ApiKey::AlterPartition.code(), 1)),
        framed(&whole[..whole.len() - 1]),
        framed(&[&whole[..], &[0]].concat()),
    ];
    for frame in bad {
        let mut client = process.connect();
        client.send_bytes(&frame);
        assert!(client.is_closed(), "{frame:?}");
        other.metadata();
    }
    process.stop();
}

#[test]
fn half_a_frame_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let (mut half, mut other) = (process.connect(), process.connect());
    half.send_bytes(&(1i32 << 20).to_be_bytes());
    half.send_bytes(&[0; 100]);
    other.metadata();
    drop(half);
    other.metadata();
    process.stop();
}

#[test]
fn random_frames_never_stop_the_controller() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut random = ChaCha8Rng::seed_from_u64(966);
    for _ in 0..300 {
        let key = ApiKey::ALL[random.random_range(0..ApiKey::ALL.len())];
        let mut body = head(key.code(), random.random_range(0..20));
        body.extend((0..random.random_range(0..60)).map(|_| random.random::<u8>()));
        let mut client = process.connect();
        client.send_bytes(&framed(&body));
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut client.stream, &mut answer);
    }
    process.connect().metadata();
    process.stop();
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_and_the_connection_kept() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    client.send_bytes(&framed(&head(ApiKey::ApiVersions.code(), 99)));
    let frame: Bytes = client.receive_frame();
    let (correlation_id, response) = parse_response(ApiKey::ApiVersions, 0, frame).unwrap();
    let Response::ApiVersions(answer) = response else { panic!() };
    assert_eq!(
        (correlation_id, ErrorCode::from_code(answer.error_code)),
        (7, ErrorCode::UnsupportedVersion)
    );
    let string = kafka_protocol::protocol::StrBytes::from_static_str;
    let request = ApiVersionsRequest::default()
        .with_client_software_name(string("test"))
        .with_client_software_version(string("1"));
    let Response::ApiVersions(answer) = client.ask(4, Request::ApiVersions(request)) else {
        panic!()
    };
    let keys: Vec<i16> = answer.api_keys.iter().map(|api| api.api_key).collect();
    assert_eq!(keys, [1, 18, 19, 20, 43, 44, 55, 56, 62, 63, 67]);
    process.stop();
}

#[test]
fn requests_sent_together_are_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(config(dir.path()));
    let mut client = process.connect();
    let fetch = Request::Fetch(fetch_request(Offset(0), 0, None));
    let frames: Vec<u8> =
        (0..5).flat_map(|id| framed(&encode_request(id, "c", 17, &fetch).unwrap())).collect();
    for byte in &frames[..frames.len() / 2] {
        client.send_bytes(std::slice::from_ref(byte));
    }
    client.send_bytes(&frames[frames.len() / 2..]);
    for id in 0..5 {
        let frame = client.receive_frame();
        assert_eq!(parse_response(ApiKey::Fetch, 17, frame).unwrap().0, id);
    }
    process.stop();
}
