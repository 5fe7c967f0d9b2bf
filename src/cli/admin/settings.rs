//! Settings as typed, and their change in the cluster.

use clap::Args;
use kafka_protocol::messages::IncrementalAlterConfigsRequest;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use super::{AdminError, accepted};
use crate::node::client::Client;
use crate::wire::{ApiKey, Request, Response};

const VERSION: i16 = 1;
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const DELETE: i8 = 1;

/// Settings to change.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// Set a value; may be repeated
    #[arg(long = "config", id = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Remove a value, so that the cluster's or the default holds; may be repeated
    #[arg(long = "delete-config", id = "delete_config", value_name = "KEY")]
    delete: Vec<String>,
}

/// Whose settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose<'a> {
    Topic(&'a str),
    Cluster,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("must be KEY=VALUE".to_owned()),
    }
}

impl SettingsArguments {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty()
    }

    /// The values to set; none may be removed where nothing is there yet.
    pub(super) fn only_values(&self) -> Result<&[(String, String)], AdminError> {
        match self.delete.first() {
            None => Ok(&self.set),
            Some(key) => Err(AdminError::Usage(format!(
                "--delete-config {key}: a new topic has no values to remove; leave it out"
            ))),
        }
    }

    /// Makes all changes, or none.
    pub(super) fn apply(&self, client: &mut Client, whose: Whose<'_>) -> Result<(), AdminError> {
        let (resource_type, name) = match whose {
            Whose::Topic(name) => (TOPIC, name),
            Whose::Cluster => (BROKER, ""),
        };
        let set = self.set.iter().map(|(key, value)| {
            AlterableConfig::default()
                .with_name(key.clone().into())
                .with_value(Some(value.clone().into()))
        });
        let delete = self.delete.iter().map(|key| {
            AlterableConfig::default()
                .with_name(key.clone().into())
                .with_config_operation(DELETE)
                .with_value(None)
        });
        let resource = AlterConfigsResource::default()
            .with_resource_type(resource_type)
            .with_resource_name(name.to_owned().into())
            .with_configs(set.chain(delete).collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let request = Request::IncrementalAlterConfigs(request);
        let Response::IncrementalAlterConfigs(answer) = client.ask(VERSION, &request)? else {
            return Err(client.unexpected(ApiKey::IncrementalAlterConfigs).into());
        };
        let what = match whose {
            Whose::Topic(name) => format!("alter topic {name}"),
            Whose::Cluster => "alter the cluster's defaults".to_owned(),
        };
        answer.responses.iter().try_for_each(|outcome| {
            accepted(&what, outcome.error_code, outcome.error_message.as_deref())
        })
    }
}
