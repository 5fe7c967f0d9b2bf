//! Completions held back while syncs are to take longer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::engine::OperationId;
use crate::storage::DiskFaults;
use crate::types::MonotonicTime;

/// A completion on its way to its log.
pub(super) struct Completion {
    pub(super) operation: OperationId,
    pub(super) result: io::Result<()>,
    pub(super) completed: MonotonicTime,
}

/// A shard's completions, later than they came.
pub(super) struct SlowDisk {
    faults: Arc<DiskFaults>,
    held: VecDeque<Completion>,
}

impl SlowDisk {
    pub(super) fn new(faults: Arc<DiskFaults>) -> SlowDisk {
        SlowDisk { faults, held: VecDeque::new() }
    }

    /// Takes a completion; gives it back if it is not to be late. None overtakes another.
    pub(super) fn hold(&mut self, completion: Completion) -> Option<Completion> {
        match self.faults.sync_delay() {
            None if self.held.is_empty() => Some(completion),
            delay => {
                let at = completion.completed.plus(delay.unwrap_or_default());
                let at = self.held.back().map_or(at, |last| at.max(last.completed));
                self.held.push_back(Completion { completed: at, ..completion });
                None
            }
        }
    }

    /// When the next one is due.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.held.front().map(|completion| completion.completed)
    }

    /// The next one, if it is due.
    pub(super) fn due(&mut self, now: MonotonicTime) -> Option<Completion> {
        let is_due = self.held.front().is_some_and(|completion| completion.completed <= now);
        is_due.then(|| self.held.pop_front()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn completion(number: u64, at: u64) -> Completion {
        let operation = OperationId(number);
        Completion { operation, result: Ok(()), completed: MonotonicTime(at) }
    }

    fn due(slow: &mut SlowDisk, now: u64) -> Option<(u64, u64)> {
        let completion = slow.due(MonotonicTime(now))?;
        Some((completion.operation.0, completion.completed.0))
    }

    #[test]
    fn completions_are_late_by_the_delay_and_keep_their_order() {
        let faults = Arc::new(DiskFaults::default());
        let mut slow = SlowDisk::new(faults.clone());
        assert!(slow.hold(completion(1, 10)).is_some(), "nothing is slow");
        faults.slow_down(Duration::from_micros(5));
        assert!(slow.hold(completion(2, 10)).is_none());
        faults.slow_down(Duration::ZERO);
        assert!(slow.hold(completion(3, 11)).is_none(), "behind a late one");
        assert_eq!(slow.deadline(), Some(MonotonicTime(5_010)));
        assert_eq!(due(&mut slow, 5_009), None);
        assert_eq!(due(&mut slow, 5_010), Some((2, 5_010)));
        assert_eq!(due(&mut slow, 5_010), Some((3, 5_010)));
        assert_eq!(due(&mut slow, 9_999), None);
        assert!(slow.hold(completion(4, 20)).is_some());
    }
}
