//! Identifiers and epochs.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A position in a partition's log, in records. As an end it is exclusive.
    Offset(i64)
);
number!(
    /// Grows when leadership changes; stamped into each batch; fences old leaders.
    LeaderEpoch(i32)
);
number!(
    /// Grows with every committed change of the partition; compare-and-set token of AlterPartition.
    PartitionEpoch(i32)
);
number!(
    /// One life of a broker: the metadata offset of its registration record.
    BrokerEpoch(i64)
);
number!(
    /// A broker's `node.id`; not negative.
    BrokerId(i32)
);
number!(
    /// A partition's index within its topic; not negative.
    PartitionId(i32)
);

impl Offset {
    /// The first offset of a log.
    pub const ZERO: Offset = Offset(0);

    /// The offset `records` further on.
    pub fn plus(self, records: i64) -> Offset {
        Offset(self.0 + records)
    }
}

/// A topic's UUID, 16 bytes in network order; all zero means "not given".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// "Not given".
    pub const ZERO: TopicId = TopicId([0; 16]);
    /// The metadata log's topic (`__cluster_metadata`).
    pub const METADATA: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition's index.
    pub partition: PartitionId,
}
