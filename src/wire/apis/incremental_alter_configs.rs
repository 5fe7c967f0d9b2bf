//! IncrementalAlterConfigs (44): changes single settings of topics and of the cluster.

use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::prelude::*;

pub(super) type Request = IncrementalAlterConfigsRequest;
pub(super) type Response = IncrementalAlterConfigsResponse;

pub(super) const SPEC: Spec = Spec::new(44, versions(0, 1), 1, Served::Both);

schema_message!(IncrementalAlterConfigsRequest, {
    resources 0: [{
        resource_type 0: I8,
        resource_name 0: String,
        configs 0: [{ name 0: String, config_operation 0: I8, value 0: String }],
    }],
    validate_only 0: BOOL,
});

schema_message!(IncrementalAlterConfigsResponse, {
    throttle_time_ms 0: I32,
    responses 0: [{
        error_code 0: I16,
        error_message 0: String,
        resource_type 0: I8,
        resource_name 0: String,
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{
        incremental_alter_configs_request, incremental_alter_configs_response,
    };

    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let config = incremental_alter_configs_request::AlterableConfig::default()
            .with_name(text("min.insync.replicas"))
            .with_value(Some(text("2")));
        let removal = incremental_alter_configs_request::AlterableConfig::default()
            .with_name(text("unclean.recovery.strategy"))
            .with_config_operation(1)
            .with_value(None);
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("bench"))
            .with_configs(vec![config, removal]);
        IncrementalAlterConfigsRequest::default()
            .with_resources(vec![resource])
            .with_validate_only(true)
    }

    pub(in crate::wire) fn response(_version: i16) -> Response {
        let resource = incremental_alter_configs_response::AlterConfigsResourceResponse::default()
            .with_error_code(40)
            .with_error_message(Some(text("min.insync.replicas = 0: must be 1")))
            .with_resource_type(2)
            .with_resource_name(text("bench"));
        IncrementalAlterConfigsResponse::default().with_responses(vec![resource])
    }
}
