//! Points on the one monotonic clock.

use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`. Comparable across processes of one host and boot, never
/// across hosts. Only `measure::clock` makes one from the real clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(pub u64);

impl MonotonicTime {
    /// The clock's origin: earlier than anything that happened.
    pub const ZERO: MonotonicTime = MonotonicTime(0);

    /// This time plus `duration`, saturating.
    pub fn plus(self, duration: Duration) -> MonotonicTime {
        MonotonicTime(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: MonotonicTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
