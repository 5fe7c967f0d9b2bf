//! BrokerRegistration (62): a broker introduces itself to the controller.

mod damaged;

pub use damaged::{damaged, set_damaged};

use kafka_protocol::messages::{BrokerRegistrationRequest, BrokerRegistrationResponse};

use super::prelude::*;

pub(super) type Request = BrokerRegistrationRequest;
pub(super) type Response = BrokerRegistrationResponse;

pub(super) const SPEC: Spec = Spec::new(62, versions(0, 4), 0, Served::Controller);

schema_message!(BrokerRegistrationRequest, {
    broker_id 0: I32,
    cluster_id 0: String,
    incarnation_id 0: UUID,
    listeners 0: [{ name 0: String, host 0: String, port 0: I16, security_protocol 0: I16 }],
    features 0: [{ name 0: String, min 0: I16, max 0: I16 }],
    rack 0: String,
    is_migrating_zk_broker 1: BOOL,
    log_dirs 2: [UUID],
    previous_broker_epoch 3: I64,
});

schema_message!(BrokerRegistrationResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    broker_epoch 0: I64,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, broker_registration_request};

    use super::*;
    use crate::wire::tests::samples::{id, text};

    pub(in crate::wire) fn request(version: i16) -> Request {
        let listener = broker_registration_request::Listener::default()
            .with_name(text("PLAINTEXT"))
            .with_host(text("127.0.0.1"))
            .with_port(65_535);
        let feature = broker_registration_request::Feature::default()
            .with_name(text("metadata.version"))
            .with_min_supported_version(7)
            .with_max_supported_version(27);
        BrokerRegistrationRequest::default()
            .with_broker_id(BrokerId(1))
            .with_cluster_id(text("cluster"))
            .with_incarnation_id(id())
            .with_listeners(vec![listener])
            .with_features(vec![feature])
            .with_rack(Some(text("rack")))
            .with_log_dirs(if version >= 2 { vec![id()] } else { vec![] })
            .with_previous_broker_epoch(if version >= 3 { 7 } else { -1 })
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        BrokerRegistrationResponse::default().with_broker_epoch(8)
    }
}
