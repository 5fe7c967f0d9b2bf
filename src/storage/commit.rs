//! Commit groups: what is in flight, in order, and how far it is durable without a gap.
//!
//! Completions may come out of order; the durable offset moves over the contiguous prefix only.

use std::collections::VecDeque;

use crate::engine::OperationId;
use crate::types::Offset;

/// One group that was issued.
#[derive(Debug)]
struct Group {
    /// Whose completion makes it done; `None` once it is done.
    waits_for: Option<OperationId>,
    /// Offset after its last batch.
    end_offset: Offset,
    /// Bytes of its batches.
    payload_bytes: usize,
}

/// The groups from the first that is not done on.
///
/// Invariants: end offsets do not fall from front to back; the front group is not done.
#[derive(Debug, Default)]
pub(super) struct Commits {
    groups: VecDeque<Group>,
    in_flight: usize,
}

/// What became durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The new durable offset, if the prefix grew.
    pub(super) durable_offset: Option<Offset>,
    /// Bytes of batches that are durable now and were not before.
    pub(super) payload_bytes: usize,
}

impl Commits {
    /// Groups that wait for a completion.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Adds a group that is done when `waits_for` is, or at once.
    pub(super) fn push(
        &mut self,
        waits_for: Option<OperationId>,
        end_offset: Offset,
        payload_bytes: usize,
    ) -> Progress {
        self.in_flight += usize::from(waits_for.is_some());
        self.groups.push_back(Group { waits_for, end_offset, payload_bytes });
        self.advance()
    }

    /// Marks the group of `operation` done. `None` if there is no such group.
    pub(super) fn complete(&mut self, operation: OperationId) -> Option<Progress> {
        let group = self.groups.iter_mut().find(|group| group.waits_for == Some(operation))?;
        group.waits_for = None;
        self.in_flight -= 1;
        Some(self.advance())
    }

    /// The log was cut: no group ends past `end_offset`.
    pub(super) fn clamp(&mut self, end_offset: Offset) {
        for group in &mut self.groups {
            group.end_offset = group.end_offset.min(end_offset);
        }
    }

    /// The log starts anew at `offset`: what is in flight no longer moves anything.
    pub(super) fn restart(&mut self, offset: Offset) {
        for group in &mut self.groups {
            group.end_offset = offset;
        }
    }

    /// Bytes of batches issued and not durable.
    pub(super) fn payload_bytes(&self) -> usize {
        self.groups.iter().map(|group| group.payload_bytes).sum()
    }

    fn advance(&mut self) -> Progress {
        let mut progress = Progress::default();
        while let Some(group) = self.groups.front()
            && group.waits_for.is_none()
        {
            progress.durable_offset = Some(group.end_offset);
            progress.payload_bytes += group.payload_bytes;
            self.groups.pop_front();
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(number: u64) -> Option<OperationId> {
        Some(OperationId(number))
    }

    #[test]
    fn the_durable_offset_waits_for_the_gap_to_close() {
        let mut commits = Commits::default();
        assert_eq!(commits.push(None, Offset(5), 50).durable_offset, Some(Offset(5)));
        for (number, end) in [(1, 10), (2, 20), (3, 30)] {
            assert_eq!(commits.push(operation(number), Offset(end), 100), Progress::default());
        }
        assert_eq!(commits.push(None, Offset(31), 1), Progress::default(), "behind the others");
        assert_eq!(commits.in_flight(), 3);
        assert_eq!(commits.complete(OperationId(2)), Some(Progress::default()));
        assert_eq!(commits.complete(OperationId(2)), None, "once");
        let progress = Progress { durable_offset: Some(Offset(20)), payload_bytes: 200 };
        assert_eq!(commits.complete(OperationId(1)), Some(progress));
        assert_eq!(commits.payload_bytes(), 101);
        let progress = Progress { durable_offset: Some(Offset(31)), payload_bytes: 101 };
        assert_eq!(commits.complete(OperationId(3)), Some(progress));
        assert_eq!(commits.in_flight(), 0);
    }

    #[test]
    fn a_cut_log_does_not_become_durable_past_its_end() {
        let mut commits = Commits::default();
        commits.push(operation(1), Offset(10), 1);
        commits.push(operation(2), Offset(20), 1);
        commits.clamp(Offset(12));
        let moved = |progress: Option<Progress>| progress.and_then(|moved| moved.durable_offset);
        assert_eq!(moved(commits.complete(OperationId(1))), Some(Offset(10)));
        assert_eq!(moved(commits.complete(OperationId(2))), Some(Offset(12)));
    }
}
