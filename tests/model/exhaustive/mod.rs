//! Every order of events within bounds, over the machines of `protocol`: three replicas, min ISR 2.
//! The properties are those of the simulation.
//!
//! Any message may wait as long as it likes, which is also what a cut link does to it. `make model`
//! searches wider bounds than a test run has time for.

mod cluster;
mod lives;
mod machines;
mod messages;
mod steps;

use std::collections::BTreeSet;
use std::time::Instant;

use super::report;
use ackmark::sim::invariants;
use ackmark::types::HwmGate;
use cluster::{Bounds, Cluster};
use stateright::{Checker, HasDiscoveries, Model, Property};
use steps::Step;

/// Names of states that a search must reach.
const ACKNOWLEDGED: &str = "a record is acknowledged";
const LEADERS: &str = "leadership changes";

/// The cluster within bounds.
struct Replication {
    bounds: Bounds,
    /// What the topic says of it.
    gate: Option<HwmGate>,
    /// The one property that is looked at.
    only: Option<&'static str>,
}

impl Model for Replication {
    type State = Cluster;
    type Action = Step;

    fn init_states(&self) -> Vec<Cluster> {
        let starts = [Cluster::start, Cluster::start_with_one_behind];
        let starts = starts.map(|start| start(self.bounds, self.gate).with_slow_brokers());
        starts.concat()
    }

    fn actions(&self, state: &Cluster, actions: &mut Vec<Step>) {
        state.steps(actions);
    }

    fn next_state(&self, last: &Cluster, step: Step) -> Option<Cluster> {
        Some(last.after(step, self.only))
    }

    fn properties(&self) -> Vec<Property<Replication>> {
        vec![
            Property::always("invariants", |_, state: &Cluster| state.violation.is_none()),
            Property::sometimes(ACKNOWLEDGED, |_, state: &Cluster| {
                state.history.acknowledged().next().is_some()
            }),
            Property::sometimes(LEADERS, |_, state: &Cluster| state.history.reigns().count() > 1),
        ]
    }
}

impl Replication {
    fn search(self) -> impl Checker<Replication> {
        let started = Instant::now();
        let bounds = self.bounds;
        let checker = self.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        report(&format!(
            "{bounds:?}: {} states, {} unique, depth {}, {:.1} s; {} properties",
            checker.state_count(),
            checker.unique_state_count(),
            checker.max_depth(),
            started.elapsed().as_secs_f64(),
            invariants::ALL.len(),
        ));
        checker
    }
}

/// One record, and no faults: what the others add to.
const ONE: Bounds = Bounds {
    produces: 1,
    crashes: 0,
    stops: 0,
    fences: 0,
    slow: 0,
    late_answers: 0,
    losses: 0,
    late_requests: 0,
    lags: 0,
    min_isrs: 0,
    levels: 0,
    reassignments: 0,
    several: false,
};

/// Searched on every test run.
const TESTED: [Bounds; 9] = [
    Bounds { crashes: 1, fences: 1, ..ONE },
    Bounds { produces: 2, crashes: 1, slow: 1, ..ONE },
    Bounds { crashes: 2, ..ONE },
    Bounds { stops: 1, ..ONE },
    Bounds { produces: 0, stops: 1, fences: 1, ..ONE },
    Bounds { fences: 1, slow: 1, ..ONE },
    Bounds { fences: 1, late_answers: 1, ..ONE },
    Bounds { fences: 1, losses: 1, ..ONE },
    Bounds { lags: 1, ..ONE },
];

/// The same, with settings that change.
const SETTINGS: [Bounds; 4] = [
    Bounds { lags: 1, min_isrs: 1, slow: 1, ..ONE },
    Bounds { fences: 1, min_isrs: 1, ..ONE },
    Bounds { fences: 1, levels: 1, ..ONE },
    Bounds { fences: 1, reassignments: 1, ..ONE },
];

/// Searched by `make model`.
const WIDE: [Bounds; 2] =
    [Bounds { crashes: 2, fences: 1, ..ONE }, Bounds { fences: 1, lags: 1, ..ONE }];

/// The same, with settings that change.
const WIDE_SETTINGS: [Bounds; 6] = [
    Bounds { lags: 1, levels: 2, slow: 1, ..ONE },
    Bounds { lags: 1, reassignments: 1, slow: 1, ..ONE },
    Bounds { fences: 1, min_isrs: 1, slow: 1, several: true, ..ONE },
    Bounds { crashes: 1, lags: 1, min_isrs: 1, slow: 1, ..ONE },
    Bounds { fences: 1, levels: 2, slow: 1, ..ONE },
    Bounds { fences: 1, reassignments: 1, slow: 1, ..ONE },
];

fn is_wide() -> bool {
    std::env::var_os("MODEL").is_some_and(|model| model == "wide")
}

#[test]
fn kip966_holds_in_every_order_of_events() {
    holds(if is_wide() { &WIDE } else { &TESTED });
}

#[test]
fn kip966_holds_in_every_order_of_events_and_changes_of_settings() {
    holds(if is_wide() { &WIDE_SETTINGS } else { &SETTINGS });
}

fn holds(searched: &[Bounds]) {
    let mut reached = BTreeSet::new();
    for &bounds in searched {
        let gate = (bounds.levels == 0).then_some(HwmGate::Kip966);
        let checker = Replication { bounds, gate, only: None }.search();
        if let Some(path) = checker.discovery("invariants") {
            let last = path.last_state().violation.clone();
            panic!("{last:?} after {:?}", path.into_actions());
        }
        reached.extend(checker.discoveries().into_keys());
    }
    // The search went where the properties have something to say.
    assert!(reached.contains(ACKNOWLEDGED) && reached.contains(LEADERS), "{reached:?}");
}

fn counterexample(bounds: Bounds, gate: HwmGate, only: &'static str) {
    let checker = Replication { bounds, gate: Some(gate), only: Some(only) }.search();
    let path = checker.discovery("invariants").expect("the search found no counterexample");
    let violation = path.last_state().violation.clone();
    report(&format!("{violation:?}\nafter {:?}", path.into_actions()));
}

/// Without strict min ISR an acknowledged record is lost.
#[test]
fn the_legacy_gate_yields_the_counterexample() {
    counterexample(Bounds { fences: 2, ..ONE }, HwmGate::Legacy, "acknowledged_survives");
}

/// Why a controller must stop reading a connection that its broker has replaced.
#[test]
fn a_late_alter_partition_shrinks_what_the_leader_waits_for() {
    let bounds = Bounds { produces: 0, fences: 1, slow: 1, late_requests: 1, ..ONE };
    counterexample(bounds, HwmGate::Kip966, "maximal_isr_covers_eligible");
}
