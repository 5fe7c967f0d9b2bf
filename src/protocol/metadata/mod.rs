//! The cluster as the metadata log describes it: the records, and the state they add up to.
//! Controller and brokers apply the same records to the same [`ClusterMetadata`].

mod cluster;
mod page;
mod record;
mod registration;
mod snapshot;
pub mod topic_config;
mod touched;

#[cfg(test)]
mod tests;

pub use cluster::{ApplyError, ClusterMetadata, Misfit, TopicMetadata};
pub use page::{PAGE_PARTITIONS_MAX, Page, PageRequest, PageTopic};
pub use record::{
    BrokerRegistrationChange, ConfigResource, DirectoryId, Endpoint, FeatureRange, IncarnationId,
    Partition, PartitionChange, Record, RegisterBroker,
};
pub use registration::{BrokerRegistration, PartitionRegistration};
pub use topic_config::{ConfigError, TopicConfig};
pub use touched::Touched;

/// Feature that turns eligible leader replicas on: 0 off, 1 the last leader is remembered, 2 every
/// last known ELR member is (the KIP's own design).
pub const ELR_FEATURE: &str = "eligible.leader.replicas.version";
/// Feature that every broker must list in its registration.
pub const METADATA_VERSION_FEATURE: &str = "metadata.version";
/// Level of `metadata.version` that a new metadata log finalizes: Kafka 4.1's, whose records these
/// are.
pub const METADATA_VERSION: i16 = 27;
/// Highest level of [`ELR_FEATURE`].
pub const ELR_LEVEL_MAX: i16 = 2;

/// The features of this product's brokers, for their registration.
pub fn supported_features() -> Vec<FeatureRange> {
    let range = |name: &str, min, max| FeatureRange { name: name.to_owned(), min, max };
    vec![
        range(METADATA_VERSION_FEATURE, METADATA_VERSION, METADATA_VERSION),
        range(ELR_FEATURE, 0, ELR_LEVEL_MAX),
    ]
}
