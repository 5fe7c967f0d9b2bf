//! What fails when: draws the next fault by the weights of the run. Carrying it out is the world's.

use std::time::Duration;

use super::options::FaultOptions;
use super::random::Random;

/// Kinds of faults and of things operators do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process ends and its broker loses what was not flushed.
    PowerFailure,
    /// A process ends; the operating system keeps what it wrote.
    Kill,
    /// A process is asked to stop.
    CleanStop,
    /// A broker and the controller do not hear each other.
    CutFromController,
    /// A broker and all other brokers do not hear each other.
    CutFromBrokers,
    /// What one broker sends another does not arrive.
    CutOneWay,
    /// The controller starts anew; what was not committed is gone.
    ControllerRestart,
    /// The operator asks for preferred leaders.
    PreferredElection,
    /// The operator has leaderless partitions recovered by their logs, all of those that may hold
    /// acknowledged records.
    LongestLogElection,
    /// The operator changes min ISR.
    MinIsrChange,
    /// The operator changes the feature level.
    LevelChange,
    /// The operator gives the partitions other replicas.
    Reassignment,
}

/// Draws faults.
#[derive(Debug)]
pub struct Faults {
    options: FaultOptions,
    weighted: Vec<Fault>,
}

impl Faults {
    /// Faults at these rates.
    pub fn new(options: FaultOptions) -> Faults {
        let weights = [
            (Fault::PowerFailure, options.power_failure),
            (Fault::Kill, options.kill),
            (Fault::CleanStop, options.clean_stop),
            (Fault::CutFromController, options.cut),
            (Fault::CutFromBrokers, options.cut),
            (Fault::CutOneWay, options.cut),
            (Fault::ControllerRestart, options.controller_restart),
            (Fault::PreferredElection, options.preferred_election),
            (Fault::LongestLogElection, options.longest_log_election),
            (Fault::MinIsrChange, options.min_isr_change),
            (Fault::LevelChange, options.level_change),
            (Fault::Reassignment, options.reassignment),
        ];
        let repeated = weights.into_iter().flat_map(|(fault, weight)| vec![fault; weight]);
        Faults { options, weighted: repeated.collect() }
    }

    /// Pause until the next fault.
    pub fn pause(&self, random: &mut Random) -> Duration {
        random.between(Duration::from_millis(20), self.options.pause_max)
    }

    /// How long an outage lasts.
    pub fn outage(&self, random: &mut Random) -> Duration {
        random.between(Duration::from_millis(5), self.options.outage_max)
    }

    /// The next fault; none in a run without faults.
    pub fn next(&self, random: &mut Random) -> Option<Fault> {
        if self.weighted.is_empty() { None } else { Some(random.pick(&self.weighted)) }
    }

    /// Whether one more broker may end uncleanly while `unclean_count` have not recovered from it.
    pub fn allows_unclean(&self, unclean_count: usize) -> bool {
        unclean_count < self.options.unclean_limit
    }
}
