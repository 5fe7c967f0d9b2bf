//! DeleteTopics (20): deletes topics.

use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use super::prelude::*;

pub(super) type Request = DeleteTopicsRequest;
pub(super) type Response = DeleteTopicsResponse;

pub(super) const SPEC: Spec = Spec::new(20, versions(1, 6), 4, Served::Both);

schema_message!(DeleteTopicsRequest, {
    topics 6: [{ name 0: String, topic_id 0: UUID }],
    topic_names 0 to 5: [String],
    timeout_ms 0: I32,
});

schema_message!(DeleteTopicsResponse, {
    throttle_time_ms 0: I32,
    responses 0: [{
        name 0: String,
        topic_id 6: UUID,
        error_code 0: I16,
        error_message 5: String,
    }],
});

#[cfg(test)]
pub(super) mod samples {
    use kafka_protocol::messages::{delete_topics_request, delete_topics_response};

    use super::*;
    use crate::wire::tests::samples::{id, name, text};

    pub(in crate::wire) fn request(version: i16) -> Request {
        if version >= 6 {
            let state = delete_topics_request::DeleteTopicState::default();
            let by_name = state.clone().with_name(Some(name("bench")));
            let by_id = state.with_topic_id(id());
            DeleteTopicsRequest::default().with_topics(vec![by_name, by_id]).with_timeout_ms(1)
        } else {
            let names = vec![name("bench"), name("other")];
            DeleteTopicsRequest::default().with_topic_names(names).with_timeout_ms(1)
        }
    }

    pub(in crate::wire) fn response(version: i16) -> Response {
        let result = delete_topics_response::DeletableTopicResult::default()
            .with_name(Some(name("bench")))
            .with_error_code(3);
        let result = if version >= 6 { result.with_topic_id(id()) } else { result };
        let message = (version >= 5).then(|| text("no such topic"));
        DeleteTopicsResponse::default().with_responses(vec![result.with_error_message(message)])
    }
}
