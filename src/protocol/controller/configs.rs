//! Configuration values and feature levels: checks and records. What a change means for partitions
//! is `reissue`'s.
//!
//! Source: spec/kip966.md 2.7.

use super::election::Election;
use super::partition_change::Targets;
use super::registration::supports;
use super::topic_rules::SHIPPED_LEVEL_MAX;
use super::{AlterConfigs, Compat, Controller, FeatureUpdate, Refusal, ResourceChanges};
use crate::protocol::metadata::{
    ConfigError, ConfigResource, ELR_FEATURE, ELR_LEVEL_MAX, METADATA_VERSION,
    METADATA_VERSION_FEATURE, Record, topic_config,
};
use crate::types::{ErrorCode, TopicId, TopicPartition};

impl Controller {
    /// A new metadata log begins with the features it is written under.
    pub(super) fn finalize_first_features(&mut self) {
        if self.metadata.feature(METADATA_VERSION_FEATURE) > 0 {
            return;
        }
        self.write_feature(METADATA_VERSION_FEATURE, METADATA_VERSION);
        if self.settings.compat != Compat::Kip {
            self.write_cluster_config(topic_config::COMPAT, self.settings.compat.name());
        }
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
            self.write_cluster_config(topic_config::MIN_ISR, "1");
        }
    }

    fn write_cluster_config(&mut self, key: &str, value: &str) {
        self.write(Record::Config {
            resource: ConfigResource::Cluster,
            name: key.to_owned(),
            value: Some(value.to_owned()),
        });
    }

    pub(super) fn update_feature(&mut self, update: FeatureUpdate) -> Result<(), Refusal> {
        let FeatureUpdate { name, level } = update;
        if name != ELR_FEATURE || !(0..=ELR_LEVEL_MAX).contains(&level) {
            let message = format!(
                "feature {name} = {level}: only {ELR_FEATURE} may change, to 0 to {ELR_LEVEL_MAX}"
            );
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        let compat = self.metadata.config(&ConfigResource::Cluster, topic_config::COMPAT);
        if compat == Some(Compat::Kafka42.name()) && level > SHIPPED_LEVEL_MAX {
            let message = format!(
                "feature {name} = {level}: must be 0 to {SHIPPED_LEVEL_MAX} under {} = kafka-4.2",
                topic_config::COMPAT
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
        let topics = self.topics_of(&ConfigResource::Cluster);
        self.change_rules(topics, |controller| {
            if controller.metadata.feature(&name) != level {
                controller.write_feature(&name, level);
            }
            if level > 0 {
                controller.require_cluster_min_isr();
            }
        });
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
        self.change_rules(self.topics_of(&changes.resource), |controller| {
            for (key, value) in &changes.changes {
                controller.set_config(&changes.resource, key, value.as_deref());
            }
        });
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
        if key == topic_config::COMPAT {
            self.compat_changed(resource);
        }
    }

    /// Shipped Kafka's way; the KIP's is part of `change_rules`.
    fn min_isr_changed(&mut self, resource: &ConfigResource) {
        let topics = self.topics_of(resource);
        let clears = |topic: &TopicId| {
            self.topic_rules(*topic).is_some_and(|rules| rules.quirks.min_isr_change_clears_elr)
        };
        let all = *resource == ConfigResource::Cluster
            && self.cluster_quirks().min_isr_change_clears_elr
            && topics.iter().all(clears);
        if all {
            return self.write(Record::ClearElr { topic: None });
        }
        let cleared: Vec<TopicId> = topics.into_iter().filter(clears).collect();
        for topic in cleared {
            let name = self.metadata.topic(topic).map(|topic| topic.name.clone());
            self.write(Record::ClearElr { topic: name });
        }
    }

    fn topics_of(&self, resource: &ConfigResource) -> Vec<TopicId> {
        match resource {
            ConfigResource::Topic(name) => self.metadata.topic_id(name).into_iter().collect(),
            ConfigResource::Cluster => self.metadata.topics().map(|topic| topic.id).collect(),
            ConfigResource::Broker(_) => vec![],
        }
    }

    /// What the old rules left and the new ones forbid is put right at once.
    fn compat_changed(&mut self, resource: &ConfigResource) {
        for topic in self.topics_of(resource) {
            for id in self.partitions_of(topic) {
                let Some(partition) = self.metadata.partition(id) else { continue };
                let targets = Targets::of(partition, Election::Online);
                self.change_partition(id, targets, None);
            }
        }
    }

    pub(super) fn partitions_of(&self, topic: TopicId) -> Vec<TopicPartition> {
        let topic = self.metadata.topic(topic).into_iter();
        let ids = topic.flat_map(|known| known.partitions.keys().map(|&id| (known.id, id)));
        ids.map(|(topic, partition)| TopicPartition { topic, partition }).collect()
    }
}
