//! Values that the APIs' samples are made of, and the samples by API. Those of Produce and Fetch
//! are in `hot_samples`.

use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

pub(super) use crate::wire::apis::{sample_request as request, sample_response as response};
use crate::wire::{ApiKey, Listener};

pub(in crate::wire) fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

pub(in crate::wire) fn name(name: &'static str) -> TopicName {
    TopicName(text(name))
}

pub(in crate::wire) fn id() -> Uuid {
    Uuid::from_bytes([9; 16])
}

pub(in crate::wire) fn nodes() -> Vec<BrokerId> {
    vec![BrokerId(1), BrokerId(2), BrokerId(3)]
}

/// Each API at each version this room knows.
pub(super) fn versions() -> impl Iterator<Item = (ApiKey, i16)> {
    ApiKey::ALL.iter().flat_map(|&api| {
        let range = api.codec_range();
        (range.min..=range.max).map(move |version| (api, version))
    })
}

/// A listener that serves the API.
pub(super) fn listener(api: ApiKey) -> Listener {
    match api.served_range(Listener::Broker) {
        Some(_) => Listener::Broker,
        None => Listener::Controller,
    }
}
