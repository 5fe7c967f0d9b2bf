//! The ends and leader epochs of one replica's log, as the rules see them. Content is `storage`'s.

use super::leader_epochs::LeaderEpochs;
use crate::types::{LeaderEpoch, Offset};

/// Where a replica's log begins and ends.
///
/// Invariants: `log_start_offset <= high_watermark <= log_end_offset`;
/// `durable_offset <= log_end_offset`; no leader epoch starts past `log_end_offset`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogState {
    /// First offset kept.
    pub log_start_offset: Offset,
    /// Offset the next record gets.
    pub log_end_offset: Offset,
    /// Exclusive end of what the replica's durability mode already holds.
    pub durable_offset: Offset,
    /// Exclusive end of what is known to be committed. Moves back only on a follower.
    pub high_watermark: Offset,
    /// Which leader epoch begins where.
    pub epochs: LeaderEpochs,
}

impl LogState {
    /// A log that never held a record.
    pub fn empty() -> LogState {
        LogState::starting_at(Offset::ZERO)
    }

    /// Recovered ends made consistent: a checkpointed high watermark may lie past a torn tail, and
    /// the checkpointed epochs may name what the tail has lost.
    pub(super) fn recovered(mut self) -> LogState {
        self.log_end_offset = self.log_end_offset.max(self.log_start_offset);
        self.durable_offset = self.durable_offset.clamp(self.log_start_offset, self.log_end_offset);
        self.high_watermark = self.high_watermark.clamp(self.log_start_offset, self.log_end_offset);
        self.epochs.truncate_from_end(self.log_end_offset.plus(1));
        self
    }

    /// The log now ends at `end`; its newest records carry `leader_epoch`.
    pub(super) fn append(&mut self, leader_epoch: LeaderEpoch, end: Offset) {
        assert!(end > self.log_end_offset, "append to {end}, log ends at {}", self.log_end_offset);
        self.epochs.assign(leader_epoch, self.log_end_offset);
        self.log_end_offset = end;
    }

    /// Takes note of durability; whether it told anything new.
    pub(super) fn mark_durable(&mut self, end: Offset) -> bool {
        let end = end.min(self.log_end_offset);
        let moved = end > self.durable_offset;
        self.durable_offset = self.durable_offset.max(end);
        moved
    }

    /// Ends the log at `to`, which lies within it. Epoch entries at or past the new end go even if
    /// no record did: they would make the next divergence answer wrong (KAFKA-10706).
    pub(super) fn truncate(&mut self, to: Offset) {
        assert!(self.log_start_offset <= to, "cut at {to} before {}", self.log_start_offset);
        assert!(to <= self.log_end_offset, "cut at {to} after {}", self.log_end_offset);
        self.log_end_offset = to;
        self.durable_offset = self.durable_offset.min(to);
        self.high_watermark = self.high_watermark.min(to);
        self.epochs.truncate_from_end(to);
    }

    /// Forgets everything; the log starts and ends at `at`.
    pub(super) fn restart(&mut self, at: Offset) {
        *self = LogState::starting_at(at);
    }

    /// Moves the log start forward, never past the high watermark.
    pub(super) fn raise_log_start(&mut self, to: Offset) {
        let to = to.min(self.high_watermark);
        if to > self.log_start_offset {
            self.log_start_offset = to;
            self.epochs.truncate_from_start(to);
        }
    }

    fn starting_at(at: Offset) -> LogState {
        LogState {
            log_start_offset: at,
            log_end_offset: at,
            durable_offset: at,
            high_watermark: at,
            epochs: LeaderEpochs::default(),
        }
    }
}
