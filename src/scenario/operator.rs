//! What an operator asks of a running cluster while a cell is under load.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::IncrementalAlterConfigsRequest;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use crate::node::client::{Client, ClientError};
use crate::types::ErrorCode;
use crate::wire::{ApiKey, Request, Response};

/// IncrementalAlterConfigs' number of a topic resource.
const TOPIC_RESOURCE: i8 = 2;
const VERSION: i16 = 1;

/// Has the broker at `address` get the topic's `min.insync.replicas` changed; every wait ends after
/// `patience`. Gives what the controller says.
///
/// # Errors
/// [`ClientError`]; but for `Connect`, the change may come about nevertheless.
pub(super) fn set_min_isr(
    address: SocketAddr,
    topic: &str,
    min_isr: u64,
    patience: Duration,
) -> Result<ErrorCode, ClientError> {
    let mut client = Client::connect(&address.to_string(), patience)?;
    let config = AlterableConfig::default()
        .with_name("min.insync.replicas".into())
        .with_value(Some(min_isr.to_string().into()));
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC_RESOURCE)
        .with_resource_name(topic.to_owned().into())
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client.ask(VERSION, &Request::IncrementalAlterConfigs(request))?;
    let Response::IncrementalAlterConfigs(answer) = answer else {
        return Err(client.unexpected(ApiKey::IncrementalAlterConfigs));
    };
    let first = answer.responses.first();
    Ok(first.map_or(ErrorCode::UnknownServerError, |it| ErrorCode::from_code(it.error_code)))
}
