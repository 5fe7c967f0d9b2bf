//! The cluster as the metadata log describes it: the records, and the state they add up to.
//! Controller and brokers apply the same records to the same [`ClusterMetadata`].

mod record;

pub use record::{
    BrokerRegistrationChange, ConfigResource, DirectoryId, Endpoint, FeatureRange, IncarnationId,
    Partition, PartitionChange, Record, RegisterBroker,
};
