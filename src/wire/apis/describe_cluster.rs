//! DescribeCluster (60): the brokers and the cluster id.

use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::prelude::*;

pub(super) type Request = DescribeClusterRequest;
pub(super) type Response = DescribeClusterResponse;

pub(super) const SPEC: Spec = Spec::new(60, versions(0, 2), 0, Served::Broker);

schema_message!(DescribeClusterRequest, {
    include_cluster_authorized_operations 0: BOOL,
    endpoint_type 1: I8,
    include_fenced_brokers 2: BOOL,
});

schema_message!(DescribeClusterResponse, {
    throttle_time_ms 0: I32,
    error_code 0: I16,
    error_message 0: String,
    endpoint_type 1: I8,
    cluster_id 0: String,
    controller_id 0: I32,
    brokers 0: [{
        broker_id 0: I32,
        host 0: String,
        port 0: I32,
        rack 0: String,
        is_fenced 2: BOOL,
    }],
    cluster_authorized_operations 0: I32,
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{BrokerId, describe_cluster_response};

    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(version: i16) -> Request {
        DescribeClusterRequest::default().with_include_fenced_brokers(version >= 2)
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let broker = describe_cluster_response::DescribeClusterBroker::default()
            .with_broker_id(BrokerId(1))
            .with_host(text("127.0.0.1"))
            .with_port(9092)
            .with_is_fenced(version >= 2);
        DescribeClusterResponse::default()
            .with_cluster_id(text("cluster"))
            .with_controller_id(BrokerId(100))
            .with_brokers(vec![broker])
    }
}
