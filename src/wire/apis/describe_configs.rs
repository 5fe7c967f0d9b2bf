//! DescribeConfigs (32): topic and broker settings.

use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::prelude::*;

pub(super) type Request = DescribeConfigsRequest;
pub(super) type Response = DescribeConfigsResponse;

pub(super) const SPEC: Spec = Spec::new(32, versions(1, 4), 4, Served::Broker);

schema_message!(DescribeConfigsRequest, {
    resources 0: [{
        resource_type 0: I8,
        resource_name 0: String,
        configuration_keys 0: [String],
    }],
    include_synonyms 0: BOOL,
    include_documentation 3: BOOL,
});

schema_message!(DescribeConfigsResponse, {
    throttle_time_ms 0: I32,
    results 0: [{
        error_code 0: I16,
        error_message 0: String,
        resource_type 0: I8,
        resource_name 0: String,
        configs 0: [{
            name 0: String,
            value 0: String,
            read_only 0: BOOL,
            config_source 0: I8,
            is_sensitive 0: BOOL,
            synonyms 0: [{ name 0: String, value 0: String, source 0: I8 }],
            config_type 3: I8,
            documentation 3: String,
        }],
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{describe_configs_request, describe_configs_response};

    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(_version: i16) -> Request {
        let resource = describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("bench"));
        let keys = Some(vec![text("flush.ms"), text("flush.messages")]);
        let some_keys = resource.clone().with_configuration_keys(keys);
        let all_keys = resource.with_configuration_keys(None);
        DescribeConfigsRequest::default().with_resources(vec![some_keys, all_keys])
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let synonym = describe_configs_response::DescribeConfigsSynonym::default()
            .with_name(text("log.flush.interval.ms"))
            .with_value(Some(text("1000")));
        let config = describe_configs_response::DescribeConfigsResourceResult::default()
            .with_name(text("flush.ms"))
            .with_value(Some(text("1000")))
            .with_config_source(1)
            .with_synonyms(vec![synonym]);
        let config = if version >= 3 { config.with_config_type(5) } else { config };
        let result = describe_configs_response::DescribeConfigsResult::default()
            .with_resource_type(2)
            .with_resource_name(text("bench"))
            .with_configs(vec![config]);
        DescribeConfigsResponse::default().with_results(vec![result])
    }
}
