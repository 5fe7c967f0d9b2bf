//! Metadata records: what the controller appends to the metadata log and every node applies.
//! Plain values; their bytes are `wire`'s business, their effect is [`super::ClusterMetadata`]'s.
//!
//! Source of the fields: spec/kip966.md 2.12. `Option` is "unchanged" in a change record.

use std::fmt;

use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition};

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

uuid!(
    /// One process start of a broker: random, 16 bytes in network order.
    IncarnationId
);
uuid!(
    /// One log directory: random, kept across restarts, 16 bytes in network order.
    DirectoryId
);

impl DirectoryId {
    /// "No directory chosen yet" (Kafka's UNASSIGNED).
    pub const UNASSIGNED: DirectoryId = DirectoryId([0; 16]);

    /// Whether the id is one of the 100 that Kafka keeps for itself.
    pub fn is_reserved(self) -> bool {
        let (high, low) = self.0.split_at(8);
        high.iter().all(|&byte| byte == 0) && low[..7].iter().all(|&byte| byte == 0) && low[7] < 100
    }
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Listener name, for example `PLAINTEXT`.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Kafka's number of the security protocol; 0 is plain text.
    pub security_protocol: i16,
}

/// The levels of one feature that a broker supports, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureRange {
    /// Feature name, for example `metadata.version`.
    pub name: String,
    /// Lowest supported level.
    pub min: i16,
    /// Highest supported level.
    pub max: i16,
}

/// A broker registers (api 0). Replaces an older registration of the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegisterBroker {
    /// Its id.
    pub broker: BrokerId,
    /// Its process start.
    pub incarnation: IncarnationId,
    /// Its epoch: the offset of this record, unless an incarnation amends its registration.
    pub epoch: BrokerEpoch,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// What it supports.
    pub features: Vec<FeatureRange>,
    /// Its rack, if it said.
    pub rack: Option<String>,
    /// Not active yet.
    pub fenced: bool,
    /// On its way out.
    pub in_controlled_shutdown: bool,
    /// Its log directories.
    pub log_dirs: Vec<DirectoryId>,
}

/// A registration changes (api 17).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokerRegistrationChange {
    /// Whose.
    pub broker: BrokerId,
    /// Its epoch.
    pub epoch: BrokerEpoch,
    /// Fenced or unfenced; wire value 1 and -1, 0 is unchanged.
    pub fenced: Option<bool>,
    /// Controlled shutdown began. `false` is unchanged: only a new registration clears it.
    pub in_controlled_shutdown: bool,
    /// Its log directories.
    pub log_dirs: Option<Vec<DirectoryId>>,
}

/// A partition is created (api 3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Which.
    pub id: TopicPartition,
    /// Assignment order; the first is the preferred leader. Adding ones included.
    pub replicas: Vec<BrokerId>,
    /// Committed ISR.
    pub isr: Vec<BrokerId>,
    /// Eligible leader replicas.
    pub elr: Vec<BrokerId>,
    /// Replicas that an unclean shutdown removed from the ELR, or the last known leader.
    pub last_known_elr: Vec<BrokerId>,
    /// Being removed by a reassignment.
    pub removing: Vec<BrokerId>,
    /// Being added by a reassignment.
    pub adding: Vec<BrokerId>,
    /// The leader; wire value -1 is none.
    pub leader: Option<BrokerId>,
    /// The leader was elected uncleanly and has not reported recovery (wire value 1).
    pub recovering: bool,
    /// Leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// Log directory of each replica, in assignment order; may be empty.
    pub directories: Vec<DirectoryId>,
}

/// A partition changes (api 5). Every applied one adds 1 to the partition epoch, and 1 to the
/// leader epoch iff `leader` is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionChange {
    /// Which.
    pub id: TopicPartition,
    /// Committed ISR.
    pub isr: Option<Vec<BrokerId>>,
    /// The leader: outer `None` is unchanged (wire value -2), inner `None` is no leader (-1).
    pub leader: Option<Option<BrokerId>>,
    /// Assignment.
    pub replicas: Option<Vec<BrokerId>>,
    /// Being removed.
    pub removing: Option<Vec<BrokerId>>,
    /// Being added.
    pub adding: Option<Vec<BrokerId>>,
    /// Recovery state (wire value 0 recovered, 1 recovering, -1 unchanged).
    pub recovering: Option<bool>,
    /// Eligible leader replicas.
    pub elr: Option<Vec<BrokerId>>,
    /// Last known ELR.
    pub last_known_elr: Option<Vec<BrokerId>>,
    /// Log directory of each replica.
    pub directories: Option<Vec<DirectoryId>>,
}

impl PartitionChange {
    /// A change of nothing.
    pub fn none(id: TopicPartition) -> PartitionChange {
        PartitionChange {
            id,
            isr: None,
            leader: None,
            replicas: None,
            removing: None,
            adding: None,
            recovering: None,
            elr: None,
            last_known_elr: None,
            directories: None,
        }
    }

    /// Whether no field is set, so that there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == PartitionChange::none(self.id)
    }
}

/// What a configuration value belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    /// A topic by name (wire type 2).
    Topic(String),
    /// One broker (wire type 4, name is the id in decimal).
    Broker(BrokerId),
    /// The default of all brokers (wire type 4, empty name).
    Cluster,
}

/// One line of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// Api 0.
    RegisterBroker(RegisterBroker),
    /// Api 1: the broker's registration is gone.
    UnregisterBroker {
        /// Which.
        broker: BrokerId,
        /// The epoch of the registration that ends.
        epoch: BrokerEpoch,
    },
    /// Api 2: a topic exists; its partitions follow.
    Topic {
        /// Its name.
        name: String,
        /// Its id.
        id: TopicId,
    },
    /// Api 3.
    Partition(Partition),
    /// Api 4: a configuration value is set, or removed by `None`.
    Config {
        /// Of what.
        resource: ConfigResource,
        /// The key.
        name: String,
        /// The value.
        value: Option<String>,
    },
    /// Api 5.
    PartitionChange(PartitionChange),
    /// Api 9: the topic, its partitions and its configuration are gone.
    RemoveTopic {
        /// Which.
        id: TopicId,
    },
    /// Api 12: a feature is finalized at a level; level 0 removes it.
    FeatureLevel {
        /// The feature's name.
        name: String,
        /// Its level.
        level: i16,
    },
    /// Api 15: producer ids below `next_producer_id` are handed out.
    ProducerIds {
        /// Who got the last block.
        broker: BrokerId,
        /// Its epoch.
        epoch: BrokerEpoch,
        /// First producer id that nobody has.
        next_producer_id: i64,
    },
    /// Api 17.
    BrokerRegistrationChange(BrokerRegistrationChange),
    /// Api 28: ELR and last known ELR of the topic's partitions are emptied; `None` (an empty name
    /// on the wire) means all topics. Partition epoch +1 only where something was removed.
    ClearElr {
        /// The topic's name.
        topic: Option<String>,
    },
}
