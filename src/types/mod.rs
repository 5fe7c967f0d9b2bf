//! The vocabulary: every number and name that two rooms exchange. Pure: no I/O, no clock, no crates.
//!
//! Terms follow `docs/glossary.md` to the letter. Numbers that could be confused are newtypes
//! without conversions between them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod durability;
mod error_code;
mod ids;
mod recovery;
mod replication;
mod stamps;
mod stored_file;
mod time;

pub use durability::{CommitRoute, DurabilityMode, EngineKind, FilePreparation, Flush, Sync};
pub use error_code::ErrorCode;
pub use ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId,
    TopicPartition,
};
pub use recovery::{Compat, UncleanRecovery};
pub use replication::{
    FetchPipeline, HwmGate, IsrExpand, IsrWait, ProduceUnderMinIsr, ServeFollowers,
};
pub use stamps::{BrokerStamps, ClockId, FollowerStamps, HighWatermarkStep};
pub use stored_file::StoredFile;
pub use time::MonotonicTime;

/// How a broker's ISR proposals become AlterPartition requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlterPartitionPolicy {
    /// At most one request is in flight; off: a proposal leaves at once, whatever is unanswered.
    pub single_flight: bool,
    /// Proposals that wait leave together; off: each has a request of its own.
    pub batched: bool,
}

impl Default for AlterPartitionPolicy {
    /// As in Kafka: both.
    fn default() -> AlterPartitionPolicy {
        AlterPartitionPolicy { single_flight: true, batched: true }
    }
}

/// What a producer waits for before it calls a record acknowledged (Kafka `acks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// `acks=0`: no answer is sent at all.
    None,
    /// `acks=1`: the leader's durability mode holds for the record.
    Leader,
    /// `acks=all` (-1): the high watermark passed the record.
    All,
}

impl Acks {
    /// The wire value (-1, 0, 1); anything else is refused with `INVALID_REQUIRED_ACKS`.
    pub fn from_wire(value: i16) -> Option<Acks> {
        match value {
            0 => Some(Acks::None),
            1 => Some(Acks::Leader),
            -1 => Some(Acks::All),
            _ => None,
        }
    }

    /// Inverse of [`Acks::from_wire`].
    pub fn to_wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

impl std::fmt::Display for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        })
    }
}
