//! InitProducerId (22): an id for an idempotent producer.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::prelude::*;

pub(super) type Request = InitProducerIdRequest;
pub(super) type Response = InitProducerIdResponse;

pub(super) const SPEC: Spec = Spec::new(22, versions(0, 5), 2, Served::Broker);

schema_message!(InitProducerIdRequest, {
    transactional_id 0: String,
    transaction_timeout_ms 0: I32,
    producer_id 3: I64,
    producer_epoch 3: I16,
});

schema_message!(InitProducerIdResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    producer_id 0: I64,
    producer_epoch 0: I16,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::ProducerId;

    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(version: i16) -> Request {
        if version >= 3 {
            InitProducerIdRequest::default().with_producer_id(ProducerId(5)).with_producer_epoch(1)
        } else {
            InitProducerIdRequest::default().with_transactional_id(Some(text("t").into()))
        }
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        InitProducerIdResponse::default().with_producer_id(ProducerId(5))
    }
}
