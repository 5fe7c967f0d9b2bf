//! Operators' requests to the controller machine's values and back: elections and settings.
//! Requests that no value could stand for are refused here.

use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::protocol::controller::{
    AlterConfigs, ElectLeaders, ElectionKind, PartitionName, Refusal, ResourceChanges,
};
use crate::protocol::metadata::ConfigResource;
use crate::types::{BrokerId, ErrorCode};
use crate::wire::{
    ElectLeadersOutcome, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopicResponse,
};

/// Kafka's numbers of resource types.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// Kafka's numbers of operations on a setting.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// # Errors
/// The response: an election type that nobody knows, or leaders that do not match the partitions.
pub(super) fn elect_leaders(
    request: ElectLeadersRequest,
) -> Result<ElectLeaders, ElectLeadersResponse> {
    let (mut names, mut leaders) = (Vec::new(), Vec::new());
    for topic in request.topics.iter().flatten() {
        let wanted = topic.desired_leaders.as_deref().unwrap_or_default();
        if !wanted.is_empty() && wanted.len() != topic.partitions.len() {
            return Err(invalid_election());
        }
        leaders.extend(wanted.iter().copied().map(Some));
        leaders.resize(leaders.len() + topic.partitions.len() - wanted.len(), None);
        let name = |&partition| PartitionName { topic: topic.name.to_string(), partition };
        names.extend(topic.partitions.iter().map(name));
    }
    let leaders: Option<Vec<BrokerId>> = leaders.into_iter().collect();
    let kind = match (request.election_type, leaders) {
        (0, _) => ElectionKind::Preferred,
        (1, _) => ElectionKind::Unclean,
        (2, _) => ElectionKind::LongestLogBalanced,
        (3, _) => ElectionKind::LongestLogProactive,
        (4, Some(leaders)) if request.topics.is_some() => ElectionKind::Designated(leaders),
        (_, _) => return Err(invalid_election()),
    };
    Ok(ElectLeaders { kind, partitions: request.topics.map(|_| names) })
}

fn invalid_election() -> ElectLeadersResponse {
    ElectLeadersResponse { error: ErrorCode::InvalidRequest, topics: vec![] }
}

pub(super) fn leaders_elected(
    outcomes: Vec<(PartitionName, Result<(), Refusal>)>,
) -> ElectLeadersResponse {
    let mut topics: Vec<ElectLeadersTopicResponse> = Vec::new();
    for (PartitionName { topic, partition }, outcome) in outcomes {
        let (error, message) = error_and_message(outcome);
        let outcome = ElectLeadersOutcome { partition, error, message };
        match topics.last_mut().filter(|last| last.name.as_str() == topic) {
            Some(last) => last.partitions.push(outcome),
            None => topics.push(ElectLeadersTopicResponse {
                name: StrBytes::from_string(topic),
                partitions: vec![outcome],
            }),
        }
    }
    ElectLeadersResponse { error: ErrorCode::None, topics }
}

/// # Errors
/// The response, if one of the resources makes no sense: then none is changed.
pub(super) fn alter_configs(
    request: IncrementalAlterConfigsRequest,
) -> Result<AlterConfigs, IncrementalAlterConfigsResponse> {
    let translated: Vec<_> = request.resources.iter().map(resource_changes).collect();
    if translated.iter().any(Result::is_err) {
        let not_attempted = || {
            let message = "another resource of the request is refused";
            Refusal::new(ErrorCode::OperationNotAttempted, message)
        };
        let refused = translated.into_iter().zip(request.resources).map(|(outcome, resource)| {
            let refusal = outcome.err().unwrap_or_else(not_attempted);
            outcome_of(resource.resource_type, resource.resource_name, Err(refusal))
        });
        return Err(IncrementalAlterConfigsResponse::default().with_responses(refused.collect()));
    }
    let resources = translated.into_iter().flatten().collect();
    Ok(AlterConfigs { resources, validate_only: request.validate_only })
}

fn resource_changes(resource: &AlterConfigsResource) -> Result<ResourceChanges, Refusal> {
    let invalid = |message: String| Refusal::new(ErrorCode::InvalidRequest, message);
    let name = resource.resource_name.as_str();
    let named = match (resource.resource_type, name) {
        (TOPIC, name) => ConfigResource::Topic(name.to_owned()),
        (BROKER, "") => ConfigResource::Cluster,
        (BROKER, name) => ConfigResource::Broker(BrokerId(name.parse().map_err(|_| {
            invalid(format!("broker {name}: must be a broker's id, or empty for the cluster"))
        })?)),
        (other, _) => {
            let message =
                format!("resource type {other}: must be {TOPIC} (topic) or {BROKER} (broker)");
            return Err(invalid(message));
        }
    };
    let mut changes: Vec<(String, Option<String>)> = Vec::new();
    for config in &resource.configs {
        let key = config.name.to_string();
        let value = match (config.config_operation, &config.value) {
            (SET, Some(value)) => Some(value.to_string()),
            (DELETE, _) => None,
            (SET, None) => return Err(invalid(format!("{key}: no value to set"))),
            (other, _) => {
                let message = format!("{key}: operation {other}: must be 0 (set) or 1 (delete)");
                return Err(invalid(message));
            }
        };
        if changes.iter().any(|(known, _)| *known == key) {
            return Err(invalid(format!("{key} is named twice")));
        }
        changes.push((key, value));
    }
    Ok(ResourceChanges { resource: named, changes })
}

pub(super) fn configs_altered(
    outcomes: Vec<(ConfigResource, Result<(), Refusal>)>,
) -> IncrementalAlterConfigsResponse {
    let responses = outcomes.into_iter().map(|(resource, outcome)| match resource {
        ConfigResource::Topic(name) => outcome_of(TOPIC, StrBytes::from_string(name), outcome),
        ConfigResource::Broker(id) => {
            outcome_of(BROKER, StrBytes::from_string(id.to_string()), outcome)
        }
        ConfigResource::Cluster => outcome_of(BROKER, StrBytes::new(), outcome),
    });
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn outcome_of(
    resource_type: i8,
    resource_name: StrBytes,
    outcome: Result<(), Refusal>,
) -> AlterConfigsResourceResponse {
    let (error, message) = error_and_message(outcome);
    AlterConfigsResourceResponse::default()
        .with_error_code(error.code())
        .with_error_message(message)
        .with_resource_type(resource_type)
        .with_resource_name(resource_name)
}

fn error_and_message(outcome: Result<(), Refusal>) -> (ErrorCode, Option<StrBytes>) {
    match outcome {
        Ok(()) => (ErrorCode::None, None),
        Err(refusal) => (refusal.error, Some(StrBytes::from_string(refusal.message))),
    }
}
