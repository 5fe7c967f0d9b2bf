//! Instants a broker reports about one produced batch, all on the host's one monotonic clock.

use super::{MonotonicTime, Offset};

/// Which clock stamps are on: a hash of the host's boot id. Stamps of different clocks are never
/// subtracted from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockId(pub u64);

/// What the leader saw of one batch. [`MonotonicTime::ZERO`] marks an instant that had not happened
/// when the answer was sent (the follower's part under `acks=1`).
///
/// In path order for `acks=all`; under `acks=1` the path is `received`, `append_started`,
/// `appended`, `durable`, `answered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerStamps {
    /// The clock the instants are on.
    pub clock: ClockId,
    /// The read that completed the produce request's frame came back.
    pub received: MonotonicTime,
    /// Validation is done and the copy into the log's memory begins.
    pub append_started: MonotonicTime,
    /// The batch is in the log's memory and served to followers from now on.
    pub appended: MonotonicTime,
    /// The leader's own durability mode holds for it.
    pub durable: MonotonicTime,
    /// The fetch answer that carried it was handed to the socket of the follower whose
    /// acknowledgement moved the high watermark.
    pub follower_served: MonotonicTime,
    /// That follower had read the answer.
    pub follower_received: MonotonicTime,
    /// That follower had it in its log's memory.
    pub follower_appended: MonotonicTime,
    /// That follower's own durability mode held for it.
    pub follower_durable: MonotonicTime,
    /// That follower's next fetch, which acknowledges it, had been read by the leader.
    pub follower_acknowledged: MonotonicTime,
    /// The high watermark passed it.
    pub committed: MonotonicTime,
    /// The produce answer was handed to the socket.
    pub answered: MonotonicTime,
}

/// What a follower tells its leader, in its next fetch, about the batches it just acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStamps {
    /// The clock the instants are on.
    pub clock: ClockId,
    /// The fetch answer had been read.
    pub received: MonotonicTime,
    /// Its batches were in the log's memory.
    pub appended: MonotonicTime,
    /// The follower's durability mode held for them.
    pub durable: MonotonicTime,
}

/// One step of the leader's high watermark, for consumers that ask for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighWatermarkStep {
    /// The new high watermark.
    pub high_watermark: Offset,
    /// When it moved there.
    pub at: MonotonicTime,
}
