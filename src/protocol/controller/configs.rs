//! Configuration values and feature levels, and what a change of min ISR means for ELRs.
//!
//! Source: spec/kip966.md 2.7.

use super::registration::supports;
use super::{AlterConfigs, Controller, FeatureUpdate, LastKnown, Refusal, ResourceChanges};
use crate::protocol::metadata::{
    ConfigError, ConfigResource, ELR_FEATURE, ELR_LEVEL_MAX, METADATA_VERSION,
    METADATA_VERSION_FEATURE, PartitionChange, Record, topic_config,
};
use crate::types::{ErrorCode, TopicPartition};

impl Controller {
    /// A new metadata log begins with the features it is written under.
    pub(super) fn finalize_first_features(&mut self) {
        if self.metadata.feature(METADATA_VERSION_FEATURE) > 0 {
            return;
        }
        self.write_feature(METADATA_VERSION_FEATURE, METADATA_VERSION);
        if self.settings.elr_level > 0 {
            self.write_feature(ELR_FEATURE, self.settings.elr_level);
            self.require_cluster_min_isr();
        }
    }

    fn write_feature(&mut self, name: &str, level: i16) {
        self.write(Record::FeatureLevel { name: name.to_owned(), level });
    }

    /// With ELR on the cluster's min ISR must be in the log, not in somebody's file.
    fn require_cluster_min_isr(&mut self) {
        if self.metadata.config(&ConfigResource::Cluster, topic_config::MIN_ISR).is_none() {
            self.write(Record::Config {
                resource: ConfigResource::Cluster,
                name: topic_config::MIN_ISR.to_owned(),
                value: Some("1".to_owned()),
            });
        }
    }

    pub(super) fn update_feature(&mut self, update: FeatureUpdate) -> Result<(), Refusal> {
        let FeatureUpdate { name, level } = update;
        if name != ELR_FEATURE || !(0..=ELR_LEVEL_MAX).contains(&level) {
            let message = format!(
                "feature {name} = {level}: only {ELR_FEATURE} may change, to 0 to {ELR_LEVEL_MAX}"
            );
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        if let Some(broker) =
            self.metadata.brokers().find(|broker| !supports(&broker.features, &name, level))
        {
            let message =
                format!("feature {name} = {level}: broker {} does not support it", broker.id);
            return Err(Refusal::new(ErrorCode::UnsupportedVersion, message));
        }
        if self.metadata.feature(&name) != level {
            self.write_feature(&name, level);
        }
        if level > 0 {
            self.require_cluster_min_isr();
        }
        Ok(())
    }

    pub(super) fn alter_configs(
        &mut self,
        request: AlterConfigs,
    ) -> Vec<(ConfigResource, Result<(), Refusal>)> {
        let named: Vec<ConfigResource> =
            request.resources.iter().map(|changes| changes.resource.clone()).collect();
        let alter = |changes: ResourceChanges| {
            let repeated = named.iter().filter(|&name| *name == changes.resource).count() > 1;
            let outcome = if repeated {
                Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    "the request names this resource twice",
                ))
            } else {
                self.alter_resource(&changes, request.validate_only)
            };
            (changes.resource, outcome)
        };
        request.resources.into_iter().map(alter).collect()
    }

    fn alter_resource(
        &mut self,
        changes: &ResourceChanges,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        if let ConfigResource::Topic(name) = &changes.resource
            && self.metadata.topic_id(name).is_none()
        {
            let message = format!("topic {name} does not exist");
            return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
        }
        for (key, value) in &changes.changes {
            self.check_change(&changes.resource, key, value.as_deref())
                .map_err(|error| Refusal::new(ErrorCode::InvalidConfig, error.to_string()))?;
        }
        if validate_only {
            return Ok(());
        }
        for (key, value) in &changes.changes {
            self.set_config(&changes.resource, key, value.as_deref());
        }
        Ok(())
    }

    fn check_change(
        &self,
        resource: &ConfigResource,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), ConfigError> {
        if let ConfigResource::Broker(broker) = *resource {
            return Err(ConfigError::PerBroker { broker });
        }
        let Some(value) = value else {
            let required = *resource == ConfigResource::Cluster && key == topic_config::MIN_ISR;
            if required && self.elr_on() {
                return Err(ConfigError::Required { key: topic_config::MIN_ISR });
            }
            return topic_config::validate_key(key);
        };
        topic_config::validate(key, value)
    }

    /// An unchanged value of a topic writes nothing; a cluster's is written always, as Kafka does.
    fn set_config(&mut self, resource: &ConfigResource, key: &str, value: Option<&str>) {
        let unchanged = self.metadata.config(resource, key) == value;
        if unchanged && *resource != ConfigResource::Cluster {
            return;
        }
        self.write(Record::Config {
            resource: resource.clone(),
            name: key.to_owned(),
            value: value.map(str::to_owned),
        });
        if key == topic_config::MIN_ISR && self.elr_on() {
            self.min_isr_changed(resource);
        }
    }

    fn min_isr_changed(&mut self, resource: &ConfigResource) {
        let topic = match resource {
            ConfigResource::Topic(name) => Some(name.clone()),
            ConfigResource::Cluster | ConfigResource::Broker(_) => None,
        };
        if self.settings.quirks.min_isr_change_clears_elr {
            self.write(Record::ClearElr { topic });
            return;
        }
        for id in self.partitions_at_min_isr(topic.as_deref()) {
            let mut change = PartitionChange::none(id);
            change.elr = Some(vec![]);
            if self.last_known() == LastKnown::FullSet {
                change.last_known_elr = Some(vec![]);
            }
            self.write(Record::PartitionChange(change));
        }
    }

    /// Partitions whose ISR reaches min ISR although they have an ELR: their high watermark may now
    /// pass what the ELR's members hold.
    fn partitions_at_min_isr(&self, name: Option<&str>) -> Vec<TopicPartition> {
        let holds = |(id, partition): &(TopicPartition, &_)| {
            let partition: &crate::protocol::metadata::PartitionRegistration = partition;
            let named = name.is_none_or(|name| self.metadata.topic_id(name) == Some(id.topic));
            let min_isr = self.metadata.effective_min_isr(id.topic).unwrap_or(usize::MAX);
            named && !partition.elr.is_empty() && partition.isr.len() >= min_isr
        };
        self.metadata.partitions().filter(holds).map(|(id, _)| id).collect()
    }
}
