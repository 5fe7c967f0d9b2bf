//! BrokerHeartbeat (63): a broker tells the controller that it lives.

mod resources;

pub use resources::{resources, with_resources};

use kafka_protocol::messages::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};

use super::prelude::*;

pub(super) type Request = BrokerHeartbeatRequest;
pub(super) type Response = BrokerHeartbeatResponse;

pub(super) const SPEC: Spec = Spec::new(63, versions(0, 1), 0, Served::Controller);

schema_message!(BrokerHeartbeatRequest, {
    broker_id 0: I32,
    broker_epoch 0: I64,
    current_metadata_offset 0: I64,
    want_fence 0: BOOL,
    want_shut_down 0: BOOL;
    tags offline_log_dirs = 0 from 1: [UUID]
});

schema_message!(BrokerHeartbeatResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    is_caught_up 0: BOOL,
    is_fenced 0: BOOL,
    should_shut_down 0: BOOL,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::BrokerId;

    use super::*;
    use crate::wire::tests::samples::id;

    pub(in crate::wire) fn request(version: i16) -> Request {
        BrokerHeartbeatRequest::default()
            .with_broker_id(BrokerId(1))
            .with_broker_epoch(8)
            .with_current_metadata_offset(99)
            .with_offline_log_dirs(if version >= 1 { vec![id(), id()] } else { vec![] })
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        BrokerHeartbeatResponse::default().with_is_caught_up(true).with_is_fenced(false)
    }
}
