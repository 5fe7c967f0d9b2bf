//! Tiny versions of the experiments on the high watermark's gate, on real child processes: what
//! `isr-gate` and `heartbeat-partition` show at length must hold in every change. No absolute time.

use ackmark::measure::isr::{IsrChange, IsrEventKind, IsrOutcome};
use ackmark::results::isr::Isr;
use ackmark::results::schema::{Cell, RunResult};

use crate::faults::run_workload;

/// Two replicas, both needed: one that is away is under min ISR.
fn run(cluster: &str, rest: &str) -> RunResult {
    let ended = run_workload(&format!(
        "name = \"t\"\n[cluster]\nbrokers = 2\nreplication_factor = 2\nmin_isr = 2\n\
         segment_bytes = \"2MiB\"\nreplica_fetch_wait_max = \"50ms\"\n{cluster}\n\
         [load]\nwarmup = \"100ms\"\nrepeats = 1\n{rest}"
    ));
    let result = ended.result();
    let table = &ended.output;
    assert!(table.contains("ISR changes and stalls of the high watermark"), "{table}");
    result
}

fn cell<'a>(result: &'a RunResult, gate: &str) -> (&'a Cell, &'a Isr) {
    let cell = result.cells.iter().find(|cell| cell.factors.hwm_gate == gate);
    let cell = cell.expect("a cell of the matrix");
    let check = cell.repeats[0].check.as_ref().expect("every replica was read back");
    assert_eq!(check.violations, [""; 0], "{check:?}");
    (cell, cell.isr.as_ref().expect("the ISR changed"))
}

/// Of each committed return to min ISR: when it was committed and when the high watermark moved.
fn returns(isr: &Isr) -> Vec<(u64, u64)> {
    let instants = |kind: &IsrEventKind| match kind {
        IsrEventKind::Change {
            change: IsrChange::Expand,
            outcome: IsrOutcome::Committed,
            settled_ns,
            high_watermark_moved_ns,
            ..
        } => settled_ns.zip(*high_watermark_moved_ns),
        _ => None,
    };
    isr.events.iter().filter_map(|event| instants(&event.event.kind)).collect()
}

fn stalls_under_min_isr(isr: &Isr) -> u64 {
    let of = isr.stalls.iter().filter(|stalls| stalls.reason == "under_min_isr");
    of.map(|stalls| stalls.count).sum()
}

#[test]
fn the_gate_holds_the_high_watermark_until_the_controller_has_committed_the_return() {
    let result = run(
        "replica_lag_time_max = \"100ms\"\ncommit_delay = \"100ms\"\n",
        "duration = \"2500ms\"\n[matrix]\nacks = [1]\nrate = [\"500/s\"]\n\
         hwm_gate = [\"kip966\", \"legacy\"]\n\
         [[fault]]\nkind = \"cut\"\ntarget = \"follower -> leader\"\nat = \"200ms\"\n\
         every = \"1s\"\nfor = \"500ms\"\n",
    );
    let (_, isr) = cell(&result, "kip966");
    let waited = returns(isr);
    assert!(!waited.is_empty(), "{isr:#?}");
    assert!(waited.iter().all(|(committed, moved)| moved >= committed), "{isr:#?}");
    assert!(stalls_under_min_isr(isr) > 0, "{isr:#?}");
    let commits = isr.around_stalls.iter().find(|around| around.latency == "committed");
    let commits = commits.expect("records were committed");
    assert!(commits.met.max_ns > commits.outside.max_ns, "stalls are the longest waits");

    let (_, isr) = cell(&result, "legacy");
    let ran_on = returns(isr);
    assert!(ran_on.iter().any(|(committed, moved)| moved < committed), "{isr:#?}");
    assert_eq!(stalls_under_min_isr(isr), 0, "{isr:#?}");
}

#[test]
fn a_follower_whose_heartbeats_are_cut_is_fenced_though_it_replicates() {
    let result = run(
        "session_timeout = \"500ms\"\nheartbeat_interval = \"100ms\"\n",
        "duration = \"3500ms\"\n[matrix]\nacks = [1]\nrate = [\"500/s\"]\n\
         [[fault]]\nkind = \"cut-heartbeats\"\ntarget = \"follower -> active-controller\"\n\
         at = \"200ms\"\nfor = \"1800ms\"\n",
    );
    let (cell, isr) = cell(&result, "kip966");
    let [fault] = cell.repeats[0].events.as_slice() else { panic!("{:?}", cell.repeats[0].events) };
    assert!(fault.what.starts_with("heartbeats"), "{fault:?}");
    let has = |name: &str| isr.intervals.iter().any(|interval| interval.name == name);
    assert!(has("shrink_by_fencing") && has("under_min_isr"), "{isr:#?}");
    assert!(stalls_under_min_isr(isr) > 0, "{isr:#?}");
    assert!(isr.partitions.iter().all(|changes| changes.shrinks == 0), "{isr:#?}");
    assert!(!returns(isr).is_empty(), "it came back: {isr:#?}");
}
