//! The cluster as the metadata log describes it: the records, and the state they add up to.
//! Controller and brokers apply the same records to the same [`ClusterMetadata`].

mod cluster;
mod record;
pub mod topic_config;

#[cfg(test)]
mod tests;

pub use cluster::{
    ApplyError, BrokerRegistration, ClusterMetadata, Misfit, PartitionRegistration, TopicMetadata,
};
pub use record::{
    BrokerRegistrationChange, ConfigResource, DirectoryId, Endpoint, FeatureRange, IncarnationId,
    Partition, PartitionChange, Record, RegisterBroker,
};
pub use topic_config::{ConfigError, TopicConfig};

/// Feature that turns eligible leader replicas on: 0 off, 1 the last leader is remembered, 2 every
/// last known ELR member is (the KIP's own design).
pub const ELR_FEATURE: &str = "eligible.leader.replicas.version";
/// Feature that every broker must list in its registration.
pub const METADATA_VERSION_FEATURE: &str = "metadata.version";
