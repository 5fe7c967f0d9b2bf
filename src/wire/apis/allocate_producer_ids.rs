//! AllocateProducerIds (67): a block of producer ids for one broker.

use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};

use super::prelude::*;

pub(super) type Request = AllocateProducerIdsRequest;
pub(super) type Response = AllocateProducerIdsResponse;

pub(super) const SPEC: Spec = Spec::new(67, versions(0, 0), 0, Served::Controller);

schema_message!(AllocateProducerIdsRequest, { broker_id 0: I32, broker_epoch 0: I64 });

schema_message!(AllocateProducerIdsResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    producer_id_start 0: I64,
    producer_id_len 0: I32,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::BrokerId;

    use super::*;

    pub(in crate::wire) fn request(_version: i16) -> Request {
        AllocateProducerIdsRequest::default().with_broker_id(BrokerId(1)).with_broker_epoch(8)
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        AllocateProducerIdsResponse::default().with_producer_id_len(1_000)
    }
}
