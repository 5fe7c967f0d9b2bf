//! No bytes panic or take memory: valid frames cut, flipped, spliced, with their lengths changed.

use bytes::Bytes;
use proptest::prelude::*;

use super::round_trip::{request_frame, response_frame};
use super::samples::{listener, versions};
use crate::wire::*;

#[test]
fn every_request_cut_anywhere_is_an_error() {
    for (api, version) in versions() {
        let frame = request_frame(api, version);
        for length in 0..frame.len() {
            let cut = parse_request(listener(api), frame.slice(..length));
            assert!(cut.is_err(), "{api} version {version} cut to {length} of {}", frame.len());
        }
    }
}

#[test]
fn every_response_cut_anywhere_is_an_error() {
    for (api, version) in versions() {
        let frame = response_frame(api, version);
        for length in 0..frame.len() {
            let cut = parse_response(api, version, frame.slice(..length));
            assert!(cut.is_err(), "{api} version {version} cut to {length} of {}", frame.len());
        }
    }
}

/// One change to a frame.
#[derive(Clone, Debug)]
enum Change {
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    /// Four bytes of a length or count that lies, or a variable-length one.
    Lie(prop::sample::Index, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    let lie = prop_oneof![
        Just(vec![0xff, 0xff, 0xff, 0xff]),
        Just(vec![0x7f, 0xff, 0xff, 0xff]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        Just(vec![0xff, 0xff, 0x03]),
        Just(vec![0, 0, 0x10, 0]),
        any::<[u8; 4]>().prop_map(Vec::from),
    ];
    prop_oneof![
        (at(), 1u8..).prop_map(|(at, bits)| Change::Flip(at, bits)),
        at().prop_map(Change::Truncate),
        (at(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1usize..9).prop_map(|(at, count)| Change::Remove(at, count)),
        (at(), lie).prop_map(|(at, bytes)| Change::Lie(at, bytes)),
    ]
}

fn changed(frame: &Bytes, changes: &[Change]) -> Bytes {
    let mut bytes = frame.to_vec();
    for change in changes {
        match change {
            _ if bytes.is_empty() => break,
            Change::Flip(at, bits) => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Change::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Change::Insert(at, piece) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, piece.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = at.index(bytes.len());
                let end = (at + count).min(bytes.len());
                bytes.drain(at..end);
            }
            Change::Lie(at, piece) => {
                let at = at.index(bytes.len());
                let end = (at + piece.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&piece[..end - at]);
            }
        }
    }
    bytes.into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn changed_requests_never_panic(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        let all: Vec<_> = versions().collect();
        let (api, version) = all[which.index(all.len())];
        let frame = changed(&request_frame(api, version), &changes);
        for listener in [Listener::Broker, Listener::Controller] {
            // What is still a request can be answered in kind, so it must encode again.
            if let Ok((head, request)) = parse_request(listener, frame.clone()) {
                prop_assert!(head.api == request.api());
                if request != Request::UnsupportedApiVersions {
                    encode_request(head.correlation_id, "c", head.version, &request).unwrap();
                }
            }
        }
    }

    #[test]
    fn changed_responses_never_panic(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        let all: Vec<_> = versions().collect();
        let (api, version) = all[which.index(all.len())];
        let frame = changed(&response_frame(api, version), &changes);
        let _ = parse_response(api, version, frame);
    }

    /// A good header, then anything: the body decoders see bytes no encoder made.
    #[test]
    fn arbitrary_bodies_never_panic(
        which in any::<prop::sample::Index>(),
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let all: Vec<_> = versions().collect();
        let (api, version) = all[which.index(all.len())];
        let mut request = vec![];
        request.extend(api.code().to_be_bytes());
        request.extend(version.to_be_bytes());
        request.extend([0, 0, 0, 7, 0xff, 0xff]);
        request.extend(api.is_flexible(version).then_some(0));
        request.extend(&body);
        let _ = parse_request(listener(api), request.into());
        let response = [&[0, 0, 0, 7, 0], &body[..]].concat();
        let _ = parse_response(api, version, response.into());
    }
}
