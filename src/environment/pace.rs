//! A steady rate.

use std::thread;
use std::time::{Duration, Instant};

/// Wakes a thread at a steady rate. A tick missed while the thread was busy is dropped, not made up
/// for: a burst would measure a rate nobody asked for.
pub(super) struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    /// `rate_per_second` is at least 1; the first tick is one interval from now.
    pub(super) fn new(rate_per_second: u32) -> Pace {
        let interval = Duration::from_secs(1) / rate_per_second;
        Pace { next: Instant::now() + interval, interval }
    }

    /// Sleeps until the next tick; returns how long after it the thread woke.
    pub(super) fn wait(&mut self) -> Duration {
        let now = Instant::now();
        self.next = self.next.max(now);
        thread::sleep(self.next - now);
        let overshoot = self.next.elapsed();
        self.next += self.interval;
        overshoot
    }

    /// Ticks that fit into `duration`; at least one.
    pub(super) fn ticks_in(&self, duration: Duration) -> u64 {
        let ticks = duration.as_secs_f64() / self.interval.as_secs_f64();
        (ticks.round() as u64).max(1)
    }
}
