//! What happened in a run, for the report that the faults did happen.

use std::fmt;

/// Counts of one run, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events.
    pub events: u64,
    /// `acks=all` produces answered with success.
    pub acknowledged: u64,
    /// Leader epochs that began.
    pub elections: u64,
    /// Processes that ended without the clean mark.
    pub unclean_ends: u64,
    /// Batches lost by power failures.
    pub batches_lost: u64,
    /// Controller starts after the first.
    pub controller_restarts: u64,
    /// Answers to the unclean recovery manager's questions.
    pub logs_inspected: u64,
    /// Leader epochs that began with an unclean election, by log inspection or not.
    pub unclean_elections: u64,
    /// Partitions in which more was lost than the rules promise to survive.
    pub excused: u64,
}

impl Stats {
    /// Both together.
    pub fn plus(self, other: Stats) -> Stats {
        Stats {
            events: self.events + other.events,
            acknowledged: self.acknowledged + other.acknowledged,
            elections: self.elections + other.elections,
            unclean_ends: self.unclean_ends + other.unclean_ends,
            batches_lost: self.batches_lost + other.batches_lost,
            controller_restarts: self.controller_restarts + other.controller_restarts,
            logs_inspected: self.logs_inspected + other.logs_inspected,
            unclean_elections: self.unclean_elections + other.unclean_elections,
            excused: self.excused + other.excused,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events, {} batches acknowledged under acks=all, {} elections ({} unclean), {} \
             controller restarts, {} unclean ends of brokers, {} batches lost by them, {} answers \
             to log inspections, {} partitions with more lost than is promised to survive",
            self.events,
            self.acknowledged,
            self.elections,
            self.unclean_elections,
            self.controller_restarts,
            self.unclean_ends,
            self.batches_lost,
            self.logs_inspected,
            self.excused
        )
    }
}
