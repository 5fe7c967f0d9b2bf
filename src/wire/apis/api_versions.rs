//! ApiVersions (18): what a listener serves.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::prelude::*;
use crate::types::ErrorCode;
use crate::wire::{ApiKey, Listener, RequestHead};

pub(super) type Request = ApiVersionsRequest;
pub(super) type Response = ApiVersionsResponse;

/// The response header never has tagged fields, because the client cannot know the version of an
/// answer that refuses its own.
pub(super) const SPEC: Spec =
    Spec::new(18, versions(0, 4), 3, Served::Both).with_plain_response_header();

schema_message!(ApiVersionsRequest, {
    client_software_name 3: String,
    client_software_version 3: String,
});

impl Message for ApiVersionsResponse {
    fn read(body: &mut Body<'_>) -> Result<Self, WireError> {
        static SHAPE: Shape = shape!({
            error_code 0: I16,
            api_keys 0: [{ api_key 0: I16, min_version 0: I16, max_version 0: I16 }],
            throttle_time_ms 1: I32;
            tags
            supported_features = 0 from 3: [{ name 0: String, min 0: I16, max 0: I16 }],
            finalized_features_epoch = 1 from 3: I64,
            finalized_features = 2 from 3: [{ name 0: String, max 0: I16, min 0: I16 }],
            zk_migration_ready = 3 from 3: BOOL
        });
        if body.starts_with(&ErrorCode::UnsupportedVersion.code().to_be_bytes()) {
            body.fall_back_to_version_0();
        }
        body.decode(&SHAPE)
    }

    fn write(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.encode(self)
    }
}

/// The answer to an ApiVersions request, supported version or not: what `listener` serves, with
/// UNSUPPORTED_VERSION if the version was not, or INVALID_REQUEST and nothing if the client's name
/// or version breaks Kafka's pattern.
pub fn api_versions_response(
    listener: Listener,
    head: &RequestHead,
    request: &super::Request,
) -> ApiVersionsResponse {
    let error = match request {
        super::Request::UnsupportedApiVersions => ErrorCode::UnsupportedVersion,
        super::Request::ApiVersions(request) if head.version >= 3 => {
            let names = [&request.client_software_name, &request.client_software_version];
            if names.into_iter().all(|name| is_software_name(name)) {
                ErrorCode::None
            } else {
                ErrorCode::InvalidRequest
            }
        }
        _ => ErrorCode::None,
    };
    let response = ApiVersionsResponse::default().with_error_code(error.code());
    if error == ErrorCode::InvalidRequest {
        return response;
    }
    response.with_api_keys(
        ApiKey::ALL
            .iter()
            .filter_map(|api| Some((api, api.advertised_range(listener)?)))
            .map(|(api, range)| {
                ApiVersion::default()
                    .with_api_key(api.code())
                    .with_min_version(range.min)
                    .with_max_version(range.max)
            })
            .collect(),
    )
}

/// Letters, digits, and between them also `-` and `.`; not empty.
fn is_software_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let ends = [name.chars().next(), name.chars().next_back()];
    ends.into_iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
        && name.chars().all(inner)
}

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::api_versions_response::{
        FinalizedFeatureKey, SupportedFeatureKey,
    };

    use super::*;
    use crate::wire::tests::samples::text;

    pub(in crate::wire) fn request(version: i16) -> Request {
        if version < 3 {
            return ApiVersionsRequest::default();
        }
        ApiVersionsRequest::default()
            .with_client_software_name(text("ackmark"))
            .with_client_software_version(text("0.1.0"))
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let key = ApiVersion::default().with_api_key(18).with_max_version(4);
        let response = ApiVersionsResponse::default().with_api_keys(vec![key]);
        if version < 3 {
            return response;
        }
        let supported =
            SupportedFeatureKey::default().with_name(text("metadata.version")).with_max_version(27);
        let finalized = FinalizedFeatureKey::default()
            .with_name(text("metadata.version"))
            .with_max_version_level(27);
        response
            .with_supported_features(vec![supported])
            .with_finalized_features_epoch(5)
            .with_finalized_features(vec![finalized])
            .with_zk_migration_ready(true)
    }
}
