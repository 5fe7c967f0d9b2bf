//! The vocabulary: every number and name that two rooms exchange. Pure: no I/O, no clock, no crates.
//!
//! Terms follow `docs/glossary.md` to the letter. Numbers that could be confused are newtypes
//! without conversions between them.

mod durability;
mod error_code;
mod ids;
mod recovery;
mod stamps;
mod time;

pub use durability::{CommitRoute, DurabilityMode, EngineKind, FilePreparation, Flush, Sync};
pub use error_code::ErrorCode;
pub use ids::{
    BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId,
    TopicPartition,
};
pub use recovery::{Compat, UncleanRecovery};
pub use stamps::{BrokerStamps, ClockId, FollowerStamps, HighWatermarkStep};
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

/// When the leader's high watermark may advance (`hwm.gate`, spec/kip966.md 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HwmGate {
    /// Only while the controller-committed ISR has at least effective min ISR members (KIP-966).
    Kip966,
    /// No min ISR condition, as before the KIP.
    Legacy,
}

/// Whether a pending ISR addition counts as committed before the controller says so (`isr.wait`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsrWait {
    /// The committed ISR changes when the controller's reply or metadata record arrives.
    Controller,
    /// The leader counts a proposed ISR as if it were committed. Unsafe; for measuring the wait.
    None,
}

/// What becomes of `acks=all` produces that wait when the committed ISR falls under min ISR
/// (spec/kip966.md 1.8, departure 7): the high watermark cannot pass them until the ISR has grown again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProduceUnderMinIsr {
    /// They fail at once with NOT_ENOUGH_REPLICAS_AFTER_APPEND (KIP-966).
    Fail,
    /// They go on waiting until the producer's timeout, as Kafka ships.
    Wait,
}

/// Which followers may rejoin the ISR (`isr.expand`, spec/kip966.md 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsrExpand {
    /// log end offset >= high watermark and >= start offset of the leader epoch, as Kafka ships.
    Kafka,
    /// As `Kafka`, and caught up while the partition is under min ISR (KAFKA-19996).
    CaughtUp,
}
