//! BrokerRegistration, request: replicas that are not as the last clean stop left them. A tagged
//! field of this product: 20 bytes each, topic id and partition index.

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::BrokerRegistrationRequest;

use crate::types::{PartitionId, TopicId, TopicPartition};

const TAG: i32 = 10_006;
const TOPIC_ID_BYTES: usize = 16;
const ENTRY_BYTES: usize = TOPIC_ID_BYTES + 4;

/// Puts `damaged` into the request; nothing if there is none.
pub fn set_damaged(request: &mut BrokerRegistrationRequest, damaged: &[TopicPartition]) {
    if damaged.is_empty() {
        return;
    }
    let mut bytes = BytesMut::with_capacity(damaged.len() * ENTRY_BYTES);
    for id in damaged {
        bytes.put_slice(&id.topic.0);
        bytes.put_i32(id.partition.0);
    }
    request.unknown_tagged_fields.insert(TAG, bytes.freeze());
}

/// The request's damaged replicas; `None` if the field is no list of them.
pub fn damaged(request: &BrokerRegistrationRequest) -> Option<Vec<TopicPartition>> {
    let bytes = request.unknown_tagged_fields.get(&TAG).map_or(&[][..], Bytes::as_ref);
    bytes.chunks(ENTRY_BYTES).map(entry).collect()
}

fn entry(bytes: &[u8]) -> Option<TopicPartition> {
    let (topic, partition) = bytes.split_at_checked(TOPIC_ID_BYTES)?;
    Some(TopicPartition {
        topic: TopicId(topic.try_into().ok()?),
        partition: PartitionId(i32::from_be_bytes(partition.try_into().ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Listener, Request, encode_request, parse_request};

    fn through_the_wire(request: &BrokerRegistrationRequest) -> BrokerRegistrationRequest {
        let request = Request::BrokerRegistration(request.clone());
        let frame = encode_request(7, "broker", 3, &request).unwrap();
        match parse_request(Listener::Controller, frame).unwrap().1 {
            Request::BrokerRegistration(request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_goes_over_the_wire_and_half_an_entry_is_none() {
        let id = |byte, partition| TopicPartition {
            topic: TopicId([byte; 16]),
            partition: PartitionId(partition),
        };
        let list = vec![id(1, 0), id(2, 700)];
        let mut request = BrokerRegistrationRequest::default();
        assert_eq!(damaged(&request), Some(vec![]));
        set_damaged(&mut request, &list);
        assert_eq!(damaged(&through_the_wire(&request)), Some(list));
        request.unknown_tagged_fields.insert(TAG, Bytes::from_static(&[0; 30]));
        assert_eq!(damaged(&request), None);
    }
}
