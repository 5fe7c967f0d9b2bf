//! A steady rate.

use std::thread;
use std::time::Duration;

use crate::measure::clock;
use crate::types::MonotonicTime;

/// Wakes a thread at a steady rate. A tick missed while the thread was busy is dropped, not made up
/// for: a burst would measure a rate nobody asked for.
pub(super) struct Pace {
    next: MonotonicTime,
    interval: Duration,
}

impl Pace {
    /// `rate_per_second` is at least 1; the first tick is one interval from now.
    pub(super) fn new(rate_per_second: u32) -> Pace {
        let interval = Duration::from_secs(1) / rate_per_second;
        Pace { next: clock::now().plus(interval), interval }
    }

    /// Sleeps until the next tick; returns how long after it the thread woke.
    pub(super) fn wait(&mut self) -> Duration {
        let now = clock::now();
        self.next = self.next.max(now);
        thread::sleep(self.next.since(now));
        let overshoot = clock::now().since(self.next);
        self.next = self.next.plus(self.interval);
        overshoot
    }

    /// Ticks that fit into `duration`; at least one.
    pub(super) fn ticks_in(&self, duration: Duration) -> u64 {
        let ticks = duration.as_secs_f64() / self.interval.as_secs_f64();
        (ticks.round() as u64).max(1)
    }
}
