//! Which leader epoch begins at which offset, and the two decisions that follow from it: whether a
//! fetcher's log diverges from this one, and where a follower cuts its own. Knows no role.
//!
//! Source: spec/kip966.md 1.7, "Divergence" and "Follower truncation".

use super::log_state::LogState;
use crate::types::{ErrorCode, LeaderEpoch, Offset};

/// Leader epochs with the offset of their first record, oldest first.
///
/// Invariant: epochs and offsets both grow strictly. The newest entry may begin at the log end
/// offset: a leader that has written nothing yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaderEpochs {
    entries: Vec<(LeaderEpoch, Offset)>,
}

/// Where a follower cuts its log after a diverging answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// New log end offset.
    pub to: Offset,
    /// Whether both logs are now known to agree; otherwise the next fetch asks again.
    pub complete: bool,
}

impl LeaderEpochs {
    /// From entries in order; those that contradict an earlier one are dropped as `assign` does.
    pub fn from_entries(entries: impl IntoIterator<Item = (LeaderEpoch, Offset)>) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        entries.into_iter().for_each(|(epoch, start)| epochs.assign(epoch, start));
        epochs
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> &[(LeaderEpoch, Offset)] {
        &self.entries
    }

    /// The newest epoch known, written in or not.
    pub fn newest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|&(epoch, _)| epoch)
    }

    /// Epoch of the last record of a log that ends at `log_end_offset`.
    pub fn of_last_record(&self, log_end_offset: Offset) -> Option<LeaderEpoch> {
        let written = self.entries.iter().rev().find(|&&(_, start)| start < log_end_offset);
        written.map(|&(epoch, _)| epoch)
    }

    /// Notes that `epoch` begins at `start`, the log end offset. Other epochs that would begin there
    /// never held a record and go; an epoch not newer than the newest says nothing new.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        while self.entries.pop_if(|&mut (last, at)| at >= start && last != epoch).is_some() {}
        if self.newest().is_none_or(|newest| epoch > newest) {
            self.entries.push((epoch, start));
        }
    }

    /// The largest epoch at or below `epoch` and where it ends in a log that ends at
    /// `log_end_offset`; `None` if `epoch` is newer than all. If everything at or below `epoch` was
    /// deleted, the answer is `epoch` itself, ending where the oldest kept epoch begins.
    pub fn end_of(
        &self,
        epoch: LeaderEpoch,
        log_end_offset: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        let newest = self.newest()?;
        if epoch >= newest {
            return (epoch == newest).then_some((epoch, log_end_offset));
        }
        let newer = self.entries.partition_point(|&(entry, _)| entry <= epoch);
        let end = self.entries[newer].1;
        let answered = newer.checked_sub(1).map_or(epoch, |index| self.entries[index].0);
        Some((answered, end))
    }

    /// Drops entries that begin at or after `end`.
    pub(super) fn truncate_from_end(&mut self, end: Offset) {
        let kept = self.entries.partition_point(|&(_, start)| start < end);
        self.entries.truncate(kept);
    }

    /// Drops epochs whose records all lie before `log_start_offset`; the first kept one begins
    /// there at the earliest.
    pub(super) fn truncate_from_start(&mut self, log_start_offset: Offset) {
        let begun = self.entries.partition_point(|&(_, start)| start <= log_start_offset);
        self.entries.drain(..begun.saturating_sub(1));
        if let Some(oldest) = self.entries.first_mut() {
            oldest.1 = oldest.1.max(log_start_offset);
        }
    }
}

/// Whether a fetcher that holds `offset` records, the last of `last_fetched_epoch`, holds a prefix
/// of `log`: `None` if so, else (epoch, end offset) for it to cut by.
///
/// Errors: OFFSET_OUT_OF_RANGE below the log start or for an epoch this log has not heard of.
pub(super) fn divergence(
    log: &LogState,
    last_fetched_epoch: LeaderEpoch,
    offset: Offset,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    if offset < log.log_start_offset {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let (epoch, end) = log
        .epochs
        .end_of(last_fetched_epoch, log.log_end_offset)
        .ok_or(ErrorCode::OffsetOutOfRange)?;
    let diverges = epoch < last_fetched_epoch || end < offset;
    Ok(diverges.then_some((epoch, end)))
}

/// Where a follower with `log` cuts when the leader says that `leader_epoch` ends at `leader_end`.
pub(super) fn truncation(
    log: &LogState,
    (leader_epoch, leader_end): (LeaderEpoch, Offset),
) -> Truncation {
    let end = log.log_end_offset;
    match log.epochs.end_of(leader_epoch, end) {
        None => Truncation { to: leader_end.min(end), complete: true },
        Some((epoch, own_end)) if epoch == leader_epoch => {
            Truncation { to: own_end.min(leader_end).min(end), complete: true }
        }
        Some((_, own_end)) => Truncation { to: own_end.min(end), complete: false },
    }
}
