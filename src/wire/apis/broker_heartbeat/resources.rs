//! What a broker has for replicas, as a tagged field of its heartbeat that Kafka's controllers skip.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::BrokerHeartbeatRequest;

use crate::protocol::controller::Resources;

/// BrokerHeartbeat request: [`Resources`], five int64 in their order.
const RESOURCES: i32 = 10_006;

/// `request` with `resources`.
pub fn with_resources(
    request: BrokerHeartbeatRequest,
    resources: &Resources,
) -> BrokerHeartbeatRequest {
    let Resources { open_files_max, disk, free_bytes, replica_bytes, replicas } = *resources;
    let mut value = BytesMut::new();
    for number in [open_files_max, disk, free_bytes, replica_bytes, replicas] {
        value.put_u64(number);
    }
    request.with_unknown_tagged_field(RESOURCES, value.freeze())
}

/// What the sender of `request` has; `None` if it does not say so in this form.
pub fn resources(request: &BrokerHeartbeatRequest) -> Option<Resources> {
    let value: &Bytes = request.unknown_tagged_fields.get(&RESOURCES)?;
    let (numbers, rest) = value.as_chunks::<8>();
    let [open_files_max, disk, free_bytes, replica_bytes, replicas] =
        <[[u8; 8]; 5]>::try_from(numbers).ok()?.map(u64::from_be_bytes);
    rest.is_empty().then_some(Resources {
        open_files_max,
        disk,
        free_bytes,
        replica_bytes,
        replicas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Listener, Request, encode_request, parse_request};

    #[test]
    fn resources_arrive_as_they_were_sent_and_nothing_else_is_taken_for_them() {
        let sent = Resources {
            open_files_max: 1024,
            disk: u64::MAX,
            free_bytes: 6 << 30,
            replica_bytes: 64 << 20,
            replicas: 3,
        };
        let request = Request::BrokerHeartbeat(with_resources(Default::default(), &sent));
        let frame = encode_request(1, "broker", 1, &request).expect("a good request");
        let Ok((_, Request::BrokerHeartbeat(arrived))) = parse_request(Listener::Controller, frame)
        else {
            panic!("another request")
        };
        assert_eq!(resources(&arrived), Some(sent));
        assert_eq!(resources(&BrokerHeartbeatRequest::default()), None);
        for length in [0, 8, 39, 41, 48] {
            let odd = BrokerHeartbeatRequest::default()
                .with_unknown_tagged_field(RESOURCES, vec![1; length].into());
            assert_eq!(resources(&odd), None, "{length} bytes");
        }
    }
}
